//! The report: what is counted of a model, as text or as JSON.

use crate::behind::Behind;
use crate::input::{self, Input};
use moe_model::checkpoint::{Kind, Tensor};
use moe_model::inventory::Module;
use serde::Serialize;

/// Changes with any key of the JSON.
const FORMAT: &str = "moe-model/inspect/3";

/// What is counted of a model.
#[derive(Serialize)]
pub(crate) struct Report {
    format: &'static str,
    pub(crate) behind: Behind,
    /// The file, or the preset.
    pub(crate) source: String,
    /// Of the config; null for a preset.
    pub(crate) model_type: Option<&'static str>,
    /// How the checkpoint names and packs tensors.
    pub(crate) naming: &'static str,
    pub(crate) parameters: Parameters,
    /// Elements of buffers that are saved and are no parameters.
    pub(crate) buffers: u64,
    /// Parameters and buffers; those of multi-token-prediction modules are in `mtp`.
    pub(crate) checkpoint_elements: u64,
    /// Rows and columns of the blocks that the checkpoint's matrices are quantised in; null where they are bf16.
    pub(crate) block: Option<[u64; 2]>,
    /// Elements of the blocks' scales, those of multi-token-prediction modules apart.
    pub(crate) scales: u64,
    /// What parameters, buffers and scales take in memory, in the checkpoint's formats.
    pub(crate) weight_bytes: u64,
    /// What the checkpoint takes, multi-token-prediction modules and copies included.
    pub(crate) checkpoint_bytes: u64,
    /// Null without such modules.
    pub(crate) mtp: Option<Mtp>,
    pub(crate) modules: Vec<OfModule>,
    /// In order of the model, without those of multi-token-prediction modules.
    pub(crate) tensors: Vec<Row>,
}

/// Parameters, multi-token-prediction modules apart.
#[derive(Serialize)]
pub(crate) struct Parameters {
    pub(crate) total: u64,
    /// Those that one token meets.
    pub(crate) active: u64,
    pub(crate) active_without_input_embedding: u64,
    pub(crate) active_without_embedding_and_head: u64,
}

/// Multi-token-prediction modules.
#[derive(Serialize)]
pub(crate) struct Mtp {
    pub(crate) parameters: u64,
    pub(crate) buffers: u64,
    /// Elements of the model's tables that the checkpoint holds once more.
    pub(crate) copies: u64,
    /// Elements of the blocks' scales.
    pub(crate) scales: u64,
    /// Elements of the checkpoint with all of these, and with the scales of the model.
    pub(crate) checkpoint_elements: u64,
    pub(crate) tensors: Vec<Row>,
}

/// Parameters of a module over all layers.
#[derive(Serialize)]
pub(crate) struct OfModule {
    pub(crate) module: &'static str,
    pub(crate) parameters: u64,
}

/// Tensors of a checkpoint that differ in the number of layer or expert alone.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) count: u64,
    /// Of all of them.
    pub(crate) elements: u64,
    pub(crate) kind: &'static str,
    module: &'static str,
}

impl Report {
    /// Of a model; an error if its elements outgrow 64 bits.
    pub(crate) fn of(input: &Input) -> Result<Self, String> {
        let architecture = &input.architecture;
        let all = match input.block {
            Some(block) => architecture.checkpoint_in_blocks(input.naming, block),
            None => architecture.checkpoint(input.naming),
        };
        let (mtp, tensors): (Vec<_>, Vec<_>) = all.into_iter().partition(|tensor| tensor.module == Module::Mtp);
        let outgrown = || input::said(&input.source, "the checkpoint has 2^64 bytes or more");
        let bytes = |tensors: &[Tensor]| sum(tensors.iter().map(|tensor| tensor.bytes().bytes())).ok_or_else(outgrown);
        let elements = |tensors: &[Tensor]| sum(tensors.iter().map(Tensor::elements)).ok_or_else(outgrown);
        let (weight_bytes, of_mtp) = (bytes(&tensors)?, bytes(&mtp)?);
        let checkpoint_bytes = weight_bytes.checked_add(of_mtp).ok_or_else(outgrown)?;
        let scales = of_kind(&tensors, Kind::Scale);
        let (with_scales, of_mtp) = (elements(&tensors)?, elements(&mtp)?);
        Ok(Self {
            format: FORMAT,
            behind: Behind::without_accounting(&input.source, "none"),
            source: input.source.clone(),
            model_type: input.model_type,
            naming: input.naming.name,
            parameters: Parameters {
                total: architecture.parameters().total(),
                active: architecture.active_parameters(),
                active_without_input_embedding: architecture.active_without_input_embedding(),
                active_without_embedding_and_head: architecture.active_without_embedding_and_head(),
            },
            buffers: architecture.buffer_elements(),
            checkpoint_elements: with_scales - scales,
            block: input.block,
            scales,
            weight_bytes,
            checkpoint_bytes,
            mtp: (!mtp.is_empty()).then(|| Mtp::of(&mtp, with_scales + of_mtp)),
            modules: modules(&tensors),
            tensors: tensors.iter().map(Row::of).collect(),
        })
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("its keys are strings") + "\n"
    }
}

impl Mtp {
    fn of(tensors: &[Tensor], checkpoint_elements: u64) -> Self {
        Self {
            parameters: of_kind(tensors, Kind::Parameter),
            buffers: of_kind(tensors, Kind::Buffer),
            copies: of_kind(tensors, Kind::Copy),
            scales: of_kind(tensors, Kind::Scale),
            checkpoint_elements,
            tensors: tensors.iter().map(Row::of).collect(),
        }
    }
}

impl Row {
    fn of(tensor: &Tensor) -> Self {
        Self {
            name: tensor.name.to_string(),
            shape: tensor.shape.clone(),
            count: tensor.count(),
            elements: tensor.elements(),
            kind: tensor.kind.name(),
            module: tensor.module.name(),
        }
    }
}

/// Elements of one kind.
fn of_kind(tensors: &[Tensor], kind: Kind) -> u64 {
    tensors.iter().filter(|tensor| tensor.kind == kind).map(Tensor::elements).sum()
}

/// The sum of numbers, if 64 bits count it. The largest number stands for all that are larger.
fn sum(numbers: impl Iterator<Item = u64>) -> Option<u64> {
    numbers.map(|number| (number < u64::MAX).then_some(number)).try_fold(0, |sum: u64, next| sum.checked_add(next?))
}

/// In the order in which they come in the model.
fn modules(tensors: &[Tensor]) -> Vec<OfModule> {
    let mut modules: Vec<OfModule> = Vec::new();
    for tensor in tensors.iter().filter(|tensor| tensor.kind == Kind::Parameter) {
        let (module, elements) = (tensor.module.name(), tensor.elements());
        match modules.iter_mut().find(|known| known.module == module) {
            Some(known) => known.parameters += elements,
            None => modules.push(OfModule { module, parameters: elements }),
        }
    }
    modules
}
