//! What of megatron-core decides which tensors it saves for backward: the options of `accounting: megatron_core`.

use super::pytorch::NormCode;
use super::schema::{
    Field, Value, Word, field_code, field_decode, field_default, field_in_range, field_required, field_type,
    field_value, group, words,
};
use super::values::Switch;
use crate::key::{Key, KeySet, Numbers};

words! {
    /// The version that counts.
    MegatronVersion {
        /// megatron-core 0.11.0 (March 2025): routing weights are applied to what experts return.
        V011 = "v0_11",
        /// megatron-core 0.16.1.
        V016 = "v0_16",
        /// Megatron-LM 0.20.0 (git d98e8a64, 2026-08-22).
        V020 = "v0_20",
    }
}

words! {
    /// Whose modules compute (`--transformer-impl`).
    Implementation {
        /// megatron-core's own.
        Local = "local",
        /// Transformer Engine's, which hold workspaces of their own.
        TransformerEngine = "transformer_engine",
    }
}

words! {
    /// The workspace that PyTorch gives cuBLAS (`CUBLAS_WORKSPACE_CONFIG`).
    Cublas {
        /// PyTorch's default: 32 MiB on Hopper and later, before that `:4096:2:16:8`, which is 8.125 MiB.
        Default = "default",
        /// `:4096:8`, 32 MiB: one of the two with which results are deterministic.
        Large = "large",
        /// `:16:8`, 128 KiB: the other.
        Small = "small",
    }
}

words! {
    /// How the loss is computed over logits of tensor-parallel ranks.
    Loss {
        /// megatron-core's own, compiled or not: the softmax in fp32.
        VocabParallel = "vocab_parallel",
        /// Transformer Engine's from 2.18 on: the gradient in fp32 (`--cross-entropy-fusion-impl te`).
        Engine = "transformer_engine",
        /// Transformer Engine's before that: the gradient in the place of logits.
        EngineInPlace = "transformer_engine_in_place",
    }
}

words! {
    /// How attention is computed.
    CoreAttention {
        /// `DotProductAttention`: scores, their softmax in fp32 and in the model's format are kept.
        Unfused = "unfused",
        /// The same with the fused causal softmax, which keeps one of them.
        FusedSoftmax = "fused_softmax",
        /// PyTorch's scaled dot product, FlashAttention.
        Flash = "flash",
        /// PyTorch's scaled dot product, cuDNN.
        Cudnn = "cudnn",
        /// PyTorch's scaled dot product, memory-efficient.
        Efficient = "efficient",
    }
}

words! {
    /// How the experts of a rank run.
    ExpertKernel {
        /// One after the other (`SequentialMLP`).
        Sequential = "sequential",
        /// In one grouped matrix product (`GroupedMLP`), the activation between them as written.
        Grouped = "grouped",
        /// The same with the activation compiled (`torch.compile`).
        GroupedCompiled = "grouped_compiled",
    }
}

words! {
    /// What the activation of a gated network keeps.
    GatedActivation {
        /// Its input (`bias_activation_fusion`).
        Fused = "fused",
        /// What each of its operations reads.
        Unfused = "unfused",
        /// Its input in fp8 (`activation_func_fp8_input_store`), in networks that every token visits.
        Fp8Input = "fp8_input",
    }
}

words! {
    /// How scores of experts become weights.
    Score {
        /// The sigmoid of each (DeepSeek-V3).
        Sigmoid = "sigmoid",
        /// The softmax of those chosen.
        Softmax = "softmax",
        /// The softmax of all (`moe_router_pre_softmax`).
        PreSoftmax = "pre_softmax",
    }
}

words! {
    /// The loss that balances experts.
    AuxLoss {
        /// None.
        None = "none",
        /// Over all tokens of a micro-batch.
        Batch = "batch",
        /// Over those of each sequence.
        Sequence = "sequence",
        /// Over all tokens, and beside it one that keeps logits small (`moe_z_loss_coeff`).
        BatchAndZ = "batch_and_z",
    }
}

words! {
    /// The format of routing weights (`moe_router_dtype`).
    RouterFormat {
        /// Single precision.
        Fp32 = "fp32",
        /// That of activations.
        Activations = "activations",
    }
}

words! {
    /// How tokens get to their experts (`moe_token_dispatcher_type`).
    Dispatcher {
        /// Each rank sends what others need.
        AllToAll = "all_to_all",
        /// Each rank gathers the tokens of all.
        AllGather = "all_gather",
    }
}

group! {
    /// What megatron-core's own modules save for backward, without Transformer Engine, and the largest of what they work on.
    ///
    /// Measured, tensor by tensor, for grouped-query attention and MLA, dense layers and layers with experts; what else a
    /// model has is counted by the same rules.
    MegatronCore {
        /// The version that counts.
        version: MegatronVersion = AccountingVersion, default MegatronVersion::V016;
        /// Whose modules compute.
        implementation: Implementation = AccountingImplementation, default Implementation::Local;
        /// The workspace that PyTorch gives cuBLAS.
        cublas: Cublas = AccountingCublas, default Cublas::Default;
        /// Whether products add gradients of weights to what has accumulated (`gradient_accumulation_fusion`): Transformer
        /// Engine then keeps a tensor for each shape of a weight, which stands for its gradient.
        fused_gradients: Switch = AccountingFusedGradients, default Switch::Off;
        /// How the loss is computed.
        loss: Loss = AccountingLoss, default Loss::VocabParallel;
        /// How attention is computed.
        core: CoreAttention = AccountingCore, default CoreAttention::Flash;
        /// How the experts of a rank run.
        experts: ExpertKernel = AccountingExperts, default ExpertKernel::Grouped;
        /// What the activation of a gated network keeps.
        activation: GatedActivation = AccountingActivation, default GatedActivation::Fused;
        /// Whether attention and residual streams are dropped out.
        dropout: Switch = AccountingDropout, default Switch::Off;
        /// How scores of experts become weights.
        score: Score = AccountingScore, default Score::Softmax;
        /// The loss that balances experts.
        aux_loss: AuxLoss = AccountingAuxLoss, default AuxLoss::Batch;
        /// The format of routing weights.
        router: RouterFormat = AccountingRouter, default RouterFormat::Fp32;
        /// How tokens get to their experts.
        dispatcher: Dispatcher = AccountingDispatcher, default Dispatcher::AllToAll;
        /// Under `routing: capacity`, whether each expert's slots are filled up (`moe_pad_expert_input_to_capacity`).
        pad: Switch = AccountingPad, default Switch::Off;
        /// Whether shared experts run beside the all-to-all (`moe_shared_expert_overlap`).
        shared_overlap: Switch = AccountingSharedOverlap, default Switch::Off;
        /// How norms run.
        norms: NormCode = AccountingNorms, default NormCode::Fused;
        /// Whether tensor-parallel ranks share out the inputs that recomputation keeps (`distribute_saved_activations`).
        distribute: Switch = AccountingDistribute, default Switch::Off;
    }
}
