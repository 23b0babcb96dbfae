//! What blocks of the step share: where they allocate, the norm in front of them, what they gather and scatter.

use super::Load;
use super::gradients::Gradients;
use super::params::Param;
use crate::comm::{Comm, Subject};
use crate::device::{Device, Element, Format, Memory};
use crate::ledger::Direction;
use crate::numerics::Numerics;
use crate::ops::{elementwise, rms_norm};
use crate::shapes::{Axis, Context as All, Lengths, One, Shapes, Tokens};
use crate::tensor::{Room, StepError, Tensor};
use crate::{View, ViewMut};
use moe_model_core::Plan;
use moe_model_core::groups::Group;

/// Where a block runs.
pub(super) struct Context<'a, D> {
    /// Where it allocates.
    pub(super) room: Room<'a, D>,
    pub(super) plan: &'a Plan,
    /// The place of the chunk that runs in the order of virtual stages.
    pub(super) place: u64,
    /// The micro-batch that runs.
    pub(super) micro_batch: u64,
    pub(super) numerics: &'a Numerics,
    pub(super) comm: &'a Comm,
    pub(super) load: Load,
}

impl<D: Memory> Context<'_, D> {
    /// Its place among context-parallel ranks.
    pub(super) fn cp(&self) -> usize {
        usize::try_from(self.comm.place().cp).expect("ranks are addresses")
    }

    /// The first tokens of the pieces that a context-parallel rank has of a sequence.
    pub(super) fn starts(&self, rank: usize) -> impl Iterator<Item = usize> + use<D> {
        let (mesh, piece) = (self.plan.spec().layout.mesh, self.room.lengths.piece);
        (0..mesh.pieces())
            .map(move |number| usize::try_from(mesh.piece(rank as u64, number)).expect("pieces are addresses") * piece)
    }

    /// Whether blocks gather their tokens from tensor-parallel ranks.
    pub(super) fn gathers(&self) -> bool {
        self.room.lengths.context != self.room.lengths.tokens
    }

    /// The number of the micro-batch among those of all replicas.
    pub(super) fn global(&self) -> u64 {
        let replica = if self.comm.is_alone() { 0 } else { self.comm.place().dp };
        replica * self.plan.spec().layout.batch.count + self.micro_batch
    }

    /// Sends hidden states to the next place, or their gradients to the one in front.
    pub(super) fn send<C, E: Element>(
        &self,
        way: Direction,
        values: View<'_, D, Tokens, C, E>,
    ) -> Result<(), StepError> {
        let (stage, subject) = self.outgoing(way);
        Ok(self.comm.send(self.room.device, stage, subject, values)?)
    }

    /// Receives what the place in front sent forward, or the next one back.
    pub(super) fn receive<C, E: Element>(
        &self,
        way: Direction,
        values: ViewMut<'_, D, Tokens, C, E>,
    ) -> Result<(), StepError> {
        let (stage, subject) = self.incoming(way);
        Ok(self.comm.receive(self.room.device, stage, subject, values)?)
    }

    /// Does both where there is nothing between.
    pub(super) fn pass_on(&self, way: Direction) -> Result<(), StepError> {
        Ok(self.comm.pass_on(self.incoming(way), self.outgoing(way))?)
    }

    /// To which stage something goes, and what it is.
    const fn outgoing(&self, way: Direction) -> (u64, Subject) {
        let place = self.neighbour(way);
        (self.stage_of(place), self.subject(way, place))
    }

    /// From which stage something comes, and what it is.
    const fn incoming(&self, way: Direction) -> (u64, Subject) {
        let from = match way {
            Direction::Forward => self.neighbour(Direction::Backward),
            Direction::Backward => self.neighbour(Direction::Forward),
        };
        (self.stage_of(from), self.subject(way, self.place))
    }

    const fn subject(&self, way: Direction, place: u64) -> Subject {
        match way {
            Direction::Forward => Subject::Hidden { place, micro_batch: self.micro_batch },
            Direction::Backward => Subject::Gradient { place, micro_batch: self.micro_batch },
        }
    }

    const fn neighbour(&self, way: Direction) -> u64 {
        match way {
            Direction::Forward => self.place + 1,
            Direction::Backward => self.place.saturating_sub(1),
        }
    }

    /// The stage that holds a place, in a pipeline whose chunks follow one another in a loop.
    const fn stage_of(&self, place: u64) -> u64 {
        place % self.plan.stages()
    }

    /// Whether context-parallel ranks trade tokens for heads around attention.
    pub(super) fn trades(&self) -> bool {
        self.room.lengths.trading_ranks > 1
    }

    /// Whether a rank has a piece of each sequence.
    pub(super) fn has_pieces(&self) -> bool {
        self.room.lengths.context < self.room.lengths.batch * self.room.lengths.keys
    }

    /// Fills in numbers for this rank's tokens, given those of whole sequences.
    pub(super) fn own_tokens(&self, out: &mut [i64], fill: impl FnOnce(&mut [i64])) {
        let n = self.room.lengths;
        if self.has_pieces() {
            let mut all = vec![0; n.batch * n.keys];
            fill(&mut all);
            let pieces = all
                .chunks_exact(n.keys)
                .flat_map(|sequence| self.starts(self.cp()).map(move |start| &sequence[start..][..n.piece]));
            out.chunks_exact_mut(n.piece).zip(pieces).for_each(|(out, piece)| out.copy_from_slice(piece));
        } else {
            fill(out);
        }
        self.fold(out);
    }

    /// Micro-batches that a step's loss is the mean of.
    pub(super) fn micro_batches(&self) -> u64 {
        let layout = &self.plan.spec().layout;
        let replicas = if self.comm.is_alone() { 1 } else { layout.mesh.dp };
        layout.batch.count * replicas
    }

    /// Alone, a rank has its part of the vocabulary: tokens of other parts are taken for some of its own, so that none is
    /// without a row.
    fn fold(&self, tokens: &mut [i64]) {
        if self.comm.is_alone() && self.room.lengths.tensor_ranks > 1 {
            let rows = i64::try_from(self.real_rows()).expect("rows are numbers of 63 bits").max(1);
            tokens.iter_mut().filter(|token| **token >= 0).for_each(|token| *token %= rows);
        }
    }

    /// A norm, with the model's constant.
    pub(super) fn norm<'n, C, E: Element>(&self, weight: &'n Param<D, C, One, E>) -> Norm<'n, D, C, E> {
        Norm { weight, eps: self.numerics.norm_eps }
    }

    /// Whether tensor-parallel ranks each have a part of a sum of the same tokens.
    pub(super) fn is_partial(&self) -> bool {
        self.room.lengths.tensor_ranks > 1 && !self.gathers()
    }

    /// The tokens of all tensor-parallel ranks, where each has its own.
    pub(super) fn gather<C, E: Element>(
        &self,
        all: ViewMut<'_, D, All, C, E>,
        own: View<'_, D, Tokens, C, E>,
    ) -> Result<(), StepError> {
        if self.gathers() {
            self.comm.gather(self.room.device, all, own, self.room.lengths)?;
        } else {
            self.room.device.copy(all.raw(), own.raw());
        }
        Ok(())
    }

    /// The sum of what tensor-parallel ranks have, of this rank's tokens.
    pub(super) fn reduce<C: 'static, E: Format>(
        &self,
        own: ViewMut<'_, D, Tokens, C, E>,
        mut partial: ViewMut<'_, D, All, C, E>,
    ) -> Result<(), StepError> {
        let (device, lengths) = (self.room.device, self.room.lengths);
        if self.gathers() {
            self.comm.reduce_scatter(device, own, partial.view(), lengths)?;
            return Ok(());
        }
        if self.is_partial() {
            self.comm.all_reduce(device, Group::Tp, partial.again())?;
        }
        device.copy(own.raw(), partial.view().raw());
        Ok(())
    }

    /// The same where it is: scattered if each rank has its own tokens, else in what was summed.
    pub(super) fn own_sum<'v, C: Axis, E: Format>(
        &self,
        scattered: Option<&'v mut Tensor<D, Tokens, C, E>>,
        mut partial: ViewMut<'v, D, All, C, E>,
    ) -> Result<View<'v, D, Tokens, C, E>, StepError> {
        let (device, lengths) = (self.room.device, self.room.lengths);
        if let Some(scattered) = scattered {
            self.comm.reduce_scatter(device, scattered.view_mut(), partial.view(), lengths)?;
            return Ok(scattered.view());
        }
        if self.is_partial() {
            self.comm.all_reduce(device, Group::Tp, partial.again())?;
        }
        Ok(partial.into_view().reshaped(lengths))
    }

    /// The same of what is made here: in a tensor of all tokens if each rank has its own of them, else in its place.
    pub(super) fn made_sum<C: Axis, E: Format>(
        &self,
        own: &mut Tensor<D, Tokens, C, E>,
        all: Option<&mut Tensor<D, All, C, E>>,
        make: impl FnOnce(ViewMut<'_, D, All, C, E>),
    ) -> Result<(), StepError> {
        let (device, lengths) = (self.room.device, self.room.lengths);
        if let Some(all) = all {
            make(all.view_mut());
            self.comm.reduce_scatter(device, own.view_mut(), all.view(), lengths)?;
            return Ok(());
        }
        let mut own = own.view_mut().reshaped(lengths);
        make(own.again());
        if self.is_partial() {
            self.comm.all_reduce(device, Group::Tp, own)?;
        }
        Ok(())
    }
}

