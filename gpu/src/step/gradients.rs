//! Gradients and optimizer states of all parameters of a rank, flat for each ZeRO group.

use super::params::{Elements, Flat, Param, Part};
use crate::ViewMut;
use crate::comm::Comm;
use crate::device::{Device, Element, Format, Memory, Mut};
use crate::shapes::{Axis, DenseGradients, DenseShard, ExpertGradients, ExpertShard, One};
use crate::tensor::{Room, StepError, Tensor};
use core::ops::Range;

const HAS_ROOM: &str = "a block begins with room for its gradients";

/// Gradients of all parameters of a rank, flat for each ZeRO group that it has any of: of those that replicas share out, the
/// rank's part.
pub(super) struct Gradients<D: Memory> {
    pub(super) dense: Tensor<D, DenseGradients, One, f32>,
    pub(super) expert: Option<Tensor<D, ExpertGradients, One, f32>>,
    /// Of the block that runs, what replicas share out, dense and of experts.
    pub(super) of_block: [Option<Tensor<D, Elements, One, f32>>; 2],
}

impl<D: Memory> Gradients<D> {
    pub(super) fn new(room: Room<'_, D>) -> Result<Self, StepError> {
        let has_experts = room.lengths.expert_gradients > 0;
        Ok(Self {
            dense: room.take("dense gradient")?,
            expert: if has_experts { Some(room.take("expert gradient")?) } else { None },
            of_block: [None, None],
        })
    }

    /// That of a parameter.
    pub(super) fn of<R, C, E: Element>(&mut self, param: &Param<D, R, C, E>) -> ViewMut<'_, D, R, C, f32> {
        let (place, flat) = (param.place(), param.flat());
        ViewMut::of(self.whole(flat, place.rows * place.width), place.rows, place.width)
    }

    /// All of that of a parameter of so many elements.
    fn whole(&mut self, flat: Flat, len: usize) -> Mut<'_, D, f32> {
        if flat.shares_gradient() {
            let of_block = self.of_block[usize::from(flat.expert)].as_mut();
            return of_block.expect(HAS_ROOM).view_mut().raw().part(flat.in_block(len).start, len);
        }
        self.group(flat.expert).part(flat.start, len)
    }

    /// What of the gradient of a parameter of so many elements the rank keeps when a step is over, and which elements it is.
    pub(super) fn kept(&mut self, flat: Flat, len: usize) -> (Range<usize>, Mut<'_, D, f32>) {
        let (elements, at) = if flat.shares_gradient() {
            let Part { elements, at } = flat.state();
            (elements, at)
        } else {
            (0..len, flat.start)
        };
        let len = elements.len();
        (elements, self.group(flat.expert).part(at, len))
    }

    /// Adds what all replicas made of the gradient of a parameter of so many elements to what the rank keeps of it.
    pub(super) fn sum(&mut self, device: &D, comm: &Comm, flat: Flat, len: usize) -> Result<(), StepError>
    where
        D: Device,
    {
        if !flat.shares_gradient() {
            return Ok(());
        }
        let Self { dense, expert, of_block } = self;
        let of_block = of_block[usize::from(flat.expert)].as_ref().expect(HAS_ROOM);
        let made = of_block.view().raw().part(flat.in_block(len).start, len);
        let group = match expert {
            Some(expert) if flat.expert => expert.view_mut().raw(),
            _ => dense.view_mut().raw(),
        };
        let Part { elements, at } = flat.state();
        let kept = group.part(at, elements.len());
        Ok(comm.add_shares(device, flat.replicas(), kept, made, |replica| flat.elements_of(replica))?)
    }

    /// All of a group.
    pub(super) fn group(&mut self, expert: bool) -> Mut<'_, D, f32> {
        match &mut self.expert {
            Some(tensor) if expert => tensor.view_mut().raw(),
            _ => self.dense.view_mut().raw(),
        }
    }

    /// All of a group, if there is any of it.
    pub(super) fn group_if(&mut self, expert: bool) -> Option<Mut<'_, D, f32>> {
        let is_there = !expert || self.expert.is_some();
        is_there.then(|| self.group(expert))
    }

    pub(super) fn zero(&mut self, device: &D) {
        self.of_block = [None, None];
        device.zero(self.group(false));
        if self.expert.is_some() {
            device.zero(self.group(true));
        }
    }
}

/// Master weights and moments of one group's shard.
pub(super) struct State<D: Memory, R, M: Element> {
    pub(super) master: Tensor<D, R, One, f32>,
    pub(super) first: Tensor<D, R, One, M>,
    pub(super) second: Tensor<D, R, One, M>,
}

impl<D: Memory, R: Axis, M: Format> State<D, R, M> {
    fn new(room: Room<'_, D>, names: [&'static str; 3]) -> Result<Self, StepError> {
        let [master, first, second] = names;
        let mut state = Self { master: room.take(master)?, first: room.take(first)?, second: room.take(second)? };
        room.device.zero(state.master.view_mut().raw());
        room.device.zero(state.first.view_mut().raw());
        room.device.zero(state.second.view_mut().raw());
        Ok(state)
    }
}

/// Those of both groups.
pub(super) struct States<D: Memory, M: Element> {
    pub(super) dense: State<D, DenseShard, M>,
    pub(super) expert: Option<State<D, ExpertShard, M>>,
}

impl<D: Memory, M: Format> States<D, M> {
    pub(super) fn new(room: Room<'_, D>) -> Result<Self, StepError> {
        let has_experts = room.lengths.expert_gradients > 0;
        let expert = ["expert master_weight", "expert first_moment", "expert second_moment"];
        Ok(Self {
            dense: State::new(room, ["dense master_weight", "dense first_moment", "dense second_moment"])?,
            expert: if has_experts { Some(State::new(room, expert)?) } else { None },
        })
    }

    /// The master weights of a group.
    pub(super) fn master(&mut self, expert: bool) -> Mut<'_, D, f32> {
        match &mut self.expert {
            Some(state) if expert => state.master.view_mut().raw(),
            _ => self.dense.master.view_mut().raw(),
        }
    }
}
