//! `dbrx`: experts in every layer, norms of mean and variance, and its fields in two objects of their own.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::parts::shared_out;
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Experts, Gqa, Layers, Norm};

pub(super) const DBRX: ModelType = ModelType {
    name: "dbrx",
    class: &[r#"["DbrxForCausalLM"]"#],
    naming: &Naming::DBRX,
    idle: Idle {
        only: &[
            // The published code refuses any other.
            ("tie_word_embeddings", &["false"]),
        ],
        ignored: &["emb_pdrop", "max_seq_len", "resid_pdrop"],
    },
    read: dbrx,
};

const ATTENTION: Idle = Idle { only: &[], ignored: &["attn_pdrop", "clip_qkv", "model_type"] };

const EXPERTS: Idle = Idle {
    only: &[("ffn_act_fn", &[r#"{"name":"silu"}"#])],
    ignored: &["model_type", "moe_jitter_eps", "moe_loss_weight", "moe_normalize_expert_weights"],
};

fn dbrx(fields: &mut Fields<'_>) -> Architecture {
    let (hidden, heads) = (fields.number("d_model"), fields.number("n_heads"));
    let head_dim = shared_out(fields, ["n_heads", "d_model"], heads, hidden);
    let kv_heads = fields.nested("attn_config", &ATTENTION, |fields| fields.number("kv_n_heads"));
    let experts = fields.nested("ffn_config", &EXPERTS, |fields| Experts {
        routed: fields.number("moe_num_experts"),
        active: fields.number("moe_top_k"),
        ffn: fields.number("ffn_hidden_size"),
        ..Experts::DEFAULT
    });
    Architecture {
        hidden,
        vocab: fields.number("vocab_size"),
        norm: Norm::Layer,
        layers: Layers { dense: 0, moe: fields.number("n_layers"), ffn: 0, ..Layers::DEFAULT },
        attention: Attention::Gqa(Gqa { heads, kv_heads, head_dim, ..Gqa::DEFAULT }),
        experts,
        ..Architecture::DEFAULT
    }
}
