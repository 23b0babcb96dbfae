//! A process that trains and saves is killed at any moment: another goes on from the newest checkpoint, which is whole.

use moe_model_core::Plan;
use moe_model_core::spec::{Accounting, Attention, Batch, Experts, Gqa, Layers, Spec};
use moe_model_gpu::checkpoint::Saved;
use moe_model_gpu::random::Random;
use moe_model_gpu::shapes::Dynamic;
use moe_model_gpu::smoke::ADAMW;
use moe_model_gpu::{Bf16, Host, Numerics, Step};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

/// What tells the process that is killed from the one that kills it.
const FOLDER: &str = "MOE_MODEL_KILLED_WRITER";
const TEST: &str = "whenever_it_is_killed";

type Rank = Step<Host, Dynamic, Bf16>;

fn plan() -> Plan {
    let mut spec = Spec::DEFAULT;
    let architecture = &mut spec.architecture;
    (architecture.hidden, architecture.vocab) = (32, 400);
    architecture.layers = Layers { moe: 2, ..Layers::DEFAULT };
    architecture.attention = Attention::Gqa(Gqa { heads: 2, kv_heads: 1, head_dim: 16, ..Gqa::DEFAULT });
    architecture.experts = Experts { routed: 4, active: 2, ffn: 64, ..Experts::DEFAULT };
    spec.layout.batch = Batch { sequence: 4, ..Batch::DEFAULT };
    spec.layout.accounting = Accounting::REFERENCE;
    Plan::new(spec).expect("the layout is legal")
}

fn step(plan: &Plan) -> Rank {
    let numerics = Numerics::usual(&plan.spec().architecture);
    Step::new(*plan, 0, Host::new(1), numerics, &mut Random::of(plan)).expect("the budget has it")
}

fn train(step: &mut Rank, plan: &Plan) {
    step.train(&mut Random::of(plan), ADAMW).expect("a step holds what the budget says");
}

fn weights(step: &mut Rank) -> Vec<u32> {
    let mut weights = Vec::new();
    let see = &mut |_: &_, values: &[f32]| weights.extend(values.iter().map(|value| value.to_bits()));
    step.weights(see).expect("it has values");
    weights
}

/// Trains and saves until it is killed.
fn write(folder: &Path) -> ! {
    let plan = plan();
    let mut step = step(&plan);
    if folder.join("latest").exists() {
        step.load(folder).unwrap_or_else(|error| panic!("{error}"));
    }
    loop {
        train(&mut step, &plan);
        step.save(folder).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn whenever_it_is_killed() {
    if let Some(folder) = env::var_os(FOLDER) {
        write(&PathBuf::from(folder));
    }
    let folder = env::temp_dir().join("moe-model-killed");
    let _ = fs::remove_dir_all(&folder);
    let (plan, mut rng) = (plan(), fastrand::Rng::with_seed(17));
    let (mut expected, mut done) = (step(&plan), 0);
    let mut partial = 0;
    for round in 0..16 {
        let this = env::current_exe().expect("this test is a program");
        let mut writer = Command::new(this);
        writer.args(["--exact", TEST]).env(FOLDER, &folder).stdout(Stdio::null()).stderr(Stdio::null());
        let mut writer = writer.spawn().expect("it can be run");
        // Once it has saved something new, and a moment more.
        let newest = |folder: &Path| fs::read_to_string(folder.join("latest")).unwrap_or_default();
        let before = newest(&folder);
        while newest(&folder) == before {
            assert!(writer.try_wait().expect("it is a process").is_none(), "round {round}: it ends by itself");
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_micros(rng.u64(..60_000)));
        writer.kill().expect("it runs");
        writer.wait().expect("it is a process");
        let left = fs::read_dir(&folder).expect("it is there").filter_map(Result::ok);
        partial += left.filter(|left| left.file_name().to_string_lossy().ends_with("partial")).count();
        let saved = Saved::open(&folder).unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert!(saved.steps() > done, "round {round}: it went on");
        while done < saved.steps() {
            train(&mut expected, &plan);
            done += 1;
        }
        let mut read = step(&plan);
        read.load(&folder).unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert!(weights(&mut read) == weights(&mut expected), "round {round}: the weights of step {done}");
        train(&mut read, &plan);
        let mut next = step(&plan);
        next.load(saved.folder()).unwrap_or_else(|error| panic!("round {round}: {error}"));
        train(&mut next, &plan);
        assert!(weights(&mut read) == weights(&mut next), "round {round}: it goes on from there");
    }
    println!("{done} steps saved, {partial} left unfinished");
    assert!(partial > 0, "some writer was killed while it wrote");
    fs::remove_dir_all(&folder).expect("it is there");
}