/// The weight of a norm, with its constant.
pub(super) struct Norm<'a, D: Memory, C, E: Element> {
    pub(super) weight: &'a Param<D, C, One, E>,
    pub(super) eps: f32,
}

impl<D: Device, C, E: Format> Norm<'_, D, C, E> {
    pub(super) fn statistics<T>(
        &self,
        of: &Context<'_, D>,
        rows: ViewMut<'_, D, T, One, f32>,
        x: View<'_, D, T, C, E>,
    ) {
        rms_norm::statistics(of.room.device, rows, x, self.eps);
    }

    pub(super) fn forward<T>(
        &self,
        of: &Context<'_, D>,
        y: ViewMut<'_, D, T, C, E>,
        x: View<'_, D, T, C, E>,
        rows: View<'_, D, T, One, f32>,
    ) {
        rms_norm::forward(of.room.device, y, x, rows, self.weight.view());
    }
}

/// What a norm makes, of all tokens; of its own before they are gathered.
pub(super) struct NormOutput<D: Memory, S: Shapes, E: Element> {
    all: Tensor<D, All, S::Hidden, E>,
    own: Option<Tensor<D, Tokens, S::Hidden, E>>,
}

impl<D: Device, S: Shapes, E: Format> NormOutput<D, S, E> {
    pub(super) fn new(of: &Context<'_, D>, name: &'static str) -> Result<Self, StepError> {
        let all = of.room.take(name)?;
        let own = if of.gathers() { Some(of.room.take("own norm output")?) } else { None };
        Ok(Self { all, own })
    }

