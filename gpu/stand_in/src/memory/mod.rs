//! A device's global memory: live allocations at addresses that are never given twice, pages that exist once something
//! is written, one bit a byte that says whether it was, capacity, pools and their high-water marks.

mod access;
mod allocate;
mod copy;
mod extract;
mod page;

pub(crate) use access::{number, place_number};
pub use allocate::Pool;
pub use extract::Extract;

use crate::report::{Code, Fault};
use page::Allocation;

/// How a device's memory behaves.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Bytes of the device.
    pub capacity: u64,
    /// An allocation counts for a multiple of this.
    pub granularity: u64,
    /// Whether reading bytes that nobody wrote is a fault; else they read as NaN.
    pub refuse_unwritten: bool,
    /// Nothing is stored: bounds and amounts alone.
    pub is_dry: bool,
}

/// A device's memory.
#[derive(Debug)]
pub struct Memory {
    rules: Rules,
    next: u64,
    allocations: Vec<Allocation>,
    pools: Vec<Pool>,
    /// The pool that `cuMemAllocAsync` takes from.
    pub current_pool: usize,
    plain_used: u64,
    used_high: u64,
    /// Recently freed ranges, for messages.
    freed: Vec<(u64, u64)>,
}

impl Memory {
    /// Memory of addresses from `base` on.
    #[must_use]
    pub fn new(base: u64, rules: Rules) -> Self {
        Self {
            rules,
            next: base,
            allocations: Vec::new(),
            pools: vec![Pool::default()],
            current_pool: 0,
            plain_used: 0,
            used_high: 0,
            freed: Vec::new(),
        }
    }

    /// Another capacity, in force from the next allocation on.
    pub fn set_capacity(&mut self, capacity: u64) {
        self.rules.capacity = capacity;
    }

    /// Bytes of the device.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.rules.capacity
    }

    /// Whether an address lies in a live allocation (or one past it: views of length 0).
    #[must_use]
    pub fn is_live(&self, address: u64) -> bool {
        let after = self.allocations.partition_point(|a| a.base <= address);
        after > 0 && address - self.allocations[after - 1].base <= self.allocations[after - 1].bytes
    }

    /// The allocation around a range, and the range's offset in it.
    #[inline]
    pub(super) fn locate(&self, address: u64, bytes: u64, hint: &mut usize) -> Result<(usize, usize), Fault> {
        if let Some(a) = self.allocations.get(*hint) {
            let offset = address.wrapping_sub(a.base);
            if offset < a.bytes && bytes <= a.bytes - offset {
                #[allow(clippy::cast_possible_truncation)] // an offset into pages that are in memory
                return Ok((*hint, offset as usize));
            }
        }
        let after = self.allocations.partition_point(|a| a.base <= address);
        if after > 0 {
            let a = &self.allocations[after - 1];
            let offset = address - a.base;
            if offset < a.bytes && bytes <= a.bytes - offset {
                *hint = after - 1;
                #[allow(clippy::cast_possible_truncation)] // as above
                return Ok((after - 1, offset as usize));
            }
        }
        Err(self.outside(address, bytes))
    }

    #[cold]
    fn outside(&self, address: u64, bytes: u64) -> Fault {
        let after = self.allocations.partition_point(|a| a.base <= address);
        let near = self.allocations[..after]
            .last()
            .map(|a| format!("{} bytes past the start of an allocation of {} bytes", address - a.base, a.bytes));
        let freed = self.freed.iter().rev().find(|&&(base, len)| address >= base && address < base + len);
        let place = match (freed, near) {
            (Some((base, len)), _) => format!("{} bytes into {len} bytes that were freed", address - base),
            (None, Some(near)) => near,
            (None, None) => "below every allocation".into(),
        };
        Fault::new(Code::IllegalAddress, format!("{bytes} bytes at {address:#x}: {place}"))
    }

    /// Whether a range lies in a live allocation.
    ///
    /// # Errors
    /// If not.
    pub fn check(&self, address: u64, bytes: u64) -> Result<(), Fault> {
        if bytes == 0 { Ok(()) } else { self.locate(address, bytes, &mut 0).map(|_| ()) }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Memory, Rules};
    use crate::report::Code;

    pub(in crate::memory) fn memory(capacity: u64) -> Memory {
        Memory::new(1 << 44, Rules { capacity, granularity: 1, refuse_unwritten: true, is_dry: false })
    }

    #[test]
    fn use_after_free_is_named() {
        let mut m = memory(1 << 20);
        let a = m.allocate(64, None).unwrap();
        m.free(a).unwrap();
        let fault = m.load(a + 4, 4, &mut 0).unwrap_err();
        assert!(fault.code == Code::IllegalAddress && fault.text.contains("freed"), "{}", fault.text);
    }
}
