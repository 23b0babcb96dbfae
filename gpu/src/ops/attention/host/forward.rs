//! The forward pass in tiles: the softmax is kept online, row by row, while tiles of keys go by.

use super::share::share;
use super::tile::{TILE, add_product, head, product_scratch_len, seen, set_product, tiles};
use crate::Float;
use crate::ops::attention::Shape;
use crate::ops::exp::exp_row;
use crate::ops::gemm::View;
use crate::ops::reduce;
use core::ops::Range;

/// The f32s of scratch that [`forward`] needs.
#[must_use]
pub const fn forward_scratch_len(shape: &Shape, threads: usize) -> usize {
    threads * (TILE * (shape.value + TILE + 2) + product_scratch_len(shape))
}

/// o `[batch, sequence, heads, value]` of q, k and v, and lse `[batch, heads, sequence]`, the logarithm of each query's
/// sum of exponentials, the sink's among them. sinks is `[heads]`.
pub fn forward<T: Float, W: Float>(
    o: &mut [T],
    lse: &mut [f32],
    q: &[T],
    k: &[T],
    v: &[T],
    sinks: Option<&[W]>,
    shape: &Shape,
    scratch: &mut [f32],
    threads: usize,
) {
    shape.assert_fits(q, k, v, o);
    assert!(lse.len() == shape.tokens() * shape.heads, "lse of an attention: a slice and its shape");
    assert!(sinks.is_none_or(|sinks| sinks.len() == shape.heads), "a sink for each head");
    let needed = forward_scratch_len(shape, threads);
    assert!(threads > 0 && scratch.len() >= needed, "scratch of an attention");
    if shape.tokens() == 0 {
        return;
    }
    let sequences = o.chunks_exact_mut(shape.sequence * shape.heads * shape.value);
    for ((batch, o), lse) in sequences.enumerate().zip(lse.chunks_exact_mut(shape.heads * shape.sequence)) {
        for (index, lse) in lse.chunks_exact_mut(shape.sequence).enumerate() {
            let one = Head { q, k, v, shape, batch, index, sink: sinks.map(|sinks| sinks[index].to_f32()) };
            let cost = |query| shape.keys_of(query).len();
            share(threads, 0..shape.sequence, o, lse, &mut scratch[..needed], &cost, &|queries, o, lse, scratch| {
                one.rows(queries, o, lse, scratch);
            });
        }
    }
}

/// One head of one sequence.
struct Head<'a, T> {
    q: &'a [T],
    k: &'a [T],
    v: &'a [T],
    shape: &'a Shape,
    batch: usize,
    index: usize,
    sink: Option<f32>,
}

impl<T: Float> Head<'_, T> {
    /// Some queries: their rows o `[queries, heads, value]`, of which this head's part is written, and lse `[queries]`.
    fn rows(&self, queries: Range<usize>, o: &mut [T], lse: &mut [f32], scratch: &mut [f32]) {
        let Shape { heads, value, .. } = *self.shape;
        for queries_of_tile in tiles(queries.clone()) {
            let first = queries_of_tile.start - queries.start;
            let last = queries_of_tile.end - queries.start;
            let o = &mut o[first * heads * value..last * heads * value];
            self.tile(queries_of_tile, o, &mut lse[first..last], scratch);
        }
    }

    /// As [`Self::rows`] for one tile.
    fn tile(&self, queries: Range<usize>, o: &mut [T], lse: &mut [f32], scratch: &mut [f32]) {
        let Shape { heads, kv_heads, width, value, .. } = *self.shape;
        let rows = queries.len();
        let (sums, scratch) = scratch.split_at_mut(rows * value);
        let (scores, scratch) = scratch.split_at_mut(rows * TILE);
        let (max, scratch) = scratch.split_at_mut(rows);
        let (total, scratch) = scratch.split_at_mut(rows);
        sums.fill(0.0);
        max.fill(self.sink.unwrap_or(f32::NEG_INFINITY));
        total.fill(if self.sink.is_some() { 1.0 } else { 0.0 });
        let q = head(self.q, self.shape, (heads, width), (self.batch, queries.start, self.index));
        let kv_head = self.index / self.shape.group();
        for keys in tiles(self.shape.keys_of_all(&queries)) {
            let k = head(self.k, self.shape, (kv_heads, width), (self.batch, keys.start, kv_head));
            let v = head(self.v, self.shape, (kv_heads, value), (self.batch, keys.start, kv_head));
            set_product(scores, q, k.transposed(), (rows, keys.len(), width), scratch);
            for (row, query) in queries.clone().enumerate() {
                let seen = seen(self.shape, query, &keys);
                let scores = &mut scores[row * keys.len()..][..keys.len()];
                let shrink = online(scores, seen, self.shape.scale, &mut max[row], &mut total[row]);
                sums[row * value..][..value].iter_mut().for_each(|sum| *sum *= shrink);
            }
            add_product(sums, View::rows(scores, keys.len()), v, (rows, value, keys.len()), scratch);
        }
        for (row, o) in o.chunks_exact_mut(heads * value).enumerate() {
            let o = &mut o[self.index * value..][..value];
            for (o, sum) in o.iter_mut().zip(&sums[row * value..]) {
                // A query may see no key of an earlier piece.
                *o = T::of_f32(if total[row] > 0.0 { sum / total[row] } else { 0.0 });
            }
            lse[row] = max[row] + total[row].ln();
        }
    }
}

/// A query's scores of a tile become exponentials over its maximum so far, zeros where it does not see; the maximum and
/// the sum so far take them in. What was summed before shrinks by the factor that is returned.
fn online(scores: &mut [f32], seen: Range<usize>, scale: f32, max: &mut f32, total: &mut f32) -> f32 {
    scores[..seen.start].fill(0.0);
    scores[seen.end..].fill(0.0);
    let scores = &mut scores[seen];
    if scores.is_empty() {
        return 1.0;
    }
    let new_max = max.max(reduce::max(scores) * scale);
    let shrink = (*max - new_max).exp();
    exp_row(scores, scale, new_max);
    *total = *total * shrink + reduce::sum(scores);
    *max = new_max;
    shrink
}
