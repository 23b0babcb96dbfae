//! What is suggested, tried: of one breach a suggestion makes the whole Spec legal, where any number near does; of several
//! each removes its own.

use crate::cases;
use crate::deal::world;
use moe_model::law::{LAWS, Law};
use moe_model::spec::{Field, Mesh, Schedule, StageList, Stages, Value, ZeroGroups};
use moe_model::{Key, Plan, Spec, Violation, Violations, judge};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// What is wrong with random Specs, and with legal ones of which one number was changed.
static JUDGED: LazyLock<Vec<Violations>> = LazyLock::new(|| {
    let random = cases(7, 85, 1200).map(|case| case.spec);
    let legal = cases(8, 100, 1200).map(|case| case.spec).filter(|spec| Plan::new(*spec).is_ok());
    let mut rng = fastrand::Rng::with_seed(9);
    random
        .chain(legal.flat_map(move |spec| [(); 5].map(|()| changed(&spec, &mut rng))))
        .map(|spec| judge(&spec))
        .collect()
});

/// One number replaced by another that its key may hold.
fn changed(spec: &Spec, rng: &mut fastrand::Rng) -> Spec {
    let mut changed = *spec;
    let is_number = |key: &&Key| Spec::least(**key).is_some() && spec.numbers().get(**key).is_some();
    let keys: Vec<Key> = Key::ALL.iter().filter(is_number).copied().collect();
    let key = keys[rng.usize(..keys.len())];
    let old = spec.numbers().of(key);
    let near = [old + 1, old.saturating_sub(1), old * 2, old * 3, old / 2, rng.u64(0..30)];
    changed.set(key, near[rng.usize(..near.len())].max(Spec::least(key).unwrap_or(0)));
    changed
}

fn broken(violations: &Violations) -> BTreeSet<&'static str> {
    violations.iter().map(Violation::id).collect()
}

fn with(spec: &Spec, numbers: &[(Key, u64)]) -> Spec {
    let mut spec = *spec;
    for (key, number) in numbers {
        spec.set(*key, *number);
    }
    spec
}

/// The Spec with each of a violation's suggested values.
fn substituted(spec: &Spec, violation: &Violation) -> Vec<Spec> {
    let values = [violation.below, violation.above].into_iter().flatten();
    let mut specs: Vec<Spec> = values.map(|value| with(spec, &[(violation.at, value)])).collect();
    specs.extend(
        violation.carried.map(|carried| with(spec, &[(violation.at, carried.left), (carried.by, carried.degree)])),
    );
    specs
}

/// Whether any value of a key, up to 1024, makes a Spec legal; none given is no value.
fn is_mendable(spec: &Spec, key: Key) -> bool {
    let values = match Spec::field(key) {
        _ if spec.numbers().get(key).is_none() => 0..0,
        Some(Field { value: Value::Number { .. }, .. })
            if matches!(key, Key::MeshWorld | Key::BatchGlobal | Key::MeshVpp | Key::BatchGroup) =>
        {
            1..1024
        }
        Some(Field { value: Value::Number { min }, .. }) => *min..1024,
        Some(Field { value: Value::Choice { words, kinds: [] }, .. }) => 0..words.len() as u64,
        _ => 0..0,
    };
    let mut trial = *spec;
    values.into_iter().any(|value| {
        trial.set(key, value);
        let numbers = trial.numbers();
        LAWS.iter().all(|law| law.holds(&numbers))
    })
}

#[test]
fn suggested_values_mend() {
    let (mut alone, mut together, mut hopeless) = (BTreeMap::new(), 0, BTreeSet::new());
    for violations in &*JUDGED {
        let spec = violations.spec();
        for violation in violations.iter() {
            let Some(law) = violation.law else { continue };
            let substituted = substituted(spec, violation);
            for mended in &substituted {
                assert!(law.holds(&mended.numbers()), "not mended: {}", violation.text(spec));
            }
            if violations.len() > 1 {
                together += substituted.len();
            } else if substituted.is_empty() {
                assert_hopeless(spec, law, violation);
                hopeless.insert(law.id);
            } else {
                let legal = substituted.iter().filter(|spec| Plan::new(**spec).is_ok()).count();
                assert!(legal > 0 || !is_mendable(spec, violation.at), "{} of {spec:#?}", violation.text(spec));
                *alone.entry(law.id).or_insert(0) += legal;
            }
        }
    }
    assert!(together > 1000, "{together} suggestions for one of several breaches");
    assert!(alone.len() > 20 && alone.values().sum::<usize>() > 500, "{alone:?}");
    assert!(!hopeless.is_empty());
}

