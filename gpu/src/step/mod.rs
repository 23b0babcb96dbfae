//! The reference step: micro-batches through the blocks of one rank, forward and backward in the order of its schedule, and
//! the optimizer's update, every allocation asserted against the budget.
//!
//! A rank is alone: its peers are stood in for, and its buffers are of their true size. A model that is laid out on one rank
//! is the whole model, and computes what any other implementation of it computes.

mod attention;
mod context;
mod dense;
mod ends;
mod moe;
mod mtp;
mod params;
mod save;

pub use params::{Flat, Place};

use crate::comm::Solo;
use crate::device::{Device, Element, Format, Memory, Mut};
use crate::ledger::{Direction, Ledger};
use crate::numerics::Numerics;
use crate::ops::adamw::AdamW;
use crate::shapes::{Context as All, Lengths, Shapes, Tokens};
use crate::tensor::{Room, StepError, Tensor};
use attention::Attention;
use context::Context;
use dense::Dense;
use ends::{Embedding, Head};
use moe::Moe;
use moe_model_core::events::Work;
use moe_model_core::inventory::Block;
use moe_model_core::spec::{self, Recompute};
use moe_model_core::{Phase, Plan};
use mtp::{Hidden, Mtp};
use params::{Gradients, Maker, States, Visit, Visitor};
use std::collections::BTreeMap;

/// How many copies of tokens come to the experts of a rank whose peers are stood in for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Load {
    /// As many as the budget counts.
    #[default]
    Declared,
    /// All that can: every token of every rank chooses experts of this one.
    AllHere,
}

/// Where the values of weights come from.
pub trait Source {
    /// Fills a weight, row by row.
    ///
    /// # Errors
    /// If there is none, or it is of another shape.
    fn fill(&mut self, place: &Place, out: &mut [f32]) -> Result<(), String>;
}

/// Tokens of a step.
pub trait Batch {
    /// Fills in the token ids of a micro-batch, sequence by sequence.
    fn ids(&mut self, micro_batch: u64, out: &mut [i64]);
    /// Fills in what is to be predicted at each token; a negative number where nothing is.
    fn labels(&mut self, micro_batch: u64, out: &mut [i64]);
}

/// Sees values that a step computes, by name and layer: the residual stream, what routers choose, logits.
pub type Probe<'p> = &'p mut dyn FnMut(&'static str, Option<u64>, Seen<'_>);

/// Values that a probe sees.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'a> {
    /// Numbers.
    Values(&'a [f32]),
    /// Experts.
    Indices(&'a [i32]),
}

/// A layout whose dimensions are types: what `moe_model!` makes of one that is declared with literal numbers and
/// `accounting: reference`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no typed reference step",
    label = "not a layout with a typed step",
    note = "a layout has one if it is declared with `accounting: reference`, and all its numbers, and those of its \
            architecture, are literals"
)]
pub trait Reference: Shapes {
    /// The model.
    type Model;
    /// The format of weights and activations.
    type Weights: Format;
    /// The format of moments.
    type Moments: Format;
    /// The plan.
    const PLAN: Plan;
}

/// What a step did.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Report {
    /// The mean loss over all micro-batches, in nats a token, on a stage that has the loss and a device that has values.
    pub loss: Option<f64>,
    /// The mean loss of the modules for multi-token prediction, before it is weighed, where there are some.
    pub mtp_loss: Option<f64>,
}

/// One rank of a layout: its weights, gradients and optimizer state, and its steps.
pub struct Step<D: Device, S: Shapes, E: Format, M: Format = f32> {
    plan: Plan,
    stage: u64,
    device: D,
    lengths: Lengths,
    ledger: Ledger,
    numerics: Numerics,
    load: Load,
    steps: i32,
    model: Model<D, S, E>,
    gradients: Gradients<D>,
    states: States<D, M>,
}

/// The weights of a stage.
struct Model<D: Memory, S: Shapes, E: Element> {
    embedding: Option<Embedding<D, S, E>>,
    layers: Vec<Layer<D, S, E>>,
    head: Option<Head<D, S, E>>,
    modules: Vec<Mtp<D, S, E>>,
}

struct Layer<D: Memory, S: Shapes, E: Element> {
    number: u64,
    attention: Attention<D, S, E>,
    network: Network<D, S, E>,
}

