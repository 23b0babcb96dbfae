//! The accounting of megatron-core: what its own modules (the local layer specification, without Transformer Engine) save
//! for backward, tensor by tensor; in `works.rs` the largest of what their forward and backward work on, and in `held.rs`
//! what they and the libraries under them keep.
//!
//! Measured from live storages under PyTorch 2.15; `tests/activations/` holds every list against it. What allocators round
//! up is not counted.

mod experts;
mod fp8;
mod held;
mod works;

use super::{block_output, gradient_copies, is_recomputed, is_rotary, is_together, pytorch, residual_streams, saved};
use crate::counts::{Count, Counts, Part};
use crate::inventory::{Block, Element, Entry, Lifetime, Module, Sink};
use crate::mixers::{At, Heads, Slot};
use crate::plan::Plan;
use crate::sizes::{Dim, Over, Sizes, Symbol};
use crate::spec::{
    Backend, Compute, Context, CoreAttention, Dtype, GatedActivation, Implementation, Loss, MegatronCore,
    MegatronVersion, Modules, Recompute, Switch,
};
use crate::together::Held;

const ONE: Dim = Dim::ONE;

pub(super) const fn list(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, counts: Counts, options: MegatronCore) {
    let of = Of { plan, sizes, options, compute: plan.spec().layout.precision.compute };
    let [attention, dense, moe] = &counts.again;
    of.runs(list, counts.runs);
    of.mixer(list, Slot::Attention, counts.mixers[0], attention);
    of.mixer(list, Slot::Mixer, counts.mixers[1], attention);
    of.mixer(list, Slot::Compressed, counts.mixers[2], attention);
    of.mixer(list, Slot::Heavy, counts.mixers[3], attention);
    of.dense(list, counts.dense, dense);
    of.moe(list, counts.moe, moe);
    of.mtp(list, counts.mtp);
    of.first(list, counts.first);
    of.last(list, counts.last);
}

/// What a rank holds beside the model and, in the optimizer step of fused Adam, of gradients that are not in fp32 a copy that
/// is, of those whose moments the rank holds.
pub(super) const fn list_rank(list: &mut Sink<'_>, plan: &Plan, options: MegatronCore, counts: &Counts) {
    let precision = &plan.spec().layout.precision;
    Of { plan, sizes: &plan.sizes(), options, compute: precision.compute }.held(list, counts);
    if matches!(precision.gradients, Dtype::Fp32) || matches!(precision.master, Dtype::None) {
        return;
    }
    gradient_copies(list, plan, "megatron-core, gradients of master weights");
}

/// What lists are made of.
#[derive(Clone, Copy)]
struct Of<'a> {
    plan: &'a Plan,
    sizes: &'a Sizes,
    options: MegatronCore,
    compute: Compute,
}

