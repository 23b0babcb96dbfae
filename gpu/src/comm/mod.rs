//! Collectives. A rank may be alone, its peers stood in for, or one of a world whose ranks exchange what they have. What
//! carries the bytes is a [`Carrier`]; sums are made here, in the order of ranks, so that they are the same in every run.

#[cfg(feature = "mpi")]
pub mod mpi;
#[cfg(feature = "cuda")]
pub mod nccl;
mod ring;
mod shares;
mod solo;
#[cfg(feature = "cuda")]
pub mod store;
pub mod threads;
mod trade;

use crate::device::{Element, Format, Memory};
use crate::ops::elementwise::{Columns, Elementwise};
use crate::shapes::{Axis, Context, Lengths, OwnRows, Rows, Shard, Tokens};
use crate::{View, ViewMut};
use core::cell::RefCell;
use core::fmt;
use core::mem::size_of;
use core::ops::Range;
use moe_model_core::groups::{Group, Ranks};
use moe_model_core::traffic::Operation;
use moe_model_core::{Bytes, Coordinates, Plan};
use solo::pieces;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Why a rank does not get what its peers have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommError {
    /// A rank has ended, by itself or because it failed.
    Gone {
        /// The rank.
        rank: u64,
        /// Over which kind of group.
        group: Group,
        /// What was to be done.
        operation: &'static str,
    },
    /// A rank sends nothing.
    Stalled {
        /// The rank.
        rank: u64,
        /// Over which kind of group.
        group: Group,
        /// What was to be done.
        operation: &'static str,
        /// How long it was waited for, in milliseconds.
        waited: u64,
    },
    /// A rank does something else, or sends another number of bytes.
    Disagree {
        /// The rank.
        rank: u64,
        /// Over which kind of group.
        group: Group,
        /// What was to be done.
        operation: &'static str,
        /// What differs.
        how: String,
    },
}

impl fmt::Display for CommError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone { rank, group, operation } => {
                write!(f, "rank {rank} has ended, and does not take part in {operation} over {}", group.name())
            }
            Self::Stalled { rank, group, operation, waited } => {
                write!(f, "rank {rank} sends nothing for {operation} over {}: {waited} ms waited", group.name())
            }
            Self::Disagree { rank, group, operation, how } => {
                write!(f, "rank {rank} disagrees on {operation} over {}: {how}", group.name())
            }
        }
    }
}

impl core::error::Error for CommError {}