enum Network<D: Memory, S: Shapes, E: Element> {
    Dense(Dense<D, S, E>),
    Moe(Moe<D, S, E>),
}

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Model<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        params::visit_fields!(self, visitor: embedding, layers, head, modules)
    }
}

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Layer<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        self.attention.visit(visitor)?;
        match &mut self.network {
            Network::Dense(dense) => dense.visit(visitor),
            Network::Moe(moe) => moe.visit(visitor),
        }
    }
}

/// What a micro-batch keeps from its forward to its backward.
struct InFlight<D: Memory, S: Shapes, E: Element> {
    ids: Option<ends::Ids<D>>,
    layers: Vec<KeptLayer<D, S, E>>,
    head: Option<KeptExit<D, S, E>>,
    modules: Vec<KeptModule<D, S, E>>,
}

/// The input of a head, and what else it keeps.
type KeptExit<D, S, E> = (Tensor<D, Tokens, <S as Shapes>::Hidden, E>, ends::Kept<D, S>);

/// What a module for multi-token prediction keeps.
struct KeptModule<D: Memory, S: Shapes, E: Element> {
    entrance: mtp::Kept<D, S, E>,
    layer: KeptLayer<D, S, E>,
    exit: KeptExit<D, S, E>,
}

/// The inputs of a layer's blocks, and what else they keep where they are not computed again.
struct KeptLayer<D: Memory, S: Shapes, E: Element> {
    attention: (Tensor<D, Tokens, S::Hidden, E>, Option<attention::Kept<D, S, E>>),
    network: (Tensor<D, Tokens, S::Hidden, E>, Option<KeptNetwork<D, S, E>>),
}

enum KeptNetwork<D: Memory, S: Shapes, E: Element> {
    Dense(dense::Kept<D, S, E>),
    Moe(moe::Kept<D, S, E>),
}

impl<D: Device, S: Shapes, E: Format, M: Format> Step<D, S, E, M> {
    /// Sets aside weights, gradients and optimizer state of one rank of a stage, and fills in weights.
    ///
    /// # Errors
    /// If the layout is not of `accounting: reference`, dimensions that types say are not the plan's, or formats not those of
    /// its precisions; if memory is refused, or a weight is missing.
    pub fn new(
        plan: Plan,
        stage: u64,
        device: D,
        numerics: Numerics,
        source: &mut dyn Source,
    ) -> Result<Self, StepError> {
        check::<S, E, M>(&plan, stage)?;
        let (lengths, ledger) = (Lengths::of(&plan, stage), Ledger::of(&plan, stage));
        let room = Room { device: &device, ledger: &ledger, lengths: &lengths };
        device.prepare(&lengths);
        let mut model = Model::new(room, &plan, stage)?;
        let mut gradients = Gradients::new(room)?;
        gradients.zero(&device);
        let mut states = States::new(room)?;
        model.visit(&mut Fill { device: &device, source })?;
        let shards = [lengths.dense_shard, lengths.expert_shard];
        model.visit(&mut Widen { device: &device, states: &mut states, shards })?;
        Ok(Self {
            plan,
            stage,
            device,
            lengths,
            ledger,
            numerics,
            load: Load::Declared,
            steps: 0,
            model,
            gradients,
            states,
        })
    }

    /// Has so many copies of tokens come to this rank's experts.
    #[must_use]
    pub fn with_load(self, load: Load) -> Self {
        Self { load, ..self }
    }

    /// Its ledger.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Forward and backward of all micro-batches of a step, in the order of the schedule; gradients add up over them.
    ///
    /// # Errors
    /// If the ledger or the device refuses an allocation.
    pub fn gradients(&mut self, batch: &mut dyn Batch, probe: Option<Probe<'_>>) -> Result<Report, StepError> {
        self.gradients.zero(&self.device);
        let mut probing = Probing { probe, device: &self.device };
        let room = Room { device: &self.device, ledger: &self.ledger, lengths: &self.lengths };
        let (comm, load) = (Solo, self.load);
        let of = Context { room, plan: &self.plan, stage: self.stage, numerics: &self.numerics, comm, load };
        let mut in_flight = BTreeMap::new();
        let mut losses = Losses::default();
        for event in self.plan.events(self.stage) {
            match event.work {
                Work::Forward => {
                    self.ledger.enter(Phase::Forward);
                    let kept = self.model.forward(&of, batch, event.micro_batch, &mut probing, &mut losses)?;
                    in_flight.insert(event.micro_batch, kept);
                }
                Work::Backward => {
                    self.ledger.enter(Phase::Backward);
                    let Some(kept) = in_flight.remove(&event.micro_batch) else { continue };
                    self.model.backward(&of, &mut self.gradients, kept)?;
                }
                // It came with the gradient of the input.
                Work::Weight => {}
            }
        }
        Ok(Report { loss: Losses::mean(losses.own), mtp_loss: Losses::mean(losses.mtp) })
    }

