//! Two steps of a model in single precision, each of whose allocations is asserted, and what they compute beside what is
//! expected.

use crate::behind::Behind;
use crate::compare::{Group, Report};
use crate::folder::{ADAMW, Folder, Tokens};
use moe_model::gpu::hub::Checkpoint;
use moe_model::gpu::shapes::Dynamic;
use moe_model::gpu::step::{Place, Seen, Step};
use moe_model::gpu::{Device, StepError};
use moe_model::spec::{self, Accounting, Dtype, Precision, Spec};
use moe_model::{Phase, Plan};
use safetensors::{Dtype as Format, SafeTensors};
use std::collections::BTreeSet;

/// The whole model on one rank, all in single precision.
fn plan(folder: &Folder) -> Result<Plan, String> {
    let mut spec = Spec { architecture: folder.config.architecture, ..Spec::DEFAULT };
    let [micro, sequence] = folder.batch;
    spec.layout.batch = spec::Batch { sequence, micro, ..spec::Batch::DEFAULT };
    spec.layout.precision = Precision { weights: Dtype::Fp32, activations: Dtype::Fp32, ..Precision::DEFAULT };
    spec.layout.accounting = Accounting::REFERENCE;
    Plan::new(spec).map_err(|violations| violations.to_string())
}

/// Runs two steps on a device and compares.
pub(crate) fn run<D: Device>(folder: &Folder, device: D) -> Result<Report, String> {
    let plan = plan(folder)?;
    let architecture = &folder.config.architecture;
    let mut weights = Checkpoint::new(&[&folder.weights], folder.config.naming, architecture)?;
    let expected = Expected {
        file: SafeTensors::deserialize(&folder.expected).map_err(|error| format!("expected.safetensors: {error}"))?,
        weights: Checkpoint::new(&[&folder.expected], folder.config.naming, architecture)?,
    };
    let said = |error: StepError| error.to_string();
    let mut step = Step::<D, Dynamic, f32>::new(plan, 0, device, folder.numerics, &mut weights).map_err(said)?;
    let group = |name| Group::new(name, folder.tolerance(name));
    let mut forward = Forward {
        expected: &expected,
        hidden: group("hidden"),
        logits: group("logits"),
        router: group("router_logits"),
        weight: group("topk_weight"),
        index: Group::new("topk_index", 0.0),
    };
    let (mut loss, mut grad, mut after1, mut after2) = (group("loss"), group("grad"), group("after1"), group("after2"));
    let mut batch = Tokens(folder);

    let mut see = |name: &'static str, layer: Option<u64>, seen: Seen<'_>| forward.see(name, layer, seen);
    let report = step.gradients(&mut batch, Some(&mut see)).map_err(said)?;
    expected.loss(&mut loss, "loss", report.loss);
    let mut seen = BTreeSet::new();
    step.each_gradient(&mut |place, values| {
        seen.insert(place.name);
        expected.weight(&mut grad, place, "grad.", values, true);
    })
    .map_err(said)?;
    step.update(ADAMW).map_err(said)?;
    step.settle().map_err(said)?;
    step.weights(&mut |place, values| expected.weight(&mut after1, place, "after1.", values, false)).map_err(said)?;
    let report = step.train(&mut batch, ADAMW).map_err(said)?;
    expected.loss(&mut loss, "loss_after1", report.loss);
    step.weights(&mut |place, values| {
        // Buffers are none of the optimizer's.
        let is_trained = seen.contains(place.name);
        expected.weight(&mut after2, place, "after2.", values, is_trained);
    })
    .map_err(said)?;
    let report = step.gradients(&mut batch, None).map_err(said)?;
    expected.loss(&mut loss, "loss_after2", report.loss);

    let ledger = step.ledger();
    let has_experts = plan.spec().architecture.layers.moe > 0;
    let mut groups = vec![loss, forward.logits, forward.hidden];
    if has_experts {
        groups.extend([forward.router, forward.index, forward.weight]);
    }
    groups.extend([grad, after1, after2]);
    let peak = Phase::TRAINING.iter().map(|phase| ledger.peak(*phase)).max().unwrap_or_default();
    let title = format!("{} on {} in fp32, against what is expected", folder.config.model_type, D::NAME);
    let behind = Behind { device: D::NAME, ..Behind::of(folder.config.model_type, plan.spec()) };
    Ok(Report { version: 2, behind, title, groups, allocations: ledger.allocations(), peak })
}

/// Expected values.
struct Expected<'f> {
    file: SafeTensors<'f>,
    weights: Checkpoint<'f>,
}

impl Expected<'_> {
    fn values(&self, name: &str) -> Option<Vec<f32>> {
        let tensor = self.file.tensor(name).ok().filter(|tensor| tensor.dtype() == Format::F32)?;
        Some(tensor.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }

    fn indices(&self, name: &str) -> Option<Vec<i64>> {
        let tensor = self.file.tensor(name).ok().filter(|tensor| tensor.dtype() == Format::I64)?;
        Some(tensor.data().as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect())
    }

    #[allow(clippy::cast_possible_truncation)] // as it is stored
    fn loss(&self, group: &mut Group, name: &str, loss: Option<f64>) {
        let actual: Vec<f32> = loss.iter().map(|loss| *loss as f32).collect();
        group.compare(name, &actual, &self.values(name).unwrap_or_default());
    }

    /// Compares a weight, or a gradient, which must be there or may be left out.
    fn weight(&self, group: &mut Group, place: &Place, prefix: &str, actual: &[f32], must: bool) {
        match self.weights.weight_of(place.name, place.layer, prefix) {
            Ok(expected) => {
                let layer = place.layer.map_or_else(String::new, |layer| format!("layer {layer} "));
                group.compare(&format!("{layer}{}", place.name), actual, &expected);
            }
            Err(missing) if must => group.compare(&missing, actual, &[]),
            Err(_) => {}
        }
    }
}

/// What forward computes.
struct Forward<'e> {
    expected: &'e Expected<'e>,
    hidden: Group,
    logits: Group,
    router: Group,
    weight: Group,
    index: Group,
}

impl Forward<'_> {
    fn see(&mut self, name: &'static str, layer: Option<u64>, seen: Seen<'_>) {
        let full = layer.map_or_else(|| name.to_owned(), |layer| format!("{name}.{layer}"));
        match seen {
            Seen::Values(values) => {
                let group = match name {
                    "hidden" | "hidden_mid" => &mut self.hidden,
                    "router_logits" => &mut self.router,
                    "topk_weight" => &mut self.weight,
                    _ => &mut self.logits,
                };
                group.compare(&full, values, &self.expected.values(&full).unwrap_or_default());
            }
            Seen::Indices(indices) => {
                let actual: Vec<i64> = indices.iter().copied().map(i64::from).collect();
                self.index.compare_exactly(&full, &actual, &self.expected.indices(&full).unwrap_or_default());
            }
        }
    }
}
