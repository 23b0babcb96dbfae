//! Values that stand in more than one group: factors, percentages, switches, number formats.

use super::schema::{Word, words};
use crate::text::Text;

/// A factor in thousandths, written as a decimal number: a routing skew, a capacity factor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Factor {
    /// Thousandths of one.
    pub thousandths: u64,
}

impl Factor {
    /// One: nothing is changed.
    pub const ONE: Self = Self::thousandths(1000);

    /// A factor of so many thousandths.
    #[must_use]
    pub const fn thousandths(thousandths: u64) -> Self {
        Self { thousandths }
    }
}

impl core::fmt::Display for Factor {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(Text::new().thousandths(self.thousandths).as_str())
    }
}

/// Percent on top of an amount, written `percent(10)`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Percent {
    /// The number in front of the percent sign.
    pub percent: u64,
}

/// Percent on top of an amount: `headroom: percent(10)`.
#[must_use]
pub const fn percent(percent: u64) -> Percent {
    Percent { percent }
}

words! {
    /// On or off.
    Switch {
        /// Off.
        Off = "off",
        /// On.
        On = "on",
    }
}

impl Switch {
    /// Whether the switch is on.
    #[must_use]
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

words! {
    /// The number format of one role of tensors.
    Dtype {
        /// No such tensor is kept.
        None = "none",
        /// IEEE single precision, 4 bytes.
        Fp32 = "fp32",
        /// bfloat16, 2 bytes.
        Bf16 = "bf16",
        /// IEEE half precision, 2 bytes.
        Fp16 = "fp16",
        /// An 8-bit float (E4M3 or E5M2), 1 byte, without its scales.
        Fp8 = "fp8",
    }
}

impl Dtype {
    /// Bytes of one element.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Fp32 => 4,
            Self::Bf16 | Self::Fp16 => 2,
            Self::Fp8 => 1,
        }
    }
}
