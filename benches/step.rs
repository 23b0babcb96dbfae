//! The reference step on one thread of the CPU beside PyTorch: `cargo bench --bench step`. Both run steps in turn;
//! times are medians, and so are ratios of those of neighbouring steps. PyTorch is that of `python3`, or of what the environment variable `PYTHON` names; without it, only
//! our own columns are filled.

#[path = "../examples/common/columns.rs"]
mod columns;
#[path = "../examples/common/table.rs"]
mod table;

use moe_model::gpu::device::Device as _;
use moe_model::gpu::ledger::{Allocation, Direction, Ledger};
use moe_model::gpu::ops::adamw::AdamW;
use moe_model::gpu::shapes::{Dynamic, Lengths};
use moe_model::gpu::step::{self, Place, Source, Step};
use moe_model::gpu::{Host, Numerics};
use moe_model::inventory::{Block, Lifetime};
use moe_model::spec::Attention;
use moe_model::{Bytes, Phase, Plan, moe_model};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::env;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

moe_model! {
    /// A Mixtral as tests have it.
    pub struct Tiny;

    hidden: 64,
    vocab: 256,
    layers: layers { moe: 2 },
    attention: gqa { heads: 4, kv_heads: 2, head_dim: 16 },
    experts: experts { routed: 4, active: 2, ffn: 128 },

    layout Trained: layout {
        mesh: mesh { dp: 1 },
        precision: precision { weights: fp32, activations: fp32 },
        batch: batch { sequence: 64, micro: 2 },
        accounting: reference,
    },
}

moe_model! {
    /// One whose products are large enough to be most of a step.
    pub struct Middle;

    hidden: 512,
    vocab: 2048,
    layers: layers { moe: 2 },
    attention: gqa { heads: 8, kv_heads: 2, head_dim: 64 },
    experts: experts { routed: 8, active: 2, ffn: 1024 },

    layout Trained: layout {
        mesh: mesh { dp: 1 },
        precision: precision { weights: fp32, activations: fp32 },
        batch: batch { sequence: 512 },
        accounting: reference,
    },
}

const ADAMW: AdamW = AdamW { lr: 1e-3, beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0.1 };
/// The name of each case, its plan, and how many steps are measured.
const CASES: [(&str, &Plan, usize); 2] = [("tiny", &Tiny::TRAINED, 400), ("middle", &Middle::TRAINED, 30)];
/// What PyTorch updates weights with; the first is what its steps are compared with.
const OPTIMIZERS: [&str; 2] = ["fused", "foreach"];

fn main() {
    let (mut rows, mut costs) = (Vec::new(), Vec::new());
    let mut version = None;
    for (name, plan, steps) in CASES {
        let mut ours = Ours::new(plan);
        let mut torches: Vec<Torch> = OPTIMIZERS.iter().map_while(|optimizer| Torch::new(plan, optimizer)).collect();
        let mut own_times = Vec::new();
        for step in 0..steps + steps / 10 {
            let warm = step >= steps / 10;
            let seconds = ours.step();
            own_times.extend(warm.then_some(seconds));
            for torch in &mut torches {
                let seconds = torch.step();
                torch.times.extend(warm.then_some(seconds));
            }
        }
        let (time, peak) = (Spread::of(own_times.clone()), ours.peak());
        rows.push(vec![name.to_owned(), "ours".to_owned(), time.to_string(), peak.to_string()]);
        for (torch, optimizer) in torches.into_iter().zip(OPTIMIZERS) {
            let theirs = Spread::of(torch.times.clone());
            // Of steps that ran one after the other: what else the machine does slows both.
            let ratios = own_times.iter().zip(&torch.times).map(|(ours, theirs)| ours / theirs);
            let ratio = Spread::of(ratios.collect()).median;
            let less = fraction(peak.bytes()) / fraction(torch.peak);
            rows.push(vec![
                name.to_owned(),
                format!("PyTorch, {optimizer} AdamW"),
                theirs.to_string(),
                Bytes::new(torch.peak).to_string(),
                format!("{ratio:.2}"),
                format!("{less:.2}"),
            ]);
            version.get_or_insert_with(|| torch.version.clone());
        }
        costs.push(ours.costs(name, plan, time.median));
    }
    let title = format!(
        "A training step in fp32 on one thread, ours and that of {}",
        version
            .map_or("PyTorch, skipped: `python3` cannot import torch".to_owned(), |version| format!("torch {version}"))
    );
    let header = ["<", "<", "ms (quartiles)", "peak", "time, ours / its", "peak, ours / its"];
    print!("{}", table::table(&title, &header, rows));
    let header = ["<", "allocations", "take and give back, us", "of a step", "settle, us", "of a step"];
    print!("{}", table::table("What asserting every allocation costs", &header, costs));
}

