//! Random models and layouts, most of which the laws allow.

use fastrand::Rng;
use moe_model_core::spec::{
    Accounting, Architecture, Attention, Batch, Bias, Capacity, Context, CorrectionBias, Dropless, Dtype, Experts,
    Factor, Gqa, Kernel, LayerKind, LayerList, Layers, Layout, Mesh, Mla, Placement, Precision, QkNorm, Recompute,
    Reference, Routing, Schedule, Spec, Stages, Switch, Zero, ZeroStage,
};

/// One of some.
pub(crate) fn of<T: Copy>(rng: &mut Rng, among: &[T]) -> T {
    among[rng.usize(..among.len())]
}

fn switch(rng: &mut Rng) -> Switch {
    of(rng, Switch::ALL)
}

/// A Spec that the laws may refuse.
pub(crate) fn random(rng: &mut Rng) -> Spec {
    let mesh = mesh(rng);
    let architecture = architecture(rng, mesh.pp * mesh.vpp.max(1));
    Spec { architecture, layout: layout(rng, mesh, architecture.layers.count()) }
}

fn mesh(rng: &mut Rng) -> Mesh {
    let (tp, pp, cp) = (of(rng, &[1, 1, 2, 4]), of(rng, &[1, 1, 2, 3]), of(rng, &[1, 1, 2, 4]));
    Mesh {
        tp,
        cp,
        context: of(rng, &[Context::AllToAll, Context::Contiguous, Context::Ring]),
        pp,
        vpp: if pp > 1 { of(rng, &[0, 0, 2, 3]) } else { 0 },
        ep: of(rng, &[1, 1, 2, 4]),
        etp: of(rng, &[1, 1, 2]),
        dp: of(rng, &[1, 2, 4]),
        sequence_parallel: if tp > 1 { switch(rng) } else { Switch::Off },
        ..Mesh::DEFAULT
    }
}

fn architecture(rng: &mut Rng, least: u64) -> Architecture {
    Architecture {
        hidden: of(rng, &[8, 12, 20]),
        vocab: rng.u64(9..40),
        tied_embeddings: switch(rng),
        layers: layers(rng, least),
        attention: if rng.bool() { gqa(rng) } else { mla(rng) },
        experts: experts(rng),
        mtp: of(rng, &[0, 0, 0, 1, 2]),
        ..Architecture::DEFAULT
    }
}

fn layers(rng: &mut Rng, least: u64) -> Layers {
    let (some, ffn) = (rng.u64(1..4).max(least), of(rng, &[4, 8, 12]));
    let plain = Layers { ffn, ..Layers::DEFAULT };
    match rng.u8(..5) {
        0 => Layers { dense: some, ..plain },
        1 => Layers { moe: some, ..Layers::DEFAULT },
        2 if least > 3 => Layers { dense: 1, moe: some - 1, ..plain },
        2 => Layers { dense: rng.u64(1..3), moe: some, ..plain },
        3 => Layers { dense: some + rng.u64(..2), moe: some, moe_every: 2, ..plain },
        _ => listed(of(rng, &["aA", "aAA", "AaaA", "AaA", "(Aa)*2"]), plain),
    }
}

fn listed(list: &str, plain: Layers) -> Layers {
    let list = LayerList::parse(list);
    Layers { dense: list.count(LayerKind::Dense), moe: list.count(LayerKind::Moe), list, ..plain }
}

fn gqa(rng: &mut Rng) -> Attention {
    let kv_heads = of(rng, &[1, 2, 4]);
    let window = of(rng, &[0, 0, 2, 3]);
    Attention::Gqa(Gqa {
        heads: kv_heads * of(rng, &[1, 2, 3, 4]),
        kv_heads,
        head_dim: of(rng, &[2, 4, 6]),
        bias: of(rng, Bias::ALL),
        qk_norm: of(rng, &[QkNorm::None, QkNorm::Head]),
        sinks: switch(rng),
        value_dim: of(rng, &[0, 0, 3, 8]),
        window,
        full_every: if window > 0 { of(rng, &[0, 2]) } else { 0 },
        ..Gqa::DEFAULT
    })
}

