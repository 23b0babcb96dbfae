//! Runs of Megatron-LM whose reports say enough to hold them all in all.

use crate::{assert_near, gb};
use moe_model::config::{MegatronRun, megatron_arguments};
use moe_model::spec::{Dtype, Recompute};
use moe_model::{Bytes, Device, Phase, Plan, Spec};
use serde_json::{Map, Value};

fn planned(arguments: Map<String, Value>, environment: Map<String, Value>, world: u64, device: Device) -> Plan {
    // The version of Transformer Engine that SimuMax names.
    let transformer_engine = Some([2, 11]);
    let run = MegatronRun { arguments, environment, world: Some(world), device, transformer_engine };
    let spec = run.spec().unwrap_or_else(|error| panic!("{error}"));
    Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"))
}

/// A run of SimuMax's on eight B200, and the peak that was measured of it.
fn simumax(test: &str) -> (Plan, u64) {
    let file = include_str!("../data/measured/simumax_b200.json");
    let file: Value = serde_json::from_str(file).expect("the file is JSON");
    let rows = file["rows"].as_array().expect("there are rows");
    let row = rows.iter().find(|row| row["test"] == test).unwrap_or_else(|| panic!("no row {test}"));
    let [arguments, environment] = ["args", "env"].map(|name| row[name].as_object().expect("it is an object").clone());
    let peak = row["peak_bytes"].as_u64().expect("it is a number");
    (planned(arguments, environment, 8, Device::B200), peak)
}

/// Weights, gradients and state under the vocabulary that a report counts. The runs' own has the token that ends documents
/// beside it, which pads both tables by 128 rows.
fn standing(plan: &Plan, vocab: u64) -> String {
    assert_eq!(plan.padded_vocab(), vocab + 128);
    let plan = plan.changed(|spec| spec.architecture.vocab = vocab).expect("it is legal");
    plan.budget(0).static_bytes().to_string()
}

/// M01: DeepSeek-V3 of four layers on eight B200, at most 104.30 GiB whatever the number of micro-batches, held within 3 %. Of
/// it stand 92.78 GiB: no replica shares the experts' state.
#[test]
fn deepseek_v3_of_four_layers() {
    let (plan, measured) = simumax("deepseekv3_l4_tp1_ep8_pp1_dp8_mbc8_cef");
    assert_eq!(Bytes::new(measured).to_string(), "104.30 GiB");
    assert_near(plan.peak().total, measured, 30);
    assert_eq!((plan.edp(), standing(&plan, 129_280).as_str()), (1, "92.78 GiB"));
    for count in [4, 32] {
        let other = plan.changed(|spec| (spec.layout.batch.count, spec.layout.batch.global) = (count, 0));
        assert_eq!(other.expect("it is legal").peak(), plan.peak());
    }
}

/// M03: DeepSeek-V2 of four layers, at most 45.63 GiB, held within 3 %, of which 37.55 GiB stand.
#[test]
fn deepseek_v2_of_four_layers() {
    let (plan, measured) = simumax("deepseekv2_tp1_ep8_pp1_dp8_l4_mbc4_cef");
    assert_eq!(Bytes::new(measured).to_string(), "45.63 GiB");
    assert_near(plan.peak().total, measured, 30);
    assert_eq!(standing(&plan, 102_400), "37.55 GiB");
}

/// Qwen3-30B-A3B as Megatron-Bridge trains it on 16 H100. The report says no sequence, its recipe 4096 tokens.
const QWEN3: &str = "--num-layers 48 --hidden-size 2048 --ffn-hidden-size 6144 --num-attention-heads 32 --kv-channels 128 \
    --group-query-attention --num-query-groups 4 --qk-layernorm --swiglu --normalization RMSNorm --disable-bias-linear \
    --position-embedding-type rope --untie-embeddings-and-output-weights --max-position-embeddings 4096 \
    --tokenizer-type NullTokenizer --vocab-size 151935 --attention-dropout 0.0 --hidden-dropout 0.0 \
    --num-experts 128 --moe-router-topk 8 --moe-ffn-hidden-size 768 --moe-grouped-gemm --moe-router-dtype fp32 \
    --moe-token-dispatcher-type alltoall --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 0.001 \
    --expert-model-parallel-size 16 --expert-tensor-parallel-size 1 --use-distributed-optimizer --bf16 \
    --seq-length 4096 --micro-batch-size 1 --global-batch-size 1024 \
    --transformer-impl transformer_engine --cross-entropy-loss-fusion --cross-entropy-fusion-impl te";

fn qwen3(recompute: &str) -> Plan {
    let words = QWEN3.split_whitespace().chain(recompute.split_whitespace());
    planned(megatron_arguments(words), Map::new(), 16, Device::H100)
}

/// M08: 43.0 GB standing, with gradients in fp32. The peak of 61.35 GB (10^9 bytes, as Megatron-Bridge logs them) is not met
/// within the 8 % that go with it: ours is a tenth more with the loss of Transformer Engine 2.11, and with that of the newest
/// still more. With gradients in bf16 it would be met to 0.02 %, but the report does not say that it had them: some recipes of
/// Megatron-Bridge do, of which those for Qwen3 drop tokens too.
#[test]
fn qwen3_on_sixteen_cards() {
    let plan = qwen3("");
    assert_eq!((plan.edp(), plan.budget(0).static_bytes().to_string().as_str()), (1, "40.06 GiB"));
    let with = |change: fn(&mut Spec)| plan.changed(change).expect("it is legal").peak().bytes() / gb(1);
    let bf16 = with(|spec| spec.layout.precision.gradients = Dtype::Bf16);
    assert_eq!((plan.peak().bytes() / gb(1), bf16), (6_806, 6_136));
}

