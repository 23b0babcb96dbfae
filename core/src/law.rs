//! The laws of a layout, as data. One table is judged by the macro while it expands, by the compiler where
//! numbers are constants of the user's crate, and at run time; `verdict/` blames and words.

use crate::budget;
use crate::key::{Key, KeySet, Numbers};
use crate::plan::Plan;
use crate::saturating::{add, cut, zero_or};
use crate::spec::{Context, NUMBER_MAX, Spec, Split, Stages, Switch, Weighed, ZeroGroups, ZeroStage};
use crate::stages::{self, Division, Misfit};

/// One rule that a declaration must satisfy.
#[derive(Debug)]
pub struct Law {
    /// Its stable name, in errors and documentation.
    pub id: &'static str,
    /// Keys that may be blamed for a breach; the first where nothing tells them apart.
    pub at: &'static [Key],
    /// What must hold.
    pub rule: Rule,
    /// Where it applies.
    pub when: When,
    /// Why it must hold.
    pub why: &'static str,
}

/// A number that a law speaks of.
#[derive(Clone, Copy, Debug)]
pub enum Quantity {
    /// The value of a key.
    Of(Key),
    /// The product of keys.
    Product(&'static [Key]),
    /// The sum of keys.
    Sum(&'static [Key]),
    /// Experts within the reach of one token: active groups times the experts of a group.
    Reachable,
    /// Pieces that a load-balanced ring cuts a sequence into: two for each context-parallel rank, and under sequence
    /// parallelism as many more as let each of a tensor-parallel rank's share be whole: cp x lcm(2, tp).
    RingPieces,
    /// Replicas of each routed expert (EDP): the ranks of a stage over those of an expert group.
    ExpertReplicas,
    /// A number of the law itself.
    Just(u64),
}

/// What must hold.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// The first divides the second.
    Divides(Quantity, Quantity),
    /// One of the two divides the other.
    EitherDivides(Quantity, Quantity),
    /// The first is at least the second.
    AtLeast(Quantity, Quantity),
    /// The first is at most the second.
    AtMost(Quantity, Quantity),
    /// The two are equal.
    Equal(Quantity, Quantity),
    /// A key that may be left out elsewhere is given.
    Given(Key),
    /// What the key says needs the first quantity to be at least the second.
    Needs(Key, Quantity, Quantity),
    /// A switch is on.
    IsOn(Key),
    /// A number format is not `none`.
    IsKept(Key),
    /// Layers fall to stages without remainder.
    LayersFallToStages,
    /// The skew lies between balanced and the worst that routing allows.
    SkewIsPossible,
    /// The capacity factor leaves slots, and no more than could ever fill.
    FactorIsPossible,
    /// No amount of memory outgrows 64 bits.
    Fits64Bits,
    /// The worst rank fits on the device, with headroom.
    FitsDevice,
}

/// Where a law applies.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// Everywhere.
    Always,
    /// Under grouped-query attention.
    Gqa,
    /// Where some layers are dense.
    Dense,
    /// Where some layers are dense and their network is split over `mesh.tp`.
    DenseSplit,
    /// Where there are layers.
    Layers,
    /// Where the embedding or the loss counts as a layer.
    Weighed,
    /// Where some layers have experts.
    Moe,
    /// Where no layer has experts.
    NoMoe,
    /// Where some layers have experts, and those are described.
    Experts,
    /// Where experts are described, and a token visits no more of them than there are.
    Reachable,
    /// Where some layers have shared experts, split over `mesh.tp`.
    SharedSplit,
    /// Where some layers have experts, dealt over ranks that also split tensors.
    MoeOverTp,
    /// Under sequence parallelism.
    SequenceParallel,
    /// Without sequence parallelism.
    NoSequenceParallel,
    /// Under context parallelism by a load-balanced ring.
    Ring,
    /// Under context parallelism by all-to-all.
    AllToAll,
    /// Under grouped-query attention and context parallelism by all-to-all.
    GqaAllToAll,
    /// Where an optional number is given.
    Given(Key),
    /// Where ZeRO shards every parameter over `zero.ways` ranks.
    Uniform,
    /// As [`When::Uniform`], with `zero.ways` given.
    UniformWays,
    /// Where ZeRO shards over groups of the mesh.
    ByGroup,
    /// Where some layers have experts whose state ZeRO shards over their replicas.
    ExpertZero,
    /// Where there is more than one stage.
    Pipelined,
    /// Where some layers have experts and no token is dropped.
    Dropless,
    /// Where some layers have experts of bounded capacity.
    Capacity,
}

