//! A small model laid out so that ranks do together whatever ranks do.

use moe_model_core::Plan;
use moe_model_core::spec::{
    Accounting, Attention, Batch, Capacity, Experts, Factor, Gqa, Layers, Layout, Mesh, Recompute, Routing, Schedule,
    Spec, Switch, Zero,
};

/// One layout of it.
pub(crate) fn plan(change: impl FnOnce(&mut Layout)) -> Plan {
    let mut spec = Spec::DEFAULT;
    let a = &mut spec.architecture;
    (a.hidden, a.vocab, a.tied_embeddings) = (16, 40, Switch::On);
    a.layers = Layers { dense: 1, moe: 3, ffn: 24, ..Layers::DEFAULT };
    a.attention = Attention::Gqa(Gqa { heads: 4, kv_heads: 2, head_dim: 8, ..Gqa::DEFAULT });
    a.experts = Experts { routed: 8, active: 2, ffn: 8, shared: 1, ..Experts::DEFAULT };
    let layout = &mut spec.layout;
    layout.batch = Batch { sequence: 8, count: 2, ..Batch::DEFAULT };
    (layout.accounting, layout.routing) = (Accounting::REFERENCE, Routing::WORST);
    change(layout);
    Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"))
}

/// Experts dealt over ranks and split, with replicas that share their state; what backward needs is computed again.
pub(crate) fn experts(layout: &mut Layout) {
    layout.mesh = Mesh { dp: 8, ep: 2, etp: 2, ..Mesh::DEFAULT };
    (layout.zero, layout.recompute) = (Zero::OPTIMIZER, Recompute::Full);
}

/// Stages of chunks that take turns, of ranks that split tensors and sequences and have slots for tokens at each expert.
pub(crate) fn stages(layout: &mut Layout) {
    layout.mesh = Mesh { dp: 2, tp: 2, pp: 2, vpp: 2, ep: 2, sequence_parallel: Switch::On, ..Mesh::DEFAULT };
    layout.schedule = Schedule::Interleaved;
    layout.routing = Routing::Capacity(Capacity { factor: Factor::thousandths(1000) });
}

/// Ranks that split tensors alone, and their replicas.
pub(crate) fn tensors(layout: &mut Layout) {
    layout.mesh = Mesh { dp: 2, tp: 2, ..Mesh::DEFAULT };
}
