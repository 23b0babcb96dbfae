//! A Spec out of the arguments of Megatron-LM's `pretrain_gpt.py`, as of d98e8a64 (2026-08-22): what is absent means what
//! Megatron-LM takes it for. Every argument is known by name: those that are read, those of which some values are
//! supported, those that change no tensor. Any other is an error, since it may be the one that changes what a rank holds.

mod architecture;
mod idle;
mod layout;
mod values;

use super::error::{ConfigError, Fault};
use super::fields::Fields;
use crate::device::Device;
use crate::spec::{LayerList, NUMBER_MAX, Spec};
use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::{Map, Value};

/// What stands for the `model_type` in errors of arguments.
pub(super) const MEGATRON: &str = "megatron";

/// A run of Megatron-LM's `pretrain_gpt.py`.
#[derive(Clone, Debug)]
pub struct MegatronRun {
    /// Its arguments, without the hyphens in front: a flag holds `true`. As in the `MODEL_ARGS` of Megatron-LM's functional
    /// tests, or from a command line by [`megatron_arguments`].
    pub arguments: Map<String, Value>,
    /// Its environment, of which `CUBLAS_WORKSPACE_CONFIG` is read.
    pub environment: Map<String, Value>,
    /// Ranks of the job, where they are known. No argument says them.
    pub world: Option<u64>,
    /// What it runs on.
    pub device: Device,
    /// The version of Transformer Engine, major and minor, where it is known: else the newest is taken.
    pub transformer_engine: Option<[u64; 2]>,
}

impl MegatronRun {
    /// What the run declares, under `accounting: megatron_core`.
    ///
    /// Its numbers are not judged: the Spec is, by [`judge`](crate::judge).
    ///
    /// # Errors
    /// With all arguments that are missing, of the wrong type, not known, or of a meaning that is not modelled.
    pub fn spec(&self) -> Result<Spec, ConfigError> {
        let arguments = values::normal(&self.arguments);
        let mut fields = Fields::new(&arguments, MEGATRON);
        let mut spec = Spec { architecture: architecture::read(&mut fields), ..Spec::DEFAULT };
        layout::read(&mut fields, self, &mut spec);
        fields.idle(&idle::IDLE);
        for (argument, why) in idle::NOT_MODELLED {
            fields.refuse(argument, why);
        }
        let faults: Vec<Fault> = fields.into_faults();
        if faults.is_empty() { Ok(spec) } else { Err(ConfigError { faults }) }
    }
}

/// The arguments of a command line such as `--num-layers 12 --swiglu`: behind each name its values, joined by spaces, or
/// `true` where there are none. What stands in front of the first name is passed over.
///
/// ```
/// let arguments = moe_model_core::config::megatron_arguments(["pretrain_gpt.py", "--num-layers", "12", "--swiglu"]);
/// assert_eq!((arguments["num-layers"].as_u64(), arguments["swiglu"].as_bool()), (Some(12), Some(true)));
/// ```
pub fn megatron_arguments<'a>(words: impl IntoIterator<Item = &'a str>) -> Map<String, Value> {
    let (mut arguments, mut name) = (Map::new(), None::<String>);
    for word in words {
        if let Some(argument) = word.strip_prefix("--") {
            let (argument, value) =
                argument.split_once('=').map_or((argument, None), |(name, value)| (name, Some(value)));
            let value = value.map_or(Value::Bool(true), |value| Value::String(value.to_owned()));
            arguments.insert(argument.to_owned(), value);
            name = Some(argument.to_owned());
        } else if let Some(value) = name.as_ref().and_then(|name| arguments.get_mut(name)) {
            let before = value.as_str().map(|before| before.to_owned() + " ").unwrap_or_default();
            *value = Value::String(before + word);
        }
    }
    values::normal(&arguments)
}

/// Which layers have experts, as a list or as counts.
struct Pattern {
    dense: u64,
    moe: u64,
    list: LayerList,
}

/// The number of something, none of which is more than a declaration holds.
const fn bounded(number: u64) -> u64 {
    if number > NUMBER_MAX { NUMBER_MAX } else { number }
}
