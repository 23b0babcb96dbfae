//! Everything that a step asks of a driver refused in turn: a typed error, nothing left behind, and then the step that there
//! would have been. Over the stand-in; skipped elsewhere, which is said.

#![cfg(feature = "cuda")]

#[path = "common/driver.rs"]
mod driver;
#[path = "common/stand_in.rs"]
mod stand_in;

use driver::{alone, device};
use moe_model_core::spec::{Accounting, Attention, Batch, CorrectionBias, Experts, Layers, Mla, Recompute, Spec};
use moe_model_core::{Phase, Plan};
use moe_model_gpu::random::Random;
use moe_model_gpu::shapes::Dynamic;
use moe_model_gpu::smoke::ADAMW;
use moe_model_gpu::{Bf16, Cuda, Memory as _, Numerics, Step, StepError};
use stand_in::StandIn;
use std::collections::BTreeSet;

type On = Step<Cuda, Dynamic, Bf16>;

/// As DeepSeek-V3, with all that it has once: a dense layer, one with experts in groups, and a module that predicts further.
fn plan() -> Plan {
    let mut spec = Spec::DEFAULT;
    let architecture = &mut spec.architecture;
    (architecture.hidden, architecture.vocab, architecture.mtp) = (8, 24, 1);
    architecture.layers = Layers { dense: 1, moe: 1, ffn: 8, ..Layers::DEFAULT };
    architecture.attention =
        Attention::Mla(Mla { heads: 2, q_rank: 8, kv_rank: 4, nope: 4, rope: 4, value: 4, ..Mla::DEFAULT });
    architecture.experts = Experts {
        routed: 4,
        active: 2,
        ffn: 8,
        shared: 1,
        groups: 2,
        active_groups: 1,
        correction_bias: CorrectionBias::On,
        ..Experts::DEFAULT
    };
    spec.layout.batch = Batch { sequence: 4, micro: 1, count: 1, ..Batch::DEFAULT };
    spec.layout.recompute = Recompute::Full;
    spec.layout.accounting = Accounting::REFERENCE;
    Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"))
}

fn made(plan: Plan, device: &Cuda) -> Result<On, StepError> {
    Step::new(plan, 0, device.clone(), Numerics::usual(&plan.spec().architecture), &mut Random::of(&plan))
}

/// Losses and gradients of a step, as bits.
fn numbers(step: &mut On) -> Result<Vec<u64>, StepError> {
    let plan = plan();
    let report = step.gradients(&mut Random::of(&plan), None)?;
    let mut bits: Vec<u64> = report.loss.into_iter().chain(report.mtp_loss).map(f64::to_bits).collect();
    assert_eq!(bits.len(), 2);
    step.each_gradient(&mut |_, values| bits.extend(values.iter().map(|value| u64::from(value.to_bits()))))?;
    Ok(bits)
}

/// What is held of a device once all is done: by its pool, by the driver.
fn held(device: &Cuda, driver: StandIn) -> (u64, (u64, u64)) {
    let _ = device.finish();
    (device.used().expect("the driver says"), driver.live())
}

#[test]
fn every_allocation_of_a_step_is_refused_in_turn() {
    let _alone = alone();
    let Some(device) = device(None) else { return };
    let Some(driver) = StandIn::find() else { return };
    let mut step = made(plan(), &device).expect("there is room");
    let between = plan().budget(0).phase(Phase::BetweenSteps);
    let before = held(&device, driver);
    let allocations = step.ledger().allocations();
    let expected = numbers(&mut step).expect("there is room");
    let count = step.ledger().allocations() - allocations;
    assert_eq!(held(&device, driver), before);
    let mut names = BTreeSet::new();
    for n in 1..=count {
        driver.fail_allocation(n);
        match step.gradients(&mut Random::of(&plan()), None) {
            Err(StepError::OutOfMemory { name, .. }) => names.insert(name),
            other => panic!("allocation {n} of {count} was refused: {other:?}"),
        };
        assert_eq!(held(&device, driver), before, "allocation {n} of {count}");
        assert_eq!(step.ledger().live(), between, "allocation {n} of {count}");
        assert!(numbers(&mut step).expect("there is room again") == expected, "after allocation {n} of {count}");
    }
    driver.fail_allocation(count + 1);
    assert!(numbers(&mut step).expect("there is room") == expected, "no more is asked for");
    driver.fail_allocation(0);
    println!("{count} allocations refused, of {} tensors", names.len());
    step.update(ADAMW).expect("it allocates nothing");
}

#[test]
fn every_allocation_of_a_rank_is_refused_in_turn() {
    let _alone = alone();
    let Some(first) = device(None) else { return };
    let Some(driver) = StandIn::find() else { return };
    let expected = numbers(&mut made(plan(), &first).expect("there is room")).expect("there is room");
    drop(first);
    for n in 1.. {
        let device = device(None).expect("there is one");
        driver.fail_allocation(n);
        let result = made(plan(), &device).map(drop);
        driver.fail_allocation(0);
        let is_over = match result {
            Ok(()) => true,
            Err(StepError::OutOfMemory { .. }) => false,
            Err(error) => panic!("allocation {n}: {error}"),
        };
        let mut step = made(plan(), &device).expect("there is room");
        if is_over {
            assert!(numbers(&mut step).expect("there is room") == expected, "after allocation {n}");
        }
        drop(step);
        let (used, (count, bytes)) = held(&device, driver);
        assert!(used == bytes && count <= 5, "allocation {n}: scratch is left, and nothing else");
        drop(device);
        assert_eq!(driver.live(), (0, 0), "allocation {n}");
        if is_over {
            println!("{} allocations refused", n - 1);
            break;
        }
    }
}

#[test]
fn all_work_of_a_step_is_refused_in_turn() {
    let _alone = alone();
    let Some(device) = device(None) else { return };
    let Some(driver) = StandIn::find() else { return };
    let mut step = made(plan(), &device).expect("there is room");
    let before = held(&device, driver);
    let expected = numbers(&mut step).expect("nothing fails");
    let mut kinds = BTreeSet::new();
    for n in 1.. {
        driver.fail_work(n);
        let result = step.gradients(&mut Random::of(&plan()), None);
        driver.fail_work(0);
        match result {
            Err(StepError::Device(failure)) => {
                assert!(failure.error.contains("RESOURCES") || failure.error.contains("EXECUTION"), "{n}: {failure}");
                kinds.insert(failure.what)
            }
            Ok(_) => {
                println!("{} pieces of work refused, {} sorts", n - 1, kinds.len());
                break;
            }
            Err(error) => panic!("piece of work {n}: {error}"),
        };
        assert_eq!(held(&device, driver), before, "piece of work {n}");
        if n % 16 == 1 {
            assert!(numbers(&mut step).expect("nothing fails") == expected, "after piece of work {n}");
        }
    }
    assert!(numbers(&mut step).expect("nothing fails") == expected);
    for n in 1.. {
        driver.fail_work(n);
        let result = step.update(ADAMW);
        driver.fail_work(0);
        match result {
            Err(StepError::Device(_)) => {}
            Ok(()) => {
                println!("{} pieces of an update", n - 1);
                break;
            }
            Err(error) => panic!("piece of work {n}: {error}"),
        }
    }
}
