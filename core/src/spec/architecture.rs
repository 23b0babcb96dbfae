//! What a model is, apart from how it is laid out.

use super::schema::{Field, Kind, NUMBER_MAX, Value, field_code, field_decode, field_default, field_in_range};
use super::schema::{field_required, field_type, field_value, group, kind};
use super::values::Switch;
use crate::key::{Key, KeySet, Numbers};
use crate::saturating::{add, zero_or};

group! {
    /// The decoder layers: dense ones first, then those with experts (DeepSeek's `first_k_dense_replace`).
    Layers {
        /// Layers with a dense feed-forward network; they come first.
        dense: number at least 0 = LayersDense, default 0;
        /// Layers with a router and experts.
        moe: number at least 0 = LayersMoe, default 0;
        /// Width of the dense feed-forward network; needed where `layers.dense` is not 0.
        ffn: number at least 0 = LayersFfn, default 0;
    }
}

impl Layers {
    /// Layers of either kind.
    #[must_use]
    pub const fn count(&self) -> u64 {
        add(self.dense, self.moe)
    }
}

group! {
    /// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): queries and keys go through a latent.
    Mla {
        /// Query heads, split over tensor-parallel ranks.
        heads: number at least 1 = AttentionHeads;
        /// Width of the query latent; 0 projects queries straight from the hidden state.
        q_rank: number at least 0 = AttentionQRank, default 0;
        /// Width of the key/value latent.
        kv_rank: number at least 1 = AttentionKvRank;
        /// Width of a query or key head without rotary position.
        nope: number at least 1 = AttentionNope;
        /// Width of the rotary part; its key is shared by all heads.
        rope: number at least 1 = AttentionRope;
        /// Width of a value head.
        value: number at least 1 = AttentionValue;
    }
}

group! {
    /// Grouped-query attention; with as many key/value heads as query heads it is multi-head attention.
    Gqa {
        /// Query heads, split over tensor-parallel ranks.
        heads: number at least 1 = AttentionHeads;
        /// Key/value heads, split over tensor-parallel ranks, or replicated where there are fewer of them.
        kv_heads: number at least 1 = AttentionKvHeads;
        /// Width of a head; 0 takes `hidden` over `heads`.
        head_dim: number at least 0 = AttentionHeadDim, default 0;
    }
}

impl Gqa {
    /// Width of a head in a model of this hidden width.
    #[must_use]
    pub const fn head_width(&self, hidden: u64) -> u64 {
        if self.head_dim == 0 { zero_or(hidden.checked_div(self.heads)) } else { self.head_dim }
    }
}

/// The attention of every layer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Attention {
    /// Multi-head latent attention.
    Mla(Mla),
    /// Grouped-query attention.
    Gqa(Gqa),
}

group! {
    /// Router and experts of a layer.
    Experts {
        /// Routed experts, shared out over expert-parallel ranks.
        routed: number at least 0 = ExpertsRouted, default 0;
        /// Shared experts that every token visits, merged into one network of that many widths.
        shared: number at least 0 = ExpertsShared, default 0;
        /// Routed experts that a token visits (top-k).
        active: number at least 0 = ExpertsActive, default 0;
        /// Width of one expert's feed-forward network.
        ffn: number at least 0 = ExpertsFfn, default 0;
        /// Groups that routing is limited to (DeepSeek-V3's `n_group`).
        groups: number at least 1 = ExpertsGroups, default 1;
        /// Groups that one token may use (DeepSeek-V3's `topk_group`).
        active_groups: number at least 1 = ExpertsActiveGroups, default 1;
        /// A bias per expert that corrects the load without a loss (arXiv:2408.15664): a buffer, no parameter.
        correction_bias: Switch = ExpertsCorrectionBias, default Switch::Off;
    }
}

/// What the model is, apart from how it is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Architecture {
    /// Width of the residual stream.
    pub hidden: u64,
    /// Rows of the embedding table and of the head, as the checkpoint stores them.
    pub vocab: u64,
    /// Decoder layers.
    pub layers: Layers,
    /// Attention of every layer.
    pub attention: Attention,
    /// Router and experts.
    pub experts: Experts,
    /// Multi-token-prediction modules behind the last layer (DeepSeek-V3's `num_nextn_predict_layers`).
    pub mtp: u64,
}

impl Default for Experts {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Architecture {
    /// What absent keys mean; required ones stand at the smallest legal number.
    pub const DEFAULT: Self = Self {
        hidden: 1,
        vocab: 1,
        layers: Layers::DEFAULT,
        attention: Attention::Gqa(Gqa::DEFAULT),
        experts: Experts::DEFAULT,
        mtp: 0,
    };

    /// The keys of an architecture.
    pub const FIELDS: &'static [Field] = &[
        Field { key: Key::Hidden, value: Value::Number { min: 1 }, required: true },
        Field { key: Key::Vocab, value: Value::Number { min: 1 }, required: true },
        Field { key: Key::Layers, value: kind(&[Kind::plain("layers", "Layers", Layers::FIELDS)]), required: true },
        Field {
            key: Key::Attention,
            value: kind(&[
                Kind { word: "mla", ty: "Mla", variant: "Attention::Mla", fields: Mla::FIELDS },
                Kind { word: "gqa", ty: "Gqa", variant: "Attention::Gqa", fields: Gqa::FIELDS },
            ]),
            required: true,
        },
        Field {
            key: Key::Experts,
            value: kind(&[Kind::plain("experts", "Experts", Experts::FIELDS)]),
            required: false,
        },
        Field { key: Key::Mtp, value: Value::Number { min: 0 }, required: false },
    ];
}
