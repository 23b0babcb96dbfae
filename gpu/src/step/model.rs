//! The blocks of a chunk, one behind the other: a micro-batch forward through them and back, and what it keeps meanwhile. A
//! stage has one chunk, or several that take turns.

use super::Batch;
use super::context::Context;
use super::ends::{self, Embedding, Head};
use super::gradients::Gradients;
use super::layer::{KeptLayer, Layer, RESIDUAL, carried};
use super::mtp::{self, Hidden, Mtp};
use super::params::{self, Maker, Param, Visit, Visitor, address};
use super::probe::Probing;
use super::shared_out::release;
use crate::View;
use crate::comm::Comm;
use crate::device::{Device, Element, Format, Memory};
use crate::ledger::Direction;
use crate::shapes::{Context as All, One, Shapes, Tokens};
use crate::tensor::{Room, StepError, Tensor};
use core::ops::Range;
use moe_model_core::Chunk as Planned;
use moe_model_core::Plan;
use moe_model_core::inventory::Block;
use moe_model_core::spec::ZeroStage;

/// The weights of a stage, chunk by chunk.
pub(super) struct Model<D: Memory, S: Shapes, E: Element> {
    pub(super) chunks: Vec<Chunk<D, S, E>>,
    /// Parameters of each ZeRO group, those of the rank's replicas with it.
    pub(super) parameters: [usize; 2],
}

/// The weights of a chunk.
pub(super) struct Chunk<D: Memory, S: Shapes, E: Element> {
    pub(super) embedding: Option<Embedding<D, S, E>>,
    pub(super) layers: Vec<Layer<D, S, E>>,
    pub(super) head: Option<Head<D, S, E>>,
    pub(super) modules: Vec<Mtp<D, S, E>>,
}

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Model<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        self.chunks.visit(visitor)
    }
}

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Chunk<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        params::visit_fields!(self, visitor: embedding, layers, head, modules)
    }
}

/// What a micro-batch keeps from its forward to its backward.
pub(super) struct InFlight<D: Memory, S: Shapes, E: Element> {
    ids: Option<ends::Ids<D>>,
    layers: Vec<KeptLayer<D, S, E>>,
    head: Option<KeptExit<D, S, E>>,
    modules: Vec<KeptModule<D, S, E>>,
}

/// The input of a head, and what else it keeps.
pub(super) type KeptExit<D, S, E> = (Tensor<D, Tokens, <S as Shapes>::Hidden, E>, ends::Kept<D, S>);

/// What a module for multi-token prediction keeps.
pub(super) struct KeptModule<D: Memory, S: Shapes, E: Element> {
    entrance: mtp::Kept<D, S, E>,
    layer: KeptLayer<D, S, E>,
    exit: KeptExit<D, S, E>,
}

/// Sums of losses, and how many they are: the model's own, and those of modules for multi-token prediction.
#[derive(Default)]
pub(super) struct Losses {
    pub(super) own: (f64, u32),
    pub(super) mtp: (f64, u32),
}

impl Losses {
    pub(super) fn add(sum: &mut (f64, u32), loss: Option<f64>) {
        if let Some(loss) = loss {
            *sum = (sum.0 + loss, sum.1 + 1);
        }
    }

    pub(super) fn mean((sum, count): (f64, u32)) -> Option<f64> {
        (count > 0).then(|| sum / f64::from(count))
    }
}

impl<D: Device, S: Shapes, E: Format> Model<D, S, E> {
    pub(super) fn new(room: Room<'_, D>, plan: &Plan, comm: &Comm) -> Result<Self, StepError> {
        let (mut make, stage) = (Maker::new(room, plan, comm)?, comm.place().pp);
        let parameters = make.parameters.map(address);
        let chunks = (0..plan.chunks()).map(|chunk| Chunk::new(&mut make, plan, &plan.chunk(stage, chunk)));
        let chunks = chunks.collect::<Result<_, _>>()?;
        debug_assert!(make.is_done(), "a rank has all that the plan says");
        Ok(Self { chunks, parameters })
    }

