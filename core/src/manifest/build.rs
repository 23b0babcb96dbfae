//! From a plan to its manifest.

use super::{Held, Manifest, Orders, Shard, Slice, State, Tensor};
use crate::groups::Ranks;
use crate::holdings::{Cut, Holding, Part, Unplaced, parameters};
use crate::inventory::Role;
use crate::plan::Plan;
use crate::sizes::Symbol;
use crate::spec::{Dtype, ZeroStage};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

impl Manifest {
    /// The manifest of a plan, ranks holding experts in some order.
    ///
    /// # Errors
    /// If the layout says how much a rank holds of a tensor alone, and not what.
    ///
    /// ```
    /// use moe_model_core::manifest::{Manifest, Orders};
    /// use moe_model_core::preset::MIXTRAL_8X7B;
    /// use moe_model_core::spec::{Mesh, Spec};
    /// use moe_model_core::Plan;
    ///
    /// let mut spec = Spec { architecture: MIXTRAL_8X7B, ..Spec::DEFAULT };
    /// spec.layout.mesh = Mesh { dp: 4, ep: 4, ..Mesh::DEFAULT };
    /// let plan = Plan::new(spec)?;
    /// let manifest = Manifest::of(&plan, &Orders::MODEL).expect("the layout says what ranks hold");
    /// let name = "model.layers.31.mlp.experts.down_proj.weight";
    /// let tensor = manifest.tensors.iter().find(|tensor| tensor.name == name).expect("layers have experts");
    /// assert_eq!(tensor.shape, [8, 4096, 14_336]);
    /// // Rank 3 holds the last two of eight experts.
    /// assert_eq!(tensor.slices[3].experts, [6, 7]);
    /// # Ok::<(), moe_model_core::Violations>(())
    /// ```
    pub fn of(plan: &Plan, orders: &Orders) -> Result<Self, Unplaced> {
        let mut list = List { plan, orders, tensors: Vec::new(), places: BTreeMap::new() };
        for stage in 0..plan.stages() {
            list.stage(stage)?;
        }
        let mut tensors = list.tensors;
        for (number, tensor) in (0..).zip(&mut tensors) {
            tensor.choose_writers(number);
        }
        Ok(Self {
            world: plan.world(),
            accounting: plan.spec().layout.accounting.name().to_owned(),
            vocab_logical: plan.spec().architecture.vocab,
            vocab_padded: plan.padded_vocab(),
            states: states(plan),
            tensors,
        })
    }
}

fn states(plan: &Plan) -> Vec<State> {
    if plan.spec().layout.served().is_some() {
        return Vec::new();
    }
    let (precision, zero) = (&plan.spec().layout.precision, &plan.spec().layout.zero);
    let of = |role: Role, dtype: Dtype, from: ZeroStage, saved| {
        let sharded = |stage: ZeroStage, expert| stage as u8 >= from as u8 && plan.replicas(expert) > 1;
        let sharded = [sharded(zero.dense, false), sharded(zero.expert, true)];
        State { role: role.name().to_owned(), element: dtype.word().to_owned(), sharded, saved }
    };
    vec![
        of(Role::Gradient, precision.gradients, ZeroStage::Gradients, false),
        of(Role::MasterWeight, precision.master, ZeroStage::Optimizer, true),
        of(Role::FirstMoment, precision.moments, ZeroStage::Optimizer, true),
        of(Role::SecondMoment, precision.moments, ZeroStage::Optimizer, true),
    ]
}

/// Along each dimension, over what it is split and how long a part is: ranks that differ in nothing of it hold the same.
type Split = Vec<(u8, u64, u64)>;

struct List<'a> {
    plan: &'a Plan,
    orders: &'a Orders,
    tensors: Vec<Tensor>,
    places: BTreeMap<String, usize>,
}

