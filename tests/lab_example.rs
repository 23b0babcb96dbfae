//! The labs, run as their user runs them: what they say is what is written beside them, and holds against the tables of
//! arXiv:2502.07846, against a count by hand and against each other. `SNAPSHOTS=overwrite` writes what they say anew.

mod example;

use example::{DATE, Example, Said};
use moe_model::{Phase, Plan};
use serde_json::Value;
use std::collections::BTreeMap;
use std::{env, fs};

const LABS: [&str; 6] = ["ranks", "zero", "recompute", "worked", "fp8", "serve"];

static EXAMPLE: Example = Example::named("lab");

fn run(arguments: &[&str]) -> Said {
    EXAMPLE.run(arguments)
}

fn well(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = run(arguments);
    assert_eq!((code, stderr.as_str()), (0, ""), "{arguments:?}");
    stdout
}

fn report(lab: &str) -> Value {
    serde_json::from_str(&well(&[lab, "--json"])).expect("stdout is one JSON document")
}

/// A whole number; JSON numbers with a fraction or an exponent are none.
fn integer(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no whole number"))
}

fn rows(value: &Value) -> &Vec<Value> {
    value.as_array().expect("it is a list")
}

fn plan(lab: &str) -> Plan {
    let text = fs::read_to_string(format!("examples/lab/{lab}.toml")).expect("the lab has a Spec");
    Plan::new(toml::from_str(&text).expect("it is a Spec")).expect("it is legal")
}

/// Exact values of the rebuilt tables of the paper, by their ids.
fn tables() -> BTreeMap<String, u64> {
    let tables: Value = serde_json::from_str(include_str!("data/paper_tables.json")).expect("the tables are JSON");
    let exact = |entry: &Value| Some((entry["id"].as_str()?.to_owned(), entry["value_exact_integer"].as_u64()?));
    rows(&tables["entries"]).iter().filter_map(exact).collect()
}

#[test]
fn labs_say_what_is_written_beside_them() {
    for lab in LABS {
        let (path, text) = (format!("examples/lab/{lab}.txt"), well(&[lab]));
        if env::var("SNAPSHOTS").as_deref() == Ok("overwrite") {
            fs::write(&path, &text).expect("the file can be written");
        }
        assert_eq!(text, fs::read_to_string(&path).unwrap_or_default(), "{path}; SNAPSHOTS=overwrite writes it anew");
        for line in text.lines() {
            assert!(line.chars().count() <= 120, "{lab}: too wide: {line}");
        }
        assert!(!text.contains("GB"), "{lab}: a bare unit");
    }
}

#[test]
fn json_says_what_is_behind_its_numbers_and_what_fails() {
    let laws = ["fits-device", "deepspeed-zero-pipeline", "modules-unused", "skew-range", "fp8-device", "fits-device"];
    for (lab, law) in LABS.into_iter().zip(laws) {
        let report = report(lab);
        assert_eq!(report["format"], format!("moe-model/lab/{lab}/1"));
        let behind = &report["behind"];
        assert_eq!(behind["version"], format!("moe-model {}", env!("CARGO_PKG_VERSION")));
        assert_eq!(behind["date"], DATE.1);
        for key in ["model", "accounting", "device"] {
            assert!(behind[key].as_str().is_some_and(|word| !word.is_empty()), "{lab}: {key}");
        }
        assert!(behind["model"].as_str().is_some_and(|model| model.contains("examples/lab/")), "{lab}");
        assert_eq!(report["failure"]["laws"], serde_json::json!([law]), "{lab}");
    }
}

/// A row for each rank, phase and role, which add up to the budget of each rank and phase.
#[test]
fn the_spreadsheet_has_every_rank_phase_and_role() {
    let (plan, text) = (plan("ranks"), well(&["ranks", "--csv"]));
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().expect("it has a header").clone();
    let mut sums: BTreeMap<(u64, String), u64> = BTreeMap::new();
    let mut count = 0;
    for row in reader.records() {
        let row = row.expect("every row has every column");
        let cell = |name: &str| &row[header.iter().position(|of| of == name).unwrap_or_else(|| panic!("no {name}"))];
        let rank: u64 = cell("rank").parse().expect("a rank is a number");
        let bytes: u64 = cell("bytes").parse().expect("bytes are a number");
        assert_eq!(cell("stage"), plan.coordinates(rank).pp.to_string());
        assert_eq!((cell("device"), cell("date")), ("h100", DATE.1));
        assert!(cell("accounting").starts_with("paper: ") && cell("model").contains("deepseek_v2_lite"));
        *sums.entry((rank, cell("phase").to_owned())).or_default() += bytes;
        count += 1;
    }
    assert_eq!((count, sums.len()), (16 * 4 * 10, 16 * 4));
    for ((rank, phase), sum) in sums {
        let phase = Phase::ALL.iter().find(|of| of.name() == phase).expect("it is a phase");
        assert_eq!(sum, plan.budget(plan.coordinates(rank).pp).phase(*phase).bytes(), "rank {rank}, {phase}");
    }
}

