//! Each preset against the published model: parameters, active ones, buffers and multi-token-prediction modules, to the
//! last one, as transformers builds the model from its config. See `tests/data/README.md` for the file.

use moe_model::preset::{PRESETS, Preset};
use moe_model::spec::Architecture;
use moe_model::{Spec, judge, spec::Layout};
use serde_json::Value;

/// A preset and the model in the file that it is.
const MODELS: &[(&str, &str)] = &[
    ("deepseek_moe_16b", "deepseek-moe-16b"),
    ("deepseek_v2", "deepseek-v2"),
    ("deepseek_v2_lite", "deepseek-v2-lite"),
    ("deepseek_v3", "deepseek-v3"),
    ("deepseek_r1", "deepseek-r1"),
    ("kimi_k2", "kimi-k2"),
    ("mixtral_8x7b", "mixtral-8x7b"),
    ("llama_2_7b", "llama-2-7b"),
    ("llama_3_1_8b", "llama-3.1-8b"),
    ("llama_3_1_70b", "llama-3.1-70b"),
];

/// No file holds it; the headers of its published checkpoint (mistralai/Mixtral-8x22B-v0.1, 59 shards, 1,739 tensors)
/// count 281,241,268,224 bytes of bfloat16. Its active parameters are counted by hand.
const MIXTRAL_8X22B: (u64, u64) = (281_241_268_224 / 2, 140_620_634_112 - 56 * 6 * 3 * 6144 * 16_384);

fn architecture(name: &str) -> &'static Architecture {
    &Preset::named(name).unwrap_or_else(|| panic!("no preset {name}")).architecture
}

#[test]
fn presets_are_the_published_models() {
    let totals: Value = serde_json::from_str(include_str!("data/totals.json")).expect("the file is JSON");
    let totals = totals.as_array().expect("a list of models");
    for (preset, model) in MODELS {
        let row = totals.iter().find(|row| row["model"] == *model).unwrap_or_else(|| panic!("no {model}"));
        let architecture = architecture(preset);
        let ours = [
            ("total", architecture.parameters().total()),
            ("active", architecture.active_parameters()),
            ("buffers", architecture.buffer_elements()),
            ("mtp", architecture.mtp_parameters()),
        ];
        for (name, ours) in ours {
            assert_eq!(Some(ours), row[name].as_u64(), "{name} of {preset}");
        }
    }
    let mixtral = architecture("mixtral_8x22b");
    assert_eq!((mixtral.parameters().total(), mixtral.active_parameters()), MIXTRAL_8X22B);
}

#[test]
fn every_preset_is_held_against_something() {
    let tested = |name: &str| name == "mixtral_8x22b" || MODELS.iter().any(|(preset, _)| *preset == name);
    for (i, preset) in PRESETS.iter().enumerate() {
        assert!(tested(preset.name), "{} is not tested", preset.name);
        assert!(PRESETS[..i].iter().all(|other| other.name != preset.name), "{} stands twice", preset.name);
        assert!(preset.source.contains('/') && preset.source.contains(", 20"), "source and date of {}", preset.name);
    }
}

/// The counts in a preset's description are those of its numbers.
#[test]
fn descriptions_say_the_counts() {
    let billions = |count: u64| {
        let tenths = (count + 50_000_000) / 100_000_000;
        format!("{}.{}B", tenths / 10, tenths % 10)
    };
    for Preset { about, architecture, .. } in PRESETS {
        let active = billions(architecture.active_parameters());
        let active = if architecture.layers.moe > 0 { format!(", {active} active") } else { String::new() };
        let counts = format!("{} parameters{active}", billions(architecture.parameters().total()));
        assert!(about.contains(&counts), "{about}: {counts}");
    }
}

#[test]
fn presets_break_no_law() {
    for preset in PRESETS {
        let violations = judge(&Spec { architecture: preset.architecture, layout: Layout::DEFAULT });
        let of_architecture = violations.iter().find(|violation| !violation.at.is_layout());
        assert!(of_architecture.is_none(), "{}: {violations}", preset.name);
    }
}
