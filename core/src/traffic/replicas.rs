//! What ranks send of gradients and weights: sums over tensor-parallel ranks and over replicas, and weights that replicas share
//! out.

use super::{FP32, Of, Operation};
use crate::groups::Group;
use crate::holdings::{Holding, parameters};
use crate::saturating::{add, mul};
use crate::spec::ZeroStage;
use alloc::vec::Vec;

/// How often the blocks of one micro-batch have a weight: it is gathered in forward and in backward, and its gradient
/// scattered.
struct Uses {
    forward: u64,
    backward: u64,
    scattered: u64,
}

impl Of<'_> {
    /// Sums of gradients over tensor-parallel ranks and over replicas, and weights that each replica updates its share of.
    pub(super) fn gradients(&mut self, holdings: Vec<Holding>) {
        let parameters = parameters(&holdings);
        let weights: Vec<Holding> = holdings.into_iter().filter(|of| !of.is_buffer).collect();
        for of in &weights {
            let elements = self.share(of, parameters, ZeroStage::Gradients);
            self.all_reduce(Group::Tp, (of.name, 1), elements, FP32, self.plan.gradient_parts(of.name));
        }
        for expert in [false, true] {
            self.replicas(expert, &weights, parameters);
        }
        self.table(&weights, parameters);
    }

    fn replicas(&mut self, expert: bool, weights: &[Holding], parameters: [u64; 2]) {
        let zero = self.plan.spec().layout.zero;
        let (group, stage) = if expert { (Group::Edp, zero.expert) } else { (Group::CpDp, zero.dense) };
        let [gradients, kept] =
            if expert { ["gradients of experts", "weights of experts"] } else { ["gradients", "weights"] };
        let others = self.plan.group(group, self.rank).count - 1;
        let [mut all, mut own, mut scattered, mut gathered] = [0; 4];
        // A head without a table of its own has the embedding's.
        let has_head = weights.iter().any(|of| of.name == "lm_head.weight");
        for of in weights.iter().filter(|of| of.expert_group == expert) {
            let (elements, share, uses) =
                (of.elements(), self.share(of, parameters, ZeroStage::Optimizer), self.uses(of, has_head));
            (all, own) = (add(all, elements), add(own, share));
            scattered = add(scattered, mul(uses.scattered, elements - share));
            gathered = add(gathered, mul(add(uses.forward, uses.backward), share));
        }
        let micro_batches = self.micro_batches();
        match stage {
            ZeroStage::None => self.all_reduce(group, (gradients, 1), all, FP32, others + 1),
            ZeroStage::Optimizer => self.push(group, Operation::ReduceScatter, gradients, mul(all - own, FP32), 1),
            ZeroStage::Gradients | ZeroStage::Parameters => {
                self.push(group, Operation::ReduceScatter, gradients, mul(scattered, FP32), micro_batches);
            }
        }
        let bytes = |elements| mul(mul(elements, others), self.element);
        match stage {
            ZeroStage::None => {}
            ZeroStage::Optimizer | ZeroStage::Gradients => {
                self.push(group, Operation::AllGather, kept, bytes(own), 1);
            }
            ZeroStage::Parameters => self.push(group, Operation::AllGather, kept, bytes(gathered), micro_batches),
        }
    }

    /// How many elements of a weight, its gradient or its state the rank has where it is sharded from a ZeRO stage on.
    fn share(&self, of: &Holding, parameters: [u64; 2], from: ZeroStage) -> u64 {
        let cut = self.plan.cut(of, parameters[usize::from(of.expert_group)], from);
        let share = cut.share(self.plan.replica(self.rank, of.expert_group)).elements;
        share.end - share.start
    }

    fn uses(&self, of: &Holding, has_head: bool) -> Uses {
        let chunks = || (0..self.plan.chunks()).map(|chunk| self.plan.chunk(self.at.pp, chunk));
        let modules: u64 = chunks().map(|chunk| chunk.mtp).sum();
        let [embeddings, heads] =
            [chunks().any(|chunk| chunk.embedding), chunks().any(|chunk| chunk.head)].map(u64::from);
        let of_heads = mul(heads, add(1, modules));
        let times = match of.name {
            "model.embed_tokens.weight" => {
                let backward = add(modules, if has_head { 0 } else { of_heads });
                return Uses { forward: add(embeddings, backward), backward, scattered: add(embeddings, backward) };
            }
            "lm_head.weight" => of_heads,
            // The first module reads what the norm in front of the head makes, each other one what that of the one before does.
            "model.norm.weight" => add(1, modules.min(1)),
            "shared_head.norm.weight" => {
                let last = self.plan.spec().architecture.layers.count() + modules;
                1 + u64::from(of.layer.is_some_and(|layer| layer + 1 < last))
            }
            _ => 1,
        };
        Uses { forward: times, backward: times, scattered: times }
    }

    /// The gradients of a table that both ends of the pipeline hold, which replicas put together to send them.
    fn table(&mut self, weights: &[Holding], parameters: [u64; 2]) {
        if !self.plan.has_table_twice(self.at.pp) {
            return;
        }
        let Some(table) = weights.iter().find(|of| of.key() == "model.embed_tokens.weight") else { return };
        let (elements, own) = (table.elements(), self.share(table, parameters, ZeroStage::Gradients));
        if self.plan.spec().layout.zero.dense as u8 >= ZeroStage::Gradients as u8 {
            let others = self.plan.group(Group::CpDp, self.rank).count - 1;
            self.push(Group::CpDp, Operation::AllGather, "gradients of a table", mul(mul(own, others), FP32), 1);
        }
        self.push(Group::Pp, Operation::Send, "gradients of a table", mul(elements, FP32), 1);
    }
}
