//! What is kept of sequences that are served, by attention and by mixer; what the largest block works on; the longest
//! context and the most requests that fit.

use moe_model::inventory::{Block, Lifetime};
use moe_model::preset::{self, PRESETS};
use moe_model::spec::{
    Architecture, Attention, Dtype, Gqa, Kda, LayerList, Layers, Layout, Mesh, Mixer, MlaCache, NUMBER_MAX, Placement,
    Precision, Service, Serving, Spec, Stages, Switch, percent,
};
use moe_model::{A100_80GB, Bytes, Device, H200, Key, Phase, Plan, Role, judge, moe_model};
use std::collections::BTreeMap;

moe_model! {
    /// DeepSeek-V3, served by sixteen ranks.
    struct DeepSeekV3;
    architecture: preset(deepseek_v3),

    layout Served: layout {
        mesh: mesh { dp: 16, ep: 16 },
        precision: precision { weights: fp8 },
        serving: serving { requests: 16, context: 32_768, block: 64 },
        device: h200,
        headroom: percent(10),
    },
    /// Longer contexts, of a number that only the compiler knows.
    layout Long: layout { serving: serving { requests: REQUESTS, context: 65_536, cache: fp8 }, ..Served },
    layout Trained: layout {
        serving: none,
        precision: precision { weights: bf16 },
        batch: batch { sequence: 4096 },
        accounting: paper,
        device: none,
        ..Served
    },
}

const REQUESTS: u64 = 8;

/// What the compiler finds is what is found at run time.
#[test]
fn everything_is_a_constant() {
    const LONGEST: Option<u64> = DeepSeekV3::SERVED.longest_context(16, H200);
    const MOST: Option<u64> = DeepSeekV3::SERVED.most_requests(32_768, H200);
    const TOKEN: Bytes = DeepSeekV3::SERVED.kv_cache_per_token(0);
    const PEAK: u64 = DeepSeekV3::LONG.peak().bytes();
    assert_eq!(LONGEST, std::hint::black_box(DeepSeekV3::SERVED).longest_context(16, H200));
    assert_eq!(MOST, std::hint::black_box(DeepSeekV3::SERVED).most_requests(32_768, H200));
    assert_eq!((LONGEST, MOST, TOKEN.bytes()), (Some(67_520), Some(32), 70_272));
    assert_eq!(PEAK, std::hint::black_box(DeepSeekV3::LONG).peak().bytes());
    assert_eq!(DeepSeekV3::LONG.budget(0).kv_cache().bytes(), 8 * 65_536 * 70_272 / 2);
    assert_eq!(DeepSeekV3::TRAINED.budget(0).kv_cache(), Bytes::ZERO);
}

const ONE: Serving = Serving { requests: 1, context: 1, ..Serving::DEFAULT };

fn of(architecture: Architecture, mesh: Mesh, serving: Serving) -> Spec {
    Spec { architecture, layout: Layout { mesh, serving: Service::Serving(serving), ..Layout::DEFAULT } }
}

fn plan(spec: Spec) -> Plan {
    Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"))
}

fn over(tp: u64) -> Mesh {
    Mesh { tp, sequence_parallel: if tp > 1 { Switch::On } else { Switch::Off }, ..Mesh::DEFAULT }
}

fn per_token(architecture: Architecture, tp: u64, mla: MlaCache) -> u64 {
    plan(of(architecture, over(tp), Serving { mla, ..ONE })).kv_cache_per_token(0).bytes()
}

/// A dense model with these heads, and widths that do not matter.
fn dense(layers: u64, heads: u64, kv_heads: u64, head_dim: u64) -> Architecture {
    Architecture {
        hidden: 1024,
        vocab: 1024,
        layers: Layers { dense: layers, ffn: 1024, ..Layers::DEFAULT },
        attention: Attention::Gqa(Gqa { heads, kv_heads, head_dim, ..Gqa::DEFAULT }),
        ..Architecture::DEFAULT
    }
}

