//! The permutation on a CUDA device: the same stable counting sort.

use super::Permute;
use crate::cuda::Cuda;
use crate::cuda::launch::{Blocks, In, MayIn, MayOut, Narrow, Out, Wide};
use crate::device::{Format, Memory as _, Mut, Ref};

crate::cuda::launch::kernels! {
    fn sort_counts[]<f32, f32>(counts: Out<i32>, choice: In<i32>, copies: Wide, experts: Narrow);
    fn sort_starts[]<f32, f32>(starts: Out<i32>, counts: In<i32>, experts: Narrow);
    fn sort_place[]<f32, f32>(
        order: Out<i32>, kept: MayOut<i32>, starts: MayIn<i32>, choice: In<i32>, copies: Wide, experts: Narrow,
        slots: Narrow,
    );
    fn set_none[]<f32, f32>(x: Out<i32>, n: Wide);
    fn invert[]<f32, f32>(inverse: Out<i32>, order: In<i32>, rows: Wide);
    fn gather[X]<X, X>(out: Out<X>, x: In<X>, order: In<i32>, rows: Wide, k: Narrow, width: Narrow);
    fn combine[X]<X, X>(y: Out<X>, rows: In<X>, inverse: In<i32>, tokens: Wide, k: Narrow, width: Narrow);
    fn scatter[X]<X, X>(out: Out<X>, x: In<X>, places: In<i32>, rows: Wide, width: Narrow);
    fn gather_scalars[]<f32, f32>(out: Out<f32>, values: In<f32>, order: In<i32>, rows: Wide);
    fn scatter_scalars[]<f32, f32>(out: Out<f32>, values: In<f32>, order: In<i32>, rows: Wide);
}

impl Permute for Cuda {
    fn sort(
        &self,
        order: Mut<'_, Self, i32>,
        mut counts: Mut<'_, Self, i32>,
        mut starts: Mut<'_, Self, i32>,
        choice: Ref<'_, Self, i32>,
    ) {
        let (copies, experts) = (choice.len(), counts.len());
        assert!(order.len() == copies && starts.len() == experts, "a sort: slices of one length");
        let blocks = Blocks::of(experts, 256);
        sort_counts(self, blocks, counts.again(), choice, copies, experts);
        sort_starts(self, Blocks::of(experts.min(1), 32), starts.again(), counts.read(), experts);
        sort_place(self, blocks, order, None, Some(starts.read()), choice, copies, experts, 0);
    }

    fn sort_limited(
        &self,
        order: Mut<'_, Self, i32>,
        counts: Mut<'_, Self, i32>,
        choice: Ref<'_, Self, i32>,
        slots: usize,
    ) {
        let (copies, experts) = (choice.len(), counts.len());
        assert_eq!(order.len(), experts * slots, "a sort: slices and their shapes");
        if slots == 0 {
            return self.zero(counts);
        }
        sort_place(self, Blocks::of(experts, 256), order, Some(counts), None, choice, copies, experts, slots);
    }

    fn invert(&self, mut inverse: Mut<'_, Self, i32>, order: Ref<'_, Self, i32>) {
        let n = inverse.len();
        set_none(self, Blocks::elements(n), inverse.again(), n);
        invert(self, Blocks::elements(order.len()), inverse, order, order.len());
    }

    fn gather<X: Format>(
        &self,
        rows: Mut<'_, Self, X>,
        x: Ref<'_, Self, X>,
        order: Ref<'_, Self, i32>,
        k: usize,
        width: usize,
    ) {
        let n = order.len();
        assert!(width > 0 && rows.len() == n * width, "rows of copies: a slice and its shape");
        gather(self, Blocks::rows(n, width), rows, x, order, n, k, width);
    }

    fn combine<X: Format>(
        &self,
        y: Mut<'_, Self, X>,
        rows: Ref<'_, Self, X>,
        inverse: Ref<'_, Self, i32>,
        k: usize,
        width: usize,
    ) {
        assert!(width > 0 && y.len() * k == inverse.len() * width, "copies of tokens: a slice and its shape");
        let tokens = y.len() / width;
        combine(self, Blocks::rows(tokens, width), y, rows, inverse, tokens, k, width);
    }

    fn scatter<X: Format>(
        &self,
        rows: Mut<'_, Self, X>,
        x: Ref<'_, Self, X>,
        places: Ref<'_, Self, i32>,
        width: usize,
    ) {
        let n = places.len();
        assert!(width > 0 && x.len() == n * width && rows.len() == x.len(), "rows and their places");
        scatter(self, Blocks::rows(n, width), rows, x, places, n, width);
    }

    fn gather_scalars(&self, out: Mut<'_, Self, f32>, values: Ref<'_, Self, f32>, order: Ref<'_, Self, i32>) {
        let n = order.len();
        assert_eq!(out.len(), n, "values of copies: slices of one length");
        gather_scalars(self, Blocks::elements(n), out, values, order, n);
    }

    fn scatter_scalars(&self, mut out: Mut<'_, Self, f32>, values: Ref<'_, Self, f32>, order: Ref<'_, Self, i32>) {
        let n = order.len();
        assert_eq!(values.len(), n, "values of copies: slices of one length");
        self.zero(out.again());
        scatter_scalars(self, Blocks::elements(n), out, values, order, n);
    }
}
