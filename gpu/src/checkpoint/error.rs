//! Why a checkpoint was not written, or not read.

use core::fmt;
use moe_model_core::holdings::Unplaced;
use std::io;
use std::path::{Path, PathBuf};

/// Why a checkpoint was not written, or not read.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The system refuses something.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was to be done.
        doing: &'static str,
        /// What the system says.
        why: String,
    },
    /// A folder holds no checkpoint, or its manifest or the pointer to the newest one is not what was written.
    Manifest {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A file of a checkpoint does not hold what its manifest says.
    Shard {
        /// The file.
        file: PathBuf,
        /// The tensor that was looked for: of a file that is wrong as a whole, the first one of it.
        tensor: String,
        /// What of it.
        slice: String,
        /// What is wrong.
        fault: Fault,
    },
    /// The checkpoint is of another model, or of other formats.
    Other {
        /// What differs: a key, or a tensor.
        of: String,
        /// What the checkpoint has.
        there: String,
        /// What the step has.
        here: String,
    },
    /// The layout does not say what of a tensor ranks hold.
    Unplaced(Unplaced),
    /// Another rank of the world fails.
    Peer {
        /// The rank.
        rank: u64,
        /// What it says.
        says: String,
    },
}

/// What is wrong with a file of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// It is not there.
    Missing,
    /// It is no file of its own: a folder, or a link.
    NoFile,
    /// It is not as long as it was.
    Length {
        /// Its bytes.
        has: u64,
        /// Those that were written.
        written: u64,
    },
    /// Its bytes are not those that were written.
    Corrupt {
        /// The first byte of the block whose checksum is another.
        first: u64,
        /// The bytes of the block.
        bytes: u64,
    },
    /// It is of another checkpoint, or of none.
    Foreign {
        /// What it is.
        what: String,
    },
    /// It is the file of another rank of the same checkpoint.
    Duplicate {
        /// The rank.
        of: u64,
    },
    /// It does not hold the tensor as the manifest says.
    Tensor {
        /// What it holds.
        what: String,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the file is missing"),
            Self::NoFile => f.write_str("it is no file of its own"),
            Self::Length { has, written } => write!(f, "the file has {has} bytes, {written} were written"),
            Self::Corrupt { first, bytes } => {
                write!(f, "the file is corrupt: of bytes {first}..{} the checksum is another", first + bytes)
            }
            Self::Foreign { what } => write!(f, "the file is not of this checkpoint: {what}"),
            Self::Duplicate { of } => write!(f, "the file is that of rank {of} once more"),
            Self::Tensor { what } => write!(f, "the file {what}"),
        }
    }
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, doing, why } => write!(f, "{}: {doing}: {why}", path.display()),
            Self::Manifest { path, what } => write!(f, "{}: {what}", path.display()),
            Self::Shard { file, tensor, slice, fault } => write!(f, "{}: `{tensor}` {slice}: {fault}", file.display()),
            Self::Other { of, there, here } => write!(f, "{of}: the checkpoint has {there}, the step {here}"),
            Self::Unplaced(unplaced) => unplaced.fmt(f),
            Self::Peer { rank, says } => write!(f, "rank {rank}: {says}"),
        }
    }
}

impl core::error::Error for CheckpointError {}

impl From<Unplaced> for CheckpointError {
    fn from(unplaced: Unplaced) -> Self {
        Self::Unplaced(unplaced)
    }
}

impl CheckpointError {
    /// What the system says of something that was to be done to a file or folder.
    pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { path: path.to_owned(), doing, why: error.to_string() }
    }

    pub(crate) fn manifest(path: &Path, what: impl Into<String>) -> Self {
        Self::Manifest { path: path.to_owned(), what: what.into() }
    }
}
