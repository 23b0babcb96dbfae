//! Which experts tokens go to: where their copies stand, on this rank and at the ranks of their experts.

use super::Ctx;
use crate::View;
use crate::device::{Device, Memory};
use crate::ops::router::Router;
use crate::shapes::{One, Rows, Shapes, Sorted, Tokens};
use crate::step::Load;
use crate::tensor::{StepError, Tensor};
use moe_model_core::spec::{Pool, Routing};

/// What is kept of it.
pub(super) struct KeptRouting<D: Memory, S: Shapes> {
    pub(super) scores: Tensor<D, Tokens, S::Experts, f32>,
    pub(super) weights: Tensor<D, Tokens, S::Active, f32>,
    pub(super) choice: Tensor<D, Tokens, S::Active, i32>,
    /// Copies of tokens in the order of their experts.
    pub(super) order: Tensor<D, Sorted, One, i32>,
    /// Where each copy stands in it.
    pub(super) places: Tensor<D, Tokens, S::Active, i32>,
    /// Where each copy that is received stands at the experts of this rank.
    pub(super) received: Option<Tensor<D, Rows, One, i32>>,
    /// The rows of each expert of this rank: first, and how many.
    pub(super) segments: Vec<(usize, usize)>,
    /// Rows that go to each rank of the expert group, and that come from each.
    pub(super) sends: Vec<usize>,
    pub(super) receives: Vec<usize>,
    /// Rows that come to each of the ranks that split the same experts, which put them together.
    pub(super) parts: Vec<usize>,
}

impl<D> Ctx<'_, D> {
    /// Whether tokens go to experts of other ranks: experts are dealt over ranks, or split.
    pub(super) fn is_dealt(&self) -> bool {
        self.plan.spec().layout.mesh.expert_ranks() > 1
    }

    /// Whether experts are split over ranks.
    pub(super) fn is_split(&self) -> bool {
        self.plan.spec().layout.mesh.etp > 1
    }

    /// Whether the rank is the first of those that split the same experts.
    pub(super) fn is_first_part(&self) -> bool {
        self.comm.place().etp == 0
    }

    /// Slots of each expert for this rank's tokens, if they are bounded.
    pub(super) fn slots(&self) -> Option<usize> {
        match self.plan.spec().layout.routing {
            Routing::Capacity(capacity) => usize::try_from(self.plan.slots_of_rank(capacity.factor)).ok(),
            Routing::Dropless(_) => None,
        }
    }

    /// Copies of tokens that come to this rank's experts. Peers are stood in for, so that it is as many as the budget counts,
    /// or as many as can come at all.
    fn rows(&self) -> usize {
        let n = self.room.lengths;
        match self.load {
            Load::AllHere if self.is_dealt() => {
                let pooled = usize::try_from(self.plan.pooled_tokens(Pool::Group)).expect("tokens are addresses");
                pooled * n.local_experts.min(n.active)
            }
            _ => n.rows,
        }
    }

    pub(super) fn router(&self) -> Router {
        let (n, experts) = (self.room.lengths, &self.plan.spec().architecture.experts);
        Router {
            score: self.numerics.score,
            experts: n.experts,
            active: n.active,
            groups: usize::try_from(experts.groups).expect("groups are addresses"),
            active_groups: usize::try_from(experts.active_groups).expect("groups are addresses"),
            normalise: self.numerics.normalise,
            scale: self.numerics.routed_scale,
        }
    }
}

/// Runs of so many rows, one behind the other.
fn runs(lens: impl Iterator<Item = usize>) -> Vec<(usize, usize)> {
    let mut first = 0;
    lens.map(|len| {
        first += len;
        (first - len, len)
    })
    .collect()
}

/// So many rows dealt evenly to so many experts.
fn even(rows: usize, experts: usize) -> Vec<usize> {
    (0..experts).map(|expert| rows / experts + usize::from(expert < rows % experts)).collect()
}

/// How many copies each expert gets where all are this rank's.
fn own<D: Device, E>(of: &Ctx<'_, D>, counts: View<'_, D, E, One, i32>) -> Vec<usize> {
    let experts = of.room.lengths.local_experts;
    if let Some(slots) = of.slots() {
        return vec![slots; experts];
    }
    let counted = |counts: &[i32]| counts.iter().map(|count| usize::try_from(*count).unwrap_or(0)).collect();
    of.room.device.read(counts.raw(), counted).unwrap_or_else(|| even(of.rows(), experts))
}

