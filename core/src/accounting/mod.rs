//! What forward saves for backward and what operations need while they run, by whose rules: an accounting is a
//! list of tensors for each block of a layer, kept beside its source, never a switch inside a formula.

mod megatron_core;
mod paper;
mod pytorch;
mod reference;
mod torchtitan;
mod transformers;
mod worked_example;

use crate::counts::{Count, Counts, Part};
use crate::inventory::{Element, Entry, Lifetime, Module, Role, Sink};
use crate::plan::Plan;
use crate::saturating::mul;
use crate::sizes::{Dim, Sizes};
use crate::spec::{Accounting, Cublas, Recompute, ZeroStage};
use crate::weights;

/// Lists the activations of so many parts of a model, and the transients and buffers of their forward and backward.
pub(crate) const fn list(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, counts: Counts) {
    match plan.spec().layout.accounting {
        Accounting::Paper(paper) => paper::list(list, plan, sizes, counts, paper),
        Accounting::WorkedExample(example) => worked_example::list(list, plan, sizes, counts, example),
        Accounting::MegatronCore(options) => megatron_core::list(list, plan, sizes, counts, options),
        Accounting::Transformers(options) => transformers::list(list, plan, sizes, counts, options),
        Accounting::Torchtitan(options) => torchtitan::list(list, plan, sizes, counts, options),
        Accounting::Reference(options) => reference::list(list, plan, sizes, counts, options),
    }
}

/// Lists what belongs to the whole of a rank with these parts, behind its weights: workspaces, and the transients of the
/// optimizer step.
pub(crate) const fn list_rank(list: &mut Sink<'_>, plan: &Plan, counts: &Counts) {
    match plan.spec().layout.accounting {
        // The paper counts none; the reference step updates parameters in place.
        Accounting::Paper(_) | Accounting::Reference(_) => {}
        Accounting::WorkedExample(_) => gradient_copies(list, plan, worked_example::SOURCE),
        Accounting::MegatronCore(options) => megatron_core::list_rank(list, plan, options, counts),
        // The fused Adam of PyTorch, which both run, has no transients.
        Accounting::Transformers(_) | Accounting::Torchtitan(_) => pytorch::cublas(list, plan, Cublas::Default),
    }
}

/// What tensors share that are saved from a micro-batch's forward to its backward, in each of `count` blocks.
const fn saved(plan: &Plan, count: Count, source: &'static str) -> Entry {
    let mut entry = Entry::NONE;
    entry.role = Role::Activation;
    entry.lifetime = Lifetime::MicroBatch;
    entry.element = Element::float(plan.spec().layout.precision.activations);
    (entry.count, entry.held) = (count.there, count.in_flight);
    entry.source = source;
    entry
}

/// Entries like another but for something. Copied whole and then changed, since const evaluation copies a struct in one
/// step, but its fields one by one.
impl Entry {
    /// So many of one shape in each block.
    pub(crate) const fn times(&self, times: u64) -> Self {
        let mut entry = *self;
        (entry.count, entry.held) = (times * self.count, mul(times, self.held));
        entry
    }

    /// The same in another module.
    pub(crate) const fn of(&self, module: Module) -> Self {
        let mut entry = *self;
        entry.module = module;
        entry
    }

    /// The same in another format.
    pub(crate) const fn stored_as(&self, element: Element) -> Self {
        let mut entry = *self;
        entry.element = element;
        entry
    }

    /// Alive in one block at a time.
    const fn transient(&self, lifetime: Lifetime) -> Self {
        let mut entry = *self;
        entry.role = Role::Transient;
        entry.lifetime = lifetime;
        (entry.count, entry.held) = (1, 1);
        entry
    }
}

/// What the ends of the pipeline keep, recomputed or not: token ids as 64-bit integers, the final norm's input and
/// output, and vocabulary-parallel fp32 logits.
const fn ends(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, counts: Counts, source: &'static str) {
    let (batch, context) = (sizes.batch, sizes.context);
    if counts.first.there > 0 {
        list.part(Part::First);
        let ids = saved(plan, counts.first, source).of(Module::Embedding).stored_as(Element::INT64);
        list.push(&ids, "token ids", [batch, context, Dim::ONE, Dim::ONE]);
    }
    if counts.last.there > 0 {
        list.part(Part::Last);
        let last = saved(plan, counts.last, source).of(Module::Head);
        let own = [batch, sizes.own_tokens, sizes.hidden, Dim::ONE];
        list.push(&last, "final norm input", own);
        list.push(&last, "final norm output", own);
        list.push(&last.stored_as(Element::FP32), "logits", [batch, context, sizes.vocab, Dim::ONE]);
    }
}

/// Lists an fp32 copy of the gradients whose moments the rank holds, for the optimizer step.
const fn gradient_copies(list: &mut Sink<'_>, plan: &Plan, source: &'static str) {
    let mut group = 0;
    while group < 2 {
        let expert_group = group == 1;
        let flat = weights::flat(list.tally(), plan, expert_group, ZeroStage::Optimizer);
        let common = Entry {
            role: Role::Transient,
            lifetime: Lifetime::OptimizerStep,
            element: Element::FP32,
            source,
            ..weights::state_entry(flat, expert_group)
        };
        list.push(&common, "fp32 gradient copy", [flat, Dim::ONE, Dim::ONE, Dim::ONE]);
        group += 1;
    }
}

/// The input of the norm behind a block, where layers have so many norms that there is one.
const fn block_output(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, kept: &Entry, norms: u64) {
    if plan.spec().architecture.norms_per_layer >= norms {
        list.push(kept, "block output before its norm", sizes.own_hidden());
    }
}

/// What blocks read that mix several residual streams into their input, where norms are not counted to keep them.
const fn residual_streams(list: &mut Sink<'_>, sizes: &Sizes, kept: &Entry) {
    if sizes.streams.global > 1 {
        list.push(kept, "residual streams", sizes.own_streams());
    }
}

/// What a feed-forward network keeps inside: gate, up, activation and product, or without a gate two of them.
const fn inner(plan: &Plan, names: [&'static str; 2]) -> (u64, &'static str) {
    if plan.spec().architecture.layers.gated.is_on() { (4, names[0]) } else { (2, names[1]) }
}

/// Elements of a tensor on a rank, in bits that hold a dozen times as many.
const fn elements(shape: [Dim; 4]) -> u128 {
    Entry { shape, ..Entry::NONE }.local_elements() as u128
}

/// Whether queries and keys turn with their positions, rather than that hidden states know these from the start.
const fn is_rotary(plan: &Plan) -> bool {
    plan.spec().architecture.positions == 0
}

/// What such a network works on in forward: gate, up and product, or without a gate two tensors.
pub(crate) const fn working(plan: &Plan, names: [&'static str; 2]) -> (u64, &'static str) {
    if plan.spec().architecture.layers.gated.is_on() { (3, names[0]) } else { (2, names[1]) }
}

const fn is_recomputed(plan: &Plan) -> bool {
    matches!(plan.spec().layout.recompute, Recompute::Full)
}

/// Whether layers are computed again in runs, of which the first one's input is kept.
const fn is_together(plan: &Plan) -> bool {
    is_recomputed(plan) && plan.spec().layout.recompute_together > 0
}
