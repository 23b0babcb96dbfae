//! The largest of what a router and its experts work on, beyond what they save.

use super::Of;
use crate::accounting::elements;
use crate::inventory::{Block, Element, Entry, Lifetime, Module, Sink};
use crate::sizes::{Dim, Sizes};

const ONE: Dim = Dim::ONE;

impl Of<'_> {
    pub(super) const fn experts_work(self, list: &mut Sink<'_>, backward: &Entry) {
        let Sizes { experts, active, expert_io, .. } = *self.sizes;
        let rows = self.rows();
        let (copies, chosen) = ([rows, expert_io, ONE, ONE], self.sizes.own_each(active));
        let forward = &backward.transient(Lifetime::InForward(Block::Moe));
        let (router, routed) = (&forward.of(Module::Router), &forward.of(Module::RoutedExperts));
        list.push(&self.router_format(router), "scaled weights of the chosen", chosen);
        list.push(&router.stored_as(Element::MASK), "routing map", self.sizes.own_each(experts));
        list.push(&router.stored_as(Element::INT64), "rows of experts", [experts, ONE, ONE, ONE]);
        list.push(&routed.times(2), "outputs of experts, weighted ones to add", copies);
        list.push(&routed.stored_as(Element::FP32), "weighted outputs", copies);
        list.push(routed, "sum of outputs", self.sizes.own_hidden());
        if !self.is_fused() {
            // Norms kept copies of what is added behind the blocks of a layer, and of its input.
            list.push(&forward.of(Module::Norm).times(2), "layer input, residual stream", self.sizes.own_hidden());
        }
        let backward = &backward.of(Module::RoutedExperts);
        let is_shared = self.plan.spec().architecture.experts.shared > 0;
        list.push(&backward.times(1 + is_shared as u64), "output gradient, input gradient", self.sizes.own_hidden());
        self.experts_work_back(list, backward);
    }

    /// The worse of two moments: gradients of weighted outputs, when those of experts are still saved in fp32; or those of one
    /// matrix of all experts, when nothing is saved any more that lies inside. The latter was not measured apart.
    const fn experts_work_back(self, list: &mut Sink<'_>, works: &Entry) {
        let (rows, io, width) = (self.rows(), self.sizes.expert_io, self.sizes.expert_ffn);
        let (copies, inside, weights) =
            ([rows, io, ONE, ONE], [rows, width, ONE, ONE], [self.sizes.local_experts, io, width, ONE]);
        let (fp32, bytes) = (&works.stored_as(Element::FP32), works.element.bytes as u128);
        let of_outputs = elements(copies) * 4 * 4 + elements(inside) * 3 * bytes;
        if of_outputs >= elements(weights) * bytes + elements(copies) * 2 * bytes {
            list.push(&fp32.times(3), "weighted output gradients", copies);
            list.push(fp32, "weight gradients of copies", [rows, ONE, ONE, ONE]);
        } else {
            list.push(works, "expert weight gradients", weights);
            list.push(&works.times(2), "gradients of copies", copies);
            list.push(works, "gradients of the gate", inside);
        }
    }
}
