//! The Spec: what the user said, as plain data, and the one table of keys behind it.
//!
//! Each group below is written once. From it come the struct that a declaration fills, its documentation,
//! the [`Field`]s by which the macro (and any file reader) walks a declaration, and access by [`Key`].
//! A new key is one line in `key.rs` and one line here.

pub use crate::device::Device;
use crate::key::{Key, KeySet, Numbers};

/// The largest number that a declaration may hold: the product of four of them, in bytes, still fits in 128 bits.
pub const NUMBER_MAX: u64 = 1 << 31;

/// One key of a group, as a reader of declarations sees it.
#[derive(Debug)]
pub struct Field {
    /// The key.
    pub key: Key,
    /// What may stand behind the colon.
    pub value: Value,
    /// Whether the key must be given.
    pub required: bool,
}

/// What may stand behind the colon of a key.
#[derive(Debug)]
pub enum Value {
    /// A whole number of at least this much, and at most [`NUMBER_MAX`].
    Number {
        /// The smallest legal number.
        min: u64,
    },
    /// A decimal number such as `1.25`, held in thousandths.
    Decimal,
    /// `percent(n)`.
    Percent,
    /// A bare word of a closed list, or a kind with a group of keys of its own: `mla { … }`.
    Choice {
        /// The bare words.
        words: &'static [Word],
        /// The kinds.
        kinds: &'static [Kind],
    },
}

/// A bare word that may stand as a value.
#[derive(Debug)]
pub struct Word {
    /// The word.
    pub word: &'static str,
    /// The path of the Rust value it stands for, within this module.
    pub path: &'static str,
}

/// A kind of value with keys of its own.
#[derive(Debug)]
pub struct Kind {
    /// The word in front of the braces.
    pub word: &'static str,
    /// The Rust struct that the braces fill, within this module.
    pub ty: &'static str,
    /// The enum variant around that struct, within this module; empty where there is none.
    pub variant: &'static str,
    /// The keys inside.
    pub fields: &'static [Field],
}

/// A factor in thousandths, written as a decimal number: a routing skew, a capacity factor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Factor {
    /// Thousandths of one.
    pub thousandths: u64,
}

impl Factor {
    /// One: nothing is changed.
    pub const ONE: Self = Self::thousandths(1000);

    /// A factor of so many thousandths.
    #[must_use]
    pub const fn thousandths(thousandths: u64) -> Self {
        Self { thousandths }
    }
}

/// Percent on top of an amount, written `percent(10)`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Percent {
    /// The number in front of the percent sign.
    pub percent: u64,
}

/// Percent on top of an amount: `headroom: percent(10)`.
#[must_use]
pub const fn percent(percent: u64) -> Percent {
    Percent { percent }
}

/// Writes a closed choice: the enum, its words, and the way back from a word's index.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[repr(u8)]
        pub enum $name {
            $($(#[$variant_doc])* #[cfg_attr(feature = "serde", serde(rename = $word))] $variant,)*
        }

        impl $name {
            /// Every choice.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// The words that a declaration may use.
            pub const WORDS: &'static [Word] =
                &[$(Word { word: $word, path: concat!(stringify!($name), "::", stringify!($variant)) },)*];

            /// The word in a declaration.
            #[must_use]
            pub const fn word(self) -> &'static str {
                Self::WORDS[self as usize].word
            }
        }
    };
}
pub(crate) use words;

macro_rules! field_type {
    (number) => {
        u64
    };
    (decimal) => {
        Factor
    };
    (percent) => {
        Percent
    };
    ($choice:ident) => {
        $choice
    };
}

macro_rules! field_value {
    (number $(at least $min:literal)?) => { Value::Number { min: 0 $(+ $min)? } };
    (decimal) => { Value::Decimal };
    (percent) => { Value::Percent };
    ($choice:ident) => { Value::Choice { words: $choice::WORDS, kinds: &[] } };
}

/// Every leaf can be read and written as one number: itself, thousandths, or the place of a word in its list.
macro_rules! field_code {
    (number, $value:expr) => {
        $value
    };
    (decimal, $value:expr) => {
        $value.thousandths
    };
    (percent, $value:expr) => {
        $value.percent
    };
    ($choice:ident, $value:expr) => {
        $value as u64
    };
}

