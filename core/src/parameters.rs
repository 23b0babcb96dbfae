//! How many parameters a model has: over all ranks, each counted once; or on one rank of a stage.

use crate::inventory::{Entry, Inventory, Role};
use crate::plan::Plan;
use crate::spec::{Architecture, Layout, Spec};
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
    /// All of them.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.moe.saturating_add(self.non_moe)
    }

    const fn add(&mut self, entry: &Entry, elements: u64) {
        if matches!(entry.role, Role::Weight) {
            let sum = if entry.module.is_moe() { &mut self.moe } else { &mut self.non_moe };
            *sum = sum.saturating_add(elements.saturating_mul(entry.count));
        }
    }

    /// Of the weights in a rank's inventory, as they are before ZeRO shares them out.
    #[must_use]
    pub const fn on_rank(inventory: &Inventory) -> Self {
        let mut sum = Self { moe: 0, non_moe: 0 };
        let mut i = 0;
        while i < inventory.len() {
            sum.add(inventory.get(i), inventory.get(i).local_elements());
            i += 1;
        }
        sum
    }
}

impl Architecture {
    /// Parameters of the whole model, each counted once, without multi-token-prediction modules and buffers.
    #[must_use]
    pub const fn parameters(&self) -> Parameters {
        let plan = Plan::alone(Spec { architecture: *self, layout: Layout::DEFAULT });
        let mut list = Inventory::new();
        weights::list_stage(&mut list, &plan, plan.stage(0));
        Parameters::on_rank(&list)
    }

    /// Parameters of the multi-token-prediction modules; they use the model's embedding and head.
    #[must_use]
    pub const fn mtp_parameters(&self) -> u64 {
        let plan = Plan::alone(Spec { architecture: *self, layout: Layout::DEFAULT });
        let mut list = Inventory::new();
        weights::list_mtp(&mut list, &plan);
        Parameters::on_rank(&list).total()
    }

    /// Elements of persistent buffers: the router's correction bias, one for each expert and layer.
    #[must_use]
    pub const fn buffer_elements(&self) -> u64 {
        if self.experts.correction_bias.is_on() { self.layers.moe.saturating_mul(self.experts.routed) } else { 0 }
    }
}
