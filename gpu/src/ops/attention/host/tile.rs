//! What the tiled passes share: where tiles are in the tensors, and the products of tiles.

use crate::Float;
use crate::ops::attention::Shape;
use crate::ops::gemm::{View, multiply};
use core::ops::Range;

/// Queries or keys of a tile.
pub(super) const TILE: usize = 96;

/// The f32s of scratch of a product of tiles: two of them, widened.
pub(super) const fn product_scratch_len(shape: &Shape) -> usize {
    2 * TILE * if shape.width > shape.value { shape.width } else { shape.value }
}

/// The tile of rows from `row` on of one head of x `[batch, sequence, heads, width]`.
pub(super) fn head<'a, T>(
    x: &'a [T],
    shape: &Shape,
    (heads, width): (usize, usize),
    (batch, row, head): (usize, usize, usize),
) -> View<'a, T> {
    View::rows(&x[((batch * shape.sequence + row) * heads + head) * width..], heads * width)
}

/// The ranges of at most [`TILE`] rows that `rows` is cut into.
pub(super) fn tiles(rows: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = rows.end;
    rows.step_by(TILE).map(move |first| first..end.min(first + TILE))
}

/// c `[rows, width]` += a b, rows of c side by side.
pub(super) fn add_product<A: Float, B: Float>(
    c: &mut [f32],
    a: View<A>,
    b: View<B>,
    (rows, width, depth): (usize, usize, usize),
    scratch: &mut [f32],
) {
    multiply(c, width, a, b, (rows, width, depth), true, scratch);
}

/// c `[rows, width]` = a b, rows of c side by side.
pub(super) fn set_product<A: Float, B: Float>(
    c: &mut [f32],
    a: View<A>,
    b: View<B>,
    (rows, width, depth): (usize, usize, usize),
    scratch: &mut [f32],
) {
    multiply(c, width, a, b, (rows, width, depth), false, scratch);
}

/// The columns of a tile of keys that a query sees.
pub(super) fn seen(shape: &Shape, query: usize, keys: &Range<usize>) -> Range<usize> {
    let all = shape.keys_of(query);
    let first = all.start.clamp(keys.start, keys.end) - keys.start;
    let last = all.end.clamp(keys.start, keys.end) - keys.start;
    first..last
}
