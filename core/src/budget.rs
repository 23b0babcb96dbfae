//! The Budget: a rank's inventory added up by phase and role, and the worst rank in its worst phase.

use crate::bytes::Bytes;
use crate::inventory::{Phase, Role};
use crate::parameters::Parameters;
use crate::plan::Plan;
use crate::saturating::cut;
use crate::stages::{Chunk, Order};
use crate::tally::{Tally, Units};

/// Bytes on each rank of a stage, by phase and role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    stage: u64,
    in_flight: u64,
    phases: &'static [Phase],
    tally: Tally,
}

impl Budget {
    pub(crate) const fn of(plan: &Plan, units: &Units, stage: u64) -> Self {
        Self::of_chunk(plan, units, stage, &plan.chunk(stage, 0))
    }

    /// The same, its first chunk being known.
    const fn of_chunk(plan: &Plan, units: &Units, stage: u64, chunk: &Chunk) -> Self {
        let in_flight = plan.in_flight(stage);
        Self { stage, in_flight, phases: plan.phases(), tally: units.stage(plan, stage, chunk, in_flight) }
    }

    /// The stage.
    #[must_use]
    pub const fn stage(&self) -> u64 {
        self.stage
    }

    /// Micro-batches whose activations are held at once, at most, each chunk's counted by itself.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Parameters on the rank, before ZeRO shares them out.
    #[must_use]
    pub const fn parameters(&self) -> Parameters {
        Parameters::of(&self.tally)
    }

    /// Bytes of one role at the peak of one phase.
    #[must_use]
    pub const fn role_in(&self, role: Role, phase: Phase) -> Bytes {
        let standing = self.tally.always[role as usize];
        let runs = matches!(phase, Phase::Forward | Phase::Backward);
        let more = match role {
            Role::Activation if runs => self.tally.stored_at(phase),
            Role::Communication if runs => self.tally.buffers,
            Role::Transient => self.tally.transients(phase),
            Role::Workspace if matches!(phase, Phase::BetweenSteps | Phase::OptimizerStep) => self.tally.idle,
            _ => 0,
        };
        Bytes::new(cut(more + standing))
    }

