//! Gated DeltaNet (arXiv:2412.06464), as Qwen3-Next has it: linear attention with a convolution in front and a gated norm
//! behind.

use super::At;
use super::cache::Caching;
use crate::inventory::{Entry, Sink};
use crate::key::{Key, KeySet, Numbers};
use crate::plan::Plan;
use crate::saturating::{add, mul};
use crate::sizes::{Dim, Over, Symbol};
use crate::spec::schema::{
    Field, NUMBER_MAX, Value, field_code, field_decode, field_default, field_in_range, field_required, field_type,
    field_value, group,
};

const ONE: Dim = Dim::ONE;

group! {
    /// Gated DeltaNet: linear attention (arXiv:2412.06464; Qwen3-Next).
    GatedDeltaNet {
        /// Heads of queries and keys, split over tensor-parallel ranks.
        key_heads: number at least 1 = MixerKeyHeads;
        /// Heads of values, as many for each head of keys, split over tensor-parallel ranks.
        value_heads: number at least 1 = MixerValueHeads;
        /// Width of a query or key head.
        key_dim: number at least 1 = MixerKeyDim;
        /// Width of a value head. Left out (0 in a Spec) it is that of the others.
        value_dim: number at least 0 = MixerValueDim, default 0;
        /// Tokens that the convolution looks at.
        conv: number at least 1 = MixerConv;
    }
}

/// Its dimensions on a rank.
#[derive(Clone, Copy)]
struct Dims {
    /// Queries, keys and values of all heads.
    mixed: Dim,
    /// Values of all heads.
    values: Dim,
    value_heads: Dim,
    value_dim: Dim,
    conv: Dim,
}

impl GatedDeltaNet {
    const fn dims(&self, plan: &Plan) -> Dims {
        let tp = plan.spec().layout.mesh.tp;
        let value_dim = if self.value_dim == 0 { self.key_dim } else { self.value_dim };
        let (keys, values) = (mul(self.key_heads, self.key_dim), mul(self.value_heads, value_dim));
        Dims {
            mixed: Dim::whole(Symbol::Projected, add(mul(keys, 2), values)).split(Over::Tp, tp),
            values: Dim::whole(Symbol::Inner, values).split(Over::Tp, tp),
            value_heads: Dim::whole(Symbol::MixerHeads, self.value_heads).split(Over::Tp, tp),
            value_dim: Dim::whole(Symbol::Value, value_dim),
            conv: Dim::whole(Symbol::Kernel, self.conv),
        }
    }

    pub(super) const fn weights(&self, list: &mut Sink<'_>, at: At<'_>, w: &Entry, norm: &Entry) {
        let (d, hidden) = (self.dims(at.plan), at.sizes.hidden);
        list.push(w, "linear_attn.in_proj_qkv.weight", [d.mixed, hidden, ONE, ONE]);
        list.push(w, "linear_attn.in_proj_z.weight", [d.values, hidden, ONE, ONE]);
        list.push(w, "linear_attn.in_proj_b.weight", [d.value_heads, hidden, ONE, ONE]);
        list.push(w, "linear_attn.in_proj_a.weight", [d.value_heads, hidden, ONE, ONE]);
        list.push(w, "linear_attn.conv1d.weight", [d.mixed, ONE, d.conv, ONE]);
        list.push(w, "linear_attn.A_log", [d.value_heads, ONE, ONE, ONE]);
        list.push(w, "linear_attn.dt_bias", [d.value_heads, ONE, ONE, ONE]);
        list.push(norm, "linear_attn.norm.weight", [d.value_dim, ONE, ONE, ONE]);
        list.push(w, "linear_attn.out_proj.weight", [hidden, d.values, ONE, ONE]);
    }

    pub(super) const fn cache(&self, list: &mut Sink<'_>, of: Caching<'_>) {
        let (d, entry) = (self.dims(of.at.plan), of.kept.entry(of.layers));
        of.kept.push_convolution(list, &entry, self.conv, d.mixed);
        of.kept.push_state(list, &entry, [d.value_heads, Dim::whole(Symbol::HeadDim, self.key_dim), d.value_dim]);
    }

    pub(super) const fn saved(&self, list: &mut Sink<'_>, at: At<'_>, kept: &Entry) {
        let (d, batch, context) = (self.dims(at.plan), at.sizes.batch, at.sizes.context);
        list.push(
            &kept.times(2),
            "query, key, value, before and behind the convolution",
            [batch, context, d.mixed, ONE],
        );
        list.push(&kept.times(2), "decay, write strength", [batch, context, d.value_heads, ONE]);
        list.push(&kept.times(3), "gate, output before its norm, gated output", [batch, context, d.values, ONE]);
    }
}
