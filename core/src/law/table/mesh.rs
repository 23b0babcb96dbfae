//! Laws of the grid of ranks, and of what tensor and expert parallelism split.

use super::{STAGE_RANKS, law};
use crate::key::Key;
use crate::law::Quantity::{self, Just, Of, Product};
use crate::law::Rule::{self, AtMost, Divides, EitherDivides, Equal};
use crate::law::{Law, When};
use crate::spec::NUMBER_MAX;

const EXPERT_RANKS: Quantity = Product(crate::law::quantity::EXPERT_RANKS);

const WORLD: Quantity = Product(&[Key::MeshTp, Key::MeshCp, Key::MeshPp, Key::MeshDp]);

pub(super) const LAWS: &[Law] = &[
    law(
        "world-size",
        &[Key::MeshDp, Key::MeshTp, Key::MeshPp, Key::MeshCp],
        AtMost(WORLD, Just(NUMBER_MAX)),
        When::Always,
        "ranks are counted in 32 bits",
    ),
    law(
        "world-grid",
        &[Key::MeshWorld, Key::MeshDp, Key::MeshPp],
        Equal(Of(Key::MeshWorld), WORLD),
        When::WorldAndDp,
        "every rank has one place in the mesh",
    ),
    law(
        "world-replicas",
        &[Key::MeshWorld],
        Divides(Product(&[Key::MeshTp, Key::MeshCp, Key::MeshPp]), Of(Key::MeshWorld)),
        When::WorldAlone,
        "without `mesh.dp` the ranks of the job fall to a whole number of replicas",
    ),
    law(
        "expert-grid",
        &[Key::MeshEp, Key::MeshEtp, Key::MeshDp],
        Divides(EXPERT_RANKS, STAGE_RANKS),
        When::Experts,
        "expert groups tile the ranks of a stage",
    ),
    law(
        "experts-ep",
        &[Key::MeshEp, Key::ExpertsRouted],
        Divides(Of(Key::MeshEp), Quantity::PhysicalExperts),
        When::Experts,
        "every rank of an expert group holds the same number of experts",
    ),
    law(
        "expert-ffn-etp",
        &[Key::MeshEtp, Key::ExpertsFfn],
        Divides(Of(Key::MeshEtp), Of(Key::ExpertsFfn)),
        When::Experts,
        "expert tensor parallelism splits an expert by its width",
    ),
    law(
        "expert-ranks",
        &[Key::MeshEp, Key::MeshEtp],
        AtMost(EXPERT_RANKS, Just(1)),
        When::NoMoe,
        "without layers that have experts there is nothing to deal over expert ranks",
    ),
    law(
        "heads-tp",
        &[Key::MeshTp, Key::AttentionHeads],
        Divides(Of(Key::MeshTp), Of(Key::AttentionHeads)),
        When::Always,
        "tensor parallelism splits attention by heads",
    ),
    law(
        "kv-heads-tp",
        &[Key::MeshTp, Key::AttentionKvHeads],
        EitherDivides(Of(Key::MeshTp), Of(Key::AttentionKvHeads)),
        When::Gqa,
        "key/value heads are split over tensor-parallel ranks, or each is replicated the same number of times",
    ),
    law(
        "output-groups-tp",
        &[Key::MeshTp, Key::AttentionOutputGroups],
        Divides(Of(Key::MeshTp), Of(Key::AttentionOutputGroups)),
        When::Compressed,
        "tensor parallelism splits the latents of the output by groups of heads",
    ),
    law(
        "mixer-heads-tp",
        &[Key::MeshTp, Key::MixerHeads],
        Divides(Of(Key::MeshTp), Of(Key::MixerHeads)),
        When::Given(Key::MixerHeads),
        "tensor parallelism splits a mixer by heads",
    ),
    law(
        "mixer-kv-heads-tp",
        &[Key::MeshTp, Key::MixerKvHeads],
        EitherDivides(Of(Key::MeshTp), Of(Key::MixerKvHeads)),
        When::Given(Key::MixerKvHeads),
        "key/value heads are split over tensor-parallel ranks, or each is replicated the same number of times",
    ),
    law(
        "mixer-key-heads-tp",
        &[Key::MeshTp, Key::MixerKeyHeads],
        Divides(Of(Key::MeshTp), Of(Key::MixerKeyHeads)),
        When::Given(Key::MixerKeyHeads),
        "tensor parallelism splits linear attention by heads of keys, and the heads of values with them",
    ),
    law(
        "mixer-inner-tp",
        &[Key::MeshTp, Key::MixerInner],
        Divides(Of(Key::MeshTp), Of(Key::MixerInner)),
        When::Given(Key::MixerInner),
        "tensor parallelism splits Mamba by its channels",
    ),
    law(
        "mixer-groups-tp",
        &[Key::MeshTp, Key::MixerGroups],
        Divides(Of(Key::MeshTp), Of(Key::MixerGroups)),
        When::Given(Key::MixerGroups),
        "tensor parallelism splits Mamba-2 by groups of heads",
    ),
    law(
        "dense-ffn-tp",
        &[Key::MeshTp, Key::LayersFfn],
        Divides(Of(Key::MeshTp), Of(Key::LayersFfn)),
        When::DenseSplit,
        "tensor parallelism splits the dense feed-forward network by its width",
    ),
    law(
        "shared-ffn-tp",
        &[Key::MeshTp, Key::ExpertsFfn, Key::ExpertsSharedFfn],
        Divides(Of(Key::MeshTp), Quantity::SharedWidth),
        When::SharedSplit,
        "tensor parallelism splits the shared experts by their width, unless `placement.shared_experts` is replicated",
    ),
    law(
        "sp-needs-tp",
        &[Key::MeshSequenceParallel, Key::MeshTp],
        Rule::Needs(Key::MeshSequenceParallel, Of(Key::MeshTp), Just(2)),
        When::SequenceParallel,
        "sequence parallelism splits the sequence over tensor-parallel ranks",
    ),
    law(
        "ep-needs-sp",
        &[Key::MeshSequenceParallel],
        Rule::IsOn(Key::MeshSequenceParallel),
        When::MoeOverTp,
        "with `mesh.ep` and `mesh.tp` above 1 each tensor-parallel rank routes its own tokens",
    ),
];
