//! Ranks that together compute what one model computes, as threads of this process:
//! `cargo run --release --example world` lays a small DeepSeek-V3 over 8 ranks; other degrees are options.
//!
//! With feature `mpi` ranks may be processes, over machines:
//! `cargo build --release --features mpi --example world`, then `mpirun -np 8 target/release/examples/world --mpi`.
//!
//! With feature `cuda` they may be processes of a GPU each, which NCCL connects: `--nccl`, and each is told its place by the
//! variables that launchers set (`torchrun --no-python --nproc-per-node 8 target/release/examples/world --nccl`): `RANK`,
//! `WORLD_SIZE`, `LOCAL_RANK`, `MASTER_ADDR`, `MASTER_PORT`; ranks use the port above that one where `torchrun` itself listens
//! there (`TORCHELASTIC_USE_AGENT_STORE=True`).
//!
//! The folder holds what `train_step` reads: a Hugging Face `config.json`, weights, a batch, and what transformers makes of
//! it. Every rank holds its slices of the weights and its part of the batch; losses, each rank's gradients and its weights
//! after two steps are compared with what is expected, and each rank's ledger says what it allocated and sent. Exit code 1 if
//! something deviates, 2 if something cannot be read or laid out.
//!
//! `--save FOLDER` writes a checkpoint behind the first step; `--load FOLDER` goes on from it with the second, under any other
//! layout: `cargo run --release --example world -- --load FOLDER --dp 1 --tp 1 --pp 1 --ep 1`.

#[path = "common/behind.rs"]
mod behind;
#[path = "common/columns.rs"]
mod columns;
#[path = "common/exit.rs"]
mod exit;
#[path = "train_step/folder.rs"]
#[allow(dead_code)] // what tells tolerances of other groups
mod folder;
#[path = "common/table.rs"]
mod table;
#[path = "common/wrapped.rs"]
mod wrapped;

use behind::Behind;
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use exit::exit;
use folder::{ADAMW, Folder, Tokens};
use moe_model::gpu::comm::Carrier;
use moe_model::gpu::comm::threads::{self, PATIENCE};
use moe_model::gpu::hub::{Checkpoint, Sliced};
use moe_model::gpu::shapes::Dynamic;
use moe_model::gpu::step::{Place, Step};
use moe_model::gpu::{Device, Host, StepError};
use moe_model::spec::{
    self, Accounting, Context, Dtype, Mesh, Precision, Routing, Schedule, Spec, StageList, Switch, Zero, ZeroStage,
};
use moe_model::{Bytes, Coordinates, Phase, Plan};
use safetensors::SafeTensors;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// The one buffer of a model.
const CORRECTION_BIAS: &str = "mlp.gate.e_score_correction_bias";

fn main() -> ExitCode {
    let matches = command().get_matches();
    match run(&matches) {
        Ok((text, true)) => exit(io::stdout().write_all(text.as_bytes()), ExitCode::SUCCESS),
        Ok((text, false)) => exit(io::stdout().write_all(text.as_bytes()), ExitCode::from(1)),
        Err(text) => exit(writeln!(io::stderr(), "error: {text}"), ExitCode::from(2)),
    }
}

/// What a rank did.
#[derive(Serialize, Deserialize)]
struct Ranked {
    rank: u64,
    allocations: u64,
    peak: u64,
    sent: String,
    /// Its losses in the first step and in the second.
    losses: [Option<f64>; 2],
    /// The largest deviation of its gradients, and of its weights after two steps, from its slices of those that are expected.
    deviations: [f32; 2],
}

/// How far values are from those of the whole model.
struct Deviation<'a> {
    plan: &'a Plan,
    at: Coordinates,
    expected: &'a Checkpoint<'a>,
    /// What names of expected values begin with.
    prefix: &'static str,
    most: Result<f32, String>,
}

impl Deviation<'_> {
    fn see(&mut self, place: &Place, values: &[f32]) {
        let Ok(most) = &mut self.most else { return };
        match self.expected.weight_of(place.name, place.layer, self.prefix) {
            Ok(whole) => {
                let slices = self.plan.slices(&self.at, place.name).into_iter().flatten();
                let whole = slices.map(|at| usize::try_from(at).ok().and_then(|at| whole.get(at)).unwrap_or(&f32::NAN));
                *most = values.iter().zip(whole).map(|(a, b)| (a - b).abs()).fold(*most, larger);
            }
            Err(error) => self.most = Err(error),
        }
    }
}

