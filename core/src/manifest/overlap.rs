//! Which elements two pieces of one tensor share: where they stand in either, run by run.

use crate::holdings::Part;
use alloc::vec;
use alloc::vec::Vec;

/// Some elements of a part of a tensor, row by row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece<'a> {
    /// The part.
    pub part: &'a Part,
    /// Of a part whose first dimension are experts, the number of each in the model; none where places are numbers.
    pub experts: &'a [u64],
    /// The first of its elements.
    pub first: u64,
    /// How many.
    pub elements: u64,
}

/// Elements that stand behind one another in two pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The first of them among those of the one piece.
    pub from: u64,
    /// And among those of the other.
    pub to: u64,
    /// How many.
    pub len: u64,
}

/// What two pieces of a tensor share, in the order of the second one's elements.
///
/// # Errors
/// What is made of a run refuses it.
pub fn overlaps<E>(from: &Piece<'_>, to: &Piece<'_>, mut each: impl FnMut(Run) -> Result<(), E>) -> Result<(), E> {
    let dims = to.part.shape.len();
    if from.part.shape.len() != dims || dims == 0 {
        return Ok(());
    }
    // What they share along dimensions behind the first one: places in either, and how many.
    let mut shared = vec![Shared::default(); dims];
    for (dim, shared) in shared.iter_mut().enumerate().skip(1) {
        match Shared::along(from.part, to.part, dim) {
            Some(along) => *shared = along,
            None => return Ok(()),
        }
    }
    for first in firsts(from, to) {
        shared[0] = first;
        rows(from, to, &shared, &mut each)?;
    }
    Ok(())
}

/// Places along a dimension that two parts share.
#[derive(Clone, Copy, Default)]
struct Shared {
    from: u64,
    to: u64,
    len: u64,
}

impl Shared {
    fn along(from: &Part, to: &Part, dim: usize) -> Option<Self> {
        let ends = |part: &Part| (part.start[dim], part.start[dim] + part.shape[dim]);
        let ((from, from_end), (to, to_end)) = (ends(from), ends(to));
        let (start, end) = (from.max(to), from_end.min(to_end));
        (start < end).then(|| Self { from: start - from, to: start - to, len: end - start })
    }
}

/// Along the first dimension: one run of places, or as many as it takes where experts stand in another order.
fn firsts(from: &Piece<'_>, to: &Piece<'_>) -> Vec<Shared> {
    if from.experts.is_empty() || to.experts.is_empty() {
        return Shared::along(from.part, to.part, 0).into_iter().collect();
    }
    let mut places: Vec<(u64, u64)> = from.experts.iter().copied().zip(0..).collect();
    places.sort_unstable();
    let mut runs: Vec<Shared> = Vec::new();
    for (expert, place) in to.experts.iter().zip(0..) {
        let Ok(found) = places.binary_search_by_key(expert, |(expert, _)| *expert) else { continue };
        let there = places[found].1;
        match runs.last_mut() {
            Some(run) if run.from + run.len == there && run.to + run.len == place => run.len += 1,
            _ => runs.push(Shared { from: there, to: place, len: 1 }),
        }
    }
    runs
}

/// The runs of a box that both parts hold.
fn rows<E>(
    from: &Piece<'_>,
    to: &Piece<'_>,
    shared: &[Shared],
    each: &mut impl FnMut(Run) -> Result<(), E>,
) -> Result<(), E> {
    let dims = shared.len();
    // Behind this dimension both have all of what the other has.
    let is_whole = |dim: usize| shared[dim].len == from.part.shape[dim] && shared[dim].len == to.part.shape[dim];
    let inner = (1..dims).rev().take_while(|dim| is_whole(*dim)).count();
    let last = dims - 1 - inner;
    let behind: u64 = to.part.shape[last + 1..].iter().product();
    let [strides_from, strides_to] = [from, to].map(|piece| strides(&piece.part.shape));
    let mut at = vec![0; last];
    loop {
        let place = |strides: &[u64], first: fn(&Shared) -> u64| -> u64 {
            let outer = (0..last).map(|dim| (first(&shared[dim]) + at[dim]) * strides[dim]);
            outer.sum::<u64>() + first(&shared[last]) * strides[last]
        };
        let run = Run {
            from: place(&strides_from, |shared| shared.from),
            to: place(&strides_to, |shared| shared.to),
            len: shared[last].len * behind,
        };
        if let Some(run) = within(run, from, to) {
            each(run)?;
        }
        // The next row: the last of the dimensions in front changes first.
        let mut dim = last;
        loop {
            if dim == 0 {
                return Ok(());
            }
            dim -= 1;
            at[dim] += 1;
            if at[dim] < shared[dim].len {
                break;
            }
            at[dim] = 0;
        }
    }
}

/// From an element to the next one along each dimension.
fn strides(shape: &[u64]) -> Vec<u64> {
    let mut strides = vec![1; shape.len()];
    for dim in (0..shape.len().saturating_sub(1)).rev() {
        strides[dim] = strides[dim + 1] * shape[dim + 1];
    }
    strides
}

/// What of a run of two parts lies in both pieces, counted from where these begin.
fn within(run: Run, from: &Piece<'_>, to: &Piece<'_>) -> Option<Run> {
    let before = |place: u64, piece: &Piece<'_>| piece.first.saturating_sub(place);
    let left = |place: u64, piece: &Piece<'_>| (piece.first + piece.elements).saturating_sub(place);
    let skipped = before(run.from, from).max(before(run.to, to));
    let end = run.len.min(left(run.from, from)).min(left(run.to, to));
    (skipped < end).then(|| Run {
        from: run.from + skipped - from.first,
        to: run.to + skipped - to.first,
        len: end - skipped,
    })
}
