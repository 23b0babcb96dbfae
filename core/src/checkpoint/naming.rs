//! How checkpoints of a family of models name and pack their tensors: tables of what differs from the names and shapes
//! of `weights.rs`, which are those of most models.
#![cfg_attr(not(feature = "alloc"), allow(dead_code))] // who applies the tables allocates

/// How the checkpoints of some models name and pack their tensors.
#[derive(PartialEq, Eq, Debug)]
pub struct Naming {
    /// Its name: that of the `model_type` it comes from.
    pub name: &'static str,
    /// What stands in front of every name of a layer; `{l}` is the layer's number.
    pub(super) layer: &'static str,
    /// What is called otherwise, or packed.
    pub(super) rules: &'static [Rule],
}

/// One tensor of a checkpoint, where it is not as `weights.rs` has it.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Rule {
    /// What it is made of, by the names of `weights.rs`.
    pub(super) from: &'static [&'static str],
    /// Its name, behind the layer's. Where it holds `{e}` there is one for each expert.
    pub(super) to: &'static str,
    /// What is done to its shape, in this order.
    pub(super) how: &'static [Op],
}

/// What is done to a shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op {
    /// The tensors that it is made of stand behind each other along this dimension.
    Join(usize),
    /// The last two dimensions trade places.
    Transpose,
    /// The first two dimensions become one: experts stand as rows below each other.
    Rows,
    /// A first dimension of one.
    Lone,
}

/// The expert's number in a name.
pub(super) const EXPERT: &str = "{e}";
/// The layer's number in a name.
pub(super) const LAYER: &str = "{l}";

/// What names of `weights.rs` begin with that belong to all experts of a layer.
pub(super) const EXPERTS: &str = "mlp.experts.";

/// What multi-token-prediction modules hold of the model once more, and under which name (DeepSeek-V3, GLM-4.5).
pub(super) const MTP_COPIES: &[(&str, &str)] =
    &[("model.embed_tokens.weight", "embed_tokens.weight"), ("lm_head.weight", "shared_head.head.weight")];

const MODEL_LAYERS: &str = "model.layers.{l}.";

const GATE_AND_UP: &[&str] = &["mlp.experts.gate_proj.weight", "mlp.experts.up_proj.weight"];
const GATE_AND_UP_BIAS: &[&str] = &["mlp.experts.gate_proj.bias", "mlp.experts.up_proj.bias"];
const GATE: &[&str] = &["mlp.experts.gate_proj.weight"];
const UP: &[&str] = &["mlp.experts.up_proj.weight"];
const DOWN: &[&str] = &["mlp.experts.down_proj.weight"];
const ROUTER: &[&str] = &["mlp.gate.weight"];
const CORRECTION_BIAS: &[&str] = &["mlp.gate.e_score_correction_bias"];
const QKV: &[&str] = &["self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"];

const fn rule(from: &'static [&'static str], to: &'static str, how: &'static [Op]) -> Rule {
    Rule { from, to, how }
}

impl Naming {
    /// The names that most models took over from Llama: dense ones, Qwen3, OLMoE, and with experts DeepSeek, Kimi,
    /// GLM and dots; each expert by itself. Multi-token-prediction modules are further layers, as DeepSeek's are.
    pub const LLAMA: Self = Self { name: "llama", layer: MODEL_LAYERS, rules: &[] };

    /// Mixtral's, which Phi-3.5-MoE and MiniMax-M2 took over.
    pub const MIXTRAL: Self = Self {
        name: "mixtral",
        layer: MODEL_LAYERS,
        rules: &[
            rule(ROUTER, "block_sparse_moe.gate.weight", &[]),
            rule(CORRECTION_BIAS, "block_sparse_moe.e_score_correction_bias", &[]),
            rule(GATE, "block_sparse_moe.experts.{e}.w1.weight", &[]),
            rule(UP, "block_sparse_moe.experts.{e}.w3.weight", &[]),
            rule(DOWN, "block_sparse_moe.experts.{e}.w2.weight", &[]),
        ],
    };

