//! Architectures out of config.json: every published one is read to the last parameter, or refused by name. See
//! `tests/data/README.md` for the files.

mod beside;
mod totals;

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

/// What is read, and the preset that it is.
const READ: &[(&str, &str)] = &[
    ("dbrx", "dbrx"),
    ("deepseek-moe-16b", "deepseek_moe_16b"),
    ("deepseek-r1", "deepseek_r1"),
    ("deepseek-v2", "deepseek_v2"),
    ("deepseek-v2-lite", "deepseek_v2_lite"),
    ("deepseek-v3", "deepseek_v3"),
    ("deepseek-v3.2", "deepseek_v3_2"),
    ("deepseek-v4-flash", "deepseek_v4_flash"),
    ("dots.llm1", "dots_llm1"),
    ("ernie-4.5-300b-a47b", "ernie_4_5_300b_a47b"),
    ("gemma-4-26b-a4b", "gemma_4_26b_a4b"),
    ("glm-4.5", "glm_4_5"),
    ("glm-4.7-flash", "glm_4_7_flash"),
    ("glm-5", "glm_5"),
    ("gpt-oss-120b", "gpt_oss_120b"),
    ("granite-3.1-1b-a400m", "granite_3_1_1b_a400m"),
    ("hunyuan-a13b", "hunyuan_a13b"),
    ("jamba-v0.1", "jamba_v0_1"),
    ("kimi-k2", "kimi_k2"),
    ("llama-2-7b", "llama_2_7b"),
    ("llama-3.1-70b", "llama_3_1_70b"),
    ("llama-3.1-8b", "llama_3_1_8b"),
    ("llama-4-scout", "llama_4_scout"),
    ("longcat-flash", "longcat_flash"),
    ("mimo-v2-flash", "mimo_v2_flash"),
    ("minimax-m2.5", "minimax_m2_5"),
    ("minimax-text-01", "minimax_text_01"),
    ("mixtral-8x7b", "mixtral_8x7b"),
    ("nemotron-3-nano-30b-a3b", "nemotron_3_nano_30b_a3b"),
    ("olmoe-1b-7b", "olmoe_1b_7b"),
    ("phi-3.5-moe", "phi_3_5_moe"),
    ("qwen1.5-moe-a2.7b", "qwen1_5_moe_a2_7b"),
    ("qwen3-0.6b", "qwen3_0_6b"),
    ("qwen3-235b-a22b", "qwen3_235b_a22b"),
    ("qwen3-30b-a3b", "qwen3_30b_a3b"),
    ("qwen3-8b", "qwen3_8b"),
    ("qwen3-next-80b-a3b", "qwen3_next_80b_a3b"),
    ("qwen3.5-35b-a3b", "qwen3_5_35b_a3b"),
];

/// What is refused, and the value of `model_type` that the error names.
const REFUSED: &[(&str, &str)] = &[
    // Its config has none, and is no `config.json`: names and numbers of the vendor's program. A preset holds them.
    ("grok-1", "null"),
];

