//! Parts of an architecture that several `model_type`s write alike.

use super::fields::{Fields, Idle};
use crate::spec::{Architecture, Attention, Bias, Experts, Gqa, Layers, Mla, Switch};
use alloc::borrow::ToOwned;
use alloc::format;
use serde_json::Value;

/// Embedding and head: how wide they are, and whether they are one.
pub(super) fn ends(fields: &mut Fields<'_>) -> Architecture {
    Architecture {
        hidden: fields.number("hidden_size"),
        vocab: fields.number("vocab_size"),
        tied_embeddings: fields.switch("tie_word_embeddings", Switch::Off),
        ..Architecture::DEFAULT
    }
}

/// A decoder whose fields are an object of their own, `text_config`, and whether it speaks of its head.
pub(super) fn text(
    fields: &mut Fields<'_>,
    idle: &Idle,
    read: impl FnOnce(&mut Fields<'_>) -> Architecture,
) -> (Architecture, bool) {
    fields.nested("text_config", idle, |fields| (read(fields), fields.has("tie_word_embeddings")))
}

/// The model around such a decoder. Whether head and embedding are one it says itself, and the decoder must not deny it:
/// code that reads the decoder alone would build another model.
pub(super) fn around(fields: &mut Fields<'_>, (text, speaks): (Architecture, bool), absent: Switch) -> Architecture {
    let tied_embeddings = fields.switch("tie_word_embeddings", absent);
    if speaks && text.tied_embeddings != tied_embeddings {
        let how = "is not what `text_config.tie_word_embeddings` says".to_owned();
        fields.contradicts("tie_word_embeddings", &["text_config.tie_word_embeddings"], how);
    }
    Architecture { tied_embeddings, ..text }
}

/// The window of every layer; without the field, or where it is null, there is none.
pub(super) fn window(fields: &mut Fields<'_>) -> u64 {
    fields.optional("sliding_window").unwrap_or(0)
}

/// From one layer that looks at all tokens to the next, the last of so many, as a list says: `whole` of an item is whether
/// it does. 0 where none does; `absent` without a list.
pub(super) fn full_every(
    fields: &mut Fields<'_>,
    name: &'static str,
    whole: impl Fn(&Value) -> Option<bool>,
    absent: u64,
) -> u64 {
    let whole = fields.items(name, whole);
    if whole.is_empty() {
        return absent;
    }
    let every = whole.iter().position(|whole| *whole).map_or(0, |first| first + 1);
    if whole.iter().enumerate().any(|(i, whole)| *whole != (every > 0 && (i + 1).is_multiple_of(every))) {
        let how = "does not repeat every so many layers, with the one that looks at all tokens at the end".to_owned();
        fields.contradicts(name, &[], how);
    }
    every as u64
}

/// The same of `layer_types`, beside whose `full_attention` stands one other word.
pub(super) fn full_every_type(fields: &mut Fields<'_>, windowed: &str, absent: u64) -> u64 {
    let whole = |item: &Value| match item.as_str()? {
        "full_attention" => Some(true),
        word if word == windowed => Some(false),
        _ => None,
    };
    full_every(fields, "layer_types", whole, absent)
}

/// All layers alike: how many there are.
pub(super) fn layer_count(fields: &mut Fields<'_>) -> u64 {
    fields.number("num_hidden_layers")
}

/// Dense layers first, counted by `first_k_dense_replace`; `intermediate_size` is their width.
pub(super) fn dense_first(fields: &mut Fields<'_>) -> Layers {
    let (count, dense) = (layer_count(fields), fields.number("first_k_dense_replace"));
    layers(fields, "first_k_dense_replace", count, dense)
}

/// So many dense layers of all, as some field says.
pub(super) fn layers(fields: &mut Fields<'_>, field: &'static str, count: u64, dense: u64) -> Layers {
    if dense > count {
        fields.contradicts(field, &["num_hidden_layers"], format!("is more than `num_hidden_layers` = {count}"));
    }
    Layers { dense, moe: count.saturating_sub(dense), ffn: fields.number("intermediate_size"), ..Layers::DEFAULT }
}

/// Latent attention; `num_key_value_heads` and `head_dim` mean nothing in it, though configs hold them.
pub(super) fn mla(fields: &mut Fields<'_>) -> Mla {
    fields.pass("num_key_value_heads");
    fields.pass("head_dim");
    let (nope, rope) = (fields.number("qk_nope_head_dim"), fields.number("qk_rope_head_dim"));
    if let Some(both) = fields.optional("qk_head_dim")
        && Some(both) != nope.checked_add(rope)
    {
        let how = format!("is not `qk_nope_head_dim` + `qk_rope_head_dim` = {nope} + {rope}");
        fields.contradicts("qk_head_dim", &["qk_nope_head_dim", "qk_rope_head_dim"], how);
    }
    Mla {
        heads: fields.number("num_attention_heads"),
        q_rank: fields.number_or_null("q_lora_rank"),
        kv_rank: fields.number("kv_lora_rank"),
        nope,
        rope,
        value: fields.number("v_head_dim"),
        ..Mla::DEFAULT
    }
}

/// A model of latent attention with an indexer that chooses what attention looks at; how many tokens (`index_topk`)
/// changes no tensor.
pub(super) fn with_indexer(fields: &mut Fields<'_>, model: Architecture) -> Architecture {
    fields.pass("index_topk");
    let (indexer_heads, indexer_dim) = (fields.positive("index_n_heads"), fields.positive("index_head_dim"));
    let Attention::Mla(mla) = model.attention else { return model };
    Architecture { attention: Attention::Mla(Mla { indexer_heads, indexer_dim, ..mla }), ..model }
}

/// Heads and key/value heads of grouped-query attention. A head is `head_dim` wide where the config says so, else the
/// heads share the hidden state out among them.
pub(super) fn gqa(fields: &mut Fields<'_>, hidden: u64) -> Gqa {
    let heads = heads(fields);
    Gqa { head_dim: head_dim(fields, heads.heads, hidden), ..heads }
}

/// The width of each of so many heads.
pub(super) fn head_dim(fields: &mut Fields<'_>, heads: u64, hidden: u64) -> u64 {
    match fields.optional("head_dim") {
        Some(head_dim) => fields.above_0("head_dim", head_dim),
        None => shared_out(fields, ["num_attention_heads", "hidden_size"], heads, hidden),
    }
}

/// The same where the published code takes an absent `head_dim` for a number of its own, which is not guessed.
pub(super) fn gqa_of_width(fields: &mut Fields<'_>) -> Gqa {
    let heads = heads(fields);
    Gqa { head_dim: fields.positive("head_dim"), ..heads }
}

/// The same where the published code knows no `head_dim`.
pub(super) fn gqa_of_even_width(fields: &mut Fields<'_>, hidden: u64) -> Gqa {
    let heads = heads(fields);
    Gqa { head_dim: shared_out(fields, ["num_attention_heads", "hidden_size"], heads.heads, hidden), ..heads }
}

fn heads(fields: &mut Fields<'_>) -> Gqa {
    let (heads, kv_heads) = (fields.number("num_attention_heads"), fields.number("num_key_value_heads"));
    Gqa { heads, kv_heads, ..Gqa::DEFAULT }
}

/// What `attention_bias` switches on.
pub(super) fn bias(fields: &mut Fields<'_>, switched: Bias, absent: Switch) -> Bias {
    if fields.switch("attention_bias", absent).is_on() { switched } else { Bias::None }
}

/// The width of a head where so many of them share the hidden state out, by the names of both numbers.
pub(super) fn shared_out(fields: &mut Fields<'_>, [name, whole]: [&'static str; 2], heads: u64, hidden: u64) -> u64 {
    if heads != 0 && !hidden.is_multiple_of(heads) {
        let note = "= note: heads without a width of their own share the hidden state out";
        fields.contradicts(name, &[whole], format!("does not divide `{whole}` = {hidden}\n{note}"));
    }
    hidden.checked_div(heads).unwrap_or(0)
}

