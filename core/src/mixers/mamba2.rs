//! Mamba-2 (arXiv:2405.21060): a state space whose heads share input and output matrices in groups.

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
    /// Mamba-2 (arXiv:2405.21060; Nemotron-H).
    Mamba2 {
        /// Heads, split over tensor-parallel ranks.
        heads: number at least 1 = MixerHeads;
        /// Width of a head.
        head_dim: number at least 1 = MixerHeadDim;
        /// Numbers of state that each channel keeps.
        state: number at least 1 = MixerState;
        /// Groups of heads that share input and output matrices, split over tensor-parallel ranks.
        groups: number at least 1 = MixerGroups;
        /// Tokens that the convolution looks at.
        conv: number at least 1 = MixerConv;
    }
}

/// Its dimensions on a rank.
#[derive(Clone, Copy)]
struct Dims {
    heads: Dim,
    /// All heads.
    inner: Dim,
    /// These, and the input and output matrices of all groups.
    mixed: Dim,
    /// These, a gate of all heads, and a time step for each.
    projected: Dim,
    conv: Dim,
}

impl Mamba2 {
    const fn dims(&self, plan: &Plan) -> Dims {
        let (tp, inner) = (plan.spec().layout.mesh.tp, mul(self.heads, self.head_dim));
        let mixed = add(inner, mul(2, mul(self.groups, self.state)));
        Dims {
            heads: Dim::whole(Symbol::MixerHeads, self.heads).split(Over::Tp, tp),
            inner: Dim::whole(Symbol::Inner, inner).split(Over::Tp, tp),
            mixed: Dim::whole(Symbol::Mixed, mixed).split(Over::Tp, tp),
            projected: Dim::whole(Symbol::Projected, add(add(inner, mixed), self.heads)).split(Over::Tp, tp),
            conv: Dim::whole(Symbol::Kernel, self.conv),
        }
    }

    pub(super) const fn weights(&self, list: &mut Sink<'_>, at: At<'_>, w: &Entry, norm: &Entry) {
        let (d, hidden) = (self.dims(at.plan), at.sizes.hidden);
        list.push(w, "mamba.in_proj.weight", [d.projected, hidden, ONE, ONE]);
        list.push(w, "mamba.conv1d.weight", [d.mixed, ONE, d.conv, ONE]);
        list.push(w, "mamba.conv1d.bias", [d.mixed, ONE, ONE, ONE]);
        list.push(w, "mamba.A_log", [d.heads, ONE, ONE, ONE]);
        list.push(w, "mamba.D", [d.heads, ONE, ONE, ONE]);
        list.push(w, "mamba.dt_bias", [d.heads, ONE, ONE, ONE]);
        list.push(norm, "mamba.norm.weight", [d.inner, ONE, ONE, ONE]);
        list.push(w, "mamba.out_proj.weight", [hidden, d.inner, ONE, ONE]);
    }

    pub(super) const fn cache(&self, list: &mut Sink<'_>, of: Caching<'_>) {
        let (d, entry) = (self.dims(of.at.plan), of.kept.entry(of.layers));
        of.kept.push_convolution(list, &entry, self.conv, d.mixed);
        let (dim, state) = (Dim::whole(Symbol::HeadDim, self.head_dim), Dim::whole(Symbol::State, self.state));
        of.kept.push_state(list, &entry, [d.heads, dim, state]);
    }

    pub(super) const fn saved(&self, list: &mut Sink<'_>, at: At<'_>, kept: &Entry) {
        let (d, batch, context) = (self.dims(at.plan), at.sizes.batch, at.sizes.context);
        list.push(kept, "input, gate and time step", [batch, context, d.projected, ONE]);
        list.push(kept, "input behind the convolution", [batch, context, d.mixed, ONE]);
        list.push(&kept.times(2), "output before its norm, gated output", [batch, context, d.inner, ONE]);
    }
}
