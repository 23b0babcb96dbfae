//! Operands and suffixes of an instruction, each as what it has to be.

use super::{Decoder, Operand, type_of};
use crate::ptx::PtxError;
use crate::ptx::instruction::{ALWAYS, NEVER, Predicate, Register, Rounding, Space, Type};
use crate::ptx::parser::constant_predicate;

/// The suffixes of an opcode that change how it computes.
#[derive(Clone, Copy)]
pub(super) struct Modifiers {
    pub(super) ty: Type,
    pub(super) rounding: Rounding,
    pub(super) ftz: bool,
    pub(super) saturate: bool,
}

impl Decoder<'_> {
    pub(super) fn refuse<T>(&self, why: &str) -> Result<T, PtxError> {
        Err(PtxError::new(self.line, format!("{}: {why}", self.opcode)))
    }

    pub(super) fn unknown<T>(&self) -> Result<T, PtxError> {
        self.refuse("an instruction that is not understood")
    }

    pub(super) fn count(&self, count: usize) -> Result<(), PtxError> {
        if self.operands.len() == count {
            Ok(())
        } else {
            self.refuse(&format!("{count} operands expected, found {}", self.operands.len()))
        }
    }

    pub(super) fn result(&mut self, at: usize) -> Result<Register, PtxError> {
        match self.operands.get(at) {
            Some(Operand::Register(r)) => Ok(*r),
            Some(Operand::Sink) => self.scope.fresh(self.line),
            _ => self.refuse("a register expected"),
        }
    }

    pub(super) fn value(&mut self, at: usize) -> Result<Register, PtxError> {
        let Some(operand) = self.operands.get(at) else { return self.refuse("an operand is missing") };
        let operand = operand.clone();
        self.value_of(&operand, Type::U64)
    }

    /// An operand cut to a type's bits.
    pub(super) fn typed(&mut self, at: usize, ty: Type) -> Result<Register, PtxError> {
        let Some(operand) = self.operands.get(at) else { return self.refuse("an operand is missing") };
        let operand = operand.clone();
        self.value_of(&operand, ty)
    }

    pub(super) fn value_of(&mut self, operand: &Operand, ty: Type) -> Result<Register, PtxError> {
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

    pub(super) fn predicate(&self, at: usize) -> Result<(Predicate, bool), PtxError> {
        match self.operands.get(at) {
            Some(Operand::Predicate(p, negate)) => Ok((*p, *negate)),
            Some(Operand::Number(n)) => Ok((constant_predicate(*n), false)),
            _ => self.refuse("a predicate expected"),
        }
    }

    pub(super) fn result_predicate(&self, at: usize) -> Result<Predicate, PtxError> {
        match self.predicate(at)? {
            (p, false) if p != NEVER && p != ALWAYS => Ok(p),
            _ => self.refuse("a predicate to write expected"),
        }
    }

    pub(super) fn address(&self, at: usize) -> Result<(Register, i64, Option<Space>), PtxError> {
        match self.operands.get(at) {
            Some(Operand::Address { base, offset, space }) => Ok((*base, *offset, *space)),
            _ => self.refuse("an address expected"),
        }
    }

    /// The registers of a vector, of which some may be left out.
    pub(super) fn results(&self, parts: &[Operand]) -> Result<Vec<Option<Register>>, PtxError> {
        let register = |part: &Operand| match part {
            Operand::Register(r) => Ok(Some(*r)),
            Operand::Sink => Ok(None),
            _ => self.refuse("registers expected"),
        };
        parts.iter().map(register).collect()
    }

    /// A second result, a predicate, that may be left out; and where the operands begin.
    pub(super) fn may_result_predicate(&self) -> Result<(Option<Predicate>, usize), PtxError> {
        match (self.operands.get(1), self.operands.get(2)) {
            (Some(Operand::Bar), Some(Operand::Sink)) => Ok((None, 3)),
            (Some(Operand::Bar), _) => Ok((Some(self.result_predicate(2)?), 3)),
            _ => Ok((None, 1)),
        }
    }

    pub(super) fn modifiers(&self, suffixes: &[&str]) -> Result<Modifiers, PtxError> {
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
}

#[cfg(test)]
mod tests {
    use super::super::testing::{one, refused};

    #[test]
    fn operands_are_what_they_have_to_be() {
        for (text, why) in [
            ("add.s32 %r1, %r2;", "3 operands expected, found 2"),
            ("add.s32 %p1, %r2, %r3;", "a register expected"),
            ("add.s32 %r1, %p2, %r3;", "a register or a number expected"),
            ("selp.b32 %r1, %r2, %r3, %r1;", "a predicate expected"),
            ("ld.global.u32 %r1, %rd1;", "an address expected"),
            ("setp.lt.s32 1, %r1, %r2;", "a predicate to write expected"),
            ("add.s32.s32 %r1, %r2, %r3;", "not understood"),
            ("add %r1, %r2, %r3;", "not understood"),
            ("mul.sat.u32 %r1, %r2, %r3;", "not understood"),
        ] {
            let said = refused(text);
            assert!(said.contains(why), "{text}: {said}");
        }
        assert!(one("add.s32 _, %r2, -1;").is_ok(), "a result that nobody wants");
    }
}
