//! A block's shared memory, and who touched which bytes since the last barrier.

use crate::memory::{number, place_number};

/// Several lanes of one warp read it; the warp is in the low bits.
const SEVERAL: u16 = 0x4000;
/// Lanes of several warps read it.
const MANY: u16 = 0x8000;

/// The last accesses to four bytes. Times are numbers of barrier intervals, never given twice in a launch.
#[derive(Debug, Clone, Copy, Default)]
struct Shadow {
    written_at: u32,
    read_at: u32,
    initialised_at: u32,
    writer: u16,
    reader: u16,
    writer_turn: u16,
    reader_turn: u16,
    written: u8,
    read: u8,
    initialised: u8,
    is_atomic: bool,
}

impl Shadow {
    /// Adds a reader to those of this interval.
    #[inline]
    fn note_read(&mut self, mask: u8, now: u32, who: Who) {
        let warp = who.thread / 32;
        let is_same_warp = self.reader == SEVERAL | warp || (self.reader < SEVERAL && self.reader / 32 == warp);
        if self.read_at != now || (is_same_warp && self.reader_turn < who.turn) {
            (self.read_at, self.read, self.reader, self.reader_turn) = (now, mask, who.thread, who.turn);
            return;
        }
        self.read |= mask;
        if self.reader != who.thread {
            self.reader = if is_same_warp { SEVERAL | warp } else { MANY };
            self.reader_turn = who.turn;
        }
    }
}

/// How memory is touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// Read.
    Read,
    /// Written.
    Write,
    /// Both at once, in any order with its like.
    Atomic,
}

/// The thread that touches, and how often its warp has met within the interval.
#[derive(Debug, Clone, Copy)]
pub struct Who {
    /// Its number in the block.
    pub thread: u16,
    /// `__syncwarp`s of its warp.
    pub turn: u16,
}

/// Shared memory.
#[derive(Debug)]
pub struct Shared {
    data: Vec<u8>,
    shadows: Vec<Shadow>,
    now: u32,
    block_began: u32,
}

impl Shared {
    /// Of so many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { data: vec![0xff; bytes], shadows: vec![Shadow::default(); bytes.div_ceil(4)], now: 0, block_began: 0 }
    }

    /// Another block: nothing is written.
    pub fn begin_block(&mut self) {
        self.now += 1;
        self.block_began = self.now;
    }

    /// Everybody met.
    pub fn barrier(&mut self) {
        self.now += 1;
    }

    /// Its size.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.data.len()
    }

    /// Reads four bytes as [`load`](Self::load) does, if that is quickly seen to be right.
    #[inline]
    pub fn quick_load(&mut self, at: u64, who: Who) -> Option<u64> {
        let at = usize::try_from(at).ok()?;
        let value = number(self.data.get(at..at + 4)?);
        let s = self.shadows.get_mut(at / 4)?;
        if s.written_at == self.now || s.initialised_at < self.block_began || s.initialised != 0xf {
            return None;
        }
        s.note_read(0xf, self.now, who);
        Some(value)
    }

    /// Reads.
    ///
    /// # Errors
    /// Out of bounds, never written, or a race.
    pub fn load(&mut self, at: u64, bytes: u32, who: Who) -> Result<u64, String> {
        let at = self.touch(at, bytes, Touch::Read, who)?;
        Ok(number(&self.data[at..at + bytes as usize]))
    }

    /// Writes.
    ///
    /// # Errors
    /// Out of bounds, or a race.
    pub fn store(&mut self, at: u64, bytes: u32, value: u64, who: Who) -> Result<(), String> {
        let at = self.touch(at, bytes, Touch::Write, who)?;
        place_number(&mut self.data[at..at + bytes as usize], value);
        Ok(())
    }

    /// Replaces by a function of what is there, and gives what was.
    ///
    /// # Errors
    /// Out of bounds, never written, or a race with what is not atomic.
    pub fn exchange(&mut self, at: u64, bytes: u32, who: Who, with: impl Fn(u64) -> u64) -> Result<u64, String> {
        let at = self.touch(at, bytes, Touch::Atomic, who)?;
        let old = number(&self.data[at..at + bytes as usize]);
        place_number(&mut self.data[at..at + bytes as usize], with(old));
        Ok(old)
    }

    fn touch(&mut self, at: u64, bytes: u32, touch: Touch, who: Who) -> Result<usize, String> {
        let size = self.data.len();
        let Ok(at) = usize::try_from(at) else { return Err(outside(at, bytes, size)) };
        if at >= size || bytes as usize > size - at {
            return Err(outside(at as u64, bytes, size));
        }
        if bytes >= 4 {
            for word in 0..bytes as usize / 4 {
                self.touch_word(at / 4 + word, 0xf, touch, who)?;
            }
        } else {
            let mask = ((1_u8 << bytes) - 1) << (at % 4);
            self.touch_word(at / 4, mask, touch, who)?;
        }
        Ok(at)
    }

    fn touch_word(&mut self, word: usize, mask: u8, touch: Touch, who: Who) -> Result<(), String> {
        let (now, began) = (self.now, self.block_began);
        let s = &mut self.shadows[word];
        if s.initialised_at < began {
            s.initialised = 0;
            s.initialised_at = now;
        }
        let warp = who.thread / 32;
        if s.written_at == now
            && s.written & mask != 0
            && s.writer != who.thread
            && !(touch == Touch::Atomic && s.is_atomic)
            && !(s.writer / 32 == warp && s.writer_turn < who.turn)
        {
            let did = if touch == Touch::Read { "reads" } else { "writes" };
            return Err(race(word, did, who.thread, &format!("thread {} wrote", s.writer)));
        }
        if touch != Touch::Write && s.initialised & mask != mask {
            return Err(format!("shared memory at {} is read and was never written in this block", word * 4));
        }
        if touch == Touch::Read {
            s.note_read(mask, now, who);
            return Ok(());
        }
        if s.read_at == now && s.read & mask != 0 && s.reader != who.thread {
            let reader_warp = match s.reader {
                MANY => None,
                several if several & SEVERAL != 0 => Some(several & !SEVERAL),
                thread => Some(thread / 32),
            };
            if !(reader_warp == Some(warp) && s.reader_turn < who.turn) {
                let others =
                    if s.reader < SEVERAL { format!("thread {} read", s.reader) } else { "others read".into() };
                return Err(race(word, "writes", who.thread, &others));
            }
        }
        if s.written_at == now && s.writer == who.thread && s.writer_turn == who.turn {
            s.written |= mask;
        } else {
            s.written = mask;
        }
        (s.written_at, s.writer, s.writer_turn) = (now, who.thread, who.turn);
        s.is_atomic = touch == Touch::Atomic;
        s.initialised |= mask;
        s.initialised_at = now;
        Ok(())
    }
}

