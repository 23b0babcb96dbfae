//! Declarations that the library writes: those of presets, and of architectures with every key. `tests/ui.rs` compiles
//! and runs the file that they stand in, which says that each means the architecture it was written from, and of published
//! models has their totals in a `const`.

mod models;
mod totals;

use models::MODELS;
use moe_model::Spec;
use moe_model::preset::{PRESETS, Preset};
use moe_model::spec::{
    Architecture, Attention, Beside, Bias, Compressed, CorrectionBias, Experts, Field, GROUPS, GatedDeltaNet, Gqa, Kda,
    Kind, LayerList, Layers, Layout, Lightning, LocalGqa, Mamba1, Mamba2, Mixer, Mla, Norm, QkNorm, Switch, Value,
};
use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

const FILE: &str = "tests/valid/declarations.rs";

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
    latent: 1024,
    identity: 32,
    hash_layers: 0,
    router_scale: Switch::On,
};

/// Every key of grouped-query attention, and of all else, at another value than its default; but for those that exclude one
/// another, which are in the others.
const EVERY_KEY: Architecture = Architecture {
    hidden: 9999,
    vocab: 10_000,
    tied_embeddings: Switch::On,
    head_bias: Switch::On,
    norm: Norm::LayerBias,
    norms_per_layer: 4,
    layer_scalar: Switch::On,
    hyper_connections: 0,
    positions: 2048,
    layers: Layers {
        dense: 3,
        moe: 2,
        ffn: 1_234_567,
        moe_every: 2,
        list: LayerList::NONE,
        beside: Beside::Dense,
        gated: Switch::Off,
        bias: Switch::On,
    },
    attention: Attention::Gqa(Gqa {
        heads: 16,
        kv_heads: 4,
        head_dim: 64,
        bias: Bias::All,
        qk_norm: QkNorm::Full,
        sinks: Switch::On,
        output_gate: Switch::On,
        value_dim: 0,
        key_as_value: Switch::On,
        window: 4096,
        full_every: 0,
    }),
    mixer: Mixer::None,
    experts: EXPERTS,
    mtp: 0,
};

