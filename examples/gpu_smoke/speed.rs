//! How long each piece of work takes, and how much it does in that time.

use moe_model::gpu::cuda::{Times, Work};
use serde::Serialize;
use std::collections::BTreeMap;

/// One sort of work.
#[derive(Clone, Serialize)]
pub(crate) struct Row {
    /// In words.
    what: String,
    /// Of a product: m, n, and k that are summed up.
    product: Option<[usize; 3]>,
    /// Of products that are made at once: how many there are, each of a part of m, or of gradients of weights of k.
    groups: Option<usize>,
    /// Whether they are gradients of weights.
    is_weight: Option<bool>,
    count: u64,
    seconds: f64,
    /// Of all work.
    share: f64,
    tflops: Option<f64>,
    gigabytes_per_second: Option<f64>,
}

/// Sorts of work, what takes longest first.
#[allow(clippy::cast_precision_loss)] // rates
pub(crate) fn rows(times: &BTreeMap<Work, Times>) -> Vec<Row> {
    let all: f64 = times.values().map(|times| times.spent.as_secs_f64()).sum();
    let row = |(work, times): (&Work, &Times)| {
        let (seconds, count) = (times.spent.as_secs_f64(), times.count as f64);
        let rate = |each: f64| (seconds > 0.0).then(|| each * count / seconds);
        let (product, groups, is_weight) = match work {
            Work::Product(sizes) => (Some(*sizes), None, None),
            Work::Products { groups, sizes, is_weight } => (Some(*sizes), Some(*groups), Some(*is_weight)),
            _ => (None, None, None),
        };
        let tflops = product.and_then(|[m, n, k]| rate(2e-12 * m as f64 * n as f64 * k as f64));
        let moved = match work {
            Work::ToDevice(bytes) | Work::ToHost(bytes) | Work::Zeros(bytes) => Some(*bytes as f64),
            // Read and written.
            Work::Copy(bytes) => Some(2.0 * *bytes as f64),
            _ => None,
        };
        let gigabytes_per_second = moved.and_then(|bytes| rate(bytes * 1e-9));
        let share = if all > 0.0 { seconds / all } else { 0.0 };
        let (what, count) = (work.to_string(), times.count);
        Row { what, product, groups, is_weight, count, seconds, share, tflops, gigabytes_per_second }
    };
    let mut rows: Vec<Row> = times.iter().map(row).collect();
    rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    rows
}
