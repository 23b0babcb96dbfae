//! Which elements of a weight a rank holds, of the weight as one rank would hold it.

use crate::groups::Coordinates;
use crate::inventory::{Entry, Role};
use crate::plan::Plan;
use crate::sizes::Over;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

impl Plan {
    /// The elements of a weight that the rank at a place holds, in the order in which it holds them, as runs of the elements
    /// of the whole weight, row by row: of one layer, the weights of all experts below one another, and what layouts tell
    /// apart of one matrix (the rotary part of a query projection) together. Empty where its stage has no such weight.
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
        let inventory = self.inventory(at.pp);
        let is_it = |entry: &&Entry| entry.name == name && matches!(entry.role, Role::Weight | Role::Workspace);
        let entries: Vec<&Entry> = inventory.iter().filter(is_it).collect();
        if entries.is_empty() {
            return Vec::new();
        }
        // One whole, to be cut along each dimension.
        let mut runs: Vec<Range<u64>> = Vec::from([Range { start: 0, end: 1 }]);
        for (global, local, over) in shape(&entries) {
            let first = self.place_of_part(at, over, global, local) * local;
            runs = cut(&runs, global, first, local);
        }
        runs
    }

    /// Which part of a dimension a rank holds.
    const fn place_of_part(&self, at: &Coordinates, over: Over, global: u64, local: u64) -> u64 {
        match (over, global.checked_div(local)) {
            // Neighbours share a part where there are fewer parts than ranks.
            (Over::Tp, Some(parts)) if parts > 0 => at.tp / (self.spec().layout.mesh.tp / parts),
            (Over::Ep, _) => at.ep,
            (Over::Etp, _) => at.etp,
            _ => 0,
        }
    }
}

/// Runs of the elements in front of a dimension, within it: each becomes as many, or one where the dimension is whole.
fn cut(runs: &[Range<u64>], global: u64, first: u64, local: u64) -> Vec<Range<u64>> {
    if local == global {
        return runs.iter().map(|run| run.start * global..run.end * global).collect();
    }
    let each = runs.iter().flat_map(Clone::clone);
    each.map(|one| one * global + first..one * global + first + local).collect()
}

/// The dimensions of a weight: global and local length, and what it is split over. Its parts stand behind one another in the
/// second one, of each head, or in the first.
fn shape(entries: &[&Entry]) -> Vec<(u64, u64, Over)> {
    let dims = entries[0].shape.map(|dim| (dim.global, dim.local, dim.over));
    let [first, second, third, fourth] = dims;
    let sum = |place: usize| {
        let of = entries.iter().map(|entry| entry.shape[place]);
        of.fold((0, 0), |(global, local), dim| (global + dim.global, local + dim.local))
    };
    let is_by_head = entries.len() > 1 && entries.iter().all(|entry| entry.shape[0] == entries[0].shape[0]);
    if is_by_head {
        let (global, local) = sum(1);
        vec![first, (global, local, second.2), third, fourth]
    } else {
        let (global, local) = sum(0);
        vec![(global, local, first.2), second, third, fourth]
    }
}