/// Grouped-query attention: key and value of each head, split over tensor-parallel ranks as far as there are heads.
#[test]
fn keys_and_values() {
    let qwen3_32b = dense(64, 64, 8, 128);
    let over_ranks = |tp| per_token(qwen3_32b, tp, MlaCache::Latent);
    assert_eq!([1, 2, 4, 8, 16, 64].map(over_ranks), [262_144, 131_072, 65_536, 32_768, 32_768, 32_768]);
    assert_eq!(per_token(preset::LLAMA_3_1_8B, 1, MlaCache::Latent), 131_072);
    // Values of another width.
    let Attention::Gqa(gqa) = qwen3_32b.attention else { panic!("it is grouped-query attention") };
    let narrow = Architecture { attention: Attention::Gqa(Gqa { value_dim: 64, ..gqa }), ..qwen3_32b };
    assert_eq!(per_token(narrow, 1, MlaCache::Latent), 64 * 8 * (128 + 64) * 2);
}

/// Multi-head latent attention: a latent that every tensor-parallel rank holds whole, or keys and values of each head.
#[test]
fn latents() {
    let [latent, expanded] = [MlaCache::Latent, MlaCache::Expanded];
    for tp in [1, 2, 4, 8, 16] {
        assert_eq!(per_token(preset::DEEPSEEK_V3, tp, latent), 70_272);
        assert_eq!(per_token(preset::DEEPSEEK_V2, tp, latent), 69_120);
        assert_eq!(per_token(preset::DEEPSEEK_V2, tp, expanded), 4_915_200 / tp);
    }
    assert_eq!(per_token(preset::DEEPSEEK_V2_LITE, 1, latent), 31_104);
    assert_eq!(per_token(preset::DEEPSEEK_V2_LITE, 1, expanded), 276_480);
    // Beside it a key of the indexer.
    assert_eq!(per_token(preset::DEEPSEEK_V3_2, 1, latent), 70_272 + 61 * 128 * 2);
    assert_eq!(per_token(preset::DEEPSEEK_V3_2, 8, latent), 70_272 + 61 * 128 * 2);
}

#[test]
fn formats_of_the_cache() {
    let of_format = |cache| plan(of(preset::DEEPSEEK_V3, over(1), Serving { cache, ..ONE })).kv_cache_per_token(0);
    let bytes = [Dtype::Fp8, Dtype::Bf16, Dtype::Fp16, Dtype::Fp32].map(|dtype| of_format(dtype).bytes());
    assert_eq!(bytes, [35_136, 70_272, 70_272, 140_544]);
}

/// Contexts take whole blocks; ranks of context parallelism deal them among them.
#[test]
fn blocks() {
    let cache = |context, block, cp| {
        let mesh = Mesh { cp, ..Mesh::DEFAULT };
        let serving = Serving { requests: 3, context, block, ..Serving::DEFAULT };
        plan(of(preset::LLAMA_3_1_8B, mesh, serving)).budget(0).kv_cache().bytes()
    };
    let tokens = |tokens: u64| 3 * tokens * 131_072;
    assert_eq!(cache(1, 16, 1), tokens(16));
    assert_eq!(cache(16, 16, 1), tokens(16));
    assert_eq!(cache(17, 16, 1), tokens(32));
    assert_eq!(cache(17, 1, 1), tokens(17));
    assert_eq!(cache(1000, 256, 1), tokens(1024));
    assert_eq!(cache(1024, 16, 4), tokens(256));
    assert_eq!(cache(1025, 16, 4), tokens(272));
}

