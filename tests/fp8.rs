//! Computing in fp8, under `precision.compute`: what it adds to a budget and takes from it, counted by hand.

use moe_model::config::MegatronRun;
use moe_model::inventory::{Entry, Lifetime};
use moe_model::spec::{Accounting, Compute, Device, Mixer, Modules, Recompute, Routing, Spec, Switch};
use moe_model::{Key, Phase, Plan, Role, moe_model};

moe_model! {
    /// Two layers of latent attention, one with a dense network and one with experts.
    struct Small;

    hidden: 256,
    vocab: 512,
    layers: layers { dense: 1, moe: 1, ffn: 512 },
    attention: mla { heads: 2, q_rank: 128, kv_rank: 128, nope: 64, rope: 64, value: 128 },
    experts: experts { routed: 4, shared: 1, active: 2, ffn: 256 },
    mtp: 1,

    layout One: layout {
        mesh: mesh { dp: 1 },
        batch: batch { sequence: 256 },
        precision: precision { moments: bf16, compute: fp8_blockwise },
        accounting: megatron_core {
            version: v0_20, implementation: transformer_engine, score: sigmoid, experts: grouped_compiled,
        },
        device: h200,
    },
}

fn small(compute: Compute) -> Spec {
    let mut spec = *Small::ONE.spec();
    spec.architecture.mtp = 0;
    spec.layout.precision.compute = compute;
    spec
}

fn plan(spec: Spec) -> Plan {
    Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"))
}

/// Bytes of all entries of some name and part that live so long, in the order of what is asked for.
fn bytes(plan: &Plan, is_meant: impl Fn(&Entry) -> bool, asked: &[(&str, &str, u64)]) {
    let inventory = plan.inventory(0);
    for (name, part, bytes) in asked {
        let of = inventory.iter().filter(|entry| is_meant(entry) && entry.name == *name && entry.part == *part);
        let found: u64 = of.map(|entry| entry.bytes().bytes()).sum();
        assert_eq!(found, *bytes, "{name} ({part}) under {:?}", plan.spec().layout.precision.compute);
    }
}

fn is_saved(entry: &Entry) -> bool {
    entry.lifetime == Lifetime::MicroBatch
}

fn is_held(entry: &Entry) -> bool {
    entry.lifetime == Lifetime::Always
}

/// 256 tokens; each expert's copies, 512 in all, are padded to a multiple of 16: by 4 x 15 at most.
const T: u64 = 256;
const R: u64 = 512 + 4 * 15;

#[test]
fn inputs_of_linear_layers_are_saved_in_fp8_and_once() {
    // Two layers with attention.
    let saved = [
        // The down projections of queries and of keys and values save a copy each.
        ("attention norm output", "", 2 * 2 * T * 256),
        ("normed query latent", "", 2 * T * 128),
        ("normed key/value latent", "", 2 * T * 128),
        ("dense norm output", "", T * 256),
        ("dense product", "", T * 512),
        ("routed input", "", R * 256),
        ("routed weighted product in fp8", "", R * 256),
        ("shared product", "", T * 256),
        // What activations, attention and the router read is in bf16.
        ("attention norm input", "", 2 * 2 * T * 256),
        ("dense gate and up", "", 2 * T * 1024),
        ("expert norm output", "", 2 * T * 256),
        ("routed gate and up", "", 2 * R * 512),
        ("shared gate and up", "", 2 * T * 512),
        ("fused attention output", "", 2 * 2 * T * 256),
        ("head input", "", 2 * T * 256),
    ];
    for compute in [Compute::Fp8Current, Compute::Fp8Blockwise] {
        let plan = plan(small(compute));
        bytes(&plan, is_saved, &saved);
        bytes(&plan, is_saved, &[("attention output in fp8", "", 0), ("shared input", "", 0)]);
    }
    // Delayed scaling cannot quantise once more what others keep.
    let plan = plan(small(Compute::Fp8Delayed));
    bytes(&plan, is_saved, &saved);
    bytes(&plan, is_saved, &[("attention output in fp8", "", 2 * T * 256), ("shared input", "", T * 256)]);
}

