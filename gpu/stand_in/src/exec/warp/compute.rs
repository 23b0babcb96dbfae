//! What lanes compute of registers and predicates, each for itself.

use super::Warp;
use crate::exec::alu::{self, Conversion};
use crate::exec::{LANES, LOCAL_BASE, SHARED_BASE};
use crate::ptx::instruction::{Logic, Op, Register, Space, Type, Unary};

impl Warp {
    /// Computes registers of registers, for the lanes of a mask.
    pub(super) fn compute(&mut self, op: &Op, mask: u32) {
        match op {
            Op::Unary { op: Unary::Move, d, a, .. } => {
                let values = *self.get(*a);
                self.put(*d, &values, mask);
            }
            Op::Unary { op, ty, ftz, d, a } => {
                let values = alu::unary(*op, *ty, *ftz, self.get(*a));
                self.put(*d, &values, mask);
            }
            Op::Binary { op, ty, rounding, ftz, saturate, d, a, b } => {
                let values = alu::binary(*op, *ty, *rounding, *ftz, *saturate, self.get(*a), self.get(*b));
                self.put(*d, &values, mask);
            }
            Op::Ternary { op, ty, rounding, ftz, saturate, d, a, b, c } => {
                let (a, b, c) = (self.get(*a), self.get(*b), self.get(*c));
                let values = alu::ternary(*op, *ty, *rounding, *ftz, *saturate, a, b, c);
                self.put(*d, &values, mask);
            }
            Op::BitFieldInsert { ty, d, a, b, at, len } => {
                let (a, b, from, len) = (self.get(*a), self.get(*b), self.get(*at), self.get(*len));
                let values = core::array::from_fn(|l| alu::insert(*ty, a[l], b[l], from[l], len[l]));
                self.put(*d, &values, mask);
            }
            &Op::Convert { to, from, rounding, to_whole, ftz, saturate, relu, d, a } => {
                let how = Conversion { to, from, rounding, to_whole, ftz, saturate, relu };
                let values = alu::convert(how, self.get(a));
                self.put(d, &values, mask);
            }
            Op::ConvertPair { to, d, a, b } => {
                let (a, b) = (self.get(*a), self.get(*b));
                let half = |bits| alu::narrow(alu::widen(bits, Type::F32), *to);
                let values = core::array::from_fn(|l| half(a[l]) << 16 | half(b[l]));
                self.put(*d, &values, mask);
            }
            Op::Convey { space, to_generic, d, a } => self.convey(*space, *to_generic, (*d, *a), mask),
            Op::Pack { d, parts, bits } => self.pack(*d, parts, *bits, mask),
            Op::Unpack { parts, a, bits } => self.unpack(parts, *a, *bits, mask),
            Op::ActiveMask { d } => self.put(*d, &[u64::from(mask); LANES], mask),
            other => unreachable!("{other:?} computes no registers of registers alone"),
        }
    }

    /// Computes with predicates.
    pub(super) fn decide(&mut self, op: &Op, mask: u32) {
        match op {
            Op::Compare { comparison, ty, ftz, d, other, a, b, with } => {
                let holds = alu::compare(*comparison, *ty, *ftz, self.get(*a), self.get(*b));
                let combine = |holds: u32| match with {
                    None => holds,
                    Some((logic, p, negate)) => {
                        let p = self.predicates[*p as usize];
                        combined(*logic, holds, if *negate { !p } else { p })
                    }
                };
                let (yes, no) = (combine(holds), combine(!holds));
                self.put_predicate(*d, yes, mask);
                if let Some(other) = other {
                    self.put_predicate(*other, no, mask);
                }
            }
            Op::CompareTo { comparison, ty, is_float, d, a, b } => {
                let holds = alu::compare(*comparison, *ty, false, self.get(*a), self.get(*b));
                let yes = if *is_float { u64::from(1_f32.to_bits()) } else { 0xffff_ffff };
                let values = core::array::from_fn(|l| if holds >> l & 1 == 1 { yes } else { 0 });
                self.put(*d, &values, mask);
            }
            Op::Select { d, a, b, p } => {
                let p = self.predicates[*p as usize];
                let (a, b) = (self.get(*a), self.get(*b));
                let values = core::array::from_fn(|l| if p >> l & 1 == 1 { a[l] } else { b[l] });
                self.put(*d, &values, mask);
            }
            Op::PredicateMove { d, a, negate } => {
                let a = self.predicates[*a as usize];
                self.put_predicate(*d, if *negate { !a } else { a }, mask);
            }
            Op::PredicateLogic { logic, d, a, b } => {
                let (a, b) = (self.predicates[*a as usize], self.predicates[*b as usize]);
                self.put_predicate(*d, combined(*logic, a, b), mask);
            }
            other => unreachable!("{other:?} has no predicates"),
        }
    }

    /// An address of a space as a generic one, or the other way.
    fn convey(&mut self, space: Space, to_generic: bool, (d, a): (Register, Register), mask: u32) {
        let base = match space {
            Space::Shared => SHARED_BASE,
            Space::Local => LOCAL_BASE,
            _ => 0,
        };
        let base = if to_generic { base } else { base.wrapping_neg() };
        let a = self.get(a);
        let values = core::array::from_fn(|l| a[l].wrapping_add(base));
        self.put(d, &values, mask);
    }

    fn pack(&mut self, d: Register, parts: &[Register], bits: u32, mask: u32) {
        let ones = (1_u64 << bits) - 1;
        let mut values = [0; LANES];
        for (i, part) in (0_u32..).zip(parts) {
            for (value, part) in values.iter_mut().zip(self.get(*part)) {
                *value |= (part & ones) << (i * bits);
            }
        }
        self.put(d, &values, mask);
    }

    fn unpack(&mut self, parts: &[Option<Register>], a: Register, bits: u32, mask: u32) {
        let (a, ones) = (*self.get(a), (1_u64 << bits) - 1);
        for (i, part) in (0_u32..).zip(parts) {
            if let Some(part) = part {
                let values = core::array::from_fn(|l| a[l] >> (i * bits) & ones);
                self.put(*part, &values, mask);
            }
        }
    }
}

const fn combined(logic: Logic, a: u32, b: u32) -> u32 {
    match logic {
        Logic::And => a & b,
        Logic::Or => a | b,
        Logic::Xor => a ^ b,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::lanes;

    #[test]
    fn pairs_are_packed_and_taken_apart() {
        let body = "mov.b64 %rd2, {%r1, 7};\nmov.b64 {%r2, %r3}, %rd2;\nadd.s32 %r0, %r2, %r3;";
        assert_eq!(lanes(32, body).unwrap()[..2], [7, 8]);
    }
}
