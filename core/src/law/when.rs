//! Where a law applies, and the keys that decide it.

use super::quantity::{LAYERS, SHAPE, shape};
use crate::key::{Key, KeySet, Numbers};
use crate::spec::{
    Compute, Context, Dtype, Implementation, Load, MegatronVersion, MlaCache, Recompute, Schedule, Split, Switch,
    Target, ZeroGroups, ZeroStage,
};

/// Where a law applies.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// Everywhere.
    Always,
    /// Under grouped-query attention.
    Gqa,
    /// Where layers are listed one by one.
    LayerList,
    /// Where no layer list says that a layer has a feed-forward network.
    NoneListed,
    /// Where the blocks of a layer list are layers of their own.
    Alone,
    /// Where layers have more or less than a mixer and one feed-forward network around one residual stream.
    Unusual,
    /// Where no mixer is described.
    NoMixer,
    /// Where one is.
    Mixer,
    /// Where the mixer is attention whose heads all-to-all context parallelism deals.
    MixerAllToAll,
    /// Where its inner level deals them.
    MixerInner,
    /// For one framework, where the mixer is grouped-query attention.
    MixerFor(Target),
    /// Where some routers look experts up.
    Hashed,
    /// Under compressed attention.
    Compressed,
    /// Under any other.
    NotCompressed,
    /// In the worked example, where not every layer is the same attention and one feed-forward network.
    Composed,
    /// As frameworks count, where not every layer is the same attention and one feed-forward network.
    ComposedFramework,
    /// Under selective recomputation of modules.
    Modules,
    /// Without it.
    NoModules,
    /// Where no accounting says what selective recomputation keeps.
    NoSelective,
    /// Where no accounting says what layers hold that are computed again together.
    NoTogether,
    /// Where megatron-core's accounting counts multi-token-prediction modules.
    MegatronMtp,
    /// Where megatron-core computes layers again together, of a version whose runs do not end with their chunk.
    MegatronOverrun,
    /// As transformers counts.
    Transformers,
    /// As torchtitan counts.
    Torchtitan,
    /// As the reference step counts.
    Reference,
    /// The same, where ranks share sequences.
    ReferenceContext,
    /// The same, where they pass keys and values round.
    ReferenceRing,
    /// The same, where replicas share out state.
    ReferenceZero,
    /// The same, where experts are split over ranks that also split tensors.
    ReferenceEtp,
    /// Where linear layers compute in fp8.
    Fp8,
    /// The same, but under megatron-core's accounting, with modules of Transformer Engine.
    Fp8NoEngine,
    /// The same, under compressed attention, or where a mixer is described that is no grouped-query attention.
    Fp8Mixers,
    /// The same by delayed scaling, with selective recomputation of modules.
    Fp8DelayedModules,
    /// Where a length of histories is given, without delayed scaling.
    Fp8History,
    /// In training, where weights are stored in fp8.
    Fp8Stored,
    /// Where no layer with grouped-query attention has a window.
    NoWindow,
    /// Where layers are of several mixers or blocks.
    SeveralBlocks,
    /// Where a layout serves.
    Serving,
    /// Where it trains.
    Training,
    /// Where it serves a model whose layers have a window by their place.
    ServedByPlace,
    /// Where it serves a model without latent attention.
    ServedOtherwise,
    /// Where what it caches of attention is one for all heads.
    ServedAsOneHead,
    /// Where some layers have a dense network.
    Dense,
    /// Where some layers have a dense network that is split over `mesh.tp`.
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
    /// Where the width of a head follows from others.
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
    /// In training, where some layers have experts, dealt over ranks that also split tensors.
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
    /// Where the hottest rank gets all that it can.
    WorstLoad,
    /// Without full recomputation.
    NotFull,
    /// Where some layers have experts of bounded capacity.
    Capacity,
}

/// The keys that say whether experts are described.
pub(super) const EXPERTS: KeySet =
    KeySet::of(&[Key::LayersMoe, Key::ExpertsRouted, Key::ExpertsActive, Key::ExpertsFfn]);

/// The keys that say whether weights are quantised in blocks.
const BLOCKS: KeySet = KeySet::of(&[Key::PrecisionBlock, Key::PrecisionBlockAttention]);

/// Whether some layers have a dense network.
const fn has_dense(n: &Numbers) -> bool {
    let beside = n.values[Key::LayersBeside as usize] > 0 && n.values[Key::LayersMoe as usize] > 0;
    n.values[Key::LayersDense as usize] > 0 || beside
}

/// Whether a mixer is described: every kind has keys of its own, and they are there whatever they hold.
const fn has_mixer(n: &Numbers) -> bool {
    const KEYS: KeySet = KeySet::between(Key::Mixer as usize, Key::Experts as usize);
    n.present.intersects(KEYS)
}

