//! Each preset against the published model: parameters, active ones, buffers and multi-token-prediction modules, to the
//! last one, as transformers builds the model from its config. See `tests/data/README.md` for the file.

mod models;
mod totals;

use models::MODELS;
use moe_model::preset::{PRESETS, Preset};
use moe_model::spec::Architecture;
use moe_model::{Spec, judge, spec::Layout};

/// No file holds it; the headers of its published checkpoint (mistralai/Mixtral-8x22B-v0.1, 59 shards, 1,739 tensors)
/// count 281,241,268,224 bytes of bfloat16. Its active parameters are counted by hand.
const MIXTRAL_8X22B: (u64, u64) = (281_241_268_224 / 2, 140_620_634_112 - 56 * 6 * 3 * 6144 * 16_384);

/// No file holds it; the hub counts parameters with the vision tower, which is Scout's, and so the same in both.
const LLAMA_4_ON_HUB: [(&str, u64); 2] = [("llama_4_maverick", 401_583_781_376), ("llama_4_scout", 108_641_793_536)];
/// Its active parameters are counted by hand: of 128 experts in 24 layers 127 are not met.
const MAVERICK_IDLE: u64 = 24 * 127 * 3 * 5120 * 8192;

fn architecture(name: &str) -> &'static Architecture {
    &Preset::named(name).unwrap_or_else(|| panic!("no preset {name}")).architecture
}

#[test]
fn presets_are_the_published_models() {
    for (model, preset) in MODELS {
        totals::agree(model, architecture(preset));
    }
    let mixtral = architecture("mixtral_8x22b");
    assert_eq!((mixtral.parameters().total(), mixtral.active_parameters()), MIXTRAL_8X22B);
}

#[test]
fn llama_4_differs_by_its_decoder() {
    let [maverick, scout] = LLAMA_4_ON_HUB.map(|(name, hub)| hub - architecture(name).parameters().total());
    assert_eq!(maverick, scout, "the vision tower");
    let maverick = architecture("llama_4_maverick");
    assert_eq!(maverick.parameters().total() - maverick.active_parameters(), MAVERICK_IDLE);
}

/// GLM-4.5's checkpoint holds its multi-token-prediction module too, and embedding and head a second time: the hub's
/// total to the last element.
#[test]
fn a_checkpoint_with_copies() {
    let glm = architecture("glm_4_5");
    let copies = 2 * glm.vocab * glm.hidden;
    let mtp = glm.mtp_parameters() + glm.mtp_buffer_elements();
    assert_eq!(glm.checkpoint_elements() + mtp + copies, 358_337_791_296);
}

/// Qwen3-Next's checkpoint holds a module that transformers does not build: a layer with attention, as others have.
#[test]
fn a_module_of_a_model_with_a_mixer() {
    let next = Architecture { mtp: 1, ..*architecture("qwen3_next_80b_a3b") };
    assert_eq!(next.mtp_parameters(), 1_650_471_424);
    assert_eq!(next.checkpoint_elements() + next.mtp_parameters(), 81_324_862_720, "as the hub counts it");
}

#[test]
fn every_preset_is_held_against_something() {
    let tested = |name: &str| {
        ["mixtral_8x22b", "llama_4_maverick"].contains(&name) || MODELS.iter().any(|(_, preset)| *preset == name)
    };
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
