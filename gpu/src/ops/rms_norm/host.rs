//! The norm on the CPU. x is `[rows, width]`; rstd `[rows]` is what the forward pass keeps for the backward pass.

use crate::Float;
use crate::float::count;
use crate::ops::columns;
use crate::ops::reduce::{dot, dot3};

/// rstd `[rows]` = 1 / sqrt(mean(x²) + eps) of each row of x `[rows, width]`.
pub fn statistics<T: Float>(rstd: &mut [f32], x: &[T], width: usize, eps: f32) {
    assert_rows(x.len(), rstd.len(), width);
    for (rstd, x) in rstd.iter_mut().zip(x.chunks_exact(width)) {
        *rstd = 1.0 / (dot(x, x) / count(width) + eps).sqrt();
    }
}

/// y `[rows, width]` = x * rstd * w, with w `[width]`.
pub fn forward<T: Float, W: Float>(y: &mut [T], x: &[T], rstd: &[f32], w: &[W], width: usize) {
    assert_rows(x.len(), rstd.len(), width);
    assert!(y.len() == x.len() && w.len() == width, "y = norm(x): a slice and its shape");
    for ((y, x), rstd) in y.chunks_exact_mut(width).zip(x.chunks_exact(width)).zip(rstd) {
        for ((y, x), w) in y.iter_mut().zip(x).zip(w) {
            *y = T::of_f32(x.to_f32() * rstd * w.to_f32());
        }
    }
}

/// dx `[rows, width]` += the gradient of x and dw `[width]` += that of w, from dy `[rows, width]`.
pub fn backward<T: Float, W: Float, G: Float>(
    dx: &mut [T],
    dw: &mut [G],
    dy: &[T],
    x: &[T],
    rstd: &[f32],
    w: &[W],
    width: usize,
) {
    assert!(dx.len() == x.len(), "dx of a norm: a slice and its shape");
    weight(dw, dy, x, rstd, w, width);
    let rows = dx.chunks_exact_mut(width).zip(dy.chunks_exact(width)).zip(x.chunks_exact(width)).zip(rstd);
    for (((dx, dy), x), rstd) in rows {
        let row = Row::new(dy, x, *rstd, w);
        for (((dx, dy), x), w) in dx.iter_mut().zip(dy).zip(x).zip(w) {
            *dx = T::of_f32(dx.to_f32() + row.gradient(*dy, *x, *w));
        }
    }
}

/// As [`backward`], where dy `[rows, width]` becomes the gradient of x.
pub fn backward_in_place<T: Float, W: Float, G: Float>(
    dy: &mut [T],
    dw: &mut [G],
    x: &[T],
    rstd: &[f32],
    w: &[W],
    width: usize,
) {
    weight(dw, dy, x, rstd, w, width);
    for ((dy, x), rstd) in dy.chunks_exact_mut(width).zip(x.chunks_exact(width)).zip(rstd) {
        let row = Row::new(dy, x, *rstd, w);
        for ((dy, x), w) in dy.iter_mut().zip(x).zip(w) {
            *dy = T::of_f32(row.gradient(*dy, *x, *w));
        }
    }
}

/// dw `[width]` += the sum over rows of dy * x * rstd.
fn weight<T: Float, W: Float, G: Float>(dw: &mut [G], dy: &[T], x: &[T], rstd: &[f32], w: &[W], width: usize) {
    assert_rows(x.len(), rstd.len(), width);
    let fits = dy.len() == x.len() && w.len() == width && dw.len() == width;
    assert!(fits, "gradient of a norm: a slice and its shape");
    columns::accumulate(dw, rstd.len(), |row, columns, sums| {
        let (dy, x) = (&dy[row * width..][columns.clone()], &x[row * width..][columns]);
        for ((sum, dy), x) in sums.iter_mut().zip(dy).zip(x) {
            *sum += dy.to_f32() * (x.to_f32() * rstd[row]);
        }
    });
}

/// What the elements of a row have in common: with n = x * rstd, dx = rstd * (dy * w - n * mean(dy * w * n)).
struct Row {
    rstd: f32,
    /// mean(dy * w * n)
    along: f32,
}

