//! The table of laws: each has an example in `tests/ui`, each can be broken, and what is suggested mends it.

use moe_model::law::{ADVICE, LAWS, Law};
use moe_model::spec::{
    Accounting, Attention, Beside, Capacity, Compute, Context, CorrectionBias, Dtype, Experts, Factor, Gqa,
    Implementation, Kernel, LayerList, Layers, Layout, MegatronCore, MegatronVersion, Mixer, MlaCache, NUMBER_MAX,
    Norm, QkNorm, Recompute, Reference, Routing, Schedule, Service, Serving, Split, StageList, Stages, Switch, Target,
    Weighed, Zero, ZeroGroups, ZeroStage, percent,
};
use moe_model::{Device, Key, Plan, Spec, Violation, judge, moe_model};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

moe_model! {
    /// DeepSeek-V3 under the layout analysed in arXiv:2502.07846.
    struct DeepSeekV3;

    hidden: 7168,
    vocab: 129_280,
    layers: layers { dense: 3, moe: 58, ffn: 18_432 },
    attention: mla { heads: 128, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 },
    experts: experts {
        routed: 256, shared: 1, active: 8, ffn: 2048, groups: 8, active_groups: 4, correction_bias: on,
    },
    mtp: 1,

    layout Paper: layout {
        mesh: mesh { dp: 32, tp: 2, pp: 16, ep: 8, etp: 1, sequence_parallel: on },
        stages: stages { first: 4, last: 1 },
        zero: zero { dense: optimizer, expert: optimizer, groups: moe_block },
        placement: placement { query_rope: replicated, shared_experts: replicated },
        precision: precision { weights: bf16, gradients: fp32, master: fp32, moments: bf16 },
        batch: batch { sequence: 4096, micro: 1, count: 32 },
        recompute: full,
        accounting: paper,
    },
}

