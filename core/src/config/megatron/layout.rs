//! What of Megatron-LM's arguments lays a model out and runs it.

use super::super::fields::Fields;
use super::architecture::{decimal, is_positive};
use super::{MegatronRun, bounded, values};
use crate::spec::{
    Accounting, AuxLoss, Batch, Capacity, Compute, Context, CoreAttention, Cublas, Dispatcher, Dropless, Dtype,
    ExpertKernel, Factor, GatedActivation, Implementation, Layout, Loss, MegatronCore, MegatronVersion, Mesh, Modules,
    NormCode, Placement, Precision, Recompute, RouterFormat, Routing, Schedule, Score, Spec, StageList, Stages, Switch,
    Target, Weighed, Zero, ZeroStage,
};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::ToString as _;

pub(super) fn read(fields: &mut Fields<'_>, run: &MegatronRun, spec: &mut Spec) {
    let mesh = mesh(fields, run, spec);
    let stages = stages(fields);
    let is_sharded = fields.switch("use-distributed-optimizer", Switch::Off).is_on();
    let instances = fields.optional("num-distributed-optimizer-instances").unwrap_or(1);
    let state = if is_sharded { ZeroStage::Optimizer } else { ZeroStage::None };
    let (recompute, [recompute_layers, recompute_together]) = recompute(fields);
    spec.layout = Layout {
        mesh,
        stages,
        schedule: if mesh.vpp > 1 { Schedule::Interleaved } else { Schedule::OneFOneB },
        zero: Zero { instances: if is_sharded { instances } else { 1 }, ..Zero::both(state) },
        placement: Placement {
            vocab_multiple: fields.optional("make-vocab-size-divisible-by").unwrap_or(128),
            ..Placement::DEFAULT
        },
        precision: precision(fields),
        batch: batch(fields, &mesh),
        recompute,
        recompute_layers,
        recompute_together,
        modules: if recompute == Recompute::Selective { modules(fields) } else { Modules::DEFAULT },
        routing: routing(fields),
        accounting: Accounting::MegatronCore(accounting(fields, run, spec.architecture.layers.gated)),
        target: Target::MegatronCore,
        device: run.device,
        ..Layout::DEFAULT
    };
}

