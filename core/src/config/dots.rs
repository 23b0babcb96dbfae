//! `dots1` (dots.llm1): DeepSeek-V3's experts behind attention with normalised queries and keys.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::parts::{bias, dense_first, ends, experts, gqa, grouped};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Bias, CorrectionBias, Experts, Gqa, QkNorm, Switch};

pub(super) const DOTS1: ModelType = ModelType {
    name: "dots1",
    class: &[r#"["Dots1ForCausalLM"]"#],
    naming: &Naming::LLAMA,
    idle: Idle {
        only: &[("hidden_act", &[r#""silu""#]), ("topk_method", &[r#""noaux_tc""#])],
        // A window masks scores, and changes no tensor.
        ignored: &["max_window_layers", "norm_topk_prob", "routed_scaling_factor", "scoring_func", "sliding_window"],
    },
    read: dots1,
};

fn dots1(fields: &mut Fields<'_>) -> Architecture {
    let (ends, experts) = (ends(fields), experts(fields));
    let attention = gqa(fields, ends.hidden);
    fields.each("layer_types", &["full_attention", "sliding_attention"]);
    Architecture {
        layers: dense_first(fields),
        attention: Attention::Gqa(Gqa {
            bias: bias(fields, Bias::All, Switch::Off),
            qk_norm: QkNorm::Head,
            ..attention
        }),
        experts: Experts { correction_bias: CorrectionBias::On, ..grouped(fields, experts) },
        ..ends
    }
}
