//! What computing in fp8 keeps beside what is stored, under `precision.compute`: of each weight that a linear layer
//! multiplies a copy row by row and one column by column, with their scales; of each input of such a layer one copy for
//! backward; and what delayed scaling remembers. As Transformer Engine does it at d0067d0 (2026-08-22), called by Megatron-LM
//! 0.16.1 and 0.20.0, whose lists of what is saved by itself are those of `mod.rs`; read from sources, not measured.
//!
//! Embedding, head, router, norms and attention itself compute as before. Left out: MXFP8 and NVFP4, weights whose only copy
//! is in fp8 (`--fp8-param-gather`), attention in fp8 (`fp8_dpa`), first and last layers kept out (`--first-last-layers-bf16`).

use super::Of;
use crate::device::Device;
use crate::inventory::{Element, Entry, Module, Role, Sink};
use crate::mixers::Heads;
use crate::saturating::{add, mul};
use crate::sizes::{Dim, Symbol};
use crate::spec::{Compute, Dtype, Routing, Split};

const ONE: Dim = Dim::ONE;

/// `quantize_weight`: cached with the module, unless `disable_parameter_transpose_cache` (Megatron-LM,
/// `extensions/transformer_engine.py`: `is_first_microbatch`).
const CACHED: &str = "compute in fp8, Transformer Engine d0067d0, base.py";
/// Forward keeps of a quantised input what backward multiplies, and drops the rest.
const INPUT: &str = "compute in fp8, Transformer Engine d0067d0, linear.py";
/// `scale_inv`: one for a tensor and its transpose.
const SCALE: &str = "compute in fp8, Transformer Engine d0067d0, float8_tensor.py";
/// `get_scale_shape`: tiles of 128, the other dimension rounded up to a multiple of 4.
const SCALES: &str = "compute in fp8, Transformer Engine d0067d0, float8_blockwise_tensor.py";
/// `DelayedScalingRecipeState`, of three tensors of each product in forward and two in backward (`base.py`,
/// `set_meta_tensor`).
const HISTORY: &str = "compute in fp8, Transformer Engine d0067d0, quantization.py";
const DEEPSEEK_TILES: &str = "compute in fp8, DeepSeek-V3, arXiv:2412.19437, section 3.3.2";
const DEEPSEEK_KEPT: &str = "compute in fp8, DeepSeek-V3, arXiv:2412.19437, section 3.3.3";

/// Of the output of a linear layer.
pub(super) const GRADIENT: &str = "gradient in fp8";

const FP8: Element = Element::float(Dtype::Fp8);
/// Tensors of a product that are quantised: in forward, and in backward.
const QUANTISED: u64 = 3 + 2;
/// `get_fp8_align_size` (Megatron-LM, `fp8_utils.py`): the tokens of each expert are padded to a multiple of this.
const ALIGN: u64 = 16;
const TILE: u64 = 128;

const fn tiles(numbers: u64) -> Dim {
    Dim::whole(Symbol::Tiles, numbers.div_ceil(TILE))
}

/// The same, rounded up for kernels.
const fn tiles_in_fours(numbers: u64) -> Dim {
    Dim::whole(Symbol::Tiles, numbers.div_ceil(TILE).next_multiple_of(4))
}

const fn count(numbers: u64) -> Dim {
    Dim::whole(Symbol::Count, numbers)
}

/// A weight of a linear layer: outputs by inputs.
#[derive(Clone, Copy)]
pub(super) struct Matrix {
    pub(super) name: &'static str,
    pub(super) outputs: Dim,
    pub(super) inputs: Dim,
}

/// What is quantised as one matrix: so many tokens of so many numbers, of one layer or of each of some experts.
#[derive(Clone, Copy)]
struct Rows {
    tokens: u64,
    columns: u64,
    experts: u64,
}

impl Rows {
    const fn of(shape: [Dim; 4]) -> Self {
        let [batch, tokens, wide, more] = &shape;
        Self { tokens: mul(batch.local, tokens.local), columns: mul(wide.local, more.local), experts: 1 }
    }
}

