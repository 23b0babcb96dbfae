//! The choices that random layouts must cover.

use moe_model_core::spec::{
    Accounting, Architecture, Attention, Bias, Context, CorrectionBias, Dtype, Factor, Gqa, Kernel, Layout, QkNorm,
    Recompute, Routing, Schedule, Spec, Zero, ZeroStage,
};

pub(crate) type Choice = (&'static str, fn(&Architecture, &Layout) -> bool);

/// Which of them a Spec makes.
pub(crate) fn of(spec: &Spec) -> impl Iterator<Item = &'static str> {
    ALL.iter().filter(|(_, makes)| makes(&spec.architecture, &spec.layout)).map(|(name, _)| *name)
}

fn gqa(of: &Architecture) -> Gqa {
    if let Attention::Gqa(gqa) = of.attention { gqa } else { Gqa::DEFAULT }
}

fn q_rank(of: &Architecture) -> Option<u64> {
    if let Attention::Mla(mla) = of.attention { Some(mla.q_rank) } else { None }
}

fn kernel(of: &Layout) -> Option<Kernel> {
    if let Accounting::Reference(reference) = of.accounting { Some(reference.kernel) } else { None }
}

fn has_experts(of: &Architecture) -> bool {
    of.layers.moe > 0
}

/// By name.
pub(crate) const ALL: &[Choice] = &[
    ("as many key/value heads", |a, _| gqa(a).heads == gqa(a).kv_heads && q_rank(a).is_none()),
    ("fewer key/value heads", |a, _| gqa(a).heads > gqa(a).kv_heads),
    ("fewer key/value heads than ranks", |a, l| q_rank(a).is_none() && gqa(a).kv_heads < l.mesh.tp),
    ("biases of query, key and value", |a, _| gqa(a).bias == Bias::Qkv),
    ("biases of all", |a, _| gqa(a).bias == Bias::All),
    ("norms of heads", |a, _| gqa(a).qk_norm == QkNorm::Head),
    ("sinks", |a, _| gqa(a).sinks.is_on()),
    ("window", |a, _| gqa(a).window > 0 && gqa(a).full_every == 0),
    ("window and full layers", |a, _| gqa(a).full_every > 0),
    ("values of another width", |a, _| gqa(a).value_dim > 0),
    ("latents of keys and values", |a, _| q_rank(a) == Some(0)),
    ("latents of queries", |a, _| q_rank(a) > Some(0)),
    ("dense layers alone", |a, _| a.layers.moe == 0),
    ("experts alone", |a, _| a.layers.dense == 0),
    ("dense layers in front", |a, _| a.layers.lead() > 0 && has_experts(a) && !a.layers.has_list()),
    ("every second layer", |a, _| a.layers.moe_every > 1),
    ("listed layers", |a, _| a.layers.has_list()),
    ("shared experts", |a, _| has_experts(a) && a.experts.shared > 0),
    ("shared experts of their own width", |a, _| has_experts(a) && a.experts.shared_ffn > 0),
    ("gated shared experts", |a, _| has_experts(a) && a.experts.shared_gate.is_on()),
    ("gated shared experts and split sequences", |a, l| {
        has_experts(a) && a.experts.shared_gate.is_on() && l.mesh.sequence_parallel.is_on()
    }),
    ("biases of experts", |a, _| has_experts(a) && a.experts.bias.is_on()),
    ("bias of the router", |a, _| has_experts(a) && a.experts.router_bias.is_on()),
    ("groups of experts", |a, _| has_experts(a) && a.experts.groups > 1),
    ("some groups of experts", |a, _| has_experts(a) && a.experts.active_groups < a.experts.groups),
    ("correction bias", |a, _| has_experts(a) && a.experts.correction_bias == CorrectionBias::On),
    ("modules that look further", |a, _| a.mtp > 0),
    ("modules that look further and split sequences", |a, l| a.mtp > 0 && l.mesh.sequence_parallel.is_on()),
    ("modules that look further on the last of several stages", |a, l| a.mtp > 0 && l.mesh.pp > 1),
    ("tied embeddings on one rank", |a, l| a.tied_embeddings.is_on() && l.mesh.pp == 1),
    ("tied embeddings on two ranks", |a, l| a.tied_embeddings.is_on() && l.mesh.pp > 1),
    ("tensor parallelism", |_, l| l.mesh.tp > 1 && !l.mesh.sequence_parallel.is_on()),
    ("split sequences", |_, l| l.mesh.sequence_parallel.is_on()),
    ("split sequences of several", |_, l| l.mesh.sequence_parallel.is_on() && l.batch.micro > 1),
    ("pieces of sequences", |_, l| l.mesh.cp > 1),
    ("pieces of several sequences", |_, l| l.mesh.cp > 1 && l.batch.micro > 1),
    ("pieces of split sequences", |_, l| l.mesh.cp > 1 && l.mesh.sequence_parallel.is_on()),
    ("pieces and fewer key/value heads than ranks", |a, l| {
        q_rank(a).is_none() && gqa(a).kv_heads < l.mesh.cp * l.mesh.tp && l.mesh.cp > 1
    }),
    ("pieces and norms of heads", |a, l| l.mesh.cp > 1 && gqa(a).qk_norm == QkNorm::Head),
    ("pieces and sinks", |a, l| l.mesh.cp > 1 && gqa(a).sinks.is_on()),
    ("pieces and latents", |a, l| l.mesh.cp > 1 && q_rank(a).is_some()),
    ("pieces and modules that look further", |a, l| l.mesh.cp > 1 && a.mtp > 0),
    ("pieces and eager", |_, l| l.mesh.cp > 1 && kernel(l) == Some(Kernel::Eager)),
    ("heads that are traded", |_, l| l.mesh.cp > 1 && l.mesh.context == Context::AllToAll),
    ("pieces that go round", |_, l| l.mesh.cp > 1 && l.mesh.context == Context::Contiguous),
    ("two pieces that go round", |_, l| l.mesh.cp > 1 && l.mesh.context == Context::Ring),
    ("windows of pieces that go round", |a, l| {
        l.mesh.cp > 1 && gqa(a).window > 0 && l.mesh.context != Context::AllToAll
    }),
    ("pieces and all again", |_, l| l.mesh.cp > 1 && l.recompute == Recompute::Full),
    ("pieces and expert parallelism", |a, l| has_experts(a) && l.mesh.ep > 1 && l.mesh.cp > 1),
    ("gpipe", |_, l| l.mesh.pp > 1 && l.schedule == Schedule::Gpipe),
    ("one forward, one backward", |_, l| l.mesh.pp > 1 && l.schedule == Schedule::OneFOneB),
    ("interleaved chunks", |_, l| l.schedule == Schedule::Interleaved),
    ("interleaved chunks and modules that look further", |a, l| a.mtp > 0 && l.schedule == Schedule::Interleaved),
    ("three stages", |_, l| l.mesh.pp > 2),
    ("uneven stages", |_, l| l.mesh.pp > 1 && l.stages.last > 0),
    ("expert parallelism", |a, l| has_experts(a) && l.mesh.ep > 1),
    ("split experts", |a, l| has_experts(a) && l.mesh.etp > 1),
    ("split experts dealt over ranks", |a, l| has_experts(a) && l.mesh.etp > 1 && l.mesh.ep > 1),
    ("split experts and sequences", |a, l| has_experts(a) && l.mesh.etp > 1 && l.mesh.sequence_parallel.is_on()),
    ("split experts with biases", |a, l| has_experts(a) && l.mesh.etp > 1 && a.experts.bias.is_on()),
    ("expert parallelism and split sequences", |a, l| {
        has_experts(a) && l.mesh.ep > 1 && l.mesh.sequence_parallel.is_on()
    }),
    ("data parallelism", |_, l| l.mesh.dp > 1),
    ("sharded optimizer", |_, l| l.mesh.dp > 1 && l.zero.dense == ZeroStage::Optimizer),
    ("sharded gradients", |_, l| l.mesh.dp > 1 && l.zero.dense == ZeroStage::Gradients),
    ("sharded weights", |_, l| l.mesh.dp > 1 && l.zero.dense == ZeroStage::Parameters),
    ("sharded gradients of experts", |_, l| l.mesh.dp > l.mesh.ep && l.zero.expert == ZeroStage::Gradients),
    ("sharded experts", |_, l| l.mesh.dp > l.mesh.ep && l.zero.expert == ZeroStage::Parameters),
    ("whole optimizer", |_, l| l.zero == Zero::NONE),
    ("flash", |_, l| kernel(l) == Some(Kernel::Flash)),
    ("eager", |_, l| kernel(l) == Some(Kernel::Eager)),
    ("nothing again", |_, l| l.recompute == Recompute::None),
    ("all again", |_, l| l.recompute == Recompute::Full && l.recompute_layers == 0),
    ("the first again", |a, l| l.recompute_layers > 0 && a.layers.count() > l.recompute_layers * l.mesh.pp),
    ("the first again, and modules behind", |a, l| l.recompute_layers > 0 && a.mtp > 0),
    ("balanced", |a, l| has_experts(a) && l.routing == Routing::BALANCED),
    ("worst", |a, l| has_experts(a) && l.mesh.ep > 1 && l.routing == Routing::WORST),
    ("skewed", |a, l| {
        has_experts(a) && l.mesh.ep > 1 && matches!(l.routing, Routing::Dropless(of) if of.skew > Factor::ONE)
    }),
    ("slots on several ranks", |a, l| has_experts(a) && l.mesh.ep > 1 && matches!(l.routing, Routing::Capacity(_))),
    ("few slots", |a, l| has_experts(a) && matches!(l.routing, Routing::Capacity(of) if of.factor < Factor::ONE)),
    ("many slots", |a, l| has_experts(a) && matches!(l.routing, Routing::Capacity(of) if of.factor > Factor::ONE)),
    ("fp32", |_, l| l.precision.weights == Dtype::Fp32),
    ("bf16", |_, l| l.precision.weights == Dtype::Bf16),
    ("moments in fp32", |_, l| l.precision.moments == Dtype::Fp32),
    ("moments in bf16", |_, l| l.precision.moments == Dtype::Bf16),
    ("several sequences", |_, l| l.batch.micro > 1),
    ("several micro-batches", |_, l| l.batch.count > 1),
    ("padded vocabulary", |a, l| !a.vocab.is_multiple_of(l.placement.vocab_multiple * l.mesh.tp)),
];
