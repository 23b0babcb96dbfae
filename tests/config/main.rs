//! Architectures out of config.json: every published one is read to the last parameter, or refused by name. See
//! `tests/data/README.md` for the files.

mod any;
#[path = "../beside/mod.rs"]
mod beside;
mod layers;
#[path = "../models/mod.rs"]
mod models;
#[path = "../totals/mod.rs"]
mod totals;

use models::MODELS;
use moe_model::config::{Config, ConfigError, Fault, Reason, model_types};
use moe_model::preset::Preset;
use moe_model::spec::{
    Architecture, Attention, Bias, Compressed, Experts, Gqa, Kda, LayerKind, LayerList, Layers, Layout, LocalGqa,
    Mamba1, Mixer, QkNorm, Switch,
};
use moe_model::{Key, Spec, judge};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

/// What is refused, and the value of `model_type` that the error names.
const REFUSED: &[(&str, &str)] = &[
    // Its config has none, and is no `config.json`: names and numbers of the vendor's program. A preset holds them.
    ("grok-1", "null"),
];

/// What is read, and the preset that it is.
fn read() -> impl Iterator<Item = (&'static str, &'static Preset)> {
    let is_read = |name: &str| REFUSED.iter().all(|(refused, _)| *refused != name);
    let named = |preset: &str| Preset::named(preset).unwrap_or_else(|| panic!("no preset {preset}"));
    MODELS.iter().filter(move |(name, _)| is_read(name)).map(move |(name, preset)| (*name, named(preset)))
}

/// All that is read, and what it is.
fn published() -> impl Iterator<Item = (&'static str, Architecture)> {
    read().map(|(name, preset)| (name, preset.architecture)).chain(beside::BESIDE)
}

/// Every published config by the name of its model.
fn configs() -> &'static BTreeMap<String, String> {
    static CONFIGS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/configs");
        let files = fs::read_dir(folder).expect("the folder is there");
        files
            .map(|file| {
                let path = file.expect("the folder can be listed").path();
                let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
                (name, without_notes(fs::read_to_string(path).expect("the file can be read")))
            })
            .collect()
    });
    &CONFIGS
}

/// Our own note, in the config that was put together, of what nobody cites.
fn without_notes(text: String) -> String {
    let mut config: Map<String, Value> = serde_json::from_str(&text).expect("a config is a JSON object");
    if config.remove("_unverified").is_some() { Value::Object(config).to_string() } else { text }
}

fn config(name: &str) -> Map<String, Value> {
    serde_json::from_str(&configs()[name]).expect("a config is a JSON object")
}

/// Sets a field, or takes it out; dots lead into objects.
fn set(mut object: &mut Map<String, Value>, field: &str, value: Option<&str>) {
    let mut path = field.split('.').peekable();
    while let Some(step) = path.next() {
        if path.peek().is_some() {
            object = object.get_mut(step).and_then(Value::as_object_mut).expect("the object is there");
        } else if let Some(value) = value {
            object.insert(step.to_owned(), serde_json::from_str(value).expect("the value is JSON"));
        } else {
            object.remove(step);
        }
    }
}

/// Fields to set, or to take out.
type Changes<'c> = &'c [(&'c str, Option<&'c str>)];

/// A config with fields set, or taken out.
fn changed(name: &str, changes: Changes<'_>) -> Result<Architecture, ConfigError> {
    let mut config = config(name);
    for (field, value) in changes {
        set(&mut config, field, *value);
    }
    Architecture::from_config_json(&Value::Object(config).to_string())
}

/// A config with one field set, or taken out.
fn with(name: &str, field: &str, value: Option<&str>) -> Result<Architecture, ConfigError> {
    changed(name, &[(field, value)])
}

/// The number at a path, if there is one.
fn number(config: &Map<String, Value>, path: &str) -> Option<u64> {
    match path.split_once('.') {
        Some((step, rest)) => number(config.get(step)?.as_object()?, rest),
        None => config.get(path)?.as_u64(),
    }
}

