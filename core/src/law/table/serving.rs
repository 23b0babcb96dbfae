//! Laws of layers that attend in full, and of serving.

use super::law;
use crate::key::Key;
use crate::law::Quantity::{Just, Of, Sum};
use crate::law::Rule::{self, AtMost};
use crate::law::{Law, When};
use crate::spec::{MlaCache, Recompute, Schedule, StageList};

/// What a step has, and serving has not.
const SERVED_BATCH: &[Key] = &[Key::BatchSequence, Key::BatchMicro, Key::BatchCount, Key::BatchGlobal, Key::BatchGroup];

pub(super) const LAWS: &[Law] = &[
    law(
        "full-every-window",
        &[Key::AttentionFullEvery],
        AtMost(Of(Key::AttentionFullEvery), Just(0)),
        When::NoWindow,
        "where no layer has a window, all look at all tokens",
    ),
    law(
        "full-every-layers",
        &[Key::AttentionFullEvery],
        AtMost(Of(Key::AttentionFullEvery), Just(0)),
        When::SeveralBlocks,
        "layers are counted where each is attention and one feed-forward network; a list says itself which have a window",
    ),
    law(
        "full-every-stages",
        &[Key::MeshPp],
        AtMost(Of(Key::MeshPp), Just(StageList::MAX as u64)),
        When::ServedByPlace,
        "where some layers have a window by their place, stages are looked at one by one",
    ),
    law(
        "serving-batch",
        SERVED_BATCH,
        AtMost(Sum(SERVED_BATCH), Just(3)),
        When::Serving,
        "a layout that serves has requests, and no step with micro-batches",
    ),
    law(
        "serving-recompute",
        &[Key::Recompute],
        Rule::OneOf(Key::Recompute, &[Recompute::None as u64]),
        When::Serving,
        "where there is no backward nothing is computed again",
    ),
    law(
        "serving-zero",
        &[Key::ZeroDense, Key::ZeroExpert],
        AtMost(Sum(&[Key::ZeroDense, Key::ZeroExpert]), Just(0)),
        When::Serving,
        "there are no gradients and no optimizer state to shard, and engines hold their weights",
    ),
    law(
        "serving-schedule",
        &[Key::Schedule],
        Rule::OneOf(Key::Schedule, &[Schedule::OneFOneB as u64]),
        When::Serving,
        "without a backward there is one order, and each rank holds one stage",
    ),
    law(
        "serving-mla",
        &[Key::ServingMla],
        Rule::OneOf(Key::ServingMla, &[MlaCache::Latent as u64]),
        When::ServedOtherwise,
        "only latents can be expanded",
    ),
    law(
        "cache-kept",
        &[Key::ServingCache],
        Rule::IsKept(Key::ServingCache),
        When::Serving,
        "each token looks back at the keys and values of those before it",
    ),
    law(
        "state-kept",
        &[Key::ServingState],
        Rule::IsKept(Key::ServingState),
        When::Serving,
        "each token looks back at a state, where there are no keys",
    ),
];
