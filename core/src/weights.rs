//! The weights of every kind of layer, by name and shape as Hugging Face checkpoints hold them, what such checkpoints
//! hold beside them, and the flat buffers of gradients and optimizer state that follow from them.

use crate::counts::{Counts, Part};
use crate::inventory::{Element, Entry, Module, Role, Sink};
use crate::mixers::{At, Slot};
use crate::plan::Plan;
use crate::saturating::{add, cut, mul};
use crate::sizes::{Dim, Over, Sizes, Symbol};
use crate::spec::{Architecture, CorrectionBias, Dtype, Experts, LayerKind, Layers, Norm, ZeroStage};
use crate::tally::Tally;

const ONE: Dim = Dim::ONE;

/// The weights of so many parts of a model.
pub(crate) const fn list(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, counts: Counts) {
    let a = &plan.spec().architecture;
    // Whether more belongs to a feed-forward network than itself.
    let stands_alone = a.hyper_connections > 0 || a.layers.list.is_alone();
    if counts.first.there > 0 {
        list.part(Part::First);
        let table = weight(plan, Module::Embedding, counts.first.there);
        list.push(&table, "model.embed_tokens.weight", [sizes.vocab, sizes.hidden, ONE, ONE]);
        if a.positions > 0 {
            let rows = Dim::whole(Symbol::Positions, a.positions);
            list.push(&table, "model.embed_positions.weight", [rows, sizes.hidden, ONE, ONE]);
        }
    }
    mixer(list, plan, sizes, Slot::Attention, counts.mixers[0].there);
    if counts.mixers[1].there + counts.mixers[2].there + counts.mixers[3].there > 0 {
        mixer(list, plan, sizes, Slot::Mixer, counts.mixers[1].there);
        mixer(list, plan, sizes, Slot::Compressed, counts.mixers[2].there);
        mixer(list, plan, sizes, Slot::Heavy, counts.mixers[3].there);
    }
    if counts.dense.there > 0 {
        list.part(Part::Dense);
        dense_ffn(list, plan, sizes, &weight(plan, Module::DenseFfn, counts.dense.there));
        if stands_alone {
            around_ffn(list, plan, sizes, counts.dense.there);
        }
    }
    if counts.moe.there > 0 {
        list.part(Part::Moe);
        if stands_alone {
            around_ffn(list, plan, sizes, counts.moe.there);
        }
        let router = weight(plan, Module::Router, counts.moe.there);
        let routed = weight(plan, Module::RoutedExperts, counts.moe.there);
        experts(list, plan, sizes, &router, &routed, &weight(plan, Module::SharedExperts, counts.moe.there));
    }
    if counts.mtp.there > 0 {
        list.part(Part::Mtp);
        mtp_entrance(list, plan, sizes, &weight(plan, Module::Mtp, counts.mtp.there));
    }
    if counts.last.there > 0 {
        list.part(Part::Last);
        ends(list, plan, sizes, counts.last.there);
    }
    if counts.head.there > 0 {
        list.part(Part::Head);
        let head = weight(plan, Module::Head, counts.head.there);
        list.push(&head, "lm_head.weight", [sizes.vocab, sizes.hidden, ONE, ONE]);
    }
}

/// Attention or what takes its place, and the norms of its layers.
const fn mixer(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, slot: Slot, count: u64) {
    if count > 0 {
        list.part(slot.part());
        let norm = weight(plan, Module::Norm, count);
        At { plan, sizes, slot }.weights(list, &weight(plan, Module::Attention, count), &norm);
        layer_norms(list, plan, sizes, &norm);
        if plan.spec().architecture.hyper_connections > 0 {
            hyper_connections(list, plan, sizes, MIXER_CONNECTIONS, count);
        }
    }
}

/// What stands around a feed-forward network apart from its layer's mixer.
const fn around_ffn(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, count: u64) {
    let a = &plan.spec().architecture;
    if a.layers.list.is_alone() {
        layer_norms(list, plan, sizes, &weight(plan, Module::Norm, count));
    }
    if a.hyper_connections > 0 {
        hyper_connections(list, plan, sizes, FFN_CONNECTIONS, count);
    }
}

/// The names of what mixes residual streams around a block: by content, by itself, and how much of each.
const MIXER_CONNECTIONS: [&str; 3] = ["hc_attn_fn", "hc_attn_base", "hc_attn_scale"];
const FFN_CONNECTIONS: [&str; 3] = ["hc_ffn_fn", "hc_ffn_base", "hc_ffn_scale"];

