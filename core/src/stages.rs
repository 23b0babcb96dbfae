//! Which layers each pipeline stage holds, and which of them a rank of the pipeline. Closed forms: no stage is ever looked
//! up in a list, but in one that the user wrote.

use crate::saturating::{add, mul, zero_or};
use crate::spec::{Blocks, Layers, Schedule, Stages, Weighed};

/// A run of layers: what one stage holds, or one of several virtual stages (chunks) of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// Its place in the order of the model, from 0.
    pub place: u64,
    /// Its first decoder layer, from 0; where it holds none, the next one.
    pub first_layer: u64,
    /// Its decoder layers.
    pub(crate) layers: u64,
    /// Its layers with attention, with the mixer in its place, with compressed and heavily compressed attention.
    pub mixers: [u64; 4],
    /// Its decoder layers with a dense feed-forward network, those apart that have it beside experts.
    pub dense: u64,
    /// Its decoder layers with experts.
    pub moe: u64,
    /// Whether it holds the embedding.
    pub embedding: bool,
    /// Whether it holds the final norm, the head and the loss, and any MTP modules that no list puts elsewhere.
    pub head: bool,
    /// Its multi-token-prediction modules, where the accounting counts them on a rank: with an embedding of their own if
    /// the chunk has none.
    pub mtp: u64,
}

impl Chunk {
    /// Its decoder layers.
    #[must_use]
    pub const fn layers(self) -> u64 {
        self.layers
    }

    /// Its decoder layers by their places in the model.
    #[must_use]
    pub const fn range(self) -> core::ops::Range<u64> {
        self.first_layer..self.first_layer + self.layers()
    }

    /// Its first layers, and the others, which hold none of its ends.
    pub(crate) const fn divided(&self, first: u64, layers: &Layers) -> (Self, Self) {
        // Places inside: neither the first nor the last.
        let mut again = chunk(1, 3, self.first_layer, first, layers);
        (again.place, again.embedding, again.head) = (self.place, self.embedding, self.head);
        let whole = chunk(1, 3, self.first_layer + first, self.layers - first, layers);
        (again, whole)
    }

    /// Whether another holds the same kinds of layers, as many of each.
    pub(crate) const fn holds_as(self, other: Self) -> bool {
        self.layers == other.layers
            && self.dense == other.dense
            && self.moe == other.moe
            && alike(&self.mixers, &other.mixers)
            && self.embedding == other.embedding
            && self.head == other.head
            && self.mtp == other.mtp
    }
}

const fn alike(a: &[u64; 4], b: &[u64; 4]) -> bool {
    a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3]
}

/// What a rank of the pipeline holds, over all its chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stage {
    /// Its place in the pipeline, from 0.
    pub index: u64,
    /// Its decoder layers.
    pub(crate) layers: u64,
    /// Its layers with attention, with the mixer in its place, with compressed and heavily compressed attention.
    pub mixers: [u64; 4],
    /// Its decoder layers with a dense feed-forward network, those apart that have it beside experts.
    pub dense: u64,
    /// Its decoder layers with experts.
    pub moe: u64,
    /// Whether it holds the embedding.
    pub embedding: bool,
    /// Whether it holds the final norm, the head and the loss, and any MTP modules that no list puts elsewhere.
    pub head: bool,
}

impl Stage {
    /// Its decoder layers.
    #[must_use]
    pub const fn layers(self) -> u64 {
        self.layers
    }

    pub(crate) const fn empty(index: u64) -> Self {
        Self { index, layers: 0, mixers: [0; 4], dense: 0, moe: 0, embedding: false, head: false }
    }

    /// With one more chunk.
    pub(crate) const fn with(self, chunk: Chunk) -> Self {
        Self {
            index: self.index,
            layers: self.layers + chunk.layers,
            mixers: [
                self.mixers[0] + chunk.mixers[0],
                self.mixers[1] + chunk.mixers[1],
                self.mixers[2] + chunk.mixers[2],
                self.mixers[3] + chunk.mixers[3],
            ],
            dense: self.dense + chunk.dense,
            moe: self.moe + chunk.moe,
            embedding: self.embedding || chunk.embedding,
            head: self.head || chunk.head,
        }
    }
}