/// Median and quartiles, in seconds.
struct Spread {
    median: f64,
    quartiles: [f64; 2],
}

impl Spread {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let n = times.len();
        Self { median: times[n / 2], quartiles: [times[n / 4], times[3 * n / 4]] }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [low, high] = self.quartiles;
        write!(f, "{:.2} ({:.2}-{:.2})", self.median * 1e3, low * 1e3, high * 1e3)
    }
}

/// Our step.
struct Ours {
    step: Step<Host, Dynamic, f32>,
    tokens: Tokens,
    scratch: Bytes,
}

impl Ours {
    fn new(plan: &Plan) -> Self {
        let host = Host::new(1);
        host.prepare(&Lengths::of(plan, 0)).expect("there is room");
        let (scratch, numerics) = (host.scratch(), Numerics::usual(&plan.spec().architecture));
        let mut random = Random(fastrand::Rng::with_seed(1));
        let step = Step::new(*plan, 0, host, numerics, &mut random).unwrap_or_else(|error| panic!("{error}"));
        Self { step, tokens: Tokens(random.0, plan.spec().architecture.vocab), scratch }
    }

    fn step(&mut self) -> f64 {
        let start = Instant::now();
        let report = self.step.train(&mut self.tokens, ADAMW).unwrap_or_else(|error| panic!("{error}"));
        assert!(report.loss.is_some_and(f64::is_finite), "a loss");
        start.elapsed().as_secs_f64()
    }

    /// The most that tensors took, and scratch.
    fn peak(&self) -> Bytes {
        let tensors = Phase::TRAINING.iter().map(|phase| self.step.ledger().peak(*phase)).max().unwrap_or_default();
        Bytes::new(tensors.bytes() + self.scratch.bytes())
    }

    /// How many allocations a step has, and how long the ledger takes over them.
    fn costs(&mut self, name: &str, plan: &Plan, step: f64) -> Vec<String> {
        let before = self.step.ledger().allocations();
        self.step.ledger().record();
        self.step();
        let allocations = self.step.ledger().allocations() - before;
        let replay = Replay::new(plan, &self.step.ledger().recorded());
        let ledger = Ledger::of(plan, 0);
        let asserted = typical(|| replay.run(&ledger));
        let settled = typical(|| self.step.settle().expect("the step has settled before"));
        let share = |seconds: f64| format!("{:.3} %", 100.0 * seconds / step);
        let micros = |seconds: f64| format!("{:.1}", 1e6 * seconds);
        vec![
            name.to_owned(),
            allocations.to_string(),
            micros(asserted),
            share(asserted),
            micros(settled),
            share(settled),
        ]
    }
}

/// The median of many runs, in seconds.
fn typical(mut run: impl FnMut()) -> f64 {
    let time = |()| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    Spread::of(std::iter::repeat_n((), 1000).map(time).collect()).median
}

/// Weights as models are initialised with; gains of norms are 1.
struct Random(fastrand::Rng);

impl Source for Random {
    fn fill(&mut self, place: &Place, out: &mut [f32]) -> Result<(), String> {
        if place.width == 1 {
            out.fill(1.0);
        } else {
            // A uniform distribution of standard deviation 0.02.
            out.fill_with(|| 0.04 * 3_f32.sqrt() * (self.0.f32() - 0.5));
        }
        Ok(())
    }
}

/// Random tokens of a vocabulary, the same in every step.
struct Tokens(fastrand::Rng, u64);

impl step::Batch for Tokens {
    fn ids(&mut self, _: u64, out: &mut [i64]) {
        let mut random = self.0.clone();
        out.fill_with(|| random.u64(..self.1).cast_signed());
    }

    fn labels(&mut self, _: u64, out: &mut [i64]) {
        let mut random = fastrand::Rng::with_seed(2);
        out.fill_with(|| random.u64(..self.1).cast_signed());
    }
}

/// What a ledger was asked for, in order.
struct Replay {
    calls: Vec<Call>,
    tickets: usize,
}

