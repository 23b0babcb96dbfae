//! The largest of what a router and its experts work on, beyond what they save. Of experts that run one after the other,
//! without what the largest of them works on.

use super::Of;
use crate::accounting::{elements, is_recomputed};
use crate::inventory::{Block, Element, Entry, Lifetime, Module, Sink};
use crate::sizes::Dim;
use crate::spec::{RoutedCode, Score};

const ONE: Dim = Dim::ONE;

impl Of<'_> {
    pub(super) const fn experts_work(self, list: &mut Sink<'_>, backward: &Entry) {
        let forward = &backward.transient(Lifetime::InForward(Block::Moe));
        self.router_works(list, &forward.of(Module::Router));
        // Norms kept copies of what is added behind the blocks of a layer, and of its input.
        list.push(&forward.of(Module::Norm).times(2), "layer input, residual stream", self.sizes.own_hidden());
        if !is_recomputed(self.plan) {
            self.arguments(list, forward);
        }
        let (forward, backward) = (&forward.of(Module::RoutedExperts), &backward.of(Module::RoutedExperts));
        let is_shared = self.plan.spec().architecture.experts.shared > 0;
        list.push(&backward.times(1 + is_shared as u64), "output gradient, input gradient", self.sizes.own_hidden());
        match self.options.routed {
            RoutedCode::GroupedMm => {
                self.grouped_works(list, forward);
                self.grouped_works_back(list, backward);
            }
            RoutedCode::Eager => {
                self.loop_works(list, forward);
                self.loop_works_back(list, backward);
            }
        }
    }

    const fn router_works(self, list: &mut Sink<'_>, works: &Entry) {
        let logits = match self.options.score {
            Score::Sigmoid => works.stored_as(Element::FP32),
            Score::Softmax | Score::PreSoftmax => *works,
        };
        list.push(&logits, "router logits", self.sizes.own_each(self.sizes.experts));
        list.push(&self.weighted(works), "weights of the chosen", self.sizes.own_each(self.sizes.active));
    }

    const fn grouped_works(self, list: &mut Sink<'_>, works: &Entry) {
        let (fp32, chosen) = (&works.stored_as(Element::FP32), self.sizes.own_each(self.sizes.active));
        list.push(&works.stored_as(Element::INT64), "sorted experts", chosen);
        list.push(fp32, "experts to count", chosen);
        list.push(fp32, "rows of experts", [self.sizes.experts, ONE, ONE, ONE]);
        let copies = [self.rows(), self.sizes.expert_io, ONE, ONE];
        list.push(&self.weighted(works).times(2), "weighted outputs, sorted back", copies);
    }

    /// The worse of two moments: gradients of what experts returned, weighted and sorted; or those of the weights of gate and
    /// up, when all that lay behind these is done with.
    const fn grouped_works_back(self, list: &mut Sink<'_>, works: &Entry) {
        let (rows, io, width) = (self.rows(), self.sizes.expert_io, self.sizes.expert_ffn);
        let (copies, inside, weights) =
            ([rows, io, ONE, ONE], [rows, width, ONE, ONE], [self.sizes.local_experts, io, width, ONE]);
        let (weighted, matrices) = (&self.weighted(works), if self.is_gated() { 2 } else { 1 });
        let (bytes, of_weighted) = (works.element.bytes as u128, weighted.element.bytes as u128);
        let of_outputs = elements(copies) * (3 * of_weighted + bytes);
        // Beyond what is still saved then: nothing that lies inside is.
        let done_with = elements(inside) * bytes * matrices as u128;
        let of_weights = elements(weights) * bytes * matrices as u128;
        if of_outputs + done_with >= of_weights {
            list.push(&weighted.times(3), "weighted output gradients", copies);
            list.push(works, "output gradients of experts", copies);
        } else {
            list.push(&works.times(matrices), "expert weight gradients", weights);
            list.push(&works.times(matrices), "gradients of gate and up", inside);
            list.push(works, "gradients of copies", copies);
            list.push(weighted, "weight gradients of copies", [rows, ONE, ONE, ONE]);
        }
    }

    const fn loop_works(self, list: &mut Sink<'_>, works: &Entry) {
        let (int64, experts) = (&works.stored_as(Element::INT64), self.sizes.experts);
        let one_hot = [self.sizes.batch, self.sizes.own_tokens, self.sizes.active, experts];
        list.push(works, "sum of outputs", self.sizes.own_hidden());
        list.push(int64, "experts of tokens, one-hot", one_hot);
        list.push(int64, "chosen experts to scatter", self.sizes.own_each(self.sizes.active));
        list.push(int64, "experts that are hit", [experts, ONE, ONE, ONE]);
    }

    const fn loop_works_back(self, list: &mut Sink<'_>, works: &Entry) {
        // Of all experts' weights, for the one that runs, those before it and their sum; of the last matrix one of these.
        let weights = [self.sizes.local_experts, self.sizes.expert_io, self.sizes.expert_ffn, ONE];
        let matrices = if self.is_gated() { 7 } else { 4 };
        list.push(&works.times(matrices), "expert weight gradients", weights);
        list.push(works, "gradient of copied tokens", self.sizes.own_hidden());
        list.push(
            &works.stored_as(Element::FP32),
            "weight gradients of the chosen",
            self.sizes.own_each(self.sizes.active),
        );
    }
}