macro_rules! field_decode {
    (number, $code:expr) => {
        $code
    };
    (decimal, $code:expr) => {
        Factor::thousandths($code)
    };
    (percent, $code:expr) => {
        percent($code)
    };
    ($choice:ident, $code:expr) => {
        $choice::ALL[$code as usize]
    };
}

/// What an absent key means: its default, or, for a required one, the smallest thing that stands for it.
macro_rules! field_default {
    (number, $default:expr) => {
        $default
    };
    (number) => {
        1
    };
    ($other:ident, $default:expr) => {
        $default
    };
}

macro_rules! field_required {
    ($default:expr) => {
        false
    };
    () => {
        true
    };
}

/// The smallest number of a key, if it holds a number.
macro_rules! field_least {
    (number $(at least $min:literal)?) => { Some(0 $(+ $min)?) };
    ($other:ident) => { None };
}

/// Whether a leaf's number is one that its key may hold; words always are.
macro_rules! field_in_range {
    (number at least $min:literal, $value:expr) => {
        $value >= $min && $value <= NUMBER_MAX
    };
    (decimal, $value:expr) => {
        $value.thousandths <= NUMBER_MAX
    };
    ($choice:ident, $value:expr) => {
        true
    };
}

macro_rules! group {
    (
        $(#[$doc:meta])*
        $name:ident {
            $(
                $(#[$field_doc:meta])*
                $field:ident: $kind:ident $(at least $min:literal)? = $key:ident $(, default $default:expr)?;
            )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
        pub struct $name {
            $($(#[$field_doc])* pub $field: field_type!($kind),)*
        }

        impl $name {
            /// What absent keys mean; a required key stands at the smallest legal number.
            pub const DEFAULT: Self = Self { $($field: field_default!($kind $(, $default)?),)* };
            /// The keys of this group.
            pub const FIELDS: &'static [Field] = &[$(Field {
                key: Key::$key,
                value: field_value!($kind $(at least $min)?),
                required: field_required!($($default)?),
            },)*];

            const fn read(&self, numbers: &mut Numbers) {
                $(numbers.values[Key::$key as usize] = field_code!($kind, self.$field);)*
                numbers.present = numbers.present.and(const { KeySet::EMPTY$(.with(Key::$key))* });
            }

            const fn least(key: Key) -> Option<u64> {
                match key {
                    $(Key::$key => field_least!($kind $(at least $min)?),)*
                    _ => None,
                }
            }

            #[allow(unused_comparisons)] // of those that may be 0
            const fn is_in_range(&self) -> bool {
                $(field_in_range!($kind $(at least $min)?, self.$field))&&*
            }

            const fn set(&mut self, key: Key, code: u64) {
                match key {
                    $(Key::$key => self.$field = field_decode!($kind, code),)*
                    _ => {}
                }
            }
        }
    };
}

words! {
    /// On or off.
    Switch {
        /// Off.
        Off = "off",
        /// On.
        On = "on",
    }
}

impl Switch {
    /// Whether the switch is on.
    #[must_use]
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

words! {
    /// The number format of one role of tensors.
    Dtype {
        /// No such tensor is kept.
        None = "none",
        /// IEEE single precision, 4 bytes.
        Fp32 = "fp32",
        /// bfloat16, 2 bytes.
        Bf16 = "bf16",
        /// IEEE half precision, 2 bytes.
        Fp16 = "fp16",
        /// An 8-bit float (E4M3 or E5M2), 1 byte, without its scales.
        Fp8 = "fp8",
    }
}

impl Dtype {
    /// Bytes of one element.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Fp32 => 4,
            Self::Bf16 | Self::Fp16 => 2,
            Self::Fp8 => 1,
        }
    }
}

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
        /// Width of a head.
        head_dim: number at least 1 = AttentionHeadDim;
    }
}