/// The larger of two deviations; one that is no number is the largest.
fn larger(most: f32, off: f32) -> f32 {
    if off <= most { most } else { off }
}

fn plan(folder: &Folder, matches: &ArgMatches) -> Result<Plan, String> {
    let degree = |name: &str| *matches.get_one::<u64>(name).expect("it has a default");
    let [sequences, sequence] = folder.batch;
    let (dp, tp) = (degree("dp"), degree("tp"));
    if !sequences.is_multiple_of(dp) {
        return Err(format!("`--dp {dp}` does not divide the {sequences} sequences of the batch"));
    }
    let mut spec = Spec { architecture: folder.config.architecture, ..Spec::DEFAULT };
    let (layers, pp, vpp) = (folder.config.architecture.layers.count(), degree("pp").max(1), degree("vpp"));
    if vpp > 1 {
        spec.layout.schedule = Schedule::Interleaved;
        spec.layout.stages.list = dealt(layers, pp * vpp);
    } else {
        // The last stage has what the others leave.
        let others = layers.div_ceil(pp) * (pp - 1);
        spec.layout.stages.last = if layers.is_multiple_of(pp) { 0 } else { layers.saturating_sub(others) };
    }
    let sequence_parallel = if tp > 1 { Switch::On } else { Switch::Off };
    let vpp = if vpp > 1 { vpp } else { 0 };
    let [pp, cp, ep, etp] = ["pp", "cp", "ep", "etp"].map(degree);
    let context = chosen(matches, "context", Context::ALL, Context::word);
    spec.layout.mesh = Mesh { dp, tp, pp, vpp, cp, ep, etp, context, sequence_parallel, ..Mesh::DEFAULT };
    spec.layout.batch = spec::Batch { sequence, count: sequences / dp, ..spec::Batch::DEFAULT };
    spec.layout.precision = Precision { weights: Dtype::Fp32, activations: Dtype::Fp32, ..Precision::DEFAULT };
    let zero = chosen(matches, "zero", ZeroStage::ALL, ZeroStage::word);
    spec.layout.zero = Zero { dense: zero, expert: zero, ..Zero::NONE };
    // Where random weights send tokens nobody knows.
    spec.layout.routing = Routing::WORST;
    spec.layout.accounting = Accounting::REFERENCE;
    Plan::new(spec).map_err(|violations| violations.to_string())
}

/// What an option's word stands for.
fn chosen<T: Copy>(matches: &ArgMatches, option: &str, all: &[T], word: fn(T) -> &'static str) -> T {
    let said = matches.get_one::<String>(option).expect("it has a default");
    all.iter().copied().find(|of| word(*of) == said).expect("clap allows no other")
}

/// Layers over so many virtual stages, the first ones with one more where they do not share alike.
fn dealt(layers: u64, places: u64) -> StageList {
    let of = |place| usize::try_from(layers / places + u64::from(place < layers % places)).unwrap_or_default();
    let stages: Vec<String> = (0..places).map(|place| "t".repeat(of(place))).collect();
    StageList::parse(&format!("E{}L", stages.join("|")))
}

fn run(matches: &ArgMatches) -> Result<(String, bool), String> {
    let folder = &Folder::read(matches.get_one::<PathBuf>("DIR").expect("it has a default"))?;
    let plan = plan(folder, matches)?;
    let architecture = &folder.config.architecture;
    let weights = Checkpoint::new(&[&folder.weights], folder.config.naming, architecture)?;
    let expected = Checkpoint::new(&[&folder.expected], folder.config.naming, architecture)?;
    let all = All { plan, folder, weights: &weights, expected: &expected, between: Between::of(matches) };
    let results = match (matches.get_flag("mpi"), matches.get_flag("nccl")) {
        (true, _) => over_mpi(&all)?,
        (_, true) => over_nccl(&all)?,
        _ => Some(in_threads(&all)?),
    };
    let device = if matches.get_flag("nccl") { "cuda" } else { "host" };
    match results {
        Some(results) => Ok(said(&all, &results, losses(folder)?, device)),
        // The first process speaks for all.
        None => Ok((String::new(), true)),
    }
}

/// What every rank is given.
struct All<'a> {
    plan: Plan,
    folder: &'a Folder,
    weights: &'a Checkpoint<'a>,
    expected: &'a Checkpoint<'a>,
    between: Between<'a>,
}

