//! What ranks of a world tell each other between backward and the next forward: gradients that each has a part of, and
//! weights that each has updated a shard of.

use super::Step;
use super::model::Model;
use super::params::{Flat, Gradients, Place, Visit, Visitor, replicas};
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
    tables(&mut step.model, &mut step.gradients, device, comm, plan)?;
    let zero = plan.spec().layout.zero;
    let shards = [(false, zero.dense, step.lengths.dense_shard), (true, zero.expert, step.lengths.expert_shard)];
    for (expert, stage, shard) in shards {
        let all = step.gradients.group_if(expert);
        let Some(all) = all else { continue };
        let rows = all.len();
        let mut all: ViewMut<'_, D, One, One, f32> = ViewMut::of(all, rows, 1);
        match stage {
            ZeroStage::None => comm.all_reduce(device, replicas(expert), all.again())?,
            // Of the others' shards the rank updates nothing.
            ZeroStage::Optimizer => comm.reduce_parts(device, replicas(expert), shard, all.again())?,
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

/// The first and the last stage may hold the same table: a tied one, or that of modules for multi-token prediction.
fn tables<D: Device, S: Shapes, E: Format>(
    model: &mut Model<D, S, E>,
    gradients: &mut Gradients<D>,
    device: &D,
    comm: &Comm,
    plan: &Plan,
) -> Result<(), StepError> {
    let (architecture, last) = (&plan.spec().architecture, plan.stages() - 1);
    let is_shared = architecture.tied_embeddings.is_on() || plan.counted_mtp() > 0;
    let stage = comm.place().pp;
    if !is_shared || last == 0 || stage > 0 && stage < last {
        return Ok(());
    }
    let other = if stage == 0 { last } else { 0 };
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

/// What each replica updated of the weights, to all.
pub(super) fn weights<D: Device, S: Shapes, E: Format, M: Format>(
    step: &mut Step<D, S, E, M>,
) -> Result<(), StepError> {
    for expert in [false, true] {
        let Some((own, parts)) = shared_out(step, expert) else { continue };
        let (device, master) = (&step.device, step.states.master(expert).part(0, own.len()));
        let narrowed = |values: &[f32]| values.iter().map(|value| E::of_f32(*value)).collect::<Vec<E>>();
        let own = device.read(master.read(), narrowed).unwrap_or_default();
        let Some(all) = step.comm.gather_parts(replicas(expert), parts, &own)? else { continue };
        step.model.visit(&mut Put { device, all: &all, expert })?;
    }
    Ok(())
}

/// The part of a group's parameters that a rank of a world updates for its replicas, each of which holds all of them: where it
/// lies, how long parts are, and of how many parameters; none where each updates all, or holds but its part.
fn shared_out<D: Device, S: Shapes, E: Format, M: Format>(
    step: &Step<D, S, E, M>,
    expert: bool,
) -> Option<(Range<usize>, (usize, usize))> {
    let (zero, n, len) = (step.plan.spec().layout.zero, &step.lengths, step.model.parameters[usize::from(expert)]);
    let (stage, part) = if expert { (zero.expert, n.expert_shard) } else { (zero.dense, n.dense_shard) };
    if step.comm.is_alone() || len == 0 || matches!(stage, ZeroStage::None | ZeroStage::Parameters) {
        return None;
    }
    let replica = usize::try_from(step.plan.replica(step.comm.rank(), expert)).expect("replicas are addresses");
    let [start, end] = [replica, replica + 1].map(|replica| len.min(replica * part));
    Some((start..end, (part, len)))
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
