//! What `tests/data/totals.json` counts of a published model, against an architecture.

use moe_model::spec::Architecture;
use serde_json::Value;

/// What the file says of a model.
#[allow(dead_code)] // not each test that takes this in calls all of it
pub(crate) fn row(model: &str) -> Value {
    let totals: Vec<Value> = serde_json::from_str(include_str!("../data/totals.json")).expect("the file is JSON");
    totals.into_iter().find(|row| row["model"] == model).unwrap_or_else(|| panic!("no {model}"))
}

/// Fails unless every count of the model is that of the architecture.
#[allow(dead_code)]
pub(crate) fn agree(model: &str, architecture: &Architecture) {
    let row = row(model);
    let ours = [
        ("total", architecture.parameters().total()),
        ("active", architecture.active_parameters()),
        ("active_without_input_embedding", architecture.active_without_input_embedding()),
        ("active_without_embedding_and_head", architecture.active_without_embedding_and_head()),
        ("buffers", architecture.buffer_elements()),
        ("mtp", architecture.mtp_parameters()),
        ("mtp_buffers", architecture.mtp_buffer_elements()),
        ("checkpoint", architecture.checkpoint_elements()),
    ];
    for (count, ours) in ours {
        assert_eq!(Some(ours), row[count].as_u64(), "{count} of {model}");
    }
}
