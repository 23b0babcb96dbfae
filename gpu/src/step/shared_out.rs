//! What replicas share out and a block has whole only while it runs: weights, which are gathered for it (ZeRO-3), and its
//! gradients, which are summed over replicas behind it, each of which keeps its part (from ZeRO-2 on).

use super::context::Context;
use super::gradients::Gradients;
use super::params::{Stored, Visit, Visitor};
use crate::device::{Device, Format, Memory};
use crate::tensor::StepError;
use moe_model_core::inventory::Block;

impl<D: Device> Context<'_, D> {
    /// A block begins to run forward, which reads these weights.
    pub(super) fn assemble<E: Format>(&self, block: Block, weights: &mut dyn Visit<D, E>) -> Result<(), StepError> {
        weights.visit(&mut Assemble { of: self, block })
    }

    /// A block begins to run backward, which reads these weights and makes their gradients.
    pub(super) fn begin<E: Format>(
        &self,
        gradients: &mut Gradients<D>,
        block: Block,
        weights: &mut dyn Visit<D, E>,
    ) -> Result<(), StepError> {
        // The gradient of a table's rows does not ask what stands in them.
        if block != Block::Embedding {
            self.assemble(block, weights)?;
        }
        let mut lengths = Lengths([0; 2]);
        weights.visit(&mut lengths)?;
        for ((len, name), of_block) in lengths.0.into_iter().zip(NAMES).zip(&mut gradients.of_block) {
            if len > 0 {
                let of_block = of_block.insert(self.room.take_rows(name, len)?);
                self.room.device.zero(of_block.view_mut().raw());
            }
        }
        Ok(())
    }

    /// It has run.
    pub(super) fn end<E: Format>(
        &self,
        gradients: &mut Gradients<D>,
        weights: &mut dyn Visit<D, E>,
    ) -> Result<(), StepError> {
        weights.visit(&mut Sum { of: self, gradients })?;
        gradients.of_block = [None, None];
        release(weights)
    }
}

/// A block has run that read these weights.
pub(super) fn release<D: Device, E: Format>(weights: &mut dyn Visit<D, E>) -> Result<(), StepError> {
    weights.visit(&mut Release)
}

/// What a block's gradients are called, dense ones and those of experts.
const NAMES: [&str; 2] = ["gradients of a block", "expert gradients of a block"];

/// What a weight is called while a block runs, which several have under names of their own.
fn name(block: Block, name: &'static str) -> &'static str {
    match (block, name) {
        (Block::Head | Block::MtpHead, "lm_head.weight" | "model.embed_tokens.weight") => "head table",
        (Block::Mtp, "model.norm.weight" | "shared_head.norm.weight") => "hidden norm weight",
        _ => name,
    }
}

struct Assemble<'a, 'c, D> {
    of: &'a Context<'c, D>,
    block: Block,
}

impl<D: Device, E: Format> Visitor<D, E> for Assemble<'_, '_, D> {
    fn stored(&mut self, stored: &mut Stored<D, E>) -> Result<(), StepError> {
        let name = name(self.block, stored.place().name);
        stored.gather(self.of.room, self.of.comm, name)
    }
}

/// Gives back what was gathered.
pub(super) struct Release;

impl<D: Memory, E: Format> Visitor<D, E> for Release {
    fn stored(&mut self, stored: &mut Stored<D, E>) -> Result<(), StepError> {
        stored.release();
        Ok(())
    }
}

/// How long the buffers of a block's gradients are.
struct Lengths([usize; 2]);

impl<D: Memory, E: Format> Visitor<D, E> for Lengths {
    fn stored(&mut self, stored: &mut Stored<D, E>) -> Result<(), StepError> {
        let flat = stored.flat();
        if flat.shares_gradient() {
            let len = &mut self.0[usize::from(flat.expert)];
            *len = (*len).max(flat.in_block(stored.elements()).end);
        }
        Ok(())
    }
}

struct Sum<'a, 'c, D: Memory> {
    of: &'a Context<'c, D>,
    gradients: &'a mut Gradients<D>,
}

impl<D: Device, E: Format> Visitor<D, E> for Sum<'_, '_, D> {
    fn stored(&mut self, stored: &mut Stored<D, E>) -> Result<(), StepError> {
        self.gradients.sum(self.of.room.device, self.of.comm, stored.flat(), stored.elements())
    }
}
