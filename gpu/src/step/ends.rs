//! The ends of the model: embedding, and final norm with head and loss.

use super::context::{Context as Ctx, NormOutput};
use super::gradients::Gradients;
use super::params::{Maker, Param, Visit, Visitor, visit_fields};
use crate::View;
use crate::device::{Device, Element, Format, Memory};
use crate::ops::cross_entropy::{self, Rows};
use crate::ops::gemm::{self, Into};
use crate::ops::{elementwise, embedding, rms_norm};
use crate::shapes::{Context, One, Shapes, Tokens};
use crate::tensor::{StepError, Tensor};
use moe_model_core::groups::Group;
use moe_model_core::inventory::Module;

/// The table of the first stage.
pub(super) struct Embedding<D: Memory, S: Shapes, E: Element> {
    pub(super) table: Param<D, S::Vocab, S::Hidden, E>,
}

/// What the last stage has.
pub(super) struct Head<D: Memory, S: Shapes, E: Element> {
    pub(super) exit: Exit<D, S, E>,
    /// None where it is the embedding's table on the same rank.
    table: Option<Param<D, S::Vocab, S::Hidden, E>>,
}

/// A norm in front of the head.
pub(super) struct Exit<D: Memory, S: Shapes, E: Element> {
    pub(super) norm: Param<D, S::Hidden, One, E>,
}

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Embedding<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        self.table.visit(visitor)
    }
}

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Head<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        visit_fields!(self, visitor: exit, table)
    }
}

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Exit<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        self.norm.visit(visitor)
    }
}

/// Token ids of a micro-batch, or the labels to be predicted.
pub(super) type Ids<D> = Tensor<D, Context, One, i64>;

impl<D: Device, S: Shapes, E: Format> Embedding<D, S, E> {
    pub(super) fn new(make: &mut Maker<'_, D>) -> Result<Self, StepError> {
        make.block(0);
        Ok(Self { table: make.weight(Module::Embedding, "model.embed_tokens.weight")? })
    }

    /// Rows of the table for all tokens; of a part of the vocabulary, what it has of them.
    pub(super) fn forward(&self, of: &Ctx<'_, D>, ids: &Ids<D>) -> Result<Tensor<D, Tokens, S::Hidden, E>, StepError> {
        let room = of.room;
        let mut output: Tensor<D, Tokens, S::Hidden, E> = room.take("embedding output")?;
        let mut all = if of.gathers() { Some(room.take("embedding of all tokens")?) } else { None };
        of.made_sum(&mut output, all.as_mut(), |out| {
            embedding::forward(room.device, out, ids.view(), self.table.view(), of.first_row());
        })?;
        Ok(output)
    }

    pub(super) fn backward(
        &self,
        of: &Ctx<'_, D>,
        gradients: &mut Gradients<D>,
        ids: &Ids<D>,
        residual: &Tensor<D, Tokens, S::Hidden, E>,
    ) -> Result<(), StepError> {
        let (room, device, n) = (of.room, of.room.device, of.room.lengths);
        let (d_table, first) = (gradients.of(&self.table), of.first_row());
        if of.gathers() {
            let mut all: Tensor<D, Context, S::Hidden, E> = room.take("gathered gradient")?;
            of.comm.gather(device, all.view_mut(), residual.view(), n)?;
            embedding::backward(device, d_table, ids.view(), all.view(), first);
        } else {
            embedding::backward(device, d_table, ids.view(), residual.view().reshaped::<Context, _>(n), first);
        }
        Ok(())
    }
}

/// What the head keeps of a micro-batch beside its input.
pub(super) struct Kept<D: Memory, S: Shapes> {
    labels: Ids<D>,
    statistics: Tensor<D, Tokens, One, f32>,
    logits: Tensor<D, Context, S::Vocab, f32>,
    max: Tensor<D, Context, One, f32>,
    sum: Tensor<D, Context, One, f32>,
    /// Tokens of the micro-batch that are scored, those of all context-parallel ranks.
    scored: f64,
}

