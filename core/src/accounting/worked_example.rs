//! The accounting of the worked example, a rank small enough to add up by hand: fused attention, no dropout,
//! each rank's own tokens routed, a working set of one layer's experts in forward, one recomputed layer or block in
//! backward, two all-to-all buffers, and an fp32 copy of the local gradient shard in the optimizer step.

use super::{block_output, ends, inner, is_recomputed, paper, saved, working};
use crate::counts::{Count, Counts, Part};
use crate::inventory::{Block, Element, Entry, Lifetime, Module, Role, Sink};
use crate::mixers::{At, Slot};
use crate::plan::Plan;
use crate::sizes::{Dim, Sizes, Symbol};
use crate::spec::{Checkpoint, Kernel, Paper, Pool, Split, Switch, WorkedExample};

const ONE: Dim = Dim::ONE;
pub(super) const SOURCE: &str = "worked example of a hypothetical rank";

/// The paper's lists with these choices are what one block holds while it is computed again.
const BLOCKS: Paper = Paper { kernel: Kernel::Flash, dropout: Switch::Off, pool: Pool::Group };

pub(super) const fn list(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, counts: Counts, example: WorkedExample) {
    match example.checkpoint {
        Checkpoint::Layer => layers(list, plan, sizes, counts),
        // Two checkpoints a layer: one block computed again.
        Checkpoint::SubBlock => paper::blocks(list, plan, sizes, counts, BLOCKS, SOURCE),
    }
    ends(list, plan, sizes, counts, SOURCE);
    if counts.dense.there > 0 {
        list.part(Part::Dense);
        // Of forward's working set, one layer's at a time.
        let dense = saved(plan, Count::ONE, SOURCE).of(Module::DenseFfn).transient(Lifetime::InForward(Block::Dense));
        let (times, name) = working(plan, ["dense gate, up, product", "dense up, activation"]);
        list.push(&dense.times(times), name, [sizes.batch, sizes.context, sizes.dense_ffn, ONE]);
    }
    if counts.moe.there > 0 {
        list.part(Part::Moe);
        let routed = saved(plan, Count::ONE, SOURCE).of(Module::RoutedExperts);
        let rows = Dim::whole(Symbol::Rows, plan.routed_rows(Pool::Group));
        let copies = routed.transient(Lifetime::InForward(Block::Moe));
        list.push(&copies, "permuted copies", [rows, sizes.expert_io, ONE, ONE]);
        let (times, name) = working(plan, ["routed gate, up, product", "routed up, activation"]);
        list.push(&copies.times(times), name, [rows, sizes.expert_ffn, ONE, ONE]);
        // One buffer to send from and one to receive into, for all layers of the stage.
        let lifetime = Lifetime::ForwardAndBackward;
        let buffers = Entry { role: Role::Communication, lifetime, count: 2, ..routed };
        list.push(&buffers, "all-to-all buffers", [rows, sizes.expert_io, ONE, ONE]);
    }
}

/// One checkpoint a layer: under recomputation its input is kept, and one whole layer computed again.
const fn layers(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, counts: Counts) {
    let is_recomputed = is_recomputed(plan);
    if is_recomputed && counts.mixers[0].there > 0 {
        list.part(Part::Attention);
        list.push(
            &saved(plan, counts.mixers[0], SOURCE).of(Module::Attention),
            "layer input",
            [sizes.batch, sizes.own_tokens, sizes.hidden, sizes.streams],
        );
    }
    if counts.dense.there > 0 {
        list.part(Part::Dense);
        let saved = saved(plan, counts.dense, SOURCE);
        let again = saved.transient(Lifetime::InBackward(Block::Dense));
        layer(list, plan, sizes, if is_recomputed { &again } else { &saved }, Module::DenseFfn);
    }
    if counts.moe.there > 0 {
        list.part(Part::Moe);
        let saved = saved(plan, counts.moe, SOURCE);
        let again = saved.transient(Lifetime::InBackward(Block::Moe));
        layer(list, plan, sizes, if is_recomputed { &again } else { &saved }, Module::RoutedExperts);
    }
}

/// What one whole layer holds behind its input: attention, then its feed-forward network.
const fn layer(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, common: &Entry, ffn: Module) {
    let kept = &common.of(Module::Attention);
    let (batch, context, heads) = (sizes.batch, sizes.context, sizes.heads);
    let own = [batch, sizes.own_tokens, sizes.hidden, ONE];
    list.push(kept, "attention norm output", own);
    // A law lets only models of one attention in here.
    At { plan, sizes, slot: Slot::Attention }.saved(list, kept);
    list.push(&kept.stored_as(Element::FP32), "log-sum-exp", [batch, heads, context, ONE]);
    block_output(list, plan, sizes, kept, 3);

    let kept = &common.of(ffn);
    list.push(&kept.times(2), "feed-forward norm input, output", own);
    block_output(list, plan, sizes, kept, 4);
    if matches!(ffn, Module::DenseFfn) {
        let (times, name) = inner(plan, ["dense gate, up, activation, product", "dense up, activation"]);
        list.push(&kept.times(times), name, [batch, context, sizes.dense_ffn, ONE]);
        return;
    }
    let router = common.of(Module::Router).stored_as(Element::FP32);
    list.push(&router, "router logits", [batch, sizes.own_tokens, sizes.experts, ONE]);
    let rows = Dim::whole(Symbol::Rows, plan.routed_rows(Pool::Group));
    if plan.spec().architecture.experts.latent > 0 {
        let own = [batch, sizes.own_tokens, sizes.expert_io, ONE];
        list.push(&common.of(Module::Router).times(2), "latent input, latent output", own);
    }
    list.push(kept, "routed input", [rows, sizes.expert_io, ONE, ONE]);
    let (times, name) = inner(plan, ["routed gate, up, activation, product", "routed up, activation"]);
    list.push(&kept.times(times), name, [rows, sizes.expert_ffn, ONE, ONE]);
    if plan.spec().architecture.experts.shared > 0 {
        let (times, name) = inner(plan, ["shared gate, up, activation, product", "shared up, activation"]);
        let shared = common.of(Module::SharedExperts).times(times);
        // Split over tensor-parallel ranks, they see the gathered sequence.
        let tokens = match plan.spec().layout.placement.shared_experts {
            Split::Split => context,
            Split::Replicated => sizes.own_tokens,
        };
        list.push(&shared, name, [batch, tokens, sizes.shared_ffn, ONE]);
    }
}
