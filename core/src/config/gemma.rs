//! `gemma4` (Gemma 4 with experts): the text decoder, whose layers with a window have heads of their own, and a dense
//! network beside the experts of each.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::lists::{blocks, listed, listed_count, mixer, pairs};
use super::parts::{around, bias, ends, gqa_of_width, text};
use crate::checkpoint::Naming;
use crate::spec::{
    Architecture, Attention, Beside, Bias, Experts, Gqa, LayerKind, Layers, LocalGqa, Mixer, QkNorm, Switch,
};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::vec::Vec;

pub(super) const GEMMA4: ModelType = ModelType {
    name: "gemma4",
    class: &[r#"["Gemma4ForConditionalGeneration"]"#],
    naming: &Naming::GEMMA4,
    idle: Idle {
        only: &[],
        // Tokens with a role, and the towers for images and sound, which are no part of the decoder.
        ignored: &[
            "audio_config",
            "audio_token_id",
            "boa_token_id",
            "boi_token_id",
            "eoa_token_id",
            "eoa_token_index",
            "eoi_token_id",
            "image_token_id",
            "video_token_id",
            "vision_config",
            "vision_soft_tokens_per_image",
        ],
    },
    read: gemma4,
};

const TEXT: Idle = Idle {
    only: &[
        ("enable_moe_block", &["true"]),
        ("hidden_activation", &[r#""gelu_pytorch_tanh""#]),
        ("hidden_size_per_layer_input", &["0"]),
        ("model_type", &[r#""gemma4_text""#]),
        ("num_kv_shared_layers", &["0"]),
        ("use_double_wide_mlp", &["false"]),
    ],
    // Which scores are masked, how the last ones are scaled, and the table of inputs of each layer, which has no width.
    ignored: &["final_logit_softcapping", "use_bidirectional_attention", "vocab_size_per_layer_input"],
};

fn gemma4(fields: &mut Fields<'_>) -> Architecture {
    let decoder = text(fields, &TEXT, decoder);
    // Unlike others' code, its own takes silence for yes.
    around(fields, decoder, Switch::On)
}

fn decoder(fields: &mut Fields<'_>) -> Architecture {
    // Without them the published code builds dense layers, and inputs of each layer.
    fields.needed("enable_moe_block");
    fields.needed("hidden_size_per_layer_input");
    let local = gqa_of_width(fields);
    let local = Gqa { bias: bias(fields, Bias::All, Switch::Off), qk_norm: QkNorm::Head, ..local };
    let layers = listed(pairs(&mixers(fields), core::iter::repeat(LayerKind::Moe)));
    Architecture {
        norms_per_layer: 7,
        layer_scalar: Switch::On,
        attention: Attention::Gqa(global(fields, local)),
        mixer: mixer(
            &layers,
            Mixer::LocalGqa(LocalGqa { window: fields.positive("sliding_window"), ..windowed(local) }),
        ),
        layers: Layers { ffn: fields.number("intermediate_size"), beside: Beside::Dense, ..layers },
        experts: Experts {
            routed: fields.number("num_experts"),
            active: fields.number("top_k_experts"),
            ffn: fields.number("moe_intermediate_size"),
            router_scale: Switch::On,
            ..Experts::DEFAULT
        },
        ..ends(fields)
    }
}

/// Which layers have a window. The last has none: the published code sees to that, whatever the list says.
fn mixers(fields: &mut Fields<'_>) -> Vec<LayerKind> {
    const LIST: &str = "layer_types";
    let count = listed_count(fields);
    let words = [(r#""full_attention""#, LayerKind::Attention), (r#""sliding_attention""#, LayerKind::Mixer)];
    let mixers = blocks(fields, LIST, count, &words);
    if mixers.last() == Some(&LayerKind::Mixer) {
        fields.contradicts(LIST, &["num_hidden_layers"], "does not end with `full_attention`".to_owned());
    }
    mixers
}

/// The attention of layers without a window: as many query heads, of a width of their own. Where keys are values, there
/// may be another number of them.
fn global(fields: &mut Fields<'_>, local: Gqa) -> Gqa {
    const HEADS: &str = "num_global_key_value_heads";
    let key_as_value = fields.switch("attention_k_eq_v", Switch::Off);
    let kv_heads = if fields.has(HEADS) {
        fields.positive(HEADS)
    } else {
        // Null takes that of the others; absence is no way to say so.
        if key_as_value.is_on() {
            fields.number_or_null(HEADS);
        }
        local.kv_heads
    };
    if !key_as_value.is_on() && kv_heads != local.kv_heads {
        let how = format!("is not `num_key_value_heads` = {}, though keys are not values", local.kv_heads);
        fields.contradicts(HEADS, &["attention_k_eq_v", "num_key_value_heads"], how);
    }
    Gqa { kv_heads, head_dim: fields.positive("global_head_dim"), key_as_value, ..local }
}

/// The attention of layers with a window.
const fn windowed(Gqa { heads, kv_heads, head_dim, bias, qk_norm, .. }: Gqa) -> LocalGqa {
    LocalGqa { heads, kv_heads, head_dim, bias, qk_norm, ..LocalGqa::DEFAULT }
}
