//! What replicas of a part of the model send one another in a step: sums of gradients, and what ZeRO shares out of weights.

use crate::bytes::Bytes;
use crate::plan::Plan;
use crate::saturating::{cut, mul};
use crate::spec::{ZeroGroups, ZeroStage};
use crate::tally::Units;
use core::fmt;

/// What a rank sends to other replicas in one step.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ReplicaTraffic {
    /// Of gradients.
    pub gradients: Bytes,
    /// Of weights.
    pub weights: Bytes,
}

impl ReplicaTraffic {
    /// Both together.
    #[must_use]
    pub const fn total(self) -> Bytes {
        self.gradients.plus(self.weights)
    }
}

impl Plan {
    /// What a rank of a stage sends to other replicas in one step, by collectives that send no more than they must
    /// (a reduce-scatter or an all-gather over n ranks sends all but one of n shards, an all-reduce is both):
    ///
    /// * without ZeRO gradients are all-reduced once a step;
    /// * where optimizer state is sharded, they are reduce-scattered once and updated weights all-gathered;
    /// * where gradients are, they are reduce-scattered for every micro-batch, since no rank holds all of them;
    /// * where weights are, they are all-gathered for the forward and for the backward of every micro-batch as well, and not
    ///   once more behind the update.
    ///
    /// That is 2, 2, 2 and 3 times the parameters where there is one micro-batch and one format (arXiv:1910.02054,
    /// section 7). What tensor-parallel ranks sum of parameters that each of them holds, and what the ends of a pipeline sum of
    /// a table that both hold, is not counted. Layouts that serve send nothing.
    ///
    /// ```
    /// use moe_model_core::preset::MIXTRAL_8X7B;
    /// use moe_model_core::spec::{Batch, Mesh, Spec, Zero};
    /// use moe_model_core::{Bytes, Plan};
    ///
    /// let mut spec = Spec { architecture: MIXTRAL_8X7B, ..Spec::DEFAULT };
    /// spec.layout.mesh = Mesh { dp: 8, ep: 8, ..Mesh::DEFAULT };
    /// spec.layout.batch = Batch { sequence: 4096, ..Batch::DEFAULT };
    /// spec.layout.zero = Zero::OPTIMIZER;
    /// let plan = Plan::new(spec).expect("the layout is legal");
    /// // Experts are on one rank each; seven of eight parts of all else are sent, gradients in fp32, weights in bf16.
    /// let dense = 1_605_636_096;
    /// assert_eq!(plan.replica_traffic(0).gradients, Bytes::new(dense / 8 * 7 * 4));
    /// assert_eq!(plan.replica_traffic(0).weights, Bytes::new(dense / 8 * 7 * 2));
    /// ```
    ///
    /// # Panics
    /// If there are not so many stages.
    #[must_use]
    pub fn replica_traffic(&self, stage: u64) -> ReplicaTraffic {
        let mut traffic = ReplicaTraffic::default();
        for sent in self.replica_messages(stage) {
            let sum = if sent.of_weights { &mut traffic.weights } else { &mut traffic.gradients };
            *sum = sum.plus(sent.bytes());
        }
        traffic
    }

    /// The same, collective by collective; those that send nothing are there as well.
    ///
    /// # Panics
    /// If there are not so many stages.
    #[must_use]
    pub fn replica_messages(&self, stage: u64) -> [ReplicaMessage; 6] {
        let layout = &self.spec().layout;
        let tally = Units::of(self).stage(self, stage, &self.chunk(stage, 0), self.in_flight(stage));
        let [dense, expert] = if layout.served().is_some() { [0; 2] } else { tally.grouped.map(cut) };
        let [a, b, c] = self.of_group("dense group", dense, layout.zero.dense, false);
        let [d, e, f] = self.of_group("expert group", expert, layout.zero.expert, true);
        [a, b, c, d, e, f]
    }

    /// Of so many parameters, the dense ones of a rank or those of experts: gradients, gradients between instances, weights.
    fn of_group(&self, group: &'static str, parameters: u64, stage: ZeroStage, expert: bool) -> [ReplicaMessage; 3] {
        let layout = &self.spec().layout;
        let (precision, micro_batches) = (layout.precision, layout.batch.count);
        let shards = self.replicas(expert);
        let replicas = match (layout.zero.groups, expert) {
            (ZeroGroups::Uniform, _) => shards,
            (_, false) => mul(layout.mesh.dp, layout.mesh.cp),
            (_, true) => self.edp(),
        };
        // State may be held several times, each shared out over a part of the replicas.
        let instances = replicas / shards;
        let all = |times, parameters, ranks| ReplicaMessage {
            name: "gradients",
            group,
            times,
            parameters,
            ranks,
            element: precision.gradients.bytes(),
            of_weights: false,
        };
        // What each instance has summed.
        let between = ReplicaMessage { name: "sums of gradients", ..all(2, parameters.div_ceil(shards), instances) };
        let weights = |times| ReplicaMessage {
            name: "weights",
            element: precision.weights.bytes(),
            of_weights: true,
            ..all(times, parameters, shards)
        };
        match stage {
            ZeroStage::None => [all(2, parameters, replicas), ReplicaMessage { times: 0, ..between }, weights(0)],
            ZeroStage::Optimizer => [all(1, parameters, shards), between, weights(1)],
            ZeroStage::Gradients => [all(micro_batches, parameters, shards), between, weights(1)],
            ZeroStage::Parameters => [all(micro_batches, parameters, shards), between, weights(mul(2, micro_batches))],
        }
    }
}

/// What a rank sends to replicas of one thing, in all of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplicaMessage {
    /// Of what.
    pub name: &'static str,
    /// Of which parameters.
    pub group: &'static str,
    /// How many times.
    pub times: u64,
    /// Of so many parameters, each time.
    pub parameters: u64,
    /// Over so many ranks, each of which has a shard, the last ones padded.
    pub ranks: u64,
    /// Bytes of a parameter.
    pub element: u64,
    of_weights: bool,
}

impl ReplicaMessage {
    /// What the rank sends in all.
    #[must_use]
    pub const fn bytes(&self) -> Bytes {
        let others = mul(self.parameters.div_ceil(self.ranks), self.ranks - 1);
        Bytes::new(mul(mul(others, self.times), self.element))
    }
}

/// `P=5637144576 / 8 x 7 others x 4 B x 32`.
impl fmt::Display for ReplicaMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { times, element, parameters, ranks, .. } = self;
        write!(f, "P={parameters} / {ranks} x {} others x {element} B x {times}", ranks - 1)
    }
}
