//! An amount of memory.

use crate::saturating::{add, cut, mul};
use crate::text::Text;
use core::fmt;

/// Bytes per KiB, MiB and GiB.
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// An amount of memory in whole bytes. Prints GiB or MiB; arithmetic never wraps.
///
/// ```
/// use moe_model_core::Bytes;
/// assert_eq!(Bytes::new(12_500_729_856).to_string(), "11.64 GiB");
/// assert_eq!(Bytes::mib(512) + Bytes::mib(512), Bytes::gib(1));
/// assert_eq!(Bytes::new(u64::MAX).checked_add(Bytes::new(1)), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Bytes(u64);

impl Bytes {
    /// No memory.
    pub const ZERO: Self = Self(0);
    /// The most that can be said; a sum that reaches it did not fit in 64 bits.
    pub const MAX: Self = Self(u64::MAX);

    /// This many bytes.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// This many MiB (2^20 bytes).
    ///
    /// # Panics
    /// If the amount does not fit in 64 bits.
    #[must_use]
    pub const fn mib(n: u64) -> Self {
        match n.checked_mul(MIB) {
            Some(bytes) => Self(bytes),
            None => panic!("this many MiB do not fit in 64 bits of bytes"),
        }
    }

    /// This many GiB (2^30 bytes).
    ///
    /// # Panics
    /// If the amount does not fit in 64 bits.
    #[must_use]
    pub const fn gib(n: u64) -> Self {
        match n.checked_mul(GIB) {
            Some(bytes) => Self(bytes),
            None => panic!("this many GiB do not fit in 64 bits of bytes"),
        }
    }

    /// The exact count.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The sum, or `None` if it does not fit.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// `times` as much, or `None` if it does not fit.
    #[must_use]
    pub const fn checked_mul(self, times: u64) -> Option<Self> {
        match self.0.checked_mul(times) {
            Some(product) => Some(Self(product)),
            None => None,
        }
    }

    /// The sum; stays at [`Bytes::MAX`] if it does not fit, which a Plan refuses (law `fits-64-bits`).
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(add(self.0, other.0))
    }

    /// `times` as much; stays at [`Bytes::MAX`] if it does not fit, which a Plan refuses.
    #[must_use]
    pub const fn times(self, times: u64) -> Self {
        Self(mul(self.0, times))
    }

    /// The amount with `percent` on top, rounded up to a whole byte.
    #[must_use]
    pub const fn with_headroom(self, percent: u64) -> Self {
        let more = (self.0 as u128 * percent as u128).div_ceil(100);
        Self(cut(self.0 as u128 + more))
    }

    /// The larger of two amounts.
    #[must_use]
    pub const fn larger(self, other: Self) -> Self {
        if self.0 < other.0 { other } else { self }
    }

    /// Gibibytes, for plots and tables; exact work stays in whole bytes.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // shown to people, never computed with
    pub const fn as_gib(self) -> f64 {
        self.0 as f64 / GIB as f64
    }

    /// What [`Display`](fmt::Display) prints, in `const`: two decimals of GiB, MiB or KiB, or bytes.
    #[must_use]
    pub const fn text(self) -> Text {
        // Rounded half up in integers, so that the compiler and the run time print the same digits; what rounds to the
        // next unit is written in that.
        let (unit, name) = if hundredths(self.0, MIB) >= 102_400 {
            (GIB, " GiB")
        } else if hundredths(self.0, KIB) >= 102_400 {
            (MIB, " MiB")
        } else if self.0 >= KIB {
            (KIB, " KiB")
        } else {
            return Text::new().int(self.0).str(" B");
        };
        let hundredths = hundredths(self.0, unit);
        Text::new().int(hundredths / 100).str(".").digits(hundredths % 100, 2).str(name)
    }
}

/// How many hundredths of a unit some bytes are, rounded half up.
const fn hundredths(bytes: u64, unit: u64) -> u64 {
    cut((bytes as u128 * 100 + unit as u128 / 2) / unit as u128)
}

impl core::ops::Add for Bytes {
    type Output = Self;
    /// # Panics
    /// If the sum does not fit in 64 bits.
    fn add(self, other: Self) -> Self {
        self.checked_add(other).expect("the sum of two amounts of memory fits in 64 bits")
    }
}

impl core::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, |sum, amount| sum + amount)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text().as_str())
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;
    use alloc::string::ToString;

    #[test]
    fn prints_the_unit_that_people_read() {
        for (bytes, shown) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (235_143_168, "224.25 MiB"),
            ((1 << 20) - 1, "1.00 MiB"),
            ((1 << 30) - 1, "1.00 GiB"),
            (12_500_729_856, "11.64 GiB"),
            (u64::MAX, "17179869184.00 GiB"),
        ] {
            assert_eq!(Bytes::new(bytes).to_string(), shown);
        }
    }

    #[test]
    fn headroom_rounds_up() {
        assert_eq!(Bytes::new(35_875_815_424).with_headroom(10).bytes(), 39_463_396_967);
        assert_eq!(Bytes::MAX.with_headroom(1), Bytes::MAX);
    }
}