/// Under `block` the first layers are computed again, each of which saves as much.
#[test]
fn so_many_layers_are_computed_again() {
    let block = "--recompute-granularity full --recompute-method block --recompute-num-layers";
    let [kept, one, all] = [String::new(), format!("{block} 1"), format!("{block} 48")].map(|words| qwen3(&words));
    assert_eq!((one.spec().layout.recompute, one.spec().layout.recompute_layers), (Recompute::Full, 1));
    let stored = |plan: &Plan| plan.budget(0).stored_activations().bytes();
    assert_eq!(stored(&kept) - stored(&all), 48 * (stored(&kept) - stored(&one)));
    assert_eq!(
        stored(&all),
        stored(&qwen3("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"))
    );
}

/// Under `uniform` all layers are, in runs of so many, of which each keeps one input.
#[test]
fn so_many_layers_are_computed_again_together() {
    let runs = |layers: u64| {
        qwen3(&format!("--recompute-granularity full --recompute-method uniform --recompute-num-layers {layers}"))
    };
    let two = runs(2);
    let layout = &two.spec().layout;
    assert_eq!((layout.recompute, layout.recompute_layers, layout.recompute_together), (Recompute::Full, 0, 2));
    let stored = |layers| runs(layers).budget(0).stored_activations().bytes();
    // 48 inputs, 24, 12, and of runs of seven, the last of six, also 7.
    assert_eq!(
        [24, 36, 41].map(|less| (stored(1) - stored(2)) / 24 * less),
        [2, 4, 7].map(|runs| stored(1) - stored(runs))
    );
    assert_eq!(stored(48), stored(1000), "the last run may be shorter");
}

/// M08: recomputing attention saves nothing where its kernel is fused; the report saw 1.79 GB more.
#[test]
fn fused_attention_is_not_worth_recomputing() {
    let [kept, again] = ["", "--recompute-granularity selective --recompute-modules core_attn"].map(qwen3);
    assert_near(again.peak().total, kept.peak().bytes(), 1);
}

/// Moonlight-16B as Megatron-Bridge trains it on eight H100 (its recipe `moonlight_16b_pretrain_config`).
const MOONLIGHT: &str = "--num-layers 27 --hidden-size 2048 --ffn-hidden-size 11264 --num-attention-heads 16 \
    --multi-latent-attention --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 --qk-layernorm \
    --swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope \
    --untie-embeddings-and-output-weights --max-position-embeddings 8192 --tokenizer-type NullTokenizer --vocab-size 163839 \
    --attention-dropout 0.0 --hidden-dropout 0.0 --num-experts 64 --moe-router-topk 6 --moe-ffn-hidden-size 1408 \
    --moe-shared-expert-intermediate-size 2816 --moe-layer-freq ([0]*1+[1]*26) --moe-router-score-function sigmoid \
    --moe-router-enable-expert-bias --moe-router-dtype fp32 --moe-grouped-gemm --moe-permute-fusion \
    --moe-shared-expert-overlap --moe-token-dispatcher-type alltoall --moe-router-load-balancing-type seq_aux_loss \
    --moe-aux-loss-coeff 0.001 --tensor-model-parallel-size 2 --sequence-parallel --expert-model-parallel-size 8 \
    --expert-tensor-parallel-size 1 --use-distributed-optimizer --bf16 --grad-reduce-in-bf16 --seq-length 4096 \
    --micro-batch-size 1 --global-batch-size 4 --transformer-impl transformer_engine --cross-entropy-loss-fusion \
    --cross-entropy-fusion-impl te";

/// Six runs that recompute other modules (Megatron-Bridge at 067f987, `skills/nemo-mbridge-perf-activation-recompute/card.yaml`,
/// of 2026-08): peaks in hundredths of a GB (10^9 bytes), held within 4 %. Gradients and moments are in bf16, as the recipe
/// says. It does not say whether master weights are whole or, as megatron-core's precision-aware optimizer has them unless told
/// otherwise, the 16 bits that bf16 lacks: whole ones meet the peaks, with the others they would be an eighth less. Four peaks
/// lie together whatever is computed again: there the optimizer step holds most, as it does here.
#[test]
fn moonlight_by_what_it_recomputes() {
    let planned = |modules: &str| {
        let mut arguments = megatron_arguments(MOONLIGHT.split_whitespace());
        if !modules.is_empty() {
            arguments.insert("recompute-granularity".to_owned(), "selective".into());
            arguments.insert("recompute-modules".to_owned(), modules.into());
        }
        let bf16 = |spec: &mut Spec| spec.layout.precision.moments = Dtype::Bf16;
        planned(arguments, Map::new(), 8, Device::H100).changed(bf16).expect("it is legal")
    };
    for (modules, measured, phase) in [
        ("", 3_662, Phase::Forward),
        ("core_attn", 3_661, Phase::Forward),
        ("mla_up_proj", 3_590, Phase::OptimizerStep),
        ("mla_up_proj mlp", 3_592, Phase::OptimizerStep),
        ("moe_act", 3_594, Phase::OptimizerStep),
        ("layernorm moe_act", 3_595, Phase::OptimizerStep),
    ] {
        let peak = planned(modules).peak();
        assert_near(peak.total, measured * gb(1), 40);
        assert_eq!(peak.phase, phase, "{modules}");
    }
}
