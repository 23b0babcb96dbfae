//! What a rank of the pipeline does in a step, event by event, as its framework does it. The closed forms of `schedule.rs`,
//! which const evaluation has time for, are held against these (`tests/schedules.rs`).

use crate::plan::Plan;
use crate::schedule::Run;
use crate::spec::Schedule;
use alloc::vec::Vec;

/// What a rank does with one chunk of one micro-batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Work {
    /// Forward: its activations are held from here on.
    Forward,
    /// The gradient of the input, or all of backward where a schedule does not split it.
    Backward,
    /// The gradient of the weights: nothing is held any more. It follows at once where a schedule does not put it off.
    Weight,
}

/// One thing that a rank does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Event {
    /// What.
    pub work: Work,
    /// On which of its chunks.
    pub chunk: u64,
    /// Of which micro-batch of that chunk; under DualPipe each direction numbers its own.
    pub micro_batch: u64,
}

use Work::{Backward as B, Forward as F, Weight as W};

impl Plan {
    /// All that a rank of the pipeline does in a step, in order.
    ///
    /// # Panics
    /// If there are not so many stages.
    #[must_use]
    pub fn events(&self, stage: u64) -> Vec<Event> {
        assert!(stage < self.stages(), "the pipeline has fewer stages");
        let run = self.run();
        let (ranks, count) = (run.shape.ranks, run.count);
        let behind = ranks - 1 - stage;
        match run.schedule {
            Schedule::Gpipe => one_by_one(count, count, 0),
            Schedule::OneFOneB => one_by_one(count, behind, 0),
            // torch.distributed.pipelining, ScheduleInterleavedZeroBubble of one stage a rank: the gradients of weights
            // come as many micro-batches late as ranks stand before.
            Schedule::ZbH1 => one_by_one(count, behind, stage),
            Schedule::Interleaved => interleaved(&run, stage),
            Schedule::ZbV => zb_v(ranks, stage, count),
            Schedule::DualPipe => dual_pipe(ranks, stage.min(behind), count / 2),
            Schedule::DualPipeV => dual_pipe(2 * ranks, stage, count),
        }
    }
}

impl Plan {
    /// The most of a kind of tensor that a rank of the pipeline holds at once, where each micro-batch has so many in each
    /// chunk, from its forward until nothing of its backward is left.
    ///
    /// # Panics
    /// If there are not so many stages.
    #[must_use]
    pub fn most_at_once(&self, stage: u64, of_chunk: &[u64]) -> u64 {
        let (mut held, mut most) = (0, 0);
        for event in self.events(stage) {
            let each = usize::try_from(event.chunk).ok().and_then(|chunk| of_chunk.get(chunk)).copied().unwrap_or(0);
            match event.work {
                F => held += each,
                B => {}
                W => held -= each,
            }
            most = most.max(held);
        }
        most
    }
}

/// Events with the counters that give micro-batches their numbers.
#[derive(Default)]
struct Events {
    list: Vec<Event>,
    /// By work and chunk.
    next: [[u64; 2]; 3],
}

impl Events {
    /// So many times some works on some chunks.
    fn repeat(&mut self, times: u64, works: &[(Work, usize)]) {
        for _ in 0..times {
            for (work, chunk) in works {
                let next = &mut self.next[*work as usize][*chunk];
                self.list.push(Event { work: *work, chunk: *chunk as u64, micro_batch: *next });
                *next += 1;
            }
        }
    }

    fn done(&self, work: Work, chunk: usize) -> u64 {
        self.next[work as usize][chunk]
    }

    /// The gradients of weights that are still put off.
    fn rest(&mut self, chunk: usize) {
        let late = self.done(B, chunk) - self.done(W, chunk);
        self.repeat(late, &[(W, chunk)]);
    }
}

/// Forwards of a warm-up, then one forward and one backward in turn, gradients of weights `late` micro-batches behind.
fn one_by_one(count: u64, warm_up: u64, late: u64) -> Vec<Event> {
    let mut events = Events::default();
    events.repeat(warm_up.min(count), &[(F, 0)]);
    for backward in 0..count {
        if events.done(F, 0) < count {
            events.repeat(1, &[(F, 0)]);
        }
        events.repeat(1, &[(B, 0)]);
        if backward >= late {
            events.repeat(1, &[(W, 0)]);
        }
    }
    events.rest(0);
    events.list
}

