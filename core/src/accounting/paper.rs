//! The accounting of arXiv:2502.07846 (v1, 2025-02-11), Table 10: what each block of a layer saves for backward
//! after Korthikanti et al. (arXiv:2205.05198), eager attention and dropout masks included.
//!
//! Where the paper is silent the same style is continued: dense feed-forward network, embedding and head, fused
//! attention, the token pool that the grid implies. Where it differs from what frameworks do, the difference is a key:
//! `accounting.pool: replica` (one replica's tokens are dealt over the expert group, and router and shared experts see
//! the whole sequence), `placement.shared_experts: replicated`, `placement.query_rope: replicated`,
//! `zero.groups: moe_block`.

use super::{Place, ends, is_recomputed};
use crate::inventory::{Block, Element, Inventory, Module, Phase};
use crate::plan::Plan;
use crate::sizes::{Dim, Sizes};
use crate::spec::{Attention, Dtype, Kernel, Paper, Pool, Split};
use crate::stages::Stage;

const ONE: Dim = Dim::ONE;

/// Lists what a stage saves: everything, or under full recomputation the inputs of its blocks and, for one block
/// at a time, everything again.
pub(super) const fn list(list: &mut Inventory, plan: &Plan, stage: Stage, paper: Paper) {
    let sizes = &plan.sizes();
    let place = Place::saved(plan, stage.layers(), "arXiv:2502.07846, Table 10");
    let dense = Place { count: stage.dense, ..place };
    let moe = Place { count: stage.moe, ..place };
    if is_recomputed(plan) {
        kept_inputs(list, sizes, dense, moe);
        attention(list, plan, sizes, place.within(Phase::Backward, Block::Attention), paper);
        dense_ffn(list, plan, sizes, dense.within(Phase::Backward, Block::Dense), paper);
        experts(list, plan, sizes, moe.within(Phase::Backward, Block::Moe), paper);
    } else {
        attention(list, plan, sizes, place, paper);
        dense_ffn(list, plan, sizes, dense, paper);
        experts(list, plan, sizes, moe, paper);
    }
    ends(list, sizes, stage, place);
}

/// What full recomputation keeps: the input of each block, and the routing weights.
pub(super) const fn kept_inputs(list: &mut Inventory, sizes: &Sizes, dense: Place, moe: Place) {
    let own = [sizes.batch, sizes.own_tokens, sizes.hidden, ONE];
    let all = Place { count: dense.count + moe.count, ..dense };
    all.push(list, Module::Attention, "attention block input", own, all.element());
    dense.push(list, Module::DenseFfn, "dense block input", own, all.element());
    moe.push(list, Module::Router, "expert block input", own, all.element());
    let weights = [sizes.batch, sizes.context, sizes.active, ONE];
    moe.push(list, Module::Router, "routing weights", weights, all.element());
}

/// What attention saves.
pub(super) const fn attention(list: &mut Inventory, plan: &Plan, sizes: &Sizes, place: Place, paper: Paper) {
    let (module, float) = (Module::Attention, place.element());
    let own = [sizes.batch, sizes.own_tokens, sizes.hidden, ONE];
    let (batch, context, heads) = (sizes.batch, sizes.context, sizes.heads);
    place.push(list, module, "attention block input", own, float);
    place.push(list, module, "attention norm output", own, float);
    if paper.dropout.is_on() {
        place.push(list, module, "attention output dropout mask", own, Element::Mask);
    }
    match plan.spec().architecture.attention {
        Attention::Mla(mla) => {
            if mla.q_rank > 0 {
                place.push(list, module, "query latent", [batch, context, sizes.q_rank, ONE], float);
            }
            place.push(list, module, "key/value latent", [batch, context, sizes.kv_rank, ONE], float);
            place.push(list, module, "query", [batch, context, heads, sizes.query_key], float);
            // The shared rotary key is counted expanded to every head.
            place.push(list, module, "key", [batch, context, heads, sizes.query_key], float);
            place.push(list, module, "value", [batch, context, heads, sizes.value], float);
            place.push(list, module, "attention output", [batch, context, heads, sizes.value], float);
        }
        Attention::Gqa(_) => {
            place.push(list, module, "query", [batch, context, heads, sizes.head_dim], float);
            place.push(list, module, "key", [batch, context, sizes.kv_heads, sizes.head_dim], float);
            place.push(list, module, "value", [batch, context, sizes.kv_heads, sizes.head_dim], float);
            place.push(list, module, "attention output", [batch, context, heads, sizes.head_dim], float);
        }
    }
    match paper.kernel {
        Kernel::Eager => {
            let scores = [batch, heads, context, sizes.sequence];
            place.push(list, module, "softmax output", scores, float);
            if paper.dropout.is_on() {
                place.push(list, module, "attention dropout mask", scores, Element::Mask);
                place.push(list, module, "dropped-out probabilities", scores, float);
            }
        }
        Kernel::Flash => {
            let rows = [batch, heads, context, ONE];
            place.push(list, module, "log-sum-exp", rows, Element::Float(Dtype::Fp32));
        }
    }
}