impl Row {
    fn new<T: Float, W: Float>(dy: &[T], x: &[T], rstd: f32, w: &[W]) -> Self {
        Self { rstd, along: dot3(dy, w, x) * rstd / count(x.len()) }
    }

    fn gradient<T: Float, W: Float>(&self, dy: T, x: T, w: W) -> f32 {
        self.rstd * (dy.to_f32() * w.to_f32() - x.to_f32() * self.rstd * self.along)
    }
}

/// Panics unless x is `[rows, width]`.
fn assert_rows(elements: usize, rows: usize, width: usize) {
    assert!(width > 0 && elements == rows * width, "{rows} rows of {width} in {elements} elements");
}

#[cfg(test)]
mod tests {
    use super::{backward, backward_in_place, forward, statistics};
    use crate::Bf16;
    use crate::ops::testing::{assert_close, assert_gradient, assert_same, random, rounded, weighted, widened};

    const EPS: f32 = 1e-2;

    fn norm(x: &[f32], w: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let mut rstd = vec![f32::NAN; x.len() / w.len()];
        statistics(&mut rstd, x, w.len(), EPS);
        let mut y = vec![f32::NAN; x.len()];
        forward(&mut y, x, &rstd, w, w.len());
        (y, rstd)
    }

    #[test]
    fn eps_is_inside_the_root() {
        let (y, rstd) = norm(&[0.3, -0.4, 0.0, 0.0], &[1.0, 2.0]);
        // mean(x²) = 0.125, so 1 / sqrt(0.135).
        assert_close("rstd", &rstd, &[2.721_655_3, 10.0], 1e-6);
        assert_close("y", &y, &[0.816_496_6, -2.177_324_3, 0.0, 0.0], 1e-6);
    }

    #[test]
    fn gradients() {
        let mut rng = fastrand::Rng::with_seed(6);
        for (rows, width) in [(1, 1), (3, 7), (4, 33), (2, 150)] {
            let (x, w, dy) = (random(&mut rng, rows * width), random(&mut rng, width), random(&mut rng, rows * width));
            let (_, rstd) = norm(&x, &w);
            let (mut dx, mut dw) = (vec![0.0_f32; x.len()], vec![0.0_f32; width]);
            backward(&mut dx, &mut dw, &dy, &x, &rstd, &w, width);
            assert_gradient("dx", &x, &dx, |x| weighted(&norm(x, &w).0, &dy));
            assert_gradient("dw", &w, &dw, |w| weighted(&norm(&x, w).0, &dy));

            // Both are added to, and in place is the same.
            let (mut twice, mut twice_dw) = (dx.clone(), dw.clone());
            backward(&mut twice, &mut twice_dw, &dy, &x, &rstd, &w, width);
            assert_same("2 dx", &twice, &dx.iter().map(|x| 2.0 * x).collect::<Vec<_>>());
            assert_close("2 dw", &twice_dw, &dw.iter().map(|x| 2.0 * x).collect::<Vec<_>>(), 1e-5);
            let (mut in_place, mut in_place_dw) = (dy.clone(), vec![0.0_f32; width]);
            backward_in_place(&mut in_place, &mut in_place_dw, &x, &rstd, &w, width);
            assert_same("dx in place", &in_place, &dx);
            assert_same("dw in place", &in_place_dw, &dw);
        }
    }

    #[test]
    fn bf16_is_f32_rounded_once() {
        let mut rng = fastrand::Rng::with_seed(7);
        let (rows, width) = (3, 20);
        let x: Vec<Bf16> = rounded(&random(&mut rng, rows * width));
        let w: Vec<Bf16> = rounded(&random(&mut rng, width));
        let (expected, rstd) = norm(&widened(&x), &widened(&w));
        let mut y = vec![Bf16::ZERO; x.len()];
        forward(&mut y, &x, &rstd, &w, width);
        assert_same("y", &widened(&y), &widened::<Bf16>(&rounded(&expected)));
    }
}
