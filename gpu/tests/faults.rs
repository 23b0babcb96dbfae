//! Faults that are planted, each of which the ledger or the step names.

mod common;
mod faults {
    pub(crate) mod refusing;
}

use common::{ADAMW, Random};
use core::cell::Cell;
use faults::refusing::Refusing;
use moe_model_core::inventory::Block;
use moe_model_core::spec::{
    Accounting, Architecture, Attention, Batch, Dtype, Experts, Gqa, Layers, Layout, Mesh, Precision, Recompute,
    Routing, Spec, Zero,
};
use moe_model_core::{Bytes, Phase, Plan};
use moe_model_gpu::device::{Device, Format, OutOfMemory};
use moe_model_gpu::ledger::Direction;
use moe_model_gpu::shapes::{Dynamic, Shapes, dynamic};
use moe_model_gpu::step::{Load, Step};
use moe_model_gpu::{Bf16, Dim, Ledger, LedgerError, Meta, Numerics, StepError};

const RANDOM: Random = Random { seed: 5, vocab: 32 };

/// Two layers with experts on two ranks, each of which has two of four; eight tokens.
const SPEC: Spec = Spec {
    architecture: Architecture {
        hidden: 8,
        vocab: 32,
        layers: Layers { moe: 2, ..Layers::DEFAULT },
        attention: Attention::Gqa(Gqa { heads: 2, kv_heads: 1, head_dim: 4, ..Gqa::DEFAULT }),
        experts: Experts { routed: 4, active: 2, ffn: 16, ..Experts::DEFAULT },
        ..Architecture::DEFAULT
    },
    layout: Layout {
        mesh: Mesh { dp: 2, ep: 2, ..Mesh::DEFAULT },
        zero: Zero::OPTIMIZER,
        batch: Batch { sequence: 8, count: 2, ..Batch::DEFAULT },
        accounting: Accounting::REFERENCE,
        ..Layout::DEFAULT
    },
};

/// Bytes of a bf16 hidden state of all tokens.
const HIDDEN: u64 = 8 * 8 * 2;

fn plan(change: impl FnOnce(&mut Layout)) -> Plan {
    let mut spec = SPEC;
    change(&mut spec.layout);
    Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"))
}

/// The ledger of a layout as it is declared, in forward.
fn in_forward() -> Ledger {
    let ledger = Ledger::of(&plan(|_| ()), 0);
    ledger.enter(Phase::Forward);
    ledger
}

fn step<D: Device>(plan: Plan, device: D) -> Result<Step<D, Dynamic, Bf16>, StepError> {
    Step::new(plan, 0, device, Numerics::usual(&SPEC.architecture), &mut RANDOM.clone())
}