/// megatron-core 0.16, `forward_backward_pipelining_with_interleaving`: a table of chunk and micro-batch, group after group;
/// forwards follow it, backwards the same with chunks reversed.
fn interleaved(run: &Run, stage: u64) -> Vec<Event> {
    let (chunks, count, group) = (run.shape.chunks, run.count, run.group.max(1));
    let mut table = Vec::new();
    let mut first = 0;
    while first < count {
        let end = (first + group).min(count);
        for chunk in 0..chunks {
            table.extend((first..end).map(|micro_batch| (chunk, micro_batch)));
        }
        first = end;
    }
    // If nothing remains, all but the last is warm-up.
    let warm_up = 2 * (run.shape.ranks - 1 - stage) + (chunks - 1) * group;
    let warm_up = warm_up.min(table.len() as u64 - 1);
    let mut list = Vec::new();
    let mut forwards = table.iter();
    let mut push = |work, chunk, micro_batch| list.push(Event { work, chunk, micro_batch });
    for turn in 0..table.len() as u64 + warm_up {
        if let Some((chunk, micro_batch)) = forwards.next() {
            push(F, *chunk, *micro_batch);
        }
        let behind = turn.checked_sub(warm_up).and_then(|turn| usize::try_from(turn).ok());
        if let Some((chunk, micro_batch)) = behind.and_then(|turn| table.get(turn)) {
            push(B, chunks - 1 - chunk, *micro_batch);
            push(W, chunks - 1 - chunk, *micro_batch);
        }
    }
    list
}

/// torch.distributed.pipelining, `ScheduleZBVZeroBubble`: written for enough micro-batches, those too many left out.
fn zb_v(ranks: u64, stage: u64, count: u64) -> Vec<Event> {
    let enough = count.max(2 * ranks - 1);
    let mut events = Events::default();
    events.repeat(2 * (ranks - stage) - 1, &[(F, 0)]);
    events.repeat(stage, &[(F, 1), (F, 0)]);
    events.repeat(ranks - stage, &[(F, 1), (B, 1), (W, 1)]);
    while events.done(F, 1) < events.done(F, 0) || events.done(F, 0) < enough {
        if events.done(F, 0) < enough {
            events.repeat(1, &[(F, 0)]);
        }
        events.repeat(1, &[(B, 0), (W, 0), (F, 1), (B, 1), (W, 1)]);
    }
    events.repeat(stage, &[(B, 0), (B, 1)]);
    events.repeat(ranks - stage, &[(B, 0), (W, 0)]);
    events.rest(1);
    events.rest(0);
    events.list.into_iter().filter(|event| event.micro_batch < count).collect()
}

/// DeepSeek's DualPipe (`dualpipe.py`, `step`) of so many stages, on a rank `nearest` to the end that its first chunk
/// enters at; `dualpipev.py` is the same for the ranks of a folded pipeline, of twice as many stages.
fn dual_pipe(places: u64, nearest: u64, count: u64) -> Vec<Event> {
    let ahead = places / 2 - nearest - 1;
    let mut events = Events::default();
    events.repeat(2 * ahead, &[(F, 0)]);
    events.repeat(nearest + 1, &[(F, 0), (F, 1)]);
    events.repeat(ahead, &[(B, 1), (W, 1), (F, 1)]);
    events.repeat(count + nearest + 1 - places, &[(F, 0), (B, 1), (W, 1), (F, 1), (B, 0), (W, 0)]);
    events.repeat(ahead, &[(B, 1), (W, 1), (F, 1), (B, 0), (W, 0)]);
    // The rest splits backward; when the gradients of weights come does not matter, since no forward follows.
    events.repeat(nearest + 1, &[(B, 1), (B, 0)]);
    events.repeat(ahead, &[(B, 0)]);
    events.rest(0);
    events.rest(1);
    events.list
}
