//! Copies of tokens in the order of their experts, and back.

use crate::device::{Format, Host, Meta, Mut, Ref};
use crate::shapes::One;
use crate::{Memory, View, ViewMut};

operation! {
    /// Permutations.
    Permute {
        /// How many copies each expert has, where its first one stands, and all copies by expert.
        fn sort[](order: Mut<'_, Self, i32>, counts: Mut<'_, Self, i32>, starts: Mut<'_, Self, i32>, choice: Ref<'_, Self, i32>);
        /// The same with so many slots for each expert, -1 in empty ones.
        fn sort_limited[](order: Mut<'_, Self, i32>, counts: Mut<'_, Self, i32>, choice: Ref<'_, Self, i32>, slots: usize);
        /// Where each copy stands, -1 if it was dropped.
        fn invert[](inverse: Mut<'_, Self, i32>, order: Ref<'_, Self, i32>);
        /// Rows of tokens, a copy of one in each; of `k` copies of each token.
        fn gather[X: Format](rows: Mut<'_, Self, X>, x: Ref<'_, Self, X>, order: Ref<'_, Self, i32>, k: usize, width: usize);
        /// Adds the copies of each token to it.
        fn combine[X: Format](y: Mut<'_, Self, X>, rows: Ref<'_, Self, X>, inverse: Ref<'_, Self, i32>, k: usize, width: usize);
        /// Each row to its place.
        fn scatter[X: Format](rows: Mut<'_, Self, X>, x: Ref<'_, Self, X>, places: Ref<'_, Self, i32>, width: usize);
        /// A number of each copy, in their order.
        fn gather_scalars[](out: Mut<'_, Self, f32>, values: Ref<'_, Self, f32>, order: Ref<'_, Self, i32>);
        /// Back to their tokens, 0 for what was dropped.
        fn scatter_scalars[](out: Mut<'_, Self, f32>, values: Ref<'_, Self, f32>, order: Ref<'_, Self, i32>);
    }
}

impl Permute for Host {
    fn sort(
        &self,
        order: Mut<'_, Self, i32>,
        mut counts: Mut<'_, Self, i32>,
        starts: Mut<'_, Self, i32>,
        choice: Ref<'_, Self, i32>,
    ) {
        super::host::counts(counts.again().slice(), choice.slice());
        super::host::sort(order.slice(), counts.read().slice(), starts.slice(), choice.slice());
    }

    fn sort_limited(
        &self,
        order: Mut<'_, Self, i32>,
        counts: Mut<'_, Self, i32>,
        choice: Ref<'_, Self, i32>,
        slots: usize,
    ) {
        let experts = counts.len();
        super::host::sort_limited(order.slice(), choice.slice(), experts, slots, counts.slice());
    }

    fn invert(&self, inverse: Mut<'_, Self, i32>, order: Ref<'_, Self, i32>) {
        super::host::invert(inverse.slice(), order.slice());
    }

    fn gather<X: Format>(
        &self,
        rows: Mut<'_, Self, X>,
        x: Ref<'_, Self, X>,
        order: Ref<'_, Self, i32>,
        k: usize,
        width: usize,
    ) {
        super::host::gather(rows.slice(), x.slice(), order.slice(), k, width);
    }

    fn combine<X: Format>(
        &self,
        y: Mut<'_, Self, X>,
        rows: Ref<'_, Self, X>,
        inverse: Ref<'_, Self, i32>,
        k: usize,
        width: usize,
    ) {
        super::host::combine(y.slice(), rows.slice(), inverse.slice(), k, width);
    }

    fn scatter<X: Format>(
        &self,
        rows: Mut<'_, Self, X>,
        x: Ref<'_, Self, X>,
        places: Ref<'_, Self, i32>,
        width: usize,
    ) {
        super::host::scatter(rows.slice(), x.slice(), places.slice(), width);
    }

    fn gather_scalars(&self, out: Mut<'_, Self, f32>, values: Ref<'_, Self, f32>, order: Ref<'_, Self, i32>) {
        super::host::gather_scalars(out.slice(), values.slice(), order.slice());
    }

    fn scatter_scalars(&self, out: Mut<'_, Self, f32>, values: Ref<'_, Self, f32>, order: Ref<'_, Self, i32>) {
        super::host::scatter_scalars(out.slice(), values.slice(), order.slice());
    }
}

/// Rows of tokens `T`, a copy of one in each.
pub fn gather<D: Permute, R, T, C, X: Format>(
    device: &D,
    rows: ViewMut<'_, D, R, C, X>,
    x: View<'_, D, T, C, X>,
    order: View<'_, D, R, One, i32>,
    k: usize,
) {
    device.gather(rows.raw(), x.raw(), order.raw(), k, x.width());
}

/// Adds the copies of each token to it: also the gradient of [`gather`].
pub fn combine<D: Permute, R, T, K, C, X: Format>(
    device: &D,
    y: ViewMut<'_, D, T, C, X>,
    rows: View<'_, D, R, C, X>,
    inverse: View<'_, D, T, K, i32>,
) {
    device.combine(y.raw(), rows.raw(), inverse.raw(), inverse.width(), rows.width());
}

/// Each row to its place.
pub fn scatter<D: Permute, R, C, X: Format>(
    device: &D,
    rows: ViewMut<'_, D, R, C, X>,
    x: View<'_, D, R, C, X>,
    places: View<'_, D, R, One, i32>,
) {
    device.scatter(rows.raw(), x.raw(), places.raw(), x.width());
}

/// A number of each copy, in their order.
pub fn gather_scalars<D: Permute, R, T, K>(
    device: &D,
    out: ViewMut<'_, D, R, One, f32>,
    values: View<'_, D, T, K, f32>,
    order: View<'_, D, R, One, i32>,
) {
    device.gather_scalars(out.raw(), values.raw(), order.raw());
}

/// Back to their tokens, 0 for what was dropped.
pub fn scatter_scalars<D: Permute, R, T, K>(
    device: &D,
    out: ViewMut<'_, D, T, K, f32>,
    values: View<'_, D, R, One, f32>,
    order: View<'_, D, R, One, i32>,
) {
    device.scatter_scalars(out.raw(), values.raw(), order.raw());
}
