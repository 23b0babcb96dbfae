//! What a model is, apart from how it is laid out.

use super::schema::{Field, Kind, NUMBER_MAX, Value, field_code, field_decode, field_default, field_in_range};
use super::schema::{Word, field_required, field_type, field_value, group, kind, words};
use super::values::Switch;
use crate::key::{Key, KeySet, Numbers};
use crate::saturating::{add, mul, zero_or};

group! {
    /// The decoder layers: dense ones first, then those with experts (DeepSeek's `first_k_dense_replace`), all of them or
    /// every so many (Llama 4 Maverick's `interleave_moe_layer_step`).
    Layers {
        /// Layers with a dense feed-forward network; those that are not between layers with experts come first.
        dense: number at least 0 = LayersDense, default 0;
        /// Layers with a router and experts.
        moe: number at least 0 = LayersMoe, default 0;
        /// Width of the dense feed-forward network; needed where `layers.dense` is not 0.
        ffn: number at least 0 = LayersFfn, default 0;
        /// From one layer with experts to the next; 2 puts a dense layer in front of each.
        moe_every: number at least 1 = LayersMoeEvery, default 1;
    }
}

impl Layers {
    /// The dense layers in front of all others: those that do not stand between layers with experts.
    #[must_use]
    pub const fn lead(&self) -> u64 {
        self.dense.saturating_sub(mul(self.moe, self.moe_every.saturating_sub(1)))
    }

    /// Layers with experts among so many from one on.
    #[must_use]
    #[allow(clippy::implicit_saturating_sub)] // const evaluation notices a call of the standard library's
    pub const fn moe_among(&self, first: u64, count: u64) -> u64 {
        let lead = if self.moe_every <= 1 { self.dense } else { self.lead() };
        let before = if first > lead { first - lead } else { 0 };
        let behind = if first + count > lead { first + count - lead } else { 0 };
        if self.moe_every <= 1 { behind - before } else { behind / self.moe_every - before / self.moe_every }
    }

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
        /// Heads of the indexer that chooses the tokens attention looks at (DeepSeek-V3.2's `index_n_heads`); 0 without one.
        indexer_heads: number at least 0 = AttentionIndexerHeads, default 0;
        /// Width of an indexer's head, the rotary part in it; needed where `attention.indexer_heads` is not 0.
        indexer_dim: number at least 0 = AttentionIndexerDim, default 0;
    }
}

words! {
    /// Which projections of attention have a bias.
    Bias {
        /// None.
        None = "none",
        /// Those of query, key and value.
        Qkv = "qkv",
        /// These and the output's.
        All = "all",
    }
}

words! {
    /// What queries and keys are normalised over, by a weight of its own each.
    QkNorm {
        /// They are not.
        None = "none",
        /// Each head, by one weight for all heads (Qwen3).
        Head = "head",
        /// All heads together, by a weight of their whole width (OLMoE).
        Full = "full",
    }
}

words! {
    /// The norms of a model.
    Norm {
        /// Root mean square: a weight.
        Rms = "rms",
        /// Mean and variance: a weight.
        Layer = "layer",
        /// Mean and variance: a weight and a bias.
        LayerBias = "layer_bias",
    }
}

words! {
    /// A value per expert that corrects the router's load without a loss (arXiv:2408.15664).
    CorrectionBias {
        /// There is none.
        Off = "off",
        /// A buffer, which is saved and is no parameter (DeepSeek-V3).
        On = "on",
        /// A parameter (ERNIE 4.5).
        Parameter = "parameter",
    }
}

