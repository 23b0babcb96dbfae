//! Every schedule, run event by event as its framework runs it: no rank waits for ever, every micro-batch passes every
//! layer once in either direction, and what a rank holds at its worst is what the budget says.

use moe_model::events::Event;
use moe_model::events::Work::{Backward as B, Forward as F, Weight as W};
use moe_model::inventory::Phase;
use moe_model::preset::DEEPSEEK_V2_LITE;
use moe_model::spec::{
    Accounting, Attention, Batch, Experts, Gqa, Layers, Mesh, Recompute, Schedule, Spec, StageList, Stages, Switch,
};
use moe_model::timeline::Moment;
use moe_model::{Bytes, Plan, Role};
use std::collections::HashSet;

#[derive(Clone, Copy, Debug)]
struct Pipeline {
    schedule: Schedule,
    ranks: u64,
    chunks: u64,
    count: u64,
    group: u64,
}

impl Pipeline {
    /// The events of each rank, of a plan with one layer in every virtual stage.
    fn events(&self) -> Vec<Vec<Event>> {
        let places = usize::try_from(self.places()).expect("stages are few");
        let list = StageList::parse(&format!("Et{}L", "|t".repeat(places - 1)));
        let plan = Plan::new(self.spec(list)).unwrap_or_else(|violations| panic!("{self:?}\n{violations}"));
        (0..self.ranks).map(|rank| plan.events(rank)).collect()
    }

    /// The virtual stage of a chunk of a rank, and the direction of its micro-batches.
    fn place(&self, rank: u64, chunk: u64) -> (u64, u64) {
        match self.schedule {
            Schedule::ZbV | Schedule::DualPipeV => (if chunk == 0 { rank } else { 2 * self.ranks - 1 - rank }, 0),
            Schedule::DualPipe => {
                // The first half of the ranks begin with what enters at rank 0, the others with what enters at the last.
                let direction = chunk ^ u64::from(rank >= self.ranks / 2);
                (if direction == 0 { rank } else { self.ranks - 1 - rank }, direction)
            }
            _ => (chunk * self.ranks + rank, 0),
        }
    }

    fn places(&self) -> u64 {
        if self.schedule == Schedule::DualPipe { self.ranks } else { self.ranks * self.chunks }
    }

