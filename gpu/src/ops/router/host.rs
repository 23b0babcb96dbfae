//! The router on the CPU. Equal scores: the lower number goes first.

use super::{Router, Score};
use crate::ops::activation::host::sigmoid;
use crate::ops::index::{element, position};

/// The most groups of experts.
const MOST_GROUPS: usize = 64;

/// Scores `[tokens, experts]` of logits `[tokens, experts]`, the chosen experts `[tokens, active]` in the order of
/// their numbers, and their weights `[tokens, active]`. `correction_bias` `[experts]` is added to scores for the choice
/// alone.
pub fn forward(
    scores: &mut [f32],
    choice: &mut [i32],
    weights: &mut [f32],
    logits: &[f32],
    correction_bias: Option<&[f32]>,
    router: &Router,
) {
    assert_shapes(logits.len(), scores.len(), choice.len(), weights.len(), router);
    assert!(correction_bias.is_none_or(|bias| bias.len() == router.experts), "a bias for each expert");
    let tokens = scores.chunks_exact_mut(router.experts).zip(logits.chunks_exact(router.experts));
    let chosen = choice.chunks_exact_mut(router.active).zip(weights.chunks_exact_mut(router.active));
    for ((scores, logits), (choice, weights)) in tokens.zip(chosen) {
        scores.copy_from_slice(logits);
        match router.score {
            Score::Softmax => softmax(scores),
            Score::Sigmoid => scores.iter_mut().for_each(|score| *score = sigmoid(*score)),
            Score::SoftmaxOfChosen => {}
        }
        choose(choice, scores, correction_bias, router);
        for (weight, expert) in weights.iter_mut().zip(choice.iter()) {
            *weight = scores[position(*expert)];
        }
        if router.score == Score::SoftmaxOfChosen {
            softmax(weights);
        } else if router.normalise {
            let sum = denominator(weights.iter().sum(), router.score);
            divide(weights, sum);
        }
        for weight in weights {
            *weight *= router.scale;
        }
    }
}

/// `d_logits` `[tokens, experts]` = the gradient of the logits, from `d_weights` `[tokens, active]` and what
/// [`forward`] gave.
pub fn backward(d_logits: &mut [f32], d_weights: &[f32], scores: &[f32], choice: &[i32], router: &Router) {
    assert_shapes(d_logits.len(), scores.len(), choice.len(), d_weights.len(), router);
    let tokens = d_logits.chunks_exact_mut(router.experts).zip(scores.chunks_exact(router.experts));
    let chosen = choice.chunks_exact(router.active).zip(d_weights.chunks_exact(router.active));
    for ((d_logits, scores), (choice, d_weights)) in tokens.zip(chosen) {
        d_logits.fill(0.0);
        if router.score == Score::SoftmaxOfChosen {
            of_chosen(d_logits, d_weights, scores, choice, router.scale);
        } else {
            of_scores(d_logits, d_weights, scores, choice, router);
        }
    }
}

/// The gradient of logits whose softmax over the chosen is the weights.
fn of_chosen(d_logits: &mut [f32], d_weights: &[f32], logits: &[f32], choice: &[i32], scale: f32) {
    let chosen = || choice.iter().map(|expert| logits[position(*expert)]);
    let max = chosen().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = chosen().map(|logit| (logit - max).exp()).sum();
    let along: f32 = chosen().zip(d_weights).map(|(logit, d)| (logit - max).exp() / sum * d).sum();
    for (expert, d) in choice.iter().zip(d_weights) {
        let expert = position(*expert);
        d_logits[expert] = scale * ((logits[expert] - max).exp() / sum) * (d - along);
    }
}

