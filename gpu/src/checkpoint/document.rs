//! `manifest.json`: what a checkpoint is of, who owns what of it, and its files. And `latest`, which names the newest
//! checkpoint of a folder.

use super::blocks::{Sums, checksum};
use super::error::CheckpointError;
use super::validate;
use moe_model_core::Spec;
use moe_model_core::manifest::Manifest;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The version of the format that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// The file in a checkpoint's folder.
pub const MANIFEST: &str = "manifest.json";

/// What a checkpoint is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Document {
    /// The version of the format.
    pub(crate) version: u32,
    /// What wrote it.
    pub(crate) program: String,
    /// Which checkpoint it is: no two have the same.
    pub(crate) checkpoint: String,
    /// Steps that were done.
    pub(crate) steps: i32,
    /// The checksum of the Spec, as JSON without spaces.
    pub(crate) spec_checksum: String,
    /// The model and its layout.
    pub(crate) spec: Spec,
    /// Who owns what.
    pub(crate) manifest: Manifest,
    /// Every file.
    pub(crate) files: Vec<Listed>,
}

/// A file of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listed {
    pub(crate) rank: u64,
    pub(crate) name: String,
    /// Its bytes, and the checksum of each block of [`BLOCK`](super::blocks::BLOCK) of them.
    pub(crate) sums: Sums,
}

/// The name of a rank's file.
pub(crate) fn file_name(rank: u64) -> String {
    format!("rank-{rank:05}.safetensors")
}

/// The checksum of a Spec.
pub(crate) fn of_spec(spec: &Spec) -> Result<String, String> {
    serde_json::to_vec(spec).map(|text| checksum(&text)).map_err(|error| error.to_string())
}

impl Document {
    /// As a file, whose first line is the checksum of all others.
    pub(crate) fn to_text(&self) -> Result<String, String> {
        let text = serde_json::to_string(self).map_err(|error| error.to_string())?;
        let rest = text.strip_prefix('{').ok_or("a document is an object")?.to_owned() + "\n";
        Ok(format!("{{\"checksum\":\"{}\",\n{rest}", checksum(rest.as_bytes())))
    }

    /// Out of a file, and the file's own checksum.
    pub(crate) fn read(path: &Path) -> Result<(Self, String), CheckpointError> {
        let wrong = |what: &str| CheckpointError::manifest(path, what);
        let bytes = fs::read(path).map_err(CheckpointError::io(path, "reading"))?;
        let text = core::str::from_utf8(&bytes).map_err(|_| wrong("the manifest is corrupt: it is no UTF-8"))?;
        let line = text
            .split_once('\n')
            .filter(|(line, rest)| *line == format!("{{\"checksum\":\"{}\",", checksum(rest.as_bytes())));
        let Some((_, rest)) = line else {
            return Err(wrong("the manifest is corrupt: its checksum is another, or it has none"));
        };
        let text = format!("{{{rest}");
        let version = serde_json::from_str::<Version>(&text).map_err(|error| wrong(&error.to_string()))?.version;
        if version != VERSION {
            let what = format!("the manifest is of version {version} of the format; this program reads {VERSION}");
            return Err(wrong(&what));
        }
        let document: Self = serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
        let of_spec = of_spec(&document.spec).map_err(|error| wrong(&error))?;
        if of_spec != document.spec_checksum {
            return Err(wrong("the Spec is not the one whose checksum the manifest has"));
        }
        validate::document(&document).map_err(|what| wrong(&what))?;
        Ok((document, checksum(&bytes)))
    }
}

/// What is read of a manifest of any version.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// The file that names the newest checkpoint of a folder.
pub(crate) const LATEST: &str = "latest";

/// What it says: the checkpoint's folder, and the checksum of its manifest.
pub(crate) fn latest(name: &str, sum: &str) -> String {
    format!("{name} {sum}\n")
}

/// Which checkpoint is the newest of a folder, and the checksum of its manifest.
pub(crate) fn newest(folder: &Path) -> Result<(String, String), CheckpointError> {
    let path = folder.join(LATEST);
    let text =
        fs::read_to_string(&path).map_err(CheckpointError::io(&path, "reading which checkpoint is the newest"))?;
    let split = text.trim_end().split_once(' ').filter(|(name, sum)| text == latest(name, sum));
    let (name, sum) =
        split.ok_or_else(|| CheckpointError::manifest(&path, "it names no checkpoint and its checksum"))?;
    if !is_plain(name) {
        return Err(CheckpointError::manifest(&path, format!("`{name}` is no name of a folder beside it")));
    }
    Ok((name.to_owned(), sum.to_owned()))
}

/// Whether a name is that of something in a folder itself.
pub(crate) fn is_plain(name: &str) -> bool {
    let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_usual)
}
