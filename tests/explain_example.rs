//! Figures, traced as their user traces them: terms add up to what reports say, and formulas, worked out here, to their terms.

mod example;

use example::{Example, Said};
use serde_json::Value;

static EXAMPLE: Example = Example::named("explain");

const SPECS: [&str; 5] = [
    "examples/lab/megatron.toml",
    "examples/specs/deepseek_v3.toml",
    "examples/specs/serving.toml",
    "examples/lab/ranks.toml",
    "examples/lab/worked.toml",
];

fn run(arguments: &[&str]) -> Said {
    EXAMPLE.run(arguments)
}

fn well(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = run(arguments);
    assert_eq!((code, stderr.as_str()), (0, ""), "{arguments:?}");
    stdout
}

fn report(arguments: &[&str]) -> Value {
    serde_json::from_str(&well(&[arguments, &["--json"]].concat())).expect("stdout is one JSON document")
}

fn terms(report: &Value) -> &Vec<Value> {
    report["terms"].as_array().expect("there are terms")
}

fn integer(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no whole number"))
}

/// The names of all figures, as the help lists them.
fn figures() -> Vec<String> {
    let help = well(&["--help"]);
    let (_, list) = help.split_once("with or without `_bytes`:\n").expect("figures are listed");
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    lines.map(|line| line.split_whitespace().next().expect("a line has a name").to_owned()).collect()
}

/// A formula from left to right, quotients rounded up; none where it is told in words.
fn value(formula: &str) -> Option<u64> {
    let number = |text: &str| {
        let digits = text.rsplit('=').next().unwrap_or_default().trim();
        digits.split(' ').next().and_then(|digits| digits.parse::<u64>().ok())
    };
    formula.split(" x ").try_fold(1_u64, |product, factor| match factor.strip_prefix('(') {
        // All but a rank's own part. Names of dimensions may begin so too.
        Some(rest) if rest.contains(" - ") => {
            let (all, own) = rest.trim_end_matches(')').split_once(" - ")?;
            let (part, ranks) = own.split_once(" / ")?;
            Some(product * (number(all)? - number(part)?.div_ceil(number(ranks)?)))
        }
        _ => match factor.split_once(" / ") {
            Some((factor, by)) => Some((product * number(factor)?).div_ceil(number(by)?)),
            None => Some(product * number(factor)?),
        },
    })
}

#[test]
fn terms_add_up_to_figures_and_formulas_to_terms() {
    let figures = figures();
    assert_eq!(figures.len(), 25, "{figures:?}");
    let mut formulas = 0;
    for spec in SPECS {
        for (figure, rank) in figures.iter().flat_map(|figure| [(figure, &[][..]), (figure, &["--rank", "0"])]) {
            let report = report(&[&[spec, figure], rank].concat());
            let sum: u64 = terms(&report).iter().map(|term| integer(&term["amount"])).sum();
            assert_eq!(sum, integer(&report["figure"][0]["amount"]), "{spec}: {figure}");
            for term in terms(&report) {
                let formula = term["formula"].as_str().expect("a formula is a text");
                assert!(term["source"].as_str().is_some_and(|source| !source.is_empty()), "{spec}: {figure}: {term}");
                if figure != "outside" {
                    assert_eq!(value(formula), term["amount"].as_u64(), "{spec}: {figure}: {term}");
                    formulas += 1;
                }
            }
        }
    }
    assert!(formulas > 1500, "{formulas}");
}

/// Figures that other reports print: of the paper's device, and of labs.
#[test]
fn figures_are_those_of_reports() {
    let amount = |arguments: &[&str]| integer(&report(arguments)["figure"][0]["amount"]);
    let paper = "examples/specs/deepseek_v3.toml";
    for (figure, expected) in [
        ("parameters", 6_250_364_928),
        ("weights_bytes", 12_500_729_856),
        ("static_bytes", 43_430_264_832),
        ("peak_bytes", 52_751_843_328),
        ("micro_batch", 235_143_168),
        ("activations", 15 * 235_143_168),
    ] {
        assert_eq!(amount(&[paper, figure, "--rank", "64"]), expected, "{figure}");
    }
    let lab = "examples/lab/zero.toml";
    assert_eq!(amount(&[lab, "sent"]), 8 * (429_719_552 / 32 * 31 + 5_820_645_376 / 8 * 7));
    assert_eq!(amount(&["examples/specs/serving.toml", "kv_cache", "--phase", "decode"]), 16 * 32_768 * 61 * 576 * 2);
    // Of the last stage.
    assert_eq!(amount(&[paper, "parameters", "--rank", "1023"]), 2_025_937_920);
}

#[test]
fn people_read_tensors_formulas_and_sources() {
    let text = well(&["examples/specs/deepseek_v3.toml", "peak"]);
    assert!(text.starts_with("peak: all that the rank holds"), "{text}");
    assert!(text.contains("a rank of stage 1, in backward: 52,751,843,328 B, 49.13 GiB\n"), "{text}");
    let gradient = "   21.68 GiB  gradient (expert group); gradient [1]\n              P_expert=5820645376 x 4 B\n";
    assert!(text.contains(gradient), "{text}");
    assert!(text.contains("[1] ZeRO, arXiv:1910.02054\n") && text.contains("   49.13 GiB  in all\n"), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 120, "too wide: {line}");
    }
}

#[test]
fn what_is_not_there_is_said() {
    for (arguments, message) in [
        (
            &["examples/specs/deepseek_v3.toml", "pike"][..],
            "error: there is no figure `pike`\n  = help: there are peak,",
        ),
        (
            &["examples/specs/deepseek_v3.toml", "--rank", "1024"],
            "error: `--rank 1024`: there are 1024 ranks, from 0\n",
        ),
        (
            &["examples/specs/deepseek_v3.toml", "--phase", "decode"],
            "error: `--phase decode`: the phases of this layout are between_steps, forward, backward, optimizer_step\n",
        ),
    ] {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(stderr.starts_with(message), "{stderr}");
    }
    let (code, _, stderr) = run(&["examples/specs/broken.toml"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("examples/specs/broken.toml:12:1: error: "), "{stderr}");
}

#[test]
fn spreadsheets_open_it() {
    let text = well(&["examples/specs/deepseek_v3.toml", "weights", "--csv"]);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let amount = reader.headers().expect("it has a header").iter().position(|name| name == "amount").expect("amounts");
    let sum: u64 =
        reader.records().map(|row| row.expect("rows are whole")[amount].parse::<u64>().expect("a number")).sum();
    assert_eq!(sum, 12_500_729_856);
}
