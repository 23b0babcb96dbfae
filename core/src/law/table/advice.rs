//! What is legal, and costs something.

use super::{HIGH_PRECISION, law};
use crate::key::Key;
use crate::law::Quantity::{self, Just, Of, Product};
use crate::law::Rule::{self, AtLeast, AtMost, Divides};
use crate::law::{Law, When};
use crate::spec::ZeroStage;

/// What is legal but costs something that one may not know of: warnings, judged where all laws hold.
pub const ADVICE: &[Law] = &[
    law(
        "fp8-stored",
        &[Key::PrecisionWeights],
        Rule::OneOf(Key::PrecisionWeights, HIGH_PRECISION),
        When::Fp8Stored,
        "every weight is counted in fp8 then, those of norms and embeddings too, and without scales; training in fp8 is \
         computing in it, beside weights in bf16",
    ),
    law(
        "vocab-padding",
        &[Key::Vocab],
        Divides(Product(&[Key::PlacementVocabMultiple, Key::MeshTp]), Of(Key::Vocab)),
        When::Always,
        "the embedding and the head are padded so that tensor-parallel ranks hold the same number of rows",
    ),
    law(
        "kv-replicated",
        &[Key::MeshTp],
        AtMost(Of(Key::MeshTp), Of(Key::AttentionKvHeads)),
        When::Gqa,
        "ranks beyond the key/value heads hold copies of them: keys, values and their cache stop shrinking",
    ),
    law(
        "mixer-kv-replicated",
        &[Key::MeshTp],
        AtMost(Of(Key::MeshTp), Of(Key::MixerKvHeads)),
        When::Given(Key::MixerKvHeads),
        "ranks beyond the key/value heads hold copies of them: keys, values and their cache stop shrinking",
    ),
    law(
        "latent-replicated",
        &[Key::MeshTp],
        AtMost(Of(Key::MeshTp), Just(1)),
        When::ServedAsOneHead,
        "what is cached is one for all heads, and each tensor-parallel rank holds the whole of it; data-parallel ranks hold \
         other sequences",
    ),
    law(
        "shared-kv-stages",
        &[Key::MeshPp],
        AtMost(Of(Key::MeshPp), Just(1)),
        When::Given(Key::MixerSharedKv),
        "a stage that starts with shared keys and values gets them from the stage in front, which is not counted",
    ),
    law(
        "kv-replicated-context",
        &[Key::MeshCp, Key::MeshTp],
        AtMost(Product(&[Key::MeshTp, Key::MeshCp]), Of(Key::AttentionKvHeads)),
        When::KvTraded,
        "ranks that trade tokens for heads hold copies of key/value heads where there are fewer of these",
    ),
    law(
        "experts-unused",
        &[Key::ExpertsRouted],
        AtMost(Of(Key::ExpertsRouted), Just(0)),
        When::NoMoe,
        "experts are described, and no layer has any",
    ),
    law(
        "expert-state-unsharded",
        &[Key::MeshEp, Key::MeshDp],
        AtLeast(Quantity::ExpertReplicas, Just(2)),
        When::ExpertZero,
        "the state of routed experts is sharded over their replicas, and one replica shares with none",
    ),
    law(
        "idle-rank",
        &[Key::StagesList, Key::MeshPp],
        Rule::RanksHoldLayers,
        When::Always,
        "a rank that holds an end of the model alone waits most of the time",
    ),
    law(
        "pipeline-bubble",
        &[Key::BatchCount],
        AtLeast(Of(Key::BatchCount), Of(Key::MeshPp)),
        When::Training,
        "with fewer micro-batches than stages some stages always wait",
    ),
    law(
        "zero-in-pipeline",
        &[Key::ZeroDense],
        AtMost(Of(Key::ZeroDense), Just(ZeroStage::Optimizer as u64)),
        When::Pipelined,
        "sharded gradients are reduced, and sharded parameters gathered, for every micro-batch; some frameworks refuse it",
    ),
    law(
        "zero-experts-in-pipeline",
        &[Key::ZeroExpert],
        AtMost(Of(Key::ZeroExpert), Just(ZeroStage::Optimizer as u64)),
        When::ExpertZeroInPipeline,
        "sharded gradients are reduced, and sharded parameters gathered, for every micro-batch; some frameworks refuse it",
    ),
    law(
        "zero-ways-replicas",
        &[Key::ZeroWays],
        Divides(Of(Key::ZeroWays), Product(&[Key::MeshDp, Key::MeshCp])),
        When::UniformWays,
        "only replicas of a parameter can share its state: what is dealt to other ranks is on none",
    ),
    law(
        "zero-ways-experts",
        &[Key::ZeroWays],
        Divides(Of(Key::ZeroWays), Quantity::ExpertReplicas),
        When::UniformExperts,
        "only replicas of an expert can share its state: what is dealt to other ranks is on none",
    ),
];