    /// Qwen1.5-MoE's and Qwen2-MoE's: there is one shared expert.
    pub const QWEN2_MOE: Self = Self {
        name: "qwen2_moe",
        layer: MODEL_LAYERS,
        rules: &[
            rule(&["mlp.shared_experts.gate_proj.weight"], "mlp.shared_expert.gate_proj.weight", &[]),
            rule(&["mlp.shared_experts.up_proj.weight"], "mlp.shared_expert.up_proj.weight", &[]),
            rule(&["mlp.shared_experts.down_proj.weight"], "mlp.shared_expert.down_proj.weight", &[]),
        ],
    };

    /// gpt-oss's: all experts in one tensor, gate and up in one, inputs as rows.
    pub const GPT_OSS: Self = Self {
        name: "gpt_oss",
        layer: MODEL_LAYERS,
        rules: &[
            rule(ROUTER, "mlp.router.weight", &[]),
            rule(&["mlp.gate.bias"], "mlp.router.bias", &[]),
            rule(GATE_AND_UP, "mlp.experts.gate_up_proj", &[Op::Join(1), Op::Transpose]),
            rule(GATE_AND_UP_BIAS, "mlp.experts.gate_up_proj_bias", &[Op::Join(1)]),
            rule(DOWN, "mlp.experts.down_proj", &[Op::Transpose]),
            rule(&["mlp.experts.down_proj.bias"], "mlp.experts.down_proj_bias", &[]),
        ],
    };

    /// Granite 3's: all experts in one tensor, gate and up in one.
    pub const GRANITEMOE: Self = Self {
        name: "granitemoe",
        layer: MODEL_LAYERS,
        rules: &[
            rule(ROUTER, "block_sparse_moe.router.layer.weight", &[]),
            rule(GATE_AND_UP, "block_sparse_moe.input_linear.weight", &[Op::Join(1)]),
            rule(DOWN, "block_sparse_moe.output_linear.weight", &[]),
        ],
    };

    /// DBRX's: query, key and value in one matrix, experts as rows of one.
    pub const DBRX: Self = Self {
        name: "dbrx",
        layer: "transformer.blocks.{l}.",
        rules: &[
            rule(&["model.embed_tokens.weight"], "transformer.wte.weight", &[]),
            rule(&["model.norm.weight"], "transformer.norm_f.weight", &[]),
            rule(&["input_layernorm.weight"], "norm_attn_norm.norm_1.weight", &[]),
            rule(&["post_attention_layernorm.weight"], "norm_attn_norm.norm_2.weight", &[]),
            rule(QKV, "norm_attn_norm.attn.Wqkv.weight", &[Op::Join(0)]),
            rule(&["self_attn.o_proj.weight"], "norm_attn_norm.attn.out_proj.weight", &[]),
            rule(ROUTER, "ffn.router.layer.weight", &[]),
            rule(GATE, "ffn.experts.mlp.w1", &[Op::Rows]),
            rule(UP, "ffn.experts.mlp.v1", &[Op::Rows]),
            rule(DOWN, "ffn.experts.mlp.w2", &[Op::Transpose, Op::Rows]),
        ],
    };

    /// Llama 4's: all routed experts in one tensor, gate and up in one, inputs as rows.
    pub const LLAMA4: Self = Self {
        name: "llama4",
        layer: MODEL_LAYERS,
        rules: &[
            rule(ROUTER, "feed_forward.router.weight", &[]),
            rule(GATE_AND_UP, "feed_forward.experts.gate_up_proj", &[Op::Join(1), Op::Transpose]),
            rule(DOWN, "feed_forward.experts.down_proj", &[Op::Transpose]),
            rule(&["mlp.shared_experts.gate_proj.weight"], "feed_forward.shared_expert.gate_proj.weight", &[]),
            rule(&["mlp.shared_experts.up_proj.weight"], "feed_forward.shared_expert.up_proj.weight", &[]),
            rule(&["mlp.shared_experts.down_proj.weight"], "feed_forward.shared_expert.down_proj.weight", &[]),
            rule(&["mlp.gate_proj.weight"], "feed_forward.gate_proj.weight", &[]),
            rule(&["mlp.up_proj.weight"], "feed_forward.up_proj.weight", &[]),
            rule(&["mlp.down_proj.weight"], "feed_forward.down_proj.weight", &[]),
        ],
    };

