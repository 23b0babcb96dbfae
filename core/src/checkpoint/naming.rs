//! How checkpoints of a family of models name and pack their tensors: tables of what differs from the names and shapes
//! of `weights.rs`, which are those of most models.
#![cfg_attr(not(feature = "alloc"), allow(dead_code))] // who applies the tables allocates

#[cfg(feature = "alloc")]
use crate::saturating::{add, mul};
#[cfg(feature = "alloc")]
use alloc::{borrow::ToOwned, format, string::String, string::ToString, vec::Vec};

/// How the checkpoints of some models name and pack their tensors.
#[derive(PartialEq, Eq, Debug)]
pub struct Naming {
    /// Its name: that of the `model_type` it comes from.
    pub name: &'static str,
    /// What stands in front of every name of a layer; `{l}` is the layer's number.
    pub(super) layer: &'static str,
    /// What is called otherwise, or packed; several families share some of it.
    pub(super) rules: &'static [&'static [Rule]],
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

/// Where a checkpoint holds a weight that it does not hold under its own name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored {
    /// The tensor's name, behind the layer's; with `{e}` there is one for each expert.
    pub name: &'static str,
    /// The weights that became this tensor, by their names in an inventory.
    pub of: &'static [&'static str],
    /// Which of them it is.
    pub part: usize,
    /// What was done to them, in this order.
    pub how: &'static [Op],
}

/// What is done to a tensor, or to several, on the way into a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// The tensors that it is made of stand behind each other along this dimension.
    Join(usize),
    /// They take turns along this dimension.
    Weave(usize),
    /// The last two dimensions trade places.
    Transpose,
    /// The first two dimensions become one: experts stand as rows below each other.
    Rows,
    /// A first dimension of one.
    Lone,
}

#[cfg(feature = "alloc")]
impl Op {
    /// The shape of what tensors of some shapes become; none where they are not of as many dimensions as that takes.
    #[must_use]
    pub fn shape(how: &[Self], shapes: impl IntoIterator<Item = Vec<u64>>) -> Option<Vec<u64>> {
        let mut shapes = shapes.into_iter();
        let mut shape = shapes.next()?;
        for op in how {
            match op {
                Self::Join(along) | Self::Weave(along) => {
                    for other in shapes.by_ref() {
                        let length = shape.get_mut(*along)?;
                        *length = add(*length, *other.get(*along)?);
                    }
                }
                Self::Transpose => {
                    let last = shape.len().checked_sub(1)?;
                    shape.swap(last.checked_sub(1)?, last);
                }
                Self::Rows if shape.len() < 2 => return None,
                Self::Rows => {
                    let experts = shape.remove(0);
                    shape[0] = mul(shape[0], experts);
                }
                Self::Lone => shape.insert(0, 1),
            }
        }
        Some(shape)
    }
}

/// The expert's number in a name.
pub(super) const EXPERT: &str = "{e}";
/// The layer's number in a name.
pub(super) const LAYER: &str = "{l}";

/// The name of a tensor that no rule speaks of: each expert has its own.
#[cfg(feature = "alloc")]
pub(super) fn plain(name: &str) -> String {
    match name.strip_prefix(EXPERTS) {
        Some(rest) => format!("{EXPERTS}{EXPERT}.{rest}"),
        None => name.to_owned(),
    }
}

/// What names of `weights.rs` begin with that belong to all experts of a layer.
pub(super) const EXPERTS: &str = "mlp.experts.";

/// What multi-token-prediction modules hold of the model once more, and under which name (DeepSeek-V3, GLM-4.5).
pub(super) const MTP_COPIES: &[(&str, &str)] =
    &[("model.embed_tokens.weight", "embed_tokens.weight"), ("lm_head.weight", "shared_head.head.weight")];

/// What checkpoints quantise in blocks, if they quantise: projections of attention, and feed-forward networks of any kind;
/// of an indexer the projections of its query and key (DeepSeek-V3.2's `inference/model.py`).
pub(super) const IN_BLOCKS: &[&str] = &[
    "self_attn.q_proj.weight",
    "self_attn.k_proj.weight",
    "self_attn.v_proj.weight",
    "self_attn.o_proj.weight",
    "self_attn.q_a_proj.weight",
    "self_attn.q_b_proj.weight",
    "self_attn.kv_a_proj_with_mqa.weight",
    "self_attn.kv_b_proj.weight",
    "self_attn.indexer.wq_b.weight",
    "self_attn.indexer.wk.weight",
    "mlp.gate_proj.weight",
    "mlp.up_proj.weight",
    "mlp.down_proj.weight",
    "mlp.experts.gate_proj.weight",
    "mlp.experts.up_proj.weight",
    "mlp.experts.down_proj.weight",
    "mlp.shared_experts.gate_proj.weight",
    "mlp.shared_experts.up_proj.weight",
    "mlp.shared_experts.down_proj.weight",
];

