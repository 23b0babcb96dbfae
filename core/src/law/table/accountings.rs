//! Laws of accountings: what each of them counts, and what the reference step computes.

use super::{LAYERS, law};
use crate::key::Key;
use crate::law::Quantity::{self, Just, Of, Product, Sum};
use crate::law::Rule::{self, AtMost, Divides, Equal};
use crate::law::{Law, When};
use crate::spec::{Context, CorrectionBias, Dtype, Kernel, LayerKind, QkNorm, Recompute, Schedule, ZeroGroups};

/// What the reference step cannot compute.
const REFERENCE_LACKS: &[Key] = &[
    Key::HyperConnections,
    Key::Positions,
    Key::Norm,
    Key::LayerScalar,
    Key::HeadBias,
    Key::LayersBeside,
    Key::LayersBias,
    Key::AttentionOutputRank,
    Key::AttentionIndexerHeads,
    Key::AttentionOutputGate,
    Key::AttentionKeyAsValue,
    Key::ExpertsLatent,
    Key::ExpertsIdentity,
    Key::ExpertsHashLayers,
    Key::ExpertsRouterScale,
    Key::PlacementQueryRope,
    Key::PlacementSharedExperts,
    Key::PlacementDenseFfn,
    Key::PlacementRedundantExperts,
];

pub(super) const LAWS: &[Law] = &[
    law(
        "framework-layers",
        &[Key::Recompute],
        Rule::OneOf(Key::Recompute, &[Recompute::None as u64, Recompute::Selective as u64]),
        When::ComposedFramework,
        "one layer computed again is counted where layers are attention and one feed-forward network",
    ),
    law(
        "transformers-mesh",
        &[Key::MeshTp, Key::MeshPp, Key::MeshCp, Key::MeshEp, Key::MeshEtp],
        AtMost(Product(&[Key::MeshTp, Key::MeshPp, Key::MeshCp, Key::MeshEp, Key::MeshEtp]), Just(1)),
        When::Transformers,
        "what transformers keeps is counted of ranks that hold the whole model",
    ),
    law(
        "torchtitan-mesh",
        &[Key::MeshTp, Key::MeshCp, Key::MeshEp, Key::MeshEtp],
        AtMost(Product(&[Key::MeshTp, Key::MeshCp, Key::MeshEp, Key::MeshEtp]), Just(1)),
        When::Torchtitan,
        "what torchtitan keeps is counted of ranks that hold whole layers",
    ),
    law(
        "reference-context",
        &[Key::MeshContext, Key::MeshCp],
        Rule::OneOf(Key::MeshContext, &[Context::Contiguous as u64, Context::Ring as u64, Context::AllToAll as u64]),
        When::ReferenceContext,
        "context-parallel ranks of the reference step trade tokens for heads or pass keys and values round, not both",
    ),
    law(
        "reference-ring",
        &[Key::AccountingKernel, Key::MeshContext, Key::MeshCp],
        Rule::OneOf(Key::AccountingKernel, &[Kernel::Flash as u64]),
        When::ReferenceRing,
        "attention to keys and values that come round is put together from parts, whose probabilities nobody keeps",
    ),
    law(
        "reference-etp",
        &[Key::MeshSequenceParallel],
        Rule::IsOn(Key::MeshSequenceParallel),
        When::ReferenceEtp,
        "in the reference step each of the ranks that split an expert brings tokens of its own",
    ),
    law(
        "reference-schedule",
        &[Key::Schedule],
        Rule::OneOf(Key::Schedule, &[Schedule::OneFOneB as u64, Schedule::Gpipe as u64, Schedule::Interleaved as u64]),
        When::Reference,
        "the reference step runs `one_f_one_b`, `interleaved` and `gpipe`",
    ),
    law(
        "reference-zero-groups",
        &[Key::ZeroGroups],
        Rule::OneOf(Key::ZeroGroups, &[ZeroGroups::ByReplica as u64, ZeroGroups::MoeBlock as u64]),
        When::ReferenceZero,
        "the reference step has to know which ranks share state, and `uniform` does not say",
    ),
    law(
        "reference-activations",
        &[Key::PrecisionActivations, Key::PrecisionWeights],
        Equal(Of(Key::PrecisionActivations), Of(Key::PrecisionWeights)),
        When::Reference,
        "the reference step multiplies matrices of one format",
    ),
    law(
        "reference-weights",
        &[Key::PrecisionWeights],
        Rule::OneOf(Key::PrecisionWeights, &[Dtype::Fp32 as u64, Dtype::Bf16 as u64]),
        When::Reference,
        "the reference step computes in fp32 and bf16",
    ),
    law(
        "reference-gradients",
        &[Key::PrecisionGradients],
        Rule::OneOf(Key::PrecisionGradients, &[Dtype::Fp32 as u64]),
        When::Reference,
        "gradients accumulate in fp32 in the reference step",
    ),
    law(
        "reference-master",
        &[Key::PrecisionMaster],
        Rule::OneOf(Key::PrecisionMaster, &[Dtype::Fp32 as u64]),
        When::Reference,
        "the optimizer of the reference step keeps weights in fp32",
    ),
    law(
        "reference-moments",
        &[Key::PrecisionMoments],
        Rule::OneOf(Key::PrecisionMoments, &[Dtype::Fp32 as u64, Dtype::Bf16 as u64]),
        When::Reference,
        "the optimizer of the reference step keeps moments in fp32 or bf16",
    ),
    law(
        "reference-norms",
        &[Key::NormsPerLayer],
        Equal(Of(Key::NormsPerLayer), Just(2)),
        When::Reference,
        "the reference step has a norm in front of each block, and none behind",
    ),
    law(
        "reference-gate",
        &[Key::LayersGated],
        Rule::IsOn(Key::LayersGated),
        When::Reference,
        "feed-forward networks of the reference step have a gate",
    ),
    law(
        "reference-head-norms",
        &[Key::AttentionQkNorm],
        AtMost(Of(Key::AttentionQkNorm), Just(QkNorm::Head as u64)),
        When::Reference,
        "the reference step normalises each head by itself",
    ),
    law(
        "reference-rope",
        &[Key::AttentionRope],
        Divides(Just(2), Of(Key::AttentionRope)),
        When::Reference,
        "positions turn pairs of dimensions",
    ),
    law(
        "reference-head-dim",
        &[Key::AttentionHeadDim, Key::Hidden],
        Divides(Just(2), Quantity::HeadWidth),
        When::Reference,
        "positions turn pairs of dimensions",
    ),
    law(
        "reference-correction-bias",
        &[Key::ExpertsCorrectionBias],
        AtMost(Of(Key::ExpertsCorrectionBias), Just(CorrectionBias::On as u64)),
        When::Reference,
        "the router's correction bias is a buffer in the reference step",
    ),
    law(
        "reference-mixer",
        &[Key::LayersList],
        AtMost(Quantity::LayersOf(LayerKind::Mixer), Just(0)),
        When::Reference,
        "the reference step has no mixer in the place of attention yet",
    ),
    law(
        "reference-blocks",
        &[Key::LayersList],
        Equal(LAYERS, Quantity::Layers),
        When::Reference,
        "each layer of the reference step is attention and one feed-forward network",
    ),
    law(
        "reference-lacks",
        REFERENCE_LACKS,
        AtMost(Sum(REFERENCE_LACKS), Just(0)),
        When::Reference,
        "the reference step has none of these yet",
    ),
];
