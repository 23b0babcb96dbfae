//! What ranks of a world tell each other between backward and the next forward: gradients that each has a part of, and
//! weights that each has updated a shard of.

use super::model::Model;
use super::params::{Flat, Gradients, Place, Visit, Visitor};
use super::weights::overlap;
use super::{Step, shards};
use crate::ViewMut;
use crate::comm::{Comm, Subject};
use crate::device::{Device, Element, Format, Memory, Mut};
use crate::shapes::{One, Shapes};
use crate::tensor::StepError;
use core::ops::Range;
use moe_model_core::Plan;
use moe_model_core::groups::Group;
use moe_model_core::spec::ZeroStage;

/// Who has replicas of dense parameters, or of experts.
const fn replicas(expert: bool) -> Group {
    if expert { Group::Edp } else { Group::CpDp }
}

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
            _ => comm.reduce_parts(device, replicas(expert), shard, all.again())?,
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
    fn param(&mut self, place: Place, flat: Flat, elements: Mut<'_, D, E>) -> Result<(), StepError> {
        let sharing = self.plan.gradient_parts(place.name);
        if sharing > 1 {
            let len = elements.len();
            let gradient = self.gradients.group(flat.expert).part(flat.start, len);
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
    let mut own = gradients.of(table);
    comm.send(device, other, Subject::Table, own.view())?;
    comm.add_received(device, other, Subject::Table, own.again())?;
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
        let ranges: [Range<usize>; 2] = if expert { [0..0, 0..all.len()] } else { [0..all.len(), 0..0] };
        step.model.visit(&mut Put { device, all: &all, ranges })?;
    }
    Ok(())
}

/// The gradients of a group that replicas share out, put together; none where each has all of them.
pub(super) fn whole_gradients<D: Device, S: Shapes, E: Format, M: Format>(
    step: &mut Step<D, S, E, M>,
    expert: bool,
) -> Result<Option<Vec<f32>>, StepError> {
    let Some((own, parts)) = shared_out(step, expert) else { return Ok(None) };
    let gradients = step.gradients.group(expert).part(own.start, own.len());
    let own = step.device.read(gradients.read(), <[f32]>::to_vec).unwrap_or_default();
    Ok(step.comm.gather_parts(replicas(expert), parts, &own)?)
}

/// The part of a group's parameters that a rank of a world updates for its replicas: where it lies, how long parts are, and of
/// how many parameters; none where each updates all.
fn shared_out<D: Device, S: Shapes, E: Format, M: Format>(
    step: &Step<D, S, E, M>,
    expert: bool,
) -> Option<(Range<usize>, (usize, usize))> {
    let (zero, n) = (step.plan.spec().layout.zero, &step.lengths);
    let (stage, part, len) = if expert {
        (zero.expert, n.expert_shard, n.expert_parameters)
    } else {
        (zero.dense, n.dense_shard, n.dense_parameters)
    };
    if step.comm.is_alone() || stage == ZeroStage::None || len == 0 {
        return None;
    }
    let [dense, expert_part] = shards(&step.comm, &step.plan, n);
    Some((if expert { expert_part } else { dense }, (part, len)))
}

/// Puts weights in their places.
struct Put<'a, D, E> {
    device: &'a D,
    all: &'a [E],
    ranges: [Range<usize>; 2],
}

impl<D: Device, E: Format> Visitor<D, E> for Put<'_, D, E> {
    fn param(&mut self, _: Place, flat: Flat, elements: Mut<'_, D, E>) -> Result<(), StepError> {
        if let Some((at, _, len)) = overlap(flat, elements.len(), &self.ranges) {
            let values = &self.all[at..at + len];
            self.device.write(elements, |out| out.copy_from_slice(values));
        }
        Ok(())
    }
}
