//! The exponential of rows of scores, in arithmetic that compilers vectorise; `f32::exp` is a call for each.

use super::reduce::sum;
use pulp::Arch;

/// Every x becomes exp(x * scale - shift).
pub(crate) fn exp_row(x: &mut [f32], scale: f32, shift: f32) {
    Arch::new().dispatch(|| {
        for x in x {
            *x = exp(*x * scale - shift);
        }
    });
}

/// The sum of exp(x - shift).
pub(crate) fn sum_exp(x: &[f32], shift: f32) -> f32 {
    let arch = Arch::new();
    let mut powers = [0.0_f32; 256];
    let block = powers.len();
    let sum_of = |x: &[f32]| {
        let powers = &mut powers[..x.len()];
        // A loop that adds too would not be vectorised.
        arch.dispatch(|| {
            for (power, x) in powers.iter_mut().zip(x) {
                *power = exp(*x - shift);
            }
        });
        sum(powers)
    };
    x.chunks(block).map(sum_of).sum()
}

/// exp(x) to two units in the last place; 0 below the smallest normal number and infinity above 2.4e38.
#[inline(always)]
#[allow(clippy::inline_always, reason = "it must be compiled for the instructions of the loop it is in")]
pub(crate) fn exp(x: f32) -> f32 {
    // x = n ln 2 + r with |r| <= ln 2 / 2. Adding 1.5 * 2^23 leaves n, rounded, in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    // The upper part of ln 2 has few digits, so that n times it is exact.
    const UPPER: f32 = 355.0 / 512.0;
    const LOWER: f32 = -2.121_944_4e-4;
    // Where the power of two is still a normal number.
    const LEAST: f32 = -87.336_54;
    const MOST: f32 = 88.376_26;
    let bounded = x.clamp(LEAST, MOST);
    let shifted = bounded * core::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = bounded - n * UPPER - n * LOWER;
    // The series up to r^7 / 7!: what it leaves out is below 2^-27 of the result.
    let mut series = 1.0 / 5040.0;
    for factor in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        series = series * r + factor;
    }
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    let inside = series * power;
    if x < LEAST {
        0.0
    } else if x > MOST {
        f32::INFINITY
    } else {
        inside
    }
}

#[cfg(test)]
mod tests {
    use super::{exp, exp_row, sum_exp};

    #[test]
    fn two_units_in_the_last_place() {
        let mut x = -87.33_f32;
        while x < 88.37 {
            let exact = f64::from(x).exp();
            let error = ((f64::from(exp(x)) - exact) / exact).abs();
            assert!(error < 1.8e-7, "exp({x}) = {}, error {error:e}", exp(x));
            x += 0.001_37;
        }
    }

    #[test]
    fn ends_and_exact_values() {
        for (x, expected) in [
            (0.0, 1.0),
            (-0.0, 1.0),
            (-87.4, 0.0),
            (-1e30, 0.0),
            (f32::NEG_INFINITY, 0.0),
            (88.4, f32::INFINITY),
            (f32::INFINITY, f32::INFINITY),
        ] {
            assert_eq!(exp(x).to_bits(), f32::to_bits(expected), "exp({x})");
        }
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn a_row() {
        let mut row: Vec<f32> = (0..21_u8).map(f32::from).collect();
        exp_row(&mut row, 0.25, 2.0);
        for (i, y) in (0..21_u8).zip(row) {
            let exact = (f32::from(i) * 0.25 - 2.0).exp();
            assert!((y / exact - 1.0).abs() < 3e-7, "{i}: {y} {exact}");
        }
        // 2^0 to 2^20 over 2^20.
        let powers: Vec<f32> = (0..21_u8).map(|i| f32::from(i) * core::f32::consts::LN_2).collect();
        assert!((sum_exp(&powers, 20.0 * core::f32::consts::LN_2) - (2.0 - 2_f32.powi(-20))).abs() < 3e-6);
    }
}
