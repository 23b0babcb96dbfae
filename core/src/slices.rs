//! Which elements of a weight a rank holds, of the weight as one rank would hold it.

use crate::groups::Coordinates;
use crate::holdings::Axis;
use crate::plan::Plan;
use alloc::vec::Vec;
use core::ops::Range;

impl Plan {
    /// The elements of a weight that the rank at a place holds, in the order in which it holds them, as runs of the elements
    /// of the whole weight, row by row: of one layer, the weights of all experts below one another, and what layouts tell
    /// apart of one matrix (the rotary part of a query projection) together. Empty where its stage has no such weight, and
    /// where the layout does not say what of its tensors a rank holds.
    ///
    /// Of key/value heads that are fewer than tensor-parallel ranks, neighbours hold the same.
    ///
    /// ```
    /// use moe_model_core::preset::MIXTRAL_8X7B;
    /// use moe_model_core::spec::{Accounting, Mesh, Spec, Switch};
    /// use moe_model_core::Plan;
    ///
    /// let mut spec = Spec { architecture: MIXTRAL_8X7B, ..Spec::DEFAULT };
    /// spec.layout.mesh = Mesh { dp: 4, tp: 2, ep: 8, sequence_parallel: Switch::On, ..Mesh::DEFAULT };
    /// spec.layout.batch.sequence = 4096;
    /// let plan = Plan::new(spec)?;
    /// let at = plan.coordinates(3);
    /// // Heads 16 to 31 of 32: rows of the query projection, columns of the output's.
    /// assert_eq!(plan.slices(&at, "self_attn.q_proj.weight"), [8_388_608..16_777_216]);
    /// assert_eq!(plan.slices(&at, "self_attn.o_proj.weight").len(), 4096);
    /// // The fourth of eight experts.
    /// let expert = 14_336 * 4096;
    /// assert_eq!(plan.slices(&at, "mlp.experts.up_proj.weight"), [3 * expert..4 * expert]);
    /// # Ok::<(), moe_model_core::Violations>(())
    /// ```
    #[must_use]
    pub fn slices(&self, at: &Coordinates, name: &str) -> Vec<Range<u64>> {
        let holdings = self.holdings(at.pp).unwrap_or_default();
        let Some(holding) = holdings.iter().find(|holding| holding.name == name) else { return Vec::new() };
        // One whole, to be cut along each dimension.
        let mut runs: Vec<Range<u64>> = Vec::from([Range { start: 0, end: 1 }]);
        for axis in &holding.axes {
            runs = cut(&runs, axis, self.place_along(at, axis) * axis.local);
        }
        runs
    }
}

/// Runs of the elements in front of a dimension, within it: each becomes as many, or one where the dimension is whole.
fn cut(runs: &[Range<u64>], axis: &Axis, first: u64) -> Vec<Range<u64>> {
    let Axis { global, local, .. } = *axis;
    if local == global {
        return runs.iter().map(|run| run.start * global..run.end * global).collect();
    }
    let each = runs.iter().flat_map(Clone::clone);
    each.map(|one| one * global + first..one * global + first + local).collect()
}