const MODEL_LAYERS: &str = "model.layers.{l}.";

const GATE_AND_UP: &[&str] = &["mlp.experts.gate_proj.weight", "mlp.experts.up_proj.weight"];
const GATE_AND_UP_BIAS: &[&str] = &["mlp.experts.gate_proj.bias", "mlp.experts.up_proj.bias"];
const GATE: &[&str] = &["mlp.experts.gate_proj.weight"];
const UP: &[&str] = &["mlp.experts.up_proj.weight"];
const DOWN: &[&str] = &["mlp.experts.down_proj.weight"];
const ROUTER: &[&str] = &["mlp.gate.weight"];
const CORRECTION_BIAS: &[&str] = &["mlp.gate.e_score_correction_bias"];
const SHARED_GATE: &[&str] = &["mlp.shared_experts.gate_proj.weight"];
const SHARED_UP: &[&str] = &["mlp.shared_experts.up_proj.weight"];
const SHARED_DOWN: &[&str] = &["mlp.shared_experts.down_proj.weight"];
const DENSE_GATE: &[&str] = &["mlp.gate_proj.weight"];
const DENSE_UP: &[&str] = &["mlp.up_proj.weight"];
const DENSE_DOWN: &[&str] = &["mlp.down_proj.weight"];
const EMBEDDING: &[&str] = &["model.embed_tokens.weight"];
const LAST_NORM: &[&str] = &["model.norm.weight"];
const MIXER_NORM: &[&str] = &["input_layernorm.weight"];
const FFN_NORM: &[&str] = &["post_attention_layernorm.weight"];
const QKV: &[&str] = &["self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"];

const fn rule(from: &'static [&'static str], to: &'static str, how: &'static [Op]) -> Rule {
    Rule { from, to, how }
}

const MIXTRAL_EXPERTS: &[Rule] = &[
    rule(ROUTER, "block_sparse_moe.gate.weight", &[]),
    rule(GATE, "block_sparse_moe.experts.{e}.w1.weight", &[]),
    rule(UP, "block_sparse_moe.experts.{e}.w3.weight", &[]),
    rule(DOWN, "block_sparse_moe.experts.{e}.w2.weight", &[]),
];

const ONE_SHARED_EXPERT: &[Rule] = &[
    rule(SHARED_GATE, "mlp.shared_expert.gate_proj.weight", &[]),
    rule(SHARED_UP, "mlp.shared_expert.up_proj.weight", &[]),
    rule(SHARED_DOWN, "mlp.shared_expert.down_proj.weight", &[]),
];

impl Naming {
    /// The names that most models took over from Llama: dense ones, Qwen3, OLMoE, and with experts DeepSeek, Kimi,
    /// GLM and dots; each expert by itself. Multi-token-prediction modules are further layers, as DeepSeek's are.
    pub const LLAMA: Self = Self { name: "llama", layer: MODEL_LAYERS, rules: &[] };

    /// Mixtral's, which Phi-3.5-MoE and MiniMax took over.
    pub const MIXTRAL: Self = Self {
        name: "mixtral",
        layer: MODEL_LAYERS,
        rules: &[MIXTRAL_EXPERTS, &[rule(CORRECTION_BIAS, "block_sparse_moe.e_score_correction_bias", &[])]],
    };

    /// Qwen1.5-MoE's, Qwen2-MoE's and Qwen3.5's: there is one shared expert.
    pub const QWEN2_MOE: Self = Self { name: "qwen2_moe", layer: MODEL_LAYERS, rules: &[ONE_SHARED_EXPERT] };

    /// Qwen3-Next's: what linear attention projects stands in two matrices.
    pub const QWEN3_NEXT: Self = Self {
        name: "qwen3_next",
        layer: MODEL_LAYERS,
        rules: &[
            ONE_SHARED_EXPERT,
            &[
                rule(
                    &["linear_attn.in_proj_qkv.weight", "linear_attn.in_proj_z.weight"],
                    "linear_attn.in_proj_qkvz.weight",
                    &[Op::Join(0)],
                ),
                rule(
                    &["linear_attn.in_proj_b.weight", "linear_attn.in_proj_a.weight"],
                    "linear_attn.in_proj_ba.weight",
                    &[Op::Join(0)],
                ),
            ],
        ],
    };

