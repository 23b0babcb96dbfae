//! What is wrong with a Spec: [`judge`] for all of it, and beside it whom to blame, how to say it, and how the compiler
//! says it of numbers that only it knows.

mod blame;
mod enforce;
mod wording;

pub use enforce::{LawSet, enforce, enforce_budget};

use crate::key::{Key, KeySet, Numbers};
use crate::law::{self, ADVICE, BUDGET_LAWS, LAWS, Law, Rule};
use crate::spec::Spec;
pub use blame::Carried;
use blame::{REACH, blame};

/// One law that a Spec breaks.
#[derive(Clone, Copy, Debug)]
pub struct Violation {
    /// The law; `None` is `number-range`: the number lies outside what its key may hold.
    pub law: Option<&'static Law>,
    /// The key to blame.
    pub at: Key,
    /// Values of that key that mend it: the nearest below and above.
    pub below: Option<u64>,
    /// See [`Violation::below`].
    pub above: Option<u64>,
    /// Where the key is a degree: another that could carry part of it.
    pub carried: Option<Carried>,
}

impl Violation {
    /// A breach of a law that judges budgets, which no neighbouring number mends: the largest of its numbers is blamed.
    const fn of_budget(law: &'static Law, numbers: &Numbers) -> Self {
        let (mut at, mut i) = (law.at[0], 1);
        while i < law.at.len() {
            if numbers.of(law.at[i]) > numbers.of(at) {
                at = law.at[i];
            }
            i += 1;
        }
        Self { law: Some(law), at, below: None, above: None, carried: None }
    }
}

/// Everything that is wrong with a Spec.
#[derive(Clone, Copy, Debug)]
pub struct Violations {
    list: [Option<Violation>; Self::CAPACITY],
    len: usize,
    spec: Spec,
    severity: &'static str,
}

impl Violations {
    /// Room for all: a number out of range takes the place of the laws on it, of which there are more than of numbers.
    const CAPACITY: usize = LAWS.len() + 1;

    const fn of(spec: &Spec, severity: &'static str) -> Self {
        Self { list: [None; Self::CAPACITY], len: 0, spec: *spec, severity }
    }

    const fn push(&mut self, violation: Violation) {
        if self.len < Self::CAPACITY {
            self.list[self.len] = Some(violation);
            self.len += 1;
        }
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The Spec that breaks them.
    #[must_use]
    pub const fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The breaches, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = &Violation> {
        self.list[..self.len].iter().flatten()
    }

    /// The first breach, if there is one.
    #[must_use]
    pub const fn first(&self) -> Option<Violation> {
        self.list[0]
    }
}

impl core::fmt::Display for Violations {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (i, violation) in self.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}: {}", self.severity, violation.text(&self.spec))?;
        }
        Ok(())
    }
}

impl core::error::Error for Violations {}

/// Judges a Spec by every law: numbers out of range first, then all errors, then the budget if all else holds.
#[must_use]
pub const fn judge(spec: &Spec) -> Violations {
    judge_known(spec, KeySet::EMPTY, given(spec))
}

/// The keys that must have been given: those that have no default, or another value.
pub(crate) const fn given(spec: &Spec) -> KeySet {
    let (numbers, defaults) = (spec.numbers(), Spec::DEFAULT.numbers());
    let (mut given, mut i) = (KeySet::EMPTY, 0);
    while i < Key::ALL.len() {
        let key = Key::ALL[i];
        let is_required = matches!(Spec::field(key), Some(field) if field.is_required(spec));
        if is_required || numbers.of(key) != defaults.of(key) {
            given = given.with(key);
        }
        i += 1;
    }
    given
}