impl List<'_> {
    fn stage(&mut self, stage: u64) -> Result<(), Unplaced> {
        let holdings = self.plan.holdings(stage)?;
        let parameters = parameters(&holdings);
        let mut layers: Vec<u64> = Vec::new();
        let mut known: BTreeMap<Split, Vec<(Part, Vec<u64>)>> = BTreeMap::new();
        for holding in &holdings {
            let stage_layer = holding.layer.map(|layer| {
                if !layers.contains(&layer) {
                    layers.push(layer);
                }
                layers.iter().position(|known| *known == layer).unwrap_or(0) as u64
            });
            let split: Split = holding.axes.iter().map(|axis| (axis.over as u8, axis.global, axis.local)).collect();
            let parts = known.entry(split).or_insert_with(|| self.parts(stage, holding));
            let held = parts.iter().map(|(part, ranks)| {
                let held = self.held(stage, stage_layer, holding, ranks, parameters);
                (part.clone(), held)
            });
            let held: Vec<_> = held.collect();
            self.add(holding, held);
        }
        Ok(())
    }

    /// Every distinct part of a tensor on the ranks of a stage, and who holds it.
    fn parts(&self, stage: u64, holding: &Holding) -> Vec<(Part, Vec<u64>)> {
        let mut parts: BTreeMap<Part, Vec<u64>> = BTreeMap::new();
        for rank in self.plan.ranks_of_stage(stage) {
            let part = holding.part(self.plan, &self.plan.coordinates(rank));
            parts.entry(part).or_default().push(rank);
        }
        parts.into_iter().collect()
    }

    fn held(&self, stage: u64, stage_layer: Option<u64>, of: &Holding, ranks: &[u64], parameters: [u64; 2]) -> Held {
        let (elements, all) = (of.elements(), parameters[usize::from(of.expert_group)]);
        let cut = |from| self.plan.cut(of, all, from);
        let weights = self.shards(ranks, of.expert_group, cut(ZeroStage::Parameters));
        let states = if of.is_buffer || self.plan.spec().layout.served().is_some() {
            Vec::new()
        } else {
            self.shards(ranks, of.expert_group, cut(ZeroStage::Optimizer))
        };
        // Rows of padding are the last ones of a tensor.
        let (first, behind) = (&of.axes[0], elements / of.axes[0].local.max(1));
        let at = self.plan.coordinates(ranks[0]);
        let start = self.plan.place_along(&at, first) * first.local;
        let logical = first.logical.saturating_sub(start).min(first.local) * behind;
        let clip = |shard: Shard| Shard { stored: shard.range().end.min(logical).saturating_sub(shard.first), ..shard };
        Held {
            stage,
            chunk: of.chunk,
            stage_layer,
            ranks: runs(ranks),
            weights: weights.into_iter().map(clip).collect(),
            states: states.into_iter().map(clip).collect(),
        }
    }

    /// What of a tensor each replica has, and which ranks those are.
    fn shards(&self, ranks: &[u64], expert: bool, cut: Cut) -> Vec<Shard> {
        let mut shards: Vec<(Range<u64>, Vec<u64>)> = Vec::new();
        for rank in ranks {
            let range = cut.share(self.plan.replica(*rank, expert)).elements;
            if range.is_empty() {
                continue;
            }
            match shards.iter_mut().find(|(known, _)| *known == range) {
                Some((_, ranks)) => ranks.push(*rank),
                None => shards.push((range, vec![*rank])),
            }
        }
        shards.sort_by_key(|(range, _)| range.start);
        let of = |(range, ranks): (Range<u64>, Vec<u64>)| Shard {
            first: range.start,
            elements: range.end - range.start,
            ranks: runs(&ranks),
            stored: 0,
            writer: None,
        };
        shards.into_iter().map(of).collect()
    }

    fn add(&mut self, holding: &Holding, held: Vec<(Part, Held)>) {
        let name = holding.tensor();
        let next = self.tensors.len();
        let place = *self.places.entry(name.clone()).or_insert(next);
        if place == next {
            self.tensors.push(Tensor {
                name,
                key: holding.key().to_owned(),
                layer: holding.layer,
                block: holding.block,
                module: holding.module.name().to_owned(),
                buffer: holding.is_buffer,
                expert_group: holding.expert_group,
                element: holding.element.name.to_owned(),
                shape: holding.axes.iter().map(|axis| axis.logical).collect(),
                padded: holding.axes.iter().map(|axis| axis.global).collect(),
                slices: Vec::new(),
            });
        }
        let has_experts = holding.axes[0].symbol == Symbol::Experts;
        for (part, held) in held {
            let slices = &mut self.tensors[place].slices;
            if let Some(slice) = slices.iter_mut().find(|slice| slice.part == part) {
                slice.held.push(held);
                continue;
            }
            let experts = if has_experts { self.orders.within(holding.layer, &part) } else { Vec::new() };
            slices.push(Slice { part, experts, held: vec![held] });
        }
    }
}

impl Orders {
    /// The experts at places of a layer. Places behind an order are experts without weights, which stay where they are.
    fn within(&self, layer: Option<u64>, part: &Part) -> Vec<u64> {
        let order = layer.and_then(|layer| self.of(layer)).unwrap_or_default();
        let at = |place: u64| usize::try_from(place).ok().and_then(|place| order.get(place)).copied().unwrap_or(place);
        (part.start[0]..part.start[0] + part.shape[0]).map(at).collect()
    }
}

impl Tensor {
    /// Each element of a slice is in one file: of weights that several ranks hold, tensors take turns.
    fn choose_writers(&mut self, number: u64) {
        for slice in &mut self.slices {
            let Some(held) = slice.held.first_mut() else { continue };
            for shard in held.weights.iter_mut().chain(&mut held.states).filter(|shard| shard.stored > 0) {
                let count: u64 = shard.ranks.iter().map(|ranks| ranks.count).sum();
                let mut ranks = shard.ranks.iter().flat_map(|ranks| ranks.into_iter());
                shard.writer = ranks.nth(usize::try_from(number % count.max(1)).unwrap_or(0));
            }
        }
    }
}

/// Ranks as evenly spaced runs.
fn runs(ranks: &[u64]) -> Vec<Ranks> {
    let mut runs: Vec<Ranks> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some(run) if run.count == 1 => (run.stride, run.count) = (rank - run.first, 2),
            Some(run) if rank - run.last() == run.stride => run.count += 1,
            _ => runs.push(Ranks { first: *rank, stride: 1, count: 1 }),
        }
    }
    runs
}
