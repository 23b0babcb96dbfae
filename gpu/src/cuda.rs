//! The CUDA device, on cudarc: found when asked for, and a clear error where it is not.

use core::fmt;
use cudarc::driver::CudaContext;
use std::sync::Arc;

/// Why there is no CUDA device.
#[derive(Debug)]
pub enum NoDevice {
    /// The driver's library is not on this machine.
    NoDriver,
    /// The driver answers, and refuses.
    Driver(String),
    /// There are fewer devices.
    Absent {
        /// The device asked for, from 0.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
}

impl fmt::Display for NoDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDriver => {
                f.write_str("no CUDA driver: libcuda.so (libcuda.so.1) is in none of the loader's folders; install it or set LD_LIBRARY_PATH")
            }
            Self::Driver(error) => write!(f, "the CUDA driver refuses: {error}"),
            Self::Absent { ordinal, count } => write!(f, "no CUDA device {ordinal}: the driver shows {count}"),
        }
    }
}

impl core::error::Error for NoDevice {}

/// Opens a device.
///
/// # Errors
/// If there is no driver, if it refuses, or if there are fewer devices.
pub fn open(ordinal: usize) -> Result<Arc<CudaContext>, NoDevice> {
    // SAFETY: the call only tries to load a library by name, and cudarc loads the same one later. Asked first, since
    // cudarc panics where the library is missing.
    #[allow(unsafe_code)]
    let is_present = unsafe { cudarc::driver::sys::is_culib_present() };
    if !is_present {
        return Err(NoDevice::NoDriver);
    }
    let refused = |error| NoDevice::Driver(format!("{error}"));
    let count = CudaContext::device_count().map_err(refused)?;
    let count = usize::try_from(count).unwrap_or(0);
    if ordinal >= count {
        return Err(NoDevice::Absent { ordinal, count });
    }
    CudaContext::new(ordinal).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::{NoDevice, open};

    /// Runs everywhere: with a driver the absent device is refused by number, without one by the library's name.
    #[test]
    fn an_absent_device_is_an_error_that_says_what_was_looked_for() {
        match open(4096) {
            Err(NoDevice::NoDriver) => assert!(NoDevice::NoDriver.to_string().contains("libcuda.so")),
            Err(NoDevice::Absent { ordinal, count }) => assert!(ordinal == 4096 && count < 4096),
            Err(NoDevice::Driver(error)) => assert!(!error.is_empty()),
            Ok(_) => panic!("no machine has so many devices"),
        }
    }
}
