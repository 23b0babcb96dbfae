//! A rank that stops after a step and goes on from its file does what one does that never stopped.

use moe_model_core::spec::{Accounting, Attention, Batch, Experts, Gqa, Layers, Spec};
use moe_model_core::{Phase, Plan};
use moe_model_gpu::random::Random;
use moe_model_gpu::shapes::Dynamic;
use moe_model_gpu::smoke::ADAMW;
use moe_model_gpu::{Bf16, Host, Meta, Numerics, Step};
use std::path::{Path, PathBuf};
use std::{env, fs};

fn plan() -> Plan {
    let mut spec = Spec::DEFAULT;
    let architecture = &mut spec.architecture;
    (architecture.hidden, architecture.vocab) = (16, 40);
    architecture.layers = Layers { moe: 2, ..Layers::DEFAULT };
    architecture.attention = Attention::Gqa(Gqa { heads: 2, kv_heads: 1, head_dim: 8, ..Gqa::DEFAULT });
    architecture.experts = Experts { routed: 4, active: 2, ffn: 8, ..Experts::DEFAULT };
    spec.layout.batch = Batch { sequence: 8, micro: 2, ..Batch::DEFAULT };
    spec.layout.accounting = Accounting::REFERENCE;
    Plan::new(spec).expect("the layout is legal")
}

fn step() -> Step<Host, Dynamic, Bf16> {
    let plan = plan();
    let numerics = Numerics::usual(&plan.spec().architecture);
    Step::new(plan, 0, Host::new(1), numerics, &mut Random::of(&plan)).expect("the budget has all of it")
}

fn file(name: &str) -> PathBuf {
    let folder = env::temp_dir().join("moe-model-save");
    fs::create_dir_all(&folder).expect("a folder can be made");
    folder.join(name)
}

fn train(step: &mut Step<Host, Dynamic, Bf16>) -> f64 {
    let report = step.train(&mut Random::of(&plan()), ADAMW).expect("a step holds what the budget says");
    report.loss.expect("the rank has the loss")
}

fn error(step: &mut Step<Host, Dynamic, Bf16>, path: &Path) -> String {
    step.load(path).expect_err("the file is another's").to_string()
}

#[test]
fn a_step_goes_on_from_its_file() {
    let path = file("goes_on.safetensors");
    let mut whole = step();
    train(&mut whole);
    whole.save(&path).expect("the file can be written");
    let losses = [train(&mut whole), train(&mut whole)];
    let mut other = step();
    train(&mut other);
    train(&mut other);
    other.load(&path).expect("the file can be read");
    // Moments and the number of steps decide the second of them.
    assert_eq!([train(&mut other), train(&mut other)].map(f64::to_bits), losses.map(f64::to_bits));
    assert_eq!(other.ledger().peak(Phase::OptimizerStep), plan().budget(0).phase(Phase::OptimizerStep));
}

#[test]
fn files_that_are_not_a_ranks_are_refused() {
    let path = file("refused.safetensors");
    let mut step = step();
    step.save(&path).expect("the file can be written");
    let bytes = fs::read(&path).expect("the file can be read");
    let cut = file("cut.safetensors");
    fs::write(&cut, &bytes[..bytes.len() - 1]).expect("the file can be written");
    assert!(error(&mut step, &cut).contains("cut.safetensors"));
    let renamed = file("renamed.safetensors");
    let text = String::from_utf8_lossy(&bytes[..64]).into_owned();
    assert!(text.contains('{'), "a header follows eight bytes");
    let at = bytes.windows(4).position(|window| window == b"gate").expect("there is a router");
    let mut other = bytes.clone();
    other[at..at + 4].copy_from_slice(b"gaze");
    fs::write(&renamed, &other).expect("the file can be written");
    assert!(error(&mut step, &renamed).contains("gate"), "{}", error(&mut step, &renamed));
    assert!(error(&mut step, &file("absent.safetensors")).contains("absent.safetensors"));
}

#[test]
fn what_has_no_values_is_not_saved() {
    let plan = plan();
    let numerics = Numerics::usual(&plan.spec().architecture);
    let mut step =
        Step::<Meta, Dynamic, Bf16>::new(plan, 0, Meta, numerics, &mut Random::of(&plan)).expect("the budget has it");
    let error = step.save(&file("meta.safetensors")).expect_err("there is nothing to save").to_string();
    assert_eq!(error, "the device meta holds no values to save");
}
