//! What is done to files while a checkpoint is written, each of them a moment at which all may end.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Files and folders.
pub(crate) trait Disk: Sync {
    /// A folder.
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    /// A file that is not there yet.
    fn create(&self, path: &Path) -> io::Result<File> {
        File::create_new(path)
    }

    /// Appends to a file.
    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    /// Has what was written outlast the machine.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    /// The same of what a folder holds.
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        // Elsewhere folders are no files that could be opened.
        if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
    }

    /// Renames a file or folder, in the place of a file that has the name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    /// Removes a folder and all that it holds.
    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

/// Those of this machine.
pub(crate) struct Real;

impl Disk for Real {}
