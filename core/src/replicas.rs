//! What replicas of a part of the model send one another in a step: sums of gradients, and what ZeRO shares out of weights.

use crate::bytes::Bytes;
use crate::plan::Plan;
use crate::saturating::{add, cut, mul};
use crate::spec::{ZeroGroups, ZeroStage};
use crate::tally::Units;

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
        let layout = &self.spec().layout;
        if layout.served().is_some() {
            return ReplicaTraffic::default();
        }
        let tally = Units::of(self).stage(self, stage, &self.chunk(stage, 0), self.in_flight(stage));
        let [dense, expert] = tally.grouped.map(cut);
        let experts = self.of_group(expert, layout.zero.expert, true);
        let others = self.of_group(dense, layout.zero.dense, false);
        ReplicaTraffic {
            gradients: experts.gradients.plus(others.gradients),
            weights: experts.weights.plus(others.weights),
        }
    }

    /// The same of so many parameters, the dense ones of a rank or those of experts.
    fn of_group(&self, parameters: u64, stage: ZeroStage, expert: bool) -> ReplicaTraffic {
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
        let shard = parameters.div_ceil(shards);
        let once = to_others(parameters, shards);
        // What each instance has summed.
        let between = mul(2, to_others(shard, instances));
        let (gradients, weights) = match stage {
            ZeroStage::None => (mul(2, to_others(parameters, replicas)), 0),
            ZeroStage::Optimizer => (add(once, between), once),
            ZeroStage::Gradients => (add(mul(micro_batches, once), between), once),
            ZeroStage::Parameters => (add(mul(micro_batches, once), between), mul(mul(2, micro_batches), once)),
        };
        ReplicaTraffic {
            gradients: Bytes::new(mul(gradients, precision.gradients.bytes())),
            weights: Bytes::new(mul(weights, precision.weights.bytes())),
        }
    }
}

/// So much of an amount as goes to the others of some ranks, each of which has a shard, the last ones padded.
const fn to_others(amount: u64, ranks: u64) -> u64 {
    mul(amount.div_ceil(ranks), ranks - 1)
}
