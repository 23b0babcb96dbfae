//! The accounting of torchtitan 0.3: what its modules save for backward, tensor by tensor, and what its selective activation
//! checkpointing keeps of a layer that it computes again.
//!
//! Measured from live storages under PyTorch 2.15; `tests/activations/` holds every list against it.

mod selective;
mod works;

use super::{is_recomputed, is_rotary, pytorch, residual_streams, saved};
use crate::counts::{Count, Counts, Part};
use crate::inventory::{Block, Element, Entry, Lifetime, Module, Sink};
use crate::mixers::{At, Heads, Slot};
use crate::plan::Plan;
use crate::sizes::{Dim, Sizes, Symbol};
use crate::spec::{Backend, Pool, Recompute, RouterFormat, Score, Torchtitan};
use selective::{Kept, Products};

const ONE: Dim = Dim::ONE;
const SOURCE: &str = "torchtitan 0.3.0, measured";

pub(super) const fn list(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, counts: Counts, options: Torchtitan) {
    let of = Of { plan, sizes, options };
    of.mixer(list, Slot::Attention, counts.mixers[0]);
    of.mixer(list, Slot::Mixer, counts.mixers[1]);
    of.mixer(list, Slot::Compressed, counts.mixers[2]);
    of.mixer(list, Slot::Heavy, counts.mixers[3]);
    of.dense(list, counts.dense);
    of.moe(list, counts.moe);
    of.last(list, counts.last);
}

/// What lists are made of.
#[derive(Clone, Copy)]
struct Of<'a> {
    plan: &'a Plan,
    sizes: &'a Sizes,
    options: Torchtitan,
}

