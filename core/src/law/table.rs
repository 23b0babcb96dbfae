//! Every law as data: its name, whom it may blame, what must hold, where, and why.

use super::Quantity::{self, Just, Of, Product, Sum};
use super::Rule::{self, AtLeast, AtMost, Divides, EitherDivides, Equal};
use super::{Law, When};
use crate::key::Key;
use crate::spec::{NUMBER_MAX, ZeroStage};

const fn law(id: &'static str, at: &'static [Key], rule: Rule, when: When, why: &'static str) -> Law {
    Law { id, at, rule, when, why }
}

const STAGE_RANKS: Quantity = Product(super::STAGE_RANKS);
const EXPERT_RANKS: Quantity = Product(super::EXPERT_RANKS);
const WORLD: Quantity = Product(&[Key::MeshTp, Key::MeshCp, Key::MeshPp, Key::MeshDp]);
const LAYERS: Quantity = Sum(&[Key::LayersDense, Key::LayersMoe]);
const SHARED_WIDTH: Quantity = Product(&[Key::ExpertsShared, Key::ExpertsFfn]);
const GLOBAL_BATCH: Quantity = Product(&[Key::BatchMicro, Key::MeshDp, Key::BatchCount]);

/// The laws. Each is judged only where its numbers are in range, which [`range`](super::range) says first.
pub const LAWS: &[Law] = &[
    law(
        "layer-count",
        &[Key::LayersMoe, Key::LayersDense],
        AtLeast(LAYERS, Just(1)),
        When::Always,
        "a model has at least one decoder layer",
    ),
    law(
        "dense-ffn-given",
        &[Key::LayersFfn],
        Rule::Given(Key::LayersFfn),
        When::Dense,
        "dense layers have a feed-forward network",
    ),
    law(
        "routed-given",
        &[Key::ExpertsRouted],
        Rule::Given(Key::ExpertsRouted),
        When::Moe,
        "layers with experts have routed experts",
    ),
    law(
        "active-given",
        &[Key::ExpertsActive],
        Rule::Given(Key::ExpertsActive),
        When::Moe,
        "each token visits at least one routed expert",
    ),
    law(
        "expert-ffn-given",
        &[Key::ExpertsFfn],
        Rule::Given(Key::ExpertsFfn),
        When::Moe,
        "an expert is a feed-forward network of some width",
    ),
    law(
        "top-k",
        &[Key::ExpertsActive, Key::ExpertsRouted],
        AtMost(Of(Key::ExpertsActive), Of(Key::ExpertsRouted)),
        When::Experts,
        "a token visits each routed expert at most once",
    ),
    law(
        "router-groups",
        &[Key::ExpertsGroups, Key::ExpertsRouted],
        Divides(Of(Key::ExpertsGroups), Of(Key::ExpertsRouted)),
        When::Experts,
        "router groups hold the same number of experts",
    ),
    law(
        "active-groups",
        &[Key::ExpertsActiveGroups, Key::ExpertsGroups],
        AtMost(Of(Key::ExpertsActiveGroups), Of(Key::ExpertsGroups)),
        When::Experts,
        "a token may use no more groups than there are",
    ),
    law(
        "top-k-groups",
        &[Key::ExpertsActive, Key::ExpertsActiveGroups, Key::ExpertsGroups],
        AtMost(Of(Key::ExpertsActive), Quantity::Reachable),
        When::Reachable,
        "the groups that a token may use hold all the experts it visits",
    ),
    law(
        "kv-heads",
        &[Key::AttentionKvHeads, Key::AttentionHeads],
        Divides(Of(Key::AttentionKvHeads), Of(Key::AttentionHeads)),
        When::Gqa,
        "each key/value head serves the same number of query heads",
    ),
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
        When::Given(Key::MeshWorld),
        "every rank has one place in the mesh",
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
        Divides(Of(Key::MeshEp), Of(Key::ExpertsRouted)),
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
        "dense-ffn-tp",
        &[Key::MeshTp, Key::LayersFfn],
        Divides(Of(Key::MeshTp), Of(Key::LayersFfn)),
        When::DenseSplit,
        "tensor parallelism splits the dense feed-forward network by its width",
    ),
    law(
        "shared-ffn-tp",
        &[Key::MeshTp, Key::ExpertsFfn],
        Divides(Of(Key::MeshTp), SHARED_WIDTH),
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
    law(
        "layers-stages",
        &[Key::MeshPp, Key::StagesFirst, Key::StagesLast],
        Rule::LayersFallToStages,
        When::Layers,
        "stages between the first and the last hold the same number of layers, and none is dropped",
    ),
    law(
        "stages-weighed",
        &[Key::StagesFirst, Key::StagesLast],
        AtMost(Sum(&[Key::StagesFirst, Key::StagesLast]), Just(0)),
        When::Weighed,
        "where an end counts as a layer, the first and the last stage follow from the others",
    ),
    law(
        "sequence-cp",
        &[Key::MeshCp, Key::BatchSequence],
        Divides(Of(Key::MeshCp), Of(Key::BatchSequence)),
        When::NoSequenceParallel,
        "context parallelism splits the sequence",
    ),
    law(
        "sequence-sp",
        &[Key::MeshTp, Key::MeshCp, Key::BatchSequence],
        Divides(Product(&[Key::MeshCp, Key::MeshTp]), Of(Key::BatchSequence)),
        When::SequenceParallel,
        "context and sequence parallelism together split the sequence",
    ),
    law(
        "sequence-ring",
        &[Key::MeshCp, Key::MeshTp, Key::BatchSequence],
        Divides(Quantity::RingPieces, Of(Key::BatchSequence)),
        When::Ring,
        "each rank of a load-balanced ring holds two pieces, each of them split by sequence parallelism",
    ),
    law(
        "heads-context",
        &[Key::MeshCp, Key::AttentionHeads],
        Divides(Product(&[Key::MeshTp, Key::MeshCp]), Of(Key::AttentionHeads)),
        When::AllToAll,
        "all-to-all context parallelism deals the heads of a tensor-parallel rank over context-parallel ranks",
    ),
    law(
        "kv-heads-context",
        &[Key::MeshCp, Key::AttentionKvHeads],
        EitherDivides(Product(&[Key::MeshTp, Key::MeshCp]), Of(Key::AttentionKvHeads)),
        When::GqaAllToAll,
        "all-to-all context parallelism deals key/value heads too, or replicates each the same number of times",
    ),
    law(
        "global-batch",
        &[Key::BatchGlobal, Key::BatchCount, Key::MeshDp],
        Equal(Of(Key::BatchGlobal), GLOBAL_BATCH),
        When::Given(Key::BatchGlobal),
        "every replica runs the same whole number of micro-batches",
    ),
    law(
        "zero-ways",
        &[Key::ZeroWays],
        Rule::Given(Key::ZeroWays),
        When::Uniform,
        "`zero.groups: uniform` shards over `zero.ways` ranks",
    ),
    law(
        "zero-ways-ranks",
        &[Key::ZeroWays],
        Divides(Of(Key::ZeroWays), STAGE_RANKS),
        When::UniformWays,
        "the ranks of a stage fall into groups that share its state",
    ),
    law(
        "zero-ways-unused",
        &[Key::ZeroWays, Key::ZeroGroups],
        AtMost(Of(Key::ZeroWays), Just(0)),
        When::ByGroup,
        "only `zero.groups: uniform` reads `zero.ways`; the other groups follow from the mesh",
    ),
    law(
        "skew-range",
        &[Key::RoutingSkew],
        Rule::SkewIsPossible,
        When::Dropless,
        "the hottest rank gets at least the balanced load, and at most one copy of every token for each expert it can use",
    ),
    law(
        "capacity-factor",
        &[Key::RoutingFactor],
        Rule::FactorIsPossible,
        When::Capacity,
        "an expert without slots computes nothing, and none can fill more than one for each token that it may meet",
    ),
    law(
        "weights-kept",
        &[Key::PrecisionWeights],
        Rule::IsKept(Key::PrecisionWeights),
        When::Always,
        "forward and backward use weights; only the master copy and the moments can be left out",
    ),
    law(
        "gradients-kept",
        &[Key::PrecisionGradients],
        Rule::IsKept(Key::PrecisionGradients),
        When::Always,
        "gradients accumulate over micro-batches; only the master copy and the moments can be left out",
    ),
    law(
        "activations-kept",
        &[Key::PrecisionActivations],
        Rule::IsKept(Key::PrecisionActivations),
        When::Always,
        "backward reads activations; only the master copy and the moments can be left out",
    ),
    // The two below judge budgets, so they come last and only where all others hold.
    law(
        "fits-64-bits",
        &[Key::BatchSequence, Key::BatchMicro, Key::BatchCount],
        Rule::Fits64Bits,
        When::Always,
        "amounts of memory are counted in 64 bits of bytes",
    ),
    law(
        "fits-device",
        &[Key::Device],
        Rule::FitsDevice,
        When::Given(Key::Device),
        "the worst rank with its headroom must fit on the device",
    ),
];

/// How many laws, from the end of the table, judge budgets and need all others to hold.
pub const BUDGET_LAWS: usize = 2;

/// What is legal but costs something that one may not know of: warnings, judged where all laws hold.
pub const ADVICE: &[Law] = &[
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
        "expert-state-unsharded",
        &[Key::MeshEp, Key::MeshDp],
        AtLeast(Quantity::ExpertReplicas, Just(2)),
        When::ExpertZero,
        "the state of routed experts is sharded over their replicas, and one replica shares with none",
    ),
    law(
        "pipeline-bubble",
        &[Key::BatchCount],
        AtLeast(Of(Key::BatchCount), Of(Key::MeshPp)),
        When::Always,
        "with fewer micro-batches than stages some stages always wait",
    ),
    law(
        "zero-in-pipeline",
        &[Key::ZeroDense],
        AtMost(Of(Key::ZeroDense), Just(ZeroStage::Optimizer as u64)),
        When::Pipelined,
        "sharded gradients are reduced, and sharded parameters gathered, for every micro-batch; some frameworks refuse it",
    ),
];
