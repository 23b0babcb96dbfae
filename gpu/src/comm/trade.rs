//! Context-parallel ranks trade tokens for heads: between the projections and attention each gives all heads of its own tokens
//! for some heads of all tokens, and takes its own back behind it (DeepSpeed-Ulysses, arXiv:2309.14509).

use super::{Comm, CommError, sum};
use crate::device::Format;
use crate::ops::elementwise::{Columns, Elementwise};
use crate::shapes::{Axis, Context, Dealt, Lengths, Times, Traded};
use crate::{View, ViewMut};
use moe_model_core::groups::Group;
use moe_model_core::traffic::Operation;

const GROUP: Group = Group::Cp;
const OPERATION: Operation = Operation::AllToAll;

/// How heads and tokens fall to ranks.
#[derive(Clone, Copy)]
struct Deal {
    sequences: usize,
    ranks: usize,
    /// Rows of a sequence that a rank has of its own.
    piece: usize,
    /// Columns of all heads.
    all: usize,
    /// Columns of the heads that one rank attends with.
    dealt: usize,
    /// Ranks that attend with the same heads, where these are fewer.
    alike: usize,
}

impl Deal {
    fn of<A: Axis, W: Axis>(lengths: &Lengths) -> Self {
        let (ranks, heads, width) = (lengths.trading_ranks, A::len(lengths), W::len(lengths));
        Self {
            sequences: lengths.batch,
            ranks,
            piece: lengths.context / lengths.batch,
            all: heads * width,
            dealt: Dealt::<A>::len(lengths) * width,
            alike: (ranks / heads).max(1),
        }
    }

    /// The first column of a rank's heads.
    const fn column(&self, rank: usize) -> usize {
        rank / self.alike * self.dealt
    }

    /// Numbers that one rank sends to another.
    const fn len(&self) -> usize {
        self.sequences * self.block()
    }

    /// Those of one sequence.
    const fn block(&self) -> usize {
        self.piece * self.dealt
    }

    /// Each sequence, and each rank.
    fn each(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.sequences).flat_map(move |sequence| (0..self.ranks).map(move |rank| (sequence, rank)))
    }

    /// Where those of a rank's tokens lie among all tokens, sequence by sequence.
    fn blocks(self, rank: usize) -> impl Iterator<Item = usize> {
        (0..self.sequences).map(move |sequence| (sequence * self.ranks + rank) * self.block())
    }
}

impl Comm {
    /// Some heads of all tokens for all heads of this rank's. Alone, the tokens of others are its own.
    pub(crate) fn trade<D: Elementwise, A: Axis, W: Axis, E: Format>(
        &self,
        device: &D,
        mut to: ViewMut<'_, D, Traded, Times<Dealt<A>, W>, E>,
        own: View<'_, D, Context, Times<A, W>, E>,
        lengths: &Lengths,
    ) -> Result<(), CommError> {
        let deal = Deal::of::<A, W>(lengths);
        if self.is_alone() {
            let (into, from) = (Columns { all: deal.dealt, first: 0 }, Columns { all: deal.all, first: 0 });
            for (sequence, rank) in deal.each() {
                let (rows, piece) =
                    ((sequence * deal.ranks + rank) * deal.piece, own.some(sequence * deal.piece, deal.piece));
                device.copy_columns(to.again().some(rows, deal.piece).raw(), into, piece.raw(), from, deal.dealt);
            }
            return Ok(());
        }
        let heads = |values: &[E], rank| {
            let rows = values.chunks_exact(deal.all);
            E::to_bytes(&rows.flat_map(|row| &row[deal.column(rank)..][..deal.dealt]).copied().collect::<Vec<E>>())
        };
        let split = |values: &[E]| (0..deal.ranks).map(|rank| heads(values, rank)).collect::<Vec<_>>();
        let sent = |_| device.read(own.raw(), split).unwrap_or_default();
        let received = self.exchange(GROUP, OPERATION, sent)?.unwrap_or_default();
        let received = self.elements::<E>(GROUP, OPERATION, &received, |_| deal.len())?;
        device.write(to.raw(), |out| {
            for (rank, of_rank) in received.iter().enumerate() {
                for (at, block) in deal.blocks(rank).zip(of_rank.chunks_exact(deal.block())) {
                    out[at..][..block.len()].copy_from_slice(block);
                }
            }
        });
        Ok(())
    }

    /// All heads of this rank's tokens for some heads of all tokens; of heads that several ranks attended with the sum, as
    /// gradients are. Alone, the heads of others are its own.
    pub(crate) fn trade_back<D: Elementwise, A: Axis, W: Axis, E: Format>(
        &self,
        device: &D,
        mut own: ViewMut<'_, D, Context, Times<A, W>, E>,
        from: View<'_, D, Traded, Times<Dealt<A>, W>, E>,
        lengths: &Lengths,
    ) -> Result<(), CommError> {
        let deal = Deal::of::<A, W>(lengths);
        if self.is_alone() {
            for (sequence, rank) in deal.each() {
                let (into, of) =
                    (Columns { all: deal.all, first: deal.column(rank) }, Columns { all: deal.dealt, first: 0 });
                let piece = from.some(sequence * deal.ranks * deal.piece, deal.piece);
                let rows = own.again().some(sequence * deal.piece, deal.piece);
                device.copy_columns(rows.raw(), into, piece.raw(), of, deal.dealt);
            }
            return Ok(());
        }
        let tokens = |values: &[E], rank| {
            deal.blocks(rank).flat_map(|at| E::to_bytes(&values[at..][..deal.block()])).collect::<Vec<u8>>()
        };
        let split = |values: &[E]| (0..deal.ranks).map(|rank| tokens(values, rank)).collect::<Vec<_>>();
        let sent = |_| device.read(from.raw(), split).unwrap_or_default();
        let received = self.exchange(GROUP, OPERATION, sent)?.unwrap_or_default();
        let received = self.elements::<E>(GROUP, OPERATION, &received, |_| deal.len())?;
        device.write(own.raw(), |out| {
            let mut heads = vec![E::default(); deal.len()];
            for (of_alike, first) in received.chunks(deal.alike).zip((0..).step_by(deal.dealt)) {
                sum(&mut heads, of_alike);
                for (row, heads) in out.chunks_exact_mut(deal.all).zip(heads.chunks_exact(deal.dealt)) {
                    row[first..][..deal.dealt].copy_from_slice(heads);
                }
            }
        });
        Ok(())
    }
}
