//! The gated activations of feed-forward layers: gate and up `[rows, width]` make one row of the same width.

#[cfg(feature = "cuda")]
pub(crate) mod cuda;
pub mod host;
mod law;

pub use law::*;

/// Which activation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// gate * sigmoid(gate) * up
    SwiGlu,
    /// With gate cut off above `limit` and up at ±`limit`: (up + 1) * gate * sigmoid(alpha * gate), as gpt-oss has it.
    ClampedSwiGlu {
        /// Where values are cut off.
        limit: f32,
        /// The factor inside the sigmoid.
        alpha: f32,
    },
}
