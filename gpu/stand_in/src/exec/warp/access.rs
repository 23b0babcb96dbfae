//! Loads, stores and atomics of lanes, in every space.

use super::{Warp, each};
use crate::exec::alu;
use crate::exec::shared::{Touch, Who};
use crate::exec::{CONSTANT_BASE, LOCAL_BASE, SHARED_BASE, Surroundings, WINDOW};
use crate::ptx::instruction::{Atomic, Register, Space, Type};
use crate::report::{Code, Fault};

impl Warp {
    pub(super) fn load(
        &mut self,
        at: u32,
        mask: u32,
        (space, ty, base, offset): (Space, Type, Register, i64),
        d: &[Option<Register>],
        around: &mut Surroundings<'_>,
    ) -> Result<(), Fault> {
        let bytes = ty.bytes();
        let all = bytes * u32::try_from(d.len()).unwrap_or(1);
        let is_plain = bytes >= 4 || !ty.is_signed();
        for lane in each(mask) {
            let start = self.registers[base as usize][lane].wrapping_add_signed(offset);
            let (space, start) = Self::resolve(space, start);
            if start & u64::from(all - 1) != 0 {
                return Err(self.misaligned(at, lane, start, all, around));
            }
            if let (&[Some(d)], true) = (d, is_plain) {
                let value = match space {
                    Space::Global if around.blocks.is_none() => around.memory.quick_load(start, bytes, around.hint),
                    Space::Shared if bytes == 4 => around.shared.quick_load(start, self.who(lane)),
                    _ => None,
                };
                if let Some(value) = value {
                    self.registers[d as usize][lane] = value;
                    around.traffic.read += if space == Space::Global { u64::from(all) } else { 0 };
                    continue;
                }
            }
            for (address, part) in (start..).step_by(bytes as usize).zip(d) {
                let value = self.load_one(at, lane, (space, address, bytes), Touch::Read, around)?;
                let value = if ty.is_signed() && bytes < 4 { alu::signed(value, ty).cast_unsigned() } else { value };
                if let Some(part) = part {
                    self.registers[*part as usize][lane] = value;
                }
            }
            if space == Space::Global {
                around.traffic.read += u64::from(all);
            }
        }
        Ok(())
    }

    pub(super) fn store(
        &mut self,
        at: u32,
        mask: u32,
        (space, ty, base, offset): (Space, Type, Register, i64),
        a: &[Register],
        around: &mut Surroundings<'_>,
    ) -> Result<(), Fault> {
        let bytes = ty.bytes();
        let all = bytes * u32::try_from(a.len()).unwrap_or(1);
        for lane in each(mask) {
            let start = self.registers[base as usize][lane].wrapping_add_signed(offset);
            let (space, start) = Self::resolve(space, start);
            if start & u64::from(all - 1) != 0 {
                return Err(self.misaligned(at, lane, start, all, around));
            }
            for (address, part) in (start..).step_by(bytes as usize).zip(a) {
                let value = self.registers[*part as usize][lane];
                match space {
                    Space::Global | Space::Generic => {
                        let mut hint = around.hint;
                        let done = around.memory.store(address, bytes, value, &mut hint);
                        around.hint = hint;
                        let done = done.and_then(|()| around.touch(address, bytes, Touch::Write));
                        done.map_err(|f| around.fault(f.code, at, self.thread(lane), &f.text))?;
                    }
                    Space::Shared => {
                        let done = around.shared.store(address, bytes, value, self.who(lane));
                        done.map_err(|text| {
                            around.fault(self.shared_code(address, around), at, self.thread(lane), &text)
                        })?;
                    }
                    Space::Local => {
                        let size = around.launch.entry.local_bytes as usize;
                        let Some(range) = Self::range(size, address, bytes) else {
                            let text = format!("{bytes} bytes at {address:#x} are outside of local memory");
                            return Err(around.fault(Code::IllegalAddress, at, self.thread(lane), &text));
                        };
                        around.local[self.thread(lane) * size..][range]
                            .copy_from_slice(&value.to_le_bytes()[..bytes as usize]);
                    }
                    Space::Constant | Space::Param => {
                        let text = format!("a write to {space:?} memory at {address:#x}");
                        return Err(around.fault(Code::IllegalAddress, at, self.thread(lane), &text));
                    }
                }
            }
            if space == Space::Global {
                around.traffic.written += u64::from(all);
            }
        }
        Ok(())
    }

    pub(super) fn atomic(
        &mut self,
        at: u32,
        mask: u32,
        (space, ty, base, offset): (Space, Type, Register, i64),
        (op, d, a, b): (Atomic, Option<Register>, Register, Register),
        around: &mut Surroundings<'_>,
    ) -> Result<(), Fault> {
        let bytes = ty.bytes();
        for lane in each(mask) {
            let address = self.registers[base as usize][lane].wrapping_add_signed(offset);
            let (space, address) = Self::resolve(space, address);
            if !address.is_multiple_of(bytes.into()) {
                return Err(self.misaligned(at, lane, address, bytes, around));
            }
            let (a, b) = (self.registers[a as usize][lane], self.registers[b as usize][lane]);
            let old = match space {
                Space::Shared => {
                    let who = self.who(lane);
                    let done = around.shared.exchange(address, bytes, who, |old| alu::atomic(op, ty, old, a, b));
                    done.map_err(|text| around.fault(self.shared_code(address, around), at, self.thread(lane), &text))?
                }
                Space::Global => {
                    let old = self.load_one(at, lane, (space, address, bytes), Touch::Atomic, around)?;
                    let new = alu::atomic(op, ty, old, a, b);
                    let mut hint = around.hint;
                    let done = around.memory.store(address, bytes, new, &mut hint);
                    done.map_err(|f| around.fault(f.code, at, self.thread(lane), &f.text))?;
                    around.traffic.atomic += u64::from(bytes);
                    old
                }
                _ => {
                    let text = format!("an atomic on {space:?} memory at {address:#x}");
                    return Err(around.fault(Code::IllegalAddress, at, self.thread(lane), &text));
                }
            };
            if let Some(d) = d {
                self.registers[d as usize][lane] = old;
            }
        }
        Ok(())
    }