/// Which virtual stages a rank of the pipeline holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Every pp-th, from its own on.
    Loop,
    /// Its own, and as far from the end.
    Vee,
    /// As [`Order::Vee`], and every stage is there twice, once for each direction.
    Mirror,
}

impl Schedule {
    pub(crate) const fn order(self) -> Order {
        match self {
            Self::Gpipe | Self::OneFOneB | Self::Interleaved | Self::ZbH1 => Order::Loop,
            Self::ZbV | Self::DualPipeV => Order::Vee,
            Self::DualPipe => Order::Mirror,
        }
    }

    /// The fewest and the most chunks that a rank may hold.
    pub(crate) const fn chunks(self) -> (u64, u64) {
        match self {
            Self::Gpipe | Self::OneFOneB | Self::ZbH1 => (1, 1),
            Self::Interleaved => (2, u64::MAX),
            Self::ZbV | Self::DualPipe | Self::DualPipeV => (2, 2),
        }
    }
}

/// The most chunks that a rank may hold: const evaluation looks for its worst moment among several times as many, chunk by
/// chunk.
pub(crate) const CHUNKS_MAX: u64 = 32;

/// The shape of a pipeline: how many ranks, how many chunks on each, and which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) ranks: u64,
    pub(crate) chunks: u64,
    /// Virtual stages of the model.
    pub(crate) places: u64,
    pub(crate) order: Order,
}

impl Shape {
    /// One rank that holds the whole model.
    pub(crate) const ONE: Self = Self { ranks: 1, chunks: 1, places: 1, order: Order::Loop };

    /// The shape under a schedule, `vpp` chunks a rank being declared (0: they follow), and a list of so many stages (0:
    /// none).
    pub(crate) const fn of(schedule: Schedule, ranks: u64, vpp: u64, listed: u64) -> Self {
        let order = schedule.order();
        let chunks = match order {
            _ if vpp > 0 => vpp,
            Order::Vee | Order::Mirror => 2,
            Order::Loop if listed > ranks => match (zero_or(listed.checked_div(ranks)), schedule) {
                // A list that is a little too short for two chunks is meant for two.
                (1, Schedule::Interleaved) => 2,
                (chunks, _) => chunks,
            },
            Order::Loop => 1,
        };
        let places = match order {
            Order::Loop | Order::Vee => mul(ranks, chunks),
            Order::Mirror => ranks,
        };
        Self { ranks, chunks, places, order }
    }

    /// The place of one chunk of a rank.
    pub(crate) const fn place(self, rank: u64, chunk: u64) -> u64 {
        match self.order {
            Order::Loop => chunk * self.ranks + rank,
            Order::Vee if chunk == 0 => rank,
            Order::Vee => 2 * self.ranks - 1 - rank,
            Order::Mirror => {
                let mirror = self.ranks - 1 - rank;
                // The direction that enters at the nearer end comes first, on either half of the ranks.
                if (rank < mirror) == (chunk == 0) { rank } else { mirror }
            }
        }
    }

    /// The rank that holds a place, the first of two.
    pub(crate) const fn rank(self, place: u64) -> u64 {
        match self.order {
            Order::Loop => place % self.ranks,
            Order::Vee if place < self.ranks => place,
            Order::Vee => 2 * self.ranks - 1 - place,
            Order::Mirror => {
                let mirror = self.ranks - 1 - place;
                if place < mirror { place } else { mirror }
            }
        }
    }
}

