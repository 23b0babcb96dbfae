//! What does not change what a step computes: what it computes again, how attention is computed, how a batch is cut, the
//! order of its micro-batches, threads. And what it computes: gradients are those of the loss.

mod common;
mod invariance {
    pub(crate) mod models;
}

use common::{ADAMW, Random};
use invariance::models::{self, Model};
use moe_model_core::Plan;
use moe_model_core::spec::{Accounting, Dtype, Kernel, Layout, Precision, Recompute, Reference, Schedule, Zero};
use moe_model_gpu::device::Format;
use moe_model_gpu::ops::adamw::AdamW;
use moe_model_gpu::shapes::{Dynamic, Lengths};
use moe_model_gpu::step::{Place, Seen, Source, Step};
use moe_model_gpu::{Bf16, Host};

const SEED: u64 = 11;

/// What one rank computes of a batch.
#[derive(Clone, PartialEq, Debug)]
struct Computed {
    loss: f64,
    gradients: Vec<(Place, Vec<f32>)>,
    choices: Vec<Vec<i32>>,
}

fn plan((spec, _): &Model, change: impl FnOnce(&mut Layout)) -> Plan {
    let mut spec = *spec;
    change(&mut spec.layout);
    Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"))
}

fn step<E: Format>(plan: Plan, model: &Model, threads: usize, source: &mut dyn Source) -> Step<Host, Dynamic, E> {
    let step = Step::new(plan, 0, Host::new(threads), model.1, source);
    step.unwrap_or_else(|error| panic!("{error}"))
}

fn random(model: &Model) -> Random {
    Random { seed: SEED, vocab: model.0.architecture.vocab }
}

fn compute<E: Format>(plan: Plan, model: &Model, threads: usize, source: &mut dyn Source) -> Computed {
    let (mut step, mut choices, mut gradients) = (step::<E>(plan, model, threads, source), Vec::new(), Vec::new());
    let mut see = |_, _, seen: Seen<'_>| match seen {
        Seen::Indices(indices) => choices.push(indices.to_vec()),
        Seen::Values(_) => {}
    };
    let report = step.gradients(&mut random(model), Some(&mut see)).unwrap_or_else(|error| panic!("{error}"));
    step.each_gradient(&mut |place, values| gradients.push((*place, values.to_vec()))).expect("gradients are there");
    Computed { loss: report.loss.expect("a whole model has a loss"), gradients, choices }
}

/// Of the model as it is, but for its layout.
fn computed(model: &Model, change: impl FnOnce(&mut Layout)) -> Computed {
    compute::<f32>(plan(model, change), model, 1, &mut random(model))
}

fn norm(values: &[f32]) -> f64 {
    values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt()
}

/// Whether losses are as near as a tolerance, and each gradient is, against its norm.
#[track_caller]
fn assert_near(name: &str, a: &Computed, b: &Computed, tolerance: f64) {
    assert!((a.loss - b.loss).abs() <= tolerance * a.loss, "{name}: losses {} and {}", a.loss, b.loss);
    assert_eq!(a.gradients.len(), b.gradients.len(), "{name}");
    for ((place, a), (_, b)) in a.gradients.iter().zip(&b.gradients) {
        let apart: Vec<f32> = a.iter().zip(b).map(|(a, b)| a - b).collect();
        assert!(norm(a) > 0.0, "{name}: {place:?} has a gradient");
        assert!(norm(&apart) <= tolerance * norm(a), "{name}: {place:?} is {} apart of {}", norm(&apart), norm(a));
    }
}

#[test]
fn what_is_computed_again() {
    for (name, model) in models::all() {
        let expected = computed(&model, |_| ());
        for layers in [0, 1] {
            let again =
                computed(&model, |layout| (layout.recompute, layout.recompute_layers) = (Recompute::Full, layers));
            assert!(expected == again, "{name}, first {layers}");
        }
    }
}

#[test]
fn how_attention_is_computed() {
    let eager = Accounting::Reference(Reference { kernel: Kernel::Eager });
    for (name, model) in models::all() {
        let eager = computed(&model, |layout| layout.accounting = eager);
        assert_near(name, &computed(&model, |_| ()), &eager, 1e-5);
    }
}

