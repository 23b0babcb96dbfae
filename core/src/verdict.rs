//! What is wrong with a Spec, whose number is to blame, and what to write instead.
//!
//! A breach involves several numbers. The one to blame is found by trying: for each candidate of the law, the
//! nearest values that mend it; among those, the change that leaves the fewest breaches, of a layout rather than
//! of the architecture, by the smallest ratio. So `dp: 33` is blamed on `mesh.dp`, though the law speaks of `mesh.ep`.

use crate::bytes::Bytes;
use crate::device::Device;
use crate::key::{Key, KeySet, Numbers};
use crate::law::{self, BUDGET_LAWS, LAWS, Law, Quantity, Rule, Severity};
use crate::plan::Plan;
use crate::spec::{Field, NUMBER_MAX, Recompute, Spec, Value, Zero, ZeroStage};
use crate::stages::{self, Misfit};
use crate::text::Text;

/// How far from a number its legal neighbours are looked for. A bound on time, not on truth: further off, the
/// help line is left out.
const REACH: u64 = 4096;

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
}

/// Everything that is wrong with a Spec.
#[derive(Clone, Copy, Debug)]
pub struct Violations {
    list: [Option<Violation>; Self::CAPACITY],
    len: usize,
    spec: Spec,
}

impl Violations {
    const CAPACITY: usize = 64;

    const fn of(spec: &Spec) -> Self {
        Self { list: [None; Self::CAPACITY], len: 0, spec: *spec }
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
            write!(f, "error: {}", violation.text(&self.spec))?;
        }
        Ok(())
    }
}

impl core::error::Error for Violations {}

/// Judges a Spec by every law: numbers out of range first, then all errors, then the budget if all else holds.
#[must_use]
pub const fn judge(spec: &Spec) -> Violations {
    judge_known(spec, KeySet::EMPTY)
}

