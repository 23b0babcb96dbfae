//! Rows of a table that token ids choose.

use crate::device::{Format, Host, Meta, Mut, Ref};
use crate::shapes::One;
use crate::{Memory, View, ViewMut};

operation! {
    /// Embeddings.
    Embed {
        /// Rows of the part of a table that starts at a row; zeros for ids outside of it.
        fn embed[X: Format, W: Format](
            x: Mut<'_, Self, X>, ids: Ref<'_, Self, i64>, table: Ref<'_, Self, W>, width: usize, first: usize, rows: usize);
        /// The gradient of the table grows.
        fn embed_backward[X: Format](
            d_table: Mut<'_, Self, f32>, ids: Ref<'_, Self, i64>, dx: Ref<'_, Self, X>, width: usize, first: usize, rows: usize);
    }
}

impl Embed for Host {
    fn embed<X: Format, W: Format>(
        &self,
        x: Mut<'_, Self, X>,
        ids: Ref<'_, Self, i64>,
        table: Ref<'_, Self, W>,
        width: usize,
        first: usize,
        rows: usize,
    ) {
        super::host::forward(x.slice(), ids.slice(), table.slice(), width, first, rows);
    }

    fn embed_backward<X: Format>(
        &self,
        d_table: Mut<'_, Self, f32>,
        ids: Ref<'_, Self, i64>,
        dx: Ref<'_, Self, X>,
        width: usize,
        first: usize,
        rows: usize,
    ) {
        super::host::backward(d_table.slice(), ids.slice(), dx.slice(), width, first, rows);
    }
}

/// Rows of the part of a table that starts at row `first`; zeros for ids outside of it.
pub fn forward<D: Embed, T, C, V, X: Format, W: Format>(
    device: &D,
    x: ViewMut<'_, D, T, C, X>,
    ids: View<'_, D, T, One, i64>,
    table: View<'_, D, V, C, W>,
    first: usize,
) {
    device.embed(x.raw(), ids.raw(), table.raw(), table.width(), first, table.rows());
}

/// The gradient of the table grows.
pub fn backward<D: Embed, T, C, V, X: Format>(
    device: &D,
    d_table: ViewMut<'_, D, V, C, f32>,
    ids: View<'_, D, T, One, i64>,
    dx: View<'_, D, T, C, X>,
    first: usize,
) {
    let (width, rows) = (d_table.width(), d_table.rows());
    device.embed_backward(d_table.raw(), ids.raw(), dx.raw(), width, first, rows);
}
