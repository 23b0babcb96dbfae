//! The largest of what the forward and backward of each block work on, beyond what they save. Gradients of weights are
//! counted of grouped experts alone, as tensors of their own (without `gradient_accumulation_fusion`).

use super::Of;
use super::fp8::GRADIENT;
use crate::accounting::{elements, is_rotary};
use crate::inventory::{Block, Element, Entry, Lifetime, Module, Sink};
use crate::mixers::Heads;
use crate::sizes::{Dim, Sizes, Symbol};
use crate::spec::{ExpertKernel, Loss};

const ONE: Dim = Dim::ONE;

impl Of<'_> {
    /// What Transformer Engine's projections gather a sequence into; megatron-core's own do so into the buffer of the rank.
    const fn gathered(self, list: &mut Sink<'_>, forward: &Entry, backward: &Entry) {
        if self.plan.spec().layout.mesh.sequence_parallel.is_on() && self.has_engine() {
            let context = [self.sizes.batch, self.sizes.context, self.sizes.hidden, ONE];
            let is_in_fp8 = self.is_fp8() && !matches!(forward.module, Module::Head);
            if is_in_fp8 {
                self.quantised(list, forward, "gathered sequence", context);
                self.quantised(list, backward, "gathered sequence", context);
            } else {
                list.push(forward, "gathered sequence", context);
                list.push(backward, "gathered sequence", context);
            }
        }
    }

    /// The largest of what attention works on, beyond what it saves.
    pub(super) const fn attention_works(self, list: &mut Sink<'_>, heads: Heads, forward: &Entry, backward: &Entry) {
        let Sizes { batch, context, sequence, .. } = *self.sizes;
        let Heads { queries, keys, width, value, is_latent, .. } = heads;
        let scores = [batch, queries, context, sequence];
        self.gathered(list, forward, backward);
        list.push(backward, "output gradient", self.sizes.own_hidden());
        let (output, query) = ([batch, context, queries, value], [batch, context, queries, width]);
        self.quantises(list, forward, backward, [output, query]);
        if is_latent && is_rotary(self.plan) {
            let frequencies = [context, heads.rotary, ONE, ONE];
            list.push(&forward.stored_as(Element::FP32), "rotary frequencies", frequencies);
            list.push(&backward.stored_as(Element::FP32), "rotary frequencies", frequencies);
        }
        if self.is_fused() {
            list.push(forward, "contiguous output", [batch, context, queries, value]);
            list.push(forward, "projected output", self.sizes.own_hidden());
            list.push(backward, "attention output gradient", [batch, context, queries, value]);
            list.push_part(backward, "input gradients", "query", [batch, context, queries, width]);
            list.push_part(backward, "input gradients", "key", [batch, context, keys, width]);
            list.push_part(backward, "input gradients", "value", [batch, context, keys, value]);
            return;
        }
        if !is_latent {
            self.fused_projection(list, forward, heads);
            if is_rotary(self.plan) {
                list.push(forward, "roped query", [batch, context, queries, width]);
                list.push(forward, "roped key", [batch, context, keys, width]);
            }
        }
        list.push(forward, "scores", scores);
        list.push(&forward.stored_as(Element::FP32), "fp32 scores", scores);
        if self.has_engine() {
            list.push(forward, "score buffer", scores);
        }
        list.push(backward, "value gradient", [batch, context, queries, value]);
        list.push(&backward.times(2).stored_as(Element::FP32), "fp32 score gradients", scores);
    }

    /// The largest of what a dense network works on.
    pub(super) const fn dense_works(self, list: &mut Sink<'_>, backward: &Entry) {
        let forward = &backward.transient(Lifetime::InForward(Block::Dense));
        let inner = [self.sizes.batch, self.sizes.context, self.sizes.dense_ffn, ONE];
        self.gathered(list, forward, backward);
        list.push(backward, "output gradient", self.sizes.own_hidden());
        let gradient =
            [self.sizes.batch, self.sizes.context, self.sizes.dense_ffn, Dim::whole(Symbol::Count, self.gated(2, 1))];
        self.quantises(list, forward, backward, [inner, gradient]);
        if self.has_engine() {
            // Where Transformer Engine is, activations are compiled: that of the gate is no tensor, and gradients take the place
            // of the product, which the projection behind it has read.
            list.push(&backward.times(self.gated(2, 1)), "gradients inside", inner);
        } else {
            list.push(forward, "activation of the gate", inner);
            list.push(&backward.times(self.gated(5, 2)), "gradients inside", inner);
        }
    }

    /// The largest of what a layer with experts works on, beyond what it saves.
    pub(super) const fn experts_work(self, list: &mut Sink<'_>, forward: &Entry, backward: &Entry) {
        let Sizes { batch, own_tokens, active, expert_io, .. } = *self.sizes;
        let (rows, copies) = (self.rows(), [batch, own_tokens, active, expert_io]);
        let forward = &forward.of(Module::RoutedExperts);
        let backward = &backward.of(Module::RoutedExperts);
        if self.plan.spec().architecture.experts.shared > 0 {
            list.push(&forward.of(Module::SharedExperts), "shared output", self.sizes.own_hidden());
        }
        self.gathered(list, forward, backward);
        self.sent(list, forward, [copies, [rows, ONE, ONE, expert_io]]);
        list.push(&forward.stored_as(Element::FP32), "received weights", [rows, ONE, ONE, ONE]);
        list.push(&forward.times(2), "expert outputs, sorted back", [rows, expert_io, ONE, ONE]);
        list.push(backward, "output gradient", self.sizes.own_hidden());
        if self.is_fp8() {
            let inside = [self.sizes.expert_ffn, Dim::whole(Symbol::Count, self.gated(2, 1))];
            self.quantised_rows(list, backward, GRADIENT, inside, self.copies());
        }
        self.experts_work_back(list, backward);
    }

    /// Copies of tokens on their way to experts: in fp8 under DeepSeek's recipe, whose way back is in bf16 (section 3.3.3).
    const fn sent(self, list: &mut Sink<'_>, forward: &Entry, [permuted, received]: [[Dim; 4]; 2]) {
        let is_received = self.plan.spec().layout.mesh.ep > 1;
        if self.is_deepseek() {
            self.quantised_copies(list, forward, "permuted copies", permuted);
            if is_received {
                self.quantised_copies(list, forward, "received copies", received);
            }
            return;
        }
        list.push(forward, "permuted copies", permuted);
        if is_received {
            list.push(forward, "received copies", received);
        }
    }

    /// The worst of three moments: gradients of copies before and behind their sorting; under a grouped product the
    /// activation with the gradient of the weights behind it, or with those of all weights.
    const fn experts_work_back(self, list: &mut Sink<'_>, works: &Entry) {
        let (rows, io, ffn, local) =
            (self.rows(), self.sizes.expert_io, self.sizes.expert_ffn, self.sizes.local_experts);
        let (copies, inner, weights) = ([rows, io, ONE, ONE], [rows, ffn, ONE, ONE], [local, io, ffn, ONE]);
        let has_gradients = !self.options.fused_gradients.is_on();
        if matches!(self.options.experts, ExpertKernel::Sequential) || !has_gradients {
            list.push(&works.times(2), "copy gradients, sorted", copies);
            return;
        }
        let (of_copies, of_inner, of_weights) = (elements(copies), elements(inner), elements(weights));
        // Beyond what is still saved then: of all that lies inside, the product, or nothing.
        let (sorted, activation) = (2 * of_copies + 5 * of_inner, of_weights + 11 * of_inner);
        let all = 3 * of_weights + 2 * of_inner + of_copies;
        if sorted >= activation && sorted >= all {
            list.push(&works.times(2), "copy gradients, sorted", copies);
        } else if activation >= all {
            list.push(works, "down weight gradient", weights);
            list.push(&works.times(7), "activation gradients", inner);
        } else {
            list.push(&works.times(3), "expert weight gradients", weights);
            list.push(&works.times(2), "activation gradients", inner);
            list.push(works, "copy gradients", copies);
            list.push(&works.stored_as(Element::FP32), "gradients of weights of rows", [rows, ONE, ONE, ONE]);
        }
    }

    /// The largest of what the head works on.
    pub(super) const fn head_works(self, list: &mut Sink<'_>, kept: &Entry) {
        let logits = [self.sizes.batch, self.sizes.context, self.sizes.vocab, ONE];
        let forward = &kept.transient(Lifetime::InForward(Block::Head));
        let backward = &forward.transient(Lifetime::InBackward(Block::Head));
        self.gathered(list, forward, backward);
        if !matches!(self.options.loss, Loss::EngineInPlace) {
            list.push(forward, "logits", logits);
            list.push(backward, "logit gradient", logits);
        }
    }
}