impl Of<'_> {
    /// Whether modules are Transformer Engine's.
    const fn has_engine(self) -> bool {
        matches!(self.options.implementation, Implementation::TransformerEngine)
    }

    const fn source(self) -> &'static str {
        match self.options.version {
            MegatronVersion::V011 => "megatron-core 0.11.0, measured",
            MegatronVersion::V016 => "megatron-core 0.16.1, measured",
            MegatronVersion::V020 => "Megatron-LM 0.20.0 (d98e8a64), measured",
        }
    }

    /// What is computed again of a layer that is not computed again as a whole.
    const fn modules(self) -> Modules {
        let layout = &self.plan.spec().layout;
        if matches!(layout.recompute, Recompute::Selective) { layout.modules } else { Modules::DEFAULT }
    }

    /// The layer's input, which recomputation keeps.
    const fn kept_input(self) -> [Dim; 4] {
        let Sizes { batch, own_tokens, hidden, streams, .. } = *self.sizes;
        let mesh = &self.plan.spec().layout.mesh;
        if self.options.distribute.is_on() && !mesh.sequence_parallel.is_on() {
            let part = Dim { over: Over::Tp, local: hidden.global.div_ceil(mesh.tp), ..hidden };
            return [batch, own_tokens, part, streams];
        }
        self.sizes.own_streams()
    }

    /// What is kept of layers that are computed again together: nothing of their routing, as of each by itself.
    const fn runs(self, list: &mut Sink<'_>, count: Count) {
        if is_together(self.plan) && count.there > 0 {
            list.part(Part::Run);
            let kept = saved(self.plan, count, self.source()).of(Module::Attention);
            list.push(&kept, "layer input", self.kept_input());
        }
    }

    /// What so many blocks of a mixer save; under recomputation the layer's input, and while it is computed again all of it,
    /// and of the layers in front of it that are computed again with it.
    const fn mixer(self, list: &mut Sink<'_>, slot: Slot, count: Count, held: &Held) {
        if count.there == 0 {
            return;
        }
        list.part(slot.part());
        let (at, saved) = (At { plan: self.plan, sizes: self.sizes, slot }, saved(self.plan, count, self.source()));
        let backward = saved.transient(Lifetime::InBackward(slot.block())).of(Module::Attention);
        let is_recomputed = is_recomputed(self.plan);
        if is_recomputed && !is_together(self.plan) {
            list.push(&saved.of(Module::Attention), "layer input", self.kept_input());
        }
        if is_recomputed {
            self.attention(list, at, &backward.times(held.attention), &backward);
            self.beside(list, &backward, held.dense, held.moe);
        } else {
            self.attention(list, at, &saved, &backward);
        }
        if let Some(heads) = at.heads() {
            if is_recomputed && !heads.is_latent && is_rotary(self.plan) {
                // Every layer that is computed again reads the same.
                let cache = backward.stored_as(Element::FP32);
                list.push(&cache, "rotary cache", [self.sizes.context, heads.rotary, ONE, ONE]);
            }
            self.attention_works(list, heads, &backward.transient(Lifetime::InForward(slot.block())), &backward);
            if self.is_fp8() {
                self.attention_cached(list, heads, count.there);
            }
        }
    }

    const fn dense(self, list: &mut Sink<'_>, count: Count, held: &Held) {
        if count.there == 0 {
            return;
        }
        list.part(Part::Dense);
        let saved = saved(self.plan, count, self.source());
        let backward = saved.transient(Lifetime::InBackward(Block::Dense));
        let kept = &self.kept_of_layer(list, &saved, &backward, held.attention, held.dense);
        self.beside(list, &backward, 0, held.moe);
        self.dense_ffn(list, kept, &backward);
        self.dense_works(list, &backward.of(Module::DenseFfn));
        if self.is_fp8() {
            self.dense_cached(list, count.there);
        }
    }

    const fn moe(self, list: &mut Sink<'_>, count: Count, held: &Held) {
        if count.there == 0 {
            return;
        }
        list.part(Part::Moe);
        let saved = saved(self.plan, count, self.source());
        let backward = saved.transient(Lifetime::InBackward(Block::Moe));
        let kept = &self.kept_of_layer(list, &saved, &backward, held.attention, held.moe);
        self.beside(list, &backward, held.dense, 0);
        self.experts(list, kept, &backward);
        self.dispatchers(list, count.there);
        self.experts_work(list, &backward.transient(Lifetime::InForward(Block::Moe)), &backward);
        if self.is_fp8() {
            self.experts_cached(list, count.there);
        }
    }

    /// How what a feed-forward network saves is kept: until backward, or, in a layer that is computed again as a whole, while
    /// it is, so many of them, and so many layers' attention beside it. A law lets only models of one attention in there.
    const fn kept_of_layer(
        self,
        list: &mut Sink<'_>,
        saved: &Entry,
        backward: &Entry,
        attention: u64,
        networks: u64,
    ) -> Entry {
        if !is_recomputed(self.plan) {
            return *saved;
        }
        let at = At { plan: self.plan, sizes: self.sizes, slot: Slot::Attention };
        self.attention(list, at, &backward.times(attention), backward);
        backward.times(networks)
    }

    /// What the networks save of layers in front of a block that are computed again with it. What they themselves compute
    /// again while they run is not there.
    const fn beside(self, list: &mut Sink<'_>, backward: &Entry, dense: u64, moe: u64) {
        if !is_together(self.plan) {
            return;
        }
        if dense > 0 {
            self.dense_ffn(list, &backward.times(dense), &backward.times(0));
        }
        if moe > 0 {
            self.experts(list, &backward.times(moe), &backward.times(0));
        }
    }

    /// What a norm in front of a block keeps: its input; for each row in fp32 the reciprocal of its deviation, one that centres
    /// rows their means too; and its output, which the block reads, or so many of its linear layers in fp8, each a copy.
    const fn norm(self, list: &mut Sink<'_>, kept: &Entry, rest: &Entry, names: [&'static str; 4], in_fp8: u64) {
        if self.is_composite() && !self.modules().norms.is_on() {
            residual_streams(list, self.sizes, kept);
        } else {
            list.push(kept, names[0], self.sizes.own_streams());
        }
        let [input, statistics, result, output] = names;
        self.norm_inside(list, rest, [input, statistics, result], self.sizes.own_hidden(), self.sizes.own_each(ONE));
        if in_fp8 > 0 && self.is_fp8() && !self.modules().norms.is_on() {
            self.quantised(list, &rest.times(in_fp8), output, self.sizes.own_hidden());
        } else {
            list.push(rest, output, self.sizes.own_hidden());
        }
    }

    /// Whether PyTorch takes norms apart, so that they keep none of their inputs.
    const fn is_composite(self) -> bool {
        pytorch::takes_apart(self.plan.spec().architecture.norm, self.options.norms)
    }

    /// What a norm keeps of its rows, beside its input where one kernel reads that.
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

    /// Hidden states that are dropped out behind a block.
    const fn dropped(self, list: &mut Sink<'_>, kept: &Entry, name: &'static str) {
        if self.options.dropout.is_on() {
            list.push(&kept.stored_as(Element::MASK), name, self.sizes.own_hidden());
        }
    }

    /// What attention keeps, and what of it is computed again.
    const fn attention(self, list: &mut Sink<'_>, at: At<'_>, common: &Entry, again: &Entry) {
        let (kept, again, modules) = (&common.of(Module::Attention), &again.of(Module::Attention), self.modules());
        let names =
            ["attention norm input", "attention norm statistics", "attention norm result", "attention norm output"];
        let heads = at.heads();
        self.norm(list, kept, chosen(modules.norms, again, kept), names, self.readers(heads));
        match heads {
            Some(heads) => {
                let tables = [self.sizes.context, heads.rotary, ONE, ONE];
                let is_up_again = heads.is_latent && modules.latent_up.is_on();
                if is_up_again && is_rotary(self.plan) {
                    list.push(&kept.stored_as(Element::FP32), "rotary frequencies", tables);
                }
                let up = if is_up_again { again } else { kept };
                // Of queries and keys each the cosine and the sine. Transformer Engine's kernel reads frequencies.
                if !self.has_engine() && is_rotary(self.plan) {
                    list.push(&up.times(4), "rotary tables", tables);
                }
                if heads.is_latent {
                    self.latents(list, kept, again);
                }
                self.query_key_norms(list, kept, heads);
                self.core(list, [kept, up, again], heads);
                at.options_saved(list, kept);
            }
            None => at.saved(list, kept),
        }
        self.dropped(list, kept, "attention output dropout mask");
        block_output(list, self.plan, self.sizes, kept, 3);
    }

    /// The latents of MLA before and behind their norms. Under sequence parallelism the down projections are not split, but
    /// what comes out of them is scattered; that of queries is a view of what was gathered.
    const fn latents(self, list: &mut Sink<'_>, kept: &Entry, again: &Entry) {
        let Sizes { batch, context, q_rank, kv_rank, rope, .. } = *self.sizes;
        let is_composite = self.is_composite();
        if q_rank.global > 0 {
            if !is_composite {
                list.push(kept, "query latent", [batch, context, q_rank, ONE]);
            }
            let names = ["query latent norm input", "query latent norm statistics", "query latent norm result"];
            self.norm_inside(list, kept, names, self.sizes.own_each(q_rank), self.sizes.own_each(ONE));
            self.normed_latent(list, kept, again, "normed query latent", q_rank);
        }
        if !is_composite && self.plan.spec().layout.mesh.sequence_parallel.is_on() {
            list.push(kept, "key/value latent", self.sizes.own_each(kv_rank));
        } else if !is_composite {
            // All of what the projection makes: the norm's input is a view of it.
            list.push(kept, "key/value latent", [batch, context, kv_rank, ONE]);
            list.push(kept, "rotary key", [batch, context, rope, ONE]);
        }
        let names = ["key/value latent norm input", "key/value latent norm statistics", "key/value latent norm result"];
        self.norm_inside(list, kept, names, self.sizes.own_each(kv_rank), self.sizes.own_each(ONE));
        self.normed_latent(list, kept, again, "normed key/value latent", kv_rank);
    }

    /// What an up projection reads: itself in fp8, unless all of it is computed again.
    const fn normed_latent(self, list: &mut Sink<'_>, kept: &Entry, again: &Entry, name: &'static str, rank: Dim) {
        let latent = self.sizes.own_each(rank);
        if self.modules().latent_up.is_on() {
            list.push(kept, name, latent);
            if self.is_fp8() {
                self.quantised(list, again, name, latent);
            }
        } else {
            self.input(list, kept, name, latent);
        }
    }

    /// Copies in fp8 of what attention's norm puts out: one for each projection that reads it, but for DeepSeek's recipe.
    const fn readers(self, heads: Option<Heads>) -> u64 {
        match heads {
            Some(heads) if heads.is_latent && !self.is_deepseek() => 2,
            Some(_) => 1,
            None => 0,
        }
    }

    /// The norm of keys reads a view of the fused projection's output, which a fused kernel's value keeps anyway; Transformer
    /// Engine's norms copy what they read (`ops/basic/rmsnorm.py`: `input_.contiguous()`), and its attention the value.
    const fn query_key_norms(self, list: &mut Sink<'_>, kept: &Entry, heads: Heads) {
        let (batch, context) = (self.sizes.batch, self.sizes.context);
        let Some([query_rows, key_rows]) = heads.norm_rows() else { return };
        let (query, key) = ([batch, context, heads.queries, heads.width], [batch, context, heads.keys, heads.width]);
        if !self.is_composite() {
            list.push(kept, "query before its norm", query);
        }
        if !self.is_composite() && self.is_fused() && self.has_engine() {
            list.push(kept, "key before its norm", key);
        }
        let names = ["query norm input", "query norm statistics", "query norm result"];
        self.norm_inside(list, kept, names, query, [batch, context, query_rows, ONE]);
        let names = ["key norm input", "key norm statistics", "key norm result"];
        self.norm_inside(list, kept, names, key, [batch, context, key_rows, ONE]);
        if !self.is_composite() && !self.is_fused() && !self.modules().core_attention.is_on() {
            self.fused_projection(list, kept, heads);
        }
    }

    /// The one kernel that makes attention's output out of its inputs, if any.
    const fn backend(self) -> Option<Backend> {
        match self.options.core {
            CoreAttention::Unfused | CoreAttention::FusedSoftmax => None,
            CoreAttention::Flash => Some(Backend::Flash),
            CoreAttention::Cudnn => Some(Backend::Cudnn),
            CoreAttention::Efficient => Some(Backend::Efficient),
        }
    }

    const fn is_fused(self) -> bool {
        self.backend().is_some()
    }

    /// What the one projection of queries, keys and values makes.
    const fn fused_projection(self, list: &mut Sink<'_>, kept: &Entry, heads: Heads) {
        let (batch, context, name) = (self.sizes.batch, self.sizes.context, "fused query, key and value");
        list.push_part(kept, name, "queries", [batch, context, heads.queries, heads.width]);
        list.push_part(kept, name, "keys", [batch, context, heads.keys, heads.width]);
        list.push_part(kept, name, "values", [batch, context, heads.keys, heads.value]);
    }

    /// Attention itself, and its output, which the projection behind it reads: of entries that are kept, that go with queries,
    /// keys and values, and that are computed again.
    const fn core(self, list: &mut Sink<'_>, [kept, up, again]: [&Entry; 3], heads: Heads) {
        let Sizes { batch, context, .. } = *self.sizes;
        let Heads { queries, keys, width, value, .. } = heads;
        let is_again = self.modules().core_attention.is_on();
        let inner = if is_again { again } else { kept };
        if is_again {
            list.push(&kept.stored_as(Element::INT32), "checkpoint of attention", [ONE; 4]);
        }
        if is_again || self.is_fused() {
            self.inputs(list, up, heads);
        }
        if let Some(backend) = self.backend() {
            pytorch::fused_state(list, inner, self.sizes, queries, backend);
        } else {
            // Repeated for each query head.
            let repeated = if is_again { again } else { up };
            let has_views = self.has_views(heads) && !self.has_engine();
            if !has_views {
                list.push(repeated, "query of each head", [batch, context, queries, width]);
            } else if !is_again {
                self.fused_projection(list, up, heads);
            }
            if !has_views || queries.global != keys.global {
                list.push(repeated, "key of each head", [batch, context, queries, width]);
                list.push(repeated, "value of each head", [batch, context, queries, value]);
            }
            self.scores(list, inner, queries);
        }
        if self.is_deepseek() {
            self.output_in_12_bits(list, kept, heads);
            return;
        }
        let name = if self.is_fused() { "fused attention output" } else { "attention output" };
        if self.is_delayed() {
            // The projection behind it keeps a copy of its own, others what attention has kept (`save_original_input`).
            if self.is_fused() {
                list.push(inner, name, [batch, context, queries, value]);
            }
            self.quantised(list, kept, "attention output in fp8", [batch, context, queries, value]);
            return;
        }
        list.push(kept, name, [batch, context, queries, value]);
        if self.has_engine() && self.is_sequence_last() {
            list.push(kept, "attention output, sequence first", [batch, context, queries, value]);
        }
        if self.has_engine() && self.is_traded() {
            list.push(kept, "attention output before it is traded back", [batch, context, queries, value]);
        }
    }

    /// What a kernel of attention reads, or attention that is computed again.
    const fn inputs(self, list: &mut Sink<'_>, kept: &Entry, heads: Heads) {
        let (batch, context) = (self.sizes.batch, self.sizes.context);
        if self.has_views(heads) {
            self.fused_projection(list, kept, heads);
            return;
        }
        list.push(kept, "query", [batch, context, heads.queries, heads.width]);
        list.push(kept, "key", [batch, context, heads.keys, heads.width]);
        if heads.is_latent || self.has_engine() {
            list.push(kept, "value", [batch, context, heads.keys, heads.value]);
        } else {
            self.fused_projection(list, kept, heads);
        }
    }

    /// Whether attention reads queries, keys and values where the one projection wrote them: nothing is done to them in
    /// between, and Transformer Engine's kernel, if it is that, takes them as they lie.
    const fn has_views(self, heads: Heads) -> bool {
        let is_untouched = !heads.is_latent && heads.norm_rows().is_none() && !is_rotary(self.plan);
        is_untouched && !(self.has_engine() && self.is_sequence_last())
    }

    /// Whether ranks trade tokens for heads around attention.
    const fn is_traded(self) -> bool {
        let mesh = &self.plan.spec().layout.mesh;
        mesh.cp > 1 && matches!(mesh.context, Context::AllToAll)
    }

    /// Whether its kernel is FlashAttention, which wants the sequences of a micro-batch behind one another: of several, inputs
    /// and output are copied.
    const fn is_sequence_last(self) -> bool {
        matches!(self.options.core, CoreAttention::Flash) && self.sizes.batch.local > 1
    }

    /// What is kept for each query and key.
    const fn scores(self, list: &mut Sink<'_>, kept: &Entry, queries: Dim) {
        let scores = [self.sizes.batch, queries, self.sizes.context, self.sizes.sequence];
        let has_dropout = self.options.dropout.is_on();
        if has_dropout {
            list.push(&kept.stored_as(Element::MASK), "attention dropout mask", scores);
        }
        if matches!(self.options.core, CoreAttention::Unfused) {
            list.push(&kept.stored_as(Element::FP32), "softmax", scores);
            list.push(kept, "probabilities", scores);
        } else {
            list.push(kept, "fused softmax", scores);
            list.push(&kept.stored_as(Element::FP32), "fused softmax scale", [ONE; 4]);
            if has_dropout {
                list.push(kept, "probabilities", scores);
            }
        }
    }

    /// So many tensors of a gated network, or of one without a gate.
    const fn gated(self, gated: u64, plain: u64) -> u64 {
        if self.plan.spec().architecture.layers.gated.is_on() { gated } else { plain }
    }

    const fn dense_ffn(self, list: &mut Sink<'_>, common: &Entry, again: &Entry) {
        let (kept, again, modules) = (&common.of(Module::DenseFfn), &again.of(Module::DenseFfn), self.modules());
        let names = ["dense norm input", "dense norm statistics", "dense norm result", "dense norm output"];
        // What computes the network again reads what forward did.
        let in_fp8 = if modules.dense.is_on() { 0 } else { 1 };
        self.norm(list, kept, chosen(modules.norms, again, kept), names, in_fp8);
        if self.is_fp8() && modules.dense.is_on() {
            self.quantised(list, again, "dense norm output in fp8", self.sizes.own_hidden());
        }
        let names = ["dense gate and up", "dense silu, up", "dense product"];
        self.mlp(list, chosen(modules.dense, again, kept), again, names, self.sizes.dense_ffn);
        self.dropped(list, kept, "dense output dropout mask");
        block_output(list, self.plan, self.sizes, kept, 4);
    }

    /// What a network that every token visits keeps behind its input.
    const fn mlp(self, list: &mut Sink<'_>, kept: &Entry, again: &Entry, names: [&'static str; 3], width: Dim) {
        let inner = [self.sizes.batch, self.sizes.context, width, ONE];
        let input = kept.times(self.gated(2, 1));
        if self.is_deepseek() && matches!(kept.module, Module::SharedExperts) {
            let both = Dim::whole(Symbol::Count, self.gated(2, 1));
            self.quantised(list, kept, names[0], [self.sizes.batch, self.sizes.context, width, both]);
            list.push(again, names[2], inner);
            self.quantised(list, again, "shared product in fp8", inner);
            return;
        }
        match self.options.activation {
            GatedActivation::Fp8Input => list.push(&input.stored_as(Element::float(Dtype::Fp8)), names[0], inner),
            GatedActivation::Fused | GatedActivation::Unfused => list.push(&input, names[0], inner),
        }
        let is_unfused = matches!(self.options.activation, GatedActivation::Unfused);
        if is_unfused && self.plan.spec().architecture.layers.gated.is_on() {
            list.push(&kept.times(2), names[1], inner);
        }
        self.input(list, kept, names[2], inner);
    }

    /// The embedding under tensor parallelism: which ids are of other ranks' rows.
    const fn first(self, list: &mut Sink<'_>, count: Count) {
        if count.there == 0 {
            return;
        }
        list.part(Part::First);
        let kept = saved(self.plan, count, self.source()).of(Module::Embedding);
        let ids = [self.sizes.batch, self.sizes.context, ONE, ONE];
        if self.plan.spec().layout.mesh.tp > 1 {
            list.push(&kept.stored_as(Element::INT64), "masked ids", ids);
            list.push(&kept.stored_as(Element::MASK), "mask of ids", ids);
        }
        self.dropped(list, &kept, "embedding dropout mask");
    }

    /// What modules for multi-token prediction save around their layer: two norms, of the next tokens' embeddings and of the
    /// hidden states, what they make side by side, and a norm behind it; and what their losses are masked with.
    const fn mtp(self, list: &mut Sink<'_>, count: Count) {
        if count.there == 0 {
            return;
        }
        list.part(Part::Mtp);
        let kept = &saved(self.plan, count, self.source()).of(Module::Mtp);
        let Sizes { batch, context, own_tokens, hidden_twice, .. } = *self.sizes;
        let (int64, tokens) = (&kept.stored_as(Element::INT64), [batch, context, ONE, ONE]);
        list.push(int64, "ids of next tokens", tokens);
        list.push(kept, "embedding norm input", self.sizes.own_hidden());
        self.norm_inside(
            list,
            kept,
            ["embedding norm input", "embedding norm statistics", "embedding norm result"],
            self.sizes.own_hidden(),
            self.sizes.own_each(ONE),
        );
        list.push(kept, "hidden norm input", self.sizes.own_hidden());
        self.norm_inside(
            list,
            kept,
            ["hidden norm input", "hidden norm statistics", "hidden norm result"],
            self.sizes.own_hidden(),
            self.sizes.own_each(ONE),
        );
        self.input(list, kept, "embedding and hidden, normed", [batch, own_tokens, hidden_twice, ONE]);
        if self.is_fp8() {
            self.mtp_cached(list, count.there);
        }
        list.push(kept, "module norm input", self.sizes.own_hidden());
        self.norm_inside(
            list,
            kept,
            ["module norm input", "module norm statistics", "module norm result"],
            self.sizes.own_hidden(),
            self.sizes.own_each(ONE),
        );
        list.push(int64, "mask of next tokens", tokens);
        list.push(int64, "number of next tokens", [ONE; 4]);
        list.push(&kept.stored_as(Element::FP32), "loss of next tokens", tokens);
    }

    /// Final norm, head and vocabulary-parallel loss: of each token, and of each that modules predict.
    const fn last(self, list: &mut Sink<'_>, count: Count) {
        if count.there == 0 {
            return;
        }
        list.part(Part::Last);
        let saved = saved(self.plan, count, self.source());
        let kept = &saved.of(Module::Head);
        let Sizes { batch, context, vocab, .. } = *self.sizes;
        if !self.is_composite() {
            list.push(kept, "final norm input", self.sizes.own_hidden());
        }
        let names = ["final norm input", "final norm statistics", "final norm result"];
        self.norm_inside(list, kept, names, self.sizes.own_hidden(), self.sizes.own_each(ONE));
        let losses = 1 + self.plan.counted_mtp();
        list.push(&kept.times(losses), "head input", self.sizes.own_hidden());
        let of_loss = &kept.times(losses);
        let (logits, fp32) = ([batch, context, vocab, ONE], &of_loss.stored_as(Element::FP32));
        match self.options.loss {
            Loss::VocabParallel => {
                list.push(fp32, "softmax of logits", logits);
                list.push(&of_loss.stored_as(Element::MASK), "mask of targets", [batch, context, ONE, ONE]);
                list.push(&of_loss.stored_as(Element::INT64), "masked targets", [batch, context, ONE, ONE]);
            }
            Loss::Engine => list.push(fp32, "gradient of logits", logits),
            Loss::EngineInPlace => list.push(of_loss, "gradient of logits", logits),
        }
        self.head_works(list, kept);
    }
}

/// What is computed again where a switch is on, else what is kept.
const fn chosen<'e>(switch: Switch, again: &'e Entry, kept: &'e Entry) -> &'e Entry {
    if switch.is_on() { again } else { kept }
}
