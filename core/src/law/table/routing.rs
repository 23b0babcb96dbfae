//! Laws of routing, and of widths that are quantised in blocks.

use super::law;
use crate::key::Key;
use crate::law::Quantity::{self, Just, Of, Product};
use crate::law::Rule::{self, AtMost, Divides};
use crate::law::{Law, When};

pub(super) const LAWS: &[Law] = &[
    law(
        "skew-range",
        &[Key::RoutingSkew],
        Rule::SkewIsPossible,
        When::Dropless,
        "the hottest rank gets at least the balanced load, and at most one copy of every token for each expert it can use",
    ),
    law(
        "skew-unused",
        &[Key::RoutingSkew, Key::RoutingLoad],
        AtMost(Of(Key::RoutingSkew), Just(1000)),
        When::WorstLoad,
        "under `load: worst` the hottest rank gets all that it can",
    ),
    law(
        "capacity-factor",
        &[Key::RoutingFactor],
        Rule::FactorIsPossible,
        When::Capacity,
        "an expert without slots computes nothing, and none can fill more than one for each token that it may meet",
    ),
    law(
        "block-heads",
        &[Key::MeshTp, Key::PrecisionBlock, Key::AttentionHeads],
        Divides(Quantity::HeadBlocks, Of(Key::AttentionHeads)),
        When::HeadBlocks,
        "no rank's heads cut a block of quantised weights, unless `precision.block_attention` is off",
    ),
    law(
        "block-kv-heads",
        &[Key::MeshTp, Key::PrecisionBlock, Key::AttentionKvHeads],
        Divides(Quantity::KvHeadBlocks, Of(Key::AttentionKvHeads)),
        When::KvHeadBlocks,
        "no rank's key/value heads cut a block of quantised weights, unless `precision.block_attention` is off",
    ),
    law(
        "block-dense-ffn",
        &[Key::MeshTp, Key::PrecisionBlock, Key::LayersFfn],
        Divides(Product(&[Key::MeshTp, Key::PrecisionBlock]), Of(Key::LayersFfn)),
        When::DenseBlocks,
        "no rank's part of the dense feed-forward network cuts a block of quantised weights",
    ),
    law(
        "block-expert-ffn",
        &[Key::MeshEtp, Key::PrecisionBlock, Key::ExpertsFfn],
        Divides(Product(&[Key::MeshEtp, Key::PrecisionBlock]), Of(Key::ExpertsFfn)),
        When::ExpertBlocks,
        "no rank's part of an expert cuts a block of quantised weights",
    ),
    law(
        "block-shared-ffn",
        &[Key::MeshTp, Key::PrecisionBlock, Key::ExpertsFfn, Key::ExpertsSharedFfn],
        Divides(Product(&[Key::MeshTp, Key::PrecisionBlock]), Quantity::SharedWidth),
        When::SharedBlocks,
        "no rank's part of the shared experts cuts a block of quantised weights",
    ),
];
