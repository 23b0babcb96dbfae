//! `mixtral`: experts in every layer; `intermediate_size` is the width of one.

use super::ModelType;
use super::fields::Fields;
use super::parts::{gqa, layer_count};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Experts, Layers};

pub(super) const MIXTRAL: ModelType = ModelType {
    name: "mixtral",
    naming: &Naming::MIXTRAL,
    only: &[
        ("architectures", &[r#"["MixtralForCausalLM"]"#]),
        ("hidden_act", &[r#""silu""#]),
        // A window changes no weight, but what attention keeps.
        ("sliding_window", &[]),
        ("tie_word_embeddings", &["false"]),
    ],
    ignored: &["router_jitter_noise"],
    read: mixtral,
};

fn mixtral(fields: &mut Fields<'_>) -> Architecture {
    let (hidden, heads) = (fields.number("hidden_size"), fields.number("num_attention_heads"));
    let kv_heads = fields.number("num_key_value_heads");
    Architecture {
        hidden,
        vocab: fields.number("vocab_size"),
        layers: Layers { dense: 0, moe: layer_count(fields), ffn: 0 },
        attention: Attention::Gqa(gqa(fields, hidden, heads, kv_heads)),
        experts: Experts {
            routed: fields.number("num_local_experts"),
            active: fields.number("num_experts_per_tok"),
            ffn: fields.number("intermediate_size"),
            ..Experts::DEFAULT
        },
        mtp: 0,
        ..Architecture::DEFAULT
    }
}
