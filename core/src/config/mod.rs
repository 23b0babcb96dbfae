//! An architecture out of a Hugging Face `config.json`.
//!
//! A config says sizes; what they mean its `model_type` says: which layers are dense, whether a router has a correction
//! bias, whether widths are those of a head or of all. So a `model_type` is conventions, never sizes, and each knows its
//! fields by name: those that are read, those of which one value is supported, and those that change no tensor. Any other
//! is an error, since a field that is passed over in silence may be the one that changes the model.

mod arctic;
mod dbrx;
mod deepseek;
mod deepseek_v4;
mod dots;
mod ernie;
mod error;
mod fields;
mod gemma;
mod glm;
mod gpt_oss;
mod granite;
mod hunyuan;
mod jamba;
mod kimi;
mod lists;
mod llama;
mod llama4;
mod longcat;
mod megatron;
mod mimo;
mod minimax;
mod mixtral;
mod nemotron;
mod olmoe;
mod parts;
mod phi;
mod qwen;
mod qwen_next;

pub use error::{ConfigError, Fault, Reason};
pub use megatron::{MegatronRun, megatron_arguments};

use crate::checkpoint::Naming;
use crate::spec::Architecture;
use alloc::vec::Vec;
use fields::{Fields, Idle};
use serde_json::Value;

/// How the configs of one `model_type` are read.
struct ModelType {
    name: &'static str,
    /// The value of `architectures`, as JSON: the class that reads its checkpoints, of which each has one.
    class: &'static [&'static str],
    /// How its checkpoints name and pack their tensors.
    naming: &'static Naming,
    idle: Idle,
    /// Reads all other fields; what is wrong with them goes to the list of faults.
    read: fn(&mut Fields<'_>) -> Architecture,
}

const MODEL_TYPES: &[ModelType] = &[
    arctic::ARCTIC,
    dbrx::DBRX,
    deepseek::DEEPSEEK,
    deepseek::DEEPSEEK_V2,
    deepseek::DEEPSEEK_V3,
    deepseek::DEEPSEEK_V32,
    deepseek_v4::DEEPSEEK_V4,
    deepseek::KIMI_K2,
    dots::DOTS1,
    ernie::ERNIE4_5_MOE,
    gemma::GEMMA4,
    glm::GLM4_MOE,
    glm::GLM4_MOE_LITE,
    glm::GLM_MOE_DSA,
    gpt_oss::GPT_OSS,
    granite::GRANITEMOE,
    hunyuan::HUNYUAN,
    hunyuan::HUNYUAN_V1_MOE,
    jamba::JAMBA,
    kimi::KIMI_LINEAR,
    llama::LLAMA,
    llama4::LLAMA4,
    longcat::LONGCAT_FLASH,
    mimo::MIMO_V2_FLASH,
    minimax::MINIMAX,
    minimax::MINIMAX_M2,
    mixtral::MIXTRAL,
    nemotron::NEMOTRON_H,
    olmoe::OLMOE,
    phi::PHIMOE,
    qwen::QWEN2_MOE,
    qwen::QWEN3,
    qwen::QWEN3_MOE,
    qwen_next::QWEN3_5_MOE,
    qwen_next::QWEN3_NEXT,
];

/// The `model_type`s that can be read.
pub fn model_types() -> impl Iterator<Item = &'static str> {
    MODEL_TYPES.iter().map(|model_type| model_type.name)
}

/// What a config says.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Its `model_type`.
    pub model_type: &'static str,
    /// How checkpoints of that `model_type` name and pack their tensors.
    pub naming: &'static Naming,
    /// The architecture.
    pub architecture: Architecture,
    /// Rows and columns of a block of quantised weights that shares a scale, where its checkpoint is quantised so: by a
    /// `quantization_config` of `quant_method` `fp8` with a `weight_block_size`. It changes nothing of the architecture.
    pub block: Option<[u64; 2]>,
}

impl Architecture {
    /// Reads the text of a Hugging Face `config.json`.
    ///
    /// Its numbers are not judged: a Spec with this architecture is, by [`judge`](crate::judge).
    ///
    /// # Errors
    /// With everything that is wrong in it: what is no JSON, a `model_type` that is not supported, and fields that are
    /// missing, of the wrong type, of a value that is not supported, or not known.
    pub fn from_config_json(text: &str) -> Result<Self, ConfigError> {
        Config::from_json(text).map(|config| config.architecture)
    }
}

impl Config {
    /// Reads the text of a Hugging Face `config.json`; see [`Architecture::from_config_json`].
    ///
    /// # Errors
    /// With everything that is wrong in it.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        // What some editors write in front of UTF-8.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let value: Value = serde_json::from_str(text).map_err(|error| ConfigError::of(Fault::not_json(&error)))?;
        let Value::Object(object) = value else {
            return Err(ConfigError::of(Fault::of_file(Reason::NotAnObject)));
        };
        let name = object.get("model_type");
        let Some(model_type) = MODEL_TYPES.iter().find(|known| name.and_then(Value::as_str) == Some(known.name)) else {
            return Err(ConfigError::of(Fault::model_type(name)));
        };
        let mut fields = Fields::new(&object, model_type.name);
        fields.pass("model_type");
        let architecture = (model_type.read)(&mut fields);
        fields.word("architectures", model_type.class);
        fields.idle(&model_type.idle);
        let faults: Vec<Fault> = fields.into_faults();
        if !faults.is_empty() {
            return Err(ConfigError { faults });
        }
        let block = object.get("quantization_config").and_then(block);
        Ok(Self { model_type: model_type.name, naming: model_type.naming, architecture, block })
    }
}

/// The blocks of quantised weights that share a scale.
fn block(quantization: &Value) -> Option<[u64; 2]> {
    let is_fp8 = quantization.get("quant_method").is_some_and(|method| method == "fp8");
    let [rows, columns] = &quantization.get("weight_block_size")?.as_array()?[..] else { return None };
    let block = [rows.as_u64()?, columns.as_u64()?];
    if is_fp8 && !block.contains(&0) { Some(block) } else { None }
}
