//! Whose number is to blame for a breach, and what to write instead.
//!
//! A breach involves several numbers. The one to blame is found by trying: for each candidate of the law, the
//! nearest values that mend it and break no other; among those, the change that leaves the fewest breaches, of degrees
//! and stages rather than of the work, of a layout rather than of the architecture, by the least. So `dp: 33` is blamed
//! on `mesh.dp`, though the law speaks of `mesh.ep`.

use super::{LawSet, Violation, breaches, breaches_among};
use crate::key::{Key, KeySet, Numbers};
use crate::law::{self, BUDGET_LAWS, LAWS, Law, Quantity, Rule};
use crate::spec::{Field, NUMBER_MAX, Spec, Value};
use crate::stages::Misfit;

/// How far from a number its legal neighbours are looked for, at run time and while the macro expands. A bound on time,
/// not on truth: further off, the help line is left out.
pub(super) const REACH: u64 = 4096;

/// The same in const evaluation, a thousand times as slow.
pub(super) const CONST_REACH: u64 = 256;

/// A value that mends a law and breaks no other.
#[derive(Clone, Copy)]
struct Remedy {
    key: Key,
    below: Option<u64>,
    above: Option<u64>,
    /// How many breaches remain that are not pardoned.
    left: u32,
    /// How many remain at all.
    remain: u32,
    /// The number written, and the nearer of the two values.
    change: (u64, u64),
}

impl Remedy {
    const fn of(key: Key, old: u64, value: u64, left: u32, remain: u32) -> Self {
        let (below, above) = if value < old { (Some(value), None) } else { (None, Some(value)) };
        Self { key, below, above, left, remain, change: (old, value) }
    }

    const fn is_better_than(&self, other: &Self) -> bool {
        if self.left != other.left {
            return self.left < other.left;
        }
        // What a kernel fixes is to blame where it mends laws that no other number does.
        if is_fixed(self.key) != is_fixed(other.key) && self.remain != other.remain {
            return self.remain < other.remain;
        }
        let (mine, others) = (likelihood(self.key), likelihood(other.key));
        if mine != others {
            return mine < others;
        }
        let (a, b) = (self.change, other.change);
        if is_degree(self.key) && is_degree(other.key) {
            // Degrees are wrong by a factor: twice as many is as far off as half.
            let (a_most, a_least) = if a.0 > a.1 { a } else { (a.1, a.0) };
            let (b_most, b_least) = if b.0 > b.1 { b } else { (b.1, b.0) };
            return (a_most as u128 * b_least as u128) < (b_most as u128 * a_least as u128);
        }
        a.0.abs_diff(a.1) < b.0.abs_diff(b.1)
    }
}

const fn is_degree(key: Key) -> bool {
    key as u8 > Key::Mesh as u8 && (key as u8) < Key::MeshWorld as u8
}

/// Whether a number is a kernel's, and seldom chosen.
const fn is_fixed(key: Key) -> bool {
    matches!(key, Key::PrecisionBlock)
}

/// How likely a number is to be the wrong one: degrees and stages most, then the work, an architecture, and least what
/// a kernel fixes.
const fn likelihood(key: Key) -> u8 {
    if is_fixed(key) {
        3
    } else if !key.is_layout() {
        2
    } else if key as u8 <= Key::StagesLast as u8 {
        0
    } else {
        1
    }
}

