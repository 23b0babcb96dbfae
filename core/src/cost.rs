//! What a forward costs, and what recomputation makes a rank do again: products and bytes sent, to weigh against the memory
//! that it saves.

use crate::bytes::Bytes;
use crate::counts::Counts;
use crate::inventory::{Entry, Inventory, Module};
use crate::mixers::{At, Heads, Slot};
use crate::plan::Plan;
use crate::saturating::{add, mul};
use crate::sizes::Sizes;
use crate::spec::{Attention, Context, Modules, Pool, Recompute};
use core::fmt;

/// What a rank does for one micro-batch, in each of its chunks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Cost {
    /// Floating-point operations of matrix products, two for each multiplication; attention's are those of all pairs of
    /// tokens in its reach, of which a kernel that skips what a causal mask hides does half. Norms, activations, scans of
    /// linear attention and of state spaces are not counted.
    pub operations: u64,
    /// Bytes that the rank sends to other expert-parallel ranks by all-to-all, tokens spread evenly.
    pub all_to_all: Bytes,
    /// Bytes that it sends in collectives of tensor-parallel ranks, those that split experts among them.
    pub tensor: Bytes,
    /// Bytes that it sends to context-parallel ranks.
    pub context: Bytes,
}

impl Cost {
    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            operations: add(self.operations, other.operations),
            all_to_all: self.all_to_all.plus(other.all_to_all),
            tensor: self.tensor.plus(other.tensor),
            context: self.context.plus(other.context),
        }
    }
}

/// The parts of a forward that recomputation tells apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Projections,
    LatentUp,
    Core,
    Dense,
    Experts,
    Shared,
    Ends,
}

/// One thing that a rank does or sends in a forward.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// The weight that is multiplied with, or what is computed or sent.
    pub name: &'static str,
    /// Which rows of the weight, where some stand apart.
    pub rows: &'static str,
    /// How it comes about.
    pub formula: Formula,
    /// What it costs.
    pub cost: Cost,
    part: Part,
}

/// How a cost comes about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Formula {
    /// Two operations for each of so many rows and weights.
    Product {
        /// Tokens, or copies of tokens.
        rows: u64,
        /// That each of them meets.
        weights: u64,
    },
    /// Two operations for each pair of tokens and each number of the heads.
    Pairs {
        /// Queries and the keys in their reach.
        pairs: u64,
        /// Widths of keys and values, of all heads of the rank.
        width: u64,
    },
    /// There and back, all but the part of the rank itself, in each of so many layers.
    Exchange {
        /// What all ranks of the group have of it.
        bytes: u64,
        /// How many they are.
        ranks: u64,
        /// Layers that do so.
        layers: u64,
    },
    /// To context-parallel ranks, in each of so many layers.
    Context {
        /// In one of them.
        bytes: u64,
        /// Layers that do so.
        layers: u64,
    },
}

/// `2 x 4096 rows x 1048576 weights`.
impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Product { rows, weights } => write!(f, "2 x {rows} rows x {weights} weights"),
            Self::Pairs { pairs, width } => write!(f, "2 x {pairs} pairs x {width} of heads"),
            Self::Exchange { bytes, ranks, layers } => {
                write!(f, "2 x ({bytes} B - {bytes} B / {ranks}) x {layers} layers")
            }
            Self::Context { bytes, layers } => write!(f, "{bytes} B x {layers} layers"),
        }
    }
}

impl Plan {
    /// What the forward of one micro-batch costs a rank of a stage.
    ///
    /// # Panics
    /// If there are not so many stages.
    #[must_use]
    pub fn forward_cost(&self, stage: u64) -> Cost {
        let mut sum = Cost::default();
        self.each_piece(stage, Counts::all, &mut |piece| sum = sum.plus(piece.cost));
        sum
    }

    /// What recomputation makes a rank of a stage do again in the backward of one micro-batch: under `full` the forward of
    /// its layers or of the first so many, under `selective` that of the modules chosen. Norms and activations cost no products.
    ///
    /// ```
    /// use moe_model_core::preset::DEEPSEEK_V2_LITE;
    /// use moe_model_core::spec::{Batch, Mesh, Recompute, Spec};
    /// use moe_model_core::Plan;
    ///
    /// let mut spec = Spec { architecture: DEEPSEEK_V2_LITE, ..Spec::DEFAULT };
    /// spec.layout.mesh = Mesh { dp: 8, ep: 8, ..Mesh::DEFAULT };
    /// spec.layout.batch = Batch { sequence: 4096, ..Batch::DEFAULT };
    /// spec.layout.recompute = Recompute::Full;
    /// let plan = Plan::new(spec).expect("the layout is legal");
    /// let (all, again) = (plan.forward_cost(0), plan.recompute_cost(0));
    /// // The head alone is not done again, and every token goes to its experts once more.
    /// assert_eq!(all.operations - again.operations, 2 * 4096 * 102_400 * 2048);
    /// assert_eq!(all.all_to_all, again.all_to_all);
    /// ```
    ///
    /// # Panics
    /// If there are not so many stages.
    #[must_use]
    pub fn recompute_cost(&self, stage: u64) -> Cost {
        let mut sum = Cost::default();
        self.each_recomputed(stage, &mut |piece| sum = sum.plus(piece.cost));
        sum
    }

