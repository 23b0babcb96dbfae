//! The main example, run as its user runs it: exact numbers in JSON, help, errors, and no unit that could be misread.

mod example;

use example::{DATE, Example};
use moe_model::{Spec, judge};
use serde_json::Value;
use std::io::pipe;
use std::sync::OnceLock;

const STAGES: u64 = 16;
const ZERO: [&str; 4] = ["none", "optimizer", "gradients", "parameters"];

static EXAMPLE: Example = Example::named("deepseek_v3");

fn succeed(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = EXAMPLE.run(arguments);
    assert_eq!(code, 0, "{arguments:?}");
    assert_eq!(stderr, "", "{arguments:?} has nothing to complain about");
    stdout
}

/// The report; it fails to parse if anything else is on stdout.
fn report() -> &'static Value {
    static REPORT: OnceLock<Value> = OnceLock::new();
    REPORT.get_or_init(|| serde_json::from_str(&succeed(&["--json"])).expect("stdout is one JSON document"))
}

fn tables() -> &'static str {
    static TABLES: OnceLock<String> = OnceLock::new();
    TABLES.get_or_init(|| succeed(&[]))
}

/// A whole number; JSON numbers with a fraction or an exponent are none.
fn integer(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no whole number"))
}

#[test]
fn json_says_what_is_behind_its_numbers() {
    let report = report();
    assert_eq!(report["schema"], "moe-model/deepseek_v3/4");
    assert_eq!(report["micro_batches"], 32);
    assert_eq!(report["world_size"], 1024);
    assert_eq!(report["whole_model"]["parameters"]["total"], 671_026_404_352_u64);
    assert!(report["source"].as_str().is_some_and(|text| text.contains("arXiv:2502.07846")), "{}", report["source"]);
    let behind = &report["behind"];
    for (key, part) in [
        ("model", "arXiv:2412.19437"),
        ("accounting", "kernel eager"),
        ("version", "moe-model 0."),
        ("device", "h200"),
        ("date", DATE.1),
    ] {
        assert!(behind[key].as_str().is_some_and(|text| text.contains(part)), "{key}: {}", behind[key]);
    }
    assert_eq!(report["spec"]["mesh"]["ep"], 8, "the declaration is part of the report");
    let spec: Spec = serde_json::from_value(report["spec"].clone()).expect("it is a Spec as files hold it");
    assert_eq!((spec.architecture.hidden, judge(&spec).len()), (7168, 0));
}

/// Ranks of the paper's layout and of a small model hold what their budgets say, in two steps that ran.
#[test]
fn json_has_what_the_step_allocated() {
    let report = report();
    let rows = report["step"].as_array().expect("it is a list");
    assert_eq!(rows.iter().filter(|row| row["device"] == "meta").count(), 3);
    assert_eq!(rows.iter().filter(|row| row["device"] == "host").count(), 4);
    for row in rows {
        assert_eq!(integer(&row["peak_bytes"]), integer(&row["budget_bytes"]), "{row}");
        assert!(integer(&row["allocations"]) > 500, "{row}");
    }
}

#[test]
fn json_has_the_static_bytes_of_each_zero_stage() {
    let report = report();
    let totals = [87_505_108_992, 43_430_264_832, 21_392_842_752, 10_374_131_712_u64];
    for (zero, total) in ZERO.into_iter().zip(totals) {
        let row = &report["zero"][zero];
        assert_eq!(row["stage1_static_bytes"], total, "{zero}");
        let parts = ["weights_bytes", "gradients_bytes", "optimizer_bytes"].map(|part| integer(&row[part]));
        assert_eq!(parts.iter().sum::<u64>(), total, "{zero}");
    }
    assert_eq!(report["zero"]["none"]["weights_bytes"], 12_500_729_856_u64);
}

#[test]
fn json_has_every_stage_with_its_layers_and_parameters() {
    let report = report();
    for recompute in ["none", "full"] {
        let stages = report["recompute"][recompute]["stages"].as_array().expect("a list of stages");
        assert_eq!(stages.len(), 16, "{recompute}");
        for (stage, row) in (0..STAGES).zip(stages) {
            assert_eq!(row["stage"], stage);
            assert_eq!(row["first_layer"], 4 * stage);
            assert_eq!(row["last_layer"], if stage == 15 { 60 } else { 4 * stage + 3 });
            let (moe, non_moe) = match stage {
                0 => (1_455_161_344_u64, 1_487_601_664_u64),
                15 => (1_455_161_344, 570_776_576),
                _ => (5_820_645_376, 429_719_552),
            };
            let total = moe + non_moe;
            assert_eq!(row["parameters"], serde_json::json!({ "moe": moe, "non_moe": non_moe, "total": total }));
            assert_eq!(row["weights_bytes"], 2 * total);
            assert_eq!(row["gradients_bytes"], 4 * total);
            assert_eq!(row["optimizer_bytes"], 8 * (moe / 8 + non_moe / 32), "sharded over EDP and DP");
        }
    }
}