    /// Which of a group's parameters, one behind the other, a replica updates where each holds all of them.
    pub(super) fn flat_share(&self, plan: &Plan, expert: bool, replica: usize) -> Range<usize> {
        let all = self.parameters[usize::from(expert)] as u64;
        let range = plan.cut_of_group(expert, all, ZeroStage::Optimizer).share(replica as u64).elements;
        address(range.start)..address(range.end)
    }

    /// A table that both ends of the pipeline hold: the first stage's, or the last one's.
    pub(super) fn table(&self, is_first: bool) -> Option<&Param<D, S::Vocab, S::Hidden, E>> {
        let chunk = if is_first { self.chunks.first() } else { self.chunks.last() }?;
        match (&chunk.embedding, &chunk.head) {
            (Some(embedding), _) => Some(&embedding.table),
            (None, head) => head.as_ref().map(|head| head.table(None)),
        }
    }
}

impl<D: Device, S: Shapes, E: Format> Chunk<D, S, E> {
    fn new(make: &mut Maker<'_, D>, plan: &Plan, chunk: &Planned) -> Result<Self, StepError> {
        let architecture = &plan.spec().architecture;
        // Modules for multi-token prediction have a copy of their own where the table is on another stage.
        let has_table = chunk.embedding || chunk.mtp > 0;
        let embedding = if has_table { Some(Embedding::new(make)?) } else { None };
        let mut layers = Vec::new();
        for number in chunk.range() {
            layers.push(Layer::new(make, plan, chunk, number, architecture.layers.has_experts(number))?);
        }
        let mut modules = Vec::new();
        for depth in 0..chunk.mtp {
            let number = architecture.layers.count() + depth;
            let layer = Layer::new(make, plan, chunk, number, architecture.layers.moe > 0)?;
            modules.push(Mtp::new(make, layer, modules.len() + 1)?);
        }
        make.layer = None;
        let is_tied_here = architecture.tied_embeddings.is_on() && has_table;
        let head = if chunk.head { Some(Head::new(make, is_tied_here)?) } else { None };
        Ok(Self { embedding, layers, head, modules })
    }

    pub(super) fn forward(
        &mut self,
        of: &Context<'_, D>,
        batch: &mut dyn Batch,
        probe: &mut Probing<'_, '_, D>,
        losses: &mut Losses,
    ) -> Result<InFlight<D, S, E>, StepError> {
        let (ledger, device) = (of.room.ledger, of.room.device);
        if self.is_empty() {
            of.pass_on(Direction::Forward)?;
            return Ok(InFlight { ids: None, layers: Vec::new(), head: None, modules: Vec::new() });
        }
        let mut ids = None;
        if self.embedding.is_some() {
            let mut of_tokens: ends::Ids<D> = of.room.take("token ids")?;
            let fill = |all: &mut [i64]| batch.ids(of.global(), all);
            device.write(of_tokens.view_mut().raw(), |out| of.own_tokens(out, fill));
            ids = Some(of_tokens);
        }
        let is_first = of.place == 0;
        let mut x: Tensor<D, Tokens, S::Hidden, E> = match (&mut self.embedding, &ids) {
            (Some(embedding), Some(ids)) if is_first => {
                ledger.begin(Block::Embedding, Direction::Forward);
                of.assemble(Block::Embedding, embedding)?;
                let output = embedding.forward(of, ids)?;
                release(embedding)?;
                self.pass_on(of, output, 0)?
            }
            _ => {
                // From the stage in front.
                let mut received: Tensor<D, Tokens, S::Hidden, E> = of.room.take(self.input_name(0))?;
                of.receive(Direction::Forward, received.view_mut())?;
                received
            }
        };
        let mut layers = Vec::with_capacity(self.layers.len());
        for index in 0..self.layers.len() {
            let layer = &mut self.layers[index];
            let number = layer.number;
            let (kept, output) = layer.forward(of, x, probe)?;
            layers.push(kept);
            x = self.pass_on(of, output, index + 1)?;
            probe.values("hidden", number + 1, x.view());
        }
        let Self { embedding, head: Some(head), .. } = self else {
            of.send(Direction::Forward, x.view())?;
            drop(x);
            ledger.end(None)?;
            return Ok(InFlight { ids, layers, head: None, modules: Vec::new() });
        };
        ledger.begin(Block::Head, Direction::Forward);
        let mut labels: ends::Ids<D> = of.room.take("labels")?;
        let fill = |all: &mut [i64]| batch.labels(of.global(), all);
        device.write(labels.view_mut().raw(), |out| of.own_tokens(out, fill));
        let (exit, table) = head.parts(embedding.as_mut());
        let mut see = |output: View<'_, D, All, S::Hidden, E>| probe.values("final_norm", None, output);
        of.assemble(Block::Head, &mut [exit as &mut dyn Visit<D, E>, table])?;
        let (kept, loss) = exit.forward(of, table, x.view(), labels, &mut see)?;
        release(&mut [exit as &mut dyn Visit<D, E>, table])?;
        Losses::add(&mut losses.own, loss);
        probe.values("logits", None, kept.logits());
        ledger.end(None)?;
        let mut kept = InFlight { ids, layers, head: Some((x, kept)), modules: Vec::new() };
        for module in 0..self.modules.len() {
            let (of_module, loss) = self.predict(of, module, &kept, batch, probe)?;
            Losses::add(&mut losses.mtp, loss);
            kept.modules.push(of_module);
        }
        Ok(kept)
    }