/// The bytes that Table 8 prints, and what follows of them by hand for what is sent.
#[test]
fn zero_holds_what_the_paper_prints() {
    let (report, tables) = (report("zero"), tables());
    for (row, id) in rows(&report["zero"]).iter().zip(["none", "os", "os+g", "os+g+params"]) {
        let exact = |part: &str| tables[&format!("t8.{id}.{part}")];
        for (key, part) in [
            ("weights_bytes", "params"),
            ("gradients_bytes", "gradients"),
            ("optimizer_bytes", "optimizer"),
            ("static_bytes", "total"),
        ] {
            assert_eq!(integer(&row[key]), exact(part), "{id}: {key}");
        }
        assert_eq!(integer(&row["saved_bytes"]), tables["t8.none.total"] - exact("total"), "{id}");
    }
    // Parameters by group: 31 of 32 parts of all but router and experts, 7 of 8 of these; sharded gradients and weights of
    // each of 32 micro-batches.
    let once = tables["t6.non_moe"] / 32 * 31 + tables["t6.moe"] / 8 * 7;
    let sent = |row: &Value| [integer(&row["sent_gradients_bytes"]), integer(&row["sent_weights_bytes"])];
    let sent: Vec<[u64; 2]> = rows(&report["zero"]).iter().map(sent).collect();
    assert_eq!(sent, [[8 * once, 0], [4 * once, 2 * once], [32 * 4 * once, 2 * once], [32 * 4 * once, 64 * 2 * once]]);
}

/// What computing experts again sends, counted by hand, and that no policy without them sends anything.
#[test]
fn recomputed_experts_are_dear() {
    let report = report("recompute");
    let rows = rows(&report["policies"]);
    let row = |policy: &str| rows.iter().find(|row| row["policy"] == policy).unwrap_or_else(|| panic!("no {policy}"));
    // Four layers; 4096 tokens, 8 copies each of 7168 numbers in bf16, 63 of 64 to other ranks, there and back.
    let sent = 4 * 2 * 4096 * 8 * 7168 * 2 / 64 * 63_u64;
    let mut peaks = Vec::new();
    for row in rows {
        let name = row["policy"].as_str().expect("a policy has a name");
        let has_experts = ["experts", "whole layers"].contains(&name);
        assert_eq!(integer(&row["all_to_all_bytes"]), if has_experts { sent } else { 0 }, "{name}");
        peaks.push(integer(&row["peak_bytes"]));
        assert_eq!(integer(&row["saved_bytes"]), peaks[0] - peaks[peaks.len() - 1], "{name}");
    }
    // Attention's pairs: 4 layers of 128 heads, queries and keys of 192, values of 128.
    assert_eq!(integer(&row("core_attention")["operations"]), 4 * 2 * 4096 * 4096 * 128 * (192 + 128));
    let (experts, ours) = (row("experts"), row("norms, latent_up, activation"));
    assert!(integer(&ours["saved_bytes"]) > integer(&experts["saved_bytes"]));
    assert!(integer(&ours["operations"]) < integer(&experts["operations"]));
}

/// Hand and program agree, and with the figures of the example's chapter.
#[test]
fn the_worked_example_is_the_chapters() {
    let (report, tables) = (report("worked"), tables());
    let figures = rows(&report["figures"]);
    for row in figures {
        assert_eq!(row["by_hand"], row["by_program"], "{row}");
    }
    let by_hand = |figure: &str| {
        let row = figures.iter().find(|row| row["figure"] == figure).unwrap_or_else(|| panic!("no {figure}"));
        integer(&row["by_hand"])
    };
    for (figure, id) in [
        ("P", "params_total"),
        ("WEIGHTS", "weights_bf16"),
        ("GRADIENTS", "gradients_bf16"),
        ("MOMENTS", "adam_moments_fp32_div8"),
        ("INPUTS", "checkpoints"),
        ("BUFFERS", "two_a2a_buffers"),
        ("IN_BACKWARD", "peak"),
        ("HEADROOM", "with_10_percent"),
    ] {
        assert_eq!(by_hand(figure), tables[&format!("fx.A.I1.{id}")], "{figure}");
    }
}