const fn law(id: &'static str, at: &'static [Key], rule: Rule, when: When, why: &'static str) -> Law {
    Law { id, at, rule, when, why }
}

use Quantity::{Just, Of, Product, Sum};
use Rule::{AtLeast, AtMost, Divides, EitherDivides, Equal};

const STAGE_RANKS: Quantity = Product(&[Key::MeshTp, Key::MeshCp, Key::MeshDp]);
const EXPERT_RANKS: Quantity = Product(&[Key::MeshEp, Key::MeshEtp]);
const WORLD: Quantity = Product(&[Key::MeshTp, Key::MeshCp, Key::MeshPp, Key::MeshDp]);
const LAYERS: Quantity = Sum(&[Key::LayersDense, Key::LayersMoe]);
const SHARED_WIDTH: Quantity = Product(&[Key::ExpertsShared, Key::ExpertsFfn]);
const GLOBAL_BATCH: Quantity = Product(&[Key::BatchMicro, Key::MeshDp, Key::BatchCount]);

/// The laws. Each is judged only where its numbers are in range, which [`range`] says first.
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

impl Quantity {
    /// The keys that it is made of.
    #[must_use]
    pub const fn keys(self) -> &'static [Key] {
        match self {
            Self::Of(key) => single(key),
            Self::Product(keys) | Self::Sum(keys) => keys,
            Self::Reachable => &[Key::ExpertsActiveGroups, Key::ExpertsRouted, Key::ExpertsGroups],
            Self::RingPieces => &[Key::MeshCp, Key::MeshTp, Key::MeshSequenceParallel],
            Self::ExpertReplicas => &[Key::MeshTp, Key::MeshCp, Key::MeshDp, Key::MeshEp, Key::MeshEtp],
            Self::Just(_) => &[],
        }
    }

    /// Its value, or `None` where it does not fit in 64 bits.
    #[must_use]
    pub const fn value(self, numbers: &Numbers) -> Option<u64> {
        // By index rather than by a call, which const evaluation would notice.
        let of = &numbers.values;
        let value = match self {
            Self::Of(key) => of[key as usize] as u128,
            Self::Just(n) => n as u128,
            Self::Reachable => {
                let size = of[Key::ExpertsRouted as usize].checked_div(of[Key::ExpertsGroups as usize]);
                of[Key::ExpertsActiveGroups as usize] as u128 * zero_or(size) as u128
            }
            Self::RingPieces => {
                let (cp, tp) = (of[Key::MeshCp as usize] as u128, of[Key::MeshTp as usize] as u128);
                let split = of[Key::MeshSequenceParallel as usize] == Switch::On as u64;
                cp * match (split, tp % 2) {
                    (false, _) => 2,
                    (true, 0) => tp,
                    (true, _) => 2 * tp,
                }
            }
            Self::ExpertReplicas => {
                let stage = of[Key::MeshTp as usize] as u128
                    * of[Key::MeshCp as usize] as u128
                    * of[Key::MeshDp as usize] as u128;
                let group = of[Key::MeshEp as usize] as u128 * of[Key::MeshEtp as usize] as u128;
                match stage.checked_div(group) {
                    Some(replicas) => replicas,
                    None => 0,
                }
            }
            Self::Product(keys) => {
                let (mut product, mut i) = (1, 0);
                while i < keys.len() && product <= u64::MAX as u128 {
                    product *= of[keys[i] as usize] as u128;
                    i += 1;
                }
                product
            }
            Self::Sum(keys) => {
                let (mut sum, mut i) = (0, 0);
                while i < keys.len() {
                    sum += of[keys[i] as usize] as u128;
                    i += 1;
                }
                sum
            }
        };
        if value > u64::MAX as u128 { None } else { Some(cut(value)) }
    }
}