    /// Whether it holds nothing: a list of stages may have such a one.
    fn is_empty(&self) -> bool {
        self.embedding.is_none() && self.layers.is_empty() && self.head.is_none()
    }

    /// One module for multi-token prediction, behind the head or the module in front of it.
    fn predict(
        &mut self,
        of: &Context<'_, D>,
        number: usize,
        kept: &InFlight<D, S, E>,
        batch: &mut dyn Batch,
        probe: &mut Probing<'_, '_, D>,
    ) -> Result<(KeptModule<D, S, E>, Option<f64>), StepError> {
        let (ledger, ahead) = (of.room.ledger, Ahead { by: number + 1, sequence: of.room.lengths.keys });
        let (Shared { head, embedding, before, module }, (x, statistics)) = (self.shared(number), read(kept, number));
        let ids = kept.ids.as_ref().expect(BEHIND);
        ledger.begin(Block::Mtp, Direction::Forward);
        let norm = norm_of(head, before);
        of.assemble(Block::Mtp, &mut [norm as &mut dyn Visit<D, E>, &mut *embedding, &mut module.entrance])?;
        let hidden = Hidden { norm: &*norm, x, rows: statistics };
        let next = |all: &mut [i64]| ahead.ids(batch, of.global(), all);
        let (entrance, output) = module.entrance.forward(of, embedding, (ids, next), &hidden)?;
        release(&mut [norm as &mut dyn Visit<D, E>, &mut *embedding, &mut module.entrance])?;
        let x = output.becomes("attention input")?;
        ledger.end(None)?;
        let (layer, output) = module.layer.forward(of, x, probe)?;
        let x = output.becomes("final norm input")?;
        ledger.end(None)?;
        ledger.begin(Block::MtpHead, Direction::Forward);
        let mut of_tokens: ends::Ids<D> = of.room.take("labels")?;
        let fill = |all: &mut [i64]| ahead.labels(batch, of.global(), all);
        of.room.device.write(of_tokens.view_mut().raw(), |out| of.own_tokens(out, fill));
        let ((_, table), exit) = (head.parts(Some(embedding)), &mut module.exit);
        of.assemble(Block::MtpHead, &mut [&mut *exit as &mut dyn Visit<D, E>, table])?;
        let (kept, loss) = exit.forward(of, table, x.view(), of_tokens, &mut |_| ())?;
        release(&mut [exit as &mut dyn Visit<D, E>, table])?;
        ledger.end(None)?;
        Ok((KeptModule { entrance, layer, exit: (x, kept) }, loss))
    }

