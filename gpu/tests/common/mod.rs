//! What tests of the step share: weights and tokens out of a seed, the same under every layout.

use moe_model_gpu::ops::adamw::AdamW;
use moe_model_gpu::step::{Batch, Place, Source};

/// A decay that changes weights whose gradient is zero too, as bf16 has them.
pub(crate) const ADAMW: AdamW = AdamW { lr: 0.02, beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0.5 };

/// Weights by their names and layers, tokens by their places in the step.
#[derive(Clone, Copy)]
pub(crate) struct Random {
    /// What all follows from.
    pub(crate) seed: u64,
    /// Rows of the vocabulary that stand for tokens.
    pub(crate) vocab: u64,
}

impl Random {
    fn rng(self, name: &str, number: u64) -> fastrand::Rng {
        let bytes = name.bytes().map(u64::from).chain([number, self.seed]);
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ byte).wrapping_mul(0x0100_0000_01b3));
        fastrand::Rng::with_seed(hash)
    }

    fn tokens(self, name: &str, micro_batch: u64, out: &mut [i64]) {
        let first = micro_batch * out.len() as u64;
        out.iter_mut()
            .zip(first..)
            .for_each(|(id, place)| *id = self.rng(name, place).i64(0..self.vocab.cast_signed()));
    }
}

impl Source for Random {
    fn fill(&mut self, place: &Place, out: &mut [f32]) -> Result<(), String> {
        let mut rng = self.rng(place.name, place.layer.map_or(0, |layer| layer + 1));
        #[allow(clippy::cast_precision_loss)] // widths of a small model
        let spread = 1.7 / (place.width as f32 + 8.0).sqrt();
        let middle = if place.name.contains("norm") { 1.0 } else { 0.0 };
        out.fill_with(|| middle + spread * (2.0 * rng.f32() - 1.0));
        Ok(())
    }
}

impl Batch for Random {
    fn ids(&mut self, micro_batch: u64, out: &mut [i64]) {
        self.tokens("ids", micro_batch, out);
    }

    fn labels(&mut self, micro_batch: u64, out: &mut [i64]) {
        self.tokens("labels", micro_batch, out);
    }
}
