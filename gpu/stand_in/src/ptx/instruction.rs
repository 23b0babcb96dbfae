//! The instruction set that is understood, and what an entry is made of.

use std::collections::HashMap;
use std::sync::Arc;

/// Which of a warp's registers. Numbers written in the text have registers of their own, set when a warp begins.
pub type Register = u16;
/// Which of a warp's predicates.
pub type Predicate = u16;

/// The predicate that is always false.
pub const NEVER: Predicate = 0;
/// The predicate that is always true.
pub const ALWAYS: Predicate = 1;

/// A type as in an opcode's suffix. Untyped bits count as unsigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Type {
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
    F16,
    Bf16,
    F32,
    F64,
}

impl Type {
    /// Its size.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::U8 | Self::S8 => 1,
            Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::S32 | Self::F32 => 4,
            Self::U64 | Self::S64 | Self::F64 => 8,
        }
    }

    /// Whether it is a signed whole number.
    #[must_use]
    pub fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    /// Whether it is a float.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }
}

/// Operations of one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Unary {
    Move,
    Not,
    Negate,
    Absolute,
    CountOnes,
    LeadingZeros,
    ReverseBits,
    /// `bfind`: the highest bit, or all ones.
    HighestBit,
    Reciprocal,
    SquareRoot,
    ReciprocalSquareRoot,
    Sine,
    Cosine,
    Log2,
    Exp2,
    Tanh,
}

/// Operations of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Subtract,
    MultiplyLow,
    MultiplyHigh,
    MultiplyWide,
    Divide,
    Remainder,
    Minimum,
    Maximum,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    CopySign,
}

/// Operations of three operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Ternary {
    MultiplyAddLow,
    MultiplyAddHigh,
    MultiplyAddWide,
    Fma,
    BitFieldExtract,
    Permute,
    FunnelLeft { is_clamped: bool },
    FunnelRight { is_clamped: bool },
    Lop3(u8),
}

/// How a float result is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Rounding {
    Nearest,
    Zero,
    Down,
    Up,
}

/// Comparisons; those ending in `u` hold for NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

/// And, or, exclusive or.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Logic {
    And,
    Or,
    Xor,
}

/// Where an address points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Space {
    Param,
    Global,
    Shared,
    Local,
    Constant,
    Generic,
}

/// What an atomic does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Atomic {
    Add,
    Minimum,
    Maximum,
    And,
    Or,
    Xor,
    Exchange,
    CompareAndSwap,
    Increment,
    Decrement,
}

/// How a shuffle finds its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

/// What a vote tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vote {
    /// A bit a lane.
    Ballot,
    /// All of them.
    All,
    /// One or more.
    Any,
    /// All or none.
    Uniform,
}

/// What a barrier gathers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gather {
    /// How many.
    Count,
    /// All of them.
    All,
    /// One or more.
    Any,
}

