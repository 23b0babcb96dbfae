//! Arithmetic, moves and bits.

use super::operands::Modifiers;
use super::{Decoder, Operand, type_of};
use crate::ptx::PtxError;
use crate::ptx::instruction::{Binary, Op, Rounding, Ternary, Type, Unary};

impl Decoder<'_> {
    pub(super) fn unary(&mut self, op: Unary, suffixes: &[&str]) -> Result<Op, PtxError> {
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

    pub(super) fn binary(&mut self, op: Binary, suffixes: &[&str]) -> Result<Op, PtxError> {
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

    pub(super) fn ternary(&mut self, op: Ternary, suffixes: &[&str]) -> Result<Op, PtxError> {
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

    pub(super) fn move_(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        self.count(2)?;
        let [suffix] = rest else { return self.unknown() };
        if *suffix == "pred" {
            let (a, negate) = self.predicate(1)?;
            return Ok(Op::PredicateMove { d: self.result_predicate(0)?, a, negate });
        }
        let Some(ty) = type_of(suffix) else { return self.unknown() };
        match self.operands {
            [Operand::Vector(to), Operand::Register(a)] => {
                let parts = self.results(to)?;
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

    pub(super) fn funnel(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
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

    pub(super) fn lop3(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        self.count(5)?;
        let (["b32"], Some(Operand::Number(table))) = (rest, self.operands.get(4)) else { return self.unknown() };
        let Ok(table) = u8::try_from(*table) else { return self.unknown() };
        let (d, a, b, c) =
            (self.result(0)?, self.typed(1, Type::U32)?, self.typed(2, Type::U32)?, self.typed(3, Type::U32)?);
        let (op, ty, rounding) = (Ternary::Lop3(table), Type::U32, Rounding::Nearest);
        Ok(Op::Ternary { op, ty, rounding, ftz: false, saturate: false, d, a, b, c })
    }

    pub(super) fn bit_field_insert(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        self.count(5)?;
        let ty = self.modifiers(rest)?.ty;
        if ty != Type::U32 && ty != Type::U64 {
            return self.unknown();
        }
        let (a, b) = (self.typed(1, ty)?, self.typed(2, ty)?);
        let (at, len) = (self.typed(3, Type::U32)?, self.typed(4, Type::U32)?);
        Ok(Op::BitFieldInsert { ty, d: self.result(0)?, a, b, at, len })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{one, refused};
    use crate::ptx::instruction::{Binary, Op, Rounding, Ternary, Type};

    #[test]
    fn operations_have_types_and_roundings() {
        let Op::Binary { op, ty, rounding, .. } = one("mul.hi.s32 %r1, %r2, 3;").unwrap() else { panic!() };
        assert_eq!((op, ty, rounding), (Binary::MultiplyHigh, Type::S32, Rounding::Nearest));
        let Op::Ternary { op, rounding, ftz, .. } = one("fma.rz.ftz.f32 %f1, %f2, %f3, %f1;").unwrap() else {
            panic!()
        };
        assert_eq!((op, rounding, ftz), (Ternary::Fma, Rounding::Zero, true));
        let Op::Ternary { op, .. } = one("shf.l.wrap.b32 %r1, %r2, %r3, 4;").unwrap() else { panic!() };
        assert_eq!(op, Ternary::FunnelLeft { is_clamped: false });
        let Op::Unpack { parts, bits, .. } = one("mov.b64 {%r1, _}, %rd1;").unwrap() else { panic!() };
        assert!(parts.len() == 2 && parts[1].is_none() && bits == 32);
        for text in [
            "add.rz.f64 %rd1, %rd1, %rd1;",
            "div.rz.f32 %f1, %f2, %f3;",
            "sin.f64 %rd1, %rd1;",
            "and.f32 %f1, %f2, %f3;",
        ] {
            assert!(refused(text).contains("not understood"), "{text}");
        }
    }
}