/// A change that breaks a law, with the law's name.
type Breach = (&'static str, fn(&mut Spec));

/// One change of a valid Spec for each law, in the order of the table.
const BREACHES: &[Breach] = &[
    ("norms-per-layer", |s| s.architecture.norms_per_layer = 8),
    ("layer-count", |s| (s.architecture.layers.dense, s.architecture.layers.moe) = (0, 0)),
    ("moe-every", |s| s.architecture.layers.moe_every = 2),
    ("moe-every-stages", |s| {
        s.architecture.layers = Layers { dense: 600, moe: 600, ffn: 18_432, moe_every: 2, ..Layers::DEFAULT };
        (s.layout.mesh.pp, s.layout.stages) = (300, Stages::DEFAULT);
    }),
    ("layer-list-dense", |s| s.architecture.layers.list = LayerList::parse("a*2A*59")),
    ("layer-list-moe", |s| s.architecture.layers.list = LayerList::parse("a*3A*57")),
    ("layer-list-every", |s| {
        layers(s, "a*3A*58");
        s.architecture.layers.moe_every = 2;
    }),
    ("layer-list-beside", |s| {
        layers(s, "a*3A*58");
        s.architecture.layers.beside = Beside::TwoBlocks;
    }),
    ("layer-list-mixer", |s| layers(s, "a*3M*58")),
    ("mixer-unused", |s| s.choose(Key::Mixer, 0)),
    ("layer-list-compressed", |s| layers(s, "a*3C*58")),
    ("layer-list-alone", |s| {
        layers(s, "ae*60");
        (s.architecture.layers.dense, s.architecture.layers.moe) = (0, 60);
        s.architecture.layers.beside = Beside::Dense;
    }),
    ("hyper-connections-beside", |s| {
        (s.architecture.hyper_connections, s.architecture.layers.beside, s.architecture.mtp) = (4, Beside::Dense, 0);
    }),
    ("mtp-layers", |s| s.architecture.layers.beside = Beside::Dense),
    ("dense-ffn-given", |s| s.architecture.layers.ffn = 0),
    ("routed-given", |s| s.architecture.experts.routed = 0),
    ("active-given", |s| s.architecture.experts.active = 0),
    ("expert-ffn-given", |s| s.architecture.experts.ffn = 0),
    ("shared-ffn-unused", |s| (s.architecture.experts.shared, s.architecture.experts.shared_ffn) = (0, 2048)),
    ("shared-gate-unused", |s| {
        (s.architecture.experts.shared, s.architecture.experts.shared_gate) = (0, Switch::On);
    }),
    ("top-k", |s| s.architecture.experts.active = 300),
    ("router-groups", |s| s.architecture.experts.groups = 7),
    ("active-groups", |s| s.architecture.experts.active_groups = 9),
    ("top-k-groups", |s| s.architecture.experts.groups = 256),
    ("kv-heads", |s| s.architecture.attention = gqa(128, 24)),
    ("head-dim", |s| {
        s.architecture.attention = Attention::Gqa(Gqa { heads: 120, kv_heads: 8, head_dim: 0, ..Gqa::DEFAULT });
    }),
    ("key-as-value", |s| {
        let gqa = Gqa { heads: 128, kv_heads: 8, head_dim: 64, value_dim: 32, ..Gqa::DEFAULT };
        s.architecture.attention = Attention::Gqa(Gqa { key_as_value: Switch::On, ..gqa });
    }),
    ("indexer-heads-given", |s| set(s, Key::AttentionIndexerDim, 128)),
    ("indexer-dim-given", |s| set(s, Key::AttentionIndexerHeads, 64)),
    ("indexer-dim", |s| {
        set(s, Key::AttentionIndexerHeads, 64);
        set(s, Key::AttentionIndexerDim, 32);
    }),
    ("indexer-query-rank", |s| {
        set(s, Key::AttentionIndexerHeads, 64);
        set(s, Key::AttentionIndexerDim, 128);
        set(s, Key::AttentionQRank, 0);
    }),
    ("compressed-indexer", |s| {
        compress(s);
        set(s, Key::AttentionIndexerHeads, 0);
    }),
    ("output-groups", |s| {
        compress(s);
        set(s, Key::AttentionOutputGroups, 6);
    }),
    ("mixer-kv-heads", |s| mix(s, LOCAL, &[(Key::MixerHeads, 64), (Key::MixerKvHeads, 24)])),
    ("shared-kv-first", |s| share(s, "m*3AM*57", &[])),
    ("shared-kv-heads", |s| share(s, "a*3AM*57", &[(Key::MixerKvHeads, 4)])),
    ("shared-kv-dim", |s| share(s, "a*3AM*57", &[(Key::MixerHeadDim, 32)])),
    ("shared-kv-value", |s| share(s, "a*3AM*57", &[(Key::MixerValueDim, 32)])),
    ("mixer-value-heads", |s| mix(s, DELTA, &[(Key::MixerKeyHeads, 16), (Key::MixerValueHeads, 24)])),
    ("mixer-groups", |s| mix(s, MAMBA2, &[(Key::MixerHeads, 64), (Key::MixerGroups, 6)])),
    ("hash-layers", |s| s.architecture.experts.hash_layers = 59),
    ("hash-correction-bias", |s| {
        (s.architecture.experts.hash_layers, s.architecture.experts.correction_bias) = (3, CorrectionBias::Parameter);
    }),
    ("world-size", |s| s.layout.mesh.dp = 1 << 27),
    ("world-grid", |s| s.layout.mesh.world = 1000),
    ("world-replicas", |s| (s.layout.mesh.dp, s.layout.mesh.world) = (0, 1000)),
    ("expert-grid", |s| s.layout.mesh.ep = 128),
    ("experts-ep", |s| (s.architecture.experts.routed, s.layout.mesh.ep) = (160, 64)),
    ("expert-ffn-etp", |s| (s.architecture.experts.ffn, s.layout.mesh.etp) = (2050, 4)),
    ("expert-ranks", |s| (s.architecture.layers.moe, s.layout.stages.last) = (0, 0)),
    ("heads-tp", |s| set(s, Key::AttentionHeads, 129)),
    ("kv-heads-tp", |s| (s.architecture.attention, s.layout.mesh.tp) = (gqa(48, 12), 8)),
    ("output-groups-tp", |s| {
        compress(s);
        s.layout.mesh.tp = 16;
    }),
    ("mixer-heads-tp", |s| mix(s, KDA, &[(Key::MixerHeads, 33)])),
    ("mixer-kv-heads-tp", |s| {
        mix(s, LOCAL, &[(Key::MixerHeads, 48), (Key::MixerKvHeads, 12)]);
        s.layout.mesh.tp = 8;
    }),
    ("mixer-key-heads-tp", |s| mix(s, DELTA, &[(Key::MixerKeyHeads, 15), (Key::MixerValueHeads, 30)])),
    ("mixer-inner-tp", |s| mix(s, MAMBA1, &[(Key::MixerInner, 8191)])),
    ("mixer-groups-tp", |s| mix(s, MAMBA2, &[(Key::MixerHeads, 64), (Key::MixerGroups, 1)])),
    ("dense-ffn-tp", |s| s.architecture.layers.ffn = 18_433),
    ("shared-ffn-tp", |s| (s.architecture.experts.ffn, s.layout.placement.shared_experts) = (2049, Split::Split)),
    ("sp-needs-tp", |s| s.layout.mesh.tp = 1),
    ("ep-needs-sp", |s| s.layout.mesh.sequence_parallel = Switch::Off),
    ("layers-stages", |s| s.layout.mesh.pp = 17),
    ("list-layers", |s| s.layout.stages = list("Et*3|(t*4|)*14tL")),
    ("list-mtp", |s| s.layout.stages = list("Et*4|(t*4|)*14tL")),
    ("list-stages", |s| s.layout.stages = list("Et*5|(t*4|)*14|mL")),
    ("list-alone", |s| s.layout.stages.list = list("Et*4|(t*4|)*14tmL").list),
    ("schedule-chunks", |s| s.layout.mesh.vpp = 2),
    ("chunks-max", |s| {
        (s.layout.schedule, s.layout.mesh.vpp) = (Schedule::Interleaved, 33);
        (s.architecture.layers.moe, s.layout.stages) = (16 * 33 - 3, Stages::EVEN);
    }),
    ("vpp-needs-pp", |s| {
        (s.layout.schedule, s.layout.mesh.vpp, s.layout.mesh.pp) = (Schedule::Interleaved, 2, 1);
        (s.architecture.layers.moe, s.layout.stages) = (59, Stages::EVEN);
    }),
    ("group-pipeline", |s| {
        interleave(s);
        s.layout.batch.group = 8;
    }),
    ("group-count", |s| {
        interleave(s);
        s.layout.batch.count = 8;
    }),
    ("group-last", |s| {
        interleave(s);
        s.layout.batch.count = 40;
    }),
    ("group-unused", |s| s.layout.batch.group = 16),
    ("dual-pipe-ranks", |s| {
        (s.layout.schedule, s.layout.mesh.pp, s.layout.batch.count) = (Schedule::DualPipe, 15, 32);
        s.layout.stages = Stages { first: 5, last: 4, ..Stages::EVEN };
    }),
    ("dual-pipe-count", |s| (s.layout.schedule, s.layout.batch.count) = (Schedule::DualPipe, 33)),
    ("dual-pipe-fill", |s| (s.layout.schedule, s.layout.batch.count) = (Schedule::DualPipe, 30)),
    ("stages-weighed", |s| (s.layout.stages.last, s.layout.stages.loss) = (0, Weighed::AsLayer)),
    ("sequence-cp", |s| {
        let mesh = &mut s.layout.mesh;
        (mesh.tp, mesh.cp, mesh.sequence_parallel) = (1, 2, Switch::Off);
        s.layout.batch.sequence = 4095;
    }),
    ("sequence-sp", |s| s.layout.batch.sequence = 4095),
    ("sequence-ring", |s| {
        let mesh = &mut s.layout.mesh;
        (mesh.tp, mesh.cp, mesh.sequence_parallel, mesh.context) = (1, 2, Switch::Off, Context::Ring);
        s.layout.batch.sequence = 4098;
    }),
    ("heads-context", |s| {
        (s.layout.mesh.cp, s.layout.mesh.context) = (2, Context::AllToAll);
        set(s, Key::AttentionHeads, 126);
    }),
    ("kv-heads-context", |s| {
        (s.layout.mesh.cp, s.layout.mesh.context) = (4, Context::AllToAll);
        s.architecture.attention = gqa(48, 6);
    }),
    ("mixer-heads-context", |s| {
        (s.layout.mesh.cp, s.layout.mesh.context) = (2, Context::AllToAll);
        mix(s, LOCAL, &[(Key::MixerHeads, 126), (Key::MixerKvHeads, 2)]);
    }),
    ("mixer-kv-heads-context", |s| {
        (s.layout.mesh.cp, s.layout.mesh.context) = (4, Context::AllToAll);
        mix(s, LOCAL, &[(Key::MixerHeads, 48), (Key::MixerKvHeads, 6)]);
    }),
    ("cp-inner-given", |s| (s.layout.mesh.cp, s.layout.mesh.context) = (4, Context::Hierarchical)),
    ("cp-inner", |s| {
        (s.layout.mesh.cp, s.layout.mesh.cp_inner, s.layout.mesh.context) = (4, 8, Context::Hierarchical);
    }),
    ("cp-inner-unused", |s| (s.layout.mesh.cp, s.layout.mesh.cp_inner) = (4, 2)),
    ("heads-inner", |s| {
        (s.layout.mesh.cp, s.layout.mesh.cp_inner, s.layout.mesh.context) = (4, 4, Context::Hierarchical);
        set(s, Key::AttentionHeads, 132);
    }),
    ("kv-heads-inner", |s| {
        (s.layout.mesh.cp, s.layout.mesh.cp_inner, s.layout.mesh.context) = (4, 4, Context::Hierarchical);
        s.architecture.attention = gqa(48, 6);
    }),
    ("mixer-heads-inner", |s| {
        (s.layout.mesh.cp, s.layout.mesh.cp_inner, s.layout.mesh.context) = (4, 4, Context::Hierarchical);
        mix(s, LOCAL, &[(Key::MixerHeads, 132), (Key::MixerKvHeads, 2)]);
    }),
    ("mixer-kv-heads-inner", |s| {
        (s.layout.mesh.cp, s.layout.mesh.cp_inner, s.layout.mesh.context) = (4, 4, Context::Hierarchical);
        mix(s, LOCAL, &[(Key::MixerHeads, 48), (Key::MixerKvHeads, 6)]);
    }),
    ("global-batch", |s| s.layout.batch.global = 1000),
    ("zero-ways", |s| s.layout.zero.groups = ZeroGroups::Uniform),
    ("zero-ways-ranks", |s| (s.layout.zero.groups, s.layout.zero.ways) = (ZeroGroups::Uniform, 65)),
    ("zero-ways-unused", |s| s.layout.zero.ways = 32),
    ("zero-instances", |s| s.layout.zero.instances = 3),
    ("zero-instances-experts", |s| s.layout.zero.instances = 16),
    ("zero-instances-unused", |s| {
        s.layout.zero = Zero { groups: ZeroGroups::Uniform, ways: 32, instances: 2, ..s.layout.zero };
    }),
    ("skew-range", |s| set(s, Key::RoutingSkew, 9500)),
    ("skew-unused", |s| {
        s.layout.routing = Routing::WORST;
        set(s, Key::RoutingSkew, 1500);
    }),
    ("capacity-factor", |s| s.layout.routing = Routing::Capacity(Capacity { factor: Factor::thousandths(0) })),
    ("block-heads", |s| {
        (s.layout.precision.block, s.layout.mesh.tp) = (128, 128);
        set(s, Key::AttentionValue, 64);
    }),
    ("block-kv-heads", |s| {
        s.architecture.attention = Attention::Gqa(Gqa { heads: 128, kv_heads: 8, head_dim: 64, ..Gqa::DEFAULT });
        (s.layout.precision.block, s.layout.mesh.tp) = (128, 8);
    }),
    ("block-dense-ffn", |s| (s.layout.precision.block, s.architecture.layers.ffn) = (128, 18_560)),
    ("block-expert-ffn", |s| {
        (s.layout.precision.block, s.layout.mesh.etp, s.architecture.experts.ffn) = (128, 4, 1920);
    }),
    ("block-shared-ffn", |s| {
        (s.layout.precision.block, s.architecture.experts.ffn) = (128, 1920);
        s.layout.placement.shared_experts = Split::Split;
    }),
    ("megatron-mtp-rank", |s| {
        s.layout.stages = list("Et|(tt|)*30|m|(|)*14L");
        (s.layout.target, s.layout.schedule, s.layout.mesh.pp) = (Target::MegatronCore, Schedule::Interleaved, 16);
    }),
    ("megatron-schedules", |s| (s.layout.target, s.layout.schedule) = (Target::MegatronCore, Schedule::Gpipe)),
    ("deepspeed-schedules", |s| (s.layout.target, s.layout.schedule) = (Target::Deepspeed, Schedule::Gpipe)),
    ("deepspeed-zero-pipeline", |s| {
        (s.layout.target, s.layout.zero) = (Target::Deepspeed, s.layout.zero.at(ZeroStage::Gradients));
    }),
    ("deepspeed-one-zero", |s| (s.layout.target, s.layout.zero.expert) = (Target::Deepspeed, ZeroStage::None)),
    ("deepspeed-moe-zero", |s| {
        (s.layout.target, s.layout.zero) = (Target::Deepspeed, s.layout.zero.at(ZeroStage::Parameters));
    }),
    ("torchtitan-schedules", |s| (s.layout.target, s.layout.schedule) = (Target::Torchtitan, Schedule::ZbH1)),
    ("torchtitan-kv-heads", |s| {
        (s.layout.target, s.architecture.attention, s.layout.mesh.tp) = (Target::Torchtitan, gqa(128, 1), 2);
    }),
    ("torchtitan-mixer-kv-heads", |s| {
        mix(s, LOCAL, &[(Key::MixerHeads, 128), (Key::MixerKvHeads, 1)]);
        s.layout.target = Target::Torchtitan;
    }),
    ("torchtitan-ep-tp", |s| (s.layout.target, s.layout.mesh.ep) = (Target::Torchtitan, 1)),
    ("weights-kept", |s| s.layout.precision.weights = Dtype::None),
    ("gradients-kept", |s| s.layout.precision.gradients = Dtype::None),
    ("activations-kept", |s| s.layout.precision.activations = Dtype::None),
    ("worked-example-layers", |s| {
        layers(s, "a*3A*58");
        s.layout.accounting = Accounting::WORKED_EXAMPLE;
    }),
    ("modules-given", |s| {
        (s.layout.recompute, s.layout.accounting) = (Recompute::Selective, Accounting::MEGATRON_CORE);
    }),
    ("modules-unused", |s| s.layout.modules.norms = Switch::On),
    ("selective-accounting", |s| (s.layout.recompute, s.layout.modules.norms) = (Recompute::Selective, Switch::On)),
    ("recompute-layers-unused", |s| (s.layout.recompute, s.layout.recompute_layers) = (Recompute::None, 2)),
    ("recompute-together-unused", |s| (s.layout.recompute, s.layout.recompute_together) = (Recompute::None, 2)),
    ("recompute-together-layers", |s| (s.layout.recompute_layers, s.layout.recompute_together) = (1, 2)),
    ("recompute-together-accounting", |s| {
        (s.layout.accounting, s.layout.recompute_together) = (Accounting::WORKED_EXAMPLE, 2);
    }),
    ("recompute-together-blocks", |s| {
        layers(s, "a*3A*58");
        s.layout.recompute_together = 2;
    }),
    ("recompute-together-spacing", |s| {
        s.architecture.layers = Layers { dense: 321, moe: 4, ffn: 18_432, moe_every: 65, ..Layers::DEFAULT };
        (s.layout.mesh.pp, s.layout.stages, s.layout.recompute_together) = (5, Stages::DEFAULT, 2);
    }),
    ("recompute-together-mtp", |s| {
        (s.layout.accounting, s.layout.recompute_together) = (Accounting::MEGATRON_CORE, 4);
    }),
    ("recompute-together-fills", |s| {
        s.architecture.mtp = 0;
        (s.layout.accounting, s.layout.recompute_together) = (Accounting::MEGATRON_CORE, 3);
    }),
    ("framework-layers", |s| {
        layers(s, "a*3A*58");
        s.layout.accounting = Accounting::MEGATRON_CORE;
    }),
    ("transformers-mesh", |s| s.layout.accounting = Accounting::TRANSFORMERS),
    ("torchtitan-mesh", |s| s.layout.accounting = Accounting::TORCHTITAN),
    ("reference-context", |s| {
        s.layout.accounting = Accounting::REFERENCE;
        let mesh = &mut s.layout.mesh;
        (mesh.cp, mesh.cp_inner, mesh.context) = (2, 2, Context::Hierarchical);
    }),
    ("reference-ring", |s| {
        s.layout.accounting = Accounting::Reference(Reference { kernel: Kernel::Eager });
        s.layout.mesh.cp = 2;
    }),
    ("reference-etp", |s| {
        s.layout.accounting = Accounting::REFERENCE;
        let mesh = &mut s.layout.mesh;
        (mesh.ep, mesh.etp, mesh.sequence_parallel) = (1, 2, Switch::Off);
    }),
    ("reference-schedule", |s| (s.layout.accounting, s.layout.schedule) = (Accounting::REFERENCE, Schedule::ZbH1)),
    ("reference-zero-groups", |s| {
        s.layout.accounting = Accounting::REFERENCE;
        s.layout.zero = Zero { groups: ZeroGroups::Uniform, ways: 2, ..Zero::OPTIMIZER };
    }),
    ("reference-activations", |s| {
        (s.layout.accounting, s.layout.precision.activations) = (Accounting::REFERENCE, Dtype::Fp32);
    }),
    ("reference-weights", |s| {
        s.layout.accounting = Accounting::REFERENCE;
        (s.layout.precision.weights, s.layout.precision.activations) = (Dtype::Fp16, Dtype::Fp16);
    }),
    ("reference-gradients", |s| {
        (s.layout.accounting, s.layout.precision.gradients) = (Accounting::REFERENCE, Dtype::Bf16);
    }),
    ("reference-master", |s| {
        (s.layout.accounting, s.layout.precision.master) = (Accounting::REFERENCE, Dtype::None);
    }),
    ("reference-moments", |s| {
        (s.layout.accounting, s.layout.precision.moments) = (Accounting::REFERENCE, Dtype::Fp8);
    }),
    ("reference-norms", |s| (s.layout.accounting, s.architecture.norms_per_layer) = (Accounting::REFERENCE, 4)),
    ("reference-gate", |s| (s.layout.accounting, s.architecture.layers.gated) = (Accounting::REFERENCE, Switch::Off)),
    ("reference-head-norms", |s| {
        let norms = QkNorm::Full;
        s.architecture.attention = Attention::Gqa(Gqa { heads: 128, kv_heads: 8, qk_norm: norms, ..Gqa::DEFAULT });
        s.layout.accounting = Accounting::REFERENCE;
    }),
    ("reference-rope", |s| {
        s.layout.accounting = Accounting::REFERENCE;
        set(s, Key::AttentionRope, 63);
    }),
    ("reference-head-dim", |s| {
        s.architecture.attention = Attention::Gqa(Gqa { heads: 128, kv_heads: 8, head_dim: 63, ..Gqa::DEFAULT });
        s.layout.accounting = Accounting::REFERENCE;
    }),
    ("reference-correction-bias", |s| {
        s.layout.accounting = Accounting::REFERENCE;
        s.architecture.experts.correction_bias = CorrectionBias::Parameter;
    }),
    ("reference-mixer", |s| {
        mix(s, LOCAL, &[(Key::MixerHeads, 128), (Key::MixerKvHeads, 8)]);
        s.layout.accounting = Accounting::REFERENCE;
    }),
    ("reference-blocks", |s| {
        layers(s, "(ad)*3(ae)*58");
        s.architecture.mtp = 0;
        s.layout.accounting = Accounting::REFERENCE;
    }),
    ("reference-lacks", |s| (s.layout.accounting, s.architecture.norm) = (Accounting::REFERENCE, Norm::Layer)),
    ("fp8-engine", |s| s.layout.precision.compute = Compute::Fp8Blockwise),
    ("fp8-version", |s| {
        in_fp8(s, Compute::Fp8Blockwise);
        set(s, Key::AccountingVersion, MegatronVersion::V011 as u64);
    }),
    ("fp8-weights", |s| {
        in_fp8(s, Compute::Fp8Blockwise);
        s.layout.precision.weights = Dtype::Fp8;
    }),
    ("fp8-attention", |s| {
        mix(s, KDA, &[(Key::MixerHeads, 32)]);
        in_fp8(s, Compute::Fp8Current);
    }),
    ("fp8-lacks", |s| {
        in_fp8(s, Compute::Fp8Blockwise);
        s.architecture.experts.latent = 1024;
    }),
    ("fp8-device", |s| {
        in_fp8(s, Compute::Fp8Blockwise);
        s.layout.device = Device::A100Gb80;
    }),
    ("fp8-delayed-modules", |s| {
        in_fp8(s, Compute::Fp8Delayed);
        (s.layout.recompute, s.layout.modules.norms) = (Recompute::Selective, Switch::On);
    }),
    ("amax-history-unused", |s| {
        in_fp8(s, Compute::Fp8Current);
        s.layout.precision.amax_history = 1024;
    }),
    ("full-every-window", |s| {
        s.architecture.attention = gqa(128, 8);
        s.set(Key::AttentionFullEvery, 2);
    }),
    ("full-every-layers", |s| {
        layers(s, "a*3A*58");
        s.architecture.attention = windowed();
    }),
    ("full-every-stages", |s| {
        serve(s);
        s.architecture.layers = Layers { dense: 0, moe: 900, ..Layers::DEFAULT };
        s.architecture.attention = windowed();
        (s.layout.mesh.pp, s.layout.stages) = (300, Stages::DEFAULT);
    }),
    ("serving-batch", |s| {
        serve(s);
        s.layout.batch.sequence = 4096;
    }),
    ("serving-recompute", |s| {
        serve(s);
        s.layout.recompute = Recompute::Full;
    }),
    ("serving-zero", |s| {
        serve(s);
        s.layout.zero = Zero::OPTIMIZER;
    }),
    ("serving-schedule", |s| {
        serve(s);
        s.layout.schedule = Schedule::Gpipe;
    }),
    ("serving-mla", |s| {
        serve(s);
        s.architecture.attention = gqa(128, 8);
        s.set(Key::ServingMla, MlaCache::Expanded as u64);
    }),
    ("cache-kept", |s| {
        serve(s);
        s.set(Key::ServingCache, Dtype::None as u64);
    }),
    ("state-kept", |s| {
        serve(s);
        s.set(Key::ServingState, Dtype::None as u64);
    }),
    ("fits-64-bits", |s| s.layout.batch.sequence = NUMBER_MAX),
    ("fits-device", |s| (s.layout.device, s.layout.recompute) = (Device::H200, Recompute::None)),
];

fn set(spec: &mut Spec, key: Key, code: u64) {
    spec.set(key, code);
}

/// Computes in fp8, as Transformer Engine does it.
fn in_fp8(spec: &mut Spec, compute: Compute) {
    let options = MegatronCore { implementation: Implementation::TransformerEngine, ..MegatronCore::DEFAULT };
    (spec.layout.accounting, spec.layout.precision.compute) = (Accounting::MegatronCore(options), compute);
}

/// A list of the same 61 layers.
fn layers(spec: &mut Spec, text: &str) {
    spec.architecture.layers.list = LayerList::parse(text);
}

/// Attention as in DeepSeek-V4.
fn compress(spec: &mut Spec) {
    let Attention::Compressed(attention) = moe_model::preset::DEEPSEEK_V4_FLASH.attention else { unreachable!() };
    spec.architecture.attention = Attention::Compressed(attention);
}

/// Kinds of mixers, by their places.
const LOCAL: u64 = 0;
const DELTA: u64 = 1;
const KDA: u64 = 2;
const MAMBA1: u64 = 4;
const MAMBA2: u64 = 5;

/// A mixer of these numbers in every layer with experts.
fn mix(spec: &mut Spec, kind: u64, numbers: &[(Key, u64)]) {
    layers(spec, "a*3M*58");
    spec.choose(Key::Mixer, kind);
    for (key, number) in numbers {
        set(spec, *key, *number);
    }
}

/// A mixer that reads the keys and values of the layers in front, all but for these numbers as they are there.
fn share(spec: &mut Spec, text: &str, numbers: &[(Key, u64)]) {
    spec.architecture.attention = Attention::Gqa(Gqa { heads: 128, kv_heads: 8, head_dim: 64, ..Gqa::DEFAULT });
    let like = [(Key::MixerHeads, 128), (Key::MixerKvHeads, 8), (Key::MixerHeadDim, 64), (Key::MixerSharedKv, 1)];
    mix(spec, LOCAL, &like);
    layers(spec, text);
    for (key, number) in numbers {
        set(spec, *key, *number);
    }
}

fn list(text: &str) -> Stages {
    Stages { list: StageList::parse(text), ..Stages::EVEN }
}

/// Two chunks of each rank take turns.
fn interleave(spec: &mut Spec) {
    spec.layout.schedule = Schedule::Interleaved;
    spec.layout.stages = list("Et|(tt|)*15(tt|)*15mL");
    spec.architecture.layers.dense = 3;
    spec.architecture.layers.moe = 58;
}

/// The same model on the same ranks, which serve.
fn serve(spec: &mut Spec) {
    let Layout { mesh, stages, placement, .. } = spec.layout;
    let serving = Service::Serving(Serving { requests: 16, context: 65_536, ..Serving::DEFAULT });
    spec.layout = Layout { mesh, stages, placement, serving, ..Layout::DEFAULT };
}

/// Every second layer has a window.
fn windowed() -> Attention {
    Attention::Gqa(Gqa { heads: 128, kv_heads: 8, head_dim: 128, window: 4096, full_every: 2, ..Gqa::DEFAULT })
}

fn gqa(heads: u64, kv_heads: u64) -> Attention {
    Attention::Gqa(Gqa { heads, kv_heads, head_dim: 128, ..Gqa::DEFAULT })
}

fn paper() -> Spec {
    *DeepSeekV3::PAPER.spec()
}

fn errors() -> impl Iterator<Item = &'static Law> {
    LAWS.iter()
}

