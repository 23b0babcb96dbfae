//! What of frameworks whose modules are plain PyTorch decides which tensors they save for backward: the options of
//! `accounting: transformers` and `accounting: torchtitan`.

use super::megatron::{RouterFormat, Score};
use super::schema::{
    Field, Value, Word, field_code, field_decode, field_default, field_in_range, field_required, field_type,
    field_value, group, words,
};
use super::values::Switch;
use crate::key::{Key, KeySet, Numbers};

words! {
    /// Which of PyTorch's kernels computes its scaled dot product (`torch.nn.attention.SDPBackend`).
    Backend {
        /// None: matrix products and a softmax, all in fp32 (`MATH`), as where no kernel fits.
        Math = "math",
        /// FlashAttention (`FLASH_ATTENTION`).
        Flash = "flash",
        /// The memory-efficient kernel (`EFFICIENT_ATTENTION`).
        Efficient = "efficient",
        /// cuDNN (`CUDNN_ATTENTION`).
        Cudnn = "cudnn",
    }
}

words! {
    /// How transformers computes attention (`attn_implementation`).
    AttentionCode {
        /// As written: scores, their softmax in fp32 and in the model's format are kept.
        Eager = "eager",
        /// By PyTorch's scaled dot product.
        Sdpa = "sdpa",
    }
}

words! {
    /// How transformers runs routed experts (`experts_implementation`).
    RoutedCode {
        /// One after the other.
        Eager = "eager",
        /// In one grouped matrix product.
        GroupedMm = "grouped_mm",
    }
}

words! {
    /// How a norm runs that is one operation to the model.
    NormCode {
        /// In one kernel, which keeps its input.
        Fused = "fused",
        /// Taken apart into operations in fp32, as PyTorch does on a CPU.
        Composite = "composite",
    }
}

group! {
    /// What the modules of Hugging Face transformers 5.24 save for backward, on one rank: no parallelism but that of data.
    ///
    /// Measured, tensor by tensor, for Mixtral, Qwen3-MoE and DeepSeek-V3; what else a model has is counted by the same
    /// rules.
    Transformers {
        /// How attention is computed.
        attention: AttentionCode = AccountingAttention, default AttentionCode::Sdpa;
        /// Which kernel computes the scaled dot product.
        backend: Backend = AccountingBackend, default Backend::Flash;
        /// How routed experts run.
        routed: RoutedCode = AccountingRouted, default RoutedCode::GroupedMm;
        /// How scores of experts become weights.
        score: Score = AccountingScore, default Score::PreSoftmax;
        /// The format of routing weights: that of activations where the router casts them back (Qwen3-MoE).
        router: RouterFormat = AccountingRouter, default RouterFormat::Fp32;
        /// Whether the weights of a token's experts are made to sum to one (`norm_topk_prob`).
        normalised: Switch = AccountingNormalised, default Switch::On;
        /// Whether routers' logits are put out for the loss that balances experts (`output_router_logits`).
        router_logits: Switch = AccountingRouterLogits, default Switch::Off;
    }
}

group! {
    /// What the modules of torchtitan 0.3 save for backward, without tensor, context and expert parallelism; under
    /// `recompute: selective` what its list of operations says (`SelectiveAC`).
    ///
    /// Measured, tensor by tensor, for DeepSeek-V3; what else a model has is counted by the same rules.
    Torchtitan {
        /// Which kernel computes attention.
        backend: Backend = AccountingBackend, default Backend::Cudnn;
        /// How norms run.
        norms: NormCode = AccountingNorms, default NormCode::Fused;
        /// How scores of experts become weights.
        score: Score = AccountingScore, default Score::Sigmoid;
        /// The format that the router computes in; CPUs have no fp32 autocast.
        router: RouterFormat = AccountingRouter, default RouterFormat::Fp32;
        /// Whether the weights of a token's experts are made to sum to one (`route_norm`).
        normalised: Switch = AccountingNormalised, default Switch::On;
    }
}
