//! Why there is no CUDA device.

use core::fmt;

/// Why there is no CUDA device.
#[derive(Debug)]
#[non_exhaustive]
pub enum NoDevice {
    /// The driver's library is not on this machine.
    NoDriver,
    /// A library of the toolkit is not on this machine.
    NoLibrary(Library),
    /// The driver answers, and refuses.
    Driver(String),
    /// There are fewer devices.
    Absent {
        /// The device asked for, from 0.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
    /// The kernels do not compile, or do not load.
    Kernels(String),
    /// cuBLAS answers, and refuses.
    Blas(String),
}

/// What the device needs beside the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Library {
    /// The compiler of kernels.
    Nvrtc,
    /// Matrix products.
    Cublas,
    /// What carries bytes between devices.
    Nccl,
}

impl fmt::Display for NoDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDriver => {
                f.write_str("no CUDA driver: libcuda.so (libcuda.so.1) is in none of the loader's folders; install it or set LD_LIBRARY_PATH")
            }
            Self::NoLibrary(library) => {
                let (what, name, also) = match library {
                    Library::Nvrtc => ("NVRTC", "libnvrtc.so", "libnvrtc.so.13"),
                    Library::Cublas => ("cuBLAS", "libcublas.so", "libcublas.so.13"),
                    Library::Nccl => ("NCCL", "libnccl.so", "a link of that name to libnccl.so.2"),
                };
                write!(f, "no {what}: {name} ({also}) is in none of the loader's folders; install it or set LD_LIBRARY_PATH")
            }
            Self::Driver(error) => write!(f, "the CUDA driver refuses: {error}"),
            Self::Absent { ordinal, count } => write!(f, "no CUDA device {ordinal}: the driver shows {count}"),
            Self::Kernels(error) => write!(f, "kernels for this device: {error}"),
            Self::Blas(error) => write!(f, "cuBLAS refuses: {error}"),
        }
    }
}

impl core::error::Error for NoDevice {}

/// What cudarc's errors of the driver become.
pub(super) fn refused(error: cudarc::driver::DriverError) -> NoDevice {
    NoDevice::Driver(format!("{error}"))
}
