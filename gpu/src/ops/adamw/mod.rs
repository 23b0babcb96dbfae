//! `AdamW`: Adam with weight decay of its own, off the master copy of the weights.

#[cfg(feature = "cuda")]
pub(crate) mod cuda;
pub mod host;
mod law;

pub use law::*;

/// The constants of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// Learning rate.
    pub lr: f32,
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// Added to the root of the second moment, after the correction of its bias.
    pub eps: f32,
    /// Weight decay, times the learning rate.
    pub weight_decay: f32,
}
