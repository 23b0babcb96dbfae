//! A rank of the second stage of arXiv:2502.07846's layout, at its own scale: what it holds, balanced and with every token
//! sent to it, and what a micro-batch in flight keeps beside the paper's formula.

use crate::speed;
use crate::watched::{self, Held, Watched};
use crate::{opened, progress};
use moe_model::gpu::Bf16;
use moe_model::gpu::smoke::ADAMW;
use moe_model::gpu::step::{Batch, Load, Place, Source};
use moe_model::inventory::Lifetime;
use moe_model::sizes::Symbol;
use moe_model::{Phase, Plan, moe_model};
use serde::Serialize;
use std::time::{Duration, Instant};

moe_model! {
    /// DeepSeek-V3 (arXiv:2412.19437) under the layout analysed in arXiv:2502.07846, as the step of this project runs it.
    pub struct DeepSeekV3;

    architecture: preset(deepseek_v3),

    layout Balanced: layout {
        mesh: mesh { dp: 32, tp: 2, pp: 16, ep: 8, sequence_parallel: on },
        stages: stages { first: 4, last: 1 },
        zero: optimizer,
        precision: precision { weights: bf16, gradients: fp32, master: fp32, moments: bf16 },
        batch: batch { sequence: 4096, micro: 1, count: 16 },
        recompute: full,
        accounting: reference,
    },
    /// Every token of every rank may choose experts of this one.
    layout Hot: layout { routing: worst, ..Balanced },
}

moe_model! {
    /// The same shape, for a driver that interprets.
    pub struct Small;

    hidden: 32,
    vocab: 64,
    layers: layers { dense: 3, moe: 58, ffn: 48 },
    attention: mla { heads: 4, q_rank: 16, kv_rank: 12, nope: 8, rope: 4, value: 8 },
    experts: experts { routed: 16, shared: 1, active: 2, ffn: 16, groups: 8, active_groups: 4, correction_bias: on },

    layout Balanced: layout {
        mesh: mesh { dp: 32, tp: 2, pp: 16, ep: 8, sequence_parallel: on },
        stages: stages { first: 4, last: 1 },
        zero: optimizer,
        precision: precision { weights: bf16, gradients: fp32, master: fp32, moments: bf16 },
        batch: batch { sequence: 16, micro: 1, count: 16 },
        recompute: full,
        accounting: reference,
    },
    layout Hot: layout { routing: worst, ..Balanced },
}

/// The stage: one of those that have four layers with experts.
const STAGE: u64 = 1;

/// Both loads, as far as they ran, and the time of work of the balanced one.
#[derive(Clone, Serialize)]
pub(crate) struct Ranks {
    /// Seconds of a micro-batch, forward and backward, balanced, and of an update.
    micro_batch_seconds: f64,
    update_seconds: f64,
    balanced: Option<Rank>,
    hot: Option<Rank>,
    work: Vec<speed::Row>,
}

/// A step of the rank.
#[derive(Clone, Serialize)]
struct Rank {
    micro_batches: u64,
    in_flight: u64,
    seconds: f64,
    phases: Vec<Held>,
    kept: Kept,
    /// What a step allocated, as it was at the peak of backward: name, how many, bytes of all.
    at_peak: Vec<(&'static str, u64, u64)>,
}

/// What each micro-batch in flight keeps until its backward.
#[derive(Clone, Serialize)]
struct Kept {
    /// Held by the pool when the first backward begins, less what stays, by micro-batches in flight.
    measured_bytes: u64,
    /// `8bsh + 8bsN_r`, of four layers.
    paper_bytes: u64,
    /// From one to the other: they add up.
    terms: Vec<Term>,
}

#[derive(Clone, Serialize)]
struct Term {
    what: String,
    bytes: i64,
}

/// Values out of a block of them, again and again: weights by the billion are filled in fast.
struct Block {
    values: Vec<f32>,
    is_dry: bool,
}

impl Block {
    /// A prime, so that rows differ.
    const LEN: usize = 65_521;