#[test]
fn scales_are_one_of_a_tensor_or_one_of_a_tile() {
    let plan_of = |compute| plan(small(compute));
    for compute in [Compute::Fp8Current, Compute::Fp8Delayed] {
        let saved = [
            ("attention norm output", "scales", 2 * 2 * 4),
            ("dense product", "scales", 4),
            ("routed input", "scales", 4 * 4),
        ];
        bytes(&plan_of(compute), is_saved, &saved);
    }
    let saved = [
        // Tiles of 128 tokens, for each number of a token.
        ("attention norm output", "scales", 2 * 2 * (2 * 256) * 4),
        ("normed query latent", "scales", 2 * (2 * 128) * 4),
        ("dense product", "scales", 2 * 512 * 4),
        // Of four experts: 572 copies fill seven tiles at most, such as 16, 16, 16 and 524 of one, one, one and five.
        ("routed input", "scales", 7 * 256 * 4),
        ("routed weighted product in fp8", "scales", 7 * 256 * 4),
        ("shared product", "scales", 2 * 256 * 4),
    ];
    bytes(&plan_of(Compute::Fp8Blockwise), is_saved, &saved);
    // Tiles of 128 numbers, for each token.
    let saved = [
        ("attention norm output", "scales", 2 * T * 2 * 4),
        ("routed input", "scales", R * 2 * 4),
        ("routed gate and up", "scales", R * 4 * 4),
    ];
    bytes(&plan_of(Compute::Fp8DeepseekV3), is_saved, &saved);
}

#[test]
fn weights_lie_twice_in_fp8_beside_those_that_are_stored() {
    let (layers, both) = (2, 2);
    let weights = [
        ("query down projection in fp8", "", layers * both * 128 * 256),
        ("query up projection in fp8", "", layers * both * (2 * 128) * 128),
        ("key/value down projection in fp8", "", layers * both * (128 + 64) * 256),
        ("key/value up projection in fp8", "", layers * both * (2 * (64 + 128)) * 128),
        ("attention output projection in fp8", "", layers * both * 256 * 256),
        ("dense gate and up projection in fp8", "", both * 1024 * 256),
        ("dense down projection in fp8", "", both * 256 * 512),
        ("routed gate and up projections in fp8", "", both * 4 * 512 * 256),
        ("routed down projections in fp8", "", both * 4 * 256 * 256),
        ("shared gate and up projection in fp8", "", both * 512 * 256),
        ("shared down projection in fp8", "", both * 256 * 256),
    ];
    let stored = plan(small(Compute::Activations)).budget(0).role(Role::Weight);
    for compute in [Compute::Fp8Delayed, Compute::Fp8Current, Compute::Fp8Blockwise, Compute::Fp8DeepseekV3] {
        let of = plan(small(compute));
        bytes(&of, is_held, &weights);
        assert_eq!(of.budget(0).role(Role::Weight), stored, "weights are stored as before");
    }
    // Blocks of 128 x 128: one of 128 rows is 1 by 2 of them, held as 1 by 4; turned 2 by 1, held as 2 by 4.
    let scales = [
        ("query down projection in fp8", "scales", layers * 4 * 4),
        ("query down projection in fp8", "scales by columns", layers * 2 * 4 * 4),
        ("key/value down projection in fp8", "scales", layers * 2 * 4 * 4),
        ("routed gate and up projections in fp8", "scales", 4 * 4 * 4 * 4),
        ("routed gate and up projections in fp8", "scales by columns", 4 * 2 * 4 * 4),
    ];
    bytes(&plan(small(Compute::Fp8Blockwise)), is_held, &scales);
    let scales = [("query down projection in fp8", "scales", layers * 2 * 4)];
    bytes(&plan(small(Compute::Fp8DeepseekV3)), is_held, &scales);
    let scales = [("routed down projections in fp8", "scales", 4 * 4), ("dense down projection in fp8", "scales", 4)];
    bytes(&plan(small(Compute::Fp8Current)), is_held, &scales);
}

/// Blackwell multiplies tensors with one scale as they lie, in either direction.
#[test]
fn blackwell_needs_no_transposes_of_tensors_with_one_scale() {
    let on = |compute, device| {
        let mut spec = small(compute);
        spec.layout.device = device;
        plan(spec)
    };
    for compute in [Compute::Fp8Delayed, Compute::Fp8Current] {
        bytes(&on(compute, Device::B200), is_held, &[("dense down projection in fp8", "", 256 * 512)]);
        bytes(&on(compute, Device::None), is_held, &[("dense down projection in fp8", "", 2 * 256 * 512)]);
    }
    bytes(&on(Compute::Fp8Blockwise, Device::B200), is_held, &[("dense down projection in fp8", "", 2 * 256 * 512)]);
}

