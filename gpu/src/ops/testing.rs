//! What the tests of operations share: random tensors, comparison, and central differences.

use crate::Float;

/// A random tensor, uniform in -1..1.
pub(crate) fn random(rng: &mut fastrand::Rng, n: usize) -> Vec<f32> {
    (0..n).map(|_| 2.0 * rng.f32() - 1.0).collect()
}

/// Rounded to a format.
pub(crate) fn rounded<T: Float>(x: &[f32]) -> Vec<T> {
    x.iter().map(|x| T::of_f32(*x)).collect()
}

/// Widened to f32.
pub(crate) fn widened<T: Float>(x: &[T]) -> Vec<f32> {
    x.iter().map(|x| x.to_f32()).collect()
}

/// Panics where two tensors differ by more than `tolerance`, or either is not a number.
#[track_caller]
pub(crate) fn assert_close(name: &str, got: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(got.len(), expected.len(), "{name}: lengths");
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((got - expected).abs() <= tolerance, "{name}[{i}]: {got}, expected {expected}");
    }
}

/// Panics where two tensors differ in a bit.
#[track_caller]
pub(crate) fn assert_same(name: &str, got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len(), "{name}: lengths");
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_eq!(got.to_bits(), expected.to_bits(), "{name}[{i}]: {got}, expected {expected}");
    }
}

/// The sum of y * weight in f64: a loss whose gradient in y is `weight`.
pub(crate) fn weighted(y: &[f32], weight: &[f32]) -> f64 {
    assert_eq!(y.len(), weight.len());
    y.iter().zip(weight).map(|(y, w)| f64::from(*y) * f64::from(*w)).sum()
}

/// Panics where a gradient of `loss` at x differs from the central difference. The tolerance takes in the third
/// derivative over a step of 2^-7 and f32 noise of the forward pass divided by it.
#[track_caller]
pub(crate) fn assert_gradient(name: &str, x: &[f32], gradient: &[f32], mut loss: impl FnMut(&[f32]) -> f64) {
    assert_eq!(x.len(), gradient.len(), "{name}: lengths");
    let step = 0.007_812_5_f32;
    let mut moved = x.to_vec();
    for (i, gradient) in gradient.iter().enumerate() {
        // The step as it is after rounding.
        let (up, down) = (x[i] + step, x[i] - step);
        moved[i] = up;
        let above = loss(&moved);
        moved[i] = down;
        let below = loss(&moved);
        moved[i] = x[i];
        let expected = (above - below) / f64::from(up - down);
        let difference = (f64::from(*gradient) - expected).abs();
        assert!(difference <= 1e-3 * expected.abs().max(1.0), "{name}[{i}]: {gradient}, differences say {expected}");
    }
}
