//! The weights of every kind of layer, by name and shape as Hugging Face checkpoints hold them, and the flat
//! buffers of gradients and optimizer state that follow from them.

use crate::inventory::{Element, Entry, Inventory, Lifetime, Module, Role};
use crate::plan::Plan;
use crate::sizes::{Dim, Over, Sizes};
use crate::spec::{Attention, Dtype, Split, ZeroStage};
use crate::stages::Stage;

const ONE: Dim = Dim::ONE;

/// Lists weights of one module, `count` of each.
#[derive(Clone, Copy)]
struct Lister {
    module: Module,
    count: u64,
    dtype: Dtype,
}

impl Lister {
    const fn of(self, module: Module) -> Self {
        Self { module, ..self }
    }

    const fn push(self, list: &mut Inventory, name: &'static str, part: &'static str, shape: [Dim; 4]) {
        list.push(Entry {
            name,
            part,
            module: self.module,
            role: Role::Weight,
            shape,
            element: Element::Float(self.dtype),
            count: self.count,
            shards: 1,
            lifetime: Lifetime::Always,
            source: "checkpoint",
        });
    }
}

/// The weights of one stage.
pub(crate) const fn list_stage(list: &mut Inventory, plan: &Plan, stage: Stage) {
    let sizes = &plan.sizes();
    let all = Lister { module: Module::Norm, count: stage.layers(), dtype: plan.spec().layout.precision.weights };
    if stage.embedding {
        let one = Lister { count: 1, ..all.of(Module::Embedding) };
        one.push(list, "model.embed_tokens.weight", "", [sizes.vocab, sizes.hidden, ONE, ONE]);
    }
    attention(list, plan, sizes, all);
    norms(list, sizes, all);
    dense_ffn(list, sizes, Lister { count: stage.dense, ..all });
    experts(list, plan, sizes, Lister { count: stage.moe, ..all });
    if stage.head {
        let one = Lister { count: 1, ..all };
        one.push(list, "model.norm.weight", "", [sizes.hidden, ONE, ONE, ONE]);
        one.of(Module::Head).push(list, "lm_head.weight", "", [sizes.vocab, sizes.hidden, ONE, ONE]);
    }
}

/// The weights of the multi-token-prediction modules: a layer each, a projection of the last hidden state beside
/// the next token's embedding, and three norms. Embedding and head are the model's own (DeepSeek-V3,
/// arXiv:2412.19437, section 2.2).
pub(crate) const fn list_mtp(list: &mut Inventory, plan: &Plan) {
    let (sizes, spec) = (&plan.sizes(), plan.spec());
    let all = Lister { module: Module::Mtp, count: spec.architecture.mtp, dtype: spec.layout.precision.weights };
    let from = list.len();
    all.push(list, "eh_proj.weight", "", [sizes.hidden, sizes.hidden_twice, ONE, ONE]);
    all.push(list, "enorm.weight", "", [sizes.hidden, ONE, ONE, ONE]);
    all.push(list, "hnorm.weight", "", [sizes.hidden, ONE, ONE, ONE]);
    all.push(list, "shared_head.norm.weight", "", [sizes.hidden, ONE, ONE, ONE]);
    attention(list, plan, sizes, all);
    norms(list, sizes, all);
    if spec.architecture.layers.moe > 0 {
        experts(list, plan, sizes, all);
    } else {
        dense_ffn(list, sizes, all);
    }
    let mut i = from;
    while i < list.len() {
        list.get_mut(i).module = Module::Mtp;
        i += 1;
    }
}

const fn norms(list: &mut Inventory, sizes: &Sizes, all: Lister) {
    let norm = all.of(Module::Norm);
    norm.push(list, "input_layernorm.weight", "", [sizes.hidden, ONE, ONE, ONE]);
    norm.push(list, "post_attention_layernorm.weight", "", [sizes.hidden, ONE, ONE, ONE]);
}

const fn attention(list: &mut Inventory, plan: &Plan, sizes: &Sizes, all: Lister) {
    let (w, norm) = (all.of(Module::Attention), all.of(Module::Norm));
    match plan.spec().architecture.attention {
        Attention::Mla(mla) => {
            let rope_heads = match plan.spec().layout.placement.query_rope {
                Split::Split => sizes.heads,
                Split::Replicated => sizes.heads_whole,
            };
            let (name, width) = if mla.q_rank == 0 {
                ("self_attn.q_proj.weight", sizes.hidden)
            } else {
                w.push(list, "self_attn.q_a_proj.weight", "", [sizes.q_rank, sizes.hidden, ONE, ONE]);
                norm.push(list, "self_attn.q_a_layernorm.weight", "", [sizes.q_rank, ONE, ONE, ONE]);
                ("self_attn.q_b_proj.weight", sizes.q_rank)
            };
            w.push(list, name, "nope", [sizes.heads, sizes.nope, width, ONE]);
            w.push(list, name, "rope", [rope_heads, sizes.rope, width, ONE]);
            w.push(list, "self_attn.kv_a_proj_with_mqa.weight", "latent", [sizes.kv_rank, sizes.hidden, ONE, ONE]);
            w.push(list, "self_attn.kv_a_proj_with_mqa.weight", "rope", [sizes.rope, sizes.hidden, ONE, ONE]);
            norm.push(list, "self_attn.kv_a_layernorm.weight", "", [sizes.kv_rank, ONE, ONE, ONE]);
            w.push(list, "self_attn.kv_b_proj.weight", "key", [sizes.heads, sizes.nope, sizes.kv_rank, ONE]);
            w.push(list, "self_attn.kv_b_proj.weight", "value", [sizes.heads, sizes.value, sizes.kv_rank, ONE]);
            w.push(list, "self_attn.o_proj.weight", "", [sizes.hidden, sizes.heads, sizes.value, ONE]);
        }
        Attention::Gqa(_) => {
            w.push(list, "self_attn.q_proj.weight", "", [sizes.heads, sizes.head_dim, sizes.hidden, ONE]);
            w.push(list, "self_attn.k_proj.weight", "", [sizes.kv_heads, sizes.head_dim, sizes.hidden, ONE]);
            w.push(list, "self_attn.v_proj.weight", "", [sizes.kv_heads, sizes.head_dim, sizes.hidden, ONE]);
            w.push(list, "self_attn.o_proj.weight", "", [sizes.hidden, sizes.heads, sizes.head_dim, ONE]);
        }
    }
}