/// The attention of every layer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(tag = "kind"))]
pub enum Attention {
    /// Multi-head latent attention.
    #[cfg_attr(feature = "serde", serde(rename = "mla"))]
    Mla(Mla),
    /// Grouped-query attention.
    #[cfg_attr(feature = "serde", serde(rename = "gqa"))]
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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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
    #[cfg_attr(feature = "serde", serde(default))]
    pub experts: Experts,
    /// Multi-token-prediction modules behind the last layer (DeepSeek-V3's `num_nextn_predict_layers`).
    #[cfg_attr(feature = "serde", serde(default))]
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

impl Kind {
    /// A group whose Rust struct stands alone, named after its key.
    const fn plain(word: &'static str, ty: &'static str, fields: &'static [Field]) -> Self {
        Self { word, ty, variant: "", fields }
    }
}

const fn kind(kinds: &'static [Kind]) -> Value {
    Value::Choice { words: &[], kinds }
}

group! {
    /// The mesh of ranks: how many share each axis. World = dp x tp x cp x pp; expert ranks lie inside a stage.
    Mesh {
        /// Data-parallel degree of the dense part.
        dp: number at least 1 = MeshDp;
        /// Tensor-parallel degree of attention, dense feed-forward network, embedding and head.
        tp: number at least 1 = MeshTp, default 1;
        /// Pipeline stages.
        pp: number at least 1 = MeshPp, default 1;
        /// Context-parallel degree.
        cp: number at least 1 = MeshCp, default 1;
        /// Expert-parallel degree: over how many ranks the routed experts are dealt.
        ep: number at least 1 = MeshEp, default 1;
        /// Expert tensor-parallel degree: over how many ranks one expert is split. 1 here, never `tp` silently.
        etp: number at least 1 = MeshEtp, default 1;
        /// Ranks of the whole job; 0 derives it. If given, it must equal the product.
        world: number at least 0 = MeshWorld, default 0;
        /// Whether the sequence is split over tensor-parallel ranks between the blocks.
        sequence_parallel: Switch = MeshSequenceParallel, default Switch::Off;
    }
}

group! {
    /// How many layers each pipeline stage holds.
    Stages {
        /// Layers of the first stage; 0 lets it share evenly with the others.
        first: number at least 0 = StagesFirst, default 0;
        /// Layers of the last stage; 0 lets it share evenly with the others.
        last: number at least 0 = StagesLast, default 0;
    }
}

impl Stages {
    /// Every stage holds the same number of layers.
    pub const EVEN: Self = Self::DEFAULT;
}

words! {
    /// The order in which a stage runs its micro-batches.
    Schedule {
        /// All forwards, then all backwards: every micro-batch is in flight at once.
        Gpipe = "gpipe",
        /// One forward, one backward (PipeDream-Flush): stage i holds at most pp - i micro-batches.
        OneFOneB = "one_f_one_b",
    }
}

words! {
    /// What is sharded over the replicas of a parameter (ZeRO, arXiv:1910.02054).
    ZeroStage {
        /// Nothing.
        None = "none",
        /// Optimizer state (ZeRO-1).
        Optimizer = "optimizer",
        /// Optimizer state and gradients (ZeRO-2).
        Gradients = "gradients",
        /// Optimizer state, gradients and parameters (ZeRO-3).
        Parameters = "parameters",
    }
}

words! {
    /// Over which ranks the state of which parameters is sharded.
    ZeroGroups {
        /// Dense parameters over dp x cp, routed experts over their own replicas (EDP).
        ByReplica = "by_replica",
        /// As arXiv:2502.07846 counts: router and shared experts follow the routed experts' group.
        MoeBlock = "moe_block",
        /// Every parameter over `zero.ways` ranks.
        Uniform = "uniform",
    }
}

group! {
    /// ZeRO, separately for dense and routed-expert parameters.
    Zero {
        /// Stage for the parameters of the dense group.
        dense: ZeroStage = ZeroDense, default ZeroStage::None;
        /// Stage for the parameters of the expert group.
        expert: ZeroStage = ZeroExpert, default ZeroStage::None;
        /// Which ranks share.
        groups: ZeroGroups = ZeroGroups, default ZeroGroups::ByReplica;
        /// Ranks that share under `groups: uniform`.
        ways: number at least 0 = ZeroWays, default 0;
    }
}

impl Zero {
    /// Nothing is sharded.
    pub const NONE: Self = Self::both(ZeroStage::None);
    /// Optimizer state is sharded (ZeRO-1).
    pub const OPTIMIZER: Self = Self::both(ZeroStage::Optimizer);
    /// Optimizer state and gradients are sharded (ZeRO-2).
    pub const GRADIENTS: Self = Self::both(ZeroStage::Gradients);
    /// Optimizer state, gradients and parameters are sharded (ZeRO-3).
    pub const PARAMETERS: Self = Self::both(ZeroStage::Parameters);

