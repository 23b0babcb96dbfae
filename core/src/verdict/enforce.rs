//! How the compiler reports numbers that only it knows: all laws that wait for them are judged once, then each is
//! enforced in a constant of its own, so that all breaches are reported.

use super::blame::{CONST_REACH, blame, laws_on};
use super::{Violation, breaches_among};
use crate::key::{Key, KeySet, Numbers};
use crate::law::{self, BUDGET_LAWS, LAWS};
use crate::spec::Spec;
use crate::text::Text;

/// Laws of the table, by their places: what the compiler judges of a Spec, once, before it reports one by one.
#[derive(Clone, Copy, Debug)]
pub struct LawSet(u128);

/// Stands for `number-range`, which is not in the table.
const OUT_OF_RANGE: u128 = 1 << 127;

const _: () = assert!(LAWS.len() - BUDGET_LAWS <= 127, "a LawSet holds 127 laws, those that judge budgets apart");

impl LawSet {
    /// No law.
    pub const NONE: Self = Self(0);

    /// Whether there is no law in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The laws whose bits are set.
    #[must_use]
    pub const fn of(bits: u128) -> Self {
        Self(bits)
    }

    /// Those of the set that a Spec breaks, some of whose keys were written for the compiler to read. Of a Spec with a
    /// number out of range nothing but that can be said.
    #[must_use]
    pub const fn broken(self, spec: &Spec, written: [u128; 2]) -> Self {
        if !spec.is_in_range() {
            return Self(OUT_OF_RANGE);
        }
        let (mesh, numbers) = (&spec.layout.mesh, spec.numbers());
        let zeros = KeySet::of_bits(written).common(law::FOLLOW);
        if !zeros.is_empty() && (numbers.dp_follows && zeros.has(Key::MeshDp) || has_zero(&numbers, zeros)) {
            return Self(OUT_OF_RANGE);
        }
        if mesh.dp == 0 && mesh.world > 0 && !mesh.is_whole() {
            // `world-replicas` says so; what else a part of a replica breaks is no news.
            return Self(breaches_among(self.0 & !laws_on(Key::MeshDp, &numbers), &numbers));
        }
        Self(breaches_among(self.0, &numbers))
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
/// the key at place `at` of [`Key::ALL`]; bit 127 of `laws` stands for that key's range.
///
/// # Panics
/// If one is broken.
#[track_caller]
pub const fn enforce(at: usize, laws: u128, broken: LawSet, written: [u128; 2], spec: &Spec) {
    // A small function in front of a large one: const evaluation sets up all of a function that it calls.
    if broken.0 != 0 {
        report(Key::ALL[at], laws, broken, KeySet::of_bits(written), spec);
    }
}

#[track_caller]
const fn report(at: Key, laws: u128, broken: LawSet, written: KeySet, spec: &Spec) {
    let numbers = spec.numbers();
    if broken.0 == OUT_OF_RANGE {
        if laws & OUT_OF_RANGE != 0
            && let Some(number) = spec.raw_numbers().get(at)
            && (!law::range(at, number) || number == 0 && law::follows_at_zero(at))
        {
            let text = Violation { law: None, at, below: None, above: None, carried: None }.text(spec);
            panic!("{}", text.as_str());
        }
        return;
    }
    let mut left = broken.0 & laws;
    let mut text = Text::new();
    while left != 0 {
        let violation = blame(&LAWS[left.trailing_zeros() as usize], &numbers, KeySet::EMPTY, written, CONST_REACH);
        text = if text.is_empty() { text } else { text.str("\nerror: ") }.text(&violation.text(spec));
        left &= left - 1;
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
    if broken.0 == 0 && !law.holds_for_budget(spec) {
        let text = Violation::of_budget(law, &spec.numbers()).text(spec);
        panic!("{}", text.as_str());
    }
}
