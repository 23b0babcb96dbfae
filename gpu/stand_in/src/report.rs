//! What went wrong: a CUDA error code with a text, printed and kept.

use serde::{Deserialize, Serialize};
use std::sync::{Mutex, PoisonError};

/// The `CUresult`s that the stand-in gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Code {
    InvalidValue = 1,
    OutOfMemory = 2,
    NotInitialized = 3,
    NoDevice = 100,
    InvalidDevice = 101,
    InvalidContext = 201,
    InvalidPtx = 218,
    FileNotFound = 301,
    InvalidHandle = 400,
    NotFound = 500,
    IllegalAddress = 700,
    LaunchOutOfResources = 701,
    LaunchTimeout = 702,
    Assert = 710,
    MisalignedAddress = 716,
    LaunchFailed = 719,
    NotSupported = 801,
    Unknown = 999,
}

impl Code {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::InvalidValue,
        Self::OutOfMemory,
        Self::NotInitialized,
        Self::NoDevice,
        Self::InvalidDevice,
        Self::InvalidContext,
        Self::InvalidPtx,
        Self::FileNotFound,
        Self::InvalidHandle,
        Self::NotFound,
        Self::IllegalAddress,
        Self::LaunchOutOfResources,
        Self::LaunchTimeout,
        Self::Assert,
        Self::MisalignedAddress,
        Self::LaunchFailed,
        Self::NotSupported,
        Self::Unknown,
    ];

    /// The driver's name for it, and its description.
    #[must_use]
    pub fn names(self) -> (&'static core::ffi::CStr, &'static core::ffi::CStr) {
        match self {
            Self::InvalidValue => (c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
            Self::OutOfMemory => (c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
            Self::NotInitialized => (c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
            Self::NoDevice => (c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
            Self::InvalidDevice => (c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
            Self::InvalidContext => (c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
            Self::InvalidPtx => (c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed"),
            Self::FileNotFound => (c"CUDA_ERROR_FILE_NOT_FOUND", c"file not found"),
            Self::InvalidHandle => (c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
            Self::NotFound => (c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
            Self::IllegalAddress => (c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered"),
            Self::LaunchOutOfResources => {
                (c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", c"too many resources requested for launch")
            }
            Self::LaunchTimeout => (c"CUDA_ERROR_LAUNCH_TIMEOUT", c"the launch timed out and was terminated"),
            Self::Assert => (c"CUDA_ERROR_ASSERT", c"device-side assert triggered"),
            Self::MisalignedAddress => (c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address"),
            Self::LaunchFailed => (c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
            Self::NotSupported => (c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
            Self::Unknown => (c"CUDA_ERROR_UNKNOWN", c"unknown error"),
        }
    }
}

/// A refused call or a kernel that was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What the caller gets.
    pub code: Code,
    /// What a person gets.
    pub text: String,
}

impl Fault {
    /// A fault.
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// The same with more in front.
    #[must_use]
    pub fn within(self, place: &str) -> Self {
        Self { code: self.code, text: format!("{place}: {}", self.text) }
    }
}

static LAST: Mutex<String> = Mutex::new(String::new());

/// Prints a fault and keeps its text.
pub fn publish(fault: &Fault) {
    let text = format!("{} ({})", fault.text, fault.code.names().0.to_string_lossy());
    eprintln!("stand-in: {text}");
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = text;
}

/// The text of the last fault; empty if there was none.
#[must_use]
pub fn last() -> String {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Forgets the last fault.
pub fn clear() {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).clear();
}
