//! Which experts a token goes to, and how much each counts.

use super::Router;
use crate::device::{Host, Meta, Mut, Ref};
use crate::shapes::One;
use crate::{Memory, View, ViewMut};

operation! {
    /// Routers.
    Route {
        /// Scores of all experts, the chosen ones in ascending order, and their weights.
        fn route[](
            scores: Mut<'_, Self, f32>, choice: Mut<'_, Self, i32>, weights: Mut<'_, Self, f32>,
            logits: Ref<'_, Self, f32>, bias: Option<Ref<'_, Self, f32>>, router: Router);
        /// The gradient of the logits.
        fn route_backward[](
            d_logits: Mut<'_, Self, f32>, d_weights: Ref<'_, Self, f32>, scores: Ref<'_, Self, f32>,
            choice: Ref<'_, Self, i32>, router: Router);
    }
}

impl Route for Host {
    fn route(
        &self,
        scores: Mut<'_, Self, f32>,
        choice: Mut<'_, Self, i32>,
        weights: Mut<'_, Self, f32>,
        logits: Ref<'_, Self, f32>,
        bias: Option<Ref<'_, Self, f32>>,
        router: Router,
    ) {
        let bias = bias.map(Ref::slice);
        super::host::forward(scores.slice(), choice.slice(), weights.slice(), logits.slice(), bias, &router);
    }

    fn route_backward(
        &self,
        d_logits: Mut<'_, Self, f32>,
        d_weights: Ref<'_, Self, f32>,
        scores: Ref<'_, Self, f32>,
        choice: Ref<'_, Self, i32>,
        router: Router,
    ) {
        super::host::backward(d_logits.slice(), d_weights.slice(), scores.slice(), choice.slice(), &router);
    }
}

/// Scores of all experts, the chosen ones in ascending order, and their weights.
pub fn forward<D: Route, T, N, K>(
    device: &D,
    scores: ViewMut<'_, D, T, N, f32>,
    choice: ViewMut<'_, D, T, K, i32>,
    weights: ViewMut<'_, D, T, K, f32>,
    logits: View<'_, D, T, N, f32>,
    bias: Option<View<'_, D, N, One, f32>>,
    router: Router,
) {
    device.route(scores.raw(), choice.raw(), weights.raw(), logits.raw(), bias.map(View::raw), router);
}

/// The gradient of the logits.
pub fn backward<D: Route, T, N, K>(
    device: &D,
    d_logits: ViewMut<'_, D, T, N, f32>,
    d_weights: View<'_, D, T, K, f32>,
    scores: View<'_, D, T, N, f32>,
    choice: View<'_, D, T, K, i32>,
    router: Router,
) {
    device.route_backward(d_logits.raw(), d_weights.raw(), scores.raw(), choice.raw(), router);
}