enum Call {
    Enter(Phase),
    Begin(Block, Direction),
    Take(&'static str, u64),
    /// The ticket of so many takes before.
    Give(usize),
}

impl Replay {
    fn new(plan: &Plan, recorded: &[Allocation]) -> Self {
        let mut blocks = HashMap::new();
        for entry in &plan.inventory(0) {
            match entry.lifetime {
                Lifetime::InForward(block) => drop(blocks.insert((entry.name, Phase::Forward), block)),
                Lifetime::InBackward(block) => drop(blocks.insert((entry.name, Phase::Backward), block)),
                _ => {}
            }
        }
        let mut events = Vec::new();
        for (ticket, allocation) in recorded.iter().enumerate() {
            events.push((allocation.from, None, allocation));
            events.extend(allocation.until.map(|until| (until, Some(ticket), allocation)));
        }
        events.sort_by_key(|(at, ..)| *at);
        let (mut calls, mut phase, mut block) = (Vec::new(), None, None);
        for (_, given, allocation) in events {
            if let Some(ticket) = given {
                calls.push(Call::Give(ticket));
                continue;
            }
            if phase != Some(allocation.phase) {
                phase = Some(allocation.phase);
                calls.push(Call::Enter(allocation.phase));
            }
            let now = blocks.get(&(allocation.name, allocation.phase));
            if let Some(now) = now.filter(|now| block != Some((**now, allocation.phase))) {
                block = Some((*now, allocation.phase));
                let backward = allocation.phase == Phase::Backward;
                calls.push(Call::Begin(*now, if backward { Direction::Backward } else { Direction::Forward }));
            }
            calls.push(Call::Take(allocation.name, allocation.bytes.bytes()));
        }
        Self { calls, tickets: recorded.len() }
    }

    fn run(&self, ledger: &Ledger) {
        let mut tickets = Vec::with_capacity(self.tickets);
        for call in &self.calls {
            match call {
                Call::Enter(phase) => ledger.enter(*phase),
                Call::Begin(block, direction) => ledger.begin(*block, *direction),
                Call::Take(name, bytes) => {
                    tickets.push(Some(ledger.take(name, *bytes).unwrap_or_else(|error| panic!("{error}"))));
                }
                Call::Give(ticket) => tickets[*ticket] = None,
            }
        }
    }
}

/// PyTorch in a process of its own.
struct Torch {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    version: String,
    times: Vec<f64>,
    peak: u64,
}

impl Torch {
    /// None where it cannot be had.
    fn new(plan: &Plan, optimizer: &str) -> Option<Self> {
        let python = env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/step_torch.py");
        let mut command = Command::new(python);
        command.args(["-W", "ignore", script, &sizes(plan, optimizer).to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
        let (input, output) = (child.stdin.take()?, BufReader::new(child.stdout.take()?).lines());
        let mut torch = Self { child, input, output, version: String::new(), times: Vec::new(), peak: 0 };
        let ready = torch.answer()?;
        let ours = plan.spec().architecture.parameters().total();
        assert_eq!(ready["parameters"].as_u64(), Some(ours), "both are the same model");
        ready["version"].as_str()?.clone_into(&mut torch.version);
        Some(torch)
    }

    fn answer(&mut self) -> Option<Value> {
        serde_json::from_str(&self.output.next()?.ok()?).ok()
    }

    fn step(&mut self) -> f64 {
        self.input.write_all(b"\n").expect("it waits for a line");
        let answer = self.answer().expect("a line for a line");
        self.peak = self.peak.max(answer["peak"].as_u64().expect("bytes"));
        answer["seconds"].as_f64().expect("seconds")
    }
}

impl Drop for Torch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the script is told.
fn sizes(plan: &Plan, optimizer: &str) -> Value {
    let (model, batch) = (&plan.spec().architecture, plan.spec().layout.batch);
    let Attention::Gqa(attention) = model.attention else { panic!("the script has one kind of attention") };
    json!({
        "hidden": model.hidden, "vocab": model.vocab, "layers": model.layers.moe,
        "heads": attention.heads, "kv_heads": attention.kv_heads, "head": attention.head_dim,
        "experts": model.experts.routed, "active": model.experts.active, "ffn": model.experts.ffn,
        "batch": batch.micro, "sequence": batch.sequence, "optimizer": optimizer,
    })
}

/// A number of bytes as it enters a fraction.
#[allow(clippy::cast_precision_loss)] // few
fn fraction(bytes: u64) -> f64 {
    bytes as f64
}
