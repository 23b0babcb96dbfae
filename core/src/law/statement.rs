//! What a law says, without the numbers of any layout: for a list of all of them.

use super::{Law, Quantity, Rule, When};
use crate::key::Key;
use crate::spec::{Field, Spec, Target, Value};
use crate::text::Text;

impl Law {
    /// What must hold, as a formula over keys: `` `mesh.tp` divides `attention.heads` ``.
    #[must_use]
    pub const fn statement(&self) -> Text {
        let text = Text::new();
        match self.rule {
            Rule::Divides(Quantity::Just(2), b) => named(text, b).str(" is even"),
            Rule::Divides(a, b) => named(named(text, a).str(" divides "), b),
            Rule::EitherDivides(a, b) => named(named(text, a).str(" divides or is divided by "), b),
            Rule::AtLeast(a, b) => limited(named(text, a).str(" is at least "), a, b),
            Rule::AtMost(a, Quantity::Just(0)) => named(text, a).str(" is left out"),
            Rule::AtMost(a, b) => limited(named(text, a).str(" is at most "), a, b),
            Rule::Equal(a, b) => named(named(text, a).str(" is "), b),
            Rule::Given(key) => path(text, key).str(" is given"),
            Rule::Needs(key, a, b) => limited(named(path(text, key).str(" needs "), a).str(" of at least "), a, b),
            Rule::IsOn(key) => path(text, key).str(" is on"),
            Rule::IsKept(key) => path(text, key).str(" is not none"),
            Rule::OneOf(key, places) => one_of(path(text, key).str(" is "), key, places),
            Rule::ChunksOfSchedule => text.str("`mesh.vpp` is a number of chunks that `schedule` runs"),
            Rule::LastGroupFills => text.str("`batch.count` leaves no group shorter than `mesh.pp`"),
            Rule::RanksHoldLayers => text.str("every rank of the pipeline holds a decoder layer"),
            Rule::LayersFallToStages => {
                text.str("layers fall to stages and chunks alike, but for `stages.first` and `stages.last`")
            }
            Rule::SkewIsPossible => text.str("`routing.skew` is between 1 and the worst that experts and ranks allow"),
            Rule::FactorIsPossible => {
                text.str("`routing.factor` is between 0.001 and `experts.routed` / `experts.active`")
            }
            Rule::Fits64Bits => text.str("the budget of the worst rank fits in 64 bits of bytes"),
            Rule::FitsDevice => text.str("the budget of the worst rank with `headroom` fits on `device`"),
        }
    }
}