    /// The same stage for dense and expert parameters.
    #[must_use]
    pub const fn both(stage: ZeroStage) -> Self {
        Self { dense: stage, expert: stage, ..Self::DEFAULT }
    }
}

words! {
    /// How the ranks of a group hold a weight.
    Split {
        /// Each holds its part.
        Split = "split",
        /// Each holds the whole.
        Replicated = "replicated",
    }
}

group! {
    /// Where frameworks (or a paper) differ in placing a weight.
    Placement {
        /// The rotary part of the query projection, over `tp`.
        query_rope: Split = PlacementQueryRope, default Split::Split;
        /// The shared experts, over `tp`.
        shared_experts: Split = PlacementSharedExperts, default Split::Split;
        /// The dense feed-forward network, over `tp`.
        dense_ffn: Split = PlacementDenseFfn, default Split::Split;
        /// The vocabulary is padded to a multiple of this times `tp` (Megatron pads to 128).
        vocab_multiple: number at least 1 = PlacementVocabMultiple, default 1;
    }
}

group! {
    /// The number format of each role.
    Precision {
        /// Weights that forward and backward use.
        weights: Dtype = PrecisionWeights, default Dtype::Bf16;
        /// Gradients that accumulate over micro-batches.
        gradients: Dtype = PrecisionGradients, default Dtype::Fp32;
        /// The optimizer's master copy of the weights.
        master: Dtype = PrecisionMaster, default Dtype::Fp32;
        /// First and second moment, each.
        moments: Dtype = PrecisionMoments, default Dtype::Fp32;
        /// Activations saved for backward, masks and fp32 logits apart.
        activations: Dtype = PrecisionActivations, default Dtype::Bf16;
    }
}

group! {
    /// The work of one step on one replica.
    Batch {
        /// Tokens of one sequence.
        sequence: number at least 1 = BatchSequence;
        /// Sequences of one micro-batch.
        micro: number at least 1 = BatchMicro, default 1;
        /// Micro-batches of one step.
        count: number at least 1 = BatchCount, default 1;
        /// Sequences of one step over all replicas; 0 derives it. If given, it must equal the product.
        global: number at least 0 = BatchGlobal, default 0;
    }
}

words! {
    /// What is computed again in backward instead of being kept.
    Recompute {
        /// Nothing: forward keeps all that backward needs.
        None = "none",
        /// Everything but each block's input.
        Full = "full",
    }
}

group! {
    /// No token is dropped; the hottest rank gets `skew` times the balanced load.
    Dropless {
        /// Load of the hottest rank over the balanced load.
        skew: decimal = RoutingSkew, default Factor::ONE;
    }
}

group! {
    /// Each expert has a fixed number of slots; what does not fit is dropped.
    Capacity {
        /// Slots over the balanced load of an expert.
        factor: decimal = RoutingFactor, default Factor::ONE;
    }
}

/// How many token copies a rank's experts must make room for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(tag = "kind"))]
pub enum Routing {
    /// No token is dropped.
    #[cfg_attr(feature = "serde", serde(rename = "dropless"))]
    Dropless(Dropless),
    /// A fixed number of slots for each expert.
    #[cfg_attr(feature = "serde", serde(rename = "capacity"))]
    Capacity(Capacity),
}

impl Routing {
    /// Dropless, and every expert gets the same load.
    pub const BALANCED: Self = Self::Dropless(Dropless::DEFAULT);
}

words! {
    /// How attention is computed.
    Kernel {
        /// Scores and probabilities are kept, s x s of them a head.
        Eager = "eager",
        /// A fused kernel keeps one fp32 log-sum-exp a row and head (FlashAttention, arXiv:2205.14135).
        Flash = "flash",
    }
}

words! {
    /// Whose tokens an expert-parallel group routes.
    Pool {
        /// As arXiv:2502.07846 counts: one replica's tokens, dealt over the group; router and shared experts
        /// see the whole sequence.
        Replica = "replica",
        /// Every rank of the group brings its own tokens, and router and shared experts see those: what the
        /// grid implies.
        Group = "group",
    }
}

words! {
    /// At what grain full recomputation keeps inputs.
    Checkpoint {
        /// One input a layer.
        Layer = "layer",
        /// One input for attention and one for the feed-forward network.
        SubBlock = "sub_block",
    }
}

group! {
    /// arXiv:2502.07846: what its Table 10 counts, and by name what it leaves open.
    Paper {
        /// How attention is computed; the paper counts eager attention.
        kernel: Kernel = AccountingKernel, default Kernel::Eager;
        /// Whether dropout masks are counted; the paper does, DeepSeek-V3 has none.
        dropout: Switch = AccountingDropout, default Switch::On;
        /// Whose tokens are routed.
        pool: Pool = AccountingPool, default Pool::Replica;
    }
}

group! {
    /// The hand-sized worked example: fused attention, no dropout, all-to-all buffers, a working set in forward
    /// and an fp32 copy of the gradient shard in the optimizer step.
    WorkedExample {
        /// At what grain inputs are kept.
        checkpoint: Checkpoint = AccountingCheckpoint, default Checkpoint::Layer;
    }
}

/// By whose rules activations and transients are counted. Neither of these counts MTP modules or the
/// router's correction bias on a rank.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(tag = "kind"))]
pub enum Accounting {
    /// arXiv:2502.07846.
    #[cfg_attr(feature = "serde", serde(rename = "paper"))]
    Paper(Paper),
    /// The hand-sized worked example.
    #[cfg_attr(feature = "serde", serde(rename = "worked_example"))]
    WorkedExample(WorkedExample),
}

impl Accounting {
    /// The paper's own choices.
    pub const PAPER: Self = Self::Paper(Paper::DEFAULT);
    /// One checkpoint a layer.
    pub const WORKED_EXAMPLE: Self = Self::WorkedExample(WorkedExample::DEFAULT);

