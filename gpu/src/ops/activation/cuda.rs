//! The activations on a CUDA device.

use super::{Activate, Activation};
use crate::cuda::Cuda;
use crate::cuda::launch::{Blocks, Flag, In, MayIn, MayOut, Narrow, Number, Out, Wide};
use crate::device::{Format, Mut, Ref};

crate::cuda::launch::kernels! {
    fn activate[X]<X, X>(
        out: Out<X>, gate: In<X>, up: In<X>, scale: MayIn<f32>, rows: Wide, width: Narrow, clamps: Flag, limit: Number,
        alpha: Number,
    );
    fn activate_backward[X]<X, X>(
        gate: Out<X>, up: Out<X>, d_out: In<X>, scale: MayIn<f32>, d_scale: MayOut<f32>, rows: Wide, width: Narrow,
        clamps: Flag, limit: Number, alpha: Number,
    );
}

impl Activate for Cuda {
    fn activate<X: Format>(
        &self,
        out: Mut<'_, Self, X>,
        gate: Ref<'_, Self, X>,
        up: Ref<'_, Self, X>,
        scale: Option<Ref<'_, Self, f32>>,
        width: usize,
        activation: Activation,
    ) {
        assert!(gate.len() == out.len() && up.len() == out.len(), "an activation: slices of one shape");
        let rows = rows(out.len(), scale.map(|scale| scale.len()), width);
        let (clamps, limit, alpha) = constants(activation);
        activate(self, Blocks::rows(rows, width), out, gate, up, scale, rows, width, clamps, limit, alpha);
    }

    fn activate_backward<X: Format>(
        &self,
        gate: Mut<'_, Self, X>,
        up: Mut<'_, Self, X>,
        d_out: Ref<'_, Self, X>,
        scale: Option<Ref<'_, Self, f32>>,
        d_scale: Option<Mut<'_, Self, f32>>,
        width: usize,
        activation: Activation,
    ) {
        assert!(gate.len() == d_out.len() && up.len() == d_out.len(), "an activation: slices of one shape");
        let rows = rows(d_out.len(), scale.map(|scale| scale.len()), width);
        assert!(d_scale.as_ref().is_none_or(|d| d.len() == rows), "a gradient for each scale");
        let (clamps, limit, alpha) = constants(activation);
        let blocks = Blocks::rows(rows, width);
        activate_backward(self, blocks, gate, up, d_out, scale, d_scale, rows, width, clamps, limit, alpha);
    }
}

fn constants(activation: Activation) -> (bool, f32, f32) {
    match activation {
        Activation::SwiGlu => (false, 0.0, 1.0),
        Activation::ClampedSwiGlu { limit, alpha } => (true, limit, alpha),
    }
}

fn rows(elements: usize, scales: Option<usize>, width: usize) -> usize {
    assert!(width > 0 && elements.is_multiple_of(width), "rows of {width} in {elements} elements");
    let rows = elements / width;
    assert!(scales.is_none_or(|scales| scales == rows), "a scale for each row");
    rows
}
