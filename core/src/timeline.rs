//! The timeline of a rank: what it holds while each event of a step runs. The budget's peak is the most that any moment of
//! any rank can hold; here every moment is looked at, by what runs in it.

use crate::bytes::Bytes;
use crate::events::{Event, Work};
use crate::inventory::{Phase, Role};
use crate::plan::Plan;
use crate::saturating::cut;
use crate::tally::{ROLES, Tally, Units};
use alloc::vec::Vec;

/// What a rank holds at the worst while one event runs, or between steps and in the optimizer step; of a rank that serves in
/// each of its phases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// What runs; none before the first forward and in the optimizer step.
    pub event: Option<Event>,
    /// The phase that it belongs to: the gradient of weights is backward's.
    pub phase: Phase,
    held: [Bytes; ROLES],
}

impl Moment {
    /// What it holds in one role: of activations those of all micro-batches in flight, this one's among them; of transients
    /// what the largest block that runs works on.
    #[must_use]
    pub const fn role(&self, role: Role) -> Bytes {
        self.held[role as usize]
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> Bytes {
        self.held.into_iter().fold(Bytes::ZERO, Bytes::plus)
    }
}

impl Plan {
    /// What a rank of a stage holds, moment after moment of a step; of a layout that serves once loaded, while prompts run, and
    /// while single tokens do.
    ///
    /// Activations of a chunk count whole from its forward on. What is in flight follows from the events of the rank, so
    /// that the largest moment is the budget's peak where a rank holds one chunk, or runs the reference step; of several the
    /// budget takes the largest block of all otherwise, here it is that of the chunk that runs.
    ///
    /// ```
    /// use moe_model_core::preset::DEEPSEEK_V2_LITE;
    /// use moe_model_core::spec::{Batch, Mesh, Spec};
    /// use moe_model_core::{Bytes, Plan};
    ///
    /// let mut spec = Spec { architecture: DEEPSEEK_V2_LITE, ..Spec::DEFAULT };
    /// spec.layout.mesh = Mesh { dp: 8, ep: 8, pp: 3, ..Mesh::DEFAULT };
    /// spec.layout.batch = Batch { sequence: 4096, count: 12, ..Batch::DEFAULT };
    /// let plan = Plan::new(spec).expect("the layout is legal");
    /// let most = plan.timeline(0).iter().map(|moment| moment.total()).max();
    /// assert_eq!(most, Some(plan.budget(0).peak().total));
    /// ```
    ///
    /// # Panics
    /// If there are not so many stages.
    #[must_use]
    pub fn timeline(&self, stage: u64) -> Vec<Moment> {
        let units = Units::of(self);
        let all = units.stage(self, stage, &self.chunk(stage, 0), self.in_flight(stage));
        let of_chunk = |chunk| {
            let chunk = &self.chunk(stage, chunk);
            units.parts(self, chunk, &units.counts(self, chunk, 1))
        };
        let chunks: Vec<Tally> = (0..self.chunks()).map(of_chunk).collect();
        let moment = |event, phase, more: &[(Role, u128)]| {
            let mut held = all.always;
            for (role, bytes) in more {
                held[*role as usize] += bytes;
            }
            Moment { event, phase, held: held.map(|amount| Bytes::new(cut(amount))) }
        };
        let rest = |phase, works| moment(None, phase, &[(Role::Workspace, all.idle), (Role::Transient, works)]);
        if self.spec().layout.served().is_some() {
            return self.phases().iter().map(|phase| rest(*phase, all.transients(*phase))).collect();
        }
        let mut moments = Vec::new();
        moments.push(rest(Phase::BetweenSteps, 0));
        let mut held = 0;
        for event in self.events(stage) {
            // There are as many tallies as chunks.
            let Some(chunk) = usize::try_from(event.chunk).ok().and_then(|chunk| chunks.get(chunk)) else { continue };
            let phase = if event.work == Work::Forward { Phase::Forward } else { Phase::Backward };
            held += if event.work == Work::Forward { chunk.micro_batch } else { 0 };
            let (away, works) = match event.work {
                Work::Forward | Work::Backward => (chunk.away(phase), chunk.transients(phase)),
                Work::Weight => (0, 0),
            };
            let more = [(Role::Activation, held - away), (Role::Transient, works), (Role::Communication, all.buffers)];
            moments.push(moment(Some(event), phase, &more));
            held -= if event.work == Work::Weight { chunk.micro_batch } else { 0 };
        }
        moments.push(rest(Phase::OptimizerStep, all.transients(Phase::OptimizerStep)));
        moments
    }
}