    /// The name in a declaration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paper(_) => "paper",
            Self::WorkedExample(_) => "worked_example",
        }
    }
}

/// How the model is laid out and run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Layout {
    /// The mesh of ranks.
    pub mesh: Mesh,
    /// Layers of each stage.
    pub stages: Stages,
    /// Order of micro-batches.
    pub schedule: Schedule,
    /// What is sharded over replicas.
    pub zero: Zero,
    /// Where weights are split or replicated.
    pub placement: Placement,
    /// Number formats.
    pub precision: Precision,
    /// The work of one step.
    pub batch: Batch,
    /// What is computed again.
    pub recompute: Recompute,
    /// Load of the experts.
    pub routing: Routing,
    /// By whose rules activations are counted.
    pub accounting: Accounting,
    /// What the worst rank must fit on, if anything.
    pub device: Device,
    /// What to keep free on top of the budget.
    pub headroom: Percent,
}

impl Layout {
    /// What absent keys mean; required ones stand at the smallest legal number.
    pub const DEFAULT: Self = Self {
        mesh: Mesh::DEFAULT,
        stages: Stages::EVEN,
        schedule: Schedule::OneFOneB,
        zero: Zero::NONE,
        placement: Placement::DEFAULT,
        precision: Precision::DEFAULT,
        batch: Batch::DEFAULT,
        recompute: Recompute::None,
        routing: Routing::BALANCED,
        accounting: Accounting::PAPER,
        device: Device::None,
        headroom: percent(0),
    };

