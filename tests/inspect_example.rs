//! The example that counts a model, run as its user runs it: what it says of configs and presets, to people, as JSON and
//! as a declaration, and of what is wrong.

mod example;

use example::{Example, Said};
use moe_model::preset::{DEEPSEEK_V3, PRESETS};
use serde_json::{Value, json};
use std::io::pipe;
use std::path::PathBuf;

const DEEPSEEK: &str = "tests/data/configs/deepseek-v3.json";

static EXAMPLE: Example = Example::named("inspect");

fn run(arguments: &[&str]) -> Said {
    EXAMPLE.run(arguments)
}

/// Of a text on stdin.
fn run_on(text: &[u8], arguments: &[&str]) -> Said {
    EXAMPLE.run_on(text, arguments)
}

/// What stdout holds, of a run that goes well.
fn well(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = run(arguments);
    assert_eq!((code, stderr.as_str()), (0, ""), "{arguments:?}");
    stdout
}

fn report(arguments: &[&str]) -> Value {
    serde_json::from_str(&well(&[arguments, &["--json"]].concat())).expect("stdout is one JSON document")
}

#[test]
fn a_config_is_counted() {
    let report = report(&[DEEPSEEK]);
    let expected: Value = serde_json::from_str(include_str!("data/tensors/deepseek-v3.json")).expect("it is JSON");
    assert_eq!(report["format"], "moe-model/inspect/3");
    assert_eq!((&report["source"], &report["model_type"]), (&DEEPSEEK.into(), &"deepseek_v3".into()));
    assert_eq!(report["naming"], "llama");
    assert_eq!(report["parameters"]["total"], 671_026_404_352_u64);
    assert_eq!(report["parameters"]["active"], 37_552_282_624_u64);
    for name in ["active_without_input_embedding", "active_without_embedding_and_head"] {
        assert_eq!(report["parameters"][name], expected[name], "{name}");
    }
    assert_eq!(report["buffers"], 14_848);
    assert_eq!(report["checkpoint_elements"], expected["checkpoint_elements"]);
    assert_eq!(report["mtp"]["parameters"], 11_610_067_968_u64);
    assert_eq!((&report["mtp"]["buffers"], &report["mtp"]["copies"]), (&256.into(), &1_853_358_080_u64.into()));
    assert_eq!(report["mtp"]["checkpoint_elements"], 684_489_845_504_u64);
    assert_eq!((&report["block"], &report["scales"], &report["mtp"]["scales"]), (&Value::Null, &0.into(), &0.into()));
    assert_eq!(report["weight_bytes"], 2 * 671_026_404_352_u64 + 4 * 14_848);
}