/// Experts as DeepSeek's configs call them: shared ones are as wide as routed ones, and merged.
pub(super) fn experts(fields: &mut Fields<'_>) -> Experts {
    Experts { shared: fields.number_or_null("n_shared_experts"), ..routed_experts(fields) }
}

/// The routed ones alone.
pub(super) fn routed_experts(fields: &mut Fields<'_>) -> Experts {
    Experts {
        routed: fields.number("n_routed_experts"),
        active: fields.number("num_experts_per_tok"),
        ffn: fields.number("moe_intermediate_size"),
        ..Experts::DEFAULT
    }
}

/// Experts in groups that routing is limited to; without the fields all are one group.
pub(super) fn grouped(fields: &mut Fields<'_>, experts: Experts) -> Experts {
    grouped_by(fields, "n_group", experts)
}

/// The same where another field counts the groups.
pub(super) fn grouped_by(fields: &mut Fields<'_>, groups: &'static str, experts: Experts) -> Experts {
    let groups = fields.optional(groups).unwrap_or(1);
    Experts { groups, active_groups: fields.optional("topk_group").unwrap_or(1), ..experts }
}

/// Experts as Mixtral's configs call them: `intermediate_size` is the width of one.
pub(super) fn local_experts(fields: &mut Fields<'_>) -> Experts {
    Experts {
        routed: fields.number("num_local_experts"),
        active: fields.number("num_experts_per_tok"),
        ffn: fields.number("intermediate_size"),
        ..Experts::DEFAULT
    }
}

/// Experts in every so manieth layer, as one field says; another is the width of those between.
pub(super) fn every(fields: &mut Fields<'_>, step: &'static str, ffn: &'static str) -> Layers {
    let (count, given) = (layer_count(fields), fields.optional(step).unwrap_or(1));
    let moe_every = fields.above_0(step, given).max(1);
    if moe_every == 1 {
        fields.pass(ffn);
        return Layers { moe: count, ..Layers::DEFAULT };
    }
    if !count.is_multiple_of(moe_every) {
        let note = "= note: dense layers behind the last one with experts are not supported yet";
        fields.contradicts(
            step,
            &["num_hidden_layers"],
            format!("does not divide `num_hidden_layers` = {count}\n{note}"),
        );
    }
    let moe = count / moe_every;
    Layers { dense: count - moe, moe, ffn: fields.number(ffn), moe_every, ..Layers::DEFAULT }
}

/// Experts in every layer.
pub(super) fn all_moe(fields: &mut Fields<'_>) -> Layers {
    Layers { dense: 0, moe: layer_count(fields), ffn: 0, ..Layers::DEFAULT }
}
