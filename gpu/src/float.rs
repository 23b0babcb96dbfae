//! The number formats that tensors are stored in. Whatever the format, sums are made in f32.

pub use half::bf16 as Bf16;

/// A number format of a tensor: read as f32, written by rounding once.
pub trait Float: Copy + Default + Send + Sync + 'static {
    /// The name, as a report prints it.
    const NAME: &'static str;

    /// The value, exactly.
    fn to_f32(self) -> f32;

    /// The nearest value of this format, the even one of two equally near.
    fn of_f32(x: f32) -> Self;

    /// The same memory as f32, if this format is f32.
    fn slice_as_f32(s: &[Self]) -> Option<&[f32]>;

    /// The same memory as f32 to write to, if this format is f32.
    fn slice_as_f32_mut(s: &mut [Self]) -> Option<&mut [f32]>;
}

impl Float for f32 {
    const NAME: &'static str = "f32";

    #[inline]
    fn to_f32(self) -> f32 {
        self
    }

    #[inline]
    fn of_f32(x: f32) -> Self {
        x
    }

    fn slice_as_f32(s: &[Self]) -> Option<&[f32]> {
        Some(s)
    }

    fn slice_as_f32_mut(s: &mut [Self]) -> Option<&mut [f32]> {
        Some(s)
    }
}

impl Float for Bf16 {
    const NAME: &'static str = "bf16";

    // A bf16 is the upper half of an f32. Both ways without the branches of `half`, which loops are not vectorised
    // over.
    #[inline]
    fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    #[inline]
    fn of_f32(x: f32) -> Self {
        let bits = x.to_bits();
        // Half a step less one bit, and that bit where the upper half is odd: ties go to even.
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
        // A NaN must not lose its last bit.
        let quiet = bits | 0x0040_0000;
        Self::from_bits(((if x.is_nan() { quiet } else { rounded }) >> 16) as u16)
    }

    fn slice_as_f32(_: &[Self]) -> Option<&[f32]> {
        None
    }

    fn slice_as_f32_mut(_: &mut [Self]) -> Option<&mut [f32]> {
        None
    }
}

/// A length as the f32 that a mean divides by.
#[expect(clippy::cast_precision_loss, reason = "widths and positions are below 2^24, where every integer is exact")]
pub(crate) fn count(n: usize) -> f32 {
    debug_assert!(n < 1 << 24, "{n} is no exact f32");
    n as f32
}

#[cfg(test)]
mod tests {
    use super::{Bf16, Float};

    #[test]
    fn bf16_rounds_to_nearest_even() {
        // One bf16 step above 1 is 2^-7.
        let step = 0.007_812_5_f32;
        assert_eq!(Bf16::of_f32(1.0 + 0.5 * step).to_f32().to_bits(), 1.0_f32.to_bits());
        assert_eq!(Bf16::of_f32(1.0 + 0.51 * step).to_f32().to_bits(), (1.0 + step).to_bits());
        assert_eq!(Bf16::of_f32(1.0 + 1.5 * step).to_f32().to_bits(), (1.0 + 2.0 * step).to_bits());
        assert!(Bf16::of_f32(f32::NAN).to_f32().is_nan());
        assert_eq!(Bf16::of_f32(f32::NEG_INFINITY).to_f32().to_bits(), f32::NEG_INFINITY.to_bits());
    }

    #[test]
    fn rounds_as_half_does() {
        let mut rng = fastrand::Rng::with_seed(28);
        // Infinities, NaNs of one bit, the largest, the smallest, and ties among what is random.
        let ends = [0x7f80_0000, 0xff80_0000, 0x7f80_0001, 0xffff_ffff, 0x7f7f_ffff, 0, 1, 0x8000_0000, 0x7f7f_7fff];
        for bits in ends.into_iter().chain((0..20_000).map(|_| rng.u32(..))) {
            for bits in [bits, bits & 0xffff_0000 | 0x8000] {
                let x = f32::from_bits(bits);
                assert_eq!(<Bf16 as Float>::of_f32(x).to_bits(), Bf16::from_f32(x).to_bits(), "{bits:08x}");
            }
        }
    }

    #[test]
    fn every_bf16_survives_f32() {
        for bits in 0..=u16::MAX {
            let x = Bf16::from_bits(bits);
            let wide = Float::to_f32(x);
            assert_eq!(wide.is_nan(), x.is_nan());
            if !x.is_nan() {
                assert_eq!(wide.to_bits(), Bf16::to_f32(x).to_bits());
                assert_eq!(Bf16::of_f32(wide).to_bits(), bits);
            }
        }
    }

    #[test]
    fn only_f32_is_f32() {
        assert!(f32::slice_as_f32(&[1.0]).is_some() && f32::slice_as_f32_mut(&mut [1.0]).is_some());
        assert!(Bf16::slice_as_f32(&[]).is_none() && Bf16::slice_as_f32_mut(&mut []).is_none());
    }
}