/// Layers whose place says that they have a window keep what it reaches: of 128 tokens nine blocks of 16, since it moves
/// on token by token; and beside these, once, the prompts that run.
#[test]
fn windows() {
    let cache = |context, requests| {
        let serving = Serving { requests, context, prefill: 2048, ..Serving::DEFAULT };
        plan(of(preset::GPT_OSS_120B, over(1), serving)).budget(0).kv_cache().bytes()
    };
    let head = 8 * (64 + 64) * 2;
    assert_eq!(cache(144, 2), 36 * 2 * 144 * head, "a window reaches all of it");
    assert_eq!(cache(160, 2), head * (18 * 2 * 160 + 18 * (2 * 144 + 320)));
    assert_eq!(cache(65_536, 2), head * (18 * 2 * 65_536 + 18 * (2 * 144 + 2048)));
    let plan = |pp| plan(of(preset::GPT_OSS_120B, Mesh { pp, ..Mesh::DEFAULT }, ONE));
    assert_eq!(plan(1).kv_cache_per_token(0).bytes(), 18 * head);
    // Three stages of twelve layers, four of nine: of odd ones the second and fourth have a layer more without a window.
    assert_eq!([0, 1, 2].map(|stage| plan(3).kv_cache_per_token(stage).bytes()), [6 * head; 3]);
    let of_stages = [0, 1, 2, 3].map(|stage| plan(4).kv_cache_per_token(stage).bytes() / head);
    assert_eq!(of_stages, [4, 5, 4, 5]);
    // Every fourth of 48 layers has none (Llama 4), every sixth of 30 (Gemma 4), nine of 48 (MiMo-V2-Flash).
    assert_eq!(per_token(preset::LLAMA_4_SCOUT, 1, MlaCache::Latent), 12 * 8 * (128 + 128) * 2);
    assert_eq!(per_token(preset::GEMMA_4_26B_A4B, 1, MlaCache::Latent), 5 * 2 * (512 + 512) * 2);
    assert_eq!(per_token(preset::MIMO_V2_FLASH, 1, MlaCache::Latent), 9 * 4 * (192 + 128) * 2);
}

/// The worst stage is found where the layers without a window are, wherever these fall.
#[test]
fn the_worst_stage_has_most_layers_without_a_window() {
    let serving = Serving { requests: 64, context: 131_072, prefill: 512, ..Serving::DEFAULT };
    let mut spec = of(preset::GPT_OSS_120B, Mesh { pp: 4, ..Mesh::DEFAULT }, serving);
    spec.layout.stages = Stages { first: 10, last: 8, ..Stages::EVEN };
    let plan = plan(spec);
    let peaks: Vec<u64> = (0..4).map(|stage| plan.budget(stage).peak().bytes()).collect();
    let worst = peaks.iter().max().expect("there are stages");
    assert_eq!(plan.peak().bytes(), *worst);
}

/// DeepSeek-V4: a window of 128, behind it one of 4 tokens with a key of the indexer, or one of 128; and in fp32 what waits
/// to become one, each of the lightly compressed twice as many and as wide.
#[test]
fn compressed() {
    let of_v4 = |serving| plan(of(preset::DEEPSEEK_V4_FLASH, over(8), serving));
    // 21 layers compress lightly, 20 heavily, 2 not at all; no rank splits the one head.
    let light = (512 + 128) * 2 / 4;
    let heavy = 512 * 2 / 128;
    assert_eq!(of_v4(ONE).kv_cache_per_token(0).bytes(), 21 * light + 20 * heavy);
    let waiting = |tokens: u64, width: u64| 2 * tokens * width * 4;
    let states = 21 * (waiting(8, 1024) + waiting(8, 256)) + 20 * waiting(128, 512);
    assert_eq!(of_v4(ONE).state_per_sequence(0).bytes(), states);
    let serving = Serving { block: 256, ..ONE };
    let whole = of_v4(serving).kv_cache_of_sequence(0, 65_536).bytes();
    assert_eq!(whole, 43 * 512 * 512 * 2 + 65_536 * (21 * light + 20 * heavy) + states);
}

