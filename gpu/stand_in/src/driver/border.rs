//! The border to C: pointers that a caller hands over, and answers.

// Reading and writing through a caller's pointers is what this module is for.
#![allow(unsafe_code)]

use super::{Driver, driver};
use crate::report::{self, Code, Fault};
use std::ffi::{CStr, c_char, c_void};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

/// A pointer to write a result through. Only a C caller makes one.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Whether the caller gave none.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Writes the result.
    ///
    /// # Errors
    /// If the pointer is null.
    pub fn put(self, value: T) -> Result<(), Fault> {
        if self.0.is_null() {
            return Err(Fault::new(Code::InvalidValue, "a null pointer for a result"));
        }
        // SAFETY: the interface demands of the caller that a pointer for a result is null or valid for a write of it.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }
}

/// A pointer to read through. Only a C caller makes one.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// The value.
    ///
    /// # Errors
    /// If the pointer is null.
    pub fn get(self) -> Result<T, Fault> {
        if self.0.is_null() {
            return Err(Fault::new(Code::InvalidValue, "a null pointer for an argument"));
        }
        // SAFETY: the interface demands of the caller that the pointer is null or valid for a read of a `T`.
        Ok(unsafe { self.0.read_unaligned() })
    }
}

impl<T> In<T> {
    /// As a number: an address of a device, perhaps.
    #[must_use]
    pub fn address(self) -> u64 {
        self.0.addr() as u64
    }
}

impl In<c_char> {
    /// The text up to its zero.
    ///
    /// # Errors
    /// If the pointer is null or the text is not UTF-8.
    pub fn text<'a>(self) -> Result<&'a str, Fault> {
        if self.0.is_null() {
            return Err(Fault::new(Code::InvalidValue, "a null pointer for a text"));
        }
        // SAFETY: the interface demands a text that ends in a zero and lives as long as the call, which is as long as
        // the callers here keep it.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map_err(|_| Fault::new(Code::InvalidValue, "a text that is not UTF-8: no PTX, but a binary?"))
    }
}

/// The caller's memory, to copy from.
///
/// # Errors
/// If the pointer is null and there is something to read.
pub(crate) fn source<'a>(from: In<u8>, bytes: usize) -> Result<&'a [u8], Fault> {
    if bytes == 0 {
        return Ok(&[]);
    }
    if from.0.is_null() {
        return Err(Fault::new(Code::InvalidValue, "a copy from a null pointer"));
    }
    // SAFETY: the interface demands of the caller that so many bytes can be read there during the call; the copy is done
    // before it returns.
    Ok(unsafe { std::slice::from_raw_parts(from.0, bytes) })
}

/// The caller's memory, to copy to.
///
/// # Errors
/// If the pointer is null and there is something to write.
pub(super) fn target<'a>(to: Out<u8>, bytes: usize) -> Result<&'a mut [u8], Fault> {
    if bytes == 0 {
        return Ok(&mut []);
    }
    if to.0.is_null() {
        return Err(Fault::new(Code::InvalidValue, "a copy to a null pointer"));
    }
    // SAFETY: the interface demands of the caller that so many bytes can be written there during the call and that
    // nobody else touches them; they are all overwritten before anything reads them.
    Ok(unsafe { std::slice::from_raw_parts_mut(to.0, bytes) })
}

/// Calls the caller's function.
pub(super) fn call_host(function: Option<unsafe extern "C" fn(*mut c_void)>, data: *mut c_void) {
    if let Some(function) = function {
        // SAFETY: the interface demands a function that may be called once with the data, from any thread.
        unsafe { function(data) };
    }
}

/// Reads memory of this process that may not be there.
#[must_use]
pub fn peek(address: u64, to: &mut [u8]) -> bool {
    static SELF: OnceLock<Option<File>> = OnceLock::new();
    let file = SELF.get_or_init(|| File::open("/proc/self/mem").ok());
    file.as_ref().is_some_and(|f| f.read_exact_at(to, address).is_ok())
}

/// Answers a call of libcuda.
pub(super) fn answer(call: impl FnOnce(&'static Driver) -> Result<(), Fault>) -> i32 {
    answer_in(|code| code as i32, call)
}

/// Answers a call: 0, or what a library's code for it is that went wrong, whose text is printed. Panics end here.
pub(crate) fn answer_in(
    codes: impl FnOnce(Code) -> i32,
    call: impl FnOnce(&'static Driver) -> Result<(), Fault>,
) -> i32 {
    let result = catch_unwind(AssertUnwindSafe(|| call(driver())));
    let fault = match result {
        Ok(Ok(())) => return 0,
        Ok(Err(fault)) => fault,
        Err(_) => Fault::new(Code::Unknown, "a panic within the stand-in"),
    };
    if !fault.text.is_empty() {
        report::publish(&fault);
    }
    codes(fault.code)
}
