//! What forward saves for backward and what operations need while they run, by whose rules: an accounting is a
//! list of tensors for each block of a layer, kept beside its source, never a switch inside a formula.

mod paper;
mod worked_example;

use crate::inventory::{Block, Element, Entry, Inventory, Lifetime, Module, Phase, Role};
use crate::plan::Plan;
use crate::sizes::{Dim, Sizes};
use crate::spec::{Accounting, Dtype, Recompute};
use crate::stages::Stage;

/// Lists the activations, transients and buffers of one stage.
pub(crate) const fn list(list: &mut Inventory, plan: &Plan, stage: Stage) {
    match plan.spec().layout.accounting {
        Accounting::Paper(paper) => paper::list(list, plan, stage, paper),
        Accounting::WorkedExample(example) => worked_example::list(list, plan, stage, example),
    }
}

/// Where the tensors of a block go: how many blocks there are, and how long they live.
#[derive(Clone, Copy)]
struct Place {
    count: u64,
    lifetime: Lifetime,
    role: Role,
    activations: Dtype,
    source: &'static str,
}

impl Place {
    /// Saved from a micro-batch's forward to its backward, in each of `count` blocks.
    const fn saved(plan: &Plan, count: u64, source: &'static str) -> Self {
        let activations = plan.spec().layout.precision.activations;
        Self { count, lifetime: Lifetime::MicroBatch, role: Role::Activation, activations, source }
    }

    /// Alive in one block at a time, in one phase; nowhere if the stage has no such block.
    const fn within(self, phase: Phase, block: Block) -> Self {
        Self { count: (self.count > 0) as u64, lifetime: Lifetime::Within(phase, block), role: Role::Transient, ..self }
    }

    const fn element(&self) -> Element {
        Element::Float(self.activations)
    }

    /// Appends a tensor of the block.
    const fn push(&self, list: &mut Inventory, module: Module, name: &'static str, shape: [Dim; 4], element: Element) {
        self.push_many(list, module, name, shape, element, 1);
    }

    /// Appends `times` tensors of one shape.
    const fn push_many(
        &self,
        list: &mut Inventory,
        module: Module,
        name: &'static str,
        shape: [Dim; 4],
        element: Element,
        times: u64,
    ) {
        list.push(Entry {
            name,
            part: "",
            module,
            role: self.role,
            shape,
            element,
            count: self.count.saturating_mul(times),
            shards: 1,
            lifetime: self.lifetime,
            source: self.source,
        });
    }
}

/// What the ends of the pipeline keep, recomputed or not: token ids as 64-bit integers, the final norm's input and
/// output, and vocabulary-parallel fp32 logits.
const fn ends(list: &mut Inventory, sizes: &Sizes, stage: Stage, place: Place) {
    let float = place.element();
    let own = [sizes.batch, sizes.own_tokens, sizes.hidden, Dim::ONE];
    let first = Place { count: stage.embedding as u64, ..place };
    first.push(list, Module::Embedding, "token ids", [sizes.batch, sizes.context, Dim::ONE, Dim::ONE], Element::Int64);
    let last = Place { count: stage.head as u64, ..place };
    last.push(list, Module::Head, "final norm input", own, float);
    last.push(list, Module::Head, "final norm output", own, float);
    let logits = [sizes.batch, sizes.context, sizes.vocab, Dim::ONE];
    last.push(list, Module::Head, "logits", logits, Element::Float(Dtype::Fp32));
}

const fn is_recomputed(plan: &Plan) -> bool {
    matches!(plan.spec().layout.recompute, Recompute::Full)
}
