//! The numbers that laws speak of: keys, products and sums of them, and what follows from several.

use crate::key::{Key, Numbers};
use crate::saturating::{add, cut, zero_or};
use crate::spec::{LayerKind, Schedule, Split, Switch};
use crate::stages::{Shape, greatest};

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
    /// Decoder layers: those of the layer list, or dense ones and those with experts.
    Layers,
    /// The most layers that divide those of each chunk alike.
    LayersOfChunks,
    /// Layers of the layer list that have some block.
    LayersOf(LayerKind),
    /// Layers of the layer list that have compressed attention, lightly or heavily.
    CompressedLayers,
    /// 1 where the layer list starts with a mixer, else 0.
    StartsWithMixer,
    /// Width of a head of grouped-query attention, given or not; 0 under other attention.
    HeadWidth,
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

/// The axes that the ranks of a stage lie on.
pub(super) const STAGE_RANKS: &[Key] = &[Key::MeshTp, Key::MeshCp, Key::MeshDp];
/// What the shape of the pipeline follows from.
pub(super) const SHAPE: &[Key] = &[Key::MeshPp, Key::MeshVpp, Key::Schedule, Key::StagesList];
/// What the number of layers follows from.
pub(super) const LAYERS: &[Key] = &[Key::LayersDense, Key::LayersMoe, Key::LayersList];
/// What the layers of chunks follow from.
const LAYERS_OF_CHUNKS: &[Key] = &[
    Key::LayersDense,
    Key::LayersMoe,
    Key::LayersList,
    Key::MeshPp,
    Key::MeshVpp,
    Key::Schedule,
    Key::StagesList,
    Key::StagesFirst,
    Key::StagesLast,
    Key::StagesEmbedding,
    Key::StagesLoss,
];
/// The axes that the ranks of an expert group lie on.
pub(super) const EXPERT_RANKS: &[Key] = &[Key::MeshEp, Key::MeshEtp];

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
            Self::Layers => LAYERS,
            Self::LayersOfChunks => LAYERS_OF_CHUNKS,
            Self::LayersOf(_) | Self::CompressedLayers | Self::StartsWithMixer => &[Key::LayersList],
            Self::HeadWidth => &[Key::AttentionHeadDim, Key::AttentionHeads, Key::Hidden],
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
                Key::AttentionValueDim,
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
                Key::AttentionValueDim,
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
            Self::LayersOf(kind) => numbers.kinds[kind as usize] as u128,
            Self::Layers
            | Self::LayersOfChunks
            | Self::CompressedLayers
            | Self::StartsWithMixer
            | Self::HeadWidth
            | Self::Places
            | Self::Group
            | Self::HeadBlocks
            | Self::KvHeadBlocks
            | Self::ListedMtpRank => self.rare(numbers),
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
            Self::Layers => layers(numbers) as u128,
            // Layers that fall to no chunks are `layers-stages`' to refuse.
            Self::LayersOfChunks if numbers.of(Key::StagesList) > 0 => numbers.listed[3] as u128,
            Self::LayersOfChunks => match super::division(numbers) {
                Ok(division) => division.common() as u128,
                Err(_) => 0,
            },
            Self::CompressedLayers => {
                let [.., compressed, heavy, _, _] = numbers.kinds;
                compressed as u128 + heavy as u128
            }
            Self::StartsWithMixer => numbers.starts_with_mixer as u128,
            Self::HeadWidth => head_width(numbers) as u128,
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

/// All decoder layers.
pub(crate) const fn layers(n: &Numbers) -> u64 {
    let listed = n.of(Key::LayersList);
    if listed > 0 { listed } else { add(n.of(Key::LayersDense), n.of(Key::LayersMoe)) }
}

/// The shape of the pipeline.
pub(crate) const fn shape(n: &Numbers) -> Shape {
    let schedule = Schedule::at(n.of(Key::Schedule));
    Shape::of(schedule, n.of(Key::MeshPp), n.of(Key::MeshVpp), n.of(Key::StagesList))
}

/// See [`Quantity::HeadWidth`].
const fn head_width(n: &Numbers) -> u64 {
    match n.get(Key::AttentionHeadDim) {
        None => 0,
        Some(0) => zero_or(n.of(Key::Hidden).checked_div(n.of(Key::AttentionHeads))),
        Some(head_dim) => head_dim,
    }
}

/// The fewest heads whose projections are whole blocks of quantised weights.
pub(crate) const fn heads_in_blocks(n: &Numbers) -> u64 {
    let block = n.of(Key::PrecisionBlock);
    // A width of 0 fills any block.
    let widths = if n.get(Key::AttentionHeadDim).is_some() {
        [head_width(n), n.of(Key::AttentionValueDim), 0]
    } else {
        let (nope, value) = (n.of(Key::AttentionNope), n.of(Key::AttentionValue));
        // A replicated rotary part is apart from the heads that are split.
        let is_split = n.of(Key::PlacementQueryRope) == Split::Split as u64;
        let query = if is_split { add(nope, n.of(Key::AttentionRope)) } else { nope };
        [query, add(nope, value), value]
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

pub(crate) const fn gcd(a: u64, b: u64) -> u64 {
    let gcd = greatest(a, b);
    if gcd == 0 { 1 } else { gcd }
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