    /// The optimizer's update, with gradients as they are.
    ///
    /// # Errors
    /// None of its own.
    pub fn update(&mut self, adamw: AdamW) -> Result<(), StepError> {
        self.ledger.enter(Phase::OptimizerStep);
        self.steps += 1;
        let n = &self.lengths;
        update_group(
            &self.device,
            &mut self.states.dense,
            self.gradients.group(false),
            n.dense_parameters,
            adamw,
            self.steps,
        );
        if let Some(state) = &mut self.states.expert {
            let gradient = self.gradients.group(true);
            update_group(&self.device, state, gradient, n.expert_parameters, adamw, self.steps);
        }
        let shards = [n.dense_shard, n.expert_shard];
        self.model.visit(&mut WriteBack { device: &self.device, states: &mut self.states, shards })
    }

    /// A whole step: gradients and update, after which what was held is the budget's to the byte, in each phase.
    ///
    /// # Errors
    /// If an allocation is refused, or a peak is not the budget's.
    pub fn train(&mut self, batch: &mut dyn Batch, adamw: AdamW) -> Result<Report, StepError> {
        let report = self.gradients(batch, None)?;
        self.update(adamw)?;
        self.settle()?;
        Ok(report)
    }

    /// A step is over: what was held in each of its phases is the budget's to the byte.
    ///
    /// # Errors
    /// If it is not, or something of the step is still held.
    pub fn settle(&self) -> Result<(), StepError> {
        self.ledger.enter(Phase::BetweenSteps);
        Ok(self.ledger.settle(&self.plan, self.stage)?)
    }

    /// Shows every weight and buffer, on a device that has values.
    ///
    /// # Errors
    /// None of its own.
    pub fn weights(&mut self, see: &mut dyn FnMut(&Place, &[f32])) -> Result<(), StepError> {
        self.model.visit(&mut Show { device: &self.device, see })
    }

    /// Shows every gradient, on a device that has values.
    ///
    /// # Errors
    /// None of its own.
    pub fn each_gradient(&mut self, see: &mut dyn FnMut(&Place, &[f32])) -> Result<(), StepError> {
        self.model.visit(&mut ShowGradient { device: &self.device, gradients: &mut self.gradients, see })
    }
}

/// Sums of losses, and how many they are: the model's own, and those of modules for multi-token prediction.
#[derive(Default)]
struct Losses {
    own: (f64, u32),
    mtp: (f64, u32),
}

impl Losses {
    fn add(sum: &mut (f64, u32), loss: Option<f64>) {
        if let Some(loss) = loss {
            *sum = (sum.0 + loss, sum.1 + 1);
        }
    }

    fn mean((sum, count): (f64, u32)) -> Option<f64> {
        (count > 0).then(|| sum / f64::from(count))
    }
}

/// Whether types say what the plan says.
fn check<S: Shapes, E: Format, M: Format>(plan: &Plan, stage: u64) -> Result<(), StepError> {
    let layout = &plan.spec().layout;
    if layout.accounting.name() != "reference" || layout.served().is_some() {
        let name = layout.accounting.name();
        let text =
            format!("`accounting` = {name}: the step runs layouts of `accounting: reference`, without `serving`");
        return Err(StepError::Other(text));
    }
    let lengths = Lengths::of(plan, stage);
    if let Some(disagreement) = S::agree(&lengths) {
        return Err(StepError::Other(disagreement.to_string()));
    }
    let last = plan.stages() - 1;
    if plan.counted_mtp() > 0 && plan.chunk(last, 0).mtp == 0 {
        let text = "`stages.list` puts the MTP modules on another rank than the head, where the step does not run them";
        return Err(StepError::Other(text.to_owned()));
    }
    let (key, rotary) = match plan.spec().architecture.attention {
        spec::Attention::Mla(_) => ("rope", lengths.rope),
        _ => ("head_dim", lengths.query_key),
    };
    if !rotary.is_multiple_of(2) {
        return Err(StepError::Other(format!("`attention.{key}` = {rotary}: positions turn pairs of dimensions")));
    }
    let precision = &layout.precision;
    let formats =
        [("weights", precision.weights, <E as Element>::NAME), ("moments", precision.moments, <M as Element>::NAME)];
    for (key, planned, typed) in formats {
        if planned.word() != typed {
            let planned = planned.word();
            return Err(StepError::Other(format!("`precision.{key}` = {planned}, and the step's type says {typed}")));
        }
    }
    Ok(())
}

