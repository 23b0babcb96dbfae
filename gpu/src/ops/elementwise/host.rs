//! The passes on the CPU.

use crate::Float;
use crate::ops::activation::host::sigmoid;
use crate::ops::columns;

/// y `[n]` += x `[n]`.
pub fn add<T: Float>(y: &mut [T], x: &[T]) {
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

/// out `[rows, width]` = columns from.. of x `[rows, x_width]`.
pub fn columns<T: Float>(out: &mut [T], x: &[T], rows: usize, x_width: usize, from: usize, width: usize) {
    assert_columns(x.len(), out.len(), rows, x_width, from, width);
    for (out, x) in out.chunks_exact_mut(width).zip(x.chunks_exact(x_width)) {
        out.copy_from_slice(&x[from..][..width]);
    }
}

/// Columns from.. of out `[rows, out_width]` = x `[rows, width]`.
pub fn set_columns<T: Float>(out: &mut [T], x: &[T], rows: usize, out_width: usize, from: usize, width: usize) {
    assert_columns(out.len(), x.len(), rows, out_width, from, width);
    for (out, x) in out.chunks_exact_mut(out_width).zip(x.chunks_exact(width)) {
        out[from..][..width].copy_from_slice(x);
    }
}

/// Columns from.. of out `[rows, out_width]` += x `[rows, width]`.
pub fn add_columns<T: Float>(out: &mut [T], x: &[T], rows: usize, out_width: usize, from: usize, width: usize) {
    assert_columns(out.len(), x.len(), rows, out_width, from, width);
    for (out, x) in out.chunks_exact_mut(out_width).zip(x.chunks_exact(width)) {
        add(&mut out[from..][..width], x);
    }
}

/// Dimensions offset.. of every head of out `[tokens, heads, width]` = part `[tokens, part_width]`: the rotary key that
/// the heads of latent attention share.
pub fn broadcast_head<T: Float>(out: &mut [T], part: &[T], heads: usize, width: usize, offset: usize) {
    let part_width = part_width(out.len(), part.len(), heads, width, offset);
    for (out, part) in out.chunks_exact_mut(heads * width).zip(part.chunks_exact(part_width)) {
        for head in out.chunks_exact_mut(width) {
            head[offset..][..part_width].copy_from_slice(part);
        }
    }
}

/// The backward pass of [`broadcast_head`]: part `[tokens, part_width]` = the sum over heads of dimensions offset.. of
/// d `[tokens, heads, width]`.
pub fn reduce_heads<T: Float>(part: &mut [T], d: &[T], heads: usize, width: usize, offset: usize) {
    let part_width = part_width(d.len(), part.len(), heads, width, offset);
    for (part, d) in part.chunks_exact_mut(part_width).zip(d.chunks_exact(heads * width)) {
        part.fill(T::default());
        columns::accumulate(part, heads, |head, columns, sums| {
            for (sum, d) in sums.iter_mut().zip(&d[head * width + offset..][columns]) {
                *sum += d.to_f32();
            }
        });
    }
}

/// Panics unless the elements are `rows` rows of `width`.
fn assert_rows(elements: usize, rows: usize, width: usize) {
    assert!(width > 0 && elements == rows * width, "{rows} rows of {width} in {elements} elements");
}

/// Panics unless columns from..from + width are in a matrix `[rows, whole_width]`, and a part of it is `[rows, width]`.
fn assert_columns(whole: usize, part: usize, rows: usize, whole_width: usize, from: usize, width: usize) {
    assert_rows(whole, rows, whole_width);
    assert_rows(part, rows, width);
    assert!(from + width <= whole_width, "{width} columns from {from} of {whole_width}");
}

/// The width of a part `[tokens, part_width]` in the heads of a tensor `[tokens, heads, width]`.
fn part_width(whole: usize, part: usize, heads: usize, width: usize, offset: usize) -> usize {
    assert!(heads * width > 0 && whole.is_multiple_of(heads * width), "heads: a slice and its shape");
    let tokens = whole / (heads * width);
    // Without tokens any width fits.
    let part_width = part.checked_div(tokens).unwrap_or(1);
    assert!(part_width > 0 && part == tokens * part_width, "a part of heads: a slice and its shape");
    assert!(offset + part_width <= width, "{part_width} dimensions from {offset} of {width}");
    part_width
}

#[cfg(test)]
mod tests {
    use super::{
        add, add_columns, broadcast_head, columns, convert, fill, reduce_heads, scale_rows_sigmoid,
        scale_rows_sigmoid_backward, set_columns,
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
        let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let mut out = [0.0; 4];
        columns(&mut out, &x, 2, 3, 1, 2);
        assert_same("columns", &out, &[2.0, 3.0, 5.0, 6.0]);
        let mut whole = x;
        set_columns(&mut whole, &[7.0, 8.0, 9.0, 10.0], 2, 3, 0, 2);
        assert_same("set", &whole, &[7.0, 8.0, 3.0, 9.0, 10.0, 6.0]);
        add_columns(&mut whole, &[100.0, 200.0], 2, 3, 2, 1);
        assert_same("added", &whole, &[7.0, 8.0, 103.0, 9.0, 10.0, 206.0]);
    }

    #[test]
    fn a_part_of_every_head() {
        let (tokens, heads, width, offset, part_width) = (2, 3, 5, 1, 2);
        let mut rng = fastrand::Rng::with_seed(17);
        let (out, part) = (random(&mut rng, tokens * heads * width), random(&mut rng, tokens * part_width));
        let broadcast = |part: &[f32]| {
            let mut out = out.clone();
            broadcast_head(&mut out, part, heads, width, offset);
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
        reduce_heads(&mut d_part, &d, heads, width, offset);
        assert_gradient("part", &part, &d_part, |part| weighted(&broadcast(part), &d));
        broadcast_head::<f32>(&mut [], &[], heads, width, offset);
    }
}