/// Whether the blocks of the layer list are layers of their own: a layer of two blocks counts twice among its kinds.
const fn is_alone(n: &Numbers) -> bool {
    let (mut blocks, mut kind) = (0, 0);
    while kind < n.kinds.len() {
        blocks += n.kinds[kind];
        kind += 1;
    }
    let layers = n.values[Key::LayersList as usize];
    layers > 0 && blocks == layers
}

/// Whether layers may be of several kinds, or more than a mixer and one feed-forward network.
const fn is_composed(n: &Numbers) -> bool {
    n.values[Key::LayersList as usize] > 0 || n.values[Key::LayersBeside as usize] > 0
}

/// Whose accounting it is, by the keys that it has.
const fn is_megatron(n: &Numbers) -> bool {
    n.get(Key::AccountingVersion).is_some()
}

const fn is_torchtitan(n: &Numbers) -> bool {
    n.get(Key::AccountingNorms).is_some() && !is_megatron(n)
}

/// The paper has dropout beside the kernel.
const fn is_reference(n: &Numbers) -> bool {
    n.present.has(Key::AccountingKernel) && !n.present.has(Key::AccountingDropout)
}

/// Whether `modules` says what is computed again. torchtitan has a list of its own.
const fn reads_modules(n: &Numbers) -> bool {
    n.of(Key::Recompute) == Recompute::Selective as u64 && !is_torchtitan(n)
}

const fn is_delayed(n: &Numbers) -> bool {
    n.of(Key::PrecisionCompute) == Compute::Fp8Delayed as u64
}

/// Whether layers are more than a mixer and one feed-forward network around one residual stream, or less.
const fn is_unusual(n: &Numbers) -> bool {
    n.values[Key::LayersBeside as usize] > 0 || n.values[Key::HyperConnections as usize] > 0 || is_alone(n)
}

/// The keys that decide whether some layers have a dense network.
const DENSE: KeySet = KeySet::of(&[Key::LayersDense, Key::LayersMoe, Key::LayersBeside]);

/// Whether a layout serves: the keys of what it serves are there.
const fn is_serving(n: &Numbers) -> bool {
    n.present.has(Key::ServingContext)
}

/// Whether what is cached of attention is one for all heads: a latent, or a head that all look at.
const fn is_one_head(n: &Numbers) -> bool {
    let is_latent = n.present.has(Key::AttentionKvRank) && n.of(Key::ServingMla) == MlaCache::Latent as u64;
    is_serving(n) && (is_latent || n.present.has(Key::AttentionOutputRank))
}

pub(super) const fn is_all_to_all(n: &Numbers) -> bool {
    n.of(Key::MeshCp) > 1 && n.of(Key::MeshContext) == Context::AllToAll as u64
}

pub(super) const fn is_ring(n: &Numbers) -> bool {
    let context = n.of(Key::MeshContext);
    n.of(Key::MeshCp) > 1 && (context == Context::Ring as u64 || context == Context::Hierarchical as u64)
}

