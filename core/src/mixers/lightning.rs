//! Lightning attention (arXiv:2501.08313): linear attention with a fixed decay for each head, and an output gate.

use super::At;
use super::cache::Caching;
use crate::inventory::{Entry, Sink};
use crate::key::{Key, KeySet, Numbers};
use crate::plan::Plan;
use crate::saturating::mul;
use crate::sizes::{Dim, Over, Symbol};
use crate::spec::schema::{
    Field, NUMBER_MAX, Value, field_code, field_decode, field_default, field_in_range, field_required, field_type,
    field_value, group,
};

const ONE: Dim = Dim::ONE;

group! {
    /// Lightning attention: linear attention with a fixed decay (MiniMax-Text-01, arXiv:2501.08313).
    Lightning {
        /// Heads, split over tensor-parallel ranks.
        heads: number at least 1 = MixerHeads;
        /// Width of a head.
        head_dim: number at least 1 = MixerHeadDim;
        /// Tokens of a block, the decay within which stands in buffers.
        block: number at least 1 = MixerBlock;
    }
}

impl Lightning {
    /// Of all heads: queries, keys and values, and each of them.
    const fn dims(&self, plan: &Plan) -> [Dim; 2] {
        let (tp, inner) = (plan.spec().layout.mesh.tp, mul(self.heads, self.head_dim));
        [
            Dim::whole(Symbol::Projected, mul(inner, 3)).split(Over::Tp, tp),
            Dim::whole(Symbol::Inner, inner).split(Over::Tp, tp),
        ]
    }

    pub(super) const fn weights(&self, list: &mut Sink<'_>, at: At<'_>, w: &Entry, norm: &Entry) {
        let ([mixed, inner], hidden) = (self.dims(at.plan), at.sizes.hidden);
        list.push(w, "self_attn.qkv_proj.weight", [mixed, hidden, ONE, ONE]);
        list.push(w, "self_attn.output_gate.weight", [inner, hidden, ONE, ONE]);
        list.push(norm, "self_attn.norm.weight", [inner, ONE, ONE, ONE]);
        list.push(w, "self_attn.out_proj.weight", [hidden, inner, ONE, ONE]);
    }

    /// The decay of each head: by itself, and over the tokens of a block.
    pub(super) const fn buffers(&self, list: &mut Sink<'_>, w: &Entry) {
        let (heads, block) = (Dim::whole(Symbol::MixerHeads, self.heads), Dim::whole(Symbol::Block, self.block));
        list.push(w, "self_attn.slope_rate", [heads, ONE, Dim::UNIT, ONE]);
        list.push(w, "self_attn.query_decay", [heads, block, Dim::UNIT, ONE]);
        list.push(w, "self_attn.key_decay", [heads, block, Dim::UNIT, ONE]);
        list.push(w, "self_attn.diagonal_decay", [ONE, heads, block, block]);
    }

    pub(super) const fn cache(&self, list: &mut Sink<'_>, of: Caching<'_>) {
        let tp = of.at.plan.spec().layout.mesh.tp;
        let heads = Dim::whole(Symbol::MixerHeads, self.heads).split(Over::Tp, tp);
        let dim = Dim::whole(Symbol::HeadDim, self.head_dim);
        of.kept.push_state(list, &of.kept.entry(of.layers), [heads, dim, dim]);
    }

    pub(super) const fn saved(&self, list: &mut Sink<'_>, at: At<'_>, kept: &Entry) {
        let ([mixed, inner], batch, context) = (self.dims(at.plan), at.sizes.batch, at.sizes.context);
        list.push(&kept.times(2), "query, key, value, before and behind activation", [batch, context, mixed, ONE]);
        list.push(
            &kept.times(4),
            "output before its norm, behind it, gate, gated output",
            [batch, context, inner, ONE],
        );
    }
}
