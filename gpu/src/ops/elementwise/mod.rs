//! Sums, copies between layouts and formats, and the gate of a shared expert: one pass over the elements each.

pub mod host;
