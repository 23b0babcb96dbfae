//! Attention on the CPU, two ways with the same results: in tiles that keep no matrix of probabilities, and eagerly.

mod backward;
mod eager;
mod forward;
mod merge;
mod share;
#[cfg(test)]
mod tests;
mod tile;

pub use backward::{backward, backward_scratch_len};
pub use eager::{backward_eager, eager_scratch_len, forward_eager};
pub use forward::{forward, forward_scratch_len};
pub use merge::merge;
