//! A layer: attention, then a dense network or one with experts, forward and back.

use super::attention::{self, Attention};
use super::context::Context;
use super::dense::{self, Dense};
use super::gradients::Gradients;
use super::moe::{self, Moe};
use super::params::{Maker, Visit, Visitor, visit_fields};
use super::probe::Probing;
use super::shared_out::release;
use crate::View;
use crate::device::{Device, Element, Format, Memory};
use crate::ledger::{Direction, Ledger};
use crate::shapes::{Axis, Shapes, Tokens};
use crate::tensor::{StepError, Tensor};
use moe_model_core::inventory::Block;
use moe_model_core::{Chunk, Plan};

/// A layer of a stage.
pub(super) struct Layer<D: Memory, S: Shapes, E: Element> {
    pub(super) number: u64,
    attention: Attention<D, S, E>,
    network: Network<D, S, E>,
    /// Whether backward computes it again.
    again: bool,
}

enum Network<D: Memory, S: Shapes, E: Element> {
    Dense(Dense<D, S, E>),
    Moe(Box<Moe<D, S, E>>),
}

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Layer<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        visit_fields!(self, visitor: attention, network)
    }
}

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Network<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        match self {
            Self::Dense(dense) => dense.visit(visitor),
            Self::Moe(moe) => moe.visit(visitor),
        }
    }
}

/// The inputs of a layer's blocks, and what else they keep where they are not computed again.
pub(super) struct KeptLayer<D: Memory, S: Shapes, E: Element> {
    attention: (Tensor<D, Tokens, S::Hidden, E>, Option<attention::Kept<D, S, E>>),
    network: (Tensor<D, Tokens, S::Hidden, E>, Option<KeptNetwork<D, S, E>>),
}

enum KeptNetwork<D: Memory, S: Shapes, E: Element> {
    Dense(dense::Kept<D, S, E>),
    Moe(moe::Kept<D, S, E>),
}

impl<D: Device, S: Shapes, E: Format> Layer<D, S, E> {
    pub(super) fn new(
        make: &mut Maker<'_, D>,
        plan: &Plan,
        chunk: &Chunk,
        number: u64,
        has_experts: bool,
    ) -> Result<Self, StepError> {
        let (architecture, again) = (&plan.spec().architecture, plan.computes_again(chunk, number));
        make.layer = Some(number);
        let attention = Attention::new(make, architecture, number)?;
        let network = if has_experts {
            Network::Moe(Box::new(Moe::new(make, architecture)?))
        } else {
            Network::Dense(Dense::new(make)?)
        };
        Ok(Self { number, attention, network, again })
    }

    /// Attention and network; gives what is kept, and the output, while the network's frame is open.
    pub(super) fn forward(
        &mut self,
        of: &Context<'_, D>,
        x: Tensor<D, Tokens, S::Hidden, E>,
        probe: &mut Probing<'_, '_, D>,
    ) -> Result<(KeptLayer<D, S, E>, Tensor<D, Tokens, S::Hidden, E>), StepError> {
        let ledger = of.room.ledger;
        self.begin(ledger, attention::BLOCK);
        of.assemble(attention::BLOCK, &mut self.attention)?;
        let (kept, output) = self.attention.forward(of, x.view())?;
        release(&mut self.attention)?;
        let attention = (x, (!self.again).then_some(kept));
        let input = output.becomes(self.network.input_name())?;
        ledger.end(None)?;
        probe.values("hidden_mid", self.number, input.view());
        self.begin(ledger, self.network.block());
        of.assemble(self.network.block(), &mut self.network)?;
        let (kept, output) = self.network.forward(of, input.view(), self.number, probe)?;
        release(&mut self.network)?;
        Ok((KeptLayer { attention, network: (input, (!self.again).then_some(kept)) }, output))
    }

    fn begin(&self, ledger: &Ledger, block: Block) {
        if self.again { ledger.begin_again(block) } else { ledger.begin(block, Direction::Forward) }
    }

