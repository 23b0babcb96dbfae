//! Hugging Face checkpoints: `model.safetensors` files under the names and in the layout of a family, read as weights of any
//! layout, and written from a checkpoint of any.

mod pack;
mod write;

pub use write::write;

use crate::step::{Place, Source};
use moe_model_core::checkpoint::Naming;
use moe_model_core::spec::{Architecture, Layout, Spec};
use moe_model_core::{Coordinates, Plan};
use pack::{Dense, unpacked};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use std::collections::{BTreeMap, BTreeSet};

/// The tensors of a checkpoint, by the names of its family.
#[derive(Debug)]
pub struct Checkpoint<'d> {
    files: Vec<SafeTensors<'d>>,
    naming: &'static Naming,
    experts: usize,
    /// The shape of each weight, by its name in an inventory.
    shapes: BTreeMap<&'static str, Vec<usize>>,
}

impl<'d> Checkpoint<'d> {
    /// The files of a checkpoint of a model, each whole in memory.
    ///
    /// # Errors
    /// If one of them is no safetensors file, two have a tensor of one name, or the model is none.
    pub fn new(files: &[&'d [u8]], naming: &'static Naming, architecture: &Architecture) -> Result<Self, String> {
        let read = |bytes: &&'d [u8]| SafeTensors::deserialize(bytes).map_err(|error| error.to_string());
        let files = files.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let mut names = BTreeSet::new();
        if let Some(twice) = files.iter().flat_map(SafeTensors::names).find(|name| !names.insert(name.to_owned())) {
            return Err(format!("two files of the checkpoint have a tensor `{twice}`"));
        }
        let alone = Plan::new(Spec { architecture: *architecture, layout: Layout::DEFAULT });
        let holdings = alone.map_err(|violations| violations.to_string())?.holdings(0);
        let length = |length: u64| usize::try_from(length).map_err(|error| error.to_string());
        let mut shapes = BTreeMap::new();
        for holding in holdings.map_err(|unplaced| unplaced.to_string())? {
            let shape = holding.axes.iter().map(|axis| length(axis.logical)).collect::<Result<_, _>>()?;
            shapes.entry(holding.name).or_insert(shape);
        }
        Ok(Self { files, naming, experts: length(architecture.experts.routed)?, shapes })
    }

    /// A tensor of the files, as f32.
    fn tensor(&self, name: &str) -> Result<Dense<f32>, String> {
        let found = self.files.iter().find_map(|file| file.tensor(name).ok());
        let tensor = found.ok_or_else(|| format!("the checkpoint has no tensor `{name}`"))?;
        Ok(Dense { values: values(name, &tensor)?, shape: tensor.shape().to_vec() })
    }

    /// A weight as one matrix, those of all experts below one another.
    ///
    /// # Errors
    /// If the checkpoint does not have it.
    pub fn weight(&self, name: &str, layer: Option<u64>) -> Result<Vec<f32>, String> {
        self.weight_of(name, layer, "")
    }

    /// The same of tensors whose names begin with something: `grad.` in files of expected values.
    ///
    /// # Errors
    /// If the files do not have it.
    pub fn weight_of(&self, name: &str, layer: Option<u64>, prefix: &str) -> Result<Vec<f32>, String> {
        let file_name = format!("{prefix}{}", self.naming.file_name(name, layer, None));
        if file_name.contains("{e}") {
            let mut all = Vec::new();
            for expert in 0..self.experts {
                all.extend(self.tensor(&file_name.replace("{e}", &expert.to_string()))?.values);
            }
            return Ok(all);
        }
        let whole = self.tensor(&file_name)?;
        let Some(stored) = self.naming.stored(name) else { return Ok(whole.values) };
        let shapes = stored.of.iter().map(|part| self.shapes.get(part).cloned()).collect::<Option<Vec<_>>>();
        let shape = whole.shape.clone();
        let part = shapes.and_then(|shapes| unpacked(whole, stored.how, stored.part, &shapes));
        let part = part.ok_or_else(|| format!("`{file_name}` of {shape:?} is not of the shape of the model's"))?;
        Ok(part.values)
    }
}

/// The elements of a tensor, as f32.
fn values(name: &str, tensor: &TensorView<'_>) -> Result<Vec<f32>, String> {
    let data = tensor.data();
    match tensor.dtype() {
        Dtype::F32 => Ok(data.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()),
        Dtype::BF16 => Ok(data.as_chunks().0.iter().map(|bytes| crate::Bf16::from_le_bytes(*bytes).to_f32()).collect()),
        other => Err(format!("`{name}` is of format {other:?}; the step reads F32 and BF16")),
    }
}

impl Source for Checkpoint<'_> {
    fn fill(&mut self, place: &Place, out: &mut [f32]) -> Result<(), String> {
        let values = self.weight(place.name, place.layer)?;
        if values.len() != out.len() {
            let (has, needs) = (values.len(), out.len());
            return Err(format!("`{}` has {has} elements in the checkpoint; the model {needs}", place.name));
        }
        out.copy_from_slice(&values);
        Ok(())
    }
}

/// Weights of a checkpoint as one rank of a layout holds them.
#[derive(Debug)]
pub struct Sliced<'c, 'd> {
    /// The whole.
    pub whole: &'c Checkpoint<'d>,
    /// The layout.
    pub plan: Plan,
    /// The rank's place in it.
    pub at: Coordinates,
}

impl Source for Sliced<'_, '_> {
    fn fill(&mut self, place: &Place, out: &mut [f32]) -> Result<(), String> {
        // A head on another stage than the table that it is holds a copy.
        let is_tied = self.plan.spec().architecture.tied_embeddings.is_on() && place.name == "lm_head.weight";
        let name = if is_tied { "model.embed_tokens.weight" } else { place.name };
        let whole = self.whole.weight(name, place.layer)?;
        let needs: usize = self.whole.shapes.get(name).map_or(whole.len(), |shape| shape.iter().product());
        if whole.len() != needs {
            let has = whole.len();
            return Err(format!("`{name}` has {has} elements in the checkpoint; the model {needs}"));
        }
        let slices = self.plan.slices(&self.at, place.name).into_iter().flatten();
        let mut values = slices.map(|at| usize::try_from(at).ok().and_then(|at| whole.get(at)));
        for out in out {
            // Rows of padding are in no checkpoint.
            *out = *values.next().flatten().unwrap_or(&0.0);
        }
        Ok(())
    }
}
