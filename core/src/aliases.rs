//! What people write for what they mean: names that other frameworks, papers and configs use.

use crate::misread::one_of;
use crate::nearest::letters;
use crate::text::Text;

/// What people write, and what it means.
pub struct Alias {
    written: &'static [&'static str],
    /// Names that are all known where it is meant: the one that is meant first.
    meant: &'static [&'static str],
    /// What to say, where the names alone do not tell.
    help: &'static str,
}

/// Compared without case, and with `-` as `_`.
const ALIASES: &[Alias] = &[
    // Degrees of parallelism.
    alias(&["data_parallel"], &["dp"]),
    alias(&["tensor_parallel", "tensor_model_parallel", "model_parallel"], &["tp"]),
    alias(&["pipeline_parallel", "pipeline_model_parallel"], &["pp"]),
    alias(&["context_parallel"], &["cp"]),
    alias(&["expert_parallel", "expert_model_parallel"], &["ep"]),
    alias(&["expert_tensor_parallel"], &["etp"]),
    alias(&["virtual_pipeline", "virtual_pipeline_parallel", "virtual_pipeline_model_parallel"], &["vpp"]),
    alias(&["gpus", "ranks"], &["world"]),
    // Keys of configs that are nearest to something else.
    alias(&["num_key_value_heads"], &["kv_heads"]),
    alias(&["index_n_heads"], &["indexer_heads"]),
    alias(&["index_head_dim"], &["indexer_dim"]),
    alias(&["interleave_moe_layer_step", "moe_layer_freq", "decoder_sparse_step"], &["moe_every"]),
    alias(&["num_experts", "num_local_experts"], &["routed"]),
    alias(&["top_k", "topk", "num_experts_per_tok"], &["active"]),
    alias(&["intermediate_size", "moe_intermediate_size"], &["ffn"]),
    // Schedules.
    alias(&["1f1b", "pipedream_flush"], &["one_f_one_b"]),
    alias(&["vpp", "virtual_pipeline", "interleaved_1f1b"], &["interleaved"]),
    alias(&["afab"], &["gpipe"]),
    // Stages of ZeRO.
    alias(&["0", "zero0", "zero_0", "stage0", "stage_0"], &["none"]),
    said(&["1", "zero1", "zero_1", "stage1", "stage_1"], &["optimizer"], ZERO),
    said(&["2", "zero2", "zero_2", "stage2", "stage_2"], &["gradients"], ZERO),
    said(&["3", "zero3", "zero_3", "stage3", "stage_3", "fsdp"], &["parameters"], ZERO),
    said(
        &["stage"],
        &["dense", "expert", "ways"],
        "in place of the group write `optimizer` for ZeRO-1, `gradients` for ZeRO-2, `parameters` for ZeRO-3",
    ),
    // Number formats.
    alias(&["bfloat16"], &["bf16"]),
    alias(&["float32", "f32", "float"], &["fp32"]),
    alias(&["float16", "f16", "half"], &["fp16"]),
    alias(&["float8", "f8", "e4m3", "e5m2"], &["fp8"]),
    // Attention.
    said(&["mha"], &["gqa"], "multi-head attention is `gqa` with as many `kv_heads` as `heads`"),
    said(&["mqa"], &["gqa"], "multi-query attention is `gqa` with 1 as `kv_heads`"),
    // Devices and frameworks.
    alias(&["a100"], &["a100_40gb", "a100_80gb"]),
    alias(&["megatron", "megatron_lm", "mcore"], &["megatron_core"]),
    alias(&["huggingface", "hugging_face", "hf"], &["transformers"]),
    alias(&["titan", "torch_titan"], &["torchtitan"]),
    // What frameworks call options of theirs.
    alias(&["attn_implementation"], &["attention"]),
    alias(&["experts_implementation"], &["routed"]),
    alias(&["norm_topk_prob", "route_norm"], &["normalised"]),
    alias(&["output_router_logits"], &["router_logits"]),
    // Switches, and what is switched off by a word of its own.
    said(&["true", "yes"], &["on"], "write `on`"),
    said(&["false", "no"], &["off"], "write `off`"),
    alias(&["false", "no", "off"], &["none"]),
];

const ZERO: &str = "ZeRO-1 is `optimizer`, ZeRO-2 `gradients`, ZeRO-3 `parameters`";

const fn alias(written: &'static [&'static str], meant: &'static [&'static str]) -> Alias {
    said(written, meant, "")
}

const fn said(written: &'static [&'static str], meant: &'static [&'static str], help: &'static str) -> Alias {
    Alias { written, meant, help }
}

impl Alias {
    /// What was written, as a name for some of those that are known here.
    pub fn of<'a>(written: &str, known: &(impl Iterator<Item = &'a str> + Clone)) -> Option<&'static Self> {
        let stem = ["_size", "_degree"].iter().find_map(|end| written.strip_suffix(end)).unwrap_or(written);
        let is_known = |name: &&str| known.clone().any(|other| other == *name);
        let is_written = |name: &&str| [written, stem].into_iter().any(|word| letters(word).eq(name.chars()));
        ALIASES.iter().find(|alias| alias.written.iter().any(is_written) && alias.meant.iter().all(is_known))
    }

    /// The name that is meant.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.meant.first().copied().unwrap_or_default()
    }

    /// What to write instead.
    #[must_use]
    pub fn help(&self) -> Text {
        if !self.help.is_empty() {
            return Text::new().str(self.help);
        }
        Text::new().str("did you mean ").text(&one_of(self.meant.iter().copied())).str("?")
    }
}

#[cfg(test)]
mod tests {
    use super::{ALIASES, Alias};
    use crate::spec::{GROUPS, Value};
    use alloc::string::ToString;
    use alloc::vec::Vec;

    fn help(written: &str, known: &[&str]) -> Option<alloc::string::String> {
        Alias::of(written, &known.iter().copied()).map(|alias| alias.help().to_string())
    }

    #[test]
    fn what_is_meant_depends_on_what_is_known() {
        let said = |text: &str| Some(text.to_string());
        assert_eq!(help("\"1F1B\"", &["one_f_one_b"]), said("did you mean `one_f_one_b`?"));
        assert_eq!(help("ZeRO - 1", &["optimizer"]), said(super::ZERO));
        assert_eq!(help("A100", &["a100_40gb", "a100_80gb"]), said("did you mean `a100_40gb` or `a100_80gb`?"));
        assert_eq!(help("tensor_model_parallel_size", &["tp", "pp"]), said("did you mean `tp`?"));
        assert_eq!(help("true", &["off", "on"]), said("write `on`"));
        assert_eq!(help("true", &["none", "full"]), None);
        assert_eq!(help("stage", &["dense", "moe", "ffn"]), None, "of layers");
    }

    /// A name that was changed in the table of keys is changed here too.
    #[test]
    fn what_is_meant_exists() {
        let mut names = Vec::new();
        for field in GROUPS.iter().copied().flatten() {
            names.push(field.key.name());
            if let Value::Choice { words, kinds } = &field.value {
                names.extend(words.iter().map(|word| word.word));
                names.extend(kinds.iter().map(|kind| kind.word));
            }
        }
        for name in ALIASES.iter().flat_map(|alias| alias.meant) {
            assert!(names.contains(name), "{name}");
        }
    }
}