/// What a dense feed-forward network saves.
pub(super) const fn dense_ffn(list: &mut Inventory, plan: &Plan, sizes: &Sizes, place: Place, paper: Paper) {
    let float = place.element();
    let own = [sizes.batch, sizes.own_tokens, sizes.hidden, ONE];
    place.push(list, Module::DenseFfn, "dense block input", own, float);
    place.push(list, Module::DenseFfn, "dense norm output", own, float);
    let mlp = Mlp {
        module: Module::DenseFfn,
        names: ["dense input", "dense dropout mask", "dense gate, up, activation, product"],
        split: plan.spec().layout.placement.dense_ffn,
        // A replicated network sees the gathered sequence, as the paper counts its shared expert.
        tokens: sizes.context,
        width: sizes.dense_ffn,
    };
    mlp.list(list, sizes, place, paper);
}

/// What router, routed and shared experts save.
pub(super) const fn experts(list: &mut Inventory, plan: &Plan, sizes: &Sizes, place: Place, paper: Paper) {
    let float = place.element();
    let (batch, hidden) = (sizes.batch, sizes.hidden);
    let own = [batch, sizes.own_tokens, hidden, ONE];
    let tokens = match paper.pool {
        Pool::Replica => sizes.context,
        Pool::Group => sizes.own_tokens,
    };
    place.push(list, Module::Router, "expert block input", own, float);
    place.push(list, Module::Router, "expert norm output", own, float);
    // Four bytes a token and expert: two tensors, or one in fp32; the paper does not say which.
    place.push_many(list, Module::Router, "router logits and scores", [batch, tokens, sizes.experts, ONE], float, 2);
    place.push(list, Module::Router, "routing weights", [batch, tokens, sizes.active, ONE], float);

    let module = Module::RoutedExperts;
    let rows = Dim::whole("R", plan.routed_rows(paper.pool));
    place.push(list, module, "routed input", [rows, hidden, ONE, ONE], float);
    if paper.dropout.is_on() {
        place.push(list, module, "routed output dropout mask", [rows, hidden, ONE, ONE], Element::Mask);
    }
    let inner = [rows, sizes.expert_ffn, ONE, ONE];
    place.push_many(list, module, "routed gate, up, activation, product", inner, float, 4);

    if plan.spec().architecture.experts.shared > 0 {
        let split = plan.spec().layout.placement.shared_experts;
        let tokens = match split {
            Split::Split => sizes.context,
            Split::Replicated => tokens,
        };
        let mlp = Mlp {
            module: Module::SharedExperts,
            names: ["shared input", "shared dropout mask", "shared gate, up, activation, product"],
            split,
            tokens,
            width: sizes.shared_ffn,
        };
        mlp.list(list, sizes, place, paper);
    }
}

/// A gated feed-forward network that every token of the rank visits.
#[derive(Clone, Copy)]
struct Mlp {
    module: Module,
    /// Of its gathered input, its dropout mask and its inner tensors.
    names: [&'static str; 3],
    split: Split,
    tokens: Dim,
    width: Dim,
}

impl Mlp {
    const fn list(self, list: &mut Inventory, sizes: &Sizes, place: Place, paper: Paper) {
        let float = place.element();
        // Replicated, it keeps a gathered copy of its input; split, backward gathers the norm's output again.
        let tokens = match self.split {
            Split::Split => sizes.own_tokens,
            Split::Replicated => {
                let input = [sizes.batch, self.tokens, sizes.hidden, ONE];
                place.push(list, self.module, self.names[0], input, float);
                self.tokens
            }
        };
        if paper.dropout.is_on() {
            let output = [sizes.batch, tokens, sizes.hidden, ONE];
            place.push(list, self.module, self.names[1], output, Element::Mask);
        }
        let inner = [sizes.batch, self.tokens, self.width, ONE];
        place.push_many(list, self.module, self.names[2], inner, float, 4);
    }
}
