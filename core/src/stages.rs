//! Which layers each pipeline stage holds. Closed forms: no stage is ever looked up in a list.

use crate::saturating::{add, zero_or};
use crate::spec::{Stages, Weighed};

/// What one pipeline stage holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stage {
    /// Place in the pipeline, from 0.
    pub index: u64,
    /// Its first decoder layer, from 0.
    pub first_layer: u64,
    /// Its decoder layers with a dense feed-forward network.
    pub dense: u64,
    /// Its decoder layers with experts.
    pub moe: u64,
    /// Whether it holds the embedding.
    pub embedding: bool,
    /// Whether it holds the final norm, the head and the loss.
    pub head: bool,
}

impl Stage {
    /// Its decoder layers.
    #[must_use]
    pub const fn layers(self) -> u64 {
        self.dense + self.moe
    }

    /// Its last decoder layer.
    #[must_use]
    pub const fn last_layer(self) -> u64 {
        self.first_layer + self.layers() - 1
    }

    /// Whether another stage holds the same kinds of layers, as many of each.
    #[must_use]
    pub const fn holds_as(self, other: Self) -> bool {
        self.dense == other.dense
            && self.moe == other.moe
            && self.embedding == other.embedding
            && self.head == other.head
    }
}

/// How the layers of a Spec fall to stages: `first` and `last` as declared, the others alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Division {
    /// All decoder layers.
    pub(crate) layers: u64,
    /// Layers of the first stage, if it stands apart.
    pub(crate) first: u64,
    /// Layers of the last stage, if it stands apart.
    pub(crate) last: u64,
    /// Stages that share the rest alike.
    pub(crate) alike: u64,
    /// Layers that those share.
    pub(crate) rest: u64,
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
    /// Ends count as layers, and so many layers and ends do not fall to stages alike.
    Weighed(u64),
}

/// Divides the layers over `pp` stages.
pub(crate) const fn divide(layers: u64, pp: u64, stages: Stages) -> Result<Division, Misfit> {
    let embedding = matches!(stages.embedding, Weighed::AsLayer) as u64;
    let loss = matches!(stages.loss, Weighed::AsLayer) as u64;
    if embedding + loss > 0 && pp > 1 {
        return divide_weighed(layers, pp, embedding, loss);
    }
    let apart = (stages.first > 0) as u64 + (stages.last > 0) as u64;
    if apart > pp {
        return Err(Misfit::Stages);
    }
    let ends = add(stages.first, stages.last);
    if ends > layers {
        return Err(Misfit::Layers);
    }
    let division = Division { layers, first: stages.first, last: stages.last, alike: pp - apart, rest: layers - ends };
    let fits = match division.alike {
        0 => division.rest == 0,
        alike => division.rest >= alike && division.rest.is_multiple_of(alike),
    };
    if fits { Ok(division) } else { Err(Misfit::Rest(division)) }
}

/// Divides layers and the ends that count as one each over several stages alike.
const fn divide_weighed(layers: u64, pp: u64, embedding: u64, loss: u64) -> Result<Division, Misfit> {
    let all = add(layers, embedding + loss);
    let share = all / pp;
    // A stage of an end alone would hold no layer.
    if !all.is_multiple_of(pp) || share < 2 {
        return Err(Misfit::Weighed(all));
    }
    let (first, last) = (share - embedding, share - loss);
    Ok(Division { layers, first, last, alike: pp - 2, rest: share * (pp - 2) })
}

impl Division {
    /// Layers of one stage of those that share alike.
    pub(crate) const fn share(self) -> u64 {
        zero_or(self.rest.checked_div(self.alike))
    }

    /// What a stage holds, `dense` of all layers coming first.
    pub(crate) const fn stage(self, index: u64, stages: u64, dense: u64) -> Stage {
        let is_first = index == 0 && self.first > 0;
        let is_last = index + 1 == stages && self.last > 0;
        let count = if is_first {
            self.first
        } else if is_last {
            self.last
        } else {
            self.share()
        };
        let first_layer = if is_first {
            0
        } else if is_last {
            self.layers - self.last
        } else if self.first > 0 {
            self.first + (index - 1) * self.share()
        } else {
            index * self.share()
        };
        let dense_left = dense.saturating_sub(first_layer);
        let dense = if dense_left < count { dense_left } else { count };
        Stage { index, first_layer, dense, moe: count - dense, embedding: index == 0, head: index + 1 == stages }
    }

