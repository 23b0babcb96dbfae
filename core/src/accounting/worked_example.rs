//! The accounting of the worked example, a rank small enough to add up by hand: fused attention, no dropout,
//! each rank's own tokens routed, a working set of one layer's experts in forward, one recomputed layer or block in
//! backward, two all-to-all buffers, and an fp32 copy of the local gradient shard in the optimizer step.

use super::{ends, is_recomputed, paper, saved};
use crate::inventory::{Block, Counts, Element, Entry, Lifetime, Module, Role, Sink};
use crate::plan::Plan;
use crate::sizes::{Dim, Sizes};
use crate::spec::{Attention, Checkpoint, Kernel, Paper, Pool, Switch, WorkedExample, ZeroStage};
use crate::weights;

const ONE: Dim = Dim::ONE;
const SOURCE: &str = "worked example of a hypothetical rank";

/// The paper's lists with these choices are what one block holds while it is computed again.
const BLOCKS: Paper = Paper { kernel: Kernel::Flash, dropout: Switch::Off, pool: Pool::Group };

pub(super) const fn list(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, counts: Counts, example: WorkedExample) {
    let all = &saved(plan, counts.attention, SOURCE);
    let (dense, moe) = (&all.many(counts.dense), &all.many(counts.moe));
    match (example.checkpoint, is_recomputed(plan)) {
        (Checkpoint::Layer, true) => {
            let own = [sizes.batch, sizes.own_tokens, sizes.hidden, ONE];
            list.push(&all.of(Module::Attention), "layer input", own);
            layer(list, plan, sizes, &dense.transient(Lifetime::InBackward(Block::Dense)), Module::DenseFfn);
            layer(list, plan, sizes, &moe.transient(Lifetime::InBackward(Block::Moe)), Module::RoutedExperts);
        }
        (Checkpoint::Layer, false) => {
            layer(list, plan, sizes, dense, Module::DenseFfn);
            layer(list, plan, sizes, moe, Module::RoutedExperts);
        }
        (Checkpoint::SubBlock, true) => {
            paper::kept_inputs(list, sizes, all, dense, moe);
            paper::attention(list, plan, sizes, &all.transient(Lifetime::InBackward(Block::Attention)), BLOCKS);
            paper::dense_ffn(list, plan, sizes, &dense.transient(Lifetime::InBackward(Block::Dense)), BLOCKS);
            paper::experts(list, plan, sizes, &moe.transient(Lifetime::InBackward(Block::Moe)), BLOCKS);
        }
        (Checkpoint::SubBlock, false) => {
            paper::attention(list, plan, sizes, all, BLOCKS);
            paper::dense_ffn(list, plan, sizes, dense, BLOCKS);
            paper::experts(list, plan, sizes, moe, BLOCKS);
        }
    }
    ends(list, sizes, counts, all);
    forward_working_set(list, plan, sizes, dense, moe);
    all_to_all(list, plan, sizes, moe);
}

/// What one whole layer holds behind its input: attention, then its feed-forward network.
const fn layer(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, common: &Entry, ffn: Module) {
    if common.count == 0 {
        return;
    }
    let kept = &common.of(Module::Attention);
    let (batch, context, heads) = (sizes.batch, sizes.context, sizes.heads);
    let own = [batch, sizes.own_tokens, sizes.hidden, ONE];
    list.push(kept, "attention norm output", own);
    match plan.spec().architecture.attention {
        Attention::Mla(mla) => {
            if mla.q_rank > 0 {
                list.push(kept, "query latent", [batch, context, sizes.q_rank, ONE]);
            }
            list.push(kept, "key/value latent", [batch, context, sizes.kv_rank, ONE]);
            list.push(&kept.times(2), "query, key", [batch, context, heads, sizes.query_key]);
            list.push(&kept.times(2), "value, attention output", [batch, context, heads, sizes.value]);
        }
        Attention::Gqa(_) => {
            list.push(&kept.times(2), "query, attention output", [batch, context, heads, sizes.head_dim]);
            list.push(&kept.times(2), "key, value", [batch, context, sizes.kv_heads, sizes.head_dim]);
        }
    }
    list.push(&kept.stored_as(Element::FP32), "log-sum-exp", [batch, heads, context, ONE]);

    let kept = &common.of(ffn);
    list.push(&kept.times(2), "feed-forward norm input, output", own);
    if matches!(ffn, Module::DenseFfn) {
        list.push(&kept.times(4), "dense gate, up, activation, product", [batch, context, sizes.dense_ffn, ONE]);
        return;
    }
    let router = common.of(Module::Router).stored_as(Element::FP32);
    list.push(&router, "router logits", [batch, sizes.own_tokens, sizes.experts, ONE]);
    let rows = Dim::whole("R", plan.routed_rows(Pool::Group));
    list.push(kept, "routed input", [rows, sizes.hidden, ONE, ONE]);
    list.push(&kept.times(4), "routed gate, up, activation, product", [rows, sizes.expert_ffn, ONE, ONE]);
    if plan.spec().architecture.experts.shared > 0 {
        let shared = common.of(Module::SharedExperts).times(4);
        let inner = [batch, sizes.own_tokens, sizes.shared_ffn, ONE];
        list.push(&shared, "shared gate, up, activation, product", inner);
    }
}

/// What forward holds while one layer's experts run: permuted copies, gate, up and product.
const fn forward_working_set(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, dense: &Entry, moe: &Entry) {
    if dense.count > 0 {
        let dense = dense.of(Module::DenseFfn).transient(Lifetime::InForward(Block::Dense)).times(3);
        list.push(&dense, "dense gate, up, product", [sizes.batch, sizes.context, sizes.dense_ffn, ONE]);
    }
    if moe.count > 0 {
        let routed = moe.of(Module::RoutedExperts).transient(Lifetime::InForward(Block::Moe));
        let rows = Dim::whole("R", plan.routed_rows(Pool::Group));
        list.push(&routed, "permuted copies", [rows, sizes.hidden, ONE, ONE]);
        list.push(&routed.times(3), "routed gate, up, product", [rows, sizes.expert_ffn, ONE, ONE]);
    }
}

/// One buffer to send from and one to receive into, each as large as the rows of the hottest rank. They serve all
/// layers of the stage.
const fn all_to_all(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, moe: &Entry) {
    if moe.count > 0 {
        let buffers = Entry {
            role: Role::Communication,
            lifetime: Lifetime::ForwardAndBackward,
            count: 2,
            ..moe.of(Module::RoutedExperts)
        };
        let rows = Dim::whole("R", plan.routed_rows(Pool::Group));
        list.push(&buffers, "all-to-all buffers", [rows, sizes.hidden, ONE, ONE]);
    }
}

/// The optimizer step's fp32 copy of the gradients whose moments the rank holds.
pub(super) const fn list_update(list: &mut Sink<'_>, plan: &Plan) {
    let mut group = 0;
    while group < 2 {
        let expert_group = group == 1;
        let flat = weights::flat(&list.tally, plan, expert_group, ZeroStage::Optimizer);
        let common = Entry {
            role: Role::Transient,
            lifetime: Lifetime::OptimizerStep,
            element: Element::FP32,
            source: SOURCE,
            ..weights::state_entry(flat, expert_group)
        };
        list.push(&common, "fp32 gradient copy", [flat, ONE, ONE, ONE]);
        group += 1;
    }
}
