//! Serving against training: what a rank holds of the same model on the same mesh, once in a step and once while it serves as
//! many sequences as a replica's step trains on.

use crate::behind::Behind;
use crate::number::grouped;
use crate::sheet::{Cell, Column, Failure, Report, Sheet};
use moe_model::spec::{Layout, Service, Serving};
use moe_model::{Device, Phase, Plan, Role, Spec};

const COLUMNS: &[Column] =
    &[("role", "<role"), ("training_bytes", "training"), ("prefill_bytes", "prefill"), ("decode_bytes", "decode")];

pub(crate) fn report(plan: &Plan, behind: Behind) -> Result<Report, String> {
    if plan.spec().layout.served().is_some() {
        return Err("the layout serves already: the lab makes one that serves of one that trains".to_owned());
    }
    let served = served(plan)?;
    let (training, serving) = (plan.peak(), served.peak());
    let (step, serve) = (plan.budget(training.stage), served.budget(serving.stage));
    let role = |role: &Role| -> Vec<Cell> {
        let bytes = [
            step.role_in(*role, training.phase),
            serve.role_in(*role, Phase::Prefill),
            serve.role_in(*role, Phase::Decode),
        ];
        [role.name().into()].into_iter().chain(bytes.map(Cell::from)).collect()
    };
    let all = [training.total, serve.phase(Phase::Prefill), serve.phase(Phase::Decode)];
    let all = [Cell::from("in all")].into_iter().chain(all.map(Cell::from)).collect();
    let Serving { requests, context, .. } = *served.spec().layout.served().expect("it was made so");
    let sheet = Sheet {
        key: "roles",
        title: format!(
            "The worst rank, of stage {} in {} of training, of stage {} serving {requests} sequences of {} tokens",
            training.stage,
            training.phase.name(),
            serving.stage,
            grouped(context),
        ),
        columns: COLUMNS,
        rows: Role::ALL.iter().map(role).chain([all]).collect(),
        is_shown: true,
    };
    Ok(Report {
        format: "moe-model/lab/serve/1",
        behind,
        sheets: vec![sheet],
        findings: findings(plan, &served, requests, context),
        failure: Some(Failure::of("the same served with 256 times the context", &served, |spec| {
            let context = context.saturating_mul(256);
            spec.layout.serving = Service::Serving(Serving { requests, context, ..Serving::DEFAULT });
            spec.layout.device = if spec.layout.device == Device::None { Device::H200 } else { spec.layout.device };
        })),
    })
}

/// The same model, mesh and formats of weights; nothing of a step.
fn served(plan: &Plan) -> Result<Plan, String> {
    let Spec { architecture, layout } = *plan.spec();
    let requests = layout.batch.micro.saturating_mul(layout.batch.count);
    let serving = Serving { requests, context: layout.batch.sequence, ..Serving::DEFAULT };
    let layout = Layout {
        mesh: layout.mesh,
        stages: layout.stages,
        placement: layout.placement,
        precision: layout.precision,
        device: layout.device,
        headroom: layout.headroom,
        serving: Service::Serving(serving),
        ..Layout::DEFAULT
    };
    Plan::new(Spec { architecture, layout }).map_err(|violations| violations.to_string())
}

fn findings(plan: &Plan, served: &Plan, requests: u64, context: u64) -> Vec<String> {
    let stage = served.peak().stage;
    let token = served.kv_cache_per_token(stage);
    let mut findings = vec![format!(
        "Training keeps {} of a micro-batch on its worst rank, serving {} of a sequence, {token} of each token.",
        plan.budget(plan.peak().stage).per_micro_batch(),
        served.kv_cache_of_sequence(stage, context),
    )];
    let device = served.spec().layout.device;
    if device != Device::None {
        let longest = served.longest_context(requests, device).map_or("none".to_owned(), grouped);
        let most = served.most_requests(context, device).map_or("none".to_owned(), grouped);
        findings.push(format!(
            "On {} {requests} requests may be {longest} tokens long, and {most} requests of {} fit.",
            device.word(),
            grouped(context)
        ));
    }
    findings
}
