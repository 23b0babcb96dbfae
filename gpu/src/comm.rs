//! Collectives of one rank whose peers are stood in for: every buffer is of its true size, and what peers would send is what
//! this rank has.

use crate::device::{Element, Format, Memory};
use crate::ops::elementwise::{Columns, Elementwise};
use crate::shapes::{Axis, Context, Lengths, Rows, Shard, Sorted, Tokens};
use crate::{View, ViewMut};

/// A rank alone.
#[derive(Clone, Copy, Default, Debug)]
pub struct Solo;

impl Solo {
    /// Tokens of all tensor-parallel ranks, each sequence in order.
    pub fn gather<D: Memory, C, E: Element>(
        self,
        device: &D,
        mut all: ViewMut<'_, D, Context, C, E>,
        own: View<'_, D, Tokens, C, E>,
        lengths: &Lengths,
    ) {
        for (from, to) in pieces(lengths) {
            let rows = piece(lengths);
            device.copy(all.again().some(to, rows).raw(), own.some(from, rows).raw());
        }
    }

    /// This rank's tokens of a sum over tensor-parallel ranks.
    pub fn reduce_scatter<D: Memory, C, E: Element>(
        self,
        device: &D,
        mut own: ViewMut<'_, D, Tokens, C, E>,
        all: View<'_, D, Context, C, E>,
        lengths: &Lengths,
    ) {
        for (to, from) in pieces(lengths).step_by(lengths.tensor_ranks) {
            let rows = piece(lengths);
            device.copy(own.again().some(to, rows).raw(), all.some(from, rows).raw());
        }
    }

    /// The columns of all tensor-parallel ranks, behind one another.
    pub fn gather_columns<D: Elementwise, T, A: Axis, E: Format>(
        self,
        device: &D,
        mut all: ViewMut<'_, D, T, A, E>,
        own: View<'_, D, T, Shard<A>, E>,
        lengths: &Lengths,
    ) {
        let (wide, width) = (all.width(), own.width());
        for rank in 0..lengths.tensor_ranks {
            let to = Columns { all: wide, first: rank * width };
            device.copy_columns(all.again().raw(), to, own.raw(), Columns { all: width, first: 0 }, width);
        }
    }

    /// This rank's columns: those of the first one.
    pub fn own_columns<D: Elementwise, T, A: Axis, E: Format>(
        self,
        device: &D,
        own: ViewMut<'_, D, T, Shard<A>, E>,
        all: View<'_, D, T, A, E>,
    ) {
        let (wide, width) = (all.width(), own.width());
        let from = Columns { all: wide, first: 0 };
        device.copy_columns(own.raw(), Columns { all: width, first: 0 }, all.raw(), from, width);
    }

    /// Copies of tokens go to the ranks of their experts: as many come as the budget counts.
    pub fn deal<D: Memory, C, E: Element>(
        self,
        device: &D,
        received: ViewMut<'_, D, Rows, C, E>,
        sent: View<'_, D, Sorted, C, E>,
    ) {
        repeat(device, received, sent);
    }

    /// They come back.
    pub fn deal_back<D: Memory, C, E: Element>(
        self,
        device: &D,
        sent: ViewMut<'_, D, Sorted, C, E>,
        received: View<'_, D, Rows, C, E>,
    ) {
        repeat(device, sent, received);
    }
}

/// Rows of a sequence that a rank has.
fn piece(lengths: &Lengths) -> usize {
    lengths.tokens / lengths.batch
}

/// The first rows of a rank's own part of each sequence, and of the parts of all ranks that stand for it.
fn pieces(lengths: &Lengths) -> impl Iterator<Item = (usize, usize)> {
    let (rows, ranks) = (piece(lengths), lengths.context / lengths.tokens);
    (0..lengths.batch)
        .flat_map(move |sequence| (0..ranks).map(move |rank| (sequence * rows, (sequence * ranks + rank) * rows)))
}

/// Fills with as many repetitions as there is room for.
fn repeat<D: Memory, A, B, C, E: Element>(device: &D, mut to: ViewMut<'_, D, A, C, E>, from: View<'_, D, B, C, E>) {
    let mut first = 0;
    while first < to.rows() && from.rows() > 0 {
        let rows = from.rows().min(to.rows() - first);
        device.copy(to.again().some(first, rows).raw(), from.some(0, rows).raw());
        first += rows;
    }
}
