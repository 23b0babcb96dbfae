//! The laws of a layout: of what kinds they are and how they are judged. The laws themselves are data, in `table.rs`:
//! judged by the macro while it expands, by the compiler where numbers are constants of the user's crate, and at run
//! time; `verdict/` blames and words.

mod statement;
mod table;

pub use table::{ADVICE, BUDGET_LAWS, LAWS};

use crate::budget;
use crate::key::{Key, KeySet, Numbers};
use crate::plan::Plan;
use crate::saturating::{add, cut, zero_or};
use crate::spec::{
    Context, NUMBER_MAX, Schedule, Spec, Split, StageList, Stages, Switch, Target, Weighed, ZeroGroups, ZeroStage,
};
use crate::stages::{self, Division, Misfit, Shape};

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
    /// Virtual stages of the model: ranks of the pipeline times chunks of each.
    Places,
    /// Virtual stages of the stage list.
    ListedStages,
    /// Decoder layers of the stage list.
    ListedLayers,
    /// MTP modules of the stage list.
    ListedMtp,
    /// The rank of the pipeline that holds the multi-token-prediction modules of a stage list.
    ListedMtpRank,
    /// Routed experts and copies of busy ones.
    PhysicalExperts,
    /// Width of all shared experts together.
    SharedWidth,
    /// Twice the value of a key.
    Twice(Key),
    /// Micro-batches that run through one chunk before the next: `batch.group`, or `mesh.pp`.
    Group,
    /// Query heads of a tensor-parallel rank that fill whole blocks of quantised weights, times the ranks.
    HeadBlocks,
    /// The same of key/value heads, times the ranks that they are split over.
    KvHeadBlocks,
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
    /// A word is one of these, by their places in the list.
    OneOf(Key, &'static [u64]),
    /// A rank holds as many chunks as its schedule runs.
    ChunksOfSchedule,
    /// The last group of micro-batches is no shorter than the pipeline.
    LastGroupFills,
    /// Every rank of the pipeline holds a decoder layer.
    RanksHoldLayers,
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
    /// Where layers with experts stand apart from one another.
    Spaced,
    /// Where there are layers, and no list of stages.
    Layers,
    /// Where stages are listed.
    Listed,
    /// Where a rank of the pipeline holds several chunks.
    Chunked,
    /// Where chunks are interleaved.
    Interleaved,
    /// Where they are not.
    NotInterleaved,
    /// Under DualPipe, where every stage is there twice.
    DualPipe,
    /// Under DualPipe and its folded kin.
    DualPipes,
    /// Where weights are quantised in blocks, those of attention among them.
    HeadBlocks,
    /// The same under grouped-query attention.
    KvHeadBlocks,
    /// Where dense networks are quantised in blocks and split.
    DenseBlocks,
    /// Where experts are quantised in blocks.
    ExpertBlocks,
    /// Where shared experts are quantised in blocks and split.
    SharedBlocks,
    /// Under grouped-query attention, where the width of a head follows from others.
    HeadDimFollows,
    /// Where experts shard more than their optimizer state and dense parameters no more than that, with more than one stage.
    ExpertZeroInPipeline,
    /// Under grouped-query attention and context parallelism by all-to-all, where each tensor-parallel rank has a head.
    KvTraded,
    /// For one framework, where there is more than one stage.
    PipelinedFor(Target),
    /// For one framework, where some layers have experts.
    MoeFor(Target),
    /// For one framework, under grouped-query attention.
    GqaFor(Target),
    /// Where the embedding or the loss counts as a layer.
    Weighed,
    /// Where some layers have experts.
    Moe,
    /// Where no layer has experts.
    NoMoe,
    /// Where some layers have experts, and those are described.
    Experts,
    /// Where experts are described and fall to groups evenly, and a token visits no more of them than there are.
    Reachable,
    /// Where some layers have shared experts, split over `mesh.tp`.
    SharedSplit,
    /// Where there are no shared experts.
    NoShared,
    /// Where some layers have experts, dealt over ranks that also split tensors.
    MoeOverTp,
    /// Under sequence parallelism.
    SequenceParallel,
    /// Under sequence parallelism, where no ring cuts finer.
    WholeSequence,
    /// Without sequence parallelism, where no ring cuts finer.
    NoSequenceParallel,
    /// Under context parallelism by a load-balanced ring.
    Ring,
    /// Under context parallelism by all-to-all.
    AllToAll,
    /// Under hierarchical context parallelism.
    Hierarchical,
    /// The same with its inner degree given.
    Inner,
    /// The same under grouped-query attention.
    GqaInner,
    /// Without hierarchical context parallelism.
    NotHierarchical,
    /// Under grouped-query attention and context parallelism by all-to-all.
    GqaAllToAll,
    /// Where an optional number is given.
    Given(Key),
    /// Where both the ranks of the job and the data-parallel degree are given.
    WorldAndDp,
    /// Where only the ranks of the job are given.
    WorldAlone,
    /// Where ZeRO shards every parameter over `zero.ways` ranks.
    Uniform,
    /// As [`When::Uniform`], with `zero.ways` given.
    UniformWays,
    /// The same, where some layers have experts.
    UniformExperts,
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

/// The axes that the ranks of a stage lie on.
const STAGE_RANKS: &[Key] = &[Key::MeshTp, Key::MeshCp, Key::MeshDp];
/// What the shape of the pipeline follows from.
const SHAPE: &[Key] = &[Key::MeshPp, Key::MeshVpp, Key::Schedule, Key::StagesList];
/// The axes that the ranks of an expert group lie on.
const EXPERT_RANKS: &[Key] = &[Key::MeshEp, Key::MeshEtp];

impl Quantity {
    /// The keys that it is made of.
    #[must_use]
    pub const fn keys(self) -> &'static [Key] {
        match self {
            Self::Of(key) | Self::Twice(key) => single(key),
            Self::Product(keys) | Self::Sum(keys) => keys,
            Self::Reachable => &[Key::ExpertsActiveGroups, Key::ExpertsRouted, Key::ExpertsGroups],
            Self::RingPieces => &[Key::MeshCp, Key::MeshTp, Key::MeshSequenceParallel],
            Self::ExpertReplicas => &[Key::MeshTp, Key::MeshCp, Key::MeshDp, Key::MeshEp, Key::MeshEtp],
            Self::Places => SHAPE,
            Self::ListedStages | Self::ListedLayers | Self::ListedMtp => &[Key::StagesList],
            Self::ListedMtpRank => &[Key::StagesList, Key::MeshPp],
            Self::Group => &[Key::BatchGroup, Key::MeshPp],
            Self::SharedWidth => &[Key::ExpertsShared, Key::ExpertsFfn, Key::ExpertsSharedFfn],
            Self::PhysicalExperts => &[Key::ExpertsRouted, Key::PlacementRedundantExperts],
            Self::HeadBlocks => &[
                Key::MeshTp,
                Key::PrecisionBlock,
                Key::Hidden,
                Key::AttentionHeads,
                Key::AttentionHeadDim,
                Key::AttentionNope,
                Key::AttentionRope,
                Key::AttentionValue,
                Key::PlacementQueryRope,
            ],
            Self::KvHeadBlocks => &[
                Key::MeshTp,
                Key::PrecisionBlock,
                Key::Hidden,
                Key::AttentionHeads,
                Key::AttentionKvHeads,
                Key::AttentionHeadDim,
            ],
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
            Self::ExpertReplicas => expert_replicas(numbers) as u128,
            Self::SharedWidth if of[Key::ExpertsSharedFfn as usize] > 0 => of[Key::ExpertsSharedFfn as usize] as u128,
            Self::SharedWidth => of[Key::ExpertsShared as usize] as u128 * of[Key::ExpertsFfn as usize] as u128,
            Self::PhysicalExperts => {
                of[Key::ExpertsRouted as usize] as u128 + of[Key::PlacementRedundantExperts as usize] as u128
            }
            Self::Twice(key) => 2 * of[key as usize] as u128,
            Self::ListedStages => of[Key::StagesList as usize] as u128,
            Self::ListedLayers => numbers.listed[0] as u128,
            Self::ListedMtp => numbers.listed[1] as u128,
            Self::Places | Self::Group | Self::HeadBlocks | Self::KvHeadBlocks | Self::ListedMtpRank => {
                self.rare(numbers)
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

impl Quantity {
    /// Quantities that few layouts have. Apart, since const evaluation sets up all of a function that it calls.
    const fn rare(self, numbers: &Numbers) -> u128 {
        match self {
            Self::Places => shape(numbers).places as u128,
            // No module is on no rank, and so not on the first.
            Self::ListedMtpRank if numbers.listed[1] == 0 => 1,
            Self::ListedMtpRank => zero_or(numbers.listed[2].checked_rem(numbers.of(Key::MeshPp))) as u128,
            Self::Group if numbers.of(Key::BatchGroup) > 0 => numbers.of(Key::BatchGroup) as u128,
            Self::Group => numbers.of(Key::MeshPp) as u128,
            Self::HeadBlocks => numbers.of(Key::MeshTp) as u128 * heads_in_blocks(numbers) as u128,
            Self::KvHeadBlocks => {
                let (tp, kv_heads) = (numbers.of(Key::MeshTp), numbers.of(Key::AttentionKvHeads));
                let ranks = if tp < kv_heads { tp } else { kv_heads };
                ranks as u128 * heads_in_blocks(numbers) as u128
            }
            _ => 0,
        }
    }
}

/// The shape of the pipeline.
pub(crate) const fn shape(n: &Numbers) -> Shape {
    let schedule = Schedule::at(n.of(Key::Schedule));
    Shape::of(schedule, n.of(Key::MeshPp), n.of(Key::MeshVpp), n.of(Key::StagesList))
}

/// The fewest heads whose projections are whole blocks of quantised weights.
pub(crate) const fn heads_in_blocks(n: &Numbers) -> u64 {
    let block = n.of(Key::PrecisionBlock);
    let widths = match n.get(Key::AttentionKvHeads) {
        Some(_) if n.of(Key::AttentionHeadDim) == 0 => {
            [zero_or(n.of(Key::Hidden).checked_div(n.of(Key::AttentionHeads))), 0, 0]
        }
        Some(_) => [n.of(Key::AttentionHeadDim), 0, 0],
        None => {
            let (nope, value) = (n.of(Key::AttentionNope), n.of(Key::AttentionValue));
            // A replicated rotary part is apart from the heads that are split.
            let is_split = n.of(Key::PlacementQueryRope) == Split::Split as u64;
            let query = if is_split { add(nope, n.of(Key::AttentionRope)) } else { nope };
            [query, add(nope, value), value]
        }
    };
    let (mut heads, mut i) = (1, 0);
    while i < widths.len() {
        // So many of this width, and of the others too.
        let fill = block / gcd(block, widths[i]);
        heads = fill / gcd(heads, fill) * heads;
        i += 1;
    }
    heads
}

pub(crate) const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    if a == 0 { 1 } else { a }
}

/// See [`Quantity::ExpertReplicas`]. Apart, since const evaluation sets up all of a function that it calls.
const fn expert_replicas(numbers: &Numbers) -> u64 {
    match (Quantity::Product(STAGE_RANKS).value(numbers), Quantity::Product(EXPERT_RANKS).value(numbers)) {
        (Some(stage), Some(group)) => zero_or(stage.checked_div(group)),
        _ => 0,
    }
}

/// A slice of one key, for quantities that are a key.
const fn single(key: Key) -> &'static [Key] {
    Key::ALL.split_at(key as usize).1.split_at(1).0
}

/// The keys that say whether experts are described.
const EXPERTS: KeySet = KeySet::of(&[Key::LayersMoe, Key::ExpertsRouted, Key::ExpertsActive, Key::ExpertsFfn]);

/// The keys that say whether weights are quantised in blocks.
const BLOCKS: KeySet = KeySet::of(&[Key::PrecisionBlock, Key::PrecisionBlockAttention]);

const fn is_all_to_all(n: &Numbers) -> bool {
    n.of(Key::MeshCp) > 1 && n.of(Key::MeshContext) == Context::AllToAll as u64
}

const fn is_ring(n: &Numbers) -> bool {
    let context = n.of(Key::MeshContext);
    n.of(Key::MeshCp) > 1 && (context == Context::Ring as u64 || context == Context::Hierarchical as u64)
}

const fn has_experts(n: &Numbers) -> bool {
    n.of(Key::ExpertsRouted) > 0 && n.of(Key::ExpertsActive) > 0 && n.of(Key::ExpertsFfn) > 0
}

impl When {
    /// Whether the law applies to a Spec of these numbers.
    #[must_use]
    pub const fn applies(self, n: &Numbers) -> bool {
        const SPLIT: u64 = Split::Split as u64;
        let of = &n.values;
        let moe = of[Key::LayersMoe as usize] > 0;
        match self {
            Self::Always => true,
            Self::Gqa => n.get(Key::AttentionKvHeads).is_some(),
            Self::Dense => of[Key::LayersDense as usize] > 0,
            Self::DenseSplit => of[Key::LayersDense as usize] > 0 && of[Key::PlacementDenseFfn as usize] == SPLIT,
            Self::Weighed => of[Key::StagesEmbedding as usize] + of[Key::StagesLoss as usize] > 0,
            Self::Layers => (moe || of[Key::LayersDense as usize] > 0) && of[Key::StagesList as usize] == 0,
            Self::Moe => moe,
            Self::Experts => moe && has_experts(n),
            Self::Reachable => {
                let rest = of[Key::ExpertsRouted as usize].checked_rem(of[Key::ExpertsGroups as usize]);
                moe && has_experts(n)
                    && of[Key::ExpertsActive as usize] <= of[Key::ExpertsRouted as usize]
                    && matches!(rest, Some(0))
            }
            Self::SharedSplit => {
                moe && has_experts(n)
                    && of[Key::ExpertsShared as usize] > 0
                    && of[Key::PlacementSharedExperts as usize] == SPLIT
            }
            Self::MoeOverTp => moe && of[Key::MeshEp as usize] > 1 && of[Key::MeshTp as usize] > 1,
            Self::NoMoe => !moe,
            Self::SequenceParallel => of[Key::MeshSequenceParallel as usize] == Switch::On as u64,
            // A ring cuts finer, and its own law says so.
            Self::WholeSequence => of[Key::MeshSequenceParallel as usize] == Switch::On as u64 && !is_ring(n),
            Self::NoSequenceParallel => of[Key::MeshSequenceParallel as usize] == Switch::Off as u64 && !is_ring(n),
            _ => self.applies_rarely(n),
        }
    }

    /// The same of what few layouts have. Apart, since const evaluation sets up all of a function that it calls.
    const fn applies_rarely(self, n: &Numbers) -> bool {
        const UNIFORM: u64 = ZeroGroups::Uniform as u64;
        let of = &n.values;
        let moe = of[Key::LayersMoe as usize] > 0;
        match self {
            Self::Ring => is_ring(n),
            Self::Hierarchical => of[Key::MeshContext as usize] == Context::Hierarchical as u64,
            Self::NotHierarchical => of[Key::MeshContext as usize] != Context::Hierarchical as u64,
            Self::Inner => Self::Hierarchical.applies(n) && of[Key::MeshCpInner as usize] > 0,
            Self::GqaInner => Self::Inner.applies(n) && n.get(Key::AttentionKvHeads).is_some(),
            Self::AllToAll => is_all_to_all(n),
            Self::GqaAllToAll => is_all_to_all(n) && n.get(Key::AttentionKvHeads).is_some(),
            Self::Given(key) => of[key as usize] > 0,
            Self::WorldAndDp => of[Key::MeshWorld as usize] > 0 && !n.dp_follows,
            Self::WorldAlone => of[Key::MeshWorld as usize] > 0 && n.dp_follows,
            Self::Uniform => of[Key::ZeroGroups as usize] == UNIFORM,
            Self::UniformWays => of[Key::ZeroGroups as usize] == UNIFORM && of[Key::ZeroWays as usize] > 0,
            Self::UniformExperts => Self::UniformWays.applies(n) && moe && has_experts(n),
            Self::ExpertZero => {
                moe && has_experts(n) && of[Key::ZeroExpert as usize] > 0 && of[Key::ZeroGroups as usize] != UNIFORM
            }
            Self::Pipelined => of[Key::MeshPp as usize] > 1,
            Self::ByGroup => of[Key::ZeroGroups as usize] != UNIFORM,
            Self::Dropless => moe && has_experts(n) && n.get(Key::RoutingSkew).is_some(),
            Self::Capacity => moe && has_experts(n) && n.get(Key::RoutingFactor).is_some(),
            Self::Spaced => moe && of[Key::LayersMoeEvery as usize] > 1,
            Self::NoShared => of[Key::ExpertsShared as usize] == 0,
            Self::Listed => of[Key::StagesList as usize] > 0,
            Self::Interleaved => of[Key::Schedule as usize] == Schedule::Interleaved as u64,
            Self::NotInterleaved => of[Key::Schedule as usize] != Schedule::Interleaved as u64,
            Self::DualPipe => of[Key::Schedule as usize] == Schedule::DualPipe as u64 && of[Key::MeshPp as usize] > 1,
            Self::DualPipes => of[Key::Schedule as usize] >= Schedule::DualPipe as u64,
            Self::HeadDimFollows => of[Key::AttentionHeadDim as usize] == 0 && n.get(Key::AttentionKvHeads).is_some(),
            Self::ExpertZeroInPipeline => {
                let is_more = of[Key::ZeroExpert as usize] > ZeroStage::Optimizer as u64;
                moe && is_more
                    && of[Key::ZeroDense as usize] <= ZeroStage::Optimizer as u64
                    && of[Key::MeshPp as usize] > 1
            }
            Self::KvTraded => {
                Self::GqaAllToAll.applies(n) && of[Key::MeshTp as usize] <= of[Key::AttentionKvHeads as usize]
            }
            Self::PipelinedFor(target) => of[Key::Target as usize] == target as u64 && of[Key::MeshPp as usize] > 1,
            Self::MoeFor(target) => of[Key::Target as usize] == target as u64 && moe,
            Self::GqaFor(target) => of[Key::Target as usize] == target as u64 && n.get(Key::AttentionKvHeads).is_some(),
            Self::Chunked => shape(n).chunks > 1,
            _ => of[Key::PrecisionBlock as usize] > 0 && self.applies_to_blocks(n),
        }
    }

    /// Laws of weights that are quantised in blocks, apart from the others since few layouts have them.
    const fn applies_to_blocks(self, n: &Numbers) -> bool {
        let attention = n.of(Key::PrecisionBlockAttention) > 0;
        match self {
            Self::HeadBlocks => attention,
            Self::KvHeadBlocks => attention && Self::Gqa.applies(n),
            Self::DenseBlocks => Self::DenseSplit.applies(n),
            Self::ExpertBlocks => Self::Experts.applies(n),
            Self::SharedBlocks => Self::SharedSplit.applies(n),
            _ => false,
        }
    }

    /// The keys that decide whether the law applies.
    const fn keys(self) -> KeySet {
        match self {
            // A kind is known wherever it is written, so `attention`, `routing` and switches never wait.
            Self::Always | Self::Gqa => KeySet::EMPTY,
            Self::Dense => KeySet::of(&[Key::LayersDense]),
            Self::DenseSplit => KeySet::of(&[Key::LayersDense, Key::PlacementDenseFfn]),
            Self::Spaced => KeySet::of(&[Key::LayersMoe, Key::LayersMoeEvery]),
            Self::Weighed => KeySet::of(&[Key::StagesEmbedding, Key::StagesLoss]),
            Self::Layers => KeySet::of(&[Key::LayersDense, Key::LayersMoe, Key::StagesList]),
            Self::NoShared => KeySet::of(&[Key::ExpertsShared]),
            Self::Listed => KeySet::of(&[Key::StagesList]),
            Self::Chunked => KeySet::of(SHAPE),
            Self::Interleaved | Self::NotInterleaved | Self::DualPipe | Self::DualPipes => KeySet::of(&[Key::Schedule]),
            Self::HeadDimFollows => KeySet::of(&[Key::AttentionHeadDim]),
            Self::ExpertZeroInPipeline => KeySet::of(&[Key::ZeroExpert, Key::ZeroDense, Key::MeshPp, Key::LayersMoe]),
            Self::KvTraded => KeySet::of(&[Key::MeshCp, Key::MeshContext, Key::MeshTp, Key::AttentionKvHeads]),
            Self::GqaFor(_) => KeySet::of(&[Key::Target]),
            Self::PipelinedFor(_) => KeySet::of(&[Key::Target, Key::MeshPp]),
            Self::MoeFor(_) => KeySet::of(&[Key::Target, Key::LayersMoe]),
            Self::HeadBlocks | Self::KvHeadBlocks => BLOCKS,
            Self::DenseBlocks => Self::DenseSplit.keys().union(BLOCKS),
            Self::ExpertBlocks => Self::Experts.keys().union(BLOCKS),
            Self::SharedBlocks => Self::SharedSplit.keys().union(BLOCKS),
            Self::Moe | Self::NoMoe => KeySet::of(&[Key::LayersMoe]),
            Self::Experts | Self::Dropless | Self::Capacity => EXPERTS,
            Self::Reachable => EXPERTS.with(Key::ExpertsGroups),
            Self::SharedSplit => EXPERTS.union(KeySet::of(&[Key::ExpertsShared, Key::PlacementSharedExperts])),
            Self::MoeOverTp => KeySet::of(&[Key::LayersMoe, Key::MeshEp, Key::MeshTp]),
            Self::Ring | Self::AllToAll | Self::GqaAllToAll => KeySet::of(&[Key::MeshCp, Key::MeshContext]),
            Self::Hierarchical | Self::NotHierarchical => KeySet::of(&[Key::MeshContext]),
            Self::Inner | Self::GqaInner => KeySet::of(&[Key::MeshContext, Key::MeshCpInner]),
            Self::SequenceParallel => KeySet::of(&[Key::MeshSequenceParallel]),
            Self::WholeSequence | Self::NoSequenceParallel => {
                KeySet::of(&[Key::MeshSequenceParallel, Key::MeshCp, Key::MeshContext])
            }
            Self::Given(key) => KeySet::EMPTY.with(key),
            Self::WorldAndDp | Self::WorldAlone => KeySet::of(&[Key::MeshWorld]),
            Self::Uniform | Self::UniformWays | Self::ByGroup => KeySet::of(&[Key::ZeroGroups]),
            Self::UniformExperts => EXPERTS.with(Key::ZeroGroups),
            Self::ExpertZero => EXPERTS.union(KeySet::of(&[Key::ZeroExpert, Key::ZeroGroups])),
            Self::Pipelined => KeySet::of(&[Key::MeshPp]),
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
            | Rule::Equal(a, b) => KeySet::of(a.keys()).union(KeySet::of(b.keys())),
            Rule::Needs(key, a, b) => KeySet::of(a.keys()).union(KeySet::of(b.keys())).with(key),
            Rule::IsOn(key) | Rule::IsKept(key) | Rule::Given(key) | Rule::OneOf(key, _) => KeySet::EMPTY.with(key),
            Rule::LayersFallToStages | Rule::RanksHoldLayers => {
                let stages = KeySet::of(&[Key::StagesFirst, Key::StagesLast, Key::StagesEmbedding, Key::StagesLoss]);
                stages.union(KeySet::of(&[Key::LayersDense, Key::LayersMoe])).union(KeySet::of(SHAPE))
            }
            Rule::ChunksOfSchedule => KeySet::of(SHAPE),
            Rule::LastGroupFills => KeySet::of(&[Key::BatchCount, Key::BatchGroup, Key::MeshPp]),
            Rule::SkewIsPossible => {
                let experts = KeySet::of(&[Key::ExpertsActive, Key::ExpertsRouted, Key::PlacementRedundantExperts]);
                experts.with(Key::RoutingSkew).with(Key::MeshEp)
            }
            Rule::FactorIsPossible => KeySet::of(&[Key::RoutingFactor, Key::ExpertsActive, Key::ExpertsRouted]),
            Rule::Fits64Bits | Rule::FitsDevice => KeySet::ALL,
        };
        rule.union(self.when.keys())
    }

    /// Whether the law cannot be judged of a Spec some of whose keys only the compiler will know: it depends on one of them,
    /// and may apply whatever that is.
    #[must_use]
    pub const fn waits(&self, n: &Numbers, unknown: KeySet) -> bool {
        // How many chunks a rank has follows from its pipeline only where listed stages are dealt out.
        let is_dealt = n.of(Key::StagesList) > 0 && n.of(Key::MeshVpp) == 0;
        let knows_chunks = !unknown.has(Key::MeshVpp) && !unknown.has(Key::Schedule) && !is_dealt;
        if knows_chunks && matches!(self.rule, Rule::ChunksOfSchedule) {
            return false;
        }
        let may_apply = match self.when {
            When::Chunked if knows_chunks => self.when.applies(n),
            When::PipelinedFor(target) | When::MoeFor(target) | When::GqaFor(target)
                if !unknown.has(Key::Target) && n.of(Key::Target) != target as u64 =>
            {
                false
            }
            when => when.keys().intersects(unknown) || when.applies(n),
        };
        may_apply && self.keys().intersects(unknown)
    }

    /// Whether the law holds for a Spec of these numbers, or does not apply to it. Numbers must be in [`range`]; a law
    /// whose numbers do not fit in 64 bits is left to `world-size` and `fits-64-bits`, and those that judge budgets to
    /// [`Law::holds_for_budget`].
    #[must_use]
    pub const fn holds(&self, n: &Numbers) -> bool {
        if !matches!(self.when, When::Always) && !self.when.applies(n) {
            return true;
        }
        let (Rule::Divides(a, b)
        | Rule::EitherDivides(a, b)
        | Rule::AtLeast(a, b)
        | Rule::Needs(_, a, b)
        | Rule::AtMost(a, b)
        | Rule::Equal(a, b)) = &self.rule
        else {
            return self.holds_alone(n);
        };
        // Most are numbers of the declaration: read in place, which saves const evaluation a call.
        let a = if let Quantity::Of(key) = a { Some(n.values[*key as usize]) } else { a.value(n) };
        let b = if let Quantity::Of(key) = b { Some(n.values[*key as usize]) } else { b.value(n) };
        // A quantity beyond 64 bits is beyond any limit, and equals none.
        let Some(b) = b else { return a.is_none() || !matches!(self.rule, Rule::Equal(..)) };
        let Some(a) = a else { return !matches!(self.rule, Rule::AtMost(..) | Rule::Equal(..)) };
        match self.rule {
            Rule::Divides(..) => a != 0 && b % a == 0,
            Rule::EitherDivides(..) => a != 0 && b != 0 && (a % b == 0 || b % a == 0),
            Rule::AtMost(..) => a <= b,
            Rule::Equal(..) => a == b,
            _ => a >= b,
        }
    }

    /// Rules that compare no two quantities. Apart, since const evaluation sets up all of a function that it calls.
    const fn holds_alone(&self, n: &Numbers) -> bool {
        match self.rule {
            Rule::IsOn(key) | Rule::IsKept(key) | Rule::Given(key) => n.of(key) > 0,
            Rule::OneOf(key, places) => {
                let (mut found, mut i) = (false, 0);
                while i < places.len() {
                    found |= n.of(key) == places[i];
                    i += 1;
                }
                found
            }
            // Chunks without a pipeline are `vpp-needs-pp`'s to refuse.
            Rule::LayersFallToStages => n.of(Key::MeshPp) == 1 && shape(n).chunks > 1 || division(n).is_ok(),
            Rule::ChunksOfSchedule => {
                let (least, most) = Schedule::at(n.of(Key::Schedule)).chunks();
                let chunks = shape(n).chunks;
                chunks >= least && chunks <= most
            }
            Rule::LastGroupFills => last_group(n) == 0 || last_group(n) >= n.of(Key::MeshPp),
            Rule::SkewIsPossible => {
                let skew = n.of(Key::RoutingSkew);
                skew >= 1000 && skew <= worst_skew(n)
            }
            Rule::FactorIsPossible => {
                let factor = n.of(Key::RoutingFactor);
                factor >= 1 && factor <= worst_factor(n)
            }
            // Judged of plans, or above.
            _ => true,
        }
    }

    /// Whether a law that judges budgets holds for a Spec that breaks no other.
    #[must_use]
    pub const fn holds_for_budget(&self, spec: &Spec) -> bool {
        let Some(plan) = Plan::unchecked(*spec) else { return true };
        match self.rule {
            Rule::Fits64Bits => budget::peak(&plan).total.bytes() < u64::MAX,
            Rule::FitsDevice => plan.fits(spec.layout.device),
            Rule::RanksHoldLayers => plan.rank_without_layers().is_none(),
            _ => true,
        }
    }
}

/// Micro-batches of the last group, 0 where all groups are whole or there is none.
pub(crate) const fn last_group(n: &Numbers) -> u64 {
    match Quantity::Group.value(n) {
        Some(group) if group > 0 && group <= n.of(Key::BatchCount) => n.of(Key::BatchCount) % group,
        _ => 0,
    }
}

/// How the layers fall to stages, without a list.
pub(crate) const fn division(n: &Numbers) -> Result<Division, Misfit> {
    let layers = add(n.of(Key::LayersDense), n.of(Key::LayersMoe));
    let stages = Stages {
        list: StageList::NONE,
        first: n.of(Key::StagesFirst),
        last: n.of(Key::StagesLast),
        embedding: Weighed::at(n.of(Key::StagesEmbedding)),
        loss: Weighed::at(n.of(Key::StagesLoss)),
    };
    stages::divide(layers, shape(n), stages)
}

/// The load of the hottest rank over the balanced one, at worst, in thousandths, rounded down: every token sends
/// as many copies to one rank as that rank has experts, or all it has.
pub(crate) const fn worst_skew(n: &Numbers) -> u64 {
    let (routed, active, ep) = (n.of(Key::ExpertsRouted), n.of(Key::ExpertsActive), n.of(Key::MeshEp));
    if ep == 0 || active == 0 {
        return 1000;
    }
    let local = add(routed, n.of(Key::PlacementRedundantExperts)) / ep;
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

/// Whether 0 stands for a number that is not given, and follows from others: written, it says nothing.
#[must_use]
pub const fn follows_at_zero(key: Key) -> bool {
    matches!(
        key,
        Key::MeshDp | Key::MeshVpp | Key::MeshWorld | Key::BatchGlobal | Key::BatchGroup | Key::AttentionHeadDim
    )
}

/// The name of the law that is judged before all others, and of no key alone: see [`range`].
pub const NUMBER_RANGE: &str = "number-range";

/// Why there is that law.
pub const NUMBER_RANGE_WHY: &str = "the numbers of a declaration are of a bounded size";

/// Whether a number is one that its key may hold: the law `number-range`, judged before all others.
#[must_use]
pub const fn range(key: Key, number: u64) -> bool {
    match Spec::least(key) {
        Some(least) => number >= least && number <= NUMBER_MAX,
        None => number <= NUMBER_MAX,
    }
}