    /// gpt-oss's: all experts in one tensor, gate and up in one, inputs as rows.
    pub const GPT_OSS: Self = Self {
        name: "gpt_oss",
        layer: MODEL_LAYERS,
        rules: &[&[
            rule(ROUTER, "mlp.router.weight", &[]),
            rule(&["mlp.gate.bias"], "mlp.router.bias", &[]),
            rule(GATE_AND_UP, "mlp.experts.gate_up_proj", &[Op::Weave(1), Op::Transpose]),
            rule(GATE_AND_UP_BIAS, "mlp.experts.gate_up_proj_bias", &[Op::Weave(1)]),
            rule(DOWN, "mlp.experts.down_proj", &[Op::Transpose]),
            rule(&["mlp.experts.down_proj.bias"], "mlp.experts.down_proj_bias", &[]),
        ]],
    };

    /// Granite 3's: all experts in one tensor, gate and up in one.
    pub const GRANITEMOE: Self = Self {
        name: "granitemoe",
        layer: MODEL_LAYERS,
        rules: &[&[
            rule(ROUTER, "block_sparse_moe.router.layer.weight", &[]),
            rule(GATE_AND_UP, "block_sparse_moe.input_linear.weight", &[Op::Join(1)]),
            rule(DOWN, "block_sparse_moe.output_linear.weight", &[]),
        ]],
    };

    /// DBRX's: query, key and value in one matrix, experts as rows of one.
    pub const DBRX: Self = Self {
        name: "dbrx",
        layer: "transformer.blocks.{l}.",
        rules: &[&[
            rule(EMBEDDING, "transformer.wte.weight", &[]),
            rule(LAST_NORM, "transformer.norm_f.weight", &[]),
            rule(MIXER_NORM, "norm_attn_norm.norm_1.weight", &[]),
            rule(FFN_NORM, "norm_attn_norm.norm_2.weight", &[]),
            rule(QKV, "norm_attn_norm.attn.Wqkv.weight", &[Op::Join(0)]),
            rule(&["self_attn.o_proj.weight"], "norm_attn_norm.attn.out_proj.weight", &[]),
            rule(ROUTER, "ffn.router.layer.weight", &[]),
            rule(GATE, "ffn.experts.mlp.w1", &[Op::Rows]),
            rule(UP, "ffn.experts.mlp.v1", &[Op::Rows]),
            rule(DOWN, "ffn.experts.mlp.w2", &[Op::Transpose, Op::Rows]),
        ]],
    };

    /// Llama 4's: all routed experts in one tensor, gate and up in one, inputs as rows.
    pub const LLAMA4: Self = Self {
        name: "llama4",
        layer: MODEL_LAYERS,
        rules: &[&[
            rule(ROUTER, "feed_forward.router.weight", &[]),
            rule(GATE_AND_UP, "feed_forward.experts.gate_up_proj", &[Op::Join(1), Op::Transpose]),
            rule(DOWN, "feed_forward.experts.down_proj", &[Op::Transpose]),
            rule(SHARED_GATE, "feed_forward.shared_expert.gate_proj.weight", &[]),
            rule(SHARED_UP, "feed_forward.shared_expert.up_proj.weight", &[]),
            rule(SHARED_DOWN, "feed_forward.shared_expert.down_proj.weight", &[]),
            rule(DENSE_GATE, "feed_forward.gate_proj.weight", &[]),
            rule(DENSE_UP, "feed_forward.up_proj.weight", &[]),
            rule(DENSE_DOWN, "feed_forward.down_proj.weight", &[]),
        ]],
    };

    /// Grok-1's, as its Haiku modules name them: inputs as rows everywhere.
    pub const GROK_1: Self = Self {
        name: "grok-1",
        layer: "transformer/decoder_layer_{l}/",
        rules: &[&[
            rule(EMBEDDING, "language_model/in_out_embed/embeddings", &[]),
            rule(LAST_NORM, "language_model/rms_norm/scale", &[]),
            rule(MIXER_NORM, "rms_norm/scale", &[]),
            rule(FFN_NORM, "rms_norm_1/scale", &[]),
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
        ]],
    };

