//! Worlds of threads over the seven models: what ranks compute together is what transformers computes.

mod example;

use example::Example;

static EXAMPLE: Example = Example::named("world");

/// dp, tp, pp, ep.
type Degrees = [u64; 4];

/// Layouts of models whose heads two ranks can split.
const SPLIT: [Degrees; 4] = [[2, 2, 1, 2], [1, 2, 2, 1], [2, 1, 2, 2], [2, 2, 2, 2]];
/// Of the one that has three heads.
const WHOLE: [Degrees; 4] = [[2, 1, 1, 1], [1, 1, 3, 1], [2, 1, 1, 2], [2, 1, 2, 2]];

/// Of the one without experts.
const DENSE: [Degrees; 4] = [[2, 1, 2, 1], [2, 2, 1, 1], [1, 4, 2, 1], [2, 2, 2, 1]];

const MODELS: [(&str, [Degrees; 4]); 7] = [
    ("deepseek_v2_lite_tiny", SPLIT),
    ("deepseek_v3_tiny", SPLIT),
    ("gpt_oss_tiny", SPLIT),
    ("llama_tiny", DENSE),
    ("mixtral_tiny", SPLIT),
    ("qwen2_moe_tiny", SPLIT),
    ("qwen3_moe_tiny", WHOLE),
];

#[test]
fn ranks_compute_what_transformers_computes() {
    for (model, layouts) in MODELS {
        let dir = format!("{}/tests/data/numerics/{model}", env!("CARGO_MANIFEST_DIR"));
        for (degrees, zero) in layouts.into_iter().zip(["none", "optimizer", "gradients", "parameters"]) {
            let [dp, tp, pp, ep] = degrees.map(|degree| degree.to_string());
            let arguments = [&dir, "--dp", &dp, "--tp", &tp, "--pp", &pp, "--ep", &ep, "--zero", zero];
            let (code, stdout, stderr) = EXAMPLE.run(&arguments);
            assert_eq!(code, 0, "{model} {degrees:?}: {stdout}{stderr}");
            assert!(stdout.contains("The ranks compute what one model computes."), "{model} {degrees:?}: {stdout}");
            let ranks = degrees[0] * degrees[1] * degrees[2];
            assert!(stdout.contains(&format!("two steps of {ranks} ranks")), "{model} {degrees:?}: {stdout}");
        }
    }
}

/// The same on axes that not every model has layers or sequences for.
#[test]
fn chunks_take_turns_and_experts_are_split() {
    for (model, more) in [
        ("deepseek_v3_tiny", ["--dp", "2", "--tp", "2", "--pp", "1", "--etp", "2", "--ep", "2"]),
        ("gpt_oss_tiny", ["--dp", "2", "--tp", "2", "--pp", "2", "--etp", "2", "--ep", "2"]),
        ("qwen2_moe_tiny", ["--dp", "1", "--tp", "2", "--pp", "1", "--etp", "2", "--ep", "1"]),
        ("deepseek_v3_tiny", ["--dp", "1", "--tp", "2", "--pp", "2", "--vpp", "2", "--ep", "2"]),
        ("gpt_oss_tiny", ["--dp", "1", "--tp", "1", "--pp", "2", "--vpp", "2", "--ep", "1"]),
    ] {
        let dir = format!("{}/tests/data/numerics/{model}", env!("CARGO_MANIFEST_DIR"));
        let (code, stdout, stderr) = EXAMPLE.run(&[&[&*dir], &more[..]].concat());
        assert_eq!(code, 0, "{model}: {stdout}{stderr}");
        assert!(stdout.contains("The ranks compute what one model computes."), "{model}: {stdout}");
    }
}

