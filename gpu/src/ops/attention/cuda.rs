//! Attention on a CUDA device: simple kernels, a query or a key to a block, which hold no more than a tile of scores.

use super::{Attend, Shape};
use crate::cuda::Cuda;
use crate::cuda::launch::{Blocks, In, MOST_SHARED, MayIn, Narrow, Number, Out, Wide};
use crate::device::{Failure, Format, Mut, Ref};
use crate::shapes::Lengths;

crate::cuda::launch::kernels! {
    fn attend[X]<X, X>(
        o: Out<X>, lse: Out<f32>, q: In<X>, k: In<X>, v: In<X>, sinks: MayIn<X>, queries: Wide, sequence: Narrow,
        heads: Narrow, kv_heads: Narrow, width: Narrow, value: Narrow, window: Narrow, scale: Number, ahead: Narrow,
    );
    fn attend_delta[X]<X, X>(
        delta: Out<f32>, d_o: In<X>, o: In<X>, queries: Wide, sequence: Narrow, heads: Narrow, value: Narrow,
    );
    fn attend_sinks[X]<X, X>(
        d_sinks: Out<f32>, delta: In<f32>, lse: In<f32>, sinks: In<X>, batch: Narrow, sequence: Narrow, heads: Narrow,
    );
    fn attend_queries[X]<X, X>(
        dq: Out<X>, d_o: In<X>, lse: In<f32>, delta: In<f32>, q: In<X>, k: In<X>, v: In<X>, queries: Wide,
        sequence: Narrow, heads: Narrow, kv_heads: Narrow, width: Narrow, value: Narrow, window: Narrow, scale: Number,
        ahead: Narrow,
    );
    fn attend_keys[X]<X, X>(
        dk: Out<X>, dv: Out<X>, d_o: In<X>, lse: In<f32>, delta: In<f32>, q: In<X>, k: In<X>, v: In<X>, keys: Wide,
        sequence: Narrow, heads: Narrow, kv_heads: Narrow, width: Narrow, value: Narrow, window: Narrow, scale: Number,
        ahead: Narrow,
    );
    fn attend_merge[X]<X, X>(
        o: Out<f32>, lse: Out<f32>, part: In<X>, part_lse: In<f32>, queries: Wide, sequence: Narrow, heads: Narrow,
        value: Narrow,
    );
    fn eager[X]<X, X>(
        o: Out<X>, probabilities: Out<X>, q: In<X>, k: In<X>, v: In<X>, sinks: MayIn<X>, queries: Wide,
        sequence: Narrow, heads: Narrow, kv_heads: Narrow, width: Narrow, value: Narrow, window: Narrow, scale: Number,
    );
    fn eager_queries[X]<X, X>(
        dq: Out<X>, d_scores: Out<X>, d_o: In<X>, probabilities: In<X>, k: In<X>, v: In<X>, queries: Wide,
        sequence: Narrow, heads: Narrow, kv_heads: Narrow, width: Narrow, value: Narrow, window: Narrow, scale: Number,
    );
    fn eager_keys[X]<X, X>(
        dk: Out<X>, dv: Out<X>, d_o: In<X>, probabilities: In<X>, d_scores: In<X>, q: In<X>, keys: Wide,
        sequence: Narrow, heads: Narrow, kv_heads: Narrow, width: Narrow, value: Narrow, window: Narrow, scale: Number,
    );
    fn eager_sinks[X]<X, X>(d_sinks: Out<f32>, d_scores: In<X>, batch: Narrow, sequence: Narrow, heads: Narrow);
}

/// Threads of a block, and scores of a tile.
const TILE: usize = 128;

/// What the kernel that shares most numbers among a block shares: two rows of keys and values, and of scores.
const fn most_shared(width: usize, value: usize) -> usize {
    2 * (width + value + TILE)
}

/// Whether heads are narrow enough for a block.
pub(crate) fn fits(lengths: &Lengths) -> Result<(), Failure> {
    let (width, value) = (lengths.query_key, lengths.value);
    if most_shared(width, value) <= MOST_SHARED {
        return Ok(());
    }
    let what = format!("attention by heads of width {width}, of values {value}");
    Err(Failure { what, error: format!("the two are {} together at most", MOST_SHARED / 2 - TILE) })
}

