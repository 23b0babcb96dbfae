//! Rotary position embedding: pair p of the rotated dimensions turns by position * theta^(-2p / rotary).

#[cfg(feature = "cuda")]
pub(crate) mod cuda;
pub mod host;
mod law;

pub use law::*;

use crate::float::count;

/// Which two dimensions turn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// Dimension p and p + rotary / 2: Llama and most others.
    Half,
    /// Dimension 2p and 2p + 1: DeepSeek.
    Interleaved,
}

/// How a model turns positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// The base of the frequencies.
    pub theta: f32,
    /// Which dimensions are a pair.
    pub pairs: Pairs,
    /// The position of the first token: that of a later piece of a sequence is not 0.
    pub start: usize,
    /// The length of a sequence, or of a piece: the position of token t is start + t % sequence.
    pub sequence: usize,
}

impl Rope {
    /// The angle that a pair of `rotary` dimensions turns by from one position to the next.
    pub(crate) fn frequency(&self, pair: usize, rotary: usize) -> f32 {
        // In f32 and in this order, as transformers has it.
        1.0 / self.theta.powf(count(2 * pair) / count(rotary))
    }
}
