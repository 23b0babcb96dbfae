//! The compressed attention of DeepSeek-V4: one key/value head of all, an output projection in groups, and in two of three
//! kinds of layers keys and values of many tokens compressed into one.

use super::At;
use super::cache::Caching;
use crate::inventory::{Entry, Sink};
use crate::key::{Key, KeySet, Numbers};
use crate::plan::Plan;
use crate::saturating::{mul, zero_or};
use crate::sizes::{Dim, Over, Sizes, Symbol};
use crate::spec::schema::{
    Field, NUMBER_MAX, Value, field_code, field_decode, field_default, field_in_range, field_required, field_type,
    field_value, group,
};

const ONE: Dim = Dim::ONE;

group! {
    /// Attention over a window, and over compressed keys and values (DeepSeek-V4). Which layers compress, `layers.list` says:
    /// `a` none, `c` lightly, with an indexer that chooses, `h` heavily.
    Compressed {
        /// Query heads, split over tensor-parallel ranks; all look at the same key/value head.
        heads: number at least 1 = AttentionHeads;
        /// Width of the query latent.
        q_rank: number at least 0 = AttentionQRank;
        /// Width of a head. Left out (0 in a Spec) it is `hidden` over `heads`.
        head_dim: number at least 0 = AttentionHeadDim, default 0;
        /// Groups of heads whose output goes through a latent of its own, split over tensor-parallel ranks.
        output_groups: number at least 1 = AttentionOutputGroups;
        /// Width of each of these latents.
        output_rank: number at least 1 = AttentionOutputRank;
        /// Tokens that become one in layers `c`, each half of them twice.
        compress: number at least 1 = AttentionCompress;
        /// Tokens that become one in layers `h`.
        compress_heavy: number at least 1 = AttentionCompressHeavy;
        /// Heads of the indexer that chooses the compressed tokens attention looks at.
        indexer_heads: number at least 0 = AttentionIndexerHeads;
        /// Width of an indexer's head.
        indexer_dim: number at least 0 = AttentionIndexerDim;
        /// Tokens that are looked at as they are, and that the cache holds so; 0 where these are all of them.
        window: number at least 0 = AttentionWindow, default 0;
    }
}

/// What a layer compresses.
#[derive(Clone, Copy)]
pub(super) enum Reach {
    /// Nothing: it has its window alone.
    Window,
    Light,
    Heavy,
}

impl Compressed {
    /// Width of a head in a model of this hidden width.
    #[must_use]
    pub const fn head_width(&self, hidden: u64) -> u64 {
        if self.head_dim == 0 { zero_or(hidden.checked_div(self.heads)) } else { self.head_dim }
    }

    pub(super) const fn sizes(&self, sizes: &mut Sizes, plan: &Plan) {
        sizes.heads_whole = Dim::whole(Symbol::Heads, self.heads);
        sizes.head_dim = Dim::whole(Symbol::HeadDim, self.head_width(plan.spec().architecture.hidden));
        sizes.q_rank = Dim::whole(Symbol::QRank, self.q_rank);
        sizes.indexer_heads = Dim::whole(Symbol::IndexerHeads, self.indexer_heads);
        sizes.indexer_dim = Dim::whole(Symbol::IndexerDim, self.indexer_dim);
    }

    /// Outputs of the heads of a group, and the latents of all groups.
    const fn outputs(&self, plan: &Plan) -> [Dim; 2] {
        let tp = plan.spec().layout.mesh.tp;
        let of_group =
            zero_or(mul(self.heads, self.head_width(plan.spec().architecture.hidden)).checked_div(self.output_groups));
        let latents = mul(self.output_groups, self.output_rank);
        [Dim::whole(Symbol::GroupOutput, of_group), Dim::whole(Symbol::OutputRank, latents).split(Over::Tp, tp)]
    }

    pub(super) const fn weights(&self, list: &mut Sink<'_>, at: At<'_>, w: &Entry, norm: &Entry) {
        let (sizes, hidden, heads, dim) = (at.sizes, at.sizes.hidden, at.sizes.heads, at.sizes.head_dim);
        let [of_group, latents] = self.outputs(at.plan);
        list.push(w, "self_attn.q_a_proj.weight", [sizes.q_rank, hidden, ONE, ONE]);
        list.push(norm, "self_attn.q_a_layernorm.weight", [sizes.q_rank, ONE, ONE, ONE]);
        list.push(w, "self_attn.q_b_proj.weight", [heads, dim, sizes.q_rank, ONE]);
        list.push(w, "self_attn.kv_proj.weight", [dim, hidden, ONE, ONE]);
        list.push(norm, "self_attn.kv_norm.weight", [dim, ONE, ONE, ONE]);
        list.push(w, "self_attn.sinks", [heads, ONE, ONE, ONE]);
        list.push(w, "self_attn.o_a_proj.weight", [latents, of_group, ONE, ONE]);
        list.push(w, "self_attn.o_b_proj.weight", [hidden, latents, ONE, ONE]);
        match at.slot.reach() {
            Reach::Window => {}
            Reach::Light => {
                COMPRESSOR.list(list, hidden, dim, [self.compress, 2], w, norm);
                let dim = sizes.indexer_dim;
                list.push(w, "self_attn.indexer.wq_b.weight", [sizes.indexer_heads, dim, sizes.q_rank, ONE]);
                list.push(w, "self_attn.indexer.weights_proj.weight", [sizes.indexer_heads, hidden, ONE, ONE]);
                INDEXER.list(list, hidden, dim, [self.compress, 2], w, norm);
            }
            Reach::Heavy => COMPRESSOR.list(list, hidden, dim, [self.compress_heavy, 1], w, norm),
        }
    }

