//! The router: from the logits of a token to the experts it goes to and their weights. The choice passes no gradient,
//! the weights do.

#[cfg(feature = "cuda")]
pub(crate) mod cuda;
pub mod host;
mod law;

pub use law::*;

/// How logits become scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// The softmax over all experts: Mixtral, Qwen, DeepSeek-V2.
    Softmax,
    /// The sigmoid of each: DeepSeek-V3.
    Sigmoid,
    /// The logits choose, and their softmax over the chosen is the weights: gpt-oss.
    SoftmaxOfChosen,
}

/// How a model routes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Router {
    /// How logits become scores.
    pub score: Score,
    /// Experts.
    pub experts: usize,
    /// Experts that a token goes to.
    pub active: usize,
    /// Groups of neighbouring experts; 0 or 1 where there are none.
    pub groups: usize,
    /// Groups that a token may choose from: those whose two best scores have the largest sum.
    pub active_groups: usize,
    /// Whether the weights are divided by their sum.
    pub normalise: bool,
    /// The factor of the weights.
    pub scale: f32,
}
