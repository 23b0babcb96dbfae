//! The objections of a published review of the paper, answered in numbers; and the ranges that the paper allows beyond tensors,
//! beside what this library has a name for.

use crate::number::grouped;
use crate::paper::PAPER_STAGE;
use moe_model::spec::{Accounting, Checkpoint, Dropless, Recompute, Routing, WorkedExample};
use moe_model::{Bytes, Plan, Role, Violations};
use serde::Serialize;

/// An objection, and what the library says to it.
#[derive(Serialize)]
pub(crate) struct Objection {
    pub(crate) objection: &'static str,
    pub(crate) answer: String,
}

/// What is taken beyond tensors, as a range that the paper allows, or as a term of ours in its place.
#[derive(Serialize)]
pub(crate) struct Beyond {
    pub(crate) what: &'static str,
    /// What the paper prints.
    pub(crate) printed: Option<&'static str>,
    pub(crate) least_bytes: Bytes,
    pub(crate) most_bytes: Bytes,
    pub(crate) source: &'static str,
}

/// What does not fit, and what is said of it.
#[derive(Serialize)]
pub(crate) struct Failure {
    pub(crate) what: &'static str,
    pub(crate) message: String,
}

/// `full` is the same layout as `none` with full recomputation.
pub(crate) fn objections(none: &Plan, full: &Plan) -> Result<Vec<Objection>, Violations> {
    Ok(vec![
        Objection {
            objection: "activations of one micro-batch stand for those of a device",
            answer: in_flight(none, full),
        },
        Objection {
            objection: "stages 1 to 14 are taken for the worst by their parameters",
            answer: worst_stage(none, full),
        },
        Objection {
            objection: "routing is taken for even, buffers for whatever it takes",
            answer: routing(none, full)?,
        },
    ])
}

fn in_flight(none: &Plan, full: &Plan) -> String {
    let of = |plan: &Plan, stage| {
        let budget = plan.budget(stage);
        format!("{} of {} each", budget.in_flight(), budget.per_micro_batch())
    };
    let stored = |plan: &Plan, stage| plan.budget(stage).stored_activations();
    format!(
        "under one forward, one backward a rank of stage {PAPER_STAGE} holds {}, {} without recomputation, and {}, {}, with \
         full",
        of(none, PAPER_STAGE),
        stored(none, PAPER_STAGE),
        of(full, PAPER_STAGE),
        stored(full, PAPER_STAGE),
    )
}

fn worst_stage(none: &Plan, full: &Plan) -> String {
    format!(
        "without recomputation the first stage is, with dense layers and one micro-batch more: {}, and {} on stage \
         {PAPER_STAGE}; with full recomputation it is {}",
        none.peak(),
        none.budget(PAPER_STAGE).peak().total,
        full.peak(),
    )
}

fn routing(none: &Plan, full: &Plan) -> Result<String, Violations> {
    let skew = full.worst_skew();
    let routing = Routing::Dropless(Dropless { skew, ..Dropless::DEFAULT });
    let [hot_none, hot_full] = [none, full].map(|plan| plan.changed(|spec| spec.layout.routing = routing));
    let one = |plan: &Plan| plan.budget(PAPER_STAGE).per_micro_batch();
    let worst = |plan: &Plan| plan.peak().total;
    let experts = full.spec().architecture.experts;
    let (hot_none, hot_full) = (hot_none?, hot_full?);
    Ok(format!(
        "the hottest rank may get {skew} times as much: without recomputation {} of a micro-batch, not {}, and at its peak {}, \
         not {}; with full recomputation {} at its peak, where an even load takes {}; buffers that never drop a token have room \
         for {} times that load",
        one(&hot_none),
        one(none),
        worst(&hot_none),
        worst(none),
        worst(&hot_full),
        worst(full),
        grouped(experts.routed / experts.active),
    ))
}

/// A rank of the stage that the paper is about, under full recomputation.
pub(crate) fn beyond(full: &Plan) -> Result<Vec<Beyond>, Violations> {
    let peak = full.budget(PAPER_STAGE).peak().total;
    let percent = |percent: u64| Bytes::new(peak.with_headroom(percent).bytes() - peak.bytes());
    // The paper's GB is 2^30 bytes.
    let tenths = |tenths: u64| Bytes::new(Bytes::gib(tenths).bytes() / 10);
    let range = |what, printed, [least_bytes, most_bytes]: [Bytes; 2]| Beyond {
        what,
        printed: Some(printed),
        least_bytes,
        most_bytes,
        source: "arXiv:2502.07846, as a published review gives it",
    };
    let named = |what, bytes, source| Beyond { what, printed: None, least_bytes: bytes, most_bytes: bytes, source };
    let [rounding, segments, channels] = full.outside(PAPER_STAGE)[..] else { return Ok(Vec::new()) };
    let of_term = |term: moe_model::outside::Term| named(term.name, term.bytes, term.source);
    let worked = Accounting::WorkedExample(WorkedExample { checkpoint: Checkpoint::SubBlock });
    let buffers = full.changed(|spec| spec.layout.accounting = worked)?.budget(PAPER_STAGE).role(Role::Communication);
    Ok(vec![
        range("fragmentation", "5 to 30 %", [percent(5), percent(30)]),
        of_term(rounding),
        of_term(segments),
        range("communication buffers", "0.8 to 2 GB", [tenths(8), tenths(20)]),
        of_term(channels),
        named("to send to experts from, and to receive into", buffers, "accounting worked_example"),
    ])
}

/// The same without recomputation on the device that it fits on with.
pub(crate) fn failure(full: &Plan, device: moe_model::Device) -> Failure {
    let changed = full.changed(|spec| {
        spec.layout.recompute = Recompute::None;
        spec.layout.device = device;
    });
    let message = changed.map_or_else(|violations| violations.to_string(), |_| "it fits".to_owned());
    Failure { what: "the layout without recomputation", message }
}
