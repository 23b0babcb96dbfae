//! The accounting of Hugging Face transformers 5.24: what its modules save for backward, tensor by tensor.
//!
//! Its norms and networks are written out, so each operation keeps what it reads. Measured from live storages under PyTorch
//! 2.15; `tests/activations/` holds every list against it.

mod works;

use super::{is_recomputed, is_rotary, pytorch, residual_streams, saved};
use crate::counts::{Count, Counts, Part};
use crate::inventory::{Block, Element, Entry, Lifetime, Module, Sink};
use crate::mixers::{At, Heads, Slot};
use crate::plan::Plan;
use crate::sizes::{Dim, Sizes, Symbol};
use crate::spec::{AttentionCode, Backend, Norm, Pool, RoutedCode, RouterFormat, Score, Transformers};

const ONE: Dim = Dim::ONE;
const SOURCE: &str = "transformers 5.24.0, measured";

pub(super) const fn list(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, counts: Counts, options: Transformers) {
    let of = Of { plan, sizes, options };
    of.mixer(list, Slot::Attention, counts.mixers[0]);
    of.mixer(list, Slot::Mixer, counts.mixers[1]);
    of.mixer(list, Slot::Compressed, counts.mixers[2]);
    of.mixer(list, Slot::Heavy, counts.mixers[3]);
    of.dense(list, counts.dense);
    of.moe(list, counts.moe);
    of.first(list, counts.first);
    of.last(list, counts.last);
}

/// What lists are made of.
#[derive(Clone, Copy)]
struct Of<'a> {
    plan: &'a Plan,
    sizes: &'a Sizes,
    options: Transformers,
}

