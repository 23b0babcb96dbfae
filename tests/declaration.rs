//! Declarations that the library writes: those of presets, and of architectures with every key. `tests/ui.rs` compiles
//! and runs the file that they stand in, which says that each means the architecture it was written from.

use moe_model::preset::{PRESETS, Preset};
use moe_model::spec::{Architecture, Attention, Bias, CorrectionBias, Experts, Field, GROUPS, Gqa, Layers, Mla, Norm};
use moe_model::spec::{Layout, QkNorm, Switch, Value};
use moe_model::{Key, Spec};
use std::path::Path;
use std::{env, fs};

const FILE: &str = "tests/ui/pass/declarations.rs";

const HEAD: &str = "\
//! Written by `SNAPSHOTS=overwrite cargo test --test declaration`: declarations out of architectures, which must
//! compile and mean the same. See `tests/declaration.rs`.
#![deny(missing_docs, warnings)]

";

const EXPERTS: Experts = Experts {
    routed: 64,
    shared: 2,
    active: 6,
    ffn: 1408,
    bias: Switch::On,
    shared_ffn: 5632,
    shared_gate: Switch::On,
    router_bias: Switch::On,
    groups: 8,
    active_groups: 4,
    correction_bias: CorrectionBias::Parameter,
};

/// Every key of grouped-query attention, and of all else, at another value than its default.
const EVERY_KEY: Architecture = Architecture {
    hidden: 9999,
    vocab: 10_000,
    tied_embeddings: Switch::On,
    head_bias: Switch::On,
    norm: Norm::LayerBias,
    norms_per_layer: 4,
    layers: Layers { dense: 3, moe: 2, ffn: 1_234_567, moe_every: 2 },
    attention: Attention::Gqa(Gqa {
        heads: 16,
        kv_heads: 4,
        head_dim: 64,
        bias: Bias::All,
        qk_norm: QkNorm::Full,
        sinks: Switch::On,
        output_gate: Switch::On,
    }),
    experts: EXPERTS,
    mtp: 1,
};

/// Every key of latent attention.
const LATENT: Architecture = Architecture {
    attention: Attention::Mla(Mla {
        heads: 16,
        q_rank: 768,
        kv_rank: 512,
        nope: 192,
        rope: 64,
        value: 256,
        indexer_heads: 32,
        indexer_dim: 128,
    }),
    ..EVERY_KEY
};

/// As few keys as there can be.
const FEWEST: Architecture = Architecture {
    hidden: 64,
    vocab: 100,
    layers: Layers { dense: 1, moe: 0, ffn: 256, ..Layers::DEFAULT },
    attention: Attention::Gqa(Gqa { heads: 1, kv_heads: 1, ..Gqa::DEFAULT }),
    ..Architecture::DEFAULT
};

/// The declarations, and a function that says what each means.
fn written() -> String {
    let (mut text, mut main) = (HEAD.to_owned(), String::new());
    let mut write = |name: &str, about: &str, architecture: &Architecture, meant: &str| {
        text += &(architecture.declaration(name, about) + "\n");
        main += meant;
    };
    for Preset { name, about, architecture, .. } in PRESETS {
        let (ty, constant) = (type_name(name), name.to_uppercase());
        let meant = format!("    assert_eq!({ty}::ARCHITECTURE, moe_model::preset::{constant});\n");
        write(&ty, about, architecture, &meant);
    }
    for (ty, about, architecture) in [
        ("EveryKey", "Every key.\n\nAnd a second paragraph.", EVERY_KEY),
        ("Latent", "Every key of latent attention.", LATENT),
        ("Fewest", "As few keys as there can be.", FEWEST),
    ] {
        let debug = format!("{architecture:?}");
        let meant =
            format!("    let meant = {debug:?};\n    assert_eq!(format!(\"{{:?}}\", {ty}::ARCHITECTURE), meant);\n");
        write(ty, about, &architecture, &meant);
    }
    text + "fn main() {\n" + &main + "}\n"
}

/// `deepseek_v3` as the name of a type.
fn type_name(name: &str) -> String {
    name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

#[test]
fn declarations_are_those_that_are_compiled() {
    let (path, written) = (Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE), written());
    if env::var_os("SNAPSHOTS").is_some_and(|value| value == "overwrite") {
        fs::write(&path, &written).expect("the file can be written");
    }
    let blessed = fs::read_to_string(&path).unwrap_or_default();
    assert!(blessed == written, "{FILE} differs (SNAPSHOTS=overwrite writes it anew):\n{written}");
}

/// A new key is in the architectures above, and so in the file.
#[test]
fn every_key_is_written() {
    let defaults = Spec::DEFAULT.numbers();
    for (architecture, own) in [(EVERY_KEY, Gqa::FIELDS), (LATENT, Mla::FIELDS)] {
        let numbers = Spec { architecture, layout: Layout::DEFAULT }.numbers();
        let text = architecture.declaration("Name", "");
        let is_leaf = |field: &&Field| !matches!(field.value, Value::Choice { kinds: [_, ..], .. });
        let groups = [Architecture::FIELDS, Layers::FIELDS, own, Experts::FIELDS];
        for field in groups.into_iter().flatten().filter(is_leaf) {
            let key: Key = field.key;
            assert!(text.contains(&format!("{}: ", key.name())), "{} in {text}", key.path());
            assert_ne!(numbers.get(key), None, "{}", key.path());
            assert!(field.required || numbers.of(key) != defaults.of(key), "{} is at its default", key.path());
        }
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    }
    // A kind of attention that comes later stands here too.
    let architectures = GROUPS.iter().flat_map(|group| group.iter()).filter(|field| !field.key.is_layout());
    let known = [Architecture::FIELDS, Layers::FIELDS, Gqa::FIELDS, Mla::FIELDS, Experts::FIELDS];
    for field in architectures {
        assert!(known.iter().any(|group| group.iter().any(|known| known.key == field.key)), "{}", field.key.path());
    }
}
