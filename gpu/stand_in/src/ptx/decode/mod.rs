//! One opcode with its operands to a typed instruction; what is not understood is refused.

mod access;
mod arithmetic;
mod compare;
mod convert;
mod operands;
#[cfg(test)]
mod testing;
mod together;

use super::PtxError;
use super::instruction::{Binary, Logic, Op, Predicate, Register, Space, Special, Ternary, Type, Unary};
use super::parser::Scope;

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

/// Decodes an instruction.
pub(crate) fn decode(opcode: &str, operands: &[Operand], scope: &mut Scope, line: u32) -> Result<Op, PtxError> {
    Decoder { opcode, operands, scope, line }.decode()
}

impl Decoder<'_> {
    fn decode(&mut self) -> Result<Op, PtxError> {
        let mut parts = self.opcode.split('.');
        let name = parts.next().unwrap_or_default();
        let suffixes: Vec<&str> = parts.collect();
        let rest = &suffixes[..];
        if let Some(op) = unary_of(name) {
            return self.unary(op, rest);
        }
        if let Some(op) = binary_of(name) {
            return self.binary(op, rest);
        }
        match name {
            "mov" => self.move_(rest),
            "not" if rest == ["pred"] => self.not_predicate(),
            "not" => self.unary(Unary::Not, rest),
            "bfind" if !rest.contains(&"shiftamt") => self.unary(Unary::HighestBit, rest),
            "mul" => match rest {
                ["lo", rest @ ..] => self.binary(Binary::MultiplyLow, rest),
                ["hi", rest @ ..] => self.binary(Binary::MultiplyHigh, rest),
                ["wide", rest @ ..] => self.binary(Binary::MultiplyWide, rest),
                _ => self.binary(Binary::MultiplyLow, rest),
            },
            "and" => self.logic(Logic::And, Binary::And, rest),
            "or" => self.logic(Logic::Or, Binary::Or, rest),
            "xor" => self.logic(Logic::Xor, Binary::Xor, rest),
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
            _ => self.flow(name, rest),
        }
    }

    /// What lanes do together, and where they go on.
    fn flow(&mut self, name: &str, rest: &[&str]) -> Result<Op, PtxError> {
        match name {
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
}

/// Names of operations on one operand alone.
fn unary_of(name: &str) -> Option<Unary> {
    Some(match name {
        "neg" => Unary::Negate,
        "abs" => Unary::Absolute,
        "popc" => Unary::CountOnes,
        "clz" => Unary::LeadingZeros,
        "brev" => Unary::ReverseBits,
        "rcp" => Unary::Reciprocal,
        "sqrt" => Unary::SquareRoot,
        "rsqrt" => Unary::ReciprocalSquareRoot,
        "sin" => Unary::Sine,
        "cos" => Unary::Cosine,
        "lg2" => Unary::Log2,
        "ex2" => Unary::Exp2,
        "tanh" => Unary::Tanh,
        _ => return None,
    })
}

/// Of two operands.
fn binary_of(name: &str) -> Option<Binary> {
    Some(match name {
        "add" => Binary::Add,
        "sub" => Binary::Subtract,
        "div" => Binary::Divide,
        "rem" => Binary::Remainder,
        "min" => Binary::Minimum,
        "max" => Binary::Maximum,
        "shl" => Binary::ShiftLeft,
        "shr" => Binary::ShiftRight,
        // `copysign d, a, b`: the sign of `a` on `b`.
        "copysign" => Binary::CopySign,
        _ => return None,
    })
}