/// How layers fall to virtual stages without a list: `first` and `last` apart, the others alike; that, for several chunks
/// in a loop, so many times over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Division {
    /// Virtual stages of one sweep.
    pub(crate) per_sweep: u64,
    /// Decoder layers of one sweep.
    pub(crate) layers: u64,
    /// Layers of its first stage, if it stands apart.
    pub(crate) first: u64,
    /// Layers of its last stage, if it stands apart.
    pub(crate) last: u64,
    /// Stages that share the rest alike.
    pub(crate) alike: u64,
    /// Layers that those share.
    pub(crate) rest: u64,
    /// Layers of each of those.
    share: u64,
}

/// Why layers do not fall to stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Misfit {
    /// `stages.first` and `stages.last` need more stages than there are.
    Stages,
    /// `stages.first` and `stages.last` take more layers than there are.
    Layers,
    /// The stages between cannot share the rest alike, or would be empty.
    Rest(Division),
    /// The layers of some rank, so many, do not fall to its chunks alike: of the first, the last, or the others.
    Chunks(u64, Part),
    /// Ends count as layers, and so many layers and ends do not fall to stages alike.
    Weighed(u64),
}

/// Which ranks of a pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    First,
    Last,
    Others,
}

/// Divides the layers over the stages of a pipeline, without a list.
pub(crate) const fn divide(layers: u64, shape: Shape, stages: Stages) -> Result<Division, Misfit> {
    let embedding = matches!(stages.embedding, Weighed::AsLayer) as u64;
    let loss = matches!(stages.loss, Weighed::AsLayer) as u64;
    if embedding + loss > 0 && shape.places > 1 {
        return divide_weighed(layers, shape.places, embedding, loss);
    }
    match shape.order {
        Order::Loop if shape.chunks == 1 => divide_apart(layers, shape.ranks, stages),
        Order::Loop => match divide_apart(layers, shape.ranks, stages) {
            Ok(division) => division.over(shape.chunks),
            Err(misfit) => Err(misfit),
        },
        Order::Vee | Order::Mirror => divide_apart(layers, shape.places, stages),
    }
}

/// Divides the layers over stages, the first and the last as declared.
const fn divide_apart(layers: u64, places: u64, stages: Stages) -> Result<Division, Misfit> {
    let apart = (stages.first > 0) as u64 + (stages.last > 0) as u64;
    if apart > places {
        return Err(Misfit::Stages);
    }
    let ends = add(stages.first, stages.last);
    if ends > layers {
        return Err(Misfit::Layers);
    }
    let (alike, rest) = (places - apart, layers - ends);
    let share = zero_or(rest.checked_div(alike));
    let division = Division { per_sweep: places, layers, first: stages.first, last: stages.last, alike, rest, share };
    let fits = if alike == 0 { rest == 0 } else { share > 0 && share * alike == rest };
    if fits { Ok(division) } else { Err(Misfit::Rest(division)) }
}

/// Divides layers and the ends that count as one each over several stages alike.
const fn divide_weighed(layers: u64, places: u64, embedding: u64, loss: u64) -> Result<Division, Misfit> {
    let all = add(layers, embedding + loss);
    if !all.is_multiple_of(places) || all < places {
        return Err(Misfit::Weighed(all));
    }
    let share = all / places;
    let (first, last) = (share - embedding, share - loss);
    let (alike, rest) = (places - 2, share * (places - 2));
    Ok(Division { per_sweep: places, layers, first, last, alike, rest, share })
}

impl Division {
    /// All layers on one stage.
    pub(crate) const fn whole(layers: u64) -> Self {
        Self { per_sweep: 1, layers, first: 0, last: 0, alike: 1, rest: layers, share: layers }
    }

    /// The same ranks with several chunks each: as many sweeps over all ranks, each of them alike.
    const fn over(self, chunks: u64) -> Result<Self, Misfit> {
        let shares = [(self.first, Part::First), (self.last, Part::Last), (self.share, Part::Others)];
        let mut i = 0;
        while i < shares.len() {
            if chunks == 0 || !shares[i].0.is_multiple_of(chunks) {
                return Err(Misfit::Chunks(shares[i].0, shares[i].1));
            }
            i += 1;
        }
        let (first, last) = (self.first / chunks, self.last / chunks);
        Ok(Self {
            layers: self.layers / chunks,
            first,
            last,
            rest: self.rest / chunks,
            share: self.share / chunks,
            ..self
        })
    }

