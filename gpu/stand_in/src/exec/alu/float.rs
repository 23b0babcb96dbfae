//! Floating-point numbers: f32 in every rounding, f64, f16 and bf16 to nearest.

use super::{Lanes, three, two};
use crate::ptx::instruction::Type;
use crate::ptx::instruction::{Binary, Rounding, Unary};
use half::{bf16, f16};

#[inline]
pub(super) fn single(bits: u64) -> f32 {
    #[allow(clippy::cast_possible_truncation)] // a register's low half
    f32::from_bits(bits as u32)
}

#[inline]
pub(super) fn double(bits: u64) -> f64 {
    f64::from_bits(bits)
}

pub(super) fn flush(x: f32) -> f32 {
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
fn fma(a: f32, b: f32, c: f32, rounding: Rounding) -> f32 {
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

pub(super) fn unary_single(op: Unary, x: f32) -> f32 {
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

/// Two operands in f32.
pub(super) fn single_binary(op: Binary, rounding: Rounding, ftz: bool, saturate: bool, a: &Lanes, b: &Lanes) -> Lanes {
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
            let mut z = of_two(op, rounding, x, y);
            if ftz {
                z = flush(z);
            }
            bits(if saturate { saturated(z) } else { z })
        }),
    }
}

#[allow(clippy::float_cmp)] // exact
fn of_two(op: Binary, rounding: Rounding, x: f32, y: f32) -> f32 {
    let is_nearest = rounding == Rounding::Nearest;
    // Of zeros, -0 is the smaller one.
    let (low, high) = if x.is_sign_negative() { (x, y) } else { (y, x) };
    match op {
        Binary::Add if is_nearest => x + y,
        Binary::Subtract if is_nearest => x - y,
        Binary::MultiplyLow if is_nearest => x * y,
        Binary::Add => fma(x, 1.0, y, rounding),
        Binary::Subtract => fma(x, 1.0, -y, rounding),
        Binary::MultiplyLow => directed(f64::from(x) * f64::from(y), 0.0, rounding),
        Binary::Divide => x / y,
        Binary::Minimum if x == y => low,
        Binary::Maximum if x == y => high,
        Binary::Minimum => x.min(y),
        Binary::Maximum => x.max(y),
        _ => y.copysign(x),
    }
}

fn saturated(x: f32) -> f32 {
    if x.is_nan() { 0.0 } else { x.clamp(0.0, 1.0) }
}

/// `a * b + c` in f32.
pub(super) fn single_fma(rounding: Rounding, ftz: bool, saturate: bool, a: &Lanes, b: &Lanes, c: &Lanes) -> Lanes {
    if rounding == Rounding::Nearest && !ftz && !saturate {
        return three(a, b, c, |x, y, z| u64::from(single(x).mul_add(single(y), single(z)).to_bits()));
    }
    three(a, b, c, |x, y, z| {
        let (mut x, mut y, mut z) = (single(x), single(y), single(z));
        if ftz {
            (x, y, z) = (flush(x), flush(y), flush(z));
        }
        let mut r = fma(x, y, z, rounding);
        if ftz {
            r = flush(r);
        }
        u64::from(if saturate { saturated(r) } else { r }.to_bits())
    })
}

#[cfg(test)]
mod tests {
    use super::fma;
    use crate::ptx::instruction::Rounding;

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
}
