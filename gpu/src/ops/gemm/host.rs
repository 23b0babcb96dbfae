//! The products on the CPU.
//!
//! Formats other than f32 are widened panel by panel, summed in f32 and rounded once: the result is that of an f32
//! product of the widened matrices, rounded.

use super::product::{View, multiply, warm};
use crate::Float;
use crate::ops::columns;
use crate::ops::reduce::dot;

/// What is widened at once of a product in which not all is f32. faer sums as deep at a time.
const PANEL: Panel = Panel { rows: 192, columns: 512, depth: 512 };

/// The least rows of a thread. A single row would be summed in another order.
const SHARE: usize = 8;

/// The f32s of scratch that a product needs for each thread, whatever its size.
pub const SCRATCH: usize = PANEL.scratch_len();

/// Matrix products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gemm {
    /// Threads that share the rows of a result. One stays on the calling thread.
    pub threads: usize,
}

impl Gemm {
    /// The f32s of scratch that each product needs.
    #[must_use]
    pub const fn scratch_len(self) -> usize {
        self.threads * SCRATCH
    }

    /// Has each thread take the memory that it packs into, which is kept until it ends; a product would at its first time.
    pub fn warm(self) {
        warm();
        if self.threads > 1 {
            rayon::broadcast(|_| warm());
        }
    }

    /// The output of a linear layer: y `[m, n]` = x `[m, k]` wᵀ with w `[n, k]`, added to what y holds if it
    /// accumulates.
    pub fn forward<Y: Float, X: Float, W: Float>(
        &self,
        scratch: &mut [f32],
        y: &mut [Y],
        x: &[X],
        w: &[W],
        m: usize,
        n: usize,
        k: usize,
        accumulate: bool,
    ) {
        assert_lengths("y = x w^T", [(y.len(), m * n), (x.len(), m * k), (w.len(), n * k)]);
        self.product(scratch, y, View::rows(x, k), View::rows(w, k).transposed(), (m, n, k), accumulate);
    }

    /// The gradient of its input: dx `[m, k]` = dy `[m, n]` w with w `[n, k]`, added to what dx holds if it
    /// accumulates.
    pub fn input<X: Float, Y: Float, W: Float>(
        &self,
        scratch: &mut [f32],
        dx: &mut [X],
        dy: &[Y],
        w: &[W],
        m: usize,
        n: usize,
        k: usize,
        accumulate: bool,
    ) {
        assert_lengths("dx = dy w", [(dx.len(), m * k), (dy.len(), m * n), (w.len(), n * k)]);
        self.product(scratch, dx, View::rows(dy, n), View::rows(w, k), (m, k, n), accumulate);
    }

    /// The gradient of its weight: dw `[n, k]` += dyᵀ x with dy `[m, n]` and x `[m, k]`.
    pub fn weight<G: Float, Y: Float, X: Float>(
        &self,
        scratch: &mut [f32],
        dw: &mut [G],
        dy: &[Y],
        x: &[X],
        m: usize,
        n: usize,
        k: usize,
    ) {
        assert_lengths("dw = dy^T x", [(dw.len(), n * k), (dy.len(), m * n), (x.len(), m * k)]);
        self.product(scratch, dw, View::rows(dy, n).transposed(), View::rows(x, k), (n, k, m), true);
    }

    /// c `[m, n]` = a `[m, k]` b `[k, n]`, or += if it accumulates.
    fn product<C: Float, A: Float, B: Float>(
        self,
        scratch: &mut [f32],
        c: &mut [C],
        a: View<A>,
        b: View<B>,
        sizes: (usize, usize, usize),
        accumulate: bool,
    ) {
        assert!(self.threads > 0, "a product needs a thread");
        assert!(scratch.len() >= self.scratch_len(), "scratch of a product: {} f32s", scratch.len());
        if sizes.2 == 0 && !accumulate {
            c.fill(C::default());
        }
        if c.is_empty() || sizes.2 == 0 {
            return;
        }
        shared(self.threads, scratch, c, a, b, sizes, accumulate);
    }
}

