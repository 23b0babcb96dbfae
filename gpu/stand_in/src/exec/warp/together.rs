//! Operations of several lanes of a warp: they wait for each other first.

use super::{Flow, Warp, each};
use crate::exec::alu::{self, Lanes};
use crate::exec::{LANES, Surroundings};
use crate::ptx::instruction::{Atomic, Binary, Op, Register, Shuffle, Type, Vote};
use crate::report::{Code, Fault};

impl Warp {
    /// An operation of the lanes that are named: done once all of them are here.
    pub(super) fn wait(
        &mut self,
        op: &Op,
        at: u32,
        (group, mask): (u32, u32),
        members: Register,
        around: &Surroundings<'_>,
    ) -> Result<Flow, Fault> {
        let ready = self.meet(at, mask, members, around)?;
        let here = mask | (self.blocked & self.lanes_at(at));
        if ready != 0 {
            self.together(op, at, ready, members, around)?;
        }
        if ready == here && here & !group == 0 {
            return Ok(Flow::Next);
        }
        // Lanes whose guard is off pass by.
        self.set_at(group & !mask, at + 1);
        self.set_at(mask, at);
        self.set_at(ready, at + 1);
        self.blocked = (self.blocked | mask) & !ready;
        Ok(Flow::Split)
    }

    fn lanes_at(&self, at: u32) -> u32 {
        let mut mask = 0;
        for lane in 0..LANES {
            mask |= u32::from(self.at[lane] == at) << lane;
        }
        mask
    }

    /// The lanes here of which all that they name are here.
    fn meet(&self, at: u32, mask: u32, members: Register, around: &Surroundings<'_>) -> Result<u32, Fault> {
        #[allow(clippy::cast_possible_truncation)] // a mask of 32 bits
        let named = |lane: usize| self.registers[members as usize][lane] as u32;
        let here = mask | if self.blocked == 0 { 0 } else { self.blocked & self.lanes_at(at) };
        let (mut todo, mut ready) = (here, 0);
        while todo != 0 {
            let lane = todo.trailing_zeros() as usize;
            let members = named(lane);
            let refuse = |text: &str| Err(around.fault(Code::LaunchFailed, at, self.thread(lane), text));
            if members >> lane & 1 == 0 {
                return refuse(&format!("a warp operation of the lanes {members:#010x} by lane {lane}"));
            }
            if members & !self.live != 0 {
                let absent = members & !self.live;
                return refuse(&format!("a warp operation names absent lanes: {absent:#010x} left or never were"));
            }
            if members & !here == 0 {
                if let Some(other) = each(members).find(|&other| named(other) != members) {
                    let theirs = named(other);
                    return refuse(&format!("lane {lane} names {members:#010x}, lane {other} {theirs:#010x}"));
                }
                ready |= members;
                todo &= !members;
            } else {
                todo &= !(1 << lane);
            }
        }
        Ok(ready)
    }

    /// A warp operation of lanes that are all here.
    fn together(
        &mut self,
        op: &Op,
        at: u32,
        ready: u32,
        members: Register,
        around: &Surroundings<'_>,
    ) -> Result<(), Fault> {
        let named = *self.get(members);
        let mut todo = ready;
        while todo != 0 {
            #[allow(clippy::cast_possible_truncation)] // a mask of 32 bits
            let mask = named[todo.trailing_zeros() as usize] as u32;
            todo &= !mask;
            match op {
                Op::Shuffle { mode, d, p, a, b, clamp, .. } => {
                    let parts = (*mode, *a, *b, *clamp);
                    let (values, holds) = self.shuffle(at, mask, parts, around)?;
                    self.put(*d, &values, mask);
                    if let Some(p) = p {
                        self.put_predicate(*p, holds, mask);
                    }
                }
                Op::Vote { vote, d, p, a, negate, .. } => {
                    let a = self.predicates[*a as usize];
                    let yes = mask & if *negate { !a } else { a };
                    self.vote(*vote, (*d, *p), yes, mask);
                }
                Op::Reduce { op, ty, d, a, .. } => self.reduce(*op, *ty, (*d, *a), mask),
                Op::Match { all, ty, d, p, a, .. } => self.matching(*all, *ty, (*d, *p, *a), mask),
                _ => {
                    if mask == self.live {
                        self.turn = self.turn.saturating_add(1);
                    }
                }
            }
        }
        Ok(())
    }

    fn vote(&mut self, vote: Vote, (d, p): (Register, u16), yes: u32, mask: u32) {
        let holds = match vote {
            Vote::Ballot => return self.put(d, &[u64::from(yes); LANES], mask),
            Vote::All => yes == mask,
            Vote::Any => yes != 0,
            Vote::Uniform => yes == mask || yes == 0,
        };
        self.put_predicate(p, if holds { !0 } else { 0 }, mask);
    }

    fn reduce(&mut self, op: Binary, ty: Type, (d, a): (Register, Register), mask: u32) {
        let a = self.get(a);
        let op = match op {
            Binary::Minimum => Atomic::Minimum,
            Binary::Maximum => Atomic::Maximum,
            Binary::And => Atomic::And,
            Binary::Or => Atomic::Or,
            Binary::Xor => Atomic::Xor,
            _ => Atomic::Add,
        };
        let all = each(mask).map(|l| a[l]).reduce(|x, y| alu::atomic(op, ty, x, y, 0)).unwrap_or(0);
        self.put(d, &[all; LANES], mask);
    }

