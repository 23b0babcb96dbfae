//! A spreadsheet of every rank: what it holds in each role at the peak of each phase.

use crate::behind::Behind;
use crate::sheet::{Cell, Column, Failure, Report, Sheet};
use moe_model::spec::{Mesh, Zero};
use moe_model::{Coordinates, Plan, Role};

/// As many rows a spreadsheet program opens.
const ROWS_MAX: u64 = 1 << 20;

const COLUMNS: &[Column] = &[
    ("rank", "rank"),
    ("stage", "stage"),
    ("tp", "tp"),
    ("cp", "cp"),
    ("dp", "dp"),
    ("ep", "ep"),
    ("phase", "<phase"),
    ("role", "<role"),
    ("bytes", "bytes"),
];

const SUMMARY: &[Column] = &[
    ("stage", "stage"),
    ("ranks", "<ranks"),
    ("phase", "<phase"),
    ("bytes", "bytes"),
    ("largest_role", "<most of it"),
    ("largest_bytes", "bytes"),
];

pub(crate) fn report(plan: &Plan, behind: Behind) -> Result<Report, String> {
    let each = (plan.phases().len() * Role::ALL.len()) as u64;
    if plan.world().saturating_mul(each) > ROWS_MAX {
        return Err(format!("{} ranks are more than a spreadsheet program opens", plan.world()));
    }
    let ranks = Sheet {
        key: "ranks",
        title: "Every rank, by role and phase".to_owned(),
        columns: COLUMNS,
        rows: (0..plan.stages()).flat_map(|stage| rows(plan, stage)).collect(),
        is_shown: false,
    };
    let summary = Sheet {
        key: "stages",
        title: "What a rank of each stage holds at the peak of each phase".to_owned(),
        columns: SUMMARY,
        rows: (0..plan.stages()).flat_map(|stage| summary(plan, stage)).collect(),
        is_shown: true,
    };
    let rows = ranks.rows.len();
    Ok(Report {
        format: "moe-model/lab/ranks/1",
        behind,
        sheets: vec![ranks, summary],
        findings: vec![format!("--csv prints {rows} rows, one for each rank, phase and role.")],
        failure: Some(Failure::of("every expert on every rank, with its whole state", plan, |spec| {
            spec.layout.mesh = Mesh { ep: 1, ..spec.layout.mesh };
            spec.layout.zero = Zero::NONE;
        })),
    })
}

/// All ranks of a stage hold as much.
fn rows(plan: &Plan, stage: u64) -> impl Iterator<Item = Vec<Cell>> {
    let budget = plan.budget(stage);
    plan.ranks_of_stage(stage).flat_map(move |rank| {
        let Coordinates { tp, cp, dp, ep, .. } = plan.coordinates(rank);
        plan.phases().iter().flat_map(move |phase| {
            Role::ALL.iter().map(move |role| {
                let mut row: Vec<Cell> = [rank, stage, tp, cp, dp, ep].map(Cell::from).into();
                row.extend([phase.name().into(), role.name().into(), budget.role_in(*role, *phase).into()]);
                row
            })
        })
    })
}

fn summary(plan: &Plan, stage: u64) -> impl Iterator<Item = Vec<Cell>> {
    let (budget, ranks) = (plan.budget(stage), plan.ranks_of_stage(stage));
    plan.phases().iter().map(move |phase| {
        let of_role = |role: &Role| budget.role_in(*role, *phase);
        let largest = Role::ALL.iter().max_by_key(|role| of_role(role)).expect("there are roles");
        vec![
            stage.into(),
            format!("{} to {}", ranks.start, ranks.end - 1).into(),
            phase.name().into(),
            budget.phase(*phase).into(),
            largest.name().into(),
            of_role(largest).into(),
        ]
    })
}
