//! One opcode with its operands to a typed instruction; what is not understood is refused.

use super::PtxError;
use super::instruction::{
    ALWAYS, Atomic, Binary, Comparison, Gather, Logic, NEVER, Op, Predicate, Register, Rounding, Shuffle, Space,
    Special, Ternary, Type, Unary, Vote,
};
use super::parser::{Scope, constant_predicate};

/// An operand as written, names resolved.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operand {
    Register(Register),
    Predicate(Predicate, bool),
    Number(u64),
    Float32(u32),
    Float64(u64),
    Address {
        base: Register,
        offset: i64,
        space: Option<Space>,
    },
    Vector(Vec<Operand>),
    Name(String),
    /// `_`
    Sink,
    /// `|`
    Bar,
}

/// The type of a suffix.
pub(crate) fn type_of(suffix: &str) -> Option<Type> {
    Some(match suffix {
        "u8" | "b8" => Type::U8,
        "s8" => Type::S8,
        "u16" | "b16" => Type::U16,
        "s16" => Type::S16,
        "u32" | "b32" => Type::U32,
        "s32" => Type::S32,
        "u64" | "b64" => Type::U64,
        "s64" => Type::S64,
        "f16" => Type::F16,
        "bf16" => Type::Bf16,
        "f32" => Type::F32,
        "f64" => Type::F64,
        _ => return None,
    })
}

/// A special register by name.
pub(crate) fn special_of(name: &str) -> Option<Special> {
    Some(match name {
        "%tid.x" => Special::ThreadX,
        "%tid.y" => Special::ThreadY,
        "%tid.z" => Special::ThreadZ,
        "%ntid.x" => Special::ThreadsX,
        "%ntid.y" => Special::ThreadsY,
        "%ntid.z" => Special::ThreadsZ,
        "%ctaid.x" => Special::BlockX,
        "%ctaid.y" => Special::BlockY,
        "%ctaid.z" => Special::BlockZ,
        "%nctaid.x" => Special::BlocksX,
        "%nctaid.y" => Special::BlocksY,
        "%nctaid.z" => Special::BlocksZ,
        "%laneid" => Special::Lane,
        "%warpid" => Special::Warp,
        "WARP_SZ" => Special::WarpSize,
        "%lanemask_eq" => Special::LaneMaskEq,
        "%lanemask_lt" => Special::LaneMaskLt,
        "%lanemask_le" => Special::LaneMaskLe,
        "%lanemask_gt" => Special::LaneMaskGt,
        "%lanemask_ge" => Special::LaneMaskGe,
        "%dynamic_smem_size" => Special::DynamicShared,
        "%clock" | "%clock64" | "%globaltimer" | "%smid" => Special::Zero,
        _ => return None,
    })
}

struct Decoder<'a> {
    opcode: &'a str,
    operands: &'a [Operand],
    scope: &'a mut Scope,
    line: u32,
}

/// The suffixes of an opcode that change how it computes.
#[derive(Clone, Copy)]
struct Modifiers {
    ty: Type,
    rounding: Rounding,
    ftz: bool,
    saturate: bool,
}

/// Decodes an instruction.
pub(crate) fn decode(opcode: &str, operands: &[Operand], scope: &mut Scope, line: u32) -> Result<Op, PtxError> {
    Decoder { opcode, operands, scope, line }.decode()
}

