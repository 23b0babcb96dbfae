//! What a forward costs, and what recomputation makes a rank do again: products and bytes sent, to weigh against the memory
//! that it saves.

use crate::bytes::Bytes;
use crate::counts::Counts;
use crate::inventory::{Entry, Inventory, Module};
use crate::mixers::{At, Slot};
use crate::plan::Plan;
use crate::saturating::{add, mul};
use crate::sizes::Sizes;
use crate::spec::{Attention, Context, Modules, Pool, Recompute, Switch};

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

    const fn times(self, times: u64) -> Self {
        Self {
            operations: mul(self.operations, times),
            all_to_all: Bytes::new(mul(self.all_to_all.bytes(), times)),
            tensor: Bytes::new(mul(self.tensor.bytes(), times)),
            context: Bytes::new(mul(self.context.bytes(), times)),
        }
    }
}

/// The parts of a forward that recomputation tells apart.
#[derive(Clone, Copy, Default)]
struct Parts {
    projections: Cost,
    latent_up: Cost,
    core: Cost,
    dense: Cost,
    experts: Cost,
    shared: Cost,
    ends: Cost,
}

impl Plan {
    /// What the forward of one micro-batch costs a rank of a stage.
    ///
    /// # Panics
    /// If there are not so many stages.
    #[must_use]
    pub fn forward_cost(&self, stage: u64) -> Cost {
        let parts = self.parts(stage, Counts::all);
        parts.layers().plus(parts.ends)
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
        let parts = self.parts(stage, Counts::recomputed);
        match self.spec().layout.recompute {
            Recompute::None => Cost::default(),
            Recompute::Full => parts.layers(),
            Recompute::Selective => again(&parts, self.spec().layout.modules),
        }
    }

    /// Of the layers of a stage those that are chosen.
    fn parts(&self, stage: u64, chosen: fn(Counts) -> Counts) -> Parts {
        let (sizes, mut parts) = (self.sizes(), Parts::default());
        let of_chunk = |chunk| chosen(Counts::of(self, &self.chunk(stage, chunk), 1));
        let counts = (0..self.chunks()).map(of_chunk).fold(Counts::NONE, Counts::with);
        let counts = counts.tied(self.spec().architecture.tied_embeddings);
        for entry in &Inventory::of_weights(self, counts) {
            parts.multiply(self, &sizes, entry);
        }
        parts.communicate(self, &sizes, &counts);
        let stage = self.stage(stage);
        if stage.head && stage.embedding && self.spec().architecture.tied_embeddings.is_on() {
            // The table is listed once, as the embedding.
            let table = mul(sizes.vocab.local, sizes.hidden.local);
            parts.ends.operations = add(parts.ends.operations, mul(2 * table, tokens(&sizes)));
        }
        parts
    }
}

