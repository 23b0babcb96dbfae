//! Files with a checksum for each block of them, so that part of a file can be read and be known to be what was written.

use super::disk::Disk;
use super::error::Fault;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use twox_hash::XxHash3_64;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 1 << 20;

/// The checksum of some bytes, in hexadecimal: XXH3 of 64 bits.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    format!("{:016x}", XxHash3_64::oneshot(bytes))
}

/// How long a file is, and the checksum of each of its blocks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sums {
    pub(crate) bytes: u64,
    pub(crate) blocks: Vec<String>,
}

/// Writes a file, block by block.
pub(crate) struct Writer<'d> {
    disk: &'d dyn Disk,
    file: File,
    block: Vec<u8>,
    sums: Sums,
}

impl<'d> Writer<'d> {
    pub(crate) fn create(disk: &'d dyn Disk, path: &Path) -> io::Result<Self> {
        let file = disk.create(path)?;
        Ok(Self { disk, file, block: Vec::with_capacity(BLOCK), sums: Sums { bytes: 0, blocks: Vec::new() } })
    }

    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(BLOCK - self.block.len()));
            self.block.extend_from_slice(now);
            bytes = rest;
            if self.block.len() == BLOCK {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.disk.write(&mut self.file, &self.block)?;
        self.sums.blocks.push(checksum(&self.block));
        self.sums.bytes += self.block.len() as u64;
        self.block.clear();
        Ok(())
    }

    /// All of it is on the disk.
    pub(crate) fn finish(mut self) -> io::Result<Sums> {
        if !self.block.is_empty() {
            self.flush()?;
        }
        self.disk.sync(&self.file)?;
        Ok(self.sums)
    }
}

/// Reads a file, of which no byte is believed whose block has another checksum.
pub(crate) struct Reader<'s> {
    file: File,
    sums: &'s Sums,
    /// The block that was read last, and its number.
    block: Vec<u8>,
    number: Option<usize>,
}

impl<'s> Reader<'s> {
    /// A file that is as long as it was.
    pub(crate) fn open(path: &Path, sums: &'s Sums) -> Result<Self, Fault> {
        let missing = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => Fault::Missing,
            _ => Fault::Tensor { what: format!("cannot be read: {error}") },
        };
        // A link may lead out of the folder.
        let metadata = path.symlink_metadata().map_err(missing)?;
        if !metadata.is_file() {
            return Err(Fault::NoFile);
        }
        if metadata.len() != sums.bytes {
            return Err(Fault::Length { has: metadata.len(), written: sums.bytes });
        }
        let file = File::open(path).map_err(missing)?;
        Ok(Self { file, sums, block: Vec::new(), number: None })
    }

    /// Fills a buffer from a place of the file on.
    pub(crate) fn read(&mut self, mut at: u64, mut out: &mut [u8]) -> Result<(), Fault> {
        while !out.is_empty() {
            let beyond = || Fault::Length { has: self.sums.bytes, written: at.saturating_add(1) };
            let number = usize::try_from(at / BLOCK as u64).map_err(|_| beyond())?;
            let from = usize::try_from(at % BLOCK as u64).map_err(|_| beyond())?;
            self.load(number)?;
            let here = self
                .block
                .get(from..)
                .filter(|here| !here.is_empty())
                .ok_or_else(|| Fault::Length { has: self.sums.bytes, written: at.saturating_add(1) })?;
            let len = here.len().min(out.len());
            let (now, rest) = out.split_at_mut(len);
            now.copy_from_slice(&here[..len]);
            (out, at) = (rest, at + len as u64);
        }
        Ok(())
    }

    fn load(&mut self, number: usize) -> Result<(), Fault> {
        if self.number == Some(number) {
            return Ok(());
        }
        self.number = None;
        let first = number as u64 * BLOCK as u64;
        let bytes = self.sums.bytes.saturating_sub(first).min(BLOCK as u64);
        let len = usize::try_from(bytes).unwrap_or(BLOCK);
        self.block.resize(len, 0);
        let read = self.file.seek(SeekFrom::Start(first)).and_then(|_| self.file.read_exact(&mut self.block));
        read.map_err(|error| Fault::Tensor { what: format!("cannot be read at byte {first}: {error}") })?;
        if self.sums.blocks.get(number) != Some(&checksum(&self.block)) {
            return Err(Fault::Corrupt { first, bytes });
        }
        self.number = Some(number);
        Ok(())
    }
}