/// What carries bytes between the ranks of a world.
pub trait Carrier {
    /// Sends a message to each member of a group, and receives one from each: its own, unchanged, among them.
    ///
    /// # Errors
    /// If a member is gone, stalls, or does something else.
    fn exchange(
        &self,
        group: Group,
        ranks: Ranks,
        operation: &'static str,
        sent: Vec<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>, CommError>;

    /// Sends a message to one rank.
    ///
    /// # Errors
    /// If it is gone.
    fn send(&self, to: u64, group: Group, operation: &'static str, message: Vec<u8>) -> Result<(), CommError>;

    /// Receives the next message of one rank.
    ///
    /// # Errors
    /// If it is gone, stalls, or does something else.
    fn receive(&self, from: u64, group: Group, operation: &'static str) -> Result<Vec<u8>, CommError>;
}

impl<C: Carrier> Carrier for Rc<C> {
    fn exchange(
        &self,
        group: Group,
        ranks: Ranks,
        operation: &'static str,
        sent: Vec<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>, CommError> {
        C::exchange(self, group, ranks, operation, sent)
    }

    fn send(&self, to: u64, group: Group, operation: &'static str, message: Vec<u8>) -> Result<(), CommError> {
        C::send(self, to, group, operation, message)
    }

    fn receive(&self, from: u64, group: Group, operation: &'static str) -> Result<Vec<u8>, CommError> {
        C::receive(self, from, group, operation)
    }
}

/// A rank's way to its peers.
pub struct Comm {
    plan: Plan,
    rank: u64,
    place: Coordinates,
    carrier: Option<Box<dyn Carrier>>,
    sent: RefCell<BTreeMap<(Group, Operation), Sent>>,
    /// What other stages sent before it was asked for, by who sent it.
    early: RefCell<HashMap<(u64, Subject), Vec<u8>>>,
}

/// What a message from stage to stage is of. Stages of several chunks send one another more than one kind, and ask for it in
/// the order of their own events.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Subject {
    /// Hidden states for a place in the order of virtual stages, of a micro-batch.
    Hidden { place: u64, micro_batch: u64 },
    /// The gradients of what such a place made.
    Gradient { place: u64, micro_batch: u64 },
    /// The gradients of a table that two stages hold.
    Table,
}

impl Subject {
    /// Bytes of it behind a message.
    const BYTES: usize = 24;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let [a, b, c] = match self {
            Self::Hidden { place, micro_batch } => [0, place, micro_batch],
            Self::Gradient { place, micro_batch } => [1, place, micro_batch],
            Self::Table => [2, 0, 0],
        };
        let mut bytes = [0; Self::BYTES];
        bytes.chunks_exact_mut(8).zip([a, b, c]).for_each(|(out, number)| out.copy_from_slice(&number.to_le_bytes()));
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match *bytes.as_chunks().0 {
            [kind, place, micro_batch] => {
                let [kind, place, micro_batch] = [kind, place, micro_batch].map(u64::from_le_bytes);
                match [kind, place, micro_batch] {
                    [0, ..] => Some(Self::Hidden { place, micro_batch }),
                    [1, ..] => Some(Self::Gradient { place, micro_batch }),
                    [2, 0, 0] => Some(Self::Table),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// Bytes that a rank sent in an operation, all of them in all times.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sent {
    /// To others.
    pub others: Bytes,
    /// To itself: what it keeps of an all-to-all.
    pub own: Bytes,
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Comm").field("rank", &self.rank).field("is_alone", &self.is_alone()).finish_non_exhaustive()
    }
}

impl Comm {
    /// The first rank of a stage, alone.
    #[must_use]
    pub fn alone(plan: &Plan, stage: u64) -> Self {
        Self::new(plan, plan.ranks_of_stage(stage).start, None)
    }

    /// A rank of a world.
    #[must_use]
    pub fn of_world(plan: &Plan, rank: u64, carrier: Box<dyn Carrier>) -> Self {
        Self::new(plan, rank, Some(carrier))
    }

    fn new(plan: &Plan, rank: u64, carrier: Option<Box<dyn Carrier>>) -> Self {
        let place = plan.coordinates(rank);
        Self { plan: *plan, rank, place, carrier, sent: RefCell::default(), early: RefCell::default() }
    }

    /// Whether its peers are stood in for.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.carrier.is_none()
    }

    /// Its number in the world.
    #[must_use]
    pub fn rank(&self) -> u64 {
        self.rank
    }

    /// Its place along every axis.
    #[must_use]
    pub fn place(&self) -> Coordinates {
        self.place
    }

    /// What it sent so far, by kind of group and operation.
    #[must_use]
    pub fn sent(&self) -> Vec<(Group, Operation, Sent)> {
        self.sent.borrow().iter().map(|((group, operation), sent)| (*group, *operation, *sent)).collect()
    }

    fn count(&self, group: Group, operation: Operation, [others, own]: [usize; 2]) {
        let mut all = self.sent.borrow_mut();
        let sent = all.entry((group, operation)).or_default();
        sent.others = sent.others.plus(Bytes::new(others as u64));
        sent.own = sent.own.plus(Bytes::new(own as u64));
    }

    /// A message to each member of the rank's group of a kind, and one from each; none where it is alone.
    pub(crate) fn exchange(
        &self,
        group: Group,
        operation: Operation,
        sent: impl FnOnce(usize) -> Vec<Vec<u8>>,
    ) -> Result<Option<Vec<Vec<u8>>>, CommError> {
        self.exchange_among(group, self.plan.group(group, self.rank), operation, sent)
    }

    /// The same among some members of the group.
    fn exchange_among(
        &self,
        group: Group,
        ranks: Ranks,
        operation: Operation,
        sent: impl FnOnce(usize) -> Vec<Vec<u8>>,
    ) -> Result<Option<Vec<Vec<u8>>>, CommError> {
        let Some(carrier) = &self.carrier else { return Ok(None) };
        let sent = sent(usize::try_from(ranks.count).expect("members are addresses"));
        let of = |own: bool| {
            let messages = ranks.into_iter().zip(&sent).filter(|(to, _)| (*to == self.rank) == own);
            messages.map(|(_, message)| message.len()).sum()
        };
        self.count(group, operation, [of(false), of(true)]);
        carrier.exchange(group, ranks, operation.name(), sent).map(Some)
    }

    /// A message of every rank of the world, in the order of ranks; its own where it is alone.
    pub(crate) fn everyone(&self, operation: &'static str, own: Vec<u8>) -> Result<Vec<Vec<u8>>, CommError> {
        let mut known = vec![own];
        let Some(carrier) = &self.carrier else { return Ok(known) };
        // Each passes on what it knows along one axis after the other, the fastest first. It is no part of a step, and not
        // counted.
        for group in [Group::Tp, Group::CpDp, Group::Pp] {
            let packed: Vec<u8> = known.iter().flat_map(|message| packed(message)).collect();
            let ranks = self.plan.group(group, self.rank);
            let members = usize::try_from(ranks.count).expect("members are addresses");
            let received = carrier.exchange(group, ranks, operation, vec![packed; members])?;
            known = Vec::new();
            for (message, rank) in received.iter().zip(ranks) {
                let how = || "its message has another end".to_owned();
                let disagree = || CommError::Disagree { rank, group, operation, how: how() };
                known.extend(unpacked(message).ok_or_else(disagree)?);
            }
        }
        Ok(known)
    }

    /// What every member of the rank's group of a kind has, in the order of ranks, of which each has as much; none where it is
    /// alone.
    fn all<D: Memory, C, R, E: Element>(
        &self,
        device: &D,
        group: Group,
        own: View<'_, D, R, C, E>,
    ) -> Result<Option<Vec<Vec<E>>>, CommError> {
        if self.is_alone() {
            return Ok(None);
        }
        let (len, operation) = (own.raw().len(), Operation::AllGather);
        let bytes = device.read(own.raw(), E::to_bytes).unwrap_or_default();
        let received = self.exchange(group, operation, |members| vec![bytes; members])?;
        received.map(|received| self.elements(group, operation, &received, |_| len)).transpose()
    }

    /// Messages as elements, so many from each.
    fn elements<E: Element>(
        &self,
        group: Group,
        operation: Operation,
        received: &[Vec<u8>],
        expected: impl Fn(usize) -> usize,
    ) -> Result<Vec<Vec<E>>, CommError> {
        elements_among((group, self.plan.group(group, self.rank)), operation, received, expected)
    }

    /// Tokens of all tensor-parallel ranks, each sequence in order.
    ///
    /// # Errors
    /// If another rank is gone, stalls, or sends another number of bytes.
    pub fn gather<D: Memory, C, E: Element>(
        &self,
        device: &D,
        mut all: ViewMut<'_, D, Context, C, E>,
        own: View<'_, D, Tokens, C, E>,
        lengths: &Lengths,
    ) -> Result<(), CommError> {
        let Some(of_ranks) = self.all(device, Group::Tp, own)? else {
            solo::gather(device, all, own, lengths);
            return Ok(());
        };
        let (rows, width) = (solo::piece(lengths), own.width());
        device.write(all.again().raw(), |out| {
            for (piece, (from, to)) in pieces(lengths).enumerate() {
                let of_rank = &of_ranks[piece % of_ranks.len()];
                out[to * width..][..rows * width].copy_from_slice(&of_rank[from * width..][..rows * width]);
            }
        });
        Ok(())
    }

    /// This rank's tokens of a sum over tensor-parallel ranks.
    pub(crate) fn reduce_scatter<D: Memory, C, E: Format>(
        &self,
        device: &D,
        own: ViewMut<'_, D, Tokens, C, E>,
        all: View<'_, D, Context, C, E>,
        lengths: &Lengths,
    ) -> Result<(), CommError> {
        const OPERATION: Operation = Operation::ReduceScatter;
        if self.is_alone() {
            solo::reduce_scatter(device, own, all, lengths);
            return Ok(());
        }
        let (rows, width) = (solo::piece(lengths), own.width());
        let len = lengths.tokens * width;
        let sent = |members: usize| {
            let split = |values: &[E]| {
                let of = |member| {
                    let pieces = pieces(lengths).skip(member).step_by(members);
                    pieces.flat_map(|(_, from)| E::to_bytes(&values[from * width..][..rows * width])).collect()
                };
                (0..members).map(of).collect::<Vec<Vec<u8>>>()
            };
            device.read(all.raw(), split).unwrap_or_default()
        };
        let received = self.exchange(Group::Tp, OPERATION, sent)?.unwrap_or_default();
        let received = self.elements::<E>(Group::Tp, OPERATION, &received, |_| len)?;
        device.write(own.raw(), |out| sum(out, &received));
        Ok(())
    }

    /// This rank's tokens of what each of them has whole.
    pub(crate) fn own_tokens<D: Memory, C, E: Element>(
        &self,
        device: &D,
        mut own: ViewMut<'_, D, Tokens, C, E>,
        all: View<'_, D, Context, C, E>,
        lengths: &Lengths,
    ) {
        let (rows, ranks) = (solo::piece(lengths), lengths.context / lengths.tokens);
        let mine = if ranks > 1 { usize::try_from(self.place.tp).expect("ranks are addresses") } else { 0 };
        for (to, from) in pieces(lengths).skip(mine).step_by(ranks) {
            device.copy(own.again().some(to, rows).raw(), all.some(from, rows).raw());
        }
    }

    /// The sum over a kind of group, in place.
    pub(crate) fn all_reduce<D: Memory, R, C, E: Format>(
        &self,
        device: &D,
        group: Group,
        values: ViewMut<'_, D, R, C, E>,
    ) -> Result<(), CommError> {
        self.reduce(device, (group, self.plan.group(group, self.rank)), values, sum)
    }

    /// The largest over a kind of group, in place.
    pub(crate) fn all_max<D: Memory, R, C>(
        &self,
        device: &D,
        group: Group,
        values: ViewMut<'_, D, R, C, f32>,
    ) -> Result<(), CommError> {
        self.reduce(device, (group, self.plan.group(group, self.rank)), values, |out, of_ranks| {
            for (place, out) in out.iter_mut().enumerate() {
                *out = of_ranks.iter().map(|of_rank| of_rank[place]).fold(f32::NEG_INFINITY, f32::max);
            }
        })
    }

    /// The sum over those members of the rank's group that share what it has, in place: so many neighbours.
    pub(crate) fn sum_with<D: Memory, R, C, E: Format>(
        &self,
        device: &D,
        group: Group,
        neighbours: u64,
        values: ViewMut<'_, D, R, C, E>,
    ) -> Result<(), CommError> {
        let (all, place) = (self.plan.group(group, self.rank), self.plan.place(group, self.rank));
        let ranks = Ranks { first: all.at(place / neighbours * neighbours), count: neighbours, ..all };
        self.reduce(device, (group, ranks), values, sum)
    }

    /// What is made of all that some ranks have, in place: each makes a part for all.
    fn reduce<D: Memory, R, C, E: Format>(
        &self,
        device: &D,
        (group, ranks): (Group, Ranks),
        mut values: ViewMut<'_, D, R, C, E>,
        fold: impl Fn(&mut [E], &[Vec<E>]),
    ) -> Result<(), CommError> {
        const OPERATION: Operation = Operation::AllReduce;
        if self.is_alone() || ranks.count == 1 {
            return Ok(());
        }
        let (len, members) = (values.view().raw().len(), usize::try_from(ranks.count).expect("members are addresses"));
        let part = len.div_ceil(members);
        let parts = move |member: usize| len.min(member * part)..len.min((member + 1) * part);
        let own = parts(ranks.into_iter().position(|rank| rank == self.rank).unwrap_or(0));
        let split = |values: &[E]| (0..members).map(|member| E::to_bytes(&values[parts(member)])).collect::<Vec<_>>();
        let sent = |_| device.read(values.view().raw(), split).unwrap_or_default();
        let received = self.exchange_among(group, ranks, OPERATION, sent)?.unwrap_or_default();
        let received = elements_among::<E>((group, ranks), OPERATION, &received, |_| own.len())?;
        let mut made = vec![E::default(); own.len()];
        fold(&mut made, &received);
        let made = E::to_bytes(&made);
        let received = self.exchange_among(group, ranks, OPERATION, |members| vec![made; members])?.unwrap_or_default();
        have_lengths::<E>((group, ranks), OPERATION, &received, |member| parts(member).len())?;
        device.write(values.again().raw(), |out| put(out, &received, parts));
        Ok(())
    }

    /// Sums of numbers over a kind of group, in the order of ranks; a rank's own where it is alone.
    pub(crate) fn add_up<const N: usize>(&self, group: Group, own: [f64; N]) -> Result<[f64; N], CommError> {
        const OPERATION: Operation = Operation::AllGather;
        if self.plan.group(group, self.rank).count == 1 {
            return Ok(own);
        }
        let bytes: Vec<u8> = own.into_iter().flat_map(f64::to_le_bytes).collect();
        let Some(received) = self.exchange(group, OPERATION, |members| vec![bytes; members])? else { return Ok(own) };
        let mut sums = [0.0; N];
        for (message, rank) in received.iter().zip(self.plan.group(group, self.rank)) {
            has_length(message, N * size_of::<f64>(), (rank, group, OPERATION.name()))?;
            sums.iter_mut().zip(message.as_chunks().0).for_each(|(sum, bytes)| *sum += f64::from_le_bytes(*bytes));
        }
        Ok(sums)
    }

    /// The columns of all tensor-parallel ranks, behind one another.
    pub(crate) fn gather_columns<D: Elementwise, T, A: Axis, E: Format>(
        &self,
        device: &D,
        mut all: ViewMut<'_, D, T, A, E>,
        own: View<'_, D, T, Shard<A>, E>,
        lengths: &Lengths,
    ) -> Result<(), CommError> {
        let Some(of_ranks) = self.all(device, Group::Tp, own)? else {
            solo::gather_columns(device, all, own, lengths);
            return Ok(());
        };
        let (wide, width) = (all.width(), own.width());
        device.write(all.again().raw(), |out| {
            for (row, out) in out.chunks_exact_mut(wide).enumerate() {
                for (columns, of_rank) in out.chunks_exact_mut(width).zip(&of_ranks) {
                    columns.copy_from_slice(&of_rank[row * width..][..width]);
                }
            }
        });
        Ok(())
    }

    /// This rank's columns of what each of them has whole.
    pub(crate) fn own_columns<D: Elementwise, T, A: Axis, E: Format>(
        &self,
        device: &D,
        own: ViewMut<'_, D, T, Shard<A>, E>,
        all: View<'_, D, T, A, E>,
    ) {
        let (wide, width) = (all.width(), own.width());
        let first = usize::try_from(self.place.tp).expect("ranks are addresses") * width;
        let to = Columns { all: width, first: 0 };
        device.copy_columns(own.raw(), to, all.raw(), Columns { all: wide, first }, width);
    }

    /// Rows go to the ranks that hold their experts, as many to each; as many come from each. Alone, what is sent comes, again
    /// and again.
    pub(crate) fn all_to_all<D: Memory, A, B, C, E: Element>(
        &self,
        device: &D,
        to: ViewMut<'_, D, A, C, E>,
        from: View<'_, D, B, C, E>,
        (sends, receives): (&[usize], &[usize]),
    ) -> Result<(), CommError> {
        const OPERATION: Operation = Operation::AllToAll;
        if self.is_alone() {
            solo::repeat(device, to, from);
            return Ok(());
        }
        let width = from.width();
        let sent = |_| device.read(from.raw(), |values| split(values, sends, width)).unwrap_or_default();
        let received = self.exchange(Group::Ep, OPERATION, sent)?.unwrap_or_default();
        let received = self.elements::<E>(Group::Ep, OPERATION, &received, |member| receives[member] * width)?;
        device.write(to.raw(), |out| fill(out, &received));
        Ok(())
    }

    /// The rows of all ranks that split the same experts behind one another, so many of each. Alone, its own again and again.
    pub(crate) fn gather_rows<D: Memory, C, E: Element>(
        &self,
        device: &D,
        all: ViewMut<'_, D, Rows, C, E>,
        own: View<'_, D, OwnRows, C, E>,
        parts: &[usize],
    ) -> Result<(), CommError> {
        const OPERATION: Operation = Operation::AllGather;
        if self.is_alone() {
            solo::repeat(device, all, own);
            return Ok(());
        }
        let (width, bytes) = (own.width(), device.read(own.raw(), E::to_bytes).unwrap_or_default());
        let received = self.exchange(Group::Etp, OPERATION, |members| vec![bytes; members])?.unwrap_or_default();
        let received = self.elements::<E>(Group::Etp, OPERATION, &received, |member| parts[member] * width)?;
        device.write(all.raw(), |out| fill(out, &received));
        Ok(())
    }

    /// This rank's rows of a sum over ranks that split the same experts, each of which has so many. Alone, the first of them.
    pub(crate) fn reduce_rows<D: Memory, C, E: Format>(
        &self,
        device: &D,
        own: ViewMut<'_, D, OwnRows, C, E>,
        all: View<'_, D, Rows, C, E>,
        parts: &[usize],
    ) -> Result<(), CommError> {
        const OPERATION: Operation = Operation::ReduceScatter;
        if self.is_alone() {
            solo::repeat(device, own, all);
            return Ok(());
        }
        let (width, len) = (own.width(), own.view().raw().len());
        let sent = |_| device.read(all.raw(), |values| split(values, parts, width)).unwrap_or_default();
        let received = self.exchange(Group::Etp, OPERATION, sent)?.unwrap_or_default();
        let received = self.elements::<E>(Group::Etp, OPERATION, &received, |_| len)?;
        device.write(own.raw(), |out| sum(out, &received));
        Ok(())
    }

    /// How many rows come from each rank for each of this rank's experts, where so many go to each expert of all; as many
    /// numbers from each of the ranks that split the same experts, which tell one another. None where it is alone.
    pub(crate) fn counts(&self, sent: &[i32], local: usize) -> Result<Option<Vec<Vec<usize>>>, CommError> {
        const OPERATION: Operation = Operation::Counts;
        let split = |_| sent.chunks(local.max(1)).map(i32::to_bytes).collect();
        let Some(come) = self.exchange(Group::Ep, OPERATION, split)? else { return Ok(None) };
        let come = self.elements::<i32>(Group::Ep, OPERATION, &come, |_| local)?;
        // Each rank has as many copies as this one.
        let own: usize = sent.iter().copied().map(count).sum();
        for (of_rank, rank) in come.iter().zip(self.plan.group(Group::Ep, self.rank)) {
            has_copies(of_rank, own, (rank, Group::Ep, OPERATION))?;
        }
        let bytes = i32::to_bytes(&come.concat());
        let of_all = self.exchange(Group::Etp, OPERATION, |members| vec![bytes; members])?.unwrap_or_default();
        let of_all = self.elements::<i32>(Group::Etp, OPERATION, &of_all, |_| come.len() * local)?;
        for (of_part, rank) in of_all.iter().zip(self.plan.group(Group::Etp, self.rank)) {
            let mut of_ranks = of_part.chunks(local.max(1));
            of_ranks.try_for_each(|of_rank| has_copies(of_rank, own, (rank, Group::Etp, OPERATION)))?;
        }
        Ok(Some(of_all.iter().map(|of_part| of_part.iter().copied().map(count).collect()).collect()))
    }

    /// Sends a tensor to the rank at the same place of another stage, if it is not alone.
    pub(crate) fn send<D: Memory, R, C, E: Element>(
        &self,
        device: &D,
        stage: u64,
        subject: Subject,
        values: View<'_, D, R, C, E>,
    ) -> Result<(), CommError> {
        if self.is_alone() {
            return Ok(());
        }
        self.send_bytes(stage, subject, device.read(values.raw(), E::to_bytes).unwrap_or_default())
    }

    fn send_bytes(&self, stage: u64, subject: Subject, mut bytes: Vec<u8>) -> Result<(), CommError> {
        let Some(carrier) = &self.carrier else { return Ok(()) };
        self.count(Group::Pp, Operation::Send, [bytes.len(), 0]);
        bytes.extend(subject.to_bytes());
        carrier.send(self.plan.group(Group::Pp, self.rank).at(stage), Group::Pp, Operation::Send.name(), bytes)
    }

    /// Receives what it sent; zeros where it is alone.
    pub(crate) fn receive<D: Memory, R, C, E: Element>(
        &self,
        device: &D,
        stage: u64,
        subject: Subject,
        values: ViewMut<'_, D, R, C, E>,
    ) -> Result<(), CommError> {
        match self.received(stage, subject, values.view().raw().len() * size_of::<E>())? {
            Some(bytes) => device.write(values.raw(), |out| E::from_bytes(out, &bytes)),
            None => device.zero(values.raw()),
        }
        Ok(())
    }

    /// Sends numbers to the rank at the same place of another stage, if it is not alone.
    pub(crate) fn send_values(&self, stage: u64, subject: Subject, values: &[f32]) -> Result<(), CommError> {
        self.send_bytes(stage, subject, f32::to_bytes(values))
    }

    /// So many numbers that it sent; zeros where it is alone.
    pub(crate) fn receive_values(&self, stage: u64, subject: Subject, len: usize) -> Result<Vec<f32>, CommError> {
        let bytes = self.received(stage, subject, len * size_of::<f32>())?;
        Ok(bytes.map_or_else(|| vec![0.0; len], |bytes| elements_of(&bytes, len)))
    }

    /// So many bytes from the rank at the same place of another stage; none where it is alone.
    fn received(&self, stage: u64, subject: Subject, len: usize) -> Result<Option<Vec<u8>>, CommError> {
        let Some((rank, bytes)) = self.message(stage, subject)? else { return Ok(None) };
        has_length(&bytes, len, (rank, Group::Pp, Operation::Send.name()))?;
        Ok(Some(bytes))
    }

    /// Passes on what another stage sent, as it is: a stage that holds no layer never has it on its device.
    pub(crate) fn pass_on(&self, (from, of): (u64, Subject), (to, subject): (u64, Subject)) -> Result<(), CommError> {
        let Some((_, bytes)) = self.message(from, of)? else { return Ok(()) };
        self.send_bytes(to, subject, bytes)
    }

    /// A message of another stage, and the rank that sent it; none where it is alone.
    fn message(&self, stage: u64, subject: Subject) -> Result<Option<(u64, Vec<u8>)>, CommError> {
        let Some(carrier) = &self.carrier else { return Ok(None) };
        let rank = self.plan.group(Group::Pp, self.rank).at(stage);
        let mut early = self.early.borrow_mut();
        loop {
            if let Some(bytes) = early.remove(&(rank, subject)) {
                return Ok(Some((rank, bytes)));
            }
            let mut bytes = carrier.receive(rank, Group::Pp, Operation::Send.name())?;
            let end = bytes.split_off(bytes.len().saturating_sub(Subject::BYTES));
            let of_bytes = Subject::from_bytes(&end).ok_or_else(|| CommError::Disagree {
                rank,
                group: Group::Pp,
                operation: Operation::Send.name(),
                how: "it does not say what it sent".to_owned(),
            })?;
            early.insert((rank, of_bytes), bytes);
        }
    }
}

/// A message with its length in front of it.
fn packed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u64).to_le_bytes()[..], message].concat()
}

/// Messages with their lengths in front of them, if that is all there is.
fn unpacked(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk()?;
        let (message, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        messages.push(message.to_vec());
        bytes = rest;
    }
    Some(messages)
}

/// Whether a rank's message is as long as the tensor that it is for.
fn has_length(
    bytes: &[u8],
    expected: usize,
    (rank, group, operation): (u64, Group, &'static str),
) -> Result<(), CommError> {
    if bytes.len() == expected {
        return Ok(());
    }
    let how = format!("it sent {} bytes, {expected} are expected", bytes.len());
    Err(CommError::Disagree { rank, group, operation, how })
}

fn count(count: i32) -> usize {
    usize::try_from(count).unwrap_or(0)
}

/// Whether a rank may have as many copies of tokens as are said to come from one.
fn has_copies(counts: &[i32], most: usize, (rank, group, of): (u64, Group, Operation)) -> Result<(), CommError> {
    if counts.iter().all(|count| *count >= 0) && counts.iter().copied().map(count).sum::<usize>() <= most {
        return Ok(());
    }
    let how = format!("it says that {counts:?} copies of tokens come from one rank, which has {most}");
    Err(CommError::Disagree { rank, group, operation: of.name(), how })
}

/// Messages of some members of a group as elements, so many from each.
fn elements_among<E: Element>(
    (group, ranks): (Group, Ranks),
    operation: Operation,
    received: &[Vec<u8>],
    expected: impl Fn(usize) -> usize,
) -> Result<Vec<Vec<E>>, CommError> {
    have_lengths::<E>((group, ranks), operation, received, &expected)?;
    Ok(received.iter().enumerate().map(|(member, bytes)| elements_of(bytes, expected(member))).collect())
}

/// Whether each message is so many elements.
fn have_lengths<E: Element>(
    (group, ranks): (Group, Ranks),
    operation: Operation,
    received: &[Vec<u8>],
    expected: impl Fn(usize) -> usize,
) -> Result<(), CommError> {
    received.iter().zip(ranks).enumerate().try_for_each(|(member, (bytes, rank))| {
        has_length(bytes, expected(member) * size_of::<E>(), (rank, group, operation.name()))
    })
}

/// Messages, which are as long as that, become the elements at their places.
fn put<E: Element>(out: &mut [E], received: &[Vec<u8>], places: impl Fn(usize) -> Range<usize>) {
    received.iter().enumerate().for_each(|(member, bytes)| E::from_bytes(&mut out[places(member)], bytes));
}

fn elements_of<E: Element>(bytes: &[u8], len: usize) -> Vec<E> {
    let mut elements = vec![E::default(); len];
    E::from_bytes(&mut elements, bytes);
    elements
}

/// Rows as messages, so many in each.
fn split<E: Element>(values: &[E], rows: &[usize], width: usize) -> Vec<Vec<u8>> {
    let mut first = 0;
    let of = |rows: &usize| {
        first += rows * width;
        E::to_bytes(&values[first - rows * width..first])
    };
    rows.iter().map(of).collect()
}

/// What each rank sent, behind one another.
fn fill<E: Element>(out: &mut [E], of_ranks: &[Vec<E>]) {
    let mut first = 0;
    for of_rank in of_ranks {
        out[first..][..of_rank.len()].copy_from_slice(of_rank);
        first += of_rank.len();
    }
}

/// Sums in the order of ranks, made in f32 and rounded once.
fn sum<E: Format>(out: &mut [E], of_ranks: &[Vec<E>]) {
    for (place, out) in out.iter_mut().enumerate() {
        *out = E::of_f32(of_ranks.iter().map(|of_rank| of_rank[place].to_f32()).sum());
    }
}
