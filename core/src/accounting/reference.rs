//! The accounting of the reference step, the one that this project generates: what each block keeps from forward to
//! backward, and what it works on while it runs. The step allocates exactly these, and its ledger refuses anything else, so
//! that this list is judged by every run.
//!
//! A block sets aside all that it works on when it begins and gives it back when it ends. What it hands to the next block
//! becomes that one's input; the gradient of the residual stream goes back through all blocks in one buffer.

mod zero;

use super::{is_recomputed, saved};
use crate::counts::{Count, Counts, Part};
use crate::inventory::{Block, Element, Entry, Lifetime, Module, Role, Sink};
use crate::mixers::{At, Heads, Slot};
use crate::plan::Plan;
use crate::sizes::{Dim, Over, Sizes, Symbol};
use crate::spec::{Architecture, Attention, CorrectionBias, Kernel, Pool, QkNorm, Reference, Routing};

const ONE: Dim = Dim::ONE;
const SOURCE: &str = "the reference step";

pub(super) const fn list(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, counts: Counts, options: Reference) {
    let of = Of { plan, sizes, kernel: options.kernel };
    if counts.first.there > 0 {
        list.part(Part::First);
        let frame = of.frame(counts.first, Block::Embedding, Module::Embedding);
        of.first(list, &frame);
        zero::list(list, of, &frame, Block::Embedding);
    }
    if counts.mixers[0].there > 0 {
        list.part(Slot::Attention.part());
        let frame = of.frame(counts.mixers[0], Block::Attention, Module::Attention);
        of.attention(list, &frame);
        zero::list(list, of, &frame, Block::Attention);
    }
    if counts.dense.there > 0 {
        list.part(Part::Dense);
        let frame = of.frame(counts.dense, Block::Dense, Module::DenseFfn);
        of.dense(list, &frame);
        zero::list(list, of, &frame, Block::Dense);
    }
    if counts.moe.there > 0 {
        list.part(Part::Moe);
        let frame = of.frame(counts.moe, Block::Moe, Module::Router);
        of.moe(list, &frame);
        zero::list(list, of, &frame, Block::Moe);
        of.correction_bias(list, counts.moe);
    }
    if counts.mtp.there > 0 {
        list.part(Part::Mtp);
        let frame = of.frame(counts.mtp, Block::Mtp, Module::Mtp);
        of.mtp(list, &frame);
        zero::list(list, of, &frame, Block::Mtp);
        list.part(Part::MtpHead);
        let frame = of.frame(counts.mtp, Block::MtpHead, Module::Mtp);
        of.last(list, &frame);
        zero::list(list, of, &frame, Block::MtpHead);
    }
    if counts.last.there > 0 {
        list.part(Part::Last);
        let frame = of.frame(counts.last, Block::Head, Module::Head);
        of.last(list, &frame);
        zero::list(list, of, &frame, Block::Head);
    }
}

/// What lists are made of.
#[derive(Clone, Copy)]
struct Of<'a> {
    plan: &'a Plan,
    sizes: &'a Sizes,
    kernel: Kernel,
}

/// The lives of what a block has.
#[derive(Clone, Copy)]
struct Frame {
    /// From forward to backward: the block's input, whatever is computed again.
    saved: Entry,
    /// While forward runs.
    forward: Entry,
    /// While backward runs.
    backward: Entry,
    /// Whether all but the input is computed again in backward.
    again: bool,
}

impl Frame {
    /// What is kept from forward to backward, or is there in both where it is computed again.
    const fn keep(&self, list: &mut Sink<'_>, name: &'static str, shape: [Dim; 4]) {
        self.keep_as(list, self.saved.module, self.saved.element, name, shape);
    }

    const fn keep_as(
        &self,
        list: &mut Sink<'_>,
        module: Module,
        element: Element,
        name: &'static str,
        shape: [Dim; 4],
    ) {
        if self.again {
            list.push(&self.forward.of(module).stored_as(element), name, shape);
            list.push(&self.backward.of(module).stored_as(element), name, shape);
        } else {
            list.push(&self.saved.of(module).stored_as(element), name, shape);
        }
    }

    const fn keep_fp32(&self, list: &mut Sink<'_>, name: &'static str, shape: [Dim; 4]) {
        self.keep_as(list, self.saved.module, Element::FP32, name, shape);
    }

