//! How many parameters a model has: over all ranks, each counted once; or on one rank of a stage.

use crate::bytes::Bytes;
use crate::counts::Counts;
use crate::inventory::{Entry, Inventory, Module, Role, Sink};
use crate::plan::Plan;
use crate::saturating::{add, cut, mul};
use crate::spec::{Architecture, Dtype, Layout, Spec};
use crate::tally::Tally;
use crate::weights::{self, Buffers};

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
    pub(crate) const fn alone(&self) -> Plan {
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
        let mut list = Sink::new(&mut []);
        self.list(&mut list);
        *list.tally()
    }

    /// Lists the weights of the whole model.
    const fn list(&self, list: &mut Sink<'_>) {
        let plan = self.alone();
        let counts = Counts::of(&plan, &plan.chunk(0, 0), 1);
        weights::list(list, &plan, &plan.sizes(), counts.tied(self.tied_embeddings));
    }

    /// Parameters of one module over all layers; of multi-token-prediction modules they are
    /// [`mtp_parameters`](Self::mtp_parameters).
    ///
    /// # Panics
    /// If a number lies outside what its key may hold.
    #[must_use]
    #[allow(clippy::large_stack_arrays)] // 64 KiB, for the length of a call
    pub const fn module_parameters(&self, module: Module) -> u64 {
        let mut entries = [Entry::NONE; Inventory::CAPACITY];
        let mut list = Sink::new(&mut entries);
        self.list(&mut list);
        let (mut sum, mut i) = (0, 0);
        while i < entries.len() {
            if entries[i].module as u8 == module as u8 {
                sum = add(sum, mul(entries[i].global_elements(), entries[i].count));
            }
            i += 1;
        }
        sum
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

    /// Parameters of the multi-token-prediction modules; they use the model's embedding and head.
    ///
    /// # Panics
    /// If a number lies outside what its key may hold.
    #[must_use]
    pub const fn mtp_parameters(&self) -> u64 {
        let plan = self.alone();
        let mut list = Sink::new(&mut []);
        weights::list_mtp(&mut list, &plan);
        let tally = list.tally();
        cut(tally.moe + tally.non_moe)
    }

    /// [`active_parameters`](Self::active_parameters) without the embedding table, of which a token meets one row. A table
    /// that is the head too is counted.
    ///
    /// # Panics
    /// If a number lies outside what its key may hold.
    #[must_use]
    pub const fn active_without_input_embedding(&self) -> u64 {
        if self.tied_embeddings.is_on() {
            return self.active_parameters();
        }
        self.active_parameters() - self.module_parameters(Module::Embedding)
    }

    /// [`active_parameters`](Self::active_parameters) without the embedding table and the head.
    ///
    /// # Panics
    /// If a number lies outside what its key may hold.
    #[must_use]
    pub const fn active_without_embedding_and_head(&self) -> u64 {
        let ends = add(self.module_parameters(Module::Embedding), self.module_parameters(Module::Head));
        self.active_parameters() - ends
    }

    /// Elements of persistent buffers: the router's correction bias, one for each expert and layer, tables of routers that look
    /// experts up, scalars of layers, decays of lightning attention; without those of multi-token-prediction modules.
    ///
    /// # Panics
    /// If a number lies outside what its key may hold.
    #[must_use]
    pub const fn buffer_elements(&self) -> u64 {
        self.buffers_of(Module::Router, &Buffers::of(&self.layers, &self.experts))
    }

    /// Elements of persistent buffers in the multi-token-prediction modules.
    ///
    /// # Panics
    /// If a number lies outside what its key may hold.
    #[must_use]
    pub const fn mtp_buffer_elements(&self) -> u64 {
        let moe = if self.layers.moe > 0 { self.mtp } else { 0 };
        self.buffers_of(Module::Mtp, &Buffers { moe, ..Buffers::NONE })
    }

    const fn buffers_of(&self, router: Module, buffers: &Buffers) -> u64 {
        let (plan, mut list) = (self.alone(), Sink::new(&mut []));
        weights::list_buffers(&mut list, &plan, &plan.sizes(), router, buffers);
        let tally = list.tally();
        cut(tally.moe + tally.non_moe)
    }

    /// What the weights take in memory, with buffers in formats of their own: of the whole model, as one rank that serves it
    /// holds it, without multi-token-prediction modules and without copies.
    ///
    /// ```
    /// use moe_model_core::preset::DEEPSEEK_V3;
    /// use moe_model_core::spec::Dtype;
    ///
    /// // Two bytes a parameter, and 58 layers of 256 correction biases in fp32.
    /// assert_eq!(DEEPSEEK_V3.weight_bytes(Dtype::Bf16).bytes(), 2 * 671_026_404_352 + 4 * 14_848);
    /// ```
    ///
    /// # Panics
    /// If a number lies outside what its key may hold.
    #[must_use]
    pub const fn weight_bytes(&self, dtype: Dtype) -> Bytes {
        let (plan, mut list) = (self.alone(), Sink::new(&mut []));
        let buffers = Buffers::of(&self.layers, &self.experts);
        weights::list_buffers(&mut list, &plan, &plan.sizes(), Module::Router, &buffers);
        let buffers = list.tally().always[Role::Weight as usize];
        Bytes::new(cut(self.parameters().total() as u128 * dtype.bytes() as u128 + buffers))
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