    fn load_one(
        &self,
        at: u32,
        lane: usize,
        (space, address, bytes): (Space, u64, u32),
        touch: Touch,
        around: &mut Surroundings<'_>,
    ) -> Result<u64, Fault> {
        let slice = match space {
            Space::Global | Space::Generic => {
                let mut hint = around.hint;
                let found = around.memory.load(address, bytes, &mut hint);
                around.hint = hint;
                let found = found.and_then(|value| around.touch(address, bytes, touch).map(|()| value));
                return found.map_err(|f| around.fault(f.code, at, self.thread(lane), &f.text));
            }
            Space::Shared => {
                let found = around.shared.load(address, bytes, self.who(lane));
                return found
                    .map_err(|text| around.fault(self.shared_code(address, around), at, self.thread(lane), &text));
            }
            Space::Local => {
                let size = around.launch.entry.local_bytes as usize;
                let own = &around.local[self.thread(lane) * size..][..size];
                Self::range(size, address, bytes).map(|r| &own[r])
            }
            Space::Constant => {
                let all = around.launch.constants;
                Self::range(all.len(), address.wrapping_sub(CONSTANT_BASE), bytes).map(|r| &all[r])
            }
            Space::Param => {
                let all = around.launch.parameters;
                Self::range(all.len(), address, bytes).map(|r| &all[r])
            }
        };
        let Some(slice) = slice else {
            let text = format!("{bytes} bytes at {address:#x} are outside of {space:?} memory");
            return Err(around.fault(Code::IllegalAddress, at, self.thread(lane), &text));
        };
        let mut value = [0; 8];
        value[..slice.len()].copy_from_slice(slice);
        Ok(u64::from_le_bytes(value))
    }

    #[inline]
    fn who(&self, lane: usize) -> Who {
        #[allow(clippy::cast_possible_truncation)] // at most 1024 threads
        Who { thread: self.thread(lane) as u16, turn: self.turn }
    }

    /// A generic address's space and the address in it.
    #[inline]
    fn resolve(space: Space, address: u64) -> (Space, u64) {
        if space != Space::Generic {
            return (space, address);
        }
        if (SHARED_BASE..SHARED_BASE + WINDOW).contains(&address) {
            (Space::Shared, address - SHARED_BASE)
        } else if (LOCAL_BASE..LOCAL_BASE + WINDOW).contains(&address) {
            (Space::Local, address - LOCAL_BASE)
        } else if (CONSTANT_BASE..CONSTANT_BASE + WINDOW).contains(&address) {
            (Space::Constant, address)
        } else {
            (Space::Global, address)
        }
    }

    #[cold]
    fn misaligned(&self, at: u32, lane: usize, address: u64, bytes: u32, around: &Surroundings<'_>) -> Fault {
        let text = format!("{bytes} bytes at {address:#x}, which is no multiple of {bytes}");
        around.fault(Code::MisalignedAddress, at, self.thread(lane), &text)
    }

    /// The range of a lane's local memory, or of constants or parameters.
    fn range(len: usize, address: u64, bytes: u32) -> Option<core::ops::Range<usize>> {
        let start = usize::try_from(address).ok()?;
        let end = start.checked_add(bytes as usize)?;
        (end <= len).then_some(start..end)
    }

    #[allow(clippy::unused_self)] // beside its siblings
    fn shared_code(&self, address: u64, around: &Surroundings<'_>) -> Code {
        if address < around.shared.bytes() as u64 { Code::LaunchFailed } else { Code::IllegalAddress }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::lanes;
    use crate::report::Code;

    /// A place in shared memory for each lane, in `%r3`.
    const OWN: &str = "mov.u32 %r2, tile;\nshl.b32 %r3, %r1, 2;\nadd.s32 %r3, %r2, %r3;\nst.shared.u32 [%r3], %r1;\n";

    #[test]
    fn small_numbers_are_widened_by_their_signs() {
        let body = |load: &str| format!("{OWN}mov.u32 %r4, 65520;\nst.shared.u16 [%r3], %r4;\n{load}");
        assert_eq!(lanes(32, &body("ld.shared.s16 %r0, [%r3];")).unwrap(), [0xffff_fff0; 32]);
        assert_eq!(lanes(32, &body("ld.shared.u16 %r0, [%r3];")).unwrap(), [0xfff0; 32]);
        assert_eq!(lanes(32, &body("ld.shared.s8 %r0, [%r3+1];")).unwrap(), [0xffff_ffff; 32]);
    }

    #[test]
    fn atomics_give_what_was_there_before() {
        let body = "mov.u32 %r2, tile;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [%r2], 5;\nbar.sync 0;\n\
                    atom.shared.add.u32 %r0, [%r2], 2;";
        assert_eq!(lanes(32, body).unwrap()[..3], [5, 7, 9]);
    }

    #[test]
    fn accesses_that_miss_are_named() {
        let code = |access: &str| lanes(32, &format!("{OWN}{access}")).unwrap_err().code;
        assert_eq!(code("ld.shared.u32 %r0, [%r3+2];"), Code::MisalignedAddress);
        assert_eq!(code("ld.shared.u32 %r0, [%r3+256];"), Code::IllegalAddress);
        assert_eq!(code("ld.global.u32 %r0, [%rd3+4];"), Code::IllegalAddress);
    }
}