fn mesh(fields: &mut Fields<'_>, run: &MegatronRun, spec: &Spec) -> Mesh {
    let degree = |fields: &mut Fields<'_>, name| fields.optional(name).unwrap_or(1).max(1);
    let tp = degree(fields, "tensor-model-parallel-size");
    let pp = degree(fields, "pipeline-model-parallel-size");
    let cp = degree(fields, "context-parallel-size");
    let etp = fields.optional("expert-tensor-parallel-size").unwrap_or(tp);
    // Without tensor parallelism Megatron-LM takes it back.
    let is_sequence = fields.switch("sequence-parallel", Switch::Off).is_on() && tp > 1;
    let context = match fields.word("cp-comm-type", &[r#""p2p""#, r#""a2a""#, r#""all_gather""#]) {
        Some(1) => Context::AllToAll,
        Some(2) => Context::Contiguous,
        _ => Context::Ring,
    };
    let world = run.world.unwrap_or_else(|| {
        fields.lacks("world_size");
        0
    });
    Mesh {
        dp: 0,
        tp,
        pp,
        vpp: chunks(fields, pp, spec.architecture.layers.count()),
        cp,
        ep: degree(fields, "expert-model-parallel-size"),
        etp: if spec.architecture.layers.moe > 0 { etp } else { 1 },
        context: if cp > 1 { context } else { Context::Contiguous },
        world,
        sequence_parallel: if is_sequence { Switch::On } else { Switch::Off },
        ..Mesh::DEFAULT
    }
}

/// Chunks of a rank of the pipeline; 0 where nothing or a stage list says so.
fn chunks(fields: &mut Fields<'_>, pp: u64, layers: u64) -> u64 {
    const LAYERS: &str = "num-layers-per-virtual-pipeline-stage";
    let chunks = fields.optional("num-virtual-stages-per-pipeline-rank").unwrap_or(0);
    let Some(each) = fields.optional(LAYERS) else { return chunks };
    let all = bounded(pp).saturating_mul(bounded(each));
    if all == 0 || !layers.is_multiple_of(all) {
        let how = format!("does not divide the {layers} layers over {pp} pipeline ranks");
        fields.contradicts(LAYERS, &["num-layers"], how);
        return chunks;
    }
    layers / all
}

fn stages(fields: &mut Fields<'_>) -> Stages {
    const LIST: &str = "pipeline-model-parallel-layout";
    let weighed = |is_on: Switch| if is_on.is_on() { Weighed::AsLayer } else { Weighed::Apart };
    let mut stages = Stages {
        first: fields.optional("decoder-first-pipeline-num-layers").unwrap_or(0),
        last: fields.optional("decoder-last-pipeline-num-layers").unwrap_or(0),
        embedding: weighed(fields.switch("account-for-embedding-in-pipeline-split", Switch::Off)),
        loss: weighed(fields.switch("account-for-loss-in-pipeline-split", Switch::Off)),
        ..Stages::DEFAULT
    };
    if let Some(text) = fields.text(LIST) {
        match StageList::read(text) {
            Ok(list) => stages.list = list,
            Err(fault) => {
                let how = format!("is not a pipeline layout: {}", fault.text().as_str());
                fields.contradicts(LIST, &[], how);
            }
        }
    }
    stages
}

fn precision(fields: &mut Fields<'_>) -> Precision {
    let weights = match (fields.switch("bf16", Switch::Off).is_on(), fields.switch("fp16", Switch::Off).is_on()) {
        (true, _) => Dtype::Bf16,
        (false, true) => Dtype::Fp16,
        (false, false) => Dtype::Fp32,
    };
    let is_reduced = fields.switch("grad-reduce-in-bf16", Switch::Off).is_on();
    // Gradients of bf16 weights add up in fp32 unless they are reduced as they are.
    fields.pass("accumulate-allreduce-grads-in-fp32");
    let (compute, amax_history) = compute(fields);
    Precision {
        weights,
        gradients: if weights == Dtype::Bf16 && is_reduced { Dtype::Bf16 } else { Dtype::Fp32 },
        master: if weights == Dtype::Fp32 { Dtype::None } else { Dtype::Fp32 },
        activations: weights,
        compute,
        amax_history,
        ..Precision::DEFAULT
    }
}

/// What linear layers multiply in, and how many steps delayed scaling remembers. Which of the two FP8 formats gradients have
/// changes no size.
fn compute(fields: &mut Fields<'_>) -> (Compute, u64) {
    const FORMATS: &[&str] = &[r#""hybrid""#, r#""e4m3""#];
    const RECIPES: &[&str] = &[r#""delayed""#, r#""tensorwise""#, r#""blockwise""#];
    if fields.word("fp8-format", FORMATS).is_none() {
        fields.pass("fp8-recipe");
        fields.pass("fp8-amax-history-len");
        return (Compute::Activations, 0);
    }
    let compute = match fields.word("fp8-recipe", RECIPES) {
        Some(1) => Compute::Fp8Current,
        Some(2) => Compute::Fp8Blockwise,
        _ => Compute::Fp8Delayed,
    };
    if compute == Compute::Fp8Delayed {
        return (compute, fields.optional("fp8-amax-history-len").unwrap_or(0));
    }
    fields.pass("fp8-amax-history-len");
    (compute, 0)
}

/// Micro-batches follow from the batch of the whole job.
fn batch(fields: &mut Fields<'_>, mesh: &Mesh) -> Batch {
    const GLOBAL: &str = "global-batch-size";
    let (sequence, micro) = (fields.positive("seq-length"), fields.positive("micro-batch-size"));
    let dp = mesh.settled().dp;
    let global = fields.optional(GLOBAL).unwrap_or_else(|| bounded(micro).saturating_mul(bounded(dp)));
    let each = bounded(micro).saturating_mul(bounded(dp));
    if mesh.world > 0 && mesh.is_whole() && (each == 0 || !global.is_multiple_of(each)) {
        let how = format!("is not a multiple of `micro-batch-size` = {micro} times {dp} replicas");
        fields.contradicts(GLOBAL, &["micro-batch-size"], how);
    }
    Batch { sequence, micro, count: global.checked_div(each).unwrap_or(1).max(1), ..Batch::DEFAULT }
}

/// Of whole layers also how many are computed again, 0 for all, and how many together, 0 for each by itself.
fn recompute(fields: &mut Fields<'_>) -> (Recompute, [u64; 2]) {
    let words = &[r#""selective""#, r#""full""#];
    let granularity = fields.word("recompute-granularity", words);
    if fields.switch("recompute-activations", Switch::Off).is_on() {
        return (Recompute::Selective, [0; 2]);
    }
    match granularity {
        Some(0) => (Recompute::Selective, [0; 2]),
        Some(_) => {
            let is_block = fields.word("recompute-method", &[r#""uniform""#, r#""block""#]) == Some(1);
            let layers = fields.optional("recompute-num-layers").unwrap_or(1);
            match (is_block, layers) {
                // The first so many layers of each chunk; of none nothing.
                (true, 0) => (Recompute::None, [0; 2]),
                (true, layers) => (Recompute::Full, [layers, 0]),
                // Runs of no layers never end.
                (false, 0) => {
                    let how = "is the length of runs of layers, none of which is empty".to_owned();
                    fields.contradicts("recompute-num-layers", &["recompute-method"], how);
                    (Recompute::Full, [0; 2])
                }
                (false, 1) => (Recompute::Full, [0; 2]),
                (false, layers) => (Recompute::Full, [0, layers]),
            }
        }
        None => {
            fields.pass("recompute-method");
            fields.pass("recompute-num-layers");
            (Recompute::None, [0; 2])
        }
    }
}

fn modules(fields: &mut Fields<'_>) -> Modules {
    const NAME: &str = "recompute-modules";
    let mut modules = Modules::DEFAULT;
    let Some(value) = fields.raw(NAME) else { return Modules { core_attention: Switch::On, ..modules } };
    for word in values::words(value) {
        let module = match &*word {
            "core_attn" => &mut modules.core_attention,
            "mla_up_proj" => &mut modules.latent_up,
            "layernorm" => &mut modules.norms,
            "moe_act" => &mut modules.activation,
            "shared_experts" => &mut modules.shared_experts,
            "moe" => &mut modules.experts,
            "mlp" => &mut modules.dense,
            _ => {
                fields.contradicts(NAME, &[], format!("holds `{word}`, which is not modelled"));
                continue;
            }
        };
        *module = Switch::On;
    }
    modules
}

fn routing(fields: &mut Fields<'_>) -> Routing {
    match decimal(fields, "moe-expert-capacity-factor") {
        Some(factor) => Routing::Capacity(Capacity { factor: Factor::thousandths(factor) }),
        None => Routing::Dropless(Dropless::DEFAULT),
    }
}

fn accounting(fields: &mut Fields<'_>, run: &MegatronRun, gated: Switch) -> MegatronCore {
    let is_local = matches!(fields.word("transformer-impl", &[r#""transformer_engine""#, r#""local""#]), Some(1));
    let is_grouped = fields.switch("moe-grouped-gemm", Switch::Off).is_on();
    let is_gathered =
        matches!(fields.word("moe-token-dispatcher-type", &[r#""allgather""#, r#""alltoall""#]), None | Some(0));
    // Without a gate the activation is fused with a bias, which there is none of.
    let is_fused = !fields.switch("no-bias-swiglu-fusion", Switch::Off).is_on() && gated.is_on();
    // A tenth of attention and of residual streams is dropped out by default.
    let is_dropped = |fields: &mut Fields<'_>, name| !fields.has(name) || is_positive(fields, name);
    let (attention, hidden) = (is_dropped(fields, "attention-dropout"), is_dropped(fields, "hidden-dropout"));
    MegatronCore {
        version: MegatronVersion::V020,
        implementation: if is_local { Implementation::Local } else { Implementation::TransformerEngine },
        cublas: cublas(fields, run),
        fused_gradients: match fields.switch("no-gradient-accumulation-fusion", Switch::Off) {
            Switch::On => Switch::Off,
            Switch::Off => Switch::On,
        },
        loss: loss(fields, run),
        core: core(fields, run, is_local),
        experts: match (is_grouped, is_fused) {
            (false, _) => ExpertKernel::Sequential,
            (true, true) => ExpertKernel::GroupedCompiled,
            (true, false) => ExpertKernel::Grouped,
        },
        activation: if is_fused { GatedActivation::Fused } else { GatedActivation::Unfused },
        dropout: if attention || hidden { Switch::On } else { Switch::Off },
        score: score(fields),
        aux_loss: aux_loss(fields),
        router: match fields.word("moe-router-dtype", &[r#""fp32""#]) {
            Some(_) => RouterFormat::Fp32,
            None => RouterFormat::Activations,
        },
        dispatcher: if is_gathered { Dispatcher::AllGather } else { Dispatcher::AllToAll },
        pad: fields.switch("moe-pad-expert-input-to-capacity", Switch::Off),
        shared_overlap: fields.switch("moe-shared-expert-overlap", Switch::Off),
        norms: NormCode::Fused,
        distribute: fields.switch("distribute-saved-activations", Switch::Off),
    }
}

/// megatron-core's own attention is unfused, and so is Transformer Engine's where it is told to be; both have a fused softmax.
/// By itself Transformer Engine takes cuDNN's kernel from Hopper on, and FlashAttention before
/// (`get_attention_backend` of `dot_product_attention/utils.py`).
fn core(fields: &mut Fields<'_>, run: &MegatronRun, is_local: bool) -> CoreAttention {
    let words = &[r#""auto""#, r#""flash""#, r#""fused""#, r#""unfused""#, r#""local""#];
    let backend = fields.word("attention-backend", words);
    let is_masked = !fields.switch("no-masked-softmax-fusion", Switch::Off).is_on();
    match backend {
        _ if is_local && !is_masked => CoreAttention::Unfused,
        Some(3 | 4) => CoreAttention::FusedSoftmax,
        _ if is_local => CoreAttention::FusedSoftmax,
        Some(1) => CoreAttention::Flash,
        Some(2) => CoreAttention::Cudnn,
        _ if run.device.compute_capability() >= 9 => CoreAttention::Cudnn,
        _ => CoreAttention::Flash,
    }
}

fn loss(fields: &mut Fields<'_>, run: &MegatronRun) -> Loss {
    // The version from which on Transformer Engine writes gradients beside logits.
    const BESIDE: [u64; 2] = [2, 18];
    let is_fused = fields.switch("cross-entropy-loss-fusion", Switch::Off).is_on();
    let is_engine = matches!(fields.word("cross-entropy-fusion-impl", &[r#""native""#, r#""te""#]), Some(1));
    match run.transformer_engine {
        _ if !is_fused || !is_engine => Loss::VocabParallel,
        Some(version) if version < BESIDE => Loss::EngineInPlace,
        _ => Loss::Engine,
    }
}

fn score(fields: &mut Fields<'_>) -> Score {
    let is_before = fields.switch("moe-router-pre-softmax", Switch::Off).is_on();
    match fields.word("moe-router-score-function", &[r#""softmax""#, r#""sigmoid""#]) {
        Some(1) => Score::Sigmoid,
        _ if is_before => Score::PreSoftmax,
        _ => Score::Softmax,
    }
}

fn aux_loss(fields: &mut Fields<'_>) -> AuxLoss {
    let words = &[r#""aux_loss""#, r#""seq_aux_loss""#, r#""global_aux_loss""#, r#""sinkhorn""#, r#""none""#];
    let kind = fields.word("moe-router-load-balancing-type", words);
    let is_on = is_positive(fields, "moe-aux-loss-coeff");
    let has_z = is_positive(fields, "moe-z-loss-coeff");
    match kind {
        Some(3 | 4) => AuxLoss::None,
        _ if !is_on => AuxLoss::None,
        Some(1) => AuxLoss::Sequence,
        _ if has_z => AuxLoss::BatchAndZ,
        _ => AuxLoss::Batch,
    }
}

fn cublas(fields: &mut Fields<'_>, run: &MegatronRun) -> Cublas {
    const NAME: &str = "CUBLAS_WORKSPACE_CONFIG";
    match run.environment.get(NAME).map(|value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)) {
        None => Cublas::Default,
        Some(value) if value == ":4096:8" => Cublas::Large,
        Some(value) if value == ":16:8" => Cublas::Small,
        Some(value) => {
            fields.refuse_value(NAME, &value.into(), "workspaces other than `:4096:8` and `:16:8` are not modelled");
            Cublas::Default
        }
    }
}
