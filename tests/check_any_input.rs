//! The front end for files takes any input: whatever bytes it is given, it answers with a report, soon. What can be
//! read is judged; every message says something.
//!
//! `MOE_MODEL_FUZZ_CASES=100000 cargo test --release --test check_any_input` runs as many cases of each sort.

#[path = "../examples/common/behind.rs"]
#[allow(dead_code)] // what other reports say of it
mod behind;
#[path = "../examples/common/file.rs"]
mod file;
#[path = "../examples/check/input.rs"]
mod input;
#[path = "../examples/check/meant.rs"]
mod meant;
#[path = "../examples/check/places.rs"]
mod places;
#[path = "../examples/check/report.rs"]
mod report;
#[path = "../examples/check/text.rs"]
mod text;
#[path = "../examples/common/wrapped.rs"]
mod wrapped;

use fastrand::Rng;
use report::Report;
use std::path::Path;
use std::time::{Duration, Instant};

const TOML: &str = include_str!("../examples/specs/deepseek_v3.toml");
const BROKEN: &str = include_str!("../examples/specs/broken.toml");

/// What stands in for a part of a file: numbers at the edges, words, brackets, what is no text, and nothing.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "", "0", "1", "3", "48", "-1", "2147483648", "2147483649", "4294967296", "18446744073709551615",
    "18446744073709551616", "99999999999999999999999999999999999999999999", "1.5", "1.2345", "1e300", "-0.0", "nan",
    "inf", "true", "false", "null", "\"on\"", "\"none\"", "\"10%\"", "\"-1%\"", "\"18446744073709551616%\"", "\"\"",
    "\"\\u0000\"", "\"ü\"", "'''", "\"\"\"", "\"mla\"", "\"gqa\"", "\"paper\"", "\"capacity\"", "kind", "\"kind\"", "tp",
    "mesh", "mesh.tp", "a.b.c.d.e.f", "[mesh]", "[[mesh]]", "[a.b.c]", "{", "}", "[", "]",
    "{ kind = \"gqa\", heads = 3 }", "{\"kind\": \"worked_example\"}", "=", ":", ",", "#", "\n", "\r", "\0", "\u{feff}",
    "1979-05-27T07:32:00Z",
];

/// Numbers at the edges of what keys hold, of what formats hold, and of 64 bits.
const NUMBERS: &[&str] =
    &["0", "1", "3", "2147483648", "2147483649", "9223372036854775807", "9223372036854775808", "18446744073709551615"];

fn cases() -> usize {
    let given = std::env::var("MOE_MODEL_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok());
    given.unwrap_or(1000)
}

fn json() -> String {
    let spec: moe_model::Spec = toml::from_str(TOML).expect("the file declares a Spec");
    serde_json::to_string_pretty(&spec).expect("a Spec is data")
}

/// Demands a report, soon, in which every message says something; returns its exit code.
fn code(bytes: &[u8], is_json: bool) -> u8 {
    let shown = || String::from_utf8_lossy(bytes);
    let begin = Instant::now();
    let report = Report::on("file".to_owned(), input::read(bytes.to_vec(), is_json));
    let text = text::of(&report);
    let json = serde_json::to_value(&report).expect("a report is data");
    assert!(begin.elapsed() < Duration::from_secs(20), "took {:?}: {}", begin.elapsed(), shown());

    let is_explained = report.peak.as_ref().is_none_or(|peak| peak.explained.ends_with("in all\n"));
    assert!(is_explained, "a peak is explained: {}", shown());
    let is_empty =
        |line: &str| ["error:", "warning:", "note:", "help:"].iter().any(|word| line.trim_end().ends_with(word));
    assert!(!text.is_empty() && !text.lines().any(is_empty), "nothing is said: {text}\nof {}", shown());
    let lists = ["/violations", "/warnings", "/error/faults"].into_iter().filter_map(|list| json.pointer(list));
    for said in lists.flat_map(|list| list.as_array().into_iter().flatten()) {
        assert!(said["message"].as_str().is_some_and(|message| !message.is_empty()), "{said} of {}", shown());
        assert!(said["line"].is_null() || said["line"].as_u64() >= Some(1), "{said} of {}", shown());
    }
    let code = report.exit_code();
    let reason = [report.valid, !report.violations.is_empty(), report.error.is_some()];
    assert!((0..3).all(|i| reason[usize::from(i)] == (i == code)), "one reason for {code}: {}", shown());
    code
}

#[test]
fn the_files_are_what_they_are_for() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/specs/deepseek_v3.toml");
    assert_eq!(Report::of(&path).exit_code(), 0);
    assert_eq!(
        [code(TOML.as_bytes(), false), code(json().as_bytes(), true), code(BROKEN.as_bytes(), false)],
        [0, 0, 1]
    );
}

