//! Architectures out of config.json: every published one is read to the last parameter, or refused by name. See
//! `tests/data/README.md` for the files.

mod totals;

use moe_model::config::{ConfigError, Fault, Reason, model_types};
use moe_model::preset::Preset;
use moe_model::spec::{Architecture, Attention, Bias, Gqa, Layout, QkNorm, Switch};
use moe_model::{Key, Spec, judge};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// What is read, and the preset that it is.
const READ: &[(&str, &str)] = &[
    ("dbrx", "dbrx"),
    ("deepseek-moe-16b", "deepseek_moe_16b"),
    ("deepseek-r1", "deepseek_r1"),
    ("deepseek-v2", "deepseek_v2"),
    ("deepseek-v2-lite", "deepseek_v2_lite"),
    ("deepseek-v3", "deepseek_v3"),
    ("deepseek-v3.2", "deepseek_v3_2"),
    ("dots.llm1", "dots_llm1"),
    ("ernie-4.5-300b-a47b", "ernie_4_5_300b_a47b"),
    ("glm-4.5", "glm_4_5"),
    ("glm-4.7-flash", "glm_4_7_flash"),
    ("glm-5", "glm_5"),
    ("gpt-oss-120b", "gpt_oss_120b"),
    ("granite-3.1-1b-a400m", "granite_3_1_1b_a400m"),
    ("hunyuan-a13b", "hunyuan_a13b"),
    ("kimi-k2", "kimi_k2"),
    ("llama-2-7b", "llama_2_7b"),
    ("llama-3.1-70b", "llama_3_1_70b"),
    ("llama-3.1-8b", "llama_3_1_8b"),
    ("llama-4-scout", "llama_4_scout"),
    ("minimax-m2.5", "minimax_m2_5"),
    ("mixtral-8x7b", "mixtral_8x7b"),
    ("olmoe-1b-7b", "olmoe_1b_7b"),
    ("phi-3.5-moe", "phi_3_5_moe"),
    ("qwen1.5-moe-a2.7b", "qwen1_5_moe_a2_7b"),
    ("qwen3-0.6b", "qwen3_0_6b"),
    ("qwen3-235b-a22b", "qwen3_235b_a22b"),
    ("qwen3-30b-a3b", "qwen3_30b_a3b"),
    ("qwen3-8b", "qwen3_8b"),
];

/// What is refused, and the value of `model_type` that the error names.
const REFUSED: &[(&str, &str)] = &[
    ("arctic", "\"arctic\""),
    ("deepseek-v4-flash", "\"deepseek_v4\""),
    ("gemma-4-26b-a4b", "\"gemma4\""),
    // Its config has none, and is no `config.json`: names and numbers of the vendor's program. A preset holds them.
    ("grok-1", "null"),
    ("hunyuan-large", "\"hunyuan\""),
    ("jamba-v0.1", "\"jamba\""),
    ("kimi-linear-48b-a3b", "\"kimi_linear\""),
    ("longcat-flash", "\"longcat_flash\""),
    ("mimo-v2-flash", "\"mimo_v2_flash\""),
    ("minimax-text-01", "\"minimax\""),
    ("nemotron-3-nano-30b-a3b", "\"nemotron_h\""),
    ("qwen3-next-80b-a3b", "\"qwen3_next\""),
    ("qwen3.5-35b-a3b", "\"qwen3_5_moe\""),
];

/// Every published config by the name of its model.
fn configs() -> BTreeMap<String, String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/configs");
    let files = fs::read_dir(folder).expect("the folder is there");
    files
        .map(|file| {
            let path = file.expect("the folder can be listed").path();
            let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
            (name, fs::read_to_string(path).expect("the file can be read"))
        })
        .collect()
}

fn config(name: &str) -> Map<String, Value> {
    serde_json::from_str(&configs()[name]).expect("a config is a JSON object")
}

