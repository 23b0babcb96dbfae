//! Conversions of numbers, and of addresses.

use super::{Decoder, type_of};
use crate::ptx::PtxError;
use crate::ptx::instruction::{Op, Rounding, Space, Type};

/// What the suffixes of a conversion say.
#[allow(clippy::struct_excessive_bools)] // a suffix each
struct How {
    rounding: Rounding,
    to_whole: bool,
    ftz: bool,
    saturate: bool,
    relu: bool,
    types: Vec<Type>,
    /// Of two results in one register.
    pair: Option<Type>,
}

/// Roundings of a conversion, to a whole number or not.
fn rounding_of(suffix: &str) -> Option<(Rounding, bool)> {
    let (rounding, to_whole) = match suffix.strip_suffix('i') {
        Some(rounding) => (rounding, true),
        None => (suffix, false),
    };
    let rounding = match rounding {
        "rn" => Rounding::Nearest,
        "rz" => Rounding::Zero,
        "rm" => Rounding::Down,
        "rp" => Rounding::Up,
        _ => return None,
    };
    Some((rounding, to_whole))
}

impl Decoder<'_> {
    fn how(&self, suffixes: &[&str]) -> Result<How, PtxError> {
        let mut how = How {
            rounding: Rounding::Nearest,
            to_whole: false,
            ftz: false,
            saturate: false,
            relu: false,
            types: Vec::new(),
            pair: None,
        };
        for &suffix in suffixes {
            match suffix {
                "ftz" => how.ftz = true,
                "sat" => how.saturate = true,
                "relu" => how.relu = true,
                "bf16x2" if how.types.is_empty() => how.pair = Some(Type::Bf16),
                "f16x2" if how.types.is_empty() => how.pair = Some(Type::F16),
                _ => match (rounding_of(suffix), type_of(suffix)) {
                    (Some((rounding, to_whole)), _) => {
                        how.rounding = rounding;
                        how.to_whole |= to_whole;
                    }
                    (None, Some(ty)) => how.types.push(ty),
                    (None, None) => return self.unknown(),
                },
            }
        }
        Ok(how)
    }

    pub(super) fn convert(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        let How { rounding, to_whole, ftz, saturate, relu, types, pair } = self.how(rest)?;
        if let (Some(to), [Type::F32]) = (pair, &types[..]) {
            self.count(3)?;
            if rounding != Rounding::Nearest || saturate || relu {
                return self.unknown();
            }
            let (d, a, b) = (self.result(0)?, self.typed(1, Type::F32)?, self.typed(2, Type::F32)?);
            return Ok(Op::ConvertPair { to, d, a, b });
        }
        let [to, from] = types[..] else { return self.unknown() };
        self.count(2)?;
        let is_small = |ty: Type| matches!(ty, Type::F16 | Type::Bf16);
        // Narrowing rounds to nearest alone; from whole numbers to the small floats not at all.
        let narrows = is_small(to) || (to, from) == (Type::F32, Type::F64);
        if narrows && rounding != Rounding::Nearest && !to_whole {
            return self.unknown();
        }
        if (is_small(to) && !from.is_float()) || (from.bytes() == 8 && is_small(to)) {
            return self.unknown();
        }
        if !from.is_float() && to.is_float() && rounding != Rounding::Nearest {
            return self.unknown();
        }
        let (d, a) = (self.result(0)?, self.typed(1, from)?);
        Ok(Op::Convert { to, from, rounding, to_whole, ftz, saturate, relu, d, a })
    }

    pub(super) fn convey(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        self.count(2)?;
        let (to_generic, space) = match rest {
            ["to", space, "u64"] => (false, *space),
            [space, "u64"] => (true, *space),
            _ => return self.unknown(),
        };
        let space = match space {
            "global" => Space::Global,
            "shared" | "shared::cta" => Space::Shared,
            "local" => Space::Local,
            "const" => Space::Constant,
            _ => return self.unknown(),
        };
        Ok(Op::Convey { space, to_generic, d: self.result(0)?, a: self.value(1)? })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{one, refused};
    use crate::ptx::instruction::{Op, Rounding, Space, Type};

    #[test]
    fn conversions_know_their_suffixes() {
        let Op::Convert { to, from, rounding, to_whole, saturate, .. } = one("cvt.rzi.sat.s32.f32 %r1, %f1;").unwrap()
        else {
            panic!()
        };
        assert_eq!((to, from, rounding, to_whole, saturate), (Type::S32, Type::F32, Rounding::Zero, true, true));
        let Op::ConvertPair { to, .. } = one("cvt.rn.bf16x2.f32 %r1, %f1, %f2;").unwrap() else { panic!() };
        assert_eq!(to, Type::Bf16);
        let Op::Convey { space, to_generic, .. } = one("cvta.to.shared.u64 %rd1, %rd2;").unwrap() else { panic!() };
        assert_eq!((space, to_generic), (Space::Shared, false));
        for text in ["cvt.rz.bf16.f32 %r1, %f1;", "cvt.rn.f32.tf32 %f1, %f1;", "cvta.param.u64 %rd1, %rd2;"] {
            assert!(refused(text).contains("not understood"), "{text}");
        }
    }
}
