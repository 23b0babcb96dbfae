//! The Budget: a rank's inventory added up by phase and role, and the worst rank in its worst phase.

use crate::bytes::Bytes;
use crate::inventory::{Block, Inventory, Lifetime, Phase, Role};
use crate::parameters::Parameters;
use crate::plan::Plan;

const PHASES: usize = Phase::ALL.len();
const ROLES: usize = Role::ALL.len();

/// Bytes on each rank of a stage, by phase and role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    stage: u64,
    in_flight: u64,
    parameters: Parameters,
    sums: [[Bytes; ROLES]; PHASES],
    per_micro_batch: Bytes,
    recomputed: Bytes,
}

impl Budget {
    pub(crate) const fn of(plan: &Plan, stage: u64) -> Self {
        Self::add_up(&plan.inventory(stage), stage, plan.in_flight(stage))
    }

    /// Adds an inventory up. Of the blocks that take turns in a phase only the largest counts.
    const fn add_up(inventory: &Inventory, stage: u64, in_flight: u64) -> Self {
        let mut sums = [[Bytes::ZERO; ROLES]; PHASES];
        let mut blocks = [[Bytes::ZERO; Block::COUNT]; PHASES];
        let mut standing = [Bytes::ZERO; ROLES];
        let mut per_micro_batch = Bytes::ZERO;
        let mut i = 0;
        while i < inventory.len() {
            let entry = inventory.get(i);
            let (bytes, role) = (entry.bytes(), entry.role as usize);
            match entry.lifetime {
                Lifetime::Always => standing[role] = standing[role].plus(bytes),
                Lifetime::MicroBatch => per_micro_batch = per_micro_batch.plus(bytes),
                Lifetime::ForwardAndBackward => {
                    let (forward, backward) = (Phase::Forward as usize, Phase::Backward as usize);
                    sums[forward][role] = sums[forward][role].plus(bytes);
                    sums[backward][role] = sums[backward][role].plus(bytes);
                }
                Lifetime::Throughout(phase) => {
                    sums[phase as usize][role] = sums[phase as usize][role].plus(bytes);
                }
                Lifetime::Within(phase, block) => {
                    let sum = &mut blocks[phase as usize][block as usize];
                    *sum = sum.plus(bytes);
                }
            }
            i += 1;
        }
        let transient = Role::Transient as usize;
        let saved = Role::Activation as usize;
        let mut phase = 0;
        while phase < PHASES {
            let mut role = 0;
            while role < ROLES {
                sums[phase][role] = sums[phase][role].plus(standing[role]);
                role += 1;
            }
            sums[phase][transient] = sums[phase][transient].plus(largest(&blocks[phase]));
            if phase == Phase::Forward as usize || phase == Phase::Backward as usize {
                sums[phase][saved] = sums[phase][saved].plus(per_micro_batch.times(in_flight));
            }
            phase += 1;
        }
        let recomputed = largest(&blocks[Phase::Backward as usize]);
        Self { stage, in_flight, parameters: Parameters::on_rank(inventory), sums, per_micro_batch, recomputed }
    }

    /// The stage.
    #[must_use]
    pub const fn stage(&self) -> u64 {
        self.stage
    }

    /// Micro-batches whose activations are held at once, at most.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Parameters on the rank, before ZeRO shares them out.
    #[must_use]
    pub const fn parameters(&self) -> Parameters {
        self.parameters
    }

    /// Bytes of one role at the peak of one phase.
    #[must_use]
    pub const fn role_in(&self, role: Role, phase: Phase) -> Bytes {
        self.sums[phase as usize][role as usize]
    }

    /// Bytes of one role at the peak of the phase that holds most of it.
    #[must_use]
    pub const fn role(&self, role: Role) -> Bytes {
        let (mut most, mut phase) = (Bytes::ZERO, 0);
        while phase < PHASES {
            most = most.larger(self.sums[phase][role as usize]);
            phase += 1;
        }
        most
    }

    /// Weights.
    #[must_use]
    pub const fn weights(&self) -> Bytes {
        self.role(Role::Weight)
    }

    /// Gradients.
    #[must_use]
    pub const fn gradients(&self) -> Bytes {
        self.role(Role::Gradient)
    }

    /// Master weights and both moments.
    #[must_use]
    pub const fn optimizer(&self) -> Bytes {
        self.role(Role::MasterWeight).plus(self.role(Role::FirstMoment)).plus(self.role(Role::SecondMoment))
    }

    /// Weights, gradients and optimizer state: what stands between two steps.
    #[must_use]
    pub const fn static_bytes(&self) -> Bytes {
        self.phase(Phase::BetweenSteps)
    }

    /// Activations that one micro-batch keeps from its forward to its backward.
    #[must_use]
    pub const fn per_micro_batch(&self) -> Bytes {
        self.per_micro_batch
    }

    /// Activations of all micro-batches in flight.
    #[must_use]
    pub const fn stored_activations(&self) -> Bytes {
        self.per_micro_batch.times(self.in_flight)
    }

    /// The largest block that backward computes again; nothing without recomputation.
    #[must_use]
    pub const fn recomputed_block(&self) -> Bytes {
        self.recomputed
    }

    /// Bytes at the peak of a phase.
    #[must_use]
    pub const fn phase(&self, phase: Phase) -> Bytes {
        let (mut sum, mut role) = (Bytes::ZERO, 0);
        while role < ROLES {
            sum = sum.plus(self.sums[phase as usize][role]);
            role += 1;
        }
        sum
    }

    /// The worst phase, the first of those alike.
    #[must_use]
    pub const fn peak(&self) -> Peak {
        let mut peak = Peak { stage: self.stage, phase: Phase::BetweenSteps, total: self.static_bytes() };
        let mut i = 1;
        while i < PHASES {
            let total = self.phase(Phase::ALL[i]);
            if total.bytes() > peak.total.bytes() {
                peak = Peak { phase: Phase::ALL[i], total, ..peak };
            }
            i += 1;
        }
        peak
    }
}

const fn largest(blocks: &[Bytes; Block::COUNT]) -> Bytes {
    let (mut most, mut i) = (Bytes::ZERO, 0);
    while i < Block::COUNT {
        most = most.larger(blocks[i]);
        i += 1;
    }
    most
}

/// The most that a rank holds at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peak {
    /// The stage of the rank; all ranks of a stage hold as much.
    pub stage: u64,
    /// When.
    pub phase: Phase,
    /// How much.
    pub total: Bytes,
}

impl Peak {
    /// How much, as a number.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.total.bytes()
    }
}

impl core::fmt::Display for Peak {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} on stage {} in {}", self.total, self.stage, self.phase.name())
    }
}

/// The worst rank of a plan in its worst phase.
///
/// A stage that holds the same layers as the one before has no more micro-batches in flight, under any schedule
/// here, so it is no worse and is not looked at: a pipeline costs as many sums as it has kinds of stages, which
/// change only behind the first stage, where layers with experts begin, and at the last.
pub(crate) const fn peak(plan: &Plan) -> Peak {
    let turn = plan.first_moe_stage();
    let last = plan.stages() - 1;
    let candidates = [1, turn, turn + 1, last];
    let mut before = plan.stage(0);
    let mut peak = Budget::of(plan, 0).peak();
    let mut i = 0;
    while i < candidates.len() {
        let index = candidates[i];
        if index > before.index && index <= last {
            let stage = plan.stage(index);
            if !stage.holds_as(before) {
                let worst = Budget::of(plan, index).peak();
                if worst.total.bytes() > peak.total.bytes() {
                    peak = worst;
                }
            }
            before = stage;
        }
        i += 1;
    }
    peak
}