fn mla(rng: &mut Rng) -> Attention {
    Attention::Mla(Mla {
        heads: of(rng, &[2, 4, 8]),
        q_rank: of(rng, &[0, 5, 8]),
        kv_rank: of(rng, &[3, 6]),
        nope: of(rng, &[2, 3]),
        rope: of(rng, &[2, 4]),
        value: of(rng, &[2, 5]),
        ..Mla::DEFAULT
    })
}

fn experts(rng: &mut Rng) -> Experts {
    let (groups, shared) = (of(rng, &[1, 1, 2, 4]), of(rng, &[0, 1, 2]));
    Experts {
        routed: groups * of(rng, &[2, 3, 4]),
        shared,
        active: rng.u64(1..4),
        ffn: of(rng, &[4, 8]),
        bias: switch(rng),
        shared_ffn: if shared > 0 { of(rng, &[0, 12]) } else { 0 },
        shared_gate: if shared > 0 { switch(rng) } else { Switch::Off },
        router_bias: switch(rng),
        groups,
        active_groups: rng.u64(1..=groups),
        correction_bias: of(rng, &[CorrectionBias::Off, CorrectionBias::On]),
        ..Experts::DEFAULT
    }
}

fn layout(rng: &mut Rng, mesh: Mesh, layers: u64) -> Layout {
    let weights = of(rng, &[Dtype::Fp32, Dtype::Bf16]);
    let recompute = of(rng, &[Recompute::None, Recompute::Full]);
    let recompute_layers = if recompute == Recompute::Full { of(rng, &[0, 1, 2]) } else { 0 };
    Layout {
        mesh,
        stages: if mesh.vpp > 1 { Stages::EVEN } else { stages(rng, mesh.pp, layers) },
        schedule: if mesh.vpp > 1 { Schedule::Interleaved } else { of(rng, &[Schedule::Gpipe, Schedule::OneFOneB]) },
        zero: Zero { dense: of(rng, ZeroStage::ALL), expert: of(rng, ZeroStage::ALL), ..Zero::NONE },
        placement: Placement { vocab_multiple: of(rng, &[1, 8]), ..Placement::DEFAULT },
        precision: Precision {
            weights,
            activations: weights,
            moments: of(rng, &[Dtype::Fp32, Dtype::Bf16]),
            ..Precision::DEFAULT
        },
        batch: Batch {
            sequence: of(rng, &[4, 5, 8, 8]),
            micro: rng.u64(1..4),
            count: rng.u64(1..5).max(if mesh.vpp > 1 { mesh.pp } else { 1 }),
            group: if mesh.vpp > 1 { mesh.pp + rng.u64(..2) } else { 0 },
            ..Batch::DEFAULT
        },
        recompute,
        recompute_layers,
        routing: routing(rng),
        accounting: Accounting::Reference(Reference { kernel: of(rng, Kernel::ALL) }),
        ..Layout::DEFAULT
    }
}

fn stages(rng: &mut Rng, pp: u64, layers: u64) -> Stages {
    let uneven = Stages { first: layers.saturating_sub(pp - 1), last: 1, ..Stages::EVEN };
    if pp > 1 && (!layers.is_multiple_of(pp) || rng.bool()) { uneven } else { Stages::EVEN }
}

fn routing(rng: &mut Rng) -> Routing {
    let factor = Factor::thousandths(of(rng, &[500, 1000, 1250, 2000]));
    match rng.u8(..4) {
        0 => Routing::BALANCED,
        1 => Routing::WORST,
        2 => Routing::Dropless(Dropless { skew: Factor::thousandths(1500), ..Dropless::DEFAULT }),
        _ => Routing::Capacity(Capacity { factor }),
    }
}
