//! The loss on a CUDA device, but for the sum over tokens: that is of f64, and made on the CPU.

use super::{CrossEntropy, host};
use crate::cuda::Cuda;
use crate::cuda::launch::{Blocks, In, Narrow, Number, Out, Wide};
use crate::device::{Format, Memory as _, Mut, Ref};

crate::cuda::launch::kernels! {
    fn mask_columns[]<f32, f32>(logits: Out<f32>, rows: Wide, width: Narrow, from: Narrow);
    fn row_max[]<f32, f32>(max: Out<f32>, logits: In<f32>, rows: Wide, width: Narrow);
    fn row_sum[]<f32, f32>(
        sum: Out<f32>, target: Out<f32>, logits: In<f32>, max: In<f32>, labels: In<i64>, first: Wide, rows: Wide,
        width: Narrow,
    );
    fn loss_backward[]<f32, f32>(
        logits: Out<f32>, max: In<f32>, sum: In<f32>, labels: In<i64>, first: Wide, rows: Wide, width: Narrow,
        scale: Number,
    );
}

impl CrossEntropy for Cuda {
    fn mask(&self, logits: Mut<'_, Self, f32>, width: usize, from: usize) {
        assert!(width > 0 && logits.len().is_multiple_of(width) && from <= width, "columns of logits");
        let rows = logits.len() / width;
        mask_columns(self, Blocks::rows(rows, width), logits, rows, width, from);
    }

    fn row_max(&self, max: Mut<'_, Self, f32>, logits: Ref<'_, Self, f32>, width: usize) {
        let rows = max.len();
        assert_rows(logits.len(), rows, width);
        row_max(self, Blocks::rows(rows, width), max, logits, rows, width);
    }

    fn row_sum(
        &self,
        sum: Mut<'_, Self, f32>,
        target: Mut<'_, Self, f32>,
        logits: Ref<'_, Self, f32>,
        max: Ref<'_, Self, f32>,
        labels: Ref<'_, Self, i64>,
        first: usize,
        width: usize,
    ) {
        let rows = labels.len();
        assert_rows(logits.len(), rows, width);
        assert!(sum.len() == rows && target.len() == rows && max.len() == rows, "one per token");
        row_sum(self, Blocks::rows(rows, width), sum, target, logits, max, labels, first, rows, width);
    }

    fn loss(
        &self,
        sum: Ref<'_, Self, f32>,
        max: Ref<'_, Self, f32>,
        target: Ref<'_, Self, f32>,
        labels: Ref<'_, Self, i64>,
    ) -> Option<(f64, usize)> {
        let [sum, max, target] =
            [self.read(sum, <[_]>::to_vec)?, self.read(max, <[_]>::to_vec)?, self.read(target, <[_]>::to_vec)?];
        self.read(labels, |labels| host::loss(&sum, &max, &target, labels))
    }

    fn loss_backward(
        &self,
        logits: Mut<'_, Self, f32>,
        max: Ref<'_, Self, f32>,
        sum: Ref<'_, Self, f32>,
        labels: Ref<'_, Self, i64>,
        first: usize,
        width: usize,
        scale: f32,
    ) {
        let rows = labels.len();
        assert_rows(logits.len(), rows, width);
        assert!(sum.len() == rows && max.len() == rows, "one per token");
        loss_backward(self, Blocks::rows(rows, width), logits, max, sum, labels, first, rows, width, scale);
    }

    fn narrow<X: Format>(&self, out: Mut<'_, Self, X>, logits: Ref<'_, Self, f32>) {
        crate::ops::adamw::cuda::convert_to(self, out, logits);
    }
}

fn assert_rows(elements: usize, rows: usize, width: usize) {
    assert!(width > 0 && elements == rows * width, "{rows} rows of {width} in {elements} elements");
}
