//! Mamba (arXiv:2312.00752), with the norms that Jamba (arXiv:2403.19887) has inside it.

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
    /// Mamba with norms of its time step, input and output matrices (Jamba, arXiv:2403.19887).
    Mamba1 {
        /// Inner width, split over tensor-parallel ranks.
        inner: number at least 1 = MixerInner;
        /// Numbers of state that each channel keeps.
        state: number at least 1 = MixerState;
        /// Tokens that the convolution looks at.
        conv: number at least 1 = MixerConv;
        /// Rank of the time step.
        time_rank: number at least 1 = MixerTimeRank;
    }
}

/// Its dimensions on a rank.
#[derive(Clone, Copy)]
struct Dims {
    inner: Dim,
    /// Input and gate.
    inner_twice: Dim,
    state: Dim,
    time_rank: Dim,
    /// Time step, input and output matrix of a token.
    selected: Dim,
    conv: Dim,
}

impl Mamba1 {
    const fn dims(&self, plan: &Plan) -> Dims {
        let tp = plan.spec().layout.mesh.tp;
        Dims {
            inner: Dim::whole(Symbol::Inner, self.inner).split(Over::Tp, tp),
            inner_twice: Dim::whole(Symbol::Projected, mul(self.inner, 2)).split(Over::Tp, tp),
            state: Dim::whole(Symbol::State, self.state),
            time_rank: Dim::whole(Symbol::TimeRank, self.time_rank),
            selected: Dim::whole(Symbol::Projected, add(self.time_rank, mul(self.state, 2))),
            conv: Dim::whole(Symbol::Kernel, self.conv),
        }
    }

    pub(super) const fn weights(&self, list: &mut Sink<'_>, at: At<'_>, w: &Entry, norm: &Entry) {
        let (d, hidden) = (self.dims(at.plan), at.sizes.hidden);
        list.push(w, "mamba.in_proj.weight", [d.inner_twice, hidden, ONE, ONE]);
        list.push(w, "mamba.conv1d.weight", [d.inner, ONE, d.conv, ONE]);
        list.push(w, "mamba.conv1d.bias", [d.inner, ONE, ONE, ONE]);
        list.push(w, "mamba.x_proj.weight", [d.selected, d.inner, ONE, ONE]);
        list.push(w, "mamba.dt_proj.weight", [d.inner, d.time_rank, ONE, ONE]);
        list.push(w, "mamba.dt_proj.bias", [d.inner, ONE, ONE, ONE]);
        list.push(w, "mamba.A_log", [d.inner, d.state, ONE, ONE]);
        list.push(w, "mamba.D", [d.inner, ONE, ONE, ONE]);
        list.push(norm, "mamba.dt_layernorm.weight", [d.time_rank, ONE, ONE, ONE]);
        list.push(norm, "mamba.b_layernorm.weight", [d.state, ONE, ONE, ONE]);
        list.push(norm, "mamba.c_layernorm.weight", [d.state, ONE, ONE, ONE]);
        list.push(w, "mamba.out_proj.weight", [hidden, d.inner, ONE, ONE]);
    }

    pub(super) const fn cache(&self, list: &mut Sink<'_>, of: Caching<'_>) {
        let (d, entry) = (self.dims(of.at.plan), of.kept.entry(of.layers));
        of.kept.push_convolution(list, &entry, self.conv, d.inner);
        of.kept.push_state(list, &entry, [d.inner, d.state, ONE]);
    }

    pub(super) const fn saved(&self, list: &mut Sink<'_>, at: At<'_>, kept: &Entry) {
        let (d, batch, context) = (self.dims(at.plan), at.sizes.batch, at.sizes.context);
        list.push(kept, "input and gate", [batch, context, d.inner_twice, ONE]);
        list.push(kept, "input behind the convolution", [batch, context, d.inner, ONE]);
        list.push(&kept.times(2), "selection, before and behind its norms", [batch, context, d.selected, ONE]);
        list.push(&kept.times(3), "time step, output, gated output", [batch, context, d.inner, ONE]);
    }
}
