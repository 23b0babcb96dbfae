//! A warp: lanes run together while they are at the same instruction, those behind first.

mod access;
mod compute;
mod step;
#[cfg(test)]
mod testing;
mod together;

use super::alu::{Lanes, blend};
use super::{LANES, Surroundings};
use crate::ptx::instruction::{ALWAYS, Entry, Register};
use crate::report::{Code, Fault};
use core::cmp::Ordering;

/// Why a warp stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// All its lanes wait at the barrier of an instruction.
    Barrier(u32),
    /// All its lanes are through.
    Done,
}

/// Where a group of lanes goes on.
enum Flow {
    Next,
    /// To an instruction, all of it.
    Jump(u32),
    /// The lanes are no longer together, or wait: their places are set.
    Split,
}

/// A warp.
#[derive(Debug)]
pub struct Warp {
    /// Which of its block.
    pub index: usize,
    /// Registers, a value a lane.
    pub registers: Vec<Lanes>,
    /// Predicates, a bit a lane.
    pub predicates: Vec<u32>,
    /// The lanes that exist.
    lanes: u32,
    /// Those that are not through.
    live: u32,
    /// Those that wait for others of the warp.
    blocked: u32,
    /// Those that wait at the block's barrier.
    at_barrier: u32,
    at: [u32; LANES],
    /// How often all of it met.
    turn: u16,
}

/// The lanes of a mask.
#[inline]
fn each(mut mask: u32) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let lane = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        Some(lane)
    })
}

impl Warp {
    /// The warp of a number in a block of so many threads.
    #[must_use]
    pub fn new(index: usize, threads: usize, entry: &Entry) -> Self {
        let count = (threads - index * LANES).min(LANES);
        let lanes = if count == LANES { !0 } else { (1 << count) - 1 };
        let mut predicates = vec![0; entry.predicates as usize];
        predicates[ALWAYS as usize] = !0;
        Self {
            index,
            registers: vec![[0; LANES]; entry.registers as usize],
            predicates,
            lanes,
            live: 0,
            blocked: 0,
            at_barrier: 0,
            at: [0; LANES],
            turn: 0,
        }
    }

    /// All lanes to the start.
    pub fn restart(&mut self) {
        self.live = self.lanes;
        self.blocked = 0;
        self.at_barrier = 0;
        self.at = [0; LANES];
        self.turn = 0;
    }