impl Of<'_> {
    const fn is_selective(self) -> bool {
        matches!(self.plan.spec().layout.recompute, Recompute::Selective)
    }

    const fn products(self, router: Option<[u64; 2]>) -> Products {
        Products { is_selective: self.is_selective(), is_next_kept: true, router }
    }

    /// What so many blocks of a mixer save; under recomputation the layer's input.
    const fn mixer(self, list: &mut Sink<'_>, slot: Slot, count: Count) {
        if count.there == 0 {
            return;
        }
        list.part(slot.part());
        let saved = saved(self.plan, count, SOURCE);
        if is_recomputed(self.plan) || self.is_selective() {
            list.push(&saved.of(Module::Attention), "layer input", self.sizes.own_streams());
        } else {
            let at = At { plan: self.plan, sizes: self.sizes, slot };
            self.attention(list, at, &Kept { kept: saved, again: saved }, &mut self.products(None));
        }
    }

    const fn dense(self, list: &mut Sink<'_>, count: Count) {
        if count.there == 0 {
            return;
        }
        list.part(Part::Dense);
        let mut products = self.products(None);
        let kept = &self.layer(list, count, Block::Dense, &mut products).of(Module::DenseFfn);
        let again = &kept.again;
        residual_streams(list, self.sizes, again);
        self.norm(list, again, ["dense norm input", "dense norm statistics", "dense norm result"]);
        list.push(again, "dense norm output", self.sizes.own_hidden());
        let names = ["dense gate", "dense up", "dense activation", "dense product", "dense output"];
        self.mlp(list, kept, &mut products, names, self.sizes.dense_ffn);
        self.block_norm(list, again, 4);
    }

    const fn moe(self, list: &mut Sink<'_>, count: Count) {
        if count.there == 0 {
            return;
        }
        list.part(Part::Moe);
        let mut products = self.products(Some([self.sizes.hidden.global, self.sizes.experts.global]));
        let kept = self.layer(list, count, Block::Moe, &mut products);
        self.experts(list, &kept, &mut products);
        self.experts_work(list, &kept.kept.transient(Lifetime::InBackward(Block::Moe)));
    }

    /// How what a feed-forward network saves is kept: until backward, or, in a layer that is computed again, while it is, and
    /// its attention in front of it. A law lets only models of one attention in there.
    const fn layer(self, list: &mut Sink<'_>, count: Count, block: Block, products: &mut Products) -> Kept {
        let kept = saved(self.plan, count, SOURCE);
        if !is_recomputed(self.plan) && !self.is_selective() {
            return Kept { kept, again: kept };
        }
        let layer = Kept { kept, again: kept.transient(Lifetime::InBackward(block)) };
        self.attention(list, At { plan: self.plan, sizes: self.sizes, slot: Slot::Attention }, &layer, products);
        layer
    }

    const fn is_fused(self) -> bool {
        !pytorch::takes_apart(self.plan.spec().architecture.norm, self.options.norms)
    }

    /// What a norm of hidden states keeps; its output is kept by what reads it.
    const fn norm(self, list: &mut Sink<'_>, kept: &Entry, names: [&'static str; 3]) {
        if self.is_fused() {
            list.push(kept, names[0], self.sizes.own_hidden());
        }
        self.norm_inside(list, kept, names, self.sizes.own_hidden(), self.sizes.own_each(ONE));
    }

    /// The same beside its input, where one kernel reads that: for each row the reciprocal of its deviation, and the mean of
    /// one that centres rows.
    const fn norm_inside(
        self,
        list: &mut Sink<'_>,
        kept: &Entry,
        names: [&'static str; 3],
        input: [Dim; 4],
        rows: [Dim; 4],
    ) {
        let norm = (self.plan.spec().architecture.norm, self.options.norms);
        pytorch::norm(list, kept, norm, names, [input, rows]);
    }

    /// The norm behind a block, where layers have so many norms that there is one.
    const fn block_norm(self, list: &mut Sink<'_>, kept: &Entry, norms: u64) {
        if self.plan.spec().architecture.norms_per_layer >= norms {
            self.norm(list, kept, ["output norm input", "output norm statistics", "output norm result"]);
        }
    }

    const fn attention(self, list: &mut Sink<'_>, at: At<'_>, common: &Kept, products: &mut Products) {
        let of = &common.of(Module::Attention);
        let again = &of.again;
        residual_streams(list, self.sizes, again);
        self.norm(list, again, ["attention norm input", "attention norm statistics", "attention norm result"]);
        list.push(again, "attention norm output", self.sizes.own_hidden());
        match at.heads() {
            Some(heads) => {
                if is_rotary(self.plan) {
                    // Factors of every token, complex: two numbers in fp32 for each pair of a head.
                    let factors = [self.sizes.batch, self.sizes.context, heads.rotary, ONE];
                    list.push(&again.stored_as(Element::FP32), "rotary factors", factors);
                }
                let is_value_kept = if heads.is_latent {
                    self.latents(list, of, products, heads)
                } else {
                    self.projections(list, of, products, heads)
                };
                self.core(list, of, heads, is_value_kept);
                at.options_saved(list, again);
                let is_kept = products.keep(heads.queries.global * heads.value.global, self.sizes.hidden.global);
                of.product(list, [is_kept, false], "projected attention output", self.sizes.own_hidden());
            }
            None => at.saved(list, again),
        }
        self.block_norm(list, again, 3);
    }

    /// The latents of MLA before and behind their norms, one of which reads a view of all that its projection makes. Whether
    /// what is made of keys' and values' is kept.
    const fn latents(self, list: &mut Sink<'_>, of: &Kept, products: &mut Products, heads: Heads) -> bool {
        let Sizes { batch, context, hidden, q_rank, kv_rank, nope, rope, .. } = *self.sizes;
        let queries = heads.queries.global * heads.width.global;
        let (again, is_fused) = (&of.again, self.is_fused());
        let query = [batch, context, heads.queries, heads.width];
        if q_rank.global > 0 {
            let is_kept = products.keep(hidden.global, q_rank.global);
            of.product(list, [is_kept, is_fused], "query latent", self.sizes.own_each(q_rank));
            let names = ["query latent norm input", "query latent norm statistics", "query latent norm result"];
            self.norm_inside(list, again, names, self.sizes.own_each(q_rank), self.sizes.own_each(ONE));
            list.push(again, "normed query latent", self.sizes.own_each(q_rank));
            let is_kept = products.keep(q_rank.global, queries);
            of.product(list, [is_kept, false], "up-projected query", query);
        } else {
            let is_kept = products.keep(hidden.global, queries);
            of.product(list, [is_kept, false], "projected query", query);
        }
        let is_kept = products.keep(hidden.global, kv_rank.global + rope.global);
        of.product(list, [is_kept, is_fused], "key/value latent", self.sizes.own_each(kv_rank));
        of.product(list, [is_kept, is_fused], "rotary key", self.sizes.own_each(rope));
        let names = ["key/value latent norm input", "key/value latent norm statistics", "key/value latent norm result"];
        self.norm_inside(list, again, names, self.sizes.own_each(kv_rank), self.sizes.own_each(ONE));
        list.push(again, "normed key/value latent", self.sizes.own_each(kv_rank));
        let is_kept = products.keep(kv_rank.global, heads.keys.global * (nope.global + heads.value.global));
        if is_kept && matches!(self.options.backend, Backend::Math) {
            pytorch::up_projection(list, &of.kept, self.sizes, heads);
        }
        is_kept
    }

    /// Queries, keys and values where each is projected, and the norms of the first two. Whether values are kept.
    const fn projections(self, list: &mut Sink<'_>, of: &Kept, products: &mut Products, heads: Heads) -> bool {
        let Sizes { batch, context, hidden, .. } = *self.sizes;
        let Heads { queries, keys, width, value, .. } = heads;
        let norm_rows = heads.norm_rows();
        let is_read = norm_rows.is_some() && self.is_fused();
        let (query, key) = ([batch, context, queries, width], [batch, context, keys, width]);
        let is_kept = products.keep(hidden.global, queries.global * width.global);
        of.product(list, [is_kept, is_read], "projected query", query);
        let is_kept = products.keep(hidden.global, keys.global * width.global);
        of.product(list, [is_kept, is_read], "projected key", key);
        if let Some([query_rows, key_rows]) = norm_rows {
            let names = ["query norm input", "query norm statistics", "query norm result"];
            self.norm_inside(list, &of.again, names, query, [batch, context, query_rows, ONE]);
            let names = ["key norm input", "key norm statistics", "key norm result"];
            self.norm_inside(list, &of.again, names, key, [batch, context, key_rows, ONE]);
        }
        let is_kept = products.keep(hidden.global, keys.global * value.global);
        if is_kept && matches!(self.options.backend, Backend::Math) {
            list.push(&of.kept, "projected value", [batch, context, keys, value]);
        }
        is_kept
    }

    /// Attention itself. Selective checkpointing keeps what its kernel makes, or without one what the two matrix products do.
    const fn core(self, list: &mut Sink<'_>, of: &Kept, heads: Heads, is_value_kept: bool) {
        let (backend, is_selective) = (self.options.backend, self.is_selective());
        let entries = [&of.again, of.chosen(is_value_kept), of.chosen(is_selective)];
        pytorch::scaled_dot_product(list, entries, self.sizes, heads, backend);
        if is_selective && matches!(backend, Backend::Math) {
            let (fp32, Sizes { batch, context, sequence, .. }) = (&of.kept.stored_as(Element::FP32), *self.sizes);
            list.push(fp32, "scores", [batch, heads.queries, context, sequence]);
            list.push(fp32, "attention output in fp32", [batch, context, heads.queries, heads.value]);
        }
    }

    /// What a network that every token visits keeps behind its input.
    const fn mlp(self, list: &mut Sink<'_>, of: &Kept, products: &mut Products, names: [&'static str; 5], width: Dim) {
        let inside = [self.sizes.batch, self.sizes.context, width, ONE];
        if self.is_gated() {
            let is_kept = products.keep(self.sizes.hidden.global, width.global);
            of.product(list, [is_kept, true], names[0], inside);
            list.push(&of.again, names[2], inside);
        }
        let is_kept = products.keep(self.sizes.hidden.global, width.global);
        of.product(list, [is_kept, true], names[1], inside);
        list.push(&of.again, names[3], inside);
        let is_kept = products.keep(width.global, self.sizes.hidden.global);
        of.product(list, [is_kept, false], names[4], self.sizes.own_hidden());
    }

    const fn is_gated(self) -> bool {
        self.plan.spec().architecture.layers.gated.is_on()
    }

    const fn experts(self, list: &mut Sink<'_>, common: &Kept, products: &mut Products) {
        let experts = &self.plan.spec().architecture.experts;
        let router = &common.again.of(Module::Router);
        residual_streams(list, self.sizes, router);
        self.norm(list, router, ["expert norm input", "expert norm statistics", "expert norm result"]);
        let is_fp32 = matches!(self.options.router, RouterFormat::Fp32);
        if is_fp32 {
            let fp32 = &router.stored_as(Element::FP32);
            list.push(fp32, "router input", self.sizes.own_hidden());
            list.push(fp32, "router weight", [self.sizes.experts, self.sizes.hidden, ONE, ONE]);
        }
        // Experts read copies of it.
        if !is_fp32 || experts.shared > 0 || experts.latent > 0 {
            list.push(router, "expert norm output", self.sizes.own_hidden());
        }
        self.weights_of_experts(list, &common.of(Module::Router));
        self.routed(list, &common.again.of(Module::RoutedExperts));
        if experts.shared > 0 {
            let names = ["shared gate", "shared up", "shared activation", "shared product", "shared output"];
            self.mlp(list, &common.of(Module::SharedExperts), products, names, self.sizes.shared_ffn);
        }
        self.block_norm(list, router, 4);
    }

    /// The format of scores and weights.
    const fn router_format(self, entry: &Entry) -> Entry {
        match self.options.router {
            RouterFormat::Fp32 => entry.stored_as(Element::FP32),
            RouterFormat::Activations => *entry,
        }
    }

    /// How scores of experts become weights. Selective checkpointing keeps both outputs of the choice.
    const fn weights_of_experts(self, list: &mut Sink<'_>, of: &Kept) {
        let (scores, is_selective) = (&self.router_format(&of.again), self.is_selective());
        let (all, chosen) = (self.sizes.own_each(self.sizes.experts), self.sizes.own_each(self.sizes.active));
        match self.options.score {
            Score::Sigmoid => list.push(scores, "sigmoid", all),
            Score::PreSoftmax => list.push(scores, "softmax of all", all),
            Score::Softmax => list.push(scores, "softmax of the chosen", chosen),
        }
        list.push(&of.chosen(is_selective).stored_as(Element::INT64), "chosen experts", chosen);
        if is_selective {
            list.push(&of.kept.stored_as(Element::FP32), "largest scores", chosen);
        }
        // The softmax of the chosen sums to one.
        if self.options.normalised.is_on() && !matches!(self.options.score, Score::Softmax) {
            list.push(scores, "sums of chosen scores", self.sizes.own_each(ONE));
            list.push(scores, "chosen scores", chosen);
        }
    }

    /// Copies of tokens that experts read.
    const fn rows(self) -> Dim {
        Dim::whole(Symbol::Rows, self.plan.routed_rows(Pool::Group))
    }

    /// What routed experts keep; weights are applied to what they return, in fp32.
    const fn routed(self, list: &mut Sink<'_>, kept: &Entry) {
        let (rows, io, width) = (self.rows(), self.sizes.expert_io, self.sizes.expert_ffn);
        let (copies, inside, each) = ([rows, io, ONE, ONE], [rows, width, ONE, ONE], [rows, ONE, ONE, ONE]);
        if self.plan.spec().architecture.experts.latent > 0 {
            list.push(&kept.times(2), "latent input, latent output", self.sizes.own_each(io));
        }
        list.push(&kept.times(2).stored_as(Element::INT64), "tokens of copies, order", each);
        list.push(&kept.stored_as(Element::INT32), "ends of experts", [self.sizes.local_experts, ONE, ONE, ONE]);
        list.push(kept, "routed input", copies);
        if self.is_gated() {
            list.push(&kept.times(2), "routed gate, activation", inside);
        }
        list.push(&kept.times(2), "routed up, product", inside);
        list.push(&self.router_format(kept), "weights of copies", each);
        list.push(&kept.stored_as(Element::FP32), "routed output in fp32", copies);
    }

    /// Final norm, head and loss.
    const fn last(self, list: &mut Sink<'_>, count: Count) {
        if count.there == 0 {
            return;
        }
        list.part(Part::Last);
        let kept = &saved(self.plan, count, SOURCE).of(Module::Head);
        let fp32 = &kept.stored_as(Element::FP32);
        let Sizes { batch, context, vocab, .. } = *self.sizes;
        self.norm(list, kept, ["final norm input", "final norm statistics", "final norm result"]);
        list.push(kept, "head input", self.sizes.own_hidden());
        list.push(fp32, "log-softmax of logits", [batch, context, vocab, ONE]);
        list.push(fp32, "weight of all targets", [ONE; 4]);
        let forward = &kept.transient(Lifetime::InForward(Block::Head));
        pytorch::loss_works(list, forward, [batch, context, vocab, ONE]);
    }
}