/// As published: matrices in fp8, each block of which has a scale.
#[test]
fn a_quantised_checkpoint_is_counted() {
    let mut config: Value = serde_json::from_str(include_str!("data/configs/deepseek-v3.json")).expect("it is JSON");
    config["quantization_config"] = json!({"fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]});
    let (code, stdout, _) = run_on(config.to_string().as_bytes(), &["--json"]);
    let report: Value = serde_json::from_str(&stdout).expect("stdout is one JSON document");
    assert_eq!((code, &report["block"]), (0, &json!([128, 128])));
    assert_eq!((&report["scales"], &report["mtp"]["scales"]), (&40_838_232.into(), &702_264.into()));
    assert_eq!(report["checkpoint_elements"], 671_026_419_200_u64, "scales apart");
    assert_eq!(report["mtp"]["checkpoint_elements"], 684_531_386_000_u64);
    // By the hub's formats: bf16, fp8, and scales and correction biases in fp32.
    assert_eq!(report["checkpoint_bytes"], 2 * 3_918_786_560 + 680_571_043_840_u64 + 4 * 41_555_600);
    let (_, text, _) = run_on(config.to_string().as_bytes(), &[]);
    assert!(text.contains("weights in memory, fp8 in blocks of 128 x 128, the rest in bf16  "), "{text}");
    // What is quantised otherwise is counted in bf16.
    config["quantization_config"] = json!({"quant_method": "mxfp4"});
    let (_, stdout, _) = run_on(config.to_string().as_bytes(), &["--json"]);
    let report: Value = serde_json::from_str(&stdout).expect("stdout is one JSON document");
    assert_eq!(report["block"], Value::Null);
}

/// The lines of the report are those of the file, in any order.
#[test]
fn its_tensors_are_listed() {
    for (model, text) in [
        ("deepseek-v3", include_str!("data/tensors/deepseek-v3.json")),
        ("mixtral-8x7b", include_str!("data/tensors/mixtral-8x7b.json")),
        ("llama-2-7b", include_str!("data/tensors/llama-2-7b.json")),
    ] {
        let report = report(&[&format!("tests/data/configs/{model}.json")]);
        let row = |name: &Value, shape: &Value| format!("{name} {shape}");
        let mut ours: Vec<String> = rows(&report["tensors"]).map(|of| row(&of["name"], &of["shape"])).collect();
        let file: Value = serde_json::from_str(text).expect("it is JSON");
        let mut theirs: Vec<String> = rows(&file["tensors"]).map(|of| row(&of[0], &of[1])).collect();
        ours.sort();
        theirs.sort();
        assert_eq!(ours, theirs, "{model}");
        let elements = |of: &Value| of["elements"].as_u64().expect("elements are exact integers");
        let sum: u64 = rows(&report["tensors"]).map(elements).sum();
        assert_eq!(report["checkpoint_elements"], sum, "{model}");
        for of in rows(&report["tensors"]) {
            let count = of["count"].as_u64().expect("numbers are exact integers");
            let shape: u64 = rows(&of["shape"]).map(|length| length.as_u64().expect("a length")).product();
            assert_eq!(elements(of), shape * count, "{of}");
        }
    }
}

fn rows(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().expect("a list").iter()
}

#[test]
fn a_preset_is_counted_like_its_config() {
    let (mut preset, mut config) = (report(&["--preset", "deepseek_v3"]), report(&[DEEPSEEK]));
    assert_eq!((&preset["source"], &preset["model_type"]), (&"deepseek_v3".into(), &Value::Null));
    for report in [&mut preset, &mut config] {
        (report["source"], report["behind"]["model"]) = (Value::Null, Value::Null);
        report["model_type"] = Value::Null;
    }
    assert_eq!(preset, config);
    for preset in PRESETS {
        assert_eq!(report(&["--preset", preset.name])["naming"], preset.naming.name);
    }
}

#[test]
fn people_get_tables() {
    let text = well(&[DEEPSEEK]);
    for line in [
        "tests/data/configs/deepseek-v3.json, a deepseek_v3; tensors named as those of llama",
        "parameters                          671,026,404,352",
        "  without embedding and head         35,698,924,544",
        "routed experts  653,908,770,816",
        "checkpoint with all of these        684,489,845,504",
        "model.norm.weight                                           7168                1            7,168",
        "model.layers.{61}.embed_tokens.weight                    129280 x 7168       1    926,679,040  copy",
    ] {
        assert!(text.lines().any(|said| said == line), "{line} in\n{text}");
    }
    assert!(!well(&["--preset", "llama_2_7b"]).contains("multi-token"));
}

#[test]
fn a_declaration_is_ready_to_paste() {
    let expected = "moe_model::moe_model! {
    /// DeepSeek-V3: 671.0B parameters, 37.6B active, and one multi-token-prediction module.
    pub struct DeepseekV3;

    hidden: 7168,
    vocab: 129_280,
    layers: layers { dense: 3, moe: 58, ffn: 18_432 },
    attention: mla { heads: 128, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 },
    experts: experts {
        routed: 256, shared: 1, active: 8, ffn: 2048, groups: 8, active_groups: 4,
        correction_bias: on,
    },
    mtp: 1,
}
";
    assert_eq!(well(&["--preset", "deepseek_v3", "--declaration"]), expected);
    let about = "Out of a `config.json` of the `model_type` `deepseek_v3`.";
    assert_eq!(well(&[DEEPSEEK, "--declaration"]), DEEPSEEK_V3.declaration("Model", about));
    for preset in PRESETS {
        let text = well(&["--preset", preset.name, "--declaration"]);
        let name = text.lines().find_map(|line| line.trim().strip_prefix("pub struct ")).expect("it has a name");
        assert_eq!(text, preset.architecture.declaration(name.trim_end_matches(';'), &format!("{}.", preset.about)));
    }
    assert!(well(&["--preset", "llama_3_1_8b", "--declaration"]).contains("pub struct Llama3_1_8b;"));
    assert!(well(&["--preset", "mixtral_8x7b", "--declaration"]).contains("pub struct Mixtral8x7b;"));
}

#[test]
fn stdin_is_read() {
    let config = std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(DEEPSEEK)).expect("the file is there");
    let (code, stdout, stderr) = run_on(&config, &["--declaration"]);
    assert_eq!((code, stdout, stderr.as_str()), (0, well(&[DEEPSEEK, "--declaration"]), ""));
}

