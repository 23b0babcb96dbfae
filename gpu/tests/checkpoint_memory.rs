//! Checkpoints are written and read piece by piece: whatever a rank holds, a few megabytes of it are held once more.

use moe_model_core::spec::{Accounting, Attention, Batch, Experts, Gqa, Layers, Spec};
use moe_model_core::{Bytes, Phase, Plan};
use moe_model_gpu::random::Random;
use moe_model_gpu::shapes::Dynamic;
use moe_model_gpu::{Bf16, Host, Numerics, Step};
use std::{env, fs};

#[test]
fn a_few_megabytes_at_a_time() {
    let mut spec = Spec::DEFAULT;
    let architecture = &mut spec.architecture;
    (architecture.hidden, architecture.vocab) = (256, 6000);
    architecture.layers = Layers { moe: 1, ..Layers::DEFAULT };
    architecture.attention = Attention::Gqa(Gqa { heads: 2, kv_heads: 1, head_dim: 16, ..Gqa::DEFAULT });
    architecture.experts = Experts { routed: 8, active: 2, ffn: 256, ..Experts::DEFAULT };
    spec.layout.batch = Batch { sequence: 2, ..Batch::DEFAULT };
    spec.layout.accounting = Accounting::REFERENCE;
    let plan = Plan::new(spec).expect("the layout is legal");
    let numerics = Numerics::usual(&plan.spec().architecture);
    let step = Step::new(plan, 0, Host::new(1), numerics, &mut Random::of(&plan));
    let mut step: Step<Host, Dynamic, Bf16> = step.expect("the budget has it");
    let folder = env::temp_dir().join("moe-model-checkpoint-memory");
    let _ = fs::remove_dir_all(&folder);

    // All but gradients, which are not saved: 14 of 18 bytes of each parameter.
    let held = plan.budget(0).phase(Phase::BetweenSteps).bytes() / 18 * 14;
    let largest = 6000 * 256 * 4;
    let most = 4 << 20;
    assert!(held > 10 * most && largest > most, "{held} and {largest}: a copy would be seen");
    let mut saved = None;
    let save = allocation_counter::measure(|| saved = Some(step.save(&folder)));
    let saved = saved.expect("it ran").expect("it can be written");
    let load = allocation_counter::measure(|| step.load(&folder).expect("it can be read"));
    println!("{}: {} at most while saving, {} while loading", Bytes::new(held), save.bytes_max, load.bytes_max);
    assert!(save.bytes_max < most, "{} bytes while saving", save.bytes_max);
    assert!(load.bytes_max < most, "{} bytes while loading", load.bytes_max);
    let file = fs::metadata(saved.join("rank-00000.safetensors")).expect("it is there");
    assert!(file.len() >= held && file.len() < held + 10_000, "{} bytes for {held}", file.len());
    fs::remove_dir_all(&folder).expect("it is there");
}
