//! Bits taken out, put in, moved and combined.

use super::mask_of;
use crate::ptx::instruction::Type;

/// `bfi`.
#[must_use]
pub fn insert(ty: Type, a: u64, b: u64, at: u64, len: u64) -> u64 {
    let (at, len, width) = (at & 0xff, len & 0xff, u64::from(8 * ty.bytes()));
    if at >= width || len == 0 {
        return b & mask_of(ty);
    }
    let ones = if len >= 64 { !0 } else { (1_u64 << len) - 1 };
    let field = (ones << at) & mask_of(ty);
    ((b & !field) | ((a << at) & field)) & mask_of(ty)
}

/// `bfe`.
#[inline]
#[allow(clippy::cast_possible_truncation)] // low halves are meant
pub(super) fn extract(ty: Type, x: u64, at: u64, len: u64) -> u64 {
    let (at, len) = ((at & 0xff) as u32, (len & 0xff) as u32);
    let width = 8 * ty.bytes();
    let x = x & mask_of(ty);
    let sign = if ty.is_signed() && len != 0 && x >> (at + len - 1).min(width - 1) & 1 == 1 { !0 } else { 0 };
    let ones = if len >= 64 { !0 } else { (1_u64 << len) - 1 };
    let low = if at >= width { 0 } else { x >> at };
    let kept = if at >= width { 0 } else { ones & (mask_of(ty) >> at) };
    ((low & kept) | (sign & !kept)) & mask_of(ty)
}

/// `prmt`.
#[inline]
pub(super) fn permute(x: u64, y: u64, selector: u64) -> u64 {
    let bytes = ((y & 0xffff_ffff) << 32 | (x & 0xffff_ffff)).to_le_bytes();
    let mut out = [0; 8];
    for (i, byte) in out[..4].iter_mut().enumerate() {
        let pick = selector >> (4 * i) & 0xf;
        let found = bytes[(pick & 7) as usize];
        *byte = if pick & 8 == 0 { found } else { (found.cast_signed() >> 7).cast_unsigned() };
    }
    u64::from_le_bytes(out)
}

/// What `shf` shifts, and by how much.
#[inline]
#[allow(clippy::cast_possible_truncation)] // a shift's amount is the low half
fn funnel(is_clamped: bool, low: u64, high: u64, by: u64) -> (u64, u32) {
    let by = if is_clamped { (by as u32).min(32) } else { by as u32 & 31 };
    ((high & 0xffff_ffff) << 32 | (low & 0xffff_ffff), by)
}

/// `shf.l`.
#[inline]
pub(super) fn funnel_left(is_clamped: bool, low: u64, high: u64, by: u64) -> u64 {
    let (both, by) = funnel(is_clamped, low, high, by);
    (both << by) >> 32
}

/// `shf.r`.
#[inline]
pub(super) fn funnel_right(is_clamped: bool, low: u64, high: u64, by: u64) -> u64 {
    let (both, by) = funnel(is_clamped, low, high, by);
    (both >> by) & 0xffff_ffff
}

/// `lop3`, by its truth table.
#[inline]
pub(super) fn lop3(table: u8, x: u64, y: u64, z: u64) -> u64 {
    let mut out = 0;
    for row in 0..8_u32 {
        if table >> row & 1 == 1 {
            let x = if row & 4 == 0 { !x } else { x };
            let y = if row & 2 == 0 { !y } else { y };
            let z = if row & 1 == 0 { !z } else { z };
            out |= x & y & z;
        }
    }
    out & 0xffff_ffff
}

#[cfg(test)]
mod tests {
    use super::super::{ternary, unary};
    use super::insert;
    use crate::ptx::instruction::{Rounding, Ternary, Type, Unary};

    fn three(op: Ternary, ty: Type, a: u64, b: u64, c: u64) -> u64 {
        ternary(op, ty, Rounding::Nearest, false, false, &[a; 32], &[b; 32], &[c; 32])[0]
    }

    #[test]
    fn bits_are_taken_out_and_put_in() {
        assert_eq!(three(Ternary::BitFieldExtract, Type::U32, 0xabcd, 4, 8), 0xbc);
        assert_eq!(three(Ternary::BitFieldExtract, Type::S32, 0xabcd, 4, 8), 0xffff_ffbc);
        assert_eq!(insert(Type::U64, 0xff, 0x1234, 4, 8), 0x1ff4);
        assert_eq!(three(Ternary::Permute, Type::U32, 0x4433_2211, 0x8877_6655, 0x5410), 0x6655_2211);
        assert_eq!(three(Ternary::Lop3(0xe8), Type::U32, 0b1100, 0b1010, 0b0110), 0b1110);
        assert_eq!(three(Ternary::FunnelLeft { is_clamped: false }, Type::U32, 0x8000_0000, 1, 1), 3);
        let one = |op, a| unary(op, Type::U32, false, &[a; 32])[0];
        assert_eq!(one(Unary::LeadingZeros, 1), 31);
        assert_eq!(one(Unary::ReverseBits, 1), 1 << 31);
        assert_eq!(one(Unary::CountOnes, 0xf0f0), 8);
        assert_eq!(one(Unary::HighestBit, 0), 0xffff_ffff);
    }
}