    /// Whether all its lanes are through.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.live == 0
    }

    /// The lanes at the block's barrier.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.at_barrier
    }

    /// On past the barrier.
    pub fn release(&mut self) {
        for lane in each(self.at_barrier) {
            self.at[lane] += 1;
        }
        self.at_barrier = 0;
        self.turn = 0;
    }

    #[inline]
    pub(super) fn thread(&self, lane: usize) -> usize {
        self.index * LANES + lane
    }

    #[inline]
    pub(super) fn first(&self, mask: u32) -> usize {
        self.thread(mask.trailing_zeros() as usize)
    }

    #[inline]
    pub(super) fn set_at(&mut self, mask: u32, at: u32) {
        for lane in each(mask) {
            self.at[lane] = at;
        }
    }

    /// Runs until all lanes wait at a barrier or are through.
    ///
    /// # Errors
    /// What a lane does wrong.
    pub(crate) fn run(&mut self, around: &mut Surroundings<'_>) -> Result<Pause, Fault> {
        let code = &around.launch.entry.code;
        let most = around.launch.most_instructions;
        loop {
            let runnable = self.live & !self.blocked & !self.at_barrier;
            if runnable == 0 {
                return self.pause(around);
            }
            // Those furthest behind, and where the next ones wait to be joined.
            let (mut at, mut mask, mut join) = (u32::MAX, 0, u32::MAX);
            for lane in each(runnable) {
                let here = self.at[lane];
                match here.cmp(&at) {
                    Ordering::Less => (join, at, mask) = (at, here, 1 << lane),
                    Ordering::Equal => mask |= 1 << lane,
                    Ordering::Greater => join = join.min(here),
                }
            }
            loop {
                let instruction = &code[at as usize];
                let guard = self.predicates[instruction.guard as usize];
                let active = mask & if instruction.negated { !guard } else { guard };
                around.traffic.warp_instructions += 1;
                around.traffic.lane_instructions += u64::from(active.count_ones());
                if most != 0 && around.traffic.warp_instructions > most {
                    let text = format!("stopped after {most} instructions of warps");
                    return Err(around.fault(Code::LaunchTimeout, at, self.first(mask), &text));
                }
                let flow = if active == 0 { Flow::Next } else { self.step(instruction, at, mask, active, around)? };
                match flow {
                    Flow::Next => at += 1,
                    Flow::Jump(to) => at = to,
                    Flow::Split => break,
                }
                if at >= join {
                    self.set_at(mask, at);
                    break;
                }
            }
        }
    }

    /// Nobody can go on: through, at a barrier, or stuck.
    fn pause(&self, around: &Surroundings<'_>) -> Result<Pause, Fault> {
        if self.live == 0 {
            return Ok(Pause::Done);
        }
        if self.blocked != 0 {
            let lane = self.blocked.trailing_zeros() as usize;
            let absent = self.lanes & !self.blocked;
            let text = format!(
                "a warp operation waits for lanes that never come: {:#010x} wait, {absent:#010x} are elsewhere",
                self.blocked
            );
            return Err(around.fault(Code::LaunchFailed, self.at[lane], self.thread(lane), &text));
        }
        let lane = self.at_barrier.trailing_zeros() as usize;
        let at = self.at[lane];
        for other in each(self.at_barrier) {
            if self.at[other] != at {
                let line = around.launch.entry.code[self.at[other] as usize].line;
                let text = format!(
                    "barrier divergence: thread {} of the same warp waits at the barrier of line {line}",
                    self.thread(other)
                );
                return Err(around.fault(Code::LaunchFailed, at, self.thread(lane), &text));
            }
        }
        Ok(Pause::Barrier(at))
    }

    #[inline]
    pub(super) fn put(&mut self, d: Register, values: &Lanes, mask: u32) {
        blend(&mut self.registers[d as usize], values, mask);
    }

    #[inline]
    pub(super) fn get(&self, a: Register) -> &Lanes {
        &self.registers[a as usize]
    }

    #[inline]
    pub(super) fn put_predicate(&mut self, d: u16, holds: u32, mask: u32) {
        let p = &mut self.predicates[d as usize];
        *p = (*p & !mask) | (holds & mask);
    }
}

#[cfg(test)]
mod tests {
    use super::testing::lanes;

    #[test]
    fn lanes_that_part_meet_again() {
        // A loop of as many rounds as the lane's number, then a shuffle of all.
        let body = "mov.u32 %r2, %r1;\n$L: setp.eq.s32 %p1, %r2, 0;\n@%p1 bra $D;\nadd.s32 %r0, %r0, 2;\n\
                    add.s32 %r2, %r2, -1;\nbra $L;\n$D: shfl.sync.idx.b32 %r0, %r0, 31, 31, -1;";
        assert_eq!(lanes(32, body).unwrap(), [62; 32]);
    }

    #[test]
    fn a_barrier_in_a_branch_is_caught_and_one_after_exits_is_not() {
        let body = "setp.lt.u32 %p1, %r1, 8;\n@%p1 bra $A;\nbar.sync 0;\nbra $END;\n$A: bar.sync 0;";
        assert!(lanes(32, body).unwrap_err().text.contains("barrier divergence"));
        let body = "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra $A;\nbar.sync 0;\nbra $END;\n$A: bar.sync 0;";
        assert!(lanes(64, body).unwrap_err().text.contains("barrier divergence"));
    }
}
