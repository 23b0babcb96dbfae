//! The laws that say how things are shared out, against brute force: for thousands of small random Specs everything is
//! dealt, one by one, to ranks, and comes out even exactly where the laws hold. Beside that: what is suggested mends what
//! it is suggested for, and the groups of ranks are those that one finds by looking.

mod deal;
mod groups;
mod layers;
mod legal;
mod random;
mod suggestions;
mod topics;

use moe_model::judge;
use moe_model::law::{LAWS, Law};
use random::{Case, Random};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use topics::TOPICS;

/// The laws that say how things are shared out.
const TILING: &[&str] = &[
    "router-groups",
    "kv-heads",
    "head-dim",
    "world-grid",
    "expert-grid",
    "experts-ep",
    "expert-ffn-etp",
    "heads-tp",
    "kv-heads-tp",
    "mixer-heads-tp",
    "mixer-kv-heads",
    "mixer-kv-heads-tp",
    "mixer-key-heads-tp",
    "mixer-value-heads",
    "mixer-inner-tp",
    "mixer-groups",
    "mixer-groups-tp",
    "output-groups",
    "output-groups-tp",
    "dense-ffn-tp",
    "shared-ffn-tp",
    "layers-stages",
    "list-layers",
    "list-mtp",
    "list-stages",
    "schedule-chunks",
    "vpp-needs-pp",
    "dual-pipe-ranks",
    "dual-pipe-count",
    "sequence-cp",
    "sequence-sp",
    "sequence-ring",
    "heads-context",
    "kv-heads-context",
    "mixer-heads-context",
    "mixer-kv-heads-context",
    "cp-inner",
    "heads-inner",
    "kv-heads-inner",
    "mixer-heads-inner",
    "mixer-kv-heads-inner",
    "global-batch",
    "zero-ways-ranks",
    "zero-instances",
    "zero-instances-experts",
    "block-heads",
    "block-kv-heads",
    "block-dense-ffn",
    "block-expert-ffn",
    "block-shared-ffn",
];

/// Laws that share nothing out: what must be given, what excludes what, what a schedule or a framework needs, what
/// fits. Each carries its own examples, in `tests/laws.rs` and `tests/ui`.
const OTHERS: &[&str] = &[
    "norms-per-layer",
    "layer-count",
    "megatron-mtp-rank",
    "moe-every",
    "moe-every-stages",
    "layer-list-dense",
    "layer-list-moe",
    "layer-list-every",
    "layer-list-beside",
    "layer-list-mixer",
    "mixer-unused",
    "layer-list-compressed",
    "layer-list-alone",
    "hyper-connections-beside",
    "mtp-layers",
    "shared-kv-first",
    "shared-kv-heads",
    "shared-kv-dim",
    "shared-kv-value",
    "key-as-value",
    "hash-correction-bias",
    "compressed-indexer",
    "hash-layers",
    "indexer-heads-given",
    "indexer-dim-given",
    "indexer-dim",
    "indexer-query-rank",
    "dense-ffn-given",
    "routed-given",
    "active-given",
    "expert-ffn-given",
    "shared-ffn-unused",
    "shared-gate-unused",
    "top-k",
    "active-groups",
    "top-k-groups",
    "world-size",
    // Ranks are dealt by `world-grid`; here what follows is a degree.
    "world-replicas",
    "expert-ranks",
    "sp-needs-tp",
    "ep-needs-sp",
    "list-alone",
    "chunks-max",
    "group-pipeline",
    "group-count",
    "group-last",
    "group-unused",
    "cp-inner-given",
    "cp-inner-unused",
    "dual-pipe-fill",
    "stages-weighed",
    "zero-ways",
    "zero-ways-unused",
    "zero-instances-unused",
    "skew-range",
    "skew-unused",
    "capacity-factor",
    "megatron-schedules",
    "deepspeed-schedules",
    "deepspeed-zero-pipeline",
    "deepspeed-one-zero",
    "deepspeed-moe-zero",
    "torchtitan-schedules",
    "torchtitan-kv-heads",
    "torchtitan-mixer-kv-heads",
    "torchtitan-ep-tp",
    "weights-kept",
    "gradients-kept",
    "activations-kept",
    "worked-example-layers",
    "recompute-layers-unused",
    "recompute-together-unused",
    "recompute-together-layers",
    "recompute-together-accounting",
    "recompute-together-blocks",
    "recompute-together-spacing",
    "recompute-together-mtp",
    "recompute-together-fills",
    "framework-layers",
    "modules-given",
    "modules-unused",
    "selective-accounting",
    "transformers-mesh",
    "torchtitan-mesh",
    "reference-context",
    "reference-ring",
    "reference-etp",
    "reference-schedule",
    "reference-zero-groups",
    "reference-activations",
    "reference-weights",
    "reference-gradients",
    "reference-master",
    "reference-moments",
    "reference-norms",
    "reference-gate",
    "reference-head-norms",
    "reference-rope",
    "reference-head-dim",
    "reference-correction-bias",
    "reference-mixer",
    "reference-blocks",
    "reference-lacks",
    "fp8-engine",
    "fp8-version",
    "fp8-weights",
    "fp8-attention",
    "fp8-lacks",
    "fp8-device",
    "fp8-delayed-modules",
    "amax-history-unused",
    "full-every-window",
    "full-every-layers",
    "full-every-stages",
    "serving-batch",
    "serving-recompute",
    "serving-zero",
    "serving-schedule",
    "serving-mla",
    "cache-kept",
    "state-kept",
    "fits-64-bits",
    "fits-device",
];