#[test]
fn json_has_the_activations_of_every_stage() {
    let report = report();
    let policies = [
        ("none", [24_677_285_888, 24_671_158_272, 7_285_571_584], 0),
        ("full", [234_979_328, 235_143_168, 1_176_567_808], 5_794_430_976_u64),
    ];
    for (recompute, [first, middle, last], block) in policies {
        let stages = report["recompute"][recompute]["stages"].as_array().expect("a list of stages");
        for (stage, row) in (0..STAGES).zip(stages) {
            let one: u64 = match stage {
                0 => first,
                15 => last,
                _ => middle,
            };
            let in_flight = STAGES - stage;
            let expected = serde_json::json!({
                "per_micro_batch_bytes": one,
                "in_flight": in_flight,
                "peak_bytes": one * in_flight,
                "recompute_transient_bytes": block,
            });
            assert_eq!(row["activations"], expected, "recompute {recompute}, stage {stage}");
        }
    }
}

#[test]
fn json_has_the_worst_rank_of_each_combination() {
    let report = report();
    let worst = &report["recompute"]["full"]["worst_rank"]["optimizer"];
    let expected = serde_json::json!({
        "stage": 1, "first_rank": 64, "last_rank": 127, "phase": "backward", "total_bytes": 52_751_843_328_u64,
    });
    assert_eq!(*worst, expected);
    for recompute in ["none", "full"] {
        let policy = &report["recompute"][recompute];
        for zero in ZERO {
            assert!(integer(&policy["worst_rank"][zero]["total_bytes"]) > 0);
        }
        // The library looks at one stage of each kind; the report has all, under the declared ZeRO stage.
        let stages = policy["stages"].as_array().expect("a list of stages");
        let totals = stages.iter().map(|row| integer(&row["peak"]["total_bytes"]));
        assert_eq!(totals.max(), Some(integer(&policy["worst_rank"]["optimizer"]["total_bytes"])));
    }
}

#[test]
fn json_compares_with_the_paper() {
    let report = report();
    let rows = report["paper"].as_array().expect("a list of comparisons");
    let row = |id: &str| rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("{id} is compared"));
    for (id, ours, printed, agreement) in [
        ("t3.total", 671_026_404_352_u64, "671B", "rounds"),
        ("t4.stage0", 14_184_415_232, "14.16B", "differs"),
        ("t6.total", 6_250_364_928, "6,250,364,928", "equal"),
        ("t6.total.gib", 12_500_729_856, "11.64 GB", "rounds"),
        ("t8.none.total", 87_505_108_992, "81.54 GB", "differs"),
        ("t8.os.total", 43_430_264_832, "40.46 GB", "differs"),
        ("t8.os+g.total", 21_392_842_752, "19.92 GB", "rounds"),
        ("t8.os+g+params.total", 10_374_131_712, "9.66 GB", "rounds"),
    ] {
        let row = row(id);
        assert_eq!(row["ours"], ours, "{id}");
        assert_eq!(row["printed"], printed, "{id}");
        assert_eq!(row["agreement"], agreement, "{id}");
    }
    assert_eq!(row("t10.none")["ours"], 24_671_158_272_u64);
    assert_eq!(row("t10.none")["printed"], Value::Null, "Table 10 prints formulas");
    assert_eq!(row("o3.skew")["ours"], 29_016_457_216_u64);
    assert_eq!(row("o3.pool")["ours"], 26_214_531_072_u64);
    for row in rows {
        assert!(row["what"].as_str().is_some_and(|what| !what.is_empty()), "{row}");
        let explained = row["note"].as_str().is_some_and(|note| !note.is_empty());
        assert!(explained || row["agreement"] == "equal" || row["agreement"] == "rounds", "no reason: {row}");
    }
}

