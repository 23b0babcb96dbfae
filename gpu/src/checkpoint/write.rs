//! Writing a checkpoint: a folder beside the others that takes its name when all of it is on the disk.

use super::blocks::checksum;
use super::disk::Disk;
use super::document::{Document, LATEST, MANIFEST, latest};
use super::error::CheckpointError;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What the names of checkpoints that are not whole end with.
const PARTIAL: &str = "partial";

/// A checkpoint that is being written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Partial {
    folder: PathBuf,
    name: String,
}

impl Partial {
    /// Begins one behind so many steps, and removes what a writer that ended early left.
    pub(crate) fn begin(disk: &dyn Disk, folder: &Path, steps: i32) -> Result<Self, CheckpointError> {
        disk.create_folder(folder).map_err(CheckpointError::io(folder, "making the folder"))?;
        let doing = "looking what checkpoints there are";
        for there in fs::read_dir(folder).map_err(CheckpointError::io(folder, doing))? {
            let path = there.map_err(CheckpointError::io(folder, doing))?.path();
            if path.extension().is_some_and(|extension| extension == PARTIAL) {
                let removed = if path.is_dir() { disk.remove_folder(&path) } else { disk.remove(&path) };
                removed.map_err(CheckpointError::io(&path, "removing what an earlier writer left"))?;
            }
        }
        let name = format!("step-{steps:08}");
        let again = (1..).map(|number| format!("{name}-{number}"));
        let mut names = core::iter::once(name.clone()).chain(again);
        let name = names.find(|name| !folder.join(name).exists()).unwrap_or(name);
        let begun = Self::named(folder, name);
        disk.create_folder(&begun.path()).map_err(CheckpointError::io(&begun.path(), "making the folder"))?;
        Ok(begun)
    }

    /// The same by the name that another rank gave it.
    pub(crate) fn named(folder: &Path, name: String) -> Self {
        Self { folder: folder.to_owned(), name }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Where its files are written.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.{PARTIAL}", self.name))
    }

    /// All files are on the disk: it becomes the newest.
    pub(crate) fn finish(self, disk: &dyn Disk, document: &Document) -> Result<PathBuf, CheckpointError> {
        let partial = self.path();
        let path = partial.join(MANIFEST);
        let text = document.to_text().map_err(|error| CheckpointError::manifest(&path, error))?;
        put(disk, &path, text.as_bytes())?;
        sync(disk, &partial)?;
        let whole = self.folder.join(&self.name);
        let renamed = disk.rename(&partial, &whole);
        renamed.map_err(CheckpointError::io(&whole, "giving the checkpoint its name"))?;
        sync(disk, &self.folder)?;
        let (newest, beside) = (self.folder.join(LATEST), self.folder.join(format!("{LATEST}.{PARTIAL}")));
        put(disk, &beside, latest(&self.name, &checksum(text.as_bytes())).as_bytes())?;
        disk.rename(&beside, &newest).map_err(CheckpointError::io(&newest, "naming the newest checkpoint"))?;
        sync(disk, &self.folder)?;
        Ok(whole)
    }
}

/// What a folder holds is on the disk.
fn sync(disk: &dyn Disk, folder: &Path) -> Result<(), CheckpointError> {
    disk.sync_folder(folder).map_err(CheckpointError::io(folder, "having it outlast the machine"))
}

/// A small file, on the disk.
fn put(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    let written = disk.create(path).and_then(|mut file: File| {
        disk.write(&mut file, bytes)?;
        file.flush()?;
        disk.sync(&file)
    });
    written.map_err(CheckpointError::io(path, "writing"))
}
