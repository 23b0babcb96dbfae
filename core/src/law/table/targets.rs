//! Laws of frameworks that a layout is for, and of formats that what it keeps has.

use super::law;
use crate::key::Key;
use crate::law::Quantity::{self, Just, Of};
use crate::law::Rule::{self, AtLeast, AtMost, Divides, Equal};
use crate::law::{Law, When};
use crate::spec::{Checkpoint, Schedule, Target, ZeroStage};

pub(super) const LAWS: &[Law] = &[
    law(
        "megatron-mtp-rank",
        &[Key::StagesList],
        AtLeast(Quantity::ListedMtpRank, Just(1)),
        When::PipelinedFor(Target::MegatronCore),
        "megatron-core puts no MTP module on the first rank of a pipeline (transformer/pipeline_parallel_layer_layout.py)",
    ),
    law(
        "megatron-schedules",
        &[Key::Schedule],
        Rule::OneOf(Key::Schedule, &[Schedule::OneFOneB as u64, Schedule::Interleaved as u64]),
        When::PipelinedFor(Target::MegatronCore),
        "megatron-core 0.16 runs 1F1B, plain or interleaved (core/pipeline_parallel/schedules.py)",
    ),
    law(
        "deepspeed-schedules",
        &[Key::Schedule],
        Rule::OneOf(Key::Schedule, &[Schedule::OneFOneB as u64]),
        When::PipelinedFor(Target::Deepspeed),
        "the pipeline of DeepSpeed 0.18 runs 1F1B (runtime/pipe/schedule.py, TrainSchedule)",
    ),
    law(
        "deepspeed-zero-pipeline",
        &[Key::ZeroDense],
        AtMost(Of(Key::ZeroDense), Just(ZeroStage::Optimizer as u64)),
        When::PipelinedFor(Target::Deepspeed),
        "the pipeline of DeepSpeed 0.18 refuses ZeRO-2 and ZeRO-3 (runtime/pipe/engine.py)",
    ),
    law(
        "deepspeed-one-zero",
        &[Key::ZeroExpert, Key::ZeroDense],
        Equal(Of(Key::ZeroExpert), Of(Key::ZeroDense)),
        When::MoeFor(Target::Deepspeed),
        "in DeepSpeed 0.18 one ZeRO stage holds for all parameters (`zero_optimization.stage`)",
    ),
    law(
        "deepspeed-moe-zero",
        &[Key::ZeroDense],
        AtMost(Of(Key::ZeroDense), Just(ZeroStage::Gradients as u64)),
        When::MoeFor(Target::Deepspeed),
        "models with experts do not run under ZeRO-3 in DeepSpeed 0.18 (deepspeedai/DeepSpeed#2870)",
    ),
    law(
        "torchtitan-schedules",
        &[Key::Schedule],
        Rule::OneOf(
            Key::Schedule,
            &[
                Schedule::Gpipe as u64,
                Schedule::OneFOneB as u64,
                Schedule::Interleaved as u64,
                Schedule::ZbV as u64,
                Schedule::DualPipeV as u64,
            ],
        ),
        When::PipelinedFor(Target::Torchtitan),
        "torchtitan 0.3 runs the schedules of torch.distributed.pipelining",
    ),
    law(
        "torchtitan-kv-heads",
        &[Key::MeshTp, Key::AttentionKvHeads],
        Divides(Of(Key::MeshTp), Of(Key::AttentionKvHeads)),
        When::GqaFor(Target::Torchtitan),
        "torchtitan 0.3 does not replicate key/value heads (pytorch/torchtitan#2574)",
    ),
    law(
        "torchtitan-mixer-kv-heads",
        &[Key::MeshTp, Key::MixerKvHeads],
        Divides(Of(Key::MeshTp), Of(Key::MixerKvHeads)),
        When::MixerFor(Target::Torchtitan),
        "torchtitan 0.3 does not replicate key/value heads (pytorch/torchtitan#2574)",
    ),
    law(
        "torchtitan-ep-tp",
        &[Key::MeshEp, Key::MeshTp],
        AtLeast(Of(Key::MeshEp), Of(Key::MeshTp)),
        When::MoeFor(Target::Torchtitan),
        "torchtitan refuses tensor parallelism alone on routed experts (pytorch/torchtitan#4794)",
    ),
    law(
        "weights-kept",
        &[Key::PrecisionWeights],
        Rule::IsKept(Key::PrecisionWeights),
        When::Always,
        "forward and backward use weights; only the master copy and the moments can be left out",
    ),
    law(
        "gradients-kept",
        &[Key::PrecisionGradients],
        Rule::IsKept(Key::PrecisionGradients),
        When::Training,
        "gradients accumulate over micro-batches; only the master copy and the moments can be left out",
    ),
    law(
        "activations-kept",
        &[Key::PrecisionActivations],
        Rule::IsKept(Key::PrecisionActivations),
        When::Always,
        "backward reads activations; only the master copy and the moments can be left out",
    ),
    law(
        "worked-example-layers",
        &[Key::AccountingCheckpoint],
        Rule::OneOf(Key::AccountingCheckpoint, &[Checkpoint::SubBlock as u64]),
        When::Composed,
        "one checkpoint a layer is counted for layers that are attention and one feed-forward network",
    ),
];
