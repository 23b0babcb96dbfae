//! Checkpoints that can be read under another layout.
//!
//! A folder holds checkpoints, each in a folder of its own, and `latest`, which names the newest. A checkpoint is a manifest
//! (`manifest.json`) and one safetensors file for each rank that has something no rank in front of it has: weights and
//! buffers by their names, and under `master_weight.`, `first_moment.` and `second_moment.` what the optimizer keeps of each
//! parameter. Of each tensor every element is in one file, once, padding in none; the manifest says where.
//!
//! It is written beside the others, and renamed when all of it is on the disk; `latest` is replaced last. So whenever the
//! writer ends, the newest checkpoint is whole. It is read by what a rank needs of it, block by block, each of which has a
//! checksum in the manifest.
//!
//! ```
//! use moe_model_core::Plan;
//! use moe_model_core::spec::{Accounting, Attention, Gqa, Layers, Spec};
//! use moe_model_gpu::checkpoint::Saved;
//! use moe_model_gpu::random::Random;
//! use moe_model_gpu::shapes::Dynamic;
//! use moe_model_gpu::{Bf16, Host, Numerics, Step};
//!
//! let mut spec = Spec::DEFAULT;
//! (spec.architecture.hidden, spec.architecture.vocab) = (8, 10);
//! spec.architecture.layers = Layers { dense: 1, ffn: 16, ..Layers::DEFAULT };
//! spec.architecture.attention = Attention::Gqa(Gqa { heads: 2, kv_heads: 1, head_dim: 4, ..Gqa::DEFAULT });
//! spec.layout.accounting = Accounting::REFERENCE;
//! let plan = Plan::new(spec)?;
//! let numerics = Numerics::usual(&plan.spec().architecture);
//! let mut step: Step<Host, Dynamic, Bf16> = Step::new(plan, 0, Host::new(1), numerics, &mut Random::of(&plan))?;
//!
//! let folder = std::env::temp_dir().join("moe-model-checkpoint-example");
//! step.save(&folder)?;
//! // Any layout of the same model reads it: here the same one.
//! step.load(&folder)?;
//! let saved = Saved::open(&folder)?;
//! let table = saved.tensor("model.embed_tokens.weight").expect("it has one");
//! assert_eq!((saved.steps(), &table.shape[..]), (0, &[10, 8][..]));
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod blocks;
pub(crate) mod disk;
pub(crate) mod document;
mod error;
pub(crate) mod shard;
mod validate;
pub(crate) mod write;

pub use document::{MANIFEST, VERSION};
pub use error::{CheckpointError, Fault};

use document::{Document, Listed, newest};
use moe_model_core::Spec;
use moe_model_core::manifest::{Manifest, Piece, Slice, Tensor, overlaps};
use safetensors::Dtype;
use shard::{Entry, Shard, dtype, size};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

/// What of a parameter a checkpoint holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kept {
    /// The weight itself, or a buffer.
    Weight,
    /// The optimizer's master copy.
    MasterWeight,
    /// Its first moment.
    FirstMoment,
    /// Its second moment.
    SecondMoment,
}

impl Kept {
    /// What the optimizer keeps.
    pub const STATES: [Self; 3] = [Self::MasterWeight, Self::FirstMoment, Self::SecondMoment];

    /// Its name in a manifest.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::MasterWeight => "master_weight",
            Self::FirstMoment => "first_moment",
            Self::SecondMoment => "second_moment",
        }
    }

    /// The name of a tensor of it in a file.
    fn file_name(self, tensor: &str) -> String {
        match self {
            Self::Weight => tensor.to_owned(),
            state => format!("{}.{tensor}", state.name()),
        }
    }

    /// The format of its elements.
    pub(crate) fn element<'m>(self, manifest: &'m Manifest, tensor: &'m Tensor) -> Option<&'m str> {
        if self == Self::Weight {
            return Some(&tensor.element);
        }
        let of = manifest.states.iter().find(|state| state.saved && state.role == self.name());
        of.filter(|_| !tensor.buffer).map(|state| state.element.as_str())
    }

    /// What of a slice ranks hold.
    pub(crate) fn shards(self, held: &moe_model_core::manifest::Held) -> &[moe_model_core::manifest::Shard] {
        if self == Self::Weight { &held.weights } else { &held.states }
    }

    /// What stands in a file of some elements of a slice.
    pub(crate) fn entry(self, tensor: &Tensor, slice: &Slice, stored: u64, dtype: Dtype) -> Entry {
        let is_whole = stored == slice.part.elements();
        let shape = if is_whole { slice.part.shape.clone() } else { vec![stored] };
        Entry { name: self.file_name(&tensor.name), dtype, shape }
    }
}

