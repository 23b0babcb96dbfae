//! Every preset at full scale on the device without values: those that the step runs hold what the budget says to the byte
//! on the first, a middle and the last stage; the others are listed with the laws that refuse them.

mod common;

use common::{ADAMW, Random};
use moe_model_core::preset::{PRESETS, Preset};
use moe_model_core::spec::{Accounting, Architecture, Batch, Layout, Mesh, Spec, Stages, Switch, Zero};
use moe_model_core::{Phase, Plan};
use moe_model_gpu::shapes::Dynamic;
use moe_model_gpu::step::Step;
use moe_model_gpu::{Bf16, Meta, Numerics};

/// What the step does not run, and the laws that say so.
const REFUSED: &[(&str, &[&str])] = &[
    ("deepseek_v3_2", &["reference-lacks"]),
    ("deepseek_v4_flash", &["reference-lacks"]),
    ("ernie_4_5_300b_a47b", &["reference-correction-bias"]),
    ("glm_5", &["reference-lacks"]),
    ("minimax_m2_5", &["reference-head-norms"]),
    ("minimax_text_01", &["reference-mixer"]),
    ("mimo_v2_flash", &["reference-mixer"]),
    ("longcat_flash", &["reference-lacks"]),
    ("qwen3_next_80b_a3b", &["reference-mixer", "reference-lacks"]),
    ("qwen3_5_35b_a3b", &["reference-mixer", "reference-lacks"]),
    ("grok_1", &["reference-norms"]),
    ("dbrx", &["reference-lacks"]),
    ("phi_3_5_moe", &["reference-lacks"]),
    ("olmoe_1b_7b", &["reference-head-norms"]),
    ("jamba_v0_1", &["reference-mixer"]),
    ("nemotron_3_nano_30b_a3b", &["reference-norms", "reference-gate", "reference-mixer", "reference-blocks"]),
    ("gemma_4_26b_a4b", &["reference-norms", "reference-mixer", "reference-lacks"]),
];

/// On 64 ranks a stage, of one sequence after the other; where layers do not share out evenly, the last has fewer.
fn layout(architecture: &Architecture, [tp, pp, ep]: [u64; 3]) -> Spec {
    let layers = architecture.layers.count();
    let last = if layers.is_multiple_of(pp) { 0 } else { layers.saturating_sub(layers.div_ceil(pp) * (pp - 1)) };
    let sequence_parallel = if tp > 1 { Switch::On } else { Switch::Off };
    let layout = Layout {
        mesh: Mesh { dp: 64 / tp, tp, pp, ep, sequence_parallel, ..Mesh::DEFAULT },
        stages: Stages { last, ..Stages::EVEN },
        zero: Zero::OPTIMIZER,
        batch: Batch { sequence: 4096, count: 2 * pp, ..Batch::DEFAULT },
        accounting: Accounting::REFERENCE,
        ..Layout::DEFAULT
    };
    Spec { architecture: *architecture, layout }
}

/// The legal layout of most stages, and on each of most ranks.
fn plan(architecture: &Architecture) -> Option<Plan> {
    let pps = (1..=16).rev();
    let stages = pps.flat_map(|pp| [8, 4, 2, 1].map(|tp| (tp, pp)));
    let mut ranks = stages.flat_map(|(tp, pp)| [64, 32, 16, 8, 4, 1].map(|ep| [tp, pp, ep]));
    ranks.find_map(|ranks| Plan::new(layout(architecture, ranks)).ok())
}

/// The laws of the step that an architecture breaks.
fn refusals(architecture: &Architecture) -> Vec<&'static str> {
    let violations = Plan::new(layout(architecture, [1, 1, 1])).err();
    let ids = violations.iter().flat_map(|violations| violations.iter().filter_map(|one| one.law)).map(|law| law.id);
    ids.filter(|id| id.starts_with("reference-")).collect()
}

fn run(preset: &Preset, plan: Plan, stage: u64) {
    let numerics = Numerics::usual(&preset.architecture);
    let mut none = Random { seed: 0, vocab: 1 };
    let step = Step::<Meta, Dynamic, Bf16>::new(plan, stage, Meta, numerics, &mut none);
    let mut step = step.unwrap_or_else(|error| panic!("{}: {error}", preset.name));
    for _ in 0..2 {
        step.train(&mut none, ADAMW).unwrap_or_else(|error| panic!("{}, stage {stage}: {error}", preset.name));
    }
    for phase in Phase::TRAINING {
        let (held, budget) = (step.ledger().peak(*phase), plan.budget(stage).phase(*phase));
        assert_eq!(held, budget, "{}, stage {stage}, {phase}", preset.name);
    }
}

#[test]
fn what_the_step_runs_is_known() {
    for preset in PRESETS {
        let refused = REFUSED.iter().find(|(name, _)| *name == preset.name).map_or(&[][..], |(_, laws)| laws);
        assert_eq!(refusals(&preset.architecture), refused, "{}", preset.name);
    }
    assert!(REFUSED.iter().all(|(name, _)| Preset::named(name).is_some()));
}

#[test]
fn it_holds_what_the_budget_says() {
    for preset in PRESETS.iter().filter(|preset| refusals(&preset.architecture).is_empty()) {
        let plan = plan(&preset.architecture).unwrap_or_else(|| panic!("{}: no layout is legal", preset.name));
        let last = plan.stages() - 1;
        assert!(last >= 2, "{}: a middle stage", preset.name);
        for stage in [0, last / 2, last] {
            run(preset, plan, stage);
        }
    }
}