impl<D: Device, S: Shapes> KeptRouting<D, S> {
    /// Which rows each expert of this rank gets, and who sends them, from how many of this rank's copies go to each of all;
    /// gives where each copy that is received stands at its expert.
    pub(super) fn share(
        &mut self,
        of: &Ctx<'_, D>,
        counts: View<'_, D, S::Experts, One, i32>,
    ) -> Result<Vec<usize>, StepError> {
        let experts = of.room.lengths.local_experts;
        if !of.is_dealt() {
            self.segments = runs(own(of, counts).into_iter());
            return Ok(Vec::new());
        }
        let of_parts = self.coming(of, counts)?;
        let sum = |of_ranks: &Vec<Vec<usize>>| of_ranks.iter().flatten().sum();
        self.parts = of_parts.iter().map(sum).collect();
        let mine = usize::try_from(of.comm.place().etp).expect("ranks are addresses");
        let to_mine = of_parts.get(mine).into_iter().flatten();
        self.receives = to_mine.map(|of_rank| of_rank.iter().sum()).collect();
        let come: Vec<Vec<usize>> = of_parts.into_iter().flatten().collect();
        self.segments = runs((0..experts).map(|expert| come.iter().map(|of_rank| of_rank[expert]).sum()));
        // Each rank's come in the order of experts: at each expert those of the first rank first.
        let mut next: Vec<usize> = self.segments.iter().map(|(first, _)| *first).collect();
        let mut places = Vec::with_capacity(self.rows());
        for of_rank in come {
            for (next, count) in next.iter_mut().zip(of_rank) {
                places.extend(*next..*next + count);
                *next += count;
            }
        }
        Ok(places)
    }

    /// How many copies each rank of the expert group sends to each expert of this rank, and of the others that split the same
    /// experts. Those of peers that are stood in for come as if one rank sent them all.
    fn coming(
        &mut self,
        of: &Ctx<'_, D>,
        counts: View<'_, D, S::Experts, One, i32>,
    ) -> Result<Vec<Vec<Vec<usize>>>, StepError> {
        let experts = of.room.lengths.local_experts;
        let ranks = of.room.lengths.experts / experts.max(1);
        if let Some(slots) = of.slots() {
            self.sends = vec![experts * slots; ranks];
            let parts = usize::try_from(of.plan.spec().layout.mesh.etp).expect("ranks are addresses");
            return Ok(vec![vec![vec![slots; experts]; ranks]; parts]);
        }
        match of.room.device.read(counts.raw(), <[i32]>::to_vec) {
            Some(sent) if !of.comm.is_alone() => {
                let sum = |counts: &[i32]| counts.iter().map(|count| usize::try_from(*count).unwrap_or(0)).sum();
                self.sends = sent.chunks(experts).map(sum).collect();
                let of_parts = of.comm.counts(&sent, experts)?.unwrap_or_default();
                let by_rank = |of_part: &Vec<usize>| of_part.chunks(experts).map(<[usize]>::to_vec).collect();
                Ok(of_parts.iter().map(by_rank).collect())
            }
            _ => Ok(vec![vec![even(of.rows(), experts)]]),
        }
    }

    /// All rows of this rank's experts.
    pub(super) fn rows(&self) -> usize {
        self.segments.iter().map(|(_, len)| len).sum()
    }

    /// Rows that come to the rank itself; where peers are stood in for, as many as the budget counts.
    pub(super) fn own_rows(&self, of: &Ctx<'_, D>) -> usize {
        let mine = usize::try_from(of.comm.place().etp).expect("ranks are addresses");
        if of.comm.is_alone() { of.room.lengths.own_rows } else { self.parts.get(mine).copied().unwrap_or(0) }
    }

    /// Where each copy that is received stands at its expert.
    pub(super) fn put(&mut self, of: &Ctx<'_, D>, places: Vec<usize>) -> Result<(), StepError> {
        if !of.is_dealt() {
            return Ok(());
        }
        let mut received: Tensor<D, Rows, One, i32> = of.room.take_rows("received copies by expert", self.rows())?;
        of.room.device.write(received.view_mut().raw(), |out| {
            for (out, place) in out.iter_mut().zip(places) {
                *out = i32::try_from(place).expect("rows are numbers of 31 bits");
            }
        });
        self.received = Some(received);
        Ok(())
    }

    /// Rows that go to each rank, and come from each: on the way to experts.
    pub(super) fn there(&self) -> (&[usize], &[usize]) {
        (&self.sends, &self.receives)
    }

    /// On the way back.
    pub(super) fn back(&self) -> (&[usize], &[usize]) {
        (&self.receives, &self.sends)
    }
}
