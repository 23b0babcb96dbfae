//! Weights and tokens by chance, the same in every run: for steps that need some and any will do.

use crate::step::{Batch, Place, Source};
use moe_model_core::Plan;

/// Weights around 0, those of norms around 1, and tokens of the whole vocabulary.
#[derive(Clone, Debug)]
pub struct Random {
    generator: fastrand::Rng,
    vocab: u64,
    sequence: usize,
}

impl Random {
    /// Of a plan's vocabulary and sequences.
    ///
    /// # Panics
    /// If a sequence is longer than this machine's addresses.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let (vocab, sequence) = (plan.spec().architecture.vocab, plan.spec().layout.batch.sequence);
        let sequence = usize::try_from(sequence).expect("tokens are addresses");
        Self { generator: fastrand::Rng::with_seed(vocab), vocab, sequence }
    }

    /// Tokens of a micro-batch, whatever was drawn before.
    fn tokens(&self, micro_batch: u64) -> impl Iterator<Item = i64> + use<> {
        let mut random = fastrand::Rng::with_seed(self.vocab ^ micro_batch.wrapping_add(1).rotate_left(32));
        let vocab = i64::try_from(self.vocab).unwrap_or(i64::MAX);
        core::iter::repeat_with(move || random.i64(0..vocab))
    }
}

impl Source for Random {
    fn fill(&mut self, place: &Place, out: &mut [f32]) -> Result<(), String> {
        let is_norm = place.name.ends_with("norm.weight");
        // As wide as keeps what a row sums up to of the size of its inputs.
        #[allow(clippy::cast_precision_loss)] // widths
        let spread = if is_norm { 0.1 } else { 1.5 / (place.width.max(4) as f32).sqrt() };
        let middle = if is_norm { 1.0 } else { 0.0 };
        for out in out {
            *out = middle + spread * (2.0 * self.generator.f32() - 1.0);
        }
        Ok(())
    }
}

impl Batch for Random {
    fn ids(&mut self, micro_batch: u64, out: &mut [i64]) {
        out.iter_mut().zip(self.tokens(micro_batch)).for_each(|(out, token)| *out = token);
    }

    /// The next token; of the last one of a sequence nothing is known.
    fn labels(&mut self, micro_batch: u64, out: &mut [i64]) {
        out.iter_mut().zip(self.tokens(micro_batch).skip(1)).for_each(|(out, token)| *out = token);
        out.chunks_mut(self.sequence.max(1)).filter_map(<[_]>::last_mut).for_each(|last| *last = -1);
    }
}
