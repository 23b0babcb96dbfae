//! A norm over the columns of its input, with a weight for each.

use crate::device::{Format, Host, Meta, Mut, Ref};
use crate::shapes::One;
use crate::{Memory, View, ViewMut};

operation! {
    /// Root mean square norms.
    RmsNorm {
        /// What each row is multiplied by.
        fn norm_statistics[X: Format](rstd: Mut<'_, Self, f32>, x: Ref<'_, Self, X>, width: usize, eps: f32);
        /// y = x rstd w.
        fn norm_forward[X: Format, W: Format](
            y: Mut<'_, Self, X>, x: Ref<'_, Self, X>, rstd: Ref<'_, Self, f32>, w: Ref<'_, Self, W>, width: usize);
        /// dx and dw grow by their gradients.
        fn norm_backward[X: Format, W: Format](
            dx: Mut<'_, Self, X>, dw: Mut<'_, Self, f32>, dy: Ref<'_, Self, X>, x: Ref<'_, Self, X>,
            rstd: Ref<'_, Self, f32>, w: Ref<'_, Self, W>, width: usize);
        /// dy becomes dx, and dw grows.
        fn norm_backward_in_place[X: Format, W: Format](
            dy: Mut<'_, Self, X>, dw: Mut<'_, Self, f32>, x: Ref<'_, Self, X>, rstd: Ref<'_, Self, f32>,
            w: Ref<'_, Self, W>, width: usize);
    }
}

impl RmsNorm for Host {
    fn norm_statistics<X: Format>(&self, rstd: Mut<'_, Self, f32>, x: Ref<'_, Self, X>, width: usize, eps: f32) {
        super::host::statistics(rstd.slice(), x.slice(), width, eps);
    }

    fn norm_forward<X: Format, W: Format>(
        &self,
        y: Mut<'_, Self, X>,
        x: Ref<'_, Self, X>,
        rstd: Ref<'_, Self, f32>,
        w: Ref<'_, Self, W>,
        width: usize,
    ) {
        super::host::forward(y.slice(), x.slice(), rstd.slice(), w.slice(), width);
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
        super::host::backward(dx.slice(), dw.slice(), dy.slice(), x.slice(), rstd.slice(), w.slice(), width);
    }

    fn norm_backward_in_place<X: Format, W: Format>(
        &self,
        dy: Mut<'_, Self, X>,
        dw: Mut<'_, Self, f32>,
        x: Ref<'_, Self, X>,
        rstd: Ref<'_, Self, f32>,
        w: Ref<'_, Self, W>,
        width: usize,
    ) {
        super::host::backward_in_place(dy.slice(), dw.slice(), x.slice(), rstd.slice(), w.slice(), width);
    }
}

/// Computes what each row is multiplied by.
pub fn statistics<D: RmsNorm, T, C, X: Format>(
    device: &D,
    rstd: ViewMut<'_, D, T, One, f32>,
    x: View<'_, D, T, C, X>,
    eps: f32,
) {
    device.norm_statistics(rstd.raw(), x.raw(), x.width(), eps);
}

/// y = x rstd w.
pub fn forward<D: RmsNorm, T, C, X: Format, W: Format>(
    device: &D,
    y: ViewMut<'_, D, T, C, X>,
    x: View<'_, D, T, C, X>,
    rstd: View<'_, D, T, One, f32>,
    w: View<'_, D, C, One, W>,
) {
    device.norm_forward(y.raw(), x.raw(), rstd.raw(), w.raw(), x.width());
}

/// dx and dw grow by their gradients.
pub fn backward<D: RmsNorm, T, C, X: Format, W: Format>(
    device: &D,
    dx: ViewMut<'_, D, T, C, X>,
    dw: ViewMut<'_, D, C, One, f32>,
    dy: View<'_, D, T, C, X>,
    x: View<'_, D, T, C, X>,
    rstd: View<'_, D, T, One, f32>,
    w: View<'_, D, C, One, W>,
) {
    let width = x.width();
    device.norm_backward(dx.raw(), dw.raw(), dy.raw(), x.raw(), rstd.raw(), w.raw(), width);
}

/// dy becomes dx, and dw grows.
pub fn backward_in_place<D: RmsNorm, T, C, X: Format, W: Format>(
    device: &D,
    dy: ViewMut<'_, D, T, C, X>,
    dw: ViewMut<'_, D, C, One, f32>,
    x: View<'_, D, T, C, X>,
    rstd: View<'_, D, T, One, f32>,
    w: View<'_, D, C, One, W>,
) {
    device.norm_backward_in_place(dy.raw(), dw.raw(), x.raw(), rstd.raw(), w.raw(), x.width());
}
