//! Multi-head latent attention, and the indexer of sparse attention.

use super::cache::Caching;
use super::{At, Heads, QkNorm};
use crate::inventory::{Entry, Sink};
use crate::key::{Key, KeySet, Numbers};
use crate::plan::Plan;
use crate::saturating::add;
use crate::sizes::{Dim, Sizes, Symbol};
use crate::spec::schema::{
    Field, NUMBER_MAX, Value, field_code, field_decode, field_default, field_in_range, field_required, field_type,
    field_value, group,
};
use crate::spec::{MlaCache, Split};

const ONE: Dim = Dim::ONE;

group! {
    /// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): queries and keys go through a latent.
    Mla {
        /// Query heads, split over tensor-parallel ranks.
        heads: number at least 1 = AttentionHeads;
        /// Width of the query latent; 0 projects queries straight from the hidden state.
        q_rank: number at least 0 = AttentionQRank, default 0;
        /// Width of the key/value latent.
        kv_rank: number at least 1 = AttentionKvRank;
        /// Width of a query or key head without rotary position.
        nope: number at least 1 = AttentionNope;
        /// Width of the rotary part; its key is shared by all heads.
        rope: number at least 1 = AttentionRope;
        /// Width of a value head.
        value: number at least 1 = AttentionValue;
        /// Heads of the indexer that chooses the tokens attention looks at (DeepSeek-V3.2's `index_n_heads`); 0 without one.
        indexer_heads: number at least 0 = AttentionIndexerHeads, default 0;
        /// Width of an indexer's head, the rotary part in it; needed where `attention.indexer_heads` is not 0.
        indexer_dim: number at least 0 = AttentionIndexerDim, default 0;
    }
}

impl Mla {
    pub(super) const fn sizes(&self, sizes: &mut Sizes, _plan: &Plan) {
        sizes.heads_whole = Dim::whole(Symbol::Heads, self.heads);
        sizes.q_rank = Dim::whole(Symbol::QRank, self.q_rank);
        sizes.kv_rank = Dim::whole(Symbol::KvRank, self.kv_rank);
        sizes.nope = Dim::whole(Symbol::HeadDim, self.nope);
        sizes.rope = Dim::whole(Symbol::Rope, self.rope);
        sizes.query_key = Dim::whole(Symbol::QueryKey, add(self.nope, self.rope));
        sizes.value = Dim::whole(Symbol::Value, self.value);
        if self.indexer_heads > 0 {
            sizes.indexer_heads = Dim::whole(Symbol::IndexerHeads, self.indexer_heads);
            sizes.indexer_dim = Dim::whole(Symbol::IndexerDim, self.indexer_dim);
        }
    }

    /// The rotary key, which heads share, is expanded to each.
    pub(super) const fn heads_of(sizes: &Sizes) -> Heads {
        Heads {
            queries: sizes.heads,
            keys: sizes.heads,
            width: sizes.query_key,
            value: sizes.value,
            rotary: sizes.rope,
            is_latent: true,
            norms: QkNorm::None,
        }
    }

    pub(super) const fn weights(&self, list: &mut Sink<'_>, at: At<'_>, w: &Entry, norm: &Entry) {
        let (sizes, hidden, heads) = (at.sizes, at.sizes.hidden, at.sizes.heads);
        let rope_heads = match at.plan.spec().layout.placement.query_rope {
            Split::Split => heads,
            Split::Replicated => sizes.heads_whole,
        };
        let (name, width) = if self.q_rank == 0 {
            ("self_attn.q_proj.weight", hidden)
        } else {
            list.push(w, "self_attn.q_a_proj.weight", [sizes.q_rank, hidden, ONE, ONE]);
            list.push(norm, "self_attn.q_a_layernorm.weight", [sizes.q_rank, ONE, ONE, ONE]);
            ("self_attn.q_b_proj.weight", sizes.q_rank)
        };
        list.push_two(
            w,
            name,
            ("nope", [heads, sizes.nope, width, ONE]),
            ("rope", [rope_heads, sizes.rope, width, ONE]),
        );
        let name = "self_attn.kv_a_proj_with_mqa.weight";
        let (latent, rope) = ([sizes.kv_rank, hidden, ONE, ONE], [sizes.rope, hidden, ONE, ONE]);
        list.push_two(w, name, ("latent", latent), ("rope", rope));
        list.push(norm, "self_attn.kv_a_layernorm.weight", [sizes.kv_rank, ONE, ONE, ONE]);
        let name = "self_attn.kv_b_proj.weight";
        let [key, value] = [[heads, sizes.nope, sizes.kv_rank, ONE], [heads, sizes.value, sizes.kv_rank, ONE]];
        list.push_two(w, name, ("key", key), ("value", value));
        list.push(w, "self_attn.o_proj.weight", [hidden, heads, sizes.value, ONE]);
        if self.indexer_heads > 0 {
            indexer(list, sizes, w, norm);
        }
    }

