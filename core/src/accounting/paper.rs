//! The accounting of arXiv:2502.07846 (v1, 2025-02-11), Table 10: what each block of a layer saves for backward
//! after Korthikanti et al. (arXiv:2205.05198), eager attention and dropout masks included.
//!
//! Where the paper is silent the same style is continued: dense feed-forward network, embedding and head, fused
//! attention, the token pool that the grid implies. Where it differs from what frameworks do, the difference is a key:
//! `accounting.pool: replica` (one replica's tokens are dealt over the expert group, and router and shared experts see
//! the whole sequence), `placement.shared_experts: replicated`, `placement.query_rope: replicated`,
//! `zero.groups: moe_block`.

use super::{block_output, ends, inner, is_recomputed, is_together, saved};
use crate::counts::{Count, Counts, Part};
use crate::inventory::{Block, Element, Entry, Lifetime, Module, Sink};
use crate::mixers::{At, Slot};
use crate::plan::Plan;
use crate::sizes::{Dim, Sizes, Symbol};
use crate::spec::{Kernel, Paper, Pool, Split};
use crate::together::Held;

const ONE: Dim = Dim::ONE;

/// Lists what so many parts save under the paper's choices or others.
pub(super) const fn list(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, counts: Counts, paper: Paper) {
    const SOURCE: &str = "arXiv:2502.07846, Table 10";
    blocks(list, plan, sizes, counts, paper, SOURCE);
    ends(list, plan, sizes, counts, SOURCE);
}

/// Lists what blocks save: everything, or under full recomputation their inputs and, for one block at a time,
/// everything again. Of layers that are computed again together, which the paper knows none of, the input of the first is
/// kept, routing weights of each as ever, and for one run at a time everything is there again.
pub(super) const fn blocks(
    list: &mut Sink<'_>,
    plan: &Plan,
    sizes: &Sizes,
    counts: Counts,
    paper: Paper,
    source: &'static str,
) {
    let (is_recomputed, is_together) = (is_recomputed(plan), is_together(plan));
    if is_together && counts.runs.there > 0 {
        list.part(Part::Run);
        let kept = saved(plan, counts.runs, source).of(Module::Attention);
        list.push(&kept, "layer input", [sizes.batch, sizes.own_tokens, sizes.hidden, sizes.streams]);
    }
    mixer(list, At { plan, sizes, slot: Slot::Attention }, &counts, counts.mixers[0], paper, source);
    if counts.mixers[1].there + counts.mixers[2].there + counts.mixers[3].there > 0 {
        mixer(list, At { plan, sizes, slot: Slot::Mixer }, &counts, counts.mixers[1], paper, source);
        mixer(list, At { plan, sizes, slot: Slot::Compressed }, &counts, counts.mixers[2], paper, source);
        mixer(list, At { plan, sizes, slot: Slot::Heavy }, &counts, counts.mixers[3], paper, source);
    }
    if counts.dense.there > 0 {
        list.part(Part::Dense);
        let saved = saved(plan, counts.dense, source);
        if is_recomputed && !is_together {
            list.push(
                &saved.of(Module::DenseFfn),
                "dense block input",
                [sizes.batch, sizes.own_tokens, sizes.hidden, sizes.streams],
            );
        }
        let again = saved.transient(Lifetime::InBackward(Block::Dense));
        if is_together {
            run(list, plan, sizes, &again, &counts.again[1], paper);
        } else {
            dense_ffn(list, plan, sizes, if is_recomputed { &again } else { &saved }, paper);
        }
    }
    if counts.moe.there > 0 {
        list.part(Part::Moe);
        let saved = saved(plan, counts.moe, source);
        if is_recomputed {
            // Routing weights are kept of the whole sequence, whatever the pool: what is stored, 8bsh + 8bsN_r of four
            // layers (row o2.stage1_full), does not depend on routing.
            let router = &saved.of(Module::Router);
            if !is_together {
                list.push(router, "expert block input", [sizes.batch, sizes.own_tokens, sizes.hidden, sizes.streams]);
            }
            list.push(router, "routing weights", [sizes.batch, sizes.context, sizes.active, ONE]);
        }
        let again = saved.transient(Lifetime::InBackward(Block::Moe));
        if is_together {
            run(list, plan, sizes, &again, &counts.again[2], paper);
        } else {
            experts(list, plan, sizes, if is_recomputed { &again } else { &saved }, paper);
        }
    }
}

/// What is there at once of layers that are computed again together. A law lets only models of one attention in there.
const fn run(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, again: &Entry, held: &Held, paper: Paper) {
    attention(list, At { plan, sizes, slot: Slot::Attention }, &again.times(held.attention), paper);
    if held.dense > 0 {
        dense_ffn(list, plan, sizes, &again.times(held.dense), paper);
    }
    if held.moe > 0 {
        experts(list, plan, sizes, &again.times(held.moe), paper);
    }
}

/// What so many blocks of a mixer save.
const fn mixer(list: &mut Sink<'_>, at: At<'_>, counts: &Counts, count: Count, paper: Paper, source: &'static str) {
    if count.there > 0 {
        list.part(at.slot.part());
        let saved = saved(at.plan, count, source);
        let (is_recomputed, is_together) = (is_recomputed(at.plan), is_together(at.plan));
        if is_recomputed && !is_together {
            list.push(
                &saved.of(Module::Attention),
                "attention block input",
                [at.sizes.batch, at.sizes.own_tokens, at.sizes.hidden, at.sizes.streams],
            );
        }
        let again = saved.transient(Lifetime::InBackward(at.slot.block()));
        if is_together {
            run(list, at.plan, at.sizes, &again, &counts.again[0], paper);
        } else {
            attention(list, at, if is_recomputed { &again } else { &saved }, paper);
        }
    }
}

