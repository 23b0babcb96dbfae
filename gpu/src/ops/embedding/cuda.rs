//! Look-up on a CUDA device.

use super::Embed;
use crate::cuda::Cuda;
use crate::cuda::launch::{Blocks, In, Narrow, Out, Wide};
use crate::device::{Format, Mut, Ref};

crate::cuda::launch::kernels! {
    fn embed[X, W]<X, W>(x: Out<X>, ids: In<i64>, table: In<W>, tokens: Wide, width: Narrow, first: Wide, rows: Wide);
    fn embed_backward[X]<X, X>(
        d_table: Out<f32>, ids: In<i64>, dx: In<X>, tokens: Wide, width: Narrow, first: Wide, rows: Wide,
    );
}

impl Embed for Cuda {
    fn embed<X: Format, W: Format>(
        &self,
        x: Mut<'_, Self, X>,
        ids: Ref<'_, Self, i64>,
        table: Ref<'_, Self, W>,
        width: usize,
        first: usize,
        rows: usize,
    ) {
        let tokens = ids.len();
        assert_shapes(x.len(), tokens, table.len(), width, rows);
        embed(self, Blocks::rows(tokens, width), x, ids, table, tokens, width, first, rows);
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
        let tokens = ids.len();
        assert_shapes(dx.len(), tokens, d_table.len(), width, rows);
        embed_backward(self, Blocks::rows(tokens, width), d_table, ids, dx, tokens, width, first, rows);
    }
}

fn assert_shapes(x: usize, tokens: usize, table: usize, width: usize, rows: usize) {
    assert!(width > 0 && x == tokens * width, "{tokens} tokens of {width} in {x} elements");
    assert!(table == rows * width, "a table of {rows} rows of {width} in {table} elements");
}