    /// A module for multi-token prediction, and what of the model it shares.
    fn shared(&mut self, number: usize) -> Shared<'_, D, S, E> {
        let Self { head, embedding, modules, .. } = self;
        let (before, rest) = modules.split_at_mut(number);
        let (head, embedding) = (head.as_mut().expect(BEHIND), embedding.as_mut().expect(BEHIND));
        Shared { head, embedding, before: before.last_mut(), module: &mut rest[0] }
    }

    /// A block's output becomes the input of the next one; behind the last of a stage that is not the last it is sent on.
    fn pass_on(
        &self,
        of: &Context<'_, D>,
        output: Tensor<D, Tokens, S::Hidden, E>,
        next: usize,
    ) -> Result<Tensor<D, Tokens, S::Hidden, E>, StepError> {
        let is_sent = next == self.layers.len() && self.head.is_none();
        if is_sent {
            return Ok(output);
        }
        let input = output.becomes(self.input_name(next))?;
        of.room.ledger.end(None)?;
        Ok(input)
    }

    /// What the input of a layer is called, or of the head behind them.
    fn input_name(&self, layer: usize) -> &'static str {
        if layer == self.layers.len() { "final norm input" } else { "attention input" }
    }

    pub(super) fn backward(
        &mut self,
        of: &Context<'_, D>,
        gradients: &mut Gradients<D>,
        mut kept: InFlight<D, S, E>,
    ) -> Result<(), StepError> {
        let ledger = of.room.ledger;
        if self.is_empty() {
            return of.pass_on(Direction::Backward);
        }
        #[allow(clippy::cast_precision_loss)] // micro-batches of a step, modules
        let (weight, modules) = (1.0 / of.micro_batches() as f32, self.modules.len() as f32);
        let mut residual: Option<Tensor<D, Tokens, S::Hidden, E>> = None;
        for module in (0..self.modules.len()).rev() {
            let weight = weight * of.numerics.mtp_weight / modules;
            residual = self.predict_backward(of, gradients, module, &mut kept, weight, residual)?;
        }
        if let (Some(head), Some((x, kept))) = (&mut self.head, kept.head) {
            ledger.begin(Block::Head, Direction::Backward);
            let (exit, table) = head.parts(self.embedding.as_mut());
            let carried = residual.take().map(|residual| residual.becomes(RESIDUAL)).transpose()?;
            of.begin(gradients, Block::Head, &mut [&mut *exit as &mut dyn Visit<D, E>, &mut *table])?;
            let d = exit.backward(of, gradients, table, x.view(), kept, weight, carried)?;
            of.end(gradients, &mut [exit as &mut dyn Visit<D, E>, table])?;
            drop(x);
            ledger.end(Some(d.ticket()))?;
            residual = Some(d);
        }
        for (layer, kept) in self.layers.iter_mut().zip(kept.layers).rev() {
            residual = Some(layer.backward(of, gradients, kept, residual.take())?);
        }
        let is_first = of.place == 0;
        if let (Some(embedding), Some(ids), true) = (&mut self.embedding, kept.ids, is_first) {
            ledger.begin(Block::Embedding, Direction::Backward);
            let d = carried(of, residual.take())?;
            of.begin(gradients, Block::Embedding, embedding)?;
            embedding.backward(of, gradients, &ids, &d)?;
            of.end(gradients, embedding)?;
            drop(d);
            ledger.end(None)?;
        }
        if let Some(residual) = residual.filter(|_| !is_first) {
            of.send(Direction::Backward, residual.view())?;
        }
        Ok(())
    }

    /// The way back through the last module that is left; gives the gradient of the hidden state that it read.
    fn predict_backward(
        &mut self,
        of: &Context<'_, D>,
        gradients: &mut Gradients<D>,
        number: usize,
        kept: &mut InFlight<D, S, E>,
        weight: f32,
        residual: Option<Tensor<D, Tokens, S::Hidden, E>>,
    ) -> Result<Option<Tensor<D, Tokens, S::Hidden, E>>, StepError> {
        let ledger = of.room.ledger;
        let Some(KeptModule { entrance, layer, exit: (x, kept_exit) }) = kept.modules.pop() else {
            return Ok(residual);
        };
        let Shared { head, embedding, before, module } = self.shared(number);
        ledger.begin(Block::MtpHead, Direction::Backward);
        let carried_on = residual.map(|residual| residual.becomes(RESIDUAL)).transpose()?;
        let ((_, table), exit) = (head.parts(Some(embedding)), &mut module.exit);
        of.begin(gradients, Block::MtpHead, &mut [&mut *exit as &mut dyn Visit<D, E>, &mut *table])?;
        let d = exit.backward(of, gradients, table, x.view(), kept_exit, weight, carried_on)?;
        of.end(gradients, &mut [exit as &mut dyn Visit<D, E>, table])?;
        drop(x);
        ledger.end(Some(d.ticket()))?;
        let d = module.layer.backward(of, gradients, layer, Some(d))?;
        ledger.begin(Block::Mtp, Direction::Backward);
        let mut d = carried(of, Some(d))?;
        let ((x, rows), norm) = (read(kept, number), norm_of(head, before));
        let ids = kept.ids.as_ref().expect(BEHIND);
        of.begin(
            gradients,
            Block::Mtp,
            &mut [&mut *norm as &mut dyn Visit<D, E>, &mut *embedding, &mut module.entrance],
        )?;
        let hidden = Hidden { norm: &*norm, x, rows };
        module.entrance.backward(of, gradients, (embedding, ids), &hidden, &entrance, &mut d)?;
        of.end(gradients, &mut [norm as &mut dyn Visit<D, E>, embedding, &mut module.entrance])?;
        drop(entrance);
        ledger.end(Some(d.ticket()))?;
        Ok(Some(d))
    }
}

