//! Shared experts: a dense network that all tokens go through beside the routed ones, its result scored where there is a gate.

use super::{Ctx, Works};
use crate::View;
use crate::device::{Device, Element, Format, Memory};
use crate::ops::gemm::{self, Into};
use crate::ops::{activation, elementwise};
use crate::shapes::{Context, One, Shapes, Tokens};
use crate::step::gradients::Gradients;
use crate::step::params::{Maker, Param, Visit, Visitor, visit_fields};
use crate::tensor::{StepError, Tensor};
use moe_model_core::inventory::Module;

/// The weights of shared experts.
pub(super) struct Shared<D: Memory, S: Shapes, E: Element> {
    gate: Param<D, S::SharedFfn, S::Hidden, E>,
    up: Param<D, S::SharedFfn, S::Hidden, E>,
    down: Param<D, S::Hidden, S::SharedFfn, E>,
    score: Option<Param<D, One, S::Hidden, E>>,
}

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Shared<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        visit_fields!(self, visitor: gate, up, down, score)
    }
}

impl<D: Memory, S: Shapes, E: Element> Shared<D, S, E> {
    pub(super) fn new(make: &mut Maker<'_, D>, has_score: bool) -> Result<Self, StepError> {
        const SHARED: Module = Module::SharedExperts;
        Ok(Self {
            gate: make.weight(SHARED, "mlp.shared_experts.gate_proj.weight")?,
            up: make.weight(SHARED, "mlp.shared_experts.up_proj.weight")?,
            down: make.weight(SHARED, "mlp.shared_experts.down_proj.weight")?,
            score: make.weight_if(has_score, SHARED, "mlp.shared_expert_gate.weight")?,
        })
    }
}

/// What they keep.
pub(super) struct KeptShared<D: Memory, S: Shapes, E: Element> {
    gate: Tensor<D, Context, S::SharedFfn, E>,
    up: Tensor<D, Context, S::SharedFfn, E>,
    scores: Option<Tensor<D, Context, One, f32>>,
}

/// What they work on in both directions.
pub(super) struct SharedWorks<D: Memory, S: Shapes, E: Element> {
    pub(super) input: Option<Tensor<D, Context, S::Hidden, E>>,
    pub(super) product: Tensor<D, Context, S::SharedFfn, E>,
}

/// What shared experts hold to the end of a block.
pub(super) struct SharedResult<D: Memory, S: Shapes, E: Element> {
    _result: Tensor<D, Context, S::Hidden, E>,
    _scattered: Option<Tensor<D, Tokens, S::Hidden, E>>,
}

pub(super) struct SharedGradients<D: Memory, S: Shapes, E: Element> {
    pub(super) d_input: Option<Tensor<D, Context, S::Hidden, E>>,
    _gated: Option<Gated<D, S, E>>,
}

struct Gated<D: Memory, S: Shapes, E: Element> {
    result: Tensor<D, Context, S::Hidden, E>,
    d_scores: Tensor<D, Context, One, f32>,
    d_output: Tensor<D, Context, S::Hidden, E>,
}

impl<D: Device, S: Shapes, E: Format> Shared<D, S, E> {
    pub(super) fn inner(&self, of: &Ctx<'_, D>, works: &Works<D, S, E>) -> Result<KeptShared<D, S, E>, StepError> {
        let (room, device, x) = (of.room, of.room.device, works.shared_input(of));
        let mut kept = KeptShared {
            gate: room.take("shared gate")?,
            up: room.take("shared up")?,
            scores: if self.score.is_some() { Some(room.take("shared expert scores")?) } else { None },
        };
        gemm::forward(device, kept.gate.view_mut(), x, self.gate.view(), Into::Set);
        gemm::forward(device, kept.up.view_mut(), x, self.up.view(), Into::Set);
        if let (Some(scores), Some(weight)) = (&mut kept.scores, &self.score) {
            gemm::forward(device, scores.view_mut(), x, weight.view(), Into::Set);
        }
        Ok(kept)
    }

    fn product(of: &Ctx<'_, D>, kept: &KeptShared<D, S, E>, product: &mut Tensor<D, Context, S::SharedFfn, E>) {
        let activation = of.numerics.activation;
        activation::forward(of.room.device, product.view_mut(), kept.gate.view(), kept.up.view(), None, activation);
    }