    /// Hunyuan-A13B's and Hunyuan-Large's.
    pub const HUNYUAN_V1_MOE: Self = Self {
        name: "hunyuan_v1_moe",
        layer: MODEL_LAYERS,
        rules: &[&[
            rule(ROUTER, "mlp.gate.wg.weight", &[]),
            rule(&["self_attn.q_norm.weight"], "self_attn.query_layernorm.weight", &[]),
            rule(&["self_attn.k_norm.weight"], "self_attn.key_layernorm.weight", &[]),
            rule(SHARED_GATE, "mlp.shared_mlp.gate_proj.weight", &[]),
            rule(SHARED_UP, "mlp.shared_mlp.up_proj.weight", &[]),
            rule(SHARED_DOWN, "mlp.shared_mlp.down_proj.weight", &[]),
        ]],
    };

    /// ERNIE 4.5's: the correction bias is a matrix of one row.
    pub const ERNIE4_5_MOE: Self = Self {
        name: "ernie4_5_moe",
        layer: MODEL_LAYERS,
        rules: &[&[rule(CORRECTION_BIAS, "mlp.moe_statics.e_score_correction_bias", &[Op::Lone])]],
    };

    /// Jamba's.
    pub const JAMBA: Self = Self {
        name: "jamba",
        layer: MODEL_LAYERS,
        rules: &[&[
            rule(LAST_NORM, "model.final_layernorm.weight", &[]),
            rule(FFN_NORM, "pre_ff_layernorm.weight", &[]),
            rule(ROUTER, "feed_forward.router.weight", &[]),
            rule(GATE, "feed_forward.experts.{e}.gate_proj.weight", &[]),
            rule(UP, "feed_forward.experts.{e}.up_proj.weight", &[]),
            rule(DOWN, "feed_forward.experts.{e}.down_proj.weight", &[]),
            rule(DENSE_GATE, "feed_forward.gate_proj.weight", &[]),
            rule(DENSE_UP, "feed_forward.up_proj.weight", &[]),
            rule(DENSE_DOWN, "feed_forward.down_proj.weight", &[]),
        ]],
    };

    /// MiMo-V2-Flash's.
    pub const MIMO_V2_FLASH: Self = Self {
        name: "mimo_v2_flash",
        layer: MODEL_LAYERS,
        rules: &[&[rule(&["self_attn.sinks"], "self_attn.attention_sink_bias", &[])]],
    };

    /// Nemotron-H's: each layer is one block, whatever it is, with one norm.
    pub const NEMOTRON_H: Self = Self {
        name: "nemotron_h",
        layer: "backbone.layers.{l}.",
        rules: &[&[
            rule(EMBEDDING, "backbone.embeddings.weight", &[]),
            rule(LAST_NORM, "backbone.norm_f.weight", &[]),
            rule(MIXER_NORM, "norm.weight", &[]),
            rule(&["mamba.in_proj.weight"], "mixer.in_proj.weight", &[]),
            rule(&["mamba.conv1d.weight"], "mixer.conv1d.weight", &[]),
            rule(&["mamba.conv1d.bias"], "mixer.conv1d.bias", &[]),
            rule(&["mamba.A_log"], "mixer.A_log", &[]),
            rule(&["mamba.D"], "mixer.D", &[]),
            rule(&["mamba.dt_bias"], "mixer.dt_bias", &[]),
            rule(&["mamba.norm.weight"], "mixer.norm.weight", &[]),
            rule(&["mamba.out_proj.weight"], "mixer.out_proj.weight", &[]),
            rule(&["self_attn.q_proj.weight"], "mixer.q_proj.weight", &[]),
            rule(&["self_attn.k_proj.weight"], "mixer.k_proj.weight", &[]),
            rule(&["self_attn.v_proj.weight"], "mixer.v_proj.weight", &[]),
            rule(&["self_attn.o_proj.weight"], "mixer.o_proj.weight", &[]),
            rule(ROUTER, "mixer.gate.weight", &[]),
            rule(CORRECTION_BIAS, "mixer.gate.e_score_correction_bias", &[]),
            rule(&["mlp.fc1_latent_proj.weight"], "mixer.fc1_latent_proj.weight", &[]),
            rule(&["mlp.fc2_latent_proj.weight"], "mixer.fc2_latent_proj.weight", &[]),
            rule(UP, "mixer.experts.{e}.up_proj.weight", &[]),
            rule(DOWN, "mixer.experts.{e}.down_proj.weight", &[]),
            rule(SHARED_UP, "mixer.shared_experts.up_proj.weight", &[]),
            rule(SHARED_DOWN, "mixer.shared_experts.down_proj.weight", &[]),
            rule(DENSE_UP, "mixer.up_proj.weight", &[]),
            rule(DENSE_DOWN, "mixer.down_proj.weight", &[]),
        ]],
    };

