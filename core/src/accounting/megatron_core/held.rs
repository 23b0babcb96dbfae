//! What megatron-core, PyTorch and Transformer Engine hold beside the tensors of a model: measured where modules hold it
//! (`tests/activations.rs`), read from sources where libraries do.

use super::Of;
use crate::accounting::{elements, is_rotary, pytorch};
use crate::counts::Counts;
use crate::inventory::{Element, Entry, Lifetime, Module, Role, Sink};
use crate::mixers::{At, Heads, Slot};
use crate::saturating::{add, mul};
use crate::sizes::{Dim, Sizes, Symbol};
use crate::spec::{AuxLoss, Dispatcher, Dtype, ExpertKernel, Pool};

const ONE: Dim = Dim::ONE;

const MIB: u64 = 1 << 20;

/// Transformer Engine at d0067d0 (2026-08-22), `pytorch/cpp_extensions/gemm.py`: one for products, and one for each of the
/// streams of grouped products.
const ENGINE: &str = "Transformer Engine d0067d0, gemm.py";
const ENGINE_STREAMS: u64 = 4;

/// Different shapes of weights.
struct Shapes {
    all: [[u64; 2]; Self::MOST],
    count: usize,
}

impl Shapes {
    /// Five projections of attention, two of each of three networks, and the head.
    const MOST: usize = 12;

    const fn add(&mut self, rows: u64, columns: u64) {
        let mut i = 0;
        while i < self.count {
            if self.all[i][0] == rows && self.all[i][1] == columns {
                return;
            }
            i += 1;
        }
        self.all[self.count] = [rows, columns];
        self.count += 1;
    }

    /// The two projections of a network.
    const fn network(&mut self, io: u64, into: u64, out_of: u64) {
        self.add(into, io);
        self.add(io, out_of);
    }

    const fn elements(&self) -> u64 {
        let (mut sum, mut i) = (0, 0);
        while i < self.count {
            sum = add(sum, mul(self.all[i][0], self.all[i][1]));
            i += 1;
        }
        sum
    }
}

