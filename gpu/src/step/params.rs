//! Parameters: weights with their places in the flat buffers of gradients and optimizer state.

use crate::View;
use crate::checkpoint::CheckpointError;
use crate::comm::Comm;
use crate::device::{Element, Memory, Mut};
use crate::shapes::{Axis, Lengths, One};
use crate::tensor::{Room, StepError, Tensor};
use core::marker::PhantomData;
use core::ops::Range;
use moe_model_core::Plan;
use moe_model_core::groups::Group;
use moe_model_core::holdings::{Cut, Holding, Share, parameters};
use moe_model_core::inventory::Module;
use moe_model_core::spec::ZeroStage;

/// Where a parameter stands among those of its ZeRO group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flat {
    /// Whether it is of the experts' group.
    pub(super) expert: bool,
    /// Where it begins in the flat buffers of its group; where replicas share its storage, where a rank's part of it does.
    pub(super) start: usize,
    /// Where it begins in the buffer of a block's gradients.
    in_block: usize,
    /// How replicas share out its state.
    cut: Cut,
    /// Whether they share out its gradient as well.
    shares_gradient: bool,
    /// Whether they share its storage.
    shares_weight: bool,
    /// The replica that the rank is.
    replica: u64,
}

/// Some elements of a weight, and where they lie in a buffer of the rank.
pub(super) struct Part {
    pub(super) elements: Range<usize>,
    pub(super) at: usize,
}

impl Flat {
    /// What the rank keeps the state of.
    pub(super) fn state(self) -> Part {
        self.of(self.replica)
    }

    fn of(self, replica: u64) -> Part {
        let Share { elements, at } = self.cut.share(replica);
        Part { elements: address(elements.start)..address(elements.end), at: address(at) }
    }

    /// Which elements a replica keeps the state of.
    pub(super) fn elements_of(self, replica: usize) -> Range<usize> {
        self.of(replica as u64).elements
    }

    /// Whether replicas share out its state.
    pub(super) const fn is_shared(self) -> bool {
        !self.cut.is_whole()
    }

    /// Whether they share out its gradient as well.
    pub(super) const fn shares_gradient(self) -> bool {
        self.shares_gradient
    }

    /// Whether they share its storage, too.
    pub(super) const fn shares_weight(self) -> bool {
        self.shares_weight
    }

    /// Where so many elements stand in the buffer of a block's gradients.
    pub(super) const fn in_block(self, len: usize) -> Range<usize> {
        self.in_block..self.in_block + len
    }

    /// Who shares it out.
    pub(super) const fn replicas(self) -> Group {
        replicas(self.expert)
    }
}

/// Who has replicas of dense parameters, or of experts.
pub(super) const fn replicas(expert: bool) -> Group {
    if expert { Group::Edp } else { Group::CpDp }
}

/// A place among the parameters of a rank, or how many they are.
pub(super) fn address(place: u64) -> usize {
    usize::try_from(place).expect("parameters of a rank are addresses")
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

/// Elements of a weight, as many as it says.
pub(super) enum Elements {}

/// A weight of `R` rows and `C` columns.
pub(super) struct Param<D: Memory, R, C, E: Element> {
    stored: Stored<D, E>,
    shape: PhantomData<(R, C)>,
}

/// What a rank has of a weight.
pub(super) struct Stored<D: Memory, E: Element> {
    /// All of it: always, or, where replicas share its storage, while a block runs that reads it.
    whole: Option<Tensor<D, Elements, One, E>>,
    /// What the rank keeps of it where replicas share its storage, with its padding.
    part: Option<Tensor<D, Elements, One, E>>,
    flat: Flat,
    place: Place,
}

impl<D: Memory, R, C, E: Element> Param<D, R, C, E> {
    /// To be read.
    ///
    /// # Panics
    /// If replicas share its storage, and no block runs that it was gathered for.
    pub(super) fn view(&self) -> View<'_, D, R, C, E> {
        let Stored { whole, place, .. } = &self.stored;
        let whole = whole.as_ref().expect("what a block reads was gathered for it");
        View::of(whole.view().raw(), place.rows, place.width)
    }

    /// Which it is.
    pub(super) fn place(&self) -> Place {
        self.stored.place
    }

    /// Where it stands.
    pub(super) fn flat(&self) -> Flat {
        self.stored.flat
    }
}

impl<D: Memory, E: Element> Stored<D, E> {
    pub(super) fn place(&self) -> Place {
        self.place
    }

    pub(super) fn flat(&self) -> Flat {
        self.flat
    }

    /// How many elements all of it has.
    pub(super) fn elements(&self) -> usize {
        self.place.rows * self.place.width
    }

    /// What the rank keeps of it: which elements, and they.
    fn kept(&mut self) -> (Range<usize>, Mut<'_, D, E>) {
        let all = self.elements();
        match (&mut self.part, &mut self.whole) {
            (Some(part), _) => {
                let elements = self.flat.state().elements;
                (elements.clone(), part.view_mut().raw().part(0, elements.len()))
            }
            (None, Some(whole)) => (0..all, whole.view_mut().raw()),
            (None, None) => unreachable!("a rank keeps a weight, or its part of it"),
        }
    }

