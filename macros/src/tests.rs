//! The macro takes any input: whatever tokens it is given, it answers with items and errors, quickly.

mod expansion;

use crate::{editor, model};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::time::{Duration, Instant};

const DECLARATION: &str = "
    /// A model.
    pub struct DeepSeekV3;
    hidden: 7168,
    vocab: 129_280,
    layers: layers { dense: 3, moe: 58, ffn: 18_432 },
    attention: mla { heads: 128, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 },
    experts: experts { routed: 256, shared: 1, active: 8, ffn: FFN, groups: 8, active_groups: 4, correction_bias: on },
    mtp: 1,
    /// A layout.
    layout Paper: layout {
        mesh: mesh { dp: 32, tp: TP, pp: 16, ep: 4 + 4, etp: 1, sequence_parallel: on },
        stages: stages { first: 4, last: 1 },
        schedule: one_f_one_b,
        zero: zero { dense: optimizer, expert: optimizer, groups: moe_block },
        precision: precision { weights: bf16, gradients: fp32, master: fp32, moments: bf16 },
        batch: batch { sequence: 4096, micro: 1, count: 32 },
        recompute: full,
        routing: dropless { skew: 1.25 },
        accounting: paper { kernel: eager, dropout: on, pool: replica },
        device: h200,
        headroom: percent(10),
    },
    layout Wide: layout { mesh: mesh { dp: 64, pp: 16, ep: 64 }, ..Paper },
";

/// What stands in for a token: keywords, words of the language, numbers at the edges, brackets, and nothing.
const PIECES: &[&str] = &[
    "",
    ",",
    ":",
    "..",
    "0",
    "1",
    "3",
    "48",
    "4294967296",
    "18446744073709551615",
    "99999999999999999999999999",
    "1.5",
    "-1",
    "\"7\"",
    "'c",
    "b'x'",
    "1e9",
    "0x10",
    "2u8",
    "off",
    "none",
    "even",
    "layout",
    "struct",
    "r#type",
    "paper",
    "mesh { }",
    "gqa { heads: 3 }",
    "stages { first: 60 }",
    "percent(200)",
    "percent()",
    "architecture: preset(kimi_k2)",
    "(a, b)",
    "[1; 2]",
    "#[x]",
    "/// c\n",
    "Paper",
    "..Paper",
    "layout X: layout { ..X }",
    "self",
    "crate::N",
    "if true { 1 } else { 2 }",
    "|x| x",
    "tp: 2",
    "{ { { } } }",
    "$",
    "ü",
];

fn parsed(text: &str) -> TokenStream {
    text.parse().expect("the pieces are tokens")
}

/// One token of a stream, counted through all its groups, replaced.
fn replaced(stream: TokenStream, left: &mut usize, by: &TokenStream) -> TokenStream {
    let mut out = TokenStream::new();
    for token in stream {
        if *left == 0 {
            *left = usize::MAX;
            out.extend(by.clone());
            continue;
        }
        *left -= 1;
        match token {
            TokenTree::Group(group) if group.delimiter() != Delimiter::None => {
                let inner = replaced(group.stream(), left, by);
                out.extend([TokenTree::Group(Group::new(group.delimiter(), inner))]);
            }
            other => out.extend([other]),
        }
    }
    out
}

fn count(stream: TokenStream) -> usize {
    let inner = |token| if let TokenTree::Group(group) = token { count(group.stream()) } else { 0 };
    stream.into_iter().map(|token| 1 + inner(token)).sum()
}

/// Expands, and demands an answer that is Rust, soon.
fn expand(input: TokenStream) -> String {
    let (text, begin) = (input.to_string(), Instant::now());
    let output = model(input);
    assert!(begin.elapsed() < Duration::from_secs(5), "took {:?}: {text}", begin.elapsed());
    assert!(syn::parse2::<syn::File>(output.clone()).is_ok(), "not Rust: {text}\n{output}");
    output.to_string()
}

#[test]
fn a_good_declaration_has_no_errors() {
    let output = expand(parsed(DECLARATION));
    assert!(!output.contains("compile_error"), "{output}");
    for item in ["struct DeepSeekV3", "const PAPER", "const WIDE", "const ARCHITECTURE"] {
        assert!(output.contains(item), "{item} is missing: {output}");
    }
}

