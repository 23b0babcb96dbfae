//! `llama`: dense layers of grouped-query attention.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::parts::{bias, ends, head_dim, layer_count};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Bias, Gqa, Layers, Switch};

pub(super) const LLAMA: ModelType = ModelType {
    name: "llama",
    class: &[r#"["LlamaForCausalLM"]"#],
    naming: &Naming::LLAMA,
    idle: Idle { only: &[("hidden_act", &[r#""silu""#]), ("mlp_bias", &["false"])], ignored: &[] },
    read: llama,
};

fn llama(fields: &mut Fields<'_>) -> Architecture {
    let ends = ends(fields);
    let heads = fields.number("num_attention_heads");
    // Before there were fewer of them nobody counted them.
    let kv_heads = fields.optional("num_key_value_heads").unwrap_or(heads);
    let head_dim = head_dim(fields, heads, ends.hidden);
    let bias = bias(fields, Bias::All, Switch::Off);
    Architecture {
        layers: Layers {
            dense: layer_count(fields),
            moe: 0,
            ffn: fields.number("intermediate_size"),
            ..Layers::DEFAULT
        },
        attention: Attention::Gqa(Gqa { heads, kv_heads, head_dim, bias, ..Gqa::DEFAULT }),
        ..ends
    }
}
