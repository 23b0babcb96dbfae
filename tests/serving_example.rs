//! The example that asks what a model takes to be served, run as its user runs it: what it says of presets, configs and Specs,
//! to people and as JSON, and of what is wrong.

mod example;

use example::{Example, Said};
use serde_json::Value;
use std::io::pipe;

const SPEC: &str = "examples/specs/serving.toml";

static EXAMPLE: Example = Example::named("serving");

fn run(arguments: &[&str]) -> Said {
    EXAMPLE.run(arguments)
}

/// What stdout holds, of a run that ends with this code.
fn ends(code: i32, arguments: &[&str]) -> String {
    let (ended, stdout, stderr) = run(arguments);
    assert_eq!((ended, stderr.as_str()), (code, ""), "{arguments:?}");
    stdout
}

fn report(code: i32, arguments: &[&str]) -> Value {
    serde_json::from_str(&ends(code, &[arguments, &["--json"]].concat())).expect("stdout is one JSON document")
}

#[test]
fn a_spec_is_told_in_exact_integers() {
    let report = report(0, &[SPEC]);
    assert_eq!((&report["format"], &report["source"]), (&"moe-model/serving/2".into(), &SPEC.into()));
    assert_eq!((&report["ranks"], &report["requests"], &report["context"]), (&16.into(), &16.into(), &32_768.into()));
    let stage = &report["stages"][0];
    assert_eq!(stage["kv_cache_bytes_per_token"], 70_272);
    assert_eq!(stage["state_bytes_per_sequence"], 0);
    assert_eq!(stage["kv_cache_bytes_of_sequence"], 70_272_u64 * 32_768);
    assert_eq!(stage["kv_cache_bytes"], 16 * 70_272_u64 * 32_768);
    let [latent, rotary] = [&stage["caches"][0], &stage["caches"][1]];
    assert_eq!((&latent["name"], &latent["format"]), (&"key/value latent cache".into(), &"bf16".into()));
    assert_eq!((&latent["shape"], &latent["count"]), (&serde_json::json!([16, 32_768, 512]), &61.into()));
    assert_eq!(rotary["bytes"], 16 * 32_768_u64 * 64 * 2 * 61);
    let whole = |name: &str| stage[name].as_u64().expect("bytes are exact integers");
    let peak = whole("weight_bytes") + whole("kv_cache_bytes") + whole("prefill_bytes");
    assert_eq!((&report["peak_bytes"], &report["worst_phase"]), (&peak.into(), &"prefill".into()));
    assert_eq!(report["needed_bytes"], peak + peak.div_ceil(10));
    assert_eq!((&report["device"], &report["fits"]), (&"h200".into(), &true.into()));
    let requests: Vec<&Value> =
        report["contexts"].as_array().expect("a list").iter().map(|of| &of["requests"]).collect();
    assert_eq!(requests, [1, 2, 4, 8, 16]);
    let last = &report["contexts"][4];
    let [context, otherwise] = [&last["context"], &last["otherwise"]].map(|context| context.as_u64().expect("it fits"));
    assert!(context >= 32_768 && context.is_multiple_of(64));
    // A token of 128 heads of 192 and 128 takes the room of 71 latents.
    assert!(context > 70 * otherwise, "{context} {otherwise}");
}

/// What is found fits when it is asked for, and a block more does not.
#[test]
fn what_is_found_fits() {
    let found = report(0, &[SPEC]);
    let context = found["contexts"][4]["context"].as_u64().expect("it fits");
    let requests = found["most_requests"].as_u64().expect("some fit");
    assert_eq!(report(0, &[SPEC, "--context", &context.to_string()])["fits"], true);
    assert_eq!(report(1, &[SPEC, "--context", &(context + 64).to_string()])["fits"], false);
    assert_eq!(report(0, &[SPEC, "--requests", &requests.to_string()])["fits"], true);
    assert_eq!(report(1, &[SPEC, "--requests", &(requests + 1).to_string()])["fits"], false);
}