/// What of selective recomputation costs products or bytes.
fn again(parts: &Parts, modules: Modules) -> Cost {
    let chosen = [
        (modules.core_attention, parts.core),
        (modules.latent_up, parts.latent_up),
        (modules.shared_experts, parts.shared),
        (modules.experts, parts.experts),
        // A module of experts holds the shared ones too.
        (if modules.shared_experts.is_on() { Switch::Off } else { modules.experts }, parts.shared),
        (modules.dense, parts.dense),
    ];
    let costs = chosen.into_iter().filter(|(switch, _)| switch.is_on()).map(|(_, cost)| cost);
    costs.fold(Cost::default(), Cost::plus)
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

impl Parts {
    /// All but the ends of the pipeline.
    fn layers(&self) -> Cost {
        let Self { projections, latent_up, core, dense, experts, shared, .. } = *self;
        [latent_up, core, dense, experts, shared].into_iter().fold(projections, Cost::plus)
    }

    /// The products with a weight. Vectors are none.
    fn multiply(&mut self, plan: &Plan, sizes: &Sizes, entry: &Entry) {
        let [first, second, ..] = entry.shape;
        if second.global <= 1 {
            return;
        }
        let elements = mul(entry.local_elements(), entry.count);
        let (rows, elements, part) = match entry.module {
            Module::Embedding | Module::Norm | Module::HyperConnections => return,
            Module::RoutedExperts => {
                let rows = plan.routed_rows(Pool::Group);
                (rows, elements / first.local.max(1), &mut self.experts)
            }
            Module::Router => (own_tokens(sizes), elements, &mut self.experts),
            Module::SharedExperts => (tokens(sizes), elements, &mut self.shared),
            Module::DenseFfn => (tokens(sizes), elements, &mut self.dense),
            Module::Attention if ["self_attn.q_b_proj.weight", "self_attn.kv_b_proj.weight"].contains(&entry.name) => {
                (tokens(sizes), elements, &mut self.latent_up)
            }
            Module::Attention => (tokens(sizes), elements, &mut self.projections),
            _ => (tokens(sizes), elements, &mut self.ends),
        };
        part.operations = add(part.operations, mul(mul(2, rows), elements));
    }

    /// Attention itself, and what blocks of a chunk send.
    fn communicate(&mut self, plan: &Plan, sizes: &Sizes, counts: &Counts) {
        let layout = &plan.spec().layout;
        let (mesh, element) = (&layout.mesh, layout.precision.activations.bytes());
        // Gathered in front and reduced behind, or reduced on all ranks: as much in either case.
        let hidden = mul(mul(tokens(sizes), sizes.hidden.local), element);
        let around = Cost { tensor: Bytes::new(mul(2, to_others(hidden, mesh.tp))), ..Cost::default() };
        let [all, mixer, light, heavy] = counts.mixers;
        self.projections = self.projections.plus(around.times(all.there + mixer.there + light.there + heavy.there));
        self.dense = self.dense.plus(around.times(counts.dense.there));
        if plan.spec().architecture.experts.shared > 0 {
            self.shared = self.shared.plus(around.times(counts.moe.there));
        }
        for (slot, count) in [(Slot::Attention, all.there), (Slot::Mixer, mixer.there)] {
            self.core = self.core.plus(core(plan, sizes, slot).times(count));
        }
        self.experts = self.experts.plus(dispatch(plan, sizes, element).times(counts.moe.there));
    }
}

/// What goes to experts and back, for each layer with experts.
fn dispatch(plan: &Plan, sizes: &Sizes, element: u64) -> Cost {
    let mesh = &plan.spec().layout.mesh;
    let copies = mul(own_tokens(sizes), sizes.active.local);
    let row = mul(sizes.expert_io.local, element);
    let rows = plan.routed_rows(Pool::Group);
    Cost {
        all_to_all: Bytes::new(mul(2, to_others(mul(copies, row), mesh.ep))),
        tensor: Bytes::new(mul(2, to_others(mul(rows, row), mesh.etp))),
        ..Cost::default()
    }
}

/// Scores of queries with keys, and values by them; and what context-parallel ranks trade for that.
fn core(plan: &Plan, sizes: &Sizes, slot: Slot) -> Cost {
    let Some(heads) = (At { plan, sizes, slot }).heads() else { return Cost::default() };
    let mesh = &plan.spec().layout.mesh;
    let element = plan.spec().layout.precision.activations.bytes();
    let window = match (slot, &plan.spec().architecture.attention) {
        (Slot::Attention, Attention::Gqa(gqa)) if gqa.full_every == 0 => gqa.window,
        _ => 0,
    };
    let reach = if window > 0 { window.min(sizes.sequence.local) } else { sizes.sequence.local };
    let width = add(heads.width.local, heads.value.local);
    let pairs = mul(tokens(sizes), reach);
    let keys_and_values = mul(mul(tokens(sizes), mul(heads.keys.local, width)), element);
    let queries_and_outputs = mul(mul(tokens(sizes), mul(heads.queries.local, width)), element);
    let sent = match mesh.context {
        Context::AllToAll => to_others(add(keys_and_values, queries_and_outputs), mesh.cp),
        _ => mul(keys_and_values, mesh.cp - 1),
    };
    Cost {
        operations: mul(mul(2, pairs), mul(heads.queries.local, width)),
        context: Bytes::new(sent),
        ..Cost::default()
    }
}