/// y `[m, n]` += bias `[n]` in every row.
pub fn bias_forward<T: Float, W: Float>(y: &mut [T], bias: &[W], m: usize, n: usize) {
    assert_lengths("y += bias", [(y.len(), m * n), (bias.len(), n)]);
    if n == 0 {
        return;
    }
    for y in y.chunks_exact_mut(n) {
        for (y, bias) in y.iter_mut().zip(bias) {
            *y = T::of_f32(y.to_f32() + bias.to_f32());
        }
    }
}

/// db `[n]` += the column sums of dy `[m, n]`.
pub fn bias_backward<T: Float, G: Float>(db: &mut [G], dy: &[T], m: usize, n: usize) {
    assert_lengths("db += dy", [(db.len(), n), (dy.len(), m * n)]);
    columns::accumulate(db, m, |row, columns, sums| {
        for (sum, dy) in sums.iter_mut().zip(&dy[row * n..][columns]) {
            *sum += dy.to_f32();
        }
    });
}

/// y `[m, n]` += bias `[n]` times each row's scale `[m]`.
pub fn scaled_bias_forward<T: Float, W: Float>(y: &mut [T], bias: &[W], scale: &[f32], n: usize) {
    assert_lengths("y += scale bias", [(y.len(), scale.len() * n), (bias.len(), n)]);
    if n == 0 {
        return;
    }
    for (y, scale) in y.chunks_exact_mut(n).zip(scale) {
        for (y, bias) in y.iter_mut().zip(bias) {
            *y = T::of_f32(y.to_f32() + scale * bias.to_f32());
        }
    }
}

/// db `[n]` += the column sums of dy `[m, n]`, each row times its scale, and the gradients of the scales `[m]` += dy bias.
pub fn scaled_bias_backward<T: Float, W: Float, G: Float>(
    db: &mut [G],
    d_scale: &mut [f32],
    dy: &[T],
    bias: &[W],
    scale: &[f32],
    n: usize,
) {
    let m = scale.len();
    assert_lengths("db += scale dy", [(db.len(), n), (d_scale.len(), m), (dy.len(), m * n), (bias.len(), n)]);
    columns::accumulate(db, m, |row, columns, sums| {
        for (sum, dy) in sums.iter_mut().zip(&dy[row * n..][columns]) {
            *sum += scale[row] * dy.to_f32();
        }
    });
    for (row, d_scale) in d_scale.iter_mut().enumerate() {
        *d_scale += dot(&dy[row * n..][..n], bias);
    }
}

/// Panics unless each slice is as long as its shape says.
fn assert_lengths<const N: usize>(what: &str, lengths: [(usize, usize); N]) {
    for (length, shape) in lengths {
        assert_eq!(length, shape, "{what}: a slice and its shape");
    }
}

/// c = a b, or += if it accumulates, its rows halved until each thread has a share.
fn shared<C: Float, A: Float, B: Float>(
    threads: usize,
    scratch: &mut [f32],
    c: &mut [C],
    a: View<A>,
    b: View<B>,
    (m, n, k): (usize, usize, usize),
    accumulate: bool,
) {
    if threads == 1 || m < threads * SHARE {
        return panels(c, a, b, (m, n, k), accumulate, PANEL, scratch);
    }
    let (fewer, rows) = (threads / 2, m * (threads / 2) / threads);
    let (upper, lower) = c.split_at_mut(rows * n);
    let (first, second) = scratch.split_at_mut(fewer * SCRATCH);
    rayon::join(
        || shared(fewer, first, upper, a, b, (rows, n, k), accumulate),
        || shared(threads - fewer, second, lower, a.from(rows, 0), b, (m - rows, n, k), accumulate),
    );
}

/// The part of a product that is widened at once: `[rows, depth]` times `[depth, columns]`.
#[derive(Clone, Copy)]
struct Panel {
    rows: usize,
    columns: usize,
    depth: usize,
}

impl Panel {
    /// The f32s of both of its factors and of the result.
    const fn scratch_len(self) -> usize {
        self.rows * self.columns + self.depth * (self.rows + self.columns)
    }
}

/// The parts of at most `most` that a dimension is cut into, as first and length, about as long as each other: none is a
/// single row or column, which would be summed in another order, unless all are.
fn parts(length: usize, most: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = length.div_ceil(most);
    let start = move |part: usize| part * length / count;
    (0..count).map(move |part| (start(part), start(part + 1) - start(part)))
}