/// What is stored stays, whatever linear layers compute in.
#[test]
fn computing_in_fp8_is_not_storing_in_it() {
    let report = report("fp8");
    let rows = rows(&report["formats"]);
    let last = rows.len() - 1;
    for row in &rows[..last] {
        for key in ["weights_bytes", "master_bytes", "moments_bytes"] {
            assert_eq!(row[key], rows[0][key], "{row}");
        }
        let is_fp8 = row["compute"] != "activations";
        // Each matrix of linear layers twice, a byte a number; embedding, head, router and norms stay.
        let copies = integer(&row["fp8_copies_bytes"]);
        let weights = integer(&row["weights_bytes"]);
        assert!(if is_fp8 { copies < weights && copies > weights / 100 * 95 } else { copies == 0 }, "{row}");
    }
    assert_eq!(integer(&rows[last]["weights_bytes"]), integer(&rows[0]["weights_bytes"]) / 2);
    assert_eq!(rows[last]["master_bytes"], rows[0]["master_bytes"]);
}

/// Serving keeps weights and caches: 576 numbers in bf16 of each token and layer, of as many sequences as a step has.
#[test]
fn serving_keeps_weights_and_caches() {
    let report = report("serve");
    let rows = rows(&report["roles"]);
    let of = |role: &str| rows.iter().find(|row| row["role"] == role).unwrap_or_else(|| panic!("no {role}"));
    assert_eq!(of("weight")["training_bytes"], of("weight")["decode_bytes"]);
    // Eight layers.
    assert_eq!(integer(&of("kv_cache")["prefill_bytes"]), 32 * 4096 * 8 * 576 * 2);
    for role in ["gradient", "master_weight", "first_moment", "second_moment", "activation"] {
        assert_eq!(integer(&of(role)["decode_bytes"]), 0, "{role}");
        assert!(integer(&of(role)["training_bytes"]) > 0, "{role}");
    }
    let sum = |column: &str| rows[..rows.len() - 1].iter().map(|row| integer(&row[column])).sum::<u64>();
    for column in ["training_bytes", "prefill_bytes", "decode_bytes"] {
        assert_eq!(integer(&of("in all")[column]), sum(column), "{column}");
    }
}

/// A file of the user's stands in the place of the lab's own.
#[test]
fn a_file_is_read_in_place_of_the_labs_own() {
    let text = well(&["zero", "examples/specs/deepseek_v3.toml"]);
    assert!(text.contains("deepseek_v3 (examples/specs/deepseek_v3.toml)") && text.contains("device h200"), "{text}");
    let (code, stdout, stderr) = run(&["zero", "examples/specs/broken.toml"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("examples/specs/broken.toml:12:1: error: `mesh.tp` = 2 does not divide"), "{stderr}");
    let (code, stdout, stderr) = run(&["zero", "examples/specs/none.toml"]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.contains("cannot be read"), "{stderr}");
    for (lab, file) in [("zero", "examples/specs/serving.toml"), ("worked", "examples/lab/zero.toml")] {
        let (code, _, stderr) = run(&[lab, file]);
        assert_eq!(code, 1);
        assert!(stderr.starts_with("error: the "), "{stderr}");
    }
    // More rows than spreadsheet programs open.
    let many = fs::read_to_string("examples/lab/ranks.toml").expect("it is there").replace("dp = 4", "dp = 40960");
    let path = env::temp_dir().join("moe-model-lab-many.toml");
    fs::write(&path, many).expect("the file can be written");
    let (code, _, stderr) = run(&["ranks", path.to_str().expect("paths are text")]);
    assert_eq!(code, 1);
    assert!(stderr.contains("163840 ranks are more than a spreadsheet program opens"), "{stderr}");
}

#[test]
fn help_lists_the_labs() {
    let help = well(&["--help"]);
    for lab in LABS {
        assert!(help.contains(&format!("  {lab} ")), "{help}");
        assert!(well(&[lab, "--help"]).contains("--csv"), "{lab}");
    }
}