    /// What of a forward is done again, piece by piece.
    pub(crate) fn each_recomputed(&self, stage: u64, see: &mut dyn FnMut(&Piece)) {
        let layout = &self.spec().layout;
        self.each_piece(stage, Counts::recomputed, &mut |piece| {
            let is_again = match layout.recompute {
                Recompute::None => false,
                Recompute::Full => piece.part != Part::Ends,
                Recompute::Selective => is_chosen(piece.part, layout.modules),
            };
            if is_again {
                see(piece);
            }
        });
    }

    /// All of a forward of a micro-batch on a rank of a stage, of the layers that are chosen.
    pub(crate) fn each_piece(&self, stage: u64, chosen: fn(Counts) -> Counts, see: &mut dyn FnMut(&Piece)) {
        let sizes = self.sizes();
        let of_chunk = |chunk| chosen(Counts::of(self, &self.chunk(stage, chunk), 1));
        let counts = (0..self.chunks()).map(of_chunk).fold(Counts::NONE, Counts::with);
        let counts = counts.tied(self.spec().architecture.tied_embeddings);
        for entry in &Inventory::of_weights(self, counts) {
            if let Some(piece) = product(self, &sizes, entry) {
                see(&piece);
            }
        }
        communicate(self, &sizes, &counts, see);
        let stage = self.stage(stage);
        if stage.head && stage.embedding && self.spec().architecture.tied_embeddings.is_on() {
            // The table is listed once, as the embedding.
            let table = mul(sizes.vocab.local, sizes.hidden.local);
            see(&Piece::product("model.embed_tokens.weight", "as the head", Part::Ends, tokens(&sizes), table));
        }
    }
}

/// Whether selective recomputation does a part again. Norms and activations cost no products.
const fn is_chosen(part: Part, modules: Modules) -> bool {
    match part {
        Part::Core => modules.core_attention.is_on(),
        Part::LatentUp => modules.latent_up.is_on(),
        Part::Dense => modules.dense.is_on(),
        Part::Experts => modules.experts.is_on(),
        // A module of experts holds the shared ones too.
        Part::Shared => modules.shared_experts.is_on() || modules.experts.is_on(),
        Part::Projections | Part::Ends => false,
    }
}

/// Tokens of a micro-batch on a rank, inside blocks.
pub(crate) const fn tokens(sizes: &Sizes) -> u64 {
    mul(sizes.batch.local, sizes.context.local)
}

/// The same between blocks, under sequence parallelism each rank's own.
pub(crate) const fn own_tokens(sizes: &Sizes) -> u64 {
    mul(sizes.batch.local, sizes.own_tokens.local)
}

/// So much of an amount as goes to the others of some ranks that share it evenly.
pub(crate) const fn to_others(amount: u64, ranks: u64) -> u64 {
    amount - amount.div_ceil(ranks)
}

impl Piece {
    fn product(name: &'static str, of: &'static str, part: Part, rows: u64, weights: u64) -> Self {
        let cost = Cost { operations: mul(mul(2, rows), weights), ..Cost::default() };
        Self { name, rows: of, formula: Formula::Product { rows, weights }, cost, part }
    }

    /// In each of so many layers.
    fn exchange(name: &'static str, part: Part, bytes: u64, ranks: u64, layers: u64) -> Self {
        let sent = Bytes::new(mul(mul(2, to_others(bytes, ranks)), layers));
        let cost = Cost { tensor: sent, ..Cost::default() };
        Self { name, rows: "", formula: Formula::Exchange { bytes, ranks, layers }, cost, part }
    }
}

/// The product with a weight. Vectors are none.
fn product(plan: &Plan, sizes: &Sizes, entry: &Entry) -> Option<Piece> {
    let [first, second, ..] = entry.shape;
    if second.global <= 1 {
        return None;
    }
    let elements = mul(entry.local_elements(), entry.count);
    let (part, rows, weights) = match entry.module {
        Module::Embedding | Module::Norm | Module::HyperConnections => return None,
        Module::RoutedExperts => (Part::Experts, plan.routed_rows(Pool::Group), elements / first.local.max(1)),
        Module::Router => (Part::Experts, own_tokens(sizes), elements),
        Module::SharedExperts => (Part::Shared, tokens(sizes), elements),
        Module::DenseFfn => (Part::Dense, tokens(sizes), elements),
        Module::Attention if ["self_attn.q_b_proj.weight", "self_attn.kv_b_proj.weight"].contains(&entry.name) => {
            (Part::LatentUp, tokens(sizes), elements)
        }
        Module::Attention => (Part::Projections, tokens(sizes), elements),
        _ => (Part::Ends, tokens(sizes), elements),
    };
    Some(Piece::product(entry.name, entry.part, part, rows, weights))
}