fn update_group<D: Device, R: crate::shapes::Axis, M: Format>(
    device: &D,
    state: &mut params::State<D, R, M>,
    gradient: Mut<'_, D, f32>,
    parameters: usize,
    adamw: AdamW,
    step: i32,
) {
    // The last shard ends with padding.
    let len = state.master.rows().min(parameters);
    let gradient = gradient.part(0, len);
    device.adamw(
        state.master.view_mut().raw().part(0, len),
        state.first.view_mut().raw().part(0, len),
        state.second.view_mut().raw().part(0, len),
        gradient.read(),
        adamw,
        step,
        1.0,
    );
}

impl<D: Device, S: Shapes, E: Format> Model<D, S, E> {
    fn new(room: Room<'_, D>, plan: &Plan, stage: u64) -> Result<Self, StepError> {
        let (architecture, chunk) = (&plan.spec().architecture, plan.chunk(stage, 0));
        let mut make = Maker::new(room, plan.spec().layout.zero.groups);
        // Modules for multi-token prediction have a copy of their own where the table is on another stage.
        let has_table = chunk.embedding || chunk.mtp > 0;
        let embedding = if has_table { Some(Embedding::new(&mut make)?) } else { None };
        let layer = |make: &mut Maker<'_, D>, number, has_experts| -> Result<Layer<D, S, E>, StepError> {
            make.layer = Some(number);
            let attention = Attention::new(make, architecture, number)?;
            let network = if has_experts {
                Network::Moe(Moe::new(make, architecture)?)
            } else {
                Network::Dense(Dense::new(make)?)
            };
            Ok(Layer { number, attention, network })
        };
        let mut layers = Vec::new();
        for number in chunk.range() {
            layers.push(layer(&mut make, number, architecture.layers.has_experts(number))?);
        }
        let mut modules = Vec::new();
        for depth in 0..chunk.mtp {
            let number = architecture.layers.count() + depth;
            let layer = layer(&mut make, number, architecture.layers.moe > 0)?;
            modules.push(Mtp::new(&mut make, layer, modules.len() + 1)?);
        }
        make.layer = None;
        let is_tied_here = architecture.tied_embeddings.is_on() && has_table;
        let head = if chunk.head { Some(Head::new(&mut make, is_tied_here)?) } else { None };
        debug_assert!(
            make.counted()[0] <= room.lengths.dense_parameters && make.counted()[1] <= room.lengths.expert_parameters,
            "flat buffers hold all parameters"
        );
        Ok(Self { embedding, layers, head, modules })
    }

    fn forward(
        &self,
        of: &Context<'_, D>,
        batch: &mut dyn Batch,
        micro_batch: u64,
        probe: &mut Probing<'_, '_, D>,
        losses: &mut Losses,
    ) -> Result<InFlight<D, S, E>, StepError> {
        let (ledger, device) = (of.room.ledger, of.room.device);
        let mut ids = None;
        if self.embedding.is_some() {
            let mut of_tokens: ends::Ids<D> = of.room.take("token ids")?;
            device.write(of_tokens.view_mut().raw(), |out| batch.ids(micro_batch, out));
            ids = Some(of_tokens);
        }
        let is_first = of.plan.chunk(of.stage, 0).embedding;
        let mut x: Tensor<D, Tokens, S::Hidden, E> = match (&self.embedding, &ids) {
            (Some(embedding), Some(ids)) if is_first => {
                ledger.begin(Block::Embedding, Direction::Forward);
                let output = embedding.forward(of, ids)?;
                self.pass_on(of, output, 0)?
            }
            _ => {
                // What the stage in front would send.
                let mut received: Tensor<D, Tokens, S::Hidden, E> = of.room.take(self.input_name(0))?;
                device.zero(received.view_mut().raw());
                received
            }
        };
        let mut layers = Vec::with_capacity(self.layers.len());
        for (index, layer) in self.layers.iter().enumerate() {
            let (kept, output) = layer.forward(of, x, probe)?;
            layers.push(kept);
            x = self.pass_on(of, output, index + 1)?;
            probe.values("hidden", layer.number + 1, x.view());
        }
        let Some(head) = &self.head else {
            // It is sent on.
            drop(x);
            ledger.end(None)?;
            return Ok(InFlight { ids, layers, head: None, modules: Vec::new() });
        };
        ledger.begin(Block::Head, Direction::Forward);
        let mut labels: ends::Ids<D> = of.room.take("labels")?;
        device.write(labels.view_mut().raw(), |out| batch.labels(micro_batch, out));
        let table = head.table(self.embedding.as_ref());
        let mut see = |output: crate::View<'_, D, All, S::Hidden, E>| probe.values("final_norm", None, output);
        let (kept, loss) = head.exit.forward(of, table, x.view(), labels, &mut see)?;
        Losses::add(&mut losses.own, loss);
        probe.values("logits", None, kept.logits());
        ledger.end(None)?;
        let mut kept = InFlight { ids, layers, head: Some((x, kept)), modules: Vec::new() };
        for module in &self.modules {
            let labels = |out: &mut [i64]| further(batch, micro_batch, module.depth, of.room.lengths.keys, out);
            let (of_module, loss) = self.predict(of, module, &kept, labels, probe)?;
            Losses::add(&mut losses.mtp, loss);
            kept.modules.push(of_module);
        }
        Ok(kept)
    }

    /// One module for multi-token prediction, behind the head or the module in front of it.
    fn predict(
        &self,
        of: &Context<'_, D>,
        module: &Mtp<D, S, E>,
        kept: &InFlight<D, S, E>,
        labels: impl FnOnce(&mut [i64]),
        probe: &mut Probing<'_, '_, D>,
    ) -> Result<(KeptModule<D, S, E>, Option<f64>), StepError> {
        let ledger = of.room.ledger;
        let Shared { head, embedding, ids } = self.shared(kept.ids.as_ref());
        ledger.begin(Block::Mtp, Direction::Forward);
        let hidden = self.hidden(kept, module.depth - 1);
        let (entrance, output) = module.forward(of, embedding, ids, &hidden)?;
        let x = output.becomes("attention input")?;
        ledger.end(None)?;
        let (layer, output) = module.layer.forward(of, x, probe)?;
        let x = output.becomes("final norm input")?;
        ledger.end(None)?;
        ledger.begin(Block::MtpHead, Direction::Forward);
        let mut of_tokens: ends::Ids<D> = of.room.take("labels")?;
        of.room.device.write(of_tokens.view_mut().raw(), labels);
        let table = head.table(Some(embedding));
        let (exit, loss) = module.exit.forward(of, table, x.view(), of_tokens, &mut |_| ())?;
        ledger.end(None)?;
        Ok((KeptModule { entrance, layer, exit: (x, exit) }, loss))
    }

    /// What modules for multi-token prediction share with the model.
    fn shared<'m>(&'m self, ids: Option<&'m ends::Ids<D>>) -> Shared<'m, D, S, E> {
        let (head, embedding) = (self.head.as_ref(), self.embedding.as_ref());
        let here = "modules for multi-token prediction stand behind the head, and have an embedding";
        Shared { head: head.expect(here), embedding: embedding.expect(here), ids: ids.expect(here) }
    }

    /// The hidden state that a module reads: behind the model's norm, or that of the module in front.
    fn hidden<'m>(&'m self, kept: &'m InFlight<D, S, E>, module: usize) -> Hidden<'m, D, S, E> {
        let exits = self.head.iter().map(|head| &head.exit).chain(self.modules.iter().map(|module| &module.exit));
        let all = kept.head.iter().chain(kept.modules.iter().map(|module| &module.exit));
        let (exit, (x, kept)) = exits.zip(all).nth(module).expect("a module stands behind a head");
        Hidden { norm: &exit.norm, x: x.view(), rows: kept.statistics() }
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

    fn backward(
        &self,
        of: &Context<'_, D>,
        gradients: &mut Gradients<D>,
        mut kept: InFlight<D, S, E>,
    ) -> Result<(), StepError> {
        let ledger = of.room.ledger;
        #[allow(clippy::cast_precision_loss)] // micro-batches of a step, modules
        let (weight, modules) = (1.0 / of.plan.spec().layout.batch.count as f32, self.modules.len() as f32);
        let mut residual: Option<Tensor<D, Tokens, S::Hidden, E>> = None;
        for module in self.modules.iter().rev() {
            let weight = weight * of.numerics.mtp_weight / modules;
            residual = self.predict_backward(of, gradients, module, &mut kept, weight, residual)?;
        }
        if let (Some(head), Some((x, kept))) = (&self.head, kept.head) {
            ledger.begin(Block::Head, Direction::Backward);
            let table = head.table(self.embedding.as_ref());
            let carried = residual.take().map(|residual| residual.becomes(RESIDUAL)).transpose()?;
            let d = head.exit.backward(of, gradients, table, x.view(), kept, weight, carried)?;
            drop(x);
            ledger.end(Some(d.ticket()))?;
            residual = Some(d);
        }
        for (layer, kept) in self.layers.iter().zip(kept.layers).rev() {
            residual = Some(layer.backward(of, gradients, kept, residual.take())?);
        }
        let is_first = of.plan.chunk(of.stage, 0).embedding;
        if let (Some(embedding), Some(ids), true) = (&self.embedding, kept.ids, is_first) {
            ledger.begin(Block::Embedding, Direction::Backward);
            let d = carried(of, residual.take())?;
            embedding.backward(of, gradients, &ids, &d)?;
            drop(d);
            ledger.end(None)?;
        }
        // Or it is sent to the stage in front.
        Ok(())
    }

    /// The way back through the last module that is left; gives the gradient of the hidden state that it read.
    fn predict_backward(
        &self,
        of: &Context<'_, D>,
        gradients: &mut Gradients<D>,
        module: &Mtp<D, S, E>,
        kept: &mut InFlight<D, S, E>,
        weight: f32,
        residual: Option<Tensor<D, Tokens, S::Hidden, E>>,
    ) -> Result<Option<Tensor<D, Tokens, S::Hidden, E>>, StepError> {
        let ledger = of.room.ledger;
        let Some(KeptModule { entrance, layer, exit: (x, exit) }) = kept.modules.pop() else { return Ok(residual) };
        let Shared { head, embedding, ids } = self.shared(kept.ids.as_ref());
        ledger.begin(Block::MtpHead, Direction::Backward);
        let carried_on = residual.map(|residual| residual.becomes(RESIDUAL)).transpose()?;
        let table = head.table(Some(embedding));
        let d = module.exit.backward(of, gradients, table, x.view(), exit, weight, carried_on)?;
        drop(x);
        ledger.end(Some(d.ticket()))?;
        let d = module.layer.backward(of, gradients, layer, Some(d))?;
        ledger.begin(Block::Mtp, Direction::Backward);
        let mut d = carried(of, Some(d))?;
        let hidden = self.hidden(kept, module.depth - 1);
        module.backward(of, gradients, (embedding, ids), &hidden, &entrance, &mut d)?;
        drop(entrance);
        ledger.end(Some(d.ticket()))?;
        Ok(Some(d))
    }
}

