//! A warp: lanes run together while they are at the same instruction, those behind first.

use super::alu::{self, Conversion, Lanes, blend};
use super::shared::{Touch, Who};
use super::{CONSTANT_BASE, LANES, LOCAL_BASE, SHARED_BASE, Surroundings, WINDOW};
use crate::ptx::instruction::{
    ALWAYS, Atomic, Binary, Entry, Instruction, Logic, Op, Register, Shuffle, Space, Type, Unary, Vote,
};
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

    fn thread(&self, lane: usize) -> usize {
        self.index * LANES + lane
    }

    fn first(&self, mask: u32) -> usize {
        self.thread(mask.trailing_zeros() as usize)
    }

    fn set_at(&mut self, mask: u32, at: u32) {
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

    fn put(&mut self, d: Register, values: &Lanes, mask: u32) {
        blend(&mut self.registers[d as usize], values, mask);
    }

    fn get(&self, a: Register) -> &Lanes {
        &self.registers[a as usize]
    }

    fn put_predicate(&mut self, d: u16, holds: u32, mask: u32) {
        let p = &mut self.predicates[d as usize];
        *p = (*p & !mask) | (holds & mask);
    }

    #[allow(clippy::too_many_lines)] // one arm an instruction
    fn step(
        &mut self,
        instruction: &Instruction,
        at: u32,
        group: u32,
        mask: u32,
        around: &mut Surroundings<'_>,
    ) -> Result<Flow, Fault> {
        match &instruction.op {
            Op::Unary { op: Unary::Move, d, a, .. } => {
                let values = *self.get(*a);
                self.put(*d, &values, mask);
            }
            Op::Unary { op, ty, ftz, d, a } => {
                let values = alu::unary(*op, *ty, *ftz, self.get(*a));
                self.put(*d, &values, mask);
            }
            Op::Binary { op, ty, rounding, ftz, saturate, d, a, b } => {
                let values = alu::binary(*op, *ty, *rounding, *ftz, *saturate, self.get(*a), self.get(*b));
                self.put(*d, &values, mask);
            }
            Op::Ternary { op, ty, rounding, ftz, saturate, d, a, b, c } => {
                let (a, b, c) = (self.get(*a), self.get(*b), self.get(*c));
                let values = alu::ternary(*op, *ty, *rounding, *ftz, *saturate, a, b, c);
                self.put(*d, &values, mask);
            }
            Op::BitFieldInsert { ty, d, a, b, at, len } => {
                let (a, b, from, len) = (self.get(*a), self.get(*b), self.get(*at), self.get(*len));
                let values = core::array::from_fn(|l| alu::insert(*ty, a[l], b[l], from[l], len[l]));
                self.put(*d, &values, mask);
            }
            &Op::Convert { to, from, rounding, to_whole, ftz, saturate, relu, d, a } => {
                let how = Conversion { to, from, rounding, to_whole, ftz, saturate, relu };
                let values = alu::convert(how, self.get(a));
                self.put(d, &values, mask);
            }
            Op::ConvertPair { to, d, a, b } => {
                let (a, b) = (self.get(*a), self.get(*b));
                let half = |bits| alu::narrow(alu::widen(bits, Type::F32), *to);
                let values = core::array::from_fn(|l| half(a[l]) << 16 | half(b[l]));
                self.put(*d, &values, mask);
            }
            Op::Compare { comparison, ty, ftz, d, other, a, b, with } => {
                let holds = alu::compare(*comparison, *ty, *ftz, self.get(*a), self.get(*b));
                let combine = |holds: u32| match with {
                    None => holds,
                    Some((logic, p, negate)) => {
                        let p = self.predicates[*p as usize];
                        let p = if *negate { !p } else { p };
                        match logic {
                            Logic::And => holds & p,
                            Logic::Or => holds | p,
                            Logic::Xor => holds ^ p,
                        }
                    }
                };
                let (yes, no) = (combine(holds), combine(!holds));
                self.put_predicate(*d, yes, mask);
                if let Some(other) = other {
                    self.put_predicate(*other, no, mask);
                }
            }
            Op::CompareTo { comparison, ty, is_float, d, a, b } => {
                let holds = alu::compare(*comparison, *ty, false, self.get(*a), self.get(*b));
                let yes = if *is_float { u64::from(1_f32.to_bits()) } else { 0xffff_ffff };
                let values = core::array::from_fn(|l| if holds >> l & 1 == 1 { yes } else { 0 });
                self.put(*d, &values, mask);
            }
            Op::Select { d, a, b, p } => {
                let p = self.predicates[*p as usize];
                let (a, b) = (self.get(*a), self.get(*b));
                let values = core::array::from_fn(|l| if p >> l & 1 == 1 { a[l] } else { b[l] });
                self.put(*d, &values, mask);
            }
            Op::PredicateMove { d, a, negate } => {
                let a = self.predicates[*a as usize];
                self.put_predicate(*d, if *negate { !a } else { a }, mask);
            }
            Op::PredicateLogic { logic, d, a, b } => {
                let (a, b) = (self.predicates[*a as usize], self.predicates[*b as usize]);
                let holds = match logic {
                    Logic::And => a & b,
                    Logic::Or => a | b,
                    Logic::Xor => a ^ b,
                };
                self.put_predicate(*d, holds, mask);
            }
            Op::Pack { d, parts, bits } => {
                let ones = (1_u64 << bits) - 1;
                let mut values = [0; LANES];
                for (i, part) in (0_u32..).zip(parts) {
                    for (value, part) in values.iter_mut().zip(self.get(*part)) {
                        *value |= (part & ones) << (i * bits);
                    }
                }
                self.put(*d, &values, mask);
            }
            Op::Unpack { parts, a, bits } => {
                let (a, ones) = (*self.get(*a), (1_u64 << bits) - 1);
                for (i, part) in (0_u32..).zip(parts) {
                    if let Some(part) = part {
                        let values = core::array::from_fn(|l| a[l] >> (i * bits) & ones);
                        self.put(*part, &values, mask);
                    }
                }
            }
            Op::Convey { space, to_generic, d, a } => {
                let base = match space {
                    Space::Shared => SHARED_BASE,
                    Space::Local => LOCAL_BASE,
                    _ => 0,
                };
                let base = if *to_generic { base } else { base.wrapping_neg() };
                let a = self.get(*a);
                let values = core::array::from_fn(|l| a[l].wrapping_add(base));
                self.put(*d, &values, mask);
            }
            Op::Load { space, ty, d, base, offset } => {
                self.load(at, mask, (*space, *ty, *base, *offset), d, around)?;
            }
            Op::Store { space, ty, a, base, offset } => {
                self.store(at, mask, (*space, *ty, *base, *offset), a, around)?;
            }
            &Op::Atomic { space, op, ty, d, base, offset, a, b } => {
                self.atomic(at, mask, (space, ty, base, offset), (op, d, a, b), around)?;
            }
            Op::ActiveMask { d } => self.put(*d, &[u64::from(mask); LANES], mask),
            Op::Shuffle { members, .. }
            | Op::Vote { members, .. }
            | Op::Reduce { members, .. }
            | Op::Match { members, .. }
            | Op::WarpBarrier { members } => {
                let ready = self.meet(at, mask, *members, around)?;
                let here = mask | (self.blocked & self.lanes_at(at));
                if ready != 0 {
                    self.together(&instruction.op, at, ready, *members, around)?;
                }
                if ready == here && here & !group == 0 {
                    return Ok(Flow::Next);
                }
                // Lanes whose guard is off pass by.
                self.set_at(group & !mask, at + 1);
                self.set_at(mask, at);
                self.set_at(ready, at + 1);
                self.blocked = (self.blocked | mask) & !ready;
                return Ok(Flow::Split);
            }
            Op::Barrier { .. } => {
                self.set_at(group, at + 1);
                self.set_at(mask, at);
                self.at_barrier |= mask;
                return Ok(Flow::Split);
            }
            Op::Fence => {}
            Op::Branch { target } => {
                if mask == group {
                    return Ok(Flow::Jump(*target));
                }
                self.set_at(group, at + 1);
                self.set_at(mask, *target);
                return Ok(Flow::Split);
            }
            Op::Exit => {
                self.set_at(group, at + 1);
                self.live &= !mask;
                return Ok(Flow::Split);
            }
            Op::Trap => return Err(around.fault(Code::LaunchFailed, at, self.first(mask), "trap")),
        }
        Ok(Flow::Next)
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
                    let holds = match vote {
                        Vote::Ballot => {
                            self.put(*d, &[u64::from(yes); LANES], mask);
                            continue;
                        }
                        Vote::All => yes == mask,
                        Vote::Any => yes != 0,
                        Vote::Uniform => yes == mask || yes == 0,
                    };
                    self.put_predicate(*p, if holds { !0 } else { 0 }, mask);
                }
                Op::Reduce { op, ty, d, a, .. } => {
                    let a = self.get(*a);
                    let op = match op {
                        Binary::Minimum => Atomic::Minimum,
                        Binary::Maximum => Atomic::Maximum,
                        Binary::And => Atomic::And,
                        Binary::Or => Atomic::Or,
                        Binary::Xor => Atomic::Xor,
                        _ => Atomic::Add,
                    };
                    let all = each(mask).map(|l| a[l]).reduce(|x, y| alu::atomic(op, *ty, x, y, 0)).unwrap_or(0);
                    self.put(*d, &[all; LANES], mask);
                }
                Op::Match { all, ty, d, p, a, .. } => {
                    let (a, cut) = (*self.get(*a), alu::mask_of(*ty));
                    let like =
                        |l: usize| each(mask).filter(|o| (a[*o] ^ a[l]) & cut == 0).fold(0_u32, |m, o| m | 1 << o);
                    let mut values = [0; LANES];
                    let agree = like(mask.trailing_zeros() as usize) == mask;
                    for lane in each(mask) {
                        values[lane] = match all {
                            true => u64::from(if agree { mask } else { 0 }),
                            false => u64::from(like(lane)),
                        };
                    }
                    self.put(*d, &values, mask);
                    if let Some(p) = p {
                        self.put_predicate(*p, if agree { !0 } else { 0 }, mask);
                    }
                }
                _ => {
                    if mask == self.live {
                        self.turn = self.turn.saturating_add(1);
                    }
                }
            }
        }
        Ok(())
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

    #[inline]
    fn who(&self, lane: usize) -> Who {
        #[allow(clippy::cast_possible_truncation)] // at most 1024 threads
        Who { thread: self.thread(lane) as u16, turn: self.turn }
    }

    /// A generic address's space and the address in it.
    #[inline]
    fn resolve(space: Space, address: u64) -> (Space, u64) {
        if space != Space::Generic {
            return (space, address);
        }
        if (SHARED_BASE..SHARED_BASE + WINDOW).contains(&address) {
            (Space::Shared, address - SHARED_BASE)
        } else if (LOCAL_BASE..LOCAL_BASE + WINDOW).contains(&address) {
            (Space::Local, address - LOCAL_BASE)
        } else if (CONSTANT_BASE..CONSTANT_BASE + WINDOW).contains(&address) {
            (Space::Constant, address)
        } else {
            (Space::Global, address)
        }
    }

    #[cold]
    fn misaligned(&self, at: u32, lane: usize, address: u64, bytes: u32, around: &Surroundings<'_>) -> Fault {
        let text = format!("{bytes} bytes at {address:#x}, which is no multiple of {bytes}");
        around.fault(Code::MisalignedAddress, at, self.thread(lane), &text)
    }

    /// The range of a lane's local memory, or of constants or parameters.
    fn range(len: usize, address: u64, bytes: u32) -> Option<core::ops::Range<usize>> {
        let start = usize::try_from(address).ok()?;
        let end = start.checked_add(bytes as usize)?;
        (end <= len).then_some(start..end)
    }

    fn load(
        &mut self,
        at: u32,
        mask: u32,
        (space, ty, base, offset): (Space, Type, Register, i64),
        d: &[Option<Register>],
        around: &mut Surroundings<'_>,
    ) -> Result<(), Fault> {
        let bytes = ty.bytes();
        let all = bytes * u32::try_from(d.len()).unwrap_or(1);
        let is_plain = bytes >= 4 || !ty.is_signed();
        for lane in each(mask) {
            let start = self.registers[base as usize][lane].wrapping_add_signed(offset);
            let (space, start) = Self::resolve(space, start);
            if start & u64::from(all - 1) != 0 {
                return Err(self.misaligned(at, lane, start, all, around));
            }
            if let (&[Some(d)], true) = (d, is_plain) {
                let value = match space {
                    Space::Global if around.blocks.is_none() => around.memory.quick_load(start, bytes, around.hint),
                    Space::Shared if bytes == 4 => around.shared.quick_load(start, self.who(lane)),
                    _ => None,
                };
                if let Some(value) = value {
                    self.registers[d as usize][lane] = value;
                    around.traffic.read += if space == Space::Global { u64::from(all) } else { 0 };
                    continue;
                }
            }
            for (address, part) in (start..).step_by(bytes as usize).zip(d) {
                let value = self.load_one(at, lane, (space, address, bytes), Touch::Read, around)?;
                let value = if ty.is_signed() && bytes < 4 { alu::signed(value, ty).cast_unsigned() } else { value };
                if let Some(part) = part {
                    self.registers[*part as usize][lane] = value;
                }
            }
            if space == Space::Global {
                around.traffic.read += u64::from(all);
            }
        }
        Ok(())
    }

    fn load_one(
        &self,
        at: u32,
        lane: usize,
        (space, address, bytes): (Space, u64, u32),
        touch: Touch,
        around: &mut Surroundings<'_>,
    ) -> Result<u64, Fault> {
        let slice = match space {
            Space::Global | Space::Generic => {
                let mut hint = around.hint;
                let found = around.memory.load(address, bytes, &mut hint);
                around.hint = hint;
                let found = found.and_then(|value| around.touch(address, bytes, touch).map(|()| value));
                return found.map_err(|f| around.fault(f.code, at, self.thread(lane), &f.text));
            }
            Space::Shared => {
                let found = around.shared.load(address, bytes, self.who(lane));
                return found
                    .map_err(|text| around.fault(self.shared_code(address, around), at, self.thread(lane), &text));
            }
            Space::Local => {
                let size = around.launch.entry.local_bytes as usize;
                let own = &around.local[self.thread(lane) * size..][..size];
                Self::range(size, address, bytes).map(|r| &own[r])
            }
            Space::Constant => {
                let all = around.launch.constants;
                Self::range(all.len(), address.wrapping_sub(CONSTANT_BASE), bytes).map(|r| &all[r])
            }
            Space::Param => {
                let all = around.launch.parameters;
                Self::range(all.len(), address, bytes).map(|r| &all[r])
            }
        };
        let Some(slice) = slice else {
            let text = format!("{bytes} bytes at {address:#x} are outside of {space:?} memory");
            return Err(around.fault(Code::IllegalAddress, at, self.thread(lane), &text));
        };
        let mut value = [0; 8];
        value[..slice.len()].copy_from_slice(slice);
        Ok(u64::from_le_bytes(value))
    }

    #[allow(clippy::unused_self)] // beside its siblings
    fn shared_code(&self, address: u64, around: &Surroundings<'_>) -> Code {
        if address < around.shared.bytes() as u64 { Code::LaunchFailed } else { Code::IllegalAddress }
    }

    fn store(
        &mut self,
        at: u32,
        mask: u32,
        (space, ty, base, offset): (Space, Type, Register, i64),
        a: &[Register],
        around: &mut Surroundings<'_>,
    ) -> Result<(), Fault> {
        let bytes = ty.bytes();
        let all = bytes * u32::try_from(a.len()).unwrap_or(1);
        for lane in each(mask) {
            let start = self.registers[base as usize][lane].wrapping_add_signed(offset);
            let (space, start) = Self::resolve(space, start);
            if start & u64::from(all - 1) != 0 {
                return Err(self.misaligned(at, lane, start, all, around));
            }
            for (address, part) in (start..).step_by(bytes as usize).zip(a) {
                let value = self.registers[*part as usize][lane];
                match space {
                    Space::Global | Space::Generic => {
                        let mut hint = around.hint;
                        let done = around.memory.store(address, bytes, value, &mut hint);
                        around.hint = hint;
                        let done = done.and_then(|()| around.touch(address, bytes, Touch::Write));
                        done.map_err(|f| around.fault(f.code, at, self.thread(lane), &f.text))?;
                    }
                    Space::Shared => {
                        let done = around.shared.store(address, bytes, value, self.who(lane));
                        done.map_err(|text| {
                            around.fault(self.shared_code(address, around), at, self.thread(lane), &text)
                        })?;
                    }
                    Space::Local => {
                        let size = around.launch.entry.local_bytes as usize;
                        let Some(range) = Self::range(size, address, bytes) else {
                            let text = format!("{bytes} bytes at {address:#x} are outside of local memory");
                            return Err(around.fault(Code::IllegalAddress, at, self.thread(lane), &text));
                        };
                        around.local[self.thread(lane) * size..][range]
                            .copy_from_slice(&value.to_le_bytes()[..bytes as usize]);
                    }
                    Space::Constant | Space::Param => {
                        let text = format!("a write to {space:?} memory at {address:#x}");
                        return Err(around.fault(Code::IllegalAddress, at, self.thread(lane), &text));
                    }
                }
            }
            if space == Space::Global {
                around.traffic.written += u64::from(all);
            }
        }
        Ok(())
    }

    fn atomic(
        &mut self,
        at: u32,
        mask: u32,
        (space, ty, base, offset): (Space, Type, Register, i64),
        (op, d, a, b): (Atomic, Option<Register>, Register, Register),
        around: &mut Surroundings<'_>,
    ) -> Result<(), Fault> {
        let bytes = ty.bytes();
        for lane in each(mask) {
            let address = self.registers[base as usize][lane].wrapping_add_signed(offset);
            let (space, address) = Self::resolve(space, address);
            if !address.is_multiple_of(bytes.into()) {
                return Err(self.misaligned(at, lane, address, bytes, around));
            }
            let (a, b) = (self.registers[a as usize][lane], self.registers[b as usize][lane]);
            let old = match space {
                Space::Shared => {
                    let who = self.who(lane);
                    let done = around.shared.exchange(address, bytes, who, |old| alu::atomic(op, ty, old, a, b));
                    done.map_err(|text| around.fault(self.shared_code(address, around), at, self.thread(lane), &text))?
                }
                Space::Global => {
                    let old = self.load_one(at, lane, (space, address, bytes), Touch::Atomic, around)?;
                    let new = alu::atomic(op, ty, old, a, b);
                    let mut hint = around.hint;
                    let done = around.memory.store(address, bytes, new, &mut hint);
                    done.map_err(|f| around.fault(f.code, at, self.thread(lane), &f.text))?;
                    around.traffic.atomic += u64::from(bytes);
                    old
                }
                _ => {
                    let text = format!("an atomic on {space:?} memory at {address:#x}");
                    return Err(around.fault(Code::IllegalAddress, at, self.thread(lane), &text));
                }
            };
            if let Some(d) = d {
                self.registers[d as usize][lane] = old;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::exec::{Launch, Traffic, run};
    use crate::memory::{Memory, Rules};
    use crate::ptx::parser::parse;
    use crate::report::Fault;
    use std::collections::HashMap;

    /// Runs a body of which the lanes of one block end with a number in `%r0` each.
    fn lanes(threads: u32, body: &str) -> Result<Vec<u32>, Fault> {
        let text = format!(
            ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(\n.param .u64 k_0\n)\n{{\n\
             .reg .b64 %rd<4>; .reg .b32 %r<10>; .reg .pred %p<5>; .shared .align 4 .b8 tile[256];\n\
             mov.u32 %r1, %tid.x;\nmov.u32 %r0, 0;\n{body}\n$END:\n\
             ld.param.u64 %rd0, [k_0];\ncvta.to.global.u64 %rd0, %rd0;\nmul.wide.u32 %rd1, %r1, 4;\n\
             add.s64 %rd0, %rd0, %rd1;\nst.global.u32 [%rd0], %r0;\nret;\n}}\n"
        );
        let module = parse(&text).unwrap();
        let rules = Rules { capacity: 1 << 20, granularity: 1, refuse_unwritten: true, is_dry: false };
        let mut memory = Memory::new(1 << 44, rules);
        let out = memory.allocate(4 * u64::from(threads), None).unwrap();
        let launch = Launch {
            entry: &module.entries["k"],
            lines: &module.lines,
            constants: &[],
            symbols: &HashMap::new(),
            grid: [1; 3],
            block: [threads, 1, 1],
            dynamic_shared: 0,
            checks_blocks: false,
            parameters: &out.to_le_bytes(),
            most_instructions: 1 << 16,
        };
        let Traffic { written, .. } = run(&launch, &mut memory)?;
        assert_eq!(written, 4 * u64::from(threads));
        let mut bytes = vec![0; 4 * threads as usize];
        memory.read(out, &mut bytes).unwrap();
        Ok(bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect())
    }

    #[test]
    fn lanes_that_part_meet_again() {
        // A loop of as many rounds as the lane's number, then a shuffle of all.
        let body = "mov.u32 %r2, %r1;\n$L: setp.eq.s32 %p1, %r2, 0;\n@%p1 bra $D;\nadd.s32 %r0, %r0, 2;\n\
                    add.s32 %r2, %r2, -1;\nbra $L;\n$D: shfl.sync.idx.b32 %r0, %r0, 31, 31, -1;";
        assert_eq!(lanes(32, body).unwrap(), [62; 32]);
    }

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

    #[test]
    fn a_barrier_in_a_branch_is_caught_and_one_after_exits_is_not() {
        let body = "setp.lt.u32 %p1, %r1, 8;\n@%p1 bra $A;\nbar.sync 0;\nbra $END;\n$A: bar.sync 0;";
        assert!(lanes(32, body).unwrap_err().text.contains("barrier divergence"));
        let body = "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra $A;\nbar.sync 0;\nbra $END;\n$A: bar.sync 0;";
        assert!(lanes(64, body).unwrap_err().text.contains("barrier divergence"));
    }

    #[test]
    fn pairs_are_packed_and_taken_apart() {
        let body = "mov.b64 %rd2, {%r1, 7};\nmov.b64 {%r2, %r3}, %rd2;\nadd.s32 %r0, %r2, %r3;";
        assert_eq!(lanes(32, body).unwrap()[..2], [7, 8]);
    }
}
