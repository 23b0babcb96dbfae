//! The laws of a layout: of what kinds they are and how they are judged. The laws themselves are data, in `table/`:
//! judged by the macro while it expands, by the compiler where numbers are constants of the user's crate, and at run
//! time; `verdict/` blames and words.

mod quantity;
mod statement;
mod table;
mod when;

pub use quantity::Quantity;
pub(crate) use quantity::{gcd, heads_in_blocks, layers, shape};
pub use table::{ADVICE, BUDGET_LAWS, LAWS};
pub use when::When;

use crate::budget;
use crate::key::{Key, KeySet, Numbers};
use crate::plan::Plan;
use crate::saturating::{add, cut};
use crate::spec::{NUMBER_MAX, Schedule, Spec, StageList, Stages, Weighed};
use crate::stages::{self, Division, Misfit};
use quantity::{LAYERS, SHAPE};

/// One rule that a declaration must satisfy.
#[derive(Clone, Copy, Debug)]
pub struct Law {
    /// Its stable name, in errors and documentation.
    pub id: &'static str,
    /// Keys that may be blamed for a breach; the first where nothing tells them apart.
    pub at: &'static [Key],
    /// What must hold.
    pub rule: Rule,
    /// Where it applies.
    pub when: When,
    /// Why it must hold.
    pub why: &'static str,
}

/// What must hold.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// The first divides the second.
    Divides(Quantity, Quantity),
    /// One of the two divides the other.
    EitherDivides(Quantity, Quantity),
    /// The first is at least the second.
    AtLeast(Quantity, Quantity),
    /// The first is at most the second.
    AtMost(Quantity, Quantity),
    /// The two are equal.
    Equal(Quantity, Quantity),
    /// A key that may be left out elsewhere is given.
    Given(Key),
    /// What the key says needs the first quantity to be at least the second.
    Needs(Key, Quantity, Quantity),
    /// A switch is on.
    IsOn(Key),
    /// A word is one of these, by their places in the list.
    OneOf(Key, &'static [u64]),
    /// A rank holds as many chunks as its schedule runs.
    ChunksOfSchedule,
    /// The last group of micro-batches is no shorter than the pipeline.
    LastGroupFills,
    /// Every rank of the pipeline holds a decoder layer.
    RanksHoldLayers,
    /// A number format is not `none`.
    IsKept(Key),
    /// Layers fall to stages without remainder.
    LayersFallToStages,
    /// The skew lies between balanced and the worst that routing allows.
    SkewIsPossible,
    /// The capacity factor leaves slots, and no more than could ever fill.
    FactorIsPossible,
    /// No amount of memory outgrows 64 bits.
    Fits64Bits,
    /// The worst rank fits on the device, with headroom.
    FitsDevice,
}

impl Law {
    /// Every key that the law depends on: it can be judged once all of these are known.
    #[must_use]
    pub const fn keys(&self) -> KeySet {
        let rule = match self.rule {
            Rule::Divides(a, b)
            | Rule::EitherDivides(a, b)
            | Rule::AtLeast(a, b)
            | Rule::AtMost(a, b)
            | Rule::Equal(a, b) => KeySet::of(a.keys()).union(KeySet::of(b.keys())),
            Rule::Needs(key, a, b) => KeySet::of(a.keys()).union(KeySet::of(b.keys())).with(key),
            Rule::IsOn(key) | Rule::IsKept(key) | Rule::Given(key) | Rule::OneOf(key, _) => KeySet::EMPTY.with(key),
            Rule::LayersFallToStages | Rule::RanksHoldLayers => {
                let stages = KeySet::of(&[Key::StagesFirst, Key::StagesLast, Key::StagesEmbedding, Key::StagesLoss]);
                stages.union(KeySet::of(LAYERS)).union(KeySet::of(SHAPE))
            }
            Rule::ChunksOfSchedule => KeySet::of(SHAPE),
            Rule::LastGroupFills => KeySet::of(&[Key::BatchCount, Key::BatchGroup, Key::MeshPp]),
            Rule::SkewIsPossible => {
                let experts = KeySet::of(&[Key::ExpertsActive, Key::ExpertsRouted, Key::PlacementRedundantExperts]);
                experts.with(Key::RoutingSkew).with(Key::MeshEp)
            }
            Rule::FactorIsPossible => KeySet::of(&[Key::RoutingFactor, Key::ExpertsActive, Key::ExpertsRouted]),
            Rule::Fits64Bits | Rule::FitsDevice => KeySet::ALL,
        };
        rule.union(self.when.keys())
    }