/// Finds the key to blame for a breach and what to write instead, looking `reach` far. Keys that were written are
/// blamed before those that were left to their defaults.
pub(super) const fn blame(
    law: &'static Law,
    numbers: &Numbers,
    unknown: KeySet,
    written: KeySet,
    reach: u64,
) -> Violation {
    let mut best: Option<Remedy> = None;
    let demand = Demand { pardoned: pardoned(law, numbers), demanded: LawSet::NONE };
    // Of stages a division is proposed instead of keys that nobody wrote.
    let passes = if matches!(law.rule, Rule::LayersFallToStages) { 1 } else { 2 };
    let mut pass = 0;
    while pass < passes && best.is_none() {
        let mut i = 0;
        while i < law.at.len() {
            let key = law.at[i];
            // A total that is given is to blame for not being the product, which is given in its parts.
            let is_settled = matches!(law.rule, Rule::Equal(..)) && best.is_some();
            if !unknown.has(key)
                && written.has(key) == (pass == 0)
                && !is_settled
                && let Some(remedy) = remedy(law, numbers, key, demand, reach)
            {
                best = match best {
                    Some(best) if !remedy.is_better_than(&best) => Some(best),
                    _ => Some(remedy),
                };
            }
            i += 1;
        }
        pass += 1;
    }
    let (at, below, above) = if let Some(best) = best {
        let best = lasting(law, numbers, best, reach);
        (best.key, best.below, best.above)
    } else {
        (likeliest(law, numbers, written), None, None)
    };
    Violation { law: Some(law), at, below, above, carried: carried(law, numbers, at, reach) }
}

/// A factor of one degree moved to another: the same ranks.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// What is left of the degree that is to blame.
    pub left: u64,
    /// The degree that carries the factor.
    pub by: Key,
    /// How many it is then.
    pub degree: u64,
}

/// The degree that can carry the least factor of another, so that the law holds and no other is broken. Searched by
/// factors, so bounded by their number, not by the degree.
const fn carried(law: &Law, numbers: &Numbers, key: Key, reach: u64) -> Option<Carried> {
    let by: &[Key] = match key {
        Key::MeshTp => &[Key::MeshCp, Key::MeshDp],
        Key::MeshEtp => &[Key::MeshEp],
        Key::MeshEp => &[Key::MeshEtp],
        _ => return None,
    };
    let (degree, before) = (numbers.of(key), breaches(numbers));
    let mut factor = 2;
    while factor <= degree && factor <= reach {
        let mut i = 0;
        while i < by.len() && degree.is_multiple_of(factor) {
            let mut trial = *numbers;
            let carrier = numbers.of(by[i]).saturating_mul(factor);
            trial.change(key, degree / factor);
            trial.change(by[i], carrier);
            if carrier <= NUMBER_MAX && law.holds(&trial) && breaches(&trial).without(before).is_empty() {
                return Some(Carried { left: degree / factor, by: by[i], degree: carrier });
            }
            i += 1;
        }
        factor += 1;
    }
    None
}

/// Laws that a remedy of this one may leave broken: those on degrees that other breaches are to be
/// blamed for. Three ranks for 64 heads and 256 experts are wrong twice; 4 mends the heads only once it is 4 for both.
const fn pardoned(law: &Law, numbers: &Numbers) -> LawSet {
    let (own, mut pardoned, mut left) = (KeySet::of(law.at), LawSet::NONE, breaches(numbers));
    while !left.is_empty() {
        let (first, others) = left.split_first();
        let other = &LAWS[first];
        let mut i = 0;
        while i < other.at.len() {
            // One and the same degree is no excuse for itself.
            if is_degree(other.at[i]) && !own.has(other.at[i]) {
                pardoned = pardoned.union(laws_on(other.at[i], numbers));
            }
            i += 1;
        }
        left = others;
    }
    pardoned
}

/// Laws that depend on each key, budgets apart: looked up, since const evaluation is slow to find them.
const LAWS_ON: [LawSet; Key::ALL.len()] = {
    let (mut laws, mut i) = ([LawSet::NONE; Key::ALL.len()], 0);
    while i < LAWS.len() - BUDGET_LAWS {
        let (keys, mut key) = (LAWS[i].keys(), 0);
        while key < Key::ALL.len() {
            if keys.has(Key::ALL[key]) {
                laws[key] = laws[key].with(i);
            }
            key += 1;
        }
        i += 1;
    }
    laws
};