/// The text of all files of one extension under a folder.
fn read_all(folder: &Path, extension: &str, text: &mut String) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            read_all(&path, extension, text);
        } else if path.extension().is_some_and(|other| other == extension) {
            text.push_str(&fs::read_to_string(&path).expect("the file can be read"));
        }
    }
}

#[test]
fn every_law_has_an_example() {
    let mut said = String::new();
    read_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui"), "stderr", &mut said);
    assert!(!said.is_empty(), "tests/ui holds messages");
    for id in errors().chain(ADVICE).map(|law| law.id).chain(["number-range"]) {
        assert!(said.contains(&format!("({id})")), "no case in tests/ui breaks `{id}`");
    }
}

#[test]
fn names_are_unique_and_in_kebab_case() {
    let mut names = BTreeSet::from(["number-range"]);
    for Law { id, .. } in LAWS.iter().chain(ADVICE) {
        assert!(names.insert(id), "two laws are called `{id}`");
        let is_part = |part: &str| {
            !part.is_empty() && part.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit())
        };
        assert!(id.split('-').all(is_part), "`{id}` is in kebab case");
    }
}

#[test]
fn reasons_are_one_line_without_full_stop() {
    for Law { id, why, at, .. } in LAWS.iter().chain(ADVICE) {
        assert!(!why.is_empty() && !why.contains('\n'), "the reason of `{id}` is one line");
        assert!(!why.ends_with(['.', ' ']), "the reason of `{id}` ends in its last word");
        assert!(
            why.starts_with(|first: char| first.is_lowercase() || first == '`'),
            "the reason of `{id}` is a clause"
        );
        assert!(!at.is_empty(), "`{id}` blames a key");
    }
}