    /// The keys of a layout.
    pub const FIELDS: &'static [Field] = &[
        Field { key: Key::Mesh, value: kind(&[Kind::plain("mesh", "Mesh", Mesh::FIELDS)]), required: true },
        Field {
            key: Key::Stages,
            value: Value::Choice {
                words: &[Word { word: "even", path: "Stages::EVEN" }],
                kinds: &[Kind::plain("stages", "Stages", Stages::FIELDS)],
            },
            required: false,
        },
        Field { key: Key::Schedule, value: Value::Choice { words: Schedule::WORDS, kinds: &[] }, required: false },
        Field {
            key: Key::Zero,
            value: Value::Choice {
                // In the order of `ZeroStage::ALL`, which `Spec::set` relies on.
                words: &[
                    Word { word: "none", path: "Zero::NONE" },
                    Word { word: "optimizer", path: "Zero::OPTIMIZER" },
                    Word { word: "gradients", path: "Zero::GRADIENTS" },
                    Word { word: "parameters", path: "Zero::PARAMETERS" },
                ],
                kinds: &[Kind::plain("zero", "Zero", Zero::FIELDS)],
            },
            required: false,
        },
        Field {
            key: Key::Placement,
            value: kind(&[Kind::plain("placement", "Placement", Placement::FIELDS)]),
            required: false,
        },
        Field {
            key: Key::Precision,
            value: kind(&[Kind::plain("precision", "Precision", Precision::FIELDS)]),
            required: false,
        },
        Field { key: Key::Batch, value: kind(&[Kind::plain("batch", "Batch", Batch::FIELDS)]), required: true },
        Field { key: Key::Recompute, value: Value::Choice { words: Recompute::WORDS, kinds: &[] }, required: false },
        Field {
            key: Key::Routing,
            value: Value::Choice {
                words: &[Word { word: "balanced", path: "Routing::BALANCED" }],
                kinds: &[
                    Kind { word: "dropless", ty: "Dropless", variant: "Routing::Dropless", fields: Dropless::FIELDS },
                    Kind { word: "capacity", ty: "Capacity", variant: "Routing::Capacity", fields: Capacity::FIELDS },
                ],
            },
            required: false,
        },
        Field {
            key: Key::Accounting,
            value: Value::Choice {
                words: &[
                    Word { word: "paper", path: "Accounting::PAPER" },
                    Word { word: "worked_example", path: "Accounting::WORKED_EXAMPLE" },
                ],
                kinds: &[
                    Kind { word: "paper", ty: "Paper", variant: "Accounting::Paper", fields: Paper::FIELDS },
                    Kind {
                        word: "worked_example",
                        ty: "WorkedExample",
                        variant: "Accounting::WorkedExample",
                        fields: WorkedExample::FIELDS,
                    },
                ],
            },
            required: true,
        },
        Field { key: Key::Device, value: Value::Choice { words: Device::WORDS, kinds: &[] }, required: false },
        Field { key: Key::Headroom, value: Value::Percent, required: false },
    ];
}

/// One architecture under one layout: everything that a budget depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Spec {
    /// What the model is.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub architecture: Architecture,
    /// How it is laid out.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub layout: Layout,
}

impl Spec {
    /// Absent keys at their defaults, required ones at the smallest legal number.
    pub const DEFAULT: Self = Self { architecture: Architecture::DEFAULT, layout: Layout::DEFAULT };

    /// Every leaf as one number, by its key.
    #[must_use]
    pub const fn numbers(&self) -> Numbers {
        let (a, l) = (&self.architecture, &self.layout);
        let mut numbers = Numbers::NONE;
        let n = &mut numbers;
        n.put(Key::Hidden, a.hidden);
        n.put(Key::Vocab, a.vocab);
        n.put(Key::Mtp, a.mtp);
        a.layers.read(n);
        match &a.attention {
            Attention::Mla(mla) => mla.read(n),
            Attention::Gqa(gqa) => gqa.read(n),
        }
        a.experts.read(n);
        l.mesh.read(n);
        l.stages.read(n);
        n.put(Key::Schedule, l.schedule as u64);
        l.zero.read(n);
        l.placement.read(n);
        l.precision.read(n);
        l.batch.read(n);
        n.put(Key::Recompute, l.recompute as u64);
        match &l.routing {
            Routing::Dropless(dropless) => dropless.read(n),
            Routing::Capacity(capacity) => capacity.read(n),
        }
        match &l.accounting {
            Accounting::Paper(paper) => paper.read(n),
            Accounting::WorkedExample(example) => example.read(n),
        }
        n.put(Key::Device, l.device as u64);
        n.put(Key::Headroom, l.headroom.percent);
        numbers
    }

    /// The smallest number that a key may hold, or `None` where the key holds no number.
    #[must_use]
    pub const fn least(key: Key) -> Option<u64> {
        match key {
            Key::Hidden | Key::Vocab => return Some(1),
            Key::Mtp => return Some(0),
            _ => {}
        }
        let groups = [
            Mesh::least(key),
            Mla::least(key),
            Gqa::least(key),
            Layers::least(key),
            Experts::least(key),
            Stages::least(key),
            Batch::least(key),
            Zero::least(key),
            Placement::least(key),
            Precision::least(key),
            Dropless::least(key),
            Capacity::least(key),
            Paper::least(key),
            WorkedExample::least(key),
        ];
        let mut i = 0;
        while i < groups.len() {
            if groups[i].is_some() {
                return groups[i];
            }
            i += 1;
        }
        None
    }