    fn new(is_dry: bool) -> Self {
        let mut state = 0x2545_f491_u32;
        let next = || {
            // George Marsaglia's xorshift.
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            #[allow(clippy::cast_precision_loss)] // 24 bits
            let value = (state >> 8) as f32 / (1 << 23) as f32 - 1.0;
            value
        };
        Self { values: std::iter::repeat_with(next).take(Self::LEN).collect(), is_dry }
    }
}

impl Source for Block {
    fn fill(&mut self, place: &Place, out: &mut [f32]) -> Result<(), String> {
        if self.is_dry {
            return Ok(());
        }
        let is_norm = place.name.ends_with("norm.weight");
        #[allow(clippy::cast_precision_loss)] // widths
        let spread = if is_norm { 0.1 } else { 1.5 / (place.width.max(4) as f32).sqrt() };
        let middle = if is_norm { 1.0 } else { 0.0 };
        let values: Vec<f32> = self.values.iter().map(|value| middle + spread * value).collect();
        out.chunks_mut(Self::LEN).for_each(|out| out.copy_from_slice(&values[..out.len()]));
        Ok(())
    }
}

impl Batch for Block {
    /// A stage behind the first reads none, and one before the last has no loss.
    fn ids(&mut self, _: u64, _: &mut [i64]) {}