    /// Whether the law cannot be judged of a Spec some of whose keys only the compiler will know: it depends on one of them,
    /// and may apply whatever that is.
    #[must_use]
    pub const fn waits(&self, n: &Numbers, unknown: KeySet) -> bool {
        // How many chunks a rank has follows from its pipeline only where listed stages are dealt out.
        let is_dealt = n.of(Key::StagesList) > 0 && n.of(Key::MeshVpp) == 0;
        let knows_chunks = !unknown.has(Key::MeshVpp) && !unknown.has(Key::Schedule) && !is_dealt;
        if knows_chunks && matches!(self.rule, Rule::ChunksOfSchedule) {
            return false;
        }
        let may_apply = match self.when {
            When::Chunked if knows_chunks => self.when.applies(n),
            When::PipelinedFor(target) | When::MoeFor(target) | When::GqaFor(target)
                if !unknown.has(Key::Target) && n.of(Key::Target) != target as u64 =>
            {
                false
            }
            when => when.keys().intersects(unknown) || when.applies(n),
        };
        may_apply && self.keys().intersects(unknown)
    }

    /// Whether the law holds for a Spec of these numbers, or does not apply to it. Numbers must be in [`range`]; a law
    /// whose numbers do not fit in 64 bits is left to `world-size` and `fits-64-bits`, and those that judge budgets to
    /// [`Law::holds_for_budget`].
    #[must_use]
    pub const fn holds(&self, n: &Numbers) -> bool {
        if !matches!(self.when, When::Always) && !self.when.applies(n) {
            return true;
        }
        let (Rule::Divides(a, b)
        | Rule::EitherDivides(a, b)
        | Rule::AtLeast(a, b)
        | Rule::Needs(_, a, b)
        | Rule::AtMost(a, b)
        | Rule::Equal(a, b)) = &self.rule
        else {
            return self.holds_alone(n);
        };
        // Most are numbers of the declaration: read in place, which saves const evaluation a call.
        let a = if let Quantity::Of(key) = a { Some(n.values[*key as usize]) } else { a.value(n) };
        let b = if let Quantity::Of(key) = b { Some(n.values[*key as usize]) } else { b.value(n) };
        // A quantity beyond 64 bits is beyond any limit, and equals none.
        let Some(b) = b else { return a.is_none() || !matches!(self.rule, Rule::Equal(..)) };
        let Some(a) = a else { return !matches!(self.rule, Rule::AtMost(..) | Rule::Equal(..)) };
        match self.rule {
            Rule::Divides(..) => a != 0 && b % a == 0,
            Rule::EitherDivides(..) => a != 0 && b != 0 && (a % b == 0 || b % a == 0),
            Rule::AtMost(..) => a <= b,
            Rule::Equal(..) => a == b,
            _ => a >= b,
        }
    }

    /// Rules that compare no two quantities. Apart, since const evaluation sets up all of a function that it calls.
    const fn holds_alone(&self, n: &Numbers) -> bool {
        match self.rule {
            Rule::IsOn(key) | Rule::IsKept(key) | Rule::Given(key) => n.of(key) > 0,
            Rule::OneOf(key, places) => {
                let (mut found, mut i) = (false, 0);
                while i < places.len() {
                    found |= n.of(key) == places[i];
                    i += 1;
                }
                found
            }
            // Chunks without a pipeline are `vpp-needs-pp`'s to refuse.
            Rule::LayersFallToStages => n.of(Key::MeshPp) == 1 && shape(n).chunks > 1 || division(n).is_ok(),
            Rule::ChunksOfSchedule => {
                let (least, most) = Schedule::at(n.of(Key::Schedule)).chunks();
                let chunks = shape(n).chunks;
                chunks >= least && chunks <= most
            }
            Rule::LastGroupFills => last_group(n) == 0 || last_group(n) >= n.of(Key::MeshPp),
            Rule::SkewIsPossible => {
                let skew = n.of(Key::RoutingSkew);
                skew >= 1000 && skew <= worst_skew(n)
            }
            Rule::FactorIsPossible => {
                let factor = n.of(Key::RoutingFactor);
                factor >= 1 && factor <= worst_factor(n)
            }
            // Judged of plans, or above.
            _ => true,
        }
    }