/// As [`judge`], of a Spec some of whose keys only the compiler will know: laws that need one of them are left out.
#[must_use]
pub const fn judge_known(spec: &Spec, unknown: KeySet) -> Violations {
    let mut violations = Violations::of(spec);
    let numbers = spec.numbers();
    let mut out_of_range = KeySet::EMPTY;
    let mut i = 0;
    while i < Key::ALL.len() {
        let key = Key::ALL[i];
        if let Some(number) = numbers.get(key)
            && !unknown.has(key)
            && !law::range(key, number)
        {
            out_of_range = out_of_range.with(key);
            violations.push(Violation { law: None, at: key, below: None, above: None });
        }
        i += 1;
    }
    let skip = unknown.and(out_of_range);
    let mut i = 0;
    while i + BUDGET_LAWS < LAWS.len() {
        let law = &LAWS[i];
        let is_error = matches!(law.severity, Severity::Error);
        if is_error && !law.keys().meets(skip) && !law.holds(&numbers) {
            violations.push(blame(law, &numbers, unknown));
        }
        i += 1;
    }
    while i < LAWS.len() && violations.is_empty() && !skip.meets(KeySet::ALL) {
        if LAWS[i].when.applies(&numbers) && !LAWS[i].holds_for_budget(spec) {
            violations.push(Violation { law: Some(&LAWS[i]), at: LAWS[i].at[0], below: None, above: None });
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
    spec.is_in_range() && breaches(&spec.numbers()) == 0
}

/// Errors of the table that a Spec of these numbers breaks, budgets apart.
const fn breaches(numbers: &Numbers) -> u64 {
    let (mut broken, mut i) = (0, 0);
    while i + BUDGET_LAWS < LAWS.len() {
        broken += (matches!(LAWS[i].severity, Severity::Error) && !LAWS[i].holds(numbers)) as u64;
        i += 1;
    }
    broken
}

/// Laws of the table, by their places: what the compiler judges of a Spec, once, before it reports one by one.
#[derive(Clone, Copy, Debug)]
pub struct LawSet(u64);

/// Stands for `number-range`, which is not in the table.
const OUT_OF_RANGE: u64 = 1 << 63;

const _: () = assert!(LAWS.len() < 63, "a LawSet holds 63 laws");

impl LawSet {
    /// The laws whose bits are set.
    #[must_use]
    pub const fn of(bits: u64) -> Self {
        Self(bits)
    }

    /// Those of the set that a Spec breaks. Of a Spec with a number out of range nothing but that can be said.
    #[must_use]
    pub const fn broken(self, spec: &Spec) -> Self {
        if !spec.is_in_range() {
            return Self(OUT_OF_RANGE);
        }
        let numbers = spec.numbers();
        let (mut broken, mut left) = (0, self.0);
        while left != 0 {
            let law = left.trailing_zeros();
            if !LAWS[law as usize].holds(&numbers) {
                broken |= 1 << law;
            }
            left &= left - 1;
        }
        Self(broken)
    }
}

/// Panics with the text of those of some laws that the Spec breaks, or with that of a number out of range: how the
/// compiler reports numbers that only it knows. The laws share two places in the declaration, the first of them that of
/// the key at place `at` of [`Key::ALL`].
///
/// # Panics
/// If one is broken.
#[track_caller]
pub const fn enforce(at: usize, laws: u64, broken: LawSet, spec: &Spec) {
    // A small function in front of a large one: const evaluation sets up all of a function that it calls.
    if broken.0 != 0 {
        report(Key::ALL[at], laws, broken, spec);
    }
}

#[track_caller]
const fn report(at: Key, laws: u64, broken: LawSet, spec: &Spec) {
    let numbers = spec.numbers();
    if broken.0 == OUT_OF_RANGE {
        if let Some(number) = numbers.get(at)
            && !law::range(at, number)
        {
            let text = Violation { law: None, at, below: None, above: None }.text(spec);
            panic!("{}", text.as_str());
        }
        return;
    }
    let mut left = broken.0 & laws;
    let mut text = Text::new();
    while left != 0 {
        let violation = blame(&LAWS[left.trailing_zeros() as usize], &numbers, KeySet::EMPTY);
        text = if text.is_empty() { text } else { text.str("\nerror: ") }.text(&violation.text(spec));
        left &= left - 1;
    }
    if !text.is_empty() {
        panic!("{}", text.as_str());
    }
}

/// Panics if a Spec that breaks no other law breaks one that judges its budget.
///
/// # Panics
/// If it does.
#[track_caller]
pub const fn enforce_budget(law: usize, broken: LawSet, spec: &Spec) {
    let law = &LAWS[law];
    if broken.0 == 0 && !law.holds_for_budget(spec) {
        let text = Violation { law: Some(law), at: law.at[0], below: None, above: None }.text(spec);
        panic!("{}", text.as_str());
    }
}

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
const fn blame(law: &'static Law, numbers: &Numbers, unknown: KeySet) -> Violation {
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
                best = better(best, Remedy::of(key, old, value, breaches(&trial)), side == 1);
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
const fn better(best: Option<Remedy>, next: Remedy, is_above: bool) -> Option<Remedy> {
    match best {
        Some(best) if next.left == best.left && is_above && best.above.is_none() => {
            let change = if next.is_better_than(&best) { next.change } else { best.change };
            Some(Remedy { above: next.above, change, ..best })
        }
        Some(best) if next.left >= best.left => Some(best),
        _ => Some(next),
    }
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
const fn field(key: Key) -> Option<&'static Field> {
    use crate::spec::{Experts, Layout, Mesh, Placement, Precision};
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

/// A value as a declaration writes it.
const fn written(text: Text, key: Key, code: u64) -> Text {
    match field(key) {
        Some(Field { value: Value::Choice { words, kinds: [] }, .. }) if (code as usize) < words.len() => {
            text.str(words[code as usize].word)
        }
        _ if matches!(key, Key::RoutingSkew | Key::RoutingFactor) => text.thousandths(code),
        _ => text.int(code),
    }
}

/// A key and its value: `` `mesh.tp` = 3 ``.
const fn assigned(text: Text, key: Key, spec: &Spec) -> Text {
    let text = text.str("`").str(key.path()).str("`");
    match spec.numbers().get(key) {
        Some(code) => written(text.str(" = "), key, code),
        None => text,
    }
}

/// A quantity and its value: `` `mesh.ep` x `mesh.etp` = 8 ``.
const fn quantity(mut text: Text, quantity: Quantity, spec: &Spec) -> Text {
    let between = match quantity {
        Quantity::Of(key) => return assigned(text, key, spec),
        Quantity::Just(n) => return text.int(n),
        Quantity::Reachable => return reachable(text, spec),
        Quantity::Product(_) => "` x `",
        Quantity::Sum(_) => "` + `",
    };
    let keys = quantity.keys();
    let mut i = 0;
    while i < keys.len() {
        text = text.str(if i == 0 { "`" } else { between }).str(keys[i].path());
        i += 1;
    }
    match quantity.value(&spec.numbers()) {
        Some(value) => text.str("` = ").int(value),
        None => text.str("`, which does not fit in 64 bits,"),
    }
}

const fn reachable(text: Text, spec: &Spec) -> Text {
    let experts = spec.architecture.experts;
    let size = if experts.groups == 0 { 0 } else { experts.routed / experts.groups };
    text.str("the ")
        .int(experts.active_groups.saturating_mul(size))
        .str(" experts of `experts.active_groups` = ")
        .int(experts.active_groups)
        .str(" groups of ")
        .int(size)
}

impl Violation {
    /// The law's name.
    #[must_use]
    pub const fn id(&self) -> &'static str {
        match self.law {
            Some(law) => law.id,
            None => "number-range",
        }
    }

    /// The breach in one line: the numbers and the relation that they lack.
    #[must_use]
    pub const fn message(&self, spec: &Spec) -> Text {
        let text = Text::new();
        let Some(law) = self.law else {
            let text = assigned(text, self.at, spec);
            return match Spec::least(self.at) {
                Some(least) if matches!(spec.numbers().get(self.at), Some(n) if n < least) => {
                    text.str(" is less than ").int(least)
                }
                _ => text.str(" is more than ").int(NUMBER_MAX),
            };
        };
        match law.rule {
            Rule::Divides(a, b) => quantity(quantity(text, a, spec).str(" does not divide "), b, spec),
            Rule::EitherDivides(a, b) => {
                quantity(quantity(text, a, spec).str(" neither divides nor is divided by "), b, spec)
            }
            Rule::AtLeast(a, b) => quantity(quantity(text, a, spec).str(" is less than "), b, spec),
            Rule::AtMost(a, b) => quantity(quantity(text, a, spec).str(" is more than "), b, spec),
            Rule::Equal(a, b) => quantity(quantity(text, a, spec).str(" is not "), b, spec),
            Rule::Needs(key, a, b) => {
                let text = assigned(text, key, spec).str(" needs ");
                quantity(quantity(text, a, spec).str(" to be at least "), b, spec)
            }
            Rule::IsOn(key) => assigned(text, key, spec).str(" must be on"),
            Rule::IsKept(key) => assigned(text, key, spec).str(" leaves out what the step needs"),
            Rule::LayersFallToStages => misfit(text, spec),
            Rule::SkewIsPossible => {
                let text = assigned(text, Key::RoutingSkew, spec).str(" is not between 1 and ");
                text.thousandths(law::worst_skew(&spec.numbers()))
            }
            Rule::Fits64Bits => text.str("the budget of the worst rank does not fit in 64 bits of bytes"),
            Rule::FitsDevice => unfit(text, spec),
        }
    }

    /// Why the law is one, with its name.
    #[must_use]
    pub const fn note(&self) -> Text {
        let (id, why) = match self.law {
            Some(law) => (law.id, law.why),
            None => ("number-range", "degrees and widths are whole numbers of a bounded size"),
        };
        Text::new().str(why).str(" (").str(id).str(")")
    }

    /// What to write instead; empty where nothing near helps.
    #[must_use]
    pub const fn help(&self, spec: &Spec) -> Text {
        let text = Text::new();
        let Some(law) = self.law else { return text };
        if matches!(law.rule, Rule::FitsDevice) {
            return relief(text, spec);
        }
        let text = match (self.below, self.above) {
            (Some(below), Some(above)) => {
                let text = text.str("the nearest legal values of `").str(self.at.path()).str("` are ");
                written(written(text, self.at, below).str(" and "), self.at, above)
            }
            (Some(value), None) | (None, Some(value)) => {
                let text = text.str("the nearest legal value of `").str(self.at.path()).str("` is ");
                written(text, self.at, value)
            }
            (None, None) => text,
        };
        if let Rule::LayersFallToStages = law.rule
            && spec.layout.stages.first == 0
            && spec.layout.stages.last == 0
            && let Ok(layers) = match law::division(&spec.numbers()) {
                Err(Misfit::Rest(division)) => Ok(division.layers),
                _ => Err(()),
            }
            && let Some(last) = stages::proposal(layers, spec.layout.mesh.pp)
        {
            let text = if text.is_empty() { text } else { text.str("; or keep it and ") };
            return text.str("write `stages: stages { last: ").int(last).str(" }`");
        }
        text
    }

    /// The whole text: message, note and help.
    #[must_use]
    pub const fn text(&self, spec: &Spec) -> Text {
        let text = self.message(spec).str("\n= note: ").text(&self.note());
        let help = self.help(spec);
        if help.is_empty() { text } else { text.str("\n= help: ").text(&help) }
    }
}

/// How layers fail to fall to stages.
const fn misfit(text: Text, spec: &Spec) -> Text {
    let (layers, pp) = (Quantity::Sum(&[Key::LayersDense, Key::LayersMoe]), Key::MeshPp);
    match law::division(&spec.numbers()) {
        Err(Misfit::Rest(division)) if division.first == 0 && division.last == 0 => {
            quantity(assigned(text, pp, spec).str(" does not divide "), layers, spec)
        }
        Err(Misfit::Rest(division)) => assigned(text, pp, spec)
            .str(" leaves ")
            .int(division.alike)
            .str(" stages alike for ")
            .int(division.rest)
            .str(" layers, after `stages.first` = ")
            .int(division.first)
            .str(" and `stages.last` = ")
            .int(division.last)
            .str(" of ")
            .int(division.layers),
        Err(Misfit::Layers) => quantity(
            quantity(text, Quantity::Sum(&[Key::StagesFirst, Key::StagesLast]), spec).str(" is more than "),
            layers,
            spec,
        ),
        _ => assigned(text, pp, spec).str(" has no room for both `stages.first` and `stages.last`"),
    }
}

/// By how much the worst rank does not fit, and what fills it.
const fn unfit(text: Text, spec: &Spec) -> Text {
    let Some(plan) = Plan::unchecked(*spec) else { return text };
    let peak = plan.peak();
    let device = spec.layout.device;
    let ranks = plan.ranks_of_stage(peak.stage);
    let mut text = text
        .str("the worst rank needs ")
        .text(&plan.peak_with_headroom().text())
        .str(", more than the ")
        .text(&device.usable().text())
        .str(" of `device` = ")
        .str(device.word())
        .str("\n= note: ranks ")
        .int(ranks.start)
        .str(" to ")
        .int(ranks.end - 1)
        .str(", stage ")
        .int(peak.stage)
        .str(", in ")
        .str(peak.phase.name())
        .str(": ")
        .text(&peak.total.text())
        .str(", and ")
        .int(spec.layout.headroom.percent)
        .str(" percent headroom")
        .str("\n= note: the largest are ");
    let inventory = plan.inventory(peak.stage);
    let in_flight = plan.in_flight(peak.stage);
    let (mut shown, mut below) = (0, Bytes::MAX);
    while shown < 5 {
        // The largest entry that is smaller than the one before; equal ones are shown once.
        let (mut largest, mut i) = (None, 0);
        let mut most = Bytes::ZERO;
        while i < inventory.len() {
            let bytes = inventory.get(i).bytes_at(peak.phase, in_flight);
            if bytes.bytes() < below.bytes() && bytes.bytes() > most.bytes() {
                largest = Some(i);
                most = bytes;
            }
            i += 1;
        }
        let Some(i) = largest else { break };
        text = text.str(if shown > 0 { ", " } else { "" }).str(inventory.get(i).name).str(" ").text(&most.text());
        below = most;
        shown += 1;
    }
    text
}

/// Changes of one key that would make the worst rank fit: tried, not guessed.
const fn relief(mut text: Text, spec: &Spec) -> Text {
    let device = spec.layout.device;
    let mut found = 0;
    let mut i = 0;
    while i < 4 {
        let mut trial = *spec;
        let (differs, change) = match i {
            0 => {
                trial.layout.recompute = Recompute::Full;
                (matches!(spec.layout.recompute, Recompute::None), "`recompute: full`")
            }
            1 => {
                trial.layout.zero.dense = ZeroStage::Optimizer;
                trial.layout.zero.expert = ZeroStage::Optimizer;
                (matches!(spec.layout.zero.dense, ZeroStage::None), "`zero: optimizer`")
            }
            2 => {
                trial.layout.zero.dense = ZeroStage::Parameters;
                trial.layout.zero.expert = ZeroStage::Parameters;
                (!matches!(spec.layout.zero.dense, ZeroStage::Parameters), "`zero: parameters`")
            }
            _ => {
                trial.layout.batch.micro = 1;
                (spec.layout.batch.micro > 1, "`micro: 1`")
            }
        };
        if differs && is_valid_but_for(&trial, device) {
            text = text.str(if found == 0 { "it fits with " } else { ", or with " }).str(change);
            found += 1;
        }
        i += 1;
    }
    text
}

const fn is_valid_but_for(trial: &Spec, device: Device) -> bool {
    match Plan::unchecked(*trial) {
        Some(plan) => breaches(&trial.numbers()) == 0 && plan.fits(device),
        None => false,
    }
}
