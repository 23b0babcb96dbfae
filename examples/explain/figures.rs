//! The figures of reports, and what each is the sum of.

use moe_model::cost::{Cost, Piece};
use moe_model::explain::Line;
use moe_model::replicas::ReplicaMessage;
use moe_model::{Bytes, Phase, Plan, Role};

/// What a figure counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Parameters,
    Operations,
}

/// One term of a figure.
pub(crate) struct Term {
    pub(crate) amount: u64,
    pub(crate) name: String,
    pub(crate) role: &'static str,
    pub(crate) formula: String,
    pub(crate) source: &'static str,
}

/// A figure, traced.
pub(crate) struct Traced {
    pub(crate) what: String,
    pub(crate) unit: Unit,
    /// What reports say.
    pub(crate) figure: u64,
    /// The largest first; their sum is the figure.
    pub(crate) terms: Vec<Term>,
}

/// Whose figure is asked for, and in which phase if not in its own.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) stage: u64,
    pub(crate) phase: Option<Phase>,
}

type Trace = fn(&Plan, Asked) -> Traced;

/// By the name that reports have for it, which may end in `_bytes`.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) trace: Trace,
}

macro_rules! figures {
    ($($name:literal, $about:literal, $trace:expr;)*) => {
        /// All of them.
        pub(crate) const FIGURES: &[Figure] = &[$(Figure { name: $name, about: $about, trace: $trace },)*];
    };
}

use Role::{Activation, Communication, FirstMoment, Gradient, KvCache, MasterWeight, SecondMoment, Transient, Weight};

figures! {
    "peak", "all that the rank holds in its worst phase, or in --phase", |plan, asked| held(plan, asked, Role::ALL);
    "static", "weights, gradients and optimizer state, or weights and caches", |plan, asked| {
        held(plan, asked.at(Phase::BetweenSteps), &[Weight, Gradient, MasterWeight, FirstMoment, SecondMoment, KvCache])
    };
    "weights", "weights", |plan, asked| held(plan, asked, &[Weight]);
    "gradients", "gradients", |plan, asked| held(plan, asked, &[Gradient]);
    "optimizer", "master weights and moments", |plan, asked| {
        held(plan, asked, &[MasterWeight, FirstMoment, SecondMoment])
    };
    "master", "master weights", |plan, asked| held(plan, asked, &[MasterWeight]);
    "moments", "first and second moments", |plan, asked| held(plan, asked, &[FirstMoment, SecondMoment]);
    "activations", "activations of all micro-batches in flight, in the phase", |plan, asked| {
        held(plan, asked, &[Activation])
    };
    "transients", "what the largest block works on, in the phase", |plan, asked| held(plan, asked, &[Transient]);
    "communication", "buffers of collectives", |plan, asked| held(plan, asked, &[Communication]);
    "workspace", "what libraries and frameworks keep", |plan, asked| held(plan, asked, &[Role::Workspace]);
    "kv_cache", "what is kept of sequences that are served", |plan, asked| held(plan, asked, &[KvCache]);
    "micro_batch", "activations that one micro-batch keeps", micro_batch;
    "parameters", "parameters of the rank, before ZeRO shares them out", parameters;
    "sent", "bytes that the rank sends to replicas in a step", |plan, asked| sent(plan, asked, &["gradients", "weights"]);
    "sent_gradients", "of these, gradients", |plan, asked| sent(plan, asked, &["gradients"]);
    "sent_weights", "of these, weights", |plan, asked| sent(plan, asked, &["weights"]);
    "forward_operations", "operations of a micro-batch's forward", |plan, asked| forward(plan, asked, OPERATIONS);
    "forward_all_to_all", "bytes of its all-to-all", |plan, asked| forward(plan, asked, ALL_TO_ALL);
    "forward_tensor", "bytes of its tensor-parallel collectives", |plan, asked| forward(plan, asked, TENSOR);
    "forward_context", "bytes that it sends to context-parallel ranks", |plan, asked| forward(plan, asked, CONTEXT);
    "operations", "operations that backward does again, of a micro-batch", |plan, asked| again(plan, asked, OPERATIONS);
    "all_to_all", "bytes that its all-to-all sends again", |plan, asked| again(plan, asked, ALL_TO_ALL);
    "tensor", "bytes that its tensor-parallel collectives send again", |plan, asked| again(plan, asked, TENSOR);
    "outside", "what is taken beyond tensors, as far as it follows from the layout", outside;
}

impl Asked {
    /// In a phase of the figure's own.
    fn at(self, phase: Phase) -> Self {
        Self { phase: Some(phase), ..self }
    }
}

/// The phase that is asked for, or that in which most of some roles is held.
fn phase_of(plan: &Plan, asked: Asked, roles: &[Role]) -> Phase {
    let budget = plan.budget(asked.stage);
    let bytes = |phase: &Phase| roles.iter().map(|role| budget.role_in(*role, *phase)).sum::<Bytes>();
    asked.phase.unwrap_or_else(|| {
        // The first of those alike, as budgets have it.
        let phases = plan.phases();
        *phases.iter().rev().max_by_key(|phase| bytes(phase)).expect("there are phases")
    })
}