    /// Gemma 4's: all experts in one tensor, gate and up in one.
    pub const GEMMA4: Self = Self {
        name: "gemma4",
        layer: MODEL_LAYERS,
        rules: &[&[
            rule(ROUTER, "router.proj.weight", &[]),
            rule(&["mlp.gate.scale"], "router.scale", &[]),
            rule(&["mlp.gate.per_expert_scale"], "router.per_expert_scale", &[]),
            rule(GATE_AND_UP, "experts.gate_up_proj", &[Op::Join(1)]),
            rule(DOWN, "experts.down_proj", &[]),
        ]],
    };

    /// DeepSeek-V4's, as transformers saves it; DeepSeek's own have no `model.` in front.
    pub const DEEPSEEK_V4: Self = Self {
        name: "deepseek_v4",
        layer: MODEL_LAYERS,
        rules: &[&[
            rule(&["lm_head.weight"], "head.weight", &[]),
            rule(MIXER_NORM, "attn_norm.weight", &[]),
            rule(FFN_NORM, "ffn_norm.weight", &[]),
            rule(&["self_attn.q_a_proj.weight"], "attn.wq_a.weight", &[]),
            rule(&["self_attn.q_a_layernorm.weight"], "attn.q_norm.weight", &[]),
            rule(&["self_attn.q_b_proj.weight"], "attn.wq_b.weight", &[]),
            rule(&["self_attn.kv_proj.weight"], "attn.wkv.weight", &[]),
            rule(&["self_attn.kv_norm.weight"], "attn.norm.weight", &[]),
            rule(&["self_attn.sinks"], "attn.attn_sink", &[]),
            rule(&["self_attn.o_a_proj.weight"], "attn.wo_a.weight", &[]),
            rule(&["self_attn.o_b_proj.weight"], "attn.wo_b.weight", &[]),
            rule(&["self_attn.compressor.kv_proj.weight"], "attn.compressor.wkv.weight", &[]),
            rule(&["self_attn.compressor.gate_proj.weight"], "attn.compressor.wgate.weight", &[]),
            rule(&["self_attn.compressor.position_bias"], "attn.compressor.ape", &[]),
            rule(&["self_attn.compressor.norm.weight"], "attn.compressor.norm.weight", &[]),
            rule(&["self_attn.indexer.wq_b.weight"], "attn.indexer.wq_b.weight", &[]),
            rule(&["self_attn.indexer.weights_proj.weight"], "attn.indexer.weights_proj.weight", &[]),
            rule(&["self_attn.indexer.compressor.kv_proj.weight"], "attn.indexer.compressor.wkv.weight", &[]),
            rule(&["self_attn.indexer.compressor.gate_proj.weight"], "attn.indexer.compressor.wgate.weight", &[]),
            rule(&["self_attn.indexer.compressor.position_bias"], "attn.indexer.compressor.ape", &[]),
            rule(&["self_attn.indexer.compressor.norm.weight"], "attn.indexer.compressor.norm.weight", &[]),
            rule(ROUTER, "ffn.gate.weight", &[]),
            rule(CORRECTION_BIAS, "ffn.gate.bias", &[]),
            rule(&["mlp.gate.tid2eid"], "ffn.gate.tid2eid", &[]),
            rule(GATE, "ffn.experts.{e}.w1.weight", &[]),
            rule(UP, "ffn.experts.{e}.w3.weight", &[]),
            rule(DOWN, "ffn.experts.{e}.w2.weight", &[]),
            rule(SHARED_GATE, "ffn.shared_experts.w1.weight", &[]),
            rule(SHARED_UP, "ffn.shared_experts.w3.weight", &[]),
            rule(SHARED_DOWN, "ffn.shared_experts.w2.weight", &[]),
        ]],
    };

