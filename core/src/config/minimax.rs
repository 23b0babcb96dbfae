//! `minimax_m2` (MiniMax-M2 and its successors): experts in every layer, queries and keys normalised over all heads.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::parts::{all_moe, ends, gqa_of_width, local_experts};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, CorrectionBias, Experts, Gqa, QkNorm};

pub(super) const MINIMAX_M2: ModelType = ModelType {
    name: "minimax_m2",
    class: &[r#"["MiniMaxM2ForCausalLM"]"#],
    naming: &Naming::MIXTRAL,
    idle: Idle {
        only: &[
            ("hidden_act", &[r#""silu""#]),
            ("qk_norm_type", &[r#""per_layer""#]),
            ("shared_intermediate_size", &["0"]),
            ("use_qk_norm", &["true"]),
            ("use_routing_bias", &["true"]),
        ],
        // Its config counts multi-token-prediction modules, but neither the published code nor the checkpoint has one.
        ignored: &[
            "mtp_transformer_layers",
            "num_mtp_modules",
            "rotary_dim",
            "router_jitter_noise",
            "scoring_func",
            "use_mtp",
        ],
    },
    read: minimax_m2,
};

fn minimax_m2(fields: &mut Fields<'_>) -> Architecture {
    let (attention, experts) = (gqa_of_width(fields), local_experts(fields));
    Architecture {
        layers: all_moe(fields),
        attention: Attention::Gqa(Gqa { qk_norm: QkNorm::Full, ..attention }),
        experts: Experts { correction_bias: CorrectionBias::On, ..experts },
        ..ends(fields)
    }
}
