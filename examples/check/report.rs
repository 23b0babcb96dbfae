//! The report: what is said of a file, as text or as JSON.

use crate::behind::Behind;
use crate::input::{self, Failure, Input};
use crate::places::Place;
use moe_model::{Key, Plan, Spec, Violation, Violations};
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// Changes with any key of the JSON.
const FORMAT: &str = "moe-model/check/2";

/// As many stages are looked at; a pipeline of more is said to have more.
const STAGES: u64 = 1 << 16;

/// What is said of a file. Keys that have nothing to say are null, or empty lists.
#[derive(Serialize)]
pub(crate) struct Report {
    format: &'static str,
    pub(crate) file: String,
    pub(crate) valid: bool,
    /// If the Spec is valid.
    pub(crate) behind: Option<Behind>,
    /// Ranks of the whole job, if the Spec is valid.
    pub(crate) world: Option<u64>,
    /// Most bytes that a rank holds at once, if the Spec is valid.
    peak_bytes: Option<u64>,
    pub(crate) peak: Option<Worst>,
    /// Virtual stages on each rank of the pipeline, if the Spec is valid.
    pub(crate) chunks: Option<u64>,
    /// Runs of stages that hold the same.
    pub(crate) stages: Vec<Run>,
    /// The first stage that `stages` leaves out, if there are too many to look at.
    pub(crate) stages_left_out_from: Option<u64>,
    pub(crate) violations: Vec<Finding>,
    pub(crate) warnings: Vec<Finding>,
    pub(crate) error: Option<Failure>,
}

/// The worst rank in its worst phase.
#[derive(Serialize)]
pub(crate) struct Worst {
    stage: u64,
    phase: &'static str,
    pub(crate) first_rank: u64,
    pub(crate) last_rank: u64,
    bytes: u64,
    #[serde(skip)]
    pub(crate) text: String,
    /// Tensor by tensor.
    #[serde(skip)]
    pub(crate) explained: String,
}

/// Neighbouring stages that hold the same.
#[derive(Serialize)]
pub(crate) struct Run {
    pub(crate) first_stage: u64,
    pub(crate) last_stage: u64,
    /// Of each of them.
    pub(crate) dense_layers: u64,
    pub(crate) moe_layers: u64,
}

/// A law that is broken, or advice that is not followed.
#[derive(Serialize)]
pub(crate) struct Finding {
    law: &'static str,
    /// The key to blame.
    key: &'static str,
    /// Its value, as a file has it.
    value: Value,
    message: String,
    note: String,
    help: Option<String>,
    /// The nearest values that are legal.
    legal_below: Option<Value>,
    legal_above: Option<Value>,
    /// Where the key stands, or else its group; nowhere if neither does.
    #[serde(flatten)]
    pub(crate) place: Place,
    #[serde(skip)]
    pub(crate) text: String,
}

impl Report {
    /// Of a file, or of stdin if the path is `-`.
    pub(crate) fn of(path: &Path) -> Self {
        let (name, input) = input::of_file(path);
        Self::on(name, input)
    }

    pub(crate) fn on(file: String, input: Result<Input, Failure>) -> Self {
        let mut report = Self {
            format: FORMAT,
            file,
            valid: false,
            behind: None,
            world: None,
            peak_bytes: None,
            chunks: None,
            peak: None,
            stages: Vec::new(),
            stages_left_out_from: None,
            violations: Vec::new(),
            warnings: Vec::new(),
            error: None,
        };
        match input {
            Ok(input) => report.judge(&input),
            Err(failure) => report.error = Some(failure),
        }
        report
    }

    fn judge(&mut self, input: &Input) {
        self.violations = findings(&input.declared.judge(), input);
        if let Ok(plan) = Plan::new(input.declared.spec) {
            self.valid = true;
            self.behind = Some(Behind::of(&self.file, plan.spec()));
            self.warnings = findings(&input.declared.warnings(), input);
            self.world = Some(plan.world());
            self.peak_bytes = Some(plan.peak().bytes());
            self.chunks = Some(plan.chunks());
            self.peak = Some(Worst::of(&plan));
            self.stages = runs(&plan);
            self.stages_left_out_from = (plan.stages() > STAGES).then_some(STAGES);
        }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match (&self.error, self.valid) {
            (Some(_), _) => 2,
            (None, false) => 1,
            (None, true) => 0,
        }
    }
}

impl Worst {
    fn of(plan: &Plan) -> Self {
        let peak = plan.peak();
        let ranks = plan.ranks_of_stage(peak.stage);
        Self {
            stage: peak.stage,
            phase: peak.phase.name(),
            first_rank: ranks.start,
            last_rank: ranks.end - 1,
            bytes: peak.bytes(),
            text: peak.to_string(),
            explained: plan.explain(peak.stage, peak.phase).to_string(),
        }
    }
}

fn runs(plan: &Plan) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for index in 0..plan.stages().min(STAGES) {
        let stage = plan.stage(index);
        match runs.last_mut() {
            Some(run) if (run.dense_layers, run.moe_layers) == (stage.dense, stage.moe) => run.last_stage = index,
            _ => runs.push(Run {
                first_stage: index,
                last_stage: index,
                dense_layers: stage.dense,
                moe_layers: stage.moe,
            }),
        }
    }
    runs
}

fn findings(violations: &Violations, input: &Input) -> Vec<Finding> {
    violations.iter().map(|violation| Finding::of(violation, input)).collect()
}

impl Finding {
    fn of(violation: &Violation, input: &Input) -> Self {
        let (spec, key) = (&input.declared.spec, violation.at);
        let help = violation.help(spec);
        Self {
            law: violation.id(),
            key: key.path(),
            value: value(spec, key),
            message: violation.message(spec).to_string(),
            note: violation.note().to_string(),
            help: (!help.is_empty()).then(|| help.to_string()),
            legal_below: violation.below.map(|code| value_with(*spec, key, code)),
            legal_above: violation.above.map(|code| value_with(*spec, key, code)),
            place: input.place(key.path()),
            text: violation.text(spec).to_string(),
        }
    }
}

/// The value of a key as a file has it; null where the Spec has no such key.
fn value(spec: &Spec, key: Key) -> Value {
    let spec = serde_json::to_value(spec).unwrap_or_default();
    spec.pointer(&format!("/{}", key.path().replace('.', "/"))).cloned().unwrap_or_default()
}

fn value_with(mut spec: Spec, key: Key, code: u64) -> Value {
    spec.set(key, code);
    value(&spec, key)
}
