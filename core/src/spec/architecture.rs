//! What a model is, apart from how it is laid out.

use super::schema::{Field, Kind, NUMBER_MAX, Value, field_code, field_decode, field_default, field_in_range};
use super::schema::{Word, field_required, field_type, field_value, group, kind, words};
use super::values::Switch;
use super::{LayerKind, LayerList};
use crate::key::{Key, KeySet, Numbers};
use crate::mixers::{Attention, Gqa, Mixer};
use crate::saturating::{add, mul};

group! {
    /// The decoder layers: dense ones first, then those with experts (DeepSeek's `first_k_dense_replace`), all of them or
    /// every so many (Llama 4 Maverick's `interleave_moe_layer_step`).
    Layers {
        /// Layers with a dense feed-forward network; those that are not between layers with experts come first.
        dense: number at least 0 = LayersDense, default 0;
        /// Layers with a router and experts.
        moe: number at least 0 = LayersMoe, default 0;
        /// Width of the dense feed-forward network; needed where `layers.dense` is not 0 or it stands beside experts.
        ffn: number at least 0 = LayersFfn, default 0;
        /// From one layer with experts to the next; 2 puts a dense layer in front of each.
        moe_every: number at least 1 = LayersMoeEvery, default 1;
        /// What each layer is made of, a letter for each: `"(MMMA)*12"`. Left out, all have the same attention, and the
        /// other keys say where experts are.
        list: layer_list = LayersList, default LayerList::NONE;
        /// What layers with experts have beside them.
        beside: Beside = LayersBeside, default Beside::None;
        /// Whether feed-forward networks, experts among them, have a gate: three matrices, or two without (Nemotron-H).
        gated: Switch = LayersGated, default Switch::On;
        /// Whether the projections of dense feed-forward networks have a bias (GPT-2).
        bias: Switch = LayersBias, default Switch::Off;
    }
}

words! {
    /// What layers with experts have beside them.
    Beside {
        /// Experts alone.
        None = "none",
        /// A dense network in parallel, of width `layers.ffn` (Arctic, Gemma 4).
        Dense = "dense",
        /// Two blocks of attention and dense network, across which the experts are a shortcut (LongCat-Flash).
        TwoBlocks = "two_blocks",
    }
}

/// How many blocks of each kind a run of layers has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Blocks {
    /// With the model's attention, its mixer, compressed and heavily compressed attention.
    pub(crate) mixers: [u64; 4],
    pub(crate) dense: u64,
    pub(crate) moe: u64,
}

impl Layers {
    /// The dense layers in front of all others: those that do not stand between layers with experts.
    #[must_use]
    pub const fn lead(&self) -> u64 {
        self.dense.saturating_sub(mul(self.moe, self.moe_every.saturating_sub(1)))
    }

    /// Whether layers are listed one by one.
    #[must_use]
    pub const fn has_list(&self) -> bool {
        !self.list.is_none()
    }

    /// The blocks of so many listed layers from one on. Where experts have dense networks beside them, these are not
    /// counted.
    pub(crate) const fn listed(&self, first: u64, count: u64) -> Blocks {
        const NOT_MIXERS: usize = LayerKind::Dense as usize;
        let (mut mixers, mut kind) = ([0; NOT_MIXERS], 0);
        while kind < NOT_MIXERS {
            mixers[kind] = self.list.among(LayerKind::ALL[kind], first, count);
            kind += 1;
        }
        let (dense, moe) = (LayerKind::Dense, LayerKind::Moe);
        Blocks { mixers, dense: self.list.among(dense, first, count), moe: self.list.among(moe, first, count) }
    }

    /// Layers with experts among so many from one on, where there is no list.
    #[must_use]
    #[allow(clippy::implicit_saturating_sub)] // const evaluation notices a call of the standard library's
    pub const fn moe_among(&self, first: u64, count: u64) -> u64 {
        let lead = if self.moe_every <= 1 { self.dense } else { self.lead() };
        let before = if first > lead { first - lead } else { 0 };
        let behind = if first + count > lead { first + count - lead } else { 0 };
        if self.moe_every <= 1 { behind - before } else { behind / self.moe_every - before / self.moe_every }
    }

