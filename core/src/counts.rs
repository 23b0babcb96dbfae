//! How many of each part of a model a rank holds: of some chunks, with so many micro-batches in flight in each.

use crate::plan::Plan;
use crate::spec::{Beside, Layers, Switch};
use crate::stages::Chunk;
use crate::together::Held;

/// A part of a model, listed as often as a rank holds it: what [`Counts`] counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    First,
    /// Layers that are computed again together: what is kept of them.
    Run,
    Attention,
    Mixer,
    Compressed,
    Heavy,
    Dense,
    Moe,
    Mtp,
    MtpHead,
    Last,
    Head,
}

impl Part {
    pub(crate) const COUNT: usize = Self::Head as usize + 1;
}

/// How many of each part of a model a rank holds. What is listed is proportional to these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    /// Embedding tables.
    pub(crate) first: Count,
    /// Blocks of attention and of what takes its place, by their [`Slot`](crate::mixers::Slot).
    pub(crate) mixers: [Count; 4],
    /// Dense feed-forward networks.
    pub(crate) dense: Count,
    /// Routers with experts.
    pub(crate) moe: Count,
    /// What multi-token-prediction modules have around a layer, which is counted among layers.
    pub(crate) mtp: Count,
    /// Final norms with the loss.
    pub(crate) last: Count,
    /// Tables of heads; not of one that is the embedding of the same rank.
    pub(crate) head: Count,
    /// Of mixers, dense networks and experts those that keep all they save, where only the first layers of a chunk are
    /// computed again; they are none of those above.
    pub(crate) whole: [Count; Self::LAYERS],
    /// Runs of layers that are computed again together, if any are.
    pub(crate) runs: Count,
    /// Of such a run what is there at once while backward goes through attention, a dense network, and experts, at most.
    pub(crate) again: [Held; 3],
}

/// How many of a part a rank holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Count {
    pub(crate) there: u64,
    /// Their activations: so many times as micro-batches are in flight in each.
    pub(crate) in_flight: u64,
}

impl Count {
    pub(crate) const NONE: Self = Self { there: 0, in_flight: 0 };
    pub(crate) const ONE: Self = Self { there: 1, in_flight: 1 };

    const fn many(there: u64, micro_batches: u64) -> Self {
        Self { there, in_flight: there * micro_batches }
    }

    const fn plus(self, other: Self) -> Self {
        Self { there: self.there + other.there, in_flight: self.in_flight + other.in_flight }
    }
}

impl Counts {
    /// One of each.
    pub(crate) const ONE: Self = Self {
        first: Count::ONE,
        mixers: [Count::ONE; 4],
        dense: Count::ONE,
        moe: Count::ONE,
        mtp: Count::ONE,
        last: Count::ONE,
        head: Count::ONE,
        whole: [Count::NONE; Self::LAYERS],
        runs: Count::ONE,
        again: Held::ALONE,
    };

    /// Parts that are layers: mixers by their slot, dense networks, experts.
    pub(crate) const LAYERS: usize = 6;

    pub(crate) const NONE: Self = Self {
        first: Count::NONE,
        mixers: [Count::NONE; 4],
        dense: Count::NONE,
        moe: Count::NONE,
        mtp: Count::NONE,
        last: Count::NONE,
        head: Count::NONE,
        whole: [Count::NONE; Self::LAYERS],
        runs: Count::NONE,
        again: Held::ALONE,
    };

    /// Those of a chunk, so many micro-batches of which are in flight. All layers and micro-batches of a model are fewer
    /// than 2^32 each, so that no product or sum outgrows 64 bits.
    pub(crate) const fn of(plan: &Plan, chunk: &Chunk, micro_batches: u64) -> Self {
        let layers = &plan.spec().architecture.layers;
        let (first, together) = (plan.spec().layout.recompute_layers, plan.spec().layout.recompute_together);
        let mut counts = if first == 0 || first >= chunk.layers {
            Self::of_layers(chunk, micro_batches, layers.beside)
        } else {
            Self::divided(chunk, micro_batches, layers, first)
        };
        if together > 0 {
            // A module is one by itself: see `recompute-together-mtp`.
            counts.runs = Count::many(chunk.layers.div_ceil(together) + chunk.mtp, micro_batches);
        }
        if chunk.mtp == 0 {
            return counts;
        }
        counts.with_mtp(Count::many(chunk.mtp, micro_batches), layers.moe > 0, first > 0)
    }

    /// The first layers of a chunk, and apart the others.
    const fn divided(chunk: &Chunk, micro_batches: u64, layers: &Layers, first: u64) -> Self {
        let (again, whole) = chunk.divided(first, layers);
        let mut counts = Self::of_layers(&again, micro_batches, layers.beside);
        counts.whole = Self::of_layers(&whole, micro_batches, layers.beside).layers();
        counts
    }

