//! The passes on the CPU.

use super::Columns;
use crate::Float;
use crate::ops::activation::host::sigmoid;
use crate::ops::columns;

/// y `[n]` += x `[n]`.
pub fn add<T: Float, S: Float>(y: &mut [T], x: &[S]) {
    assert_eq!(y.len(), x.len(), "y += x: slices of one length");
    for (y, x) in y.iter_mut().zip(x) {
        *y = T::of_f32(y.to_f32() + x.to_f32());
    }
}

/// out `[n]` = x `[n]` in another format.
pub fn convert<T: Float, S: Float>(out: &mut [T], x: &[S]) {
    assert_eq!(out.len(), x.len(), "a conversion: slices of one length");
    for (out, x) in out.iter_mut().zip(x) {
        *out = T::of_f32(x.to_f32());
    }
}

/// Every element of x becomes `value`.
pub fn fill<T: Float>(x: &mut [T], value: f32) {
    x.fill(T::of_f32(value));
}

/// y `[tokens, width]` *= sigmoid(gate `[tokens]`): Qwen2's gate of the shared expert.
pub fn scale_rows_sigmoid<T: Float>(y: &mut [T], gate: &[f32], width: usize) {
    assert_rows(y.len(), gate.len(), width);
    for (y, gate) in y.chunks_exact_mut(width).zip(gate) {
        let scale = sigmoid(*gate);
        for y in y {
            *y = T::of_f32(y.to_f32() * scale);
        }
    }
}

/// The backward pass of [`scale_rows_sigmoid`]: dy `[tokens, width]` becomes the gradient of what was gated, and
/// `d_gate` `[tokens]` that of the gate. `ungated` `[tokens, width]` is y before the gate.
pub fn scale_rows_sigmoid_backward<T: Float>(
    dy: &mut [T],
    d_gate: &mut [f32],
    ungated: &[T],
    gate: &[f32],
    width: usize,
) {
    assert_rows(dy.len(), gate.len(), width);
    assert!(ungated.len() == dy.len() && d_gate.len() == gate.len(), "a gate: slices of one shape");
    let rows = dy.chunks_exact_mut(width).zip(d_gate).zip(ungated.chunks_exact(width)).zip(gate);
    for (((dy, d_gate), ungated), gate) in rows {
        let scale = sigmoid(*gate);
        *d_gate = crate::ops::reduce::dot(dy, ungated) * scale * (1.0 - scale);
        for dy in dy {
            *dy = T::of_f32(dy.to_f32() * scale);
        }
    }
}

/// So many columns of out become columns of x, row by row.
pub fn copy_columns<T: Float>(out: &mut [T], to: Columns, x: &[T], from: Columns, width: usize) {
    let rows = to.rows(out.len(), width);
    assert_eq!(rows, from.rows(x.len(), width), "columns of as many rows");
    for (out, x) in out.chunks_exact_mut(to.all).zip(x.chunks_exact(from.all)) {
        out[to.first..][..width].copy_from_slice(&x[from.first..][..width]);
    }
}

/// The same columns of x go to each of the heads of a row: the rotary key that the heads of latent attention share.
pub fn share_columns<T: Float>(out: &mut [T], to: Columns, heads: usize, x: &[T], from: Columns, width: usize) {
    let rows = to.rows(out.len(), width);
    assert_eq!(rows, from.rows(x.len(), width) * heads, "heads of as many rows");
    for (heads, x) in out.chunks_exact_mut(heads * to.all).zip(x.chunks_exact(from.all)) {
        for head in heads.chunks_exact_mut(to.all) {
            head[to.first..][..width].copy_from_slice(&x[from.first..][..width]);
        }
    }
}

/// The backward pass of [`share_columns`]: columns of out become the sums of columns of the heads of x.
pub fn sum_columns<T: Float>(out: &mut [T], to: Columns, heads: usize, x: &[T], from: Columns, width: usize) {
    let rows = from.rows(x.len(), width);
    assert_eq!(rows, to.rows(out.len(), width) * heads, "heads of as many rows");
    for (out, x) in out.chunks_exact_mut(to.all).zip(x.chunks_exact(heads * from.all)) {
        let out = &mut out[to.first..][..width];
        out.fill(T::default());
        columns::accumulate(out, heads, |head, columns, sums| {
            for (sum, x) in sums.iter_mut().zip(&x[head * from.all + from.first..][columns]) {
                *sum += x.to_f32();
            }
        });
    }
}

impl Columns {
    /// The rows of so many elements, some columns of which are in them.
    pub(super) fn rows(self, elements: usize, width: usize) -> usize {
        let Self { all, first } = self;
        assert!(all > 0 && first + width <= all, "{width} columns from {first} of {all}");
        assert!(elements.is_multiple_of(all), "{elements} elements in rows of {all}");
        elements / all
    }
}