/// What an instruction does.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Op {
    Unary {
        op: Unary,
        ty: Type,
        ftz: bool,
        d: Register,
        a: Register,
    },
    Binary {
        op: Binary,
        ty: Type,
        rounding: Rounding,
        ftz: bool,
        saturate: bool,
        d: Register,
        a: Register,
        b: Register,
    },
    Ternary {
        op: Ternary,
        ty: Type,
        rounding: Rounding,
        ftz: bool,
        saturate: bool,
        d: Register,
        a: Register,
        b: Register,
        c: Register,
    },
    /// `bfi`: `a`'s low bits into `b` at `at`.
    BitFieldInsert {
        ty: Type,
        d: Register,
        a: Register,
        b: Register,
        at: Register,
        len: Register,
    },
    Convert {
        to: Type,
        from: Type,
        rounding: Rounding,
        to_whole: bool,
        ftz: bool,
        saturate: bool,
        relu: bool,
        d: Register,
        a: Register,
    },
    /// Two f32 to a pair of bf16 or f16; `a` is the upper.
    ConvertPair {
        to: Type,
        d: Register,
        a: Register,
        b: Register,
    },
    Compare {
        comparison: Comparison,
        ty: Type,
        ftz: bool,
        d: Predicate,
        other: Option<Predicate>,
        a: Register,
        b: Register,
        with: Option<(Logic, Predicate, bool)>,
    },
    /// `set`: all ones or 1.0.
    CompareTo {
        comparison: Comparison,
        ty: Type,
        is_float: bool,
        d: Register,
        a: Register,
        b: Register,
    },
    Select {
        d: Register,
        a: Register,
        b: Register,
        p: Predicate,
    },
    PredicateMove {
        d: Predicate,
        a: Predicate,
        negate: bool,
    },
    PredicateLogic {
        logic: Logic,
        d: Predicate,
        a: Predicate,
        b: Predicate,
    },
    /// Parts of `bits` each into one register.
    Pack {
        d: Register,
        parts: Vec<Register>,
        bits: u32,
    },
    Unpack {
        parts: Vec<Option<Register>>,
        a: Register,
        bits: u32,
    },
    /// Between a generic address and one of a space.
    Convey {
        space: Space,
        to_generic: bool,
        d: Register,
        a: Register,
    },
    Load {
        space: Space,
        ty: Type,
        d: Vec<Option<Register>>,
        base: Register,
        offset: i64,
    },
    Store {
        space: Space,
        ty: Type,
        a: Vec<Register>,
        base: Register,
        offset: i64,
    },
    Atomic {
        space: Space,
        op: Atomic,
        ty: Type,
        d: Option<Register>,
        base: Register,
        offset: i64,
        a: Register,
        b: Register,
    },
    Shuffle {
        mode: Shuffle,
        d: Register,
        p: Option<Predicate>,
        a: Register,
        b: Register,
        clamp: Register,
        members: Register,
    },
    Vote {
        vote: Vote,
        d: Register,
        p: Predicate,
        a: Predicate,
        negate: bool,
        members: Register,
    },
    /// `redux.sync`.
    Reduce {
        op: Binary,
        ty: Type,
        d: Register,
        a: Register,
        members: Register,
    },
    /// `match.any.sync`, `match.all.sync`.
    Match {
        all: bool,
        ty: Type,
        d: Register,
        p: Option<Predicate>,
        a: Register,
        members: Register,
    },
    WarpBarrier {
        members: Register,
    },
    ActiveMask {
        d: Register,
    },
    /// `bar.sync`; with `gather` its lanes' predicate into a register or a predicate.
    Barrier {
        id: Register,
        gather: Option<(Gather, Register, Predicate, Predicate, bool)>,
    },
    Fence,
    Branch {
        target: u32,
    },
    Exit,
    Trap,
}

/// An instruction with its guard.
#[derive(Debug, Clone, PartialEq)]
pub struct Instruction {
    /// What it does.
    pub op: Op,
    /// In which lanes.
    pub guard: Predicate,
    /// In which the guard is false instead.
    pub negated: bool,
    /// Its line of the text.
    pub line: u32,
}

/// A register's value when a warp begins.
#[derive(Debug, Clone, PartialEq)]
pub enum Preset {
    /// A number of the text.
    Number(u64),
    /// The address of a module's variable.
    Symbol(String),
    /// One that differs per lane or block.
    Special(Special),
}

/// Special registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Special {
    ThreadX,
    ThreadY,
    ThreadZ,
    ThreadsX,
    ThreadsY,
    ThreadsZ,
    BlockX,
    BlockY,
    BlockZ,
    BlocksX,
    BlocksY,
    BlocksZ,
    Lane,
    Warp,
    WarpSize,
    LaneMaskEq,
    LaneMaskLt,
    LaneMaskLe,
    LaneMaskGt,
    LaneMaskGe,
    /// Clocks and the like: 0.
    Zero,
    DynamicShared,
}

/// A parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its offset in the parameter block.
    pub offset: u32,
    /// Its size.
    pub bytes: u32,
    /// The entry uses it as an address of global memory.
    pub is_pointer: bool,
}

/// A kernel.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// What it takes.
    pub parameters: Vec<Parameter>,
    /// Bytes of the parameter block.
    pub parameter_bytes: u32,
    /// Its instructions.
    pub code: Vec<Instruction>,
    /// How many registers a lane has.
    pub registers: u16,
    /// How many predicates.
    pub predicates: u16,
    /// Registers that are set when a warp begins.
    pub presets: Vec<(Register, Preset)>,
    /// Bytes of shared memory that it declares.
    pub shared_bytes: u32,
    /// Bytes of local memory a lane.
    pub local_bytes: u32,
    /// `.maxntid`, `.reqntid`: the most threads of a block.
    pub max_threads: Option<u32>,
}

/// A variable of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its content.
    pub content: Vec<u8>,
    /// Whether it is `.const`.
    pub is_constant: bool,
}

/// A module.
#[derive(Debug, Clone, Default)]
pub struct Module {
    /// Its kernels by name.
    pub entries: HashMap<String, Arc<Entry>>,
    /// Its variables by name.
    pub variables: HashMap<String, Variable>,
    /// Its text.
    pub lines: Vec<String>,
}
