//! `llama`: dense layers of grouped-query attention.

use super::ModelType;
use super::fields::Fields;
use super::parts::{gqa, layer_count};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Experts, Layers};

pub(super) const LLAMA: ModelType = ModelType {
    name: "llama",
    naming: &Naming::LLAMA,
    only: &[
        ("architectures", &[r#"["LlamaForCausalLM"]"#]),
        ("attention_bias", &["false"]),
        ("hidden_act", &[r#""silu""#]),
        ("mlp_bias", &["false"]),
        ("tie_word_embeddings", &["false"]),
    ],
    ignored: &[],
    read: llama,
};

fn llama(fields: &mut Fields<'_>) -> Architecture {
    let (hidden, heads) = (fields.number("hidden_size"), fields.number("num_attention_heads"));
    // Before there were fewer of them nobody counted them.
    let kv_heads = fields.optional("num_key_value_heads").unwrap_or(heads);
    Architecture {
        hidden,
        vocab: fields.number("vocab_size"),
        layers: Layers { dense: layer_count(fields), moe: 0, ffn: fields.number("intermediate_size") },
        attention: Attention::Gqa(gqa(fields, hidden, heads, kv_heads)),
        experts: Experts::DEFAULT,
        mtp: 0,
        ..Architecture::DEFAULT
    }
}