/// What attention saves, or what takes its place.
const fn attention(list: &mut Sink<'_>, at: At<'_>, common: &Entry, paper: Paper) {
    let (plan, sizes) = (at.plan, at.sizes);
    let kept = &common.of(Module::Attention);
    let mask = &kept.stored_as(Element::MASK);
    let own = [sizes.batch, sizes.own_tokens, sizes.hidden, ONE];
    list.push(kept, "attention block input", [sizes.batch, sizes.own_tokens, sizes.hidden, sizes.streams]);
    list.push(kept, "attention norm output", own);
    if paper.dropout.is_on() {
        list.push(mask, "attention output dropout mask", own);
    }
    at.saved(list, kept);
    block_output(list, plan, sizes, kept, 3);
    let Some(heads) = at.scored() else { return };
    let (batch, context) = (sizes.batch, sizes.context);
    match paper.kernel {
        Kernel::Eager => {
            let scores = [batch, heads, context, sizes.sequence];
            list.push(kept, "softmax output", scores);
            if paper.dropout.is_on() {
                list.push(mask, "attention dropout mask", scores);
                list.push(kept, "dropped-out probabilities", scores);
            }
        }
        Kernel::Flash => list.push(&kept.stored_as(Element::FP32), "log-sum-exp", [batch, heads, context, ONE]),
    }
}

/// What a dense feed-forward network saves.
const fn dense_ffn(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, common: &Entry, paper: Paper) {
    let kept = &common.of(Module::DenseFfn);
    let own = [sizes.batch, sizes.own_tokens, sizes.hidden, ONE];
    list.push(kept, "dense block input", [sizes.batch, sizes.own_tokens, sizes.hidden, sizes.streams]);
    list.push(kept, "dense norm output", own);
    block_output(list, plan, sizes, kept, 4);
    let mlp = Mlp {
        names: ["dense input", "dense dropout mask"],
        inner: inner(plan, ["dense gate, up, activation, product", "dense up, activation"]),
        split: plan.spec().layout.placement.dense_ffn,
        // A replicated network sees the gathered sequence, as the paper counts its shared expert.
        tokens: sizes.context,
        width: sizes.dense_ffn,
    };
    mlp.list(list, sizes, kept, paper);
}

/// What router, routed and shared experts save.
const fn experts(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, common: &Entry, paper: Paper) {
    let router = &common.of(Module::Router);
    let (batch, hidden) = (sizes.batch, sizes.hidden);
    let tokens = match paper.pool {
        Pool::Replica => sizes.context,
        Pool::Group => sizes.own_tokens,
    };
    list.push(router, "expert block input", [sizes.batch, sizes.own_tokens, sizes.hidden, sizes.streams]);
    list.push(router, "expert norm output", [batch, sizes.own_tokens, hidden, ONE]);
    block_output(list, plan, sizes, router, 4);
    // Four bytes a token and expert: two tensors, or one in fp32; the paper does not say which.
    list.push(&router.times(2), "router logits and scores", [batch, tokens, sizes.experts, ONE]);
    list.push(router, "routing weights", [batch, tokens, sizes.active, ONE]);

    let routed = &common.of(Module::RoutedExperts);
    let rows = Dim::whole(Symbol::Rows, plan.routed_rows(paper.pool));
    if plan.spec().architecture.experts.latent > 0 {
        list.push(&router.times(2), "latent input, latent output", [batch, sizes.own_tokens, sizes.expert_io, ONE]);
    }
    list.push(routed, "routed input", [rows, sizes.expert_io, ONE, ONE]);
    if paper.dropout.is_on() {
        list.push(&routed.stored_as(Element::MASK), "routed output dropout mask", [rows, sizes.expert_io, ONE, ONE]);
    }
    let (times, name) = inner(plan, ["routed gate, up, activation, product", "routed up, activation"]);
    list.push(&routed.times(times), name, [rows, sizes.expert_ffn, ONE, ONE]);

    if plan.spec().architecture.experts.shared > 0 {
        let split = plan.spec().layout.placement.shared_experts;
        let mlp = Mlp {
            names: ["shared input", "shared dropout mask"],
            inner: inner(plan, ["shared gate, up, activation, product", "shared up, activation"]),
            split,
            tokens: match split {
                Split::Split => sizes.context,
                Split::Replicated => tokens,
            },
            width: sizes.shared_ffn,
        };
        mlp.list(list, sizes, &common.of(Module::SharedExperts), paper);
    }
}

/// A gated feed-forward network that every token of the rank visits.
#[derive(Clone, Copy)]
struct Mlp {
    /// Of its gathered input and its dropout mask.
    names: [&'static str; 2],
    /// How many tensors it keeps inside, and what they are.
    inner: (u64, &'static str),
    split: Split,
    tokens: Dim,
    width: Dim,
}

impl Mlp {
    const fn list(&self, list: &mut Sink<'_>, sizes: &Sizes, kept: &Entry, paper: Paper) {
        let batch = sizes.batch;
        // Replicated, it keeps a gathered copy of its input; split, backward gathers the norm's output again.
        let tokens = match self.split {
            Split::Split => sizes.own_tokens,
            Split::Replicated => {
                list.push(kept, self.names[0], [batch, self.tokens, sizes.hidden, ONE]);
                self.tokens
            }
        };
        if paper.dropout.is_on() {
            list.push(&kept.stored_as(Element::MASK), self.names[1], [batch, tokens, sizes.hidden, ONE]);
        }
        let (times, name) = self.inner;
        list.push(&kept.times(times), name, [batch, self.tokens, self.width, ONE]);
    }
}