/// A slice of one key, for quantities that are a key.
const fn single(key: Key) -> &'static [Key] {
    Key::ALL.split_at(key as usize).1.split_at(1).0
}

const fn set_of(keys: &[Key]) -> KeySet {
    let mut set = KeySet::EMPTY;
    let mut i = 0;
    while i < keys.len() {
        set = set.with(keys[i]);
        i += 1;
    }
    set
}

/// The keys that say whether experts are described.
const EXPERTS: KeySet = set_of(&[Key::LayersMoe, Key::ExpertsRouted, Key::ExpertsActive, Key::ExpertsFfn]);

const fn is_all_to_all(n: &Numbers) -> bool {
    n.of(Key::MeshCp) > 1 && n.of(Key::MeshContext) == Context::AllToAll as u64
}

const fn has_experts(n: &Numbers) -> bool {
    n.of(Key::ExpertsRouted) > 0 && n.of(Key::ExpertsActive) > 0 && n.of(Key::ExpertsFfn) > 0
}

impl When {
    /// Whether the law applies to a Spec of these numbers.
    #[must_use]
    pub const fn applies(self, n: &Numbers) -> bool {
        const SPLIT: u64 = Split::Split as u64;
        const UNIFORM: u64 = ZeroGroups::Uniform as u64;
        let of = &n.values;
        let moe = of[Key::LayersMoe as usize] > 0;
        match self {
            Self::Always => true,
            Self::Gqa => n.get(Key::AttentionKvHeads).is_some(),
            Self::Dense => of[Key::LayersDense as usize] > 0,
            Self::DenseSplit => of[Key::LayersDense as usize] > 0 && of[Key::PlacementDenseFfn as usize] == SPLIT,
            Self::Weighed => of[Key::StagesEmbedding as usize] + of[Key::StagesLoss as usize] > 0,
            Self::Layers => moe || of[Key::LayersDense as usize] > 0,
            Self::Moe => moe,
            Self::Experts => moe && has_experts(n),
            Self::Reachable => {
                moe && has_experts(n) && of[Key::ExpertsActive as usize] <= of[Key::ExpertsRouted as usize]
            }
            Self::SharedSplit => {
                moe && has_experts(n)
                    && of[Key::ExpertsShared as usize] > 0
                    && of[Key::PlacementSharedExperts as usize] == SPLIT
            }
            Self::MoeOverTp => moe && of[Key::MeshEp as usize] > 1 && of[Key::MeshTp as usize] > 1,
            Self::NoMoe => !moe,
            Self::SequenceParallel => of[Key::MeshSequenceParallel as usize] == Switch::On as u64,
            Self::Ring => of[Key::MeshCp as usize] > 1 && of[Key::MeshContext as usize] == Context::Ring as u64,
            Self::AllToAll => is_all_to_all(n),
            Self::GqaAllToAll => is_all_to_all(n) && n.get(Key::AttentionKvHeads).is_some(),
            Self::NoSequenceParallel => of[Key::MeshSequenceParallel as usize] == Switch::Off as u64,
            Self::Given(key) => of[key as usize] > 0,
            Self::Uniform => of[Key::ZeroGroups as usize] == UNIFORM,
            Self::UniformWays => of[Key::ZeroGroups as usize] == UNIFORM && of[Key::ZeroWays as usize] > 0,
            Self::ExpertZero => {
                moe && has_experts(n) && of[Key::ZeroExpert as usize] > 0 && of[Key::ZeroGroups as usize] != UNIFORM
            }
            Self::Pipelined => of[Key::MeshPp as usize] > 1,
            Self::ByGroup => of[Key::ZeroGroups as usize] != UNIFORM,
            Self::Dropless => moe && has_experts(n) && n.get(Key::RoutingSkew).is_some(),
            Self::Capacity => moe && has_experts(n) && n.get(Key::RoutingFactor).is_some(),
        }
    }