impl Of<'_> {
    /// What so many blocks of a mixer save; under gradient checkpointing the layer's input.
    const fn mixer(self, list: &mut Sink<'_>, slot: Slot, count: Count) {
        if count.there == 0 {
            return;
        }
        list.part(slot.part());
        let saved = saved(self.plan, count, SOURCE);
        if is_recomputed(self.plan) {
            list.push(&saved.of(Module::Attention), "layer input", self.sizes.own_streams());
        } else {
            self.attention(list, At { plan: self.plan, sizes: self.sizes, slot }, &saved);
        }
    }

    const fn dense(self, list: &mut Sink<'_>, count: Count) {
        if count.there == 0 {
            return;
        }
        list.part(Part::Dense);
        let saved = saved(self.plan, count, SOURCE);
        let backward = saved.transient(Lifetime::InBackward(Block::Dense));
        let kept = &self.kept_of_layer(list, &saved, &backward).of(Module::DenseFfn);
        residual_streams(list, self.sizes, kept);
        self.norm(list, kept, ["dense norm input", "dense norm statistics", "dense norm result"]);
        list.push(kept, "dense norm output", self.sizes.own_hidden());
        self.mlp(list, kept, ["dense gate", "dense activation, up", "dense product"], self.sizes.dense_ffn);
        self.block_norm(list, kept, 4);
    }

    const fn moe(self, list: &mut Sink<'_>, count: Count) {
        if count.there == 0 {
            return;
        }
        list.part(Part::Moe);
        let saved = saved(self.plan, count, SOURCE);
        let backward = saved.transient(Lifetime::InBackward(Block::Moe));
        let kept = self.kept_of_layer(list, &saved, &backward);
        self.experts(list, kept);
        self.experts_work(list, &backward);
        if self.options.router_logits.is_on() {
            // Kept whether layers are computed again or not.
            let logits = saved.of(Module::Router);
            list.push(&logits, "scores for the balance loss", self.sizes.own_each(self.sizes.experts));
        }
    }

    /// How what a feed-forward network saves is kept: until backward, or, in a layer that is computed again, while it is, and
    /// its attention beside it. A law lets only models of one attention in there.
    const fn kept_of_layer<'e>(self, list: &mut Sink<'_>, saved: &'e Entry, backward: &'e Entry) -> &'e Entry {
        if !is_recomputed(self.plan) {
            return saved;
        }
        self.attention(list, At { plan: self.plan, sizes: self.sizes, slot: Slot::Attention }, backward);
        backward
    }

    /// What a norm of hidden states keeps; its output is kept by what reads it.
    const fn norm(self, list: &mut Sink<'_>, kept: &Entry, names: [&'static str; 3]) {
        self.norm_of(list, kept, names, self.sizes.own_hidden(), self.sizes.own_each(ONE));
    }

    /// The same of anything else. `LayerNorm` is one operation, which keeps its input and two numbers for each row.
    const fn norm_of(
        self,
        list: &mut Sink<'_>,
        kept: &Entry,
        names: [&'static str; 3],
        input: [Dim; 4],
        rows: [Dim; 4],
    ) {
        if matches!(self.plan.spec().architecture.norm, Norm::Rms) {
            pytorch::rms(list, [kept, kept], names, input, rows);
        } else {
            list.push(kept, names[0], input);
            list.push(&kept.times(2).stored_as(Element::FP32), names[1], rows);
        }
    }

    /// The norm behind a block, where layers have so many norms that there is one.
    const fn block_norm(self, list: &mut Sink<'_>, kept: &Entry, norms: u64) {
        if self.plan.spec().architecture.norms_per_layer >= norms {
            self.norm(list, kept, ["output norm input", "output norm statistics", "output norm result"]);
        }
    }

    const fn attention(self, list: &mut Sink<'_>, at: At<'_>, common: &Entry) {
        let kept = &common.of(Module::Attention);
        residual_streams(list, self.sizes, kept);
        self.norm(list, kept, ["attention norm input", "attention norm statistics", "attention norm result"]);
        list.push(kept, "attention norm output", self.sizes.own_hidden());
        match at.heads() {
            Some(heads) => {
                if heads.is_latent {
                    self.latents(list, kept);
                }
                self.query_key_norms(list, kept, heads);
                self.core(list, kept, heads);
                at.options_saved(list, kept);
            }
            None => at.saved(list, kept),
        }
        self.block_norm(list, kept, 3);
    }

    /// The latents of MLA around their norms. No operation reads them as they come out of the projections.
    const fn latents(self, list: &mut Sink<'_>, kept: &Entry) {
        let (query, key_value) = (self.sizes.own_each(self.sizes.q_rank), self.sizes.own_each(self.sizes.kv_rank));
        if self.sizes.q_rank.global > 0 {
            let names = ["query latent norm input", "query latent norm statistics", "query latent norm result"];
            self.norm_of(list, kept, names, query, self.sizes.own_each(ONE));
            list.push(kept, "normed query latent", query);
        }
        let names = ["key/value latent norm input", "key/value latent norm statistics", "key/value latent norm result"];
        self.norm_of(list, kept, names, key_value, self.sizes.own_each(ONE));
        list.push(kept, "normed key/value latent", key_value);
    }

    const fn query_key_norms(self, list: &mut Sink<'_>, kept: &Entry, heads: Heads) {
        let Sizes { batch, context, .. } = *self.sizes;
        let Some([query_rows, key_rows]) = heads.norm_rows() else { return };
        let names = ["query norm input", "query norm statistics", "query norm result"];
        let (input, rows) = ([batch, context, heads.queries, heads.width], [batch, context, query_rows, ONE]);
        self.norm_of(list, kept, names, input, rows);
        let names = ["key norm input", "key norm statistics", "key norm result"];
        let (input, rows) = ([batch, context, heads.keys, heads.width], [batch, context, key_rows, ONE]);
        self.norm_of(list, kept, names, input, rows);
    }

    /// Attention itself, and its output, which the projection behind it reads.
    const fn core(self, list: &mut Sink<'_>, kept: &Entry, heads: Heads) {
        let output = [self.sizes.batch, self.sizes.context, heads.queries, heads.value];
        if matches!(self.options.attention, AttentionCode::Eager) {
            self.eager(list, kept, heads);
            list.push(kept, "attention output", output);
            return;
        }
        let backend = self.options.backend;
        pytorch::scaled_dot_product(list, [kept; 3], self.sizes, heads, backend);
        if heads.is_latent && matches!(backend, Backend::Cudnn) {
            // cuDNN lays its output out as its query is, head by head where that was put together; the projection reads a copy.
            list.push(kept, "attention output", output);
        }
    }

    /// Scores, softmax and weighted values as three operations.
    const fn eager(self, list: &mut Sink<'_>, kept: &Entry, heads: Heads) {
        let Sizes { batch, context, sequence, .. } = *self.sizes;
        let Heads { queries, width, value, .. } = heads;
        // Repeated for each query head.
        list.push(kept, "query", [batch, context, queries, width]);
        list.push(kept, "key of each head", [batch, context, queries, width]);
        if heads.is_latent && batch.global == 1 {
            // Those of one sequence are read where they are.
            pytorch::up_projection(list, kept, self.sizes, heads);
        } else {
            list.push(kept, "value of each head", [batch, context, queries, value]);
        }
        let scores = [batch, queries, context, sequence];
        list.push(&kept.stored_as(Element::FP32), "softmax", scores);
        list.push(kept, "probabilities", scores);
    }

    /// What a network that every token visits keeps behind its input.
    const fn mlp(self, list: &mut Sink<'_>, kept: &Entry, names: [&'static str; 3], width: Dim) {
        let inside = [self.sizes.batch, self.sizes.context, width, ONE];
        list.push(kept, names[0], inside);
        if self.is_gated() {
            list.push(&kept.times(2), names[1], inside);
        }
        list.push(kept, names[2], inside);
    }

    const fn is_gated(self) -> bool {
        self.plan.spec().architecture.layers.gated.is_on()
    }

    const fn experts(self, list: &mut Sink<'_>, common: &Entry) {
        let experts = &self.plan.spec().architecture.experts;
        let router = &common.of(Module::Router);
        residual_streams(list, self.sizes, router);
        self.norm(list, router, ["expert norm input", "expert norm statistics", "expert norm result"]);
        let is_sigmoid = matches!(self.options.score, Score::Sigmoid);
        if is_sigmoid {
            // Such a router computes in fp32.
            list.push(&router.stored_as(Element::FP32), "router input", self.sizes.own_hidden());
        }
        // Experts read copies of it.
        if !is_sigmoid || experts.shared > 0 || experts.latent > 0 {
            list.push(router, "expert norm output", self.sizes.own_hidden());
        }
        self.weights_of_experts(list, router);
        self.routed(list, &common.of(Module::RoutedExperts));
        if experts.shared > 0 {
            let shared = &common.of(Module::SharedExperts);
            self.mlp(list, shared, ["shared gate", "shared activation, up", "shared product"], self.sizes.shared_ffn);
            if experts.shared_gate.is_on() {
                list.push(shared, "gate of shared experts", self.sizes.own_each(ONE));
                list.push(shared, "shared output", self.sizes.own_hidden());
            }
        }
        self.block_norm(list, router, 4);
    }

    /// How scores of experts become weights.
    const fn weights_of_experts(self, list: &mut Sink<'_>, kept: &Entry) {
        let (fp32, chosen) = (&kept.stored_as(Element::FP32), self.sizes.own_each(self.sizes.active));
        match self.options.score {
            Score::Sigmoid => list.push(fp32, "sigmoid", self.sizes.own_each(self.sizes.experts)),
            Score::PreSoftmax => list.push(fp32, "softmax of all", self.sizes.own_each(self.sizes.experts)),
            Score::Softmax => list.push(fp32, "softmax of the chosen", chosen),
        }
        list.push(&kept.stored_as(Element::INT64), "chosen experts", chosen);
        // The softmax of the chosen sums to one.
        if self.options.normalised.is_on() && !matches!(self.options.score, Score::Softmax) {
            list.push(fp32, "sums of chosen scores", self.sizes.own_each(ONE));
            list.push(fp32, "chosen scores", chosen);
        }
    }

    /// Copies of tokens that experts read.
    const fn rows(self) -> Dim {
        Dim::whole(Symbol::Rows, self.plan.routed_rows(Pool::Group))
    }

    const fn routed(self, list: &mut Sink<'_>, kept: &Entry) {
        let (rows, io, width) = (self.rows(), self.sizes.expert_io, self.sizes.expert_ffn);
        let (copies, inside, each) = ([rows, io, ONE, ONE], [rows, width, ONE, ONE], [rows, ONE, ONE, ONE]);
        let int64 = &kept.stored_as(Element::INT64);
        if self.plan.spec().architecture.experts.latent > 0 {
            list.push(&kept.times(2), "latent input, latent output", self.sizes.own_each(io));
        }
        let is_grouped = matches!(self.options.routed, RoutedCode::GroupedMm);
        if is_grouped {
            list.push(&int64.times(3), "tokens of copies, order and its inverse", each);
            list.push(&kept.stored_as(Element::INT32), "ends of experts", [self.sizes.local_experts, ONE, ONE, ONE]);
        } else {
            list.push(&int64.times(2), "tokens of copies, places", each);
        }
        list.push(kept, "routed input", copies);
        list.push(&kept.times(if self.is_gated() { 2 } else { 1 }), "routed gate and up", inside);
        if self.is_gated() {
            list.push(kept, "routed activation", inside);
        }
        list.push(kept, "routed product", inside);
        list.push(&self.weighted(kept), "weights of copies", each);
        list.push(kept, "routed output", copies);
        if !is_grouped {
            list.push(kept, "weighted output", copies);
        }
    }

    /// The format of routing weights, and of what experts return once it is weighted.
    const fn weighted(self, entry: &Entry) -> Entry {
        match self.options.router {
            RouterFormat::Fp32 => entry.stored_as(Element::FP32),
            RouterFormat::Activations => *entry,
        }
    }

    /// What the model makes once for all its layers: tables of rotary embeddings, one pair for each kind of attention. Under
    /// gradient checkpointing layers are called again with them, with positions and with the mask of eager attention.
    const fn first(self, list: &mut Sink<'_>, count: Count) {
        if count.there == 0 {
            return;
        }
        list.part(Part::First);
        let kept = &saved(self.plan, count, SOURCE).of(Module::Embedding);
        if is_rotary(self.plan) {
            self.rotary(list, kept, Slot::Attention, "rotary tables");
            self.rotary(list, kept, Slot::Mixer, "rotary tables of the mixer");
        }
        if is_recomputed(self.plan) {
            self.arguments(list, kept);
        }
    }

    const fn rotary(self, list: &mut Sink<'_>, kept: &Entry, slot: Slot, name: &'static str) {
        if let Some(heads) = (At { plan: self.plan, sizes: self.sizes, slot }).heads() {
            list.push(&kept.times(2), name, [self.sizes.context, heads.rotary, ONE, ONE]);
        }
    }

    /// What all layers are called with: positions, and the mask of eager attention.
    const fn arguments(self, list: &mut Sink<'_>, entry: &Entry) {
        let Sizes { batch, context, sequence, .. } = *self.sizes;
        let entry = &entry.of(Module::Attention);
        list.push(&entry.stored_as(Element::INT64), "positions", [context, ONE, ONE, ONE]);
        if matches!(self.options.attention, AttentionCode::Eager) {
            list.push(entry, "causal mask", [batch, context, sequence, ONE]);
        }
    }

    /// Final norm, head and loss.
    const fn last(self, list: &mut Sink<'_>, count: Count) {
        if count.there == 0 {
            return;
        }
        list.part(Part::Last);
        let kept = &saved(self.plan, count, SOURCE).of(Module::Head);
        let (fp32, int64) = (&kept.stored_as(Element::FP32), &kept.stored_as(Element::INT64));
        let Sizes { batch, context, vocab, experts, .. } = *self.sizes;
        self.norm(list, kept, ["final norm input", "final norm statistics", "final norm result"]);
        list.push(kept, "head input", self.sizes.own_hidden());
        list.push(fp32, "log-softmax of logits", [batch, context, vocab, ONE]);
        list.push(int64, "shifted targets", [batch, context, ONE, ONE]);
        let forward = &kept.transient(Lifetime::InForward(Block::Head));
        if batch.global == 1 {
            // Those of one sequence are a view of the targets with one behind them.
            list.push(int64, "padding of targets", [ONE; 4]);
        } else {
            let padded = Dim::whole(Symbol::Count, context.global + 1);
            list.push(&forward.stored_as(Element::INT64), "padded targets", [batch, padded, ONE, ONE]);
        }
        list.push(fp32, "weight of all targets", [ONE; 4]);
        pytorch::loss_works(list, forward, [batch, context, vocab, ONE]);
        if self.options.router_logits.is_on() && self.plan.spec().architecture.layers.moe > 0 {
            list.push(fp32, "tokens of experts", [experts, ONE, ONE, ONE]);
        }
    }
}
