//! Weights out of a Hugging Face checkpoint: `model.safetensors` files under the names and in the layout of a family.

use crate::step::{Place, Source};
use moe_model_core::checkpoint::{Naming, Op};
use moe_model_core::{Coordinates, Plan};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

/// The tensors of a checkpoint, by the names of its family.
#[derive(Debug)]
pub struct Checkpoint<'d> {
    files: Vec<SafeTensors<'d>>,
    naming: &'static Naming,
    experts: usize,
}

impl<'d> Checkpoint<'d> {
    /// The files of a checkpoint of a model with so many routed experts, each whole in memory.
    ///
    /// # Errors
    /// If one of them is no safetensors file.
    pub fn new(files: &[&'d [u8]], naming: &'static Naming, experts: usize) -> Result<Self, String> {
        let read = |bytes: &&'d [u8]| SafeTensors::deserialize(bytes).map_err(|error| error.to_string());
        Ok(Self { files: files.iter().map(read).collect::<Result<_, _>>()?, naming, experts })
    }

    /// A tensor of the files, as f32 and with its shape.
    fn tensor(&self, name: &str) -> Result<(Vec<f32>, Vec<usize>), String> {
        let found = self.files.iter().find_map(|file| file.tensor(name).ok());
        let tensor = found.ok_or_else(|| format!("the checkpoint has no tensor `{name}`"))?;
        Ok((values(name, &tensor)?, tensor.shape().to_vec()))
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
        let front = layer.map_or_else(String::new, |layer| self.naming.layer().replace("{l}", &layer.to_string()));
        let stored = self.naming.stored(name);
        let plain = match name.strip_prefix("mlp.experts.") {
            Some(rest) => format!("mlp.experts.{{e}}.{rest}"),
            None => name.to_owned(),
        };
        let file_name = format!("{prefix}{front}{}", stored.map_or(plain.as_str(), |stored| stored.name));
        if file_name.contains("{e}") {
            let mut all = Vec::new();
            for expert in 0..self.experts {
                all.extend(self.tensor(&file_name.replace("{e}", &expert.to_string()))?.0);
            }
            return Ok(all);
        }
        let (values, shape) = self.tensor(&file_name)?;
        let Some(stored) = stored else { return Ok(values) };
        unpacked(values, shape, stored.how, stored.part, stored.parts)
            .ok_or_else(|| format!("`{file_name}` has no shape that it could be unpacked from"))
    }
}

/// What one of several weights was before it was packed; undone from the last thing done to the first.
fn unpacked(mut values: Vec<f32>, mut shape: Vec<usize>, how: &[Op], part: usize, parts: usize) -> Option<Vec<f32>> {
    for op in how.iter().rev() {
        match op {
            Op::Transpose => {
                let [.., rows, columns] = shape[..] else { return None };
                values = values.chunks_exact(rows * columns).flat_map(|one| transposed(one, columns)).collect();
                let len = shape.len();
                shape.swap(len - 2, len - 1);
            }
            Op::Join(along) | Op::Weave(along) => {
                let all = *shape.get(*along)?;
                let inner: usize = shape[along + 1..].iter().product();
                let is_mine = |place: usize| match op {
                    Op::Weave(_) => place % parts == part,
                    // Those that are joined are as long as each other.
                    _ => place / (all / parts) == part,
                };
                let rows = values.chunks_exact(inner.max(1)).enumerate();
                values = rows.filter(|(row, _)| is_mine(row % all)).flat_map(|(_, row)| row.to_vec()).collect();
                shape[*along] = all / parts;
            }
            // What changes dimensions alone changes no order.
            Op::Rows | Op::Lone => {}
        }
    }
    Some(values)
}

/// Rows become columns.
fn transposed(matrix: &[f32], columns: usize) -> Vec<f32> {
    let rows = matrix.len() / columns;
    (0..columns).flat_map(|column| (0..rows).map(move |row| matrix[row * columns + column])).collect()
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
        let slices = self.plan.slices(&self.at, place.name).into_iter().flatten();
        let mut values = slices.map(|at| usize::try_from(at).ok().and_then(|at| whole.get(at)));
        for out in out {
            // Rows of padding are in no checkpoint.
            *out = *values.next().flatten().unwrap_or(&0.0);
        }
        Ok(())
    }
}