    /// Where a virtual stage's layers begin, and how many they are.
    const fn layers_at(self, place: u64) -> (u64, u64) {
        let (sweep, place) = (place / self.per_sweep, place % self.per_sweep);
        let before = sweep * self.layers;
        // With both ends counted as layers either may hold none, so places tell them apart, not layers.
        let (first_apart, last_apart) = self.apart();
        if place == 0 && first_apart {
            (before, self.first)
        } else if place + 1 == self.per_sweep && last_apart {
            (before + self.layers - self.last, self.last)
        } else {
            (before + self.first + (place - first_apart as u64) * self.share, self.share)
        }
    }

    /// The most layers that divide those of each virtual stage, 0 where none has any.
    pub(crate) const fn common(self) -> u64 {
        let share = if self.alike > 0 { self.share } else { 0 };
        greatest(greatest(self.first, self.last), share)
    }

    /// Whether the first and the last stage of a sweep stand apart from the others.
    const fn apart(self) -> (bool, bool) {
        match self.per_sweep - self.alike {
            0 => (false, false),
            1 => (self.first > 0, self.first == 0),
            _ => (true, true),
        }
    }

    /// What a virtual stage holds.
    pub(crate) const fn chunk(self, place: u64, places: u64, layers: &Layers) -> Chunk {
        let (first_layer, count) = self.layers_at(place);
        chunk(place, places, first_layer, count, layers)
    }

    /// The virtual stage that holds a layer.
    pub(crate) const fn holder(self, layer: u64) -> u64 {
        let (sweep, layer) = match layer.checked_div(self.layers) {
            Some(sweep) => (sweep, layer % self.layers),
            None => (0, layer),
        };
        let before = sweep * self.per_sweep;
        let (first_apart, last_apart) = self.apart();
        if layer < self.first {
            before
        } else if last_apart && layer >= self.layers - self.last || self.share == 0 {
            before + self.per_sweep - 1
        } else {
            before + first_apart as u64 + (layer - self.first) / self.share
        }
    }
}