/// Laws that depend on a number, or on one that follows from it.
pub(super) const fn laws_on(key: Key, numbers: &Numbers) -> LawSet {
    let follows = numbers.dp_follows && matches!(key, Key::MeshWorld | Key::MeshTp | Key::MeshCp | Key::MeshPp);
    let laws = LAWS_ON[key as usize];
    if follows { laws.union(LAWS_ON[Key::MeshDp as usize]) } else { laws }
}

/// The first key of a law that was written, else the first; of stages that take more layers than there are, not `pp`; of
/// layers that do not fall to chunks, the chunks; of keys that should all be left out, one that is not.
const fn likeliest(law: &Law, numbers: &Numbers, written: KeySet) -> Key {
    let misfit = match law.rule {
        Rule::LayersFallToStages => match law::division(numbers) {
            Err(misfit) => Some(misfit),
            Ok(_) => None,
        },
        _ => None,
    };
    if matches!(misfit, Some(Misfit::Chunks(..))) && written.has(Key::MeshVpp) {
        return Key::MeshVpp;
    }
    let leaves_out = matches!(law.rule, Rule::AtMost(Quantity::Sum(_), Quantity::Just(0)));
    let mut i = matches!(misfit, Some(Misfit::Layers)) as usize;
    while i < law.at.len() {
        let is_there = if leaves_out { numbers.of(law.at[i]) > 0 } else { written.has(law.at[i]) };
        if is_there {
            return law.at[i];
        }
        i += 1;
    }
    law.at[0]
}

/// The remedy whose values mend every law that its key is part of, if there are such: where one number breaks two laws,
/// both then name the same values.
const fn lasting(law: &Law, numbers: &Numbers, best: Remedy, reach: u64) -> Remedy {
    if breaches(numbers).count() < 2 {
        return best;
    }
    let demand = Demand { pardoned: LawSet::NONE, demanded: laws_on(best.key, numbers) };
    match remedy(law, numbers, best.key, demand, reach) {
        Some(lasting) => lasting,
        None => best,
    }
}

/// What is asked of a remedy beside mending its law and breaking no other.
#[derive(Clone, Copy)]
struct Demand {
    /// Laws that it may leave broken, or break.
    pardoned: LawSet,
    /// Laws that must hold with it.
    demanded: LawSet,
}

/// The nearest values of a key that mend the law and break no other, below and above.
const fn remedy(law: &Law, numbers: &Numbers, key: Key, demand: Demand, reach: u64) -> Option<Remedy> {
    if numbers.get(key).is_none() {
        return None;
    }
    let Some(range) = values(key) else { return None };
    let below = search(law, numbers, key, range, false, demand, reach);
    let above = search(law, numbers, key, range, true, demand, reach);
    match (below, above) {
        (Some(below), Some(above)) => {
            let change = if above.is_better_than(&below) { above.change } else { below.change };
            let left = if below.left < above.left { below.left } else { above.left };
            let remain = if below.remain < above.remain { below.remain } else { above.remain };
            Some(Remedy { key, below: below.below, above: above.above, left, remain, change })
        }
        (one, None) | (None, one) => one,
    }
}

/// The nearest value on one side that mends the law and breaks no other.
const fn search(
    law: &Law,
    numbers: &Numbers,
    key: Key,
    range: (u64, u64),
    up: bool,
    Demand { pardoned, demanded }: Demand,
    reach: u64,
) -> Option<Remedy> {
    let (old, before) = (numbers.of(key), breaches(numbers));
    // Laws on other keys stay as they are.
    let laws = laws_on(key, numbers);
    let stride = stride(law, numbers, key);
    let mut trial = *numbers;
    let mut value = start(law, numbers, key, old, stride, up);
    let mut steps = 0;
    while steps < reach && value >= range.0 && value <= range.1 {
        trial.change(key, value);
        if value != old && law.holds(&trial) {
            let after = before.without(laws).union(breaches_among(laws, &trial));
            if after.without(before).without(pardoned).is_empty() && after.common(demanded).is_empty() {
                let left = after.without(pardoned).count();
                return Some(Remedy::of(key, old, value, left, after.count()));
            }
        }
        steps += 1;
        if up {
            value = value.saturating_add(stride);
        } else if value < stride {
            return None;
        } else {
            value -= stride;
        }
    }
    None
}