/// Attention itself, and what blocks of a chunk send.
fn communicate(plan: &Plan, sizes: &Sizes, counts: &Counts, see: &mut dyn FnMut(&Piece)) {
    let layout = &plan.spec().layout;
    let (mesh, element) = (&layout.mesh, layout.precision.activations.bytes());
    // Gathered in front and reduced behind, or reduced on all ranks: as much in either case.
    let hidden = mul(mul(tokens(sizes), sizes.hidden.local), element);
    let [all, mixer, light, heavy] = counts.mixers;
    let has_shared = plan.spec().architecture.experts.shared > 0;
    let around = [
        ("tokens around attention", Part::Projections, all.there + mixer.there + light.there + heavy.there),
        ("tokens around dense networks", Part::Dense, counts.dense.there),
        ("tokens around shared experts", Part::Shared, if has_shared { counts.moe.there } else { 0 }),
    ];
    for (name, part, layers) in around {
        see(&Piece::exchange(name, part, hidden, mesh.tp, layers));
    }
    for (slot, count) in [(Slot::Attention, all.there), (Slot::Mixer, mixer.there)] {
        core(plan, sizes, slot, count, see);
    }
    dispatch(plan, sizes, element, counts.moe.there, see);
}

/// What goes to experts and back, for each layer with experts.
fn dispatch(plan: &Plan, sizes: &Sizes, element: u64, layers: u64, see: &mut dyn FnMut(&Piece)) {
    let mesh = &plan.spec().layout.mesh;
    let copies = mul(own_tokens(sizes), sizes.active.local);
    let row = mul(sizes.expert_io.local, element);
    let rows = plan.routed_rows(Pool::Group);
    let sent = Piece::exchange("copies of tokens to experts", Part::Experts, mul(copies, row), mesh.ep, layers);
    // Among expert-parallel ranks it is an all-to-all.
    let cost = Cost { all_to_all: sent.cost.tensor, tensor: Bytes::ZERO, ..sent.cost };
    see(&Piece { cost, ..sent });
    see(&Piece::exchange("copies of tokens around experts", Part::Experts, mul(rows, row), mesh.etp, layers));
}

/// Numbers that a rank sends to so many ranks that trade tokens for heads: queries, keys and values there, outputs back.
pub(crate) const fn traded(sizes: &Sizes, heads: &Heads, ranks: u64) -> u64 {
    let dealt = add(heads.queries.dealt(ranks).local, heads.keys.dealt(ranks).local);
    mul(mul(tokens(sizes), mul(dealt, add(heads.width.local, heads.value.local))), ranks - 1)
}

/// Scores of queries with keys, and values by them; and what context-parallel ranks trade for that.
fn core(plan: &Plan, sizes: &Sizes, slot: Slot, layers: u64, see: &mut dyn FnMut(&Piece)) {
    let Some(heads) = (At { plan, sizes, slot }).heads() else { return };
    let mesh = &plan.spec().layout.mesh;
    let element = plan.spec().layout.precision.activations.bytes();
    let window = match (slot, &plan.spec().architecture.attention) {
        (Slot::Attention, Attention::Gqa(gqa)) if gqa.full_every == 0 => gqa.window,
        _ => 0,
    };
    let reach = if window > 0 { window.min(sizes.sequence.local) } else { sizes.sequence.local };
    let width = add(heads.width.local, heads.value.local);
    let pairs = mul(tokens(sizes), reach);
    let sent = match mesh.context {
        Context::AllToAll => mul(traded(sizes, &heads, mesh.cp), element),
        _ => mul(mul(mul(tokens(sizes), mul(heads.keys.local, width)), element), mesh.cp - 1),
    };
    let (pairs, width) = (mul(pairs, layers), mul(heads.queries.local, width));
    let computed = Cost { operations: mul(mul(2, pairs), width), ..Cost::default() };
    let name = "attention of all pairs of tokens";
    see(&Piece { name, rows: "", formula: Formula::Pairs { pairs, width }, cost: computed, part: Part::Core });
    let traded = Cost { context: Bytes::new(mul(sent, layers)), ..Cost::default() };
    let name = "keys and values of other tokens";
    see(&Piece { name, rows: "", formula: Formula::Context { bytes: sent, layers }, cost: traded, part: Part::Core });
}