const fn dense_ffn(list: &mut Inventory, sizes: &Sizes, all: Lister) {
    let w = all.of(Module::DenseFfn);
    w.push(list, "mlp.gate_proj.weight", "", [sizes.dense_ffn, sizes.hidden, ONE, ONE]);
    w.push(list, "mlp.up_proj.weight", "", [sizes.dense_ffn, sizes.hidden, ONE, ONE]);
    w.push(list, "mlp.down_proj.weight", "", [sizes.hidden, sizes.dense_ffn, ONE, ONE]);
}

const fn experts(list: &mut Inventory, plan: &Plan, sizes: &Sizes, all: Lister) {
    let w = all.of(Module::Router);
    w.push(list, "mlp.gate.weight", "", [sizes.experts, sizes.hidden, ONE, ONE]);
    let w = all.of(Module::RoutedExperts);
    let (experts, ffn, hidden) = (sizes.local_experts, sizes.expert_ffn, sizes.hidden);
    w.push(list, "mlp.experts.gate_proj.weight", "", [experts, ffn, hidden, ONE]);
    w.push(list, "mlp.experts.up_proj.weight", "", [experts, ffn, hidden, ONE]);
    w.push(list, "mlp.experts.down_proj.weight", "", [experts, hidden, ffn, ONE]);
    if plan.spec().architecture.experts.shared > 0 {
        let w = all.of(Module::SharedExperts);
        w.push(list, "mlp.shared_experts.gate_proj.weight", "", [sizes.shared_ffn, hidden, ONE, ONE]);
        w.push(list, "mlp.shared_experts.up_proj.weight", "", [sizes.shared_ffn, hidden, ONE, ONE]);
        w.push(list, "mlp.shared_experts.down_proj.weight", "", [hidden, sizes.shared_ffn, ONE, ONE]);
    }
}

/// Gradients and optimizer state of the weights listed so far, flat for each ZeRO group, and under ZeRO-3 the
/// weights' own shards. A group's flat buffer is padded to a whole number of elements a replica.
pub(crate) const fn list_states(list: &mut Inventory, plan: &Plan) {
    let layout = &plan.spec().layout;
    let mut parameters = [0_u64; 2];
    let mut i = 0;
    while i < list.len() {
        let expert = list.get(i).module.is_expert_group(layout.zero.groups);
        let entry = list.get_mut(i);
        let local = entry.local_elements().saturating_mul(entry.count);
        parameters[expert as usize] = parameters[expert as usize].saturating_add(local);
        if zero_stage(plan, expert) as u8 >= ZeroStage::Parameters as u8 {
            // Gathered and freed tensor by tensor, so each is padded by itself (DeepSpeed ZeRO-3, PyTorch FSDP).
            entry.shards = plan.replicas(expert);
        }
        i += 1;
    }
    let precision = layout.precision;
    states(list, plan, parameters, Role::Gradient, precision.gradients, ZeroStage::Gradients);
    states(list, plan, parameters, Role::MasterWeight, precision.master, ZeroStage::Optimizer);
    states(list, plan, parameters, Role::FirstMoment, precision.moments, ZeroStage::Optimizer);
    states(list, plan, parameters, Role::SecondMoment, precision.moments, ZeroStage::Optimizer);
}

const fn zero_stage(plan: &Plan, expert: bool) -> ZeroStage {
    let zero = plan.spec().layout.zero;
    if expert { zero.expert } else { zero.dense }
}

/// One role's flat buffers, sharded from ZeRO stage `from` on.
const fn states(list: &mut Inventory, plan: &Plan, parameters: [u64; 2], role: Role, dtype: Dtype, from: ZeroStage) {
    let mut group = 0;
    while group < 2 {
        let expert = group == 1;
        let shards = if zero_stage(plan, expert) as u8 >= from as u8 { plan.replicas(expert) } else { 1 };
        let padded = parameters[group].div_ceil(shards).saturating_mul(shards);
        let (module, symbol) = if expert { (Module::ExpertState, "P_expert") } else { (Module::DenseState, "P_dense") };
        let flat = Dim::whole(symbol, padded).split(Over::Zero, shards);
        list.push(Entry {
            name: role.name(),
            part: if expert { "expert group" } else { "dense group" },
            module,
            role,
            shape: [flat, ONE, ONE, ONE],
            element: Element::Float(dtype),
            count: (parameters[group] > 0) as u64,
            shards: 1,
            lifetime: Lifetime::Always,
            source: "ZeRO, arXiv:1910.02054",
        });
        group += 1;
    }
}
