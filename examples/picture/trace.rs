//! The timeline as a trace in the Trace Event Format, which <https://ui.perfetto.dev> opens: a slice for each event, and a
//! counter for each role, in bytes. Perfetto names the track of a counter by its event and its argument
//! (`json_trace_parser_impl.cc`).

use crate::behind::Behind;
use moe_model::events::Work;
use moe_model::timeline::Moment;
use moe_model::{Plan, Role};
use serde_json::{Map, Value, json};

/// Of an event, in microseconds: traces have times, a plan has an order alone.
const EACH: u64 = 1000;

/// Of a rank of a stage.
pub(crate) fn json(plan: &Plan, stage: u64, moments: &[Moment], behind: &Behind) -> String {
    let rank = plan.ranks_of_stage(stage).start;
    let names = [("process_name", format!("rank {rank}, stage {stage}")), ("thread_name", "what runs".to_owned())];
    let names =
        names.map(|(what, name)| json!({ "ph": "M", "name": what, "pid": rank, "tid": 1, "args": { "name": name } }));
    let events = moments.iter().zip(0..).flat_map(|(moment, place)| {
        let at = EACH * place;
        let slice = json!({
            "ph": "X", "name": name(moment), "cat": moment.phase.name(), "pid": rank, "tid": 1, "ts": at, "dur": EACH,
            "args": { "bytes": moment.total() },
        });
        let roles = Role::ALL.iter().map(|role| (role.name().to_owned(), json!(moment.role(*role))));
        let counts: Map<String, Value> = roles.chain([("in all".to_owned(), json!(moment.total()))]).collect();
        [slice, json!({ "ph": "C", "name": "bytes", "pid": rank, "ts": at, "args": counts })]
    });
    let events: Vec<Value> = names.into_iter().chain(events).collect();
    let trace = json!({ "displayTimeUnit": "ms", "otherData": behind, "traceEvents": events });
    format!("{trace}\n")
}

fn name(moment: &Moment) -> String {
    let Some(event) = moment.event else { return moment.phase.name().replace('_', " ") };
    let work = match event.work {
        Work::Forward => "forward",
        Work::Backward => "backward",
        Work::Weight => "gradient of weights",
    };
    format!("{work} of micro-batch {}, chunk {}", event.micro_batch, event.chunk)
}
