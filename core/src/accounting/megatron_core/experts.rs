//! What router, dispatcher, routed and shared experts save.

use super::{Of, chosen};
use crate::accounting::block_output;
use crate::inventory::{Element, Entry, Module, Sink};
use crate::sizes::{Dim, Sizes, Symbol};
use crate::spec::{
    AuxLoss, Dispatcher, ExpertKernel, GatedActivation, MegatronVersion, Pool, RouterFormat, Routing, Score,
};

const ONE: Dim = Dim::ONE;

impl Of<'_> {
    /// What a layer with experts saves behind its attention, and what of it is computed again.
    pub(super) const fn experts(self, list: &mut Sink<'_>, common: &Entry, again: &Entry) {
        let modules = self.modules();
        let (kept, router_again) = (&common.of(Module::Router), &again.of(Module::Router));
        // The norm's output is one for router, dispatch and shared experts.
        let names = ["expert norm input", "expert norm statistics", "expert norm result", "expert norm output"];
        // The router reads it as it is.
        self.norm(list, kept, chosen(modules.norms, router_again, kept), names, 0);
        let inner = chosen(modules.experts, again, common);
        let router = &inner.of(Module::Router);
        self.weights_of_experts(list, router);
        self.aux_loss(list, router);
        self.dispatch(list, router);
        self.routed(list, &inner.of(Module::RoutedExperts), &again.of(Module::RoutedExperts));
        if self.plan.spec().architecture.experts.shared > 0 {
            let shared = &chosen(modules.shared_experts, again, inner).of(Module::SharedExperts);
            if self.options.shared_overlap.is_on() && self.plan.spec().layout.mesh.sequence_parallel.is_on() {
                // Gathered by themselves.
                let gathered = [self.sizes.batch, self.sizes.context, self.sizes.hidden, ONE];
                if self.is_delayed() {
                    self.quantised(list, shared, "shared input", gathered);
                } else {
                    list.push(shared, "shared input", gathered);
                }
            } else if self.is_delayed() || self.is_fp8() && modules.shared_experts.is_on() {
                // Else what the router keeps is quantised once more (`save_original_input`).
                self.quantised(list, shared, "shared input", self.sizes.own_hidden());
            }
            let shared_again = &again.of(Module::SharedExperts);
            self.mlp(
                list,
                shared,
                shared_again,
                ["shared gate and up", "shared silu, up", "shared product"],
                self.sizes.shared_ffn,
            );
        }
        self.dropped(list, kept, "expert output dropout mask");
        block_output(list, self.plan, self.sizes, kept, 4);
    }

    pub(super) const fn is_v011(self) -> bool {
        matches!(self.options.version, MegatronVersion::V011)
    }

    /// The format of routing weights. 0.11 knows no other than that of activations.
    pub(super) const fn weights_as(self, kept: &Entry) -> Entry {
        match self.options.router {
            RouterFormat::Fp32 if !self.is_v011() => kept.stored_as(Element::FP32),
            _ => *kept,
        }
    }

    /// How scores of experts become weights.
    const fn weights_of_experts(self, list: &mut Sink<'_>, kept: &Entry) {
        let Sizes { batch, own_tokens, experts, active, .. } = *self.sizes;
        let (fp32, weights) = (&kept.stored_as(Element::FP32), &self.weights_as(kept));
        let (all, chosen) = ([batch, own_tokens, experts, ONE], [batch, own_tokens, active, ONE]);
        list.push(&kept.stored_as(Element::INT64), "chosen experts", chosen);
        match self.options.score {
            Score::Sigmoid => {
                list.push(if self.is_v011() { kept } else { fp32 }, "sigmoid", all);
                if !self.is_v011() && matches!(self.options.router, RouterFormat::Activations) {
                    list.push(kept, "scores", all);
                }
                list.push(weights, "chosen scores", chosen);
                list.push(weights, "sums of chosen scores", [batch, own_tokens, ONE, ONE]);
            }
            Score::Softmax => list.push(fp32, "softmax of the chosen", chosen),
            Score::PreSoftmax => list.push(fp32, "softmax of all", all),
        }
        if matches!(self.plan.spec().layout.routing, Routing::Capacity(_)) {
            list.push(&kept.stored_as(Element::MASK), "kept copies", all);
        }
    }

    /// What the loss that balances experts keeps.
    const fn aux_loss(self, list: &mut Sink<'_>, kept: &Entry) {
        let Sizes { batch, own_tokens, experts, .. } = *self.sizes;
        let fp32 = &kept.stored_as(Element::FP32);
        let all = [batch, own_tokens, experts, ONE];
        let counted = match self.options.aux_loss {
            AuxLoss::None => return,
            AuxLoss::Batch | AuxLoss::BatchAndZ => [experts, ONE, ONE, ONE],
            AuxLoss::Sequence => [batch, experts, ONE, ONE],
        };
        list.push(fp32, "scores for the loss", all);
        if self.is_v011() {
            list.push(fp32, "tokens of experts", counted);
        } else {
            if matches!(self.options.score, Score::Sigmoid) {
                list.push(fp32, "sums of scores", [batch, own_tokens, ONE, ONE]);
            }
            list.push(&kept.stored_as(Element::INT64), "tokens of experts", counted);
        }
        list.push(fp32, "balance loss", [ONE; 4]);
        if matches!(self.options.aux_loss, AuxLoss::BatchAndZ) {
            list.push(fp32, "logits", all);
            list.push(fp32, "log-sum-exp of logits", [batch, own_tokens, ONE, ONE]);
            list.push(fp32, "z loss", [ONE; 4]);
        }
    }

    /// Copies of tokens that reach the experts of a rank.
    pub(super) const fn rows(self) -> Dim {
        Dim::whole(Symbol::Rows, self.plan.routed_rows(Pool::Group))
    }

    /// The same as experts compute on them.
    pub(super) const fn expert_rows(self) -> Dim {
        let rows = self.rows();
        if self.is_fp8() { Dim::whole(Symbol::Rows, self.padded(rows.local)) } else { rows }
    }

    /// How tokens get to their experts and back.
    const fn dispatch(self, list: &mut Sink<'_>, kept: &Entry) {
        let Sizes { batch, own_tokens, experts, active, hidden, .. } = *self.sizes;
        let (int64, all) = (&kept.stored_as(Element::INT64), [batch, own_tokens, experts, ONE]);
        let is_bounded = matches!(self.plan.spec().layout.routing, Routing::Capacity(_));
        let rows = [self.rows(), ONE, ONE, ONE];
        if is_bounded && self.options.pad.is_on() {
            list.push(&int64.times(2), "indices of slots", rows);
            return;
        }
        if matches!(self.options.version, MegatronVersion::V020) {
            list.push(int64, "sorted routing map", all);
        } else {
            list.push(&self.weights_as(kept), "permuted weights", all);
            list.push(&kept.stored_as(Element::MASK), "permuted routing map", all);
        }
        if is_bounded || matches!(self.options.dispatcher, Dispatcher::AllGather) {
            list.push(int64, "indices of copies", rows);
        } else {
            list.push(int64, "indices of copies", [batch, own_tokens, active, ONE]);
        }
        if self.is_v011() {
            list.push(kept, "weights of copies", [batch, own_tokens, active, ONE]);
            list.push(kept, "outputs of copies", [batch, own_tokens, active, hidden]);
        }
    }

    /// What routed experts keep; of their activation, what is computed again.
    const fn routed(self, list: &mut Sink<'_>, kept: &Entry, again: &Entry) {
        // DeepSeek's recipe computes again what lies between the two products.
        let is_again = self.modules().activation.is_on() || self.is_deepseek();
        let inside = if is_again { again } else { kept };
        let (rows, io, width) = (self.expert_rows(), self.sizes.expert_io, self.sizes.expert_ffn);
        let inner = [rows, width, ONE, ONE];
        if self.plan.spec().architecture.experts.latent > 0 {
            let latent = [self.sizes.batch, self.sizes.own_tokens, io, ONE];
            list.push(&kept.times(2), "latent input, latent output", latent);
        }
        if self.is_fp8() {
            self.quantised_rows(list, kept, "routed input", [io, ONE], 1);
        } else {
            list.push(kept, "routed input", [rows, io, ONE, ONE]);
        }
        if self.is_deepseek() {
            let both = Dim::whole(Symbol::Count, self.gated(2, 1));
            self.quantised_rows(list, kept, "routed gate and up", [width, both], 1);
        } else {
            list.push(&kept.times(self.gated(2, 1)), "routed gate and up", inner);
        }
        let is_grouped = !matches!(self.options.experts, ExpertKernel::Sequential);
        let is_written_out = match self.options.experts {
            ExpertKernel::Sequential => matches!(self.options.activation, GatedActivation::Unfused),
            ExpertKernel::Grouped => true,
            ExpertKernel::GroupedCompiled => false,
        };
        if is_written_out {
            // Silu and, where it is a tensor of its own, up.
            let silu = if is_grouped { 1 } else { 2 };
            list.push(&inside.times(self.gated(silu, 0)), "routed silu, up", inner);
        }
        // Weights are applied to the product.
        if is_written_out && !self.is_v011() {
            list.push(inside, "routed product", inner);
        }
        if !self.is_v011() {
            list.push(&self.weights_as(kept), "weights of rows", [rows, ONE, ONE, ONE]);
        }
        if !self.is_fp8() || is_again {
            list.push(inside, "routed weighted product", inner);
        }
        if self.is_fp8() {
            self.quantised_rows(list, inside, "routed weighted product in fp8", [width, ONE], 1);
        }
        if is_grouped {
            list.push(&kept.stored_as(Element::INT64), "rows of experts", [self.sizes.local_experts, ONE, ONE, ONE]);
        }
    }
}
