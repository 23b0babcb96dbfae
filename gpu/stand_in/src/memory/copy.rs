//! Copies from the host and to it, and fills.

use super::Memory;
use super::page::{PAGE, POISON, Page};
use crate::report::Fault;

impl Memory {
    /// Copies from the host.
    ///
    /// # Errors
    /// Outside of live allocations.
    pub fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Fault> {
        self.each_page(address, from.len() as u64, |page, size, at, done, len| {
            let w = page.written(size);
            w.data[at..at + len].copy_from_slice(&from[done..done + len]);
            w.mark(at, at + len);
        })
    }

    /// Sets bytes to a repeated pattern of 1, 2 or 4 bytes.
    ///
    /// # Errors
    /// Outside of live allocations.
    pub fn fill(&mut self, address: u64, pattern: &[u8], bytes: u64) -> Result<(), Fault> {
        self.each_page(address, bytes, |page, size, at, done, len| {
            if at == 0 && len == size && pattern.iter().all(|b| *b == pattern[0]) {
                *page = Page::Filled(pattern[0]);
                return;
            }
            let w = page.written(size);
            for (i, byte) in w.data[at..at + len].iter_mut().enumerate() {
                *byte = pattern[(done + i) % pattern.len()];
            }
            w.mark(at, at + len);
        })
    }

    pub(super) fn each_page(
        &mut self,
        address: u64,
        bytes: u64,
        mut then: impl FnMut(&mut Page, usize, usize, usize, usize),
    ) -> Result<(), Fault> {
        if bytes == 0 {
            return Ok(());
        }
        let (index, offset) = self.locate(address, bytes, &mut 0)?;
        if self.rules.is_dry {
            return Ok(());
        }
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut done = 0;
        while done < bytes {
            let at = (offset + done) % PAGE;
            let len = (PAGE - at).min(bytes - done);
            let a = &mut self.allocations[index];
            let (page, size) = ((offset + done) / PAGE, a.page_size((offset + done) / PAGE));
            then(&mut a.pages[page], size, at, done, len);
            done += len;
        }
        Ok(())
    }

    /// Copies to the host; bytes that nobody wrote arrive as NaN.
    ///
    /// # Errors
    /// Outside of live allocations.
    pub fn read(&self, address: u64, to: &mut [u8]) -> Result<(), Fault> {
        if to.is_empty() {
            return Ok(());
        }
        let (index, offset) = self.locate(address, to.len() as u64, &mut 0)?;
        let mut done = 0;
        while done < to.len() {
            let at = (offset + done) % PAGE;
            let len = (PAGE - at).min(to.len() - done);
            let part = &mut to[done..done + len];
            match &self.allocations[index].pages[(offset + done) / PAGE] {
                Page::Written(w) => part.copy_from_slice(&w.data[at..at + len]),
                Page::Filled(value) => part.fill(*value),
                Page::Fresh => part.fill(if self.rules.is_dry { 0 } else { POISON }),
            }
            done += len;
        }
        Ok(())
    }

    /// Copies to the host, for a computation: bytes that nobody wrote are refused if the rules do so.
    ///
    /// # Errors
    /// Outside of live allocations, or of bytes that nobody wrote.
    pub fn read_written(&self, address: u64, to: &mut [u8]) -> Result<(), Fault> {
        self.read(address, to)?;
        if !self.rules.refuse_unwritten || self.rules.is_dry || to.is_empty() {
            return Ok(());
        }
        let (index, offset) = self.locate(address, to.len() as u64, &mut 0)?;
        let mut i = 0;
        while i < to.len() {
            // Up to the next 64 bytes at once.
            let at = (offset + i) % PAGE;
            let len = (64 - at % 64).min(to.len() - i);
            let wanted = if len == 64 { !0 } else { ((1_u64 << len) - 1) << (at % 64) };
            let is_written = match &self.allocations[index].pages[(offset + i) / PAGE] {
                Page::Written(w) => w.mask[at / 64] & wanted == wanted,
                Page::Filled(_) => true,
                Page::Fresh => false,
            };
            if !is_written {
                return Err(self.unwritten(address + i as u64, u32::try_from(len).unwrap_or(64)));
            }
            i += len;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::memory::tests::memory;

    #[test]
    fn more_than_the_machine_has_can_be_allocated_and_cleared() {
        let mut m = memory(1 << 40);
        let a = m.allocate(150 << 30, None).unwrap();
        m.fill(a, &[0], 150 << 30).unwrap();
        m.store(a + (100 << 30), 4, 5, &mut 0).unwrap();
        assert_eq!(m.load(a + (100 << 30), 8, &mut 0).unwrap(), 5);
    }
}
