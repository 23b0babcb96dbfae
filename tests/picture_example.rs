//! Pictures, drawn as their user draws them: what is in the files is what budgets say, all of it stands on the picture and apart,
//! and the committed picture is what the command draws. `SNAPSHOTS=overwrite` draws that anew.

mod example;

use example::{Example, Said};
use moe_model::{Phase, Plan, Role};
use roxmltree::{Document, Node};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::{env, fs};

static EXAMPLE: Example = Example::named("picture");

const SPECS: [&str; 4] = [
    "examples/lab/megatron.toml",
    "examples/specs/deepseek_v3.toml",
    "examples/specs/serving.toml",
    "examples/lab/ranks.toml",
];
const PICTURES: [&str; 3] = ["stages.svg", "timeline.svg", "ranks.svg"];

fn run(arguments: &[&str]) -> Said {
    EXAMPLE.run(arguments)
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Draws a Spec; the folder.
fn drawn(spec: &str, more: &[&str]) -> PathBuf {
    // Tests run side by side.
    let out = folder(&format!("picture-{}{}", spec.replace(['/', '.'], "-"), more.concat()));
    let arguments = [&[spec, "--out", out.to_str().expect("paths are text")], more].concat();
    let (code, stdout, stderr) = run(&arguments);
    assert_eq!((code, stderr.as_str()), (0, ""), "{spec}");
    let files: Vec<&str> = stdout.lines().collect();
    assert_eq!(files.len(), 5, "{stdout}");
    assert!(files.iter().all(|file| Path::new(file).is_file()), "{stdout}");
    out
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn plan(spec: &str) -> Plan {
    let text = fs::read_to_string(spec).expect("the Spec is there");
    Plan::new(toml::from_str(&text).expect("it is a Spec")).expect("it is legal")
}

fn number(node: &Node<'_, '_>, name: &str) -> f64 {
    let value = node.attribute(name).unwrap_or_else(|| panic!("{name} is missing: {node:?}"));
    value.parse().unwrap_or_else(|_| panic!("{name} is {value}"))
}

fn words<'n>(node: &Node<'n, '_>) -> &'n str {
    node.text().unwrap_or_default().trim()
}

/// Left, top, right and bottom of a text, as wide as its letters are at the most.
fn place(node: &Node<'_, '_>) -> [f64; 4] {
    let (x, y, size) = (number(node, "x"), number(node, "y"), number(node, "font-size"));
    #[allow(clippy::cast_precision_loss)] // letters
    let width = 0.56 * size * words(node).chars().count() as f64;
    let top = match node.attribute("dy") {
        Some("0.76em") => y,
        Some("0.5ex") => y - size / 2.0,
        _ => y - size,
    };
    let left = match node.attribute("text-anchor") {
        Some("middle") => x - width / 2.0,
        Some("end") => x - width,
        _ => x,
    };
    [left, top, left + width, top + size]
}

/// No text lies on another or leaves the picture.
#[test]
fn texts_stand_apart_on_the_picture() {
    for spec in SPECS {
        let folder = drawn(spec, &[]);
        for name in PICTURES {
            let svg = read(&folder, name);
            let document = Document::parse(&svg).unwrap_or_else(|error| panic!("{spec} {name}: {error}"));
            let texts = document
                .descendants()
                .filter(|node| node.has_tag_name("text") && node.attribute("transform").is_none());
            let texts: Vec<(&str, [f64; 4])> = texts.map(|node| (words(&node), place(&node))).collect();
            assert!(texts.len() > 5, "{spec} {name}");
            for (index, (text, [left, top, right, bottom])) in texts.iter().enumerate() {
                let is_on = *left >= 0.0 && *top >= 0.0 && *right <= 1200.0 && *bottom <= 640.0;
                assert!(is_on, "{spec} {name}: `{text}` at {left} {top} {right} {bottom}");
                for (other, [l, t, r, b]) in &texts[index + 1..] {
                    let is_apart = right <= l || r <= left || bottom <= t || b <= top;
                    assert!(is_apart, "{spec} {name}: `{text}` lies on `{other}`");
                }
            }
        }
    }
}

/// Bars are as high as the axis says, both ends to a pixel; each colour of them as the budget's roles.
#[test]
fn bars_are_as_high_as_budgets() {
    let spec = SPECS[0];
    let (folder, plan) = (drawn(spec, &[]), plan(spec));
    let svg = read(&folder, "stages.svg");
    let document = Document::parse(&svg).expect("it is XML");
    let of_color = |color: &str| -> Vec<f64> {
        let rects = document.descendants().filter(|node| node.attribute("fill") == Some(color));
        // The legend's squares stand on the right.
        rects.filter(|node| number(node, "x") < 1000.0).map(|node| number(&node, "height")).collect()
    };
    // From the pixels of the axis's numbers.
    let axis = |label: &str| {
        let is_label = |node: &Node<'_, '_>| words(node) == label && node.attribute("text-anchor") == Some("end");
        let node = document.descendants().find(is_label).unwrap_or_else(|| panic!("no {label} on the axis"));
        number(&node, "y")
    };
    let pixels_of_gib = (axis("0") - axis("140")) / 140.0;
    for (color, roles) in [
        ("#0072B2", &[Role::Weight][..]),
        ("#56B4E9", &[Role::Gradient]),
        ("#F5EC82", &[Role::FirstMoment, Role::SecondMoment]),
        ("#D55E00", &[Role::Activation]),
    ] {
        let heights = of_color(color);
        assert_eq!(heights.len(), 16, "{color}");
        for (stage, height) in (0..).zip(heights) {
            let budget = plan.budget(stage);
            let bytes: moe_model::Bytes = roles.iter().map(|role| budget.role_in(*role, budget.peak().phase)).sum();
            let expected = bytes.as_gib() * pixels_of_gib;
            assert!((height - expected).abs() <= 2.0, "{color} of stage {stage}: {height}, not {expected}");
        }
    }
    for stage in 0..plan.stages() {
        let label = format!("\n{:.1}\n", plan.budget(stage).peak().total.as_gib());
        assert!(svg.contains(&label), "{label} of stage {stage}");
    }
}

#[test]
fn the_peak_is_marked_and_ranks_are_numbered() {
    let folder = drawn(SPECS[1], &[]);
    let timeline = read(&folder, "timeline.svg");
    assert!(timeline.contains("\npeak 49.13 GiB, in backward of micro-batch 0\n"), "{timeline}");
    assert!(timeline.contains("What a rank of stage 1 holds over a step"));
    let ranks = read(&folder, "ranks.svg");
    assert!(ranks.contains("\n64\n") && ranks.contains("\nto 127\n"), "{ranks}");
    // Of another rank.
    let folder = drawn(SPECS[1], &["--rank", "1023"]);
    assert!(read(&folder, "timeline.svg").contains("What a rank of stage 15 holds over a step"));
}

/// A slice and counters for each event; counters add up, and the largest is the budget's peak.
#[test]
fn the_trace_counts_bytes() {
    let spec = SPECS[3];
    let (folder, plan) = (drawn(spec, &[]), plan(spec));
    let trace: Value = serde_json::from_str(&read(&folder, "trace.json")).expect("it is JSON");
    let events = trace["traceEvents"].as_array().expect("there are events");
    let of = |ph: &str| events.iter().filter(|event| event["ph"] == ph).collect::<Vec<_>>();
    let (slices, counters) = (of("X"), of("C"));
    // Between steps, eight forwards, eight backwards, the update.
    assert_eq!((slices.len(), counters.len(), of("M").len()), (18, 18, 2));
    let mut most = 0;
    for (slice, counter) in slices.iter().zip(&counters) {
        assert_eq!((&slice["ts"], &slice["pid"]), (&counter["ts"], &counter["pid"]));
        let args = counter["args"].as_object().expect("counters have series");
        let bytes = |key: &str| args[key].as_u64().expect("bytes are whole numbers");
        let sum: u64 = Role::ALL.iter().map(|role| bytes(role.name())).sum();
        assert_eq!(bytes("in all"), sum);
        assert_eq!(slice["args"]["bytes"], sum);
        most = most.max(sum);
    }
    assert_eq!(most, plan.peak().bytes());
    assert_eq!(trace["otherData"]["device"], "h100");
    assert_eq!(slices[1]["name"], "forward of micro-batch 0, chunk 0");
}

#[test]
fn json_has_what_is_drawn() {
    for spec in SPECS {
        let (code, stdout, _) = run(&[spec, "--json"]);
        let data: Value = serde_json::from_str(&stdout).expect("stdout is one JSON document");
        assert_eq!((code, &data["format"]), (0, &"moe-model/picture/1".into()));
        let plan = plan(spec);
        assert_eq!(data["stages"].as_array().map(Vec::len), usize::try_from(plan.stages()).ok());
        for phase in Phase::ALL.iter().filter(|phase| plan.phases().contains(phase)) {
            let roles = data["stages"][0]["phases"][phase.name()].as_object().expect("a phase has roles");
            let sum: u64 = roles.values().filter_map(Value::as_u64).sum();
            assert_eq!(sum, plan.budget(0).phase(*phase).bytes(), "{spec}: {phase}");
        }
    }
}

/// Nothing is fetched: the page holds its pictures.
#[test]
fn the_page_needs_nothing_else() {
    let page = read(&drawn(SPECS[0], &[]), "index.html");
    assert_eq!(page.matches("<svg ").count(), 3);
    for fetched in ["src=", "<link", "<script", "url(", "@import"] {
        assert!(!page.contains(fetched), "{fetched}");
    }
    assert_eq!(page.matches("http").count(), page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count());
    for fact in ["deepseek_v3 with mtp 0", "version v0_20", "h200", "2026-11-30", "moe-model 0."] {
        assert!(page.contains(fact), "{fact}");
    }
}

#[test]
fn the_readmes_picture_is_what_the_command_draws() {
    const PICTURE: &str = "examples/picture/stages.svg";
    let drawn = read(&drawn(SPECS[0], &[]), "stages.svg");
    if env::var("SNAPSHOTS").as_deref() == Ok("overwrite") {
        fs::write(PICTURE, &drawn).expect("it can be written");
    }
    let is_same = fs::read_to_string(PICTURE).is_ok_and(|picture| picture == drawn);
    assert!(is_same, "{PICTURE} is not what the command draws; SNAPSHOTS=overwrite draws it anew");
}

#[test]
fn what_is_wrong_is_said() {
    let (code, stdout, stderr) = run(&["examples/specs/broken.toml"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("`mesh.tp` = 2 does not divide"), "{stderr}");
    let (code, _, stderr) = run(&[SPECS[0], "--rank", "1024"]);
    assert_eq!((code, stderr.as_str()), (2, "error: `--rank 1024`: there are 1024 ranks, from 0\n"));
    // A file in the place of the folder.
    let (code, stdout, stderr) = run(&[SPECS[0], "--out", "Cargo.toml"]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.starts_with("error: Cargo.toml: "), "{stderr}");
}
