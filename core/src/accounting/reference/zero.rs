//! What a block has whole only while it runs, because replicas share it out: weights that are gathered for it (ZeRO-3), and
//! its gradients before they are summed over replicas, each of which keeps a part (from ZeRO-2 on).

use super::{Frame, ONE, Of};
use crate::counts::{Count, Counts};
use crate::inventory::{Block, Element, Entry, Module, Sink};
use crate::plan::Plan;
use crate::sizes::{Dim, Sizes, Symbol};
use crate::spec::ZeroStage;
use crate::weights;

/// More weights than any block of the reference step has.
const MOST: usize = 48;

/// The weights that a block reads.
struct Weights {
    entries: [Entry; MOST],
    len: usize,
}

impl Weights {
    const fn of(plan: &Plan, sizes: &Sizes, counts: Counts) -> Self {
        let mut entries = [Entry::NONE; MOST];
        let mut list = Sink::new(&mut entries);
        weights::list(&mut list, plan, sizes, counts);
        let len = list.len();
        Self { entries, len }
    }

    const fn of_block(plan: &Plan, sizes: &Sizes, block: Block) -> Self {
        let mut counts = Counts::NONE;
        match block {
            Block::Attention => counts.mixers[0] = Count::ONE,
            Block::Dense => counts.dense = Count::ONE,
            Block::Moe => counts.moe = Count::ONE,
            Block::Embedding => counts.first = Count::ONE,
            Block::Head => counts.last = Count::ONE,
            Block::Mtp | Block::MtpHead => counts.mtp = Count::ONE,
            // Laws refuse what has them.
            Block::Mixer | Block::Compressed | Block::Heavy => {}
        }
        let mut weights = Self::of(plan, sizes, counts);
        let norm = [sizes.hidden, ONE, ONE, ONE];
        match block {
            // Its list ends with the norm in front of the layer's network, which that one reads.
            Block::Attention => weights.len -= 1,
            Block::Dense | Block::Moe => weights.add(plan, Module::Norm, "post_attention_layernorm.weight", norm),
            Block::Head => weights.add_table(plan, sizes, HEAD),
            // Its list ends with the norm in front of its head.
            Block::Mtp => {
                weights.len -= 1;
                weights.add_table(plan, sizes, "model.embed_tokens.weight");
                weights.add(plan, Module::Norm, HIDDEN_NORM, norm);
            }
            Block::MtpHead => {
                weights.entries[0] = weights.entries[weights.len - 1];
                weights.len = 1;
                weights.add_table(plan, sizes, HEAD);
            }
            _ => {}
        }
        weights
    }

    const fn add(&mut self, plan: &Plan, module: Module, name: &'static str, shape: [Dim; 4]) {
        self.entries[self.len] = Entry { name, shape, ..weights::weight(plan, module, 1) };
        self.len += 1;
    }

    const fn add_table(&mut self, plan: &Plan, sizes: &Sizes, name: &'static str) {
        self.add(plan, Module::Embedding, name, [sizes.vocab, sizes.hidden, ONE, ONE]);
    }
}

/// The table of the head while a block runs, be it that of the embedding or one by itself.
const HEAD: &str = "head table";
/// While a module for multi-token prediction reads what the norm behind another block makes, that norm.
const HIDDEN_NORM: &str = "hidden norm weight";

/// The gradients of a block, by ZeRO group.
const GRADIENTS: [&str; 2] = ["gradients of a block", "expert gradients of a block"];

pub(super) const fn list(list: &mut Sink<'_>, of: Of<'_>, frame: &Frame, block: Block) {
    let (zero, from) = (&of.plan.spec().layout.zero, ZeroStage::Gradients as u8);
    if (zero.dense as u8) < from && (zero.expert as u8) < from {
        return;
    }
    let weights = Weights::of_block(of.plan, of.sizes, block);
    let (mut gradients, mut i) = ([0, 0], 0);
    while i < weights.len {
        let weight = &weights.entries[i];
        gradients[weight.expert_group as usize] += weight.local_elements();
        if weight.shards > 1 {
            gathered(list, &frame.forward, weight);
            // The gradient of a table's rows does not ask what stands in them.
            if !matches!(block, Block::Embedding) {
                gathered(list, &frame.backward, weight);
            }
        }
        i += 1;
    }
    let [dense, expert] = gradients;
    summed(list, of.plan, frame, (false, dense), zero.dense as u8 >= from);
    summed(list, of.plan, frame, (true, expert), zero.expert as u8 >= from);
}

/// A weight while the block runs.
const fn gathered(list: &mut Sink<'_>, works: &Entry, weight: &Entry) {
    list.push_part(&works.of(weight.module).stored_as(weight.element), weight.name, weight.part, weight.shape);
}

/// The gradients of a group until replicas have summed them.
const fn summed(list: &mut Sink<'_>, plan: &Plan, frame: &Frame, (expert, elements): (bool, u64), is_shared: bool) {
    if is_shared && elements > 0 && plan.replicas(expert) > 1 {
        let (module, symbol) = if expert {
            (Module::ExpertState, Symbol::ExpertParameters)
        } else {
            (Module::DenseState, Symbol::DenseParameters)
        };
        let works = frame.backward.of(module).stored_as(Element::FP32);
        list.push(&works, GRADIENTS[expert as usize], [Dim::whole(symbol, elements), ONE, ONE, ONE]);
    }
}
