//! Whose number is to blame for a breach, and what to write instead.
//!
//! A breach involves several numbers. The one to blame is found by trying: for each candidate of the law, the
//! nearest values that mend it; among those, the change that leaves the fewest breaches, of a layout rather than
//! of the architecture, by the smallest ratio. So `dp: 33` is blamed on `mesh.dp`, though the law speaks of `mesh.ep`.

use super::{Violation, breaches};
use crate::key::{Key, KeySet, Numbers};
use crate::law::{Law, Rule};
use crate::spec::{Field, NUMBER_MAX, Spec, Value};

/// How far from a number its legal neighbours are looked for. A bound on time, not on truth: further off, the
/// help line is left out.
const REACH: u64 = 4096;

/// A value that mends a law, and what else it does.
#[derive(Clone, Copy)]
struct Remedy {
    key: Key,
    below: Option<u64>,
    above: Option<u64>,
    /// Breaches that remain.
    left: u64,
    /// Size of the change over the number changed.
    change: (u64, u64),
}

impl Remedy {
    const fn is_better_than(&self, other: &Self) -> bool {
        if self.left != other.left {
            return self.left < other.left;
        }
        if self.key.is_layout() != other.key.is_layout() {
            return self.key.is_layout();
        }
        (self.change.0 as u128 * other.change.1 as u128) < (other.change.0 as u128 * self.change.1 as u128)
    }
}

/// Finds the key to blame for a breach and what to write instead.
pub(super) const fn blame(law: &'static Law, numbers: &Numbers, unknown: KeySet) -> Violation {
    let mut best: Option<Remedy> = None;
    let mut i = 0;
    while i < law.at.len() {
        if !unknown.has(law.at[i])
            && let Some(remedy) = remedy(law, numbers, law.at[i])
        {
            best = match best {
                Some(best) if !remedy.is_better_than(&best) => Some(best),
                _ => Some(remedy),
            };
        }
        i += 1;
    }
    match best {
        Some(best) => Violation { law: Some(law), at: best.key, below: best.below, above: best.above },
        None => Violation { law: Some(law), at: law.at[0], below: None, above: None },
    }
}

/// The nearest values of a key that mend the law, those that leave the fewest breaches.
const fn remedy(law: &Law, numbers: &Numbers, key: Key) -> Option<Remedy> {
    let Some(old) = numbers.get(key) else { return None };
    let Some((lowest, highest)) = values(key) else { return None };
    let mut best: Option<Remedy> = None;
    let mut trial = *numbers;
    // Once below, once above: on each side the first values that mend the law, the best of them kept.
    let mut side = 0;
    while side < 2 {
        let mut value = start(law, numbers, key, old, side == 1);
        let (mut steps, mut found) = (0, 0);
        while steps < REACH && found < 4 && value >= lowest && value <= highest {
            trial.put(key, value);
            if value != old && law.holds(&trial) {
                found += 1;
                let next = Remedy::of(key, old, value, breaches(&trial));
                best = match best {
                    Some(best) => Some(better(best, next, side == 1)),
                    None => Some(next),
                };
            }
            steps += 1;
            value = if side == 1 {
                value + 1
            } else if value == 0 {
                break;
            } else {
                value - 1
            };
        }
        side += 1;
    }
    best
}

impl Remedy {
    const fn of(key: Key, old: u64, value: u64, left: u64) -> Self {
        let (below, above) = if value < old { (Some(value), None) } else { (None, Some(value)) };
        Self { key, below, above, left, change: (value.abs_diff(old), if old == 0 { 1 } else { old }) }
    }
}

/// The better of two values of one key; the first below and the first above are named together if they are as good.
const fn better(best: Remedy, next: Remedy, is_above: bool) -> Remedy {
    if next.left == best.left && is_above && best.above.is_none() {
        let change = if next.is_better_than(&best) { next.change } else { best.change };
        return Remedy { above: next.above, change, ..best };
    }
    if next.left < best.left { next } else { best }
}

/// Where the search for legal neighbours begins: next to the number, or, where it is larger than what it must
/// divide, at that. The search is thereby bounded by the *other* number.
const fn start(law: &Law, numbers: &Numbers, key: Key, old: u64, up: bool) -> u64 {
    if up {
        return old.saturating_add(1);
    }
    if let Rule::Divides(a, b) = law.rule {
        let mut i = 0;
        let keys = a.keys();
        while i < keys.len() {
            if keys[i] as u8 == key as u8
                && let Some(whole) = b.value(numbers)
                && whole < old
            {
                return whole;
            }
            i += 1;
        }
    }
    old.saturating_sub(1)
}

/// The first and last value that a key may hold: numbers, or places in its list of words.
const fn values(key: Key) -> Option<(u64, u64)> {
    match Spec::least(key) {
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

/// The field of a key, for its list of words.
pub(super) const fn field(key: Key) -> Option<&'static Field> {
    use crate::spec::{Experts, Layout, Mesh, Placement, Precision, Zero};
    let groups = [Layout::FIELDS, Mesh::FIELDS, Zero::FIELDS, Placement::FIELDS, Precision::FIELDS, Experts::FIELDS];
    let mut g = 0;
    while g < groups.len() {
        let mut f = 0;
        while f < groups[g].len() {
            if groups[g][f].key as u8 == key as u8 {
                return Some(&groups[g][f]);
            }
            f += 1;
        }
        g += 1;
    }
    None
}

const fn words(key: Key) -> Option<usize> {
    match field(key) {
        Some(Field { value: Value::Choice { words, kinds: [] }, .. }) => Some(words.len()),
        _ => None,
    }
}
