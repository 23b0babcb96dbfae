//! Which queries, keys and values attend to one another, and what attention leaves for backward.

use super::Shape;
use crate::device::{Format, Host, Meta, Mut, Ref};
use crate::shapes::{Axis, Keys, One, Times, Traded};
use crate::{Memory, View, ViewMut};

/// What attention reads: queries, keys, values.
pub type Inputs<'a, D, X> = [Ref<'a, D, X>; 3];

operation! {
    /// Causal attention.
    Attend {
        /// The output, and the log-sum-exp of every row of scores; nothing of the scores is kept.
        fn attend[X: Format](
            o: Mut<'_, Self, X>, lse: Mut<'_, Self, f32>, inputs: [Ref<'_, Self, X>; 3],
            sinks: Option<Ref<'_, Self, X>>, shape: Shape);
        /// The gradients of queries, keys and values; that of sinks grows.
        fn attend_backward[X: Format](
            gradients: [Mut<'_, Self, X>; 3], d_sinks: Option<Mut<'_, Self, f32>>, delta: Mut<'_, Self, f32>,
            d_o: Ref<'_, Self, X>, o: Ref<'_, Self, X>, lse: Ref<'_, Self, f32>, inputs: [Ref<'_, Self, X>; 3],
            sinks: Option<Ref<'_, Self, X>>, shape: Shape);
        /// The output of some keys, and its log-sum-exp, take in those of others.
        fn merge[X: Format](
            o: Mut<'_, Self, f32>, lse: Mut<'_, Self, f32>, part: Ref<'_, Self, X>, part_lse: Ref<'_, Self, f32>,
            shape: Shape);
        /// The output, and all probabilities.
        fn attend_eager[X: Format](
            o: Mut<'_, Self, X>, probabilities: Mut<'_, Self, X>, inputs: [Ref<'_, Self, X>; 3],
            sinks: Option<Ref<'_, Self, X>>, shape: Shape);
        /// The same gradients, from probabilities.
        fn attend_eager_backward[X: Format](
            gradients: [Mut<'_, Self, X>; 3], d_sinks: Option<Mut<'_, Self, f32>>, d_scores: Mut<'_, Self, X>,
            d_o: Ref<'_, Self, X>, probabilities: Ref<'_, Self, X>, inputs: [Ref<'_, Self, X>; 3], shape: Shape);
    }
}

impl Attend for Host {
    fn attend<X: Format>(
        &self,
        o: Mut<'_, Self, X>,
        lse: Mut<'_, Self, f32>,
        [q, k, v]: [Ref<'_, Self, X>; 3],
        sinks: Option<Ref<'_, Self, X>>,
        shape: Shape,
    ) {
        let (scratch, threads) = (&mut self.scratch.borrow_mut(), self.gemm.threads);
        let (q, k, v, sinks) = (q.slice(), k.slice(), v.slice(), sinks.map(Ref::slice));
        super::host::forward(o.slice(), lse.slice(), q, k, v, sinks, &shape, scratch, threads);
    }

    fn attend_backward<X: Format>(
        &self,
        [dq, dk, dv]: [Mut<'_, Self, X>; 3],
        d_sinks: Option<Mut<'_, Self, f32>>,
        delta: Mut<'_, Self, f32>,
        d_o: Ref<'_, Self, X>,
        o: Ref<'_, Self, X>,
        lse: Ref<'_, Self, f32>,
        [q, k, v]: [Ref<'_, Self, X>; 3],
        sinks: Option<Ref<'_, Self, X>>,
        shape: Shape,
    ) {
        let (scratch, threads) = (&mut self.scratch.borrow_mut(), self.gemm.threads);
        super::host::backward(
            dq.slice(),
            dk.slice(),
            dv.slice(),
            d_sinks.map(Mut::slice),
            delta.slice(),
            d_o.slice(),
            o.slice(),
            lse.slice(),
            q.slice(),
            k.slice(),
            v.slice(),
            sinks.map(Ref::slice),
            &shape,
            scratch,
            threads,
        );
    }

    fn merge<X: Format>(
        &self,
        o: Mut<'_, Self, f32>,
        lse: Mut<'_, Self, f32>,
        part: Ref<'_, Self, X>,
        part_lse: Ref<'_, Self, f32>,
        shape: Shape,
    ) {
        super::host::merge(o.slice(), lse.slice(), part.slice(), part_lse.slice(), &shape);
    }

    fn attend_eager<X: Format>(
        &self,
        o: Mut<'_, Self, X>,
        probabilities: Mut<'_, Self, X>,
        [q, k, v]: [Ref<'_, Self, X>; 3],
        sinks: Option<Ref<'_, Self, X>>,
        shape: Shape,
    ) {
        let (scratch, threads) = (&mut self.scratch.borrow_mut(), self.gemm.threads);
        let (q, k, v, sinks) = (q.slice(), k.slice(), v.slice(), sinks.map(Ref::slice));
        super::host::forward_eager(o.slice(), probabilities.slice(), q, k, v, sinks, &shape, scratch, threads);
    }

    fn attend_eager_backward<X: Format>(
        &self,
        [dq, dk, dv]: [Mut<'_, Self, X>; 3],
        d_sinks: Option<Mut<'_, Self, f32>>,
        d_scores: Mut<'_, Self, X>,
        d_o: Ref<'_, Self, X>,
        probabilities: Ref<'_, Self, X>,
        [q, k, v]: [Ref<'_, Self, X>; 3],
        shape: Shape,
    ) {
        let (scratch, threads) = (&mut self.scratch.borrow_mut(), self.gemm.threads);
        super::host::backward_eager(
            dq.slice(),
            dk.slice(),
            dv.slice(),
            d_sinks.map(Mut::slice),
            d_scores.slice(),
            d_o.slice(),
            probabilities.slice(),
            q.slice(),
            k.slice(),
            v.slice(),
            &shape,
            scratch,
            threads,
        );
    }
}

/// Queries, keys and values, by their dimensions.
pub struct Qkv<'a, D: Memory, H, K, W, V, X: Format> {
    /// Queries.
    pub q: View<'a, D, Traded, Times<H, W>, X>,
    /// Keys.
    pub k: View<'a, D, Traded, Times<K, W>, X>,
    /// Values.
    pub v: View<'a, D, Traded, Times<K, V>, X>,
}

impl<'a, D: Memory, H, K, W, V, X: Format> Qkv<'a, D, H, K, W, V, X> {
    fn raw(&self) -> Inputs<'a, D, X> {
        [self.q.raw(), self.k.raw(), self.v.raw()]
    }
}

/// Their gradients.
pub struct QkvMut<'a, D: Memory, H, K, W, V, X: Format> {
    /// Of queries.
    pub q: ViewMut<'a, D, Traded, Times<H, W>, X>,
    /// Of keys.
    pub k: ViewMut<'a, D, Traded, Times<K, W>, X>,
    /// Of values.
    pub v: ViewMut<'a, D, Traded, Times<K, V>, X>,
}

/// A score for each head that attends to nothing.
pub type Sinks<'a, D, H, X> = Option<View<'a, D, H, One, X>>;

/// Attention that keeps a number for each row.
pub fn forward<D: Attend, H: Axis, K: Axis, W: Axis, V: Axis, X: Format>(
    device: &D,
    o: ViewMut<'_, D, Traded, Times<H, V>, X>,
    lse: ViewMut<'_, D, Times<Traded, H>, One, f32>,
    qkv: &Qkv<'_, D, H, K, W, V, X>,
    sinks: Sinks<'_, D, H, X>,
    shape: Shape,
) {
    device.attend(o.raw(), lse.raw(), qkv.raw(), sinks.map(View::raw), shape);
}

/// What backward knows of such attention's forward.
pub struct Attended<'a, D: Memory, H, V, X: Format> {
    /// The gradient of its output.
    pub d_o: View<'a, D, Traded, Times<H, V>, X>,
    /// Its output.
    pub o: View<'a, D, Traded, Times<H, V>, X>,
    /// The log-sum-exp of each row.
    pub lse: View<'a, D, Times<Traded, H>, One, f32>,
}

/// Its gradients.
#[allow(clippy::too_many_arguments)] // two of each of what it reads and writes
pub fn backward<D: Attend, H: Axis, K: Axis, W: Axis, V: Axis, X: Format>(
    device: &D,
    d: QkvMut<'_, D, H, K, W, V, X>,
    d_sinks: Option<ViewMut<'_, D, H, One, f32>>,
    delta: ViewMut<'_, D, Times<Traded, H>, One, f32>,
    of: &Attended<'_, D, H, V, X>,
    qkv: &Qkv<'_, D, H, K, W, V, X>,
    sinks: Sinks<'_, D, H, X>,
    shape: Shape,
) {
    let gradients = [d.q.raw(), d.k.raw(), d.v.raw()];
    let (d_sinks, sinks) = (d_sinks.map(ViewMut::raw), sinks.map(View::raw));
    device.attend_backward(
        gradients,
        d_sinks,
        delta.raw(),
        of.d_o.raw(),
        of.o.raw(),
        of.lse.raw(),
        qkv.raw(),
        sinks,
        shape,
    );
}

/// Attention that keeps all probabilities.
pub fn forward_eager<D: Attend, H: Axis, K: Axis, W: Axis, V: Axis, X: Format>(
    device: &D,
    o: ViewMut<'_, D, Traded, Times<H, V>, X>,
    probabilities: ViewMut<'_, D, Times<Traded, H>, Keys, X>,
    qkv: &Qkv<'_, D, H, K, W, V, X>,
    sinks: Sinks<'_, D, H, X>,
    shape: Shape,
) {
    device.attend_eager(o.raw(), probabilities.raw(), qkv.raw(), sinks.map(View::raw), shape);
}

/// Its gradients.
#[allow(clippy::too_many_arguments)] // two of each of what it reads and writes
pub fn backward_eager<D: Attend, H: Axis, K: Axis, W: Axis, V: Axis, X: Format>(
    device: &D,
    d: QkvMut<'_, D, H, K, W, V, X>,
    d_sinks: Option<ViewMut<'_, D, H, One, f32>>,
    d_scores: ViewMut<'_, D, Times<Traded, H>, Keys, X>,
    d_o: View<'_, D, Traded, Times<H, V>, X>,
    probabilities: View<'_, D, Times<Traded, H>, Keys, X>,
    qkv: &Qkv<'_, D, H, K, W, V, X>,
    shape: Shape,
) {
    let gradients = [d.q.raw(), d.k.raw(), d.v.raw()];
    let d_sinks = d_sinks.map(ViewMut::raw);
    device.attend_eager_backward(gradients, d_sinks, d_scores.raw(), d_o.raw(), probabilities.raw(), qkv.raw(), shape);
}