#[test]
fn any_bytes_may_come() {
    let mut random = Rng::with_seed(3);
    for _ in 0..cases() {
        let bytes: Vec<u8> = (0..random.usize(..200)).map(|_| random.u8(..)).collect();
        let signs: Vec<u8> = bytes.iter().map(|byte| b"{}[]\",:=.\n #'\\0aetk1-"[*byte as usize % 21]).collect();
        for bytes in [bytes, signs] {
            code(&bytes, false);
            code(&bytes, true);
        }
    }
}

#[test]
fn any_bytes_of_a_file_may_be_wrong() {
    let mut random = Rng::with_seed(5);
    let files = [(TOML.to_owned(), false), (json(), true)];
    for _ in 0..cases() {
        for (text, is_json) in &files {
            let mut bytes = text.clone().into_bytes();
            for _ in 0..random.usize(1..5) {
                let at = random.usize(..bytes.len());
                match random.u8(..4) {
                    0 => bytes.truncate(at + 1),
                    1 => drop(bytes.drain(at + 1..(at + random.usize(1..40)).min(bytes.len()))),
                    _ => bytes[at] = random.u8(..),
                }
            }
            code(&bytes, *is_json);
        }
    }
}

/// Parts of a text: words and numbers, and what stands between them.
fn parts(text: &str) -> Vec<&str> {
    let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '%';
    let halves = text.split_inclusive(|letter| !is_of_word(letter)).flat_map(|piece| {
        let (word, rest) = piece.split_at(piece.trim_end_matches(|letter| !is_of_word(letter)).len());
        [word, rest]
    });
    halves.filter(|part| !part.is_empty()).collect()
}

/// Words, numbers and signs of a valid file replaced, doubled, moved or left out, one or several at once.
#[test]
fn any_parts_of_a_file_may_be_wrong() {
    let mut random = Rng::with_seed(7);
    let (json, mut outcomes) = (json(), [0; 3]);
    for _ in 0..cases() {
        for (text, is_json) in [(TOML, false), (&json, true)] {
            let mut parts = parts(text);
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..parts.len());
                match random.u8(..8) {
                    0 => drop(parts.remove(at)),
                    1 => parts.insert(at, parts[at]),
                    2 => parts.swap(at, random.usize(..=at)),
                    _ => parts[at] = PIECES[random.usize(..PIECES.len())],
                }
            }
            outcomes[usize::from(code(parts.concat().as_bytes(), is_json))] += 1;
        }
    }
    assert!(outcomes.iter().all(|outcome| *outcome > 0), "valid, broken and unreadable: {outcomes:?}");
}

#[test]
fn any_number_may_be_wrong() {
    let json = json();
    for (text, is_json) in [(TOML, false), (&json, true)] {
        let parts = parts(text);
        for at in (0..parts.len()).filter(|at| parts[*at].bytes().all(|byte| byte.is_ascii_digit())) {
            for number in NUMBERS {
                let mut parts = parts.clone();
                parts[at] = number;
                code(parts.concat().as_bytes(), is_json);
            }
        }
    }
}

/// Nesting and length that no Spec has.
#[test]
fn deep_and_long_files_are_read_soon() {
    const MANY: usize = 100_000;
    let long = "x".repeat(MANY);
    let lines = |count: usize| (0..count).map(|i| format!("k{i}=1")).collect::<Vec<_>>().join("\n");
    for text in [
        format!("mesh = {}", "[".repeat(MANY)),
        format!("mesh = {}", "{ a = ".repeat(MANY)),
        format!("{}x = 1", "a.".repeat(MANY)),
        format!("[{}a]", "a.".repeat(MANY)),
        format!("{long} = 1"),
        format!("zero = '{long}'"),
        format!("[{long}]\n{}", lines(1000)),
        lines(5000),
    ] {
        assert_eq!(code(text.as_bytes(), false), 2);
    }
    let doubled = "\"tp\": 1, ".repeat(5000);
    for text in [
        "[".repeat(MANY),
        "{\"mesh\":".repeat(MANY),
        format!("{{\"{long}\": 1}}"),
        format!("{{\"mesh\": {{{doubled}\"tp\": 1}}}}"),
        format!("{{\"{long}\": {{{doubled}\"tp\": 1}}}}"),
    ] {
        assert_eq!(code(text.as_bytes(), true), 2);
    }
}