    /// The keys that decide whether the law applies.
    const fn keys(self) -> KeySet {
        match self {
            // A kind is known wherever it is written, so `attention`, `routing` and switches never wait.
            Self::Always | Self::Gqa => KeySet::EMPTY,
            Self::Dense => set_of(&[Key::LayersDense]),
            Self::DenseSplit => set_of(&[Key::LayersDense, Key::PlacementDenseFfn]),
            Self::Weighed => set_of(&[Key::StagesEmbedding, Key::StagesLoss]),
            Self::Layers => set_of(&[Key::LayersDense, Key::LayersMoe]),
            Self::Moe | Self::NoMoe => set_of(&[Key::LayersMoe]),
            Self::Experts | Self::Reachable | Self::Dropless | Self::Capacity => EXPERTS,
            Self::SharedSplit => EXPERTS.union(set_of(&[Key::ExpertsShared, Key::PlacementSharedExperts])),
            Self::MoeOverTp => set_of(&[Key::LayersMoe, Key::MeshEp, Key::MeshTp]),
            Self::Ring | Self::AllToAll | Self::GqaAllToAll => set_of(&[Key::MeshCp, Key::MeshContext]),
            Self::SequenceParallel | Self::NoSequenceParallel => set_of(&[Key::MeshSequenceParallel]),
            Self::Given(key) => KeySet::EMPTY.with(key),
            Self::Uniform | Self::UniformWays | Self::ByGroup => set_of(&[Key::ZeroGroups]),
            Self::ExpertZero => EXPERTS.union(set_of(&[Key::ZeroExpert, Key::ZeroGroups])),
            Self::Pipelined => set_of(&[Key::MeshPp]),
        }
    }
}

impl Law {
    /// Every key that the law depends on: it can be judged once all of these are known.
    #[must_use]
    pub const fn keys(&self) -> KeySet {
        let rule = match self.rule {
            Rule::Divides(a, b)
            | Rule::EitherDivides(a, b)
            | Rule::AtLeast(a, b)
            | Rule::AtMost(a, b)
            | Rule::Equal(a, b) => set_of(a.keys()).union(set_of(b.keys())),
            Rule::Needs(key, a, b) => set_of(a.keys()).union(set_of(b.keys())).with(key),
            Rule::IsOn(key) | Rule::IsKept(key) | Rule::Given(key) => KeySet::EMPTY.with(key),
            Rule::LayersFallToStages => {
                let stages = set_of(&[Key::StagesFirst, Key::StagesLast, Key::StagesEmbedding, Key::StagesLoss]);
                stages.union(set_of(&[Key::LayersDense, Key::LayersMoe, Key::MeshPp]))
            }
            Rule::SkewIsPossible => set_of(&[Key::RoutingSkew, Key::ExpertsActive, Key::ExpertsRouted, Key::MeshEp]),
            Rule::FactorIsPossible => set_of(&[Key::RoutingFactor, Key::ExpertsActive, Key::ExpertsRouted]),
            Rule::Fits64Bits | Rule::FitsDevice => KeySet::ALL,
        };
        rule.union(self.when.keys())
    }