/// What modules for multi-token prediction share with the model, and the tokens that they look ahead to.
struct Shared<'m, D: Memory, S: Shapes, E: Element> {
    head: &'m Head<D, S, E>,
    embedding: &'m Embedding<D, S, E>,
    ids: &'m ends::Ids<D>,
}

/// Labels of tokens so many further; of the last ones of a sequence nothing is known.
fn further(batch: &mut dyn Batch, micro_batch: u64, ahead: usize, sequence: usize, out: &mut [i64]) {
    batch.labels(micro_batch, out);
    for labels in out.chunks_mut(sequence.max(1)) {
        let ahead = ahead.min(labels.len());
        labels.rotate_left(ahead);
        let known = labels.len() - ahead;
        labels[known..].fill(-1);
    }
}

impl<D: Device, S: Shapes, E: Format> Layer<D, S, E> {
    /// Attention and network; gives what is kept, and the output, while the network's frame is open.
    fn forward(
        &self,
        of: &Context<'_, D>,
        x: Tensor<D, Tokens, S::Hidden, E>,
        probe: &mut Probing<'_, '_, D>,
    ) -> Result<(KeptLayer<D, S, E>, Tensor<D, Tokens, S::Hidden, E>), StepError> {
        let ledger = of.room.ledger;
        let again = matches!(of.plan.spec().layout.recompute, Recompute::Full);
        ledger.begin(attention::BLOCK, Direction::Forward);
        let (kept, output) = self.attention.forward(of, x.view())?;
        let attention = (x, (!again).then_some(kept));
        let input = output.becomes(self.network.input_name())?;
        ledger.end(None)?;
        probe.values("hidden_mid", self.number, input.view());
        ledger.begin(self.network.block(), Direction::Forward);
        let (kept, output) = self.network.forward(of, input.view(), self.number, probe)?;
        Ok((KeptLayer { attention, network: (input, (!again).then_some(kept)) }, output))
    }

