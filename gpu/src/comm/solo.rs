//! Collectives of one rank whose peers are stood in for: every buffer is of its true size, and what peers would send is what
//! this rank has.

use crate::device::{Element, Format, Memory};
use crate::ops::elementwise::{Columns, Elementwise};
use crate::shapes::{Axis, Context, Lengths, Shard, Tokens};
use crate::{View, ViewMut};

/// Tokens of all tensor-parallel ranks, each sequence in order.
pub(super) fn gather<D: Memory, C, E: Element>(
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
pub(super) fn reduce_scatter<D: Memory, C, E: Element>(
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
pub(super) fn gather_columns<D: Elementwise, T, A: Axis, E: Format>(
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

/// As many rows come as there is room for: those that are sent, again and again.
pub(super) fn repeat<D: Memory, A, B, C, E: Element>(
    device: &D,
    mut to: ViewMut<'_, D, A, C, E>,
    from: View<'_, D, B, C, E>,
) {
    let mut first = 0;
    while first < to.rows() && from.rows() > 0 {
        let rows = from.rows().min(to.rows() - first);
        device.copy(to.again().some(first, rows).raw(), from.some(0, rows).raw());
        first += rows;
    }
}

/// Rows of a sequence that a rank has.
pub(super) fn piece(lengths: &Lengths) -> usize {
    lengths.tokens / lengths.batch
}

/// The first rows of a rank's own part of each sequence, and of the parts of all ranks that stand for it.
pub(super) fn pieces(lengths: &Lengths) -> impl Iterator<Item = (usize, usize)> {
    let (rows, ranks) = (piece(lengths), lengths.context / lengths.tokens);
    (0..lengths.batch)
        .flat_map(move |sequence| (0..ranks).map(move |rank| (sequence * rows, (sequence * ranks + rank) * rows)))
}