/// One legal change of the paper's Spec for each piece of advice.
const COSTLY: &[Breach] = &[
    ("fp8-stored", |s| s.layout.precision.weights = Dtype::Fp8),
    ("vocab-padding", |s| s.architecture.vocab = 129_281),
    ("kv-replicated", |s| s.architecture.attention = gqa(128, 1)),
    ("mixer-kv-replicated", |s| mix(s, LOCAL, &[(Key::MixerHeads, 128), (Key::MixerKvHeads, 1)])),
    ("latent-replicated", serve),
    ("shared-kv-stages", |s| share(s, "a*3AM*57", &[])),
    ("kv-replicated-context", |s| {
        (s.architecture.attention, s.layout.mesh.cp, s.layout.mesh.context) = (gqa(128, 4), 4, Context::AllToAll);
    }),
    ("experts-unused", |s| {
        (s.architecture.layers.dense, s.architecture.layers.moe, s.layout.mesh.ep) = (61, 0, 1);
    }),
    ("expert-state-unsharded", |s| s.layout.mesh.ep = 64),
    ("idle-rank", |s| s.layout.stages = list("E|t*4|t*5|(t*4|)*12t*4mL")),
    ("pipeline-bubble", |s| s.layout.batch.count = 8),
    ("zero-in-pipeline", |s| s.layout.zero = s.layout.zero.at(ZeroStage::Gradients)),
    ("zero-experts-in-pipeline", |s| s.layout.zero.expert = ZeroStage::Gradients),
    ("zero-ways-replicas", |s| {
        (s.layout.zero.groups, s.layout.zero.ways) = (ZeroGroups::Uniform, 64);
        (s.architecture.layers, s.architecture.experts, s.layout.mesh.ep) =
            (Layers { dense: 61, moe: 0, ffn: 18_432, ..Layers::DEFAULT }, Experts::DEFAULT, 1);
    }),
    ("zero-ways-experts", |s| (s.layout.zero.groups, s.layout.zero.ways) = (ZeroGroups::Uniform, 32)),
];