    /// Arctic's: the network beside the experts is a residual of its own.
    pub const ARCTIC: Self = Self {
        name: "arctic",
        layer: MODEL_LAYERS,
        rules: &[
            MIXTRAL_EXPERTS,
            &[
                rule(&["pre_feedforward_layernorm.weight"], "residual_layernorm.weight", &[]),
                rule(DENSE_GATE, "residual_mlp.w1.weight", &[]),
                rule(DENSE_UP, "residual_mlp.w3.weight", &[]),
                rule(DENSE_DOWN, "residual_mlp.w2.weight", &[]),
            ],
        ],
    };

    /// Kimi Linear's, as transformers saves it.
    pub const KIMI_LINEAR: Self = Self {
        name: "kimi_linear",
        layer: MODEL_LAYERS,
        rules: &[
            MIXTRAL_EXPERTS,
            &[
                rule(CORRECTION_BIAS, "block_sparse_moe.gate.e_score_correction_bias", &[]),
                rule(SHARED_GATE, "block_sparse_moe.shared_experts.gate_proj.weight", &[]),
                rule(SHARED_UP, "block_sparse_moe.shared_experts.up_proj.weight", &[]),
                rule(SHARED_DOWN, "block_sparse_moe.shared_experts.down_proj.weight", &[]),
                rule(DENSE_GATE, "block_sparse_moe.gate_proj.weight", &[]),
                rule(DENSE_UP, "block_sparse_moe.up_proj.weight", &[]),
                rule(DENSE_DOWN, "block_sparse_moe.down_proj.weight", &[]),
            ],
        ],
    };

    /// LongCat-Flash's: of two blocks in a layer each thing stands twice, under its number.
    pub const LONGCAT_FLASH: Self = Self {
        name: "longcat_flash",
        layer: MODEL_LAYERS,
        rules: &[&[
            rule(ROUTER, "mlp.router.classifier.weight", &[]),
            rule(CORRECTION_BIAS, "mlp.router.e_score_correction_bias", &[]),
            rule(DENSE_GATE, "mlps.gate_proj.weight", &[]),
            rule(DENSE_UP, "mlps.up_proj.weight", &[]),
            rule(DENSE_DOWN, "mlps.down_proj.weight", &[]),
        ]],
    };

    /// Every one.
    pub const ALL: &'static [&'static Self] = &[
        &Self::LLAMA,
        &Self::MIXTRAL,
        &Self::QWEN2_MOE,
        &Self::QWEN3_NEXT,
        &Self::GPT_OSS,
        &Self::GRANITEMOE,
        &Self::DBRX,
        &Self::LLAMA4,
        &Self::GROK_1,
        &Self::HUNYUAN_V1_MOE,
        &Self::ERNIE4_5_MOE,
        &Self::JAMBA,
        &Self::MIMO_V2_FLASH,
        &Self::NEMOTRON_H,
        &Self::GEMMA4,
        &Self::DEEPSEEK_V4,
        &Self::ARCTIC,
        &Self::KIMI_LINEAR,
        &Self::LONGCAT_FLASH,
    ];

    /// What stands in front of the names of a layer, `{l}` in the place of its number.
    #[must_use]
    pub const fn layer(&self) -> &'static str {
        self.layer
    }

    /// Where a checkpoint holds a weight, by its name in an inventory.
    #[must_use]
    pub fn stored(&self, name: &str) -> Option<Stored> {
        let rule = self.rules.iter().copied().flatten().find(|rule| rule.from.contains(&name))?;
        let part = rule.from.iter().position(|from| *from == name)?;
        Some(Stored { name: rule.to, of: rule.from, part, how: rule.how })
    }

    /// The name that a checkpoint has for a weight of a layer, or of the model beside its layers, by its name in an
    /// inventory: with `{e}` there is one for each expert. Of layers of two blocks, for one of them.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn file_name(&self, name: &str, layer: Option<u64>, block: Option<u64>) -> String {
        let front = layer.map_or_else(String::new, |layer| self.layer.replace(LAYER, &layer.to_string()));
        let behind = self.stored(name).map_or_else(|| plain(name), |stored| stored.name.to_owned());
        match (block, behind.split_once('.')) {
            (Some(block), Some((module, rest))) => format!("{front}{module}.{block}.{rest}"),
            (Some(block), None) => format!("{front}{behind}.{block}"),
            (None, _) => front + &behind,
        }
    }

    /// What modules for multi-token prediction hold of the model once more, by its name in an inventory and its name in the
    /// module.
    #[must_use]
    pub const fn mtp_copies() -> &'static [(&'static str, &'static str)] {
        MTP_COPIES
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().copied().find(|naming| naming.name == name)
    }
}