    /// The stage that holds a layer.
    pub(crate) const fn holder(self, layer: u64, stages: u64) -> u64 {
        let apart = (self.first > 0) as u64;
        if layer < self.first {
            0
        } else if layer >= self.layers - self.last || self.share() == 0 {
            stages - 1
        } else {
            apart + (layer - self.first) / self.share()
        }
    }
}

/// A legal `first` and `last` close to an even division: all stages but the last alike, the last with what is left.
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
    use super::{Misfit, divide, proposal};
    use crate::spec::{Stages, Weighed};

    fn apart(first: u64, last: u64) -> Stages {
        Stages { first, last, ..Stages::EVEN }
    }

    /// Every division deals each layer once, in order, whatever its ends; checked against dealing one by one.
    #[test]
    fn each_layer_falls_to_one_stage() {
        let mut legal = 0;
        for layers in 1..=24 {
            for pp in 1..=8 {
                for first in 0..=6 {
                    for last in 0..=6 {
                        let Ok(division) = divide(layers, pp, apart(first, last)) else { continue };
                        legal += 1;
                        let mut next = 0;
                        for index in 0..pp {
                            let stage = division.stage(index, pp, layers.min(3));
                            assert_eq!(stage.first_layer, next);
                            let dense = (next..next + stage.layers()).filter(|&l| l < 3).count() as u64;
                            assert_eq!(stage.dense, dense);
                            assert!(stage.layers() > 0);
                            for layer in next..next + stage.layers() {
                                assert_eq!(division.holder(layer, pp), index);
                            }
                            next += stage.layers();
                        }
                        assert_eq!(next, layers);
                    }
                }
            }
        }
        assert!(legal > 300, "the sweep must meet legal divisions, met {legal}");
    }

    /// Ends that count as layers leave their stages a layer less; every layer still falls to one stage.
    #[test]
    fn ends_may_count_as_layers() {
        let weighed = [Weighed::Apart, Weighed::AsLayer];
        let mut legal = 0;
        for layers in 1..=40 {
            for pp in 2..=8 {
                for (embedding, loss) in weighed.iter().flat_map(|e| weighed.iter().map(move |l| (*e, *l))) {
                    let stages = Stages { embedding, loss, ..Stages::EVEN };
                    let ends = [embedding, loss].map(|end| u64::from(end == Weighed::AsLayer));
                    let Ok(division) = divide(layers, pp, stages) else { continue };
                    legal += 1;
                    let held: alloc::vec::Vec<u64> = (0..pp).map(|i| division.stage(i, pp, 0).layers()).collect();
                    assert_eq!(held.iter().sum::<u64>(), layers);
                    let share = (layers + ends[0] + ends[1]) / pp;
                    assert_eq!((held[0], held[held.len() - 1]), (share - ends[0], share - ends[1]));
                    assert!(held[1..held.len() - 1].iter().all(|layers| *layers == share));
                }
            }
        }
        assert!(legal > 100, "the sweep must meet legal divisions, met {legal}");
        // Qwen3-235B: 94 layers and two ends over 32 stages.
        let both = Stages { embedding: Weighed::AsLayer, loss: Weighed::AsLayer, ..Stages::EVEN };
        let division = divide(94, 32, both).expect("96 fall to 32");
        assert_eq!([0, 1, 31].map(|i| division.stage(i, 32, 0).layers()), [2, 3, 2]);
    }

    #[test]
    fn misfits_are_told_apart() {
        assert_eq!(divide(8, 1, apart(4, 4)), Err(Misfit::Stages));
        assert_eq!(divide(8, 4, apart(6, 4)), Err(Misfit::Layers));
        assert!(matches!(divide(61, 16, apart(0, 0)), Err(Misfit::Rest(d)) if d.rest == 61 && d.alike == 16));
    }

    #[test]
    fn proposals_are_legal() {
        for layers in 1..200 {
            for pp in 1..40 {
                let Some(last) = proposal(layers, pp) else { continue };
                assert!(divide(layers, pp, apart(0, last)).is_ok(), "{layers} layers over {pp} stages, last {last}");
            }
        }
        assert_eq!(proposal(61, 16), Some(1));
        assert_eq!(proposal(43, 8), Some(1));
        assert_eq!(proposal(94, 16), Some(4));
    }
}