/// A module for multi-token prediction, and what it shares with the model and with the module in front of it.
struct Shared<'m, D: Memory, S: Shapes, E: Element> {
    head: &'m mut Head<D, S, E>,
    embedding: &'m mut Embedding<D, S, E>,
    before: Option<&'m mut Mtp<D, S, E>>,
    module: &'m mut Mtp<D, S, E>,
}

const BEHIND: &str = "modules for multi-token prediction stand behind the head, and have an embedding";

/// The norm whose output a module reads: the model's, or that of the module in front.
fn norm_of<'m, D: Memory, S: Shapes, E: Element>(
    head: &'m mut Head<D, S, E>,
    before: Option<&'m mut Mtp<D, S, E>>,
) -> &'m mut Param<D, S::Hidden, One, E> {
    match before {
        Some(module) => &mut module.exit.norm,
        None => &mut head.exit.norm,
    }
}

/// What that norm read, and its statistics.
type Read<'k, D, S, E> = (View<'k, D, Tokens, <S as Shapes>::Hidden, E>, View<'k, D, Tokens, One, f32>);

fn read<D: Memory, S: Shapes, E: Element>(kept: &InFlight<D, S, E>, module: usize) -> Read<'_, D, S, E> {
    let all = kept.head.iter().chain(kept.modules.iter().map(|module| &module.exit));
    let (x, kept) = all.into_iter().nth(module).expect("a module stands behind a head");
    (x.view(), kept.statistics())
}

/// Tokens so many further in their sequences, which are so long.
struct Ahead {
    by: usize,
    sequence: usize,
}

impl Ahead {
    /// Their ids; where a sequence has no more, some of its own, which nothing is predicted from.
    fn ids(&self, batch: &mut dyn Batch, micro_batch: u64, out: &mut [i64]) {
        batch.ids(micro_batch, out);
        self.sequences(out).for_each(drop);
    }

    /// Their labels; of the last ones of a sequence nothing is known.
    fn labels(&self, batch: &mut dyn Batch, micro_batch: u64, out: &mut [i64]) {
        batch.labels(micro_batch, out);
        self.sequences(out).for_each(|rest| rest.fill(-1));
    }

    /// Moves all to the front of their sequences; gives what was there before, behind them.
    fn sequences<'o>(&self, out: &'o mut [i64]) -> impl Iterator<Item = &'o mut [i64]> + use<'o> {
        let by = self.by;
        out.chunks_mut(self.sequence.max(1)).map(move |sequence| {
            let by = by.min(sequence.len());
            sequence.rotate_left(by);
            let known = sequence.len() - by;
            &mut sequence[known..]
        })
    }
}
