//! Rotary position embedding: pair p of the rotated dimensions turns by position * theta^(-2p / rotary).

pub mod host;
mod law;

pub use law::*;

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
    /// The length of a sequence: the position of token t is t % sequence.
    pub sequence: usize,
}