    /// Whether every number is one that its key may hold.
    #[must_use]
    pub const fn is_in_range(&self) -> bool {
        let (a, l) = (&self.architecture, &self.layout);
        let attention = match &a.attention {
            Attention::Mla(mla) => mla.is_in_range(),
            Attention::Gqa(gqa) => gqa.is_in_range(),
        };
        let routing = match &l.routing {
            Routing::Dropless(dropless) => dropless.is_in_range(),
            Routing::Capacity(capacity) => capacity.is_in_range(),
        };
        let accounting = match &l.accounting {
            Accounting::Paper(paper) => paper.is_in_range(),
            Accounting::WorkedExample(example) => example.is_in_range(),
        };
        let top = a.hidden >= 1 && a.hidden <= NUMBER_MAX && a.vocab >= 1 && a.vocab <= NUMBER_MAX;
        top && a.mtp <= NUMBER_MAX
            && attention
            && a.layers.is_in_range()
            && a.experts.is_in_range()
            && l.mesh.is_in_range()
            && l.stages.is_in_range()
            && l.batch.is_in_range()
            && l.zero.is_in_range()
            && l.placement.is_in_range()
            && l.precision.is_in_range()
            && routing
            && accounting
            && l.headroom.percent <= NUMBER_MAX
    }

    /// Writes the leaf behind a key, in the coding of [`Numbers`]; a key that this Spec does not have is left
    /// alone. A bare word in the place of a group (`zero: optimizer`) writes what the word stands for.
    ///
    /// # Panics
    /// If `code` is not the place of a word in the key's list.
    pub const fn set(&mut self, key: Key, code: u64) {
        let (a, l) = (&mut self.architecture, &mut self.layout);
        match key {
            Key::Hidden => a.hidden = code,
            Key::Vocab => a.vocab = code,
            Key::Mtp => a.mtp = code,
            Key::Schedule => l.schedule = Schedule::ALL[code as usize],
            Key::Recompute => l.recompute = Recompute::ALL[code as usize],
            Key::Device => l.device = Device::ALL[code as usize],
            Key::Headroom => l.headroom = percent(code),
            Key::Zero => l.zero = Zero::both(ZeroStage::ALL[code as usize]),
            Key::Stages => l.stages = Stages::EVEN,
            Key::Routing => l.routing = Routing::BALANCED,
            Key::Accounting => self.choose(key, code),
            _ => {
                a.layers.set(key, code);
                match &mut a.attention {
                    Attention::Mla(mla) => mla.set(key, code),
                    Attention::Gqa(gqa) => gqa.set(key, code),
                }
                a.experts.set(key, code);
                l.mesh.set(key, code);
                l.stages.set(key, code);
                l.zero.set(key, code);
                l.placement.set(key, code);
                l.precision.set(key, code);
                l.batch.set(key, code);
                match &mut l.routing {
                    Routing::Dropless(dropless) => dropless.set(key, code),
                    Routing::Capacity(capacity) => capacity.set(key, code),
                }
                match &mut l.accounting {
                    Accounting::Paper(paper) => paper.set(key, code),
                    Accounting::WorkedExample(example) => example.set(key, code),
                }
            }
        }
    }

    /// Chooses a kind by its place in the key's list, all its own keys at their defaults.
    pub const fn choose(&mut self, key: Key, kind: u64) {
        let (a, l) = (&mut self.architecture, &mut self.layout);
        match (key, kind) {
            (Key::Attention, 0) => a.attention = Attention::Mla(Mla::DEFAULT),
            (Key::Attention, _) => a.attention = Attention::Gqa(Gqa::DEFAULT),
            (Key::Layers, _) => a.layers = Layers::DEFAULT,
            (Key::Experts, _) => a.experts = Experts::DEFAULT,
            (Key::Mesh, _) => l.mesh = Mesh::DEFAULT,
            (Key::Stages, _) => l.stages = Stages::DEFAULT,
            (Key::Zero, _) => l.zero = Zero::DEFAULT,
            (Key::Placement, _) => l.placement = Placement::DEFAULT,
            (Key::Precision, _) => l.precision = Precision::DEFAULT,
            (Key::Batch, _) => l.batch = Batch::DEFAULT,
            (Key::Routing, 0) => l.routing = Routing::BALANCED,
            (Key::Routing, _) => l.routing = Routing::Capacity(Capacity::DEFAULT),
            (Key::Accounting, 0) => l.accounting = Accounting::PAPER,
            (Key::Accounting, _) => l.accounting = Accounting::WORKED_EXAMPLE,
            _ => {}
        }
    }
}
