//! Conversions from one type to another.

use super::float::{flush, narrow, single, widen};
use super::{Lanes, mask_of, one, signed};
use crate::ptx::instruction::{Rounding, Type};

/// How a conversion is done.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_excessive_bools)] // the opcode's suffixes
pub struct Conversion {
    /// The result's type.
    pub to: Type,
    /// The operand's.
    pub from: Type,
    /// Which way.
    pub rounding: Rounding,
    /// Float to a whole float.
    pub to_whole: bool,
    /// Subnormals are zero.
    pub ftz: bool,
    /// Into the range.
    pub saturate: bool,
    /// Negative is zero.
    pub relu: bool,
}

/// Converts.
#[must_use]
pub fn convert(how: Conversion, a: &Lanes) -> Lanes {
    let Conversion { to, from, .. } = how;
    match (from.is_float(), to.is_float()) {
        (false, false) => {
            let cut = mask_of(to);
            match (how.saturate, from.is_signed()) {
                // Registers are wider than a small result: its sign is extended there.
                (false, true) => one(a, |x| extend(signed(x, from).cast_unsigned() & cut, to)),
                (false, false) => one(a, |x| extend(x & mask_of(from) & cut, to)),
                (true, _) => one(a, |x| clamped(x, from, to)),
            }
        }
        (false, true) => one(a, |x| from_whole(x, from, to)),
        (true, false) => one(a, |x| to_whole(widen(x, from), how)),
        (true, true) => one(a, |x| {
            let mut y = widen(x, from);
            if how.ftz && from == Type::F32 {
                y = f64::from(flush(single(x)));
            }
            if how.to_whole || (to == from && how.rounding != Rounding::Nearest) {
                y = whole_part(y, how.rounding);
            }
            if how.relu {
                y = y.max(0.0);
            }
            if how.saturate {
                y = if y.is_nan() { 0.0 } else { y.clamp(0.0, 1.0) };
            }
            let bits = narrow(y, to);
            if how.ftz && to == Type::F32 { u64::from(flush(single(bits)).to_bits()) } else { bits }
        }),
    }
}

fn extend(x: u64, ty: Type) -> u64 {
    if ty.is_signed() && ty.bytes() < 4 { signed(x, ty).cast_unsigned() & 0xffff_ffff } else { x }
}

fn clamped(x: u64, from: Type, to: Type) -> u64 {
    let x = if from.is_signed() { i128::from(signed(x, from)) } else { i128::from(x & mask_of(from)) };
    let bits = 8 * to.bytes();
    let (low, high) =
        if to.is_signed() { (-(1_i128 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // in range, or its two's complement
    let cut = x.clamp(low, high) as u64;
    extend(cut & mask_of(to), to)
}

#[allow(clippy::cast_precision_loss)] // rounding is meant
fn from_whole(x: u64, from: Type, to: Type) -> u64 {
    match (from.is_signed(), to) {
        (true, Type::F32) => (signed(x, from) as f32).to_bits().into(),
        (false, Type::F32) => ((x & mask_of(from)) as f32).to_bits().into(),
        (true, _) => (signed(x, from) as f64).to_bits(),
        (false, _) => ((x & mask_of(from)) as f64).to_bits(),
    }
}

fn whole_part(x: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => x.round_ties_even(),
        Rounding::Zero => x.trunc(),
        Rounding::Down => x.floor(),
        Rounding::Up => x.ceil(),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` saturates, as the instruction does
fn to_whole(x: f64, how: Conversion) -> u64 {
    let Conversion { to, from, rounding, .. } = how;
    if x.is_nan() {
        let is_small = from != Type::F64 && to.bytes() < 8;
        return if is_small { 0 } else { 1 << (8 * to.bytes() - 1) };
    }
    let x = whole_part(x, rounding);
    let bits = match to {
        Type::S64 => (x as i64).cast_unsigned(),
        Type::U64 => x as u64,
        Type::S32 => u64::from((x as i32).cast_unsigned()),
        Type::U32 => u64::from(x as u32),
        Type::S16 => i64::from(x as i16).cast_unsigned(),
        Type::U16 => u64::from(x as u16),
        Type::S8 => i64::from(x as i8).cast_unsigned(),
        _ => u64::from(x as u8),
    };
    extend(bits & mask_of(to), to)
}

#[cfg(test)]
mod tests {
    use super::{Conversion, convert};
    use crate::ptx::instruction::{Rounding, Type};

    fn to(to: Type, from: Type, to_whole: bool, a: u64) -> u64 {
        let (rounding, ftz, saturate, relu) = (Rounding::Nearest, false, false, false);
        convert(Conversion { to, from, rounding, to_whole, ftz, saturate, relu }, &[a; 32])[7]
    }

    fn bits(x: f32) -> u64 {
        x.to_bits().into()
    }

    #[test]
    fn conversions_round_saturate_and_know_nan() {
        assert_eq!(to(Type::Bf16, Type::F32, false, bits(1.003_906_3)), 0x3f80);
        assert_eq!(to(Type::Bf16, Type::F32, false, bits(1.011_718_8)), 0x3f82);
        assert_eq!(to(Type::S32, Type::F32, true, bits(2.5)), 2);
        assert_eq!(to(Type::S32, Type::F32, true, bits(1e20)), 0x7fff_ffff);
        assert_eq!(to(Type::U32, Type::F32, true, bits(-3.0)), 0);
        assert_eq!(to(Type::S32, Type::F32, true, bits(f32::NAN)), 0);
        assert_eq!(to(Type::S64, Type::S32, false, 0xffff_fffe), (-2_i64).cast_unsigned());
        assert_eq!(to(Type::U64, Type::U32, false, 0xdead_0000_0001), 1);
        assert_eq!(to(Type::F32, Type::U32, false, 3), bits(3.0));
        assert_eq!(to(Type::F32, Type::F32, true, bits(-2.5)), bits(-2.0));
    }
}
