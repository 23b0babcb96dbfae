//! Whole numbers of 8 to 64 bits, which wrap.

use super::{Lanes, three, two};
use crate::ptx::instruction::{Binary, Ternary};

/// A whole number of some width, wrapping.
pub(super) trait Whole: Copy + Ord {
    fn cut(bits: u64) -> Self;
    fn bits(self) -> u64;
    fn add(self, other: Self) -> Self;
    fn subtract(self, other: Self) -> Self;
    fn low(self, other: Self) -> Self;
    fn high(self, other: Self) -> Self;
    fn wide(self, other: Self) -> u64;
    fn divide(self, other: Self) -> Self;
    fn remainder(self, other: Self) -> Self;
    fn left(self, by: u32) -> Self;
    fn right(self, by: u32) -> Self;
    fn saturating_add(self, other: Self) -> Self;
    fn saturating_subtract(self, other: Self) -> Self;
}

macro_rules! whole {
    ($ty:ty, $unsigned:ty, $wide:ty, $wide_bits:ty) => {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_possible_wrap,
            clippy::cast_lossless
        )] // machine words: cutting and reinterpreting them is what the instructions do
        impl Whole for $ty {
            #[inline]
            fn cut(bits: u64) -> Self {
                bits as $ty
            }
            #[inline]
            fn bits(self) -> u64 {
                self as $unsigned as u64
            }
            #[inline]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline]
            fn subtract(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline]
            fn low(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline]
            fn high(self, other: Self) -> Self {
                ((self as $wide * other as $wide) >> <$ty>::BITS) as $ty
            }
            #[inline]
            fn wide(self, other: Self) -> u64 {
                (self as $wide).wrapping_mul(other as $wide) as $wide_bits as u64
            }
            #[inline]
            fn divide(self, other: Self) -> Self {
                if other == 0 { !0 } else { self.wrapping_div(other) }
            }
            #[inline]
            fn remainder(self, other: Self) -> Self {
                if other == 0 { self } else { self.wrapping_rem(other) }
            }
            #[inline]
            fn left(self, by: u32) -> Self {
                if by >= <$ty>::BITS { 0 } else { self << by }
            }
            #[inline]
            fn right(self, by: u32) -> Self {
                self >> by.min(<$ty>::BITS - 1) >> u32::from(by >= <$ty>::BITS && <$ty>::MIN == 0)
            }
            #[inline]
            fn saturating_add(self, other: Self) -> Self {
                <$ty>::saturating_add(self, other)
            }
            #[inline]
            fn saturating_subtract(self, other: Self) -> Self {
                <$ty>::saturating_sub(self, other)
            }
        }
    };
}

whole!(u8, u8, u16, u16);
whole!(i8, u8, i16, u16);
whole!(u16, u16, u32, u32);
whole!(i16, u16, i32, u32);
whole!(u32, u32, u64, u64);
whole!(i32, u32, i64, u64);
whole!(u64, u64, u128, u64);
whole!(i64, u64, i128, u64);

pub(super) fn binary<T: Whole>(op: Binary, saturate: bool, a: &Lanes, b: &Lanes) -> Lanes {
    #[allow(clippy::cast_possible_truncation)] // a shift's amount is the low half
    match op {
        Binary::Add if saturate => two(a, b, |x, y| T::cut(x).saturating_add(T::cut(y)).bits()),
        Binary::Subtract if saturate => two(a, b, |x, y| T::cut(x).saturating_subtract(T::cut(y)).bits()),
        Binary::Add => two(a, b, |x, y| T::cut(x).add(T::cut(y)).bits()),
        Binary::Subtract => two(a, b, |x, y| T::cut(x).subtract(T::cut(y)).bits()),
        Binary::MultiplyLow => two(a, b, |x, y| T::cut(x).low(T::cut(y)).bits()),
        Binary::MultiplyHigh => two(a, b, |x, y| T::cut(x).high(T::cut(y)).bits()),
        Binary::MultiplyWide => two(a, b, |x, y| T::cut(x).wide(T::cut(y))),
        Binary::Divide => two(a, b, |x, y| T::cut(x).divide(T::cut(y)).bits()),
        Binary::Remainder => two(a, b, |x, y| T::cut(x).remainder(T::cut(y)).bits()),
        Binary::Minimum => two(a, b, |x, y| T::cut(x).min(T::cut(y)).bits()),
        Binary::Maximum => two(a, b, |x, y| T::cut(x).max(T::cut(y)).bits()),
        Binary::And | Binary::CopySign => two(a, b, |x, y| T::cut(x & y).bits()),
        Binary::Or => two(a, b, |x, y| T::cut(x | y).bits()),
        Binary::Xor => two(a, b, |x, y| T::cut(x ^ y).bits()),
        Binary::ShiftLeft => two(a, b, |x, y| T::cut(x).left(y as u32).bits()),
        Binary::ShiftRight => two(a, b, |x, y| T::cut(x).right(y as u32).bits()),
    }
}

pub(super) fn ternary<T: Whole>(op: Ternary, a: &Lanes, b: &Lanes, c: &Lanes) -> Lanes {
    match op {
        Ternary::MultiplyAddHigh => three(a, b, c, |x, y, z| T::cut(x).high(T::cut(y)).add(T::cut(z)).bits()),
        Ternary::MultiplyAddWide => three(a, b, c, |x, y, z| T::cut(x).wide(T::cut(y)).wrapping_add(z)),
        _ => three(a, b, c, |x, y, z| T::cut(x).low(T::cut(y)).add(T::cut(z)).bits()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::binary;
    use crate::ptx::instruction::{Binary, Rounding, Type};

    fn two(op: Binary, ty: Type, a: u64, b: u64) -> u64 {
        binary(op, ty, Rounding::Nearest, false, false, &[a; 32], &[b; 32])[31]
    }

    #[test]
    fn whole_numbers_wrap_at_their_width() {
        assert_eq!(two(Binary::Add, Type::U32, 0xffff_ffff, 2), 1);
        assert_eq!(two(Binary::MultiplyHigh, Type::S32, 0xffff_fffe, 3), 0xffff_ffff);
        assert_eq!(two(Binary::MultiplyHigh, Type::U64, 1 << 63, 6), 3);
        assert_eq!(two(Binary::MultiplyWide, Type::S32, 0xffff_fffe, 3), (-6_i64).cast_unsigned());
        assert_eq!(two(Binary::MultiplyWide, Type::U32, 0xffff_ffff, 2), 0x1_ffff_fffe);
        assert_eq!(two(Binary::Divide, Type::S32, 0xffff_fff9, 2), 0xffff_fffd);
        assert_eq!(two(Binary::Remainder, Type::S64, (-7_i64).cast_unsigned(), 4), (-3_i64).cast_unsigned());
        assert_eq!(two(Binary::Minimum, Type::S32, 0xffff_ffff, 1), 0xffff_ffff);
        assert_eq!(two(Binary::Minimum, Type::U32, 0xffff_ffff, 1), 1);
        assert_eq!(two(Binary::Divide, Type::U32, 5, 0), 0xffff_ffff);
    }

    #[test]
    fn shifts_beyond_the_width_leave_nothing_but_the_sign() {
        assert_eq!(two(Binary::ShiftLeft, Type::U32, 1, 32), 0);
        assert_eq!(two(Binary::ShiftRight, Type::U32, !0, 32), 0);
        assert_eq!(two(Binary::ShiftRight, Type::S32, 0x8000_0000, 99), 0xffff_ffff);
        assert_eq!(two(Binary::ShiftRight, Type::U64, 1 << 63, 63), 1);
    }
}