    fn labels(&mut self, _: u64, _: &mut [i64]) {}
}

/// Shows what was found, after each part of it.
pub(crate) fn measure(
    is_small: bool,
    is_dry: bool,
    limit: Duration,
    failures: &mut Vec<String>,
    see: &mut dyn FnMut(Ranks) -> Result<(), String>,
) -> Result<(), String> {
    let [balanced, hot] =
        if is_small { [Small::BALANCED, Small::HOT] } else { [DeepSeekV3::BALANCED, DeepSeekV3::HOT] };
    let mut source = Block::new(is_dry);
    progress("the rank: two micro-batches, and the time of each piece of work");
    let Timed { micro_batch, update, work } = times(&of(&balanced, 2)?, &mut source)?;
    let most = balanced.spec().layout.batch.count;
    let fit = |each: Duration, most: u32| (2..=most).rev().find(|count| each * *count <= limit).unwrap_or(2).into();
    let count = fit(micro_batch, u32::try_from(most).unwrap_or(u32::MAX));
    progress(&format!("the rank, balanced: {count} micro-batches of {:.2} s", micro_batch.as_secs_f64()));
    let [micro_batch_seconds, update_seconds] = [micro_batch, update].map(|spent| spent.as_secs_f64());
    let mut ranks = Ranks { micro_batch_seconds, update_seconds, balanced: None, hot: None, work };
    see(ranks.clone())?;
    ranks.balanced = Some(rank("balanced", &of(&balanced, count)?, Load::Declared, &mut source, failures)?);
    see(ranks.clone())?;
    // Eight times the copies of tokens at its experts, at most.
    let count = fit(8 * micro_batch, 4);
    progress(&format!("the rank, every token sent to it: {count} micro-batches"));
    ranks.hot = Some(rank("every token here", &of(&hot, count)?, Load::AllHere, &mut source, failures)?);
    see(ranks)
}

/// The plan with so many micro-batches.
fn of(plan: &Plan, count: u64) -> Result<Plan, String> {
    let mut spec = *plan.spec();
    spec.layout.batch.count = count;
    Plan::new(spec).map_err(|violations| violations.to_string())
}

/// How long parts of a step take.
struct Timed {
    micro_batch: Duration,
    update: Duration,
    work: Vec<speed::Row>,
}

fn times(plan: &Plan, source: &mut Block) -> Result<Timed, String> {
    let device = opened(None)?;
    let mut step = watched::made::<Bf16, Bf16>(*plan, STAGE, &device, source, Load::Declared)?;
    // Kernels are warm behind the first.
    step.gradients(source, None).map_err(|error| error.to_string())?;
    let begun = Instant::now();
    step.gradients(source, None).map_err(|error| error.to_string())?;
    let micro_batch = begun.elapsed() / u32::try_from(plan.spec().layout.batch.count).unwrap_or(u32::MAX);
    let begun = Instant::now();
    step.update(ADAMW).map_err(|error| error.to_string())?;
    let update = begun.elapsed();
    device.time_work();
    step.train(source, ADAMW).map_err(|error| error.to_string())?;
    Ok(Timed { micro_batch, update, work: speed::rows(&device.times()) })
}

fn rank(name: &str, plan: &Plan, load: Load, source: &mut Block, failures: &mut Vec<String>) -> Result<Rank, String> {
    let device = opened(None)?;
    let mut step = watched::made::<Bf16, Bf16>(*plan, STAGE, &device, source, load)?;
    let ran = watched::run(&mut step, plan, STAGE, &device, source)?;
    ran.check(&format!("the rank, {name}"), failures);
    let in_flight = plan.in_flight(STAGE);
    let kept = kept(plan, &ran, in_flight);
    let off = kept.measured_bytes.cast_signed() - kept.paper_bytes.cast_signed();
    if kept.terms.iter().map(|term| term.bytes).sum::<i64>() != off {
        failures.push(format!("the rank, {name}: terms do not add up to {off} B of a micro-batch"));
    }
    let at_peak = ran.largest(Phase::Backward).into_iter().map(|(name, count, bytes)| (name, count, bytes.bytes()));
    Ok(Rank {
        micro_batches: plan.spec().layout.batch.count,
        in_flight,
        seconds: ran.spent.as_secs_f64(),
        at_peak: at_peak.collect(),
        phases: ran.phases,
        kept,
    })
}

/// What a micro-batch keeps, as the pool had it, as the inventory lists it, and as the paper's formula says.
fn kept(plan: &Plan, ran: &Watched, in_flight: u64) -> Kept {
    let inventory = plan.inventory(STAGE);
    let of_micro_batch = || inventory.iter().filter(|entry| matches!(entry.lifetime, Lifetime::MicroBatch));
    let is_state = |entry: &&moe_model::Entry| entry.shape.iter().any(|dim| dim.symbol == Symbol::Hidden);
    let sum = |states: bool| of_micro_batch().filter(|entry| is_state(entry) == states).map(bytes_of_one).sum::<u64>();
    let (states, others) = (sum(true), sum(false));
    let (layout, architecture) = (&plan.spec().layout, &plan.spec().architecture);
    let tokens = layout.batch.micro * layout.batch.sequence;
    // Of each of four layers, two bytes a number: two hidden states over two ranks; probabilities or places of copies.
    let paper_states = 8 * tokens * architecture.hidden;
    let paper_routing = 8 * tokens * architecture.experts.active;
    let measured_bytes = (ran.at_first_backward - ran.standing) / in_flight;
    let ledger = states + others;
    let less = |ours: u64, its: u64| ours.cast_signed() - its.cast_signed();
    let names: Vec<&str> = of_micro_batch().map(|entry| entry.name).collect();
    let term = |what: String, bytes| Term { what, bytes };
    let terms = vec![
        term(format!("hidden states: `{}`, less 8bsh", names.join("`, `")), less(states, paper_states)),
        term("what routing chose, 8bsN_r: found again from the hidden state".to_owned(), less(others, paper_routing)),
        term("what the driver rounds allocations up by".to_owned(), less(measured_bytes, ledger)),
    ];
    Kept { measured_bytes, paper_bytes: paper_states + paper_routing, terms }
}

/// Of all layers of the stage, of one micro-batch.
fn bytes_of_one(entry: &moe_model::Entry) -> u64 {
    entry.bytes().bytes()
}
