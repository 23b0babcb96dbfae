//! Bytes on their way from one place to another, with what was never written among them.

use super::Memory;
use super::page::{PAGE, Page};
use crate::report::{Code, Fault};
use serde::{Deserialize, Serialize};

/// Bytes on their way from one place to another.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Extract {
    data: Vec<u8>,
    written: Vec<bool>,
    bytes: u64,
}

impl Extract {
    /// How many there are.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // nobody asks
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// The bytes, for somebody who computes with them.
    ///
    /// # Errors
    /// If nobody wrote some of them.
    pub fn written(&self) -> Result<&[u8], Fault> {
        match self.written.iter().position(|written| !written) {
            Some(at) => Err(Fault::new(Code::LaunchFailed, format!("byte {at} of {} was never written", self.bytes))),
            None => Ok(&self.data),
        }
    }
}

impl Memory {
    /// Takes a range out with its written bits, for a copy between two places.
    ///
    /// # Errors
    /// Outside of live allocations.
    pub fn extract(&self, address: u64, bytes: u64) -> Result<Extract, Fault> {
        let mut extract = Extract { data: Vec::new(), written: Vec::new(), bytes };
        if bytes == 0 {
            return Ok(extract);
        }
        let (index, offset) = self.locate(address, bytes, &mut 0)?;
        if self.rules.is_dry {
            return Ok(extract);
        }
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        extract.data = vec![0; bytes];
        self.read(address, &mut extract.data)?;
        extract.written = (0..bytes)
            .map(|i| match &self.allocations[index].pages[(offset + i) / PAGE] {
                Page::Written(w) => w.mask[(offset + i) % PAGE / 64] >> ((offset + i) % 64) & 1 == 1,
                Page::Filled(_) => true,
                Page::Fresh => false,
            })
            .collect();
        Ok(extract)
    }

    /// Puts a range that was taken out elsewhere.
    ///
    /// # Errors
    /// Outside of live allocations.
    pub fn insert(&mut self, address: u64, extract: &Extract) -> Result<(), Fault> {
        self.each_page(address, extract.bytes, |page, size, at, done, len| {
            let w = page.written(size);
            w.data[at..at + len].copy_from_slice(&extract.data[done..done + len]);
            for i in 0..len {
                let bit = 1 << ((at + i) % 64);
                if extract.written[done + i] {
                    w.mask[(at + i) / 64] |= bit;
                } else {
                    w.mask[(at + i) / 64] &= !bit;
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::memory::tests::memory;
    use crate::report::Code;

    #[test]
    fn copies_carry_along_what_was_written() {
        let mut m = memory(1 << 20);
        let (a, b) = (m.allocate(16, None).unwrap(), m.allocate(16, None).unwrap());
        m.write(a, &[1; 8]).unwrap();
        let half = m.extract(a, 16).unwrap();
        m.insert(b, &half).unwrap();
        assert_eq!(m.load(b, 8, &mut 0).unwrap(), 0x0101_0101_0101_0101);
        assert_eq!(m.load(b + 8, 8, &mut 0).unwrap_err().code, Code::LaunchFailed);
    }
}
