//! One file of a checkpoint: safetensors, which any tool reads, with what checkpoint and rank it is of among its metadata.

use super::blocks::{Reader, Sums, Writer};
use super::disk::Disk;
use super::error::{CheckpointError, Fault};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

const CHECKPOINT: &str = "checkpoint";
const RANK: &str = "rank";

/// The longest header that safetensors allows.
const HEADER_MAX: u64 = 100_000_000;

/// A tensor of a file that is to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
}

/// The format of elements, by their name in an inventory.
pub(crate) fn dtype(element: &str) -> Option<Dtype> {
    match element {
        "fp32" => Some(Dtype::F32),
        "bf16" => Some(Dtype::BF16),
        "int32" => Some(Dtype::I32),
        "int64" => Some(Dtype::I64),
        _ => None,
    }
}

/// Bytes of an element.
pub(crate) fn size(dtype: Dtype) -> u64 {
    dtype.bitsize() as u64 / 8
}

fn address(length: u64) -> usize {
    usize::try_from(length).expect("tensors of a rank are addresses")
}

/// Begins a file: its header, which says where each tensor will stand, one behind the other, and of what checkpoint and rank
/// it is, if it is of one.
pub(crate) fn begin<'d>(
    disk: &'d dyn Disk,
    path: &Path,
    of: Option<(&str, u64)>,
    entries: &[Entry],
) -> Result<Writer<'d>, CheckpointError> {
    let of_header = |error: String| CheckpointError::manifest(path, format!("no header of safetensors: {error}"));
    let mut end = 0;
    let tensors = entries.iter().map(|Entry { name, dtype, shape }| {
        let start = end;
        end += address(shape.iter().product::<u64>() * size(*dtype));
        let shape = shape.iter().copied().map(address).collect();
        (name.clone(), TensorInfo { dtype: *dtype, shape, data_offsets: (start, end) })
    });
    let tensors = tensors.collect();
    let metadata = match of {
        Some((id, rank)) => {
            HashMap::from([(CHECKPOINT.to_owned(), id.to_owned()), (RANK.to_owned(), rank.to_string())])
        }
        // What transformers asks for.
        None => HashMap::from([("format".to_owned(), "pt".to_owned())]),
    };
    let header = Metadata::new(Some(metadata), tensors).map_err(|error| of_header(error.to_string()))?;
    let mut header = serde_json::to_vec(&header).map_err(|error| of_header(error.to_string()))?;
    header.resize(header.len().next_multiple_of(8), b' ');
    if header.len() as u64 > HEADER_MAX {
        return Err(of_header(format!("{} bytes are more than it may have", header.len())));
    }
    let written = Writer::create(disk, path).and_then(|mut writer| {
        writer.write(&(header.len() as u64).to_le_bytes())?;
        writer.write(&header)?;
        Ok(writer)
    });
    written.map_err(CheckpointError::io(path, "writing"))
}

/// A file of a checkpoint that is read.
pub(crate) struct Shard<'s> {
    reader: Reader<'s>,
    tensors: HashMap<String, TensorInfo>,
    /// Where the first tensor begins.
    data: u64,
}

impl<'s> Shard<'s> {
    /// The file of a rank of a checkpoint.
    pub(crate) fn open(path: &Path, sums: &'s Sums, id: &str, rank: u64) -> Result<Self, Fault> {
        let mut reader = Reader::open(path, sums)?;
        let (header, data) = match header(&mut |at, out| reader.read(at, out)) {
            Ok(read) => read,
            Err(fault) => return Err(whose(path, id, rank).unwrap_or(fault)),
        };
        let of = |key: &str| header.metadata().as_ref().and_then(|metadata| metadata.get(key));
        if of(CHECKPOINT).map(String::as_str) != Some(id) || of(RANK) != Some(&rank.to_string()) {
            return Err(
                stranger(&header, id, rank).unwrap_or(Fault::Foreign { what: "it does not say of which".into() })
            );
        }
        if data + header.data_len() as u64 != sums.bytes {
            return Err(Fault::Length { has: sums.bytes, written: data + header.data_len() as u64 });
        }
        let tensors = header.tensors().into_iter().map(|(name, info)| (name, info.clone())).collect();
        Ok(Self { reader, tensors, data })
    }

    /// Where a tensor begins that is as it was written.
    pub(crate) fn find(&self, entry: &Entry) -> Result<u64, Fault> {
        let Some(info) = self.tensors.get(&entry.name) else {
            return Err(Fault::Tensor { what: format!("has no tensor `{}`", entry.name) });
        };
        let shape: Vec<u64> = info.shape.iter().map(|length| *length as u64).collect();
        if info.dtype != entry.dtype || shape != entry.shape {
            let (has, of, is, was) = (shape, info.dtype, &entry.shape, entry.dtype);
            return Err(Fault::Tensor { what: format!("has {has:?} of {of:?} there, not {is:?} of {was:?}") });
        }
        Ok(self.data + info.data_offsets.0 as u64)
    }

    /// Fills a buffer from a place of the file on.
    pub(crate) fn read(&mut self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.reader.read(at, out)
    }
}

/// The header, and where the tensors behind it begin.
fn header(read: &mut dyn FnMut(u64, &mut [u8]) -> Result<(), Fault>) -> Result<(Metadata, u64), Fault> {
    let wrong = |what: String| Fault::Tensor { what: format!("has no header of safetensors: {what}") };
    let mut length = [0; 8];
    read(0, &mut length)?;
    let length = u64::from_le_bytes(length);
    let len = usize::try_from(length).ok().filter(|_| length <= HEADER_MAX);
    let len = len.ok_or_else(|| wrong(format!("it would be {length} bytes long")))?;
    let mut text = vec![0; len];
    read(8, &mut text)?;
    let header: Metadata = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    Ok((header, 8 + length))
}

/// Of a file that is not what was written: whose it is, if it says so.
fn whose(path: &Path, id: &str, rank: u64) -> Option<Fault> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    let mut front = Vec::new();
    file.by_ref().take(length.min(8 + HEADER_MAX)).read_to_end(&mut front).ok()?;
    let read = &mut |at: u64, out: &mut [u8]| {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let there = front.get(at..).and_then(|rest| rest.get(..out.len())).ok_or(Fault::Missing)?;
        out.copy_from_slice(there);
        Ok(())
    };
    let (header, _) = header(read).ok()?;
    stranger(&header, id, rank)
}

/// Whether a header says that it is of another checkpoint or rank.
fn stranger(header: &Metadata, id: &str, rank: u64) -> Option<Fault> {
    let metadata = header.metadata().as_ref()?;
    match metadata.get(CHECKPOINT) {
        None => Some(Fault::Foreign { what: "it does not say of which".into() }),
        Some(other) if other != id => Some(Fault::Foreign { what: format!("it says that it is of `{other}`") }),
        Some(_) => {
            let of = metadata.get(RANK)?.parse().ok()?;
            (of != rank).then_some(Fault::Duplicate { of })
        }
    }
}
