//! Dense feed-forward blocks: a norm and a gated network.

use super::context::{Context as Ctx, NormOutput, Passing, residual};
use super::gradients::Gradients;
use super::params::{Maker, Param, Visit, Visitor, visit_fields};
use crate::View;
use crate::device::{Device, Element, Format, Memory};
use crate::ops::activation;
use crate::ops::gemm::{self, Into};
use crate::shapes::{Context, One, Shapes, Tokens};
use crate::tensor::{StepError, Tensor};
use moe_model_core::inventory::{Block, Module};

/// The weights of a dense feed-forward block.
pub(super) struct Dense<D: Memory, S: Shapes, E: Element> {
    norm: Param<D, S::Hidden, One, E>,
    gate: Param<D, S::Ffn, S::Hidden, E>,
    up: Param<D, S::Ffn, S::Hidden, E>,
    down: Param<D, S::Hidden, S::Ffn, E>,
}

/// The block in the ledger.
pub(super) const BLOCK: Block = Block::Dense;

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Dense<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        visit_fields!(self, visitor: norm, gate, up, down)
    }
}

impl<D: Memory, S: Shapes, E: Element> Dense<D, S, E> {
    pub(super) fn new(make: &mut Maker<'_, D>) -> Result<Self, StepError> {
        make.block(0);
        Ok(Self {
            norm: make.weight(Module::Norm, "post_attention_layernorm.weight")?,
            gate: make.weight(Module::DenseFfn, "mlp.gate_proj.weight")?,
            up: make.weight(Module::DenseFfn, "mlp.up_proj.weight")?,
            down: make.weight(Module::DenseFfn, "mlp.down_proj.weight")?,
        })
    }
}

/// What the block keeps beside its input.
pub(super) struct Kept<D: Memory, S: Shapes, E: Element> {
    statistics: Tensor<D, Tokens, One, f32>,
    gate: Tensor<D, Context, S::Ffn, E>,
    up: Tensor<D, Context, S::Ffn, E>,
}

/// What it works on in both directions.
struct Works<D: Memory, S: Shapes, E: Element> {
    norm: NormOutput<D, S, E>,
    product: Tensor<D, Context, S::Ffn, E>,
}

impl<D: Device, S: Shapes, E: Format> Works<D, S, E> {
    fn new(of: &Ctx<'_, D>) -> Result<Self, StepError> {
        Ok(Self { norm: NormOutput::new(of, "dense norm output")?, product: of.room.take("dense product")? })
    }
}

impl<D: Device, S: Shapes, E: Format> Dense<D, S, E> {
    /// Runs the block; gives what it keeps, and its output.
    pub(super) fn forward(
        &self,
        of: &Ctx<'_, D>,
        x: View<'_, D, Tokens, S::Hidden, E>,
    ) -> Result<(Kept<D, S, E>, Tensor<D, Tokens, S::Hidden, E>), StepError> {
        let mut works = Works::new(of)?;
        let kept = self.inner(of, x, &mut works)?;
        let mut result: Tensor<D, Context, S::Hidden, E> = of.room.take("dense result")?;
        let mut output: Tensor<D, Tokens, S::Hidden, E> = of.room.take("dense block output")?;
        gemm::forward(of.room.device, result.view_mut(), works.product.view(), self.down.view(), Into::Set);
        residual(of, output.view_mut(), result.view_mut(), x)?;
        Ok((kept, output))
    }

    /// Everything in front of the last projection.
    fn inner(
        &self,
        of: &Ctx<'_, D>,
        x: View<'_, D, Tokens, S::Hidden, E>,
        works: &mut Works<D, S, E>,
    ) -> Result<Kept<D, S, E>, StepError> {
        let device = of.room.device;
        let mut kept = Kept {
            statistics: of.room.take("dense norm statistics")?,
            gate: of.room.take("dense gate")?,
            up: of.room.take("dense up")?,
        };
        let norm = of.norm(&self.norm);
        norm.statistics(of, kept.statistics.view_mut(), x);
        works.norm.fill(of, &norm, x, kept.statistics.view())?;
        gemm::forward(device, kept.gate.view_mut(), works.norm.view(), self.gate.view(), Into::Set);
        gemm::forward(device, kept.up.view_mut(), works.norm.view(), self.up.view(), Into::Set);
        let activation = of.numerics.activation;
        activation::forward(device, works.product.view_mut(), kept.gate.view(), kept.up.view(), None, activation);
        Ok(kept)
    }

    /// The way back: the gradient of the block's output becomes that of its input.
    pub(super) fn backward(
        &self,
        of: &Ctx<'_, D>,
        gradients: &mut Gradients<D>,
        x: View<'_, D, Tokens, S::Hidden, E>,
        kept: Option<Kept<D, S, E>>,
        residual: &mut Tensor<D, Tokens, S::Hidden, E>,
    ) -> Result<(), StepError> {
        let (device, activation) = (of.room.device, of.numerics.activation);
        let mut works = Works::new(of)?;
        let norm = of.norm(&self.norm);
        let mut kept = match kept {
            Some(kept) => {
                works.norm.fill(of, &norm, x, kept.statistics.view())?;
                let (gate, up) = (kept.gate.view(), kept.up.view());
                activation::forward(device, works.product.view_mut(), gate, up, None, activation);
                kept
            }
            None => self.inner(of, x, &mut works)?,
        };
        let mut passing = Passing::<D, S, E>::new(of, residual.view())?;
        let mut d_input: Tensor<D, Context, S::Hidden, E> = of.room.take("dense input gradient")?;
        let dy = passing.all(residual.view(), of.room.lengths);
        gemm::weight(device, gradients.of(&self.down), dy, works.product.view());
        // The product is needed no more: its gradient takes its place, and those of gate and up take theirs.
        gemm::input(device, works.product.view_mut(), dy, self.down.view(), Into::Set);
        activation::backward(device, kept.gate.view_mut(), kept.up.view_mut(), works.product.view(), None, activation);
        gemm::weight(device, gradients.of(&self.gate), kept.gate.view(), works.norm.view());
        gemm::weight(device, gradients.of(&self.up), kept.up.view(), works.norm.view());
        gemm::input(device, d_input.view_mut(), kept.gate.view(), self.gate.view(), Into::Set);
        gemm::input(device, d_input.view_mut(), kept.up.view(), self.up.view(), Into::Add);
        let rows = kept.statistics.view();
        passing.back_through_norm(of, gradients, &norm, residual, d_input.view_mut(), x, rows)
    }
}