impl When {
    /// Where a law applies, behind its statement; empty where it always does.
    #[must_use]
    pub const fn text(self) -> Text {
        let text = Text::new();
        match self {
            Self::Given(key) => path(text.str("where "), key).str(" is given"),
            Self::PipelinedFor(target) => for_target(text, target).str(", with more than one stage"),
            Self::MoeFor(target) => for_target(text, target).str(", with experts"),
            Self::GqaFor(target) => for_target(text, target).str(", under grouped-query attention"),
            Self::MixerFor(target) => for_target(text, target).str(", with `mixer: gqa`"),
            _ => text.str(self.words()),
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Gqa => "under grouped-query attention",
            Self::LayerList => "with a layer list",
            Self::NoneListed => "without a layer list that has networks",
            Self::Alone => "with a layer list that has `d` or `e`",
            Self::Unusual => "with `layers.beside`, `hyper_connections` or a layer list that has `d` or `e`",
            Self::MixerAllToAll => "under all-to-all context parallelism, with `mixer: gqa`",
            Self::MixerInner => "under hierarchical context parallelism, with `mixer: gqa`",
            Self::Hashed => "with `experts.hash_layers`",
            Self::NoMixer => "without a mixer",
            Self::Mixer => "with a mixer",
            Self::Compressed => "under compressed attention",
            Self::NotCompressed => "without compressed attention",
            Self::Composed => "in the worked example, with a layer list or networks beside experts",
            Self::ComposedFramework => "under accountings of frameworks, with a layer list or networks beside experts",
            Self::Modules => "under `recompute: selective`, but for `accounting: torchtitan`",
            Self::NoModules => "without `recompute: selective`, or under `accounting: torchtitan`",
            Self::NoSelective => {
                "under accountings but `megatron_core` and, where layers are attention and one network, `torchtitan`"
            }
            Self::NoTogether => "under accountings but `megatron_core` and `paper`",
            Self::MegatronMtp => "under `accounting: megatron_core`, with `mtp`",
            Self::MegatronOverrun => "under `accounting: megatron_core` of versions before `v0_20`",
            Self::Transformers => "under `accounting: transformers`",
            Self::Torchtitan => "under `accounting: torchtitan`",
            Self::Reference => "under `accounting: reference`",
            Self::ReferenceContext => "under `accounting: reference` and context parallelism",
            Self::ReferenceRing => "under `accounting: reference`, where keys and values go round",
            Self::ReferenceZero => "under `accounting: reference`, where replicas share state",
            Self::ReferenceEtp => "under `accounting: reference`, where ranks that split tensors split experts",
            Self::Fp8 => "where `precision.compute` is fp8",
            Self::Fp8NoEngine => "but under `accounting: megatron_core` with `implementation: transformer_engine`",
            Self::Fp8Mixers => "under compressed attention, and with a mixer that is not `gqa`",
            Self::Fp8History => "without `precision.compute: fp8_delayed`",
            Self::Fp8Stored => "in training",
            Self::Fp8DelayedModules => "under `precision.compute: fp8_delayed` and `recompute: selective`",
            Self::NoWindow => "without `attention.window`",
            Self::SeveralBlocks => "with a layer list or networks beside experts",
            Self::Serving => "where `serving` is given",
            Self::Training => "without `serving`",
            Self::ServedByPlace => "where `serving` and `attention.full_every` are given",
            Self::ServedOtherwise => "where `serving` is given, without latent attention",
            Self::ServedAsOneHead => "where `serving` is given, and what it caches is one for all heads",
            Self::Dense => "with dense layers",
            Self::DenseSplit => "with dense layers, split over `mesh.tp`",
            Self::Spaced => "where `layers.moe_every` is above 1",
            Self::Layers => "without a stage list",
            Self::Weighed => "where an end counts as a layer",
            Self::Moe | Self::Experts | Self::Reachable => "with experts",
            Self::NoMoe => "without experts",
            Self::NoShared => "without shared experts",
            Self::SharedSplit => "with shared experts, split over `mesh.tp`",
            Self::MoeOverTp => "with experts, `mesh.ep` and `mesh.tp` above 1, without `serving`",
            Self::WholeSequence => "under sequence parallelism, without a ring",
            Self::SequenceParallel => "under sequence parallelism",
            Self::NoSequenceParallel => "without sequence parallelism and ring",
            Self::Ring => "under ring or hierarchical context parallelism",
            Self::AllToAll => "under all-to-all context parallelism",
            Self::Hierarchical | Self::Inner => "under hierarchical context parallelism",
            Self::GqaInner => "under hierarchical context parallelism and grouped-query attention",
            Self::NotHierarchical => "without hierarchical context parallelism",
            Self::GqaAllToAll | Self::KvTraded => "under all-to-all context parallelism and grouped-query attention",
            Self::WorldAndDp => "where `mesh.world` and `mesh.dp` are given",
            Self::WorldAlone => "where `mesh.world` is given without `mesh.dp`",
            Self::UniformExperts => "under `zero.groups: uniform`, with experts",
            Self::Uniform | Self::UniformWays => "under `zero.groups: uniform`",
            Self::ByGroup => "without `zero.groups: uniform`",
            Self::ExpertZero => "where ZeRO shards the state of experts",
            Self::Pipelined | Self::ExpertZeroInPipeline => "with more than one stage",
            Self::Dropless => "where no token is dropped",
            Self::NotFull => "without `recompute: full`",
            Self::WorstLoad => "under `routing.load: worst`",
            Self::Capacity => "under bounded capacity",
            Self::Listed => "with a stage list",
            Self::Chunked => "with several chunks a rank",
            Self::Interleaved => "under `schedule: interleaved`",
            Self::NotInterleaved => "without `schedule: interleaved`",
            Self::DualPipe => "under `schedule: dual_pipe`",
            Self::DualPipes => "under `schedule: dual_pipe` and `dual_pipe_v`",
            Self::HeadBlocks => "where weights are quantised in blocks",
            Self::KvHeadBlocks => "where weights are quantised in blocks, under grouped-query attention",
            Self::DenseBlocks => "where weights are quantised in blocks, with dense layers",
            Self::ExpertBlocks => "where weights are quantised in blocks, with experts",
            Self::SharedBlocks => "where weights are quantised in blocks, with shared experts",
            Self::HeadDimFollows => "without `attention.head_dim`",
            _ => "",
        }
    }
}