#[test]
fn a_preset_is_told_like_its_config() {
    let options = ["--requests", "4", "--context", "65536", "--tp", "2", "--device", "h200"];
    let told = |of: &[&str]| {
        let mut report = report(1, &[of, &options].concat());
        (report["source"], report["behind"]["model"]) = (Value::Null, Value::Null);
        report
    };
    assert_eq!(told(&["--preset", "gpt_oss_120b"]), told(&["tests/data/configs/gpt-oss-120b.json"]));
    let one = told(&["--preset", "gpt_oss_120b"]);
    assert_eq!(one["stages"][0]["kv_cache_bytes_per_token"], 18 * 4 * (64 + 64) * 2);
    assert_eq!((&one["fits"], &one["most_requests"]), (&false.into(), &Value::Null));
}

#[test]
fn people_get_tables() {
    let text = ends(0, &[SPEC]);
    for line in [
        "examples/specs/serving.toml: 16 requests of 32,768 tokens each, in blocks of 64, on 16 ranks",
        "key/value latent cache  16 x 32768 x 512  bf16      61  32,749,125,632",
        "a token, where all are kept          70,272  68.63 KiB",
        "requests    context  cached otherwise",
    ] {
        assert!(text.lines().any(|said| said == line), "{line} in\n{text}");
    }
    assert!(text.contains("\nfits on the 140.40 GiB of h200: a rank needs "), "{text}");
    // Without a device nothing is said to fit.
    let text = ends(0, &["--preset", "qwen3_next_80b_a3b"]);
    assert!(text.contains("recurrent state") && !text.contains("fit"), "{text}");
    let text = ends(1, &["--preset", "deepseek_v3", "--device", "h100"]);
    assert!(text.contains("\ndoes not fit on the 79.65 GiB of h100"), "{text}");
    let warned = ends(0, &["--preset", "deepseek_v3", "--tp", "8", "--ep", "8"]);
    assert!(warned.contains("\nwarning: `mesh.tp` = 8 is more than 1\n  = note: "), "{warned}");
}

#[test]
fn stdin_is_read() {
    let spec = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/specs/serving.toml")).expect("it is there");
    let (code, stdout, _) = EXAMPLE.run_on(&spec, &["--json"]);
    let report: Value = serde_json::from_str(&stdout).expect("stdout is one JSON document");
    assert_eq!((code, &report["source"], &report["fits"]), (0, &"stdin".into(), &true.into()));
}

/// With exit code 2, on stderr alone.
#[test]
fn all_that_is_wrong_is_said() {
    let fails = |arguments: &[&str]| {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
        stderr
    };
    assert!(fails(&["--preset", "deepseek_v9"]).contains("no preset `deepseek_v9`"));
    assert!(fails(&["nowhere.toml"]).starts_with("nowhere.toml: error: the file cannot be read"));
    assert!(fails(&["examples/specs/deepseek_v3.toml"]).contains("its layout serves nothing"));
    let stderr = fails(&["--preset", "deepseek_v3", "--cache", "int4", "--block", "few"]);
    for said in ["--cache: error: `int4` is none of ", "--block: error: `few` is not a whole number"] {
        assert!(stderr.contains(said), "{stderr}");
    }
    let stderr = fails(&["--preset", "deepseek_v3", "--tp", "3", "--json"]);
    assert!(
        stderr.starts_with("deepseek_v3: error: `mesh.tp` = 3 does not divide `attention.heads` = 128\n"),
        "{stderr}"
    );
    assert!(fails(&["--preset", "llama_3_1_8b", "--mla", "expanded"]).contains("(serving-mla)"));
    assert!(fails(&["--preset", "llama_3_1_8b", "--requests", "0"]).contains("(number-range)"));
    assert!(fails(&[]).contains("FILE"));
    let (code, stdout, stderr) = EXAMPLE.run_on(b"\xff", &[]);
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (2, "", "stdin: error: byte 0 of the file is not UTF-8\n"));
}

#[test]
fn a_reader_may_have_seen_enough() {
    let (reader, writer) = pipe().expect("there are pipes");
    drop(reader);
    let output = EXAMPLE.command().arg(SPEC).stdout(writer).output().expect("the example starts");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn help_is_on_stdout() {
    let text = ends(0, &["--help"]);
    for word in ["FILE", "--preset", "--json", "--context", "--requests", "deepseek_v3", "Exit codes"] {
        assert!(text.contains(word), "{word}");
    }
}
