//! How many micro-batches of each chunk a rank of the pipeline holds at once, under each schedule: closed forms, since
//! const evaluation has no time to run one. `tests/schedules.rs` runs them, event by event, as the frameworks do.
//!
//! What a rank holds changes with every forward and backward. Between two *moments* it changes in one direction, so the
//! worst, whatever each chunk weighs, is one of a few moments.

use crate::spec::Schedule;
use crate::stages::Shape;

/// A pipeline and the micro-batches that it runs in a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) schedule: Schedule,
    pub(crate) shape: Shape,
    /// Micro-batches of a step.
    pub(crate) count: u64,
    /// Micro-batches that run through one chunk before the next, where chunks are interleaved.
    pub(crate) group: u64,
}

const fn least(a: u64, b: u64) -> u64 {
    if a < b { a } else { b }
}

impl Run {
    /// How many moments there are to look at.
    pub(crate) const fn moments(&self) -> u64 {
        match self.schedule {
            Schedule::Interleaved => Interleaved::of(self, 0).moments(),
            Schedule::ZbV => 3,
            _ => 1,
        }
    }

    /// Micro-batches of a chunk that a rank holds in a moment, from forward until nothing of its backward is left.
    pub(crate) const fn held(&self, rank: u64, chunk: u64, moment: u64) -> u64 {
        let (ranks, count) = (self.shape.ranks, self.count);
        match self.schedule {
            Schedule::Gpipe => count,
            Schedule::OneFOneB => least(count, ranks - rank),
            // The gradients of weights are put off by as many micro-batches as earlier ranks run ahead.
            Schedule::ZbH1 => least(count, ranks),
            Schedule::Interleaved => Interleaved::of(self, rank).held(chunk, moment),
            Schedule::ZbV => zb_v(ranks, rank, count, chunk, moment),
            Schedule::DualPipeV => dual(2 * ranks, rank, chunk),
            Schedule::DualPipe => {
                let mirror = ranks - 1 - rank;
                dual(ranks, least(rank, mirror), chunk)
            }
        }
    }
}

/// DualPipe in its steady state: forward of one chunk runs with backward of the other.
const fn dual(places: u64, nearest: u64, chunk: u64) -> u64 {
    if chunk == 0 { places - nearest } else { nearest + 1 }
}

/// ZB-V: before the last warm-up backward, and in the first turn of its steady state behind either forward.
const fn zb_v(ranks: u64, rank: u64, count: u64, chunk: u64, moment: u64) -> u64 {
    let (done, ahead) = (least(ranks - rank, count), 2 * ranks - rank);
    match (moment, chunk) {
        (0, 0) => least(ahead - 1, count),
        (0, _) => least(rank + 1, count),
        (1, 0) => least(ahead, count),
        (1, _) => least(ranks, count) - done,
        (_, 0) => least(ahead, count) - 1,
        _ => least(ranks + 1, count) - done,
    }
}

/// Interleaved 1F1B on one rank: chunks take turns, a group of micro-batches each; backward goes through them from the
/// last. After `warm_up` forwards each forward is followed by one backward.
struct Interleaved {
    chunks: u64,
    count: u64,
    group: u64,
    warm_up: u64,
}

impl Interleaved {
    const fn of(run: &Run, rank: u64) -> Self {
        let Shape { ranks, chunks, .. } = run.shape;
        // As megatron-core counts them (`get_pp_rank_microbatches`).
        let warm_up = 2 * (ranks - 1 - rank) as u128 + (chunks - 1) as u128 * run.group as u128;
        let all = chunks as u128 * run.count as u128;
        // 64 chunks of 2^31 micro-batches.
        #[allow(clippy::cast_possible_truncation)]
        let warm_up = if warm_up < all { warm_up } else { all - 1 } as u64;
        Self { chunks, count: run.count, group: run.group, warm_up }
    }

    /// Groups of one chunk after the other, as many as all chunks have.
    const fn turns(&self) -> u64 {
        self.count.div_ceil(self.group) * self.chunks
    }

    /// Forwards that are behind when a turn begins.
    const fn start(&self, turn: u64) -> u64 {
        let (round, chunk) = (turn / self.chunks, turn % self.chunks);
        let before = round * self.group;
        before * self.chunks + chunk * least(self.group, self.count.saturating_sub(before))
    }

    /// The turn that a forward is part of.
    const fn turn(&self, forward: u64) -> u64 {
        let round = least(forward / (self.group * self.chunks), self.count.div_ceil(self.group) - 1);
        let before = round * self.group;
        let inside = forward - before * self.chunks;
        round * self.chunks + inside / least(self.group, self.count - before)
    }

    /// Forwards of one chunk among the first of all.
    const fn forwards(&self, chunk: u64, first: u64) -> u64 {
        let round = least(first / (self.group * self.chunks), self.count / self.group);
        let before = round * self.group;
        let (inside, size) = (first - before * self.chunks, least(self.group, self.count - before));
        before + least(inside.saturating_sub(chunk * size), size)
    }

    /// Turns about the steady state's begin and end, in which forwards or backwards change chunks. In between all repeats.
    const fn window(&self) -> u64 {
        3 * self.chunks
    }

    const fn moments(&self) -> u64 {
        2 + 4 * self.window()
    }

    /// Forwards that are behind in a moment, the backward that follows the last one not yet run.
    const fn forwards_at(&self, moment: u64) -> u64 {
        let (first, all) = (self.warm_up + 1, self.count * self.chunks);
        let window = self.window();
        let forwards = match moment {
            0 => first,
            1 => all,
            _ => {
                let (kind, turn) = ((moment - 2) / window, (moment - 2) % window);
                let last = self.turn(all - first);
                match kind {
                    // A forward changes chunks.
                    0 => self.start(self.turn(first) + turn),
                    1 => self.start(self.turns().saturating_sub(turn)),
                    // A backward does.
                    2 => self.start(turn) + first,
                    _ => self.start((last + self.chunks).saturating_sub(turn)) + first,
                }
            }
        };
        if forwards < first { first } else { least(forwards, all) }
    }

    const fn held(&self, chunk: u64, moment: u64) -> u64 {
        let forwards = self.forwards_at(moment);
        let backwards = forwards - (self.warm_up + 1);
        self.forwards(chunk, forwards) - self.forwards(self.chunks - 1 - chunk, backwards)
    }
}
