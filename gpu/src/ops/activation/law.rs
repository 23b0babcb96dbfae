//! The inside of a gated feed-forward network.

use super::Activation;
use crate::device::{Format, Host, Meta, Mut, Ref};
use crate::shapes::One;
use crate::{Memory, View, ViewMut};

operation! {
    /// Activations of gated networks.
    Activate {
        /// out = activation(gate, up), each row times its scale, if there are scales.
        fn activate[X: Format](
            out: Mut<'_, Self, X>, gate: Ref<'_, Self, X>, up: Ref<'_, Self, X>, scale: Option<Ref<'_, Self, f32>>,
            width: usize, activation: Activation);
        /// Gate and up become their gradients; the gradient of the scales is written.
        fn activate_backward[X: Format](
            gate: Mut<'_, Self, X>, up: Mut<'_, Self, X>, d_out: Ref<'_, Self, X>, scale: Option<Ref<'_, Self, f32>>,
            d_scale: Option<Mut<'_, Self, f32>>, width: usize, activation: Activation);
    }
}

impl Activate for Host {
    fn activate<X: Format>(
        &self,
        out: Mut<'_, Self, X>,
        gate: Ref<'_, Self, X>,
        up: Ref<'_, Self, X>,
        scale: Option<Ref<'_, Self, f32>>,
        width: usize,
        activation: Activation,
    ) {
        super::host::forward(out.slice(), gate.slice(), up.slice(), scale.map(Ref::slice), width, activation);
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
        let (scale, d_scale) = (scale.map(Ref::slice), d_scale.map(Mut::slice));
        super::host::backward(gate.slice(), up.slice(), d_out.slice(), scale, d_scale, width, activation);
    }
}

/// out = activation(gate, up), each row times its scale, if there are scales.
pub fn forward<D: Activate, T, F, X: Format>(
    device: &D,
    out: ViewMut<'_, D, T, F, X>,
    gate: View<'_, D, T, F, X>,
    up: View<'_, D, T, F, X>,
    scale: Option<View<'_, D, T, One, f32>>,
    activation: Activation,
) {
    device.activate(out.raw(), gate.raw(), up.raw(), scale.map(View::raw), gate.width(), activation);
}

/// Gate and up become their gradients; the gradient of the scales is written.
pub fn backward<D: Activate, T, F, X: Format>(
    device: &D,
    gate: ViewMut<'_, D, T, F, X>,
    up: ViewMut<'_, D, T, F, X>,
    d_out: View<'_, D, T, F, X>,
    scale: Option<(View<'_, D, T, One, f32>, ViewMut<'_, D, T, One, f32>)>,
    activation: Activation,
) {
    let width = d_out.width();
    let (scale, d_scale) = scale.map_or((None, None), |(scale, d)| (Some(scale.raw()), Some(d.raw())));
    device.activate_backward(gate.raw(), up.raw(), d_out.raw(), scale, d_scale, width, activation);
}