    /// The gradient of the output becomes that of the input.
    pub(super) fn backward(
        &mut self,
        of: &Context<'_, D>,
        gradients: &mut Gradients<D>,
        kept: KeptLayer<D, S, E>,
        residual: Option<Tensor<D, Tokens, S::Hidden, E>>,
    ) -> Result<Tensor<D, Tokens, S::Hidden, E>, StepError> {
        let ledger = of.room.ledger;
        let (input, network) = kept.network;
        ledger.begin(self.network.block(), Direction::Backward);
        let mut d = carried(of, residual)?;
        of.begin(gradients, self.network.block(), &mut self.network)?;
        self.network.backward(of, gradients, input.view(), network, &mut d)?;
        of.end(gradients, &mut self.network)?;
        drop(input);
        ledger.end(Some(d.ticket()))?;
        let (input, attention) = kept.attention;
        ledger.begin(attention::BLOCK, Direction::Backward);
        let mut d = carried(of, Some(d))?;
        of.begin(gradients, attention::BLOCK, &mut self.attention)?;
        self.attention.backward(of, gradients, input.view(), attention, &mut d)?;
        of.end(gradients, &mut self.attention)?;
        drop(input);
        ledger.end(Some(d.ticket()))?;
        Ok(d)
    }
}

/// What goes from block to block in backward.
pub(super) const RESIDUAL: &str = "residual gradient";

/// The gradient of the residual stream, as the next block has it; what the next stage sends, if it comes from there.
pub(super) fn carried<D: Device, H: Axis, E: Format>(
    of: &Context<'_, D>,
    residual: Option<Tensor<D, Tokens, H, E>>,
) -> Result<Tensor<D, Tokens, H, E>, StepError> {
    if let Some(residual) = residual {
        return residual.becomes(RESIDUAL);
    }
    let mut received: Tensor<D, Tokens, H, E> = of.room.take(RESIDUAL)?;
    of.receive(Direction::Backward, received.view_mut())?;
    Ok(received)
}

impl<D: Device, S: Shapes, E: Format> Network<D, S, E> {
    fn input_name(&self) -> &'static str {
        match self {
            Self::Dense(_) => "dense input",
            Self::Moe(_) => "expert input",
        }
    }

    fn block(&self) -> Block {
        match self {
            Self::Dense(_) => dense::BLOCK,
            Self::Moe(_) => moe::BLOCK,
        }
    }

    fn forward(
        &self,
        of: &Context<'_, D>,
        x: View<'_, D, Tokens, S::Hidden, E>,
        layer: u64,
        probe: &mut Probing<'_, '_, D>,
    ) -> Result<(KeptNetwork<D, S, E>, Tensor<D, Tokens, S::Hidden, E>), StepError> {
        match self {
            Self::Dense(dense) => dense.forward(of, x).map(|(kept, output)| (KeptNetwork::Dense(kept), output)),
            Self::Moe(moe) => moe.forward(of, x, layer, probe).map(|(kept, output)| (KeptNetwork::Moe(kept), output)),
        }
    }

    fn backward(
        &self,
        of: &Context<'_, D>,
        gradients: &mut Gradients<D>,
        x: View<'_, D, Tokens, S::Hidden, E>,
        kept: Option<KeptNetwork<D, S, E>>,
        residual: &mut Tensor<D, Tokens, S::Hidden, E>,
    ) -> Result<(), StepError> {
        match (self, kept) {
            (Self::Dense(dense), Some(KeptNetwork::Dense(kept))) => {
                dense.backward(of, gradients, x, Some(kept), residual)
            }
            (Self::Moe(moe), Some(KeptNetwork::Moe(kept))) => moe.backward(of, gradients, x, Some(kept), residual),
            (Self::Dense(dense), _) => dense.backward(of, gradients, x, None, residual),
            (Self::Moe(moe), _) => moe.backward(of, gradients, x, None, residual),
        }
    }
}