/// Asserts that no value of any key that the law may blame makes the Spec legal.
fn assert_hopeless(spec: &Spec, law: &Law, violation: &Violation) {
    let (numbers, defaults) = (spec.numbers(), Spec::DEFAULT.numbers());
    // Of stages only what was said is blamed; instead of the rest a division is proposed.
    let is_blamed = |key: &&Key| law.id != "layers-stages" || numbers.of(**key) != defaults.of(**key);
    for key in law.at.iter().filter(is_blamed) {
        assert!(!is_mendable(spec, *key), "`{}` mends {} of {spec:#?}", key.path(), violation.text(spec));
    }
}

/// What stands in a text between two others, where it does.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    Some(text.split_once(before)?.1.split_once(after)?.0)
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is a number"))
}

/// Asserts that a mesh has as many ranks as is said, and expert groups tile the stages of none with fewer replicas.
fn assert_smallest(mesh: &Mesh, said: Option<u64>) {
    assert_eq!(Some(world(mesh).0.len() as u64), said, "{mesh:?}");
    assert!((1..mesh.dp).all(|dp| !world(&Mesh { dp, ..*mesh }).1), "{mesh:?} is not the smallest");
}

/// The Spec as each piece of advice in a help line says to write it, with the words by which it was found.
fn advised(spec: &Spec, violation: &Violation, help: &str) -> Vec<(&'static str, Spec)> {
    let mut found = Vec::new();
    let mut say = |words, change: &dyn Fn(&mut Spec)| {
        let mut spec = *spec;
        change(&mut spec);
        found.push((words, spec));
    };
    if let Some(last) = between(help, "write `stages: stages { last: ", " }`") {
        say("stages { last }", &|spec| spec.layout.stages = Stages { last: number(last), ..Stages::EVEN });
    }
    if let Some(list) = between(help, "write `stages: \"", "\"`") {
        let list = StageList::read(list).unwrap_or_else(|fault| panic!("{list}: {fault}"));
        say("stages: \"…\"", &|spec| spec.layout.stages = Stages { list, ..Stages::EVEN });
    }
    if let Some(dp) = between(help, "with `dp: ", "`") {
        let said = between(help, "the smallest world that carries it has ", " ranks").map(number);
        assert_smallest(&Mesh { dp: number(dp), ..spec.layout.mesh }, said);
        say("smallest world", &|spec| spec.layout.mesh.dp = number(dp));
    }
    if help.contains("it may be left out") || help.contains("leave it out") {
        say("left out", &|spec| spec.set(violation.at, 0));
    }
    if help.contains("or write `groups: uniform`") {
        say("groups: uniform", &|spec| spec.layout.zero.groups = ZeroGroups::Uniform);
    }
    if help.contains("write `schedule: interleaved`") {
        say("schedule: interleaved", &|spec| spec.layout.schedule = Schedule::Interleaved);
    }
    if help.contains("say how many: `mesh: mesh { vpp: 2 }`") {
        say("vpp: 2", &|spec| spec.layout.mesh.vpp = 2);
    }
    if help.contains("leave out `vpp` and write `schedule: one_f_one_b`") {
        say("no pipeline", &|spec| (spec.layout.mesh.vpp, spec.layout.schedule) = (0, Schedule::OneFOneB));
    }
    if help.contains("leave out `vpp` and `stages` and write `schedule: one_f_one_b`") {
        say("no list", &|spec| {
            (spec.layout.mesh.vpp, spec.layout.schedule) = (0, Schedule::OneFOneB);
            spec.layout.stages = Stages::EVEN;
        });
    }
    found
}

/// The advice of help lines beyond values: written as it says, its own breach is gone, and of stages nothing else breaks.
#[test]
fn advice_in_words_mends() {
    let mut seen = BTreeMap::new();
    for violations in &*JUDGED {
        let spec = violations.spec();
        for violation in violations.iter() {
            let help = violation.help(spec);
            for (words, mended) in advised(spec, violation, help.as_str()) {
                let after = broken(&judge(&mended));
                assert!(!after.contains(violation.id()), "{words}: {}", violation.text(spec));
                if words.starts_with("stages") {
                    assert!(after.is_subset(&broken(violations)), "{words} breaks {after:?}: {}", violation.text(spec));
                }
                *seen.entry(words).or_insert(0) += 1;
            }
        }
    }
    for words in ["stages { last }", "stages: \"…\"", "smallest world", "left out", "schedule: interleaved"] {
        assert!(seen.get(words).is_some_and(|count| *count >= 20), "{words}: {seen:?}");
    }
}