/// Ranks share every sequence: cp, and how; dp, tp, pp, ep.
#[test]
fn sequences_are_shared() {
    for (model, cp, context, degrees) in [
        ("deepseek_v2_lite_tiny", "2", "all_to_all", [1, 2, 1, 2]),
        ("deepseek_v2_lite_tiny", "4", "ring", [1, 1, 2, 4]),
        ("deepseek_v3_tiny", "2", "all_to_all", [1, 1, 2, 2]),
        ("deepseek_v3_tiny", "4", "all_to_all", [2, 1, 1, 4]),
        ("deepseek_v3_tiny", "2", "ring", [1, 2, 2, 4]),
        ("deepseek_v3_tiny", "4", "contiguous", [1, 1, 1, 2]),
        ("gpt_oss_tiny", "2", "all_to_all", [1, 2, 2, 4]),
        ("gpt_oss_tiny", "4", "all_to_all", [1, 1, 1, 2]),
        ("gpt_oss_tiny", "4", "ring", [1, 2, 1, 2]),
        ("gpt_oss_tiny", "2", "contiguous", [2, 1, 1, 1]),
        ("llama_tiny", "2", "all_to_all", [2, 2, 1, 1]),
        ("llama_tiny", "8", "ring", [1, 1, 1, 1]),
        ("mixtral_tiny", "2", "all_to_all", [2, 1, 1, 4]),
        ("mixtral_tiny", "4", "contiguous", [1, 1, 1, 4]),
        ("qwen2_moe_tiny", "2", "all_to_all", [1, 1, 2, 1]),
        ("qwen2_moe_tiny", "2", "ring", [1, 2, 1, 2]),
        ("qwen3_moe_tiny", "4", "ring", [1, 1, 1, 2]),
        ("qwen3_moe_tiny", "2", "contiguous", [2, 1, 1, 4]),
    ] {
        let dir = format!("{}/tests/data/numerics/{model}", env!("CARGO_MANIFEST_DIR"));
        let [dp, tp, pp, ep] = degrees.map(|degree: u64| degree.to_string());
        let arguments = [&dir, "--cp", cp, "--context", context, "--dp", &dp, "--tp", &tp, "--pp", &pp, "--ep", &ep];
        let (code, stdout, stderr) = EXAMPLE.run(&arguments);
        assert_eq!(code, 0, "{arguments:?}: {stdout}{stderr}");
        assert!(stdout.contains("The ranks compute what one model computes."), "{arguments:?}: {stdout}");
    }
}

/// The first step under one layout, the second under others: losses and weights are those of transformers.
#[test]
fn checkpoints_are_read_under_other_layouts() {
    for model in ["deepseek_v3_tiny", "gpt_oss_tiny"] {
        let dir = format!("{}/tests/data/numerics/{model}", env!("CARGO_MANIFEST_DIR"));
        let folder = std::env::temp_dir().join(format!("moe-model-world-{model}"));
        let _ = std::fs::remove_dir_all(&folder);
        let folder = folder.to_str().expect("it has a name");
        let run = |degrees: Degrees, arguments: [&str; 2]| {
            let [dp, tp, pp, ep] = degrees.map(|degree| degree.to_string());
            let degrees = [&*dir, "--dp", &dp, "--tp", &tp, "--pp", &pp, "--ep", &ep];
            let (code, stdout, stderr) = EXAMPLE.run(&[&degrees[..], &arguments[..]].concat());
            assert_eq!(code, 0, "{model} {degrees:?}: {stdout}{stderr}");
            assert!(stdout.contains("The ranks compute what one model computes."), "{model} {degrees:?}: {stdout}");
            stdout
        };
        run([2, 2, 2, 2], ["--save", folder]);
        for degrees in [[1, 1, 1, 1], [2, 1, 1, 2], [1, 2, 2, 1]] {
            assert!(run(degrees, ["--load", folder]).contains("the second step, behind the first one in"));
        }
        let (code, _, stderr) = EXAMPLE.run(&[&dir, "--load", "/nowhere"]);
        assert_eq!(code, 2);
        assert!(stderr.contains("/nowhere/latest: reading which checkpoint is the newest"), "{stderr}");
        std::fs::remove_dir_all(folder).expect("it is there");
    }
}

#[test]
fn eight_ranks_say_what_each_held() {
    let (code, stdout, _) = EXAMPLE.run(&[]);
    assert_eq!(code, 0, "{stdout}");
    let rows = stdout.lines().filter(|line| line.contains("cp-dp") && line.contains("KiB"));
    assert_eq!(rows.count(), 8, "{stdout}");
}

#[test]
fn a_layout_that_cannot_be_is_refused() {
    let (code, stdout, stderr) = EXAMPLE.run(&["--tp", "3", "--dp", "1", "--pp", "1", "--ep", "1"]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.contains("`mesh.tp` = 3 does not divide `attention.heads` = 4"), "{stderr}");
    let (code, _, stderr) = EXAMPLE.run(&["--dp", "3"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("`--dp 3` does not divide the 2 sequences of the batch"), "{stderr}");
    let (code, _, stderr) = EXAMPLE.run(&["--nccl"]);
    assert_eq!((code, stderr.as_str()), (2, "error: `--nccl` needs a build with feature `cuda`\n"));
}