    /// The gradient of the output becomes that of the input.
    fn backward(
        &self,
        of: &Context<'_, D>,
        gradients: &mut Gradients<D>,
        kept: KeptLayer<D, S, E>,
        residual: Option<Tensor<D, Tokens, S::Hidden, E>>,
    ) -> Result<Tensor<D, Tokens, S::Hidden, E>, StepError> {
        let ledger = of.room.ledger;
        let (input, network) = kept.network;
        ledger.begin(self.network.block(), Direction::Backward);
        let mut d = carried(of, residual)?;
        self.network.backward(of, gradients, input.view(), network, &mut d)?;
        drop(input);
        ledger.end(Some(d.ticket()))?;
        let (input, attention) = kept.attention;
        ledger.begin(attention::BLOCK, Direction::Backward);
        let mut d = carried(of, Some(d))?;
        self.attention.backward(of, gradients, input.view(), attention, &mut d)?;
        drop(input);
        ledger.end(Some(d.ticket()))?;
        Ok(d)
    }
}

/// What goes from block to block in backward.
const RESIDUAL: &str = "residual gradient";

/// The gradient of the residual stream, as the next block has it; what the next stage would send, if it comes from there.
fn carried<D: Device, H: crate::shapes::Axis, E: Format>(
    of: &Context<'_, D>,
    residual: Option<Tensor<D, Tokens, H, E>>,
) -> Result<Tensor<D, Tokens, H, E>, StepError> {
    if let Some(residual) = residual {
        return residual.becomes(RESIDUAL);
    }
    let mut received: Tensor<D, Tokens, H, E> = of.room.take(RESIDUAL)?;
    of.room.device.zero(received.view_mut().raw());
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
        x: crate::View<'_, D, Tokens, S::Hidden, E>,
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
        x: crate::View<'_, D, Tokens, S::Hidden, E>,
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

/// A probe, if there is one, and where values lie.
struct Probing<'p, 'd, D> {
    probe: Option<Probe<'p>>,
    device: &'d D,
}

impl<D: Memory> Probing<'_, '_, D> {
    fn values<R, C, E: Format>(
        &mut self,
        name: &'static str,
        layer: impl Into<Option<u64>>,
        of: crate::View<'_, D, R, C, E>,
    ) {
        let (Some(probe), layer) = (&mut self.probe, layer.into()) else { return };
        self.device.read(of.raw(), |values| {
            let values: Vec<f32> = values.iter().map(|value| value.to_f32()).collect();
            probe(name, layer, Seen::Values(&values));
        });
    }

    fn indices<R, C>(&mut self, name: &'static str, layer: u64, of: crate::View<'_, D, R, C, i32>) {
        let Some(probe) = &mut self.probe else { return };
        self.device.read(of.raw(), |indices| probe(name, Some(layer), Seen::Indices(indices)));
    }
}

struct Fill<'a, D> {
    device: &'a D,
    source: &'a mut dyn Source,
}

