//! A rank's step on the device, watched: in each phase what the ledger, the pool and the device held at most.

use moe_model::gpu::device::{Format, Memory as _};
use moe_model::gpu::ledger::Allocation;
use moe_model::gpu::shapes::{Dynamic, Lengths};
use moe_model::gpu::smoke::ADAMW;
use moe_model::gpu::step::{Batch, Load, Source};
use moe_model::gpu::{Cuda, Numerics, Step};
use moe_model::{Bytes, Phase, Plan};
use serde::Serialize;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What was held at most in a phase.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Held {
    pub(crate) phase: &'static str,
    /// Of tensors, as the ledger counts.
    pub(crate) ledger_bytes: u64,
    /// Of what operations work on beside them.
    pub(crate) scratch_bytes: u64,
    /// Of allocations of the pool.
    pub(crate) pool_used_bytes: u64,
    /// Of what the pool took from the device.
    pub(crate) pool_reserved_bytes: u64,
    /// Of the whole device when the phase ended: the context, modules and libraries too.
    pub(crate) device_bytes: u64,
}

/// A step that ran.
pub(crate) struct Watched {
    pub(crate) phases: Vec<Held>,
    pub(crate) loss: Option<f64>,
    /// Of the pool, when the first backward began: what all micro-batches in flight keep, and what stays.
    pub(crate) at_first_backward: u64,
    /// Of the pool, before the step.
    pub(crate) standing: u64,
    pub(crate) record: Vec<Allocation>,
    pub(crate) spent: Duration,
}

#[derive(Default)]
struct Seen {
    marks: [[u64; 3]; Phase::ALL.len()],
    at_first_backward: Option<u64>,
    failed: Option<String>,
}

/// A step of a rank of a stage, ready to run.
pub(crate) fn made<E: Format, M: Format>(
    plan: Plan,
    stage: u64,
    device: &Cuda,
    source: &mut dyn Source,
    load: Load,
) -> Result<Step<Cuda, Dynamic, E, M>, String> {
    let numerics = Numerics::usual(&plan.spec().architecture);
    let step = Step::new(plan, stage, device.clone(), numerics, source).map_err(|error| error.to_string())?;
    Ok(step.with_load(load))
}

/// Runs one, and settles it.
pub(crate) fn run<E: Format, M: Format>(
    step: &mut Step<Cuda, Dynamic, E, M>,
    plan: &Plan,
    stage: u64,
    device: &Cuda,
    batch: &mut dyn Batch,
) -> Result<Watched, String> {
    let no = |error: &dyn core::fmt::Display| error.to_string();
    device.finish().map_err(|error| no(&error))?;
    let standing = device.used().map_err(|error| no(&error))?;
    device.reset_high_water().map_err(|error| no(&error))?;
    let seen = Rc::new(RefCell::new(Seen::default()));
    let (noted, counts) = (seen.clone(), device.clone());
    step.ledger().watch(move |ended, begins| {
        let mut noted = noted.borrow_mut();
        if let Err(error) = note(&mut noted, &counts, ended, begins) {
            noted.failed.get_or_insert(error);
        }
    });
    step.ledger().record();
    let begun = Instant::now();
    let report = step.train(batch, ADAMW).map_err(|error| no(&error))?;
    let spent = begun.elapsed();
    let seen = seen.take();
    if let Some(error) = seen.failed {
        return Err(error);
    }
    let scratch_bytes = device.scratch_bytes(&Lengths::of(plan, stage));
    let held = |phase: &Phase| {
        let [pool_used_bytes, pool_reserved_bytes, device_bytes] = seen.marks[*phase as usize];
        let ledger_bytes = step.ledger().peak(*phase).bytes();
        Held { phase: phase.name(), ledger_bytes, scratch_bytes, pool_used_bytes, pool_reserved_bytes, device_bytes }
    };
    let phases = [Phase::Forward, Phase::Backward, Phase::OptimizerStep].iter().map(held).collect();
    let at_first_backward = seen.at_first_backward.unwrap_or(standing);
    Ok(Watched { phases, loss: report.loss, at_first_backward, standing, record: step.ledger().recorded(), spent })
}

fn note(seen: &mut Seen, device: &Cuda, ended: Phase, begins: Phase) -> Result<(), String> {
    let no = |error: &dyn core::fmt::Display| error.to_string();
    device.finish().map_err(|error| no(&error))?;
    let (free, total) = device.free_and_total().map_err(|error| no(&error))?;
    let high = device.high_water().map_err(|error| no(&error))?;
    let reserved = device.reserved_high_water().map_err(|error| no(&error))?;
    let mark = &mut seen.marks[ended as usize];
    for (mark, now) in mark.iter_mut().zip([high, reserved, total - free]) {
        *mark = now.max(*mark);
    }
    if begins == Phase::Backward && seen.at_first_backward.is_none() {
        seen.at_first_backward = Some(device.used().map_err(|error| no(&error))?);
    }
    device.reset_high_water().map_err(|error| no(&error))
}

impl Watched {
    /// Bytes of the pool for each allocation beyond those asked for, at most.
    const ROUNDING: u64 = 2 << 20;

    /// The pool held what the ledger says and what operations work on, and no more than rounding beyond it.
    pub(crate) fn check(&self, name: &str, failures: &mut Vec<String>) {
        let count = at_most_at_once(&self.record) + self.standing_allocations();
        for held in &self.phases {
            let least = held.ledger_bytes + held.scratch_bytes;
            let most = least + count * Self::ROUNDING;
            if !(least..=most).contains(&held.pool_used_bytes) {
                let Held { phase, pool_used_bytes, .. } = held;
                failures
                    .push(format!("{name}, {phase}: the pool held {pool_used_bytes} B, ledger and scratch {least} B"));
            }
        }
    }

    /// Those that were there before, none of which is in the record: as many as may be, of weights and states.
    #[allow(clippy::unused_self)] // it is of this step
    const fn standing_allocations(&self) -> u64 {
        256
    }

    /// The largest tensors at the peak of what was allocated in a step: name, how many, bytes of all.
    pub(crate) fn largest(&self, phase: Phase) -> Vec<(&'static str, u64, Bytes)> {
        let held = |at: u64| move |one: &&Allocation| one.from <= at && one.until.is_none_or(|until| at < until);
        let begins = self.record.iter().filter(|one| one.phase == phase).map(|one| one.from);
        let bytes = |at| self.record.iter().filter(held(at)).map(|one| one.bytes.bytes()).sum::<u64>();
        let Some(peak) = begins.max_by_key(|at| bytes(*at)) else { return Vec::new() };
        let mut names: Vec<(&'static str, u64, Bytes)> = Vec::new();
        for one in self.record.iter().filter(held(peak)) {
            match names.iter_mut().find(|(name, ..)| *name == one.name) {
                Some((_, count, bytes)) => (*count, *bytes) = (*count + 1, *bytes + one.bytes),
                None => names.push((one.name, 1, one.bytes)),
            }
        }
        names.sort_by_key(|(.., bytes)| core::cmp::Reverse(*bytes));
        names
    }
}

/// The most allocations of a step that are there at once.
fn at_most_at_once(record: &[Allocation]) -> u64 {
    let mut events: Vec<(u64, i64)> = record.iter().map(|one| (one.from, 1)).collect();
    events.extend(record.iter().filter_map(|one| Some((one.until?, -1))));
    events.sort_unstable();
    let mut there = 0;
    let most = events
        .iter()
        .map(|(_, change)| {
            there += change;
            there
        })
        .max()
        .unwrap_or(0);
    most.unsigned_abs()
}