#[cold]
fn outside(at: u64, bytes: u32, size: usize) -> String {
    format!("{bytes} bytes of shared memory at {at}, the block has {size}")
}

#[cold]
fn race(word: usize, did: &str, thread: u16, other: &str) -> String {
    format!("a race: thread {thread} {did} shared memory at {}, and without a barrier between {other} it", word * 4)
}

#[cfg(test)]
mod tests {
    use super::{Shared, Who};

    fn who(thread: u16) -> Who {
        Who { thread, turn: 0 }
    }

    #[test]
    fn a_barrier_orders_and_without_one_it_is_a_race() {
        let mut s = Shared::new(64);
        s.begin_block();
        s.store(0, 4, 1, who(0)).unwrap();
        assert!(s.load(0, 4, who(1)).unwrap_err().contains("race"));
        s.barrier();
        assert_eq!(s.load(0, 4, who(1)).unwrap(), 1);
        assert_eq!(s.load(0, 4, who(40)).unwrap(), 1);
        assert!(s.store(0, 4, 2, who(1)).unwrap_err().contains("others read"));
        s.barrier();
        s.store(0, 4, 2, who(1)).unwrap();
    }

    #[test]
    fn a_warp_that_met_is_ordered_and_other_warps_are_not() {
        let mut s = Shared::new(64);
        s.begin_block();
        s.store(8, 4, 1, who(0)).unwrap();
        assert_eq!(s.load(8, 4, Who { thread: 1, turn: 1 }).unwrap(), 1);
        assert!(s.load(8, 4, Who { thread: 33, turn: 1 }).is_err());
    }

    #[test]
    fn neighbouring_halves_of_a_word_are_no_race() {
        let mut s = Shared::new(64);
        s.begin_block();
        s.store(0, 2, 1, who(0)).unwrap();
        s.store(2, 2, 1, who(1)).unwrap();
        assert!(s.store(2, 2, 1, who(2)).is_err());
    }

    #[test]
    fn atomics_go_together_and_with_nothing_else() {
        let mut s = Shared::new(64);
        s.begin_block();
        s.store(0, 4, 0, who(0)).unwrap();
        s.barrier();
        s.exchange(0, 4, who(0), |old| old + 1).unwrap();
        s.exchange(0, 4, who(50), |old| old + 1).unwrap();
        assert!(s.load(0, 4, who(3)).is_err());
        s.barrier();
        assert_eq!(s.load(0, 4, who(3)).unwrap(), 2);
    }

    #[test]
    fn another_block_finds_nothing_written() {
        let mut s = Shared::new(8);
        s.begin_block();
        s.store(4, 4, 1, who(0)).unwrap();
        s.begin_block();
        assert!(s.load(4, 4, who(0)).unwrap_err().contains("never written"));
        assert!(s.store(8, 4, 1, who(0)).unwrap_err().contains("the block has 8"));
    }
}