    /// Runs all ranks side by side.
    fn run(&self) {
        let ranks = self.events();
        let mut next = vec![0; ranks.len()];
        let mut done = HashSet::new();
        loop {
            let mut moved = false;
            for (rank, events) in ranks.iter().enumerate() {
                while let Some(Event { work, chunk, micro_batch }) = events.get(next[rank]).copied() {
                    let (place, direction) = self.place(rank as u64, chunk);
                    let is_done = |work, place| done.contains(&(work, place, direction, micro_batch));
                    let ready = match work {
                        F => place == 0 || is_done(F, place - 1),
                        B => is_done(F, place) && (place + 1 == self.places() || is_done(B, place + 1)),
                        W => is_done(B, place),
                    };
                    if !ready {
                        break;
                    }
                    assert!(done.insert((work, place, direction, micro_batch)), "{self:?}: twice {work:?} of {place}");
                    next[rank] += 1;
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        let left = ranks.iter().zip(&next).any(|(events, next)| *next < events.len());
        assert!(!left, "{self:?}: every rank waits");
        // Whichever end they enter at.
        assert_eq!(done.len() as u64, 3 * self.places() * self.count, "{self:?}");
    }

    fn spec(&self, list: StageList) -> Spec {
        let mut spec = Spec::DEFAULT;
        spec.architecture.hidden = 8;
        spec.architecture.vocab = 5;
        spec.architecture.layers = Layers { dense: list.layers(), moe: 0, ffn: 3, ..Layers::DEFAULT };
        spec.architecture.attention = Attention::Gqa(Gqa { heads: 1, kv_heads: 1, head_dim: 2, ..Gqa::DEFAULT });
        spec.layout.schedule = self.schedule;
        spec.layout.stages = Stages { list, ..Stages::EVEN };
        spec.layout.mesh = Mesh { pp: self.ranks, vpp: self.chunks, ..Mesh::DEFAULT };
        let group = if self.schedule == Schedule::Interleaved { self.group } else { 0 };
        spec.layout.batch = Batch { sequence: 4, count: self.count, group, ..Batch::DEFAULT };
        spec
    }
}

/// The most that a rank holds, each of its chunks weighing something.
fn most(events: &[Event], weights: &[u64]) -> u64 {
    let (mut held, mut most) = (0, 0);
    for event in events {
        let weight = weights[usize::try_from(event.chunk).expect("chunks are few")];
        match event.work {
            F => held += weight,
            B => {}
            W => held -= weight,
        }
        most = most.max(held);
    }
    most
}

/// Legal pipelines of some schedule, small ones all and larger ones here and there.
fn pipelines(schedule: Schedule) -> Vec<Pipeline> {
    let mut pipelines = Vec::new();
    for ranks in 1..=16 {
        for chunks in 1..=4 {
            for count in (1..=24).chain([31, 32, 48, 63, 64]) {
                let pipeline = Pipeline { schedule, ranks, chunks, count, group: ranks };
                let groups =
                    if schedule == Schedule::Interleaved { vec![ranks, ranks + 1, count] } else { vec![ranks] };
                pipelines.extend(groups.into_iter().map(|group| Pipeline { group, ..pipeline }).filter(is_legal));
            }
        }
    }
    assert!(pipelines.len() >= 60, "{schedule:?} has legal pipelines, {} of them", pipelines.len());
    pipelines
}

fn is_legal(pipeline: &Pipeline) -> bool {
    let Pipeline { schedule, ranks, chunks, count, group } = *pipeline;
    match schedule {
        Schedule::Gpipe | Schedule::OneFOneB | Schedule::ZbH1 => chunks == 1,
        Schedule::Interleaved => {
            let last = count % group;
            ranks > 1 && chunks > 1 && (ranks..=count).contains(&group) && (last == 0 || last >= ranks)
        }
        Schedule::ZbV => ranks > 1 && chunks == 2,
        Schedule::DualPipe => chunks == 2 && ranks % 2 == 0 && count % 2 == 0 && count >= 2 * ranks,
        Schedule::DualPipeV => ranks > 1 && chunks == 2 && count >= 2 * ranks,
    }
}

/// A list of some layers each, different from stage to stage.
fn list(random: &mut fastrand::Rng, places: u64) -> StageList {
    let stages: Vec<String> = (0..places).map(|_| "t".repeat(random.usize(0..4))).collect();
    StageList::parse(&format!("Et{}L", stages.join("|")))
}

#[test]
fn schedules_end() {
    for schedule in Schedule::ALL {
        for pipeline in pipelines(*schedule).iter().filter(|pipeline| pipeline.ranks <= 8) {
            pipeline.run();
        }
    }
}

#[test]
fn micro_batches_in_flight_are_those_of_the_schedule() {
    for schedule in Schedule::ALL {
        for pipeline in pipelines(*schedule) {
            let list =
                StageList::parse(&format!("Et{}L", "|t".repeat(usize::try_from(pipeline.places()).unwrap() - 1)));
            let plan = Plan::new(pipeline.spec(list)).unwrap_or_else(|violations| panic!("{pipeline:?}\n{violations}"));
            for rank in 0..pipeline.ranks {
                assert_eq!(plan.in_flight(rank), most(&plan.events(rank), &[1; 4]), "{pipeline:?} rank {rank}");
            }
        }
    }
}

/// Chunks of different weight: the worst moment is found, not assumed.
#[test]
fn stored_activations_are_those_of_the_worst_moment() {
    let mut random = fastrand::Rng::with_seed(7);
    for schedule in Schedule::ALL {
        for pipeline in pipelines(*schedule).iter().filter(|pipeline| pipeline.ranks <= 8) {
            let list = list(&mut random, pipeline.places());
            let plan = Plan::new(pipeline.spec(list)).unwrap_or_else(|violations| panic!("{pipeline:?}\n{violations}"));
            // Every virtual stage as a rank of its own shows what its micro-batches weigh.
            let apart = Pipeline { schedule: Schedule::Gpipe, ranks: pipeline.places(), chunks: 1, count: 1, group: 0 };
            let apart = Plan::new(apart.spec(list)).expect("a rank for each stage is legal");
            let mut worst = Bytes::ZERO;
            for rank in 0..pipeline.ranks {
                let weight = |chunk| apart.budget(pipeline.place(rank, chunk).0).per_micro_batch().bytes();
                let weights: Vec<u64> = (0..pipeline.chunks).map(weight).collect();
                let budget = plan.budget(rank);
                let most = most(&plan.events(rank), &weights);
                assert_eq!(budget.stored_activations().bytes(), most, "{pipeline:?} {list} rank {rank} {weights:?}");
                assert_eq!(budget.per_micro_batch().bytes(), weights.iter().sum::<u64>(), "{pipeline:?} rank {rank}");
                worst = worst.max(budget.peak().total);
                timeline_agrees(&plan, rank);
            }
            assert_eq!(plan.peak().total, worst, "{pipeline:?} {list}");
        }
    }
}

/// The largest moment of a rank is the budget's peak; of several chunks the budget's is that of the largest block of all, but
/// where the accounting follows blocks.
fn timeline_agrees(plan: &Plan, rank: u64) {
    let (timeline, budget) = (plan.timeline(rank), plan.budget(rank));
    let worst = |phase| timeline.iter().filter(|moment| moment.phase == phase).map(Moment::total).max();
    for phase in [Phase::BetweenSteps, Phase::Forward, Phase::Backward, Phase::OptimizerStep] {
        let (listed, budgeted) = (worst(phase).expect("every phase has a moment"), budget.phase(phase));
        if plan.chunks() == 1 || plan.spec().layout.accounting == Accounting::REFERENCE {
            assert_eq!(listed, budgeted, "{phase:?} of {rank} of {:#?}", plan.spec());
        } else {
            assert!(listed <= budgeted, "{phase:?} of {rank}: {listed} > {budgeted} of {:#?}", plan.spec());
        }
    }
    let last = timeline.last().expect("there are moments");
    assert_eq!((last.phase, last.role(Role::Activation)), (Phase::OptimizerStep, Bytes::ZERO));
    // Role by role what stands is the budget's in every moment, and between steps and in the optimizer step all is.
    for moment in &timeline {
        for role in Role::ALL {
            let is_whole = moment.event.is_none() || !matches!(role, Role::Activation | Role::Transient);
            let budgeted = budget.role_in(*role, moment.phase);
            assert!(!is_whole || moment.role(*role) == budgeted, "{role} of {rank} in {moment:?}: {budgeted}");
        }
        assert_eq!(moment.total(), Role::ALL.iter().map(|role| moment.role(*role)).sum());
    }
}

/// What blocks work on, what is recomputed and what stands, moment after moment.
#[test]
fn the_largest_moment_is_the_peak() {
    for recompute in [Recompute::None, Recompute::Full] {
        for accounting in [Accounting::PAPER, Accounting::WORKED_EXAMPLE, Accounting::MEGATRON_CORE] {
            let mut spec = Spec { architecture: DEEPSEEK_V2_LITE, ..Spec::DEFAULT };
            spec.layout.mesh = Mesh { dp: 8, ep: 4, tp: 2, pp: 3, sequence_parallel: Switch::On, ..Mesh::DEFAULT };
            spec.layout.batch = Batch { sequence: 512, count: 12, ..Batch::DEFAULT };
            (spec.layout.recompute, spec.layout.accounting) = (recompute, accounting);
            let plan = Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"));
            (0..plan.stages()).for_each(|stage| timeline_agrees(&plan, stage));
        }
    }
}

/// Of interleaved chunks that weigh differently and work on different things, the reference step's budget finds the largest
/// moment of each phase, and the worst rank.
#[test]
fn chunks_of_the_reference_step_are_followed_one_by_one() {
    let mut random = fastrand::Rng::with_seed(11);
    let pipelines = pipelines(Schedule::Interleaved);
    for pipeline in pipelines.iter().filter(|pipeline| pipeline.ranks <= 6) {
        let list = list(&mut random, pipeline.places());
        let mut spec = pipeline.spec(list);
        let dense = random.u64(0..=list.layers());
        let layers = &mut spec.architecture.layers;
        (layers.dense, layers.moe, layers.ffn) = (dense, list.layers() - dense, random.u64(1..40));
        spec.architecture.experts = Experts { routed: 4, active: 2, ffn: random.u64(1..40), ..Experts::DEFAULT };
        spec.architecture.vocab = random.u64(5..200);
        spec.layout.recompute = if random.bool() { Recompute::Full } else { Recompute::None };
        spec.layout.recompute_layers = if spec.layout.recompute == Recompute::Full { random.u64(0..3) } else { 0 };
        spec.layout.accounting = Accounting::REFERENCE;
        let plan = Plan::new(spec).unwrap_or_else(|violations| panic!("{pipeline:?}\n{violations}"));
        (0..plan.stages()).for_each(|stage| timeline_agrees(&plan, stage));
        let worst = (0..plan.stages()).map(|stage| plan.budget(stage).peak().total).max();
        assert_eq!(Some(plan.peak().total), worst, "{pipeline:?} {list}");
    }
}

/// Layers over the chunks of interleaved ranks, numbered as megatron-core 0.16 numbers them (`get_transformer_layer_offset`).
#[test]
fn chunks_hold_megatrons_layers() {
    for (layers, ranks, chunks, first, last) in [(48, 4, 3, 0, 0), (60, 8, 4, 4, 8), (20, 3, 2, 4, 0), (22, 3, 2, 0, 6)]
    {
        let mut spec = Spec::DEFAULT;
        spec.architecture.layers = Layers { dense: layers, moe: 0, ffn: 1, ..Layers::DEFAULT };
        spec.layout.schedule = Schedule::Interleaved;
        spec.layout.stages = Stages { first, last, ..Stages::EVEN };
        spec.layout.mesh = Mesh { pp: ranks, vpp: chunks, ..Mesh::DEFAULT };
        spec.layout.batch.count = ranks;
        let plan = Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"));
        let apart = u64::from(first > 0) + u64::from(last > 0);
        let middle = (layers - first - last) / (ranks - apart);
        let of = |rank| match rank {
            0 if first > 0 => first,
            rank if rank + 1 == ranks && last > 0 => last,
            _ => middle,
        };
        let mut next = 0;
        for chunk in 0..chunks {
            for rank in 0..ranks {
                let end = next + of(rank) / chunks;
                assert_eq!(plan.chunk(rank, chunk).range(), next..end, "rank {rank} chunk {chunk}");
                next = end;
            }
        }
        assert_eq!(next, layers);
    }
}
