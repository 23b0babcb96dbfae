//! A device's global memory: live allocations at addresses that are never given twice, pages that exist once something
//! is written, one bit a byte that says whether it was, capacity, pools and their high-water marks.

use crate::report::{Code, Fault};
use serde::{Deserialize, Serialize};

/// Bytes of a page.
const PAGE: usize = 1 << 16;
/// Between two allocations lies at least this much that belongs to nobody.
const GUARD: u64 = 4096;
/// The alignment of an allocation's address, as `cuMemAlloc` has it.
const ALIGNMENT: u64 = 512;
/// What unwritten bytes read as: a NaN in every float format.
const POISON: u8 = 0xff;

/// Bytes with a bit each that says whether they were written.
#[derive(Debug, Clone)]
struct Written {
    data: Box<[u8]>,
    mask: Box<[u64]>,
}

/// A page of an allocation.
#[derive(Debug, Clone)]
enum Page {
    /// Nobody wrote to it.
    Fresh,
    /// Every byte was set to one value.
    Filled(u8),
    Written(Written),
}

impl Page {
    /// Its bytes, `size` of them, to be written.
    fn written(&mut self, size: usize) -> &mut Written {
        if let Self::Written(w) = self {
            return w;
        }
        let (value, bits) = if let Self::Filled(value) = *self { (value, !0) } else { (POISON, 0) };
        *self = Self::Written(Written {
            data: vec![value; size].into_boxed_slice(),
            mask: vec![bits; size.div_ceil(64)].into_boxed_slice(),
        });
        match self {
            Self::Written(w) => w,
            Self::Fresh | Self::Filled(_) => unreachable!("set above"),
        }
    }
}

impl Written {
    fn mark(&mut self, from: usize, to: usize) {
        let mut at = from;
        while at < to {
            if at.is_multiple_of(64) && to - at >= 64 {
                self.mask[at / 64] = !0;
                at += 64;
            } else {
                self.mask[at / 64] |= 1 << (at % 64);
                at += 1;
            }
        }
    }
}

/// An allocation that was not freed.
#[derive(Debug)]
struct Allocation {
    base: u64,
    bytes: u64,
    /// What it counts for.
    charged: u64,
    pool: Option<usize>,
    /// Of a module: counts for nothing and cannot be freed by address.
    is_hidden: bool,
    pages: Vec<Page>,
}

impl Allocation {
    /// Bytes of a page; of the last one as many as there are.
    fn page_size(&self, page: usize) -> usize {
        let before = (page * PAGE) as u64;
        usize::try_from(self.bytes.saturating_sub(before)).unwrap_or(PAGE).min(PAGE)
    }
}

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
                let Some(pool) = self.pool(index) else {
                    return Err(Fault::new(Code::InvalidValue, format!("no pool {index}")));
                };
                if pool.max_size != 0 && pool.used + charged > pool.max_size {
                    let (used, most) = (pool.used, pool.max_size);
                    let text = format!("pool {index} refuses: {charged} bytes asked for, {used} in use of {most}");
                    return Err(Fault::new(Code::OutOfMemory, text));
                }
                pool.used += charged;
                pool.used_high = pool.used_high.max(pool.used);
                pool.reserved = pool.reserved.max(pool.used);
                pool.reserved_high = pool.reserved_high.max(pool.reserved);
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

    /// Whether an address lies in a live allocation (or one past it: views of length 0).
    #[must_use]
    pub fn is_live(&self, address: u64) -> bool {
        let after = self.allocations.partition_point(|a| a.base <= address);
        after > 0 && address - self.allocations[after - 1].base <= self.allocations[after - 1].bytes
    }

    /// The allocation around a range, and the range's offset in it.
    fn locate(&self, address: u64, bytes: u64, hint: &mut usize) -> Result<(usize, usize), Fault> {
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
    fn unwritten(&self, address: u64, bytes: u32) -> Fault {
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

    fn each_page(
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

    /// Whether a range lies in a live allocation.
    ///
    /// # Errors
    /// If not.
    pub fn check(&self, address: u64, bytes: u64) -> Result<(), Fault> {
        if bytes == 0 { Ok(()) } else { self.locate(address, bytes, &mut 0).map(|_| ()) }
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
    use super::{Memory, Rules};
    use crate::report::Code;

    fn memory(capacity: u64) -> Memory {
        Memory::new(1 << 44, Rules { capacity, granularity: 1, refuse_unwritten: true, is_dry: false })
    }

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

    #[test]
    fn more_than_the_machine_has_can_be_allocated_and_cleared() {
        let mut m = memory(1 << 40);
        let a = m.allocate(150 << 30, None).unwrap();
        m.fill(a, &[0], 150 << 30).unwrap();
        m.store(a + (100 << 30), 4, 5, &mut 0).unwrap();
        assert_eq!(m.load(a + (100 << 30), 8, &mut 0).unwrap(), 5);
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
