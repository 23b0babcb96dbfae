//! The weights of every kind of layer, by name and shape as Hugging Face checkpoints hold them, what such checkpoints
//! hold beside them, and the flat buffers of gradients and optimizer state that follow from them.

use crate::inventory::{Counts, Element, Entry, Module, Part, Role, Sink};
use crate::plan::Plan;
use crate::saturating::{cut, mul};
use crate::sizes::{Dim, Over, Sizes, Symbol};
use crate::spec::{Attention, Bias, CorrectionBias, Dtype, Gqa, Norm, QkNorm, Split, ZeroStage};
use crate::tally::Tally;

const ONE: Dim = Dim::ONE;

/// The weights of so many parts of a model.
pub(crate) const fn list(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, counts: Counts) {
    if counts.first.there > 0 {
        list.part(Part::First);
        let table = weight(plan, Module::Embedding, counts.first.there);
        list.push(&table, "model.embed_tokens.weight", [sizes.vocab, sizes.hidden, ONE, ONE]);
    }
    if counts.attention.there > 0 {
        list.part(Part::Attention);
        let (w, norm) = (
            weight(plan, Module::Attention, counts.attention.there),
            weight(plan, Module::Norm, counts.attention.there),
        );
        attention(list, plan, sizes, &w, &norm);
        layer_norms(list, plan, sizes, &norm);
    }
    if counts.dense.there > 0 {
        list.part(Part::Dense);
        dense_ffn(list, sizes, &weight(plan, Module::DenseFfn, counts.dense.there));
    }
    if counts.moe.there > 0 {
        list.part(Part::Moe);
        let router = weight(plan, Module::Router, counts.moe.there);
        let routed = weight(plan, Module::RoutedExperts, counts.moe.there);
        experts(list, plan, sizes, &router, &routed, &weight(plan, Module::SharedExperts, counts.moe.there));
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
}

/// Weight and bias of a layer's norms.
const LAYER_NORMS: [[&str; 2]; 4] = [
    ["input_layernorm.weight", "input_layernorm.bias"],
    ["post_attention_layernorm.weight", "post_attention_layernorm.bias"],
    ["pre_feedforward_layernorm.weight", "pre_feedforward_layernorm.bias"],
    ["post_feedforward_layernorm.weight", "post_feedforward_layernorm.bias"],
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
    list.push(w, "eh_proj.weight", [sizes.hidden, sizes.hidden_twice, ONE, ONE]);
    list.push(w, "enorm.weight", [sizes.hidden, ONE, ONE, ONE]);
    list.push(w, "hnorm.weight", [sizes.hidden, ONE, ONE, ONE]);
    list.push(w, "shared_head.norm.weight", [sizes.hidden, ONE, ONE, ONE]);
    attention(list, plan, sizes, w, w);
    layer_norms(list, plan, sizes, w);
    if architecture.layers.moe > 0 {
        experts(list, plan, sizes, w, w, w);
    } else {
        dense_ffn(list, sizes, w);
    }
}

/// The router's correction bias.
const CORRECTION_BIAS: &str = "mlp.gate.e_score_correction_bias";

/// Buffers that are saved with the weights of so many layers with experts, and are no parameters.
pub(crate) const fn list_buffers(list: &mut Sink<'_>, plan: &Plan, module: Module, count: u64) {
    if count > 0 && matches!(plan.spec().architecture.experts.correction_bias, CorrectionBias::On) {
        list.push(&weight(plan, module, count), CORRECTION_BIAS, [plan.sizes().experts, ONE, ONE, ONE]);
    }
}

/// What the weights of one module share.
const fn weight(plan: &Plan, module: Module, count: u64) -> Entry {
    let layout = &plan.spec().layout;
    let expert_group = module.is_expert_group(layout.zero.groups);
    // Gathered and freed one by one, so each is padded by itself (DeepSpeed ZeRO-3, PyTorch FSDP); a tensor listed in
    // parts counts as several.
    let is_sharded = matches!(zero_stage(plan, expert_group), ZeroStage::Parameters);
    Entry {
        module,
        element: Element::float(layout.precision.weights),
        count,
        shards: if is_sharded { plan.replicas(expert_group) } else { 1 },
        expert_group,
        source: "checkpoint",
        ..Entry::NONE
    }
}

/// Attention, with the norms inside it.
const fn attention(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, w: &Entry, norm: &Entry) {
    let (hidden, heads) = (sizes.hidden, sizes.heads);
    match plan.spec().architecture.attention {
        Attention::Mla(mla) => {
            let rope_heads = match plan.spec().layout.placement.query_rope {
                Split::Split => heads,
                Split::Replicated => sizes.heads_whole,
            };
            let (name, width) = if mla.q_rank == 0 {
                ("self_attn.q_proj.weight", hidden)
            } else {
                list.push(w, "self_attn.q_a_proj.weight", [sizes.q_rank, hidden, ONE, ONE]);
                list.push(norm, "self_attn.q_a_layernorm.weight", [sizes.q_rank, ONE, ONE, ONE]);
                ("self_attn.q_b_proj.weight", sizes.q_rank)
            };
            list.push_part(w, name, "nope", [heads, sizes.nope, width, ONE]);
            list.push_part(w, name, "rope", [rope_heads, sizes.rope, width, ONE]);
            let name = "self_attn.kv_a_proj_with_mqa.weight";
            list.push_part(w, name, "latent", [sizes.kv_rank, hidden, ONE, ONE]);
            list.push_part(w, name, "rope", [sizes.rope, hidden, ONE, ONE]);
            list.push(norm, "self_attn.kv_a_layernorm.weight", [sizes.kv_rank, ONE, ONE, ONE]);
            let name = "self_attn.kv_b_proj.weight";
            list.push_part(w, name, "key", [heads, sizes.nope, sizes.kv_rank, ONE]);
            list.push_part(w, name, "value", [heads, sizes.value, sizes.kv_rank, ONE]);
            list.push(w, "self_attn.o_proj.weight", [hidden, heads, sizes.value, ONE]);
            if mla.indexer_heads > 0 {
                indexer(list, sizes, w, norm);
            }
        }
        Attention::Gqa(gqa) => {
            let query = if gqa.output_gate.is_on() { sizes.head_dim_twice } else { sizes.head_dim };
            list.push(w, "self_attn.q_proj.weight", [heads, query, hidden, ONE]);
            list.push(w, "self_attn.k_proj.weight", [sizes.kv_heads, sizes.head_dim, hidden, ONE]);
            list.push(w, "self_attn.v_proj.weight", [sizes.kv_heads, sizes.head_dim, hidden, ONE]);
            list.push(w, "self_attn.o_proj.weight", [hidden, heads, sizes.head_dim, ONE]);
            gqa_options(list, sizes, &gqa, query, w, norm);
        }
    }
}

/// The indexer of sparse attention: each tensor-parallel rank holds all of it (megatron-core's `DSAIndexer`). The norm of
/// its keys has a bias, whatever the model's norms are.
const fn indexer(list: &mut Sink<'_>, sizes: &Sizes, w: &Entry, norm: &Entry) {
    let (heads, dim) = (sizes.indexer_heads, sizes.indexer_dim);
    list.push(w, "self_attn.indexer.wq_b.weight", [heads, dim, sizes.q_rank, ONE]);
    list.push(w, "self_attn.indexer.wk.weight", [dim, sizes.hidden, ONE, ONE]);
    list.push(norm, "self_attn.indexer.k_norm.weight", [dim, ONE, ONE, ONE]);
    list.push(norm, "self_attn.indexer.k_norm.bias", [dim, ONE, ONE, ONE]);
    list.push(w, "self_attn.indexer.weights_proj.weight", [heads, sizes.hidden, ONE, ONE]);
}

/// What some models have beside the four projections.
const fn gqa_options(list: &mut Sink<'_>, sizes: &Sizes, gqa: &Gqa, query: Dim, w: &Entry, norm: &Entry) {
    let (heads, kv_heads, dim) = (sizes.heads, sizes.kv_heads, sizes.head_dim);
    if !matches!(gqa.bias, Bias::None) {
        list.push(w, "self_attn.q_proj.bias", [heads, query, ONE, ONE]);
        list.push(w, "self_attn.k_proj.bias", [kv_heads, dim, ONE, ONE]);
        list.push(w, "self_attn.v_proj.bias", [kv_heads, dim, ONE, ONE]);
    }
    if matches!(gqa.bias, Bias::All) {
        list.push(w, "self_attn.o_proj.bias", [sizes.hidden, ONE, ONE, ONE]);
    }
    match gqa.qk_norm {
        QkNorm::None => {}
        QkNorm::Head => {
            list.push(norm, "self_attn.q_norm.weight", [dim, ONE, ONE, ONE]);
            list.push(norm, "self_attn.k_norm.weight", [dim, ONE, ONE, ONE]);
        }
        QkNorm::Full => {
            list.push(norm, "self_attn.q_norm.weight", [heads, dim, ONE, ONE]);
            list.push(norm, "self_attn.k_norm.weight", [kv_heads, dim, ONE, ONE]);
        }
    }
    if gqa.sinks.is_on() {
        list.push(w, "self_attn.sinks", [heads, ONE, ONE, ONE]);
    }
}

const fn dense_ffn(list: &mut Sink<'_>, sizes: &Sizes, w: &Entry) {
    list.push(w, "mlp.gate_proj.weight", [sizes.dense_ffn, sizes.hidden, ONE, ONE]);
    list.push(w, "mlp.up_proj.weight", [sizes.dense_ffn, sizes.hidden, ONE, ONE]);
    list.push(w, "mlp.down_proj.weight", [sizes.hidden, sizes.dense_ffn, ONE, ONE]);
}

const fn experts(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, router: &Entry, routed: &Entry, shared: &Entry) {
    let (experts, ffn, hidden) = (sizes.local_experts, sizes.expert_ffn, sizes.hidden);
    list.push(router, "mlp.gate.weight", [sizes.experts, hidden, ONE, ONE]);
    list.push(routed, "mlp.experts.gate_proj.weight", [experts, ffn, hidden, ONE]);
    list.push(routed, "mlp.experts.up_proj.weight", [experts, ffn, hidden, ONE]);
    list.push(routed, "mlp.experts.down_proj.weight", [experts, hidden, ffn, ONE]);
    let options = &plan.spec().architecture.experts;
    if options.router_bias.is_on() {
        list.push(router, "mlp.gate.bias", [sizes.experts, ONE, ONE, ONE]);
    }
    if matches!(options.correction_bias, CorrectionBias::Parameter) {
        list.push(router, CORRECTION_BIAS, [sizes.experts, ONE, ONE, ONE]);
    }
    if options.bias.is_on() {
        list.push(routed, "mlp.experts.gate_proj.bias", [experts, ffn, ONE, ONE]);
        list.push(routed, "mlp.experts.up_proj.bias", [experts, ffn, ONE, ONE]);
        list.push(routed, "mlp.experts.down_proj.bias", [experts, hidden, ONE, ONE]);
    }
    if options.shared > 0 {
        let ffn = sizes.shared_ffn;
        list.push(shared, "mlp.shared_experts.gate_proj.weight", [ffn, hidden, ONE, ONE]);
        list.push(shared, "mlp.shared_experts.up_proj.weight", [ffn, hidden, ONE, ONE]);
        list.push(shared, "mlp.shared_experts.down_proj.weight", [hidden, ffn, ONE, ONE]);
        if options.shared_gate.is_on() {
            list.push(shared, "mlp.shared_expert_gate.weight", [Dim::ONE, hidden, ONE, ONE]);
        }
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
#[allow(clippy::cast_possible_truncation)] // compared in front of it
pub(crate) const fn add_states(tally: &mut Tally, plan: &Plan) {
    let (formats, mut group) = (formats(plan), 0);
    while group < 2 {
        let parameters = tally.grouped[group];
        let parameters = if parameters > u64::MAX as u128 { u64::MAX } else { parameters as u64 };
        let whole = share(parameters, plan, group == 1, ZeroStage::Gradients) as u128;
        let shard = share(parameters, plan, group == 1, ZeroStage::Optimizer) as u128;
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

/// The parameters of one ZeRO group as one flat buffer, sharded from ZeRO stage `from` on; padded to a whole number of
/// elements a replica.
pub(crate) const fn flat(tally: &Tally, plan: &Plan, expert: bool, from: ZeroStage) -> Dim {
    let symbol = if expert { Symbol::ExpertParameters } else { Symbol::DenseParameters };
    let (parameters, shards) = (cut(tally.grouped[expert as usize]), plan.replicas(expert));
    let local = share(parameters, plan, expert, from);
    if local == parameters {
        return Dim::whole(symbol, parameters);
    }
    Dim::whole(symbol, mul(local, shards)).split(Over::Zero, shards)
}

/// The parameters of a group that a rank keeps the state of, which is sharded from some ZeRO stage on.
const fn share(parameters: u64, plan: &Plan, expert: bool, from: ZeroStage) -> u64 {
    let zero = &plan.spec().layout.zero;
    let stage = if expert { zero.expert } else { zero.dense };
    let shards = plan.replicas(expert);
    // More than 64 bits count stay whole, so that the budget outgrows 64 bits too and is refused.
    if (stage as u8) < from as u8 || shards == 1 || parameters == u64::MAX {
        return parameters;
    }
    // Rounded up; by hand, since const evaluation notices a call of the standard library's.
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