/// As [`judge`], of a Spec some of whose keys only the compiler will know: laws that need one of them are left out. Of
/// the others those that were written are blamed first.
#[must_use]
pub const fn judge_known(spec: &Spec, unknown: KeySet, written: KeySet) -> Violations {
    let mut violations = Violations::of(spec, "error");
    let numbers = spec.numbers();
    let mut out_of_range = KeySet::EMPTY;
    let mut i = 0;
    while i < Key::ALL.len() {
        let key = Key::ALL[i];
        let is_zero = written.has(key) && law::follows_at_zero(key) && spec.raw_numbers().of(key) == 0;
        if let Some(number) = numbers.get(key)
            && !unknown.has(key)
            && (is_zero || !law::range(key, number))
        {
            out_of_range = out_of_range.with(key);
            violations.push(Violation { law: None, at: key, below: None, above: None, carried: None });
        }
        i += 1;
    }
    if numbers.dp_follows && !spec.layout.mesh.is_whole() {
        // `world-replicas` says so; what else a part of a replica breaks is no news.
        out_of_range = out_of_range.with(Key::MeshDp);
    }
    let skip = unknown.union(out_of_range);
    let mut i = 0;
    while i + BUDGET_LAWS < LAWS.len() {
        let law = &LAWS[i];
        if !law.waits(&numbers, skip) && !law.holds(&numbers) {
            violations.push(blame(law, &numbers, unknown, written, REACH));
        }
        i += 1;
    }
    while i < LAWS.len() && violations.is_empty() && !skip.intersects(KeySet::ALL) {
        if LAWS[i].when.applies(&numbers) && !LAWS[i].holds_for_budget(spec) {
            violations.push(Violation::of_budget(&LAWS[i], &numbers));
        }
        i += 1;
    }
    violations
}

/// What is legal in a Spec but costs something that one may not know of: [`ADVICE`] that it does not follow, as far as
/// its keys are known. Of a Spec that breaks a law nothing is said.
#[must_use]
pub const fn advise(spec: &Spec, unknown: KeySet, written: KeySet) -> Violations {
    let mut violations = Violations::of(spec, "warning");
    let numbers = spec.numbers();
    let mut i = 0;
    while i < ADVICE.len() {
        let is_known = !ADVICE[i].keys().intersects(unknown);
        if is_known && !ADVICE[i].holds(&numbers) {
            violations.push(blame(&ADVICE[i], &numbers, unknown, written, REACH));
        } else if is_known && matches!(ADVICE[i].rule, Rule::RanksHoldLayers) && !ADVICE[i].holds_for_budget(spec) {
            let at = if spec.layout.stages.list.is_none() { Key::MeshPp } else { Key::StagesList };
            violations.push(Violation { law: Some(&ADVICE[i]), at, below: None, above: None, carried: None });
        }
        i += 1;
    }
    violations
}

/// Whether a Spec breaks no law. Cheaper than [`judge`], which also finds whom to blame.
#[must_use]
pub const fn is_valid(spec: &Spec) -> bool {
    let (device, bits) = (&LAWS[LAWS.len() - 1], &LAWS[LAWS.len() - 2]);
    is_sound(spec) && bits.holds_for_budget(spec) && device.holds_for_budget(spec)
}

/// Whether a Spec breaks no law but those that judge budgets.
#[must_use]
pub(crate) const fn is_sound(spec: &Spec) -> bool {
    spec.is_in_range() && breaches(&spec.numbers()).is_empty()
}

/// Laws that a Spec of these numbers breaks, budgets apart.
pub(crate) const fn breaches(numbers: &Numbers) -> LawSet {
    let (mut broken, mut i) = (LawSet::NONE, 0);
    while i + BUDGET_LAWS < LAWS.len() {
        if !LAWS[i].holds(numbers) {
            broken = broken.with(i);
        }
        i += 1;
    }
    broken
}

/// The same of some laws.
pub(crate) const fn breaches_among(laws: LawSet, numbers: &Numbers) -> LawSet {
    let (mut broken, mut left) = (LawSet::NONE, laws);
    while !left.is_empty() {
        let (law, others) = left.split_first();
        if !LAWS[law].holds(numbers) {
            broken = broken.with(law);
        }
        left = others;
    }
    broken
}