/// Linear attention and state spaces keep a state, whatever the context: the tokens before a convolution's last, in the
/// format of activations, and a matrix for each head or a vector for each channel, in fp32.
#[test]
fn states() {
    let of_preset = |architecture, tp| plan(of(architecture, over(tp), ONE)).state_per_sequence(0).bytes();
    // 36 layers, 16 heads of keys and 32 of values, all of 128, a convolution over 4 tokens.
    let qwen3_next = |tp: u64| 36 * (3 * (2 * 16 + 32) * 128 * 2 + 32 * 128 * 128 * 4) / tp;
    assert_eq!(of_preset(preset::QWEN3_NEXT_80B_A3B, 1), qwen3_next(1));
    assert_eq!(of_preset(preset::QWEN3_NEXT_80B_A3B, 2), qwen3_next(2));
    assert_eq!(qwen3_next(1), 77_266_944);
    // 20 layers, 32 heads of 128, a convolution each for queries, keys and values (Kimi Linear).
    let kimi = Architecture {
        layers: Layers { list: LayerList::parse("m*20"), ..dense(20, 8, 8, 8).layers },
        mixer: Mixer::Kda(Kda { heads: 32, head_dim: 128, conv: 4 }),
        ..dense(20, 8, 8, 8)
    };
    assert_eq!(of_preset(kimi, 1), 20 * (3 * 3 * 4096 * 2 + 32 * 128 * 128 * 4));
    // 70 layers, 64 heads of 128.
    assert_eq!(of_preset(preset::MINIMAX_TEXT_01, 8), 70 * 8 * 128 * 128 * 4);
    // 28 layers, 8192 channels of 16 numbers.
    assert_eq!(of_preset(preset::JAMBA_V0_1, 1), 28 * (3 * 8192 * 2 + 8192 * 16 * 4));
    // 23 layers, 64 heads of 64 with 128 numbers, 8 groups.
    let nemotron = 23 * (3 * (64 * 64 + 2 * 8 * 128) * 2 + 64 * 64 * 128 * 4);
    assert_eq!(of_preset(preset::NEMOTRON_3_NANO_30B_A3B, 1), nemotron);
    // One other format of states halves them, and leaves the convolution's.
    let halved = Serving { state: Dtype::Bf16, ..ONE };
    let halved = plan(of(preset::JAMBA_V0_1, over(1), halved)).state_per_sequence(0).bytes();
    assert_eq!(halved, 28 * (3 * 8192 * 2 + 8192 * 16 * 2));
    assert_eq!(of_preset(preset::LLAMA_3_1_8B, 1), 0);
    // What is kept of a sequence is this and its tokens.
    let jamba = plan(of(preset::JAMBA_V0_1, over(1), ONE));
    let [short, long] = [16, 32].map(|context| jamba.kv_cache_of_sequence(0, context).bytes());
    assert_eq!(long - short, 16 * jamba.kv_cache_per_token(0).bytes());
    assert_eq!(short, jamba.state_per_sequence(0).bytes() + 16 * 4 * 8 * 256 * 2);
}

/// Layers that read the keys and values of the one in front keep none, but for a copy where a stage starts with them.
#[test]
fn shared_keys_and_values() {
    let mut spec = of(dense(8, 8, 4, 16), over(1), ONE);
    spec.choose(Key::Mixer, 0);
    for (key, number) in
        [(Key::MixerHeads, 8), (Key::MixerKvHeads, 4), (Key::MixerHeadDim, 16), (Key::MixerSharedKv, 1)]
    {
        spec.set(key, number);
    }
    spec.architecture.layers.list = LayerList::parse("(amm)*2am");
    let token = 4 * (16 + 16) * 2;
    assert_eq!(plan(spec).kv_cache_per_token(0).bytes(), 3 * token);
    spec.layout.mesh.pp = 4;
    let of_stages = [0, 1, 2, 3].map(|stage| plan(spec).kv_cache_per_token(stage).bytes() / token);
    // am | ma | mm | am
    assert_eq!(of_stages, [1, 2, 1, 1]);
    spec.set(Key::MixerSharedKv, 0);
    assert_eq!([0, 1, 2, 3].map(|stage| plan(spec).kv_cache_per_token(stage).bytes() / token), [2; 4]);
}

/// LongCat-Flash has attention twice in each layer.
#[test]
fn two_blocks_of_attention() {
    assert_eq!(per_token(preset::LONGCAT_FLASH, 1, MlaCache::Latent), 2 * 28 * 576 * 2);
}