#[test]
fn advice_is_no_error() {
    let plan = Plan::new(paper()).expect("the paper's layout is legal");
    assert!(plan.warnings().is_empty(), "{}", plan.warnings());
    assert_eq!(
        COSTLY.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        ADVICE.iter().map(|law| law.id).collect::<Vec<_>>()
    );
    for (id, change) in COSTLY {
        let plan = plan.changed(change).expect("advice is on what is legal");
        let warnings = plan.warnings();
        assert_eq!(warnings.iter().map(Violation::id).collect::<Vec<_>>(), [*id]);
        assert!(warnings.to_string().starts_with("warning: "), "{warnings}");
        for violation in warnings.iter() {
            assert_mends(plan.spec(), violation);
        }
    }
}

/// Asserts that what a violation suggests mends the law that it is of.
fn assert_mends(spec: &Spec, violation: &Violation) {
    let Some(law) = violation.law else { return };
    for value in [violation.below, violation.above].into_iter().flatten() {
        let mut mended = *spec;
        mended.set(violation.at, value);
        assert_eq!(mended.numbers().get(violation.at), Some(value), "{} takes {value}", violation.at.path());
        assert!(law.holds(&mended.numbers()), "{value} does not mend\n{}", violation.text(spec));
    }
}

#[test]
fn each_law_can_be_broken_and_mended() {
    assert!(judge(&paper()).is_empty(), "the Spec that is changed is valid");
    let broken: Vec<&str> = BREACHES.iter().map(|(id, _)| *id).collect();
    assert_eq!(broken, errors().map(|law| law.id).collect::<Vec<_>>(), "each law of the table is broken once");
    for (id, change) in BREACHES {
        let mut spec = paper();
        change(&mut spec);
        let violations = judge(&spec);
        let violation = violations.iter().find(|violation| violation.id() == *id);
        let violation = violation.unwrap_or_else(|| panic!("`{id}` is broken, not\n{violations}"));
        let is_of_budget = ["fits-64-bits", "fits-device"].contains(id);
        let suggests = violation.below.is_some() || violation.above.is_some() || !violation.help(&spec).is_empty();
        assert!(suggests || is_of_budget, "`{id}` suggests a value:\n{}", violation.text(&spec));
        for violation in violations.iter() {
            assert_mends(&spec, violation);
        }
    }
}

