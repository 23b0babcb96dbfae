//! Whether a manifest, whoever wrote it, is one that a checkpoint can be read by: of each tensor every element is in one
//! file, once.

use super::document::{Document, is_plain};
use super::shard::{dtype, size};
use moe_model_core::groups::Ranks;
use moe_model_core::manifest::{Held, Manifest, Piece, Shard, Slice, Tensor, overlaps};
use std::collections::{BTreeMap, BTreeSet};

/// The most dimensions of a tensor.
const DIMENSIONS_MAX: usize = 8;

/// Asserts it of a document.
pub(crate) fn document(document: &Document) -> Result<(), String> {
    let manifest = &document.manifest;
    let mut files = BTreeSet::new();
    for file in &document.files {
        let name = &file.name;
        if !is_plain(name) {
            return Err(format!("`{name}` is no name of a file in the manifest's folder"));
        }
        if file.rank >= manifest.world || !files.insert((0, file.rank.to_string())) || !files.insert((1, name.clone()))
        {
            return Err(format!("the file `{name}` of rank {} is listed twice, or of no rank", file.rank));
        }
    }
    if document.steps < 0 {
        return Err(format!("`steps` = {}", document.steps));
    }
    for state in manifest.states.iter().filter(|state| state.saved) {
        if dtype(&state.element).is_none() {
            return Err(format!("the {} is of format {}, which no step has", state.role, state.element));
        }
    }
    let mut names = BTreeSet::new();
    for tensor in &manifest.tensors {
        if !names.insert(&tensor.name) {
            return Err(format!("the tensor `{}` is listed twice", tensor.name));
        }
        self::tensor(manifest, tensor).map_err(|what| format!("`{}`: {what}", tensor.name))?;
    }
    let has_file = |rank: &u64| files.contains(&(0, rank.to_string()));
    let writers: BTreeSet<u64> = manifest.tensors.iter().flat_map(shards).filter_map(|shard| shard.writer).collect();
    match writers.iter().find(|rank| !has_file(rank)) {
        Some(rank) => Err(format!("no file of rank {rank} is listed, which wrote some of the tensors")),
        None => Ok(()),
    }
}

fn shards(tensor: &Tensor) -> impl Iterator<Item = &Shard> {
    let held = tensor.slices.iter().flat_map(|slice| &slice.held);
    held.flat_map(|held| held.weights.iter().chain(&held.states))
}

fn tensor(manifest: &Manifest, tensor: &Tensor) -> Result<(), String> {
    let Tensor { shape, padded, element, .. } = tensor;
    let element = dtype(element).ok_or_else(|| format!("it is of format {element}, which no step has"))?;
    let dims = shape.len();
    let is_padded = |(logical, padded): (&u64, &u64)| logical <= padded;
    if dims == 0
        || dims > DIMENSIONS_MAX
        || padded.len() != dims
        || !shape.iter().zip(padded).all(is_padded)
        || shape[1..] != padded[1..]
    {
        return Err(format!("its shape is {shape:?}, padded {padded:?}"));
    }
    let most = padded.iter().try_fold(size(element).max(8), |product, length| product.checked_mul(*length));
    if most.is_none_or(|most| most > 1 << 62) {
        return Err(format!("its shape {padded:?} has more elements than any device"));
    }
    for slice in &tensor.slices {
        self::slice(manifest, tensor, slice).map_err(|what| format!("the slice {}: {what}", slice.part))?;
    }
    tiled(tensor, "weights", |held| &held.weights)?;
    if !tensor.buffer && manifest.states.iter().any(|state| state.saved) {
        tiled(tensor, "optimizer's states", |held| &held.states)?;
    }
    Ok(())
}

fn slice(manifest: &Manifest, tensor: &Tensor, slice: &Slice) -> Result<(), String> {
    let (part, dims) = (&slice.part, tensor.padded.len());
    let is_inside =
        |((start, len), all): ((&u64, &u64), &u64)| *len > 0 && start.checked_add(*len).is_some_and(|end| end <= *all);
    if part.start.len() != dims
        || part.shape.len() != dims
        || !part.start.iter().zip(&part.shape).zip(&tensor.padded).all(is_inside)
    {
        return Err("it lies outside the tensor".to_owned());
    }
    let experts: BTreeSet<&u64> = slice.experts.iter().collect();
    let is_each_once = slice.experts.len() as u64 == part.shape[0] && experts.len() == slice.experts.len();
    if !(slice.experts.is_empty() || is_each_once && experts.iter().all(|expert| **expert < tensor.padded[0])) {
        return Err(format!("it has the experts {:?}", slice.experts));
    }
    for held in &slice.held {
        for shard in held.weights.iter().chain(&held.states) {
            let is_inside = shard.first.checked_add(shard.elements).is_some_and(|end| end <= part.elements());
            if !is_inside || shard.stored > shard.elements || shard.elements == 0 {
                return Err(format!("elements {:?} lie outside of it", shard.range()));
            }
            if shard.writer.is_some_and(|writer| !are_ranks(&shard.ranks, manifest.world) || !shard.has(writer)) {
                return Err(format!(
                    "rank {:?} writes elements {:?} of it, and does not hold them",
                    shard.writer,
                    shard.range()
                ));
            }
        }
        if held.ranks.is_empty() || !are_ranks(&held.ranks, manifest.world) {
            return Err("no ranks of the world hold it".to_owned());
        }
    }
    Ok(())
}

fn are_ranks(list: &[Ranks], world: u64) -> bool {
    list.iter().all(|ranks| {
        let Ranks { first, stride, count } = *ranks;
        let last = count.checked_sub(1).and_then(|steps| steps.checked_mul(stride)?.checked_add(first));
        stride > 0 && last.is_some_and(|last| last < world)
    })
}

/// Whether every element, padding apart, is in one file.
fn tiled<'t>(tensor: &'t Tensor, what: &str, of: impl Fn(&'t Held) -> &'t [Shard]) -> Result<(), String> {
    let mut pieces: Vec<(Piece<'t>, u64)> = Vec::new();
    for slice in &tensor.slices {
        for shard in slice.held.iter().flat_map(&of).filter(|shard| shard.writer.is_some()) {
            pieces.push((piece(slice, shard), shard.writer.unwrap_or(0)));
        }
    }
    let mut by_rank: BTreeMap<u64, usize> = BTreeMap::new();
    for (_, writer) in &pieces {
        *by_rank.entry(*writer).or_default() += 1;
    }
    if let Some((rank, _)) = by_rank.iter().find(|(_, count)| **count > 1) {
        return Err(format!("rank {rank} has {what} of it twice"));
    }
    for (place, (one, _)) in pieces.iter().enumerate() {
        for (other, _) in &pieces[place + 1..] {
            let is_in_both = if one.part == other.part && one.experts == other.experts {
                one.first.max(other.first) < (one.first + one.elements).min(other.first + other.elements)
            } else {
                overlaps(one, other, Err).is_err()
            };
            if is_in_both {
                return Err(format!("{what} of it are in two files: {} and {}", one.part, other.part));
            }
        }
    }
    let written: u64 = pieces.iter().map(|(piece, _)| piece.elements).sum();
    if written != tensor.elements() {
        return Err(format!("of {} elements {written} {what} are in files", tensor.elements()));
    }
    Ok(())
}

/// What of a slice is in a file.
pub(crate) fn piece<'t>(slice: &'t Slice, shard: &Shard) -> Piece<'t> {
    Piece { part: &slice.part, experts: &slice.experts, first: shard.first, elements: shard.stored }
}