    /// Its one key/value head, which no rank splits: of a window as it is, beyond that compressed. What waits to be compressed
    /// is a state, of tokens that are in two windows of the lightly compressed twice.
    pub(super) const fn cache(&self, list: &mut Sink<'_>, of: Caching<'_>) {
        let (sizes, kept, mut entry) = (of.at.sizes, of.kept, of.kept.entry(of.layers));
        entry.part = match of.at.slot.reach() {
            Reach::Window => "",
            Reach::Light => "lightly compressed",
            Reach::Heavy => "heavily compressed",
        };
        let dim = sizes.head_dim;
        kept.push_window(list, &entry, "key/value cache", [ONE, dim], self.window);
        let ([tokens, times], is_light) = match of.at.slot.reach() {
            Reach::Window => return,
            Reach::Light => ([self.compress, 2], true),
            Reach::Heavy => ([self.compress_heavy, 1], false),
        };
        kept.push_compressed(list, &entry, "compressed keys/values", dim, tokens);
        let waiting = Dim::whole(Symbol::Block, mul(tokens, times));
        let wide = Dim::whole(Symbol::Projected, mul(dim.global, times));
        kept.push_waiting(list, &entry, "key/value and gate waiting to be compressed", [waiting, wide]);
        if is_light {
            let dim = sizes.indexer_dim;
            kept.push_compressed(list, &entry, "indexer key cache", dim, tokens);
            let wide = Dim::whole(Symbol::Projected, mul(dim.global, times));
            kept.push_waiting(list, &entry, "indexer key and gate waiting to be compressed", [waiting, wide]);
        }
    }

    /// In the style of accountings that know none: its latents, queries, its one key and value, and its output. What is
    /// compressed is less than a key a layer, and counted as one.
    pub(super) const fn saved(&self, list: &mut Sink<'_>, at: At<'_>, kept: &Entry) {
        let (sizes, batch, context, heads) = (at.sizes, at.sizes.batch, at.sizes.context, at.sizes.heads);
        let [_, latents] = self.outputs(at.plan);
        list.push(kept, "query latent", [batch, context, sizes.q_rank, ONE]);
        list.push(&kept.times(2), "query, attention output", [batch, context, heads, sizes.head_dim]);
        list.push(&kept.times(2), "key/value, before and behind its norm", [batch, context, sizes.head_dim, ONE]);
        list.push(kept, "output latents", [batch, context, latents, ONE]);
        match at.slot.reach() {
            Reach::Window => {}
            Reach::Light => {
                list.push(&kept.times(4), "key/value and gate to compress", [batch, context, sizes.head_dim, ONE]);
                list.push(kept, "indexer query", [batch, context, sizes.indexer_heads, sizes.indexer_dim]);
                list.push(&kept.times(4), "indexer key and gate to compress", [batch, context, sizes.indexer_dim, ONE]);
                list.push(kept, "indexer head weights", [batch, context, sizes.indexer_heads, ONE]);
            }
            Reach::Heavy => {
                list.push(&kept.times(2), "key/value and gate to compress", [batch, context, sizes.head_dim, ONE]);
            }
        }
    }
}

/// The names of what compresses keys and values: their projection, their weights in what becomes of them, by content and
/// by position, and a norm. Each tensor-parallel rank holds all of it, as it does the one head that it serves.
struct Compressor([&'static str; 4]);

const COMPRESSOR: Compressor = Compressor([
    "self_attn.compressor.kv_proj.weight",
    "self_attn.compressor.gate_proj.weight",
    "self_attn.compressor.position_bias",
    "self_attn.compressor.norm.weight",
]);

const INDEXER: Compressor = Compressor([
    "self_attn.indexer.compressor.kv_proj.weight",
    "self_attn.indexer.compressor.gate_proj.weight",
    "self_attn.indexer.compressor.position_bias",
    "self_attn.indexer.compressor.norm.weight",
]);

impl Compressor {
    /// For so many tokens that become one, each of which counts so many times.
    const fn list(
        &self,
        list: &mut Sink<'_>,
        hidden: Dim,
        dim: Dim,
        [tokens, times]: [u64; 2],
        w: &Entry,
        norm: &Entry,
    ) {
        let [kv, gate, position, normed] = self.0;
        let wide = Dim::whole(Symbol::Projected, mul(dim.global, times));
        list.push(w, kv, [wide, hidden, ONE, ONE]);
        list.push(w, gate, [wide, hidden, ONE, ONE]);
        list.push(w, position, [Dim::whole(Symbol::Block, tokens), wide, ONE, ONE]);
        list.push(norm, normed, [dim, ONE, ONE, ONE]);
    }
}
