//! Arithmetic: a function a lane, for all lanes of a warp.

mod atomic;
mod bits;
mod compare;
mod convert;
mod float;
mod whole;

pub use atomic::atomic;
pub use bits::insert;
pub use compare::compare;
pub use convert::{Conversion, convert};
pub use float::{narrow, widen};

use super::LANES;
use crate::ptx::instruction::{Binary, Rounding, Ternary, Type, Unary};
use float::{double, flush, single, single_binary, unary_single};

/// A register in all lanes. Bits beyond a value's width are unspecified; every reader cuts.
pub type Lanes = [u64; LANES];

/// Writes the lanes of a mask.
#[inline]
pub fn blend(to: &mut Lanes, from: &Lanes, mask: u32) {
    if mask == !0 {
        *to = *from;
    } else {
        for lane in 0..LANES {
            if mask >> lane & 1 == 1 {
                to[lane] = from[lane];
            }
        }
    }
}

#[inline(always)]
#[allow(clippy::inline_always)] // the closure is the instruction: a call a lane otherwise
fn one(a: &Lanes, f: impl Fn(u64) -> u64) -> Lanes {
    core::array::from_fn(|lane| f(a[lane]))
}

#[inline(always)]
#[allow(clippy::inline_always)] // as above
fn two(a: &Lanes, b: &Lanes, f: impl Fn(u64, u64) -> u64) -> Lanes {
    core::array::from_fn(|lane| f(a[lane], b[lane]))
}

#[inline(always)]
#[allow(clippy::inline_always)] // as above
fn three(a: &Lanes, b: &Lanes, c: &Lanes, f: impl Fn(u64, u64, u64) -> u64) -> Lanes {
    core::array::from_fn(|lane| f(a[lane], b[lane], c[lane]))
}

/// Ones in a type's bits.
#[must_use]
pub fn mask_of(ty: Type) -> u64 {
    if ty.bytes() == 8 { !0 } else { (1 << (8 * ty.bytes())) - 1 }
}

/// A value of a type, its sign extended.
#[must_use]
pub fn signed(x: u64, ty: Type) -> i64 {
    let away = 64 - 8 * ty.bytes();
    (x << away).cast_signed() >> away
}

/// One operand.
#[must_use]
pub fn unary(op: Unary, ty: Type, ftz: bool, a: &Lanes) -> Lanes {
    match (op, ty) {
        (Unary::Move, _) => *a,
        (Unary::Not, _) => one(a, |x| !x & mask_of(ty)),
        (_, Type::F32) => one(a, |x| {
            let x = if ftz { flush(single(x)) } else { single(x) };
            let y = unary_single(op, x);
            u64::from(if ftz { flush(y) } else { y }.to_bits())
        }),
        (_, Type::F64) => one(a, |x| {
            let x = double(x);
            match op {
                Unary::Negate => -x,
                Unary::Absolute => x.abs(),
                Unary::Reciprocal => 1.0 / x,
                Unary::SquareRoot => x.sqrt(),
                _ => 1.0 / x.sqrt(),
            }
            .to_bits()
        }),
        (Unary::Negate, Type::F16 | Type::Bf16) => one(a, |x| x ^ 0x8000),
        (Unary::Absolute, Type::F16 | Type::Bf16) => one(a, |x| x & 0x7fff),
        (Unary::Negate, _) => one(a, |x| x.wrapping_neg() & mask_of(ty)),
        (Unary::Absolute, _) => one(a, |x| {
            let x = signed(x, ty);
            x.unsigned_abs() & mask_of(ty)
        }),
        (Unary::CountOnes, _) => one(a, |x| u64::from((x & mask_of(ty)).count_ones())),
        (Unary::LeadingZeros, _) => one(a, |x| u64::from((x & mask_of(ty)).leading_zeros() - (64 - 8 * ty.bytes()))),
        (Unary::ReverseBits, _) => one(a, |x| (x & mask_of(ty)).reverse_bits() >> (64 - 8 * ty.bytes())),
        (Unary::HighestBit, _) => one(a, |x| {
            let x = if ty.is_signed() && signed(x, ty) < 0 { !x } else { x } & mask_of(ty);
            if x == 0 { 0xffff_ffff } else { u64::from(x.ilog2()) }
        }),
        _ => *a,
    }
}

/// Two operands.
#[must_use]
pub fn binary(op: Binary, ty: Type, rounding: Rounding, ftz: bool, saturate: bool, a: &Lanes, b: &Lanes) -> Lanes {
    match ty {
        Type::U8 => whole::binary::<u8>(op, saturate, a, b),
        Type::S8 => whole::binary::<i8>(op, saturate, a, b),
        Type::U16 => whole::binary::<u16>(op, saturate, a, b),
        Type::S16 => whole::binary::<i16>(op, saturate, a, b),
        Type::U32 => whole::binary::<u32>(op, saturate, a, b),
        Type::S32 => whole::binary::<i32>(op, saturate, a, b),
        Type::U64 => whole::binary::<u64>(op, saturate, a, b),
        Type::S64 => whole::binary::<i64>(op, saturate, a, b),
        Type::F32 => single_binary(op, rounding, ftz, saturate, a, b),
        Type::F64 | Type::F16 | Type::Bf16 => two(a, b, |x, y| {
            let (x, y) = (widen(x, ty), widen(y, ty));
            narrow(
                match op {
                    Binary::Add => x + y,
                    Binary::Subtract => x - y,
                    Binary::MultiplyLow => x * y,
                    Binary::Divide => x / y,
                    Binary::Minimum => x.min(y),
                    Binary::Maximum => x.max(y),
                    _ => y.copysign(x),
                },
                ty,
            )
        }),
    }
}

/// Three operands.
#[must_use]
#[allow(clippy::too_many_arguments)] // an instruction's parts
pub fn ternary(
    op: Ternary,
    ty: Type,
    rounding: Rounding,
    ftz: bool,
    saturate: bool,
    a: &Lanes,
    b: &Lanes,
    c: &Lanes,
) -> Lanes {
    match (op, ty) {
        (Ternary::Fma | Ternary::MultiplyAddLow, Type::F32) => float::single_fma(rounding, ftz, saturate, a, b, c),
        (_, Type::F64) => three(a, b, c, |x, y, z| double(x).mul_add(double(y), double(z)).to_bits()),
        // Products of these are exact in f64, and their sums nearly so.
        (_, Type::F16 | Type::Bf16) => {
            three(a, b, c, |x, y, z| narrow(widen(x, ty).mul_add(widen(y, ty), widen(z, ty)), ty))
        }
        (Ternary::BitFieldExtract, _) => three(a, b, c, |x, at, len| bits::extract(ty, x, at, len)),
        (Ternary::Permute, _) => three(a, b, c, bits::permute),
        (Ternary::FunnelLeft { is_clamped }, _) => three(a, b, c, |x, y, z| bits::funnel_left(is_clamped, x, y, z)),
        (Ternary::FunnelRight { is_clamped }, _) => three(a, b, c, |x, y, z| bits::funnel_right(is_clamped, x, y, z)),
        (Ternary::Lop3(table), _) => three(a, b, c, |x, y, z| bits::lop3(table, x, y, z)),
        (_, Type::U16) => whole::ternary::<u16>(op, a, b, c),
        (_, Type::S16) => whole::ternary::<i16>(op, a, b, c),
        (_, Type::S32) => whole::ternary::<i32>(op, a, b, c),
        (_, Type::U64) => whole::ternary::<u64>(op, a, b, c),
        (_, Type::S64) => whole::ternary::<i64>(op, a, b, c),
        _ => whole::ternary::<u32>(op, a, b, c),
    }
}