/// Of each product a scale and so many largest values, of three tensors in forward and two in backward.
#[test]
fn delayed_scaling_remembers_the_largest_values() {
    let of = |compute, length| {
        let mut spec = small(compute);
        spec.layout.precision.amax_history = length;
        plan(spec)
    };
    // Two layers of five projections, two of the dense network, two of each of five experts.
    let products = 2 * 5 + 2 + 2 * 5;
    for (length, each) in [(0, 1 + 1), (1, 1 + 1), (1024, 1 + 1024)] {
        let bytes_of_all = products * 5 * each * 4;
        bytes(&of(Compute::Fp8Delayed, length), is_held, &[("fp8 scales and histories", "", bytes_of_all)]);
    }
    bytes(&of(Compute::Fp8Current, 0), is_held, &[("fp8 scales and histories", "", 0)]);
}

/// arXiv:2412.19437, section 3.3.3.
#[test]
fn deepseek_keeps_less_of_experts_and_of_attention() {
    let plan = plan(small(Compute::Fp8DeepseekV3));
    let saved = [
        // 12 bits each, and a scale for each 128 of them.
        ("attention output in 12 bits", "", 2 * T * 256 * 3 / 2),
        ("attention output in 12 bits", "scales", 2 * T * 2 * 4),
        ("attention norm output", "", 2 * T * 256),
        ("routed gate and up", "", R * 512),
        ("shared gate and up", "", T * 512),
        ("routed weighted product", "", 0),
        ("routed weighted product in fp8", "", 0),
        ("shared product in fp8", "", 0),
        // Of the one dense layer the paper says nothing.
        ("dense gate and up", "", 2 * T * 1024),
        ("dense product", "", T * 512),
    ];
    bytes(&plan, is_saved, &saved);
    // What is computed again, while its layer runs backward.
    let again = [("routed weighted product", "", 2 * R * 256), ("routed weighted product in fp8", "", R * 256)];
    bytes(&plan, |entry| matches!(entry.lifetime, Lifetime::InBackward(_)), &again);
    // Copies of tokens on their way to experts: two of each.
    let sent = [("permuted copies", "", T * 2 * 256), ("permuted copies", "scales", T * 2 * 2 * 4)];
    bytes(&plan, |entry| matches!(entry.lifetime, Lifetime::InForward(_)), &sent);
}

/// What is computed again reads what forward kept, in bf16.
#[test]
fn modules_that_are_computed_again_keep_their_inputs_as_they_are() {
    let selective = |modules| {
        let mut spec = small(Compute::Fp8Blockwise);
        (spec.layout.recompute, spec.layout.modules) = (Recompute::Selective, modules);
        plan(spec)
    };
    let norms = selective(Modules { norms: Switch::On, ..Modules::DEFAULT });
    bytes(&norms, is_saved, &[("attention norm output", "", 0), ("dense norm output", "", 0)]);
    let latent_up = selective(Modules { latent_up: Switch::On, ..Modules::DEFAULT });
    bytes(&latent_up, is_saved, &[("normed query latent", "", 2 * 2 * T * 128)]);
    let activation = selective(Modules { activation: Switch::On, ..Modules::DEFAULT });
    let product = [("routed weighted product", "", 0), ("routed weighted product in fp8", "", 0)];
    bytes(&activation, is_saved, &product);
    let dense = selective(Modules { dense: Switch::On, ..Modules::DEFAULT });
    bytes(&dense, is_saved, &[("dense norm output", "", 2 * T * 256), ("dense product", "", 0)]);
}

#[test]
fn slots_of_experts_are_padded_one_by_one() {
    let mut spec = small(Compute::Fp8Blockwise);
    spec.layout.routing = Routing::Capacity(moe_model::spec::Capacity::DEFAULT);
    spec.layout.batch.sequence = 260;
    // 130 slots of each expert, padded to 144, of two tiles.
    let asked = [("routed input", "", 4 * 144 * 256), ("routed input", "scales", 4 * 2 * 256 * 4)];
    bytes(&plan(spec), is_saved, &asked);
}

/// The projection of a multi-token-prediction module computes in fp8 too.
#[test]
fn modules_behind_the_last_layer_compute_in_fp8_too() {
    let of = Small::ONE;
    bytes(&of, is_saved, &[("embedding and hidden, normed", "", T * 512)]);
    bytes(&of, is_held, &[("projection of both in fp8", "", 2 * 256 * 512)]);
}