/// The review's objections in numbers of the rebuilt tables; ranges of the paper beside terms of ours; and what does not fit.
#[test]
fn objections_are_answered_and_ranges_stand_beside_terms() {
    let report = report();
    let answers: Vec<&str> = ["0", "1", "2"]
        .iter()
        .filter_map(|place| report.pointer(&format!("/objections/{place}/answer")).and_then(Value::as_str))
        .collect();
    // 15 x 24,671,158,272 and 15 x 235,143,168 bytes.
    assert!(answers[0].contains("15 of 22.98 GiB each, 344.65 GiB") && answers[0].contains("3.28 GiB"), "{answers:?}");
    assert!(answers[1].contains("385.87 GiB on stage 0 in forward"), "{answers:?}");
    assert!(answers[1].contains("49.13 GiB on stage 1 in backward"), "{answers:?}");
    assert!(answers[2].contains("may get 8 times") && answers[2].contains("for 32 times that load"), "{answers:?}");
    assert!(answers[2].contains("27.02 GiB of a micro-batch, not 22.98 GiB"), "{answers:?}");
    let rows = report["beyond"].as_array().expect("a list of terms");
    let bytes = |row: usize| [integer(&rows[row]["least_bytes"]), integer(&rows[row]["most_bytes"])];
    // 5 and 30 percent of 52,751,843,328 bytes, rounded up; 0.8 and 2 of 2^30.
    assert_eq!(bytes(0), [2_637_592_167, 15_825_552_999]);
    assert_eq!(bytes(3), [858_993_459, 2 << 30]);
    // Each of the four groups of several ranks and the pipeline's; 16,384 rows of 7168 in bf16, twice (fixture B).
    assert_eq!(bytes(4)[0] % 9_633_792, 0);
    assert_eq!(bytes(5), [469_762_048; 2]);
    assert!(bytes(2)[0] > 0 && bytes(2)[0] < bytes(0)[0], "{rows:?}");
    let message = report["failure"]["message"].as_str().expect("it is a text");
    assert!(message.contains("more than the 140.40 GiB of `device` = h200"), "{message}");
    assert!(message.contains("it fits with `recompute: full`"), "{message}");
}

/// A spreadsheet has the same rows, with what is behind them.
#[test]
fn csv_has_the_comparisons() {
    let text = succeed(&["--csv"]);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().expect("it has a header").clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("rows are whole")).collect();
    let ours = report()["paper"].as_array().expect("a list of comparisons");
    assert_eq!(rows.len(), ours.len());
    for (row, ours) in rows.iter().zip(ours) {
        let cell = |name: &str| &row[header.iter().position(|of| of == name).expect("the column is there")];
        assert_eq!(
            (cell("id"), cell("ours")),
            (ours["id"].as_str().expect("a text"), ours["ours"].to_string().as_str())
        );
        assert_eq!((cell("date"), cell("device")), (DATE.1, "h200"));
    }
}

#[test]
fn tables_fit_a_terminal_and_show_the_same_numbers() {
    let tables = tables();
    for line in tables.lines() {
        assert!(line.chars().count() <= 120, "too wide: {line}");
    }
    for shown in ["671,026,404,352", "6,250,364,928", "87,505,108,992", "52,751,843,328", "24,671,158,272"] {
        assert!(tables.contains(shown), "{shown} is not shown");
    }
    let stages = tables.lines().filter(|line| line.contains("  4-7  ")).count();
    assert_eq!(stages, 2, "a row of stage 1 for each recompute policy");
}

/// Ours are GiB; "GB" is what the paper prints, and stands in quotes.
#[test]
fn tables_have_no_bare_gb() {
    for line in tables().lines() {
        let outside: String = line.split('"').step_by(2).collect();
        assert!(!outside.contains("GB"), "bare unit: {line}");
        assert_eq!(line.matches('"').count() % 2, 0, "a quote is left open: {line}");
    }
}

#[test]
fn help_names_the_option() {
    for argument in ["--help", "-h"] {
        assert!(succeed(&[argument]).contains("--json"), "{argument}");
    }
}

#[test]
fn an_unknown_argument_is_refused() {
    let (code, stdout, stderr) = EXAMPLE.run(&["--nonsense"]);
    assert_eq!(code, 2);
    assert_eq!(stdout, "");
    assert!(stderr.contains("--nonsense"), "the argument is named");
}

#[test]
fn a_closed_pipe_is_a_quiet_end() {
    for arguments in [&[][..], &["--json"]] {
        let (reader, writer) = pipe().expect("a pipe opens");
        drop(reader);
        let output = EXAMPLE.command().args(arguments).stdout(writer).output().expect("the example starts");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8(output.stderr).as_deref(), Ok(""), "{arguments:?}");
    }
}
