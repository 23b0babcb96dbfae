//! The accounting of the worked example, a rank small enough to add up by hand: fused attention, no dropout,
//! each rank's own tokens routed, a working set of one layer's experts in forward, one recomputed layer or block in
//! backward, two all-to-all buffers, and an fp32 copy of the local gradient shard in the optimizer step.

use super::{Place, ends, is_recomputed, paper};
use crate::inventory::{Block, Element, Entry, Inventory, Lifetime, Module, Phase, Role};
use crate::plan::Plan;
use crate::sizes::{Dim, Sizes};
use crate::spec::{Attention, Checkpoint, Dtype, Kernel, Paper, Pool, Switch, WorkedExample};
use crate::stages::Stage;

const ONE: Dim = Dim::ONE;
const SOURCE: &str = "worked example of a hypothetical rank";

/// The paper's lists with these choices are what one block holds while it is computed again.
const BLOCKS: Paper = Paper { kernel: Kernel::Flash, dropout: Switch::Off, pool: Pool::Group };

pub(super) const fn list(list: &mut Inventory, plan: &Plan, stage: Stage, example: WorkedExample) {
    let sizes = &plan.sizes();
    let place = Place::saved(plan, stage.layers(), SOURCE);
    let dense = Place { count: stage.dense, ..place };
    let moe = Place { count: stage.moe, ..place };
    match (example.checkpoint, is_recomputed(plan)) {
        (Checkpoint::Layer, true) => {
            let own = [sizes.batch, sizes.own_tokens, sizes.hidden, ONE];
            place.push(list, Module::Attention, "layer input", own, place.element());
            layer(list, plan, sizes, dense.within(Phase::Backward, Block::Dense), Module::DenseFfn);
            layer(list, plan, sizes, moe.within(Phase::Backward, Block::Moe), Module::RoutedExperts);
        }
        (Checkpoint::Layer, false) => {
            layer(list, plan, sizes, dense, Module::DenseFfn);
            layer(list, plan, sizes, moe, Module::RoutedExperts);
        }
        (Checkpoint::SubBlock, true) => {
            paper::kept_inputs(list, sizes, dense, moe);
            paper::attention(list, plan, sizes, place.within(Phase::Backward, Block::Attention), BLOCKS);
            paper::dense_ffn(list, plan, sizes, dense.within(Phase::Backward, Block::Dense), BLOCKS);
            paper::experts(list, plan, sizes, moe.within(Phase::Backward, Block::Moe), BLOCKS);
        }
        (Checkpoint::SubBlock, false) => {
            paper::attention(list, plan, sizes, place, BLOCKS);
            paper::dense_ffn(list, plan, sizes, dense, BLOCKS);
            paper::experts(list, plan, sizes, moe, BLOCKS);
        }
    }
    ends(list, sizes, stage, place);
    forward_working_set(list, plan, sizes, dense, moe);
    all_to_all(list, plan, sizes, moe);
    gradient_copies(list);
}

/// What one whole layer holds behind its input: attention, then its feed-forward network.
const fn layer(list: &mut Inventory, plan: &Plan, sizes: &Sizes, place: Place, ffn: Module) {
    let float = place.element();
    let (batch, context, heads) = (sizes.batch, sizes.context, sizes.heads);
    let own = [batch, sizes.own_tokens, sizes.hidden, ONE];
    let module = Module::Attention;
    place.push(list, module, "attention norm output", own, float);
    match plan.spec().architecture.attention {
        Attention::Mla(_) => {
            place.push(list, module, "query latent", [batch, context, sizes.q_rank, ONE], float);
            place.push(list, module, "key/value latent", [batch, context, sizes.kv_rank, ONE], float);
            place.push_many(list, module, "query, key", [batch, context, heads, sizes.query_key], float, 2);
            place.push_many(list, module, "value, attention output", [batch, context, heads, sizes.value], float, 2);
        }
        Attention::Gqa(_) => {
            place.push_many(list, module, "query, attention output", [batch, context, heads, sizes.head_dim], float, 2);
            place.push_many(list, module, "key, value", [batch, context, sizes.kv_heads, sizes.head_dim], float, 2);
        }
    }
    place.push(list, module, "log-sum-exp", [batch, heads, context, ONE], Element::Float(Dtype::Fp32));
    place.push_many(list, ffn, "feed-forward norm input, output", own, float, 2);
    if matches!(ffn, Module::DenseFfn) {
        let inner = [batch, context, sizes.dense_ffn, ONE];
        place.push_many(list, ffn, "dense gate, up, activation, product", inner, float, 4);
        return;
    }
    let scores = [batch, sizes.own_tokens, sizes.experts, ONE];
    place.push(list, Module::Router, "router logits", scores, Element::Float(Dtype::Fp32));
    let rows = Dim::whole("R", plan.routed_rows(Pool::Group));
    place.push(list, ffn, "routed input", [rows, sizes.hidden, ONE, ONE], float);
    let inner = [rows, sizes.expert_ffn, ONE, ONE];
    place.push_many(list, ffn, "routed gate, up, activation, product", inner, float, 4);
    if plan.spec().architecture.experts.shared > 0 {
        let inner = [batch, sizes.own_tokens, sizes.shared_ffn, ONE];
        place.push_many(list, Module::SharedExperts, "shared gate, up, activation, product", inner, float, 4);
    }
}

/// What forward holds while one layer's experts run: permuted copies, gate, up and product.
const fn forward_working_set(list: &mut Inventory, plan: &Plan, sizes: &Sizes, dense: Place, moe: Place) {
    let float = dense.element();
    let dense = dense.within(Phase::Forward, Block::Dense);
    let inner = [sizes.batch, sizes.context, sizes.dense_ffn, ONE];
    dense.push_many(list, Module::DenseFfn, "dense gate, up, product", inner, float, 3);
    let moe = moe.within(Phase::Forward, Block::Moe);
    let rows = Dim::whole("R", plan.routed_rows(Pool::Group));
    moe.push(list, Module::RoutedExperts, "permuted copies", [rows, sizes.hidden, ONE, ONE], float);
    let inner = [rows, sizes.expert_ffn, ONE, ONE];
    moe.push_many(list, Module::RoutedExperts, "routed gate, up, product", inner, float, 3);
}

/// One buffer to send from and one to receive into, each as large as the rows of the hottest rank.
const fn all_to_all(list: &mut Inventory, plan: &Plan, sizes: &Sizes, moe: Place) {
    let buffers = Place {
        count: (moe.count > 0) as u64,
        lifetime: Lifetime::ForwardAndBackward,
        role: Role::Communication,
        ..moe
    };
    let rows = Dim::whole("R", plan.routed_rows(Pool::Group));
    let shape = [rows, sizes.hidden, ONE, ONE];
    buffers.push_many(list, Module::RoutedExperts, "all-to-all buffers", shape, moe.element(), 2);
}

/// The optimizer step's fp32 copy of the gradients whose moments the rank holds.
const fn gradient_copies(list: &mut Inventory) {
    let (mut i, listed) = (0, list.len());
    while i < listed {
        let entry = *list.get(i);
        if matches!(entry.role, Role::FirstMoment) {
            list.push(Entry {
                name: "fp32 gradient copy",
                role: Role::Transient,
                element: Element::Float(Dtype::Fp32),
                lifetime: Lifetime::Throughout(Phase::OptimizerStep),
                source: SOURCE,
                ..entry
            });
        }
        i += 1;
    }
}
