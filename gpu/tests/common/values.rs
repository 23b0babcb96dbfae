//! Weights that are the same under every layout: each element follows from its place in the whole tensor. Rows of padding
//! are zeros, as they are where a checkpoint was read.

use moe_model_core::{Coordinates, Plan};
use moe_model_gpu::step::{Place, Source};

/// What a rank holds of them.
pub(crate) struct Values {
    pub(crate) plan: Plan,
    pub(crate) at: Coordinates,
    pub(crate) seed: u64,
}

impl Values {
    pub(crate) fn of(plan: &Plan, rank: u64, seed: u64) -> Self {
        Self { plan: *plan, at: plan.coordinates(rank), seed }
    }
}

impl Source for Values {
    fn fill(&mut self, place: &Place, out: &mut [f32]) -> Result<(), String> {
        let architecture = &self.plan.spec().architecture;
        let is_table = place.name == "lm_head.weight" && architecture.tied_embeddings.is_on();
        let name = if is_table { "model.embed_tokens.weight" } else { place.name };
        let has_rows = matches!(name, "model.embed_tokens.weight" | "lm_head.weight");
        let end = if has_rows { architecture.vocab * architecture.hidden } else { u64::MAX };
        let bytes = name.bytes().map(u64::from).chain([place.layer.map_or(0, |layer| layer + 1), self.seed]);
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ byte).wrapping_mul(0x0100_0000_01b3));
        let middle = if name.contains("norm") { 1.0 } else { 0.0 };
        let mut places = self.plan.slices(&self.at, place.name).into_iter().flatten();
        for out in out {
            let at = places.next().ok_or_else(|| format!("{place:?} has a place for each element"))?;
            let value = fastrand::Rng::with_seed(hash ^ at.rotate_left(20)).f32();
            *out = if at < end { middle + 0.6 * (value - 0.5) } else { 0.0 };
        }
        Ok(())
    }
}
