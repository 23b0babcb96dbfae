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

// A chunk's place is one of few.
#[allow(clippy::cast_possible_truncation)]
impl Run {
    /// How many moments there are to look at.
    pub(crate) const fn moments(&self) -> u64 {
        match self.schedule {
            Schedule::Interleaved => Interleaved::of(self, 0).moments(),
            Schedule::ZbV => 3,
            _ => 1,
        }
    }

    /// The most that a rank holds, each chunk's micro-batches weighing something.
    pub(crate) const fn worst(&self, rank: u64, weights: &[u128]) -> u64 {
        let interleaved = match self.schedule {
            Schedule::Interleaved => Some(Interleaved::of(self, rank)),
            _ => None,
        };
        let (moments, mut moment) = (self.moments(), 0);
        let (mut worst, mut most) = (0, None);
        while moment < moments {
            let forwards = match &interleaved {
                Some(interleaved) => interleaved.forwards_at(moment),
                None => 0,
            };
            let (mut sum, mut chunk) = (0_u128, 0);
            while chunk < self.shape.chunks {
                let held = match &interleaved {
                    Some(interleaved) => interleaved.held_at(chunk, forwards),
                    None => self.held(rank, chunk, moment),
                };
                // Weights are at most 2^64, and all micro-batches in flight fewer than 2^38: see `CHUNKS_MAX`.
                sum += weights[chunk as usize] * held as u128;
                chunk += 1;
            }
            if !matches!(most, Some(most) if most >= sum) {
                (worst, most) = (moment, Some(sum));
            }
            moment += 1;
        }
        worst
    }

    /// The moments of forward and of backward in which a rank of interleaved chunks holds most, each chunk's micro-batches
    /// weighing something, and each working on so much more, or less, while it runs: what micro-batches weigh then, and which
    /// chunk runs.
    pub(crate) const fn busiest(&self, rank: u64, weights: &[u128], works: &[[i128; 2]]) -> [(u128, u64); 2] {
        Interleaved::of(self, rank).busiest(weights, works)
    }

    /// Micro-batches that a rank holds at once, at most, each chunk's counted by itself.
    pub(crate) const fn in_flight(&self, rank: u64) -> u64 {
        match self.schedule {
            // Each forward of the steady state is followed by a backward of some chunk.
            Schedule::Interleaved => Interleaved::of(self, rank).warm_up + 1,
            _ if self.shape.chunks == 1 => self.held(rank, 0, 0),
            _ => {
                let moment = self.worst(rank, &[1, 1]);
                self.held(rank, 0, moment) + self.held(rank, 1, moment)
            }
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

    /// Turns in which all changes of one period lie: forwards or backwards of a chunk begin.
    const fn period(&self) -> u64 {
        self.chunks + 1
    }

    /// Turns at the end that are looked at as well, where the last group is shorter than the others.
    const fn tail(&self) -> u64 {
        if self.count.is_multiple_of(self.group) { 0 } else { 3 * self.chunks }
    }

    pub(crate) const fn moments(&self) -> u64 {
        2 + 2 * (self.period() + self.tail())
    }

    /// Forwards that are behind in a moment, the backward that follows the last one not yet run. What is held changes its
    /// course only where a forward or a backward changes chunks.
    const fn forwards_at(&self, moment: u64) -> u64 {
        let (first, all) = (self.warm_up + 1, self.count * self.chunks);
        let (period, tail) = (self.period(), self.tail());
        let forwards = if moment == 0 {
            first
        } else if moment == 1 {
            all
        } else if moment < 2 + period {
            self.start(self.turn(first) + moment - 2)
        } else if moment < 2 + 2 * period {
            self.start(moment - 2 - period) + first
        } else if moment < 2 + 2 * period + tail {
            self.start(self.turns().saturating_sub(moment - 2 - 2 * period))
        } else {
            let last = self.turn(all - first) + self.chunks;
            self.start(last.saturating_sub(moment - 2 - 2 * period - tail)) + first
        };
        if forwards < first { first } else { least(forwards, all) }
    }

    pub(crate) const fn held(&self, chunk: u64, moment: u64) -> u64 {
        self.held_at(chunk, self.forwards_at(moment))
    }

    /// Micro-batches of a chunk that are held when so many forwards are behind.
    pub(crate) const fn held_at(&self, chunk: u64, forwards: u64) -> u64 {
        let backwards = forwards - (self.warm_up + 1);
        self.forwards(chunk, forwards) - self.forwards(self.chunks - 1 - chunk, backwards)
    }
    /// The chunk of a forward, by its place among all of them.
    const fn forward_chunk(&self, forward: u64) -> u64 {
        self.turn(forward) % self.chunks
    }

    /// That of a backward.
    const fn backward_chunk(&self, backward: u64) -> u64 {
        self.chunks - 1 - self.forward_chunk(backward)
    }

    /// See [`Run::busiest`]. What is held grows while forwards alone run, and shrinks while backwards alone do, so that of
    /// those each chunk's last and first turns are looked at; between them, where either changes chunks, and beside that.
    const fn busiest(&self, weights: &[u128], works: &[[i128; 2]]) -> [(u128, u64); 2] {
        let (first, all) = (self.warm_up + 1, self.count * self.chunks);
        let mut most = Busiest { weights, works, of: [(0, 0); 2], sums: [None; 2] };
        let (mut moment, moments) = (0, self.moments());
        while moment < moments {
            let near = self.forwards_at(moment);
            let (mut forwards, last) = (if near > first { near - 1 } else { near }, least(near + 1, all));
            while forwards <= last {
                most.see(self, 0, [forwards, forwards - first], self.forward_chunk(forwards - 1));
                most.see(self, 1, [forwards, forwards - first], self.backward_chunk(forwards - first));
                forwards += 1;
            }
            moment += 1;
        }
        let (mut turn, mut left) = (self.turn(first - 1), self.chunks);
        while turn > 0 && left > 0 {
            most.see(self, 0, [self.start(turn), 0], (turn - 1) % self.chunks);
            (turn, left) = (turn - 1, left - 1);
        }
        let (mut turn, mut left) = (self.turn(all - first) + 1, self.chunks);
        while turn < self.turns() && left > 0 {
            most.see(self, 1, [all, self.start(turn)], self.backward_chunk(self.start(turn)));
            (turn, left) = (turn + 1, left - 1);
        }
        most.of
    }
}

/// The busiest moments of forward and of backward among those that were looked at.
struct Busiest<'a> {
    weights: &'a [u128],
    works: &'a [[i128; 2]],
    of: [(u128, u64); 2],
    sums: [Option<i128>; 2],
}

// A chunk's place is one of few, and its weight is at most 2^64.
#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
impl Busiest<'_> {
    /// A moment of forward or of backward: so many forwards and backwards are behind, and a chunk runs.
    const fn see(&mut self, run: &Interleaved, direction: usize, [forwards, backwards]: [u64; 2], runs: u64) {
        let (mut held, mut chunk) = (0_u128, 0);
        while chunk < run.chunks {
            let of_chunk = run.forwards(chunk, forwards) - run.forwards(run.chunks - 1 - chunk, backwards);
            held += self.weights[chunk as usize] * of_chunk as u128;
            chunk += 1;
        }
        let sum = held as i128 + self.works[runs as usize][direction];
        if !matches!(self.sums[direction], Some(most) if most >= sum) {
            (self.sums[direction], self.of[direction]) = (Some(sum), (held, runs));
        }
    }
}
