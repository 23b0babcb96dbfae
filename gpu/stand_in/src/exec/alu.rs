//! Arithmetic: a function a lane, for all lanes of a warp.

use super::LANES;
use crate::ptx::instruction::{Atomic, Binary, Comparison, Rounding, Ternary, Type, Unary};
use half::{bf16, f16};

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

/// A whole number of some width, wrapping.
trait Whole: Copy + Ord {
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

#[inline]
fn single(bits: u64) -> f32 {
    #[allow(clippy::cast_possible_truncation)] // a register's low half
    f32::from_bits(bits as u32)
}

#[inline]
fn double(bits: u64) -> f64 {
    f64::from_bits(bits)
}

fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0_f32.copysign(x) } else { x }
}

#[allow(clippy::cast_possible_truncation)] // rounding is meant
fn to_single(x: f64) -> f32 {
    x as f32
}

/// `s + error`, where `s` is nearest to the sum, rounded in a direction to f32.
#[allow(clippy::float_cmp)] // exact
fn directed(s: f64, error: f64, rounding: Rounding) -> f32 {
    let nearest = to_single(s);
    if !nearest.is_finite() && s.is_finite() {
        let towards_zero = match rounding {
            Rounding::Zero => true,
            Rounding::Down => s > 0.0,
            Rounding::Up => s < 0.0,
            Rounding::Nearest => false,
        };
        return if towards_zero { f32::MAX.copysign(nearest) } else { nearest };
    }
    let there = f64::from(nearest);
    let is_above = there > s || (there == s && error < 0.0);
    let is_below = there < s || (there == s && error > 0.0);
    match rounding {
        Rounding::Down if is_above => nearest.next_down(),
        Rounding::Up if is_below => nearest.next_up(),
        Rounding::Zero if is_above && s > 0.0 => nearest.next_down(),
        Rounding::Zero if is_below && s < 0.0 => nearest.next_up(),
        _ => nearest,
    }
}

