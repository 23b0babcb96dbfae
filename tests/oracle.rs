//! Whole models against what transformers builds from their published configs: every tensor's name, elements and number.
//! See `tests/data/README.md` for the files.

use moe_model::preset::DEEPSEEK_V3;
use moe_model::spec::{Accounting, Spec};
use moe_model::{Plan, Role, moe_model};
use serde_json::Value;
use std::collections::BTreeMap;

moe_model! {
    /// DeepSeek-V3, on one rank for counting it.
    pub struct DeepSeekV3;

    hidden: 7168,
    vocab: 129_280,
    layers: layers { dense: 3, moe: 58, ffn: 18_432 },
    attention: mla { heads: 128, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 },
    experts: experts { routed: 256, shared: 1, active: 8, ffn: 2048, groups: 8, active_groups: 4, correction_bias: on },
    mtp: 1,

    layout Alone: layout { mesh: mesh { dp: 1 }, batch: batch { sequence: 1 }, accounting: paper },
}

moe_model! {
    /// DeepSeek-V2-Lite: no query latent, two shared experts merged into one network.
    pub struct DeepSeekV2Lite;

    hidden: 2048,
    vocab: 102_400,
    layers: layers { dense: 1, moe: 26, ffn: 10_944 },
    attention: mla { heads: 16, kv_rank: 512, nope: 128, rope: 64, value: 128 },
    experts: experts { routed: 64, shared: 2, active: 6, ffn: 1408 },

    layout Alone: layout { mesh: mesh { dp: 1 }, batch: batch { sequence: 1 }, accounting: paper },
}

moe_model! {
    /// Llama 3.1 8B: grouped-query attention, dense layers alone.
    pub struct Llama31;

    hidden: 4096,
    vocab: 128_256,
    layers: layers { dense: 32, ffn: 14_336 },
    attention: gqa { heads: 32, kv_heads: 8, head_dim: 128 },

    layout Alone: layout { mesh: mesh { dp: 1 }, batch: batch { sequence: 1 }, accounting: paper },
}

const FILES: [(&str, Plan); 3] = [
    (include_str!("data/deepseek-v3.json"), DeepSeekV3::ALONE),
    (include_str!("data/deepseek-v2-lite.json"), DeepSeekV2Lite::ALONE),
    (include_str!("data/llama-3.1-8b.json"), Llama31::ALONE),
];

/// A tensor's name without layer and expert: what an inventory calls it.
fn bare(pattern: &str) -> String {
    let behind_layer = pattern.strip_prefix("model.layers.").and_then(|rest| rest.split_once("}."));
    let name = behind_layer.map_or(pattern, |(_, name)| name);
    match name.split_once(".{") {
        Some((before, rest)) => format!("{before}.{}", rest.split_once("}.").map_or("", |(_, name)| name)),
        None => name.to_owned(),
    }
}

/// Elements by name, over all layers and experts.
fn of_file(tensors: &Value) -> BTreeMap<String, u64> {
    let tensors = tensors.as_array().expect("a list of tensors").iter().filter(|tensor| tensor["kind"] == "param");
    let mut sums = BTreeMap::new();
    for tensor in tensors {
        let name = bare(tensor["pattern"].as_str().expect("a tensor has a name"));
        *sums.entry(name).or_default() += tensor["numel_total"].as_u64().expect("a tensor has elements");
    }
    sums
}

fn of_plan(plan: &Plan) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for entry in plan.inventory(0).into_iter().filter(|entry| entry.role == Role::Weight) {
        assert_eq!(entry.local_elements(), entry.global_elements(), "one rank holds all of {entry}");
        *sums.entry(entry.name.to_owned()).or_default() += entry.local_elements() * entry.count;
    }
    sums
}

#[test]
fn every_tensor_of_the_models() {
    for (file, plan) in FILES {
        let file: Value = serde_json::from_str(file).expect("the file is JSON");
        assert_eq!(of_plan(&plan), of_file(&file["tensors"]), "{}", file["model"]);
        let architecture = plan.spec().architecture;
        let total = architecture.parameters().total();
        assert_eq!(Some(total), file["total_params"].as_u64());
        assert_eq!(Some(architecture.buffer_elements()), file["persistent_buffer_numel"].as_u64());
        assert_eq!(Some(total + architecture.buffer_elements()), file["checkpoint_numel"].as_u64());
        let mtp = file["mtp"]["params"].as_u64().unwrap_or(0);
        assert_eq!(architecture.mtp_parameters(), mtp, "{}", file["model"]);
    }
}

/// The same in a constant of the user's crate.
const _: () = assert!(DeepSeekV3::ARCHITECTURE.parameters().total() == 671_026_404_352);

/// Modules for multi-token prediction on a rank, as megatron-core holds them: a layer each on the last stage, with an
/// embedding of its own where that stage has none.
#[test]
fn modules_for_multi_token_prediction_are_on_the_last_rank() {
    for (pp, copies) in [(1, 0), (2, 1)] {
        let mut spec = Spec { architecture: DEEPSEEK_V3, ..Spec::DEFAULT };
        spec.layout.mesh.pp = pp;
        spec.layout.stages.first = if pp > 1 { 31 } else { 0 };
        spec.layout.accounting = Accounting::MEGATRON_CORE;
        let plan = Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"));
        let of_stages: u64 = (0..pp).map(|stage| plan.budget(stage).parameters().total()).sum();
        let mtp = DEEPSEEK_V3.mtp_parameters();
        assert_eq!((of_stages, mtp), (671_026_404_352 + mtp + copies * 129_280 * 7168, 11_610_067_968), "pp {pp}");
        spec.layout.accounting = Accounting::PAPER;
        let plan = Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"));
        let of_stages: u64 = (0..pp).map(|stage| plan.budget(stage).parameters().total()).sum();
        assert_eq!(of_stages, 671_026_404_352, "pp {pp}");
    }
}
