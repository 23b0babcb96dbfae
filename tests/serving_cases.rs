//! What real people met when they served a model, from public reports (`tests/data/serving.jsonl`): the figures that each
//! names as its right answer, exact where the report is, and else as near as it says. Those that no key expresses yet are
//! named with what is missing.

use moe_model::preset::{DEEPSEEK_V2, DEEPSEEK_V2_LITE, DEEPSEEK_V3, DEEPSEEK_V4_FLASH, LLAMA_3_1_8B, QWEN3_5_35B_A3B};
use moe_model::spec::{Architecture, Dtype, Layout, Mesh, MlaCache, Service, Serving, Spec, Switch, percent};
use moe_model::{B200, Bytes, Phase, Plan, Role, Violation, judge};
use std::collections::BTreeSet;

/// What no key expresses yet, by case.
const NOT_EXPRESSED: &[(&str, &str)] = &[
    ("S12", "the layers of DeepSeek-V4 Pro, which the report does not tell, and speculative decoding"),
    ("S15", "a cache that takes a fraction of what is free, rather than what requests and contexts need"),
];

/// The cases that a test below holds.
const HELD: &[&str] = &["S01", "S04", "S05", "S06", "S08", "S09", "S11", "S14"];

#[test]
fn every_case_is_held_or_named() {
    let file = include_str!("data/serving.jsonl");
    let cases = file.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a line is JSON"));
    let ids: BTreeSet<String> = cases.map(|case| case["id"].as_str().expect("a case has an id").to_owned()).collect();
    let ours = HELD.iter().chain(NOT_EXPRESSED.iter().map(|(id, _)| id));
    assert_eq!(ours.map(|id| (*id).to_owned()).collect::<BTreeSet<_>>(), ids);
    assert_eq!(HELD.len() + NOT_EXPRESSED.len(), ids.len(), "no case is both");
}

fn spec(architecture: Architecture, mesh: Mesh, serving: Serving) -> Spec {
    Spec { architecture, layout: Layout { mesh, serving: Service::Serving(serving), ..Layout::DEFAULT } }
}

fn served(architecture: Architecture, mesh: Mesh, serving: Serving) -> Plan {
    Plan::new(spec(architecture, mesh, serving)).unwrap_or_else(|violations| panic!("{violations}"))
}

fn of_context(context: u64) -> Serving {
    Serving { requests: 1, context, ..Serving::DEFAULT }
}

fn over(tp: u64) -> Mesh {
    Mesh { tp, ep: tp, ..Mesh::DEFAULT }
}

fn gib(bytes: u64) -> f64 {
    Bytes::new(bytes).as_gib()
}

/// S01: the one head of DeepSeek-V4 is on every tensor-parallel rank. Data-parallel ranks hold other sequences: eight times
/// the capacity, less what weights take that tensor parallelism would split. The report saw 7.7.
#[test]
fn one_head_is_split_over_no_ranks() {
    let serving = Serving { block: 256, cache: Dtype::Fp8, ..of_context(65_536) };
    let [alone, split] = [Mesh { dp: 8, ep: 8, ..Mesh::DEFAULT }, over(8)];
    let cache = |mesh| served(DEEPSEEK_V4_FLASH, mesh, serving).budget(0).kv_cache();
    assert_eq!(cache(alone), cache(split));
    let requests = |mesh| {
        let mut spec = spec(DEEPSEEK_V4_FLASH, mesh, serving);
        // Of 0.95 of the device five percent are headroom; most weights are in fp8 or less.
        (spec.layout.headroom, spec.layout.precision.weights) = (percent(5), Dtype::Fp8);
        Plan::new(spec).expect("it is legal").most_requests(65_536, B200).expect("some fit")
    };
    let ratio = 8.0 * f64::from(u32::try_from(requests(alone)).expect("few"))
        / f64::from(u32::try_from(requests(split)).expect("few"));
    assert!((7.6..8.0).contains(&ratio), "{ratio}");
    let warned = served(DEEPSEEK_V4_FLASH, split, serving).warnings();
    assert_eq!(warned.iter().map(Violation::id).collect::<Vec<_>>(), ["latent-replicated"]);
    assert!(served(DEEPSEEK_V4_FLASH, alone, serving).warnings().is_empty());
}

/// S04: 13,360 tokens of expanded keys and values are 118,750 of latents, less than the 163,840 that were asked for.
#[test]
fn latents_in_the_room_of_keys_and_values() {
    let per_token = |mla| {
        let serving = Serving { mla, ..of_context(163_840) };
        served(DEEPSEEK_V2_LITE, over(1), serving).kv_cache_per_token(0).bytes()
    };
    let [expanded, latent] = [per_token(MlaCache::Expanded), per_token(MlaCache::Latent)];
    assert_eq!((expanded, latent), (276_480, 31_104));
    let tokens = 13_360 * expanded / latent;
    assert_eq!(tokens / 16 * 16, 118_752);
    assert!(tokens < 163_840);
}

