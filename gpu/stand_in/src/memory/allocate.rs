//! Allocations and frees, what they count for, and pools.

use super::Memory;
use super::page::{Allocation, PAGE, Page};
use crate::report::{Code, Fault};

/// Between two allocations lies at least this much that belongs to nobody.
const GUARD: u64 = 4096;
/// The alignment of an allocation's address, as `cuMemAlloc` has it.
const ALIGNMENT: u64 = 512;

/// A pool of stream-ordered allocations.
#[derive(Debug, Default)]
pub struct Pool {
    /// Bytes of its live allocations.
    pub used: u64,
    /// The most of `used` since it was last reset.
    pub used_high: u64,
    /// Bytes that it holds, for its allocations or to be reused.
    pub reserved: u64,
    /// The most of `reserved` since it was last reset.
    pub reserved_high: u64,
    /// Refuses what exceeds this; 0 is no limit.
    pub max_size: u64,
    /// How much it keeps when a stream is synchronised.
    pub release_threshold: u64,
    /// Other attributes, kept as set.
    pub reuse: [i32; 3],
    /// Destroyed pools take no further allocations.
    pub is_destroyed: bool,
}

impl Pool {
    /// Takes so many bytes, if they fit.
    fn take(&mut self, index: usize, bytes: u64) -> Result<(), Fault> {
        if self.max_size != 0 && self.used + bytes > self.max_size {
            let (used, most) = (self.used, self.max_size);
            let text = format!("pool {index} refuses: {bytes} bytes asked for, {used} in use of {most}");
            return Err(Fault::new(Code::OutOfMemory, text));
        }
        self.used += bytes;
        self.used_high = self.used_high.max(self.used);
        self.reserved = self.reserved.max(self.used);
        self.reserved_high = self.reserved_high.max(self.reserved);
        Ok(())
    }
}

impl Memory {
    /// Bytes of live allocations.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.plain_used + self.pools.iter().map(|p| p.used).sum::<u64>()
    }

    /// The most of [`used`](Self::used).
    #[must_use]
    pub fn used_high(&self) -> u64 {
        self.used_high
    }

    /// What `cuMemGetInfo` calls free.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        let held = self.plain_used + self.pools.iter().map(|p| p.reserved).sum::<u64>();
        self.rules.capacity.saturating_sub(held)
    }

    /// How many allocations live, modules' own not counted.
    #[must_use]
    pub fn live(&self) -> usize {
        self.allocations.iter().filter(|a| !a.is_hidden).count()
    }

    /// Adds a pool.
    pub fn create_pool(&mut self, max_size: u64) -> usize {
        self.pools.push(Pool { max_size, ..Pool::default() });
        self.pools.len() - 1
    }

    /// A pool that was not destroyed.
    pub fn pool(&mut self, index: usize) -> Option<&mut Pool> {
        self.pools.get_mut(index).filter(|p| !p.is_destroyed)
    }

    /// Pools give back what they hold beyond their thresholds.
    pub fn synchronise(&mut self) {
        for pool in &mut self.pools {
            pool.reserved = pool.used.max(pool.reserved.min(pool.release_threshold));
        }
    }

    /// Allocates.
    ///
    /// # Errors
    /// Zero bytes, a pool's limit, the capacity.
    pub fn allocate(&mut self, bytes: u64, pool: Option<usize>) -> Result<u64, Fault> {
        if bytes == 0 {
            return Err(Fault::new(Code::InvalidValue, "an allocation of 0 bytes"));
        }
        let Some(charged) = bytes.checked_next_multiple_of(self.rules.granularity.max(1)) else {
            return Err(Fault::new(Code::OutOfMemory, format!("{bytes} bytes")));
        };
        let used = self.used();
        if charged > self.rules.capacity.saturating_sub(used) {
            let capacity = self.rules.capacity;
            let text = format!("out of memory: {charged} bytes asked for, {used} in use of {capacity}");
            return Err(Fault::new(Code::OutOfMemory, text));
        }
        match pool {
            None => self.plain_used += charged,
            Some(index) => {
                let pool = self.pool(index);
                let pool = pool.ok_or_else(|| Fault::new(Code::InvalidValue, format!("no pool {index}")))?;
                pool.take(index, charged)?;
            }
        }
        self.used_high = self.used_high.max(self.used());
        Ok(self.place(bytes, charged, pool, false))
    }

    /// Allocates for a module: counts for nothing.
    pub fn allocate_hidden(&mut self, content: &[u8]) -> u64 {
        let address = self.place(content.len().max(1) as u64, 0, None, true);
        let is_dry = core::mem::replace(&mut self.rules.is_dry, false);
        // In bounds by construction.
        let _ = self.write(address, content);
        self.rules.is_dry = is_dry;
        address
    }

    /// Frees what [`allocate_hidden`](Self::allocate_hidden) gave.
    pub fn free_hidden(&mut self, address: u64) {
        self.allocations.retain(|a| !(a.is_hidden && a.base == address));
    }

    fn place(&mut self, bytes: u64, charged: u64, pool: Option<usize>, is_hidden: bool) -> u64 {
        let base = self.next;
        self.next = (base + bytes + GUARD).next_multiple_of(ALIGNMENT);
        let pages = usize::try_from(bytes.div_ceil(PAGE as u64)).unwrap_or(0);
        self.allocations.push(Allocation { base, bytes, charged, pool, is_hidden, pages: vec![Page::Fresh; pages] });
        base
    }

    /// Frees everything that is not a module's; addresses are not given again.
    pub fn end(&mut self) {
        self.allocations.retain(|a| a.is_hidden);
        self.pools = vec![Pool::default()];
        (self.current_pool, self.plain_used, self.used_high) = (0, 0, 0);
    }

    /// Frees.
    ///
    /// # Errors
    /// If no allocation begins there, with what was freed there before.
    pub fn free(&mut self, address: u64) -> Result<(), Fault> {
        let Some(index) = self.allocations.iter().position(|a| a.base == address && !a.is_hidden) else {
            let was = self.freed.iter().any(|&(base, _)| base == address);
            let text = if was { "freed twice" } else { "freed, and no allocation begins there" };
            return Err(Fault::new(Code::InvalidValue, format!("{address:#x} is {text}")));
        };
        let gone = self.allocations.remove(index);
        match gone.pool {
            None => self.plain_used -= gone.charged,
            Some(pool) => self.pools[pool].used -= gone.charged,
        }
        if self.freed.len() >= 1 << 16 {
            self.freed.clear();
        }
        self.freed.push((gone.base, gone.bytes));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::memory::tests::memory;
    use crate::report::Code;

    #[test]
    fn the_capacity_and_a_pool_refuse_and_marks_are_kept() {
        let mut m = memory(1000);
        let a = m.allocate(600, None).unwrap();
        assert_eq!(m.allocate(401, None).unwrap_err().code, Code::OutOfMemory);
        let pool = m.create_pool(300);
        let b = m.allocate(300, Some(pool)).unwrap();
        assert_eq!(m.allocate(1, Some(pool)).unwrap_err().code, Code::OutOfMemory);
        m.free(b).unwrap();
        assert_eq!((m.pool(pool).unwrap().used, m.pool(pool).unwrap().used_high), (0, 300));
        assert_eq!(m.free_bytes(), 100, "the pool still holds what was freed");
        m.synchronise();
        assert_eq!(m.free_bytes(), 400);
        m.free(a).unwrap();
        assert!(m.free(a).unwrap_err().text.contains("twice"));
        assert_eq!((m.used(), m.used_high(), m.live()), (0, 900, 0));
    }
}
