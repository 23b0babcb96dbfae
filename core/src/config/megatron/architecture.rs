//! What of Megatron-LM's arguments makes the model.

use super::super::fields::Fields;
use super::values::{pattern, thousandths};
use super::{Pattern, bounded};
use crate::spec::{
    Architecture, Attention, Bias, CorrectionBias, Experts, Gqa, LayerList, Layers, Mla, Norm, QkNorm, Switch,
};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;

/// Rows of GPT-2's vocabulary, that of Megatron-LM's default tokenizer.
const GPT2: u64 = 50_257;

pub(super) fn read(fields: &mut Fields<'_>) -> Architecture {
    let (hidden, heads) = (fields.positive("hidden-size"), fields.positive("num-attention-heads"));
    let gated = fields.switch("swiglu", Switch::Off);
    let ffn = fields.optional("ffn-hidden-size").unwrap_or_else(|| default_ffn(hidden, gated));
    let has_experts = fields.has("num-experts");
    let Pattern { dense, moe, list } = layers(fields, has_experts);
    let is_rms = matches!(fields.word("normalization", &[r#""LayerNorm""#, r#""RMSNorm""#]), Some(1));
    let is_tied = !fields.switch("untie-embeddings-and-output-weights", Switch::Off).is_on();
    let words = &[r#""learned_absolute""#, r#""rope""#, r#""none""#, r#""yarn""#];
    let is_learned = matches!(fields.word("position-embedding-type", words), None | Some(0));
    let longest = fields.positive("max-position-embeddings");
    let bias = match fields.switch("disable-bias-linear", Switch::Off) {
        Switch::On => Switch::Off,
        Switch::Off => Switch::On,
    };
    let attention = if fields.switch("multi-latent-attention", Switch::Off).is_on() {
        Attention::Mla(mla(fields, heads, bias))
    } else {
        Attention::Gqa(gqa(fields, heads, bias))
    };
    Architecture {
        hidden,
        vocab: vocabulary(fields),
        tied_embeddings: if is_tied { Switch::On } else { Switch::Off },
        norm: if is_rms { Norm::Rms } else { Norm::LayerBias },
        positions: if is_learned { bounded(longest) } else { 0 },
        layers: Layers {
            dense,
            moe,
            ffn: if dense > 0 || !list.is_none() { ffn } else { 0 },
            list,
            gated,
            ..Layers::DEFAULT
        },
        attention,
        mtp: fields.optional("mtp-num-layers").unwrap_or(0),
        experts: if has_experts { experts(fields, ffn, bias) } else { Experts::DEFAULT },
        ..Architecture::DEFAULT
    }
}

/// Four times the width; of a gated network two thirds of that, in multiples of 64.
const fn default_ffn(hidden: u64, gated: Switch) -> u64 {
    let four = bounded(hidden) * 4;
    if gated.is_on() { four * 2 / 3 / 64 * 64 } else { four }
}

/// Rows of the vocabulary before padding. A tokenizer that is a file says nothing.
fn vocabulary(fields: &mut Fields<'_>) -> u64 {
    let size = fields.optional("vocab-size");
    let words = &[r#""GPT2BPETokenizer""#, r#""NullTokenizer""#];
    let is_gpt2 = fields.is("tokenizer-type", "GPT2BPETokenizer") || !fields.has("tokenizer-type");
    match size {
        // The null tokenizer adds the end of a document.
        Some(size) if fields.is("tokenizer-type", "NullTokenizer") => bounded(size) + 1,
        Some(size) => size,
        None if is_gpt2 => GPT2,
        None => {
            fields.word("tokenizer-type", words);
            fields.number("vocab-size")
        }
    }
}

/// Which layers have experts: none, all, every so many, or as a pattern says.
fn layers(fields: &mut Fields<'_>, has_experts: bool) -> Pattern {
    const NAME: &str = "moe-layer-freq";
    let count = bounded(fields.positive("num-layers"));
    let none = LayerList::NONE;
    if !has_experts {
        fields.pass(NAME);
        return Pattern { dense: count, moe: 0, list: none };
    }
    let Some(text) = fields.text(NAME) else {
        let every = fields.optional(NAME).unwrap_or(1).max(1);
        if every == 1 {
            return Pattern { dense: 0, moe: count, list: none };
        }
        // The first of every so many.
        let layers = (0..count).map(|layer| layer % every == 0);
        return listed(fields, &layers.map(letter).collect::<String>());
    };
    let Some(layers) = pattern(text) else {
        fields.contradicts(NAME, &[], "is not a list such as `[0]*3+[1]*58`".to_owned());
        return Pattern { dense: count, moe: 0, list: none };
    };
    if layers.len() as u64 != count {
        let how = format!("is not a list of as many as `num-layers` = {count}");
        fields.contradicts(NAME, &["num-layers"], how);
    }
    let dense = layers.iter().filter(|layer| !**layer).count();
    if layers.iter().take(dense).all(|layer| !layer) {
        return Pattern { dense: dense as u64, moe: (layers.len() - dense) as u64, list: none };
    }
    listed(fields, &layers.into_iter().map(letter).collect::<String>())
}

/// The letter of a layer with experts or without.
const fn letter(has_experts: bool) -> char {
    if has_experts { 'A' } else { 'a' }
}

fn listed(fields: &mut Fields<'_>, letters: &str) -> Pattern {
    let list = LayerList::read(letters).unwrap_or_else(|_| {
        fields.contradicts("num-layers", &[], "are more layers than a list holds".to_owned());
        LayerList::NONE
    });
    let moe = letters.chars().filter(|letter| *letter == 'A').count() as u64;
    Pattern { dense: letters.len() as u64 - moe, moe, list }
}

fn gqa(fields: &mut Fields<'_>, heads: u64, bias: Switch) -> Gqa {
    let is_grouped = fields.switch("group-query-attention", Switch::Off).is_on();
    let groups = fields.optional("num-query-groups").unwrap_or(1);
    let qk_norm = if fields.switch("qk-layernorm", Switch::Off).is_on() { QkNorm::Head } else { QkNorm::None };
    let head_dim = fields.optional("kv-channels").unwrap_or(0);
    let bias = match (bias, fields.switch("add-qkv-bias", Switch::Off)) {
        (Switch::On, _) => Bias::All,
        (Switch::Off, Switch::On) => Bias::Qkv,
        (Switch::Off, Switch::Off) => Bias::None,
    };
    Gqa { bias, heads, kv_heads: if is_grouped { groups } else { heads }, head_dim, qk_norm, ..Gqa::DEFAULT }
}

/// The defaults are those of Megatron-LM's `MLATransformerConfig`.
fn mla(fields: &mut Fields<'_>, heads: u64, bias: Switch) -> Mla {
    for idle in ["kv-channels", "group-query-attention", "num-query-groups"] {
        fields.pass(idle);
    }
    if bias.is_on() {
        fields.refuse_absent("disable-bias-linear", "biases of latent attention are not modelled");
    }
    if !fields.switch("qk-layernorm", Switch::Off).is_on() {
        fields.refuse_absent("qk-layernorm", "latents without norms are not modelled");
    }
    Mla {
        heads,
        q_rank: fields.optional("q-lora-rank").unwrap_or(0),
        kv_rank: fields.optional("kv-lora-rank").unwrap_or(32),
        nope: fields.optional("qk-head-dim").unwrap_or(128),
        rope: fields.optional("qk-pos-emb-head-dim").unwrap_or(64),
        value: fields.optional("v-head-dim").unwrap_or(128),
        ..Mla::DEFAULT
    }
}

fn experts(fields: &mut Fields<'_>, ffn: u64, bias: Switch) -> Experts {
    let shared_ffn = fields.optional("moe-shared-expert-intermediate-size").unwrap_or(0);
    let has_bias = fields.switch("moe-router-enable-expert-bias", Switch::Off).is_on();
    Experts {
        routed: fields.positive("num-experts"),
        active: fields.optional("moe-router-topk").unwrap_or(2),
        ffn: fields.optional("moe-ffn-hidden-size").unwrap_or(ffn),
        bias,
        shared: u64::from(shared_ffn > 0),
        shared_ffn,
        shared_gate: fields.switch("moe-shared-expert-gate", Switch::Off),
        groups: fields.optional("moe-router-num-groups").unwrap_or(1),
        active_groups: fields.optional("moe-router-group-topk").unwrap_or(1),
        correction_bias: if has_bias { CorrectionBias::On } else { CorrectionBias::Off },
        latent: fields.optional("moe-latent-size").unwrap_or(0),
        ..Experts::DEFAULT
    }
}

/// Whether a coefficient is above 0.
pub(super) fn is_positive(fields: &mut Fields<'_>, name: &'static str) -> bool {
    fields.raw(name).and_then(|value| value.as_f64().or_else(|| value.as_str()?.parse().ok())).unwrap_or(0.0) > 0.0
}

/// A decimal number in thousandths, or what stands for it.
pub(super) fn decimal(fields: &mut Fields<'_>, name: &'static str) -> Option<u64> {
    let value = fields.raw(name)?;
    let number = thousandths(value);
    if number.is_none() {
        fields.contradicts(name, &[], "is not a number of at least 0".to_owned());
    }
    number
}