/// The laws of budgets suggest no numbers: other changes mend them.
#[test]
fn budgets_can_be_mended() {
    let (device, bits) = (&LAWS[LAWS.len() - 1], &LAWS[LAWS.len() - 2]);
    let mut spec = paper();
    spec.layout.device = Device::A100Gb80;
    spec.layout.headroom = percent(10);
    assert!(device.holds_for_budget(&spec) && judge(&spec).is_empty(), "55 GiB fit");
    spec.layout.recompute = Recompute::None;
    assert!(!device.holds_for_budget(&spec), "all activations do not");
    spec.layout.batch.sequence = NUMBER_MAX;
    assert!(!bits.holds_for_budget(&spec), "nor does what outgrows 64 bits");
    assert_eq!(judge(&spec).first().map(|violation| violation.id()), Some("fits-64-bits"));
}

/// One number after the other is replaced, by all kinds of numbers; whatever is suggested then is legal.
#[test]
fn suggestions_mend_whatever_is_replaced() {
    const NUMBERS: &[u64] = &[0, 1, 2, 3, 5, 8, 12, 16, 17, 33, 48, 64, 100, 129, 300, 1024, 4095, 18_433, NUMBER_MAX];
    let mut with_gqa = paper();
    with_gqa.architecture.attention = gqa(128, 8);
    let mut judged = BTreeSet::new();
    let mut compressed = paper();
    compress(&mut compressed);
    let with_mixers = (0..Mixer::KINDS.len() as u64).map(|kind| {
        let mut spec = paper();
        mix(&mut spec, kind, &[]);
        let heads = [Key::MixerHeads, Key::MixerKvHeads, Key::MixerKeyHeads, Key::MixerValueHeads];
        for key in heads.into_iter().chain([Key::MixerInner, Key::MixerGroups]) {
            spec.set(key, 16);
        }
        spec
    });
    for valid in [paper(), with_gqa, compressed].into_iter().chain(with_mixers) {
        assert!(judge(&valid).is_empty(), "the Spec that is changed is valid");
        for &key in Key::ALL.iter().filter(|key| Spec::least(**key).is_some() && valid.numbers().get(**key).is_some()) {
            for &number in NUMBERS {
                let mut spec = valid;
                spec.set(key, number);
                for violation in judge(&spec).iter() {
                    judged.insert(violation.id());
                    assert_mends(&spec, violation);
                }
            }
        }
    }
    assert!(judged.len() > 20, "the sweep breaks most laws, broke {judged:?}");
}

