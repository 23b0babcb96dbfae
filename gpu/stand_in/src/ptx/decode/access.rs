//! Loads, stores and atomics.

use super::{Decoder, Operand, type_of};
use crate::ptx::PtxError;
use crate::ptx::instruction::{Atomic, Op, Space, Type};

/// An atomic by its name.
fn atomic_of(name: &str) -> Option<Atomic> {
    Some(match name {
        "add" => Atomic::Add,
        "min" => Atomic::Minimum,
        "max" => Atomic::Maximum,
        "and" => Atomic::And,
        "or" => Atomic::Or,
        "xor" => Atomic::Xor,
        "exch" => Atomic::Exchange,
        "cas" => Atomic::CompareAndSwap,
        "inc" => Atomic::Increment,
        "dec" => Atomic::Decrement,
        _ => return None,
    })
}

impl Decoder<'_> {
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

    pub(super) fn load(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        self.count(2)?;
        let (space, width, ty) = self.access(rest, false)?;
        let (base, offset, _) = self.address(1)?;
        let d = match &self.operands[0] {
            Operand::Vector(parts) => self.results(parts)?,
            _ => vec![Some(self.result(0)?)],
        };
        if d.len() != width {
            return self.refuse("another number of registers than the vector has");
        }
        Ok(Op::Load { space, ty, d, base, offset })
    }

    pub(super) fn store(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
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

    pub(super) fn atomic(&mut self, is_reduction: bool, rest: &[&str]) -> Result<Op, PtxError> {
        let (mut space, mut op, mut ty) = (Space::Generic, None, None);
        for &suffix in rest {
            match suffix {
                "global" => space = Space::Global,
                "shared" | "shared::cta" => space = Space::Shared,
                "relaxed" | "acquire" | "release" | "acq_rel" | "cta" | "gpu" | "sys" | "noftz" => {}
                _ => match (atomic_of(suffix), type_of(suffix), ty) {
                    (Some(found), ..) => op = Some(found),
                    (None, Some(found), None) => ty = Some(found),
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
}

#[cfg(test)]
mod tests {
    use super::super::testing::{one, refused};
    use crate::ptx::instruction::{Atomic, Op, Space, Type};

    #[test]
    fn accesses_have_a_space_and_a_width_and_hints_change_nothing() {
        let Op::Load { space, ty, d, .. } = one("ld.global.nc.L1::no_allocate.v2.u32 {%r1, _}, [%rd1];").unwrap()
        else {
            panic!()
        };
        assert!((space, ty) == (Space::Global, Type::U32) && d.len() == 2 && d[1].is_none());
        let Op::Store { space, offset, .. } = one("st.volatile.shared.f32 [%rd1+8], 0f3F800000;").unwrap() else {
            panic!()
        };
        assert_eq!((space, offset), (Space::Shared, 8));
        let Op::Atomic { op, d, a, b, .. } = one("red.global.add.f32 [%rd1], %f1;").unwrap() else { panic!() };
        assert!(op == Atomic::Add && d.is_none() && a == b);
        let Op::Atomic { op, a, b, .. } = one("atom.global.cas.b32 %r1, [%rd1], %r2, %r3;").unwrap() else { panic!() };
        assert!(op == Atomic::CompareAndSwap && a != b);
        for text in [
            "st.const.u32 [%rd1], %r1;",
            "ld.global.v4.u64 {%rd1, %rd2, %rd1, %rd2}, [%rd1];",
            "red.max.f32 [%rd1], %f1;",
        ] {
            assert!(refused(text).contains("not understood"), "{text}");
        }
        assert!(refused("ld.global.v2.u32 %r1, [%rd1];").contains("another number of registers"));
    }
}