    pub(super) const fn saved(&self, list: &mut Sink<'_>, at: At<'_>, kept: &Entry) {
        let (sizes, batch, context, heads) = (at.sizes, at.sizes.batch, at.sizes.context, at.sizes.heads);
        if self.q_rank > 0 {
            list.push(kept, "query latent", [batch, context, sizes.q_rank, ONE]);
        }
        list.push(kept, "key/value latent", [batch, context, sizes.kv_rank, ONE]);
        list.push(kept, "query", [batch, context, heads, sizes.query_key]);
        // The shared rotary key is counted expanded to every head.
        list.push(kept, "key", [batch, context, heads, sizes.query_key]);
        list.push(kept, "value", [batch, context, heads, sizes.value]);
        list.push(kept, "attention output", [batch, context, heads, sizes.value]);
        self.indexer_saved(list, sizes, kept);
    }

    /// The indexer's keys are no head's, and each rank holds them.
    pub(super) const fn cache(&self, list: &mut Sink<'_>, of: Caching<'_>) {
        let (sizes, kept, entry) = (of.at.sizes, of.kept, of.kept.entry(of.layers));
        match of.serving.mla {
            MlaCache::Latent => {
                kept.push(list, &entry, "key/value latent cache", [ONE, sizes.kv_rank]);
                kept.push(list, &entry, "rotary key cache", [ONE, sizes.rope]);
            }
            MlaCache::Expanded => {
                kept.push(list, &entry, "key cache", [sizes.heads, sizes.query_key]);
                kept.push(list, &entry, "value cache", [sizes.heads, sizes.value]);
            }
        }
        if self.indexer_heads > 0 {
            kept.push(list, &entry, "indexer key cache", [ONE, sizes.indexer_dim]);
        }
    }

    pub(super) const fn indexer_saved(&self, list: &mut Sink<'_>, sizes: &Sizes, kept: &Entry) {
        if self.indexer_heads > 0 {
            saved_of_indexer(list, sizes, kept);
        }
    }
}

/// The indexer of sparse attention: each tensor-parallel rank holds all of it (megatron-core's `DSAIndexer`). The norm of
/// its keys has a bias, whatever the model's norms are.
const fn indexer(list: &mut Sink<'_>, sizes: &Sizes, w: &Entry, norm: &Entry) {
    let (heads, dim) = (sizes.indexer_heads, sizes.indexer_dim);
    list.push(w, "self_attn.indexer.wq_b.weight", [heads, dim, sizes.q_rank, ONE]);
    list.push(w, "self_attn.indexer.wk.weight", [dim, sizes.hidden, ONE, ONE]);
    list.push(norm, "self_attn.indexer.k_norm.weight", [dim, ONE, ONE, ONE]);
    list.push(norm, "self_attn.indexer.k_norm.bias", [dim, ONE, ONE, ONE]);
    list.push(w, "self_attn.indexer.weights_proj.weight", [heads, sizes.hidden, ONE, ONE]);
}

/// What an indexer saves in the style of accountings that know none: its queries, its one key before and behind the norm, a
/// weight for each head. Its scores are taken to stay within a kernel, and attention itself to look at all tokens.
const fn saved_of_indexer(list: &mut Sink<'_>, sizes: &Sizes, kept: &Entry) {
    let (batch, context, heads, dim) = (sizes.batch, sizes.context, sizes.indexer_heads, sizes.indexer_dim);
    list.push(kept, "indexer query", [batch, context, heads, dim]);
    list.push(&kept.times(2), "indexer key, before and behind its norm", [batch, context, dim, ONE]);
    list.push(kept, "indexer head weights", [batch, context, heads, ONE]);
}