/// A checkpoint on the disk.
#[derive(Debug)]
pub struct Saved {
    folder: PathBuf,
    document: Document,
    places: HashMap<String, usize>,
}

impl Saved {
    /// The checkpoint in a folder, or the newest one of those that a folder holds. Its manifest is read, and whether its files
    /// are there and no others are.
    ///
    /// # Errors
    /// If there is none; if its manifest, or the file that names the newest, is not what was written; if a file is missing, too
    /// short or too long, or there is one too many.
    pub fn open(folder: &Path) -> Result<Self, CheckpointError> {
        let (folder, expected) = if folder.join(MANIFEST).exists() {
            (folder.to_owned(), None)
        } else {
            let (name, sum) = newest(folder)?;
            (folder.join(name), Some(sum))
        };
        let path = folder.join(MANIFEST);
        let (document, sum) = Document::read(&path)?;
        if expected.is_some_and(|expected| expected != sum) {
            return Err(CheckpointError::manifest(&path, "the manifest is not that of the newest checkpoint"));
        }
        let places = document.manifest.tensors.iter().zip(0..).map(|(tensor, place)| (tensor.name.clone(), place));
        let saved = Self { places: places.collect(), folder, document };
        saved.look_at_files()?;
        Ok(saved)
    }

    /// The model and the layout that it was saved under.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.document.spec
    }

    /// Who owned what of it.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.document.manifest
    }

    /// Steps that were done.
    #[must_use]
    pub fn steps(&self) -> i32 {
        self.document.steps
    }

    /// The folder of it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A tensor by its whole name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.places.get(name).map(|place| &self.document.manifest.tensors[*place])
    }

    /// Every file is as long as it was, and none is there that was not.
    fn look_at_files(&self) -> Result<(), CheckpointError> {
        for file in &self.document.files {
            let path = self.folder.join(&file.name);
            blocks::Reader::open(&path, &file.sums).map_err(|fault| self.of_file(file.rank, fault))?;
        }
        let known: BTreeSet<&str> = self.document.files.iter().map(|file| file.name.as_str()).collect();
        let doing = "looking what files there are";
        let there = fs::read_dir(&self.folder).map_err(CheckpointError::io(&self.folder, doing))?;
        for file in there {
            let name = file.map_err(CheckpointError::io(&self.folder, doing))?.file_name();
            let name = name.to_string_lossy();
            if name.ends_with(".safetensors") && !known.contains(&*name) {
                let (tensor, slice) = ("no tensor".to_owned(), "of its manifest".to_owned());
                let fault = Fault::Foreign { what: "its manifest does not list it".to_owned() };
                return Err(CheckpointError::Shard { file: self.folder.join(&*name), tensor, slice, fault });
            }
        }
        Ok(())
    }

    /// A fault of a whole file, at the first tensor of it.
    fn of_file(&self, rank: u64, fault: Fault) -> CheckpointError {
        let of = |tensor: &Tensor| -> Option<(String, String)> {
            let held = tensor.slices.iter().find(|slice| {
                let shards = slice.held.iter().flat_map(|held| held.weights.iter().chain(&held.states));
                shards.into_iter().any(|shard| shard.writer == Some(rank))
            });
            held.map(|slice| (tensor.name.clone(), slice.part.to_string()))
        };
        let (tensor, slice) = self.manifest().tensors.iter().find_map(of).unwrap_or_default();
        let file = self.listed(rank).map_or_else(|| document::file_name(rank), |file| file.name.clone());
        CheckpointError::Shard { file: self.folder.join(file), tensor, slice, fault }
    }

    fn listed(&self, rank: u64) -> Option<&Listed> {
        self.document.files.iter().find(|file| file.rank == rank)
    }

    /// Begins to read.
    #[must_use]
    pub fn files(&self) -> Files<'_> {
        Files { saved: self, open: VecDeque::new(), bytes: Vec::new() }
    }
}