/// Nothing is kept for a backward, an optimizer or another step.
#[test]
fn nothing_of_training() {
    for preset in PRESETS {
        let plan = plan(of(preset.architecture, over(1), Serving { requests: 4, context: 4096, ..Serving::DEFAULT }));
        assert_eq!(plan.phases(), [Phase::BetweenSteps, Phase::Prefill, Phase::Decode]);
        let budget = plan.budget(0);
        let none = [Role::Gradient, Role::MasterWeight, Role::FirstMoment, Role::SecondMoment, Role::Activation];
        for role in none.into_iter().chain([Role::Communication]) {
            assert_eq!(budget.role(role), Bytes::ZERO, "{}: {role}", preset.name);
        }
        assert_eq!(budget.weights().bytes(), 2 * preset.architecture.parameters().total(), "{}", preset.name);
        assert_eq!(budget.static_bytes(), budget.weights() + budget.kv_cache());
        // Training layouts keep nothing of sequences.
        let mut spec = *plan.spec();
        (spec.layout.serving, spec.layout.batch.sequence) = (Service::None, 4096);
        let trained = Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"));
        assert_eq!(trained.phases(), Phase::TRAINING);
        assert_eq!(trained.budget(0).kv_cache(), Bytes::ZERO);
        assert_eq!(trained.kv_cache_per_token(0), Bytes::ZERO);
        assert_eq!(trained.longest_context(1, Device::None), None);
        assert_eq!(trained.most_requests(1, Device::None), None);
    }
}

fn block(lifetime: Lifetime) -> Option<Block> {
    match lifetime {
        Lifetime::InPrefill(block) | Lifetime::InDecode(block) => Some(block),
        _ => None,
    }
}

/// Budgets are sums of the list: what stands, and the largest block.
#[test]
fn budgets_are_sums_of_the_list() {
    let meshes = [over(1), Mesh { pp: 2, ..over(1) }, Mesh { dp: 2, cp: 2, ..over(2) }];
    for (preset, mesh) in PRESETS.iter().flat_map(|preset| meshes.map(|mesh| (preset, mesh))) {
        let serving = Serving { requests: 5, context: 5000, prefill: 3001, logprobs: Switch::On, ..Serving::DEFAULT };
        let spec = of(preset.architecture, mesh, serving);
        // Not all layers fall to two stages.
        let Ok(plan) = Plan::new(spec) else {
            assert!(
                judge(&spec).iter().all(|violation| mesh.pp == 2 && violation.id() == "layers-stages"),
                "{}",
                preset.name
            );
            continue;
        };
        let mut worst = 0;
        for stage in 0..plan.stages() {
            let (budget, inventory) = (plan.budget(stage), plan.inventory(stage));
            for phase in plan.phases() {
                let (mut standing, mut blocks) = (0, BTreeMap::new());
                for entry in &inventory {
                    let bytes = entry.bytes_at(*phase).bytes();
                    match block(entry.lifetime) {
                        Some(block) => *blocks.entry(block as u8).or_insert(0) += bytes,
                        None => standing += bytes,
                    }
                }
                let largest = blocks.values().max().copied().unwrap_or(0);
                assert_eq!(budget.phase(*phase).bytes(), standing + largest, "{} in {phase}", preset.name);
                assert_eq!(budget.static_bytes().bytes(), standing);
                assert_eq!(largest > 0, *phase != Phase::BetweenSteps);
                worst = worst.max(standing + largest);
            }
            let cached =
                inventory.iter().filter(|entry| entry.role == Role::KvCache).map(|entry| entry.bytes().bytes());
            assert_eq!(cached.sum::<u64>(), budget.kv_cache().bytes());
        }
        assert_eq!(plan.peak().bytes(), worst, "{}", preset.name);
    }
}

/// The largest block of Llama 3.1 8B, and the logits of the last token of each prompt, or of all tokens.
#[test]
fn what_prefill_works_on() {
    let work = |serving: Serving, phase| {
        plan(of(preset::LLAMA_3_1_8B, over(1), serving)).budget(0).role_in(Role::Transient, phase).bytes()
    };
    let serving = Serving { requests: 8, context: 4096, ..Serving::DEFAULT };
    // Residual stream, input behind the norm and output, and three tensors of the network's width.
    let token = (3 * 4096 + 3 * 14_336) * 2;
    assert_eq!(work(serving, Phase::Prefill), 8192 * token);
    // Prompts of fewer tokens than run at once.
    assert_eq!(work(Serving { context: 100, ..serving }, Phase::Prefill), 800 * token);
    // A token of each sequence; logits in bf16 and in fp32 are more, with the norm's input and output.
    let logits = 128_256 * (2 + 4);
    assert_eq!(work(serving, Phase::Decode), 8 * (logits + 2 * 4096 * 2));
    assert_eq!(work(Serving { logprobs: Switch::On, ..serving }, Phase::Prefill), 8192 * (logits + 2 * 4096 * 2));
}

