//! What ranks of a world tell each other between backward and the next forward: gradients that each has a part of, and
//! weights that each has updated a shard of.

use super::Step;
use super::model::Model;
use super::params::{Flat, Gradients, Place, Sums, Visit, Visitor};
use super::weights::overlap;
use crate::ViewMut;
use crate::comm::Comm;
use crate::device::{Device, Element, Format, Memory, Mut};
use crate::shapes::{One, Shapes};
use crate::tensor::StepError;
use core::ops::Range;
use moe_model_core::Plan;
use moe_model_core::groups::Group;
use moe_model_core::spec::{Attention, ZeroStage};

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
    for expert in [false, true] {
        let all = step.gradients.group_if(expert);
        let Some(all) = all else { continue };
        let rows = all.len();
        let mut all: ViewMut<'_, D, One, One, f32> = ViewMut::of(all, rows, 1);
        comm.all_reduce(device, replicas(expert), all.again())?;
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
    fn param(&mut self, _: Place, flat: Flat, elements: Mut<'_, D, E>) -> Result<(), StepError> {
        let mesh = self.plan.spec().layout.mesh;
        let sharing = match flat.sums {
            Sums::None => 1,
            Sums::OfTokens if !mesh.sequence_parallel.is_on() => 1,
            Sums::OfTokens | Sums::OfHeads => mesh.tp,
            Sums::OfSharedHeads => match &self.plan.spec().architecture.attention {
                Attention::Gqa(gqa) => mesh.tp / gqa.kv_heads.min(mesh.tp),
                _ => 1,
            },
        };
        if sharing > 1 {
            let len = elements.len();
            let gradient = self.gradients.group(flat.expert).part(flat.start, len);
            let gradient: ViewMut<'_, D, One, One, f32> = ViewMut::of(gradient, len, 1);
            let sharing = usize::try_from(sharing).expect("ranks are addresses");
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
    let table = match (&model.embedding, &model.head) {
        (Some(embedding), _) => &embedding.table,
        (None, Some(head)) => head.table(None),
        (None, None) => return Ok(()),
    };
    let mut own = gradients.of(table);
    comm.send(device, other, own.view())?;
    comm.add_received(device, other, own.again())?;
    Ok(())
}

/// What each replica updated of the weights, to all.
pub(super) fn weights<D: Device, S: Shapes, E: Format, M: Format>(
    step: &mut Step<D, S, E, M>,
) -> Result<(), StepError> {
    let zero = step.plan.spec().layout.zero;
    for (expert, stage) in [(false, zero.dense), (true, zero.expert)] {
        if step.comm.is_alone() || stage == ZeroStage::None {
            continue;
        }
        let (device, comm, n) = (&step.device, &step.comm, &step.lengths);
        let master = step.states.master(expert);
        let rows = master.len();
        let own: ViewMut<'_, D, One, One, f32> = ViewMut::of(master, rows, 1);
        let Some(shards) = comm.all(device, replicas(expert), "all-gather", own.view())? else { continue };
        let all: Vec<f32> = shards.concat();
        let len = if expert { n.expert_parameters } else { n.dense_parameters };
        let ranges: [Range<usize>; 2] = if expert { [0..0, 0..len] } else { [0..len, 0..0] };
        step.model.visit(&mut Put { device, all: &all, ranges })?;
    }
    Ok(())
}

/// Puts weights in their places.
struct Put<'a, D> {
    device: &'a D,
    all: &'a [f32],
    ranges: [Range<usize>; 2],
}

impl<D: Device, E: Format> Visitor<D, E> for Put<'_, D> {
    fn param(&mut self, _: Place, flat: Flat, elements: Mut<'_, D, E>) -> Result<(), StepError> {
        if let Some((at, _, len)) = overlap(flat, elements.len(), &self.ranges) {
            let values = &self.all[at..at + len];
            self.device.write(elements, |out| {
                out.iter_mut().zip(values).for_each(|(out, value)| *out = E::of_f32(*value));
            });
        }
        Ok(())
    }
}
