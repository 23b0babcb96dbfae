//! What a model computes beyond its sizes: the kinds and constants of its norms, positions, router and activations. They
//! change no tensor, so that a Spec does not have them; a `config.json` does.

use crate::ops::activation::Activation;
use crate::ops::rope::Pairs;
use crate::ops::router::Score;
use core::fmt;
use moe_model_core::spec::{Architecture, Attention, CorrectionBias};
use serde_json::Value;

/// Kinds and constants of a model's operations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Numerics {
    /// Added under the root of norms.
    pub norm_eps: f32,
    /// The base of rotary frequencies.
    pub rope_theta: f32,
    /// Which dimensions turn together.
    pub rope_pairs: Pairs,
    /// How experts are scored.
    pub score: Score,
    /// Whether the weights of the chosen experts are divided by their sum.
    pub normalise: bool,
    /// What they are multiplied by.
    pub routed_scale: f32,
    /// How much the losses of modules for multi-token prediction count together, beside the model's own.
    pub mtp_weight: f32,
    /// The activation of dense networks and shared experts.
    pub activation: Activation,
    /// That of routed experts.
    pub routed_activation: Activation,
}

/// A `config.json` that says what the step does not compute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsupported(String);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Unsupported {}

impl Numerics {
    /// What is usual for an architecture: latent attention turns neighbours, and a correction bias goes with sigmoids.
    #[must_use]
    pub fn usual(architecture: &Architecture) -> Self {
        let is_latent = matches!(architecture.attention, Attention::Mla(_));
        let corrects = !matches!(architecture.experts.correction_bias, CorrectionBias::Off);
        Self {
            norm_eps: 1e-6,
            rope_theta: 10_000.0,
            rope_pairs: if is_latent { Pairs::Interleaved } else { Pairs::Half },
            score: if corrects { Score::Sigmoid } else { Score::Softmax },
            normalise: true,
            routed_scale: if corrects { 2.5 } else { 1.0 },
            mtp_weight: MTP_WEIGHT,
            activation: Activation::SwiGlu,
            routed_activation: Activation::SwiGlu,
        }
    }

    /// Those of a Hugging Face `config.json`, whose `model_type` decides what the file leaves out (transformers 5.24).
    ///
    /// # Errors
    /// If it is no JSON object, or says something that the step does not compute: another activation, scaled rotary
    /// positions.
    pub fn from_config_json(text: &str) -> Result<Self, Unsupported> {
        let config: Value = serde_json::from_str(text).map_err(|error| Unsupported(error.to_string()))?;
        let model_type = config.get("model_type").and_then(Value::as_str).unwrap_or_default();
        let number = |key: &str| config.get(key).and_then(Value::as_f64);
        let flag = |key: &str| config.get(key).and_then(Value::as_bool);
        let kind = Kind::of(model_type).ok_or_else(|| {
            Unsupported(format!("`model_type` = \"{model_type}\" is not among what the step computes"))
        })?;
        unscaled(&config)?;
        if let Some(activation) = config.get("hidden_act").and_then(Value::as_str)
            && activation != "silu"
        {
            return Err(Unsupported(format!("`hidden_act` = \"{activation}\": the step computes \"silu\"")));
        }
        unwindowed(&config, kind)?;
        let theta = config.pointer("/rope_parameters/rope_theta").and_then(Value::as_f64).or(number("rope_theta"));
        let sigmoid = match config.get("scoring_func").and_then(Value::as_str) {
            Some(score) => score == "sigmoid",
            None => kind == Kind::DeepSeekV3,
        };
        Ok(Self {
            norm_eps: single(number("rms_norm_eps").unwrap_or(1e-6)),
            rope_theta: single(theta.unwrap_or(10_000.0)),
            rope_pairs: match kind {
                Kind::DeepSeekV2 => Pairs::Interleaved,
                Kind::DeepSeekV3 if flag("rope_interleave").unwrap_or(true) => Pairs::Interleaved,
                _ => Pairs::Half,
            },
            score: match kind {
                Kind::GptOss => Score::SoftmaxOfChosen,
                _ if sigmoid => Score::Sigmoid,
                _ => Score::Softmax,
            },
            normalise: match kind {
                Kind::Mixtral => true,
                // Its router ignores the key.
                Kind::GptOss | Kind::DeepSeekV2 => false,
                _ => flag("norm_topk_prob").unwrap_or(kind == Kind::DeepSeekV3),
            },
            routed_scale: single(number("routed_scaling_factor").unwrap_or(1.0)),
            mtp_weight: MTP_WEIGHT,
            activation: Activation::SwiGlu,
            routed_activation: match kind {
                // alpha is no field of the config.
                Kind::GptOss => {
                    Activation::ClampedSwiGlu { limit: single(number("swiglu_limit").unwrap_or(7.0)), alpha: 1.702 }
                }
                _ => Activation::SwiGlu,
            },
        })
    }
}

/// DeepSeek-V3's, for the last part of its training (arXiv:2412.19437, section 4.2); megatron-core's default.
const MTP_WEIGHT: f32 = 0.1;

/// Models whose conventions are known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Llama,
    Mixtral,
    Qwen,
    DeepSeekV2,
    DeepSeekV3,
    GptOss,
}

impl Kind {
    fn of(model_type: &str) -> Option<Self> {
        Some(match model_type {
            "llama" => Self::Llama,
            "mixtral" => Self::Mixtral,
            "qwen2_moe" | "qwen3_moe" | "qwen3" => Self::Qwen,
            "deepseek_v2" => Self::DeepSeekV2,
            "deepseek_v3" => Self::DeepSeekV3,
            "gpt_oss" => Self::GptOss,
            _ => return None,
        })
    }
}

/// Only gpt-oss has windows that are part of its architecture.
fn unwindowed(config: &Value, kind: Kind) -> Result<(), Unsupported> {
    let is_on = config.get("use_sliding_window").and_then(Value::as_bool).unwrap_or(kind == Kind::Mixtral);
    let window = config.get("sliding_window").and_then(Value::as_u64).filter(|_| is_on && kind != Kind::GptOss);
    match window {
        None | Some(0) => Ok(()),
        Some(window) => Err(Unsupported(format!("`sliding_window` = {window}: the step has none in this model"))),
    }
}

/// Rotary positions are as they are, not stretched to longer contexts.
fn unscaled(config: &Value) -> Result<(), Unsupported> {
    let scaling = config.get("rope_scaling").filter(|scaling| !scaling.is_null());
    let scaling = scaling.or_else(|| config.get("rope_parameters"));
    let kind = scaling.and_then(|scaling| scaling.get("rope_type").or_else(|| scaling.get("type")));
    match kind.and_then(Value::as_str) {
        None | Some("default") => Ok(()),
        Some(kind) => Err(Unsupported(format!("rotary positions of type \"{kind}\": the step computes \"default\""))),
    }
}

#[allow(clippy::cast_possible_truncation)] // constants of a model, to single precision
fn single(number: f64) -> f32 {
    number as f32
}
