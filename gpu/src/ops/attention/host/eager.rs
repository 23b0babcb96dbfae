//! Attention by its definition, with all probabilities as a tensor: what the tiled passes are compared with, in results
//! and in memory.

use super::share::share;
use crate::Float;
use crate::ops::attention::Shape;
use crate::ops::columns;
use crate::ops::reduce::dot;

/// The f32s of scratch that [`forward_eager`] and [`backward_eager`] need.
#[must_use]
pub const fn eager_scratch_len(shape: &Shape, threads: usize) -> usize {
    threads * shape.sequence
}

/// o `[batch, sequence, heads, value]` of q, k and v, and the probabilities `[batch, heads, sequence, sequence]`, zero
/// where a query does not see. sinks is `[heads]`.
pub fn forward_eager<T: Float, W: Float>(
    o: &mut [T],
    probabilities: &mut [T],
    q: &[T],
    k: &[T],
    v: &[T],
    sinks: Option<&[W]>,
    shape: &Shape,
    scratch: &mut [f32],
    threads: usize,
) {
    shape.assert_fits(q, k, v, o);
    shape.assert_eager(probabilities.len(), scratch.len(), threads);
    assert!(sinks.is_none_or(|sinks| sinks.len() == shape.heads), "a sink for each head");
    if shape.tokens() == 0 {
        return;
    }
    let Shape { sequence, heads, kv_heads, width, value, scale, .. } = *shape;
    for (row, probabilities) in probabilities.chunks_exact_mut(sequence * sequence).enumerate() {
        let (batch, head) = (row / heads, row % heads);
        let kv_head = head / shape.group();
        let sink = sinks.map_or(f32::NEG_INFINITY, |sinks| sinks[head].to_f32());
        let o = &mut o[batch * sequence * heads * value..][..sequence * heads * value];
        let cost = |query| shape.keys_of(query).len();
        share(threads, 0..sequence, o, probabilities, scratch, &cost, &|queries, o, probabilities, scratch| {
            let rows = o.chunks_exact_mut(heads * value).zip(probabilities.chunks_exact_mut(sequence));
            for (query, (o, probabilities)) in queries.zip(rows) {
                let keys = shape.keys_of(query);
                let scores = &mut scratch[..keys.len()];
                let q = row_of(q, shape, (heads, width), (batch, query, head));
                for (score, key) in scores.iter_mut().zip(keys.clone()) {
                    *score = scale * dot(q, row_of(k, shape, (kv_heads, width), (batch, key, kv_head)));
                }
                let max = scores.iter().copied().fold(sink, f32::max);
                for score in scores.iter_mut() {
                    *score = (*score - max).exp();
                }
                let sum = scores.iter().sum::<f32>() + (sink - max).exp();
                probabilities.fill(T::default());
                for (p, score) in probabilities[keys.clone()].iter_mut().zip(scores) {
                    *p = T::of_f32(*score / sum);
                }
                let o = &mut o[head * value..][..value];
                o.fill(T::default());
                columns::accumulate(o, keys.len(), |i, columns, sums| {
                    let key = keys.start + i;
                    let v = row_of(v, shape, (kv_heads, value), (batch, key, kv_head));
                    add_scaled(sums, probabilities[key], &v[columns]);
                });
            }
        });
    }
}

/// dq, dk and dv, shaped as q, k and v, from `do_` and the probabilities; dsinks `[heads]` is added to. `d_scores`
/// `[batch, heads, sequence, sequence]` becomes the gradient of the scaled scores.
pub fn backward_eager<T: Float, G: Float>(
    dq: &mut [T],
    dk: &mut [T],
    dv: &mut [T],
    dsinks: Option<&mut [G]>,
    d_scores: &mut [T],
    do_: &[T],
    probabilities: &[T],
    q: &[T],
    k: &[T],
    v: &[T],
    shape: &Shape,
    scratch: &mut [f32],
    threads: usize,
) {
    shape.assert_fits(q, k, v, do_);
    shape.assert_fits(dq, dk, dv, do_);
    shape.assert_eager(probabilities.len(), scratch.len(), threads);
    assert_eq!(d_scores.len(), probabilities.len(), "gradients of scores: a slice and its shape");
    if shape.tokens() == 0 {
        return;
    }
    queries(dq, d_scores, do_, probabilities, k, v, shape, scratch, threads);
    keys(dk, dv, do_, probabilities, d_scores, q, shape, scratch, threads);
    if let Some(dsinks) = dsinks {
        assert_eq!(dsinks.len(), shape.heads, "a sink for each head");
        // The gradients of a softmax's inputs add up to zero: the sink has what the others lack.
        let square = shape.sequence * shape.sequence;
        for (head, dsink) in dsinks.iter_mut().enumerate() {
            let of_head = d_scores.chunks_exact(square).skip(head).step_by(shape.heads);
            let sum: f32 = of_head.map(|d| d.iter().map(|d| d.to_f32()).sum::<f32>()).sum();
            *dsink = G::of_f32(dsink.to_f32() - sum);
        }
    }
}