    /// Whether the law holds for a Spec of these numbers, or does not apply to it. Numbers must be in [`range`]; a law
    /// whose numbers do not fit in 64 bits is left to `world-size` and `fits-64-bits`, and those that judge budgets to
    /// [`Law::holds_for_budget`].
    #[must_use]
    pub const fn holds(&self, n: &Numbers) -> bool {
        if !self.when.applies(n) {
            return true;
        }
        match self.rule {
            Rule::Divides(a, b) => match (a.value(n), b.value(n)) {
                (Some(a), Some(b)) => a != 0 && b % a == 0,
                _ => true,
            },
            Rule::EitherDivides(a, b) => match (a.value(n), b.value(n)) {
                (Some(a), Some(b)) => a != 0 && b != 0 && (a % b == 0 || b % a == 0),
                _ => true,
            },
            Rule::AtLeast(a, b) | Rule::Needs(_, a, b) => match (a.value(n), b.value(n)) {
                (Some(a), Some(b)) => a >= b,
                _ => true,
            },
            Rule::AtMost(a, b) => match (a.value(n), b.value(n)) {
                (Some(a), Some(b)) => a <= b,
                // A product beyond 64 bits is beyond any limit.
                (None, Some(_)) => false,
                _ => true,
            },
            Rule::Equal(a, b) => match (a.value(n), b.value(n)) {
                (Some(a), Some(b)) => a == b,
                (Some(_), None) => false,
                _ => true,
            },
            Rule::IsOn(key) | Rule::IsKept(key) | Rule::Given(key) => n.of(key) > 0,
            Rule::LayersFallToStages => division(n).is_ok(),
            Rule::SkewIsPossible => {
                let skew = n.of(Key::RoutingSkew);
                skew >= 1000 && skew <= worst_skew(n)
            }
            Rule::FactorIsPossible => {
                let factor = n.of(Key::RoutingFactor);
                factor >= 1 && factor <= worst_factor(n)
            }
            Rule::Fits64Bits | Rule::FitsDevice => true,
        }
    }

    /// Whether a law that judges budgets holds for a Spec that breaks no other.
    #[must_use]
    pub const fn holds_for_budget(&self, spec: &Spec) -> bool {
        let Some(plan) = Plan::unchecked(*spec) else { return true };
        match self.rule {
            Rule::Fits64Bits => budget::peak(&plan).total.bytes() < u64::MAX,
            Rule::FitsDevice => plan.fits(spec.layout.device),
            _ => true,
        }
    }
}

/// How the layers fall to stages.
pub(crate) const fn division(n: &Numbers) -> Result<Division, Misfit> {
    let layers = add(n.of(Key::LayersDense), n.of(Key::LayersMoe));
    let stages = Stages {
        first: n.of(Key::StagesFirst),
        last: n.of(Key::StagesLast),
        embedding: Weighed::at(n.of(Key::StagesEmbedding)),
        loss: Weighed::at(n.of(Key::StagesLoss)),
    };
    stages::divide(layers, n.of(Key::MeshPp), stages)
}

/// The load of the hottest rank over the balanced one, at worst, in thousandths, rounded down: every token sends
/// as many copies to one rank as that rank has experts, or all it has.
pub(crate) const fn worst_skew(n: &Numbers) -> u64 {
    let (routed, active, ep) = (n.of(Key::ExpertsRouted), n.of(Key::ExpertsActive), n.of(Key::MeshEp));
    if ep == 0 || active == 0 {
        return 1000;
    }
    let local = routed / ep;
    let most = if local < active { local } else { active };
    let worst = 1000 * most as u128 * ep as u128 / active as u128;
    // Fewer than one expert a rank is `experts-ep`'s to refuse.
    if worst < 1000 { 1000 } else { cut(worst) }
}

/// The least capacity factor that can never drop a token, in thousandths, rounded up: all tokens at one expert.
pub(crate) const fn worst_factor(n: &Numbers) -> u64 {
    let most = n.of(Key::ExpertsRouted) as u128 * 1000;
    match most.checked_div(n.of(Key::ExpertsActive) as u128) {
        Some(_) => cut(most.div_ceil(n.of(Key::ExpertsActive) as u128)),
        None => 1000,
    }
}

/// Whether a number is one that its key may hold: the law `number-range`, judged before all others.
#[must_use]
pub const fn range(key: Key, number: u64) -> bool {
    match Spec::least(key) {
        Some(least) => number >= least && number <= NUMBER_MAX,
        None => number <= NUMBER_MAX,
    }
}
