//! The update on a CUDA device.

use super::{AdamW, Optimize, host};
use crate::cuda::Cuda;
use crate::cuda::launch::{Blocks, In, Number, Out, Wide};
use crate::device::{Format, Mut, Ref};

crate::cuda::launch::kernels! {
    fn adamw[X]<X, X>(
        master: Out<f32>, first: Out<X>, second: Out<X>, gradient: In<f32>, n: Wide, beta1: Number, beta2: Number,
        eps: Number, size: Number, root: Number, keep: Number, scale: Number,
    );
    fn narrow[X]<X, X>(out: Out<X>, x: In<f32>, n: Wide);
    fn widen[X]<X, X>(out: Out<f32>, x: In<X>, n: Wide);
}

impl Optimize for Cuda {
    fn adamw<S: Format>(
        &self,
        master: Mut<'_, Self, f32>,
        first: Mut<'_, Self, S>,
        second: Mut<'_, Self, S>,
        gradient: Ref<'_, Self, f32>,
        constants: AdamW,
        t: i32,
        scale: f32,
    ) {
        let n = master.len();
        assert!(first.len() == n && second.len() == n && gradient.len() == n, "a step: slices of one length");
        assert!(t > 0, "steps count from 1");
        let AdamW { lr, beta1, beta2, eps, weight_decay } = constants;
        let (size, root) = (lr / host::correction(beta1, t), host::correction(beta2, t).sqrt());
        let (blocks, keep) = (Blocks::elements(n), 1.0 - lr * weight_decay);
        adamw(self, blocks, master, first, second, gradient, n, beta1, beta2, eps, size, root, keep, scale);
    }

    fn write_back<W: Format>(&self, w: Mut<'_, Self, W>, master: Ref<'_, Self, f32>) {
        convert_to(self, w, master);
    }

    fn widen<W: Format>(&self, master: Mut<'_, Self, f32>, w: Ref<'_, Self, W>) {
        let n = master.len();
        assert_eq!(n, w.len(), "a conversion: slices of one length");
        widen(self, Blocks::elements(n), master, w, n);
    }
}

/// out = x in another format.
pub(crate) fn convert_to<X: Format>(device: &Cuda, out: Mut<'_, Cuda, X>, x: Ref<'_, Cuda, f32>) {
    let n = out.len();
    assert_eq!(n, x.len(), "a conversion: slices of one length");
    narrow(device, Blocks::elements(n), out, x, n);
}
