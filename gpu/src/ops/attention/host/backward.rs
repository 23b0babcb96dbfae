//! The backward pass in tiles, which computes the probabilities again from lse. Twice: once by rows of keys, for the
//! gradients of keys and values, and once by rows of queries. Each sum then belongs to one thread and one tile.

use super::share::share;
use super::tile::{TILE, add_product, head, product_scratch_len, seen, set_product, tiles};
use crate::Float;
use crate::ops::attention::Shape;
use crate::ops::exp::exp_row;
use crate::ops::gemm::View;
use crate::ops::reduce::dot;
use core::ops::Range;

/// The f32s of scratch that [`backward`] needs.
#[must_use]
pub const fn backward_scratch_len(shape: &Shape, threads: usize) -> usize {
    threads * (TILE * (shape.width + shape.value + 2 * TILE) + product_scratch_len(shape))
}

/// dq, dk and dv, shaped as q, k and v, from `do_` and what [`super::forward()`] took and gave; dsinks `[heads]` is
/// added to. delta `[batch, heads, sequence]` becomes the sum of do * o of each query and head.
pub fn backward<T: Float, W: Float, G: Float>(
    dq: &mut [T],
    dk: &mut [T],
    dv: &mut [T],
    dsinks: Option<&mut [G]>,
    delta: &mut [f32],
    do_: &[T],
    o: &[T],
    lse: &[f32],
    q: &[T],
    k: &[T],
    v: &[T],
    sinks: Option<&[W]>,
    shape: &Shape,
    scratch: &mut [f32],
    threads: usize,
) {
    shape.assert_fits(q, k, v, o);
    shape.assert_fits(dq, dk, dv, do_);
    let rows = shape.tokens() * shape.heads;
    assert!(lse.len() == rows && delta.len() == rows, "lse of an attention: a slice and its shape");
    let needed = backward_scratch_len(shape, threads);
    assert!(threads > 0 && scratch.len() >= needed, "scratch of an attention");
    if rows == 0 {
        return;
    }
    let scratch = &mut scratch[..needed];
    fill_delta(delta, do_, o, shape);
    if let (Some(dsinks), Some(sinks)) = (dsinks, sinks) {
        add_sinks(dsinks, delta, lse, sinks, shape);
    }
    let pass = Pass { do_, lse, delta, q, k, v, shape };
    let sequences = dk.chunks_exact_mut(shape.sequence * shape.kv_heads * shape.width);
    let sequences = sequences.zip(dv.chunks_exact_mut(shape.sequence * shape.kv_heads * shape.value));
    for (batch, (dk, dv)) in sequences.enumerate() {
        for kv_head in 0..shape.kv_heads {
            let cost = |key| shape.queries_of(key).len();
            share(threads, 0..shape.sequence, dk, dv, scratch, &cost, &|keys, dk, dv, scratch| {
                pass.keys((batch, kv_head), keys, dk, dv, scratch);
            });
        }
    }
    for (batch, dq) in dq.chunks_exact_mut(shape.sequence * shape.heads * shape.width).enumerate() {
        for index in 0..shape.heads {
            let cost = |query| shape.keys_of(query).len();
            share(threads, 0..shape.sequence, dq, &mut [(); 0], scratch, &cost, &|queries, dq, _, scratch| {
                pass.queries((batch, index), queries, dq, scratch);
            });
        }
    }
}

/// delta `[batch, heads, sequence]` = the sum of do * o over the value.
fn fill_delta<T: Float>(delta: &mut [f32], do_: &[T], o: &[T], shape: &Shape) {
    let Shape { sequence, heads, value, .. } = *shape;
    let rows = do_.chunks_exact(value).zip(o.chunks_exact(value));
    for (row, (do_, o)) in rows.enumerate() {
        let (token, head) = (row / heads, row % heads);
        delta[(token / sequence * heads + head) * sequence + token % sequence] = dot(do_, o);
    }
}

/// dsinks `[heads]` -= the sum over queries of the sink's probability * delta: it has no value of its own to weigh.
fn add_sinks<W: Float, G: Float>(dsinks: &mut [G], delta: &[f32], lse: &[f32], sinks: &[W], shape: &Shape) {
    assert!(dsinks.len() == shape.heads && sinks.len() == shape.heads, "a sink for each head");
    for (head, (dsink, sink)) in dsinks.iter_mut().zip(sinks).enumerate() {
        let mut sum = 0.0;
        for batch in 0..shape.batch {
            let rows = (batch * shape.heads + head) * shape.sequence..;
            for (delta, lse) in delta[rows.clone()].iter().zip(&lse[rows]).take(shape.sequence) {
                sum += (sink.to_f32() - lse).exp() * delta;
            }
        }
        *dsink = G::of_f32(dsink.to_f32() - sum);
    }
}

/// What the backward pass reads.
struct Pass<'a, T> {
    do_: &'a [T],
    lse: &'a [f32],
    delta: &'a [f32],
    q: &'a [T],
    k: &'a [T],
    v: &'a [T],
    shape: &'a Shape,
}

