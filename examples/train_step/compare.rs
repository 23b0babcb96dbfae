//! Deviations of what was computed from what was expected, by group.

use crate::behind::Behind;
use moe_model::Bytes;
use serde::Serialize;

/// Tensors that are compared with one tolerance.
#[derive(Debug, Serialize)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) tensors: u64,
    pub(crate) values: u64,
    /// The largest absolute difference; infinite where something is missing, not a number, or of another length.
    pub(crate) deviation: f64,
    pub(crate) tolerance: f64,
    /// The tensor that deviates most.
    pub(crate) worst: String,
}

impl Group {
    pub(crate) fn new(name: &'static str, tolerance: f64) -> Self {
        Self { name, tensors: 0, values: 0, deviation: 0.0, tolerance, worst: String::new() }
    }

    /// Whether something was compared, and nothing deviates by more than it may.
    pub(crate) fn is_within(&self) -> bool {
        self.tensors > 0 && self.deviation <= self.tolerance
    }

    pub(crate) fn compare(&mut self, name: &str, actual: &[f32], expected: &[f32]) {
        let off = |(a, b): (&f32, &f32)| {
            let off = (f64::from(*a) - f64::from(*b)).abs();
            if off.is_nan() { f64::INFINITY } else { off }
        };
        let of_lengths = if actual.len() == expected.len() { 0.0 } else { f64::INFINITY };
        let most = actual.iter().zip(expected).map(off).fold(of_lengths, f64::max);
        self.tensors += 1;
        self.values += actual.len() as u64;
        if self.worst.is_empty() || most > self.deviation {
            (self.deviation, self.worst) = (most.max(self.deviation), name.to_owned());
        }
    }

    /// Whole numbers are the same or not.
    pub(crate) fn compare_exactly(&mut self, name: &str, actual: &[i64], expected: &[i64]) {
        let differ =
            actual.len().abs_diff(expected.len()) + actual.iter().zip(expected).filter(|(a, b)| a != b).count();
        self.tensors += 1;
        self.values += actual.len() as u64;
        #[allow(clippy::cast_precision_loss)] // few
        if differ as f64 > self.deviation || self.worst.is_empty() {
            (self.deviation, self.worst) = (self.deviation.max(differ as f64), name.to_owned());
        }
    }
}

/// All groups, and what was asserted beside them.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) version: u32,
    pub(crate) behind: Behind,
    pub(crate) title: String,
    pub(crate) groups: Vec<Group>,
    pub(crate) allocations: u64,
    #[serde(rename = "peak_bytes")]
    pub(crate) peak: Bytes,
}

impl Report {
    pub(crate) fn is_within(&self) -> bool {
        self.groups.iter().all(Group::is_within)
    }

    pub(crate) fn json(&self) -> String {
        let mut json = serde_json::to_value(self).expect("numbers and names are JSON");
        json["is_within"] = self.is_within().into();
        serde_json::to_string_pretty(&json).expect("what is JSON can be written") + "\n"
    }
}