    /// Bytes of one role at the peak of the phase that holds most of it.
    #[must_use]
    pub const fn role(&self, role: Role) -> Bytes {
        let (mut most, mut phase) = (Bytes::ZERO, 0);
        while phase < self.phases.len() {
            most = most.larger(self.role_in(role, self.phases[phase]));
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

    /// What is kept of the sequences that a layout serves: `serving.requests` of `serving.context` tokens, in whole blocks,
    /// and their states; nothing in layouts that train.
    #[must_use]
    pub const fn kv_cache(&self) -> Bytes {
        self.role(Role::KvCache)
    }

    /// Weights, gradients and optimizer state, or weights and cache. What libraries and frameworks keep beside them between
    /// two steps is the [`Role::Workspace`] of that phase.
    #[must_use]
    pub const fn static_bytes(&self) -> Bytes {
        Bytes::new(cut(self.tally.standing() - self.tally.always[Role::Workspace as usize]))
    }

    /// Activations that one micro-batch keeps from its forward to its backward.
    #[must_use]
    pub const fn per_micro_batch(&self) -> Bytes {
        Bytes::new(cut(self.tally.micro_batch))
    }

    /// Activations of all micro-batches in flight.
    #[must_use]
    pub const fn stored_activations(&self) -> Bytes {
        Bytes::new(cut(self.tally.stored))
    }

    /// The largest block that backward computes again, or run of layers, and what backward works on as far as the accounting counts it: without
    /// recomputation nothing under `paper` and `worked_example`.
    #[must_use]
    pub const fn recomputed_block(&self) -> Bytes {
        Bytes::new(cut(self.tally.backward))
    }

    /// Bytes at the peak of a phase.
    #[must_use]
    pub const fn phase(&self, phase: Phase) -> Bytes {
        Bytes::new(cut(self.tally.phase(phase, self.tally.standing())))
    }

    /// The worst phase, the first of those alike.
    #[must_use]
    pub const fn peak(&self) -> Peak {
        let standing = self.tally.standing();
        let (mut worst, mut total, mut i) = (Phase::BetweenSteps, standing + self.tally.idle, 1);
        while i < self.phases.len() {
            let sum = self.tally.phase(self.phases[i], standing);
            if sum > total {
                (worst, total) = (self.phases[i], sum);
            }
            i += 1;
        }
        Peak { stage: self.stage, phase: worst, total: Bytes::new(cut(total)) }
    }
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

/// The worst rank of a plan in its worst phase, the first of those alike.
#[allow(clippy::cast_possible_truncation)] // laws bound the number of uneven stages
pub(crate) const fn peak(plan: &Plan) -> Peak {
    let units = Units::of(plan);
    let mut before = plan.chunk(0, 0);
    let mut peak = Budget::of_chunk(plan, &units, 0, &before).peak();
    let mut last = 0;
    let is_uneven = plan.is_uneven();
    let (candidates, count) = if is_uneven { ([0; CANDIDATES], plan.stages() as usize) } else { candidates(plan) };
    let mut i = 0;
    while i < count {
        // Uneven stages are looked at one by one; laws bound their number.
        let index = if is_uneven { i as u64 } else { candidates[i] };
        if index > last && index < plan.stages() {
            let chunk = plan.chunk(index, 0);
            let is_no_worse = can_be_no_worse(plan) && chunk.holds_as(before) && plan.hold_alike(index, last);
            if !is_no_worse {
                let worst = Budget::of_chunk(plan, &units, index, &chunk).peak();
                if worst.total.bytes() > peak.total.bytes() {
                    peak = worst;
                }
            }
            (before, last) = (chunk, index);
        }
        i += 1;
    }
    peak
}

/// Whether a rank that holds the same layers as one before it holds no more micro-batches of them. So it is where stages
/// follow one another in a loop; folded, a rank holds fewer micro-batches of one chunk and more of the other. Where the first
/// of its layers are computed again, or runs of them, it also matters which those are.
const fn can_be_no_worse(plan: &Plan) -> bool {
    let is_spaced = plan.spec().architecture.layers.moe_every > 1;
    let tells_runs = plan.spec().layout.recompute_together == 0 || !is_spaced;
    let counts_tell = plan.spec().layout.recompute_layers == 0 && tells_runs;
    matches!(plan.shape().order, Order::Loop) && !plan.has_places() && counts_tell
}

const CANDIDATES: usize = 14;

/// The ranks that may be the worst beside the first, in order, and how many of them are to be looked at.
///
/// What a rank holds changes only behind the first stage, where layers with experts begin, and at the last; a pipeline
/// costs as many sums as it has kinds of stages. Within one kind the micro-batches in flight change by the same number
/// from rank to rank (`schedule.rs`), folded ones but for ranks where the micro-batches of a step are all in flight.
const fn candidates(plan: &Plan) -> ([u64; CANDIDATES], usize) {
    let (ranks, turn, count) = (plan.stages(), plan.turn(), plan.spec().layout.batch.count);
    let last = ranks - 1;
    let before = if turn > 0 { turn - 1 } else { 0 };
    let all = match plan.shape().order {
        Order::Loop => return ([1, turn, turn + 1, last, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 4),
        // Ranks behind the middle mirror those before it.
        Order::Mirror => [1, before, turn, turn + 1, ranks / 2 - 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        Order::Vee => {
            let (kink, other) = ((2 * ranks).saturating_sub(count), ranks.saturating_sub(count));
            let middle = [kink.saturating_sub(1), kink, kink + 1, other.saturating_sub(1), other, other + 1];
            let [a, b, c, d, e, f] = middle;
            [1, before, turn, turn + 1, last.saturating_sub(1), last, a, b, c, d, e, f, count - 1, count]
        }
    };
    (sorted(all), CANDIDATES)
}

const fn sorted(mut all: [u64; CANDIDATES]) -> [u64; CANDIDATES] {
    let mut i = 1;
    while i < CANDIDATES {
        let mut k = i;
        while k > 0 && all[k - 1] > all[k] {
            (all[k - 1], all[k]) = (all[k], all[k - 1]);
            k -= 1;
        }
        i += 1;
    }
    all
}