/// The gradient of logits whose scores, divided by their sum or not, are the weights. `d_logits` are zeros before.
fn of_scores(d_logits: &mut [f32], d_weights: &[f32], scores: &[f32], choice: &[i32], router: &Router) {
    let chosen = || choice.iter().map(|expert| scores[position(*expert)]);
    let (sum, along) = if router.normalise {
        let sum = denominator(chosen().sum(), router.score);
        (sum, chosen().zip(d_weights).map(|(score, d)| score / sum * d).sum())
    } else {
        (1.0, 0.0)
    };
    // The gradients of the chosen scores, in the places of their logits' for now; those of the others are 0.
    for (expert, d) in choice.iter().zip(d_weights) {
        d_logits[position(*expert)] = router.scale * (d - along) / sum;
    }
    if router.score == Score::Sigmoid {
        for (d, score) in d_logits.iter_mut().zip(scores) {
            *d *= score * (1.0 - score);
        }
    } else {
        let along: f32 = d_logits.iter().zip(scores).map(|(d, score)| d * score).sum();
        for (d, score) in d_logits.iter_mut().zip(scores) {
            *d = score * (*d - along);
        }
    }
}

/// What weights are divided by: DeepSeek-V3 keeps a sum of sigmoids from zero.
fn denominator(sum: f32, score: Score) -> f32 {
    if score == Score::Sigmoid { sum + 1e-20 } else { sum }
}

/// Divides a row by a number.
fn divide(x: &mut [f32], by: f32) {
    for x in x {
        *x /= by;
    }
}

/// The softmax of a row, in place.
fn softmax(x: &mut [f32]) {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for x in x.iter_mut() {
        *x = (*x - max).exp();
    }
    divide(x, x.iter().sum());
}

/// The experts with the largest scores, bias added, of the groups that a token may choose from.
fn choose(choice: &mut [i32], scores: &[f32], bias: Option<&[f32]>, router: &Router) {
    // Plus zero makes -0 and 0 equal, as they are for every comparison but a total order.
    let score = |expert: usize| scores[expert] + bias.map_or(0.0, |bias| bias[expert]);
    let groups = router.groups.max(1);
    let size = router.experts / groups;
    let mut sums = [0.0; MOST_GROUPS];
    let mut open = [groups == 1; MOST_GROUPS];
    if groups > 1 {
        for (group, sum) in sums[..groups].iter_mut().enumerate() {
            let members = || (group * size..(group + 1) * size).map(|expert| (expert, score(expert)));
            let best = next_best(members(), None);
            let second = next_best(members(), best);
            *sum = [best, second].iter().flatten().map(|(_, score)| score).sum();
        }
        let mut last = None;
        for _ in 0..router.active_groups {
            last = next_best(sums[..groups].iter().copied().enumerate(), last);
            open[last.expect("as many groups as may be chosen").0] = true;
        }
    }
    let mut last = None;
    for chosen in choice.iter_mut() {
        let candidates = (0..router.experts).filter(|expert| open[expert / size]);
        last = next_best(candidates.map(|expert| (expert, score(expert))), last);
        *chosen = element(last.expect("as many experts as a token goes to").0);
    }
    choice.sort_unstable();
}

/// The best of numbered scores that comes after `last`, in the order of falling scores and then of numbers. So the k
/// best take k passes, and no list of those taken.
fn next_best(scores: impl Iterator<Item = (usize, f32)>, last: Option<(usize, f32)>) -> Option<(usize, f32)> {
    let before = |a: (usize, f32), b: (usize, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)).is_lt();
    scores.filter(|one| last.is_none_or(|last| before(last, *one))).reduce(|a, b| if before(a, b) { a } else { b })
}

/// Panics unless the sizes of a router and its slices fit.
pub(super) fn assert_shapes(logits: usize, scores: usize, choice: usize, weights: usize, router: &Router) {
    let Router { experts, active, groups, active_groups, .. } = *router;
    assert!(active > 0 && active <= experts, "{active} of {experts} experts");
    if groups > 1 {
        assert!(groups <= MOST_GROUPS && experts.is_multiple_of(groups), "{groups} groups of {experts} experts");
        let reach = active_groups * (experts / groups);
        assert!(active_groups <= groups && active <= reach, "{active} experts in {active_groups} of {groups} groups");
    }
    assert!(scores == logits && logits.is_multiple_of(experts), "logits of a router: a slice and its shape");
    let chosen = logits / experts * active;
    assert!(choice == chosen && weights == chosen, "choices of a router: a slice and its shape");
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