/// Slips, each with all that is to be said of it: where, and what to write instead.
#[test]
fn one_slip_is_blamed_where_it_was_made() {
    let said = |change: fn(&mut Spec)| {
        let mut spec = paper();
        change(&mut spec);
        let violations = judge(&spec);
        violations
            .iter()
            .map(|violation| (violation.id(), violation.at.path(), violation.below, violation.above))
            .collect::<Vec<_>>()
    };
    // A block of 127: attention, dense layers and experts all have it.
    let blocks = said(|s| {
        (s.layout.precision.weights, s.layout.precision.block) = (Dtype::Fp8, 127);
    });
    assert!(blocks.iter().all(|(_, at, ..)| *at == "precision.block"), "{blocks:?}");
    assert_eq!(
        said(|s| {
            (s.architecture.experts.shared_ffn, s.layout.placement.shared_experts) = (2049, Split::Split);
        }),
        [("shared-ffn-tp", "experts.shared_ffn", Some(2048), Some(2050))]
    );
    // Groups of no whole number of experts hold no number that a token could be held against.
    assert_eq!(said(|s| s.architecture.experts.groups = 1000).len(), 1);
    // A list one stage short under a schedule of two chunks: two laws, and one list mends both.
    let short = said(|s| {
        (s.layout.stages, s.layout.schedule) = (list("Et|(tt|)*29mL"), Schedule::Interleaved);
    });
    assert_eq!(short.iter().map(|(id, ..)| *id).collect::<Vec<_>>(), ["list-layers", "list-stages"]);
}

/// Layouts of published recipes (Megatron-Bridge, DeepSeek-V3 on 1024 ranks).
#[test]
fn modules_may_stand_before_the_loss() {
    let mut spec = paper();
    spec.layout.stages = list("Et*3|(tt|)*29m|L");
    (spec.layout.mesh.dp, spec.layout.mesh.pp, spec.layout.mesh.ep) = (64, 8, 64);
    (spec.layout.schedule, spec.layout.target) = (Schedule::Interleaved, Target::MegatronCore);
    assert!(judge(&spec).is_empty(), "{}", judge(&spec));
}