fn held(plan: &Plan, asked: Asked, roles: &[Role]) -> Traced {
    let (phase, budget) = (phase_of(plan, asked, roles), plan.budget(asked.stage));
    let lines = plan.explain(asked.stage, phase).lines;
    let terms = lines.iter().filter(|line| roles.contains(&line.entry.role)).map(of_line).collect();
    let figure = roles.iter().map(|role| budget.role_in(*role, phase)).sum::<Bytes>();
    let what = format!("in {}", phase.name().replace('_', " "));
    Traced { what, unit: Unit::Bytes, figure: figure.bytes(), terms }
}

fn of_line(line: &Line) -> Term {
    let entry = &line.entry;
    let part = if entry.part.is_empty() { String::new() } else { format!(" ({})", entry.part) };
    Term {
        amount: line.bytes.bytes(),
        name: format!("{}{part}", entry.name),
        role: entry.role.name(),
        formula: line.formula().to_string(),
        source: entry.source,
    }
}

fn micro_batch(plan: &Plan, asked: Asked) -> Traced {
    let terms = plan.explain_micro_batch(asked.stage).iter().map(of_line).collect();
    let figure = plan.budget(asked.stage).per_micro_batch().bytes();
    Traced { what: "from its forward to its backward".to_owned(), unit: Unit::Bytes, figure, terms }
}

fn parameters(plan: &Plan, asked: Asked) -> Traced {
    let inventory = plan.inventory(asked.stage);
    let weights = inventory.iter().filter(|entry| entry.role == Weight);
    let term = |entry: &moe_model::Entry| {
        let dims = entry.shape.iter().filter(|dim| **dim != moe_model::sizes::Dim::ONE);
        let factors: Vec<String> = dims.map(|dim| format!("{dim}={}", dim.local)).collect();
        let line = Line { entry: *entry, bytes: entry.bytes() };
        let formula = format!("{} x {}", factors.join(" x "), entry.count);
        Term { amount: entry.local_elements() * entry.count, formula, ..of_line(&line) }
    };
    Traced {
        what: "on the rank".to_owned(),
        unit: Unit::Parameters,
        figure: plan.budget(asked.stage).parameters().total(),
        terms: weights.map(term).collect(),
    }
}

fn sent(plan: &Plan, asked: Asked, of: &[&str]) -> Traced {
    let traffic = plan.replica_traffic(asked.stage);
    let is_asked = |sent: &&ReplicaMessage| of.iter().any(|name| sent.name.ends_with(name));
    let collectives = plan.replica_messages(asked.stage);
    let terms = collectives.iter().filter(is_asked).map(|sent| Term {
        amount: sent.bytes().bytes(),
        name: format!("{} ({})", sent.name, sent.group),
        role: "sent",
        formula: sent.to_string(),
        source: "ZeRO, arXiv:1910.02054, section 7",
    });
    let figure = match of {
        ["gradients"] => traffic.gradients,
        ["weights"] => traffic.weights,
        _ => traffic.total(),
    };
    let what = "in a step".to_owned();
    Traced { what, unit: Unit::Bytes, figure: figure.bytes(), terms: terms.collect() }
}

/// One of the numbers of a cost.
type Of = (Unit, fn(&Cost) -> u64);
const OPERATIONS: Of = (Unit::Operations, |cost| cost.operations);
const ALL_TO_ALL: Of = (Unit::Bytes, |cost| cost.all_to_all.bytes());
const TENSOR: Of = (Unit::Bytes, |cost| cost.tensor.bytes());
const CONTEXT: Of = (Unit::Bytes, |cost| cost.context.bytes());

fn forward(plan: &Plan, asked: Asked, of: Of) -> Traced {
    costs("in the forward of a micro-batch", &plan.explain_forward(asked.stage), plan.forward_cost(asked.stage), of)
}

fn again(plan: &Plan, asked: Asked, of: Of) -> Traced {
    let pieces = plan.explain_recompute(asked.stage);
    costs("in the backward of a micro-batch", &pieces, plan.recompute_cost(asked.stage), of)
}

fn costs(what: &str, pieces: &[Piece], cost: Cost, (unit, of): Of) -> Traced {
    let term = |piece: &Piece| Term {
        amount: of(&piece.cost),
        name: if piece.rows.is_empty() { piece.name.to_owned() } else { format!("{} ({})", piece.name, piece.rows) },
        role: if unit == Unit::Operations { "computed" } else { "sent" },
        formula: piece.formula.to_string(),
        source: "products and collectives of a forward, as `moe_model::cost` counts them",
    };
    Traced { what: what.to_owned(), unit, figure: of(&cost), terms: pieces.iter().map(term).collect() }
}

fn outside(plan: &Plan, asked: Asked) -> Traced {
    let terms = plan.outside(asked.stage).into_iter().map(|term| Term {
        amount: term.bytes.bytes(),
        name: term.name.to_owned(),
        role: "outside",
        formula: "follows from the list of tensors and from groups".to_owned(),
        source: term.source,
    });
    let terms: Vec<Term> = terms.collect();
    let figure = terms.iter().map(|term| term.amount).sum();
    Traced { what: "beyond tensors, at the peak".to_owned(), unit: Unit::Bytes, figure, terms }
}