#[test]
fn how_a_batch_is_cut() {
    for (name, model) in models::all() {
        let mut whole = computed(&model, |layout| (layout.batch.micro, layout.batch.count) = (2, 1));
        let mut cut = computed(&model, |layout| (layout.batch.micro, layout.batch.count) = (1, 2));
        // Experts of a layer, micro-batch by micro-batch.
        let layers = cut.choices.len() / 2;
        let joined = (0..layers).map(|layer| [&cut.choices[layer][..], &cut.choices[layers + layer]].concat());
        assert_eq!(joined.collect::<Vec<_>>(), whole.choices, "{name}");
        (whole.choices, cut.choices) = (Vec::new(), Vec::new());
        assert_near(name, &whole, &cut, 1e-5);
    }
}

#[test]
fn the_order_of_micro_batches() {
    for (name, model) in models::all() {
        let of = |schedule| computed(&model, |layout| (layout.schedule, layout.batch.count) = (schedule, 3));
        let (all, one) = (of(Schedule::Gpipe), of(Schedule::OneFOneB));
        assert!(all == one, "{name}");
    }
}

#[test]
fn threads() {
    for (name, model) in models::all() {
        let plan = plan(&model, |_| ());
        let [one, two] = [1, 2].map(|threads| compute::<f32>(plan, &model, threads, &mut random(&model)));
        assert!(one == two, "{name}");
    }
}

#[test]
fn rows_that_pad_the_vocabulary() {
    for (name, model) in models::all() {
        let mut padded = computed(&model, |layout| layout.placement.vocab_multiple = 8);
        let plain = computed(&model, |_| ());
        for ((place, padded), (_, plain)) in padded.gradients.iter_mut().zip(&plain.gradients) {
            let padding = padded.split_off(plain.len());
            assert_eq!(padding.is_empty(), place.rows != 24, "{name}: {place:?}");
            assert!(padding.iter().all(|value| *value == 0.0), "{name}: {place:?} learns nothing");
        }
        assert!((padded.loss - plain.loss).abs() < 1e-6, "{name}: {} and {}", padded.loss, plain.loss);
        assert_near(name, &padded, &plain, 1e-5);
    }
}

/// Weights behind a step, those of either ZeRO group behind one another.
fn learned(plan: Plan, model: &Model) -> [Vec<f32>; 2] {
    let (mut step, mut groups) = (step::<f32>(plan, model, 1, &mut random(model)), [Vec::new(), Vec::new()]);
    step.train(&mut random(model), ADAMW).unwrap_or_else(|error| panic!("{error}"));
    let see = &mut |place: &Place, values: &[f32]| {
        groups[usize::from(place.name.starts_with("mlp.experts."))].extend_from_slice(values);
    };
    step.weights(see).expect("weights are there");
    groups
}

#[test]
fn a_share_of_the_optimizer() {
    for model in [models::mixtral(), models::gpt_oss(), models::qwen()] {
        let whole = learned(plan(&model, |_| ()), &model);
        let shared = plan(&model, |layout| (layout.mesh.dp, layout.zero) = (3, Zero::OPTIMIZER));
        let lengths = Lengths::of(&shared, 0);
        let shares = [lengths.dense_shard, lengths.expert_shard];
        for ((whole, part), share) in whole.iter().zip(learned(shared, &model)).zip(shares) {
            assert!(share < whole.len() && share * 3 >= whole.len(), "{share} of {}", whole.len());
            assert!(whole[..share] == part[..share], "the first rank's share is learned");
            let other =
                whole.iter().zip(&part).skip(share).filter(|(whole, part)| whole.to_bits() == part.to_bits()).count();
            assert!(other < (whole.len() - share) / 100, "{other} of other ranks' are learned too");
        }
    }
}