impl<D: Memory> Fill<'_, D> {
    fn fill<E: Format>(&mut self, place: Place, elements: Mut<'_, D, E>) -> Result<(), StepError> {
        let mut filled = Ok(());
        self.device.write(elements, |out| {
            let mut values = vec![0.0; out.len()];
            filled = self.source.fill(&place, &mut values);
            out.iter_mut().zip(values).for_each(|(out, value)| *out = E::of_f32(value));
        });
        filled.map_err(StepError::Other)
    }
}

impl<D: Memory, E: Format> Visitor<D, E> for Fill<'_, D> {
    fn param(&mut self, place: Place, _: Flat, elements: Mut<'_, D, E>) -> Result<(), StepError> {
        self.fill(place, elements)
    }

    fn buffer(&mut self, place: Place, elements: Mut<'_, D, f32>) -> Result<(), StepError> {
        self.fill(place, elements)
    }
}

/// What of a parameter lies in a rank's shard: where there, where in the parameter, and how much.
fn overlap(flat: Flat, len: usize, shards: [usize; 2]) -> Option<(usize, usize, usize)> {
    // The first rank's shard begins with the first parameter.
    let end = shards[usize::from(flat.expert)].min(flat.start + len);
    (flat.start < end).then(|| (flat.start, 0, end - flat.start))
}