impl Of<'_> {
    /// What a rank with these parts holds from its first step on.
    pub(super) const fn held(self, list: &mut Sink<'_>, counts: &Counts) {
        self.workspaces(list, counts.moe.there > 0);
        self.buffer(list, counts);
        self.frequencies(list, counts);
        if self.options.fused_gradients.is_on() && self.has_engine() {
            self.stand_ins(list, counts);
        }
    }

    /// The frequencies that Transformer Engine's rotary kernel reads, for all layers (`RotaryEmbedding`'s cache).
    const fn frequencies(self, list: &mut Sink<'_>, counts: &Counts) {
        let [attention, ..] = counts.mixers;
        if attention.there > 0
            && self.has_engine()
            && is_rotary(self.plan)
            && let Some(heads) = (At { plan: self.plan, sizes: self.sizes, slot: Slot::Attention }).heads()
        {
            let mut entry = Entry::NONE;
            (entry.role, entry.module, entry.count) = (Role::Workspace, Module::Attention, 1);
            (entry.element, entry.source) = (Element::FP32, self.source());
            list.push(&entry, "rotary frequencies", [self.sizes.context, heads.rotary, ONE, ONE]);
        }
    }

    /// What stands for gradients of weights that were added elsewhere: a tensor for each shape of a weight
    /// (`get_dummy_wgrad`), that of the head among them.
    const fn stand_ins(self, list: &mut Sink<'_>, counts: &Counts) {
        let mut shapes = Shapes { all: [[0; 2]; Shapes::MOST], count: 0 };
        let Sizes { hidden, vocab, dense_ffn, expert_ffn, expert_io, shared_ffn, .. } = *self.sizes;
        let [attention, ..] = counts.mixers;
        if attention.there > 0
            && let Some(heads) = (At { plan: self.plan, sizes: self.sizes, slot: Slot::Attention }).heads()
        {
            self.projections(&mut shapes, heads);
        }
        if counts.dense.there > 0 {
            shapes.network(hidden.local, self.gated(2, 1) * dense_ffn.local, dense_ffn.local);
        }
        if counts.moe.there > 0 {
            shapes.network(expert_io.local, self.gated(2, 1) * expert_ffn.local, expert_ffn.local);
            if self.plan.spec().architecture.experts.shared > 0 {
                shapes.network(hidden.local, self.gated(2, 1) * shared_ffn.local, shared_ffn.local);
            }
        }
        if counts.last.there > 0 {
            shapes.add(vocab.local, hidden.local);
        }
        let mut entry = Entry::NONE;
        (entry.role, entry.module, entry.count) = (Role::Workspace, Module::Libraries, 1);
        entry.element = Element::float(self.plan.spec().layout.precision.weights);
        entry.source = "Transformer Engine d0067d0, base.py";
        let elements = Dim::whole(Symbol::Count, shapes.elements());
        list.push(&entry, "stand-ins for gradients", [elements, ONE, ONE, ONE]);
    }

    /// The projections around attention as megatron-core fuses them.
    const fn projections(self, shapes: &mut Shapes, heads: Heads) {
        let Heads { queries, keys, width, value, is_latent, .. } = heads;
        let Sizes { hidden, q_rank, kv_rank, rope, nope, .. } = *self.sizes;
        if is_latent {
            let queries_wide = queries.local * width.local;
            if q_rank.local > 0 {
                shapes.add(q_rank.local, hidden.local);
                shapes.add(queries_wide, q_rank.local);
            } else {
                shapes.add(queries_wide, hidden.local);
            }
            shapes.add(kv_rank.local + rope.local, hidden.local);
            shapes.add(keys.local * (nope.local + value.local), kv_rank.local);
        } else {
            let fused = queries.local * width.local + keys.local * (width.local + value.local);
            shapes.add(fused, hidden.local);
        }
        shapes.add(hidden.local, queries.local * value.local);
    }

    const fn workspaces(self, list: &mut Sink<'_>, has_experts: bool) {
        pytorch::cublas(list, self.plan, self.options.cublas);
        let mut common = Entry::NONE;
        (common.role, common.module) = (Role::Workspace, Module::Libraries);
        // The router's product is Transformer Engine's in either implementation.
        if self.has_engine() || has_experts && !self.is_v011() {
            let is_before_hopper = self.plan.spec().layout.device.compute_capability() < 9;
            let bytes = if is_before_hopper { 4 * MIB } else { 32 * MIB + 1024 };
            let is_grouped =
                self.has_engine() && has_experts && !matches!(self.options.experts, ExpertKernel::Sequential);
            common.count = if is_grouped { 1 + ENGINE_STREAMS } else { 1 };
            common.source = ENGINE;
            list.push(&common, "Transformer Engine workspace", [Dim::whole(Symbol::Count, bytes), ONE, ONE, ONE]);
        }
    }

    /// megatron-core's one buffer (`GlobalMemoryBuffer`), which grows to the largest that is asked for: for scores of its own
    /// unfused attention, to gather a sequence in front of its own projections, the head's always, and to gather the tokens
    /// of an expert group.
    const fn buffer(self, list: &mut Sink<'_>, counts: &Counts) {
        let Sizes { batch, context, sequence, hidden, .. } = *self.sizes;
        let mut shapes = [[Dim::whole(Symbol::None, 0), ONE, ONE, ONE]; 3];
        let [mixers, ..] = counts.mixers;
        if !self.is_fused()
            && !self.has_engine()
            && let Some(heads) = (At { plan: self.plan, sizes: self.sizes, slot: Slot::Attention }).heads()
            && mixers.there > 0
        {
            shapes[0] = [batch, heads.queries, context, sequence];
        }
        let is_gathered = counts.last.there > 0 || !self.has_engine();
        if self.plan.spec().layout.mesh.sequence_parallel.is_on() && is_gathered {
            shapes[1] = [batch, context, hidden, ONE];
        }
        let is_gathered = matches!(self.options.dispatcher, Dispatcher::AllGather);
        if counts.moe.there > 0 && is_gathered && self.plan.spec().layout.mesh.expert_ranks() > 1 {
            shapes[2] = [self.pool(), hidden, ONE, ONE];
        }
        let (mut largest, mut i) = (0, 1);
        while i < shapes.len() {
            if elements(shapes[i]) > elements(shapes[largest]) {
                largest = i;
            }
            i += 1;
        }
        let mut entry = Entry::NONE;
        (entry.role, entry.module, entry.count) = (Role::Workspace, Module::Libraries, 1);
        entry.element = Element::float(self.plan.spec().layout.precision.activations);
        entry.source = self.source();
        if elements(shapes[largest]) > 0 {
            list.push(&entry, "global memory buffer", shapes[largest]);
        }
    }

    /// The tokens of an expert group.
    const fn pool(self) -> Dim {
        Dim::whole(Symbol::Rows, self.plan.pooled_tokens(Pool::Group))
    }

    /// What the dispatchers of so many layers hold of the last micro-batch. What backward needs of it is saved once more.
    pub(super) const fn dispatchers(self, list: &mut Sink<'_>, layers: u64) {
        let Sizes { batch, own_tokens, experts, local_experts, active, .. } = *self.sizes;
        let mut held = Entry::NONE;
        (held.role, held.module, held.count) = (Role::Workspace, Module::Router, layers);
        held.source = self.source();
        let mut idle = held;
        idle.lifetime = Lifetime::Idle;
        let weights = self.weights_as(&held.stored_as(Element::float(self.plan.spec().layout.precision.activations)));
        if matches!(self.options.dispatcher, Dispatcher::AllGather) {
            let rows = [self.rows(), ONE, ONE, ONE];
            list.push(&held.stored_as(Element::MASK), "map of local experts", [self.pool(), local_experts, ONE, ONE]);
            list.push(&idle.stored_as(weights.element), "weights of the last rows", rows);
            list.push(&idle.stored_as(Element::INT64), "indices of the last copies", rows);
        } else {
            let all = [batch, own_tokens, experts, ONE];
            list.push(&weights, "routing weights of the layer", all);
            list.push(&held.stored_as(Element::MASK), "routing map of the layer", all);
            list.push(&idle.stored_as(Element::INT64), "indices of the last copies", [batch, own_tokens, active, ONE]);
        }
        if !matches!(self.options.aux_loss, AuxLoss::None) {
            list.push(&held.stored_as(Element::float(Dtype::Fp32)), "loss of the layer", [ONE; 4]);
        }
        if matches!(self.options.experts, ExpertKernel::Sequential) {
            list.push(&held.stored_as(Element::INT64), "tokens of each expert", [experts, ONE, ONE, ONE]);
        }
    }
}
