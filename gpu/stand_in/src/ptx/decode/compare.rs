//! Comparisons, selections and predicates.

use super::{Decoder, Operand, type_of};
use crate::ptx::PtxError;
use crate::ptx::instruction::{Binary, Comparison, Logic, Op, Type};

impl Decoder<'_> {
    pub(super) fn logic(&mut self, logic: Logic, op: Binary, suffixes: &[&str]) -> Result<Op, PtxError> {
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

    /// `not.pred`.
    pub(super) fn not_predicate(&mut self) -> Result<Op, PtxError> {
        self.count(2)?;
        let (a, negate) = self.predicate(1)?;
        Ok(Op::PredicateMove { d: self.result_predicate(0)?, a, negate: !negate })
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

    pub(super) fn compare(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
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

    pub(super) fn compare_to(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
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

    pub(super) fn select(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        self.count(4)?;
        let [suffix] = rest else { return self.unknown() };
        let Some(ty) = type_of(suffix) else { return self.unknown() };
        let (p, negate) = self.predicate(3)?;
        if negate {
            return self.unknown();
        }
        Ok(Op::Select { d: self.result(0)?, a: self.typed(1, ty)?, b: self.typed(2, ty)?, p })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{one, refused};
    use crate::ptx::instruction::{Comparison, Logic, Op, Type};

    #[test]
    fn comparisons_have_one_result_or_two_and_may_be_combined() {
        let Op::Compare { comparison, other, with, .. } = one("setp.ge.s32 %p1, %r1, 3;").unwrap() else { panic!() };
        assert!(comparison == Comparison::Ge && other.is_none() && with.is_none());
        let text = "setp.ltu.and.f32 %p1|%p2, %f1, %f2, !%p3;";
        let Op::Compare { comparison, other, with, .. } = one(text).unwrap() else { panic!() };
        assert!(comparison == Comparison::Ltu && other.is_some());
        assert!(matches!(with, Some((Logic::And, _, true))));
        let Op::CompareTo { ty, is_float, .. } = one("set.eq.u32.f32 %r1, %f1, %f2;").unwrap() else { panic!() };
        assert_eq!((ty, is_float), (Type::F32, false));
        // Of whole numbers none is no number.
        assert!(refused("setp.ltu.s32 %p1, %r1, %r2;").contains("not understood"));
    }
}