/// The files of a checkpoint while it is read.
pub struct Files<'s> {
    saved: &'s Saved,
    /// Those that are open, by their ranks: the one that was read last in front.
    open: VecDeque<(u64, Shard<'s>)>,
    bytes: Vec<u8>,
}

/// The most files that are open at once, of each of which a block is held.
const OPEN_MAX: usize = 16;

/// The most bytes that are read at once.
const CHUNK: u64 = 1 << 20;

impl Files<'_> {
    /// Reads what a piece of a tensor has of elements, padding apart, and hands it over run by run: from which of the piece's
    /// elements on, and their bytes. Returns how many elements there were.
    ///
    /// # Errors
    /// If the checkpoint has no such tensor, or a file is not what was written.
    pub fn read(
        &mut self,
        kept: Kept,
        tensor: &Tensor,
        wanted: &Piece<'_>,
        mut see: impl FnMut(u64, &[u8]),
    ) -> Result<u64, CheckpointError> {
        let (saved, name) = (self.saved, &tensor.name);
        let manifest = saved.manifest();
        let absent = || CheckpointError::Other {
            of: format!("`{name}` ({})", kept.name()),
            there: "no such tensor".to_owned(),
            here: format!("one of {:?}", tensor.shape),
        };
        let there = saved.tensor(name).ok_or_else(absent)?;
        let element = kept.element(manifest, there).ok_or_else(absent)?;
        let dtype = dtype(element).ok_or_else(absent)?;
        if there.shape != tensor.shape {
            let (there, here) = (format!("{:?}", there.shape), format!("{:?}", tensor.shape));
            return Err(CheckpointError::Other { of: format!("`{name}`"), there, here });
        }
        let mut count = 0;
        for slice in &there.slices {
            for shard in slice.held.iter().flat_map(|held| kept.shards(held)) {
                let Some(writer) = shard.writer else { continue };
                let from = validate::piece(slice, shard);
                let mut place = None;
                overlaps(&from, wanted, |run| {
                    let entry = || kept.entry(there, slice, shard.stored, dtype);
                    let found = match place {
                        Some(place) => Ok(place),
                        None => self.find(writer, &entry()),
                    };
                    let wrong = |fault| saved.of_piece(writer, kept, there, &from, fault);
                    let first = *place.insert(found.map_err(wrong)?);
                    count += run.len;
                    self.run(first, run.from, run.to, run.len, size(dtype), &mut see).map_err(wrong)
                })?;
            }
        }
        Ok(count)
    }

    /// Where a tensor of a rank's file begins.
    fn find(&mut self, rank: u64, entry: &Entry) -> Result<u64, Fault> {
        if let Some(place) = self.open.iter().position(|(open, _)| *open == rank) {
            self.open.swap(0, place);
        } else {
            let (saved, file) = (self.saved, self.saved.listed(rank).ok_or(Fault::Missing)?);
            let shard = Shard::open(&saved.folder.join(&file.name), &file.sums, &saved.document.checkpoint, rank)?;
            self.open.truncate(OPEN_MAX - 1);
            self.open.push_front((rank, shard));
        }
        self.open.front().ok_or(Fault::Missing)?.1.find(entry)
    }

    fn run(
        &mut self,
        first: u64,
        from: u64,
        to: u64,
        len: u64,
        size: u64,
        see: &mut impl FnMut(u64, &[u8]),
    ) -> Result<(), Fault> {
        let Some((_, shard)) = self.open.front_mut() else { return Err(Fault::Missing) };
        let (most, mut done) = (CHUNK / size.max(1), 0);
        while done < len {
            let now = most.min(len - done);
            self.bytes.resize(usize::try_from(now * size).unwrap_or(0), 0);
            shard.read(first + (from + done) * size, &mut self.bytes)?;
            see(to + done, &self.bytes);
            done += now;
        }
        Ok(())
    }
}

impl Saved {
    /// A fault of a file at a piece of a tensor.
    fn of_piece(&self, rank: u64, kept: Kept, tensor: &Tensor, piece: &Piece<'_>, fault: Fault) -> CheckpointError {
        let file = self.listed(rank).map_or_else(|| document::file_name(rank), |file| file.name.clone());
        let end = piece.first + piece.elements;
        let slice = format!("{}, elements {}..{end}", piece.part, piece.first);
        CheckpointError::Shard { file: self.folder.join(file), tensor: kept.file_name(&tensor.name), slice, fault }
    }
}