/// S05: of DeepSeek-Coder-V2 eight ranks hold 614,400 bytes of a token each, expanded; of latents 69,120, however many they
/// are.
#[test]
fn keys_and_values_of_a_large_model() {
    let per_token =
        |tp, mla| served(DEEPSEEK_V2, over(tp), Serving { mla, ..of_context(16_000) }).kv_cache_per_token(0).bytes();
    assert_eq!(per_token(8, MlaCache::Expanded), 614_400);
    assert_eq!([1, 2, 4, 8].map(|tp| per_token(tp, MlaCache::Latent)), [69_120; 4]);
    let weights = served(DEEPSEEK_V2, over(8), of_context(16_000)).budget(0).weights().bytes();
    assert!((57_000_000_000..61_000_000_000).contains(&weights), "{weights}");
}

/// S06: 3.81 GiB hold 1950 blocks of Llama 3.1 8B, 2.89 GiB 1479, which the reports tell to 0.1 percent; and a prompt that
/// runs whole takes 2.99 GiB at 29,000 tokens, 2.07 at 20,000, while in pieces of 512 it takes 0.06.
#[test]
fn blocks_and_prompts() {
    let llama = served(LLAMA_3_1_8B, over(1), of_context(20_000));
    let block = 16 * llama.kv_cache_per_token(0).bytes();
    assert_eq!(block, 16 * 131_072);
    let blocks = |hundredths: u64| hundredths * (1 << 30) / 100 / block;
    assert_eq!([blocks(381), blocks(289)], [1950, 1479]);
    for (reported, ours) in [(1952, 1950), (1478, 1479)] {
        assert!(1000 * i64::abs(reported - ours) <= 2 * reported, "0.1 percent, and what 3.81 is rounded to");
    }
    let weights = gib(llama.budget(0).weights().bytes());
    assert!((weights - 14.9888).abs() < 0.05, "{weights}");
    for (context, prefill, peak) in [(20_000, 20_000, 17.06), (29_000, 29_000, 17.98), (35_000, 512, 15.05)] {
        let budget = served(LLAMA_3_1_8B, over(1), Serving { prefill, ..of_context(context) }).budget(0);
        let work = gib(budget.role_in(Role::Transient, Phase::Prefill).bytes());
        assert!((weights + work - peak).abs() < 0.05, "{context}: {weights} + {work}");
    }
}

/// S08: 305.0 GiB of DeepSeek-V3 expanded at 65,536 tokens, 4.29 GiB of latents.
#[test]
fn keys_and_values_of_a_long_context() {
    let cache = |mla| served(DEEPSEEK_V3, over(1), Serving { mla, ..of_context(65_536) }).budget(0).kv_cache();
    assert_eq!(cache(MlaCache::Expanded).bytes(), 305 << 30);
    assert_eq!(cache(MlaCache::Latent).bytes(), 70_272 * 65_536);
    assert_eq!(cache(MlaCache::Latent).to_string(), "4.29 GiB");
}

/// S09: 8640 MiB of DeepSeek-V2-Lite expanded at 32,768 tokens. What the report calls the model, and its compute buffer, are
/// those of a quantised file and of another engine.
#[test]
fn keys_and_values_of_different_widths() {
    let serving = Serving { mla: MlaCache::Expanded, ..of_context(32_768) };
    assert_eq!(served(DEEPSEEK_V2_LITE, over(1), serving).budget(0).kv_cache(), Bytes::mib(8640));
}

/// S11: a head that no rank splits forbids no tensor parallelism, and takes far less than 2048 bytes a token and layer. How
/// the report's 324 come about it does not say.
#[test]
fn one_head_forbids_no_ranks() {
    for tp in [1, 2, 4, 8] {
        assert!(judge(&spec(DEEPSEEK_V4_FLASH, over(tp), of_context(4096))).is_empty(), "{tp}");
        let per_token = served(DEEPSEEK_V4_FLASH, over(tp), of_context(4096)).kv_cache_per_token(0).bytes();
        assert!(per_token / 43 < 324, "{per_token}");
    }
}

/// S14: log-probabilities of 8192 tokens of a prompt, over a vocabulary of 248,320, are 7.6 GiB in fp32.
#[test]
fn log_probabilities_of_a_prompt() {
    let of = |logprobs| {
        let serving = Serving { logprobs, prefill: 8192, ..of_context(32_768) };
        let inventory = served(QWEN3_5_35B_A3B, over(1), serving).inventory(0);
        let logits = inventory.iter().filter(|entry| entry.name == "logits in fp32");
        logits.map(|entry| entry.bytes_at(Phase::Prefill).bytes()).sum::<u64>()
    };
    assert_eq!(of(Switch::Off), 248_320 * 4);
    assert_eq!(of(Switch::On), 8192 * 248_320 * 4);
    assert_eq!(Bytes::new(of(Switch::On)).to_string(), "7.58 GiB");
    let peak = |logprobs| served(QWEN3_5_35B_A3B, over(1), Serving { logprobs, ..of_context(32_768) }).peak();
    assert!(peak(Switch::On).bytes() > peak(Switch::Off).bytes() + (7 << 30));
    assert_eq!(peak(Switch::On).phase, Phase::Prefill);
}
