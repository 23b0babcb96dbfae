//! The product of two matrices of any format and strides, added to one of f32.
//!
//! Blocks of both are widened and packed into scratch, so that the innermost loop reads both in order: strips of A with
//! [`ROWS`] rows, strips of B as wide as two vector registers. Every element of C is one chain of multiply-adds over a
//! block of k, added to what C holds, then the next block: the same bits whatever the formats, threads and blocks of m
//! and n are.

use crate::Float;
use pulp::{Arch, Simd, WithSimd};

/// Rows of a strip of A. With two registers of each row of C this takes twelve of the sixteen that AVX2 has.
const ROWS: usize = 6;

/// The widest strip of B: two registers of AVX-512.
const WIDEST: usize = 32;

/// The f32s of a cache line.
const LINE: usize = 16;

/// The side of the squares in which contiguous lanes are turned.
const SIDE: usize = 4;

/// Depths that are packed at a time where a lane is contiguous.
const DEPTHS: usize = 128;

/// A matrix in a slice: element (i, j) is at i * row + j * column. One of both is 1.
#[derive(Clone, Copy)]
pub(crate) struct View<'a, T> {
    /// The memory, from element (0, 0) on.
    pub(crate) data: &'a [T],
    /// From a row to the next.
    pub(crate) row: usize,
    /// From a column to the next.
    pub(crate) column: usize,
}

impl<'a, T> View<'a, T> {
    /// A row-major matrix whose rows begin `row` apart.
    pub(crate) fn rows(data: &'a [T], row: usize) -> Self {
        Self { data, row, column: 1 }
    }

    /// The transpose.
    pub(crate) fn transposed(self) -> Self {
        Self { data: self.data, row: self.column, column: self.row }
    }

    /// The matrix without its first rows.
    pub(crate) fn below(self, rows: usize) -> Self {
        Self { data: self.data.get(rows * self.row..).unwrap_or_default(), ..self }
    }

    /// The matrix without its first columns.
    pub(crate) fn right_of(self, columns: usize) -> Self {
        Self { data: self.data.get(columns * self.column..).unwrap_or_default(), ..self }
    }
}

/// How much of each dimension is packed at once.
#[derive(Clone, Copy)]
pub(crate) struct Blocks {
    /// Rows of A and C.
    pub(crate) m: usize,
    /// Columns of B and C.
    pub(crate) n: usize,
    /// Columns of A, rows of B.
    pub(crate) k: usize,
}

impl Blocks {
    /// The f32s that a packed block of A takes.
    const fn left_len(self) -> usize {
        self.m.next_multiple_of(ROWS) * self.k
    }

    /// The f32s that [`multiply`] needs as scratch.
    pub(crate) const fn scratch_len(self) -> usize {
        LINE + self.left_len() + self.n.next_multiple_of(WIDEST) * self.k
    }
}

/// c = a b, or += if it accumulates, with a `[m, k]`, b `[k, n]`, and c `[m, n]` whose rows begin `c_row` apart.
pub(crate) fn multiply<A: Float, B: Float>(
    c: &mut [f32],
    c_row: usize,
    a: View<A>,
    b: View<B>,
    (m, n, k): (usize, usize, usize),
    accumulate: bool,
    blocks: Blocks,
    scratch: &mut [f32],
) {
    assert!(k > 0 || accumulate, "a product along something");
    assert!(scratch.len() >= blocks.scratch_len(), "scratch of a product");
    let arch = Arch::new();
    let width = arch.dispatch(Width);
    // A register that lies in two cache lines takes twice as long.
    let aligned = scratch.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
    let (left, right) = scratch[aligned..].split_at_mut(blocks.left_len());
    for j in (0..n).step_by(blocks.n) {
        let columns = blocks.n.min(n - j);
        for p in (0..k).step_by(blocks.k) {
            let depth = blocks.k.min(k - p);
            let right = pack(arch, right, b.below(p).right_of(j).transposed(), columns, depth, width);
            for i in (0..m).step_by(blocks.m) {
                let rows = blocks.m.min(m - i);
                let left = pack(arch, left, a.below(i).right_of(p), rows, depth, ROWS);
                let (c, accumulate) = (&mut c[i * c_row + j..], accumulate || p > 0);
                arch.dispatch(Block { c, c_row, left, right, rows, columns, depth, accumulate });
            }
        }
    }
}

/// Widens lanes `[count, depth]` into strips of `width` lanes, each `[depth, width]`. Lanes that the last strip lacks
/// hold anything: no sum of theirs is kept.
fn pack<'a, T: Float>(
    arch: Arch,
    strips: &'a mut [f32],
    lanes: View<T>,
    count: usize,
    depth: usize,
    width: usize,
) -> &'a [f32] {
    let strips = &mut strips[..count.next_multiple_of(width) * depth];
    arch.dispatch(Pack { strips, lanes, count, depth, width });
    strips
}

struct Pack<'a, 'b, T> {
    strips: &'a mut [f32],
    lanes: View<'b, T>,
    count: usize,
    depth: usize,
    width: usize,
}

impl<T: Float> WithSimd for Pack<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "it must be compiled for the instructions it is dispatched to")]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { strips, lanes, count, depth, width } = self;
        for (strip, first) in strips.chunks_exact_mut(width * depth).zip((0..count).step_by(width)) {
            let used = width.min(count - first);
            let lanes = lanes.below(first);
            if lanes.row != 1 {
                turn(strip, lanes, (used, depth, width));
            } else if used == ROWS {
                copy::<T, ROWS>(strip, lanes, (used, width));
            } else if used.is_multiple_of(8) {
                copy::<T, 8>(strip, lanes, (used, width));
            } else {
                copy::<T, 1>(strip, lanes, (used, width));
            }
        }
    }
}

