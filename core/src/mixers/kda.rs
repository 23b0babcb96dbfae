//! Kimi Delta Attention (arXiv:2510.26692): linear attention that forgets by channel, its decay and gate of low rank.

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
    /// Kimi Delta Attention: linear attention (Kimi Linear, arXiv:2510.26692).
    Kda {
        /// Heads, split over tensor-parallel ranks.
        heads: number at least 1 = MixerHeads;
        /// Width of a head, and rank of the decay and the gate.
        head_dim: number at least 1 = MixerHeadDim;
        /// Tokens that each of the convolutions looks at.
        conv: number at least 1 = MixerConv;
    }
}

impl Kda {
    /// Heads, the width of one, that of all, and tokens of a convolution.
    const fn dims(&self, plan: &Plan) -> [Dim; 4] {
        let tp = plan.spec().layout.mesh.tp;
        [
            Dim::whole(Symbol::MixerHeads, self.heads).split(Over::Tp, tp),
            Dim::whole(Symbol::HeadDim, self.head_dim),
            Dim::whole(Symbol::Inner, mul(self.heads, self.head_dim)).split(Over::Tp, tp),
            Dim::whole(Symbol::Kernel, self.conv),
        ]
    }

    pub(super) const fn weights(&self, list: &mut Sink<'_>, at: At<'_>, w: &Entry, norm: &Entry) {
        let ([heads, dim, inner, conv], hidden) = (self.dims(at.plan), at.sizes.hidden);
        list.push(w, "self_attn.q_proj.weight", [inner, hidden, ONE, ONE]);
        list.push(w, "self_attn.k_proj.weight", [inner, hidden, ONE, ONE]);
        list.push(w, "self_attn.v_proj.weight", [inner, hidden, ONE, ONE]);
        list.push(w, "self_attn.q_conv1d.weight", [inner, ONE, conv, ONE]);
        list.push(w, "self_attn.k_conv1d.weight", [inner, ONE, conv, ONE]);
        list.push(w, "self_attn.v_conv1d.weight", [inner, ONE, conv, ONE]);
        list.push(w, "self_attn.A_log", [ONE, ONE, heads, Dim::UNIT]);
        list.push(w, "self_attn.dt_bias", [inner, ONE, ONE, ONE]);
        list.push(w, "self_attn.b_proj.weight", [heads, hidden, ONE, ONE]);
        list.push(w, "self_attn.f_a_proj.weight", [dim, hidden, ONE, ONE]);
        list.push(w, "self_attn.f_b_proj.weight", [inner, dim, ONE, ONE]);
        list.push(w, "self_attn.g_a_proj.weight", [dim, hidden, ONE, ONE]);
        list.push(w, "self_attn.g_b_proj.weight", [inner, dim, ONE, ONE]);
        list.push(norm, "self_attn.o_norm.weight", [dim, ONE, ONE, ONE]);
        list.push(w, "self_attn.o_proj.weight", [hidden, inner, ONE, ONE]);
    }

    /// Convolutions of query, key and value.
    pub(super) const fn cache(&self, list: &mut Sink<'_>, of: Caching<'_>) {
        let ([heads, dim, inner, _], entry) = (self.dims(of.at.plan), of.kept.entry(of.layers));
        of.kept.push_convolution(list, &entry.times(3), self.conv, inner);
        of.kept.push_state(list, &entry, [heads, dim, dim]);
    }

    pub(super) const fn saved(&self, list: &mut Sink<'_>, at: At<'_>, kept: &Entry) {
        let ([heads, dim, inner, _], batch, context) = (self.dims(at.plan), at.sizes.batch, at.sizes.context);
        list.push(&kept.times(6), "query, key, value, before and behind the convolution", [batch, context, inner, ONE]);
        list.push(&kept.times(2), "latents of decay and gate", [batch, context, dim, ONE]);
        list.push(kept, "write strength", [batch, context, heads, ONE]);
        list.push(&kept.times(4), "decay, gate, output before its norm, gated output", [batch, context, inner, ONE]);
    }
}