    /// Adds what they make to the block's output.
    pub(super) fn finish(
        &self,
        of: &Ctx<'_, D>,
        kept: &KeptShared<D, S, E>,
        works: &mut Works<D, S, E>,
        output: &mut Tensor<D, Tokens, S::Hidden, E>,
    ) -> Result<SharedResult<D, S, E>, StepError> {
        let (room, device) = (of.room, of.room.device);
        let product = &mut works.shared.as_mut().expect("shared experts work").product;
        Self::product(of, kept, product);
        let mut result: Tensor<D, Context, S::Hidden, E> = room.take("shared result")?;
        gemm::forward(device, result.view_mut(), product.view(), self.down.view(), Into::Set);
        if let Some(scores) = &kept.scores {
            elementwise::gate_rows(device, result.view_mut(), scores.view());
        }
        let mut scattered = if of.gathers() { Some(room.take("scattered result")?) } else { None };
        elementwise::add(device, output.view_mut(), of.own_sum(scattered.as_mut(), result.view_mut())?);
        Ok(SharedResult { _result: result, _scattered: scattered })
    }

    /// From the gradient of the block's output; what is partial on tensor-parallel ranks is given back.
    pub(super) fn backward(
        &self,
        of: &Ctx<'_, D>,
        gradients: &mut Gradients<D>,
        kept: &mut KeptShared<D, S, E>,
        works: &mut Works<D, S, E>,
        dy: View<'_, D, Context, S::Hidden, E>,
        d_tokens: &mut Tensor<D, Tokens, S::Hidden, E>,
    ) -> Result<SharedGradients<D, S, E>, StepError> {
        let (room, device, n) = (of.room, of.room.device, of.room.lengths);
        let mut partial: Option<Tensor<D, Context, S::Hidden, E>> =
            if room.lengths.tensor_ranks > 1 { Some(room.take("shared input gradient")?) } else { None };
        let Works { shared, norm, .. } = works;
        let SharedWorks { input, product } = shared.as_mut().expect("shared experts work");
        let x = match input {
            Some(input) => input.view(),
            None => norm.view().reshaped(n),
        };
        Self::product(of, kept, product);
        let mut gated = None;
        if let Some(scores) = &kept.scores {
            let mut of_gate = Gated {
                result: room.take("shared result")?,
                d_scores: room.take("shared expert score gradient")?,
                d_output: room.take("shared output gradient")?,
            };
            gemm::forward(device, of_gate.result.view_mut(), product.view(), self.down.view(), Into::Set);
            device.copy(of_gate.d_output.view_mut().raw(), dy.raw());
            let (d, d_scores) = (of_gate.d_output.view_mut(), of_gate.d_scores.view_mut());
            elementwise::gate_rows_backward(device, d, d_scores, of_gate.result.view(), scores.view());
            gated = Some(of_gate);
        }
        let dy = gated.as_ref().map_or(dy, |gated| gated.d_output.view());
        gemm::weight(device, gradients.of(&self.down), dy, product.view());
        gemm::input(device, product.view_mut(), dy, self.down.view(), Into::Set);
        let (gate, up) = (kept.gate.view_mut(), kept.up.view_mut());
        activation::backward(device, gate, up, product.view(), None, of.numerics.activation);
        gemm::weight(device, gradients.of(&self.gate), kept.gate.view(), x);
        gemm::weight(device, gradients.of(&self.up), kept.up.view(), x);
        let (mut dx, into) = match &mut partial {
            Some(partial) => (partial.view_mut(), Into::Set),
            None => (d_tokens.view_mut().reshaped(n), Into::Add),
        };
        gemm::input(device, dx.again(), kept.gate.view(), self.gate.view(), into);
        gemm::input(device, dx.again(), kept.up.view(), self.up.view(), Into::Add);
        if let (Some(gated), Some(weight)) = (&gated, &self.score) {
            gemm::weight(device, gradients.of(weight), gated.d_scores.view(), x);
            gemm::input(device, dx, gated.d_scores.view(), weight.view(), Into::Add);
        }
        Ok(SharedGradients { d_input: partial, _gated: gated })
    }
}
