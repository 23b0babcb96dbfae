//! Numbers that lanes of a warp read and write.

use super::Memory;
use super::page::{PAGE, POISON, Page};
use crate::report::{Code, Fault};

impl Memory {
    /// Reads as [`load`](Self::load) does, if that is quickly seen to be right.
    #[inline]
    #[must_use]
    pub fn quick_load(&self, address: u64, bytes: u32, hint: usize) -> Option<u64> {
        let a = self.allocations.get(hint)?;
        let offset = address.wrapping_sub(a.base);
        if offset >= a.bytes || u64::from(bytes) > a.bytes - offset {
            return None;
        }
        #[allow(clippy::cast_possible_truncation)] // an offset into pages that are in memory
        let (page, at) = (a.pages.get(offset as usize / PAGE)?, offset as usize % PAGE);
        let Page::Written(w) = page else { return None };
        let wanted = ((1_u64 << bytes) - 1) << (at % 64);
        if w.mask[at / 64] & wanted != wanted {
            return None;
        }
        Some(number(w.data.get(at..at + bytes as usize)?))
    }

    /// Reads an aligned number of 1, 2, 4 or 8 bytes.
    ///
    /// # Errors
    /// Outside of live allocations, or of bytes that nobody wrote if the rules refuse that.
    pub fn load(&self, address: u64, bytes: u32, hint: &mut usize) -> Result<u64, Fault> {
        let (index, offset) = self.locate(address, u64::from(bytes), hint)?;
        let (page, at) = (&self.allocations[index].pages[offset / PAGE], offset % PAGE);
        match page {
            Page::Written(w) => {
                let wanted = ((1_u64 << bytes) - 1) << (at % 64);
                if w.mask[at / 64] & wanted != wanted && self.rules.refuse_unwritten {
                    return Err(self.unwritten(address, bytes));
                }
                Ok(number(&w.data[at..at + bytes as usize]))
            }
            Page::Filled(value) => Ok(number(&[*value; 8][..bytes as usize])),
            Page::Fresh if self.rules.refuse_unwritten && !self.rules.is_dry => Err(self.unwritten(address, bytes)),
            Page::Fresh => Ok(number(&[POISON; 8][..bytes as usize])),
        }
    }

    #[cold]
    pub(super) fn unwritten(&self, address: u64, bytes: u32) -> Fault {
        let after = self.allocations.partition_point(|a| a.base <= address);
        let a = &self.allocations[after - 1];
        let (offset, of) = (address - a.base, a.bytes);
        Fault::new(
            Code::LaunchFailed,
            format!(
                "reads {bytes} bytes that nobody wrote, at {address:#x}: {offset} into an allocation of {of} bytes"
            ),
        )
    }

    /// Writes an aligned number of 1, 2, 4 or 8 bytes.
    ///
    /// # Errors
    /// Outside of live allocations.
    pub fn store(&mut self, address: u64, bytes: u32, value: u64, hint: &mut usize) -> Result<(), Fault> {
        let (index, offset) = self.locate(address, u64::from(bytes), hint)?;
        let a = &mut self.allocations[index];
        let (size, at) = (a.page_size(offset / PAGE), offset % PAGE);
        let w = a.pages[offset / PAGE].written(size);
        w.mask[at / 64] |= ((1_u64 << bytes) - 1) << (at % 64);
        place_number(&mut w.data[at..at + bytes as usize], value);
        Ok(())
    }
}

/// A number of 1, 2, 4 or 8 bytes.
#[inline]
pub(crate) fn number(bytes: &[u8]) -> u64 {
    match *bytes {
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
        [a, b] => u16::from_le_bytes([a, b]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        [a] => a.into(),
        _ => 0,
    }
}

/// Puts a number's low 1, 2, 4 or 8 bytes.
#[inline]
pub(crate) fn place_number(to: &mut [u8], value: u64) {
    let [a, b, c, d, ..] = value.to_le_bytes();
    match to.len() {
        4 => to.copy_from_slice(&[a, b, c, d]),
        2 => to.copy_from_slice(&[a, b]),
        8 => to.copy_from_slice(&value.to_le_bytes()),
        _ => to.copy_from_slice(&[a]),
    }
}

#[cfg(test)]
mod tests {
    use crate::memory::tests::memory;
    use crate::report::Code;

    #[test]
    fn what_is_written_reads_back_and_what_is_not_is_refused() {
        let mut m = memory(1 << 20);
        let a = m.allocate(200_000, None).unwrap();
        m.write(a + 65_530, &[7; 20]).unwrap();
        assert_eq!(m.load(a + 65_532, 4, &mut 0).unwrap(), 0x0707_0707);
        assert_eq!(m.load(a + 65_552, 4, &mut 0).unwrap_err().code, Code::LaunchFailed);
        assert_eq!(m.load(a + 199_999, 2, &mut 0).unwrap_err().code, Code::IllegalAddress);
        m.store(a, 8, 0x0102_0304_0506_0708, &mut 0).unwrap();
        assert_eq!(m.load(a + 1, 1, &mut 0).unwrap(), 7);
    }
}
