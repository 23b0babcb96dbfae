//! Sums, gates and columns of tensors.

use super::Columns;
use crate::device::{Format, Host, Meta, Mut, Ref};
use crate::shapes::{Axis, Lengths, One, Plus, Times};
use crate::{Memory, View, ViewMut};

operation! {
    /// What works on each element.
    Elementwise {
        /// y += x.
        fn add[X: Format](y: Mut<'_, Self, X>, x: Ref<'_, Self, X>);
        /// y += x, in fp32.
        fn add_up[X: Format](y: Mut<'_, Self, f32>, x: Ref<'_, Self, X>);
        /// Rows times the sigmoid of their gate.
        fn gate_rows[X: Format](y: Mut<'_, Self, X>, gate: Ref<'_, Self, f32>, width: usize);
        /// dy becomes the gradient of what was gated; that of the gate is written.
        fn gate_rows_backward[X: Format](
            dy: Mut<'_, Self, X>, d_gate: Mut<'_, Self, f32>, ungated: Ref<'_, Self, X>, gate: Ref<'_, Self, f32>, width: usize);
        /// Some columns of out become some of x.
        fn copy_columns[X: Format](out: Mut<'_, Self, X>, to: Columns, x: Ref<'_, Self, X>, from: Columns, width: usize);
        /// Columns of every one of the heads of a token become the same columns of x.
        fn share_columns[X: Format](out: Mut<'_, Self, X>, to: Columns, heads: usize, x: Ref<'_, Self, X>, from: Columns, width: usize);
        /// Columns of out become the sums of columns of the heads of a token.
        fn sum_columns[X: Format](out: Mut<'_, Self, X>, to: Columns, heads: usize, x: Ref<'_, Self, X>, from: Columns, width: usize);
    }
}

impl Elementwise for Host {
    fn add<X: Format>(&self, y: Mut<'_, Self, X>, x: Ref<'_, Self, X>) {
        super::host::add(y.slice(), x.slice());
    }

    fn add_up<X: Format>(&self, y: Mut<'_, Self, f32>, x: Ref<'_, Self, X>) {
        super::host::add(y.slice(), x.slice());
    }

    fn gate_rows<X: Format>(&self, y: Mut<'_, Self, X>, gate: Ref<'_, Self, f32>, width: usize) {
        super::host::scale_rows_sigmoid(y.slice(), gate.slice(), width);
    }

    fn gate_rows_backward<X: Format>(
        &self,
        dy: Mut<'_, Self, X>,
        d_gate: Mut<'_, Self, f32>,
        ungated: Ref<'_, Self, X>,
        gate: Ref<'_, Self, f32>,
        width: usize,
    ) {
        super::host::scale_rows_sigmoid_backward(dy.slice(), d_gate.slice(), ungated.slice(), gate.slice(), width);
    }

    fn copy_columns<X: Format>(
        &self,
        out: Mut<'_, Self, X>,
        to: Columns,
        x: Ref<'_, Self, X>,
        from: Columns,
        width: usize,
    ) {
        super::host::copy_columns(out.slice(), to, x.slice(), from, width);
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
        super::host::share_columns(out.slice(), to, heads, x.slice(), from, width);
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
        super::host::sum_columns(out.slice(), to, heads, x.slice(), from, width);
    }
}

/// y += x: a residual.
pub fn add<D: Elementwise, T, C, X: Format>(device: &D, y: ViewMut<'_, D, T, C, X>, x: View<'_, D, T, C, X>) {
    device.add(y.raw(), x.raw());
}

/// Rows times the sigmoid of their gate.
pub fn gate_rows<D: Elementwise, T, C, X: Format>(
    device: &D,
    y: ViewMut<'_, D, T, C, X>,
    gate: View<'_, D, T, One, f32>,
) {
    let width = y.width();
    device.gate_rows(y.raw(), gate.raw(), width);
}

/// dy becomes the gradient of what was gated; that of the gate is written.
pub fn gate_rows_backward<D: Elementwise, T, C, X: Format>(
    device: &D,
    dy: ViewMut<'_, D, T, C, X>,
    d_gate: ViewMut<'_, D, T, One, f32>,
    ungated: View<'_, D, T, C, X>,
    gate: View<'_, D, T, One, f32>,
) {
    device.gate_rows_backward(dy.raw(), d_gate.raw(), ungated.raw(), gate.raw(), ungated.width());
}

