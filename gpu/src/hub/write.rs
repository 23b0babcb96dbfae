//! A Hugging Face checkpoint out of one of any layout: weights alone, tensor by tensor.

use super::pack::{Dense, packed};
use crate::checkpoint::disk::{Disk, Real};
use crate::checkpoint::shard::{self, Entry, dtype, size};
use crate::checkpoint::{CheckpointError, Files, Kept, Saved};
use moe_model_core::Bytes;
use moe_model_core::checkpoint::{Naming, Op};
use moe_model_core::holdings::Part;
use moe_model_core::manifest::{Piece, Tensor};
use safetensors::Dtype;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A tensor of the files, and what becomes it.
struct Packed<'s> {
    name: String,
    dtype: Dtype,
    shape: Vec<u64>,
    /// The weights that it is made of; of experts that have tensors of their own, one of them.
    of: Vec<(&'s Tensor, Option<u64>)>,
    how: &'static [Op],
}

impl Packed<'_> {
    fn bytes(&self) -> u64 {
        self.shape.iter().product::<u64>() * size(self.dtype)
    }

    fn entry(&self) -> Entry {
        Entry { name: self.name.clone(), dtype: self.dtype, shape: self.shape.clone() }
    }
}

/// Writes the weights of a checkpoint under the names and in the layout of a family, as transformers reads them: one
/// `model.safetensors`, or several of so many bytes at most and `model.safetensors.index.json`. One tensor at a time is in
/// memory. `config.json` and the tokenizer are the model's own, and are to be copied beside them.
///
/// # Errors
/// If the folder is there already, the checkpoint is not what was written, or has weights that the family has no place for. The
/// folder has its name when all of it is there.
pub fn write(saved: &Saved, naming: &'static Naming, folder: &Path, most: Bytes) -> Result<(), CheckpointError> {
    if folder.exists() {
        return Err(CheckpointError::manifest(folder, "there is something of this name"));
    }
    let (disk, tensors) = (&Real, list(saved, naming)?);
    let partial = partial(folder);
    if partial.exists() {
        disk.remove_folder(&partial).map_err(CheckpointError::io(&partial, "removing what an earlier writer left"))?;
    }
    disk.create_folder(&partial).map_err(CheckpointError::io(&partial, "making the folder"))?;
    let shards = dealt(&tensors, most.bytes());
    let (mut map, mut files) = (BTreeMap::new(), saved.files());
    for (number, shard) in (1..).zip(&shards) {
        let name = match shards.len() {
            1 => "model.safetensors".to_owned(),
            all => format!("model-{number:05}-of-{all:05}.safetensors"),
        };
        map.extend(shard.iter().map(|packed| (packed.name.clone(), name.clone())));
        one(disk, &partial.join(&name), shard, &mut files)?;
    }
    if shards.len() > 1 {
        let total: u64 = tensors.iter().map(Packed::bytes).sum();
        let index = json!({ "metadata": { "total_size": total }, "weight_map": map });
        let path = partial.join("model.safetensors.index.json");
        let text =
            serde_json::to_vec_pretty(&index).map_err(|error| CheckpointError::manifest(&path, error.to_string()));
        fs::write(&path, text?).map_err(CheckpointError::io(&path, "writing"))?;
    }
    disk.sync_folder(&partial).map_err(CheckpointError::io(&partial, "having it outlast the machine"))?;
    disk.rename(&partial, folder).map_err(CheckpointError::io(folder, "giving the folder its name"))
}

/// The folder while it is written.
fn partial(folder: &Path) -> PathBuf {
    let name = folder.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    folder.with_file_name(format!("{name}.partial"))
}