/// The greatest number that divides both, of which 0 is divided by any.
pub(crate) const fn greatest(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A run of `count` layers.
pub(crate) const fn chunk(place: u64, places: u64, first_layer: u64, count: u64, layers: &Layers) -> Chunk {
    let (embedding, head) = (place == 0, place + 1 == places);
    if layers.has_list() {
        let Blocks { mixers, dense, moe } = layers.listed(first_layer, count);
        return Chunk { place, first_layer, layers: count, mixers, dense, moe, embedding, head, mtp: 0 };
    }
    let moe = layers.moe_among(first_layer, count);
    let (mixers, dense) = ([count, 0, 0, 0], count - moe);
    Chunk { place, first_layer, layers: count, mixers, dense, moe, embedding, head, mtp: 0 }
}

/// A legal `last` close to an even division: all stages but the last alike, the last with what is left.
pub(crate) const fn proposal(layers: u64, pp: u64) -> Option<u64> {
    if pp < 2 || layers < pp {
        return None;
    }
    let ceil = layers.div_ceil(pp);
    let share = if layers > (pp - 1) * ceil { ceil } else { layers / pp };
    Some(layers - (pp - 1) * share)
}

#[cfg(test)]
mod tests {
    use super::{Division, Misfit, Order, Part, Shape, divide, proposal};
    use crate::spec::{Layers, Stages, Weighed};
    use alloc::vec::Vec;

    fn apart(first: u64, last: u64) -> Stages {
        Stages { first, last, ..Stages::EVEN }
    }

    fn shape(ranks: u64, chunks: u64, order: Order) -> Shape {
        Shape { ranks, chunks, places: if order == Order::Mirror { ranks } else { ranks * chunks }, order }
    }

    fn line(ranks: u64) -> Shape {
        shape(ranks, 1, Order::Loop)
    }

    /// Asserts that each layer falls to one stage, in order; returns the layers of each.
    fn dealt(division: Division, places: u64, layers: u64) -> Vec<u64> {
        let mut next = 0;
        let mut counts = Vec::new();
        for place in 0..places {
            let dense = layers.min(3);
            let kinds = Layers { dense, moe: layers - dense, ffn: 1, ..Layers::DEFAULT };
            let chunk = division.chunk(place, places, &kinds);
            assert_eq!(chunk.first_layer, next, "{division:?} at {place}");
            assert_eq!(chunk.dense, chunk.range().filter(|&l| l < 3).count() as u64);
            assert_eq!((chunk.embedding, chunk.head), (place == 0, place + 1 == places));
            for layer in chunk.range() {
                assert_eq!(division.holder(layer), place, "layer {layer} of {division:?}");
            }
            next += chunk.layers();
            counts.push(chunk.layers());
        }
        assert_eq!(next, layers);
        counts
    }

    /// Dense layers first, then groups that end with experts: counted one by one.
    #[test]
    fn layers_with_experts_may_stand_apart() {
        for (lead, moe, moe_every) in [(0, 24, 2), (3, 4, 1), (1, 5, 3), (2, 0, 2), (0, 1, 7)] {
            let layers = Layers { dense: lead + moe * (moe_every - 1), moe, ffn: 1, moe_every, ..Layers::DEFAULT };
            assert_eq!(layers.lead(), lead);
            let has_experts = |layer: u64| layer >= lead && (layer - lead) % moe_every == moe_every - 1;
            for first in 0..layers.count() {
                for count in 0..=layers.count() - first {
                    let chunk = super::chunk(0, 1, first, count, &layers);
                    let by_one = chunk.range().filter(|&layer| moe > 0 && has_experts(layer)).count() as u64;
                    assert_eq!((chunk.moe, chunk.dense), (by_one, count - by_one), "{first} and {count} of {layers:?}");
                }
            }
        }
    }

    /// Every division deals each layer once, in order, whatever its ends; checked against dealing one by one.
    #[test]
    fn each_layer_falls_to_one_stage() {
        let mut legal = 0;
        for layers in 1..=24 {
            for pp in 1..=8 {
                for first in 0..=6 {
                    for last in 0..=6 {
                        let Ok(division) = divide(layers, line(pp), apart(first, last)) else { continue };
                        legal += 1;
                        assert!(dealt(division, pp, layers).iter().all(|count| *count > 0));
                    }
                }
            }
        }
        assert!(legal > 300, "the sweep must meet legal divisions, met {legal}");
    }

    /// With several chunks a rank its layers fall to them alike; the sum over ranks is as without.
    #[test]
    fn chunks_share_a_ranks_layers() {
        let mut legal = 0;
        for layers in 1..=48 {
            for (pp, chunks) in [(2, 2), (2, 3), (4, 2), (3, 4)] {
                for (first, last) in [(0, 0), (2, 0), (0, 4), (6, 3), (4, 8)] {
                    let shape = shape(pp, chunks, Order::Loop);
                    let Ok(division) = divide(layers, shape, apart(first, last)) else { continue };
                    legal += 1;
                    let counts = dealt(division, pp * chunks, layers);
                    let whole = divide(layers, line(pp), apart(first, last)).expect("ranks share as without chunks");
                    for rank in 0..pp {
                        let held = (0..chunks).map(|chunk| counts[usize::try_from(shape.place(rank, chunk)).unwrap()]);
                        assert_eq!(held.sum::<u64>(), whole.chunk(rank, pp, &Layers::DEFAULT).layers());
                    }
                }
            }
        }
        assert!(legal > 30, "the sweep must meet legal divisions, met {legal}");
        let four = shape(8, 4, Order::Loop);
        assert!(divide(60, four, apart(4, 8)).is_ok(), "4 + 6 x 8 + 8, each a multiple of 4");
        assert_eq!(divide(40, shape(8, 2, Order::Loop), apart(0, 0)), Err(Misfit::Chunks(5, Part::Others)));
    }

    /// Ends that count as layers leave their stages a layer less; every layer still falls to one stage.
    #[test]
    fn ends_may_count_as_layers() {
        let weighed = [Weighed::Apart, Weighed::AsLayer];
        let mut legal = 0;
        for layers in 1..=40 {
            for (pp, chunks) in [(2, 1), (3, 1), (8, 1), (2, 2), (4, 3)] {
                for (embedding, loss) in weighed.iter().flat_map(|e| weighed.iter().map(move |l| (*e, *l))) {
                    let stages = Stages { embedding, loss, ..Stages::EVEN };
                    let ends = [embedding, loss].map(|end| u64::from(end == Weighed::AsLayer));
                    let shape = shape(pp, chunks, Order::Loop);
                    let Ok(division) = divide(layers, shape, stages) else { continue };
                    legal += 1;
                    let held = dealt(division, pp * chunks, layers);
                    let share = (layers + ends[0] + ends[1]) / (pp * chunks);
                    assert_eq!((held[0], held[held.len() - 1]), (share - ends[0], share - ends[1]));
                    assert!(held[1..held.len() - 1].iter().all(|layers| *layers == share));
                }
            }
        }
        assert!(legal > 60, "the sweep must meet legal divisions, met {legal}");
        // Qwen3-235B: 94 layers and two ends over 32 ranks of 3 chunks.
        let both = Stages { embedding: Weighed::AsLayer, loss: Weighed::AsLayer, ..Stages::EVEN };
        let division = divide(94, shape(32, 3, Order::Loop), both).expect("96 fall to 96");
        assert_eq!([0, 1, 94, 95].map(|place| division.chunk(place, 96, &Layers::DEFAULT).layers()), [0, 1, 1, 0]);
    }

    /// Every place is held by one rank, or by two where every stage is there twice.
    #[test]
    fn ranks_hold_every_place() {
        for ranks in 1..=8 {
            for (order, chunks) in [(Order::Loop, 1), (Order::Loop, 3), (Order::Vee, 2), (Order::Mirror, 2)] {
                let shape = shape(ranks, chunks, order);
                let mut holders = alloc::vec![0; usize::try_from(shape.places).unwrap()];
                for rank in 0..ranks {
                    for chunk in 0..chunks {
                        let place = shape.place(rank, chunk);
                        holders[usize::try_from(place).unwrap()] += 1;
                        assert!(shape.rank(place) == rank || order == Order::Mirror);
                    }
                }
                let times = if order == Order::Mirror { 2 } else { 1 };
                assert!(holders.iter().all(|count| *count == times), "{shape:?}: {holders:?}");
            }
        }
    }

    #[test]
    fn misfits_are_told_apart() {
        assert_eq!(divide(8, line(1), apart(4, 4)), Err(Misfit::Stages));
        assert_eq!(divide(8, line(4), apart(6, 4)), Err(Misfit::Layers));
        assert!(matches!(divide(61, line(16), apart(0, 0)), Err(Misfit::Rest(d)) if d.rest == 61 && d.alike == 16));
    }

    #[test]
    fn proposals_are_legal() {
        for layers in 1..200 {
            for pp in 1..40 {
                let Some(last) = proposal(layers, pp) else { continue };
                assert!(divide(layers, line(pp), apart(0, last)).is_ok(), "{layers} layers over {pp}, last {last}");
            }
        }
        assert_eq!(proposal(61, 16), Some(1));
        assert_eq!(proposal(43, 8), Some(1));
        assert_eq!(proposal(94, 16), Some(4));
    }
}