/// Columns of one become columns of the other, as many as the narrower has.
pub fn copy_columns<D: Elementwise, T, A, B, X: Format>(
    device: &D,
    out: ViewMut<'_, D, T, A, X>,
    to: Columns,
    x: View<'_, D, T, B, X>,
    from: Columns,
) {
    let width = out.width().min(x.width());
    device.copy_columns(out.raw(), to, x.raw(), from, width);
}

/// Takes the two parts of every head `[A | B]` apart, the first to the front of wider heads.
pub fn split_heads<D: Elementwise, T, H, A: Axis, B: Axis, R: Axis, X: Format>(
    device: &D,
    front: ViewMut<'_, D, T, Times<H, Plus<A, R>>, X>,
    back: ViewMut<'_, D, T, Times<H, B>, X>,
    x: View<'_, D, T, Times<H, Plus<A, B>>, X>,
    lengths: &Lengths,
) {
    let (a, b, r) = (A::len(lengths), B::len(lengths), R::len(lengths));
    device.copy_columns(front.raw(), Columns { all: a + r, first: 0 }, x.raw(), Columns { all: a + b, first: 0 }, a);
    device.copy_columns(back.raw(), Columns { all: b, first: 0 }, x.raw(), Columns { all: a + b, first: a }, b);
}

/// Puts them together: gradients.
pub fn join_heads<D: Elementwise, T, H, A: Axis, B: Axis, R: Axis, X: Format>(
    device: &D,
    mut x: ViewMut<'_, D, T, Times<H, Plus<A, B>>, X>,
    front: View<'_, D, T, Times<H, Plus<A, R>>, X>,
    back: View<'_, D, T, Times<H, B>, X>,
    lengths: &Lengths,
) {
    let (a, b, r) = (A::len(lengths), B::len(lengths), R::len(lengths));
    let (wide, narrow) = (Columns { all: a + r, first: 0 }, Columns { all: b, first: 0 });
    device.copy_columns(x.again().raw(), Columns { all: a + b, first: 0 }, front.raw(), wide, a);
    device.copy_columns(x.raw(), Columns { all: a + b, first: a }, back.raw(), narrow, b);
}

/// The first columns of `[A | B]`.
pub fn first_columns<D: Elementwise, T, A: Axis, B: Axis, X: Format>(
    device: &D,
    out: ViewMut<'_, D, T, A, X>,
    x: View<'_, D, T, Plus<A, B>, X>,
) {
    let (a, all) = (out.width(), x.width());
    device.copy_columns(out.raw(), Columns { all: a, first: 0 }, x.raw(), Columns { all, first: 0 }, a);
}

/// The first columns of `[A | B]` become `A`.
pub fn set_first_columns<D: Elementwise, T, A: Axis, B: Axis, X: Format>(
    device: &D,
    out: ViewMut<'_, D, T, Plus<A, B>, X>,
    x: View<'_, D, T, A, X>,
) {
    let (all, a) = (out.width(), x.width());
    device.copy_columns(out.raw(), Columns { all, first: 0 }, x.raw(), Columns { all: a, first: 0 }, a);
}

/// The last columns of `[A | B]` become the back of every head `[C | B]`.
pub fn share_head<D: Elementwise, T, H: Axis, A: Axis, B: Axis, C: Axis, X: Format>(
    device: &D,
    out: ViewMut<'_, D, T, Times<H, Plus<C, B>>, X>,
    x: View<'_, D, T, Plus<A, B>, X>,
    lengths: &Lengths,
) {
    let (a, b, c) = (A::len(lengths), B::len(lengths), C::len(lengths));
    let (to, from) = (Columns { all: c + b, first: c }, Columns { all: a + b, first: a });
    device.share_columns(out.raw(), to, H::len(lengths), x.raw(), from, b);
}

/// The last columns of `[A | B]` become the sums of the backs of all heads `[C | B]`: gradients.
pub fn gather_head<D: Elementwise, T, H: Axis, A: Axis, B: Axis, C: Axis, X: Format>(
    device: &D,
    out: ViewMut<'_, D, T, Plus<A, B>, X>,
    x: View<'_, D, T, Times<H, Plus<C, B>>, X>,
    lengths: &Lengths,
) {
    let (a, b, c) = (A::len(lengths), B::len(lengths), C::len(lengths));
    let (to, from) = (Columns { all: a + b, first: a }, Columns { all: c + b, first: c });
    device.sum_columns(out.raw(), to, H::len(lengths), x.raw(), from, b);
}
