//! The reference step: micro-batches through the blocks of one rank, forward and backward in the order of its schedule, and
//! the optimizer's update, every allocation asserted against the budget.
//!
//! A rank is alone: its peers are stood in for, and its buffers are of their true size. A model that is laid out on one rank
//! is the whole model, and computes what any other implementation of it computes.

mod attention;
mod context;
mod dense;
mod ends;
mod gradients;
mod layer;
mod model;
mod moe;
mod mtp;
mod params;
mod probe;
mod ring;
mod save;
mod shared_out;
mod sync;
mod trade;
mod weights;

pub use params::Place;
pub use probe::{Probe, Seen};

use crate::comm::{Carrier, Comm};
use crate::device::{Device, Element, Format, Memory, Mut};
use crate::ledger::Ledger;
use crate::numerics::Numerics;
use crate::ops::adamw::AdamW;
use crate::shapes::{Axis, Lengths, Shapes};
use crate::tensor::{Room, StepError};
use context::Context;
use core::ops::Range;
use gradients::{Gradients, States};
use model::{Losses, Model};
use moe_model_core::events::Work;
use moe_model_core::manifest::Orders;
use moe_model_core::spec::{ZeroGroups, ZeroStage};
use moe_model_core::{Phase, Plan};
use params::Visit;
use probe::Probing;
use shared_out::Release;
use std::collections::BTreeMap;
use weights::{Fill, Show, ShowGradient, Widen, WriteBack};

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
    /// Micro-batches whose activations were held at once, at most, each chunk's counted by itself.
    pub in_flight: u64,
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
    comm: Comm,
    /// In which order it holds experts.
    orders: Orders,
    steps: i32,
    model: Model<D, S, E>,
    gradients: Gradients<D>,
    states: States<D, M>,
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
        Self::of(Comm::alone(&plan, stage), plan, stage, device, numerics, source)
    }

    /// The same of a rank of a world, which exchanges with its peers what they have.
    ///
    /// # Errors
    /// As of one that is alone, or if ZeRO shares state over other groups than a parameter's replicas.
    pub fn in_world(
        plan: Plan,
        rank: u64,
        carrier: Box<dyn Carrier>,
        device: D,
        numerics: Numerics,
        source: &mut dyn Source,
    ) -> Result<Self, StepError> {
        let zero = &plan.spec().layout.zero;
        if zero.groups != ZeroGroups::ByReplica || zero.instances > 1 {
            let text =
                "ranks of a world share state over a parameter's replicas: `zero.groups: by_replica`, one instance";
            return Err(StepError::Other(text.to_owned()));
        }
        let comm = Comm::of_world(&plan, rank, carrier);
        let stage = comm.place().pp;
        Self::of(comm, plan, stage, device, numerics, source)
    }

    fn of(
        comm: Comm,
        plan: Plan,
        stage: u64,
        device: D,
        numerics: Numerics,
        source: &mut dyn Source,
    ) -> Result<Self, StepError> {
        check::<S, E, M>(&plan, stage)?;
        let (lengths, ledger) = (Lengths::of(&plan, stage), Ledger::of(&plan, stage));
        let room = Room { device: &device, ledger: &ledger, lengths: &lengths };
        device.prepare(&lengths).map_err(|error| StepError::refused("what operations work on", error))?;
        let mut model = Model::new(room, &plan, &comm)?;
        let mut gradients = Gradients::new(room)?;
        gradients.zero(&device);
        let mut states = States::new(room)?;
        model.visit(&mut Fill { device: &device, source })?;
        model.visit(&mut Widen { device: &device, states: &mut states })?;
        device.finish()?;
        Ok(Self {
            plan,
            stage,
            device,
            lengths,
            ledger,
            numerics,
            load: Load::Declared,
            comm,
            orders: Orders::MODEL,
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

    /// Its way to its peers.
    #[must_use]
    pub fn comm(&self) -> &Comm {
        &self.comm
    }

    /// Forward and backward of all micro-batches of a step, in the order of the schedule; gradients add up over them.
    ///
    /// # Errors
    /// If the ledger or the device refuses an allocation, or the device fails.
    pub fn gradients(&mut self, batch: &mut dyn Batch, probe: Option<Probe<'_>>) -> Result<Report, StepError> {
        let report = self.micro_batches(batch, probe);
        finished(&self.device, report)
    }

    fn micro_batches(&mut self, batch: &mut dyn Batch, probe: Option<Probe<'_>>) -> Result<Report, StepError> {
        self.ledger.start();
        // A step that failed may have left some.
        self.model.visit(&mut Release)?;
        self.gradients.zero(&self.device);
        let mut probing = Probing { probe, device: &self.device };
        let room = Room { device: &self.device, ledger: &self.ledger, lengths: &self.lengths };
        let (comm, load) = (&self.comm, self.load);
        let mut of = Context { room, plan: &self.plan, place: 0, micro_batch: 0, numerics: &self.numerics, comm, load };
        let (mut in_flight, mut most) = (BTreeMap::new(), 0);
        let mut losses = Losses::default();
        for event in self.plan.events(self.stage) {
            let Some(chunk) = usize::try_from(event.chunk).ok().and_then(|chunk| self.model.chunks.get_mut(chunk))
            else {
                continue;
            };
            (of.place, of.micro_batch) = (self.plan.chunk(self.stage, event.chunk).place, event.micro_batch);
            match event.work {
                Work::Forward => {
                    self.ledger.enter(Phase::Forward);
                    let kept = chunk.forward(&of, batch, &mut probing, &mut losses)?;
                    in_flight.insert((event.chunk, event.micro_batch), kept);
                    most = most.max(in_flight.len() as u64);
                }
                Work::Backward => {
                    self.ledger.enter(Phase::Backward);
                    let Some(kept) = in_flight.remove(&(event.chunk, event.micro_batch)) else { continue };
                    chunk.backward(&of, &mut self.gradients, kept)?;
                }
                // It came with the gradient of the input.
                Work::Weight => {}
            }
        }
        let [loss, mtp_loss] = [losses.own, losses.mtp].map(Losses::mean);
        Ok(Report { in_flight: most, loss, mtp_loss })
    }

    /// The optimizer's update, with gradients as they are.
    ///
    /// # Errors
    /// If the device fails, or a peer: some weights and states are then as before, others not.
    pub fn update(&mut self, adamw: AdamW) -> Result<(), StepError> {
        let updated = self.update_all(adamw);
        finished(&self.device, updated)
    }

    fn update_all(&mut self, adamw: AdamW) -> Result<(), StepError> {
        self.ledger.enter(Phase::OptimizerStep);
        sync::gradients(self)?;
        self.steps += 1;
        let [dense, expert] = [false, true].map(|expert| self.updated(expert));
        update_group(&self.device, &mut self.states.dense, self.gradients.group(false), dense, adamw, self.steps);
        if let Some(state) = &mut self.states.expert {
            update_group(&self.device, state, self.gradients.group(true), expert, adamw, self.steps);
        }
        self.model.visit(&mut WriteBack { device: &self.device, states: &mut self.states })?;
        sync::weights(self)
    }

    /// Which of a group's gradients the rank updates weights with.
    fn updated(&self, expert: bool) -> Range<usize> {
        let (zero, n) = (&self.plan.spec().layout.zero, &self.lengths);
        let (stage, held) = if expert { (zero.expert, n.expert_gradients) } else { (zero.dense, n.dense_gradients) };
        // It holds no others of those.
        let is_all = matches!(stage, ZeroStage::Gradients | ZeroStage::Parameters);
        if is_all { 0..held } else { self.model.flat_share(&self.plan, expert, self.replica(expert)) }
    }

    /// Which of the replicas of dense parameters, or of experts, the rank is.
    fn replica(&self, expert: bool) -> usize {
        usize::try_from(self.plan.replica(self.comm.rank(), expert)).expect("replicas are addresses")
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

    /// Shows every weight and buffer, on a device that has values; in a world, on all ranks, weights that replicas share out put
    /// together.
    ///
    /// # Errors
    /// If another rank does not do its part, or the device fails: some are then not shown.
    pub fn weights(&mut self, see: &mut dyn FnMut(&Place, &[f32])) -> Result<(), StepError> {
        self.model.visit(&mut Show { device: &self.device, comm: &self.comm, see })?;
        Ok(self.device.finish()?)
    }

    /// Shows every gradient, on a device that has values; in a world, on all ranks behind an update, those that replicas share
    /// out put together.
    ///
    /// # Errors
    /// If another rank does not do its part, or the device fails: some are then not shown.
    pub fn each_gradient(&mut self, see: &mut dyn FnMut(&Place, &[f32])) -> Result<(), StepError> {
        let (device, comm, gradients) = (&self.device, &self.comm, &mut self.gradients);
        self.model.visit(&mut ShowGradient { device, comm, gradients, see })?;
        Ok(self.device.finish()?)
    }
}

/// What came of something that a device did, unless the device failed: then that is why anything else did.
fn finished<D: Memory, T>(device: &D, result: Result<T, StepError>) -> Result<T, StepError> {
    if !matches!(result, Err(StepError::Device(_))) {
        device.finish()?;
    }
    result
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
    if lengths.dense_gradients == 0 {
        return Err(StepError::Other(format!(
            "`stages.list` leaves stage {stage} without weights: the step runs none such"
        )));
    }
    let last = plan.stages() - 1;
    if plan.counted_mtp() > 0 && plan.chunk(last, plan.chunks() - 1).mtp == 0 {
        let text = "`stages.list` puts the MTP modules on another rank than the head, where the step does not run them";
        return Err(StepError::Other(text.to_owned()));
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

fn update_group<D: Device, R: Axis, M: Format>(
    device: &D,
    state: &mut gradients::State<D, R, M>,
    gradient: Mut<'_, D, f32>,
    shard: Range<usize>,
    adamw: AdamW,
    step: i32,
) {
    let len = shard.len();
    let gradient = gradient.part(shard.start, len);
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