struct Widen<'a, D: Memory, M: Element> {
    device: &'a D,
    states: &'a mut States<D, M>,
    shards: [usize; 2],
}

impl<D: Device, E: Format, M: Format> Visitor<D, E> for Widen<'_, D, M> {
    fn param(&mut self, _: Place, flat: Flat, elements: Mut<'_, D, E>) -> Result<(), StepError> {
        if let Some((at, from, len)) = overlap(flat, elements.len(), self.shards) {
            let master = self.states.master(flat.expert).part(at, len);
            self.device.widen(master, elements.part(from, len).read());
        }
        Ok(())
    }

    fn buffer(&mut self, _: Place, _: Mut<'_, D, f32>) -> Result<(), StepError> {
        Ok(())
    }
}

struct WriteBack<'a, D: Memory, M: Element> {
    device: &'a D,
    states: &'a mut States<D, M>,
    shards: [usize; 2],
}

impl<D: Device, E: Format, M: Format> Visitor<D, E> for WriteBack<'_, D, M> {
    fn param(&mut self, _: Place, flat: Flat, elements: Mut<'_, D, E>) -> Result<(), StepError> {
        if let Some((at, from, len)) = overlap(flat, elements.len(), self.shards) {
            let master = self.states.master(flat.expert).part(at, len);
            self.device.write_back(elements.part(from, len), master.read());
        }
        Ok(())
    }

    fn buffer(&mut self, _: Place, _: Mut<'_, D, f32>) -> Result<(), StepError> {
        Ok(())
    }
}

struct Show<'a, D> {
    device: &'a D,
    see: &'a mut dyn FnMut(&Place, &[f32]),
}

impl<D: Memory> Show<'_, D> {
    fn show<E: Format>(&mut self, place: Place, elements: &Mut<'_, D, E>) {
        self.device.read(elements.read(), |values| {
            let values: Vec<f32> = values.iter().map(|value| value.to_f32()).collect();
            (self.see)(&place, &values);
        });
    }
}

impl<D: Memory, E: Format> Visitor<D, E> for Show<'_, D> {
    fn param(&mut self, place: Place, _: Flat, elements: Mut<'_, D, E>) -> Result<(), StepError> {
        self.show(place, &elements);
        Ok(())
    }

    fn buffer(&mut self, place: Place, elements: Mut<'_, D, f32>) -> Result<(), StepError> {
        self.show(place, &elements);
        Ok(())
    }
}

struct ShowGradient<'a, D: Memory> {
    device: &'a D,
    gradients: &'a mut Gradients<D>,
    see: &'a mut dyn FnMut(&Place, &[f32]),
}

impl<D: Memory, E: Format> Visitor<D, E> for ShowGradient<'_, D> {
    fn param(&mut self, place: Place, flat: Flat, elements: Mut<'_, D, E>) -> Result<(), StepError> {
        let gradient = self.gradients.group(flat.expert).part(flat.start, elements.len());
        self.device.read(gradient.read(), |values| (self.see)(&place, values));
        Ok(())
    }

    fn buffer(&mut self, _: Place, _: Mut<'_, D, f32>) -> Result<(), StepError> {
        Ok(())
    }
}