impl Decoder<'_> {
    fn refuse<T>(&self, why: &str) -> Result<T, PtxError> {
        Err(PtxError::new(self.line, format!("{}: {why}", self.opcode)))
    }

    fn unknown<T>(&self) -> Result<T, PtxError> {
        self.refuse("an instruction that is not understood")
    }

    fn count(&self, count: usize) -> Result<(), PtxError> {
        if self.operands.len() == count {
            Ok(())
        } else {
            self.refuse(&format!("{count} operands expected, found {}", self.operands.len()))
        }
    }

    fn result(&mut self, at: usize) -> Result<Register, PtxError> {
        match self.operands.get(at) {
            Some(Operand::Register(r)) => Ok(*r),
            Some(Operand::Sink) => self.scope.fresh(self.line),
            _ => self.refuse("a register expected"),
        }
    }

    fn value(&mut self, at: usize) -> Result<Register, PtxError> {
        let Some(operand) = self.operands.get(at) else { return self.refuse("an operand is missing") };
        let operand = operand.clone();
        self.value_of(&operand, Type::U64)
    }

    /// An operand cut to a type's bits.
    fn typed(&mut self, at: usize, ty: Type) -> Result<Register, PtxError> {
        let Some(operand) = self.operands.get(at) else { return self.refuse("an operand is missing") };
        let operand = operand.clone();
        self.value_of(&operand, ty)
    }

    fn value_of(&mut self, operand: &Operand, ty: Type) -> Result<Register, PtxError> {
        let mask = if ty.bytes() == 8 { !0 } else { (1 << (8 * ty.bytes())) - 1 };
        match *operand {
            Operand::Register(r) => Ok(r),
            Operand::Number(n) => self.scope.number(n & mask, self.line),
            Operand::Float32(bits) if ty == Type::F64 => {
                self.scope.number(f64::from(f32::from_bits(bits)).to_bits(), self.line)
            }
            Operand::Float32(bits) => self.scope.number(bits.into(), self.line),
            Operand::Float64(bits) => self.scope.number(bits, self.line),
            _ => self.refuse("a register or a number expected"),
        }
    }

    fn predicate(&self, at: usize) -> Result<(Predicate, bool), PtxError> {
        match self.operands.get(at) {
            Some(Operand::Predicate(p, negate)) => Ok((*p, *negate)),
            Some(Operand::Number(n)) => Ok((constant_predicate(*n), false)),
            _ => self.refuse("a predicate expected"),
        }
    }

    fn result_predicate(&self, at: usize) -> Result<Predicate, PtxError> {
        match self.predicate(at)? {
            (p, false) if p != NEVER && p != ALWAYS => Ok(p),
            _ => self.refuse("a predicate to write expected"),
        }
    }

    fn address(&self, at: usize) -> Result<(Register, i64, Option<Space>), PtxError> {
        match self.operands.get(at) {
            Some(Operand::Address { base, offset, space }) => Ok((*base, *offset, *space)),
            _ => self.refuse("an address expected"),
        }
    }

    fn modifiers(&self, suffixes: &[&str]) -> Result<Modifiers, PtxError> {
        let mut m = Modifiers { ty: Type::U32, rounding: Rounding::Nearest, ftz: false, saturate: false };
        let mut has_type = false;
        for &suffix in suffixes {
            match suffix {
                "rn" | "approx" | "full" => {}
                "rz" => m.rounding = Rounding::Zero,
                "rm" => m.rounding = Rounding::Down,
                "rp" => m.rounding = Rounding::Up,
                "ftz" => m.ftz = true,
                "sat" => m.saturate = true,
                _ => match type_of(suffix) {
                    Some(ty) if !has_type => {
                        m.ty = ty;
                        has_type = true;
                    }
                    _ => return self.unknown(),
                },
            }
        }
        if !has_type || (matches!(m.ty, Type::F64) && m.rounding != Rounding::Nearest) {
            return self.unknown();
        }
        if m.saturate && !matches!(m.ty, Type::F32 | Type::S32) {
            return self.unknown();
        }
        Ok(m)
    }

    fn unary(&mut self, op: Unary, suffixes: &[&str]) -> Result<Op, PtxError> {
        self.count(2)?;
        let m = self.modifiers(suffixes)?;
        let is_known = match op {
            Unary::Not => !m.ty.is_float(),
            Unary::CountOnes | Unary::LeadingZeros | Unary::ReverseBits | Unary::HighestBit => {
                !m.ty.is_float() && m.ty.bytes() >= 4
            }
            Unary::Move | Unary::Negate | Unary::Absolute => true,
            Unary::Sine | Unary::Cosine | Unary::Log2 | Unary::Exp2 | Unary::Tanh => m.ty == Type::F32,
            _ => matches!(m.ty, Type::F32 | Type::F64),
        };
        if !is_known || m.rounding != Rounding::Nearest || m.saturate {
            return self.unknown();
        }
        Ok(Op::Unary { op, ty: m.ty, ftz: m.ftz, d: self.result(0)?, a: self.typed(1, m.ty)? })
    }

    fn binary(&mut self, op: Binary, suffixes: &[&str]) -> Result<Op, PtxError> {
        self.count(3)?;
        let m = self.modifiers(suffixes)?;
        let is_shift = matches!(op, Binary::ShiftLeft | Binary::ShiftRight);
        let is_known = match op {
            Binary::And | Binary::Or | Binary::Xor | Binary::ShiftLeft | Binary::ShiftRight => !m.ty.is_float(),
            Binary::MultiplyHigh | Binary::Remainder => !m.ty.is_float() && m.ty.bytes() >= 2,
            Binary::MultiplyWide => !m.ty.is_float() && matches!(m.ty.bytes(), 2 | 4),
            Binary::CopySign => matches!(m.ty, Type::F32 | Type::F64),
            _ => m.ty.bytes() >= 2,
        };
        if !is_known || (m.rounding != Rounding::Nearest && m.ty != Type::F32) {
            return self.unknown();
        }
        if matches!(op, Binary::Divide) && m.rounding != Rounding::Nearest {
            return self.unknown();
        }
        let b = self.typed(2, if is_shift { Type::U32 } else { m.ty })?;
        let Modifiers { ty, rounding, ftz, saturate } = m;
        Ok(Op::Binary { op, ty, rounding, ftz, saturate, d: self.result(0)?, a: self.typed(1, ty)?, b })
    }

    fn ternary(&mut self, op: Ternary, suffixes: &[&str]) -> Result<Op, PtxError> {
        self.count(4)?;
        let m = self.modifiers(suffixes)?;
        let is_known = match op {
            Ternary::Fma => m.ty.is_float() && (m.rounding == Rounding::Nearest || m.ty == Type::F32),
            Ternary::MultiplyAddLow => m.ty.bytes() >= 2,
            Ternary::MultiplyAddHigh => matches!(m.ty, Type::U32 | Type::S32),
            Ternary::MultiplyAddWide => matches!(m.ty, Type::U32 | Type::S32 | Type::U16 | Type::S16),
            Ternary::BitFieldExtract => !m.ty.is_float() && m.ty.bytes() >= 4,
            Ternary::Permute | Ternary::FunnelLeft { .. } | Ternary::FunnelRight { .. } | Ternary::Lop3(_) => {
                m.ty == Type::U32
            }
        };
        if !is_known {
            return self.unknown();
        }
        let third = match op {
            Ternary::MultiplyAddWide if m.ty.is_signed() => Type::S64,
            Ternary::MultiplyAddWide => Type::U64,
            Ternary::BitFieldExtract => Type::U32,
            _ => m.ty,
        };
        let second = if op == Ternary::BitFieldExtract { Type::U32 } else { m.ty };
        let (d, a, b) = (self.result(0)?, self.typed(1, m.ty)?, self.typed(2, second)?);
        let c = self.typed(3, third)?;
        let Modifiers { ty, rounding, ftz, saturate } = m;
        Ok(Op::Ternary { op, ty, rounding, ftz, saturate, d, a, b, c })
    }

    fn logic(&mut self, logic: Logic, op: Binary, suffixes: &[&str]) -> Result<Op, PtxError> {
        if suffixes != ["pred"] {
            return self.binary(op, suffixes);
        }
        self.count(3)?;
        let ((a, na), (b, nb)) = (self.predicate(1)?, self.predicate(2)?);
        if na || nb {
            return self.unknown();
        }
        Ok(Op::PredicateLogic { logic, d: self.result_predicate(0)?, a, b })
    }

    fn decode(&mut self) -> Result<Op, PtxError> {
        let mut parts = self.opcode.split('.');
        let name = parts.next().unwrap_or_default();
        let suffixes: Vec<&str> = parts.collect();
        let rest = &suffixes[..];
        match name {
            "mov" => self.move_(rest),
            "not" if rest == ["pred"] => {
                self.count(2)?;
                let (a, negate) = self.predicate(1)?;
                Ok(Op::PredicateMove { d: self.result_predicate(0)?, a, negate: !negate })
            }
            "not" => self.unary(Unary::Not, rest),
            "neg" => self.unary(Unary::Negate, rest),
            "abs" => self.unary(Unary::Absolute, rest),
            "popc" => self.unary(Unary::CountOnes, rest),
            "clz" => self.unary(Unary::LeadingZeros, rest),
            "brev" => self.unary(Unary::ReverseBits, rest),
            "bfind" if !rest.contains(&"shiftamt") => self.unary(Unary::HighestBit, rest),
            "rcp" => self.unary(Unary::Reciprocal, rest),
            "sqrt" => self.unary(Unary::SquareRoot, rest),
            "rsqrt" => self.unary(Unary::ReciprocalSquareRoot, rest),
            "sin" => self.unary(Unary::Sine, rest),
            "cos" => self.unary(Unary::Cosine, rest),
            "lg2" => self.unary(Unary::Log2, rest),
            "ex2" => self.unary(Unary::Exp2, rest),
            "tanh" => self.unary(Unary::Tanh, rest),
            "add" => self.binary(Binary::Add, rest),
            "sub" => self.binary(Binary::Subtract, rest),
            "mul" => match rest {
                ["lo", rest @ ..] => self.binary(Binary::MultiplyLow, rest),
                ["hi", rest @ ..] => self.binary(Binary::MultiplyHigh, rest),
                ["wide", rest @ ..] => self.binary(Binary::MultiplyWide, rest),
                _ => self.binary(Binary::MultiplyLow, rest),
            },
            "div" => self.binary(Binary::Divide, rest),
            "rem" => self.binary(Binary::Remainder, rest),
            "min" => self.binary(Binary::Minimum, rest),
            "max" => self.binary(Binary::Maximum, rest),
            "and" => self.logic(Logic::And, Binary::And, rest),
            "or" => self.logic(Logic::Or, Binary::Or, rest),
            "xor" => self.logic(Logic::Xor, Binary::Xor, rest),
            "shl" => self.binary(Binary::ShiftLeft, rest),
            "shr" => self.binary(Binary::ShiftRight, rest),
            "copysign" => self.copy_sign(rest),
            "mad" => match rest {
                ["lo", rest @ ..] => self.ternary(Ternary::MultiplyAddLow, rest),
                ["hi", rest @ ..] => self.ternary(Ternary::MultiplyAddHigh, rest),
                ["wide", rest @ ..] => self.ternary(Ternary::MultiplyAddWide, rest),
                _ => self.ternary(Ternary::Fma, rest),
            },
            "fma" => self.ternary(Ternary::Fma, rest),
            "bfe" => self.ternary(Ternary::BitFieldExtract, rest),
            "prmt" => self.ternary(Ternary::Permute, rest),
            "shf" => self.funnel(rest),
            "lop3" => self.lop3(rest),
            "bfi" => self.bit_field_insert(rest),
            "cvt" => self.convert(rest),
            "cvta" => self.convey(rest),
            "setp" => self.compare(rest),
            "set" => self.compare_to(rest),
            "selp" => self.select(rest),
            "ld" | "ldu" => self.load(rest),
            "st" => self.store(rest),
            "atom" | "red" => self.atomic(name == "red", rest),
            "shfl" => self.shuffle(rest),
            "vote" => self.vote(rest),
            "redux" => self.redux(rest),
            "match" => self.match_(rest),
            "activemask" => {
                self.count(1)?;
                Ok(Op::ActiveMask { d: self.result(0)? })
            }
            "bar" | "barrier" => self.barrier(rest),
            "membar" | "fence" | "nanosleep" => Ok(Op::Fence),
            "ret" | "exit" => {
                self.count(0)?;
                Ok(Op::Exit)
            }
            "trap" => Ok(Op::Trap),
            _ => self.unknown(),
        }
    }

    fn move_(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        self.count(2)?;
        let [suffix] = rest else { return self.unknown() };
        if *suffix == "pred" {
            let (a, negate) = self.predicate(1)?;
            return Ok(Op::PredicateMove { d: self.result_predicate(0)?, a, negate });
        }
        let Some(ty) = type_of(suffix) else { return self.unknown() };
        match self.operands {
            [Operand::Vector(to), Operand::Register(a)] => {
                let mut parts = Vec::new();
                for part in to {
                    parts.push(match part {
                        Operand::Register(r) => Some(*r),
                        Operand::Sink => None,
                        _ => return self.refuse("registers expected"),
                    });
                }
                let bits = 8 * ty.bytes() / u32::try_from(parts.len().max(1)).unwrap_or(1);
                Ok(Op::Unpack { parts, a: *a, bits })
            }
            [_, Operand::Vector(from)] => {
                let bits = 8 * ty.bytes() / u32::try_from(from.len().max(1)).unwrap_or(1);
                let mut parts = Vec::new();
                for part in from.clone() {
                    parts.push(self.value_of(&part, if bits == 32 { Type::U32 } else { Type::U16 })?);
                }
                Ok(Op::Pack { d: self.result(0)?, parts, bits })
            }
            _ => Ok(Op::Unary { op: Unary::Move, ty, ftz: false, d: self.result(0)?, a: self.typed(1, ty)? }),
        }
    }

    fn copy_sign(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        // `copysign d, a, b`: the sign of `a` on `b`.
        self.binary(Binary::CopySign, rest)
    }

    fn funnel(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        match rest {
            ["l", mode @ ("wrap" | "clamp"), "b32"] => {
                self.ternary(Ternary::FunnelLeft { is_clamped: *mode == "clamp" }, &["b32"])
            }
            ["r", mode @ ("wrap" | "clamp"), "b32"] => {
                self.ternary(Ternary::FunnelRight { is_clamped: *mode == "clamp" }, &["b32"])
            }
            _ => self.unknown(),
        }
    }

    fn lop3(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        self.count(5)?;
        let (["b32"], Some(Operand::Number(table))) = (rest, self.operands.get(4)) else { return self.unknown() };
        let Ok(table) = u8::try_from(*table) else { return self.unknown() };
        let (d, a, b, c) =
            (self.result(0)?, self.typed(1, Type::U32)?, self.typed(2, Type::U32)?, self.typed(3, Type::U32)?);
        let (op, ty, rounding) = (Ternary::Lop3(table), Type::U32, Rounding::Nearest);
        Ok(Op::Ternary { op, ty, rounding, ftz: false, saturate: false, d, a, b, c })
    }

    fn bit_field_insert(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        self.count(5)?;
        let ty = self.modifiers(rest)?.ty;
        if ty != Type::U32 && ty != Type::U64 {
            return self.unknown();
        }
        let (a, b) = (self.typed(1, ty)?, self.typed(2, ty)?);
        let (at, len) = (self.typed(3, Type::U32)?, self.typed(4, Type::U32)?);
        Ok(Op::BitFieldInsert { ty, d: self.result(0)?, a, b, at, len })
    }

    fn convert(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        let (mut rounding, mut to_whole, mut ftz, mut saturate, mut relu) =
            (Rounding::Nearest, false, false, false, false);
        let mut types = Vec::new();
        let mut pair = None;
        for &suffix in rest {
            match suffix {
                "rn" => {}
                "rz" => rounding = Rounding::Zero,
                "rm" => rounding = Rounding::Down,
                "rp" => rounding = Rounding::Up,
                "rni" | "rzi" | "rmi" | "rpi" => {
                    to_whole = true;
                    rounding = match suffix {
                        "rni" => Rounding::Nearest,
                        "rzi" => Rounding::Zero,
                        "rmi" => Rounding::Down,
                        _ => Rounding::Up,
                    };
                }
                "ftz" => ftz = true,
                "sat" => saturate = true,
                "relu" => relu = true,
                "bf16x2" if types.is_empty() => pair = Some(Type::Bf16),
                "f16x2" if types.is_empty() => pair = Some(Type::F16),
                _ => match type_of(suffix) {
                    Some(ty) => types.push(ty),
                    None => return self.unknown(),
                },
            }
        }
        if let (Some(to), [Type::F32]) = (pair, &types[..]) {
            self.count(3)?;
            if rounding != Rounding::Nearest || saturate || relu {
                return self.unknown();
            }
            let (d, a, b) = (self.result(0)?, self.typed(1, Type::F32)?, self.typed(2, Type::F32)?);
            return Ok(Op::ConvertPair { to, d, a, b });
        }
        let [to, from] = types[..] else { return self.unknown() };
        self.count(2)?;
        let is_small = |ty: Type| matches!(ty, Type::F16 | Type::Bf16);
        // Narrowing rounds to nearest alone; from whole numbers to the small floats not at all.
        let narrows = is_small(to) || (to, from) == (Type::F32, Type::F64);
        if narrows && rounding != Rounding::Nearest && !to_whole {
            return self.unknown();
        }
        if (is_small(to) && !from.is_float()) || (from.bytes() == 8 && is_small(to)) {
            return self.unknown();
        }
        if !from.is_float() && to.is_float() && rounding != Rounding::Nearest {
            return self.unknown();
        }
        let (d, a) = (self.result(0)?, self.typed(1, from)?);
        Ok(Op::Convert { to, from, rounding, to_whole, ftz, saturate, relu, d, a })
    }

    fn convey(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        self.count(2)?;
        let (to_generic, space) = match rest {
            ["to", space, "u64"] => (false, *space),
            [space, "u64"] => (true, *space),
            _ => return self.unknown(),
        };
        let space = match space {
            "global" => Space::Global,
            "shared" | "shared::cta" => Space::Shared,
            "local" => Space::Local,
            "const" => Space::Constant,
            _ => return self.unknown(),
        };
        Ok(Op::Convey { space, to_generic, d: self.result(0)?, a: self.value(1)? })
    }

    fn comparison(&self, name: &str, ty: Type) -> Result<Comparison, PtxError> {
        let c = match name {
            "eq" => Comparison::Eq,
            "ne" => Comparison::Ne,
            "lt" | "lo" => Comparison::Lt,
            "le" | "ls" => Comparison::Le,
            "gt" | "hi" => Comparison::Gt,
            "ge" | "hs" => Comparison::Ge,
            "equ" => Comparison::Equ,
            "neu" => Comparison::Neu,
            "ltu" => Comparison::Ltu,
            "leu" => Comparison::Leu,
            "gtu" => Comparison::Gtu,
            "geu" => Comparison::Geu,
            "num" => Comparison::Num,
            "nan" => Comparison::Nan,
            _ => return self.unknown(),
        };
        if !ty.is_float() && !matches!(name, "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "lo" | "ls" | "hi" | "hs") {
            return self.unknown();
        }
        Ok(c)
    }

    fn compare(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        let Some((name, rest)) = rest.split_first() else { return self.unknown() };
        let (logic, rest) = match rest {
            ["and", rest @ ..] => (Some(Logic::And), rest),
            ["or", rest @ ..] => (Some(Logic::Or), rest),
            ["xor", rest @ ..] => (Some(Logic::Xor), rest),
            _ => (None, rest),
        };
        let m = self.modifiers(rest)?;
        let comparison = self.comparison(name, m.ty)?;
        let d = if self.operands.first() == Some(&Operand::Sink) {
            return self.unknown();
        } else {
            self.result_predicate(0)?
        };
        let (other, first) =
            if self.operands.get(1) == Some(&Operand::Bar) { (Some(self.result_predicate(2)?), 3) } else { (None, 1) };
        self.count(first + 2 + usize::from(logic.is_some()))?;
        let with = match logic {
            Some(logic) => {
                let (p, negate) = self.predicate(first + 2)?;
                Some((logic, p, negate))
            }
            None => None,
        };
        let (a, b) = (self.typed(first, m.ty)?, self.typed(first + 1, m.ty)?);
        Ok(Op::Compare { comparison, ty: m.ty, ftz: m.ftz, d, other, a, b, with })
    }

    fn compare_to(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        self.count(3)?;
        let [name, rest @ ..] = rest else { return self.unknown() };
        let rest: Vec<&str> = rest.iter().copied().filter(|s| *s != "ftz").collect();
        let [to, from] = rest[..] else { return self.unknown() };
        let (Some(to), Some(ty)) = (type_of(to), type_of(from)) else { return self.unknown() };
        if to.bytes() != 4 {
            return self.unknown();
        }
        let comparison = self.comparison(name, ty)?;
        let (d, a, b) = (self.result(0)?, self.typed(1, ty)?, self.typed(2, ty)?);
        Ok(Op::CompareTo { comparison, ty, is_float: to == Type::F32, d, a, b })
    }

    fn select(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        self.count(4)?;
        let [suffix] = rest else { return self.unknown() };
        let Some(ty) = type_of(suffix) else { return self.unknown() };
        let (p, negate) = self.predicate(3)?;
        if negate {
            return self.unknown();
        }
        Ok(Op::Select { d: self.result(0)?, a: self.typed(1, ty)?, b: self.typed(2, ty)?, p })
    }

    /// The space, the width and the type of an access; caching hints are dropped.
    fn access(&self, rest: &[&str], is_store: bool) -> Result<(Space, usize, Type), PtxError> {
        let (mut space, mut width, mut ty) = (Space::Generic, 1, None);
        for &suffix in rest {
            match suffix {
                "param" => space = Space::Param,
                "global" => space = Space::Global,
                "shared" | "shared::cta" => space = Space::Shared,
                "local" => space = Space::Local,
                "const" => space = Space::Constant,
                "v2" => width = 2,
                "v4" => width = 4,
                "nc" if !is_store => {}
                "volatile" | "relaxed" | "weak" | "acquire" | "release" | "cta" | "gpu" | "sys" | "ca" | "cg"
                | "cs" | "cv" | "lu" | "wb" | "wt" => {}
                _ if suffix.starts_with("L1::") || suffix.starts_with("L2::") => {}
                _ => match (type_of(suffix), ty) {
                    (Some(found), None) => ty = Some(found),
                    _ => return self.unknown(),
                },
            }
        }
        match ty {
            Some(ty) if width * ty.bytes() as usize <= 16 => Ok((space, width, ty)),
            _ => self.unknown(),
        }
    }

    fn load(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        self.count(2)?;
        let (space, width, ty) = self.access(rest, false)?;
        let (base, offset, _) = self.address(1)?;
        let mut d = Vec::new();
        match &self.operands[0] {
            Operand::Vector(parts) => {
                for part in parts {
                    d.push(match part {
                        Operand::Register(r) => Some(*r),
                        Operand::Sink => None,
                        _ => return self.refuse("registers expected"),
                    });
                }
            }
            _ => d.push(Some(self.result(0)?)),
        }
        if d.len() != width {
            return self.refuse("another number of registers than the vector has");
        }
        Ok(Op::Load { space, ty, d, base, offset })
    }

    fn store(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        self.count(2)?;
        let (space, width, ty) = self.access(rest, true)?;
        if matches!(space, Space::Param | Space::Constant) {
            return self.unknown();
        }
        let (base, offset, _) = self.address(0)?;
        let mut a = Vec::new();
        match self.operands[1].clone() {
            Operand::Vector(parts) => {
                for part in parts {
                    a.push(self.value_of(&part, ty)?);
                }
            }
            _ => a.push(self.typed(1, ty)?),
        }
        if a.len() != width {
            return self.refuse("another number of registers than the vector has");
        }
        Ok(Op::Store { space, ty, a, base, offset })
    }

    fn atomic(&mut self, is_reduction: bool, rest: &[&str]) -> Result<Op, PtxError> {
        let (mut space, mut op, mut ty) = (Space::Generic, None, None);
        for &suffix in rest {
            match suffix {
                "global" => space = Space::Global,
                "shared" | "shared::cta" => space = Space::Shared,
                "relaxed" | "acquire" | "release" | "acq_rel" | "cta" | "gpu" | "sys" | "noftz" => {}
                "add" => op = Some(Atomic::Add),
                "min" => op = Some(Atomic::Minimum),
                "max" => op = Some(Atomic::Maximum),
                "and" => op = Some(Atomic::And),
                "or" => op = Some(Atomic::Or),
                "xor" => op = Some(Atomic::Xor),
                "exch" => op = Some(Atomic::Exchange),
                "cas" => op = Some(Atomic::CompareAndSwap),
                "inc" => op = Some(Atomic::Increment),
                "dec" => op = Some(Atomic::Decrement),
                _ => match (type_of(suffix), ty) {
                    (Some(found), None) => ty = Some(found),
                    _ => return self.unknown(),
                },
            }
        }
        let (Some(op), Some(ty)) = (op, ty) else { return self.unknown() };
        let is_known = match op {
            Atomic::Add => ty.bytes() >= 4 || matches!(ty, Type::Bf16 | Type::F16),
            Atomic::CompareAndSwap => ty.bytes() >= 2 && !ty.is_float(),
            _ => ty.bytes() >= 4 && !ty.is_float(),
        };
        if !is_known {
            return self.unknown();
        }
        let first = usize::from(!is_reduction);
        let is_swap = op == Atomic::CompareAndSwap;
        self.count(first + 2 + usize::from(is_swap))?;
        let d = if is_reduction { None } else { Some(self.result(0)?) };
        let (base, offset, _) = self.address(first)?;
        let a = self.typed(first + 1, ty)?;
        let b = if is_swap { self.typed(first + 2, ty)? } else { a };
        Ok(Op::Atomic { space, op, ty, d, base, offset, a, b })
    }

    fn shuffle(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        let ["sync", mode, "b32"] = rest else { return self.unknown() };
        let mode = match *mode {
            "up" => Shuffle::Up,
            "down" => Shuffle::Down,
            "bfly" => Shuffle::Butterfly,
            "idx" => Shuffle::Index,
            _ => return self.unknown(),
        };
        let d = self.result(0)?;
        let (p, first) = match (self.operands.get(1), self.operands.get(2)) {
            (Some(Operand::Bar), Some(Operand::Sink)) => (None, 3),
            (Some(Operand::Bar), _) => (Some(self.result_predicate(2)?), 3),
            _ => (None, 1),
        };
        self.count(first + 4)?;
        let (a, b) = (self.typed(first, Type::U32)?, self.typed(first + 1, Type::U32)?);
        let (clamp, members) = (self.typed(first + 2, Type::U32)?, self.typed(first + 3, Type::U32)?);
        Ok(Op::Shuffle { mode, d, p, a, b, clamp, members })
    }

    fn vote(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        self.count(3)?;
        let (a, negate) = self.predicate(1)?;
        let members = self.typed(2, Type::U32)?;
        let vote = match rest {
            ["sync", "ballot", "b32"] => {
                return Ok(Op::Vote { vote: Vote::Ballot, d: self.result(0)?, p: NEVER, a, negate, members });
            }
            ["sync", "all", "pred"] => Vote::All,
            ["sync", "any", "pred"] => Vote::Any,
            ["sync", "uni", "pred"] => Vote::Uniform,
            _ => return self.unknown(),
        };
        Ok(Op::Vote { vote, d: 0, p: self.result_predicate(0)?, a, negate, members })
    }

    fn redux(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        self.count(3)?;
        let ["sync", op, ty] = rest else { return self.unknown() };
        let op = match *op {
            "add" => Binary::Add,
            "min" => Binary::Minimum,
            "max" => Binary::Maximum,
            "and" => Binary::And,
            "or" => Binary::Or,
            "xor" => Binary::Xor,
            _ => return self.unknown(),
        };
        let Some(ty @ (Type::U32 | Type::S32)) = type_of(ty) else { return self.unknown() };
        Ok(Op::Reduce { op, ty, d: self.result(0)?, a: self.typed(1, ty)?, members: self.typed(2, Type::U32)? })
    }

    fn match_(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        let [mode @ ("any" | "all"), "sync", ty] = rest else { return self.unknown() };
        let Some(ty @ (Type::U32 | Type::U64)) = type_of(ty) else { return self.unknown() };
        let d = self.result(0)?;
        let (p, first) = match (self.operands.get(1), self.operands.get(2)) {
            (Some(Operand::Bar), Some(Operand::Sink)) => (None, 3),
            (Some(Operand::Bar), _) => (Some(self.result_predicate(2)?), 3),
            _ => (None, 1),
        };
        self.count(first + 2)?;
        let (a, members) = (self.typed(first, ty)?, self.typed(first + 1, Type::U32)?);
        Ok(Op::Match { all: *mode == "all", ty, d, p, a, members })
    }

    fn barrier(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        match rest {
            ["warp", "sync"] => {
                self.count(1)?;
                Ok(Op::WarpBarrier { members: self.typed(0, Type::U32)? })
            }
            ["sync"] | ["cta", "sync"] | ["sync", "aligned"] | ["cta", "sync", "aligned"] => {
                if self.operands.len() != 1 {
                    return self.refuse("a barrier of a part of the block is not understood");
                }
                Ok(Op::Barrier { id: self.typed(0, Type::U32)?, gather: None })
            }
            _ => {
                let kinds: Vec<&str> =
                    rest.iter().copied().filter(|s| !matches!(*s, "cta" | "red" | "sync" | "aligned")).collect();
                if !rest.contains(&"red") {
                    return self.unknown();
                }
                self.count(3)?;
                let (p, negate) = self.predicate(2)?;
                let id = self.typed(1, Type::U32)?;
                let gather = match kinds[..] {
                    ["popc", "u32"] => (Gather::Count, self.result(0)?, NEVER, p, negate),
                    ["and", "pred"] => (Gather::All, 0, self.result_predicate(0)?, p, negate),
                    ["or", "pred"] => (Gather::Any, 0, self.result_predicate(0)?, p, negate),
                    _ => return self.unknown(),
                };
                Ok(Op::Barrier { id, gather: Some(gather) })
            }
        }
    }
}