/// Tensors in order, so many bytes of them in each file; one that is larger has a file of its own.
fn dealt<'t, 's>(tensors: &'t [Packed<'s>], most: u64) -> Vec<Vec<&'t Packed<'s>>> {
    let (mut shards, mut bytes): (Vec<Vec<&Packed<'_>>>, u64) = (Vec::new(), 0);
    for packed in tensors {
        bytes += packed.bytes();
        match shards.last_mut() {
            Some(last) if bytes <= most => last.push(packed),
            _ => {
                shards.push(vec![packed]);
                bytes = packed.bytes();
            }
        }
    }
    shards
}

/// Every tensor of the files.
fn list<'s>(saved: &'s Saved, naming: &'static Naming) -> Result<Vec<Packed<'s>>, CheckpointError> {
    let mut list = Vec::new();
    let routed = saved.spec().architecture.experts.routed;
    for tensor in &saved.manifest().tensors {
        let wrong = |what: &str| CheckpointError::Other {
            of: format!("`{}`", tensor.name),
            there: what.to_owned(),
            here: format!("the names of {}", naming.name),
        };
        let dtype = dtype(&tensor.element).ok_or_else(|| wrong("another format"))?;
        let name = naming.file_name(&tensor.key, tensor.layer, tensor.block);
        let stored = naming.stored(&tensor.key);
        let (parts, how) = match stored {
            // What several become one of stands in the place of the first.
            Some(stored) if stored.part > 0 => continue,
            Some(stored) => {
                let front = tensor.name.strip_suffix(&tensor.key).ok_or_else(|| wrong("a block of its own"))?;
                let of = stored.of.iter().map(|part| saved.tensor(&format!("{front}{part}")));
                (of.collect::<Option<Vec<_>>>().ok_or_else(|| wrong("a part of a tensor"))?, stored.how)
            }
            None => (vec![tensor], &[] as &[Op]),
        };
        let mut add = |name: String, expert: Option<u64>| {
            let of: Vec<_> = parts.iter().map(|part| (*part, expert)).collect();
            let skipped = usize::from(expert.is_some());
            let shapes = parts.iter().map(|part| part.shape[skipped..].to_vec());
            let shape = Op::shape(how, shapes).ok_or_else(|| wrong("another shape"))?;
            list.push(Packed { name, dtype, shape, of, how });
            Ok::<(), CheckpointError>(())
        };
        if name.contains("{e}") {
            for expert in 0..routed {
                add(name.replace("{e}", &expert.to_string()), Some(expert))?;
            }
        } else {
            add(name, None)?;
        }
    }
    copies(saved, naming, &mut list);
    Ok(list)
}

/// What modules for multi-token prediction hold of the model once more.
fn copies<'s>(saved: &'s Saved, naming: &'static Naming, list: &mut Vec<Packed<'s>>) {
    let architecture = &saved.spec().architecture;
    let has_modules = saved.manifest().tensors.iter().any(|tensor| tensor.key == "eh_proj.weight");
    let modules = if has_modules { architecture.mtp } else { 0 };
    for layer in (0..modules).map(|depth| architecture.layers.count() + depth) {
        for (of, name) in Naming::mtp_copies() {
            let Some(tensor) = saved.tensor(of) else { continue };
            let Some(dtype) = dtype(&tensor.element) else { continue };
            let name = naming.file_name(name, Some(layer), None);
            list.push(Packed { name, dtype, shape: tensor.shape.clone(), of: vec![(tensor, None)], how: &[] });
        }
    }
}

/// One file.
fn one(disk: &dyn Disk, path: &Path, tensors: &[&Packed<'_>], files: &mut Files<'_>) -> Result<(), CheckpointError> {
    let entries: Vec<Entry> = tensors.iter().map(|packed| packed.entry()).collect();
    let mut writer = shard::begin(disk, path, None, &entries)?;
    for packed in tensors {
        let bytes = match packed.dtype {
            Dtype::BF16 => elements::<2>(files, packed)?.into_flattened(),
            Dtype::I64 => elements::<8>(files, packed)?.into_flattened(),
            _ => elements::<4>(files, packed)?.into_flattened(),
        };
        writer.write(&bytes).map_err(CheckpointError::io(path, "writing"))?;
    }
    writer.finish().map_err(CheckpointError::io(path, "writing"))?;
    Ok(())
}

/// The elements of a tensor, each so many bytes.
fn elements<const SIZE: usize>(files: &mut Files<'_>, of: &Packed<'_>) -> Result<Vec<[u8; SIZE]>, CheckpointError> {
    let length = |length: &u64| usize::try_from(*length).expect("tensors are addresses");
    let mut parts = Vec::new();
    for (tensor, expert) in &of.of {
        let (mut start, mut shape) = (vec![0; tensor.shape.len()], tensor.shape.clone());
        if let Some(expert) = expert {
            (start[0], shape[0]) = (*expert, 1);
        }
        // Where experts stand in an order of their own they are looked for by their numbers.
        let has_numbers = tensor.slices.iter().any(|slice| !slice.experts.is_empty());
        let experts: Vec<u64> = if has_numbers { (start[0]..start[0] + shape[0]).collect() } else { Vec::new() };
        let part = Part { start, shape };
        let wanted = Piece { part: &part, experts: &experts, first: 0, elements: part.elements() };
        let mut values = vec![[0; SIZE]; length(&part.elements())];
        let has = files.read(Kept::Weight, tensor, &wanted, |at, bytes| {
            values[length(&at)..].iter_mut().zip(bytes.as_chunks().0).for_each(|(value, bytes)| *value = *bytes);
        })?;
        if has != part.elements() {
            let (there, here) = (format!("{has} elements"), part.elements().to_string());
            return Err(CheckpointError::Other { of: format!("`{}` {part}", tensor.name), there, here });
        }
        let skipped = usize::from(expert.is_some());
        parts.push(Dense { values, shape: part.shape[skipped..].iter().map(length).collect() });
    }
    let whole =
        packed(parts, of.how).filter(|whole| whole.shape.iter().map(|l| *l as u64).eq(of.shape.iter().copied()));
    whole.map(|whole| whole.values).ok_or_else(|| CheckpointError::Other {
        of: format!("`{}`", of.name),
        there: "parts of other shapes".to_owned(),
        here: format!("{:?}", of.shape),
    })
}
