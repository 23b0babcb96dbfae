//! A Spec in a file: TOML, JSON, or any other format that describes itself, by the table of keys that the macro walks.
//!
//! Keys have the names, the meaning and the defaults that they have in a declaration. Numbers are numbers and words are
//! strings; switches are `"on"` and `"off"`, or booleans; a percentage is a string, `"10%"`; a decimal number has at
//! most three places. A group is a table. Where a key has several kinds (`attention`, `routing`, `accounting`) the
//! table's `kind` names one, wherever it stands; where it takes a word as well (`zero`), the word may stand in the
//! table's place.
//!
//! `architecture = "deepseek_v3"` names a [preset](crate::preset) in the place of all keys of an architecture; one that is
//! written beside it holds instead, a group with all its keys.
//!
//! ```toml
//! hidden = 7168
//! layers = { dense = 3, moe = 58, ffn = 18432 }
//! attention = { kind = "gqa", heads = 128, kv_heads = 8, head_dim = 128 }
//! zero = "optimizer"
//! headroom = "10%"
//! ```
//!
//! [`Spec`] implements `Serialize`, which writes every key, and `Deserialize`. What a file holds is read as a whole, so
//! that all that is wrong with it is said at once. [`Document::read`] keeps what is wrong apart, and a [`Declared`] says
//! which keys were written. A number out of range can be read: that is for the laws to say. A decimal number is read as
//! the format's own 64-bit float: digits beyond those that tell it from its neighbours are not seen.

mod leaf;
mod read;
mod tree;
mod write;

pub use tree::Document;

use crate::key::KeySet;
use crate::spec::Spec;
use crate::verdict::{Violations, advise, judge_known};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Deserializer, de};

/// The key that names a preset, in the place of all keys of an architecture.
const ARCHITECTURE: &str = "architecture";

/// The key of a table that names its kind.
const KIND: &str = "kind";

/// A Spec, and which of its keys were written.
#[derive(Clone, Copy, Debug)]
pub struct Declared {
    /// What was said, with defaults for what was not.
    pub spec: Spec,
    /// The keys that were written: they are to blame rather than those that were not.
    pub written: KeySet,
}

impl Declared {
    /// Every law that the Spec breaks, as the macro says it of a declaration with the same keys.
    #[must_use]
    pub const fn judge(&self) -> Violations {
        judge_known(&self.spec, KeySet::EMPTY, self.written)
    }

    /// What is legal but costs something that one may not know of, of a Spec that breaks no law.
    #[must_use]
    pub const fn warnings(&self) -> Violations {
        advise(&self.spec, KeySet::EMPTY, self.written)
    }
}

/// One thing that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The path of the key that it stands at, `mesh.tpp`, known or not; empty for the file itself.
    pub path: String,
    /// What is wrong, with the path and the value.
    pub message: String,
    /// What to write instead; empty where there is nothing to say.
    pub help: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.help.is_empty() { Ok(()) } else { write!(f, "\n= help: {}", self.help) }
    }
}

/// All that cannot be read; at least one thing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Faults {
    list: Vec<Fault>,
}

impl Faults {
    /// The faults, in the order of the file, what is missing from a group behind what is in it.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.list.iter()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.list.iter().enumerate() {
            write!(f, "{}{fault}", if i > 0 { "\nerror: " } else { "" })?;
        }
        Ok(())
    }
}

impl core::error::Error for Faults {}

impl Document {
    /// Looks every key up and reads every value.
    ///
    /// # Errors
    /// All that cannot be read: unknown, missing and repeated keys, and values that their keys do not take.
    pub fn read(&self) -> Result<Declared, Faults> {
        read::read(self)
    }
}

impl<'de> Deserialize<'de> for Declared {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Document::deserialize(deserializer)?.read().map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Spec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Declared::deserialize(deserializer).map(|declared| declared.spec)
    }
}
