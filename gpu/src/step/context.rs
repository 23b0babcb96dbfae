//! What blocks of the step share: where they allocate, the norm in front of them, what they gather and scatter.

use super::Load;
use super::params::{Gradients, Param};
use crate::comm::Solo;
use crate::device::{Device, Element, Format, Memory};
use crate::numerics::Numerics;
use crate::ops::rope::Rope;
use crate::ops::{elementwise, rms_norm};
use crate::shapes::{Context as All, Lengths, One, Shapes, Tokens};
use crate::tensor::{Room, StepError, Tensor};
use crate::{View, ViewMut};
use moe_model_core::Plan;

/// Where a block runs.
pub(super) struct Context<'a, D> {
    /// Where it allocates.
    pub(super) room: Room<'a, D>,
    pub(super) plan: &'a Plan,
    pub(super) stage: u64,
    pub(super) numerics: &'a Numerics,
    pub(super) comm: Solo,
    pub(super) load: Load,
}

impl<D: Memory> Context<'_, D> {
    /// Whether blocks gather their tokens from tensor-parallel ranks.
    pub(super) fn gathers(&self) -> bool {
        self.room.lengths.context != self.room.lengths.tokens
    }

    pub(super) fn rope(&self) -> Rope {
        Rope { theta: self.numerics.rope_theta, pairs: self.numerics.rope_pairs, sequence: self.room.lengths.keys }
    }

    /// The tokens of all tensor-parallel ranks, where each has its own.
    pub(super) fn gather<C, E: Element>(&self, all: ViewMut<'_, D, All, C, E>, own: View<'_, D, Tokens, C, E>) {
        if self.gathers() {
            self.comm.gather(self.room.device, all, own, self.room.lengths);
        } else {
            self.room.device.copy(all.raw(), own.raw());
        }
    }

    /// The sum of what tensor-parallel ranks have, of this rank's tokens.
    pub(super) fn reduce<C: 'static, E: Element>(
        &self,
        own: ViewMut<'_, D, Tokens, C, E>,
        partial: View<'_, D, All, C, E>,
    ) {
        if self.gathers() {
            self.comm.reduce_scatter(self.room.device, own, partial, self.room.lengths);
        } else {
            self.room.device.copy(own.raw(), partial.raw());
        }
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
    ) {
        let (device, lengths) = (of.room.device, of.room.lengths);
        match &mut self.own {
            Some(own) => {
                norm.forward(of, own.view_mut(), x, rows);
                of.comm.gather(device, self.all.view_mut(), own.view(), lengths);
            }
            None => norm.forward(of, self.all.view_mut().reshaped(lengths), x, rows),
        }
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
        of.comm.gather(of.room.device, gathered.view_mut(), residual, of.room.lengths);
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
        partial: View<'v, D, All, S::Hidden, E>,
    ) -> View<'v, D, Tokens, S::Hidden, E> {
        match &mut self.scattered {
            Some(scattered) => {
                of.comm.reduce_scatter(of.room.device, scattered.view_mut(), partial, of.room.lengths);
                scattered.view()
            }
            None => partial.reshaped(of.room.lengths),
        }
    }

    /// The gradient of what a norm made, partial on tensor-parallel ranks, goes back to the residual stream.
    #[allow(clippy::too_many_arguments)] // what a norm's gradient is made of
    pub(super) fn back_through_norm(
        &mut self,
        of: &Context<'_, D>,
        gradients: &mut Gradients<D>,
        norm: &Norm<'_, D, S::Hidden, E>,
        residual: &mut Tensor<D, Tokens, S::Hidden, E>,
        partial: View<'_, D, All, S::Hidden, E>,
        x: View<'_, D, Tokens, S::Hidden, E>,
        rows: View<'_, D, Tokens, One, f32>,
    ) {
        let device = of.room.device;
        let dy = self.own(of, partial);
        let (dw, weight) = (gradients.of(norm.weight), norm.weight.view());
        rms_norm::backward(device, residual.view_mut(), dw, dy, x, rows, weight);
    }
}

/// The residual stream behind a block: its input and what it made.
pub(super) fn residual<D: Device, C: 'static, E: Format>(
    of: &Context<'_, D>,
    mut output: ViewMut<'_, D, Tokens, C, E>,
    result: View<'_, D, All, C, E>,
    x: View<'_, D, Tokens, C, E>,
) {
    of.reduce(output.again(), result);
    elementwise::add(of.room.device, output, x);
}
