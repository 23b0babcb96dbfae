//! Cross entropy of logits `[tokens, vocabulary]` and a label per token; a negative label is not scored. In steps,
//! because ranks may share the vocabulary: the maximum, the sum and the label's logit of a row are each reduced over
//! them.

#[cfg(feature = "cuda")]
pub(crate) mod cuda;
pub mod host;
mod law;

pub use law::*;
