//! How the compiler reports numbers that only it knows: all laws that wait for them are judged once, then each is
//! enforced in a constant of its own, so that all breaches are reported.

use super::blame::{CONST_REACH, blame, laws_on};
use super::{Violation, breaches_among};
use crate::key::{Key, KeySet, Numbers};
use crate::law::{self, LAWS};
use crate::spec::Spec;
use crate::text::Text;

/// Laws of the table, by their places, a bit for each, the first 128 of them first: what the compiler judges of a Spec,
/// once, before it reports one by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LawSet([u128; 2]);

const _: () = assert!(LAWS.len() < 255, "a LawSet holds 255 laws");

impl LawSet {
    /// No law.
    pub const NONE: Self = Self([0; 2]);

    /// Stands for `number-range`, which is not in the table: the last bit.
    const OUT_OF_RANGE: Self = Self([0, 1 << 127]);

    /// Whether there is no law in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0[0] | self.0[1] == 0
    }

    /// The laws whose bits are set.
    #[must_use]
    pub const fn of(bits: [u128; 2]) -> Self {
        Self(bits)
    }

    /// The bits of the set.
    #[must_use]
    pub const fn bits(self) -> [u128; 2] {
        self.0
    }

    /// The set with the law at a place of the table.
    #[must_use]
    pub const fn with(self, law: usize) -> Self {
        let bit = 1 << (law % 128);
        if law < 128 { Self([self.0[0] | bit, self.0[1]]) } else { Self([self.0[0], self.0[1] | bit]) }
    }

    /// The set with what stands for the range of a number.
    #[must_use]
    pub const fn with_range(self) -> Self {
        self.union(Self::OUT_OF_RANGE)
    }

    /// Those of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    /// Those that are in both sets.
    pub(super) const fn common(self, other: Self) -> Self {
        Self([self.0[0] & other.0[0], self.0[1] & other.0[1]])
    }

    /// Those that are not in another set.
    pub(super) const fn without(self, other: Self) -> Self {
        Self([self.0[0] & !other.0[0], self.0[1] & !other.0[1]])
    }

    /// How many there are.
    pub(super) const fn count(self) -> u32 {
        self.0[0].count_ones() + self.0[1].count_ones()
    }

    /// The place of the first of them, and the others; a place behind the table where there is none.
    pub(super) const fn split_first(self) -> (usize, Self) {
        let [low, high] = self.0;
        if low != 0 {
            (low.trailing_zeros() as usize, Self([low & (low - 1), high]))
        } else {
            (128 + high.trailing_zeros() as usize, Self([0, high & high.saturating_sub(1)]))
        }
    }

    /// Those of the set that a Spec breaks, some of whose keys were written for the compiler to read. Of a Spec with a
    /// number out of range nothing but that can be said.
    #[must_use]
    pub const fn broken(self, spec: &Spec, written: [u128; 2]) -> Self {
        if !spec.is_in_range() {
            return Self::OUT_OF_RANGE;
        }
        let (mesh, numbers) = (&spec.layout.mesh, spec.numbers());
        let zeros = KeySet::of_bits(written).common(law::FOLLOW);
        if !zeros.is_empty() && (numbers.dp_follows && zeros.has(Key::MeshDp) || has_zero(&numbers, zeros)) {
            return Self::OUT_OF_RANGE;
        }
        if mesh.dp == 0 && mesh.world > 0 && !mesh.is_whole() {
            // `world-replicas` says so; what else a part of a replica breaks is no news.
            return breaches_among(self.without(laws_on(Key::MeshDp, &numbers)), &numbers);
        }
        breaches_among(self, &numbers)
    }
}

const fn has_zero(numbers: &Numbers, keys: KeySet) -> bool {
    let mut word = 0;
    while word < keys.bits().len() {
        let mut left = keys.bits()[word];
        while left != 0 {
            if numbers.values[128 * word + left.trailing_zeros() as usize] == 0 {
                return true;
            }
            left &= left - 1;
        }
        word += 1;
    }
    false
}

/// Panics with the text of those of some laws that the Spec breaks, or with that of a number out of range: how the
/// compiler reports numbers that only it knows. The laws share two places in the declaration, the first of them that of
/// the key at place `at` of [`Key::ALL`]; the last bit of `laws` stands for that key's range.
///
/// # Panics
/// If one is broken.
#[track_caller]
pub const fn enforce(at: usize, laws: [u128; 2], broken: LawSet, written: [u128; 2], spec: &Spec) {
    // A small function in front of a large one: const evaluation sets up all of a function that it calls.
    if !broken.is_empty() {
        report(Key::ALL[at], LawSet(laws), broken, KeySet::of_bits(written), spec);
    }
}

#[track_caller]
const fn report(at: Key, laws: LawSet, broken: LawSet, written: KeySet, spec: &Spec) {
    let numbers = spec.numbers();
    if !broken.common(LawSet::OUT_OF_RANGE).is_empty() {
        if !laws.common(LawSet::OUT_OF_RANGE).is_empty()
            && let Some(number) = spec.raw_numbers().get(at)
            && (!law::range(at, number) || number == 0 && law::follows_at_zero(at))
        {
            let text = Violation { law: None, at, below: None, above: None, carried: None }.text(spec);
            panic!("{}", text.as_str());
        }
        return;
    }
    let mut left = broken.common(laws);
    let mut text = Text::new();
    while !left.is_empty() {
        let (law, others) = left.split_first();
        let violation = blame(&LAWS[law], &numbers, KeySet::EMPTY, written, CONST_REACH);
        text = if text.is_empty() { text } else { text.str("\nerror: ") }.text(&violation.text(spec));
        left = others;
    }
    assert!(text.is_empty(), "{}", text.as_str());
}

/// Panics if a Spec that breaks no other law breaks one that judges its budget.
///
/// # Panics
/// If it does.
#[track_caller]
pub const fn enforce_budget(law: usize, broken: LawSet, spec: &Spec) {
    let law = &LAWS[law];
    if broken.is_empty() && !law.holds_for_budget(spec) {
        let text = Violation::of_budget(law, &spec.numbers()).text(spec);
        panic!("{}", text.as_str());
    }
}