impl<D: Memory, S: Shapes> Kept<D, S> {
    pub(super) fn statistics(&self) -> View<'_, D, Tokens, One, f32> {
        self.statistics.view()
    }

    pub(super) fn logits(&self) -> View<'_, D, Context, S::Vocab, f32> {
        self.logits.view()
    }
}

impl<D> Ctx<'_, D> {
    /// The first row of this rank's part of the vocabulary.
    pub(super) fn first_row(&self) -> usize {
        usize::try_from(self.comm.place().tp).expect("ranks are addresses") * self.room.lengths.vocab
    }

    /// Rows of this rank's part that stand for tokens, and not for padding.
    pub(super) fn real_rows(&self) -> usize {
        let vocab = usize::try_from(self.plan.spec().architecture.vocab).expect("rows are addresses");
        vocab.saturating_sub(self.first_row()).min(self.room.lengths.vocab)
    }
}

impl<D: Device, S: Shapes, E: Format> Head<D, S, E> {
    pub(super) fn new(make: &mut Maker<'_, D>, is_tied_here: bool) -> Result<Self, StepError> {
        let exit = Exit::new(make, Module::Norm, "model.norm.weight")?;
        make.block(0);
        Ok(Self { exit, table: make.weight_if(!is_tied_here, Module::Head, "lm_head.weight")? })
    }

    /// The head's table, or the embedding's where it is that one.
    pub(super) fn table<'t>(
        &'t self,
        embedding: Option<&'t Embedding<D, S, E>>,
    ) -> &'t Param<D, S::Vocab, S::Hidden, E> {
        let tied = || &embedding.expect("a head without a table is tied to the embedding of its rank").table;
        self.table.as_ref().unwrap_or_else(tied)
    }

    /// Its norm, and that table.
    pub(super) fn parts<'t>(
        &'t mut self,
        embedding: Option<&'t mut Embedding<D, S, E>>,
    ) -> (&'t mut Exit<D, S, E>, &'t mut Param<D, S::Vocab, S::Hidden, E>) {
        let Self { exit, table } = self;
        let tied = || &mut embedding.expect("a head without a table is tied to the embedding of its rank").table;
        (exit, table.as_mut().unwrap_or_else(tied))
    }
}

impl<D: Device, S: Shapes, E: Format> Exit<D, S, E> {
    pub(super) fn new(make: &mut Maker<'_, D>, module: Module, name: &'static str) -> Result<Self, StepError> {
        // The head's table comes first among what its block has.
        make.block(make.table());
        Ok(Self { norm: make.weight(module, name)? })
    }