#[test]
fn half_the_bytes() {
    for (name, model) in models::all() {
        let plan = plan(&model, |layout| layout.precision = Precision::DEFAULT);
        assert_eq!(plan.spec().layout.precision.weights, Dtype::Bf16);
        let (wide, narrow) = (computed(&model, |_| ()), compute::<Bf16>(plan, &model, 1, &mut random(&model)));
        assert_eq!(wide.choices, narrow.choices, "{name}");
        assert!(wide.gradients != narrow.gradients, "{name}: they are not the same");
        assert!((wide.loss - narrow.loss).abs() < 0.005 * wide.loss, "{name}: {} and {}", wide.loss, narrow.loss);
        assert_near(name, &wide, &narrow, 0.15);
    }
}

#[test]
fn steps_learn() {
    let adamw = AdamW { lr: 3e-3, weight_decay: 0.0, ..ADAMW };
    for (name, model) in models::all() {
        let (mut step, mut random) =
            (step::<f32>(plan(&model, |_| ()), &model, 1, &mut random(&model)), random(&model));
        let losses = [(); 3].map(|()| step.train(&mut random, adamw).map(|report| report.loss));
        let [first, second, third] = losses.map(|loss| loss.expect("the budget holds").expect("a loss"));
        assert!(first > second && second > third, "{name}: {first}, {second}, {third}");
    }
}

/// Weights, one of which is some way along a direction.
struct Moved<'a> {
    random: Random,
    place: &'a Place,
    direction: &'a [f64],
    way: f64,
}

impl Source for Moved<'_> {
    fn fill(&mut self, place: &Place, out: &mut [f32]) -> Result<(), String> {
        self.random.fill(place, out)?;
        if place == self.place {
            #[allow(clippy::cast_possible_truncation)] // to the format of weights
            out.iter_mut().zip(self.direction).for_each(|(out, d)| *out = (f64::from(*out) + self.way * d) as f32);
        }
        Ok(())
    }
}

/// How fast the loss grows along a direction of a weight, of length one, as far as it goes to the same experts.
fn slope(model: &Model, base: &Computed, place: &Place, direction: &[f64]) -> f64 {
    let at = |way| {
        let source = &mut Moved { random: random(model), place, direction, way };
        let moved = compute::<f32>(plan(model, |_| ()), model, 1, source);
        (moved.choices == base.choices).then_some(moved.loss)
    };
    let on_both_sides = |way: f64| Some((at(way)? - at(-way)?) / (2.0 * way));
    let slope = [2e-2, 1e-2, 5e-3, 2e-3].into_iter().find_map(on_both_sides);
    slope.unwrap_or_else(|| panic!("{place:?} changes the choice of experts"))
}

/// Along the gradient, where the slope is its norm, and along a random direction.
fn assert_gradients(model: &Model) {
    let (base, mut rng) = (computed(model, |_| ()), fastrand::Rng::with_seed(SEED));
    for (place, gradient) in &base.gradients {
        let norm = norm(gradient);
        let own: Vec<f64> = gradient.iter().map(|value| f64::from(*value) / norm).collect();
        let found = slope(model, &base, place, &own);
        assert!((found - norm).abs() < 0.01 * norm + 2e-5, "{place:?}: {found} and {norm}");
        #[allow(clippy::cast_precision_loss)] // elements of a weight
        let step = (gradient.len() as f64).sqrt().recip();
        let any: Vec<f64> = gradient.iter().map(|_| if rng.bool() { step } else { -step }).collect();
        let expected: f64 = gradient.iter().zip(&any).map(|(value, d)| f64::from(*value) * d).sum();
        let found = slope(model, &base, place, &any);
        assert!((found - expected).abs() < 0.01 * norm + 2e-5, "{place:?}: {found} and {expected} of {norm}");
    }
}

#[test]
fn gradients_of_mixtral() {
    assert_gradients(&models::mixtral());
}

#[test]
fn gradients_of_deepseek_v3() {
    assert_gradients(&models::deepseek_v3());
}

#[test]
fn gradients_of_gpt_oss() {
    assert_gradients(&models::gpt_oss());
}

#[test]
fn gradients_of_qwen() {
    assert_gradients(&models::qwen());
}