/// How far apart values of a key are that a number divides, where the law asks for that: from one to the next, whatever
/// lies between.
const fn stride(law: &Law, numbers: &Numbers, key: Key) -> u64 {
    let Rule::Divides(a, b) = law.rule else { return 1 };
    let others = match b {
        Quantity::Of(of) if of as u8 == key as u8 => Some(1),
        Quantity::Product(keys) if KeySet::of(keys).has(key) => cofactor(keys, numbers, key),
        _ => None,
    };
    match (a.value(numbers), others) {
        (Some(divisor), Some(others)) if divisor > 0 && !KeySet::of(a.keys()).has(key) => {
            divisor / law::gcd(divisor, others)
        }
        _ => 1,
    }
}

/// Where the search begins on one side: next to the number, or, where what must hold says how far off the first legal
/// value is at least, there. The search is thereby bounded by the *other* numbers.
const fn start(law: &Law, numbers: &Numbers, key: Key, old: u64, stride: u64, up: bool) -> u64 {
    let below = old.saturating_sub(1);
    let next = if up { (old / stride).saturating_add(1).saturating_mul(stride) } else { below - below % stride };
    let bound = match law.rule {
        Rule::Divides(a, b) if KeySet::of(a.keys()).has(key) => b.value(numbers),
        Rule::Equal(a, b) if KeySet::of(a.keys()).has(key) => b.value(numbers),
        Rule::AtMost(a, b) if KeySet::of(a.keys()).has(key) => {
            match (b.value(numbers), cofactor(a.keys(), numbers, key)) {
                (Some(limit), Some(others)) => Some(limit / others),
                _ => None,
            }
        }
        Rule::SkewIsPossible => Some(law::worst_skew(numbers)),
        Rule::FactorIsPossible => Some(law::worst_factor(numbers)),
        Rule::LayersFallToStages => Some(law::layers(numbers)),
        _ => None,
    };
    match bound {
        Some(bound) if !up && bound < next => bound,
        Some(bound) if up && bound > next && matches!(law.rule, Rule::Equal(..)) => bound,
        _ => next,
    }
}

/// The product of the other keys, if it fits and is not 0.
const fn cofactor(keys: &[Key], numbers: &Numbers, key: Key) -> Option<u64> {
    let (mut product, mut i) = (1_u64, 0);
    while i < keys.len() {
        if keys[i] as u8 != key as u8 {
            let Some(next) = product.checked_mul(numbers.of(keys[i])) else { return None };
            product = next;
        }
        i += 1;
    }
    if product == 0 { None } else { Some(product) }
}

/// The first and last value that a key may hold: numbers, or places in its list of words.
const fn values(key: Key) -> Option<(u64, u64)> {
    match Spec::least(key) {
        // 0 stands for what is not given: nothing to suggest.
        Some(0) if matches!(key, Key::MeshWorld | Key::MeshDp | Key::MeshVpp | Key::BatchGlobal | Key::BatchGroup) => {
            Some((1, NUMBER_MAX))
        }
        Some(least) => Some((least, NUMBER_MAX)),
        None => match words(key) {
            Some(words) => Some((0, words as u64 - 1)),
            None => match key {
                Key::RoutingSkew | Key::RoutingFactor => Some((0, NUMBER_MAX)),
                _ => None,
            },
        },
    }
}

const fn words(key: Key) -> Option<usize> {
    match Spec::field(key) {
        Some(Field { value: Value::Choice { words, kinds: [] }, .. }) => Some(words.len()),
        _ => None,
    }
}