    pub(super) fn fill(
        &mut self,
        of: &Context<'_, D>,
        norm: &Norm<'_, D, S::Hidden, E>,
        x: View<'_, D, Tokens, S::Hidden, E>,
        rows: View<'_, D, Tokens, One, f32>,
    ) -> Result<(), StepError> {
        let (device, lengths) = (of.room.device, of.room.lengths);
        match &mut self.own {
            Some(own) => {
                norm.forward(of, own.view_mut(), x, rows);
                of.comm.gather(device, self.all.view_mut(), own.view(), lengths)?;
            }
            None => norm.forward(of, self.all.view_mut().reshaped(lengths), x, rows),
        }
        Ok(())
    }

    pub(super) fn view(&self) -> View<'_, D, All, S::Hidden, E> {
        self.all.view()
    }
}

/// What of the gradient of the residual stream is gathered and scattered on the way back through a block.
pub(super) struct Passing<D: Memory, S: Shapes, E: Element> {
    gathered: Option<Tensor<D, All, S::Hidden, E>>,
    scattered: Option<Tensor<D, Tokens, S::Hidden, E>>,
}

impl<D: Device, S: Shapes, E: Format> Passing<D, S, E> {
    /// The gradient of a block's output, gathered if it must be.
    pub(super) fn new(of: &Context<'_, D>, residual: View<'_, D, Tokens, S::Hidden, E>) -> Result<Self, StepError> {
        if !of.gathers() {
            return Ok(Self { gathered: None, scattered: None });
        }
        let mut gathered: Tensor<D, All, S::Hidden, E> = of.room.take("gathered gradient")?;
        of.comm.gather(of.room.device, gathered.view_mut(), residual, of.room.lengths)?;
        Ok(Self { gathered: Some(gathered), scattered: Some(of.room.take("scattered gradient")?) })
    }

    /// That of all tokens.
    pub(super) fn all<'v>(
        &'v self,
        residual: View<'v, D, Tokens, S::Hidden, E>,
        lengths: &Lengths,
    ) -> View<'v, D, All, S::Hidden, E> {
        match &self.gathered {
            Some(gathered) => gathered.view(),
            None => residual.reshaped(lengths),
        }
    }

    /// This rank's part of a sum over tensor-parallel ranks.
    pub(super) fn own<'v>(
        &'v mut self,
        of: &Context<'_, D>,
        partial: ViewMut<'v, D, All, S::Hidden, E>,
    ) -> Result<View<'v, D, Tokens, S::Hidden, E>, StepError> {
        of.own_sum(self.scattered.as_mut(), partial)
    }

    /// The gradient of what a norm made, partial on tensor-parallel ranks, goes back to the residual stream.
    #[allow(clippy::too_many_arguments)] // what a norm's gradient is made of
    pub(super) fn back_through_norm(
        &mut self,
        of: &Context<'_, D>,
        gradients: &mut Gradients<D>,
        norm: &Norm<'_, D, S::Hidden, E>,
        residual: &mut Tensor<D, Tokens, S::Hidden, E>,
        partial: ViewMut<'_, D, All, S::Hidden, E>,
        x: View<'_, D, Tokens, S::Hidden, E>,
        rows: View<'_, D, Tokens, One, f32>,
    ) -> Result<(), StepError> {
        let device = of.room.device;
        let dy = self.own(of, partial)?;
        let (dw, weight) = (gradients.of(norm.weight), norm.weight.view());
        rms_norm::backward(device, residual.view_mut(), dw, dy, x, rows, weight);
        Ok(())
    }
}

/// The residual stream behind a block: its input and what it made.
pub(super) fn residual<D: Device, C: 'static, E: Format>(
    of: &Context<'_, D>,
    mut output: ViewMut<'_, D, Tokens, C, E>,
    result: ViewMut<'_, D, All, C, E>,
    x: View<'_, D, Tokens, C, E>,
) -> Result<(), StepError> {
    of.reduce(output.again(), result)?;
    elementwise::add(of.room.device, output, x);
    Ok(())
}