/// A config with one field set, or taken out; dots lead into objects.
fn with(name: &str, field: &str, value: Option<&str>) -> Result<Architecture, ConfigError> {
    let mut config = config(name);
    let mut object = &mut config;
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
    Architecture::from_config_json(&Value::Object(config).to_string())
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

/// The only fault of a config with one field set, or taken out.
fn fault(name: &str, field: &str, value: Option<&str>) -> Fault {
    let error = with(name, field, value).expect_err(field);
    assert_eq!(error.faults().len(), 1, "{error}");
    error.faults()[0].clone()
}

#[test]
fn what_is_read_is_the_published_model() {
    for (name, preset) in READ {
        let architecture = Architecture::from_config_json(&configs()[*name]).unwrap_or_else(|e| panic!("{name}: {e}"));
        totals::agree(name, &architecture);
        assert_eq!(Some(architecture), Preset::named(preset).map(|preset| preset.architecture), "{name}");
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
    let listed = READ.iter().map(|(name, _)| *name).chain(REFUSED.iter().map(|(name, _)| *name));
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
        ("ernie-4.5-300b-a47b", "moe_layer_interval", "2"),
        ("ernie-4.5-300b-a47b", "use_bias", "true"),
        ("glm-4.5", "topk_method", "\"greedy\""),
        ("hunyuan-a13b", "use_cla", "true"),
        ("llama-4-scout", "vision_config", "{}"),
        ("minimax-m2.5", "use_qk_norm", "false"),
        ("qwen3-30b-a3b", "mlp_only_layers", "[0]"),
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
    for (name, _) in READ {
        let whole = Architecture::from_config_json(&configs()[*name]).expect(name);
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
            let is_idle = *name == "deepseek-v2-lite" && ["n_group", "topk_group"].contains(&&*field);
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
    for (name, preset) in READ {
        let whole = Preset::named(preset).expect("it is there").architecture;
        let config = config(name);
        if config.contains_key("tie_word_embeddings") && *name != "dbrx" {
            let tied = read(name, "tie_word_embeddings", Some("true"));
            assert_eq!(tied, Architecture { tied_embeddings: Switch::On, ..whole }, "{name}");
            assert_eq!(
                fault(name, "tie_word_embeddings", Some("1")).to_string(),
                "`tie_word_embeddings` = 1 is not true or false"
            );
        }
        let (Attention::Gqa(gqa), true) = (whole.attention, config.contains_key("attention_bias")) else { continue };
        let bias = if *name == "glm-4.5" { Bias::Qkv } else { Bias::All };
        for (value, bias) in [("true", bias), ("false", Bias::None)] {
            let expected = Architecture { attention: Attention::Gqa(Gqa { bias, ..gqa }), ..whole };
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
        "[]",
        "[[[[1]]]]",
        "{}",
        "{\"a\": {\"b\": [null]}}",
        "[\"dense\"]",
        "[\"sparse\", 1]",
    ];
    let mut random = fastrand::Rng::with_seed(11);
    let configs: Vec<Map<String, Value>> = READ.iter().map(|(name, _)| config(name)).collect();
    let fields: Vec<String> = configs.iter().flat_map(|config| config.keys().cloned()).collect();
    let (mut read, mut refused) = (0, 0);
    for _ in 0..6000 {
        let mut config = configs[random.usize(..configs.len())].clone();
        for _ in 0..random.usize(1..4) {
            let field = &fields[random.usize(..fields.len())];
            match random.usize(..8) {
                0 => drop(config.remove(field)),
                1 => drop(config.insert(format!("{field}_"), Value::from(1))),
                _ => {
                    let value = VALUES[random.usize(..VALUES.len())];
                    config.insert(field.clone(), serde_json::from_str(value).expect("the value is JSON"));
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

/// No number was wrapped or cut on its way: each is one of the config's, or made of two of them.
fn holds_what_was_read(architecture: &Architecture, config: &Map<String, Value>) {
    let spec = Spec { architecture: *architecture, layout: Layout::DEFAULT };
    // By the name that most configs use, or by that of one in several levels.
    let field = |names: [&str; 3]| names.iter().find_map(|name| number(config, name));
    assert_eq!(Some(architecture.hidden), field(["hidden_size", "text_config.hidden_size", "d_model"]));
    assert_eq!(Some(architecture.vocab), field(["vocab_size", "text_config.vocab_size", ""]));
    let layers = u128::from(architecture.layers.dense) + u128::from(architecture.layers.moe);
    let counted = field(["num_hidden_layers", "text_config.num_hidden_layers", "n_layers"]);
    assert_eq!(Some(layers), counted.map(u128::from));
    let heads = field(["num_attention_heads", "text_config.num_attention_heads", "n_heads"]);
    assert_eq!(spec.numbers().get(Key::AttentionHeads), heads);
    let violations = judge(&spec);
    assert!(spec.is_in_range() || violations.iter().any(|violation| violation.id() == "number-range"), "{violations}");
}

/// The text itself cut, doubled and overwritten.
#[test]
fn any_text_has_an_answer() {
    let mut random = fastrand::Rng::with_seed(12);
    let texts: Vec<String> = configs().into_values().collect();
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