pub(super) const fn has_experts(n: &Numbers) -> bool {
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
            Self::Dense => has_dense(n),
            Self::DenseSplit => has_dense(n) && of[Key::PlacementDenseFfn as usize] == SPLIT,
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
            // Engines that serve hand all tokens to all of these ranks.
            Self::MoeOverTp => moe && of[Key::MeshEp as usize] > 1 && of[Key::MeshTp as usize] > 1 && !is_serving(n),
            Self::NoMoe => !moe,
            Self::SequenceParallel => of[Key::MeshSequenceParallel as usize] == Switch::On as u64,
            // A ring cuts finer, and its own law says so.
            Self::WholeSequence => {
                of[Key::MeshSequenceParallel as usize] == Switch::On as u64 && !is_ring(n) && !is_serving(n)
            }
            Self::NoSequenceParallel => {
                of[Key::MeshSequenceParallel as usize] == Switch::Off as u64 && !is_ring(n) && !is_serving(n)
            }
            Self::Training => !is_serving(n),
            // Nearly no layout has any of these, and none of the rest is looked at then.
            Self::Fp8 | Self::Fp8NoEngine | Self::Fp8Mixers | Self::Fp8DelayedModules => {
                of[Key::PrecisionCompute as usize] > 0 && self.applies_in_fp8(n)
            }
            Self::Fp8History => of[Key::PrecisionAmaxHistory as usize] > 0 && !is_delayed(n),
            Self::Fp8Stored => of[Key::PrecisionWeights as usize] == Dtype::Fp8 as u64 && !is_serving(n),
            _ => self.applies_rarely(n),
        }
    }

    /// Laws of computing in fp8, where a layout does.
    const fn applies_in_fp8(self, n: &Numbers) -> bool {
        match self {
            Self::Fp8NoEngine => n.of(Key::AccountingImplementation) != Implementation::TransformerEngine as u64,
            Self::Fp8Mixers => n.of(Key::AttentionOutputRank) > 0 || has_mixer(n) && n.get(Key::MixerKvHeads).is_none(),
            Self::Fp8DelayedModules => is_delayed(n) && reads_modules(n),
            _ => true,
        }
    }

    /// The same of what few layouts have. Apart, since const evaluation sets up all of a function that it calls.
    const fn applies_rarely(self, n: &Numbers) -> bool {
        const UNIFORM: u64 = ZeroGroups::Uniform as u64;
        let of = &n.values;
        let moe = of[Key::LayersMoe as usize] > 0;
        match self {
            Self::LayerList => of[Key::LayersList as usize] > 0,
            Self::NoneListed => {
                let [.., dense, moe] = n.kinds;
                dense + moe == 0
            }
            Self::Alone => is_alone(n),
            Self::Unusual => is_unusual(n),
            Self::MixerAllToAll => is_all_to_all(n) && n.get(Key::MixerKvHeads).is_some(),
            Self::MixerInner => Self::Inner.applies(n) && n.get(Key::MixerKvHeads).is_some(),
            Self::MixerFor(target) => of[Key::Target as usize] == target as u64 && n.get(Key::MixerKvHeads).is_some(),
            Self::Hashed => moe && of[Key::ExpertsHashLayers as usize] > 0,
            Self::NoMixer => !has_mixer(n),
            Self::Mixer => has_mixer(n),
            Self::Compressed => of[Key::AttentionOutputRank as usize] > 0,
            Self::NotCompressed => of[Key::AttentionOutputRank as usize] == 0,
            Self::Composed => n.get(Key::AccountingCheckpoint).is_some() && is_composed(n),
            Self::ComposedFramework => {
                is_composed(n) && (is_megatron(n) || Self::Transformers.applies(n) || is_torchtitan(n))
            }
            Self::Modules => reads_modules(n),
            Self::NoModules => !reads_modules(n),
            Self::NoSelective => !is_megatron(n) && (!is_torchtitan(n) || is_composed(n)),
            Self::NoTogether => !is_megatron(n) && !n.present.has(Key::AccountingPool),
            Self::MegatronMtp => is_megatron(n) && of[Key::Mtp as usize] > 0,
            Self::MegatronOverrun => {
                is_megatron(n)
                    && of[Key::RecomputeTogether as usize] > 0
                    && of[Key::AccountingVersion as usize] < MegatronVersion::V020 as u64
            }
            Self::Transformers => n.get(Key::AccountingRouted).is_some(),
            Self::Torchtitan => is_torchtitan(n),
            Self::Reference => is_reference(n) && !is_serving(n),
            Self::ReferenceContext => Self::Reference.applies(n) && of[Key::MeshCp as usize] > 1,
            Self::ReferenceRing => {
                let context = of[Key::MeshContext as usize];
                Self::ReferenceContext.applies(n)
                    && (context == Context::Contiguous as u64 || context == Context::Ring as u64)
            }
            Self::ReferenceZero => {
                Self::Reference.applies(n) && of[Key::ZeroDense as usize] + of[Key::ZeroExpert as usize] > 0
            }
            Self::ReferenceEtp => {
                Self::Reference.applies(n) && moe && of[Key::MeshEtp as usize] > 1 && of[Key::MeshTp as usize] > 1
            }
            Self::Ring => is_ring(n) && !is_serving(n),
            Self::NoWindow => n.get(Key::AttentionFullEvery).is_some() && of[Key::AttentionWindow as usize] == 0,
            Self::SeveralBlocks => is_composed(n),
            Self::Serving => is_serving(n),
            Self::ServedByPlace => is_serving(n) && of[Key::AttentionFullEvery as usize] > 0,
            Self::ServedOtherwise => is_serving(n) && n.get(Key::AttentionKvRank).is_none(),
            Self::ServedAsOneHead => is_one_head(n),
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
            Self::NotFull => of[Key::Recompute as usize] != Recompute::Full as u64,
            Self::WorstLoad => of[Key::RoutingLoad as usize] == Load::Worst as u64 && n.get(Key::RoutingLoad).is_some(),
            Self::Dropless => moe && has_experts(n) && n.get(Key::RoutingSkew).is_some(),
            Self::Capacity => moe && has_experts(n) && n.get(Key::RoutingFactor).is_some(),
            Self::Spaced => moe && of[Key::LayersMoeEvery as usize] > 1 && of[Key::LayersList as usize] == 0,
            Self::NoShared => of[Key::ExpertsShared as usize] == 0,
            Self::Listed => of[Key::StagesList as usize] > 0,
            Self::Interleaved => of[Key::Schedule as usize] == Schedule::Interleaved as u64,
            Self::NotInterleaved => of[Key::Schedule as usize] != Schedule::Interleaved as u64,
            Self::DualPipe => of[Key::Schedule as usize] == Schedule::DualPipe as u64 && of[Key::MeshPp as usize] > 1,
            Self::DualPipes => of[Key::Schedule as usize] >= Schedule::DualPipe as u64,
            Self::HeadDimFollows => n.present.has(Key::AttentionHeadDim) && of[Key::AttentionHeadDim as usize] == 0,
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
    pub(super) const fn keys(self) -> KeySet {
        match self {
            // A kind is known wherever it is written, so `attention`, `mixer`, `routing` and switches never wait.
            Self::Always
            | Self::Gqa
            | Self::NoMixer
            | Self::Mixer
            | Self::Compressed
            | Self::NotCompressed
            | Self::Transformers
            | Self::WorstLoad
            | Self::Torchtitan
            | Self::Reference
            | Self::NoTogether
            | Self::Serving
            | Self::Training
            | Self::ServedOtherwise
            | Self::ServedAsOneHead => KeySet::EMPTY,
            Self::Fp8NoEngine => KeySet::of(&[Key::PrecisionCompute, Key::AccountingImplementation]),
            Self::Fp8Mixers => KeySet::of(&[Key::PrecisionCompute, Key::AttentionOutputRank]),
            Self::Fp8 => KeySet::of(&[Key::PrecisionCompute]),
            Self::Fp8DelayedModules => KeySet::of(&[Key::PrecisionCompute, Key::Recompute]),
            Self::Fp8History => KeySet::of(&[Key::PrecisionCompute, Key::PrecisionAmaxHistory]),
            Self::Fp8Stored => KeySet::of(&[Key::PrecisionWeights]),
            Self::NoWindow => KeySet::of(&[Key::AttentionWindow]),
            Self::ServedByPlace => KeySet::of(&[Key::AttentionFullEvery]),
            Self::LayerList | Self::NoneListed | Self::Alone => KeySet::of(&[Key::LayersList]),
            Self::Unusual => KeySet::of(&[Key::LayersList, Key::LayersBeside, Key::HyperConnections]),
            Self::Hashed => KeySet::of(&[Key::LayersMoe, Key::ExpertsHashLayers]),
            Self::Modules | Self::NoModules | Self::NotFull => KeySet::of(&[Key::Recompute]),
            Self::Composed | Self::ComposedFramework | Self::NoSelective | Self::SeveralBlocks => {
                KeySet::of(&[Key::LayersList, Key::LayersBeside])
            }
            Self::MegatronMtp => KeySet::of(&[Key::Mtp]),
            Self::MegatronOverrun => KeySet::of(&[Key::RecomputeTogether, Key::AccountingVersion]),
            Self::Dense => DENSE,
            Self::DenseSplit => DENSE.with(Key::PlacementDenseFfn),
            Self::Spaced => KeySet::of(&[Key::LayersMoe, Key::LayersMoeEvery, Key::LayersList]),
            Self::Weighed => KeySet::of(&[Key::StagesEmbedding, Key::StagesLoss]),
            Self::Layers => KeySet::of(LAYERS).with(Key::StagesList),
            Self::NoShared => KeySet::of(&[Key::ExpertsShared]),
            Self::Listed => KeySet::of(&[Key::StagesList]),
            Self::Chunked => KeySet::of(SHAPE),
            Self::Interleaved | Self::NotInterleaved | Self::DualPipe | Self::DualPipes => KeySet::of(&[Key::Schedule]),
            Self::HeadDimFollows => KeySet::of(&[Key::AttentionHeadDim]),
            Self::ExpertZeroInPipeline => KeySet::of(&[Key::ZeroExpert, Key::ZeroDense, Key::MeshPp, Key::LayersMoe]),
            Self::KvTraded => KeySet::of(&[Key::MeshCp, Key::MeshContext, Key::MeshTp, Key::AttentionKvHeads]),
            Self::GqaFor(_) | Self::MixerFor(_) => KeySet::of(&[Key::Target]),
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
            Self::ReferenceContext => KeySet::of(&[Key::MeshCp]),
            Self::ReferenceRing => KeySet::of(&[Key::MeshCp, Key::MeshContext]),
            Self::ReferenceZero => KeySet::of(&[Key::ZeroDense, Key::ZeroExpert]),
            Self::ReferenceEtp => KeySet::of(&[Key::LayersMoe, Key::MeshEtp, Key::MeshTp]),
            Self::Ring | Self::AllToAll | Self::GqaAllToAll | Self::MixerAllToAll => {
                KeySet::of(&[Key::MeshCp, Key::MeshContext])
            }
            Self::Hierarchical | Self::NotHierarchical => KeySet::of(&[Key::MeshContext]),
            Self::Inner | Self::GqaInner | Self::MixerInner => KeySet::of(&[Key::MeshContext, Key::MeshCpInner]),
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
