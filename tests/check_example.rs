//! The example that checks a file, run as its user runs it: what it says of a valid, a broken and an unreadable file,
//! to people and as JSON, and that it says what the macro says.

mod example;

use example::{DATE, Example, Said, said};
use serde_json::{Value, json};
use std::fs;
use std::io::pipe;
use std::path::Path;

const VALID: &str = "examples/specs/deepseek_v3.toml";
const BROKEN: &str = "examples/specs/broken.toml";

static EXAMPLE: Example = Example::named("check");

fn run(arguments: &[&str]) -> Said {
    EXAMPLE.run(arguments)
}

/// Of a text on stdin.
fn run_on(text: &[u8], arguments: &[&str]) -> Said {
    EXAMPLE.run_on(text, arguments)
}

/// A file of this test, in a place of its own.
fn file(name: &str, text: &str) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("the target directory can be written");
    path.to_str().expect("the path is UTF-8").to_owned()
}

fn valid() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(VALID)).expect("the file is there")
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).expect("stdout is one JSON document")
}

#[test]
fn a_valid_file_is_summed_up() {
    let expected = "examples/specs/deepseek_v3.toml: valid
world   1024 ranks
peak    49.13 GiB on stage 1 in backward: ranks 64 to 127
stages  0: 4 layers, 3 dense and 1 with experts
        1 to 14: 4 layers each, with experts
        15: 1 layer, with experts
rules   paper: dropout on, kernel eager, pool replica
counted by moe-model 0.1.0 on 2026-11-30, device h200
";
    assert_eq!(run(&[VALID]), (0, expected.to_owned(), String::new()));
    let (code, stdout, stderr) = run(&[VALID, "--json"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let expected = json!({
        "format": "moe-model/check/2",
        "file": VALID,
        "valid": true,
        "behind": {
            "model": format!("deepseek_v3 ({VALID})"), "accounting": "paper: dropout on, kernel eager, pool replica",
            "version": "moe-model 0.1.0", "device": "h200", "date": DATE.1,
        },
        "world": 1024,
        "chunks": 1,
        "peak_bytes": 52_751_843_328_u64,
        "peak": {
            "stage": 1, "phase": "backward", "first_rank": 64, "last_rank": 127, "bytes": 52_751_843_328_u64,
        },
        "stages": [
            { "first_stage": 0, "last_stage": 0, "dense_layers": 3, "moe_layers": 1 },
            { "first_stage": 1, "last_stage": 14, "dense_layers": 0, "moe_layers": 4 },
            { "first_stage": 15, "last_stage": 15, "dense_layers": 0, "moe_layers": 1 },
        ],
        "stages_left_out_from": null,
        "violations": [],
        "warnings": [],
        "error": null,
    });
    assert_eq!(json_of(&stdout), expected);
}

#[test]
fn what_is_legal_but_costly_is_a_warning() {
    let text = valid().replace("count = 32", "count = 8");
    let (code, stdout, stderr) = run_on(text.as_bytes(), &[]);
    let expected = "stdin:59:1: warning: `batch.count` = 8 is less than `mesh.pp` = 16
  = note: with fewer micro-batches than stages some stages always wait (pipeline-bubble)
  = help: the nearest legal value of `batch.count` is 16
";
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.starts_with("stdin: valid\n") && stdout.ends_with(expected), "{stdout}");
    let report = json_of(&run_on(text.as_bytes(), &["--json"]).1);
    assert_eq!(report["warnings"][0]["law"], "pipeline-bubble");
    assert_eq!(report["valid"], true);
}

#[test]
fn all_laws_that_are_broken_are_said_at_their_lines() {
    let (code, stdout, stderr) = run(&[BROKEN]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    let expected = "\
examples/specs/broken.toml:32:1: error: `mesh.ep` x `mesh.etp` = 48 does not divide `mesh.tp` x `mesh.cp` x `mesh.dp` = 64
  = note: expert groups tile the ranks of a stage (expert-grid)
  = help: the nearest legal values of `mesh.ep` are 32 and 64
examples/specs/broken.toml:32:1: error: `mesh.ep` = 48 does not divide `experts.routed` = 256
  = note: every rank of an expert group holds the same number of experts (experts-ep)
  = help: the nearest legal values of `mesh.ep` are 32 and 64
examples/specs/broken.toml:12:1: error: `mesh.tp` = 2 does not divide `attention.heads` = 129
  = note: tensor parallelism splits attention by heads (heads-tp)
  = help: the nearest legal values of `attention.heads` are 128 and 130
examples/specs/broken.toml:31:1: error: `mesh.pp` = 17 leaves 15 stages alike for 56 layers, after `stages.first` = 4 \
and `stages.last` = 1 of 61
  = note: stages between the first and the last hold the same number of layers, and none is dropped (layers-stages)
  = help: the nearest legal values of `mesh.pp` are 16 and 30
examples/specs/broken.toml:42:1: error: `batch.global` = 1000 is not `batch.micro` x `mesh.dp` x `batch.count` = 1024
  = note: every replica runs the same whole number of micro-batches (global-batch)
  = help: the nearest legal value of `batch.global` is 1024; it may be left out
";
    assert_eq!(stderr, expected);
    let (code, stdout, stderr) = run(&[BROKEN, "--json"]);
    assert_eq!((code, stderr.as_str()), (1, ""));
    let report = json_of(&stdout);
    let laws = report["violations"].as_array().expect("a list").iter().map(|violation| &violation["law"]);
    assert!(laws.eq(["expert-grid", "experts-ep", "heads-tp", "layers-stages", "global-batch"]), "{report:#}");
    let expected = json!({
        "law": "heads-tp",
        "key": "attention.heads",
        "value": 129,
        "message": "`mesh.tp` = 2 does not divide `attention.heads` = 129",
        "note": "tensor parallelism splits attention by heads (heads-tp)",
        "help": "the nearest legal values of `attention.heads` are 128 and 130",
        "legal_below": 128,
        "legal_above": 130,
        "line": 12,
        "column": 1,
    });
    assert_eq!(report["violations"][2], expected);
    for (key, value) in [("valid", json!(false)), ("world", Value::Null), ("peak_bytes", Value::Null)] {
        assert_eq!(report[key], value, "{key}");
    }
}

/// Values stand in the report as they stand in a file; a key that was not written has its group's place, or none.
#[test]
fn values_are_those_of_a_file() {
    let text = valid().replace("sequence_parallel = \"on\"\n", "") + "[routing]\nkind = 'dropless'\nskew = 9.5\n";
    let (code, stdout, _) = run_on(text.as_bytes(), &["--json"]);
    assert_eq!(code, 1);
    let report = json_of(&stdout);
    let [first, second] = [0, 1].map(|i| &report["violations"][i]);
    assert_eq!((&first["key"], &first["value"]), (&json!("mesh.sequence_parallel"), &json!("off")));
    assert_eq!((&first["legal_above"], &first["line"]), (&json!("on"), &json!(29)), "the line of `mesh`");
    assert_eq!((&second["key"], &second["value"]), (&json!("routing.skew"), &json!(9.5)));
    assert_eq!(second["legal_below"], json!(8.0), "{second:#}");
}

#[test]
fn what_cannot_be_read_is_said_at_its_line() {
    let text = valid().replace("tp = 2", "tpp = 2").replace("pp = 16", "pp = \"16\"").replace("hidden = 7168\n", "");
    let (code, stdout, stderr) = run_on(text.as_bytes(), &[]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    let expected = "\
stdin: error: the Spec lacks `hidden`
stdin:30:1: error: `mesh` has no key `tpp`
  | tpp = 2
  = help: did you mean `tp`?
stdin:31:1: error: `mesh.pp` is a whole number, not `\"16\"`
  | pp = \"16\"
  = help: write it without quotes: `16`
";
    assert_eq!(stderr, expected);
    let (code, stdout, stderr) = run_on(text.as_bytes(), &["--json"]);
    assert_eq!((code, stderr.as_str()), (2, ""));
    let report = json_of(&stdout);
    let expected = json!({
        "message": "the file declares no Spec",
        "faults": [
            {
                "key": null, "message": "the Spec lacks `hidden`", "help": null,
                "line": null, "column": null, "text": null,
            },
            {
                "key": "mesh.tpp", "message": "`mesh` has no key `tpp`", "help": "did you mean `tp`?",
                "line": 30, "column": 1, "text": "tpp = 2",
            },
            {
                "key": "mesh.pp", "message": "`mesh.pp` is a whole number, not `\"16\"`",
                "help": "write it without quotes: `16`", "line": 31, "column": 1, "text": "pp = \"16\"",
            },
        ],
    });
    assert_eq!(report["error"], expected);
    assert_eq!((&report["valid"], &report["violations"]), (&json!(false), &json!([])));
}

#[test]
fn what_is_not_toml_or_json_is_said_at_its_line() {
    for (text, expected) in [
        (
            &b"hidden = abc\n[mesh\n"[..],
            "stdin:1:10: error: string values must be quoted, expected literal string\n  | hidden = abc\n  \
             = help: text stands in quotes: `hidden = \"abc\"`\n\
             stdin:2:6: error: unclosed table, expected `]`\n  | [mesh\n",
        ),
        (b"a = true\na = true\n", "stdin:2:1: error: duplicate key\n  | a = true\n"),
        (b"a = 1\na = 2\n", "stdin:2:1: error: duplicate key\n  | a = 2\n"),
        (b"hidden = 1\nvoc\xff = 2\n", "stdin:2:4: error: the file is not UTF-8\n  | voc\u{fffd} = 2\n"),
    ] {
        assert_eq!(run_on(text, &[]), (2, String::new(), expected.to_owned()));
    }
    let slips = [
        ("recompute = full", "text stands in quotes: `recompute = \"full\"`"),
        ("schedule = interleaved # two chunks", "text stands in quotes: `schedule = \"interleaved\"`"),
        ("[mesh]\ndp: 32", "write `dp = 32`"),
        ("layers = { dense = 3 moe = 58, ffn = 18_432 }", "a comma is missing in front of `moe`"),
    ];
    for (text, help) in slips {
        let (code, _, said) = run_on(text.as_bytes(), &[]);
        assert_eq!((code, said.matches("error: ").count()), (2, 1), "{said}");
        assert!(said.contains(&format!("= help: {help}\n")), "{said}");
    }
    let bare = file("bare.json", "{\n\"recompute\": full,\n\"hidden\": 1}");
    assert!(run(&[&bare]).2.ends_with("= help: text stands in quotes: `\"full\"`\n"), "{}", run(&[&bare]).2);
    let path = file("not.json", "{\"hidden\": 1,\n \"mesh\": {\"dp\": 4 \"tp\": 3}}");
    let expected = format!("{path}:2:19: error: expected `,` or `}}`\n  | \"mesh\": {{\"dp\": 4 \"tp\": 3}}}}\n");
    assert_eq!(run(&[&path]), (2, String::new(), expected));
}

#[test]
fn a_file_that_cannot_be_opened_is_named() {
    for path in ["examples/specs/none.toml", "examples"] {
        let (code, stdout, stderr) = run(&[path]);
        assert_eq!((code, stdout.as_str()), (2, ""));
        assert!(stderr.starts_with(&format!("{path}: error: the file cannot be read: ")), "{stderr}");
        let report = json_of(&run(&[path, "--json"]).1);
        assert_eq!(report["error"]["faults"], json!([]));
    }
}

/// The same Spec as JSON: the same report, but for the file's name and places.
#[test]
fn json_is_read_like_toml() {
    let spec: Value = toml::from_str(&valid()).expect("the file is TOML");
    let path = file("deepseek_v3.json", &serde_json::to_string_pretty(&spec).expect("it is data"));
    let [mut ours, mut theirs] = [&*path, VALID].map(|path| json_of(&run(&[path, "--json"]).1));
    for report in [&mut ours, &mut theirs] {
        (report["file"], report["behind"]["model"]) = (Value::Null, Value::Null);
    }
    assert_eq!(ours, theirs);
    let mut spec = spec;
    spec["mesh"]["dp"] = json!(33);
    let text = serde_json::to_string_pretty(&spec).expect("it is data");
    let line = text.lines().position(|line| line.contains("\"dp\"")).expect("the key is there") + 1;
    let path = file("broken.json", &text);
    let (code, _, stderr) = run(&[&path]);
    assert_eq!(code, 1);
    assert!(stderr.starts_with(&format!("{path}:{line}:5: error: `mesh.ep` x `mesh.etp` = 8 does not")), "{stderr}");
}

/// One wrong number in the declaration and the same in the file: the compiler and the example say the same.
#[test]
fn a_file_is_told_what_a_declaration_is() {
    for (name, from, to) in [
        ("dp_33", "dp = 32", "dp = 33"),
        ("ep_48", "ep = 8", "ep = 48"),
        ("etp_3", "etp = 1", "etp = 3"),
        ("heads_129", "heads = 128", "heads = 129"),
        ("pp_17", "pp = 16", "pp = 17"),
        ("tp_3", "\ntp = 2", "\ntp = 3"),
    ] {
        let path = format!("{}/tests/ui/one_number/{name}.stderr", env!("CARGO_MANIFEST_DIR"));
        let macros = fs::read_to_string(path).expect("the compiler's text is there");
        let text = valid();
        assert_eq!(text.matches(from).count(), 1, "{from}");
        let (code, _, ours) = run_on(text.replace(from, to).as_bytes(), &[]);
        assert_eq!(code, 1, "{name}");
        assert_eq!(messages(&ours), messages(&macros), "{name}");
    }
}

/// Errors with their notes and helps, without places, margins and the names of layouts, which files have none of.
fn messages(text: &str) -> Vec<&str> {
    let lines = text.lines().filter_map(|line| match line.find("error: ") {
        Some(at) => Some(&line[at..]),
        None => line.trim_start().starts_with("= ").then(|| line.trim_start()),
    });
    lines.filter(|line| !line.starts_with("= note: in layout")).collect()
}

#[test]
fn help_names_everything() {
    let (code, stdout, stderr) = run(&["--help"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    for part in ["SPEC", "--json", "stdin", "Exit codes"] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
    for arguments in [&[][..], &["--nonsense"], &[VALID, BROKEN]] {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(stderr.contains("Usage: "), "{stderr}");
    }
}

#[test]
fn a_closed_pipe_is_a_quiet_end() {
    for (arguments, code) in [(&[VALID][..], 0), (&[VALID, "--json"], 0), (&[BROKEN, "--json"], 1)] {
        let (reader, writer) = pipe().expect("a pipe opens");
        drop(reader);
        let output = EXAMPLE.command().args(arguments).stdout(writer).output().expect("the example starts");
        assert_eq!(said(output), (code, String::new(), String::new()), "{arguments:?}");
    }
}

/// The list of laws names each once, and says of each what must hold.
#[test]
fn laws_are_listed() {
    let (code, text, _) = run(&["--laws"]);
    assert_eq!(code, 0);
    let laws = moe_model::law::LAWS.iter().chain(moe_model::law::ADVICE);
    for law in laws.clone() {
        assert_eq!(text.matches(&format!(" {}: ", law.id)).count(), 1, "{}", law.id);
        assert!(!law.statement().is_empty(), "{}", law.id);
    }
    assert!(text.contains("error heads-tp: `mesh.tp` divides `attention.heads`\n"), "{text}");
    let schedules = "`schedule` is one_f_one_b or interleaved, for `target: megatron_core`, with more than one stage\n";
    assert!(text.contains(&format!("error megatron-schedules: {schedules}")), "{text}");
    let (_, json, _) = run(&["--laws", "--json"]);
    let json = json_of(&json);
    assert_eq!(json["format"], "moe-model/laws/1");
    assert_eq!(json["laws"].as_array().expect("a list").len(), laws.count() + 2);
    assert!(text.contains("error number-range: ") && text.contains("error stage-list: "), "{text}");
}

/// The peak, tensor by tensor: the lines add up to it.
#[test]
fn a_peak_is_explained() {
    let (code, stdout, stderr) = run(&[VALID, "--explain"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let (_, explained) = stdout.split_once("\nthe peak, 49.13 GiB on stage 1 in backward:\n").expect("it is explained");
    let largest =
        "   21.68 GiB  gradient (expert group): [P_expert] x 4 B = 21.68 GiB; gradient, ZeRO, arXiv:1910.02054\n";
    assert!(explained.starts_with(largest), "{explained}");
    assert!(explained.ends_with("   49.13 GiB  in all\n"), "{explained}");
    assert_eq!(run(&[VALID, "--explain", "--json"]).0, 2);
}
