//! Laws of recomputation.

use super::law;
use crate::key::Key;
use crate::law::Quantity::{self, Just, Of, Sum};
use crate::law::Rule::{self, AtLeast, AtMost, Divides};
use crate::law::{Law, When};
use crate::spec::Recompute;
use crate::together::SPACING_MAX;

/// What selective recomputation may compute again.
const MODULES: &[Key] = &[
    Key::ModulesCoreAttention,
    Key::ModulesLatentUp,
    Key::ModulesNorms,
    Key::ModulesActivation,
    Key::ModulesSharedExperts,
    Key::ModulesExperts,
    Key::ModulesDense,
];

pub(super) const LAWS: &[Law] = &[
    law(
        "modules-given",
        &[Key::Recompute],
        AtLeast(Sum(MODULES), Just(1)),
        When::Modules,
        "`modules` says what selective recomputation computes again",
    ),
    law(
        "modules-unused",
        MODULES,
        AtMost(Sum(MODULES), Just(0)),
        When::NoModules,
        "only `recompute: selective` reads `modules`, and not as torchtitan counts",
    ),
    law(
        "selective-accounting",
        &[Key::Recompute],
        Rule::OneOf(Key::Recompute, &[Recompute::None as u64, Recompute::Full as u64]),
        When::NoSelective,
        "`megatron_core` counts it by module, `torchtitan` where layers are attention and one network, no other does",
    ),
    law(
        "recompute-layers-unused",
        &[Key::RecomputeLayers, Key::Recompute],
        AtMost(Of(Key::RecomputeLayers), Just(0)),
        When::NotFull,
        "only `recompute: full` computes whole layers again",
    ),
    law(
        "recompute-together-unused",
        &[Key::RecomputeTogether, Key::Recompute],
        AtMost(Of(Key::RecomputeTogether), Just(0)),
        When::NotFull,
        "only `recompute: full` computes whole layers again",
    ),
    law(
        "recompute-together-layers",
        &[Key::RecomputeLayers, Key::RecomputeTogether],
        AtMost(Of(Key::RecomputeLayers), Just(0)),
        When::Given(Key::RecomputeTogether),
        "either all layers are computed again, in runs, or the first of a chunk, each by itself",
    ),
    law(
        "recompute-together-accounting",
        &[Key::RecomputeTogether],
        AtMost(Of(Key::RecomputeTogether), Just(0)),
        When::NoTogether,
        "transformers, torchtitan and the reference step compute each layer again by itself; the worked example counts so",
    ),
    law(
        "recompute-together-blocks",
        &[Key::RecomputeTogether],
        AtMost(Of(Key::RecomputeTogether), Just(0)),
        When::SeveralBlocks,
        "what runs of layers hold is counted where layers are attention and one feed-forward network",
    ),
    law(
        "recompute-together-spacing",
        &[Key::LayersMoeEvery, Key::RecomputeTogether],
        AtMost(Of(Key::LayersMoeEvery), Just(SPACING_MAX)),
        When::Given(Key::RecomputeTogether),
        "runs that start at other layers of a group hold others, and are looked at one by one",
    ),
    law(
        "recompute-together-mtp",
        &[Key::RecomputeTogether, Key::Mtp],
        AtMost(Of(Key::RecomputeTogether), Just(1)),
        When::MegatronMtp,
        "megatron-core asserts it of modules that predict more tokens (transformer/multi_token_prediction.py)",
    ),
    law(
        "recompute-together-fills",
        &[Key::RecomputeTogether],
        Divides(Of(Key::RecomputeTogether), Quantity::LayersOfChunks),
        When::MegatronOverrun,
        "before 0.20 megatron-core runs past the layers of a chunk that its runs do not fill (transformer_block.py)",
    ),
];
