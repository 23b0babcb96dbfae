//! Small models, each with what a published one has.

use moe_model_core::spec::{
    Accounting, Architecture, Attention, Batch, Bias, CorrectionBias, Dtype, Experts, Gqa, Layers, Layout, Mla,
    Precision, QkNorm, Spec, Switch,
};
use moe_model_gpu::Numerics;
use moe_model_gpu::ops::activation::Activation;
use moe_model_gpu::ops::router::Score;

/// A model and what it computes.
pub(crate) type Model = (Spec, Numerics);

const BASE: Architecture = Architecture {
    hidden: 12,
    vocab: 19,
    layers: Layers { moe: 2, ..Layers::DEFAULT },
    experts: Experts { routed: 4, active: 2, ffn: 8, ..Experts::DEFAULT },
    ..Architecture::DEFAULT
};

const HEADS: Gqa = Gqa { heads: 4, kv_heads: 2, head_dim: 4, ..Gqa::DEFAULT };

fn model(architecture: Architecture, change: impl FnOnce(&mut Numerics)) -> Model {
    let layout = Layout {
        precision: Precision { weights: Dtype::Fp32, activations: Dtype::Fp32, ..Precision::DEFAULT },
        batch: Batch { sequence: 6, count: 2, ..Batch::DEFAULT },
        accounting: Accounting::REFERENCE,
        ..Layout::DEFAULT
    };
    let mut numerics = Numerics::usual(&architecture);
    change(&mut numerics);
    (Spec { architecture, layout }, numerics)
}

/// Grouped queries and experts.
pub(crate) fn mixtral() -> Model {
    model(Architecture { attention: Attention::Gqa(HEADS), ..BASE }, |_| ())
}

/// Latent attention, a dense layer, a shared expert, groups of experts and a correction bias.
pub(crate) fn deepseek_v3() -> Model {
    let mla = Mla { heads: 2, q_rank: 7, kv_rank: 5, nope: 3, rope: 4, value: 5, ..Mla::DEFAULT };
    let experts = Experts {
        routed: 8,
        shared: 1,
        groups: 4,
        active_groups: 2,
        correction_bias: CorrectionBias::On,
        ..BASE.experts
    };
    let layers = Layers { dense: 1, moe: 2, ffn: 10, ..Layers::DEFAULT };
    model(Architecture { layers, attention: Attention::Mla(mla), experts, ..BASE }, |_| ())
}

/// Biases everywhere, sinks, a window in every second layer and a clamped activation.
pub(crate) fn gpt_oss() -> Model {
    let gqa = Gqa { bias: Bias::All, sinks: Switch::On, window: 3, full_every: 2, ..HEADS };
    let experts = Experts { bias: Switch::On, router_bias: Switch::On, ..BASE.experts };
    model(Architecture { attention: Attention::Gqa(gqa), experts, ..BASE }, |numerics| {
        numerics.score = Score::SoftmaxOfChosen;
        numerics.routed_activation = Activation::ClampedSwiGlu { limit: 7.0, alpha: 1.702 };
    })
}

/// A gate on the shared experts, norms and biases of heads, one table for embedding and head.
pub(crate) fn qwen() -> Model {
    let gqa = Gqa { bias: Bias::Qkv, qk_norm: QkNorm::Head, value_dim: 6, ..HEADS };
    let experts = Experts { shared: 1, shared_ffn: 14, shared_gate: Switch::On, ..BASE.experts };
    let architecture = Architecture { tied_embeddings: Switch::On, attention: Attention::Gqa(gqa), experts, ..BASE };
    model(architecture, |numerics| numerics.normalise = false)
}

/// All of them, by name.
pub(crate) fn all() -> [(&'static str, Model); 4] {
    [("mixtral", mixtral()), ("deepseek_v3", deepseek_v3()), ("gpt_oss", gpt_oss()), ("qwen", qwen())]
}