/// Packs lanes that lie side by side: a copy of each depth, so many lanes at a time.
#[inline(always)]
#[allow(clippy::inline_always, reason = "it must be compiled for the instructions it is dispatched to")]
fn copy<T: Float, const N: usize>(strip: &mut [f32], lanes: View<T>, (used, width): (usize, usize)) {
    for (p, packed) in strip.chunks_exact_mut(width).enumerate() {
        let source = lanes.data[p * lanes.column..][..used].as_chunks::<N>().0;
        for (packed, source) in packed.as_chunks_mut::<N>().0.iter_mut().zip(source) {
            let mut wide = [0.0; N];
            for (wide, x) in wide.iter_mut().zip(source) {
                *wide = x.to_f32();
            }
            *packed = wide;
        }
    }
}

/// Packs contiguous lanes, in squares that are turned in registers. Few depths of all lanes at a time, so that the part of
/// the strip being written stays in the cache.
#[inline(always)]
#[allow(clippy::inline_always, reason = "it must be compiled for the instructions it is dispatched to")]
fn turn<T: Float>(strip: &mut [f32], lanes: View<T>, (used, depth, width): (usize, usize, usize)) {
    for (p, packed) in (0..).step_by(DEPTHS).zip(strip.chunks_mut(DEPTHS * width)) {
        let depths = DEPTHS.min(depth - p);
        let lane = |lane: usize| &lanes.data[lane * lanes.row + p..][..depths];
        let squares = if depths.is_multiple_of(SIDE) && used >= SIDE { used } else { 0 };
        for first in (0..squares).step_by(SIDE) {
            // The last ones go over lanes that are there already, where lanes are no whole squares.
            let first = first.min(used - SIDE);
            let [a, b, c, d] = [lane(first), lane(first + 1), lane(first + 2), lane(first + 3)];
            let [a, b, c, d] = [a, b, c, d].map(|lane| lane.as_chunks::<SIDE>().0);
            let packed = packed[first..].chunks_mut(SIDE * width);
            for ((((packed, a), b), c), d) in packed.zip(a).zip(b).zip(c).zip(d) {
                // All of a square is read before any is written, or it would be moved element by element.
                let mut square = [[0.0; SIDE]; SIDE];
                for (i, lanes) in square.iter_mut().enumerate() {
                    *lanes = [a[i].to_f32(), b[i].to_f32(), c[i].to_f32(), d[i].to_f32()];
                }
                for (packed, lanes) in packed.chunks_mut(width).zip(&square) {
                    packed[..SIDE].copy_from_slice(lanes);
                }
            }
        }
        for number in squares..used {
            for (packed, x) in packed[number..].iter_mut().step_by(width).zip(lane(number)) {
                *packed = x.to_f32();
            }
        }
    }
}

/// Asks for the width of a strip of B.
struct Width;

impl WithSimd for Width {
    type Output = usize;

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "it must be compiled for the instructions it is dispatched to")]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        2 * S::F32_LANES
    }
}

/// One packed block of A times one of B.
struct Block<'a> {
    c: &'a mut [f32],
    c_row: usize,
    left: &'a [f32],
    right: &'a [f32],
    rows: usize,
    columns: usize,
    depth: usize,
    accumulate: bool,
}

impl WithSimd for Block<'_> {
    type Output = ();

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "it must be compiled for the instructions it is dispatched to")]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { c, c_row, left, right, rows, columns, depth, accumulate } = self;
        let width = 2 * S::F32_LANES;
        for (right, j) in right.chunks_exact(depth * width).zip((0..columns).step_by(width)) {
            let columns = width.min(columns - j);
            for (left, i) in left.chunks_exact(depth * ROWS).zip((0..rows).step_by(ROWS)) {
                let sums = strip_product(simd, left, right);
                let rows = ROWS.min(rows - i);
                for (i, sums) in (i..).zip(&sums[..rows]) {
                    let c = &mut c[i * c_row + j..][..columns];
                    let (first, second) = c.split_at_mut(columns.min(S::F32_LANES));
                    put::<S>(simd, first, sums[0], accumulate);
                    put::<S>(simd, second, sums[1], accumulate);
                }
            }
        }
    }
}

/// The product of a strip of A and one of B, in registers.
#[inline(always)]
#[allow(clippy::inline_always, reason = "it must be compiled for the instructions it is dispatched to")]
fn strip_product<S: Simd>(simd: S, left: &[f32], right: &[f32]) -> [[S::f32s; 2]; ROWS] {
    let mut sums = [[simd.splat_f32s(0.0); 2]; ROWS];
    let (right, _) = S::as_simd_f32s(right);
    for (left, right) in left.as_chunks::<ROWS>().0.iter().zip(right.as_chunks::<2>().0) {
        for (sums, left) in sums.iter_mut().zip(left) {
            let left = simd.splat_f32s(*left);
            sums[0] = simd.mul_add_e_f32s(left, right[0], sums[0]);
            sums[1] = simd.mul_add_e_f32s(left, right[1], sums[1]);
        }
    }
    sums
}

/// Stores as much of a register as `c` is long, or adds it.
#[inline(always)]
#[allow(clippy::inline_always, reason = "it must be compiled for the instructions it is dispatched to")]
fn put<S: Simd>(simd: S, c: &mut [f32], sum: S::f32s, accumulate: bool) {
    if let ([c], []) = S::as_mut_simd_f32s(c) {
        *c = if accumulate { simd.add_f32s(*c, sum) } else { sum };
    } else if !c.is_empty() {
        let whole = if accumulate { simd.add_f32s(simd.partial_load_f32s(c), sum) } else { sum };
        simd.partial_store_f32s(c, whole);
    }
}