/// c = a b, or += if it accumulates, on one thread: all at once if all is f32, or panel by panel.
fn panels<C: Float, A: Float, B: Float>(
    c: &mut [C],
    a: View<A>,
    b: View<B>,
    (m, n, k): (usize, usize, usize),
    accumulate: bool,
    panel: Panel,
    scratch: &mut [f32],
) {
    if a.is_f32()
        && b.is_f32()
        && let Some(c) = C::slice_as_f32_mut(c)
    {
        return multiply(c, n, a, b, (m, n, k), accumulate, scratch);
    }
    let (sums, scratch) = scratch.split_at_mut(panel.rows * panel.columns);
    for (j, columns) in parts(n, panel.columns) {
        for (i, rows) in parts(m, panel.rows) {
            let mut product = |c: &mut [f32], stride| {
                for p in (0..k).step_by(panel.depth) {
                    let sizes = (rows, columns, panel.depth.min(k - p));
                    multiply(c, stride, a.from(i, p), b.from(p, j), sizes, accumulate || p > 0, scratch);
                }
            };
            if let Some(c) = C::slice_as_f32_mut(c) {
                product(&mut c[i * n + j..], n);
                continue;
            }
            let sums = &mut sums[..rows * columns];
            if accumulate {
                for (sums, c) in sums.chunks_exact_mut(columns).zip(c[i * n..].chunks(n)) {
                    for (sum, c) in sums.iter_mut().zip(&c[j..]) {
                        *sum = c.to_f32();
                    }
                }
            }
            product(sums, columns);
            for (sums, c) in sums.chunks_exact(columns).zip(c[i * n..].chunks_mut(n)) {
                for (sum, c) in sums.iter().zip(&mut c[j..]) {
                    *c = C::of_f32(*sum);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Gemm, PANEL, Panel, View, bias_backward, bias_forward, panels, parts};
    use crate::Bf16;
    use crate::ops::testing::{assert_close, assert_same, random, rounded, weighted, widened};

    /// a b in f64, with a `[m, k]` and b `[k, n]`.
    fn product(a: &[f32], b: &[f32], (m, n, k): (usize, usize, usize)) -> Vec<f32> {
        let mut c = Vec::new();
        for i in 0..m {
            for j in 0..n {
                let column: Vec<f32> = (0..k).map(|p| b[p * n + j]).collect();
                #[expect(clippy::cast_possible_truncation, reason = "the nearest f32")]
                c.push(weighted(&a[i * k..][..k], &column) as f32);
            }
        }
        c
    }

    fn transposed(x: &[f32], rows: usize, columns: usize) -> Vec<f32> {
        (0..rows * columns).map(|i| x[i % rows * columns + i / rows]).collect()
    }

    const SHAPES: [(usize, usize, usize); 7] =
        [(1, 1, 1), (2, 3, 5), (7, 33, 40), (13, 17, 300), (6, 32, 64), (200, 35, 9), (5, 520, 3)];

    #[test]
    fn the_three_products_are_those_of_their_definition() {
        let mut rng = fastrand::Rng::with_seed(1);
        for threads in [1, 3] {
            let gemm = Gemm { threads };
            let mut scratch = vec![f32::NAN; gemm.scratch_len()];
            for (m, n, k) in SHAPES {
                let (x, w, dy) = (random(&mut rng, m * k), random(&mut rng, n * k), random(&mut rng, m * n));
                let y0 = random(&mut rng, m * n);
                let name = format!("{m} {n} {k}");

                let expected = product(&x, &transposed(&w, n, k), (m, n, k));
                let mut y = y0.clone();
                gemm.forward(&mut scratch, &mut y, &x, &w, m, n, k, false);
                assert_close(&name, &y, &expected, 2e-5);
                y.clone_from(&y0);
                gemm.forward(&mut scratch, &mut y, &x, &w, m, n, k, true);
                let sum: Vec<f32> = expected.iter().zip(&y0).map(|(a, b)| a + b).collect();
                assert_close(&name, &y, &sum, 2e-5);

                let expected = product(&dy, &w, (m, k, n));
                let mut dx = vec![7.0; m * k];
                gemm.input(&mut scratch, &mut dx, &dy, &w, m, n, k, false);
                assert_close(&name, &dx, &expected, 5e-5);
                gemm.input(&mut scratch, &mut dx, &dy, &w, m, n, k, true);
                let twice: Vec<f32> = expected.iter().map(|x| 2.0 * x).collect();
                assert_close(&name, &dx, &twice, 1e-4);

                let mut dw = vec![1.0; n * k];
                gemm.weight(&mut scratch, &mut dw, &dy, &x, m, n, k);
                let expected: Vec<f32> =
                    product(&transposed(&dy, m, n), &x, (n, k, m)).iter().map(|x| x + 1.0).collect();
                assert_close(&name, &dw, &expected, 2e-5);
            }
        }
    }

    #[test]
    fn bf16_is_the_f32_product_rounded_once() {
        let mut rng = fastrand::Rng::with_seed(2);
        let gemm = Gemm { threads: 1 };
        let mut scratch = vec![f32::NAN; gemm.scratch_len()];
        for (m, n, k) in [(3, 5, 7), (33, 20, 600), (390, 2, 3), (2, 515, 3)] {
            let x: Vec<Bf16> = rounded(&random(&mut rng, m * k));
            let w: Vec<Bf16> = rounded(&random(&mut rng, n * k));
            let y0: Vec<Bf16> = rounded(&random(&mut rng, m * n));
            let (wide_x, wide_w) = (widened(&x), widened(&w));
            for accumulate in [false, true] {
                let (mut y, mut wide) = (y0.clone(), widened(&y0));
                gemm.forward(&mut scratch, &mut y, &x, &w, m, n, k, accumulate);
                gemm.forward(&mut scratch, &mut wide, &wide_x, &wide_w, m, n, k, accumulate);
                assert_same("y", &widened(&y), &widened::<Bf16>(&rounded(&wide)));
            }
            // The gradient of the weight is kept in f32.
            let (mut dw, mut wide) = (vec![0.5_f32; n * k], vec![0.5_f32; n * k]);
            gemm.weight(&mut scratch, &mut dw, &y0, &x, m, n, k);
            gemm.weight(&mut scratch, &mut wide, &widened(&y0), &wide_x, m, n, k);
            assert_same("dw", &dw, &wide);
        }
    }

    #[test]
    fn panels_join_without_a_seam() {
        let mut rng = fastrand::Rng::with_seed(3);
        let (m, n, k) = (23, 71, 190);
        let (a, b, c) = (random(&mut rng, m * k), random(&mut rng, k * n), random(&mut rng, m * n));
        let (a, b): (Vec<Bf16>, Vec<Bf16>) = (rounded(&a), rounded(&b));
        let (wide_a, wide_b) = (widened(&a), widened(&b));
        for accumulate in [false, true] {
            let run = |panel: Panel| {
                let (mut wide, mut narrow) = (c.clone(), rounded::<Bf16>(&c));
                let mut scratch = vec![f32::NAN; panel.scratch_len()];
                panels(&mut wide, View::rows(&a, k), View::rows(&b, n), (m, n, k), accumulate, panel, &mut scratch);
                panels(&mut narrow, View::rows(&a, k), View::rows(&b, n), (m, n, k), accumulate, panel, &mut scratch);
                (wide, widened(&narrow))
            };
            let (whole, _) = run(Panel { rows: m, columns: n, depth: k });
            let mut wide = c.clone();
            let sizes = (m, n, k);
            panels(&mut wide, View::rows(&wide_a, k), View::rows(&wide_b, n), sizes, accumulate, PANEL, &mut []);
            assert_same("widened here", &wide, &whole);
            for (rows, columns) in [(1, 1), (4, 16), (7, 33), (23, 71)] {
                for depth in [1, 50, 95, k] {
                    let (wide, narrow) = run(Panel { rows, columns, depth });
                    assert_close("f32", &wide, &whole, 5e-5);
                    assert_close("bf16", &narrow, &whole, 0.1);
                }
            }
        }
    }

    #[test]
    fn parts_are_alike() {
        for (length, most) in [(0, 3), (1, 3), (3, 3), (4, 3), (7, 3), (193, 192), (1000, 192)] {
            let parts: Vec<_> = parts(length, most).collect();
            let mut next = 0;
            for (first, part) in &parts {
                assert_eq!(*first, next);
                assert!(*part <= most && *part >= length / parts.len(), "{length} {most}: {part}");
                next += part;
            }
            assert_eq!(next, length);
        }
    }

    #[test]
    fn threads_change_no_bit() {
        let mut rng = fastrand::Rng::with_seed(4);
        for (m, n, k) in [
            (37, 19, 70),
            (40, 1, 70),
            (41, 2, 1),
            (41, 3, 2),
            (43, 5, 20),
            (53, 4, 4),
            (64, 96, 33),
            (129, 130, 131),
            (200, 7, 1100),
            (61, 600, 513),
            (400, 3, 3),
            (80, 16, 4),
        ] {
            let (x, w, y0) = (random(&mut rng, m * k), random(&mut rng, n * k), random(&mut rng, m * n));
            let (narrow_x, narrow_w): (Vec<Bf16>, Vec<Bf16>) = (rounded(&x), rounded(&w));
            for accumulate in [false, true] {
                let run = |threads| {
                    let gemm = Gemm { threads };
                    let scratch = &mut vec![f32::NAN; gemm.scratch_len()];
                    let (mut y, mut narrow, mut dw) = (y0.clone(), rounded::<Bf16>(&y0), w.clone());
                    gemm.forward(scratch, &mut y, &x, &w, m, n, k, accumulate);
                    gemm.forward(scratch, &mut narrow, &narrow_x, &narrow_w, m, n, k, accumulate);
                    let mut dx = x.clone();
                    gemm.input(scratch, &mut dx, &y, &w, m, n, k, accumulate);
                    gemm.weight(scratch, &mut dw, &y0, &x, m, n, k);
                    [y, widened(&narrow), dx, dw]
                };
                let one = run(1);
                for threads in [2, 3, 5] {
                    for ((name, one), more) in ["y", "bf16", "dx", "dw"].iter().zip(&one).zip(run(threads)) {
                        assert_same(&format!("{name} {m} {n} {k}, {threads} threads"), &more, one);
                    }
                }
            }
        }
    }

    #[test]
    fn empty_dimensions() {
        let gemm = Gemm { threads: 2 };
        let mut scratch = vec![0.0; gemm.scratch_len()];
        for (m, n, k) in [(0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 0)] {
            let mut y = vec![1.0_f32; m * n];
            gemm.forward(&mut scratch, &mut y, &vec![1.0; m * k], &vec![1.0_f32; n * k], m, n, k, false);
            assert_same("y", &y, &vec![0.0; m * n]);
            let mut y = vec![Bf16::ONE; m * n];
            gemm.forward(&mut scratch, &mut y, &vec![Bf16::ONE; m * k], &vec![1.0_f32; n * k], m, n, k, true);
            assert_same("y", &widened(&y), &vec![1.0; m * n]);
            let mut dx = vec![1.0_f32; m * k];
            gemm.input(&mut scratch, &mut dx, &vec![1.0; m * n], &vec![1.0_f32; n * k], m, n, k, false);
            assert_same("dx", &dx, &vec![0.0; m * k]);
            let mut dw = vec![1.0_f32; n * k];
            gemm.weight(&mut scratch, &mut dw, &vec![1.0_f32; m * n], &vec![1.0; m * k], m, n, k);
            assert_same("dw", &dw, &vec![1.0; n * k]);
            bias_forward(&mut vec![1.0_f32; m * n], &vec![1.0_f32; n], m, n);
        }
    }

    #[test]
    fn biases() {
        let mut rng = fastrand::Rng::with_seed(5);
        let (m, n) = (9, 131);
        let (y0, bias) = (random(&mut rng, m * n), random(&mut rng, n));
        let mut y = y0.clone();
        bias_forward(&mut y, &bias, m, n);
        let expected: Vec<f32> = y0.iter().enumerate().map(|(i, y)| y + bias[i % n]).collect();
        assert_same("y", &y, &expected);

        let mut db = bias.clone();
        bias_backward(&mut db, &y0, m, n);
        let sums = product(&vec![1.0; m], &y0, (1, n, m));
        let expected: Vec<f32> = sums.iter().zip(&bias).map(|(a, b)| a + b).collect();
        assert_close("db", &db, &expected, 1e-5);
    }
}
