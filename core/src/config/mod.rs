//! An architecture out of a Hugging Face `config.json`.
//!
//! A config says sizes; what they mean its `model_type` says: which layers are dense, whether a router has a correction
//! bias, whether widths are those of a head or of all. So a `model_type` is conventions, never sizes, and each knows its
//! fields by name: those that are read, those of which one value is supported, and those that change no tensor. Any other
//! is an error, since a field that is passed over in silence may be the one that changes the model.

mod deepseek;
mod error;
mod fields;
mod glm;
mod llama;
mod mixtral;
mod parts;

pub use error::{ConfigError, Fault, Reason};

use crate::checkpoint::Naming;
use crate::spec::Architecture;
use alloc::vec::Vec;
use fields::Fields;
use serde_json::Value;

/// How the configs of one `model_type` are read.
struct ModelType {
    name: &'static str,
    /// How its checkpoints name and pack their tensors.
    naming: &'static Naming,
    /// Fields of which one meaning is supported, with the values that have it, as JSON. Without the field, or with null,
    /// the published code means the same.
    only: &'static [(&'static str, &'static [&'static str])],
    /// Fields that change no tensor's shape or number, beside [`BOOKKEEPING`].
    ignored: &'static [&'static str],
    /// Reads all other fields; what is wrong with them goes to the list of faults.
    read: fn(&mut Fields<'_>) -> Architecture,
}

const MODEL_TYPES: &[ModelType] = &[
    deepseek::DEEPSEEK,
    deepseek::DEEPSEEK_V2,
    deepseek::DEEPSEEK_V3,
    deepseek::KIMI_K2,
    glm::GLM4_MOE_LITE,
    llama::LLAMA,
    mixtral::MIXTRAL,
];

/// Fields of any model that change no tensor's shape or number: who wrote the file, tokens with a role, initial values,
/// dropout, positions, training losses, number formats.
const BOOKKEEPING: &[&str] = &[
    "_attn_implementation_autoset",
    "_name_or_path",
    "attention_dropout",
    "auto_map",
    "bos_token_id",
    "dtype",
    "eos_token_id",
    "initializer_range",
    "max_position_embeddings",
    "output_router_logits",
    "pad_token_id",
    "partial_rotary_factor",
    "pretraining_tp",
    "quantization_config",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "router_aux_loss_coef",
    "torch_dtype",
    "transformers_version",
    "use_cache",
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
        let value: Value = serde_json::from_str(text).map_err(|error| ConfigError::of(Fault::not_json(&error)))?;
        let Value::Object(object) = value else {
            return Err(ConfigError::of(Fault::of_file(Reason::NotAnObject)));
        };
        let name = object.get("model_type");
        let Some(model_type) = MODEL_TYPES.iter().find(|known| name.and_then(Value::as_str) == Some(known.name)) else {
            return Err(ConfigError::of(Fault::model_type(name)));
        };
        let mut fields = Fields::new(&object);
        fields.pass("model_type");
        let architecture = (model_type.read)(&mut fields);
        for (name, values) in model_type.only {
            fields.only(name, values);
        }
        BOOKKEEPING.iter().chain(model_type.ignored).for_each(|name| fields.pass(name));
        let faults: Vec<Fault> = fields.into_faults(model_type.name);
        if !faults.is_empty() {
            return Err(ConfigError { faults });
        }
        Ok(Self { model_type: model_type.name, naming: model_type.naming, architecture })
    }
}