/// The paths of all numbers, those within objects too.
fn numbers(config: &Map<String, Value>, under: &str) -> Vec<String> {
    let of = |(name, value): (&String, &Value)| match value {
        Value::Object(object) => numbers(object, &format!("{under}{name}.")),
        value if value.is_u64() => vec![format!("{under}{name}")],
        _ => Vec::new(),
    };
    config.iter().flat_map(of).collect()
}

/// A list of so many words, which repeat.
fn words(words: &[&str], count: usize) -> String {
    words.iter().copied().cycle().take(count).collect::<Value>().to_string()
}

/// The only fault of a config with fields set, or taken out.
fn fault_of(name: &str, changes: Changes<'_>) -> Fault {
    let error = changed(name, changes).expect_err(name);
    assert_eq!(error.faults().len(), 1, "{error}");
    error.faults()[0].clone()
}

/// The same of one field.
fn fault(name: &str, field: &str, value: Option<&str>) -> Fault {
    fault_of(name, &[(field, value)])
}

#[test]
fn what_is_read_is_the_published_model() {
    for (name, expected) in published() {
        let architecture = Architecture::from_config_json(&configs()[name]).unwrap_or_else(|e| panic!("{name}: {e}"));
        totals::agree(name, &architecture);
        assert_eq!(architecture, expected, "{name}");
    }
}

#[test]
fn checkpoints_are_named_as_those_of_the_preset() {
    for (name, preset) in read() {
        let config = Config::from_json(&configs()[name]).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(config.naming, preset.naming, "{name}");
    }
}

#[test]
fn every_other_is_refused_by_its_model_type() {
    for (name, model_type) in REFUSED {
        let error = Architecture::from_config_json(&configs()[*name]).expect_err(name);
        let [fault] = error.faults() else { panic!("{name}: {error}") };
        assert_eq!((&*fault.field, &*fault.value), ("model_type", *model_type), "{name}");
        assert_eq!(fault.reason, Reason::ModelType, "{name}");
    }
    let listed = published().map(|(name, _)| name).chain(REFUSED.iter().map(|(name, _)| *name));
    let mut listed: Vec<&str> = listed.collect();
    listed.sort_unstable();
    assert_eq!(listed, configs().keys().map(String::as_str).collect::<Vec<_>>(), "each is read or refused");
}

/// With the name of a type that is supported their own fields refuse them.
#[test]
fn a_borrowed_model_type_does_not_help() {
    for (name, _) in REFUSED {
        for model_type in model_types() {
            let read = with(name, "model_type", Some(&format!("\"{model_type}\"")));
            assert!(read.is_err(), "{name} as {model_type}: {read:?}");
        }
    }
}