    /// Those that are computed again where others are not: mixers by their slot, dense networks, experts.
    pub(crate) const fn layers(&self) -> [Count; Self::LAYERS] {
        let [a, b, c, d] = self.mixers;
        [a, b, c, d, self.dense, self.moe]
    }

    /// Those that keep all they save, as if they were all.
    pub(crate) const fn whole(&self) -> Self {
        Self::NONE.with_layers(self.whole)
    }

    const fn with_layers(self, [a, b, c, d, dense, moe]: [Count; Self::LAYERS]) -> Self {
        Self { mixers: [a, b, c, d], dense, moe, ..self }
    }

    /// With modules that are a layer each, and have an embedding. They are never among the first layers that are computed
    /// again (megatron-core's `MultiTokenPredictionLayer` skips recomputation under `block`).
    const fn with_mtp(mut self, mtp: Count, has_experts: bool, is_whole: bool) -> Self {
        self.mtp = mtp;
        let [first, _, _, _, dense, moe] = &mut self.whole;
        let (mixer, dense, moe) =
            if is_whole { (first, dense, moe) } else { (&mut self.mixers[0], &mut self.dense, &mut self.moe) };
        let network = if has_experts { moe } else { dense };
        *mixer = mixer.plus(mtp);
        *network = network.plus(mtp);
        if self.first.there == 0 {
            self.first = Count { there: 1, in_flight: mtp.in_flight / mtp.there };
        }
        self
    }

    const fn of_layers(chunk: &Chunk, micro_batches: u64, beside: Beside) -> Self {
        let (first, last) = (chunk.embedding as u64, chunk.head as u64);
        // Blocks that layers with experts have beside these.
        let (attention, dense) = match beside {
            Beside::None => (0, 0),
            Beside::Dense => (0, chunk.moe),
            Beside::TwoBlocks => (chunk.moe, 2 * chunk.moe),
        };
        let [all, mixer, light, heavy] = chunk.mixers;
        let (all, dense) = (all + attention, chunk.dense + dense);
        let all = Count { there: all, in_flight: all * micro_batches };
        Self {
            first: Count { there: first, in_flight: first * micro_batches },
            mixers: if mixer + light + heavy == 0 {
                [all, Count::NONE, Count::NONE, Count::NONE]
            } else {
                let [mixer, light, heavy] = [
                    Count::many(mixer, micro_batches),
                    Count::many(light, micro_batches),
                    Count::many(heavy, micro_batches),
                ];
                [all, mixer, light, heavy]
            },
            dense: Count { there: dense, in_flight: dense * micro_batches },
            moe: Count { there: chunk.moe, in_flight: chunk.moe * micro_batches },
            mtp: Count::NONE,
            last: Count { there: last, in_flight: last * micro_batches },
            head: Count { there: last, in_flight: 0 },
            whole: [Count::NONE; Self::LAYERS],
            runs: Count::NONE,
            again: Held::ALONE,
        }
    }

    /// Of a rank, with tied embeddings or not: a rank with both ends holds one table.
    pub(crate) const fn tied(self, tied: Switch) -> Self {
        if tied.is_on() && self.first.there > 0 { Self { head: Count::NONE, ..self } } else { self }
    }

    /// Whether some layers are not computed again while others are.
    pub(crate) const fn has_whole(&self) -> bool {
        let [a, b, c, d, dense, moe] = self.whole;
        a.there + b.there + c.there + d.there + dense.there + moe.there > 0
    }

    /// Without the layers that are not computed again.
    pub(crate) const fn recomputed(self) -> Self {
        Self { whole: [Count::NONE; Self::LAYERS], ..self }
    }

    /// All layers, computed again or not.
    pub(crate) const fn all(self) -> Self {
        self.with_layers(sums(self.layers(), self.whole)).recomputed()
    }

    /// With those of another chunk of the rank, what is there at once apart.
    pub(crate) const fn with(self, other: Self) -> Self {
        Self {
            first: self.first.plus(other.first),
            mixers: [
                self.mixers[0].plus(other.mixers[0]),
                self.mixers[1].plus(other.mixers[1]),
                self.mixers[2].plus(other.mixers[2]),
                self.mixers[3].plus(other.mixers[3]),
            ],
            dense: self.dense.plus(other.dense),
            moe: self.moe.plus(other.moe),
            mtp: self.mtp.plus(other.mtp),
            last: self.last.plus(other.last),
            head: self.head.plus(other.head),
            whole: sums(self.whole, other.whole),
            runs: self.runs.plus(other.runs),
            again: self.again,
        }
    }
}

const fn sums([a, b, c, d, e, f]: [Count; 6], [g, h, i, j, k, l]: [Count; 6]) -> [Count; 6] {
    [a.plus(g), b.plus(h), c.plus(i), d.plus(j), e.plus(k), f.plus(l)]
}