    /// What is worked on where the block is computed: in forward, and in backward where it is computed again.
    const fn made_as(
        &self,
        list: &mut Sink<'_>,
        module: Module,
        element: Element,
        name: &'static str,
        shape: [Dim; 4],
    ) {
        list.push(&self.forward.of(module).stored_as(element), name, shape);
        if self.again {
            list.push(&self.backward.of(module).stored_as(element), name, shape);
        }
    }

    /// What both forward and backward work on.
    const fn both(&self, list: &mut Sink<'_>, name: &'static str, shape: [Dim; 4]) {
        list.push(&self.forward, name, shape);
        list.push(&self.backward, name, shape);
    }

    /// The same of some module in some format.
    const fn both_as(
        &self,
        list: &mut Sink<'_>,
        module: Module,
        element: Element,
        name: &'static str,
        shape: [Dim; 4],
    ) {
        list.push(&self.forward.of(module).stored_as(element), name, shape);
        list.push(&self.backward.of(module).stored_as(element), name, shape);
    }
}

impl Of<'_> {
    const fn frame(self, count: Count, block: Block, module: Module) -> Frame {
        let saved = saved(self.plan, count, SOURCE).of(module);
        Frame {
            saved,
            forward: saved.transient(Lifetime::InForward(block)),
            backward: saved.transient(Lifetime::InBackward(block)),
            again: is_recomputed(self.plan),
        }
    }

    /// So many numbers for each token of the gathered sequence.
    const fn all_each(self, width: Dim) -> [Dim; 4] {
        [self.sizes.batch, self.sizes.context, width, ONE]
    }

    /// Whether a block gathers its tokens from tensor-parallel ranks.
    const fn gathers(self) -> bool {
        self.sizes.own_tokens.local != self.sizes.context.local
    }

    /// What a norm makes, of all tokens; of its own before they are gathered.
    const fn norm_output(self, list: &mut Sink<'_>, frame: &Frame, name: &'static str) {
        frame.both(list, name, self.all_each(self.sizes.hidden));
        if self.gathers() {
            frame.both(list, "own norm output", self.sizes.own_hidden());
        }
    }

    /// What goes from block to block in backward, and, under sequence parallelism, what of it is gathered and scattered.
    const fn gradients(self, list: &mut Sink<'_>, frame: &Frame) {
        list.push(&frame.backward, "residual gradient", self.sizes.own_hidden());
        if self.gathers() {
            list.push(&frame.backward, "gathered gradient", self.all_each(self.sizes.hidden));
            list.push(&frame.backward, "scattered gradient", self.sizes.own_hidden());
        }
    }

    const fn first(self, list: &mut Sink<'_>, frame: &Frame) {
        list.push(&frame.saved.stored_as(Element::INT64), "token ids", self.all_each(ONE));
        if self.gathers() {
            list.push(&frame.forward, "embedding of all tokens", self.all_each(self.sizes.hidden));
        }
        list.push(&frame.forward, "embedding output", self.sizes.own_hidden());
        list.push(&frame.backward, "residual gradient", self.sizes.own_hidden());
        if self.gathers() {
            list.push(&frame.backward, "gathered gradient", self.all_each(self.sizes.hidden));
        }
    }

    const fn attention(self, list: &mut Sink<'_>, frame: &Frame) {
        let sizes = self.sizes;
        list.push(&frame.saved, "attention input", sizes.own_hidden());
        frame.keep_fp32(list, "attention norm statistics", sizes.own_each(ONE));
        self.norm_output(list, frame, "attention norm output");
        match &self.plan.spec().architecture.attention {
            Attention::Mla(mla) => self.latents(list, frame, mla.q_rank > 0),
            Attention::Gqa(gqa) => self.head_norms(list, frame, gqa.qk_norm),
            // A law refuses others.
            Attention::Compressed(_) => {}
        }
        self.heads(list, frame);
        list.push(&frame.forward, "attention result", self.all_each(sizes.hidden));
        list.push(&frame.forward, "attention block output", sizes.own_hidden());
        self.gradients(list, frame);
        list.push(&frame.backward, "attention input gradient", self.all_each(sizes.hidden));
    }

    /// Queries, keys and values, what softmax leaves behind, and their gradients.
    const fn heads(self, list: &mut Sink<'_>, frame: &Frame) {
        let (sizes, batch) = (self.sizes, self.sizes.batch);
        // A law refuses attention without heads.
        let Some(all) = (At { plan: self.plan, sizes, slot: Slot::Attention }).heads() else { return };
        let ranks = self.plan.spec().layout.mesh.trading_ranks();
        let heads = Heads { queries: all.queries.dealt(ranks), keys: all.keys.dealt(ranks), ..all };
        let context = if ranks > 1 { sizes.sequence } else { sizes.context };
        if ranks > 1 {
            self.traded(list, frame, &all);
        }
        if self.plan.spec().layout.mesh.ring_ranks() > 1 {
            self.passed_round(list, frame, &all);
        }
        let query = [batch, context, heads.queries, heads.width];
        let (key, value) = ([batch, context, heads.keys, heads.width], [batch, context, heads.keys, heads.value]);
        let output = [batch, context, heads.queries, heads.value];
        frame.keep(list, "query", query);
        frame.keep(list, "key", key);
        frame.keep(list, "value", value);
        frame.keep(list, "attention output", output);
        let rows = [batch, heads.queries, context, ONE];
        let scores = [batch, heads.queries, context, sizes.sequence];
        match self.kernel {
            Kernel::Flash => {
                frame.keep_fp32(list, "log-sum-exp", rows);
                list.push(&frame.backward.stored_as(Element::FP32), "softmax delta", rows);
            }
            Kernel::Eager => {
                frame.keep(list, "attention probabilities", scores);
                list.push(&frame.backward, "score gradient", scores);
            }
        }
        list.push(&frame.backward, "attention output gradient", output);
        list.push(&frame.backward, "query gradient", query);
        list.push(&frame.backward, "key gradient", key);
        list.push(&frame.backward, "value gradient", value);
    }

    /// What a rank trades for the tokens of others: all heads of its own. Backward puts gradients in the place of queries, keys
    /// and values.
    const fn traded(self, list: &mut Sink<'_>, frame: &Frame, heads: &Heads) {
        let (batch, context) = (self.sizes.batch, self.sizes.context);
        let output = [batch, context, heads.queries, heads.value];
        frame.both(list, "query of own tokens", [batch, context, heads.queries, heads.width]);
        frame.both(list, "key of own tokens", [batch, context, heads.keys, heads.width]);
        frame.both(list, "value of own tokens", [batch, context, heads.keys, heads.value]);
        frame.keep(list, "attention output of own tokens", output);
        list.push(&frame.backward, "attention output gradient of own tokens", output);
    }

    /// Keys and values of other ranks as they come round, what attention to one piece of them makes, and sums over all; in
    /// backward gradients, of which those of keys and values go round with these.
    const fn passed_round(self, list: &mut Sink<'_>, frame: &Frame, heads: &Heads) {
        let (batch, context, mesh) = (self.sizes.batch, self.sizes.context, &self.plan.spec().layout.mesh);
        let piece = self.sizes.sequence.split(Over::Cp, mesh.cp * mesh.pieces());
        let (module, element) = (frame.saved.module, frame.saved.element);
        let fp32 = &frame.backward.stored_as(Element::FP32);
        let key = [batch, context, heads.keys, heads.width];
        let value = [batch, context, heads.keys, heads.value];
        frame.both(list, "key that comes round", key);
        frame.both(list, "value that comes round", value);
        let output = [batch, context, heads.queries, heads.value];
        frame.made_as(list, module, Element::FP32, "sum of attention outputs", output);
        frame.made_as(list, module, element, "attention output of a piece", [ONE, piece, heads.queries, heads.value]);
        frame.made_as(list, module, Element::FP32, "log-sum-exp of a piece", [ONE, heads.queries, piece, ONE]);
        list.push(fp32, "sum of query gradients", [batch, context, heads.queries, heads.width]);
        list.push(fp32, "key gradient that comes round", key);
        list.push(fp32, "value gradient that comes round", value);
        list.push(&frame.backward, "query gradient of a piece", [ONE, piece, heads.queries, heads.width]);
        list.push(&frame.backward, "key gradient of a piece", [ONE, piece, heads.keys, heads.width]);
        list.push(&frame.backward, "value gradient of a piece", [ONE, piece, heads.keys, heads.value]);
    }

    /// Norms of queries and keys, each head by itself.
    const fn head_norms(self, list: &mut Sink<'_>, frame: &Frame, norm: QkNorm) {
        if matches!(norm, QkNorm::None) {
            return;
        }
        let sizes = self.sizes;
        let (batch, context) = (sizes.batch, sizes.context);
        frame.keep(list, "query before its norm", [batch, context, sizes.heads, sizes.head_dim]);
        frame.keep(list, "key before its norm", [batch, context, sizes.kv_heads, sizes.head_dim]);
        frame.keep_fp32(list, "query norm statistics", [batch, context, sizes.heads, ONE]);
        frame.keep_fp32(list, "key norm statistics", [batch, context, sizes.kv_heads, ONE]);
    }

    /// What queries, keys and values of latent attention are made of. Backward computes what the projections out of the
    /// latents read and made again, and puts gradients in its place.
    const fn latents(self, list: &mut Sink<'_>, frame: &Frame, has_query_latent: bool) {
        let sizes = self.sizes;
        let (batch, context) = (sizes.batch, sizes.context);
        if has_query_latent {
            frame.keep(list, "query latent", self.all_each(sizes.q_rank));
            frame.keep_fp32(list, "query latent statistics", self.all_each(ONE));
            frame.both(list, "query latent norm output", self.all_each(sizes.q_rank));
            list.push(&frame.backward, "query latent gradient", self.all_each(sizes.q_rank));
        }
        frame.keep(list, "key/value latent", self.all_each(sizes.kv_rank));
        frame.keep_fp32(list, "key/value latent statistics", self.all_each(ONE));
        frame.both(list, "key/value latent norm output", self.all_each(sizes.kv_rank));
        list.push(&frame.backward, "key/value latent gradient", self.all_each(sizes.kv_rank));
        let down = Dim::whole(Symbol::KvRank, sizes.kv_rank.local + sizes.rope.local);
        let up = Dim::whole(Symbol::HeadDim, sizes.nope.local + sizes.value.local);
        frame.both(list, "key/value down-projection", self.all_each(down));
        frame.both(list, "key/value up-projection", [batch, context, sizes.heads, up]);
    }

    const fn dense(self, list: &mut Sink<'_>, frame: &Frame) {
        let sizes = self.sizes;
        list.push(&frame.saved, "dense input", sizes.own_hidden());
        frame.keep_fp32(list, "dense norm statistics", sizes.own_each(ONE));
        frame.keep(list, "dense gate", self.all_each(sizes.dense_ffn));
        frame.keep(list, "dense up", self.all_each(sizes.dense_ffn));
        self.norm_output(list, frame, "dense norm output");
        frame.both(list, "dense product", self.all_each(sizes.dense_ffn));
        list.push(&frame.forward, "dense result", self.all_each(sizes.hidden));
        list.push(&frame.forward, "dense block output", sizes.own_hidden());
        self.gradients(list, frame);
        list.push(&frame.backward, "dense input gradient", self.all_each(sizes.hidden));
    }

    const fn moe(self, list: &mut Sink<'_>, frame: &Frame) {
        let sizes = self.sizes;
        list.push(&frame.saved, "expert input", sizes.own_hidden());
        frame.keep_fp32(list, "expert norm statistics", sizes.own_each(ONE));
        frame.both(list, "expert norm output", sizes.own_hidden());
        self.router(list, frame);
        self.routed(list, frame);
        if self.plan.spec().architecture.experts.shared > 0 {
            self.shared(list, frame);
        }
        list.push(&frame.forward, "expert block output", sizes.own_hidden());
        self.gradients(list, frame);
        list.push(&frame.backward, "expert input gradient", sizes.own_hidden());
    }

    /// Router, and the order that puts copies of tokens behind one another by their experts.
    const fn router(self, list: &mut Sink<'_>, frame: &Frame) {
        const ROUTER: Module = Module::Router;
        let sizes = self.sizes;
        let copies = sizes.own_each(sizes.active);
        let each = [sizes.experts, ONE, ONE, ONE];
        frame.keep_fp32(list, "router scores", sizes.own_each(sizes.experts));
        frame.keep_fp32(list, "routing weights", copies);
        frame.keep_as(list, ROUTER, Element::INT32, "chosen experts", copies);
        frame.keep_as(list, ROUTER, Element::INT32, "copies by expert", self.sorted(ONE));
        frame.keep_as(list, ROUTER, Element::INT32, "places of copies", copies);
        frame.both_as(list, ROUTER, Element::FP32, "router logits", sizes.own_each(sizes.experts));
        frame.made_as(list, ROUTER, Element::INT32, "copies of each expert", each);
        frame.made_as(list, ROUTER, Element::INT32, "first copy of each expert", each);
        list.push(&frame.backward.stored_as(Element::FP32), "routing weight gradient", copies);
    }

    /// Copies of this rank's tokens, by expert, so wide: under bounded capacity the slots of all experts, which are as many
    /// as come to this rank's experts of all ranks.
    const fn sorted(self, width: Dim) -> [Dim; 4] {
        let sizes = self.sizes;
        match self.plan.spec().layout.routing {
            Routing::Dropless(_) if self.is_dealt() => [sizes.batch, sizes.own_tokens, sizes.active, width],
            Routing::Capacity(_) if self.is_dealt() => [self.own_rows(), width, ONE, ONE],
            _ => [self.rows(), width, ONE, ONE],
        }
    }

    const fn rows(self) -> Dim {
        Dim::whole(Symbol::Rows, self.plan.routed_rows(Pool::Group))
    }

    /// Rows that come to the rank itself, before ranks that split experts put theirs together.
    const fn own_rows(self) -> Dim {
        Dim::whole(Symbol::Rows, self.plan.received_rows())
    }

    /// Whether tokens go to experts of other ranks: experts are dealt over ranks, or split.
    const fn is_dealt(self) -> bool {
        self.plan.spec().layout.mesh.expert_ranks() > 1
    }

    const fn routed(self, list: &mut Sink<'_>, frame: &Frame) {
        const ROUTED: Module = Module::RoutedExperts;
        let (sizes, rows) = (self.sizes, self.rows());
        let (input, inner, one) =
            ([rows, sizes.hidden, ONE, ONE], [rows, sizes.expert_ffn, ONE, ONE], [rows, ONE, ONE, ONE]);
        let element = frame.saved.element;
        frame.keep_as(list, ROUTED, element, "routed input", input);
        frame.keep_as(list, ROUTED, Element::FP32, "routed weights", one);
        frame.keep_as(list, ROUTED, element, "routed gate", inner);
        frame.keep_as(list, ROUTED, element, "routed up", inner);
        frame.both_as(list, ROUTED, element, "routed product", inner);
        frame.both_as(list, ROUTED, element, "routed output", input);
        list.push(&frame.backward.of(ROUTED).stored_as(Element::FP32), "routed weight gradient", one);
        if self.is_dealt() {
            let (own, copies) = (self.sorted(sizes.hidden), self.sorted(ONE));
            // What one rank's tokens send is put in order of the experts of all; what a rank receives, of its own.
            frame.keep_as(list, ROUTED, Element::INT32, "received copies by expert", one);
            frame.both_as(list, ROUTED, element, "sent copies", own);
            frame.both_as(list, ROUTED, element, "received copies", input);
            frame.both_as(list, ROUTED, Element::FP32, "sent weights", copies);
            frame.both_as(list, ROUTED, Element::FP32, "received weights", one);
        }
        if self.plan.spec().layout.mesh.etp > 1 {
            // What ranks that split experts put together.
            let part = self.own_rows();
            frame.both_as(list, ROUTED, element, "own part of received copies", [part, sizes.hidden, ONE, ONE]);
            frame.both_as(list, ROUTED, Element::FP32, "own part of received weights", [part, ONE, ONE, ONE]);
        }
    }

    const fn shared(self, list: &mut Sink<'_>, frame: &Frame) {
        const SHARED: Module = Module::SharedExperts;
        let (sizes, element) = (self.sizes, frame.saved.element);
        let has_gate = self.plan.spec().architecture.experts.shared_gate.is_on();
        frame.keep_as(list, SHARED, element, "shared gate", self.all_each(sizes.shared_ffn));
        frame.keep_as(list, SHARED, element, "shared up", self.all_each(sizes.shared_ffn));
        frame.both_as(list, SHARED, element, "shared product", self.all_each(sizes.shared_ffn));
        let (forward, backward) = (&frame.forward.of(SHARED), &frame.backward.of(SHARED));
        list.push(forward, "shared result", self.all_each(sizes.hidden));
        if has_gate {
            frame.keep_as(list, SHARED, Element::FP32, "shared expert scores", self.all_each(ONE));
            list.push(backward, "shared result", self.all_each(sizes.hidden));
            list.push(&backward.stored_as(Element::FP32), "shared expert score gradient", self.all_each(ONE));
            // The result's gradient differs from the block's, which others still read.
            list.push(backward, "shared output gradient", self.all_each(sizes.hidden));
        }
        if self.gathers() {
            frame.both_as(list, SHARED, element, "shared input", self.all_each(sizes.hidden));
            list.push(forward, "scattered result", sizes.own_hidden());
        }
        if self.plan.spec().layout.mesh.tp > 1 {
            // It is a part of a sum over ranks, which the routed experts' is not.
            list.push(backward, "shared input gradient", self.all_each(sizes.hidden));
        }
    }

    /// The buffer that corrects a router's load: nothing optimises it.
    const fn correction_bias(self, list: &mut Sink<'_>, count: Count) {
        let Architecture { experts, .. } = &self.plan.spec().architecture;
        if matches!(experts.correction_bias, CorrectionBias::On) {
            let mut bias = saved(self.plan, count, SOURCE).of(Module::Router).stored_as(Element::FP32);
            (bias.role, bias.lifetime) = (Role::Workspace, Lifetime::Always);
            list.push(&bias, "mlp.gate.e_score_correction_bias", [self.sizes.experts, ONE, ONE, ONE]);
        }
    }

    /// What a module for multi-token prediction has in front of its layer: norms of the next token's embedding and of the
    /// hidden state, side by side, and their projection, whose rows tensor-parallel ranks share.
    const fn mtp(self, list: &mut Sink<'_>, frame: &Frame) {
        let sizes = self.sizes;
        let (saved, own) = (&frame.saved, sizes.own_hidden());
        let fp32 = &saved.stored_as(Element::FP32);
        if self.plan.spec().layout.mesh.cp > 1 {
            // Those of a piece's last tokens are of the next piece.
            list.push(&saved.stored_as(Element::INT64), "next token ids", self.all_each(ONE));
        }
        list.push(saved, "next token embedding", own);
        list.push(fp32, "next token norm statistics", sizes.own_each(ONE));
        list.push(fp32, "hidden norm statistics", sizes.own_each(ONE));
        frame.both(list, "entrance hidden", own);
        frame.both(list, "entrance half", own);
        frame.both(list, "entrance input", sizes.own_each(sizes.hidden_twice));
        let tp = self.plan.spec().layout.mesh.tp;
        if tp > 1 {
            frame.both(list, "entrance input of all tokens", self.all_each(sizes.hidden_twice));
            frame.both(list, "entrance columns", self.all_each(sizes.hidden.split(Over::Tp, tp)));
            frame.both(list, "entrance output of all tokens", self.all_each(sizes.hidden));
        }
        if self.gathers() {
            frame.both(list, "gathered embedding", self.all_each(sizes.hidden));
        }
        list.push(&frame.forward, "entrance output", own);
        list.push(&frame.backward, "residual gradient", own);
    }

    const fn last(self, list: &mut Sink<'_>, frame: &Frame) {
        let sizes = self.sizes;
        let saved = &frame.saved;
        let fp32 = &saved.stored_as(Element::FP32);
        list.push(&saved.stored_as(Element::INT64), "labels", self.all_each(ONE));
        list.push(saved, "final norm input", sizes.own_hidden());
        list.push(fp32, "final norm statistics", sizes.own_each(ONE));
        list.push(fp32, "logits", self.all_each(sizes.vocab));
        list.push(fp32, "largest logits", self.all_each(ONE));
        list.push(fp32, "sums of exponentials", self.all_each(ONE));
        list.push(&frame.forward.stored_as(Element::FP32), "label logits", self.all_each(ONE));
        self.norm_output(list, frame, "final norm output");
        if saved.element.bytes < 4 {
            list.push(&frame.backward, "logit gradient", self.all_each(sizes.vocab));
        }
        list.push(&frame.backward, "head input gradient", self.all_each(sizes.hidden));
        list.push(&frame.backward, "residual gradient", sizes.own_hidden());
        if self.gathers() {
            list.push(&frame.backward, "scattered gradient", sizes.own_hidden());
        }
    }
}