/// All that is read, and what it is.
fn published() -> impl Iterator<Item = (&'static str, Architecture)> {
    let named = |preset| Preset::named(preset).unwrap_or_else(|| panic!("no preset {preset}")).architecture;
    READ.iter().map(move |(name, preset)| (*name, named(preset))).chain(beside::BESIDE)
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
    for (name, preset) in READ {
        let config = Config::from_json(&configs()[*name]).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(Some(config.naming), Preset::named(preset).map(|preset| preset.naming), "{name}");
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
        ("qwen3-30b-a3b", "mlp_only_layers", "[0]"),
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

/// Layers with experts may stand apart, the last layer being one; dense ones have a width of their own then.
#[test]
fn every_second_layer() {
    let mut scout = config("llama-4-scout");
    let text = scout["text_config"].as_object_mut().expect("it is an object");
    text.insert("interleave_moe_layer_step".to_owned(), 2.into());
    text.insert("num_local_experts".to_owned(), 128.into());
    let maverick = Architecture::from_config_json(&Value::Object(scout).to_string()).expect("it can be read");
    assert_eq!(Some(maverick), Preset::named("llama_4_maverick").map(|preset| preset.architecture));

    let layers = with("qwen3-30b-a3b", "decoder_sparse_step", Some("3")).expect("it can be read").layers;
    assert_eq!((layers.dense, layers.moe, layers.moe_every, layers.ffn), (32, 16, 3, 6144));
    for (step, said) in [("0", "is not a number above 0"), ("5", "does not divide `num_hidden_layers` = 48")] {
        let error = with("qwen3-30b-a3b", "decoder_sparse_step", Some(step)).expect_err(step).to_string();
        assert!(error.contains(said), "{error}");
    }
}

/// A list says what each layer is: of each exactly one thing that is known.
#[test]
fn layers_are_listed() {
    for (name, field, count) in [
        ("mimo-v2-flash", "hybrid_layer_pattern", 48),
        ("mimo-v2-flash", "moe_layer_freq", 48),
        ("minimax-text-01", "layer_types", 80),
        ("nemotron-3-nano-30b-a3b", "layers_block_type", 52),
        ("deepseek-v4-flash", "compress_ratios", 43),
    ] {
        let said = |value| fault(name, field, value).to_string();
        assert!(
            said(Some("[]")).contains(&format!("as many as `num_hidden_layers` = {count}")),
            "{}",
            said(Some("[]"))
        );
        for other in ["2", "\"sliding_attention\"", "[0]", "null", "0.0", "-1"] {
            let said = fault(name, field, Some(&format!("[{other}]"))).to_string();
            assert!(said.ends_with(&format!("holds {other}, which is not supported yet")), "{said}");
        }
        assert_eq!(said(Some("\"MEM*\"")), format!("`{field}` = \"MEM*\" is not a list"));
        if field != "layers_block_type" {
            assert_eq!(said(None), format!("the config lacks `{field}`"));
        }
    }
}

/// What none of the layers has is not described.
#[test]
fn what_no_layer_has_is_left_out() {
    let all = |item: &str, count| format!("[{}]", vec![item; count].join(", "));
    let full = with("mimo-v2-flash", "hybrid_layer_pattern", Some(&all("0", 48))).expect("it can be read");
    assert_eq!((full.mixer, full.layers.list), (Mixer::None, LayerList::parse("aA*47")));
    let soft = with("minimax-text-01", "layer_types", Some(&all("\"full_attention\"", 80))).expect("it can be read");
    assert_eq!((soft.mixer, soft.layers.list), (Mixer::None, LayerList::parse("A*80")));
    let dense = with("jamba-v0.1", "num_experts", Some("1")).expect("it can be read");
    let layers = Layers { dense: 32, ffn: 14_336, list: LayerList::parse("(mmmmammm)*4"), ..Layers::DEFAULT };
    assert_eq!((dense.layers, dense.experts), (layers, Experts::DEFAULT));
    for architecture in [full, soft, dense] {
        let violations = judge(&Spec { architecture, layout: Layout::DEFAULT });
        assert!(violations.is_empty(), "{violations}");
    }
}

/// There is room for 256.
#[test]
fn long_lists_are_refused() {
    for name in ["deepseek-v4-flash", "jamba-v0.1", "mimo-v2-flash", "minimax-text-01"] {
        for count in ["257", "18446744073709551615"] {
            let said = fault(name, "num_hidden_layers", Some(count)).to_string();
            assert!(said.starts_with(&format!("`num_hidden_layers` = {count} is more than 256 layers: no ")), "{said}");
        }
    }
    let longest = with("jamba-v0.1", "num_hidden_layers", Some("256")).expect("it can be read");
    assert_eq!(longest.layers.list, LayerList::parse("(mMmMaMmM)*32"));
    let nemotron = |count| {
        let pattern = format!("\"{}\"", "M".repeat(count));
        let changes = [("hybrid_override_pattern", Some(&*pattern)), ("num_hidden_layers", None)];
        changed("nemotron-3-nano-30b-a3b", &changes)
    };
    assert_eq!(nemotron(256).expect("it can be read").layers.list.layers(), 256);
    let said = nemotron(257).expect_err("it is too long").to_string();
    assert!(said.starts_with("error: `hybrid_override_pattern` = \"MMM"), "{said}");
    assert!(said.ends_with("… is more than 256 layers: no longer list of them is supported yet"), "{said}");
}

#[test]
fn jamba_counts_from_an_offset() {
    let list = |field, value| with("jamba-v0.1", field, Some(value)).expect("it can be read").layers.list.to_string();
    assert_eq!(list("attn_layer_offset", "0"), "(aMmMmMmM)*4");
    assert_eq!(list("expert_layer_period", "4"), "(mMmmaMmm)*4");
    assert_eq!(list("num_hidden_layers", "9"), "mMmMaMmMm");
    let said = |field, value| fault("jamba-v0.1", field, Some(value)).to_string();
    assert_eq!(said("attn_layer_period", "0"), "`attn_layer_period` = 0 is not a number above 0");
    assert_eq!(said("attn_layer_offset", "8"), "`attn_layer_offset` = 8 is not below `attn_layer_period` = 8");
    assert_eq!(said("expert_layer_offset", "9"), "`expert_layer_offset` = 9 is not below `expert_layer_period` = 2");
}

/// The inner width is so many hidden widths; the rank of the time step may follow from one.
#[test]
fn mamba_is_measured_by_the_hidden_state() {
    let mamba = |field, value| match with("jamba-v0.1", field, value).expect("it can be read").mixer {
        Mixer::Mamba1(Mamba1 { inner, time_rank, .. }) => (inner, time_rank),
        other => panic!("{other:?}"),
    };
    assert_eq!(mamba("mamba_expand", Some("3")), (12_288, 256));
    assert_eq!(mamba("mamba_dt_rank", Some("100")), (8192, 100));
    for auto in [None, Some("null"), Some("\"auto\"")] {
        assert_eq!(mamba("mamba_dt_rank", auto), (8192, 256));
    }
    let changes = [("mamba_dt_rank", Some("\"auto\"")), ("hidden_size", Some("4128"))];
    let odd = changed("jamba-v0.1", &changes).expect("it can be read").mixer;
    assert_eq!(odd, Mixer::Mamba1(Mamba1 { inner: 8256, state: 16, conv: 4, time_rank: 258 }));
    assert!(fault("jamba-v0.1", "mamba_dt_rank", Some("\"many\"")).to_string().ends_with("is not a whole number"));
    // An inner width that 64 bits do not hold is not another one.
    assert_eq!(mamba("mamba_expand", Some("18446744073709551615")).0, u64::MAX);
}

/// Whether heads have sinks is said of layers with a window, and of the others.
#[test]
fn sinks_are_switched() {
    let sinks = |changes: &[(&str, Option<&str>)]| {
        let model = changed("mimo-v2-flash", changes).expect("it can be read");
        let (Attention::Gqa(Gqa { sinks, .. }), Mixer::LocalGqa(local)) = (model.attention, model.mixer) else {
            panic!("{model:?}");
        };
        (sinks.is_on(), local.sinks.is_on())
    };
    let (full, local) = ("add_full_attention_sink_bias", "add_swa_attention_sink_bias");
    assert_eq!(sinks(&[(full, Some("true"))]), (true, true));
    assert_eq!(sinks(&[(local, Some("false"))]), (false, false));
    for field in [full, local] {
        assert_eq!(fault("mimo-v2-flash", field, None).to_string(), format!("the config lacks `{field}`"));
    }
    for field in ["v_head_dim", "swa_v_head_dim"] {
        let said = fault("mimo-v2-flash", field, Some("0")).to_string();
        assert_eq!(said, format!("`{field}` = 0 is not a number above 0"));
    }
}

/// Each layer of Nemotron-H is one block, by a letter or by a word.
#[test]
fn layers_of_one_block() {
    const NANO: &str = "nemotron-3-nano-30b-a3b";
    let (pattern, list) = ("hybrid_override_pattern", "layers_block_type");
    let nano = with(NANO, "torch_dtype", None).expect("it can be read");
    let words = |[mamba, attention]: [&str; 2]| {
        let letters = config(NANO)[pattern].as_str().expect("it is a string").to_owned();
        let word = |letter| match letter {
            'M' => mamba,
            '*' => attention,
            _ => "moe",
        };
        serde_json::to_string(&letters.chars().map(word).collect::<Vec<_>>()).expect("words are JSON")
    };
    for names in [["mamba", "attention"], ["linear_attention", "full_attention"]] {
        let words = words(names);
        for letters in [None, Some(&*config(NANO)[pattern].to_string())] {
            assert_eq!(changed(NANO, &[(pattern, letters), (list, Some(&words))]), Ok(nano));
            assert_eq!(
                changed(NANO, &[(pattern, letters), (list, Some(&words)), ("num_hidden_layers", None)]),
                Ok(nano)
            );
        }
    }
    let said = |field, value| fault(NANO, field, value).to_string();
    assert_eq!(said(pattern, None), format!("the config lacks `{pattern}`"));
    assert_eq!(said(pattern, Some("[\"M\"]")), format!("`{pattern}` = [\"M\"] is not a string"));
    assert!(said(pattern, Some("\"M|E\"")).ends_with(r#"holds "|", which is not supported yet"#));
    assert!(said(pattern, Some("\"ME\"")).ends_with("is not a list of as many as `num_hidden_layers` = 52"));
    assert!(said("num_hidden_layers", Some("51")).contains("is not a list of as many as `num_hidden_layers` = 51"));
    let other = words(["mamba", "mamba"]);
    assert!(said(list, Some(&other)).ends_with("is not what `hybrid_override_pattern` says"));
}

/// What a config says of blocks that no layer is may be missing.
#[test]
fn nemotron_with_dense_networks() {
    const NANO: &str = "nemotron-3-nano-30b-a3b";
    const MOE: &[&str] = &[
        "moe_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "n_group",
        "n_routed_experts",
        "n_shared_experts",
        "num_experts_per_tok",
        "topk_group",
    ];
    let (pattern, layers) = (("hybrid_override_pattern", Some("\"M-M*-\"")), ("num_hidden_layers", Some("5")));
    let without: Vec<_> = MOE.iter().map(|field| (*field, None)).chain([pattern, layers]).collect();
    let dense = changed(NANO, &without).expect("it can be read");
    assert_eq!(changed(NANO, &[pattern, layers]), Ok(dense));
    let expected =
        Layers { dense: 2, ffn: 1856, list: LayerList::parse("mdmad"), gated: Switch::Off, ..Layers::DEFAULT };
    assert_eq!((dense.layers, dense.experts), (expected, Experts::DEFAULT));
    let error = changed(NANO, &[pattern, layers, ("intermediate_size", None)]).expect_err("it has no width");
    assert_eq!(error.to_string(), "error: the config lacks `intermediate_size`");
    assert!(with(NANO, "intermediate_size", None).is_ok(), "no layer is that wide");
    let latent = |value| with(NANO, "moe_latent_size", value).map(|model| model.experts.latent);
    assert_eq!((latent(Some("1024")), latent(Some("null")), latent(None)), (Ok(1024), Ok(0), Ok(0)));
    let said = fault(NANO, "moe_latent_size", Some("0")).to_string();
    assert_eq!(said, "`moe_latent_size` = 0 is not a number above 0");
}

/// Arctic's code takes the absence of two fields for another model.
#[test]
fn experts_beside_a_dense_network() {
    for (field, other) in [("moe_layer_frequency", "2"), ("parallel_attn_mlp_res", "false")] {
        assert_eq!(fault("arctic", field, None).to_string(), format!("the config lacks `{field}`"));
        let said = fault("arctic", field, Some(other)).to_string();
        assert!(said.starts_with(&format!("`{field}` = {other} is not supported yet")), "{said}");
    }
    let arctic = with("arctic", "torch_dtype", None);
    assert_eq!(with("arctic", "use_residual", Some("true")), arctic);
    assert!(matches!(fault("arctic", "use_residual", Some("false")).reason, Reason::Unsupported { .. }));
    // The network beside the experts is as wide as the hidden state, they are as wide as the config says.
    let wide = changed("arctic", &[("hidden_size", Some("7224")), ("intermediate_size", Some("64"))]);
    assert!(wide.is_ok_and(|wide| (wide.layers.ffn, wide.experts.ffn) == (7224, 64)));
}

/// A ratio says how a layer compresses.
#[test]
fn ratios_are_kinds_of_attention() {
    const FLASH: &str = "deepseek-v4-flash";
    let list = |ratios: &[u64]| serde_json::to_string(ratios).expect("numbers are JSON");
    let ratios: Vec<u64> =
        config(FLASH)["compress_ratios"].as_array().expect("it is a list").iter().filter_map(Value::as_u64).collect();
    let read = |ratios: &[u64]| with(FLASH, "compress_ratios", Some(&list(ratios)));
    let said = |ratios: &[u64]| fault(FLASH, "compress_ratios", Some(&list(ratios))).to_string();
    // With the ratio of its MTP module and without, but not with more or less.
    assert_eq!((ratios.len(), read(&ratios[..43])), (44, read(&ratios)));
    assert!(said(&ratios[..42]).ends_with("as many as `num_hidden_layers` = 43, or of 1 MTP modules more"));
    assert!(said(&[&*ratios, &[0]].concat()).contains("is not a list of as many as"));
    assert!(fault(FLASH, "num_nextn_predict_layers", Some("0")).to_string().starts_with("`compress_ratios` = [0,0,4"));

    let heavy = |of: &dyn Fn(u64) -> u64| ratios.iter().map(|ratio| of(*ratio)).collect::<Vec<_>>();
    let compressed = |model: Architecture| match model.attention {
        Attention::Compressed(Compressed { compress, compress_heavy, .. }) => (compress, compress_heavy),
        other => panic!("{other:?}"),
    };
    let other = read(&heavy(&|ratio| if ratio == 128 { 64 } else { ratio })).expect("it can be read");
    assert_eq!(compressed(other), (4, 64));
    let light = read(&heavy(&|ratio| ratio.min(4))).expect("it can be read");
    assert_eq!(light.layers.list, LayerList::parse("AAC*41"));
    let two = said(&heavy(&|ratio| if ratio == 0 { 64 } else { ratio }));
    assert!(two.contains("holds 64 and 128: no more than one ratio above 4 is supported yet"), "{two}");
    for small in [1, 2, 3] {
        let said = said(&heavy(&|ratio| if ratio == 4 { small } else { ratio }));
        assert!(said.ends_with(&format!("holds {small}, which is not supported yet")), "{said}");
    }
    let said = |field, value| fault(FLASH, field, Some(value)).to_string();
    assert_eq!(said("num_hash_layers", "44"), "`num_hash_layers` = 44 is more than `num_hidden_layers` = 43");
    assert_eq!(said("hc_mult", "0"), "`hc_mult` = 0 is not a number above 0");
}

/// What a layer is made of, by a word for each or by a number; what says both must say one thing.
#[test]
fn layers_are_told_apart() {
    const NEXT: &str = "qwen3-next-80b-a3b";
    const STEP: &str = "full_attention_interval";
    let (full, linear) = ("full_attention", "linear_attention");
    let published = words(&[linear, linear, linear, full], 48);
    let whole = with(NEXT, STEP, Some("4"));
    assert_eq!(changed(NEXT, &[(STEP, None), ("layer_types", Some(&published))]), whole);
    assert_eq!(changed(NEXT, &[("layer_types", Some(&published))]), whole);
    let layers = |changes: Changes<'_>| changed(NEXT, changes).expect("it can be read").layers.list;
    assert_eq!(layers(&[(STEP, Some("5"))]), LayerList::parse("(MMMMA)*9MMM"));
    assert_eq!(
        layers(&[(STEP, None), ("layer_types", Some(&words(&[full, linear], 48)))]),
        LayerList::parse("(AM)*24")
    );
    // Where no layer has it, there is no mixer.
    let plain = with(NEXT, STEP, Some("1")).expect("it can be read");
    assert_eq!((plain.mixer, plain.layers.list), (Mixer::None, LayerList::parse("A*48")));

    let said = |changes: Changes<'_>| fault_of(NEXT, changes).to_string();
    assert_eq!(said(&[(STEP, None)]), "the config lacks `full_attention_interval`");
    assert_eq!(said(&[(STEP, Some("0"))]), "`full_attention_interval` = 0 is not a number above 0");
    let both = said(&[(STEP, Some("3")), ("layer_types", Some(&published))]);
    assert_eq!(both, "`full_attention_interval` = 3 is not what `layer_types` says");
    let alone = |value: &str| said(&[(STEP, None), ("layer_types", Some(value))]);
    assert!(alone(&words(&[full], 47)).ends_with("is not a list of as many as `num_hidden_layers` = 48"));
    assert!(
        alone(&words(&[full, "sliding_attention"], 48))
            .ends_with("holds \"sliding_attention\", which is not supported yet")
    );
    assert_eq!(alone("4"), "`layer_types` = 4 is not a list");

    // Within an object, by the path.
    let said = fault("qwen3.5-35b-a3b", "text_config.full_attention_interval", Some("5")).to_string();
    assert_eq!(said, "`text_config.full_attention_interval` = 5 is not what `layer_types` says");
}

/// A list holds a bounded number of layers. Where they are alike there is none.
#[test]
fn no_more_layers_than_a_list_holds() {
    let (full, sparse) = (words(&["full_attention"], 300), words(&["sparse"], 257));
    for (name, within) in [
        ("qwen3-next-80b-a3b", ""),
        ("qwen3.5-35b-a3b", "text_config."),
        ("gemma-4-26b-a4b", "text_config."),
        ("hunyuan-large", ""),
        ("kimi-linear-48b-a3b", ""),
    ] {
        let count = format!("{within}num_hidden_layers");
        for many in ["257", "4294967296", "18446744073709551615"] {
            let said = fault(name, &count, Some(many)).to_string();
            assert!(said.starts_with(&format!("`{count}` = {many} is more than 256 layers: ")), "{said}");
        }
        assert!(with(name, &format!("{within}layer_types"), Some(&full)).is_err(), "{name}");
    }
    let both = [("layer_types", Some(&*full)), ("mlp_layer_types", Some(&*sparse))];
    let error = changed("kimi-linear-48b-a3b", &both).expect_err("both are too long");
    assert_eq!(error.faults().len(), 2, "{error}");
    let alike = changed("hunyuan-large", &[("use_cla", Some("false")), ("num_hidden_layers", Some("300"))]);
    assert_eq!(
        alike.map(|model| (model.layers, model.mixer)),
        Ok((Layers { moe: 300, ..Layers::DEFAULT }, Mixer::None))
    );
    assert!(with("longcat-flash", "num_layers", Some("300")).is_ok());
}

/// Layers of Hunyuan-Large that read the keys and values of one in front, and options of all its layers.
#[test]
fn keys_and_values_are_shared() {
    const LARGE: &str = "hunyuan-large";
    let read = |field, value| with(LARGE, field, Some(value)).unwrap_or_else(|e| panic!("{field}: {e}"));
    assert_eq!(read("cla_share_factor", "3").layers.list, LayerList::parse("(AMM)*21A"));
    let plain = read("cla_share_factor", "1");
    assert_eq!(Ok(plain), with(LARGE, "use_cla", Some("false")));
    assert_eq!(Ok(plain), with(LARGE, "use_cla", None));
    assert_eq!((plain.mixer, plain.layers), (Mixer::None, Layers { moe: 64, ..Layers::DEFAULT }));
    let unnormed = read("use_qk_norm", "false");
    assert_eq!(Ok(unnormed), with(LARGE, "use_qk_norm", None));
    assert!(matches!(unnormed.attention, Attention::Gqa(Gqa { qk_norm: QkNorm::None, .. })));
    assert!(matches!(unnormed.mixer, Mixer::LocalGqa(LocalGqa { qk_norm: QkNorm::None, .. })));
    for (field, value) in [
        ("attention_head_dim", "80"),
        ("head_dim", "80"),
        ("moe_intermediate_size", "18304"),
        ("norm_type", "\"hf_rms\""),
        ("norm_type", "\"rms\""),
    ] {
        assert_eq!(Ok(read(field, value)), with(LARGE, field, None), "{field}");
    }

    let said = |field, value| fault(LARGE, field, value).to_string();
    assert_eq!(said("cla_share_factor", None), "the config lacks `cla_share_factor`");
    assert_eq!(said("cla_share_factor", Some("0")), "`cla_share_factor` = 0 is not a number above 0");
    assert_eq!(said("use_cla", Some("2")), "`use_cla` = 2 is not true or false");
    assert_eq!(said("use_mixed_mlp_moe", None), "the config lacks `use_mixed_mlp_moe`");
    assert!(said("use_mixed_mlp_moe", Some("false")).starts_with("`use_mixed_mlp_moe` = false is not supported yet"));
    for width in ["attention_head_dim", "head_dim"] {
        let even = format!("`{width}` = 128 is not `hidden_size` over `num_attention_heads`, 80");
        assert_eq!(said(width, Some("128")), even);
    }
    assert!(said("moe_intermediate_size", Some("3072")).starts_with("`intermediate_size` = 18304 is not `moe_"));
    assert!(said("num_experts", Some("1")).starts_with("`num_experts` = 1 makes every layer dense"));
}

/// Kimi Linear's config as it is published: what is linear attention's in an object, layers by their numbers from 1.
#[test]
fn linear_attention_may_have_an_object() {
    const KIMI: &str = "kimi-linear-48b-a3b";
    let object = |full: &[u64], linear: &[u64]| {
        let [full, linear] = [full, linear].map(|layers| layers.iter().copied().collect::<Value>());
        format!(
            r#"{{"full_attn_layers": {full}, "kda_layers": {linear}, "head_dim": 128, "num_heads": 32,
                "short_conv_kernel_size": 4}}"#
        )
    };
    // As published: the last layer has attention too.
    let full = [4, 8, 12, 16, 20, 24, 27];
    let rest = |full: &[u64]| (1..=27).filter(|layer| !full.contains(layer)).collect::<Vec<u64>>();
    let flat = ["linear_head_dim", "linear_num_heads", "linear_conv_kernel_dim", "layer_types", "mlp_layer_types"];
    let read = |object: &str, more: Changes<'_>| {
        let first = [("linear_attn_config", Some(object)), ("first_k_dense_replace", Some("1"))];
        let changes = flat.iter().map(|name| (*name, None)).chain(first).chain(more.iter().copied());
        changed(KIMI, &changes.collect::<Vec<_>>())
    };
    let published = read(&object(&full, &rest(&full)), &[]).expect("it can be read");
    assert_eq!(published.layers.list, LayerList::parse("mMMA(MMMA)*5MMA"));
    assert_eq!((published.layers.dense, published.layers.moe), (1, 26));
    assert_eq!(published.mixer, Mixer::Kda(Kda { heads: 32, head_dim: 128, conv: 4 }));
    // What transformers takes for its layers is another model.
    let other = [5, 9, 13, 17, 21, 25];
    let object_of_other = object(&other, &rest(&other));
    let written = with(KIMI, "linear_attn_config", None);
    assert_eq!(read(&object_of_other, &[]), written);
    assert_eq!(with(KIMI, "linear_attn_config", Some(&object_of_other)), written, "both, and they agree");

    let said = |object: &str, more: Changes<'_>| {
        let error = read(object, more).expect_err(object);
        assert_eq!(error.faults().len(), 1, "{error}");
        error.faults()[0].to_string()
    };
    let right = object(&full, &rest(&full));
    let uneven = "does not say of each layer from 1 to `num_hidden_layers` = 27, once, what it is";
    for (full, linear) in [
        (&full[..6], rest(&full)),
        (&[&full[..], &[28]].concat(), rest(&full)),
        (&[&full[..], &[4]].concat(), rest(&full)),
        (&[&full[..], &[1]].concat(), rest(&full)),
        (&[0, 4, 8, 12, 16, 20, 24], rest(&full)),
    ] {
        let said = said(&object(full, &linear), &[]);
        assert!(said.starts_with("`linear_attn_config` = {") && said.ends_with(uneven), "{said}");
    }
    for (field, value) in [("linear_head_dim", "64"), ("linear_num_heads", "16"), ("linear_conv_kernel_dim", "3")] {
        let said = said(&right, &[(field, Some(value))]);
        assert!(said.starts_with(&format!("`{field}` = {value} is not what `linear_attn_config` says: ")), "{said}");
    }
    assert!(
        said(&right, &[("layer_types", Some(&words(&["full_attention"], 27)))])
            .ends_with("is not what `linear_attn_config` says")
    );
    assert_eq!(said("[]", &[]), "`linear_attn_config` = [] is not an object");
    let lacking = said("{}", &[]);
    assert!(
        lacking.starts_with("the config lacks `linear_attn_config.num_heads`, `linear_attn_config.head_dim`"),
        "{lacking}"
    );
    assert!(said(&right.replace("[4,8,", "[\"4\",8,"), &[]).ends_with("is not a list of whole numbers"));
    // Kimi K3's, whose gates have the full rank.
    let unknown = said(&right.replace("\"num_heads\"", "\"use_full_rank_gate\": true, \"num_heads\""), &[]);
    assert!(unknown.starts_with("`linear_attn_config.use_full_rank_gate` = true is not a known field"), "{unknown}");
    assert_eq!(said(&right, &[("num_hidden_layers", None)]), "the config lacks `num_hidden_layers`");

    assert!(
        said(&right, &[("tie_word_embeddings", Some("1"))]).starts_with("`tie_word_embeddings` = 1 is not supported")
    );

    // Without the object what is beside it must be there.
    for name in ["layer_types", "linear_head_dim", "linear_num_heads", "linear_conv_kernel_dim"] {
        assert_eq!(fault(KIMI, name, None).to_string(), format!("the config lacks `{name}`"));
    }
    // Which layers are dense: by a word each, or so many first.
    assert_eq!(fault(KIMI, "mlp_layer_types", None).to_string(), "the config lacks `first_k_dense_replace`");
    let first = |number| changed(KIMI, &[("mlp_layer_types", None), ("first_k_dense_replace", Some(number))]);
    assert_eq!(first("1"), written);
    assert_eq!(with(KIMI, "first_k_dense_replace", Some("1")), written);
    let mixed = r#"["sparse", "dense", "sparse"]"#;
    let few = [("num_hidden_layers", Some("3")), ("mlp_layer_types", Some(mixed))];
    let few = [&few[..], &[("layer_types", Some(r#"["linear_attention", "linear_attention", "full_attention"]"#))]];
    let few = changed(KIMI, &few.concat()).expect("it can be read").layers;
    assert_eq!((few.list, few.dense, few.moe), (LayerList::parse("MmA"), 1, 2));
    let more = first("28").expect_err("there are 27").to_string();
    assert_eq!(more, "error: `first_k_dense_replace` = 28 is more than `num_hidden_layers` = 27");
    let both = fault(KIMI, "first_k_dense_replace", Some("2")).to_string();
    assert_eq!(both, "`first_k_dense_replace` = 2 is not what `mlp_layer_types` says");
}

/// Gemma 4's heads: those of layers without a window, and those of the others.
#[test]
fn heads_of_layers_without_a_window() {
    const GEMMA: &str = "gemma-4-26b-a4b";
    let of = |changes: Changes<'_>| {
        let model = changed(GEMMA, changes).unwrap_or_else(|e| panic!("{e}"));
        let Attention::Gqa(gqa) = model.attention else { panic!("it is grouped") };
        (gqa.kv_heads, gqa.head_dim, gqa.key_as_value.is_on())
    };
    let (heads, equal) = ("text_config.num_global_key_value_heads", "text_config.attention_k_eq_v");
    assert_eq!(of(&[]), (2, 512, true));
    assert_eq!(of(&[(heads, Some("null"))]), (8, 512, true));
    assert_eq!(of(&[(equal, Some("false")), (heads, Some("null"))]), (8, 512, false));
    assert_eq!(of(&[(equal, None), (heads, None)]), (8, 512, false));
    assert_eq!(of(&[("text_config.global_head_dim", Some("256"))]), (2, 256, true));

    let said = |field: &str, value: Option<&str>| fault(GEMMA, field, value).to_string();
    let denied =
        "`text_config.num_global_key_value_heads` = 2 is not `num_key_value_heads` = 8, though keys are not values";
    assert_eq!(said(equal, Some("false")), denied);
    assert_eq!(said(heads, Some("0")), format!("`{heads}` = 0 is not a number above 0"));
    let types = "text_config.layer_types";
    assert!(said(types, Some(&words(&["sliding_attention"], 30))).ends_with("does not end with `full_attention`"));
    for field in [types, "text_config.enable_moe_block", "text_config.hidden_size_per_layer_input"] {
        assert_eq!(said(field, None), format!("the config lacks `{field}`"));
        assert_eq!(said(field, Some("null")), format!("the config lacks `{field}`"));
    }
    for (field, value) in
        [("text_config.enable_moe_block", "false"), ("text_config.hidden_size_per_layer_input", "256")]
    {
        assert!(said(field, Some(value)).starts_with(&format!("`{field}` = {value} is not supported yet")));
    }
    let biased = with(GEMMA, "text_config.attention_bias", Some("true")).expect("it can be read");
    assert!(matches!(biased.attention, Attention::Gqa(Gqa { bias: Bias::All, .. })));
    assert!(matches!(biased.mixer, Mixer::LocalGqa(LocalGqa { bias: Bias::All, .. })));
}

/// A model around a decoder says whether its head is the embedding, and the decoder may say the same.
#[test]
fn a_decoder_does_not_deny_its_model() {
    for (name, absent, denied) in [("gemma-4-26b-a4b", true, "false"), ("qwen3.5-35b-a3b", false, "true")] {
        let (outer, inner) = ("tie_word_embeddings", "text_config.tie_word_embeddings");
        let tied =
            |changes: Changes<'_>| changed(name, changes).unwrap_or_else(|e| panic!("{e}")).tied_embeddings.is_on();
        assert_eq!(tied(&[(outer, None), (inner, None)]), absent, "{name}");
        assert_eq!(tied(&[(outer, Some(denied)), (inner, Some(denied))]), !absent, "{name}");
        let said = fault(name, inner, Some(denied)).to_string();
        assert_eq!(said, format!("`{outer}` = {absent} is not what `{inner}` says"));
        assert_eq!(fault(name, inner, Some("1")).to_string(), format!("`{inner}` = 1 is not true or false"));
        assert!(with(name, "vision_config", None).is_ok(), "a tower is no part of it");
    }
}

/// LongCat-Flash's two blocks of a layer.
#[test]
fn a_layer_of_two_blocks() {
    const LONGCAT: &str = "longcat-flash";
    let whole = with(LONGCAT, "num_hidden_layers", Some("56"));
    assert_eq!(whole, with(LONGCAT, "num_hidden_layers", None));
    assert_eq!(with(LONGCAT, "zero_expert_num", Some("null")).map(|model| model.experts.identity), Ok(0));
    let said = |field, value| fault(LONGCAT, field, Some(value)).to_string();
    let odd = "`num_hidden_layers` = 28 is not twice `num_layers` = 28, two blocks a layer";
    assert_eq!(said("num_hidden_layers", "28"), odd);
    for none in ["0", "null"] {
        assert_eq!(said("q_lora_rank", none), format!("`q_lora_rank` = {none} is not a number above 0"));
    }
    assert!(said("qk_head_dim", "128").contains("is not `qk_nope_head_dim` + `qk_rope_head_dim` = 128 + 64"));
    assert!(said("mtp_num_layers", "1").contains("is not a known field of `longcat_flash`"));
}

#[test]
fn a_byte_order_mark_is_no_fault() {
    let text = &configs()["llama-3.1-8b"];
    assert_eq!(Architecture::from_config_json(&format!("\u{feff}{text}")), Architecture::from_config_json(text));
}

/// A window masks scores, and changes no tensor.
#[test]
fn windows_are_passed_over() {
    for (name, field, value) in [
        ("mixtral-8x7b", "sliding_window", "4096"),
        ("qwen3-8b", "use_sliding_window", "true"),
        ("gpt-oss-120b", "sliding_window", "256"),
        ("llama-4-scout", "text_config.attention_chunk_size", "null"),
    ] {
        assert_eq!(with(name, field, Some(value)), with(name, "torch_dtype", None), "{field}");
    }
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

/// Any field replaced by anything, one or many at once: an answer, and a number that is out of range is a breach.
#[test]
fn any_config_has_an_answer() {
    const VALUES: &[&str] = &[
        "null",
        "true",
        "false",
        "0",
        "1",
        "2",
        "3",
        "7",
        "-1",
        "1.5",
        "1e300",
        "4294967296",
        "2147483648",
        "9223372036854775807",
        "18446744073709551615",
        "18446744073709551616",
        "\"\"",
        "\"silu\"",
        "\"7168\"",
        "\"auto\"",
        "\"M*E-\"",
        "[]",
        "[0, 1, 4, 128]",
        "[[[[1]]]]",
        "{}",
        "{\"a\": {\"b\": [null]}}",
        "[\"dense\"]",
        "[\"sparse\", 1]",
        "[\"full_attention\", \"linear_attention\", \"sliding_attention\"]",
        "{\"full_attn_layers\": [0, 1, 1], \"kda_layers\": [18446744073709551615], \"num_heads\": 2}",
    ];
    let mut random = fastrand::Rng::with_seed(11);
    let configs: Vec<Map<String, Value>> = published().map(|(name, _)| config(name)).collect();
    let objects = configs.iter().flat_map(|config| config.values().filter_map(Value::as_object).chain([config]));
    let known = objects.flat_map(|object| object.keys().cloned());
    let fields: Vec<String> = known.chain(["linear_attn_config".to_owned()]).collect();
    let (mut read, mut refused) = (0, 0);
    for _ in 0..6000 {
        let mut config = configs[random.usize(..configs.len())].clone();
        for _ in 0..random.usize(1..4) {
            let field = &fields[random.usize(..fields.len())];
            let is_within = random.bool() && config.get("text_config").is_some_and(Value::is_object);
            let object = if is_within { config["text_config"].as_object_mut() } else { Some(&mut config) };
            let object = object.expect("it is one");
            match random.usize(..8) {
                0 => drop(object.remove(field)),
                1 => drop(object.insert(format!("{field}_"), Value::from(1))),
                _ => {
                    let value = VALUES[random.usize(..VALUES.len())];
                    object.insert(field.clone(), serde_json::from_str(value).expect("the value is JSON"));
                }
            }
        }
        match Architecture::from_config_json(&Value::Object(config.clone()).to_string()) {
            Ok(architecture) => {
                read += 1;
                holds_what_was_read(&architecture, &config);
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(read > 500 && refused > 500, "{read} read, {refused} refused");
}

/// Lists of layers of any length, of what they may hold and of what they may not.
#[test]
fn any_list_of_layers_has_an_answer() {
    const LISTS: &[(&str, &str, &[&str])] = &[
        ("deepseek-v4-flash", "compress_ratios", &["0", "4", "128", "64", "3"]),
        ("mimo-v2-flash", "hybrid_layer_pattern", &["0", "1", "2"]),
        ("mimo-v2-flash", "moe_layer_freq", &["0", "1", "null"]),
        ("minimax-text-01", "layer_types", &["\"full_attention\"", "\"linear_attention\"", "\"attention\""]),
        ("nemotron-3-nano-30b-a3b", "layers_block_type", &["\"mamba\"", "\"attention\"", "\"mlp\"", "\"moe\"", "0"]),
        ("nemotron-3-nano-30b-a3b", "hybrid_override_pattern", &["M", "*", "-", "E", "é"]),
    ];
    let mut random = fastrand::Rng::with_seed(13);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..3000 {
        let (name, field, items) = LISTS[random.usize(..LISTS.len())];
        let count = *random.choice(&[0, 1, 2, 43, 44, 48, 52, 80, 255, 256, 257, 300]).expect("there are some");
        // Mostly of what is known.
        let known = items.len() - usize::from(random.usize(..100) > 0);
        let items: Vec<&str> = (0..count).map(|_| items[random.usize(..known)]).collect();
        let list = if field == "hybrid_override_pattern" {
            Value::from(items.concat()).to_string()
        } else {
            format!("[{}]", items.join(","))
        };
        let counted = random.bool().then(|| count.to_string());
        let mut changes = vec![(field, Some(&*list))];
        if let Some(counted) = &counted {
            changes.push(("num_hidden_layers", Some(counted)));
        }
        if field == "layers_block_type" && random.bool() {
            changes.push(("hybrid_override_pattern", None));
        }
        match changed(name, &changes) {
            Ok(architecture) => {
                read += 1;
                let layers = architecture.layers;
                assert!(layers.count() <= 256 && layers.list.count(LayerKind::Moe) == layers.moe, "{layers:?}");
                let _ = judge(&Spec { architecture, layout: Layout::DEFAULT });
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(read > 200 && refused > 200, "{read} read, {refused} refused");
}

/// No number was wrapped or cut on its way: each is one of the config's, or made of two of them.
fn holds_what_was_read(architecture: &Architecture, config: &Map<String, Value>) {
    let spec = Spec { architecture: *architecture, layout: Layout::DEFAULT };
    // By the name that most configs use, or by that of one in several levels.
    let field = |names: &[&str]| names.iter().find_map(|name| number(config, name));
    assert_eq!(Some(architecture.hidden), field(&["hidden_size", "text_config.hidden_size", "d_model"]));
    assert_eq!(Some(architecture.vocab), field(&["vocab_size", "text_config.vocab_size"]));
    let Layers { dense, moe, list, .. } = architecture.layers;
    let layers = if list.is_none() { u128::from(dense) + u128::from(moe) } else { u128::from(list.layers()) };
    // Of LongCat-Flash's, `num_hidden_layers` counts blocks.
    let counted = field(&["num_layers", "num_hidden_layers", "text_config.num_hidden_layers", "n_layers"]);
    // Where each layer is listed by letters, nothing else need count them.
    assert!(counted.map_or(list.is_alone(), |counted| layers == u128::from(counted)), "{counted:?} layers");
    let heads = field(&["num_attention_heads", "text_config.num_attention_heads", "n_heads"]);
    assert_eq!(spec.numbers().get(Key::AttentionHeads), heads);
    let violations = judge(&spec);
    assert!(spec.is_in_range() || violations.iter().any(|violation| violation.id() == "number-range"), "{violations}");
}

/// The text itself cut, doubled and overwritten.
#[test]
fn any_text_has_an_answer() {
    let mut random = fastrand::Rng::with_seed(12);
    let texts: Vec<&String> = configs().values().collect();
    for _ in 0..4000 {
        let mut bytes = texts[random.usize(..texts.len())].clone().into_bytes();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len());
            match random.usize(..3) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] = b"{}[]\",:0123456789eE-.tfn\\ "[random.usize(..26)],
                _ => bytes.extend_from_within(at..),
            }
        }
        if let Err(error) = Architecture::from_config_json(&String::from_utf8_lossy(&bytes)) {
            assert!(!error.to_string().is_empty());
        }
    }
}