#[test]
fn what_is_not_supported_is_named() {
    for (name, field, value) in [
        ("deepseek-v3", "attention_bias", "true"),
        ("deepseek-v3", "moe_layer_freq", "2"),
        ("deepseek-v3", "topk_method", "\"greedy\""),
        ("deepseek-v3", "hidden_act", "\"relu2\""),
        ("deepseek-v2", "topk_method", "\"noaux_tc\""),
        ("dbrx", "tie_word_embeddings", "true"),
        ("dbrx", "ffn_config.ffn_act_fn", r#"{"name":"gelu"}"#),
        ("deepseek-v4-flash", "attention_bias", "true"),
        ("deepseek-v4-flash", "n_shared_experts", "2"),
        ("deepseek-v4-flash", "num_key_value_heads", "2"),
        ("ernie-4.5-300b-a47b", "moe_layer_interval", "2"),
        ("ernie-4.5-300b-a47b", "use_bias", "true"),
        ("gemma-4-26b-a4b", "text_config.hidden_activation", "\"silu\""),
        ("gemma-4-26b-a4b", "text_config.model_type", "\"gemma3_text\""),
        ("gemma-4-26b-a4b", "text_config.num_kv_shared_layers", "2"),
        ("gemma-4-26b-a4b", "text_config.use_double_wide_mlp", "true"),
        ("glm-4.5", "topk_method", "\"greedy\""),
        ("hunyuan-a13b", "use_cla", "true"),
        ("jamba-v0.1", "mamba_conv_bias", "false"),
        ("jamba-v0.1", "mamba_inner_layernorms", "false"),
        ("jamba-v0.1", "mamba_proj_bias", "true"),
        ("hunyuan-large", "moe_layer_num_skipped", "1"),
        ("hunyuan-large", "norm_type", "\"fused\""),
        ("kimi-linear-48b-a3b", "attention_bias", "true"),
        ("kimi-linear-48b-a3b", "moe_layer_freq", "2"),
        ("kimi-linear-48b-a3b", "num_nextn_predict_layers", "1"),
        ("kimi-linear-48b-a3b", "tie_word_embeddings", "true"),
        ("kimi-linear-48b-a3b", "use_grouped_topk", "false"),
        ("llama-4-scout", "vision_config", "{}"),
        ("longcat-flash", "attention_bias", "true"),
        ("longcat-flash", "attention_method", "\"LSA\""),
        ("longcat-flash", "router_bias", "true"),
        ("longcat-flash", "zero_expert_type", "\"drop\""),
        ("mimo-v2-flash", "n_shared_experts", "1"),
        ("mimo-v2-flash", "topk_method", "\"greedy\""),
        ("minimax-m2.5", "use_qk_norm", "false"),
        ("minimax-text-01", "shared_intermediate_size", "1024"),
        ("nemotron-3-nano-30b-a3b", "attention_bias", "true"),
        ("nemotron-3-nano-30b-a3b", "mlp_hidden_act", "\"silu\""),
        ("nemotron-3-nano-30b-a3b", "n_shared_experts", "2"),
        ("nemotron-3-nano-30b-a3b", "num_nextn_predict_layers", "1"),
        ("nemotron-3-nano-30b-a3b", "use_bias", "true"),
        ("nemotron-3-nano-30b-a3b", "use_conv_bias", "false"),
        ("deepseek-v2", "mlp_bias", "true"),
        ("qwen3-next-80b-a3b", "attn_output_gate", "false"),
        ("qwen3-next-80b-a3b", "decoder_sparse_step", "2"),
        ("qwen3-next-80b-a3b", "mlp_only_layers", "[0]"),
        ("qwen3.5-35b-a3b", "text_config.attn_output_gate", "false"),
        ("qwen3.5-35b-a3b", "text_config.mlp_only_layers", "[3]"),
        ("qwen3.5-35b-a3b", "text_config.model_type", "\"qwen3_5_text\""),
        ("llama-3.1-8b", "mlp_bias", "true"),
        ("llama-3.1-8b", "architectures", r#"["LlamaForCausalLMEagle3"]"#),
    ] {
        let fault = fault(name, field, Some(value));
        assert_eq!((&*fault.field, &*fault.value), (field, value));
        assert!(matches!(fault.reason, Reason::Unsupported { .. }), "{fault}");
        assert!(fault.to_string().starts_with(&format!("`{field}` = {value} is not supported yet")), "{fault}");
        // Its absence means what is supported, and so does null.
        for absent in [None, Some("null")] {
            assert!(with(name, field, absent).is_ok(), "{name} without {field}");
        }
    }
}

/// Number formats are a layout's; what a checkpoint is packed in changes no shape.
#[test]
fn quantization_is_passed_over() {
    let fp8 = r#"{"fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]}"#;
    assert_eq!(with("deepseek-v3", "quantization_config", Some(fp8)), with("deepseek-v3", "torch_dtype", None));
}

#[test]
fn what_is_not_known_is_named_unless_it_is_null() {
    for field in ["use_qk_norm", "index_n_heads", "num_experts", "hidden_size2"] {
        let fault = fault("deepseek-v3", field, Some("64"));
        assert_eq!(fault.reason, Reason::Unknown { model_type: "deepseek_v3" });
        assert_eq!(fault.field, field);
        assert!(with("deepseek-v3", field, Some("null")).is_ok());
    }
}

/// What is read is needed, but for the few fields whose absence has one meaning.
#[test]
fn sizes_are_never_guessed() {
    let optional = [
        "first_k_dense_replace",
        "moe_layer_end_index",
        "n_group",
        "num_key_value_heads",
        "num_nextn_predict_layers",
        "sliding_window",
        "topk_group",
    ];
    for (name, whole) in published() {
        let config = config(name);
        for field in numbers(&config, "") {
            // Another number makes another model if the field is read.
            let more = (number(&config, &field).expect("a number") + 8).to_string();
            let is_read = with(name, &field, Some(&more)) != Ok(whole);
            match with(name, &field, None) {
                Ok(without) => assert!(without == whole || optional.contains(&&*field), "{name} without {field}"),
                Err(error) => assert_eq!(error.to_string(), format!("error: the config lacks `{field}`"), "{name}"),
            }
            let is_passed = with(name, &field, Some("\"many\"")).is_ok();
            // Greedy routing knows no groups, but they are numbers all the same.
            let is_idle = name == "deepseek-v2-lite" && ["n_group", "topk_group"].contains(&&*field);
            assert!(is_read != is_passed || is_idle, "{field} of {name} is read or passed over");
        }
    }
}

#[test]
fn numbers_are_whole_and_agree() {
    let said = |name, field, value| fault(name, field, Some(value)).to_string();
    for value in ["\"7168\"", "-7168", "7168.0", "[7168]", "{}", "true"] {
        assert_eq!(said("deepseek-v3", "hidden_size", value), format!("`hidden_size` = {value} is not a whole number"));
    }
    let large = said("deepseek-v3", "hidden_size", "18446744073709551616");
    assert!(large.ends_with("is not a number of 64 bits"), "{large}");
    for name in ["llama-3.1-8b", "hunyuan-a13b", "qwen3-8b"] {
        assert_eq!(said(name, "head_dim", "\"x\""), "`head_dim` = \"x\" is not a whole number");
    }
    let dense = said("deepseek-v3", "first_k_dense_replace", "62");
    assert_eq!(dense, "`first_k_dense_replace` = 62 is more than `num_hidden_layers` = 61");
    let heads = said("llama-3.1-8b", "num_attention_heads", "33");
    assert!(heads.starts_with("`num_attention_heads` = 33 does not divide `hidden_size` = 4096\n= note: "), "{heads}");
    assert!(said("glm-4.7-flash", "qk_head_dim", "64").contains("`qk_nope_head_dim` + `qk_rope_head_dim` = 192 + 64"));
    assert!(said("glm-4.7-flash", "num_hidden_layers", "46").starts_with("`mlp_layer_types` = [\"dense\","));
    assert!(said("glm-4.7-flash", "first_k_dense_replace", "2").contains("is not what `mlp_layer_types` says"));
    assert!(with("glm-4.7-flash", "first_k_dense_replace", Some("1")).is_ok());
    assert!(said("gpt-oss-120b", "experts_per_token", "5").ends_with("= 5 is not `num_experts_per_tok` = 4"));
    assert!(
        said("ernie-4.5-300b-a47b", "moe_layer_end_index", "52").contains("is not the last of `num_hidden_layers`")
    );
    assert!(said("hunyuan-a13b", "head_dim", "64").ends_with("is not `attention_head_dim` = 128"));
    assert!(said("hunyuan-a13b", "intermediate_size", "64").contains("is not `moe_intermediate_size` = 3072"));
    for (name, field) in [("qwen3-8b", "head_dim"), ("qwen1.5-moe-a2.7b", "shared_expert_intermediate_size")] {
        assert_eq!(said(name, field, "0"), format!("`{field}` = 0 is not a number above 0"));
    }
    assert!(
        with("mixtral-8x7b", "head_dim", Some("64")).is_ok_and(|other| other.parameters().total() < 46_100_000_000)
    );
}

/// A config in several levels is read, refused and missed by path.
#[test]
fn objects_within_are_read_as_the_whole_is() {
    let said = |name, field, value| fault(name, field, value).to_string();
    assert_eq!(said("dbrx", "attn_config", None), "the config lacks `attn_config`");
    assert_eq!(said("dbrx", "ffn_config", Some("[1]")), "`ffn_config` = [1] is not an object");
    assert_eq!(said("dbrx", "ffn_config.moe_top_k", Some("[4]")), "`ffn_config.moe_top_k` = [4] is not a whole number");
    let unknown = said("llama-4-scout", "text_config.strange", Some("1"));
    assert!(unknown.starts_with("`text_config.strange` = 1 is not a known field of `llama4`"), "{unknown}");
    assert!(
        said("dbrx", "attn_config.strange", Some("1")).starts_with("`attn_config.strange` = 1 is not a known field")
    );
    let heads = said("dbrx", "n_heads", Some("47"));
    assert!(heads.starts_with("`n_heads` = 47 does not divide `d_model` = 6144"), "{heads}");
    let text = r#"{"model_type": "dbrx", "attn_config": {}, "ffn_config": {"moe_top_k": 1, "odd": 1}, "strange": 1}"#;
    let error = Architecture::from_config_json(text).expect_err("much is wrong").to_string();
    let fields = ["attn_config.kv_n_heads", "ffn_config.moe_num_experts", "`ffn_config.odd`", "`strange`", "`d_model`"];
    assert!(fields.iter().all(|field| error.contains(field)), "{error}");
}

/// A list of one number for each layer must hold one number.
#[test]
fn layers_are_alike() {
    let said = |value: &str| fault("hunyuan-a13b", "moe_topk", Some(value)).to_string();
    let of = |numbers: &[u64]| serde_json::to_string(numbers).expect("numbers are JSON");
    let mut topk = [8; 32];
    assert_eq!(with("hunyuan-a13b", "moe_topk", Some("8")), with("hunyuan-a13b", "moe_topk", Some(&of(&topk))));
    assert!(said(&of(&topk[1..])).ends_with("is not a list of as many as `num_hidden_layers` = 32"));
    topk[31] = 7;
    assert!(said(&of(&topk)).contains("is not the same in every layer"));
    for wrong in ["[]", "[\"8\"]", "[8.5]", "{}", "\"8\""] {
        assert!(said(wrong).starts_with("`moe_topk` = "), "{wrong}");
    }
    let layers = fault("gpt-oss-120b", "layer_types", Some(r#"["full_attention", "linear_attention"]"#)).to_string();
    assert!(layers.ends_with("holds \"linear_attention\", which is not supported yet"), "{layers}");
}

/// What keys can say is read, where the published code says what a switch means.
#[test]
fn switches_are_read() {
    let read = |name, field, value| with(name, field, value).unwrap_or_else(|e| panic!("{name}: {e}"));
    for (name, whole) in published() {
        let config = config(name);
        if config.contains_key("tie_word_embeddings") && !["dbrx", "kimi-linear-48b-a3b"].contains(&name) {
            let tied = read(name, "tie_word_embeddings", Some("true"));
            assert_eq!(tied, Architecture { tied_embeddings: Switch::On, ..whole }, "{name}");
            assert_eq!(
                fault(name, "tie_word_embeddings", Some("1")).to_string(),
                "`tie_word_embeddings` = 1 is not true or false"
            );
        }
        let has_bias = config.contains_key("attention_bias") && name != "nemotron-3-nano-30b-a3b";
        let (Attention::Gqa(gqa), true) = (whole.attention, has_bias) else { continue };
        let bias = if ["glm-4.5", "mimo-v2-flash"].contains(&name) { Bias::Qkv } else { Bias::All };
        for (value, bias) in [("true", bias), ("false", Bias::None)] {
            let mixer = match whole.mixer {
                Mixer::LocalGqa(local) => Mixer::LocalGqa(LocalGqa { bias, ..local }),
                other => other,
            };
            let expected = Architecture { attention: Attention::Gqa(Gqa { bias, ..gqa }), mixer, ..whole };
            assert_eq!(read(name, "attention_bias", Some(value)), expected, "{name}");
        }
    }
    // What silence means, where it is not no.
    assert!(read("ernie-4.5-300b-a47b", "tie_word_embeddings", None).tied_embeddings.is_on());
    assert_eq!(read("gpt-oss-120b", "attention_bias", None), read("gpt-oss-120b", "attention_bias", Some("true")));
    assert!(!read("phi-3.5-moe", "lm_head_bias", None).head_bias.is_on());
    let unbiased = read("qwen1.5-moe-a2.7b", "qkv_bias", Some("false"));
    assert!(matches!(unbiased.attention, Attention::Gqa(Gqa { bias: Bias::None, .. })));
    let plain = read("glm-4.5", "use_qk_norm", None);
    assert!(matches!(plain.attention, Attention::Gqa(Gqa { qk_norm: QkNorm::None, .. })));
}

#[test]
fn a_byte_order_mark_is_no_fault() {
    let text = &configs()["llama-3.1-8b"];
    assert_eq!(Architecture::from_config_json(&format!("\u{feff}{text}")), Architecture::from_config_json(text));
}

/// A window masks scores, and changes no tensor: what it does is to bound the cache. Which layers have it, a list may say.
#[test]
fn windows() {
    let windows = |name, field, value| {
        let Attention::Gqa(gqa) = with(name, field, Some(value)).expect("it is supported").attention else {
            panic!("{name} has grouped-query attention")
        };
        (gqa.window, gqa.full_every)
    };
    for (name, field, value, expected) in [
        ("mixtral-8x7b", "sliding_window", "4096", (4096, 0)),
        ("mixtral-8x7b", "sliding_window", "null", (0, 0)),
        ("gpt-oss-120b", "sliding_window", "256", (256, 2)),
        ("gpt-oss-120b", "layer_types", r#"["sliding_attention", "sliding_attention", "full_attention"]"#, (128, 3)),
        ("gpt-oss-120b", "layer_types", r#"["sliding_attention"]"#, (128, 0)),
        ("llama-4-scout", "text_config.attention_chunk_size", "null", (0, 0)),
        ("llama-4-scout", "text_config.no_rope_layer_interval", "6", (8192, 6)),
        ("llama-4-scout", "text_config.no_rope_layers", "[1, 0, 1, 0]", (8192, 2)),
        // Which of these layers have one, is not read yet: their caches are counted whole.
        ("qwen3-8b", "use_sliding_window", "true", (0, 0)),
    ] {
        assert_eq!(windows(name, field, value), expected, "{name} with {field} = {value}");
    }
    let uneven = r#"["full_attention", "sliding_attention"]"#;
    let said = fault("gpt-oss-120b", "layer_types", Some(uneven)).to_string();
    assert!(said.ends_with("does not repeat every so many layers, with the one that looks at all tokens at the end"));
}

/// Everything that is wrong is said at once, and what is missing in one go.
#[test]
fn one_error_never_hides_another() {
    let text = r#"{"model_type": "llama", "hidden_size": "x", "mlp_bias": true, "strange": [1, 2], "empty": null}"#;
    let error = Architecture::from_config_json(text).expect_err("much is wrong");
    let said = "\
error: `hidden_size` = \"x\" is not a whole number
error: `mlp_bias` = true is not supported yet
= help: supported is `false`
error: the config lacks `vocab_size`, `num_attention_heads`, `num_hidden_layers` and `intermediate_size`
error: `strange` = [1,2] is not a known field of `llama`
= note: it may change the shape or the number of tensors, so it is not passed over";
    assert_eq!(error.to_string(), said);
}

#[test]
fn what_is_no_config() {
    let said = |text: &str| Architecture::from_config_json(text).expect_err(text).to_string();
    assert_eq!(said("[]"), "error: the config is not a JSON object");
    let cut = said("{\n  \"model_type\": \"llama\",\n  \"hidden_size\": 4096\n  \"vocab_size\": 1\n}");
    assert_eq!(cut, "error: the config is not JSON at line 4, column 3: expected `,` or `}`");
    assert!(said("").starts_with("error: the config is not JSON at line 1, column 0: "), "{}", said(""));
    assert!(said("{}").starts_with("error: the config lacks `model_type`"), "{}", said("{}"));
    assert!(said(&"[".repeat(100_000)).contains("recursion limit"), "nesting is bounded");
}