/// Tensor-parallel ranks hold the same tokens, unless sequence parallelism splits them; experts get each of them once.
#[test]
fn what_experts_work_on() {
    let rows = |mesh| {
        let serving = Serving { requests: 64, context: 4096, prefill: 8192, ..Serving::DEFAULT };
        let inventory = plan(of(preset::QWEN3_30B_A3B, mesh, serving)).inventory(0);
        let copies = |phase| {
            let mut entries = inventory.iter().filter(|entry| entry.name == "permuted copies, routed output");
            let entry = entries.find(|entry| entry.bytes_at(phase) > Bytes::ZERO).expect("experts run");
            entry.shape[0].local
        };
        [Phase::Prefill, Phase::Decode].map(copies)
    };
    // Eight of 128 experts a token; a rank of four has a quarter of them.
    assert_eq!(rows(Mesh::DEFAULT), [8192 * 8, 64 * 8]);
    assert_eq!(rows(Mesh { ep: 4, ..over(4) }), [8192 * 2, 64 * 2]);
    assert_eq!(rows(Mesh { tp: 4, ep: 4, ..Mesh::DEFAULT }), [8192 * 2, 64 * 2]);
    // Four replicas bring tokens of their own.
    assert_eq!(rows(Mesh { dp: 4, ep: 4, ..Mesh::DEFAULT }), [8192 * 8, 64 * 8]);
}

/// No event of a step runs.
#[test]
fn a_timeline_of_prompts_and_tokens() {
    let plan = plan(of(preset::JAMBA_V0_1, over(2), Serving { requests: 4, context: 4096, ..Serving::DEFAULT }));
    let (moments, budget) = (plan.timeline(0), plan.budget(0));
    assert_eq!(moments.iter().map(|moment| moment.phase).collect::<Vec<_>>(), plan.phases());
    for moment in moments {
        assert_eq!((moment.event, moment.role(Role::Activation)), (None, Bytes::ZERO));
        let stands = moment.role(Role::Weight) + moment.role(Role::KvCache);
        assert_eq!((stands, moment.total()), (budget.static_bytes(), budget.phase(moment.phase)));
    }
}

/// The longest context fits, and one block more does not; so do the most requests, and not one more.
#[test]
fn searches_are_exact() {
    let fits = |plan: &Plan, requests: u64, context: u64, device: Device| {
        let Service::Serving(serving) = plan.spec().layout.serving else { panic!("it serves") };
        let changed = plan.changed(|spec| {
            spec.layout.serving = Service::Serving(Serving { requests, context, ..serving });
        });
        changed.is_ok_and(|plan| plan.fits(device))
    };
    let mut found = 0;
    for (name, tp, block) in [
        ("llama_3_1_8b", 1, 16),
        ("deepseek_v2_lite", 2, 64),
        ("gpt_oss_120b", 8, 1),
        ("qwen3_next_80b_a3b", 2, 16),
        ("deepseek_v4_flash", 8, 256),
        ("jamba_v0_1", 4, 128),
    ] {
        let preset = PRESETS.iter().find(|preset| preset.name == name).expect("it is a preset");
        let mesh = Mesh { ep: tp, ..over(tp) };
        for headroom in [0, 10] {
            let mut spec = of(preset.architecture, mesh, Serving { block, ..ONE });
            spec.layout.headroom = percent(headroom);
            let plan = plan(spec);
            for device in [A100_80GB, H200] {
                for requests in [1, 7, 256] {
                    let Some(longest) = plan.longest_context(requests, device) else { continue };
                    found += 1;
                    assert!(longest.is_multiple_of(block));
                    assert!(fits(&plan, requests, longest, device), "{name}");
                    assert!(!fits(&plan, requests, longest + block, device), "{name}");
                    assert!(!fits(&plan, requests, longest + 1, device), "{name}");
                }
                for context in [1, 1000, 100_000] {
                    let Some(most) = plan.most_requests(context, device) else { continue };
                    found += 1;
                    assert!(fits(&plan, most, context, device), "{name}");
                    assert!(!fits(&plan, most + 1, context, device), "{name}");
                }
            }
        }
    }
    assert!(found > 80, "most of them fit: {found}");
}