    /// Whether a layer has experts.
    #[must_use]
    pub const fn has_experts(&self, layer: u64) -> bool {
        if self.has_list() { self.list.has(LayerKind::Moe, layer) } else { self.moe_among(layer, 1) > 0 }
    }

    /// All layers.
    #[must_use]
    pub const fn count(&self) -> u64 {
        if self.has_list() { self.list.layers() } else { add(self.dense, self.moe) }
    }

    /// Dense networks: those of dense layers, and those that layers with experts have beside them.
    #[must_use]
    pub const fn has_dense(&self) -> bool {
        self.dense > 0 || self.moe > 0 && !matches!(self.beside, Beside::None)
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
        /// Width that routed experts read and write, with a projection before and behind them (Nemotron 3 Super); 0 where
        /// it is `hidden`.
        latent: number at least 0 = ExpertsLatent, default 0;
        /// Experts that hand their input on: the router alone knows them (LongCat-Flash's `zero_expert_num`).
        identity: number at least 0 = ExpertsIdentity, default 0;
        /// The first layers with experts whose tokens are routed by a table of the vocabulary (DeepSeek-V4's
        /// `num_hash_layers`).
        hash_layers: number at least 0 = ExpertsHashLayers, default 0;
        /// Whether the router scales its input, and each expert's output (Gemma 4).
        router_scale: Switch = ExpertsRouterScale, default Switch::Off;
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
    /// Norms of each layer, beside those of its attention: two in front of its blocks, four also behind them (Grok-1), seven
    /// where a dense network stands beside the experts (Gemma 4); of layers that are one block, of each.
    pub norms_per_layer: u64,
    /// Whether each layer has a scalar, a buffer, that scales its output (Gemma 4).
    pub layer_scalar: Switch,
    /// Residual streams that learned connections mix around each block (DeepSeek-V4's `hc_mult`, arXiv:2409.19606); 0 for
    /// the one that needs none.
    pub hyper_connections: u64,
    /// Rows of a table of learned positions, which every tensor-parallel rank of the first stage holds whole (GPT-2;
    /// Megatron-LM's `learned_absolute`); 0 where positions are rotary or there are none.
    pub positions: u64,
    /// Decoder layers.
    pub layers: Layers,
    /// Attention of every layer, or of those that `layers.list` says.
    pub attention: Attention,
    /// What takes the place of attention in the other layers of `layers.list`.
    pub mixer: Mixer,
    /// Router and experts.
    pub experts: Experts,
    /// Multi-token-prediction modules behind the last layer (DeepSeek-V3's `num_nextn_predict_layers`).
    pub mtp: u64,
}

impl Experts {
    /// Whether a layer holds more of router and routed experts than their matrices.
    pub(crate) const fn has_more(&self) -> bool {
        let switches = self.bias as u64 + self.router_bias as u64 + self.router_scale as u64;
        self.latent + switches > 0 || matches!(self.correction_bias, CorrectionBias::Parameter)
    }

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
        layer_scalar: Switch::Off,
        hyper_connections: 0,
        positions: 0,
        layers: Layers::DEFAULT,
        attention: Attention::Gqa(Gqa::DEFAULT),
        mixer: Mixer::None,
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
        Field { key: Key::LayerScalar, value: Value::Choice { words: Switch::WORDS, kinds: &[] }, required: false },
        Field { key: Key::HyperConnections, value: Value::Number { min: 0 }, required: false },
        Field { key: Key::Positions, value: Value::Number { min: 0 }, required: false },
        Field { key: Key::Layers, value: kind(&[Kind::plain("layers", "Layers", Layers::FIELDS)]), required: true },
        Field { key: Key::Attention, value: kind(Attention::KINDS), required: true },
        Field { key: Key::Mixer, value: Value::Choice { words: Mixer::WORDS, kinds: Mixer::KINDS }, required: false },
        Field {
            key: Key::Experts,
            value: kind(&[Kind::plain("experts", "Experts", Experts::FIELDS)]),
            required: false,
        },
        Field { key: Key::Mtp, value: Value::Number { min: 0 }, required: false },
    ];
}
