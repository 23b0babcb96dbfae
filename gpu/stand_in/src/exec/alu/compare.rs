//! Comparisons.

use super::Lanes;
use super::float::{flush, single, widen};
use super::whole::Whole;
use crate::exec::LANES;
use crate::ptx::instruction::{Comparison, Type};

/// The lanes in which a comparison holds.
#[must_use]
pub fn compare(comparison: Comparison, ty: Type, ftz: bool, a: &Lanes, b: &Lanes) -> u32 {
    fn lanes(a: &Lanes, b: &Lanes, f: impl Fn(u64, u64) -> bool) -> u32 {
        let mut mask = 0;
        for lane in 0..LANES {
            mask |= u32::from(f(a[lane], b[lane])) << lane;
        }
        mask
    }
    fn ordered<T: PartialOrd>(c: Comparison, a: &Lanes, b: &Lanes, f: impl Fn(u64) -> T) -> u32 {
        match c {
            Comparison::Eq => lanes(a, b, |x, y| f(x) == f(y)),
            Comparison::Ne => lanes(a, b, |x, y| f(x) != f(y) && f(x).partial_cmp(&f(y)).is_some()),
            Comparison::Lt => lanes(a, b, |x, y| f(x) < f(y)),
            Comparison::Le => lanes(a, b, |x, y| f(x) <= f(y)),
            Comparison::Gt => lanes(a, b, |x, y| f(x) > f(y)),
            Comparison::Ge => lanes(a, b, |x, y| f(x) >= f(y)),
            Comparison::Equ => lanes(a, b, |x, y| f(x).partial_cmp(&f(y)).is_none_or(core::cmp::Ordering::is_eq)),
            Comparison::Neu => lanes(a, b, |x, y| f(x) != f(y)),
            Comparison::Ltu => lanes(a, b, |x, y| f(x).partial_cmp(&f(y)).is_none_or(core::cmp::Ordering::is_lt)),
            Comparison::Leu => lanes(a, b, |x, y| f(x).partial_cmp(&f(y)).is_none_or(core::cmp::Ordering::is_le)),
            Comparison::Gtu => lanes(a, b, |x, y| f(x).partial_cmp(&f(y)).is_none_or(core::cmp::Ordering::is_gt)),
            Comparison::Geu => lanes(a, b, |x, y| f(x).partial_cmp(&f(y)).is_none_or(core::cmp::Ordering::is_ge)),
            Comparison::Num => lanes(a, b, |x, y| f(x).partial_cmp(&f(y)).is_some()),
            Comparison::Nan => lanes(a, b, |x, y| f(x).partial_cmp(&f(y)).is_none()),
        }
    }
    match ty {
        Type::F32 if ftz => ordered(comparison, a, b, |x| flush(single(x))),
        Type::F32 => ordered(comparison, a, b, single),
        Type::F64 | Type::F16 | Type::Bf16 => ordered(comparison, a, b, |x| widen(x, ty)),
        Type::S32 => ordered(comparison, a, b, i32::cut),
        Type::U32 => ordered(comparison, a, b, u32::cut),
        Type::S64 => ordered(comparison, a, b, i64::cut),
        Type::U64 => ordered(comparison, a, b, u64::cut),
        Type::S16 => ordered(comparison, a, b, i16::cut),
        Type::U16 => ordered(comparison, a, b, u16::cut),
        Type::S8 => ordered(comparison, a, b, i8::cut),
        Type::U8 => ordered(comparison, a, b, u8::cut),
    }
}

#[cfg(test)]
mod tests {
    use super::compare;
    use crate::ptx::instruction::{Comparison, Type};

    fn bits(x: f32) -> u64 {
        x.to_bits().into()
    }

    #[test]
    fn comparisons_with_nan_hold_only_where_they_say_so() {
        let (nan, one) = ([bits(f32::NAN); 32], [bits(1.0); 32]);
        for (comparison, holds) in [
            (Comparison::Lt, false),
            (Comparison::Ne, false),
            (Comparison::Ltu, true),
            (Comparison::Neu, true),
            (Comparison::Nan, true),
            (Comparison::Num, false),
        ] {
            assert_eq!(compare(comparison, Type::F32, false, &nan, &one), if holds { !0 } else { 0 }, "{comparison:?}");
        }
        assert_eq!(compare(Comparison::Lt, Type::S32, false, &[0xffff_ffff; 32], &[0; 32]), !0);
        assert_eq!(compare(Comparison::Lt, Type::U32, false, &[0xffff_ffff; 32], &[0; 32]), 0);
    }
}