impl Of<'_> {
    pub(super) const fn is_fp8(self) -> bool {
        self.compute.is_fp8()
    }

    pub(super) const fn is_delayed(self) -> bool {
        matches!(self.compute, Compute::Fp8Delayed)
    }

    pub(super) const fn is_deepseek(self) -> bool {
        matches!(self.compute, Compute::Fp8DeepseekV3)
    }

    const fn has_tiles(self) -> bool {
        matches!(self.compute, Compute::Fp8Blockwise | Compute::Fp8DeepseekV3)
    }

    /// How often a matrix lies in memory that is multiplied both ways: by rows and by columns, which Blackwell's products of
    /// tensors with one scale do not need (`is_non_tn_fp8_gemm_supported`).
    pub(super) const fn copies(self) -> u64 {
        let is_either_way = matches!(self.plan.spec().layout.device, Device::B200) && !self.has_tiles();
        if is_either_way { 1 } else { 2 }
    }

    /// The input of a linear layer: of so many tokens.
    pub(super) const fn input(self, list: &mut Sink<'_>, kept: &Entry, name: &'static str, shape: [Dim; 4]) {
        if self.is_fp8() { self.quantised(list, kept, name, shape) } else { list.push(kept, name, shape) }
    }

    /// A tensor of tokens in fp8, with its scales.
    pub(super) const fn quantised(self, list: &mut Sink<'_>, kept: &Entry, name: &'static str, shape: [Dim; 4]) {
        self.stored(list, kept, name, shape, Rows::of(shape), 1);
    }

    /// The same of copies of tokens, which lie behind one another.
    pub(super) const fn quantised_copies(self, list: &mut Sink<'_>, kept: &Entry, name: &'static str, shape: [Dim; 4]) {
        let [batch, tokens, copies, columns] = &shape;
        let tokens = mul(mul(batch.local, tokens.local), copies.local);
        self.stored(list, kept, name, shape, Rows { tokens, columns: columns.local, experts: 1 }, 1);
    }

    /// The same of what experts compute on, one or both ways.
    pub(super) const fn quantised_rows(
        self,
        list: &mut Sink<'_>,
        kept: &Entry,
        name: &'static str,
        [columns, times]: [Dim; 2],
        ways: u64,
    ) {
        let (rows, experts) = (self.expert_rows(), self.sizes.local_experts.local);
        let of = Rows { tokens: rows.local, columns: mul(columns.local, times.local), experts };
        self.stored(list, kept, name, [rows, columns, times, ONE], of, ways);
    }

    /// One or both ways, which share the one scale of a tensor.
    const fn stored(self, list: &mut Sink<'_>, kept: &Entry, name: &'static str, shape: [Dim; 4], of: Rows, ways: u64) {
        let source = if self.is_deepseek() { DEEPSEEK_KEPT } else { INPUT };
        list.push(&Entry { element: FP8, source, ..kept.times(ways) }, name, shape);
        self.scales(list, &if self.has_tiles() { kept.times(ways) } else { *kept }, name, of);
    }

    /// Of tiles of 1 x 128 numbers, or of the tensor; backward reads them by columns, but for DeepSeek's, which are turned
    /// then.
    const fn scales(self, list: &mut Sink<'_>, kept: &Entry, name: &'static str, of: Rows) {
        let mut entry = kept.stored_as(Element::FP32);
        let Rows { tokens, columns, experts } = of;
        let (source, shape) = if self.is_deepseek() {
            (DEEPSEEK_TILES, [count(tokens), tiles(columns), ONE, ONE])
        } else if self.has_tiles() {
            let tiles = Dim::whole(Symbol::Tiles, self.tiles_of(tokens, experts));
            (SCALES, [tiles, count(columns.next_multiple_of(4)), ONE, ONE])
        } else {
            (SCALE, [count(experts), ONE, ONE, ONE])
        };
        entry.source = source;
        list.push_part(&entry, name, "scales", shape);
    }

    /// Tiles along tokens. Those of each expert begin one, so that there are most where its last holds as few as may be.
    const fn tiles_of(self, rows: u64, experts: u64) -> u64 {
        if experts == 1 {
            return rows.div_ceil(TILE);
        }
        if let Routing::Capacity(_) = self.plan.spec().layout.routing {
            return mul(experts, (rows / experts).div_ceil(TILE));
        }
        add(rows, mul(experts, TILE - ALIGN)) / TILE
    }

    /// Rows of experts with what pads them: each expert's, as many as there can be.
    pub(super) const fn padded(self, rows: u64) -> u64 {
        let experts = self.sizes.local_experts.local;
        match self.plan.spec().layout.routing {
            Routing::Capacity(_) if experts > 0 => mul(experts, (rows / experts).next_multiple_of(ALIGN)),
            _ => add(rows, mul(experts, ALIGN - 1)),
        }
    }

    /// The output of attention in E5M6, 12 bits each, which both attention and the projection behind it read in backward
    /// (section 3.3.3, "Activation").
    pub(super) const fn output_in_12_bits(self, list: &mut Sink<'_>, kept: &Entry, heads: Heads) {
        let (batch, context) = (self.sizes.batch, self.sizes.context);
        let columns = mul(heads.queries.local, heads.value.local);
        let entry = Entry { element: Element { name: "e5m6 bytes", bytes: 1 }, source: DEEPSEEK_KEPT, ..*kept };
        let name = "attention output in 12 bits";
        list.push(&entry, name, [batch, context, count(mul(columns, 3).div_ceil(2)), ONE]);
        self.scales(list, kept, name, Rows { tokens: mul(batch.local, context.local), columns, experts: 1 });
    }

    /// What so many modules cache of weights that each of so many experts has, and remember of their largest values.
    const fn cached(self, list: &mut Sink<'_>, module: Module, layers: u64, experts: Dim, matrices: &[Matrix]) {
        let mut entry = Entry::NONE;
        (entry.role, entry.module, entry.count) = (Role::Workspace, module, layers);
        let mut i = 0;
        while i < matrices.len() {
            let Matrix { name, outputs, inputs } = matrices[i];
            let data = Entry { element: FP8, source: CACHED, ..entry };
            list.push(&data.times(self.copies()), name, [experts, outputs, inputs, ONE]);
            self.scales_of_weight(list, &entry, experts, matrices[i]);
            i += 1;
        }
        if self.is_delayed() {
            let length = self.plan.spec().layout.precision.amax_history;
            let products = count(matrices.len() as u64);
            let remembered = Entry { element: Element::FP32, source: HISTORY, ..entry };
            let each = add(1, if length == 0 { 1 } else { length });
            list.push(&remembered, "fp8 scales and histories", [experts, products, count(QUANTISED), count(each)]);
        }
    }

    /// Of blocks of 128 x 128 numbers, both ways; a block is the same either way, so that DeepSeek's paper needs one.
    const fn scales_of_weight(self, list: &mut Sink<'_>, common: &Entry, experts: Dim, of: Matrix) {
        let (outputs, inputs) = (of.outputs.local, of.inputs.local);
        let mut entry = common.stored_as(Element::FP32);
        if self.is_deepseek() {
            entry.source = DEEPSEEK_TILES;
            list.push_part(&entry, of.name, "scales", [experts, tiles(outputs), tiles(inputs), ONE]);
        } else if self.has_tiles() {
            entry.source = SCALES;
            list.push_part(&entry, of.name, "scales", [experts, tiles(outputs), tiles_in_fours(inputs), ONE]);
            let turned = [experts, tiles(inputs), tiles_in_fours(outputs), ONE];
            list.push_part(&entry, of.name, "scales by columns", turned);
        } else {
            entry.source = SCALE;
            list.push_part(&entry, of.name, "scales", [experts, ONE, ONE, ONE]);
        }
    }

    /// The projections around attention of so many layers, as Megatron-LM fuses them.
    pub(super) const fn attention_cached(self, list: &mut Sink<'_>, heads: Heads, layers: u64) {
        let sizes = self.sizes;
        let Heads { queries, keys, width, value, is_latent, .. } = heads;
        let (hidden, module) = (sizes.hidden, Module::Attention);
        let output = Matrix {
            name: "attention output projection in fp8",
            outputs: hidden,
            inputs: count(mul(queries.local, value.local)),
        };
        if !is_latent {
            let fused = add(mul(queries.local, width.local), mul(keys.local, width.local + value.local));
            let name = "query, key and value projection in fp8";
            let fused = Matrix { name, outputs: count(fused), inputs: hidden };
            self.cached(list, module, layers, ONE, &[fused, output]);
            return;
        }
        let turning = match self.plan.spec().layout.placement.query_rope {
            Split::Split => queries.local,
            Split::Replicated => sizes.heads_whole.local,
        };
        let wide = count(add(mul(queries.local, sizes.nope.local), mul(turning, sizes.rope.local)));
        let name = "key/value down projection in fp8";
        let down = Matrix { name, outputs: count(sizes.kv_rank.local + sizes.rope.local), inputs: hidden };
        let up = Matrix {
            name: "key/value up projection in fp8",
            outputs: count(mul(keys.local, sizes.nope.local + value.local)),
            inputs: sizes.kv_rank,
        };
        if sizes.q_rank.local == 0 {
            let query = Matrix { name: "query projection in fp8", outputs: wide, inputs: hidden };
            self.cached(list, module, layers, ONE, &[query, down, up, output]);
        } else {
            let of = Matrix { name: "query down projection in fp8", outputs: sizes.q_rank, inputs: hidden };
            let query = Matrix { name: "query up projection in fp8", outputs: wide, inputs: sizes.q_rank };
            self.cached(list, module, layers, ONE, &[of, query, down, up, output]);
        }
    }

    /// The two of a network: gate and up as one.
    const fn network(self, names: [&'static str; 2], io: Dim, width: Dim) -> [Matrix; 2] {
        let outputs = count(mul(self.gated(2, 1), width.local));
        [Matrix { name: names[0], outputs, inputs: io }, Matrix { name: names[1], outputs: io, inputs: width }]
    }

    pub(super) const fn dense_cached(self, list: &mut Sink<'_>, layers: u64) {
        let names = ["dense gate and up projection in fp8", "dense down projection in fp8"];
        let matrices = self.network(names, self.sizes.hidden, self.sizes.dense_ffn);
        self.cached(list, Module::DenseFfn, layers, ONE, &matrices);
    }

    pub(super) const fn experts_cached(self, list: &mut Sink<'_>, layers: u64) {
        let names = ["routed gate and up projections in fp8", "routed down projections in fp8"];
        let matrices = self.network(names, self.sizes.expert_io, self.sizes.expert_ffn);
        self.cached(list, Module::RoutedExperts, layers, self.sizes.local_experts, &matrices);
        if self.plan.spec().architecture.experts.shared > 0 {
            let names = ["shared gate and up projection in fp8", "shared down projection in fp8"];
            let matrices = self.network(names, self.sizes.hidden, self.sizes.shared_ffn);
            self.cached(list, Module::SharedExperts, layers, ONE, &matrices);
        }
    }

    /// The projection of what modules for multi-token prediction put side by side.
    pub(super) const fn mtp_cached(self, list: &mut Sink<'_>, modules: u64) {
        let outputs = count(self.sizes.hidden.local / self.plan.spec().layout.mesh.tp);
        let matrix = Matrix { name: "projection of both in fp8", outputs, inputs: self.sizes.hidden_twice };
        self.cached(list, Module::Mtp, modules, ONE, &[matrix]);
    }

    /// The largest of what a block quantises while it runs and does not save: an input by rows in forward, a gradient both
    /// ways in backward.
    pub(super) const fn quantises(
        self,
        list: &mut Sink<'_>,
        forward: &Entry,
        backward: &Entry,
        [input, gradient]: [[Dim; 4]; 2],
    ) {
        if self.is_fp8() {
            self.quantised(list, forward, "input in fp8", input);
            self.stored(list, backward, GRADIENT, gradient, Rows::of(gradient), self.copies());
        }
    }
}
