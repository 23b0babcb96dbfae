//! Every schedule, run event by event as its framework runs it: no rank waits for ever, every micro-batch passes every
//! layer once in either direction, and what a rank holds at its worst is what the budget says.

use moe_model::spec::{Batch, Gqa, Layers, Mesh, Schedule, Spec, StageList, Stages};
use moe_model::{Bytes, Plan, spec::Attention};
use std::collections::HashSet;

/// What a rank does with one chunk of one micro-batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Do {
    Forward,
    /// The gradient of the input, or all of backward where a schedule does not split it.
    Backward,
    /// The gradient of the weights: nothing is held any more.
    Weight,
}

/// An event of one rank: what, on which of its chunks, of which micro-batch of that chunk.
type Event = (Do, u64, u64);

#[derive(Clone, Copy, Debug)]
struct Pipeline {
    schedule: Schedule,
    ranks: u64,
    chunks: u64,
    count: u64,
    group: u64,
}

/// The events of a rank, with the counters that give micro-batches their numbers.
#[derive(Default)]
struct Events {
    list: Vec<Event>,
    next: [[u64; 4]; 3],
}

impl Events {
    fn push(&mut self, what: Do, chunk: u64) {
        let next = &mut self.next[what as usize][usize::try_from(chunk).unwrap()];
        self.list.push((what, chunk, *next));
        *next += 1;
    }

    fn all(&mut self, what: &[(Do, u64)]) {
        for (what, chunk) in what {
            self.push(*what, *chunk);
        }
    }
}

use Do::{Backward as B, Forward as F, Weight as W};

impl Pipeline {
    fn events(&self, rank: u64) -> Vec<Event> {
        match self.schedule {
            Schedule::Gpipe => self.one_by_one(self.count, 0),
            Schedule::OneFOneB => self.one_by_one((self.ranks - rank - 1).min(self.count), 0),
            // torch.distributed.pipelining, ScheduleInterleavedZeroBubble of one stage a rank: the gradients of weights
            // come `rank` micro-batches late.
            Schedule::ZbH1 => self.one_by_one((self.ranks - rank - 1).min(self.count), rank),
            Schedule::Interleaved => self.interleaved(rank),
            Schedule::ZbV => self.zb_v(rank),
            Schedule::DualPipe => dual_pipe(self.ranks, rank.min(self.ranks - 1 - rank), self.count / 2),
            Schedule::DualPipeV => dual_pipe(2 * self.ranks, rank, self.count),
        }
    }

    /// Forwards of a warm-up, then one forward and one backward in turn, gradients of weights `late` micro-batches behind.
    fn one_by_one(&self, warm_up: u64, late: u64) -> Vec<Event> {
        let mut events = Events::default();
        (0..warm_up).for_each(|_| events.push(F, 0));
        for backward in 0..self.count {
            if warm_up + backward < self.count {
                events.push(F, 0);
            }
            events.push(B, 0);
            if backward >= late {
                events.push(W, 0);
            }
        }
        (0..late.min(self.count)).for_each(|_| events.push(W, 0));
        events.list
    }

    /// megatron-core 0.16, `forward_backward_pipelining_with_interleaving`: a table of (micro-batch, chunk), group after
    /// group; forwards follow it, backwards the same with chunks reversed.
    fn interleaved(&self, rank: u64) -> Vec<Event> {
        let mut table = Vec::new();
        let mut first = 0;
        while first < self.count {
            let end = (first + self.group).min(self.count);
            for chunk in 0..self.chunks {
                table.extend((first..end).map(|micro_batch| (chunk, micro_batch)));
            }
            first = end;
        }
        let all = table.len();
        let warm_up = (self.ranks - rank - 1) * 2 + (self.chunks - 1) * self.group;
        // If nothing remains, all but the last is warm-up.
        let warm_up = usize::try_from(warm_up).unwrap().min(all - 1);
        let mut list: Vec<Event> = Vec::new();
        for turn in 0..all + warm_up {
            if let Some((chunk, micro_batch)) = table.get(turn) {
                list.push((F, *chunk, *micro_batch));
            }
            if turn >= warm_up {
                let (chunk, micro_batch) = table[turn - warm_up];
                list.push((B, self.chunks - 1 - chunk, micro_batch));
                list.push((W, self.chunks - 1 - chunk, micro_batch));
            }
        }
        list
    }

