//! Layers that are computed again together: of each run of so many layers of a chunk forward keeps the input of the first
//! alone; backward runs all of them forward again, so that all they save is there at once, then goes back through them
//! (Megatron-LM's `--recompute-method uniform`: `checkpointed_forward` of `core/recompute.py`, 0.20.0, d98e8a64). The last
//! run of a chunk may be shorter.

use crate::spec::Layers;
use crate::stages::Chunk;

/// Of the layers of a run the blocks whose saves are there while backward goes through one of them: those in front of it, and
/// itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) attention: u64,
    pub(crate) dense: u64,
    pub(crate) moe: u64,
}

impl Held {
    const NONE: Self = Self { attention: 0, dense: 0, moe: 0 };

    /// In the attention, the dense network and the experts of a layer that is computed again by itself.
    pub(crate) const ALONE: [Self; 3] = [
        Self { attention: 1, ..Self::NONE },
        Self { attention: 1, dense: 1, ..Self::NONE },
        Self { attention: 1, moe: 1, ..Self::NONE },
    ];

    /// What they save, each of its kind so much.
    pub(crate) const fn bytes(&self, saved: &[u128; 3]) -> u128 {
        self.attention as u128 * saved[0] + self.dense as u128 * saved[1] + self.moe as u128 * saved[2]
    }

    /// Of either place the one where more is there.
    pub(crate) const fn larger(one: &[Self; 3], other: &[Self; 3], saved: &[u128; 3]) -> [Self; 3] {
        let (mut most, mut i) = (*one, 0);
        while i < most.len() {
            if other[i].bytes(saved) > most[i].bytes(saved) {
                most[i] = other[i];
            }
            i += 1;
        }
        most
    }

    /// The same without the layers behind the last of some kind, all of the other.
    const fn without(self, dense: u64, moe: u64) -> Self {
        Self { attention: self.attention - dense - moe, dense: self.dense - dense, moe: self.moe - moe }
    }
}

/// The most layers from one with experts to the next: runs that start at any of them are looked at, each by itself.
pub(crate) const SPACING_MAX: u64 = 64;

/// The runs of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runs {
    first_layer: u64,
    layers: u64,
    together: u64,
}

impl Runs {
    pub(crate) const fn of(chunk: &Chunk, together: u64) -> Self {
        Self { first_layer: chunk.first_layer, layers: chunk.layers, together }
    }

    /// What is there in the attention, the dense network and the experts of the run where that is most.
    pub(crate) const fn worst(&self, layers: &Layers, saved: &[u128; 3]) -> [Held; 3] {
        let (lead, every) = (layers.lead(), if layers.moe_every > 1 { layers.moe_every } else { 1 });
        // Runs in front of the first with experts are alike, and so are those behind it that start as far from the next
        // layer with experts; only the last is shorter.
        let turn = lead.saturating_sub(self.first_layer) / self.together;
        let (last, mut worst, mut run) = (self.layers.div_ceil(self.together).saturating_sub(1), Held::ALONE, 0);
        while run <= last {
            worst = Held::larger(&worst, &self.held(run, layers, lead, every), saved);
            run = if run < turn {
                turn
            } else if run < turn + every || run >= last {
                run + 1
            } else {
                last
            };
        }
        worst
    }

    const fn held(&self, run: u64, layers: &Layers, lead: u64, every: u64) -> [Held; 3] {
        let first = run * self.together;
        let rest = self.layers - first;
        let count = if rest < self.together { rest } else { self.together };
        let (first, end) = (self.first_layer + first, self.first_layer + first + count);
        let moe = layers.moe_among(first, count);
        let all = Held { attention: count, dense: count - moe, moe };
        // Of layers behind the first that have experts the last of each group does.
        let behind_moe = if end > lead { (end - lead) % every } else { 0 };
        let ends_with_moe = moe > 0 && behind_moe == 0;
        let behind_dense = match (ends_with_moe, every) {
            (false, _) => 0,
            (true, 1) => moe,
            (true, _) => 1,
        };
        let mut held = Held::ALONE;
        if count > 0 {
            let network = Held { attention: 0, dense: !ends_with_moe as u64, moe: ends_with_moe as u64 };
            held[0] = Held { dense: all.dense - network.dense, moe: all.moe - network.moe, ..all };
        }
        if all.dense > 0 {
            held[1] = all.without(0, behind_dense);
        }
        if moe > 0 {
            held[2] = all.without(behind_moe, 0);
        }
        held
    }
}