impl Attend for Cuda {
    fn attend<X: Format>(
        &self,
        o: Mut<'_, Self, X>,
        lse: Mut<'_, Self, f32>,
        [q, k, v]: [Ref<'_, Self, X>; 3],
        sinks: Option<Ref<'_, Self, X>>,
        shape: Shape,
    ) {
        shape.assert_lengths([q.len(), k.len(), v.len(), o.len()]);
        let Shape { sequence, heads, kv_heads, width, value, ahead, window, scale, .. } = shape;
        let n = shape.tokens() * heads;
        assert_eq!(lse.len(), n, "lse of an attention: a slice and its shape");
        assert!(sinks.is_none_or(|sinks| sinks.len() == heads), "a sink for each head");
        let blocks = Blocks::of(n, TILE).sharing(width + value + TILE);
        attend(self, blocks, o, lse, q, k, v, sinks, n, sequence, heads, kv_heads, width, value, window, scale, ahead);
    }

    fn attend_backward<X: Format>(
        &self,
        [dq, dk, dv]: [Mut<'_, Self, X>; 3],
        d_sinks: Option<Mut<'_, Self, f32>>,
        mut delta: Mut<'_, Self, f32>,
        d_o: Ref<'_, Self, X>,
        o: Ref<'_, Self, X>,
        lse: Ref<'_, Self, f32>,
        [q, k, v]: [Ref<'_, Self, X>; 3],
        sinks: Option<Ref<'_, Self, X>>,
        shape: Shape,
    ) {
        shape.assert_lengths([q.len(), k.len(), v.len(), o.len()]);
        shape.assert_lengths([dq.len(), dk.len(), dv.len(), d_o.len()]);
        let Shape { batch, sequence, heads, kv_heads, width, value, ahead, window, scale } = shape;
        let (n, keys) = (shape.tokens() * heads, shape.tokens() * kv_heads);
        assert!(lse.len() == n && delta.len() == n, "lse of an attention: a slice and its shape");
        attend_delta(self, Blocks::rows(n, value), delta.again(), d_o, o, n, sequence, heads, value);
        let delta = delta.read();
        if let (Some(d_sinks), Some(sinks)) = (d_sinks, sinks) {
            assert!(d_sinks.len() == heads && sinks.len() == heads, "a sink for each head");
            attend_sinks(self, Blocks::of(heads, 256), d_sinks, delta, lse, sinks, batch, sequence, heads);
        }
        let blocks = Blocks::of(keys, TILE).sharing(most_shared(width, value));
        attend_keys(
            self, blocks, dk, dv, d_o, lse, delta, q, k, v, keys, sequence, heads, kv_heads, width, value, window,
            scale, ahead,
        );
        let blocks = Blocks::of(n, TILE).sharing(2 * width + value + TILE);
        attend_queries(
            self, blocks, dq, d_o, lse, delta, q, k, v, n, sequence, heads, kv_heads, width, value, window, scale,
            ahead,
        );
    }

    fn merge<X: Format>(
        &self,
        o: Mut<'_, Self, f32>,
        lse: Mut<'_, Self, f32>,
        part: Ref<'_, Self, X>,
        part_lse: Ref<'_, Self, f32>,
        shape: Shape,
    ) {
        let Shape { sequence, heads, value, .. } = shape;
        let n = shape.tokens() * heads;
        assert!(o.len() == n * value && part.len() == n * value, "outputs of an attention: slices and their shape");
        assert!(lse.len() == n && part_lse.len() == n, "lse of an attention: a slice and its shape");
        attend_merge(self, Blocks::rows(n, value), o, lse, part, part_lse, n, sequence, heads, value);
    }

    fn attend_eager<X: Format>(
        &self,
        o: Mut<'_, Self, X>,
        probabilities: Mut<'_, Self, X>,
        [q, k, v]: [Ref<'_, Self, X>; 3],
        sinks: Option<Ref<'_, Self, X>>,
        shape: Shape,
    ) {
        shape.assert_lengths([q.len(), k.len(), v.len(), o.len()]);
        let Shape { sequence, heads, kv_heads, width, value, window, scale, .. } = shape;
        let n = shape.tokens() * heads;
        assert_eq!(probabilities.len(), n * sequence, "probabilities: a slice and its shape");
        assert!(sinks.is_none_or(|sinks| sinks.len() == heads), "a sink for each head");
        let blocks = Blocks::of(n, TILE);
        eager(
            self,
            blocks,
            o,
            probabilities,
            q,
            k,
            v,
            sinks,
            n,
            sequence,
            heads,
            kv_heads,
            width,
            value,
            window,
            scale,
        );
    }

    fn attend_eager_backward<X: Format>(
        &self,
        [dq, dk, dv]: [Mut<'_, Self, X>; 3],
        d_sinks: Option<Mut<'_, Self, f32>>,
        mut d_scores: Mut<'_, Self, X>,
        d_o: Ref<'_, Self, X>,
        probabilities: Ref<'_, Self, X>,
        [q, k, v]: [Ref<'_, Self, X>; 3],
        shape: Shape,
    ) {
        shape.assert_lengths([q.len(), k.len(), v.len(), d_o.len()]);
        shape.assert_lengths([dq.len(), dk.len(), dv.len(), d_o.len()]);
        let Shape { batch, sequence, heads, kv_heads, width, value, window, scale, .. } = shape;
        let (n, keys) = (shape.tokens() * heads, shape.tokens() * kv_heads);
        let squares = n * sequence;
        assert!(probabilities.len() == squares && d_scores.len() == squares, "probabilities: a slice and its shape");
        let (p, again) = (probabilities, d_scores.again());
        let blocks = Blocks::of(n, TILE);
        eager_queries(self, blocks, dq, again, d_o, p, k, v, n, sequence, heads, kv_heads, width, value, window, scale);
        let d_scores = d_scores.read();
        let blocks = Blocks::of(keys, TILE);
        eager_keys(
            self, blocks, dk, dv, d_o, p, d_scores, q, keys, sequence, heads, kv_heads, width, value, window, scale,
        );
        if let Some(d_sinks) = d_sinks {
            assert_eq!(d_sinks.len(), heads, "a sink for each head");
            eager_sinks(self, Blocks::of(heads, 256), d_sinks, d_scores, batch, sequence, heads);
        }
    }
}