impl All<'_> {
    /// What one rank does.
    fn rank<D: Device>(&self, rank: u64, carrier: Box<dyn Carrier>, device: D) -> Result<Ranked, String> {
        let (plan, at) = (self.plan, self.plan.coordinates(rank));
        let mut source = Sliced { whole: self.weights, plan, at };
        let step = Step::in_world(plan, rank, carrier, device, self.folder.numerics, &mut source);
        rank_of(step.map_err(|error| error.to_string())?, self, at)
    }
}

fn announce(plan: &Plan, of: &str) -> Result<(), String> {
    let text = format!("{} ranks as {of}: forward, backward and update, twice …", plan.world());
    writeln!(io::stderr(), "{text}").map_err(|error| error.to_string())
}

fn in_threads(all: &All<'_>) -> Result<Vec<Ranked>, String> {
    announce(&all.plan, "threads")?;
    let results = threads::run(all.plan.world(), PATIENCE, |rank, end| all.rank(rank, Box::new(end), Host::new(1)));
    let results = results
        .into_iter()
        .zip(0..)
        .map(|(result, rank)| result.and_then(|result| result).map_err(|error| format!("rank {rank}: {error}")));
    results.collect()
}

/// This process as a rank that `mpirun` started; what all did, on the first.
#[cfg(feature = "mpi")]
fn over_mpi(all: &All<'_>) -> Result<Option<Vec<Ranked>>, String> {
    let mpi = moe_model::gpu::comm::mpi::Mpi::start(PATIENCE).ok_or("MPI is at work already")?;
    let (rank, size, world) = (mpi.rank(), mpi.size(), all.plan.world());
    if size != world {
        return Err(format!("the layout has {world} ranks, mpirun started {size}"));
    }
    if rank == 0 {
        announce(&all.plan, "processes")?;
    }
    let own = all.rank(rank, Box::new(mpi.clone()), Host::new(1)).unwrap_or_else(|error| {
        // At once, so that lines of several processes do not mix.
        let _ = io::stderr().write_all(format!("error: rank {rank}: {error}\n").as_bytes());
        mpi.abort()
    });
    gathered(&mpi, (rank, size), own)
}

/// This process as a rank with a GPU that a launcher started; what all did, on the first.
#[cfg(feature = "cuda")]
fn over_nccl(all: &All<'_>) -> Result<Option<Vec<Ranked>>, String> {
    use moe_model::gpu::comm::nccl::{Launch, NoWorld};
    let said = |error: NoWorld| error.to_string();
    let launch = Launch::from_environment().map_err(said)?;
    let (rank, size, world) = (launch.rank, launch.size, all.plan.world());
    if size != world {
        return Err(format!("the variable WORLD_SIZE = {size}: the layout has {world} ranks"));
    }
    let device = launch.open(None).map_err(said)?;
    let nccl = std::rc::Rc::new(launch.join(&device, PATIENCE).map_err(said)?);
    if rank == 0 {
        announce(&all.plan, "processes")?;
    }
    let own = all.rank(rank, Box::new(nccl.clone()), device).map_err(|error| format!("rank {rank}: {error}"))?;
    gathered(&*nccl, (rank, size), own)
}

/// What all did, on the first.
#[cfg(any(feature = "mpi", feature = "cuda"))]
fn gathered(carrier: &impl Carrier, (rank, size): (u64, u64), own: Ranked) -> Result<Option<Vec<Ranked>>, String> {
    use moe_model::Group;
    const REPORT: &str = "send";
    if rank > 0 {
        let report = serde_json::to_vec(&own).map_err(|error| error.to_string())?;
        carrier.send(0, Group::Pp, REPORT, report).map_err(|error| error.to_string())?;
        return Ok(None);
    }
    let others = (1..size).map(|rank| {
        let report = carrier.receive(rank, Group::Pp, REPORT).map_err(|error| error.to_string())?;
        serde_json::from_slice(&report).map_err(|error| error.to_string())
    });
    std::iter::once(Ok(own)).chain(others).collect::<Result<_, _>>().map(Some)
}

#[cfg(not(feature = "mpi"))]
fn over_mpi(_: &All<'_>) -> Result<Option<Vec<Ranked>>, String> {
    Err("`--mpi` needs a build with feature `mpi`".to_owned())
}

#[cfg(not(feature = "cuda"))]
fn over_nccl(_: &All<'_>) -> Result<Option<Vec<Ranked>>, String> {
    Err("`--nccl` needs a build with feature `cuda`".to_owned())
}