/// Every recipe, under what else changes lists: sums are those of the list, and every line says who counts it so.
#[test]
fn budgets_are_sums_of_their_lists() {
    let mut longest = 0;
    for compute in Compute::ALL {
        for change in CHANGES {
            let mut spec = small(*compute);
            spec.layout.headroom.percent = 0;
            change(&mut spec);
            let plan = plan(spec);
            for stage in 0..plan.stages() {
                let inventory = plan.inventory(stage);
                longest = longest.max(inventory.len());
                assert!(inventory.iter().all(|entry| !entry.source.is_empty() && !entry.name.is_empty()));
                for phase in Phase::TRAINING {
                    let explained = plan.explain(stage, *phase);
                    assert_eq!(explained.total(), plan.budget(stage).phase(*phase), "{compute:?} {phase}");
                    let says = explained.lines.iter().any(|line| line.entry.source.starts_with("compute in fp8, "));
                    assert_eq!(says, compute.is_fp8(), "{compute:?}\n{explained}");
                }
            }
        }
    }
    assert!(longest > 100, "{longest} kinds of tensors");
}

const CHANGES: &[fn(&mut Spec)] = &[
    |_| {},
    |spec| spec.architecture.mtp = 1,
    |spec| spec.layout.recompute = Recompute::Full,
    |spec| (spec.layout.recompute, spec.layout.recompute_layers) = (Recompute::Full, 1),
    |spec| {
        let modules = Modules { core_attention: Switch::On, shared_experts: Switch::On, ..Modules::DEFAULT };
        (spec.layout.recompute, spec.layout.modules) = (Recompute::Selective, modules);
    },
    |spec| (spec.layout.mesh.pp, spec.layout.batch.count) = (2, 4),
    |spec| {
        (spec.layout.mesh.tp, spec.layout.mesh.ep) = (2, 2);
        spec.layout.mesh.sequence_parallel = Switch::On;
        if let Accounting::MegatronCore(options) = &mut spec.layout.accounting {
            options.shared_overlap = Switch::On;
        }
    },
    |spec| {
        spec.architecture.layers.list = moe_model::spec::LayerList::parse("aM");
        spec.choose(Key::Mixer, 0);
        assert!(matches!(spec.architecture.mixer, Mixer::LocalGqa(_)));
        for (key, number) in [(Key::MixerHeads, 2), (Key::MixerKvHeads, 2), (Key::MixerHeadDim, 64)] {
            spec.set(key, number);
        }
    },
];

/// Megatron-LM's own test of latent attention and experts in fp8 with current scaling, on eight H100, by what its last rank
/// holds (`tests/data/measured/`).
#[test]
fn a_run_in_fp8_is_predicted() {
    let file = include_str!("data/measured/megatron_ci_moe.json");
    let file: serde_json::Value = serde_json::from_str(file).expect("it is JSON");
    let rows = file["rows"].as_array().expect("it has rows");
    let name = "moe/gpt3_mcore_te_tp2_pp2_ep4_etp1_mtp_resume_torch_dist_fp8";
    let row = rows.iter().find(|row| row["test"] == name).expect("it is there");
    let object = |key: &str| row[key].as_object().expect("it is an object").clone();
    let (arguments, environment) = (object("args"), object("env"));
    assert_eq!((&arguments["fp8-format"], &arguments["fp8-recipe"]), (&"hybrid".into(), &"tensorwise".into()));
    let world = row["world_size"].as_u64();
    let run = MegatronRun { arguments, environment, world, device: Device::H100, transformer_engine: None };
    let mut spec = run.spec().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(spec.layout.precision.compute, Compute::Fp8Current);
    // Its ranks interleave chunks: what their schedule keeps between steps is not modelled (`tests/measured.rs`).
    let percent = |said: u64, key: &str| {
        let measured = row[key].as_u64().expect("it is a number");
        (i128::from(said) - i128::from(measured)) * 10_000 / i128::from(measured)
    };
    let errors = |compute| {
        spec.layout.precision.compute = compute;
        let plan = plan(spec);
        let budget = plan.budget(plan.stages() - 1);
        let standing = budget.phase(Phase::BetweenSteps).bytes();
        [percent(standing, "allocated_after_step_bytes"), percent(budget.peak().bytes(), "peak_bytes")]
    };
    // In hundredths of a percent: what stands between steps, and the peak.
    assert_eq!([Compute::Activations, Compute::Fp8Current].map(errors), [[-1175, 376], [-242, 268]]);
}