/// `d_scores` and dq, by rows of queries.
fn queries<T: Float>(
    dq: &mut [T],
    d_scores: &mut [T],
    do_: &[T],
    probabilities: &[T],
    k: &[T],
    v: &[T],
    shape: &Shape,
    scratch: &mut [f32],
    threads: usize,
) {
    let Shape { sequence, heads, kv_heads, width, value, scale, .. } = *shape;
    for (row, d_scores) in d_scores.chunks_exact_mut(sequence * sequence).enumerate() {
        let (batch, head) = (row / heads, row % heads);
        let kv_head = head / shape.group();
        let probabilities = &probabilities[row * sequence * sequence..];
        let dq = &mut dq[batch * sequence * heads * width..][..sequence * heads * width];
        let cost = |query| shape.keys_of(query).len();
        share(threads, 0..sequence, dq, d_scores, scratch, &cost, &|queries, dq, d_scores, scratch| {
            let rows = dq.chunks_exact_mut(heads * width).zip(d_scores.chunks_exact_mut(sequence));
            for (query, (dq, d_scores)) in queries.zip(rows) {
                let keys = shape.keys_of(query);
                let p = &probabilities[query * sequence..][keys.clone()];
                let d_p = &mut scratch[..keys.len()];
                let do_ = row_of(do_, shape, (heads, value), (batch, query, head));
                for (d, key) in d_p.iter_mut().zip(keys.clone()) {
                    *d = dot(do_, row_of(v, shape, (kv_heads, value), (batch, key, kv_head)));
                }
                let delta = dot(p, d_p);
                d_scores.fill(T::default());
                for ((d_score, p), d) in d_scores[keys.clone()].iter_mut().zip(p).zip(d_p) {
                    *d_score = T::of_f32(p.to_f32() * (*d - delta));
                }
                let dq = &mut dq[head * width..][..width];
                dq.fill(T::default());
                columns::accumulate(dq, keys.len(), |i, columns, sums| {
                    let key = keys.start + i;
                    let k = row_of(k, shape, (kv_heads, width), (batch, key, kv_head));
                    add_scaled(sums, scale * d_scores[key].to_f32(), &k[columns]);
                });
            }
        });
    }
}

/// dk and dv, by rows of keys.
fn keys<T: Float>(
    dk: &mut [T],
    dv: &mut [T],
    do_: &[T],
    probabilities: &[T],
    d_scores: &[T],
    q: &[T],
    shape: &Shape,
    scratch: &mut [f32],
    threads: usize,
) {
    let Shape { sequence, heads, kv_heads, width, value, scale, .. } = *shape;
    let group = shape.group();
    let sequences = dk.chunks_exact_mut(sequence * kv_heads * width);
    for (batch, (dk, dv)) in sequences.zip(dv.chunks_exact_mut(sequence * kv_heads * value)).enumerate() {
        let cost = |key| shape.queries_of(key).len();
        share(threads, 0..sequence, dk, dv, scratch, &cost, &|keys, dk, dv, _| {
            let rows = dk.chunks_exact_mut(width).zip(dv.chunks_exact_mut(value));
            for (row, (dk, dv)) in rows.enumerate() {
                let (key, kv_head) = (keys.start + row / kv_heads, row % kv_heads);
                let queries = shape.queries_of(key);
                // Pair i of a query that sees the key and a head that reads it.
                let pair = |i: usize| (queries.start + i % queries.len(), kv_head * group + i / queries.len());
                let at = |(query, head)| ((batch * heads + head) * sequence + query) * sequence + key;
                dk.fill(T::default());
                columns::accumulate(dk, group * queries.len(), |i, columns, sums| {
                    let (query, head) = pair(i);
                    let q = row_of(q, shape, (heads, width), (batch, query, head));
                    add_scaled(sums, scale * d_scores[at((query, head))].to_f32(), &q[columns]);
                });
                dv.fill(T::default());
                columns::accumulate(dv, group * queries.len(), |i, columns, sums| {
                    let (query, head) = pair(i);
                    let do_ = row_of(do_, shape, (heads, value), (batch, query, head));
                    add_scaled(sums, probabilities[at((query, head))], &do_[columns]);
                });
            }
        });
    }
}

/// One row of x `[batch, sequence, heads, width]`.
fn row_of<'a, T>(
    x: &'a [T],
    shape: &Shape,
    (heads, width): (usize, usize),
    (batch, token, head): (usize, usize, usize),
) -> &'a [T] {
    &x[((batch * shape.sequence + token) * heads + head) * width..][..width]
}

/// sums += factor * x
fn add_scaled<F: Float, T: Float>(sums: &mut [f32], factor: F, x: &[T]) {
    for (sum, x) in sums.iter_mut().zip(x) {
        *sum += factor.to_f32() * x.to_f32();
    }
}

impl Shape {
    /// Panics unless a tensor of probabilities and scratch are as long as the shape says.
    fn assert_eager(&self, probabilities: usize, scratch: usize, threads: usize) {
        let squares = self.batch * self.heads * self.sequence * self.sequence;
        assert!(probabilities == squares, "probabilities: a slice and its shape");
        assert!(threads > 0 && scratch >= eager_scratch_len(self, threads), "scratch of an attention");
    }
}
