//! Devices that a layout can be declared to fit on.

use crate::bytes::Bytes;
use crate::spec::Word;
use crate::spec::schema::words;

words! {
    /// A device, by the memory that its driver shows. The figures are the totals that `nvidia-smi` prints on
    /// machines in use (collected 2026-11-29): 40,960 and 81,920 MiB for A100, 81,559 MiB for H100 80GB HBM3,
    /// 143,771 MiB for H200, 183,359 MiB for B200. CUDA context and library workspaces come out of it.
    Device {
        /// No device: nothing is checked.
        None = "none",
        /// NVIDIA A100 40GB.
        A100Gb40 = "a100_40gb",
        /// NVIDIA A100 80GB.
        A100Gb80 = "a100_80gb",
        /// NVIDIA H100 80GB HBM3.
        H100 = "h100",
        /// NVIDIA H200.
        H200 = "h200",
        /// NVIDIA B200.
        B200 = "b200",
    }
}

/// NVIDIA A100 80GB.
pub const A100_80GB: Device = Device::A100Gb80;
/// NVIDIA H100 80GB HBM3.
pub const H100: Device = Device::H100;
/// NVIDIA H200.
pub const H200: Device = Device::H200;
/// NVIDIA B200.
pub const B200: Device = Device::B200;

impl Device {
    /// Its CUDA compute capability, as a major number: 8 of Ampere, 9 of Hopper, 10 of Blackwell; of [`Device::None`] that of
    /// the newest.
    #[must_use]
    pub const fn compute_capability(self) -> u64 {
        match self {
            Self::A100Gb40 | Self::A100Gb80 => 8,
            Self::H100 | Self::H200 => 9,
            Self::B200 | Self::None => 10,
        }
    }

    /// Memory that the driver shows; for [`Device::None`] all there can be.
    #[must_use]
    pub const fn usable(self) -> Bytes {
        match self {
            Self::None => Bytes::MAX,
            Self::A100Gb40 => Bytes::mib(40_960),
            Self::A100Gb80 => Bytes::mib(81_920),
            Self::H100 => Bytes::mib(81_559),
            Self::H200 => Bytes::mib(143_771),
            Self::B200 => Bytes::mib(183_359),
        }
    }
}