/// Random cases, the same in every run; `fit` in a hundred numbers are chosen to fit.
fn cases(seed: u64, fit: u8, count: usize) -> impl Iterator<Item = Case> {
    let rng = RefCell::new(fastrand::Rng::with_seed(seed));
    (0..count).map(move |_| Random { fit, rng: &rng }.case())
}

fn law(id: &str) -> &'static Law {
    LAWS.iter().find(|law| law.id == id).unwrap_or_else(|| panic!("there is a law `{id}`"))
}

#[test]
fn every_law_is_dealt_or_carries_its_own_examples() {
    for law in LAWS {
        let listed = TILING.iter().chain(OTHERS).filter(|id| **id == law.id).count();
        assert_eq!(listed, 1, "`{}` stands in one of the two lists", law.id);
    }
    assert_eq!(TILING.len() + OTHERS.len(), LAWS.len(), "the lists name laws alone");
    let dealt: BTreeSet<&str> = TOPICS.iter().flat_map(|topic| topic.laws).copied().collect();
    assert_eq!(dealt, TILING.iter().copied().collect());
}

/// Topic by topic and all together: the laws hold exactly where dealing comes out even.
#[test]
fn laws_hold_exactly_where_dealing_comes_out_even() {
    let mut seen: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    let mixed = [(1, 0), (2, 60), (3, 90), (4, 100)].into_iter().flat_map(|(seed, fit)| cases(seed, fit, 2500));
    for case in mixed {
        let numbers = case.spec.numbers();
        let mut all = true;
        for topic in TOPICS {
            let comes_out = (topic.comes_out)(&case);
            let holds = topic.laws.iter().all(|id| law(id).holds(&numbers));
            assert_eq!(holds, comes_out, "{}: the laws say {holds}, dealing {comes_out}: {case:#?}", topic.name);
            seen.entry(topic.name).or_default()[usize::from(comes_out)] += 1;
            all &= comes_out;
        }
        seen.entry("all").or_default()[usize::from(all)] += 1;
        let holds = TILING.iter().all(|id| law(id).holds(&numbers));
        assert_eq!(holds, all, "{case:#?}");
    }
    for (name, counts) in &seen {
        assert!(counts.iter().all(|count| *count >= 100), "{name}: {counts:?} illegal and legal");
    }
}

/// What is judged as a whole is what its laws say one by one.
#[test]
fn a_spec_is_legal_where_all_comes_out_even_and_no_other_law_is_broken() {
    let mut seen = [0, 0];
    for case in cases(5, 97, 600) {
        let broken: BTreeSet<&str> = judge(&case.spec).iter().map(moe_model::Violation::id).collect();
        let tiles = TOPICS.iter().all(|topic| (topic.comes_out)(&case));
        assert_eq!(TILING.iter().any(|id| broken.contains(id)), !tiles, "{broken:?} {case:#?}");
        seen[usize::from(broken.is_empty())] += 1;
    }
    assert!(seen.iter().all(|count| *count >= 100), "{seen:?} illegal and legal");
}