/// Every key of latent attention, and a module for multi-token prediction.
const LATENT: Architecture = Architecture {
    layers: Layers { beside: Beside::None, ..EVERY_KEY.layers },
    mtp: 1,
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

/// Every key of compressed attention, and of Gated DeltaNet; hyper-connections, and a router that looks experts up.
const COMPRESSED: Architecture = Architecture {
    hyper_connections: 4,
    experts: Experts { hash_layers: 1, correction_bias: CorrectionBias::On, ..EXPERTS },
    attention: Attention::Compressed(Compressed {
        heads: 16,
        q_rank: 768,
        head_dim: 64,
        output_groups: 8,
        output_rank: 256,
        compress: 4,
        compress_heavy: 128,
        indexer_heads: 32,
        indexer_dim: 128,
        window: 128,
    }),
    layers: Layers { beside: Beside::None, ..listed("amcHM") },
    mixer: Mixer::GatedDeltaNet(GatedDeltaNet { key_heads: 16, value_heads: 32, key_dim: 64, value_dim: 128, conv: 4 }),
    ..EVERY_KEY
};

const fn listed(list: &str) -> Layers {
    Layers { moe_every: 1, list: LayerList::parse(list), ..EVERY_KEY.layers }
}

/// Every key of the other mixers, and windows by place.
const MIXED: [(&str, &str, Architecture); 6] = [
    (
        "WithWindows",
        "A window in all layers but every second.",
        Architecture {
            layers: Layers { beside: Beside::None, ..EVERY_KEY.layers },
            attention: Attention::Gqa(Gqa {
                heads: 16,
                kv_heads: 8,
                head_dim: 96,
                window: 4096,
                full_every: 2,
                ..Gqa::DEFAULT
            }),
            ..EVERY_KEY
        },
    ),
    (
        "WithGqa",
        "Every key of grouped-query attention with heads of its own.",
        Architecture {
            attention: Attention::Gqa(Gqa { heads: 16, kv_heads: 8, head_dim: 96, value_dim: 48, ..Gqa::DEFAULT }),
            ..with(Mixer::LocalGqa(LocalGqa {
                heads: 32,
                kv_heads: 8,
                head_dim: 96,
                value_dim: 48,
                bias: Bias::Qkv,
                qk_norm: QkNorm::Head,
                sinks: Switch::On,
                shared_kv: Switch::On,
                window: 1024,
            }))
        },
    ),
    ("WithKda", "Every key of Kimi Delta Attention.", with(Mixer::Kda(Kda { heads: 32, head_dim: 128, conv: 4 }))),
    (
        "WithLightning",
        "Every key of lightning attention.",
        with(Mixer::Lightning(Lightning { heads: 64, head_dim: 128, block: 256 })),
    ),
    (
        "WithMamba1",
        "Every key of Mamba.",
        with(Mixer::Mamba1(Mamba1 { inner: 8192, state: 16, conv: 4, time_rank: 256 })),
    ),
    (
        "WithMamba2",
        "Every key of Mamba-2.",
        with(Mixer::Mamba2(Mamba2 { heads: 64, head_dim: 64, state: 128, groups: 8, conv: 4 })),
    ),
];

const fn with(mixer: Mixer) -> Architecture {
    let layers = Layers { beside: Beside::None, ..listed("aMamA") };
    Architecture { layers, mixer, ..LATENT }
}

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
        let mut meant = format!("    assert_eq!({ty}::ARCHITECTURE, moe_model::preset::{constant});\n");
        if let Some((model, _)) = MODELS.iter().find(|(_, preset)| preset == name) {
            let row = totals::row(model);
            let counts = [("total", "parameters().total()"), ("active", "active_parameters()")];
            meant.extend(
                counts.map(|(count, of)| {
                    format!("    const {{ assert!({ty}::ARCHITECTURE.{of} == {}) }};\n", row[count])
                }),
            );
        }
        write(&ty, about, architecture, &meant);
    }
    for (ty, about, architecture) in [
        ("EveryKey", "Every key.\n\nAnd a second paragraph.", EVERY_KEY),
        ("Latent", "Every key of latent attention.", LATENT),
        ("Compressed", "Every key of compressed attention, and of Gated DeltaNet.", COMPRESSED),
        ("Fewest", "As few keys as there can be.", FEWEST),
    ]
    .into_iter()
    .chain(MIXED)
    {
        let debug = format!("{architecture:?}");
        let meant =
            format!("    let meant = {debug:?};\n    assert_eq!(format!(\"{{:?}}\", {ty}::ARCHITECTURE), meant);\n");
        write(ty, about, &architecture, &meant);
    }
    text + "#[test]\nfn they_mean_the_same() {\n" + &main + "}\n"
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
    let mut written = BTreeSet::new();
    let mixed = MIXED.map(|(.., architecture)| architecture);
    for architecture in [EVERY_KEY, LATENT, COMPRESSED].into_iter().chain(mixed) {
        let numbers = Spec { architecture, layout: Layout::DEFAULT }.numbers();
        let text = architecture.declaration("Name", "");
        let chosen = |kinds| Kind::chosen(kinds, &numbers).map_or(&[] as &[Field], |kind| kind.fields);
        let (attention, mixer) = (chosen(Attention::KINDS), chosen(Mixer::KINDS));
        let groups = [Architecture::FIELDS, Layers::FIELDS, attention, mixer, Experts::FIELDS];
        for field in groups.into_iter().flatten() {
            let is_group = matches!(field.value, Value::Choice { kinds: [_, ..], .. });
            let differs = field.required || numbers.of(field.key) != defaults.of(field.key);
            if differs && !is_group {
                assert!(text.contains(&format!("{}: ", field.key.name())), "{} in {text}", field.key.path());
                written.insert(field.key);
            }
        }
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    }
    // A kind of attention or mixer that comes later stands here too.
    let architectures = GROUPS.iter().flat_map(|group| group.iter()).filter(|field| !field.key.is_layout());
    for field in architectures {
        let is_group = matches!(field.value, Value::Choice { kinds: [_, ..], .. });
        assert!(is_group || written.contains(&field.key), "{}", field.key.path());
    }
}