/// Every token replaced by every piece: errors or none, but always the type, if its name could be read.
#[test]
fn any_token_may_be_wrong() {
    let declaration = parsed(DECLARATION);
    let tokens = count(declaration.clone());
    let name_ends = 12;
    for (i, piece) in (0..tokens).flat_map(|i| PIECES.iter().map(move |piece| (i, piece))) {
        let output = expand(replaced(declaration.clone(), &mut { i }, &parsed(piece)));
        assert!(i < name_ends || output.contains("struct DeepSeekV3"), "token {i} as `{piece}`: {output}");
    }
}

/// Several tokens replaced at once, at random.
#[test]
fn any_tokens_may_be_wrong() {
    let declaration = parsed(DECLARATION);
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..2000 {
        let mut input = declaration.clone();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..count(input.clone()).max(1));
            input = replaced(input, &mut { at }, &parsed(PIECES[random.usize(..PIECES.len())]));
        }
        // What an editor reads need not be Rust, but it must come.
        editor::expand(input.clone());
        expand(input);
    }
}

/// An architecture by name, and any token of it wrong.
#[test]
fn a_preset_may_be_wrong() {
    let declaration =
        parsed("pub struct X; architecture: preset(deepseek_v3), mtp: 0, experts: experts { routed: 8 },");
    let sources = ["preset(x, 1)", "preset[kimi_k2]", "file(\"Cargo.toml\")", "file(a b)", "file \"x\"", "(preset)"];
    let pieces = || PIECES.iter().chain(&sources);
    for (i, piece) in (0..count(declaration.clone())).flat_map(|i| pieces().map(move |piece| (i, piece))) {
        expand(replaced(declaration.clone(), &mut { i }, &parsed(piece)));
    }
    let output = expand(parsed("struct X; architecture: preset(deepseek_v3), mtp: 0,"));
    assert!(!output.contains("compile_error"), "{output}");
    // What is not written is restated as one would write it.
    for number in
        ["hidden : 7168", "q_rank : 1536", "correction_bias : :: moe_model :: spec :: CorrectionBias :: On", "mtp : 0"]
    {
        assert!(output.contains(number), "{number} is missing: {output}");
    }
}

/// An architecture out of a file. Where the compiler tells no source file, a path begins at the crate's folder.
#[test]
fn a_file_is_read_and_followed() {
    let path = "../tests/data/configs/deepseek-v3.json";
    let output = expand(parsed(&format!("struct X; architecture: file({path:?}),")));
    assert!(!output.contains("compile_error"), "{output}");
    assert!(output.contains(":: core :: include_bytes ! (\"/"), "an absolute path: {output}");
    let named = expand(parsed("struct X; architecture: preset(deepseek_v3),"));
    // Behind the editor's copy, which holds what was written.
    let items =
        |output: &str| output.split_once("struct X ; # [automatically_derived]").map(|(_, items)| items.to_owned());
    assert!(items(&output).is_some(), "{output}");
    assert_eq!(items(&output), items(&named), "the same items but for the file");
    for wrong in ["", ".", "\0", "/dev/zero", "Cargo.toml", "../tests/data/configs/grok-1.json"] {
        let output = expand(parsed(&format!("struct X; architecture: file({wrong:?}),")));
        assert!(output.contains("compile_error") && output.contains("struct X"), "{wrong}: {output}");
    }
}

/// Nesting that no declaration has is not followed.
#[test]
fn deep_nesting_is_not_followed() {
    let deep = format!("pub struct X; hidden: {}1{}", "mesh { a: ".repeat(100), "}".repeat(100));
    assert!(expand(parsed(&deep)).contains("compile_error"));
}

/// Every number at once beyond its range, and every degree coprime to what it divides: searches stay bounded.
#[test]
fn searches_are_bounded() {
    let large = DECLARATION.replace("7168", "2147483647").replace("32,", "2147483629,").replace("256", "2147483587");
    assert!(expand(parsed(&large)).contains("compile_error"));
}