    /// Grok-1's, as its Haiku modules name them: inputs as rows everywhere.
    pub const GROK_1: Self = Self {
        name: "grok-1",
        layer: "transformer/decoder_layer_{l}/",
        rules: &[
            rule(&["model.embed_tokens.weight"], "language_model/in_out_embed/embeddings", &[]),
            rule(&["model.norm.weight"], "language_model/rms_norm/scale", &[]),
            rule(&["input_layernorm.weight"], "rms_norm/scale", &[]),
            rule(&["post_attention_layernorm.weight"], "rms_norm_1/scale", &[]),
            rule(&["pre_feedforward_layernorm.weight"], "rms_norm_2/scale", &[]),
            rule(&["post_feedforward_layernorm.weight"], "rms_norm_3/scale", &[]),
            rule(&["self_attn.q_proj.weight"], "multi_head_attention/query/w", &[Op::Transpose]),
            rule(&["self_attn.k_proj.weight"], "multi_head_attention/key/w", &[Op::Transpose]),
            rule(&["self_attn.v_proj.weight"], "multi_head_attention/value/w", &[Op::Transpose]),
            rule(&["self_attn.o_proj.weight"], "multi_head_attention/linear/w", &[Op::Transpose]),
            rule(ROUTER, "router/w", &[Op::Transpose]),
            rule(GATE, "moe/linear/w", &[Op::Transpose]),
            rule(UP, "moe/linear_v/w", &[Op::Transpose]),
            rule(DOWN, "moe/linear_1/w", &[Op::Transpose]),
        ],
    };

    /// Hunyuan-A13B's.
    pub const HUNYUAN_V1_MOE: Self = Self {
        name: "hunyuan_v1_moe",
        layer: MODEL_LAYERS,
        rules: &[
            rule(ROUTER, "mlp.gate.wg.weight", &[]),
            rule(&["self_attn.q_norm.weight"], "self_attn.query_layernorm.weight", &[]),
            rule(&["self_attn.k_norm.weight"], "self_attn.key_layernorm.weight", &[]),
            rule(&["mlp.shared_experts.gate_proj.weight"], "mlp.shared_mlp.gate_proj.weight", &[]),
            rule(&["mlp.shared_experts.up_proj.weight"], "mlp.shared_mlp.up_proj.weight", &[]),
            rule(&["mlp.shared_experts.down_proj.weight"], "mlp.shared_mlp.down_proj.weight", &[]),
        ],
    };

    /// ERNIE 4.5's: the correction bias is a matrix of one row.
    pub const ERNIE4_5_MOE: Self = Self {
        name: "ernie4_5_moe",
        layer: MODEL_LAYERS,
        rules: &[rule(CORRECTION_BIAS, "mlp.moe_statics.e_score_correction_bias", &[Op::Lone])],
    };

    /// Every one.
    pub const ALL: &'static [&'static Self] = &[
        &Self::LLAMA,
        &Self::MIXTRAL,
        &Self::QWEN2_MOE,
        &Self::GPT_OSS,
        &Self::GRANITEMOE,
        &Self::DBRX,
        &Self::LLAMA4,
        &Self::GROK_1,
        &Self::HUNYUAN_V1_MOE,
        &Self::ERNIE4_5_MOE,
    ];

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().copied().find(|naming| naming.name == name)
    }
}
