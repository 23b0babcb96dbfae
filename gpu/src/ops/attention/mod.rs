//! X
pub mod host;
