//! A hypothetical rank by hand and by program: every figure once from a formula with its numbers put in, which asks the library
//! nothing, and once from the plan.

use crate::behind::Behind;
use crate::sheet::{Cell, Column, Failure, Report, Sheet};
use moe_model::inventory::Module;
use moe_model::spec::{Dropless, Factor, Pool, Routing, Spec};
use moe_model::{Budget, Entry, Phase, Plan, Role};

const COLUMNS: &[Column] = &[
    ("figure", "<figure"),
    ("meaning", "<"),
    ("formula", "<by hand"),
    ("by_hand", "is"),
    ("by_program", "by program"),
];

/// What the file says, once more: the hand reads no file.
const H: u64 = 256;
const HE: u64 = 128;
const N: u64 = 16;
const NR: u64 = 2;
const EP: u64 = 4;
const HEADS: u64 = 4;
const B: u64 = 2;
const S: u64 = 128;
/// Ten layers over five stages.
const L: u64 = 2;
/// The third of five stages under one forward, one backward.
const IN_FLIGHT: u64 = 3;
/// Ranks that share the optimizer's state.
const SHARE: u64 = 8;

const STAGE: u64 = 2;

/// A figure of the program.
type Figure = fn(&Plan, &Budget) -> u64;

/// A formula in words, its value, and the program's figure.
struct Line {
    name: &'static str,
    meaning: &'static str,
    formula: &'static str,
    by_hand: u64,
    by_program: Figure,
}

/// Formulas that are both text and arithmetic, each by a name that others use.
macro_rules! figures {
    ($($name:ident $meaning:literal = $formula:expr, $figure:expr;)*) => {
        $(const $name: u64 = $formula;)*
        const LINES: &[Line] = &[$(Line {
            name: stringify!($name),
            meaning: $meaning,
            formula: stringify!($formula),
            by_hand: $name,
            by_program: $figure,
        },)*];
    };
}

figures! {
    DENSE "norms, attention, router, shared" = L * (2 * H + 4 * H * H + N * H + 3 * H * HE),
        |plan, _| parameters(plan, |entry| entry.module != Module::RoutedExperts);
    EXPERT "experts of the rank" = L * (N / EP) * 3 * H * HE,
        |plan, _| parameters(plan, |entry| entry.module == Module::RoutedExperts);
    P "parameters" = DENSE + EXPERT, |_, budget| budget.parameters().total();
    WEIGHTS "in bf16" = 2 * P, |_, budget| budget.weights().bytes();
    GRADIENTS "in bf16" = 2 * P, |_, budget| budget.gradients().bytes();
    MOMENTS "two in fp32, shared" = 2 * 4 * P / SHARE, |_, budget| budget.optimizer().bytes();
    R "token copies: as many come as go" = B * S * NR, |plan, _| plan.routed_rows(Pool::Group);
    INPUTS "of layers, kept in flight" = IN_FLIGHT * L * 2 * B * S * H,
        |_, budget| budget.stored_activations().bytes();
    BUFFERS "of all-to-all" = 2 * 2 * R * H, |_, budget| budget.role(Role::Communication).bytes();
    FORWARD "works on" = R * (2 * H + 6 * HE), |_, budget| works(budget, Phase::Forward);
    ATTENTION "computed again" = 2 * B * S * H * 5 + 4 * B * S * HEADS,
        |plan, _| again(plan, |entry| entry.module == Module::Attention);
    ROUTED "computed again, with a norm" = 4 * B * S * H + R * (2 * H + 8 * HE),
        |plan, _| again(plan, |entry| entry.module == Module::RoutedExperts);
    ROUTER "computed again" = 4 * B * S * N, |plan, _| again(plan, |entry| entry.module == Module::Router);
    SHARED "computed again" = 8 * B * S * HE, |plan, _| again(plan, |entry| entry.module == Module::SharedExperts);
    BACKWARD "works on a whole layer" = ATTENTION + ROUTED + ROUTER + SHARED, |_, budget| works(budget, Phase::Backward);
    UPDATE "works on, fp32, shared" = 4 * P / SHARE, |_, budget| works(budget, Phase::OptimizerStep);
    IDLE "between steps" = WEIGHTS + GRADIENTS + MOMENTS, |_, budget| at(budget, Phase::BetweenSteps);
    IN_FORWARD "at its peak" = IDLE + INPUTS + FORWARD + BUFFERS, |_, budget| at(budget, Phase::Forward);
    IN_BACKWARD "at its peak, and the step's" = IDLE + INPUTS + BACKWARD + BUFFERS, |_, budget| budget.peak().bytes();
    IN_UPDATE "at its peak" = IDLE + UPDATE, |_, budget| at(budget, Phase::OptimizerStep);
    HEADROOM "10 percent on top" = IN_BACKWARD + IN_BACKWARD.div_ceil(10),
        |_, budget| budget.peak().total.with_headroom(10).bytes();
}

pub(crate) fn report(plan: &Plan, behind: Behind) -> Result<Report, String> {
    let counted: Spec = toml::from_str(include_str!("worked.toml")).map_err(|error| error.to_string())?;
    if *plan.spec() != counted {
        return Err("the hand counted the rank of examples/lab/worked.toml; this Spec is another".to_owned());
    }
    let budget = plan.budget(STAGE);
    let rows = LINES.iter().map(|line| (line, (line.by_program)(plan, &budget)));
    let cells = |(line, program): (&Line, u64)| -> Vec<Cell> {
        vec![line.name.into(), line.meaning.into(), line.formula.into(), line.by_hand.into(), program.into()]
    };
    let apart = rows.clone().filter(|(line, program)| line.by_hand != *program).count();
    let sheet = Sheet {
        key: "figures",
        title: format!(
            "A rank of stage {STAGE} in bytes\nwhere H {H}, HE {HE}, N {N}, NR {NR}, EP {EP}, HEADS {HEADS}, B {B}, S {S}, L {L}, \
             IN_FLIGHT {IN_FLIGHT}, SHARE {SHARE}"
        ),
        columns: COLUMNS,
        rows: rows.map(cells).collect(),
        is_shown: true,
    };
    let finding = if apart == 0 {
        format!("Hand and program agree in all {} figures.", LINES.len())
    } else {
        format!("Hand and program differ in {apart} of {} figures.", LINES.len())
    };
    Ok(Report {
        format: "moe-model/lab/worked/1",
        behind,
        sheets: vec![sheet],
        findings: vec![finding],
        failure: Some(Failure::of("a rank that gets five times its share of tokens", plan, |spec| {
            spec.layout.routing = Routing::Dropless(Dropless { skew: Factor::thousandths(5000), ..Dropless::DEFAULT });
        })),
    })
}

fn parameters(plan: &Plan, of: fn(&Entry) -> bool) -> u64 {
    let inventory = plan.inventory(STAGE);
    let weights = inventory.iter().filter(|entry| entry.role == Role::Weight && of(entry));
    weights.map(|entry| entry.local_elements() * entry.count).sum()
}

/// Of what is computed again.
fn again(plan: &Plan, of: fn(&Entry) -> bool) -> u64 {
    let explained = plan.explain(STAGE, Phase::Backward);
    let transient = explained.lines.iter().filter(|line| line.entry.role == Role::Transient && of(&line.entry));
    transient.map(|line| line.bytes.bytes()).sum()
}

fn works(budget: &Budget, phase: Phase) -> u64 {
    budget.role_in(Role::Transient, phase).bytes()
}

fn at(budget: &Budget, phase: Phase) -> u64 {
    budget.phase(phase).bytes()
}
