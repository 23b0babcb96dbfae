//! Measured runs, out of a file.

use crate::file;
use moe_model::Device;
use moe_model::config::MegatronRun;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::Path;

/// Larger files are not read.
const LARGEST: u64 = 64 << 20;

#[derive(Deserialize)]
struct File {
    rows: Vec<Row>,
}

/// A run and what was measured of it.
#[derive(Deserialize)]
pub(crate) struct Row {
    pub(crate) test: String,
    /// Names the hardware.
    #[serde(default)]
    pub(crate) golden: String,
    args: Map<String, Value>,
    #[serde(default)]
    env: Map<String, Value>,
    world_size: Option<u64>,
    /// Major and minor version.
    transformer_engine: Option<[u64; 2]>,
    /// The stage that was measured; the last one where it is not said.
    pub(crate) stage: Option<u64>,
    #[serde(rename = "allocated_after_step_bytes")]
    pub(crate) static_bytes: Option<u64>,
    pub(crate) peak_bytes: u64,
}

/// All rows of a file, or what is wrong with it.
pub(crate) fn read(path: &Path) -> Result<Vec<Row>, String> {
    let bytes = file::bytes(path, LARGEST)?;
    let file: File = serde_json::from_slice(&bytes).map_err(|error| format!("these are no measured rows: {error}"))?;
    Ok(file.rows)
}

impl Row {
    pub(crate) fn run(&self) -> MegatronRun {
        let Self { args, env, world_size, transformer_engine, .. } = self;
        MegatronRun {
            arguments: args.clone(),
            environment: env.clone(),
            world: *world_size,
            device: self.device(),
            transformer_engine: *transformer_engine,
        }
    }

    /// What it ran on, as its file says; an A100 where it does not.
    pub(crate) fn device(&self) -> Device {
        match &self.golden {
            name if name.contains("h100") => Device::H100,
            // Of a GB200 what is counted is that of a B200.
            name if name.contains("b200") => Device::B200,
            _ => Device::A100Gb80,
        }
    }

    /// What two runs have in common that should hold the same.
    pub(crate) fn twin(&self) -> (Value, Value, Option<u64>, Device, Option<u64>) {
        let idle = ["exit-interval", "train-iters", "load", "save"];
        let args = self.args.iter().filter(|(name, _)| !idle.contains(&name.as_str()));
        let args = args.map(|(name, value)| (name.clone(), value.clone())).collect();
        (Value::Object(args), Value::Object(self.env.clone()), self.world_size, self.device(), self.stage)
    }
}
