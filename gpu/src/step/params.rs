//! Parameters: weights with their places in the flat buffers of gradients and optimizer state.

use crate::checkpoint::CheckpointError;
use crate::device::{Element, Format, Memory, Mut};
use crate::shapes::{Axis, DenseParameters, DenseShard, ExpertParameters, ExpertShard, One};
use crate::tensor::{Room, StepError, Tensor};
use crate::{View, ViewMut};
use moe_model_core::Plan;
use moe_model_core::holdings::Holding;
use moe_model_core::inventory::Module;

/// Where a parameter stands among those of its ZeRO group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flat {
    /// Whether it is of the experts' group.
    pub expert: bool,
    /// Its first element.
    pub start: usize,
}

/// Which weight of a rank something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its name behind the layer's, as the inventory has it.
    pub name: &'static str,
    /// Its layer, from 0; none of embedding, final norm and head.
    pub layer: Option<u64>,
    /// Its rows: of weights of experts, those of all local experts below one another.
    pub rows: usize,
    /// Its columns.
    pub width: usize,
}

/// A weight.
pub(super) struct Param<D: Memory, R, C, E: Element> {
    tensor: Tensor<D, R, C, E>,
    flat: Flat,
    place: Place,
}

impl<D: Memory, R, C, E: Element> Param<D, R, C, E> {
    /// To be read.
    pub(super) fn view(&self) -> View<'_, D, R, C, E> {
        self.tensor.view()
    }
}

/// Makes weights one after the other.
pub(super) struct Maker<'a, D: Memory> {
    room: Room<'a, D>,
    /// What the plan says that the rank holds, and nobody has made yet.
    holdings: Vec<Holding>,
    pub(super) layer: Option<u64>,
}

impl<'a, D: Memory> Maker<'a, D> {
    pub(super) fn new(room: Room<'a, D>, plan: &Plan, stage: u64) -> Result<Self, StepError> {
        let holdings = plan.holdings(stage).map_err(CheckpointError::from)?;
        Ok(Self { room, holdings, layer: None })
    }

    /// Where a weight or buffer of the layer stands: the first one of this name that was not made before.
    fn held(&mut self, name: &'static str, elements: usize) -> Result<Holding, StepError> {
        let is_it = |holding: &Holding| holding.name == name && holding.layer == self.layer;
        let found = self.holdings.iter().position(is_it).map(|place| self.holdings.remove(place));
        let found = found.filter(|holding| holding.elements() == elements as u64);
        found.ok_or_else(|| StepError::Other(format!("the plan has no `{name}` of {elements} elements on this rank")))
    }

    /// The next weight.
    pub(super) fn weight<R: Axis, C: Axis, E: Element>(
        &mut self,
        module: Module,
        name: &'static str,
    ) -> Result<Param<D, R, C, E>, StepError> {
        let tensor: Tensor<D, R, C, E> = self.room.take(name)?;
        let place = Place { name, layer: self.layer, rows: tensor.rows(), width: C::len(self.room.lengths) };
        let held = self.held(name, place.rows * place.width)?;
        debug_assert_eq!(held.module, module, "`{name}` belongs to what the plan says");
        let start = usize::try_from(held.start).expect("parameters of a rank are addresses");
        let flat = Flat { expert: held.expert_group, start };
        Ok(Param { tensor, flat, place })
    }

    /// The same, if it is there.
    pub(super) fn weight_if<R: Axis, C: Axis, E: Element>(
        &mut self,
        is_there: bool,
        module: Module,
        name: &'static str,
    ) -> Result<Option<Param<D, R, C, E>>, StepError> {
        if is_there { self.weight(module, name).map(Some) } else { Ok(None) }
    }

    /// A buffer that nothing optimises.
    pub(super) fn buffer<R: Axis, C: Axis, E: Element>(
        &mut self,
        name: &'static str,
    ) -> Result<Buffer<D, R, C, E>, StepError> {
        let tensor: Tensor<D, R, C, E> = self.room.take(name)?;
        let place = Place { name, layer: self.layer, rows: tensor.rows(), width: C::len(self.room.lengths) };
        self.held(name, place.rows * place.width)?;
        Ok(Buffer { tensor, place })
    }

    /// Whether all that the plan says is made.
    pub(super) fn is_done(&self) -> bool {
        self.holdings.is_empty()
    }
}

/// A buffer that is saved with weights.
pub(super) struct Buffer<D: Memory, R, C, E: Element> {
    tensor: Tensor<D, R, C, E>,
    place: Place,
}

impl<D: Memory, R, C, E: Element> Buffer<D, R, C, E> {
    pub(super) fn view(&self) -> View<'_, D, R, C, E> {
        self.tensor.view()
    }
}

/// Sees every parameter, whatever its dimensions.
pub(super) trait Visitor<D: Memory, E: Element> {
    fn param(&mut self, place: Place, flat: Flat, elements: Mut<'_, D, E>) -> Result<(), StepError>;

    /// A buffer that nothing optimises: nothing to do, for most.
    fn buffer(&mut self, _place: Place, _elements: Mut<'_, D, f32>) -> Result<(), StepError> {
        Ok(())
    }
}

/// What has parameters.
pub(super) trait Visit<D: Memory, E: Element> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError>;
}

impl<D: Memory, R, C, E: Element> Visit<D, E> for Param<D, R, C, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        visitor.param(self.place, self.flat, self.tensor.view_mut().raw())
    }
}

impl<D: Memory, R, C, E: Element> Visit<D, E> for Buffer<D, R, C, f32> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        visitor.buffer(self.place, self.tensor.view_mut().raw())
    }
}

impl<D: Memory, E: Element, V: Visit<D, E>> Visit<D, E> for Option<V> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        self.iter_mut().try_for_each(|inner| inner.visit(visitor))
    }
}

impl<D: Memory, E: Element, V: Visit<D, E>> Visit<D, E> for Vec<V> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        self.iter_mut().try_for_each(|inner| inner.visit(visitor))
    }
}

/// Visits fields one after the other, in the order in which they were made.
macro_rules! visit_fields {
    ($self:ident, $visitor:ident: $($field:ident),* $(,)?) => {{
        $($crate::step::params::Visit::visit(&mut $self.$field, $visitor)?;)*
        Ok(())
    }};
}
pub(super) use visit_fields;

/// Gradients of all parameters of a rank, flat for each ZeRO group that it has any of.
pub(super) struct Gradients<D: Memory> {
    pub(super) dense: Tensor<D, DenseParameters, One, f32>,
    pub(super) expert: Option<Tensor<D, ExpertParameters, One, f32>>,
}

impl<D: Memory> Gradients<D> {
    pub(super) fn new(room: Room<'_, D>) -> Result<Self, StepError> {
        let has_experts = room.lengths.expert_parameters > 0;
        Ok(Self {
            dense: room.take("dense gradient")?,
            expert: if has_experts { Some(room.take("expert gradient")?) } else { None },
        })
    }

    /// That of a parameter.
    pub(super) fn of<R, C, E: Element>(&mut self, param: &Param<D, R, C, E>) -> ViewMut<'_, D, R, C, f32> {
        let (len, place) = (param.place.rows * param.place.width, param.place);
        let all = self.group(param.flat.expert);
        ViewMut::of(all.part(param.flat.start, len), place.rows, place.width)
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
        let has_experts = room.lengths.expert_parameters > 0;
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