const fn for_target(text: Text, target: Target) -> Text {
    text.str("for `target: ").str(target.word()).str("`")
}

const fn path(text: Text, key: Key) -> Text {
    text.str("`").str(key.path()).str("`")
}

/// A quantity by the keys that it is made of.
const fn named(text: Text, quantity: Quantity) -> Text {
    match quantity {
        Quantity::Of(key) => path(text, key),
        Quantity::Just(n) => text.int(n),
        Quantity::Product(keys) => joined(text, keys, " x "),
        Quantity::Sum(keys) => joined(text, keys, " + "),
        Quantity::Twice(key) => path(text.str("2 x "), key),
        Quantity::Reachable => text.str("`experts.active_groups` x `experts.routed` / `experts.groups`"),
        Quantity::RingPieces => text.str("`mesh.cp` x lcm(2, `mesh.tp` under sequence parallelism)"),
        Quantity::ExpertReplicas => text.str("`mesh.tp` x `mesh.cp` x `mesh.dp` / (`mesh.ep` x `mesh.etp`)"),
        Quantity::Places => text.str("`mesh.pp` x `mesh.vpp`"),
        Quantity::Layers => text.str("the number of layers in `layers.list`, or `layers.dense` + `layers.moe`,"),
        Quantity::LayersOfChunks => text.str("the layers of each chunk"),
        Quantity::LayersOf(kind) => text.str("the number of layers with ").str(kind.name()).str(" in `layers.list`"),
        Quantity::CompressedLayers => text.str("the number of layers with compressed attention in `layers.list`"),
        Quantity::StartsWithMixer => text.str("the number of layers with a mixer that start `layers.list`"),
        Quantity::HeadWidth => text.str("`attention.head_dim`, or `hidden` / `attention.heads`,"),
        Quantity::ListedStages => text.str("the number of stages in `stages.list`"),
        Quantity::ListedLayers => text.str("the number of layers in `stages.list`"),
        Quantity::ListedMtp => text.str("the number of MTP modules in `stages.list`"),
        Quantity::ListedMtpRank => text.str("the rank of the MTP modules in `stages.list`"),
        Quantity::SharedWidth => text.str("`experts.shared_ffn`, or `experts.shared` x `experts.ffn`,"),
        Quantity::PhysicalExperts => text.str("`experts.routed` + `placement.redundant_experts`"),
        Quantity::Group => text.str("`batch.group`, or `mesh.pp`,"),
        Quantity::HeadBlocks => text.str("`mesh.tp` x the heads that fill whole blocks of `precision.block`"),
        Quantity::KvHeadBlocks => {
            text.str("min(`mesh.tp`, `attention.kv_heads`) x the heads that fill whole blocks of `precision.block`")
        }
    }
}

const fn joined(mut text: Text, keys: &[Key], between: &str) -> Text {
    let mut i = 0;
    while i < keys.len() {
        text = path(if i == 0 { text } else { text.str(between) }, keys[i]);
        i += 1;
    }
    text
}

/// What a quantity is held against, in the way that the quantity is written.
const fn limited(text: Text, of: Quantity, limit: Quantity) -> Text {
    match (of, limit) {
        (Quantity::Of(key), Quantity::Just(n)) => word(text, key, n),
        _ => named(text, limit),
    }
}

/// A word by its place in the list of a key, or a number.
const fn word(text: Text, key: Key, place: u64) -> Text {
    match Spec::field(key) {
        // A place in a list fits, and is in it.
        #[allow(clippy::cast_possible_truncation)]
        Some(Field { value: Value::Choice { words, .. }, .. }) if place < words.len() as u64 => {
            text.str(words[place as usize].word)
        }
        _ => text.int(place),
    }
}

const fn one_of(mut text: Text, key: Key, places: &[u64]) -> Text {
    let mut i = 0;
    while i < places.len() {
        let between = if i == 0 {
            ""
        } else if i + 1 == places.len() {
            " or "
        } else {
            ", "
        };
        text = word(text.str(between), key, places[i]);
        i += 1;
    }
    text
}
