//! Which matrices may be multiplied: what they share must be the same dimension.

use crate::device::{Format, Host, Meta, Mut, Ref};
use crate::shapes::{One, Times};
use crate::{Memory, View, ViewMut};

operation! {
    /// Matrix products of linear layers, with sums in f32.
    Gemm {
        /// y `[m, n]` = x `[m, k]` wᵀ with w `[n, k]`, or that much more; of `[m, n, k]`.
        fn gemm_forward[Y: Format, X: Format, W: Format](
            y: Mut<'_, Self, Y>, x: Ref<'_, Self, X>, w: Ref<'_, Self, W>, size: [usize; 3], adds: bool);
        /// dx `[m, k]` = dy `[m, n]` w with w `[n, k]`, or that much more.
        fn gemm_input[Y: Format, X: Format, W: Format](
            dx: Mut<'_, Self, X>, dy: Ref<'_, Self, Y>, w: Ref<'_, Self, W>, size: [usize; 3], adds: bool);
        /// dw `[n, k]` += dyᵀ x with dy `[m, n]`, x `[m, k]`.
        fn gemm_weight[Y: Format, X: Format](
            dw: Mut<'_, Self, f32>, dy: Ref<'_, Self, Y>, x: Ref<'_, Self, X>, size: [usize; 3]);
        /// The rows of each group y = x wᵀ, or that much more, with the group's own w `[n, k]` of those below one another; of
        /// `[n, k]`.
        fn grouped_forward[Y: Format, X: Format, W: Format](
            y: Mut<'_, Self, Y>, x: Ref<'_, Self, X>, w: Ref<'_, Self, W>, groups: Groups<'_>, size: [usize; 2], adds: bool);
        /// The rows of each group dx = dy w, or that much more.
        fn grouped_input[Y: Format, X: Format, W: Format](
            dx: Mut<'_, Self, X>, dy: Ref<'_, Self, Y>, w: Ref<'_, Self, W>, groups: Groups<'_>, size: [usize; 2], adds: bool);
        /// Each group's dw `[n, k]` += dyᵀ x over its rows.
        fn grouped_weight[Y: Format, X: Format](
            dw: Mut<'_, Self, f32>, dy: Ref<'_, Self, Y>, x: Ref<'_, Self, X>, groups: Groups<'_>, size: [usize; 2]);
        /// y `[m, n]` += bias `[n]` in every row.
        fn bias_forward[Y: Format, W: Format](y: Mut<'_, Self, Y>, bias: Ref<'_, Self, W>, size: [usize; 2]);
        /// db `[n]` += the sums of the columns of dy `[m, n]`.
        fn bias_backward[Y: Format](db: Mut<'_, Self, f32>, dy: Ref<'_, Self, Y>, size: [usize; 2]);
        /// y `[m, n]` += bias `[n]` times each row's scale.
        fn scaled_bias_forward[Y: Format, W: Format](
            y: Mut<'_, Self, Y>, bias: Ref<'_, Self, W>, scale: Ref<'_, Self, f32>, n: usize);
        /// db `[n]` += the sums of the columns of dy `[m, n]`, each row times its scale; the gradients of the scales grow.
        fn scaled_bias_backward[Y: Format, W: Format](
            db: Mut<'_, Self, f32>, d_scale: Mut<'_, Self, f32>, dy: Ref<'_, Self, Y>, bias: Ref<'_, Self, W>,
            scale: Ref<'_, Self, f32>, n: usize);
    }
}

impl Gemm for Host {
    fn gemm_forward<Y: Format, X: Format, W: Format>(
        &self,
        y: Mut<'_, Self, Y>,
        x: Ref<'_, Self, X>,
        w: Ref<'_, Self, W>,
        [m, n, k]: [usize; 3],
        adds: bool,
    ) {
        let scratch = &mut self.scratch.borrow_mut();
        self.gemm.forward(scratch, y.slice(), x.slice(), w.slice(), m, n, k, adds);
    }

    fn gemm_input<Y: Format, X: Format, W: Format>(
        &self,
        dx: Mut<'_, Self, X>,
        dy: Ref<'_, Self, Y>,
        w: Ref<'_, Self, W>,
        [m, n, k]: [usize; 3],
        adds: bool,
    ) {
        let scratch = &mut self.scratch.borrow_mut();
        self.gemm.input(scratch, dx.slice(), dy.slice(), w.slice(), m, n, k, adds);
    }

    fn gemm_weight<Y: Format, X: Format>(
        &self,
        dw: Mut<'_, Self, f32>,
        dy: Ref<'_, Self, Y>,
        x: Ref<'_, Self, X>,
        [m, n, k]: [usize; 3],
    ) {
        let scratch = &mut self.scratch.borrow_mut();
        self.gemm.weight(scratch, dw.slice(), dy.slice(), x.slice(), m, n, k);
    }

    fn grouped_forward<Y: Format, X: Format, W: Format>(
        &self,
        mut y: Mut<'_, Self, Y>,
        x: Ref<'_, Self, X>,
        w: Ref<'_, Self, W>,
        groups: Groups<'_>,
        [n, k]: [usize; 2],
        adds: bool,
    ) {
        for (group, (first, rows)) in groups.iter().copied().enumerate() {
            let (x, w) = (x.part(first * k, rows * k), w.part(group * n * k, n * k));
            self.gemm_forward(y.again().part(first * n, rows * n), x, w, [rows, n, k], adds);
        }
    }

    fn grouped_input<Y: Format, X: Format, W: Format>(
        &self,
        mut dx: Mut<'_, Self, X>,
        dy: Ref<'_, Self, Y>,
        w: Ref<'_, Self, W>,
        groups: Groups<'_>,
        [n, k]: [usize; 2],
        adds: bool,
    ) {
        for (group, (first, rows)) in groups.iter().copied().enumerate() {
            let (dy, w) = (dy.part(first * n, rows * n), w.part(group * n * k, n * k));
            self.gemm_input(dx.again().part(first * k, rows * k), dy, w, [rows, n, k], adds);
        }
    }

    fn grouped_weight<Y: Format, X: Format>(
        &self,
        mut dw: Mut<'_, Self, f32>,
        dy: Ref<'_, Self, Y>,
        x: Ref<'_, Self, X>,
        groups: Groups<'_>,
        [n, k]: [usize; 2],
    ) {
        for (group, (first, rows)) in groups.iter().copied().enumerate() {
            let (dy, x) = (dy.part(first * n, rows * n), x.part(first * k, rows * k));
            self.gemm_weight(dw.again().part(group * n * k, n * k), dy, x, [rows, n, k]);
        }
    }

    fn bias_forward<Y: Format, W: Format>(&self, y: Mut<'_, Self, Y>, bias: Ref<'_, Self, W>, [m, n]: [usize; 2]) {
        super::host::bias_forward(y.slice(), bias.slice(), m, n);
    }

    fn bias_backward<Y: Format>(&self, db: Mut<'_, Self, f32>, dy: Ref<'_, Self, Y>, [m, n]: [usize; 2]) {
        super::host::bias_backward(db.slice(), dy.slice(), m, n);
    }

    fn scaled_bias_forward<Y: Format, W: Format>(
        &self,
        y: Mut<'_, Self, Y>,
        bias: Ref<'_, Self, W>,
        scale: Ref<'_, Self, f32>,
        n: usize,
    ) {
        super::host::scaled_bias_forward(y.slice(), bias.slice(), scale.slice(), n);
    }

    fn scaled_bias_backward<Y: Format, W: Format>(
        &self,
        db: Mut<'_, Self, f32>,
        d_scale: Mut<'_, Self, f32>,
        dy: Ref<'_, Self, Y>,
        bias: Ref<'_, Self, W>,
        scale: Ref<'_, Self, f32>,
        n: usize,
    ) {
        super::host::scaled_bias_backward(db.slice(), d_scale.slice(), dy.slice(), bias.slice(), scale.slice(), n);
    }
}

/// Rows of groups that each have weights of their own, as experts do: the first row of each, and how many there are, none
/// perhaps. No two have a row in common.
pub type Groups<'a> = &'a [(usize, usize)];

/// Whether a product replaces what is there, or is added to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Into {
    /// It replaces it.
    Set,
    /// It is added.
    Add,
}

/// y = x wᵀ: a linear layer.
pub fn forward<D: Gemm, M, N, K, Y: Format, X: Format, W: Format>(
    device: &D,
    y: ViewMut<'_, D, M, N, Y>,
    x: View<'_, D, M, K, X>,
    w: View<'_, D, N, K, W>,
    into: Into,
) {
    let size = [x.rows(), w.rows(), x.width()];
    device.gemm_forward(y.raw(), x.raw(), w.raw(), size, into == Into::Add);
}

/// dx = dy w: the gradient of its input.
pub fn input<D: Gemm, M, N, K, Y: Format, X: Format, W: Format>(
    device: &D,
    dx: ViewMut<'_, D, M, K, X>,
    dy: View<'_, D, M, N, Y>,
    w: View<'_, D, N, K, W>,
    into: Into,
) {
    let size = [dy.rows(), w.rows(), dx.width()];
    device.gemm_input(dx.raw(), dy.raw(), w.raw(), size, into == Into::Add);
}

/// dw += dyᵀ x: the gradient of its weight.
pub fn weight<D: Gemm, M, N, K, Y: Format, X: Format>(
    device: &D,
    dw: ViewMut<'_, D, N, K, f32>,
    dy: View<'_, D, M, N, Y>,
    x: View<'_, D, M, K, X>,
) {
    let size = [x.rows(), dy.width(), x.width()];
    device.gemm_weight(dw.raw(), dy.raw(), x.raw(), size);
}

/// The same of groups, each with a matrix of its own out of `G` below one another.
pub fn grouped_forward<D: Gemm, M, G, N, K, Y: Format, X: Format, W: Format>(
    device: &D,
    y: ViewMut<'_, D, M, N, Y>,
    x: View<'_, D, M, K, X>,
    w: View<'_, D, Times<G, N>, K, W>,
    groups: Groups<'_>,
    into: Into,
) {
    let size = [y.width(), x.width()];
    device.grouped_forward(y.raw(), x.raw(), w.raw(), groups, size, into == Into::Add);
}

/// The gradient of their inputs.
pub fn grouped_input<D: Gemm, M, G, N, K, Y: Format, X: Format, W: Format>(
    device: &D,
    dx: ViewMut<'_, D, M, K, X>,
    dy: View<'_, D, M, N, Y>,
    w: View<'_, D, Times<G, N>, K, W>,
    groups: Groups<'_>,
    into: Into,
) {
    let size = [dy.width(), dx.width()];
    device.grouped_input(dx.raw(), dy.raw(), w.raw(), groups, size, into == Into::Add);
}

/// The gradients of their weights.
pub fn grouped_weight<D: Gemm, M, G, N, K, Y: Format, X: Format>(
    device: &D,
    dw: ViewMut<'_, D, Times<G, N>, K, f32>,
    dy: View<'_, D, M, N, Y>,
    x: View<'_, D, M, K, X>,
    groups: Groups<'_>,
) {
    let size = [dy.width(), x.width()];
    device.grouped_weight(dw.raw(), dy.raw(), x.raw(), groups, size);
}

/// Adds a bias to every row.
pub fn add_bias<D: Gemm, M, N, C, Y: Format, W: Format>(
    device: &D,
    y: ViewMut<'_, D, M, N, Y>,
    bias: View<'_, D, N, C, W>,
) {
    let size = [y.rows(), y.width()];
    device.bias_forward(y.raw(), bias.raw(), size);
}

/// Adds to the gradient of a bias.
pub fn bias<D: Gemm, M, N, C, Y: Format>(device: &D, db: ViewMut<'_, D, N, C, f32>, dy: View<'_, D, M, N, Y>) {
    device.bias_backward(db.raw(), dy.raw(), [dy.rows(), dy.width()]);
}

/// Adds a bias to every row, times the row's scale.
pub fn add_scaled_bias<D: Gemm, M, N, Y: Format, W: Format>(
    device: &D,
    y: ViewMut<'_, D, M, N, Y>,
    bias: View<'_, D, N, One, W>,
    scale: View<'_, D, M, One, f32>,
) {
    device.scaled_bias_forward(y.raw(), bias.raw(), scale.raw(), bias.rows());
}

/// Adds to the gradients of such a bias and of the scales.
pub fn scaled_bias<D: Gemm, M, N, Y: Format, W: Format>(
    device: &D,
    db: ViewMut<'_, D, N, One, f32>,
    d_scale: ViewMut<'_, D, M, One, f32>,
    dy: View<'_, D, M, N, Y>,
    bias: View<'_, D, N, One, W>,
    scale: View<'_, D, M, One, f32>,
) {
    device.scaled_bias_backward(db.raw(), d_scale.raw(), dy.raw(), bias.raw(), scale.raw(), dy.width());
}
