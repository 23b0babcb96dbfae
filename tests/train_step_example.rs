//! Two training steps of the seven models, beside what transformers computes of them.

mod example;

use example::Example;
use serde_json::Value;
use std::path::PathBuf;
use std::{env, fs};

static EXAMPLE: Example = Example::named("train_step");

const MODELS: [&str; 7] = [
    "deepseek_v2_lite_tiny",
    "deepseek_v3_tiny",
    "gpt_oss_tiny",
    "llama_tiny",
    "mixtral_tiny",
    "qwen2_moe_tiny",
    "qwen3_moe_tiny",
];

fn folder(model: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/numerics").join(model)
}

fn run(dir: &str, more: &[&str]) -> (i32, String, String) {
    let arguments: Vec<&str> = [dir].into_iter().chain(more.iter().copied()).collect();
    EXAMPLE.run(&arguments)
}

#[test]
fn every_model_is_within_its_tolerance() {
    for model in MODELS {
        let dir = folder(model);
        let dir = dir.to_str().expect("paths are text");
        let (code, stdout, stderr) = run(dir, &["--json"]);
        assert_eq!((code, stderr.as_str()), (0, ""), "{model}: {stdout}");
        let report: Value = serde_json::from_str(&stdout).expect("stdout is one JSON document");
        assert_eq!(report["is_within"], true, "{model}");
        let groups = report["groups"].as_array().expect("it is a list");
        let count = |name: &str| {
            let of = groups.iter().find(|group| group["name"] == name);
            of.map_or(0, |group| group["tensors"].as_u64().expect("it is a number"))
        };
        assert_eq!(count("loss"), 3, "{model}: before, and after either step");
        assert_eq!(count("grad"), count("after2"), "{model}: every trained tensor");
        assert!(count("grad") >= 21 && count("hidden") >= 4 && count("after1") > 0, "{model}: {stdout}");
        assert!(report["allocations"].as_u64().is_some_and(|count| count > 200), "{model}");
    }
}

/// The tests' program is built without it. `.ci/run` builds one with it, and runs every model over a driver without a GPU.
#[test]
fn cuda_takes_the_feature() {
    let dir = folder("llama_tiny");
    let (code, stdout, stderr) = run(dir.to_str().expect("paths are text"), &["--device", "cuda"]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert_eq!(stderr, "error: `--device cuda` takes a program that is built with `--features cuda`\n");
}

/// Another number in a file of expected values is found, and so is one that is not there.
#[test]
fn deviations_are_found() {
    let dir = env::temp_dir().join("moe-model-train-step");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("a folder can be made");
    for name in ["config.json", "weights.safetensors", "inputs.safetensors", "tolerance.json"] {
        fs::copy(folder("llama_tiny").join(name), dir.join(name)).expect("the file can be copied");
    }
    let mut expected = fs::read(folder("llama_tiny").join("expected.safetensors")).expect("the file can be read");
    // Any number of its last tensor.
    let last = expected.len() - 2;
    expected[last] ^= 0x40;
    fs::write(dir.join("expected.safetensors"), &expected).expect("the file can be written");
    let dir = dir.to_str().expect("paths are text");
    let (code, stdout, _) = run(dir, &[]);
    assert_eq!(code, 1, "{stdout}");
    assert!(stdout.contains("deviates"), "{stdout}");
    fs::remove_file(format!("{dir}/expected.safetensors")).expect("the file can be removed");
    let (code, stdout, stderr) = run(dir, &[]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.contains("expected.safetensors"), "{stderr}");
}
