//! A small model for worlds in which something happens.

use moe_model_core::Plan;
use moe_model_core::spec::{
    Accounting, Attention, Batch, Dtype, Experts, Gqa, Layers, Layout, Precision, Routing, Spec, Switch,
};

/// A layout of it.
pub(crate) fn plan(change: impl FnOnce(&mut Layout)) -> Plan {
    let mut spec = Spec::DEFAULT;
    let a = &mut spec.architecture;
    (a.hidden, a.vocab, a.tied_embeddings) = (16, 40, Switch::On);
    a.layers = Layers { dense: 1, moe: 3, ffn: 24, ..Layers::DEFAULT };
    a.attention = Attention::Gqa(Gqa { heads: 4, kv_heads: 2, head_dim: 8, ..Gqa::DEFAULT });
    a.experts = Experts { routed: 8, active: 2, ffn: 8, shared: 1, ..Experts::DEFAULT };
    let layout = &mut spec.layout;
    layout.precision = Precision { weights: Dtype::Fp32, activations: Dtype::Fp32, ..Precision::DEFAULT };
    layout.batch = Batch { sequence: 8, count: 2, ..Batch::DEFAULT };
    (layout.accounting, layout.routing) = (Accounting::REFERENCE, Routing::WORST);
    change(layout);
    Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"))
}
