//! Races between blocks in global memory: who touched which four bytes in this launch. On a device blocks run in any
//! order and at the same time; here one after another, so that without this nobody would see.

use super::shared::Touch;
use std::collections::HashMap;

/// Words that are kept together.
const WORDS: usize = 1 << 10;

/// The blocks that touched four bytes, as their numbers from 1.
#[derive(Debug, Clone, Copy, Default)]
struct Word {
    writer: u32,
    /// `MANY` for several.
    reader: u32,
    /// Bytes that were written, and read.
    written: u8,
    read: u8,
    is_atomic: bool,
}

const MANY: u32 = u32::MAX;

/// What blocks touched.
#[derive(Debug, Default)]
pub struct Blocks {
    pages: HashMap<u64, Box<[Word]>>,
    /// The block that runs.
    now: u32,
}

impl Blocks {
    /// Another block.
    pub fn begin_block(&mut self) {
        self.now += 1;
    }

    /// Notes an aligned access.
    ///
    /// # Errors
    /// If another block touched the bytes and one of the two wrote, unless both did so by atomics.
    pub fn touch(&mut self, address: u64, bytes: u32, touch: Touch) -> Result<(), String> {
        if bytes == 8 {
            self.touch(address, 4, touch)?;
            return self.touch(address + 4, 4, touch);
        }
        let mask = ((1_u8 << bytes) - 1) << (address % 4);
        let now = self.now;
        let page = self.pages.entry(address / 4 / WORDS as u64).or_insert_with(|| vec![Word::default(); WORDS].into());
        #[allow(clippy::cast_possible_truncation)] // within a page
        let word = &mut page[(address / 4 % WORDS as u64) as usize];
        let both_atomic = touch == Touch::Atomic && word.is_atomic;
        if word.writer != 0 && word.writer != now && word.written & mask != 0 && !both_atomic {
            return Err(race(address, touch, word.writer, "wrote"));
        }
        if touch == Touch::Read {
            word.read |= mask;
            word.reader = if word.reader == 0 || word.reader == now { now } else { MANY };
            return Ok(());
        }
        if word.reader != 0 && word.reader != now && word.read & mask != 0 {
            return Err(race(address, touch, word.reader, "read"));
        }
        word.written |= mask;
        (word.writer, word.is_atomic) = (now, touch == Touch::Atomic);
        Ok(())
    }
}

#[cold]
fn race(address: u64, touch: Touch, other: u32, did: &str) -> String {
    let does = if touch == Touch::Read { "reads" } else { "writes" };
    let other = if other == MANY { "others".into() } else { format!("block {} (counted in x, y, z)", other - 1) };
    format!("a race of blocks: this one {does} global memory at {address:#x}, which {other} {did} in the same launch")
}

#[cfg(test)]
mod tests {
    use super::Blocks;
    use crate::exec::shared::Touch;

    #[test]
    fn blocks_may_share_what_they_read_and_what_is_atomic() {
        let mut b = Blocks::default();
        b.begin_block();
        b.touch(0, 4, Touch::Read).unwrap();
        b.touch(8, 4, Touch::Atomic).unwrap();
        b.touch(16, 8, Touch::Write).unwrap();
        b.touch(16, 8, Touch::Read).unwrap();
        b.touch(24, 2, Touch::Write).unwrap();
        b.begin_block();
        b.touch(0, 4, Touch::Read).unwrap();
        b.touch(8, 4, Touch::Atomic).unwrap();
        b.touch(26, 2, Touch::Write).unwrap();
        assert!(b.touch(0, 4, Touch::Write).unwrap_err().contains("others read"));
        assert!(b.touch(8, 4, Touch::Read).is_ok(), "the last one to change it is this one");
        assert!(b.touch(20, 4, Touch::Read).unwrap_err().contains("block 0 (counted in x, y, z) wrote"));
        assert!(b.touch(16, 8, Touch::Atomic).is_err());
    }
}
