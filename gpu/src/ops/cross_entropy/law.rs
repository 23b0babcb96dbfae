//! The loss, of a vocabulary that ranks may share: each step in between leaves room for a reduction over them.

use crate::device::{Format, Host, Meta, Mut, Ref};
use crate::shapes::One;
use crate::{Memory, View, ViewMut};

operation! {
    /// Cross-entropy.
    CrossEntropy {
        /// Columns from one on are padding, which no softmax sees.
        fn mask[](logits: Mut<'_, Self, f32>, width: usize, from: usize);
        /// The largest logit of each row.
        fn row_max[](max: Mut<'_, Self, f32>, logits: Ref<'_, Self, f32>, width: usize);
        /// The sum of the exponentials of each row, and the logit of its label, 0 where another rank has it.
        fn row_sum[](
            sum: Mut<'_, Self, f32>, target: Mut<'_, Self, f32>, logits: Ref<'_, Self, f32>, max: Ref<'_, Self, f32>,
            labels: Ref<'_, Self, i64>, first: usize, width: usize);
        /// The sum of the losses of the tokens that are scored, and how many they are; none without values.
        fn loss[](
            sum: Ref<'_, Self, f32>, max: Ref<'_, Self, f32>, target: Ref<'_, Self, f32>, labels: Ref<'_, Self, i64>
        ) -> Option<(f64, usize)>;
        /// Logits become their gradients.
        fn loss_backward[](
            logits: Mut<'_, Self, f32>, max: Ref<'_, Self, f32>, sum: Ref<'_, Self, f32>, labels: Ref<'_, Self, i64>,
            first: usize, width: usize, scale: f32);
        /// Logits or their gradients in another format.
        fn narrow[X: Format](out: Mut<'_, Self, X>, logits: Ref<'_, Self, f32>);
    }
}

impl CrossEntropy for Host {
    fn mask(&self, logits: Mut<'_, Self, f32>, width: usize, from: usize) {
        super::host::mask(logits.slice(), width, from);
    }

    fn row_max(&self, max: Mut<'_, Self, f32>, logits: Ref<'_, Self, f32>, width: usize) {
        super::host::row_max(max.slice(), logits.slice(), width);
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
        super::host::row_sum(sum.slice(), target.slice(), logits.slice(), max.slice(), labels.slice(), first, width);
    }

    fn loss(
        &self,
        sum: Ref<'_, Self, f32>,
        max: Ref<'_, Self, f32>,
        target: Ref<'_, Self, f32>,
        labels: Ref<'_, Self, i64>,
    ) -> Option<(f64, usize)> {
        Some(super::host::loss(sum.slice(), max.slice(), target.slice(), labels.slice()))
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
        super::host::backward(logits.slice(), max.slice(), sum.slice(), labels.slice(), first, width, scale);
    }

    fn narrow<X: Format>(&self, out: Mut<'_, Self, X>, logits: Ref<'_, Self, f32>) {
        super::host::narrow(out.slice(), logits.slice());
    }
}

/// What the loss keeps of each row.
pub struct Rows<'a, D: Memory, T> {
    /// The largest logit.
    pub max: View<'a, D, T, One, f32>,
    /// The sum of exponentials.
    pub sum: View<'a, D, T, One, f32>,
    /// What is to be predicted; negative where nothing is.
    pub labels: View<'a, D, T, One, i64>,
}

/// Columns from one on are padding, which no softmax sees.
pub fn mask<D: CrossEntropy, T, V>(device: &D, logits: ViewMut<'_, D, T, V, f32>, from: usize) {
    let width = logits.width();
    if from < width {
        device.mask(logits.raw(), width, from);
    }
}

/// The largest logit of each row.
pub fn largest<D: CrossEntropy, T, V>(device: &D, max: ViewMut<'_, D, T, One, f32>, logits: View<'_, D, T, V, f32>) {
    device.row_max(max.raw(), logits.raw(), logits.width());
}

/// The sum of the exponentials of each row, and the logit of its label, 0 where another rank has it.
pub fn sums<D: CrossEntropy, T, V>(
    device: &D,
    sum: ViewMut<'_, D, T, One, f32>,
    target: ViewMut<'_, D, T, One, f32>,
    logits: View<'_, D, T, V, f32>,
    max: View<'_, D, T, One, f32>,
    labels: View<'_, D, T, One, i64>,
    first: usize,
) {
    device.row_sum(sum.raw(), target.raw(), logits.raw(), max.raw(), labels.raw(), first, logits.width());
}

/// The sum of the losses of the tokens that are scored, and how many they are; none without values.
pub fn loss<D: CrossEntropy, T>(
    device: &D,
    rows: &Rows<'_, D, T>,
    target: View<'_, D, T, One, f32>,
) -> Option<(f64, usize)> {
    device.loss(rows.sum.raw(), rows.max.raw(), target.raw(), rows.labels.raw())
}

/// Logits become their gradients.
pub fn backward<D: CrossEntropy, T, V>(
    device: &D,
    logits: ViewMut<'_, D, T, V, f32>,
    rows: &Rows<'_, D, T>,
    first: usize,
    scale: f32,
) {
    let width = logits.width();
    device.loss_backward(logits.raw(), rows.max.raw(), rows.sum.raw(), rows.labels.raw(), first, width, scale);
}

/// Logits or their gradients in another format.
pub fn narrow<D: CrossEntropy, T, V, X: Format>(
    device: &D,
    out: ViewMut<'_, D, T, V, X>,
    logits: View<'_, D, T, V, f32>,
) {
    device.narrow(out.raw(), logits.raw());
}
