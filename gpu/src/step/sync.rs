//! What ranks of a world tell each other between backward and the next forward: gradients that each has a part of, and
//! weights that each has updated a shard of.

use super::Step;
use super::gradients::Gradients;
use super::model::Model;
use super::params::{Flat, Place, Visit, Visitor, replicas};
use super::weights;
use crate::ViewMut;
use crate::comm::{Comm, Subject};
use crate::device::{Device, Element, Format, Memory, Mut};
use crate::shapes::{One, Shapes};
use crate::tensor::StepError;
use core::ops::Range;
use moe_model_core::Plan;
use moe_model_core::groups::Group;
use moe_model_core::spec::ZeroStage;

/// Sums of gradients: over tensor-parallel ranks that have parts of the gradient of what each of them holds, over the stages
/// that hold one table, and over replicas.
pub(super) fn gradients<D: Device, S: Shapes, E: Format, M: Format>(
    step: &mut Step<D, S, E, M>,
) -> Result<(), StepError> {
    if step.comm.is_alone() {
        return Ok(());
    }
    let (device, comm, plan) = (&step.device, &step.comm, &step.plan);
    let mesh = plan.spec().layout.mesh;
    if mesh.tp > 1 {
        let gradients = &mut step.gradients;
        step.model.visit(&mut OverTensorRanks { device, comm, plan, gradients })?;
    }
    if plan.has_table_twice(comm.place().pp) {
        tables(&mut step.model, &mut step.gradients, device, comm, plan)?;
    }
    let zero = plan.spec().layout.zero;
    for (expert, stage) in [(false, zero.dense), (true, zero.expert)] {
        let all = step.gradients.group_if(expert);
        let Some(all) = all else { continue };
        let rows = all.len();
        let mut all: ViewMut<'_, D, One, One, f32> = ViewMut::of(all, rows, 1);
        match stage {
            ZeroStage::None => comm.all_reduce(device, replicas(expert), all.again())?,
            // Of the others' shards the rank updates nothing.
            ZeroStage::Optimizer => {
                let of = |replica| step.model.flat_share(plan, expert, replica);
                comm.sum_shares(device, replicas(expert), all.again().raw(), of)?;
            }
            // They were summed block by block.
            ZeroStage::Gradients | ZeroStage::Parameters => {}
        }
        // Tensor-parallel ranks that have the same tokens count each of them once more.
        if expert && mesh.tp > 1 && !mesh.sequence_parallel.is_on() {
            #[allow(clippy::cast_precision_loss)] // ranks
            let share = 1.0 / mesh.tp as f32;
            device.write(all.raw(), |out| out.iter_mut().for_each(|out| *out *= share));
        }
    }
    Ok(())
}

struct OverTensorRanks<'a, D: Memory> {
    device: &'a D,
    comm: &'a Comm,
    plan: &'a Plan,
    gradients: &'a mut Gradients<D>,
}

impl<D: Device, E: Element> Visitor<D, E> for OverTensorRanks<'_, D> {
    fn param(&mut self, place: Place, flat: Flat, _: Range<usize>, _: Mut<'_, D, E>) -> Result<(), StepError> {
        let sharing = self.plan.gradient_parts(place.name);
        if sharing > 1 {
            let (elements, gradient) = self.gradients.kept(flat, place.rows * place.width);
            let len = elements.len();
            let gradient: ViewMut<'_, D, One, One, f32> = ViewMut::of(gradient, len, 1);
            self.comm.sum_with(self.device, Group::Tp, sharing, gradient)?;
        }
        Ok(())
    }
}

/// The gradients of a table that the first and the last stage hold.
fn tables<D: Device, S: Shapes, E: Format>(
    model: &mut Model<D, S, E>,
    gradients: &mut Gradients<D>,
    device: &D,
    comm: &Comm,
    plan: &Plan,
) -> Result<(), StepError> {
    let stage = comm.place().pp;
    let other = if stage == 0 { plan.stages() - 1 } else { 0 };
    let Some(table) = model.table(stage == 0) else { return Ok(()) };
    let (place, flat) = (table.place(), table.flat());
    let len = place.rows * place.width;
    let (elements, kept) = gradients.kept(flat, len);
    let own = device.read(kept.read(), <[f32]>::to_vec).unwrap_or_default();
    // Stages share it out each in its own way: what they send is all of it.
    let all = if flat.shares_gradient() { weights::whole(comm, flat, len, &own)? } else { own };
    comm.send_values(other, Subject::Table, &all)?;
    let others = comm.receive_values(other, Subject::Table, len)?;
    device.write(kept, |out| out.iter_mut().zip(&others[elements]).for_each(|(out, other)| *out += other));
    Ok(())
}

/// What each replica updated of the weights, to all, where each holds all of them.
pub(super) fn weights<D: Device, S: Shapes, E: Format, M: Format>(
    step: &mut Step<D, S, E, M>,
) -> Result<(), StepError> {
    let zero = step.plan.spec().layout.zero;
    for (expert, stage) in [(false, zero.dense), (true, zero.expert)] {
        let is_shared = matches!(stage, ZeroStage::Optimizer | ZeroStage::Gradients);
        if step.comm.is_alone() || !is_shared || step.model.parameters[usize::from(expert)] == 0 {
            continue;
        }
        let of = |replica| step.model.flat_share(&step.plan, expert, replica);
        let len = of(step.replica(expert)).len();
        let (device, master) = (&step.device, step.states.master(expert).part(0, len));
        let narrowed = |values: &[f32]| values.iter().map(|value| E::of_f32(*value)).collect::<Vec<E>>();
        let own = device.read(master.read(), narrowed).unwrap_or_default();
        let all = step.comm.gather_values(replicas(expert), step.model.parameters[usize::from(expert)], &own, of)?;
        step.model.visit(&mut Put { device, all: &all, expert })?;
    }
    Ok(())
}

/// Puts weights in their places.
struct Put<'a, D, E> {
    device: &'a D,
    all: &'a [E],
    expert: bool,
}

impl<D: Device, E: Format> Visitor<D, E> for Put<'_, D, E> {
    fn param(&mut self, _: Place, flat: Flat, elements: Range<usize>, kept: Mut<'_, D, E>) -> Result<(), StepError> {
        if flat.expert == self.expert {
            let values = &self.all[flat.start..][..elements.len()];
            self.device.write(kept, |out| out.copy_from_slice(values));
        }
        Ok(())
    }
}
