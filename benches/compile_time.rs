//! What the macro adds to a build: CPU time of `cargo check` of a crate with many models, over that of the same crate
//! without any. `cargo bench --bench compile_time` prints the table of `benches/compile_time.md`;
//! with `-- --limits` it fails where a model costs more than it may.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::{env, fs};

/// Milliseconds of CPU that one of a hundred models may cost: all numbers literal, degrees and lengths as constants and
/// expressions, and, without a limit, widths as well. Each declares a device, so its budget is judged too. About half again
/// what the table says, since the same machine takes a quarter more at one time than at another.
const LIMITS: [(&str, f64); 3] = [("literals", 5.0), ("constants", 15.0), ("all_constants", f64::INFINITY)];
const RUNS: usize = 5;

fn main() -> ExitCode {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile_time");
    let empty = measure(&target, "empty", &source("", 0));
    println!("| values | models | CPU of `cargo check` | per model |\n|---|---:|---:|---:|");
    println!("| none | 0 | {empty:.2} s | |");
    let mut within = true;
    for (kind, limit) in LIMITS {
        for models in [1, 10, 100] {
            let seconds = measure(&target, kind, &source(kind, models));
            let each = (seconds - empty) * 1000.0 / f64::from(models);
            println!("| {kind} | {models} | {seconds:.2} s | {each:.1} ms |");
            if models == 100 && each > limit {
                eprintln!("error: a model with {kind} costs {each:.1} ms, more than {limit} ms");
                within = false;
            }
        }
    }
    let judged = env::args().any(|argument| argument == "--limits");
    if within || !judged { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A crate of so many models, each with numbers of its own.
fn source(kind: &str, models: u32) -> String {
    let mut source = String::from("#![allow(dead_code, missing_docs)]\n");
    for i in 0..models {
        // Numbers differ between models, so that nothing is answered from a cache.
        let (vocab, dp) = (129_280 + i * 2, 32 * (1 + i % 8));
        let values = if kind == "literals" {
            ["7168", "256", "2048", &dp.to_string(), "2", "16", "8", "4096"].map(str::to_owned)
        } else {
            let constants = [("HIDDEN", 7168), ("ROUTED", 256), ("FFN", 2048), ("DP", dp), ("TP", 2), ("PP", 16)];
            for (name, value) in constants {
                let _ = writeln!(source, "const {name}_{i}: u64 = {value};");
            }
            let all = kind == "all_constants";
            let named = |name: &str| format!("{name}_{i}");
            let width = |name: &str, value: u32| if all { named(name) } else { value.to_string() };
            let product = format!("TP_{i} * 4");
            let sequence = "2048 * 2".to_owned();
            let widths = [width("HIDDEN", 7168), width("ROUTED", 256), width("FFN", 2048)];
            let [hidden, routed, ffn] = widths;
            [hidden, routed, ffn, named("DP"), named("TP"), named("PP"), product, sequence]
        };
        let [hidden, routed, ffn, dp, tp, pp, ep, sequence] = values;
        let _ = write!(
            source,
            "moe_model::moe_model! {{
                pub struct Model{i};
                hidden: {hidden}, vocab: {vocab},
                layers: layers {{ dense: 3, moe: 58, ffn: 18_432 }},
                attention: mla {{ heads: 128, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 }},
                experts: experts {{ routed: {routed}, shared: 1, active: 8, ffn: {ffn}, groups: 8, active_groups: 4 }},
                mtp: 1,
                layout Main: layout {{
                    mesh: mesh {{ dp: {dp}, tp: {tp}, pp: {pp}, ep: {ep}, sequence_parallel: on }},
                    stages: stages {{ first: 4, last: 1 }},
                    zero: optimizer,
                    batch: batch {{ sequence: {sequence}, micro: 1, count: 32 }},
                    recompute: full, accounting: paper, device: h200, headroom: percent(10),
                }},
            }}\n"
        );
    }
    source
}

/// The least CPU seconds of some runs of `cargo check`, dependencies built before.
fn measure(target: &Path, name: &str, source: &str) -> f64 {
    let root = target.join(name);
    fs::create_dir_all(root.join("src")).expect("the target directory is writable");
    let manifest = format!(
        "[package]\nname = \"{name}\"\nedition = \"2024\"\n[dependencies]\nmoe-model = {{ path = {:?} }}\n[workspace]\n",
        env!("CARGO_MANIFEST_DIR")
    );
    write_if_new(&root.join("Cargo.toml"), &manifest);
    write_if_new(&root.join("Cargo.lock"), include_str!("../Cargo.lock"));
    let run = || {
        fs::write(root.join("src/lib.rs"), source).expect("the target directory is writable");
        let before = children_cpu();
        let status = Command::new(env!("CARGO"))
            .args(["check", "--quiet", "--offline"])
            .current_dir(&root)
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_TARGET_DIR", target.join("target"))
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the models of `{name}` compile");
        children_cpu() - before
    };
    // The first run builds the dependencies.
    run();
    (0..RUNS).map(|_| run()).fold(f64::INFINITY, f64::min)
}

fn write_if_new(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    fs::write(path, text).expect("the target directory is writable");
}

/// User and system seconds of all children waited for, from Linux's `/proc`.
fn children_cpu() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux has /proc/self/stat");
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: Vec<f64> = fields.split_whitespace().skip(13).take(2).filter_map(|tick| tick.parse().ok()).collect();
    // A tick is a hundredth of a second on every Linux that Rust runs on.
    ticks.iter().sum::<f64>() / 100.0
}