    /// Logits and loss; gives what is kept, and the mean loss of the micro-batch, where there are values.
    pub(super) fn forward(
        &self,
        of: &Ctx<'_, D>,
        table: &Param<D, S::Vocab, S::Hidden, E>,
        x: View<'_, D, Tokens, S::Hidden, E>,
        labels: Ids<D>,
        see: &mut dyn FnMut(View<'_, D, Context, S::Hidden, E>),
    ) -> Result<(Kept<D, S>, Option<f64>), StepError> {
        let (room, device) = (of.room, of.room.device);
        let mut kept = Kept {
            labels,
            statistics: room.take("final norm statistics")?,
            logits: room.take("logits")?,
            max: room.take("largest logits")?,
            sum: room.take("sums of exponentials")?,
            scored: 0.0,
        };
        let mut targets: Tensor<D, Context, One, f32> = room.take("label logits")?;
        let mut norm_output = NormOutput::<D, S, E>::new(of, "final norm output")?;
        let norm = of.norm(&self.norm);
        norm.statistics(of, kept.statistics.view_mut(), x);
        norm_output.fill(of, &norm, x, kept.statistics.view())?;
        see(norm_output.view());
        gemm::forward(device, kept.logits.view_mut(), norm_output.view(), table.view(), Into::Set);
        cross_entropy::mask(device, kept.logits.view_mut(), of.real_rows());
        cross_entropy::largest(device, kept.max.view_mut(), kept.logits.view());
        let is_split = room.lengths.tensor_ranks > 1;
        if is_split {
            of.comm.all_max(device, Group::Tp, kept.max.view_mut())?;
        }
        let (logits, max, labels) = (kept.logits.view(), kept.max.view(), kept.labels.view());
        cross_entropy::sums(device, kept.sum.view_mut(), targets.view_mut(), logits, max, labels, of.first_row());
        if is_split {
            of.comm.all_reduce(device, Group::Tp, kept.sum.view_mut())?;
            of.comm.all_reduce(device, Group::Tp, targets.view_mut())?;
        }
        let rows = Rows { max: kept.max.view(), sum: kept.sum.view(), labels: kept.labels.view() };
        let loss = cross_entropy::loss(device, &rows, targets.view());
        let (sum, scored) = loss.unwrap_or_default();
        #[allow(clippy::cast_precision_loss)] // tokens of a micro-batch
        let [sum, scored] = of.comm.add_up(Group::Cp, [sum, scored as f64])?;
        kept.scored = scored;
        Ok((kept, loss.map(|_| sum / scored.max(1.0))))
    }

    /// The gradient of the residual stream, from that of the mean loss, which counts so much, and from that of what the norm
    /// made, if somebody else read it.
    #[allow(clippy::too_many_arguments)] // what a loss's gradient is made of
    pub(super) fn backward(
        &self,
        of: &Ctx<'_, D>,
        gradients: &mut Gradients<D>,
        table: &Param<D, S::Vocab, S::Hidden, E>,
        x: View<'_, D, Tokens, S::Hidden, E>,
        mut kept: Kept<D, S>,
        weight: f32,
        carried: Option<Tensor<D, Tokens, S::Hidden, E>>,
    ) -> Result<Tensor<D, Tokens, S::Hidden, E>, StepError> {
        let (room, device) = (of.room, of.room.device);
        let mut norm_output = NormOutput::<D, S, E>::new(of, "final norm output")?;
        let norm = of.norm(&self.norm);
        norm_output.fill(of, &norm, x, kept.statistics.view())?;
        #[allow(clippy::cast_possible_truncation)] // tokens of a micro-batch
        let scale = weight / kept.scored.max(1.0) as f32;
        let rows = Rows { max: kept.max.view(), sum: kept.sum.view(), labels: kept.labels.view() };
        cross_entropy::backward(device, kept.logits.view_mut(), &rows, of.first_row(), scale);
        let mut d_norm: Tensor<D, Context, S::Hidden, E> = room.take("head input gradient")?;
        let is_carried = carried.is_some();
        let mut residual: Tensor<D, Tokens, S::Hidden, E> = match carried {
            Some(carried) => carried,
            None => room.take("residual gradient")?,
        };
        let mut scattered: Option<Tensor<D, Tokens, S::Hidden, E>> =
            if of.gathers() { Some(room.take("scattered gradient")?) } else { None };
        let (d_table, input) = (gradients.of(table), norm_output.view());
        if size_of::<E>() < size_of::<f32>() {
            let mut narrow: Tensor<D, Context, S::Vocab, E> = room.take("logit gradient")?;
            cross_entropy::narrow(device, narrow.view_mut(), kept.logits.view());
            gemm::weight(device, d_table, narrow.view(), input);
            gemm::input(device, d_norm.view_mut(), narrow.view(), table.view(), Into::Set);
        } else {
            gemm::weight(device, d_table, kept.logits.view(), input);
            gemm::input(device, d_norm.view_mut(), kept.logits.view(), table.view(), Into::Set);
        }
        let dy = of.own_sum(scattered.as_mut(), d_norm.view_mut())?;
        if is_carried {
            elementwise::add(device, residual.view_mut(), dy);
        } else {
            device.copy(residual.view_mut().raw(), dy.raw());
        }
        let (dw, rows) = (gradients.of(&self.norm), kept.statistics.view());
        rms_norm::backward_in_place(device, residual.view_mut(), dw, x, rows, self.norm.view());
        Ok(residual)
    }
}