#[track_caller]
fn assert_says(error: impl core::fmt::Display, text: &str) {
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_tensor_that_nobody_listed() {
    let error = in_forward().take("cached weights", 64).unwrap_err();
    assert_eq!(error, LedgerError::Unknown { name: "cached weights", phase: Phase::Forward });
    assert_says(error, "`cached weights`, allocated in forward, is not in the inventory");
}

#[test]
fn a_tensor_of_another_block() {
    let ledger = in_forward();
    ledger.begin(Block::Attention, Direction::Forward);
    let error = ledger.take("routed product", 64).unwrap_err();
    let (name, lives, block) = ("routed product", "while its block runs forward", Some(Block::Attention));
    assert_eq!(error, LedgerError::WrongPhase { name, lives, phase: Phase::Forward, block });
    assert_says(
        error,
        "`routed product`, which lives while its block runs forward, is allocated in forward of Attention",
    );
    ledger.end(None).expect("nothing is held");
    let error = ledger.take("routed product", 64).unwrap_err();
    assert_eq!(error, LedgerError::WrongPhase { name, lives, phase: Phase::Forward, block: None });
    assert_says(error, "`routed product`, which lives while its block runs forward, is allocated in forward");
}

#[test]
fn a_tensor_of_the_other_direction() {
    let ledger = in_forward();
    ledger.begin(Block::Attention, Direction::Forward);
    let error = ledger.take("query gradient", 128).unwrap_err();
    let (lives, block) = ("while its block runs backward", Some(Block::Attention));
    assert_eq!(error, LedgerError::WrongPhase { name: "query gradient", lives, phase: Phase::Forward, block });
}

#[test]
fn a_tensor_is_kept_in_forward_alone() {
    let ledger = in_forward();
    drop(ledger.take("attention input", HIDDEN).expect("forward keeps it"));
    for phase in [Phase::BetweenSteps, Phase::Backward, Phase::OptimizerStep] {
        ledger.enter(phase);
        let error = ledger.take("attention input", HIDDEN).unwrap_err();
        let (name, lives, block) = ("attention input", "from forward to backward", None);
        assert_eq!(error, LedgerError::WrongPhase { name, lives, phase, block });
    }
}

#[test]
fn a_tensor_that_another_block_keeps() {
    let ledger = in_forward();
    ledger.begin(Block::Attention, Direction::Forward);
    let error = ledger.take("routed gate", 64).unwrap_err();
    let (lives, block) = ("from the forward of its own block to backward", Some(Block::Attention));
    assert_eq!(error, LedgerError::WrongPhase { name: "routed gate", lives, phase: Phase::Forward, block });
    // Only a block's output becomes what the next one keeps.
    let mut output = ledger.take("attention block output", HIDDEN).expect("attention makes it");
    output.becomes("expert input").expect("it is handed on");
}

#[test]
fn the_peak_of_another_step() {
    let mut step = step(plan(|_| ()), Meta).expect("the budget has it");
    let (mut tokens, expected) = (RANDOM, plan(|_| ()).budget(0).phase(Phase::OptimizerStep));
    step.train(&mut tokens, ADAMW).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(step.ledger().peak(Phase::OptimizerStep), expected);
    // The second step updates nothing.
    step.gradients(&mut tokens, None).unwrap_or_else(|error| panic!("{error}"));
    let error = LedgerError::Peak { phase: Phase::OptimizerStep, expected, actual: Bytes::ZERO };
    assert_eq!(step.settle().unwrap_err(), StepError::Ledger(error));
}

#[test]
fn a_tensor_of_another_size() {
    for wrong in [HIDDEN - 2, HIDDEN + 2, 0] {
        let error = in_forward().take("attention input", wrong).unwrap_err();
        let (expected, actual) = (Bytes::new(HIDDEN), Bytes::new(wrong));
        assert_eq!(error, LedgerError::WrongSize { name: "attention input", expected, actual, phase: Phase::Forward });
    }
    let error = in_forward().take("attention input", 130).unwrap_err();
    assert_says(error, "`attention input` takes 128 B (128 B) in forward, not 130 B (130 B)");
}

#[test]
fn fewer_rows_than_declared() {
    let ledger = in_forward();
    ledger.begin(Block::Moe, Direction::Forward);
    let rows = ledger.take("routed product", 64).expect("the budget has room for as many rows, or fewer");
    assert_eq!(ledger.live(), Bytes::new(64));
    drop(rows);
    assert_eq!(ledger.peak(Phase::Forward), Bytes::new(64));
}

#[test]
fn one_too_many() {
    let ledger = in_forward();
    // Of two layers and two micro-batches, one of which is in flight.
    let held: Vec<_> = (0..2).map(|_| ledger.take("attention input", HIDDEN).expect("two layers keep it")).collect();
    let error = ledger.take("attention input", HIDDEN).unwrap_err();
    assert_eq!(error, LedgerError::TooMany { name: "attention input", budget: 2, phase: Phase::Forward });
    assert_says(error, "one more `attention input` is allocated in forward, of which the budget counts 2 at once");
    drop(held);
    ledger.take("attention input", HIDDEN).expect("they were given back");
}

#[test]
fn one_too_many_by_turning_into_it() {
    let ledger = in_forward();
    let _held: Vec<_> = (0..2).map(|_| ledger.take("expert input", HIDDEN).expect("two layers keep it")).collect();
    ledger.begin(Block::Attention, Direction::Forward);
    let mut output = ledger.take("attention block output", HIDDEN).expect("attention has it");
    let error = output.becomes("expert input").unwrap_err();
    assert_eq!(error, LedgerError::TooMany { name: "expert input", budget: 2, phase: Phase::Forward });
    assert_eq!(ledger.live(), Bytes::new(3 * HIDDEN));
    drop(output);
    assert_eq!(ledger.live(), Bytes::new(2 * HIDDEN));
}

#[test]
fn a_tensor_that_outlives_its_block() {
    let ledger = in_forward();
    ledger.begin(Block::Attention, Direction::Forward);
    let output = ledger.take("attention block output", HIDDEN).expect("attention has it");
    let held = ledger.take("attention norm output", HIDDEN).expect("attention has it");
    let error = ledger.end(Some(&output)).unwrap_err();
    let bytes = Bytes::new(HIDDEN);
    assert_eq!(error, LedgerError::Leak { name: "attention norm output", left: 1, bytes, phase: Phase::Forward });
    assert_says(
        error,
        "1 of `attention norm output`, 128 B (128 B), are still held when their time in forward is over",
    );
    drop(held);
    ledger.begin(Block::Attention, Direction::Forward);
    ledger.end(Some(&output)).expect("what is carried on may be held");
    ledger.begin(Block::Attention, Direction::Forward);
    let error = ledger.end(None).unwrap_err();
    assert_eq!(error, LedgerError::Leak { name: "attention block output", left: 1, bytes, phase: Phase::Forward });
}

#[test]
fn a_tensor_that_outlives_its_step() {
    let mut step = step(plan(|_| ()), Meta).expect("the layout runs");
    step.train(&mut RANDOM.clone(), ADAMW).expect("the budget holds");
    let ledger = step.ledger().clone();
    ledger.enter(Phase::Forward);
    let held = [(); 2].map(|()| ledger.take("expert input", HIDDEN).expect("forward keeps it"));
    let error = step.settle().unwrap_err();
    let (left, bytes, phase) = (2, Bytes::new(2 * HIDDEN), Phase::BetweenSteps);
    assert_eq!(error, StepError::Ledger(LedgerError::Leak { name: "expert input", left, bytes, phase }));
    drop(held);
    // It was there between steps.
    let expected = plan(|_| ()).budget(0).phase(phase);
    let actual = expected + bytes;
    assert_eq!(step.settle().unwrap_err(), StepError::Ledger(LedgerError::Peak { phase, expected, actual }));
}

#[test]
fn a_step_that_did_not_run() {
    let plan = plan(|_| ());
    let step = step(plan, Meta).expect("the layout runs");
    let error = step.settle().unwrap_err();
    let expected = plan.budget(0).phase(Phase::Forward);
    let peak = LedgerError::Peak { phase: Phase::Forward, expected, actual: Bytes::new(0) };
    assert_eq!(error, StepError::Ledger(peak));
    let text = error.to_string();
    assert!(text.starts_with("forward held 0 B (0 B) at most; the budget says "), "{text}");
    assert!(text.ends_with(&format!(" ({} B)", expected.bytes())), "{text}");
}

#[test]
fn weights_that_are_not_there() {
    let plan = plan(|_| ());
    let error = Ledger::of(&plan, 0).settle(&plan, 0).unwrap_err();
    let expected = plan.budget(0).phase(Phase::BetweenSteps);
    assert_eq!(error, LedgerError::Live { phase: Phase::BetweenSteps, expected, actual: Bytes::new(0) });
    let text = error.to_string();
    assert!(text.starts_with("0 B (0 B) are held in between_steps; the budget says "), "{text}");
}

/// All tokens of both ranks choose both experts of this one.
fn all_here(plan: Plan) -> Result<(), StepError> {
    let mut step = step(plan, Meta)?.with_load(Load::AllHere);
    step.train(&mut RANDOM.clone(), ADAMW).map(drop)
}

#[test]
fn more_tokens_than_declared() {
    let error = all_here(plan(|_| ())).unwrap_err();
    // Rows of the first tensor of experts: 2 ranks x 8 tokens x 2 copies, half of which are declared, of width 8 in bf16.
    let (budget, actual) = (Bytes::new(256), Bytes::new(512));
    let over = LedgerError::OverBudget { name: "received copies", budget, actual, phase: Phase::Forward };
    assert_eq!(error, StepError::Ledger(over));
    assert_says(
        error,
        "`received copies` takes 512 B (512 B) in forward, 256 B (256 B) more than the 256 B (256 B) that the \
         budget has for it: its experts get more tokens than declared",
    );
}

#[test]
fn as_many_tokens_as_can_be_when_declared() {
    all_here(plan(|layout| layout.routing = Routing::WORST)).expect("the worst is declared");
}

/// The error of a step whose device refuses an allocation, and what the ledger holds then; none if it was never asked.
fn refused(plan: Plan, after: u64) -> Option<(StepError, Step<&'static Refusing, Dynamic, Bf16>)> {
    let device: &'static Refusing = Box::leak(Box::new(Refusing(Cell::new(u64::MAX))));
    let mut step = step(plan, device).expect("it has room for weights");
    device.0.set(after);
    let error = step.train(&mut RANDOM.clone(), ADAMW).err()?;
    Some((error, step))
}

#[test]
fn a_device_without_room() {
    for recompute in [Recompute::None, Recompute::Full] {
        let plan = plan(|layout| layout.recompute = recompute);
        let mut names = Vec::new();
        let all = (0..).map_while(|after| refused(plan, after));
        for (error, mut step) in all {
            let StepError::OutOfMemory { name, device } = error else { panic!("{error}") };
            assert!(device.bytes > 0, "{name}");
            assert_eq!(step.ledger().live(), plan.budget(0).phase(Phase::BetweenSteps), "{name} leaves nothing behind");
            step.train(&mut RANDOM.clone(), ADAMW).expect("there is room again");
            names.push(name);
        }
        let allocations = step(plan, Meta).expect("the layout runs").ledger().allocations();
        let mut whole = step(plan, Meta).expect("the layout runs");
        whole.train(&mut RANDOM.clone(), ADAMW).expect("the budget holds");
        assert_eq!(names.len() as u64, whole.ledger().allocations() - allocations, "each allocation was refused once");
        assert!(names.starts_with(&["token ids", "embedding output"]), "{names:?}");
        assert!(names.contains(&"logits") && names.contains(&"key gradient"), "{names:?}");
    }
}

#[test]
fn a_device_without_room_for_weights() {
    for after in 0..30 {
        let device: &'static Refusing = Box::leak(Box::new(Refusing(Cell::new(after))));
        let error = step(plan(|_| ()), device).err().expect("it was refused");
        let StepError::OutOfMemory { name, device } = error else { panic!("{error}") };
        if after == 0 {
            assert_eq!((name, device), ("model.embed_tokens.weight", OutOfMemory { bytes: 32 * 8 * 2 }));
            let error = StepError::OutOfMemory { name, device };
            assert_says(error, "`model.embed_tokens.weight`: the device has no room for 512 bytes");
        }
    }
}

#[track_caller]
fn assert_refused<S: Shapes, E: Format, M: Format>(plan: Plan, text: &str) {
    let numerics = Numerics::usual(&SPEC.architecture);
    let error = Step::<_, S, E, M>::new(plan, 0, Meta, numerics, &mut RANDOM.clone()).err();
    assert_eq!(error, Some(StepError::Other(text.to_owned())));
}

#[test]
fn types_of_another_format() {
    let bf16 = plan(|_| ());
    assert_refused::<Dynamic, f32, f32>(bf16, "`precision.weights` = bf16, and the step's type says fp32");
    assert_refused::<Dynamic, Bf16, Bf16>(bf16, "`precision.moments` = fp32, and the step's type says bf16");
    let precision = Precision { weights: Dtype::Fp32, activations: Dtype::Fp32, ..Precision::DEFAULT };
    let fp32 = plan(|layout| layout.precision = precision);
    assert_refused::<Dynamic, Bf16, f32>(fp32, "`precision.weights` = fp32, and the step's type says bf16");
}

#[test]
fn accounting_of_another_kind() {
    let paper = plan(|layout| layout.accounting = Accounting::PAPER);
    let text = "`accounting` = paper: the step runs layouts of `accounting: reference`, without `serving`";
    assert_refused::<Dynamic, Bf16, f32>(paper, text);
}

/// Eight, said to be nine.
#[derive(Clone, Copy)]
struct Nine;

impl Dim for Nine {
    type Size = moe_model_gpu::typenum::U9;
}

/// The dimensions of the plan but one.
struct Wider;

impl Shapes for Wider {
    type Hidden = Nine;
    type Vocab = dynamic::Vocab;
    type Heads = dynamic::Heads;
    type KvHeads = dynamic::KvHeads;
    type QueryKey = dynamic::QueryKey;
    type Value = dynamic::Value;
    type QRank = dynamic::QRank;
    type KvRank = dynamic::KvRank;
    type Nope = dynamic::Nope;
    type Rope = dynamic::Rope;
    type Ffn = dynamic::Ffn;
    type Experts = dynamic::Experts;
    type LocalExperts = dynamic::LocalExperts;
    type Active = dynamic::Active;
    type ExpertFfn = dynamic::ExpertFfn;
    type SharedFfn = dynamic::SharedFfn;
}

#[test]
fn types_of_another_length() {
    assert_refused::<Wider, Bf16, f32>(plan(|_| ()), "the type of `Hidden` says 9, the plan 8");
}
