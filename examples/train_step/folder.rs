//! The files of a folder: a model, its batch, how it is trained, and the tolerances that go with what is expected.

use moe_model::config::Config;
use moe_model::gpu::Numerics;
use moe_model::gpu::ops::adamw::AdamW;
use moe_model::gpu::step::Batch;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// What expected weights were trained with.
pub(crate) const ADAMW: AdamW = AdamW { lr: 1e-3, beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0.1 };

/// What a folder holds.
pub(crate) struct Folder {
    pub(crate) config: Config,
    pub(crate) numerics: Numerics,
    pub(crate) weights: Vec<u8>,
    pub(crate) expected: Vec<u8>,
    pub(crate) ids: Vec<i64>,
    pub(crate) labels: Vec<i64>,
    /// Sequences, and tokens of each.
    pub(crate) batch: [u64; 2],
    tolerance: Option<Value>,
}

impl Folder {
    pub(crate) fn read(dir: &Path) -> Result<Self, String> {
        let read = |name: &str| {
            let path = dir.join(name);
            fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let text = String::from_utf8(read("config.json")?).map_err(|error| format!("config.json: {error}"))?;
        let config = Config::from_json(&text).map_err(|error| format!("config.json: {error}"))?;
        let numerics = Numerics::from_config_json(&text).map_err(|error| format!("config.json: {error}"))?;
        let inputs = read("inputs.safetensors")?;
        let inputs = SafeTensors::deserialize(&inputs).map_err(|error| format!("inputs.safetensors: {error}"))?;
        let (ids, shape) = integers(&inputs, "input_ids")?;
        let (labels, _) = integers(&inputs, "shift_labels")?;
        let [sequences, tokens] = shape[..] else { return Err("`input_ids` is no matrix".to_owned()) };
        if labels.len() != ids.len() {
            return Err("`shift_labels` is not of the shape of `input_ids`".to_owned());
        }
        let tolerance = match fs::read(dir.join("tolerance.json")) {
            Ok(bytes) => Some(serde_json::from_slice(&bytes).map_err(|error| format!("tolerance.json: {error}"))?),
            Err(_) => None,
        };
        let batch = [sequences as u64, tokens as u64];
        let (weights, expected) = (read("weights.safetensors")?, read("expected.safetensors")?);
        Ok(Self { config, numerics, weights, expected, ids, labels, batch, tolerance })
    }

    /// How far values of a group may be off in single precision: as the folder says, or as is usual.
    pub(crate) fn tolerance(&self, group: &str) -> f64 {
        let said = |value: &Value| value.pointer("/suggested_abs_tolerance/f32")?.get(group)?.as_f64();
        let usual = match group {
            "loss" | "grad" => 3e-6,
            "topk_weight" => 2e-6,
            "after1" => 1e-6,
            "after2" => 6e-6,
            _ => 2e-5,
        };
        self.tolerance.as_ref().and_then(said).unwrap_or(usual)
    }
}

fn integers(file: &SafeTensors<'_>, name: &str) -> Result<(Vec<i64>, Vec<usize>), String> {
    let tensor = file.tensor(name).map_err(|error| format!("inputs.safetensors: `{name}`: {error}"))?;
    if tensor.dtype() != Dtype::I64 {
        return Err(format!("`{name}` is of format {:?}, not I64", tensor.dtype()));
    }
    let values = tensor.data().as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect();
    Ok((values, tensor.shape().to_vec()))
}

/// The batch of a folder, of which each micro-batch of all replicas has its part, by its number.
pub(crate) struct Tokens<'f>(pub(crate) &'f Folder);

impl Tokens<'_> {
    fn copy(of: &[i64], micro_batch: u64, out: &mut [i64]) {
        let first = usize::try_from(micro_batch).expect("micro-batches are few") * out.len();
        out.copy_from_slice(&of[first..][..out.len()]);
    }
}

impl Batch for Tokens<'_> {
    fn ids(&mut self, micro_batch: u64, out: &mut [i64]) {
        Self::copy(&self.0.ids, micro_batch, out);
    }

    fn labels(&mut self, micro_batch: u64, out: &mut [i64]) {
        Self::copy(&self.0.labels, micro_batch, out);
    }
}