/// Where ranks deal the blocks of a sequence among them, one block more is one for each.
#[test]
fn searches_over_context_parallel_ranks() {
    let plan = plan(of(preset::LLAMA_3_1_8B, Mesh { cp: 4, ..Mesh::DEFAULT }, ONE));
    let longest = plan.longest_context(4, A100_80GB).expect("a block fits");
    assert!(longest.is_multiple_of(64));
    assert_eq!(plan.most_requests(longest, A100_80GB), Some(4));
    assert_eq!(plan.most_requests(longest + 1, A100_80GB), Some(3));
}

#[test]
fn searches_of_nothing() {
    let llama = plan(of(preset::LLAMA_3_1_8B, over(1), ONE));
    assert_eq!(llama.longest_context(0, H200), None);
    assert_eq!(llama.most_requests(0, H200), None);
    assert_eq!(llama.longest_context(NUMBER_MAX + 1, H200), None);
    assert_eq!(llama.most_requests(u64::MAX, H200), None);
    // 671 GB of weights.
    let whole = plan(of(preset::DEEPSEEK_V3, over(1), ONE));
    assert_eq!(whole.longest_context(1, H200), None);
    assert_eq!(whole.most_requests(1, H200), None);
    // Without a device all that can be said fits.
    assert_eq!(llama.longest_context(1, Device::None), Some(NUMBER_MAX));
    assert_eq!(llama.most_requests(1, Device::None), Some(NUMBER_MAX));
}

/// The largest numbers are refused in words, not wrapped.
#[test]
fn what_outgrows_64_bits_is_refused() {
    let serving = Serving { requests: NUMBER_MAX, context: NUMBER_MAX, ..Serving::DEFAULT };
    let said: Vec<_> = judge(&of(preset::DEEPSEEK_V3, over(1), serving))
        .iter()
        .map(|violation| (violation.id(), violation.at.path()))
        .collect();
    assert_eq!(said, [("fits-64-bits", "serving.context")]);
    let huge = Serving { block: NUMBER_MAX, prefill: NUMBER_MAX, ..serving };
    assert!(!judge(&of(preset::GPT_OSS_120B, Mesh { cp: 1 << 20, ..Mesh::DEFAULT }, huge)).is_empty());
    assert_eq!(Serving { requests: u64::MAX, context: u64::MAX, ..ONE }.prefill_tokens(), 8192);
}

/// Requests are those of one data-parallel replica: more replicas serve more, and hold as much each.
#[test]
fn replicas_serve_requests_of_their_own() {
    let serving = Serving { requests: 16, context: 8192, ..Serving::DEFAULT };
    let mut spec = of(preset::LLAMA_3_1_8B, over(1), serving);
    let one = plan(spec).peak();
    spec.layout.mesh.dp = 8;
    assert_eq!(plan(spec).peak(), one);
}

/// Weights are those of training, whatever is served: in their format, split as placed.
#[test]
fn weights_are_those_of_training() {
    let mut spec = of(preset::DEEPSEEK_V3, Mesh { dp: 4, ep: 8, ..over(2) }, ONE);
    spec.layout.precision = Precision { weights: Dtype::Fp8, ..Precision::DEFAULT };
    spec.layout.placement = Placement { redundant_experts: 32, ..Placement::DEFAULT };
    let served = plan(spec).budget(0).weights();
    (spec.layout.serving, spec.layout.batch.sequence) = (Service::None, 4096);
    assert_eq!(plan(spec).budget(0).weights(), served);
}
