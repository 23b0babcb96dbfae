//! The norm on a CUDA device.

use super::RmsNorm;
use crate::cuda::Cuda;
use crate::cuda::launch::{Blocks, In, Narrow, Number, Out, Wide};
use crate::device::{Format, Mut, Ref};

crate::cuda::launch::kernels! {
    fn norm_statistics[X]<X, X>(rstd: Out<f32>, x: In<X>, rows: Wide, width: Narrow, eps: Number);
    fn norm_forward[X, W]<X, W>(y: Out<X>, x: In<X>, rstd: In<f32>, w: In<W>, rows: Wide, width: Narrow);
    fn norm_weight[X]<X, X>(dw: Out<f32>, dy: In<X>, x: In<X>, rstd: In<f32>, rows: Wide, width: Narrow);
    fn norm_backward[X, W]<X, W>(
        dx: Out<X>, dy: In<X>, x: In<X>, rstd: In<f32>, w: In<W>, rows: Wide, width: Narrow,
    );
    fn norm_backward_in_place[X, W]<X, W>(
        dy: Out<X>, x: In<X>, rstd: In<f32>, w: In<W>, rows: Wide, width: Narrow,
    );
}

impl RmsNorm for Cuda {
    fn norm_statistics<X: Format>(&self, rstd: Mut<'_, Self, f32>, x: Ref<'_, Self, X>, width: usize, eps: f32) {
        let rows = rstd.len();
        assert_rows(x.len(), rows, width);
        norm_statistics(self, Blocks::rows(rows, width), rstd, x, rows, width, eps);
    }

    fn norm_forward<X: Format, W: Format>(
        &self,
        y: Mut<'_, Self, X>,
        x: Ref<'_, Self, X>,
        rstd: Ref<'_, Self, f32>,
        w: Ref<'_, Self, W>,
        width: usize,
    ) {
        let rows = rstd.len();
        assert_rows(x.len(), rows, width);
        assert!(y.len() == x.len() && w.len() == width, "y = norm(x): a slice and its shape");
        norm_forward(self, Blocks::rows(rows, width), y, x, rstd, w, rows, width);
    }

    fn norm_backward<X: Format, W: Format>(
        &self,
        dx: Mut<'_, Self, X>,
        dw: Mut<'_, Self, f32>,
        dy: Ref<'_, Self, X>,
        x: Ref<'_, Self, X>,
        rstd: Ref<'_, Self, f32>,
        w: Ref<'_, Self, W>,
        width: usize,
    ) {
        let rows = rstd.len();
        assert_rows(x.len(), rows, width);
        let fits = dx.len() == x.len() && dy.len() == x.len() && w.len() == width && dw.len() == width;
        assert!(fits, "gradient of a norm: a slice and its shape");
        norm_weight(self, Blocks::columns(width), dw, dy, x, rstd, rows, width);
        norm_backward(self, Blocks::rows(rows, width), dx, dy, x, rstd, w, rows, width);
    }

    fn norm_backward_in_place<X: Format, W: Format>(
        &self,
        mut dy: Mut<'_, Self, X>,
        dw: Mut<'_, Self, f32>,
        x: Ref<'_, Self, X>,
        rstd: Ref<'_, Self, f32>,
        w: Ref<'_, Self, W>,
        width: usize,
    ) {
        let rows = rstd.len();
        assert_rows(x.len(), rows, width);
        assert!(
            dy.len() == x.len() && w.len() == width && dw.len() == width,
            "gradient of a norm: a slice and its shape"
        );
        norm_weight(self, Blocks::columns(width), dw, dy.again().read(), x, rstd, rows, width);
        norm_backward_in_place(self, Blocks::rows(rows, width), dy, x, rstd, w, rows, width);
    }
}

fn assert_rows(elements: usize, rows: usize, width: usize) {
    assert!(width > 0 && elements == rows * width, "{rows} rows of {width} in {elements} elements");
}