    /// torch.distributed.pipelining, `ScheduleZBVZeroBubble`: written for enough micro-batches, those too many left out.
    fn zb_v(&self, rank: u64) -> Vec<Event> {
        let ranks = self.ranks;
        let enough = self.count.max(2 * ranks - 1);
        let mut events = Events::default();
        (0..2 * (ranks - rank) - 1).for_each(|_| events.push(F, 0));
        (0..rank).for_each(|_| events.all(&[(F, 1), (F, 0)]));
        (0..ranks - rank).for_each(|_| events.all(&[(F, 1), (B, 1), (W, 1)]));
        while events.next[F as usize][1] < events.next[F as usize][0] || events.next[F as usize][0] < enough {
            if events.next[F as usize][0] < enough {
                events.push(F, 0);
            }
            events.all(&[(B, 0), (W, 0), (F, 1), (B, 1), (W, 1)]);
        }
        (0..rank).for_each(|_| events.all(&[(B, 0), (B, 1)]));
        (0..ranks - rank).for_each(|_| events.all(&[(B, 0), (W, 0)]));
        for chunk in [1, 0] {
            while events.next[W as usize][chunk] < events.next[B as usize][chunk] {
                events.push(W, chunk as u64);
            }
        }
        events.list.into_iter().filter(|(_, _, micro_batch)| *micro_batch < self.count).collect()
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
        let ranks: Vec<Vec<Event>> = (0..self.ranks).map(|rank| self.events(rank)).collect();
        let mut next = vec![0; ranks.len()];
        let mut done = HashSet::new();
        loop {
            let mut moved = false;
            for (rank, events) in ranks.iter().enumerate() {
                while let Some((what, chunk, micro_batch)) = events.get(next[rank]).copied() {
                    let (place, direction) = self.place(rank as u64, chunk);
                    let is_done = |what, place| done.contains(&(what, place, direction, micro_batch));
                    let ready = match what {
                        F => place == 0 || is_done(F, place - 1),
                        B => is_done(F, place) && (place + 1 == self.places() || is_done(B, place + 1)),
                        W => is_done(B, place),
                    };
                    if !ready {
                        break;
                    }
                    assert!(done.insert((what, place, direction, micro_batch)), "{self:?}: twice {what:?} of {place}");
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

    /// The most that a rank holds, each of its chunks weighing something.
    fn most(&self, rank: u64, weights: &[u64]) -> u64 {
        let (mut held, mut most) = (0, 0);
        for (what, chunk, _) in self.events(rank) {
            match what {
                F => held += weights[usize::try_from(chunk).unwrap()],
                B => {}
                W => held -= weights[usize::try_from(chunk).unwrap()],
            }
            most = most.max(held);
        }
        most
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

/// DeepSeek's DualPipe (`dualpipe.py`, `step`) of so many stages, on a rank `nearest` to the end that its first chunk
/// enters at; `dualpipev.py` is the same for the ranks of a folded pipeline, of twice as many stages.
fn dual_pipe(places: u64, nearest: u64, count: u64) -> Vec<Event> {
    let half = places / 2;
    let mut events = Events::default();
    (0..(half - nearest - 1) * 2).for_each(|_| events.push(F, 0));
    (0..=nearest).for_each(|_| events.all(&[(F, 0), (F, 1)]));
    (0..half - nearest - 1).for_each(|_| events.all(&[(B, 1), (W, 1), (F, 1)]));
    (0..count + nearest + 1 - places).for_each(|_| {
        events.all(&[(F, 0), (B, 1), (W, 1), (F, 1), (B, 0), (W, 0)]);
    });
    (0..half - nearest - 1).for_each(|_| events.all(&[(B, 1), (W, 1), (F, 1), (B, 0), (W, 0)]));
    // The rest splits backward; when the gradients of weights come does not matter, since no forward follows.
    (0..=nearest).for_each(|_| events.all(&[(B, 1), (B, 0)]));
    (0..half - nearest - 1).for_each(|_| events.push(B, 0));
    for chunk in 0..2 {
        while events.next[W as usize][chunk] < events.next[B as usize][chunk] {
            events.push(W, chunk as u64);
        }
    }
    events.list
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
                assert_eq!(plan.in_flight(rank), pipeline.most(rank, &[1; 4]), "{pipeline:?} rank {rank}");
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
                let most = pipeline.most(rank, &weights);
                assert_eq!(budget.stored_activations().bytes(), most, "{pipeline:?} {list} rank {rank} {weights:?}");
                assert_eq!(budget.per_micro_batch().bytes(), weights.iter().sum::<u64>(), "{pipeline:?} rank {rank}");
                worst = worst.max(budget.peak().total);
            }
            assert_eq!(plan.peak().total, worst, "{pipeline:?} {list}");
        }
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
