//! Architectures out of config.json: every published one is read to the last parameter, or refused by name. See
//! `tests/data/README.md` for the files.

use moe_model::config::{ConfigError, Fault, Reason, model_types};
use moe_model::preset::Preset;
use moe_model::spec::{Architecture, Layout};
use moe_model::{Key, Spec, judge};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// What is read, and the preset that it is, if there is one.
const READ: &[(&str, Option<&str>)] = &[
    ("deepseek-moe-16b", Some("deepseek_moe_16b")),
    ("deepseek-r1", Some("deepseek_r1")),
    ("deepseek-v2", Some("deepseek_v2")),
    ("deepseek-v2-lite", Some("deepseek_v2_lite")),
    ("deepseek-v3", Some("deepseek_v3")),
    ("glm-4.7-flash", None),
    ("kimi-k2", Some("kimi_k2")),
    ("llama-2-7b", Some("llama_2_7b")),
    ("llama-3.1-70b", Some("llama_3_1_70b")),
    ("llama-3.1-8b", Some("llama_3_1_8b")),
    ("mixtral-8x7b", Some("mixtral_8x7b")),
];

/// What is refused, and the value of `model_type` that the error names.
const REFUSED: &[(&str, &str)] = &[
    ("arctic", "\"arctic\""),
    ("dbrx", "\"dbrx\""),
    ("deepseek-v3.2", "\"deepseek_v32\""),
    ("deepseek-v4-flash", "\"deepseek_v4\""),
    ("dots.llm1", "\"dots1\""),
    ("ernie-4.5-300b-a47b", "\"ernie4_5_moe\""),
    ("gemma-4-26b-a4b", "\"gemma4\""),
    ("glm-4.5", "\"glm4_moe\""),
    ("glm-5", "\"glm_moe_dsa\""),
    ("gpt-oss-120b", "\"gpt_oss\""),
    ("granite-3.1-1b-a400m", "\"granitemoe\""),
    // Its config has none.
    ("grok-1", "null"),
    ("hunyuan-a13b", "\"hunyuan_v1_moe\""),
    ("hunyuan-large", "\"hunyuan\""),
    ("jamba-v0.1", "\"jamba\""),
    ("kimi-linear-48b-a3b", "\"kimi_linear\""),
    ("llama-4-scout", "\"llama4\""),
    ("longcat-flash", "\"longcat_flash\""),
    ("mimo-v2-flash", "\"mimo_v2_flash\""),
    ("minimax-m2.5", "\"minimax_m2\""),
    ("minimax-text-01", "\"minimax\""),
    ("nemotron-3-nano-30b-a3b", "\"nemotron_h\""),
    ("olmoe-1b-7b", "\"olmoe\""),
    ("phi-3.5-moe", "\"phimoe\""),
    ("qwen1.5-moe-a2.7b", "\"qwen2_moe\""),
    ("qwen3-0.6b", "\"qwen3\""),
    ("qwen3-235b-a22b", "\"qwen3_moe\""),
    ("qwen3-30b-a3b", "\"qwen3_moe\""),
    ("qwen3-8b", "\"qwen3\""),
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

/// A config with one field set, or taken out.
fn with(name: &str, field: &str, value: Option<&str>) -> Result<Architecture, ConfigError> {
    let mut config = config(name);
    match value {
        Some(value) => config.insert(field.to_owned(), serde_json::from_str(value).expect("the value is JSON")),
        None => config.remove(field),
    };
    Architecture::from_config_json(&Value::Object(config).to_string())
}

/// The only fault of a config with one field set, or taken out.
fn fault(name: &str, field: &str, value: Option<&str>) -> Fault {
    let error = with(name, field, value).expect_err(field);
    assert_eq!(error.faults().len(), 1, "{error}");
    error.faults()[0].clone()
}

#[test]
fn what_is_read_is_the_published_model() {
    let totals: Vec<Value> = serde_json::from_str(include_str!("data/totals.json")).expect("the file is JSON");
    for (name, preset) in READ {
        let architecture = Architecture::from_config_json(&configs()[*name]).unwrap_or_else(|e| panic!("{name}: {e}"));
        let row = totals.iter().find(|row| row["model"] == *name).unwrap_or_else(|| panic!("no {name}"));
        let ours = [
            ("total", architecture.parameters().total()),
            ("active", architecture.active_parameters()),
            ("buffers", architecture.buffer_elements()),
            ("mtp", architecture.mtp_parameters()),
        ];
        for (count, ours) in ours {
            assert_eq!(Some(ours), row[count].as_u64(), "{count} of {name}");
        }
        if let Some(preset) = preset {
            assert_eq!(Some(architecture), Preset::named(preset).map(|preset| preset.architecture), "{name}");
        }
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
        ("deepseek-v3", "tie_word_embeddings", "true"),
        ("deepseek-v3", "attention_bias", "true"),
        ("deepseek-v3", "moe_layer_freq", "2"),
        ("deepseek-v3", "topk_method", "\"greedy\""),
        ("deepseek-v3", "hidden_act", "\"relu2\""),
        ("deepseek-v2", "topk_method", "\"noaux_tc\""),
        ("mixtral-8x7b", "sliding_window", "4096"),
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
    let optional =
        ["n_group", "topk_group", "num_nextn_predict_layers", "num_key_value_heads", "first_k_dense_replace"];
    for (name, _) in READ {
        let whole = Architecture::from_config_json(&configs()[*name]).expect(name);
        let numbers = config(name).into_iter().filter(|(_, value)| value.is_u64());
        for (field, value) in numbers {
            // Another number makes another model if the field is read.
            let more = (value.as_u64().expect("a number") + 8).to_string();
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
    let dense = said("deepseek-v3", "first_k_dense_replace", "62");
    assert_eq!(dense, "`first_k_dense_replace` = 62 is more than `num_hidden_layers` = 61");
    let heads = said("llama-3.1-8b", "num_attention_heads", "33");
    assert!(heads.starts_with("`num_attention_heads` = 33 does not divide `hidden_size` = 4096\n= note: "), "{heads}");
    assert!(said("glm-4.7-flash", "qk_head_dim", "64").contains("`qk_nope_head_dim` + `qk_rope_head_dim` = 192 + 64"));
    assert!(said("glm-4.7-flash", "num_hidden_layers", "46").starts_with("`mlp_layer_types` = [\"dense\","));
    assert!(said("glm-4.7-flash", "first_k_dense_replace", "2").contains("is not what `mlp_layer_types` says"));
    assert!(with("glm-4.7-flash", "first_k_dense_replace", Some("1")).is_ok());
    assert!(
        with("mixtral-8x7b", "head_dim", Some("64")).is_ok_and(|other| other.parameters().total() < 46_100_000_000)
    );
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
error: the config lacks `num_attention_heads`, `vocab_size`, `num_hidden_layers` and `intermediate_size`
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
    let field = |name: &str| config.get(name).and_then(Value::as_u64);
    assert_eq!(Some(architecture.hidden), field("hidden_size"));
    assert_eq!(Some(architecture.vocab), field("vocab_size"));
    let layers = u128::from(architecture.layers.dense) + u128::from(architecture.layers.moe);
    assert_eq!(Some(layers), field("num_hidden_layers").map(u128::from));
    let numbers = spec.numbers();
    assert_eq!(numbers.get(Key::AttentionHeads), field("num_attention_heads"));
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