group! {
    /// Grouped-query attention; with as many key/value heads as query heads it is multi-head attention.
    Gqa {
        /// Query heads, split over tensor-parallel ranks.
        heads: number at least 1 = AttentionHeads;
        /// Key/value heads, split over tensor-parallel ranks, or replicated where there are fewer of them.
        kv_heads: number at least 1 = AttentionKvHeads;
        /// Width of a head. Left out (0 in a Spec) it is `hidden` over `heads`.
        head_dim: number at least 0 = AttentionHeadDim, default 0;
        /// Which projections have a bias.
        bias: Bias = AttentionBias, default Bias::None;
        /// What queries and keys are normalised over.
        qk_norm: QkNorm = AttentionQkNorm, default QkNorm::None;
        /// Whether each head has a learned score that attends to nothing (gpt-oss).
        sinks: Switch = AttentionSinks, default Switch::Off;
        /// Whether the query projection is twice as wide and one half gates the output (Qwen3-Next).
        output_gate: Switch = AttentionOutputGate, default Switch::Off;
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
        /// Whether the projections of routed experts have a bias (gpt-oss).
        bias: Switch = ExpertsBias, default Switch::Off;
        /// Width of all shared experts together, where it is not that of as many routed ones (Qwen1.5-MoE); 0 takes that.
        shared_ffn: number at least 0 = ExpertsSharedFfn, default 0;
        /// Whether a sigmoid of the input gates the shared experts' output (Qwen1.5-MoE).
        shared_gate: Switch = ExpertsSharedGate, default Switch::Off;
        /// Whether the router's projection has a bias (gpt-oss).
        router_bias: Switch = ExpertsRouterBias, default Switch::Off;
        /// Groups that routing is limited to (DeepSeek-V3's `n_group`).
        groups: number at least 1 = ExpertsGroups, default 1;
        /// Groups that one token may use (DeepSeek-V3's `topk_group`).
        active_groups: number at least 1 = ExpertsActiveGroups, default 1;
        /// A value per expert that corrects the router's load.
        correction_bias: CorrectionBias = ExpertsCorrectionBias, default CorrectionBias::Off;
    }
}

/// What the model is, apart from how it is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Architecture {
    /// Width of the residual stream.
    pub hidden: u64,
    /// Rows of the embedding table and of the head, as the checkpoint stores them.
    pub vocab: u64,
    /// Whether the head is the embedding table.
    pub tied_embeddings: Switch,
    /// Whether the head has a bias.
    pub head_bias: Switch,
    /// Every norm.
    pub norm: Norm,
    /// Norms of each layer, beside those of its attention: two in front of its blocks, four also behind them (Grok-1).
    pub norms_per_layer: u64,
    /// Decoder layers.
    pub layers: Layers,
    /// Attention of every layer.
    pub attention: Attention,
    /// Router and experts.
    pub experts: Experts,
    /// Multi-token-prediction modules behind the last layer (DeepSeek-V3's `num_nextn_predict_layers`).
    pub mtp: u64,
}

impl Experts {
    /// Width of all shared experts together.
    #[must_use]
    pub const fn shared_width(&self) -> u64 {
        if self.shared > 0 && self.shared_ffn > 0 { self.shared_ffn } else { mul(self.shared, self.ffn) }
    }
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
        tied_embeddings: Switch::Off,
        head_bias: Switch::Off,
        norm: Norm::Rms,
        norms_per_layer: 2,
        layers: Layers::DEFAULT,
        attention: Attention::Gqa(Gqa::DEFAULT),
        experts: Experts::DEFAULT,
        mtp: 0,
    };

    /// The keys of an architecture.
    pub const FIELDS: &'static [Field] = &[
        Field { key: Key::Hidden, value: Value::Number { min: 1 }, required: true },
        Field { key: Key::Vocab, value: Value::Number { min: 1 }, required: true },
        Field { key: Key::TiedEmbeddings, value: Value::Choice { words: Switch::WORDS, kinds: &[] }, required: false },
        Field { key: Key::HeadBias, value: Value::Choice { words: Switch::WORDS, kinds: &[] }, required: false },
        Field { key: Key::Norm, value: Value::Choice { words: Norm::WORDS, kinds: &[] }, required: false },
        Field { key: Key::NormsPerLayer, value: Value::Number { min: 1 }, required: false },
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
