//! The Manifest: who owns which slice of which tensor. Every weight of a model and every buffer that is saved with them, of
//! each its slices, and of each slice the ranks that hold it, what of it each keeps the optimizer's state of, and whose file
//! of a checkpoint it is in.

mod build;
mod overlap;

pub use overlap::{Piece, Run, overlaps};

use crate::groups::Ranks;
use crate::holdings::Part;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// Which ranks own what of each tensor of a model.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Manifest {
    /// Ranks of the job.
    pub world: u64,
    /// Who counts what a rank holds.
    pub accounting: String,
    /// Rows of the vocabulary, padding apart.
    pub vocab_logical: u64,
    /// Rows of the vocabulary, of all ranks.
    pub vocab_padded: u64,
    /// What the optimizer keeps of each parameter, and its gradient.
    pub states: Vec<State>,
    /// Every weight and buffer, in the order of stages.
    pub tensors: Vec<Tensor>,
}

/// What is kept of parameters beside their weights.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct State {
    /// Its role: `gradient`, `master_weight`, `first_moment`, `second_moment`.
    pub role: String,
    /// The format of its elements.
    pub element: String,
    /// Whether replicas of dense parameters share it, and of routed experts.
    pub sharded: [bool; 2],
    /// Whether checkpoints hold it.
    pub saved: bool,
}

/// One tensor of a model, over all ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Tensor {
    /// Its whole name.
    pub name: String,
    /// Its name behind the layer's, as inventories have it.
    pub key: String,
    /// Its layer in the model, from 0; modules for multi-token prediction follow the model's layers.
    pub layer: Option<u64>,
    /// Which of two blocks of its layer it is of, where layers are two.
    pub block: Option<u64>,
    /// What it belongs to.
    pub module: String,
    /// Whether it is a buffer, which nothing optimises.
    pub buffer: bool,
    /// Whether its state is sharded with the routed experts'.
    pub expert_group: bool,
    /// The format of its elements.
    pub element: String,
    /// Its shape, padding apart. Weights of all experts of a layer are one tensor, experts first.
    pub shape: Vec<u64>,
    /// Its shape over all ranks.
    pub padded: Vec<u64>,
    /// What ranks hold of it, each distinct slice once.
    pub slices: Vec<Slice>,
}

/// What some ranks hold of a tensor.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Slice {
    /// Where it lies in the padded tensor.
    pub part: Part,
    /// Of a tensor whose first dimension are experts, the number of each expert in the model, place by place.
    pub experts: Vec<u64>,
    /// Who holds it.
    pub held: Vec<Held>,
}

/// The replicas of a slice on ranks of one stage.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Held {
    /// Their stage.
    pub stage: u64,
    /// The chunk of the rank.
    pub chunk: u64,
    /// The layer among those of the stage, over all its chunks, from 0.
    pub stage_layer: Option<u64>,
    /// All of them.
    pub ranks: Vec<Ranks>,
    /// What of the weights each holds.
    pub weights: Vec<Shard>,
    /// What of the optimizer's state each keeps; nothing of a buffer.
    pub states: Vec<Shard>,
}

/// Elements of a slice, row by row, that some ranks hold.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Shard {
    /// The first element.
    pub first: u64,
    /// How many.
    pub elements: u64,
    /// Who holds them.
    pub ranks: Vec<Ranks>,
    /// How many of them are no padding: what a checkpoint holds.
    pub stored: u64,
    /// In whose file of a checkpoint they are; in nobody's where other ranks hold the same.
    pub writer: Option<u64>,
}

impl Shard {
    /// Its elements.
    #[must_use]
    pub const fn range(&self) -> Range<u64> {
        self.first..self.first.saturating_add(self.elements)
    }

    /// Whether a rank holds them.
    #[must_use]
    pub fn has(&self, rank: u64) -> bool {
        self.ranks.iter().any(|ranks| ranks.has(rank))
    }
}

/// In which order ranks hold the experts of layers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Orders {
    of: BTreeMap<u64, Vec<u64>>,
}

impl Orders {
    /// Each layer in the order of the model: expert 0 first.
    pub const MODEL: Self = Self { of: BTreeMap::new() };

    /// With another order of one layer: the number that each expert has in the model, place by place.
    #[must_use]
    pub fn with(mut self, layer: u64, order: Vec<u64>) -> Self {
        self.of.insert(layer, order);
        self
    }

    /// The experts of a layer, if their order is not the model's.
    #[must_use]
    pub fn of(&self, layer: u64) -> Option<&[u64]> {
        self.of.get(&layer).map(Vec::as_slice)
    }

    /// The layers whose order is not the model's, and the order of each.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u64])> {
        self.of.iter().map(|(layer, order)| (*layer, order.as_slice()))
    }
}

impl Tensor {
    /// Its elements, padding apart.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1, |product, length| product.saturating_mul(*length))
    }
}
