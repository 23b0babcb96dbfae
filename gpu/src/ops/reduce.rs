//! Sums and maxima along a row, in sixteen partial sums: as vector registers make them, and closer than one long chain.

use crate::Float;

/// Partial sums.
const LANES: usize = 16;

/// The sum of a * b.
pub(crate) fn dot<A: Float, B: Float>(a: &[A], b: &[B]) -> f32 {
    assert_eq!(a.len(), b.len(), "rows of a product");
    let mut sums = [0.0_f32; LANES];
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a.to_f32() * b.to_f32();
        }
    }
    for ((sum, a), b) in sums.iter_mut().zip(a_rest).zip(b_rest) {
        *sum += a.to_f32() * b.to_f32();
    }
    total(sums)
}

/// The sum of a * b * c.
pub(crate) fn dot3<A: Float, B: Float, C: Float>(a: &[A], b: &[B], c: &[C]) -> f32 {
    assert!(a.len() == b.len() && a.len() == c.len(), "rows of a product");
    let mut sums = [0.0_f32; LANES];
    for ((a, b), c) in a.chunks(LANES).zip(b.chunks(LANES)).zip(c.chunks(LANES)) {
        for (((sum, a), b), c) in sums.iter_mut().zip(a).zip(b).zip(c) {
            *sum += a.to_f32() * b.to_f32() * c.to_f32();
        }
    }
    total(sums)
}

/// The sum of x.
pub(crate) fn sum(x: &[f32]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    for x in x.chunks(LANES) {
        for (sum, x) in sums.iter_mut().zip(x) {
            *sum += x;
        }
    }
    total(sums)
}

/// The largest of x, -infinity of none.
pub(crate) fn max(x: &[f32]) -> f32 {
    let mut most = [f32::NEG_INFINITY; LANES];
    for x in x.chunks(LANES) {
        for (most, x) in most.iter_mut().zip(x) {
            *most = if *x > *most { *x } else { *most };
        }
    }
    most.into_iter().fold(f32::NEG_INFINITY, f32::max)
}

/// The partial sums, added as a tree.
fn total(mut sums: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        let (low, high) = sums.split_at_mut(half);
        for (low, high) in low.iter_mut().zip(high.iter()) {
            *low += *high;
        }
        half /= 2;
    }
    sums[0]
}

#[cfg(test)]
mod tests {
    use super::{dot, dot3, max, sum};

    #[test]
    fn every_element_counts_once() {
        for n in [0, 1, 15, 16, 17, 33, 100] {
            let a: Vec<f32> = (0..n).map(|i| crate::float::count(i) - 3.0).collect();
            // Integers: exact in any order. The sum of nothing is -0 in an iterator.
            let expected = a.iter().map(|x| x * x).sum::<f32>() + 0.0;
            assert_eq!(dot(&a, &a).to_bits(), expected.to_bits(), "{n}");
            let ones = vec![2.0_f32; n];
            assert_eq!(dot3(&a, &a, &ones).to_bits(), (2.0 * expected).to_bits(), "{n}");
            let expected = a.iter().sum::<f32>() + 0.0;
            assert_eq!(sum(&a).to_bits(), expected.to_bits(), "{n}");
        }
    }

    #[test]
    fn the_largest_wherever_it_is() {
        for n in 1..40 {
            for i in 0..n {
                let mut x = vec![-5.0; n];
                x[i] = -2.0;
                assert_eq!(max(&x).to_bits(), f32::to_bits(-2.0), "{n} {i}");
            }
        }
        assert_eq!(max(&[]).to_bits(), f32::NEG_INFINITY.to_bits());
    }
}