/// Checkpoints between the two steps.
struct Between<'a> {
    /// Where one is written.
    save: Option<&'a PathBuf>,
    /// Where one is read, in the place of the first step.
    load: Option<&'a PathBuf>,
}

impl<'a> Between<'a> {
    fn of(matches: &'a ArgMatches) -> Self {
        Self { save: matches.get_one("save"), load: matches.get_one("load") }
    }
}

/// Two steps of a rank, or the second of them; its losses, and how far its gradients and weights are off.
fn rank_of<D: Device>(mut step: Step<D, Dynamic, f32>, all: &All<'_>, at: Coordinates) -> Result<Ranked, String> {
    let All { plan, folder, expected, between, .. } = all;
    let said = |error: StepError| error.to_string();
    let deviation = |prefix| Deviation { plan, at, expected, prefix, most: Ok(0.0) };
    let (mut first, mut gradients) = (None, deviation("grad."));
    if let Some(folder) = between.load {
        step.load(folder).map_err(said)?;
    } else {
        first = step.gradients(&mut Tokens(folder), None).map_err(said)?.loss;
        // The update sums them over ranks first.
        step.update(ADAMW).map_err(said)?;
        step.each_gradient(&mut |place, values| gradients.see(place, values)).map_err(said)?;
        step.settle().map_err(said)?;
    }
    if let Some(folder) = between.save {
        step.save(folder).map_err(said)?;
    }
    let second = step.train(&mut Tokens(folder), ADAMW).map_err(said)?.loss;
    let mut weights = deviation("after2.");
    step.weights(&mut |place, values| {
        // Buffers are none of the optimizer's.
        if place.name != CORRECTION_BIAS {
            weights.see(place, values);
        }
    })
    .map_err(said)?;
    let (ledger, comm) = (step.ledger(), step.comm());
    let peak = Phase::TRAINING.iter().map(|phase| ledger.peak(*phase)).max().unwrap_or_default();
    let mut sent = BTreeMap::new();
    for (group, _, of) in comm.sent() {
        let bytes = sent.entry(group).or_insert(Bytes::ZERO);
        *bytes = bytes.plus(of.others);
    }
    let sent = sent.iter().filter(|(_, bytes)| bytes.bytes() > 0);
    let sent: Vec<String> = sent.map(|(group, bytes)| format!("{} {bytes}", group.name())).collect();
    Ok(Ranked {
        rank: comm.rank(),
        allocations: ledger.allocations(),
        peak: peak.bytes(),
        sent: sent.join(", "),
        losses: [first, second],
        deviations: [gradients.most?, weights.most?],
    })
}

/// The losses that are expected, of the first step and of the second.
fn losses(folder: &Folder) -> Result<[f64; 2], String> {
    let file = SafeTensors::deserialize(&folder.expected).map_err(|error| error.to_string())?;
    let of = |name: &str| {
        let tensor = file.tensor(name).map_err(|error| format!("expected.safetensors: `{name}`: {error}"))?;
        let bytes = tensor.data().as_chunks().0.first().ok_or(format!("expected.safetensors: `{name}` is empty"))?;
        Ok::<_, String>(f64::from(f32::from_le_bytes(*bytes)))
    };
    Ok([of("loss")?, of("loss_after1")?])
}

