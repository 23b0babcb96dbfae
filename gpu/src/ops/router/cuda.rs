//! The router on a CUDA device.

use super::{Route, Router, Score, host};
use crate::cuda::Cuda;
use crate::cuda::launch::{Blocks, Flag, In, MayIn, Narrow, Number, Out, Wide};
use crate::device::{Mut, Ref};

crate::cuda::launch::kernels! {
    fn route[]<f32, f32>(
        scores: Out<f32>, choice: Out<i32>, weights: Out<f32>, logits: In<f32>, bias: MayIn<f32>, tokens: Wide,
        kind: Narrow, experts: Narrow, active: Narrow, groups: Narrow, active_groups: Narrow, normalises: Flag,
        scale: Number,
    );
    fn route_backward[]<f32, f32>(
        d_logits: Out<f32>, d_weights: In<f32>, scores: In<f32>, choice: In<i32>, tokens: Wide, kind: Narrow,
        experts: Narrow, active: Narrow, normalises: Flag, scale: Number,
    );
}

impl Route for Cuda {
    fn route(
        &self,
        scores: Mut<'_, Self, f32>,
        choice: Mut<'_, Self, i32>,
        weights: Mut<'_, Self, f32>,
        logits: Ref<'_, Self, f32>,
        bias: Option<Ref<'_, Self, f32>>,
        router: Router,
    ) {
        host::assert_shapes(logits.len(), scores.len(), choice.len(), weights.len(), &router);
        assert!(bias.is_none_or(|bias| bias.len() == router.experts), "a bias for each expert");
        let Router { experts, active, groups, active_groups, normalise, scale, .. } = router;
        let (tokens, kind) = (logits.len() / experts, kind(router.score));
        let blocks = Blocks::warps(tokens);
        route(
            self,
            blocks,
            scores,
            choice,
            weights,
            logits,
            bias,
            tokens,
            kind,
            experts,
            active,
            groups,
            active_groups,
            normalise,
            scale,
        );
    }

    fn route_backward(
        &self,
        d_logits: Mut<'_, Self, f32>,
        d_weights: Ref<'_, Self, f32>,
        scores: Ref<'_, Self, f32>,
        choice: Ref<'_, Self, i32>,
        router: Router,
    ) {
        host::assert_shapes(d_logits.len(), scores.len(), choice.len(), d_weights.len(), &router);
        let Router { experts, active, normalise, scale, .. } = router;
        let (tokens, kind) = (d_logits.len() / experts, kind(router.score));
        let blocks = Blocks::warps(tokens);
        route_backward(
            self, blocks, d_logits, d_weights, scores, choice, tokens, kind, experts, active, normalise, scale,
        );
    }
}

/// As the kernels number them.
fn kind(score: Score) -> usize {
    match score {
        Score::Softmax => 0,
        Score::Sigmoid => 1,
        Score::SoftmaxOfChosen => 2,
    }
}
