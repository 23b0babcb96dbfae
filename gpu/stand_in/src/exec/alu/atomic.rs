//! What atomics make of what is there.

use super::float::{narrow, single, widen};
use super::{mask_of, signed};
use crate::ptx::instruction::{Atomic, Type};

/// What an atomic leaves behind.
#[must_use]
pub fn atomic(op: Atomic, ty: Type, old: u64, a: u64, b: u64) -> u64 {
    let cut = mask_of(ty);
    let (old, a) = (old & cut, a & cut);
    let is_less = if ty.is_signed() { signed(a, ty) < signed(old, ty) } else { a < old };
    match op {
        Atomic::Add => match ty {
            Type::F32 => u64::from((single(old) + single(a)).to_bits()),
            Type::F64 | Type::F16 | Type::Bf16 => narrow(widen(old, ty) + widen(a, ty), ty),
            _ => old.wrapping_add(a) & cut,
        },
        Atomic::Minimum => {
            if is_less {
                a
            } else {
                old
            }
        }
        Atomic::Maximum => {
            if is_less {
                old
            } else {
                a
            }
        }
        Atomic::And => old & a,
        Atomic::Or => old | a,
        Atomic::Xor => old ^ a,
        Atomic::Exchange => a,
        Atomic::CompareAndSwap => {
            if old == a {
                b & cut
            } else {
                old
            }
        }
        Atomic::Increment => {
            if old >= a {
                0
            } else {
                old + 1
            }
        }
        Atomic::Decrement => {
            if old == 0 || old > a {
                a
            } else {
                old - 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::atomic;
    use crate::ptx::instruction::{Atomic, Type};

    fn bits(x: f32) -> u64 {
        x.to_bits().into()
    }

    #[test]
    fn atomics_of_every_kind() {
        let a = |op, ty, old, x| atomic(op, ty, old, x, 9);
        assert_eq!(a(Atomic::Add, Type::U32, 0xffff_ffff, 1), 0);
        assert_eq!(a(Atomic::Add, Type::F32, bits(1.0), bits(2.0)), bits(3.0));
        assert_eq!(a(Atomic::Maximum, Type::S32, 0xffff_ffff, 1), 1);
        assert_eq!(a(Atomic::Minimum, Type::U32, 0xffff_ffff, 1), 1);
        assert_eq!(a(Atomic::CompareAndSwap, Type::U32, 4, 4), 9);
        assert_eq!(a(Atomic::CompareAndSwap, Type::U32, 4, 5), 4);
        assert_eq!(a(Atomic::Increment, Type::U32, 4, 4), 0);
        assert_eq!(a(Atomic::Decrement, Type::U32, 0, 7), 7);
    }
}