/// Panics unless the elements are `rows` rows of `width`.
fn assert_rows(elements: usize, rows: usize, width: usize) {
    assert!(width > 0 && elements == rows * width, "{rows} rows of {width} in {elements} elements");
}

#[cfg(test)]
mod tests {
    use super::{
        Columns, add, convert, copy_columns, fill, scale_rows_sigmoid, scale_rows_sigmoid_backward, share_columns,
        sum_columns,
    };
    use crate::ops::testing::{assert_close, assert_gradient, assert_same, random, weighted, widened};
    use crate::{Bf16, Float};

    #[test]
    fn sums_and_formats() {
        let mut y = [Bf16::of_f32(256.0), Bf16::of_f32(1.0)];
        // 257 is no bf16: the even neighbour.
        add(&mut y, &[Bf16::of_f32(1.0), Bf16::of_f32(2.0)]);
        assert_same("y", &widened(&y), &[256.0, 3.0]);
        let mut wide = [0.0_f32; 2];
        convert(&mut wide, &y);
        assert_same("wide", &wide, &[256.0, 3.0]);
        fill(&mut y, 0.5);
        assert_same("filled", &widened(&y), &[0.5, 0.5]);
    }

    #[test]
    fn gate_of_rows() {
        let gated = |y: &[f32], gate: &[f32], width| {
            let mut y = y.to_vec();
            scale_rows_sigmoid(&mut y, gate, width);
            y
        };
        // sigmoid(0) = 1/2, sigmoid(ln 3) = 3/4
        assert_close("y", &gated(&[2.0, 4.0, 8.0, 0.0], &[0.0, 3_f32.ln()], 2), &[1.0, 2.0, 6.0, 0.0], 1e-6);
        let mut rng = fastrand::Rng::with_seed(16);
        for (rows, width) in [(1, 1), (3, 5), (2, 40)] {
            let (y, gate, dy) =
                (random(&mut rng, rows * width), random(&mut rng, rows), random(&mut rng, rows * width));
            let (mut d, mut d_gate) = (dy.clone(), vec![f32::NAN; rows]);
            scale_rows_sigmoid_backward(&mut d, &mut d_gate, &y, &gate, width);
            assert_gradient("y", &y, &d, |y| weighted(&gated(y, &gate, width), &dy));
            assert_gradient("gate", &gate, &d_gate, |gate| weighted(&gated(&y, gate, width), &dy));
        }
    }

    #[test]
    fn ranges_of_columns() {
        let of = |all, first| Columns { all, first };
        let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let mut out = [0.0; 4];
        copy_columns(&mut out, of(2, 0), &x, of(3, 1), 2);
        assert_same("out", &out, &[2.0, 3.0, 5.0, 6.0]);
        let mut whole = x;
        copy_columns(&mut whole, of(3, 0), &[7.0, 8.0, 9.0, 10.0], of(2, 0), 2);
        assert_same("whole", &whole, &[7.0, 8.0, 3.0, 9.0, 10.0, 6.0]);
        copy_columns(&mut whole, of(3, 2), &x, of(3, 0), 1);
        assert_same("one", &whole, &[7.0, 8.0, 1.0, 9.0, 10.0, 4.0]);
    }

    #[test]
    fn a_part_of_every_head() {
        let (tokens, heads, width, offset, part_width) = (2, 3, 5, 1, 2);
        let mut rng = fastrand::Rng::with_seed(17);
        let (out, part) = (random(&mut rng, tokens * heads * width), random(&mut rng, tokens * part_width));
        let (to, from) = (Columns { all: width, first: offset }, Columns { all: part_width, first: 0 });
        let broadcast = |part: &[f32]| {
            let mut out = out.clone();
            share_columns(&mut out, to, heads, part, from, part_width);
            out
        };
        let filled = broadcast(&part);
        for (i, (after, before)) in filled.iter().zip(&out).enumerate() {
            let (token, dimension) = (i / (heads * width), i % width);
            let expected = if (1..3).contains(&dimension) { part[token * 2 + dimension - 1] } else { *before };
            assert_eq!(after.to_bits(), expected.to_bits(), "{i}");
        }
        let d = random(&mut rng, out.len());
        let mut d_part = vec![f32::NAN; part.len()];
        sum_columns(&mut d_part, from, heads, &d, to, part_width);
        assert_gradient("part", &part, &d_part, |part| weighted(&broadcast(part), &d));
        share_columns::<f32>(&mut [], to, heads, &[], from, part_width);
    }
}
