//! DeepSeek-V3's shape at a small scale, every stage on the device and on the CPU.

use crate::shape::SmallStep;
use crate::watched::{self, Held};
use crate::{opened, progress};
use moe_model::gpu::random::Random;
use moe_model::gpu::step::{Load, Reference};
use moe_model::gpu::{Bf16, Host, smoke};
use serde::Serialize;

/// What a stage did.
#[derive(Serialize)]
pub(crate) struct Row {
    stage: u64,
    phases: Vec<Held>,
    loss: Option<f64>,
    loss_on_cpu: Option<f64>,
}

/// How far a loss may be from the CPU's, of its size: activations are rounded to 8 bits.
const TOLERANCE: f64 = 2e-2;

pub(crate) fn rows(failures: &mut Vec<String>) -> Result<Vec<Row>, String> {
    progress("a small model, beside the CPU");
    (0..SmallStep::PLAN.stages()).map(|stage| row(stage, failures)).collect()
}

fn row(stage: u64, failures: &mut Vec<String>) -> Result<Row, String> {
    let (plan, device) = (SmallStep::PLAN, opened(None)?);
    let mut random = Random::of(&plan);
    let mut step = watched::made::<Bf16, Bf16>(plan, stage, &device, &mut random, Load::Declared)?;
    let ran = watched::run(&mut step, &plan, stage, &device, &mut random)?;
    ran.check(&format!("small model, stage {stage}"), failures);
    let on_cpu = smoke::run::<SmallStep, _>(stage, Host::new(1)).map_err(|error| error.to_string())?.losses[0];
    if let (Some(loss), Some(cpu)) = (ran.loss, on_cpu)
        && (loss.is_nan() || (loss - cpu).abs() > TOLERANCE * cpu.abs())
    {
        failures.push(format!("small model, stage {stage}: a loss of {loss}, on the CPU {cpu}"));
    }
    Ok(Row { stage, phases: ran.phases, loss: ran.loss, loss_on_cpu: on_cpu })
}