    /// Puts what replicas keep of it together, if they share its storage.
    pub(super) fn gather(&mut self, room: Room<'_, D>, comm: &Comm, name: &'static str) -> Result<(), StepError> {
        let Some(part) = &self.part else { return Ok(()) };
        let flat = self.flat;
        let mut whole: Tensor<D, Elements, One, E> = room.take_rows(name, self.elements())?;
        let own = part.view().raw().part(0, flat.state().elements.len());
        let of = |replica| flat.elements_of(replica);
        comm.gather_shares(room.device, flat.replicas(), whole.view_mut().raw(), own, of)?;
        self.whole = Some(whole);
        Ok(())
    }

    /// Gives back what was put together.
    pub(super) fn release(&mut self) {
        if self.part.is_some() {
            self.whole = None;
        }
    }
}

/// Makes weights one after the other.
pub(super) struct Maker<'a, D: Memory> {
    room: Room<'a, D>,
    plan: &'a Plan,
    rank: u64,
    /// What the plan says that the rank holds, and nobody has made yet.
    holdings: Vec<Holding>,
    /// Parameters of each group.
    pub(super) parameters: [u64; 2],
    /// Where the next one begins in the buffers of its block's gradients.
    next: [usize; 2],
    pub(super) layer: Option<u64>,
}

impl<'a, D: Memory> Maker<'a, D> {
    pub(super) fn new(room: Room<'a, D>, plan: &'a Plan, comm: &Comm) -> Result<Self, StepError> {
        let holdings = plan.holdings(comm.place().pp).map_err(CheckpointError::from)?;
        let parameters = parameters(&holdings);
        Ok(Self { room, plan, rank: comm.rank(), holdings, parameters, next: [0; 2], layer: None })
    }

    /// What follows is of another block, behind what it shares with others.
    pub(super) fn block(&mut self, behind: usize) {
        self.next = [behind, 0];
    }

    pub(super) fn lengths(&self) -> &'a Lengths {
        self.room.lengths
    }

    /// Elements of the table of the embedding or the head.
    pub(super) fn table(&self) -> usize {
        self.room.lengths.vocab * self.room.lengths.hidden
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
        let (rows, width) = (R::len(self.room.lengths), C::len(self.room.lengths));
        let place = Place { name, layer: self.layer, rows, width };
        let elements = rows * width;
        let held = self.held(name, elements)?;
        debug_assert_eq!(held.module, module, "`{name}` belongs to what the plan says");
        let flat = self.flat(&held);
        let stored = if flat.shares_weight {
            let mut part: Tensor<D, Elements, One, E> = self.room.take_rows(name, address(held.kept()))?;
            self.room.device.zero(part.view_mut().raw());
            Stored { whole: None, part: Some(part), flat, place }
        } else {
            Stored { whole: Some(self.room.take_rows(name, elements)?), part: None, flat, place }
        };
        Ok(Param { stored, shape: PhantomData })
    }

    fn flat(&mut self, held: &Holding) -> Flat {
        let (expert, group) = (held.expert_group, usize::from(held.expert_group));
        let in_block = self.next[group];
        self.next[group] += address(held.elements());
        let cut = |from| self.plan.cut(held, self.parameters[group], from);
        Flat {
            expert,
            start: address(held.start),
            in_block,
            cut: cut(ZeroStage::Optimizer),
            shares_gradient: !cut(ZeroStage::Gradients).is_whole(),
            shares_weight: held.shards > 1,
            replica: self.plan.replica(self.rank, expert),
        }
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
    /// What the rank keeps of a parameter, and which of its elements these are: nothing to do, for most.
    fn param(
        &mut self,
        _place: Place,
        _flat: Flat,
        _elements: Range<usize>,
        _kept: Mut<'_, D, E>,
    ) -> Result<(), StepError> {
        Ok(())
    }

    /// A buffer that nothing optimises: nothing to do, for most.
    fn buffer(&mut self, _place: Place, _elements: Mut<'_, D, f32>) -> Result<(), StepError> {
        Ok(())
    }

    /// A parameter where it is stored.
    fn stored(&mut self, stored: &mut Stored<D, E>) -> Result<(), StepError> {
        let (place, flat) = (stored.place, stored.flat);
        let (elements, kept) = stored.kept();
        self.param(place, flat, elements, kept)
    }
}

/// What has parameters.
pub(super) trait Visit<D: Memory, E: Element> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError>;
}

impl<D: Memory, R, C, E: Element> Visit<D, E> for Param<D, R, C, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        visitor.stored(&mut self.stored)
    }
}

impl<D: Memory, R, C, E: Element> Visit<D, E> for Buffer<D, R, C, f32> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        visitor.buffer(self.place, self.tensor.view_mut().raw())
    }
}

impl<D: Memory, E: Element, const N: usize> Visit<D, E> for [&mut dyn Visit<D, E>; N] {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        self.iter_mut().try_for_each(|inner| inner.visit(visitor))
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
