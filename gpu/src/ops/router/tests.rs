//! What the router chooses, weighs and passes back.

use super::{backward, forward};
use crate::ops::index::position;
use crate::ops::router::{Router, Score};
use crate::ops::testing::{assert_close, assert_gradient, random, weighted};

const PLAIN: Router =
    Router { score: Score::Softmax, experts: 4, active: 2, groups: 1, active_groups: 1, normalise: false, scale: 1.0 };

/// Scores, choice and weights of logits.
fn route(logits: &[f32], bias: Option<&[f32]>, router: &Router) -> (Vec<f32>, Vec<i32>, Vec<f32>) {
    let chosen = logits.len() / router.experts * router.active;
    let (mut scores, mut choice, mut weights) = (vec![f32::NAN; logits.len()], vec![9; chosen], vec![f32::NAN; chosen]);
    forward(&mut scores, &mut choice, &mut weights, logits, bias, router);
    (scores, choice, weights)
}

#[test]
fn the_three_scores() {
    // Softmax 1/10, 4/10, 2/10, 3/10.
    let logits = [1.0, 4.0, 2.0, 3.0].map(f32::ln);
    let (scores, choice, weights) = route(&logits, None, &PLAIN);
    assert_close("scores", &scores, &[0.1, 0.4, 0.2, 0.3], 1e-6);
    assert_eq!(choice, [1, 3]);
    assert_close("weights", &weights, &[0.4, 0.3], 1e-6);

    let normalised = Router { normalise: true, scale: 1.5, ..PLAIN };
    assert_close("normalised", &route(&logits, None, &normalised).2, &[6.0 / 7.0, 4.5 / 7.0], 1e-6);

    // Sigmoid x / (1 + x): 1/2, 4/5, 2/3, 3/4.
    let sigmoid = Router { score: Score::Sigmoid, ..PLAIN };
    let (scores, choice, weights) = route(&logits, None, &sigmoid);
    assert_close("scores", &scores, &[0.5, 0.8, 2.0 / 3.0, 0.75], 1e-6);
    assert_eq!(choice, [1, 3]);
    assert_close("weights", &weights, &[0.8, 0.75], 1e-6);
    let normalised = Router { normalise: true, scale: 2.5, ..sigmoid };
    assert_close("normalised", &route(&logits, None, &normalised).2, &[2.0 / 1.55, 1.875 / 1.55], 1e-6);
    // A sum of zero is divided by all the same.
    assert_close("zero", &route(&[-200.0; 4], None, &normalised).2, &[0.0, 0.0], 0.0);

    let of_chosen = Router { score: Score::SoftmaxOfChosen, ..PLAIN };
    let (scores, choice, weights) = route(&logits, None, &of_chosen);
    assert_close("scores", &scores, &logits, 0.0);
    assert_eq!(choice, [1, 3]);
    assert_close("weights", &weights, &[4.0 / 7.0, 3.0 / 7.0], 1e-6);
}

#[test]
fn equal_scores_go_by_number() {
    for score in [Score::Softmax, Score::Sigmoid, Score::SoftmaxOfChosen] {
        let router = Router { score, active: 3, ..PLAIN };
        assert_eq!(route(&[0.0; 4], None, &router).1, [0, 1, 2]);
        assert_eq!(route(&[1.0, 2.0, 1.0, 1.0], None, &router).1, [0, 1, 2]);
        // -0 equals 0.
        assert_eq!(route(&[-0.0, 0.0, -0.0, 0.0], None, &router).1, [0, 1, 2]);
    }
}

#[test]
fn the_bias_chooses_and_does_not_weigh() {
    let router = Router { score: Score::Sigmoid, ..PLAIN };
    let logits = [1.0, 4.0, 2.0, 3.0].map(f32::ln);
    let (_, choice, weights) = route(&logits, Some(&[1.0, -1.0, 0.0, 0.0]), &router);
    assert_eq!(choice, [0, 3]);
    assert_close("weights", &weights, &[0.5, 0.75], 1e-6);
}

#[test]
fn groups_limit_the_choice() {
    let router = Router { score: Score::SoftmaxOfChosen, experts: 6, groups: 3, active_groups: 1, ..PLAIN };
    // Sums of two: 5, 6, 4. The best expert, number 0, is in a group that loses.
    let logits = [5.0, 0.0, 3.0, 3.0, 2.0, 2.0];
    assert_eq!(route(&logits, None, &router).1, [2, 3]);
    assert_eq!(route(&logits, None, &Router { active_groups: 2, ..router }).1, [0, 2]);
    // Of equal groups the first, and by the bias another.
    assert_eq!(route(&[1.0; 6], None, &router).1, [0, 1]);
    assert_eq!(route(&[1.0; 6], Some(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.5]), &router).1, [4, 5]);
    // In larger groups only the two best count: 4 + 3 beats 2 + 2 + 2.
    let wide = Router { groups: 2, ..router };
    assert_eq!(route(&[2.0, 2.0, 2.0, 4.0, 3.0, -9.0], None, &wide).1, [3, 4]);
    // A group of one expert is its score.
    let narrow = Router { groups: 6, active_groups: 2, ..router };
    assert_eq!(route(&logits, None, &narrow).1, [0, 2]);
}

#[test]
fn as_a_full_sort_chooses() {
    let mut rng = fastrand::Rng::with_seed(20);
    let router = Router { score: Score::Softmax, experts: 37, active: 8, ..PLAIN };
    // Few values: many ties.
    let logits: Vec<f32> = (0..37 * 20).map(|_| f32::from(rng.u8(0..9))).collect();
    let (_, choice, _) = route(&logits, None, &router);
    for (logits, choice) in logits.chunks(37).zip(choice.chunks(8)) {
        let mut sorted: Vec<i32> = (0..37).collect();
        sorted.sort_by(|a, b| logits[position(*b)].total_cmp(&logits[position(*a)]));
        sorted.truncate(8);
        sorted.sort_unstable();
        assert_eq!(choice, sorted);
    }
}

#[test]
fn gradients() {
    let mut rng = fastrand::Rng::with_seed(21);
    for score in [Score::Softmax, Score::Sigmoid, Score::SoftmaxOfChosen] {
        for normalise in [false, true] {
            for (tokens, experts, active) in [(1, 1, 1), (3, 5, 2), (2, 9, 4)] {
                let router = Router { score, normalise, experts, active, scale: 1.5, ..PLAIN };
                // Distances that a step does not close, in random order.
                let logits: Vec<f32> = (0..tokens)
                    .flat_map(|_| {
                        let mut row: Vec<f32> =
                            (0..experts).map(|i| 0.3 * crate::float::count(i) + 0.1 * rng.f32() - 1.0).collect();
                        rng.shuffle(&mut row);
                        row
                    })
                    .collect();
                let (scores, choice, _) = route(&logits, None, &router);
                let d_weights = random(&mut rng, tokens * active);
                let mut d_logits = vec![f32::NAN; logits.len()];
                backward(&mut d_logits, &d_weights, &scores, &choice, &router);
                let name = format!("{score:?} {normalise} {experts}");
                assert_gradient(&name, &logits, &d_logits, |logits| {
                    let (_, again, weights) = route(logits, None, &router);
                    assert_eq!(again, choice, "a step changes the choice");
                    weighted(&weights, &d_weights)
                });
            }
        }
    }
}