/// `a * b + c`, rounded once.
#[inline]
#[must_use]
pub fn fma(a: f32, b: f32, c: f32, rounding: Rounding) -> f32 {
    if rounding == Rounding::Nearest {
        return a.mul_add(b, c);
    }
    let (p, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let s = p + c;
    if !s.is_finite() {
        return to_single(s);
    }
    let t = s - p;
    let error = (p - (s - t)) + (c - t);
    directed(s, error, rounding)
}

/// A float's bits to f64, exactly.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // a register's low part
pub fn widen(bits: u64, ty: Type) -> f64 {
    match ty {
        Type::F16 => f16::from_bits(bits as u16).to_f64(),
        Type::Bf16 => bf16::from_bits(bits as u16).to_f64(),
        Type::F32 => f64::from(single(bits)),
        _ => double(bits),
    }
}

/// To a float's bits, to nearest even.
#[must_use]
pub fn narrow(x: f64, ty: Type) -> u64 {
    match ty {
        Type::F16 => f16::from_f64(x).to_bits().into(),
        Type::Bf16 => bf16::from_f64(x).to_bits().into(),
        Type::F32 => to_single(x).to_bits().into(),
        _ => x.to_bits(),
    }
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

fn unary_single(op: Unary, x: f32) -> f32 {
    match op {
        Unary::Negate => -x,
        Unary::Absolute => x.abs(),
        Unary::Reciprocal => 1.0 / x,
        Unary::SquareRoot => x.sqrt(),
        Unary::ReciprocalSquareRoot => to_single(1.0 / f64::from(x).sqrt()),
        Unary::Sine => to_single(f64::from(x).sin()),
        Unary::Cosine => to_single(f64::from(x).cos()),
        Unary::Log2 => to_single(f64::from(x).log2()),
        Unary::Exp2 => to_single(f64::from(x).exp2()),
        Unary::Tanh => to_single(f64::from(x).tanh()),
        _ => x,
    }
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

fn whole_binary<T: Whole>(op: Binary, saturate: bool, a: &Lanes, b: &Lanes) -> Lanes {
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

/// Two operands.
#[must_use]
pub fn binary(op: Binary, ty: Type, rounding: Rounding, ftz: bool, saturate: bool, a: &Lanes, b: &Lanes) -> Lanes {
    match ty {
        Type::U8 => whole_binary::<u8>(op, saturate, a, b),
        Type::S8 => whole_binary::<i8>(op, saturate, a, b),
        Type::U16 => whole_binary::<u16>(op, saturate, a, b),
        Type::S16 => whole_binary::<i16>(op, saturate, a, b),
        Type::U32 => whole_binary::<u32>(op, saturate, a, b),
        Type::S32 => whole_binary::<i32>(op, saturate, a, b),
        Type::U64 => whole_binary::<u64>(op, saturate, a, b),
        Type::S64 => whole_binary::<i64>(op, saturate, a, b),
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

#[allow(clippy::float_cmp)] // exact
fn single_binary(op: Binary, rounding: Rounding, ftz: bool, saturate: bool, a: &Lanes, b: &Lanes) -> Lanes {
    let plain = rounding == Rounding::Nearest && !ftz && !saturate;
    let bits = |x: f32| u64::from(x.to_bits());
    match op {
        Binary::Add if plain => two(a, b, |x, y| bits(single(x) + single(y))),
        Binary::Subtract if plain => two(a, b, |x, y| bits(single(x) - single(y))),
        Binary::MultiplyLow if plain => two(a, b, |x, y| bits(single(x) * single(y))),
        Binary::Divide if plain => two(a, b, |x, y| bits(single(x) / single(y))),
        _ => two(a, b, |x, y| {
            let (mut x, mut y) = (single(x), single(y));
            if ftz {
                (x, y) = (flush(x), flush(y));
            }
            let is_nearest = rounding == Rounding::Nearest;
            let mut z = match op {
                Binary::Add if is_nearest => x + y,
                Binary::Subtract if is_nearest => x - y,
                Binary::MultiplyLow if is_nearest => x * y,
                Binary::Add => fma(x, 1.0, y, rounding),
                Binary::Subtract => fma(x, 1.0, -y, rounding),
                Binary::MultiplyLow => directed(f64::from(x) * f64::from(y), 0.0, rounding),
                Binary::Divide => x / y,
                Binary::Minimum if x == y => {
                    if x.is_sign_negative() {
                        x
                    } else {
                        y
                    }
                }
                Binary::Maximum if x == y => {
                    if x.is_sign_negative() {
                        y
                    } else {
                        x
                    }
                }
                Binary::Minimum => x.min(y),
                Binary::Maximum => x.max(y),
                _ => y.copysign(x),
            };
            if ftz {
                z = flush(z);
            }
            bits(if saturate { saturated(z) } else { z })
        }),
    }
}

fn saturated(x: f32) -> f32 {
    if x.is_nan() { 0.0 } else { x.clamp(0.0, 1.0) }
}

fn whole_ternary<T: Whole>(op: Ternary, a: &Lanes, b: &Lanes, c: &Lanes) -> Lanes {
    match op {
        Ternary::MultiplyAddHigh => three(a, b, c, |x, y, z| T::cut(x).high(T::cut(y)).add(T::cut(z)).bits()),
        Ternary::MultiplyAddWide => three(a, b, c, |x, y, z| T::cut(x).wide(T::cut(y)).wrapping_add(z)),
        _ => three(a, b, c, |x, y, z| T::cut(x).low(T::cut(y)).add(T::cut(z)).bits()),
    }
}

/// Three operands.
#[must_use]
#[allow(clippy::too_many_arguments, clippy::cast_possible_truncation)] // an instruction's parts; low halves are meant
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
        (Ternary::Fma | Ternary::MultiplyAddLow, Type::F32) if rounding == Rounding::Nearest && !ftz && !saturate => {
            three(a, b, c, |x, y, z| u64::from(single(x).mul_add(single(y), single(z)).to_bits()))
        }
        (Ternary::Fma | Ternary::MultiplyAddLow, Type::F32) => three(a, b, c, |x, y, z| {
            let (mut x, mut y, mut z) = (single(x), single(y), single(z));
            if ftz {
                (x, y, z) = (flush(x), flush(y), flush(z));
            }
            let mut r = fma(x, y, z, rounding);
            if ftz {
                r = flush(r);
            }
            u64::from(if saturate { saturated(r) } else { r }.to_bits())
        }),
        (_, Type::F64) => three(a, b, c, |x, y, z| double(x).mul_add(double(y), double(z)).to_bits()),
        // Products of these are exact in f64, and their sums nearly so.
        (_, Type::F16 | Type::Bf16) => {
            three(a, b, c, |x, y, z| narrow(widen(x, ty).mul_add(widen(y, ty), widen(z, ty)), ty))
        }
        (Ternary::BitFieldExtract, _) => three(a, b, c, |x, at, len| {
            let (at, len) = ((at & 0xff) as u32, (len & 0xff) as u32);
            let width = 8 * ty.bytes();
            let x = x & mask_of(ty);
            let sign = if ty.is_signed() && len != 0 && x >> (at + len - 1).min(width - 1) & 1 == 1 { !0 } else { 0 };
            let ones = if len >= 64 { !0 } else { (1_u64 << len) - 1 };
            let low = if at >= width { 0 } else { x >> at };
            let kept = if at >= width { 0 } else { ones & (mask_of(ty) >> at) };
            ((low & kept) | (sign & !kept)) & mask_of(ty)
        }),
        (Ternary::Permute, _) => three(a, b, c, |x, y, selector| {
            let bytes = ((y & 0xffff_ffff) << 32 | (x & 0xffff_ffff)).to_le_bytes();
            let mut out = [0; 8];
            for (i, byte) in out[..4].iter_mut().enumerate() {
                let pick = selector >> (4 * i) & 0xf;
                let found = bytes[(pick & 7) as usize];
                *byte = if pick & 8 == 0 { found } else { (found.cast_signed() >> 7).cast_unsigned() };
            }
            u64::from_le_bytes(out)
        }),
        (Ternary::FunnelLeft { is_clamped }, _) => three(a, b, c, |low, high, by| {
            let by = if is_clamped { (by as u32).min(32) } else { by as u32 & 31 };
            (((high & 0xffff_ffff) << 32 | (low & 0xffff_ffff)) << by) >> 32
        }),
        (Ternary::FunnelRight { is_clamped }, _) => three(a, b, c, |low, high, by| {
            let by = if is_clamped { (by as u32).min(32) } else { by as u32 & 31 };
            (((high & 0xffff_ffff) << 32 | (low & 0xffff_ffff)) >> by) & 0xffff_ffff
        }),
        (Ternary::Lop3(table), _) => three(a, b, c, |x, y, z| {
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
        }),
        (_, Type::U16) => whole_ternary::<u16>(op, a, b, c),
        (_, Type::S16) => whole_ternary::<i16>(op, a, b, c),
        (_, Type::S32) => whole_ternary::<i32>(op, a, b, c),
        (_, Type::U64) => whole_ternary::<u64>(op, a, b, c),
        (_, Type::S64) => whole_ternary::<i64>(op, a, b, c),
        _ => whole_ternary::<u32>(op, a, b, c),
    }
}

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

/// How a conversion is done.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_excessive_bools)] // the opcode's suffixes
pub struct Conversion {
    /// The result's type.
    pub to: Type,
    /// The operand's.
    pub from: Type,
    /// Which way.
    pub rounding: Rounding,
    /// Float to a whole float.
    pub to_whole: bool,
    /// Subnormals are zero.
    pub ftz: bool,
    /// Into the range.
    pub saturate: bool,
    /// Negative is zero.
    pub relu: bool,
}

/// Converts.
#[must_use]
pub fn convert(how: Conversion, a: &Lanes) -> Lanes {
    let Conversion { to, from, .. } = how;
    match (from.is_float(), to.is_float()) {
        (false, false) => {
            let cut = mask_of(to);
            match (how.saturate, from.is_signed()) {
                // Registers are wider than a small result: its sign is extended there.
                (false, true) => one(a, |x| extend(signed(x, from).cast_unsigned() & cut, to)),
                (false, false) => one(a, |x| extend(x & mask_of(from) & cut, to)),
                (true, _) => one(a, |x| clamped(x, from, to)),
            }
        }
        (false, true) => one(a, |x| from_whole(x, from, to)),
        (true, false) => one(a, |x| to_whole(widen(x, from), how)),
        (true, true) => one(a, |x| {
            let mut y = widen(x, from);
            if how.ftz && from == Type::F32 {
                y = f64::from(flush(single(x)));
            }
            if how.to_whole || (to == from && how.rounding != Rounding::Nearest) {
                y = whole_part(y, how.rounding);
            }
            if how.relu {
                y = y.max(0.0);
            }
            if how.saturate {
                y = if y.is_nan() { 0.0 } else { y.clamp(0.0, 1.0) };
            }
            let bits = narrow(y, to);
            if how.ftz && to == Type::F32 { u64::from(flush(single(bits)).to_bits()) } else { bits }
        }),
    }
}

fn extend(x: u64, ty: Type) -> u64 {
    if ty.is_signed() && ty.bytes() < 4 { signed(x, ty).cast_unsigned() & 0xffff_ffff } else { x }
}

fn clamped(x: u64, from: Type, to: Type) -> u64 {
    let x = if from.is_signed() { i128::from(signed(x, from)) } else { i128::from(x & mask_of(from)) };
    let bits = 8 * to.bytes();
    let (low, high) =
        if to.is_signed() { (-(1_i128 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // in range, or its two's complement
    let cut = x.clamp(low, high) as u64;
    extend(cut & mask_of(to), to)
}

#[allow(clippy::cast_precision_loss)] // rounding is meant
fn from_whole(x: u64, from: Type, to: Type) -> u64 {
    match (from.is_signed(), to) {
        (true, Type::F32) => (signed(x, from) as f32).to_bits().into(),
        (false, Type::F32) => ((x & mask_of(from)) as f32).to_bits().into(),
        (true, _) => (signed(x, from) as f64).to_bits(),
        (false, _) => ((x & mask_of(from)) as f64).to_bits(),
    }
}

fn whole_part(x: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => x.round_ties_even(),
        Rounding::Zero => x.trunc(),
        Rounding::Down => x.floor(),
        Rounding::Up => x.ceil(),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` saturates, as the instruction does
fn to_whole(x: f64, how: Conversion) -> u64 {
    let Conversion { to, from, rounding, .. } = how;
    if x.is_nan() {
        let is_small = from != Type::F64 && to.bytes() < 8;
        return if is_small { 0 } else { 1 << (8 * to.bytes() - 1) };
    }
    let x = whole_part(x, rounding);
    let bits = match to {
        Type::S64 => (x as i64).cast_unsigned(),
        Type::U64 => x as u64,
        Type::S32 => u64::from((x as i32).cast_unsigned()),
        Type::U32 => u64::from(x as u32),
        Type::S16 => i64::from(x as i16).cast_unsigned(),
        Type::U16 => u64::from(x as u16),
        Type::S8 => i64::from(x as i8).cast_unsigned(),
        _ => u64::from(x as u8),
    };
    extend(bits & mask_of(to), to)
}

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
    use super::{Conversion, atomic, binary, compare, convert, fma, insert, ternary, unary};
    use crate::ptx::instruction::{Atomic, Binary, Comparison, Rounding, Ternary, Type, Unary};

    fn two(op: Binary, ty: Type, a: u64, b: u64) -> u64 {
        binary(op, ty, Rounding::Nearest, false, false, &[a; 32], &[b; 32])[31]
    }

    fn three(op: Ternary, ty: Type, a: u64, b: u64, c: u64) -> u64 {
        ternary(op, ty, Rounding::Nearest, false, false, &[a; 32], &[b; 32], &[c; 32])[0]
    }

    fn to(to: Type, from: Type, to_whole: bool, a: u64) -> u64 {
        let (rounding, ftz, saturate, relu) = (Rounding::Nearest, false, false, false);
        convert(Conversion { to, from, rounding, to_whole, ftz, saturate, relu }, &[a; 32])[7]
    }

    fn bits(x: f32) -> u64 {
        x.to_bits().into()
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

    #[test]
    fn sums_are_rounded_in_the_direction_that_is_asked() {
        let tiny = f32::MIN_POSITIVE;
        assert_eq!(fma(1.0, 1.0, tiny, Rounding::Up).to_bits(), 1_f32.next_up().to_bits());
        assert_eq!(fma(1.0, 1.0, -tiny, Rounding::Down).to_bits(), 1_f32.next_down().to_bits());
        assert_eq!(fma(1.0, 1.0, tiny, Rounding::Down).to_bits(), 1_f32.to_bits());
        assert_eq!(fma(-1.0, 1.0, -tiny, Rounding::Zero).to_bits(), (-1_f32).to_bits());
        // Once, not twice: the product's tail decides.
        let x = 1.0 + f32::EPSILON;
        assert_eq!(fma(x, x, -1.0, Rounding::Nearest).to_bits(), x.mul_add(x, -1.0).to_bits());
    }

    #[test]
    fn conversions_round_saturate_and_know_nan() {
        assert_eq!(to(Type::Bf16, Type::F32, false, bits(1.003_906_3)), 0x3f80);
        assert_eq!(to(Type::Bf16, Type::F32, false, bits(1.011_718_8)), 0x3f82);
        assert_eq!(to(Type::S32, Type::F32, true, bits(2.5)), 2);
        assert_eq!(to(Type::S32, Type::F32, true, bits(1e20)), 0x7fff_ffff);
        assert_eq!(to(Type::U32, Type::F32, true, bits(-3.0)), 0);
        assert_eq!(to(Type::S32, Type::F32, true, bits(f32::NAN)), 0);
        assert_eq!(to(Type::S64, Type::S32, false, 0xffff_fffe), (-2_i64).cast_unsigned());
        assert_eq!(to(Type::U64, Type::U32, false, 0xdead_0000_0001), 1);
        assert_eq!(to(Type::F32, Type::U32, false, 3), bits(3.0));
        assert_eq!(to(Type::F32, Type::F32, true, bits(-2.5)), bits(-2.0));
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
