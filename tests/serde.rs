//! A Spec through JSON and back: every key under the path that errors name, nothing lost.

use moe_model::spec::{Spec, percent};
use moe_model::{Key, Plan, moe_model};
use serde_json::Value;

moe_model! {
    /// A model with both kinds of groups.
    pub struct Small;

    hidden: 128,
    vocab: 1000,
    layers: layers { dense: 1, moe: 7, ffn: 96 },
    attention: mla { heads: 8, kv_rank: 16, nope: 8, rope: 4, value: 8 },
    experts: experts { routed: 16, shared: 1, active: 2, ffn: 32 },

    layout Main: layout {
        mesh: mesh { dp: 4, tp: 2, pp: 2, ep: 4, sequence_parallel: on },
        batch: batch { sequence: 64, micro: 2, count: 4 },
        routing: dropless { skew: 1.25 },
        accounting: paper { kernel: flash },
        headroom: percent(10),
    },
}

#[test]
fn a_spec_survives_json() {
    let spec = *Small::MAIN.spec();
    let json = serde_json::to_string(&spec).expect("a Spec is data");
    let back: Spec = serde_json::from_str(&json).expect("what was written can be read");
    assert_eq!(back, spec);
    assert_eq!(Plan::new(back).expect("the Spec is legal"), Small::MAIN);
    assert_eq!(back.layout.headroom, percent(10));
}

#[test]
fn keys_have_one_name() {
    let spec = Small::MAIN.spec();
    let json = serde_json::to_value(spec).expect("a Spec is data");
    let numbers = spec.numbers();
    for key in Key::ALL.iter().filter(|key| numbers.get(**key).is_some()) {
        let pointer = format!("/{}", key.path().replace('.', "/"));
        let value = json.pointer(&pointer).unwrap_or_else(|| panic!("no {} in {json:#}", key.path()));
        if Spec::least(*key).is_some() {
            assert_eq!(value.as_u64(), numbers.get(*key), "{}", key.path());
        }
    }
}

#[test]
fn an_unknown_key_in_a_group_is_refused() {
    let mut json = serde_json::to_value(Small::MAIN.spec()).expect("a Spec is data");
    json["mesh"]["tpp"] = Value::from(2);
    let error = serde_json::from_value::<Spec>(json).expect_err("`tpp` is no key");
    assert!(error.to_string().contains("tpp"), "{error}");
}