    fn matching(&mut self, all: bool, ty: Type, (d, p, a): (Register, Option<u16>, Register), mask: u32) {
        let (a, cut) = (*self.get(a), alu::mask_of(ty));
        let like = |l: usize| each(mask).filter(|o| (a[*o] ^ a[l]) & cut == 0).fold(0_u32, |m, o| m | 1 << o);
        let mut values = [0; LANES];
        let agree = like(mask.trailing_zeros() as usize) == mask;
        for lane in each(mask) {
            let found = if all { mask * u32::from(agree) } else { like(lane) };
            values[lane] = found.into();
        }
        self.put(d, &values, mask);
        if let Some(p) = p {
            self.put_predicate(p, if agree { !0 } else { 0 }, mask);
        }
    }

    fn shuffle(
        &self,
        at: u32,
        mask: u32,
        (mode, a, b, clamp): (Shuffle, Register, Register, Register),
        around: &Surroundings<'_>,
    ) -> Result<(Lanes, u32), Fault> {
        let (a, b, clamp) = (self.get(a), self.get(b), self.get(clamp));
        let (mut values, mut holds) = ([0; LANES], 0);
        for lane in each(mask) {
            #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // five bits each
            let (by, bound, segments, own) =
                ((b[lane] & 31) as i32, (clamp[lane] & 31) as i32, (clamp[lane] >> 8 & 31) as i32, lane as i32);
            let most = (own & segments) | (bound & !segments);
            let least = own & segments;
            let (from, is_inside) = match mode {
                Shuffle::Up => (own - by, own - by >= most),
                Shuffle::Down => (own + by, own + by <= most),
                Shuffle::Butterfly => (own ^ by, own ^ by <= most),
                Shuffle::Index => {
                    let from = least | (by & !segments);
                    (from, from <= most)
                }
            };
            let from = usize::try_from(if is_inside { from } else { own }).unwrap_or(lane);
            if mask >> from & 1 == 0 {
                let text = format!("a shuffle of the lanes {mask:#010x} reads lane {from}, which is not of them");
                return Err(around.fault(Code::LaunchFailed, at, self.thread(lane), &text));
            }
            values[lane] = a[from];
            holds |= u32::from(is_inside) << lane;
        }
        Ok((values, holds))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::lanes;

    #[test]
    fn shuffles_of_every_kind() {
        let shuffle = |how: &str| lanes(32, &format!("shfl.sync.{how}, -1;")).unwrap();
        assert_eq!(shuffle("down.b32 %r0|%p1, %r1, 4, 31")[..4], [4, 5, 6, 7]);
        assert_eq!(shuffle("down.b32 %r0, %r1, 4, 31")[28..], [28, 29, 30, 31]);
        assert_eq!(shuffle("up.b32 %r0, %r1, 1, 0")[..3], [0, 0, 1]);
        assert_eq!(shuffle("bfly.b32 %r0, %r1, 1, 31")[..4], [1, 0, 3, 2]);
        // Segments of eight.
        assert_eq!(shuffle("idx.b32 %r0, %r1, 2, 6175")[6..10], [2, 2, 10, 10]);
    }

    #[test]
    fn votes_and_reductions() {
        let body = "setp.lt.u32 %p1, %r1, 3;\nvote.sync.ballot.b32 %r0, %p1, -1;";
        assert_eq!(lanes(32, body).unwrap(), [7; 32]);
        let body = "setp.lt.u32 %p1, %r1, 3;\nvote.sync.any.pred %p2, %p1, -1;\nselp.u32 %r0, 1, 0, %p2;";
        assert_eq!(lanes(32, body).unwrap(), [1; 32]);
        assert_eq!(lanes(32, "redux.sync.add.u32 %r0, %r1, -1;").unwrap(), [496; 32]);
        assert_eq!(lanes(32, "and.b32 %r2, %r1, 1;\nmatch.any.sync.b32 %r0, %r2, -1;").unwrap()[1], 0xaaaa_aaaa);
        let body = "setp.lt.u32 %p1, %r1, 40;\nbar.red.popc.u32 %r0, 0, %p1;";
        assert_eq!(lanes(64, body).unwrap(), [40; 64]);
    }

    #[test]
    fn halves_may_meet_among_themselves() {
        let body = "setp.lt.u32 %p1, %r1, 16;\nselp.b32 %r2, 65535, -65536, %p1;\n\
                    shfl.sync.bfly.b32 %r0, %r1, 15, 31, %r2;";
        assert_eq!(lanes(32, body).unwrap()[15..17], [0, 31]);
    }

    #[test]
    fn a_warp_shorter_than_its_mask_is_caught() {
        let fault = lanes(16, "shfl.sync.idx.b32 %r0, %r1, 0, 31, -1;").unwrap_err();
        assert!(fault.text.contains("absent lanes: 0xffff0000"), "{}", fault.text);
    }

    #[test]
    fn those_that_left_are_absent() {
        let fault = lanes(32, "setp.gt.u32 %p1, %r1, 20;\n@%p1 exit;\nvote.sync.ballot.b32 %r0, %p1, -1;").unwrap_err();
        assert!(fault.text.contains("absent lanes: 0xffe00000"), "{}", fault.text);
    }

    #[test]
    fn a_warp_barrier_orders_its_lanes() {
        let write = "mov.u32 %r2, tile;\nshl.b32 %r3, %r1, 2;\nadd.s32 %r3, %r2, %r3;\nst.shared.u32 [%r3], %r1;\n";
        let read = "xor.b32 %r4, %r1, 1;\nshl.b32 %r4, %r4, 2;\nadd.s32 %r4, %r2, %r4;\nld.shared.u32 %r0, [%r4];";
        assert_eq!(lanes(32, &format!("{write}bar.warp.sync -1;\n{read}")).unwrap()[..2], [1, 0]);
        assert!(lanes(32, &format!("{write}{read}")).unwrap_err().text.contains("race"));
    }
}