/// Hyper-connections (arXiv:2409.19606, as in DeepSeek-V4) around a block: of n streams n weigh into its input, n take its
/// output, and n by n go over into one another.
const fn hyper_connections(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, names: [&'static str; 3], count: u64) {
    let (streams, w) = (plan.spec().architecture.hyper_connections, &weight(plan, Module::HyperConnections, count));
    let mixed = Dim::whole(Symbol::StreamsMixed, mul(streams, add(streams, 2)));
    list.push(w, names[0], [mixed, streams_wide(sizes, streams), ONE, ONE]);
    list.push(w, names[1], [mixed, ONE, ONE, ONE]);
    list.push(w, names[2], [Dim::whole(Symbol::Count, 3), ONE, ONE, ONE]);
}

/// In front of the head they weigh into one.
const fn head_connections(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, count: u64) {
    let (streams, w) = (plan.spec().architecture.hyper_connections, &weight(plan, Module::HyperConnections, count));
    let all = Dim::whole(Symbol::Streams, streams);
    list.push(w, "model.hc_head.hc_fn", [all, streams_wide(sizes, streams), ONE, ONE]);
    list.push(w, "model.hc_head.hc_base", [all, ONE, ONE, ONE]);
    list.push(w, "model.hc_head.hc_scale", [ONE, ONE, ONE, ONE]);
}

const fn streams_wide(sizes: &Sizes, streams: u64) -> Dim {
    Dim::whole(Symbol::StreamsWide, mul(streams, sizes.hidden.global))
}

/// The final norm, and what the head has beside its table.
const fn ends(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, count: u64) {
    let (a, norm) = (&plan.spec().architecture, weight(plan, Module::Norm, count));
    list.push(&norm, "model.norm.weight", [sizes.hidden, ONE, ONE, ONE]);
    if matches!(a.norm, Norm::LayerBias) {
        list.push(&norm, "model.norm.bias", [sizes.hidden, ONE, ONE, ONE]);
    }
    if a.head_bias.is_on() {
        list.push(&weight(plan, Module::Head, count), "lm_head.bias", [sizes.vocab, ONE, ONE, ONE]);
    }
    if a.hyper_connections > 0 {
        head_connections(list, plan, sizes, count);
    }
}

/// Weight and bias of a layer's norms.
const LAYER_NORMS: [[&str; 2]; 7] = [
    ["input_layernorm.weight", "input_layernorm.bias"],
    ["post_attention_layernorm.weight", "post_attention_layernorm.bias"],
    ["pre_feedforward_layernorm.weight", "pre_feedforward_layernorm.bias"],
    ["post_feedforward_layernorm.weight", "post_feedforward_layernorm.bias"],
    // Of the dense network's output, of the experts' output and of their input, where both stand beside each other.
    ["post_feedforward_layernorm_1.weight", "post_feedforward_layernorm_1.bias"],
    ["post_feedforward_layernorm_2.weight", "post_feedforward_layernorm_2.bias"],
    ["pre_feedforward_layernorm_2.weight", "pre_feedforward_layernorm_2.bias"],
];

/// The norms of a layer, those inside its attention apart.
const fn layer_norms(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, norm: &Entry) {
    let a = &plan.spec().architecture;
    let mut i = 0;
    while i < LAYER_NORMS.len() && (i as u64) < a.norms_per_layer {
        let [weight, bias] = LAYER_NORMS[i];
        list.push(norm, weight, [sizes.hidden, ONE, ONE, ONE]);
        if matches!(a.norm, Norm::LayerBias) {
            list.push(norm, bias, [sizes.hidden, ONE, ONE, ONE]);
        }
        i += 1;
    }
}

/// The weights of the multi-token-prediction modules: a layer each, a projection of the last hidden state beside
/// the next token's embedding, and three norms. Embedding and head are the model's own (DeepSeek-V3,
/// arXiv:2412.19437, section 2.2).
pub(crate) const fn list_mtp(list: &mut Sink<'_>, plan: &Plan) {
    let (sizes, architecture) = (&plan.sizes(), &plan.spec().architecture);
    let w = &weight(plan, Module::Mtp, architecture.mtp);
    mtp_entrance(list, plan, sizes, w);
    At { plan, sizes, slot: Slot::Attention }.weights(list, w, w);
    layer_norms(list, plan, sizes, w);
    if architecture.layers.moe > 0 {
        experts(list, plan, sizes, w, w, w);
    } else {
        dense_ffn(list, plan, sizes, w);
    }
}

/// What modules have around their layer: a projection, split over tensor-parallel ranks, and three norms.
const fn mtp_entrance(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, w: &Entry) {
    let split = sizes.hidden.split(Over::Tp, plan.spec().layout.mesh.tp);
    list.push(w, "eh_proj.weight", [split, sizes.hidden_twice, ONE, ONE]);
    list.push(w, "enorm.weight", [sizes.hidden, ONE, ONE, ONE]);
    list.push(w, "hnorm.weight", [sizes.hidden, ONE, ONE, ONE]);
    list.push(w, "shared_head.norm.weight", [sizes.hidden, ONE, ONE, ONE]);
}

/// The router's correction bias.
const CORRECTION_BIAS: &str = "mlp.gate.e_score_correction_bias";

/// Of how many layers the buffers are.
#[derive(Clone, Copy)]
pub(crate) struct Buffers {
    /// All.
    pub(crate) layers: u64,
    /// Those with a mixer in the place of attention.
    pub(crate) mixer: u64,
    /// Those whose router scores experts.
    pub(crate) moe: u64,
    /// Those whose router looks them up.
    pub(crate) hash: u64,
}

impl Buffers {
    pub(crate) const NONE: Self = Self { layers: 0, mixer: 0, moe: 0, hash: 0 };

    /// Those of a whole model.
    pub(crate) const fn of(layers: &Layers, experts: &Experts) -> Self {
        let hash = if experts.hash_layers < layers.moe { experts.hash_layers } else { layers.moe };
        let mixer = layers.list.count(LayerKind::Mixer);
        Self { layers: layers.count(), mixer, moe: layers.moe - hash, hash }
    }
}

/// Buffers that are saved with the weights of so many layers, and are no parameters; those of routers belong to `router`.
/// Their formats are those of published checkpoints, whatever that of weights.
pub(crate) const fn list_buffers(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, router: Module, of: &Buffers) {
    let Architecture { experts, layer_scalar, .. } = &plan.spec().architecture;
    if of.layers > 0 && layer_scalar.is_on() {
        list.push(&weight(plan, Module::Norm, of.layers), "layer_scalar", [ONE, ONE, ONE, ONE]);
    }
    if of.mixer > 0 {
        let decays = weight(plan, Module::Attention, of.mixer).stored_as(Element::FP32);
        At { plan, sizes, slot: Slot::Mixer }.buffers(list, &decays);
    }
    if of.moe > 0 && matches!(experts.correction_bias, CorrectionBias::On) {
        let bias = weight(plan, router, of.moe).stored_as(Element::FP32);
        list.push(&bias, CORRECTION_BIAS, [sizes.experts, ONE, ONE, ONE]);
    }
    if of.hash > 0 {
        let tokens = Dim::whole(Symbol::Vocab, plan.spec().architecture.vocab);
        let table = weight(plan, router, of.hash).stored_as(Element::INT64);
        list.push(&table, "mlp.gate.tid2eid", [tokens, sizes.active, ONE, ONE]);
    }
}

/// What the weights of one module share.
pub(crate) const fn weight(plan: &Plan, module: Module, count: u64) -> Entry {
    let layout = &plan.spec().layout;
    let expert_group = module.is_expert_group(layout.zero.groups);
    // Gathered and freed one by one, so each is padded by itself (DeepSpeed ZeRO-3, PyTorch FSDP).
    let is_sharded = matches!(zero_stage(plan, expert_group), ZeroStage::Parameters);
    let mut entry = Entry::NONE;
    (entry.module, entry.is_moe) = (module, module.is_moe());
    entry.element = Element::float(layout.precision.weights);
    entry.count = count;
    entry.shards = if is_sharded { plan.replicas(expert_group) } else { 1 };
    entry.expert_group = expert_group;
    entry.source = "checkpoint";
    entry
}

const fn dense_ffn(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, w: &Entry) {
    if plan.spec().architecture.layers.gated.is_on() {
        list.push(w, "mlp.gate_proj.weight", [sizes.dense_ffn, sizes.hidden, ONE, ONE]);
    }
    list.push(w, "mlp.up_proj.weight", [sizes.dense_ffn, sizes.hidden, ONE, ONE]);
    list.push(w, "mlp.down_proj.weight", [sizes.hidden, sizes.dense_ffn, ONE, ONE]);
    if plan.spec().architecture.layers.bias.is_on() {
        dense_biases(list, plan, sizes, w);
    }
}

/// Apart, since const evaluation sets up all of a function that it calls.
const fn dense_biases(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, w: &Entry) {
    if plan.spec().architecture.layers.gated.is_on() {
        list.push(w, "mlp.gate_proj.bias", [sizes.dense_ffn, ONE, ONE, ONE]);
    }
    list.push(w, "mlp.up_proj.bias", [sizes.dense_ffn, ONE, ONE, ONE]);
    list.push(w, "mlp.down_proj.bias", [sizes.hidden, ONE, ONE, ONE]);
}

const fn experts(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, router: &Entry, routed: &Entry, shared: &Entry) {
    let (experts, ffn, io, hidden) = (sizes.local_experts, sizes.expert_ffn, sizes.expert_io, sizes.hidden);
    let Architecture { experts: options, layers, .. } = &plan.spec().architecture;
    list.push(router, "mlp.gate.weight", [sizes.experts, hidden, ONE, ONE]);
    if layers.gated.is_on() {
        list.push(routed, "mlp.experts.gate_proj.weight", [experts, ffn, io, ONE]);
    }
    list.push(routed, "mlp.experts.up_proj.weight", [experts, ffn, io, ONE]);
    list.push(routed, "mlp.experts.down_proj.weight", [experts, io, ffn, ONE]);
    if options.has_more() {
        expert_options(list, plan, sizes, router, routed);
    }
    if options.shared > 0 {
        let ffn = sizes.shared_ffn;
        if layers.gated.is_on() {
            list.push(shared, "mlp.shared_experts.gate_proj.weight", [ffn, hidden, ONE, ONE]);
        }
        list.push(shared, "mlp.shared_experts.up_proj.weight", [ffn, hidden, ONE, ONE]);
        list.push(shared, "mlp.shared_experts.down_proj.weight", [hidden, ffn, ONE, ONE]);
        if options.shared_gate.is_on() {
            list.push(shared, "mlp.shared_expert_gate.weight", [Dim::ONE, hidden, ONE, ONE]);
        }
    }
}

/// What some models have beside router and experts. Apart, since const evaluation sets up all of a function that it calls.
const fn expert_options(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, router: &Entry, routed: &Entry) {
    let (experts, ffn, io, hidden) = (sizes.local_experts, sizes.expert_ffn, sizes.expert_io, sizes.hidden);
    let Architecture { experts: options, layers, .. } = &plan.spec().architecture;
    if options.router_bias.is_on() {
        list.push(router, "mlp.gate.bias", [sizes.experts, ONE, ONE, ONE]);
    }
    if matches!(options.correction_bias, CorrectionBias::Parameter) {
        list.push(router, CORRECTION_BIAS, [sizes.experts, ONE, ONE, ONE]);
    }
    if options.router_scale.is_on() {
        list.push(router, "mlp.gate.scale", [hidden, ONE, ONE, ONE]);
        list.push(router, "mlp.gate.per_expert_scale", [sizes.experts, ONE, ONE, ONE]);
    }
    if options.latent > 0 {
        list.push(router, "mlp.fc1_latent_proj.weight", [io, hidden, ONE, ONE]);
        list.push(router, "mlp.fc2_latent_proj.weight", [hidden, io, ONE, ONE]);
    }
    if options.bias.is_on() {
        if layers.gated.is_on() {
            list.push(routed, "mlp.experts.gate_proj.bias", [experts, ffn, ONE, ONE]);
        }
        list.push(routed, "mlp.experts.up_proj.bias", [experts, ffn, ONE, ONE]);
        list.push(routed, "mlp.experts.down_proj.bias", [experts, io, ONE, ONE]);
    }
}

/// Gradients and optimizer state, and from which ZeRO stage on each is sharded.
const STATES: [(Role, ZeroStage); 4] = [
    (Role::Gradient, ZeroStage::Gradients),
    (Role::MasterWeight, ZeroStage::Optimizer),
    (Role::FirstMoment, ZeroStage::Optimizer),
    (Role::SecondMoment, ZeroStage::Optimizer),
];

/// The format of each of [`STATES`].
const fn formats(plan: &Plan) -> [Dtype; 4] {
    let precision = &plan.spec().layout.precision;
    [precision.gradients, precision.master, precision.moments, precision.moments]
}

/// Lists the gradients and optimizer state of the weights listed before, flat for each ZeRO group.
pub(crate) const fn list_states(list: &mut Sink<'_>, plan: &Plan) {
    let (tally, formats) = (*list.tally(), formats(plan));
    let mut i = 0;
    while i < 2 * STATES.len() {
        let (expert_group, (role, from)) = (i >= STATES.len(), STATES[i % STATES.len()]);
        let (flat, element) = (flat(&tally, plan, expert_group, from), Element::float(formats[i % STATES.len()]));
        let common = Entry { role, element, ..state_entry(flat, expert_group) };
        list.push(&common, role.name(), [flat, ONE, ONE, ONE]);
        i += 1;
    }
}

/// Adds gradients and optimizer state to the sums of weights. Each group has two lengths, so that not each of the states
/// is measured, which const evaluation would notice.
pub(crate) const fn add_states(tally: &mut Tally, plan: &Plan) {
    let (formats, mut group) = (formats(plan), 0);
    while group < 2 {
        let whole = share(tally, plan, group == 1, ZeroStage::Gradients) as u128;
        let shard = share(tally, plan, group == 1, ZeroStage::Optimizer) as u128;
        let mut i = 0;
        while i < STATES.len() {
            let (role, from) = STATES[i];
            let length = if matches!(from, ZeroStage::Gradients) { whole } else { shard };
            tally.always[role as usize] += length * formats[i].bytes() as u128;
            i += 1;
        }
        group += 1;
    }
}

const fn zero_stage(plan: &Plan, expert: bool) -> ZeroStage {
    let zero = &plan.spec().layout.zero;
    if expert { zero.expert } else { zero.dense }
}

/// The parameters of one ZeRO group as one flat buffer, sharded from ZeRO stage `from` on, with its padding.
pub(crate) const fn flat(tally: &Tally, plan: &Plan, expert: bool, from: ZeroStage) -> Dim {
    let symbol = if expert { Symbol::ExpertParameters } else { Symbol::DenseParameters };
    let (parameters, shards) = (cut(tally.grouped[expert as usize]), plan.replicas(expert));
    let local = share(tally, plan, expert, from);
    if local == parameters {
        return Dim::whole(symbol, parameters);
    }
    Dim::whole(symbol, mul(local, shards)).split(Over::Zero, shards)
}

/// How many of the parameters of a group a rank keeps the state of, which is sharded from some ZeRO stage on. Where weights are
/// sharded too, each by itself, state is that of what the rank holds of them.
#[allow(clippy::cast_possible_truncation)] // compared in front of it
const fn share(tally: &Tally, plan: &Plan, expert: bool, from: ZeroStage) -> u64 {
    let stage = zero_stage(plan, expert);
    let of = if let ZeroStage::Parameters = stage { &tally.shares } else { &tally.grouped };
    // More than 64 bits count stay whole, so that the budget outgrows 64 bits too and is refused.
    let parameters = if of[expert as usize] > u64::MAX as u128 { u64::MAX } else { of[expert as usize] as u64 };
    if let ZeroStage::Parameters = stage { parameters } else { flat_share(parameters, plan, expert, from) }
}

/// The part of so many parameters, in one flat buffer, that a rank keeps the state of; rounded up.
pub(crate) const fn flat_share(parameters: u64, plan: &Plan, expert: bool, from: ZeroStage) -> u64 {
    let shards = plan.replicas(expert);
    if (zero_stage(plan, expert) as u8) < from as u8 || shards == 1 || parameters == u64::MAX {
        return parameters;
    }
    // By hand, since const evaluation notices a call of the standard library's.
    let whole = parameters / shards;
    if whole * shards == parameters { whole } else { whole + 1 }
}

/// What a flat buffer of one ZeRO group shares with others; nothing is listed of a group without parameters.
pub(crate) const fn state_entry(flat: Dim, expert_group: bool) -> Entry {
    Entry {
        part: if expert_group { "expert group" } else { "dense group" },
        module: if expert_group { Module::ExpertState } else { Module::DenseState },
        count: (flat.global > 0) as u64,
        expert_group,
        source: "ZeRO, arXiv:1910.02054",
        ..Entry::NONE
    }
}