    /// Whether a law that judges budgets holds for a Spec that breaks no other.
    #[must_use]
    pub const fn holds_for_budget(&self, spec: &Spec) -> bool {
        let Some(plan) = Plan::unchecked(*spec) else { return true };
        match self.rule {
            Rule::Fits64Bits => budget::peak(&plan).total.bytes() < u64::MAX,
            Rule::FitsDevice => plan.fits(spec.layout.device),
            Rule::RanksHoldLayers => plan.rank_without_layers().is_none(),
            _ => true,
        }
    }
}

/// Micro-batches of the last group, 0 where all groups are whole or there is none.
pub(crate) const fn last_group(n: &Numbers) -> u64 {
    match Quantity::Group.value(n) {
        Some(group) if group > 0 && group <= n.of(Key::BatchCount) => n.of(Key::BatchCount) % group,
        _ => 0,
    }
}

/// How the layers fall to stages, without a list.
pub(crate) const fn division(n: &Numbers) -> Result<Division, Misfit> {
    let stages = Stages {
        list: StageList::NONE,
        first: n.of(Key::StagesFirst),
        last: n.of(Key::StagesLast),
        embedding: Weighed::at(n.of(Key::StagesEmbedding)),
        loss: Weighed::at(n.of(Key::StagesLoss)),
    };
    stages::divide(layers(n), shape(n), stages)
}

/// The load of the hottest rank over the balanced one, at worst, in thousandths, rounded down: every token sends
/// as many copies to one rank as that rank has experts, or all it has.
pub(crate) const fn worst_skew(n: &Numbers) -> u64 {
    let (routed, active, ep) = (n.of(Key::ExpertsRouted), n.of(Key::ExpertsActive), n.of(Key::MeshEp));
    if ep == 0 || active == 0 {
        return 1000;
    }
    let local = add(routed, n.of(Key::PlacementRedundantExperts)) / ep;
    let most = if local < active { local } else { active };
    let worst = 1000 * most as u128 * ep as u128 / active as u128;
    // Fewer than one expert a rank is `experts-ep`'s to refuse.
    if worst < 1000 { 1000 } else { cut(worst) }
}

/// The least capacity factor that can never drop a token, in thousandths, rounded up: all tokens at one expert.
pub(crate) const fn worst_factor(n: &Numbers) -> u64 {
    let most = n.of(Key::ExpertsRouted) as u128 * 1000;
    match most.checked_div(n.of(Key::ExpertsActive) as u128) {
        Some(_) => cut(most.div_ceil(n.of(Key::ExpertsActive) as u128)),
        None => 1000,
    }
}

/// Keys whose 0 stands for a number that is not given, and follows from others.
pub(crate) const FOLLOW: KeySet =
    KeySet::of(&[Key::MeshDp, Key::MeshVpp, Key::MeshWorld, Key::BatchGlobal, Key::BatchGroup, Key::AttentionHeadDim]);

/// Whether 0 stands for a number that is not given, and follows from others: written, it says nothing.
#[must_use]
pub const fn follows_at_zero(key: Key) -> bool {
    FOLLOW.has(key)
}

/// The name of the law that is judged before all others, and of no key alone: see [`range`].
pub const NUMBER_RANGE: &str = "number-range";

/// Why there is that law.
pub const NUMBER_RANGE_WHY: &str = "the numbers of a declaration are of a bounded size";

/// Whether a number is one that its key may hold: the law `number-range`, judged before all others.
#[must_use]
pub const fn range(key: Key, number: u64) -> bool {
    match Spec::least(key) {
        Some(least) => number >= least && number <= NUMBER_MAX,
        None => number <= NUMBER_MAX,
    }
}
