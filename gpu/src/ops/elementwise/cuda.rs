//! The passes on a CUDA device.

use super::{Columns, Elementwise};
use crate::cuda::Cuda;
use crate::cuda::launch::{Blocks, In, Narrow, Out, Wide};
use crate::device::{Format, Mut, Ref};

crate::cuda::launch::kernels! {
    fn add[X]<X, X>(y: Out<X>, x: In<X>, n: Wide);
    fn add_up[X]<X, X>(y: Out<f32>, x: In<X>, n: Wide);
    fn gate_rows[X]<X, X>(y: Out<X>, gate: In<f32>, rows: Wide, width: Narrow);
    fn gate_rows_backward[X]<X, X>(
        dy: Out<X>, d_gate: Out<f32>, ungated: In<X>, gate: In<f32>, rows: Wide, width: Narrow,
    );
    fn share_columns[X]<X, X>(
        out: Out<X>, to_all: Narrow, to_first: Narrow, heads: Narrow, x: In<X>, from_all: Narrow, from_first: Narrow,
        rows: Wide, width: Narrow,
    );
    fn sum_columns[X]<X, X>(
        out: Out<X>, to_all: Narrow, to_first: Narrow, heads: Narrow, x: In<X>, from_all: Narrow, from_first: Narrow,
        rows: Wide, width: Narrow,
    );
}

impl Elementwise for Cuda {
    fn add<X: Format>(&self, y: Mut<'_, Self, X>, x: Ref<'_, Self, X>) {
        let n = y.len();
        assert_eq!(n, x.len(), "y += x: slices of one length");
        add(self, Blocks::elements(n), y, x, n);
    }

    fn add_up<X: Format>(&self, y: Mut<'_, Self, f32>, x: Ref<'_, Self, X>) {
        let n = y.len();
        assert_eq!(n, x.len(), "y += x: slices of one length");
        add_up(self, Blocks::elements(n), y, x, n);
    }

    fn gate_rows<X: Format>(&self, y: Mut<'_, Self, X>, gate: Ref<'_, Self, f32>, width: usize) {
        let rows = gate.len();
        assert_eq!(y.len(), rows * width, "a gate for each row");
        gate_rows(self, Blocks::rows(rows, width), y, gate, rows, width);
    }

    fn gate_rows_backward<X: Format>(
        &self,
        dy: Mut<'_, Self, X>,
        d_gate: Mut<'_, Self, f32>,
        ungated: Ref<'_, Self, X>,
        gate: Ref<'_, Self, f32>,
        width: usize,
    ) {
        let rows = gate.len();
        assert!(dy.len() == rows * width && ungated.len() == dy.len() && d_gate.len() == rows, "a gate for each row");
        gate_rows_backward(self, Blocks::rows(rows, width), dy, d_gate, ungated, gate, rows, width);
    }

    fn copy_columns<X: Format>(
        &self,
        out: Mut<'_, Self, X>,
        to: Columns,
        x: Ref<'_, Self, X>,
        from: Columns,
        width: usize,
    ) {
        self.share_columns(out, to, 1, x, from, width);
    }

    fn share_columns<X: Format>(
        &self,
        out: Mut<'_, Self, X>,
        to: Columns,
        heads: usize,
        x: Ref<'_, Self, X>,
        from: Columns,
        width: usize,
    ) {
        let rows = from.rows(x.len(), width);
        assert_eq!(to.rows(out.len(), width), rows * heads, "heads of as many rows");
        let blocks = Blocks::rows(rows * heads, width);
        share_columns(self, blocks, out, to.all, to.first, heads, x, from.all, from.first, rows, width);
    }

    fn sum_columns<X: Format>(
        &self,
        out: Mut<'_, Self, X>,
        to: Columns,
        heads: usize,
        x: Ref<'_, Self, X>,
        from: Columns,
        width: usize,
    ) {
        let rows = to.rows(out.len(), width);
        assert_eq!(from.rows(x.len(), width), rows * heads, "heads of as many rows");
        let blocks = Blocks::rows(rows, width);
        sum_columns(self, blocks, out, to.all, to.first, heads, x, from.all, from.first, rows, width);
    }
}