/// What is printed, and whether nothing deviates.
fn said(all: &All<'_>, ranks: &[Ranked], expected: [f64; 2], device: &'static str) -> (String, bool) {
    let All { plan, folder, between, .. } = all;
    let losses = [0, 1].map(|step| mean(ranks.iter().filter_map(|rank| rank.losses[step])));
    let steps = match between.load {
        Some(folder) => format!("the second step, behind the first one in {},", folder.display()),
        None => "two steps".to_owned(),
    };
    let deviations = [0, 1].map(|of| ranks.iter().map(|rank| rank.deviations[of]).fold(0.0, larger));
    let rows = ranks.iter().map(|of| {
        let Coordinates { tp, cp, dp, ep, etp, pp, .. } = plan.coordinates(of.rank);
        let budget = plan.budget(pp).peak().total;
        let mut row: Vec<String> = [of.rank, pp, dp, cp, tp, ep, etp].map(|place| place.to_string()).into();
        row.extend([of.allocations.to_string(), Bytes::new(of.peak).to_string(), budget.to_string()]);
        row.extend(of.deviations.map(|off| format!("{off:.1e}")));
        row.push(of.sent.clone());
        row
    });
    let columns = [
        "rank",
        "pp",
        "dp",
        "cp",
        "tp",
        "ep",
        "etp",
        "allocations",
        "at most",
        "budget",
        "gradients off by",
        "weights off by",
        "<sent",
    ];
    let title = format!("{}: {steps} of {} ranks", folder.config.model_type, ranks.len());
    let behind = Behind { device, ..Behind::of(folder.config.model_type, plan.spec()) }.text();
    let table = table::table(&title, &columns, rows);
    let tolerances = ["grad", "after2"].map(|group| folder.tolerance(group));
    // The first step of what was read is another world's.
    let own = if between.load.is_some() { 1..2 } else { 0..2 };
    let is_near = |step: usize| (losses[step] - expected[step]).abs() <= folder.tolerance("loss");
    let is_within =
        own.clone().all(is_near) && deviations.iter().zip(tolerances).all(|(off, most)| f64::from(*off) <= most);
    let list = |of: [f64; 2]| of[own.clone()].iter().map(|loss| format!("{loss:.6}")).collect::<Vec<_>>().join(" and ");
    let gradients = match between.load {
        Some(_) => String::new(),
        None => format!("gradients off by {:.1e} at most, within {:.0e}; ", deviations[0], tolerances[0]),
    };
    let text = format!(
        "{behind}{table}losses {}, expected {} within {:.0e}; {gradients}weights after two steps off by {:.1e} at most, within \
         {:.0e}\n{}\n",
        list(losses),
        list(expected),
        folder.tolerance("loss"),
        deviations[1],
        tolerances[1],
        if is_within { "The ranks compute what one model computes." } else { "The ranks do not compute it." }
    );
    (text, is_within)
}

fn mean(of: impl Iterator<Item = f64>) -> f64 {
    let all: Vec<f64> = of.collect();
    #[allow(clippy::cast_precision_loss)] // ranks
    let count = all.len().max(1) as f64;
    all.iter().sum::<f64>() / count
}

fn command() -> Command {
    let degree = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_parser(value_parser!(u64)).default_value(default).help(help)
    };
    let folder = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("FOLDER").value_parser(value_parser!(PathBuf)).help(help)
    };
    Command::new("world")
        .about("Trains a model for two steps over several ranks, and compares them with what one model computes")
        .after_help(
            "Exit codes:\n  0  nothing deviates\n  1  something does\n  2  something cannot be read, laid out or run",
        )
        .arg(
            Arg::new("DIR")
                .default_value("tests/data/numerics/deepseek_v3_tiny")
                .value_parser(value_parser!(PathBuf))
                .help("A folder with config.json, weights, inputs and expected.safetensors"),
        )
        .arg(degree("dp", "2", "Replicas that have other sequences"))
        .arg(degree("tp", "2", "Ranks that split tensors, with sequence parallelism"))
        .arg(degree("cp", "1", "Ranks that share every sequence"))
        .arg(
            Arg::new("context")
                .long("context")
                .value_name("HOW")
                .value_parser([Context::Contiguous, Context::Ring, Context::AllToAll].map(Context::word))
                .default_value(Context::AllToAll.word())
                .help("How they share it: they pass keys and values round, or trade tokens for heads"),
        )
        .arg(degree("pp", "2", "Stages"))
        .arg(degree("vpp", "1", "Virtual stages of each rank, which take turns"))
        .arg(degree("ep", "4", "Ranks that experts are dealt over"))
        .arg(degree("etp", "1", "Ranks that split each expert"))
        .arg(
            Arg::new("zero")
                .long("zero")
                .value_parser(PossibleValuesParser::new(ZeroStage::ALL.iter().map(|of| of.word())))
                .default_value(ZeroStage::Optimizer.word())
                .help("What replicas share out: optimizer state, gradients too, or weights (parameters) as well"),
        )
        .arg(folder("save", "Write a checkpoint behind the first step into this folder"))
        .arg(folder("load", "Read a checkpoint of this folder in the place of the first step").conflicts_with("save"))
        .arg(Arg::new("mpi").long("mpi").action(ArgAction::SetTrue).help("Be one of the processes that mpirun started"))
        .arg(
            Arg::new("nccl")
                .long("nccl")
                .action(ArgAction::SetTrue)
                .conflicts_with("mpi")
                .help("Be one of the processes, each with a GPU, that a launcher such as torchrun started"),
        )
}
