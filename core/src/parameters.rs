//! How many parameters a model has: over all ranks, each counted once; or on one rank of a stage.

use crate::inventory::{Counts, Sink};
use crate::plan::Plan;
use crate::saturating::{add, cut, mul};
use crate::spec::{Architecture, CorrectionBias, Layout, Spec};
use crate::tally::Tally;
use crate::weights;

/// Parameter counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Parameters {
    /// Router, routed and shared experts.
    pub moe: u64,
    /// Everything else, multi-token-prediction modules apart.
    pub non_moe: u64,
}

impl Parameters {
    pub(crate) const fn of(tally: &Tally) -> Self {
        Self { moe: cut(tally.moe), non_moe: cut(tally.non_moe) }
    }

    /// All of them.
    #[must_use]
    pub const fn total(self) -> u64 {
        add(self.moe, self.non_moe)
    }
}

impl Architecture {
    /// The whole model on one rank.
    const fn alone(&self) -> Plan {
        let spec = Spec { architecture: *self, layout: Layout::DEFAULT };
        assert!(spec.is_in_range(), "a number of the architecture lies outside what its key may hold");
        Plan::alone(spec)
    }

    /// Parameters of the whole model, each counted once, without multi-token-prediction modules and buffers.
    ///
    /// # Panics
    /// If a number lies outside what its key may hold.
    #[must_use]
    pub const fn parameters(&self) -> Parameters {
        Parameters::of(&self.tally())
    }

    /// The sums of the whole model.
    const fn tally(&self) -> Tally {
        let plan = self.alone();
        let mut list = Sink::new(&mut []);
        weights::list(&mut list, &plan, &plan.sizes(), Counts::of(&plan.chunk(0, 0), 1).tied(self.tied_embeddings));
        list.tally
    }

    /// Parameters that one token meets: all of them but the routed experts that it does not visit. Embedding and head
    /// are counted in full, multi-token-prediction modules and buffers not.
    ///
    /// # Panics
    /// If a number lies outside what its key may hold.
    #[must_use]
    pub const fn active_parameters(&self) -> u64 {
        let tally = self.tally();
        // By default the routed experts are what the group of experts holds.
        let (all, routed) = (tally.moe + tally.non_moe, tally.grouped[1]);
        if self.experts.routed == 0 {
            return cut(all);
        }
        cut(all - routed + routed / self.experts.routed as u128 * self.experts.active as u128)
    }

    /// The same without the embedding table, which a token looks up one row of; tied, it is the head, and counted.
    ///
    /// # Panics
    /// If a number lies outside what its key may hold.
    #[must_use]
    pub const fn active_without_input_embedding(&self) -> u64 {
        let table = if self.tied_embeddings.is_on() { 0 } else { self.table() };
        self.active_parameters().saturating_sub(table)
    }

    /// The same without embedding table and head, and the head's bias.
    ///
    /// # Panics
    /// If a number lies outside what its key may hold.
    #[must_use]
    pub const fn active_without_embedding_and_head(&self) -> u64 {
        let bias = if self.head_bias.is_on() { self.vocab } else { 0 };
        self.active_without_input_embedding().saturating_sub(add(self.table(), bias))
    }

    /// Elements of the embedding table, and of the head.
    const fn table(&self) -> u64 {
        mul(self.vocab, self.hidden)
    }

    /// Parameters of the multi-token-prediction modules; they use the model's embedding and head.
    ///
    /// # Panics
    /// If a number lies outside what its key may hold.
    #[must_use]
    pub const fn mtp_parameters(&self) -> u64 {
        let plan = self.alone();
        let mut list = Sink::new(&mut []);
        weights::list_mtp(&mut list, &plan);
        let tally = list.tally;
        cut(tally.moe + tally.non_moe)
    }

    /// Elements of persistent buffers: the router's correction bias, one for each expert and layer.
    #[must_use]
    pub const fn buffer_elements(&self) -> u64 {
        self.buffers_of(self.layers.moe)
    }

    /// Elements of persistent buffers in the multi-token-prediction modules.
    #[must_use]
    pub const fn mtp_buffer_elements(&self) -> u64 {
        self.buffers_of(if self.layers.moe > 0 { self.mtp } else { 0 })
    }

    const fn buffers_of(&self, layers_with_experts: u64) -> u64 {
        match self.experts.correction_bias {
            CorrectionBias::On => mul(layers_with_experts, self.experts.routed),
            CorrectionBias::Off | CorrectionBias::Parameter => 0,
        }
    }

    /// Elements that a checkpoint holds of the model: its parameters and persistent buffers. What it holds of
    /// multi-token-prediction modules comes on top: [`mtp_parameters`](Self::mtp_parameters),
    /// [`mtp_buffer_elements`](Self::mtp_buffer_elements), and in some a copy of embedding and head.
    ///
    /// # Panics
    /// If a number lies outside what its key may hold.
    #[must_use]
    pub const fn checkpoint_elements(&self) -> u64 {
        add(self.parameters().total(), self.buffer_elements())
    }
}