/// With exit code 2, on stderr alone, whatever was asked for.
#[test]
fn all_that_is_wrong_is_said() {
    let fails = |(code, stdout, stderr): Said| {
        assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
        stderr
    };
    for asked in [&[] as &[&str], &["--json"], &["--declaration"]] {
        let stderr = fails(run(&[&["tests/ui/architecture/configs/model_type.json"], asked].concat()));
        let start = "tests/ui/architecture/configs/model_type.json: error: `model_type` = \"granitemoehybrid\" is not \
                     supported yet\n  = help: ";
        assert!(stderr.starts_with(start), "{stderr}");
        assert!(
            fails(run(&[&["nowhere.json"], asked].concat())).starts_with("nowhere.json: error: the file cannot be")
        );
        assert!(fails(run(&[&["--preset", "deepseek_v9"], asked].concat())).contains("no preset `deepseek_v9`"));
    }
    assert_eq!(fails(run_on(b"\xff", &[])), "stdin: error: byte 0 of the file is not UTF-8\n");
    let mut config: Value = serde_json::from_str(include_str!("data/configs/mixtral-8x7b.json")).expect("it is JSON");
    config["num_experts_per_tok"] = 9.into();
    config["hidden_size"] = 0.into();
    let stderr = fails(run_on(config.to_string().as_bytes(), &["--json"]));
    for law in ["`experts.active` = 9", "`hidden` = 0"] {
        assert!(stderr.contains(&format!("stdin: error: {law}")), "{stderr}");
    }
    assert!(fails(run(&[])).contains("CONFIG"));
    assert!(fails(run(&[DEEPSEEK, "--preset", "deepseek_v3"])).contains("cannot be used with"));
}

/// No number that 64 bits cannot hold is said as another.
#[test]
fn what_outgrows_64_bits_is_refused() {
    let mut config: Value = serde_json::from_str(include_str!("data/configs/mixtral-8x7b.json")).expect("it is JSON");
    for field in ["hidden_size", "intermediate_size", "num_hidden_layers"] {
        config[field] = (1_u64 << 31).into();
    }
    let (code, stdout, stderr) = run_on(config.to_string().as_bytes(), &["--json"]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert_eq!(stderr, "stdin: error: the checkpoint has 2^64 bytes or more\n");
}

#[test]
fn a_reader_may_have_seen_enough() {
    let (reader, writer) = pipe().expect("there are pipes");
    drop(reader);
    let output = EXAMPLE.command().arg(DEEPSEEK).stdout(writer).output().expect("the example starts");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn help_is_on_stdout() {
    let text = well(&["--help"]);
    for word in ["CONFIG", "--preset", "--json", "--declaration", "deepseek_v3", "Exit codes"] {
        assert!(text.contains(word), "{word}");
    }
}