impl<T: Float> Pass<'_, T> {
    /// Some keys of a head: their rows dk `[keys, kv_heads, width]` and dv, of which this head's part is written.
    fn keys(
        &self,
        (batch, kv_head): (usize, usize),
        range: Range<usize>,
        dk: &mut [T],
        dv: &mut [T],
        scratch: &mut [f32],
    ) {
        let Shape { heads, kv_heads, width, value, .. } = *self.shape;
        let group = self.shape.group();
        let (dk_sums, scratch) = scratch.split_at_mut(TILE * width);
        let (dv_sums, scratch) = scratch.split_at_mut(TILE * value);
        for keys in tiles(range.clone()) {
            dk_sums.fill(0.0);
            dv_sums.fill(0.0);
            for index in kv_head * group..(kv_head + 1) * group {
                for queries in tiles(self.shape.queries_of_all(&keys)) {
                    let (probabilities, d_scores, scratch) =
                        self.tile((batch, index), queries.clone(), keys.clone(), scratch);
                    let do_ = head(self.do_, self.shape, (heads, value), (batch, queries.start, index));
                    let q = head(self.q, self.shape, (heads, width), (batch, queries.start, index));
                    let probabilities = View::rows(probabilities, keys.len()).transposed();
                    let d_scores = View::rows(d_scores, keys.len()).transposed();
                    add_product(dv_sums, probabilities, do_, (keys.len(), value, queries.len()), scratch);
                    add_product(dk_sums, d_scores, q, (keys.len(), width, queries.len()), scratch);
                }
            }
            let first = keys.start - range.start;
            write(dk, dk_sums, first..first + keys.len(), (kv_heads, width), kv_head);
            write(dv, dv_sums, first..first + keys.len(), (kv_heads, value), kv_head);
        }
    }

    /// Some queries of a head: their rows dq `[queries, heads, width]`, of which this head's part is written.
    fn queries(&self, (batch, index): (usize, usize), range: Range<usize>, dq: &mut [T], scratch: &mut [f32]) {
        let Shape { heads, kv_heads, width, .. } = *self.shape;
        let (sums, scratch) = scratch.split_at_mut(TILE * width);
        for queries in tiles(range.clone()) {
            sums.fill(0.0);
            for keys in tiles(self.shape.keys_of_all(&queries)) {
                let (_, d_scores, scratch) = self.tile((batch, index), queries.clone(), keys.clone(), scratch);
                let k = head(self.k, self.shape, (kv_heads, width), (batch, keys.start, index / self.shape.group()));
                add_product(sums, View::rows(d_scores, keys.len()), k, (queries.len(), width, keys.len()), scratch);
            }
            let first = queries.start - range.start;
            write(dq, sums, first..first + queries.len(), (heads, width), index);
        }
    }

    /// The probabilities of a tile `[queries, keys]`, the gradients of q kᵀ, and the rest of scratch.
    fn tile<'s>(
        &self,
        (batch, index): (usize, usize),
        queries: Range<usize>,
        keys: Range<usize>,
        scratch: &'s mut [f32],
    ) -> (&'s [f32], &'s [f32], &'s mut [f32]) {
        let Shape { sequence, heads, kv_heads, width, value, scale, .. } = *self.shape;
        let (probabilities, scratch) = scratch.split_at_mut(queries.len() * keys.len());
        let (d_scores, scratch) = scratch.split_at_mut(queries.len() * keys.len());
        let kv_head = index / self.shape.group();
        let q = head(self.q, self.shape, (heads, width), (batch, queries.start, index));
        let k = head(self.k, self.shape, (kv_heads, width), (batch, keys.start, kv_head));
        set_product(probabilities, q, k.transposed(), (queries.len(), keys.len(), width), scratch);
        let do_ = head(self.do_, self.shape, (heads, value), (batch, queries.start, index));
        let v = head(self.v, self.shape, (kv_heads, value), (batch, keys.start, kv_head));
        set_product(d_scores, do_, v.transposed(), (queries.len(), keys.len(), value), scratch);
        let rows = probabilities.chunks_exact_mut(keys.len()).zip(d_scores.chunks_exact_mut(keys.len()));
        for (query, (probabilities, d_scores)) in queries.zip(rows) {
            let row = (batch * heads + index) * sequence + query;
            let (lse, delta) = (self.lse[row], self.delta[row]);
            let seen = seen(self.shape, query, &keys);
            for hidden in [0..seen.start, seen.end..keys.len()] {
                probabilities[hidden.clone()].fill(0.0);
                d_scores[hidden].fill(0.0);
            }
            exp_row(&mut probabilities[seen.clone()], scale, lse);
            for (p, d) in probabilities[seen.clone()].iter().zip(&mut d_scores[seen]) {
                *d = p * (*d - delta) * scale;
            }
        }
        (probabilities, d_scores, scratch)
    }
}

/// One head's part of some rows of out `[rows, heads, width]` = sums `[rows, width]`.
fn write<T: Float>(out: &mut [T], sums: &[f32], rows: Range<usize>, (heads, width): (usize, usize), head: usize) {
    for (row, sums) in rows.zip(sums.chunks_exact(width)) {
        for (out, sum) in out[(row * heads + head) * width..][..width].iter_mut().zip(sums) {
            *out = T::of_f32(*sum);
        }
    }
}
