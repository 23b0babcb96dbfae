//! What a device is asked for, by name: in failures, and with the time that each takes where that is measured.

use super::Cuda;
use crate::device::Failure;
use core::fmt;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Something that a device is asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Work {
    /// A kernel.
    Kernel(&'static str),
    /// A product of cuBLAS of m x n, each number a sum of k products.
    Product([usize; 3]),
    /// Products of so many groups at once, m x n x k in all: each has a part of m, or where they are gradients of weights, of
    /// k.
    Products {
        /// Groups that have rows.
        groups: usize,
        /// m, n and k.
        sizes: [usize; 3],
        /// Whether groups have parts of k.
        is_weight: bool,
    },
    /// A copy of so many bytes from the host.
    ToDevice(usize),
    /// A copy of so many bytes to the host.
    ToHost(usize),
    /// A copy of so many bytes on the device.
    Copy(usize),
    /// So many bytes of zeros.
    Zeros(usize),
    /// The kernels of a pair of formats that is rarely met, compiled when the first of them is launched.
    Compile(&'static str),
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(name) => write!(f, "the launch of `{name}`"),
            Self::Product([m, n, k]) => write!(f, "a product of {m} x {n} x {k}"),
            Self::Products { groups, sizes: [m, n, k], is_weight } => {
                let what = if *is_weight { "weight gradients" } else { "products" };
                write!(f, "{what} of {groups} groups, {m} x {n} x {k} in all")
            }
            Self::ToDevice(bytes) => write!(f, "a copy of {bytes} bytes to it"),
            Self::ToHost(bytes) => write!(f, "a copy of {bytes} bytes from it"),
            Self::Copy(bytes) => write!(f, "a copy of {bytes} bytes on it"),
            Self::Zeros(bytes) => write!(f, "{bytes} bytes of zeros"),
            Self::Compile(name) => write!(f, "the kernels of `{name}`"),
        }
    }
}

/// How often something was asked for, and how long all of it took.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Times {
    /// How often.
    pub count: u64,
    /// From when the device was idle to when it was again.
    pub spent: Duration,
}

impl Cuda {
    /// Measures the time of each piece of work from now on, one after the other: the device waits before and behind each.
    pub fn time_work(&self) {
        *self.0.times.borrow_mut() = Some(BTreeMap::new());
    }

    /// What was measured, which then ends.
    #[must_use]
    pub fn times(&self) -> BTreeMap<Work, Times> {
        self.0.times.take().unwrap_or_default()
    }

    /// Does something, unless something failed before; notes if it fails.
    pub(super) fn attempt<T, E: fmt::Display>(&self, what: Work, call: impl FnOnce() -> Result<T, E>) -> Option<T> {
        if self.0.failure.borrow().is_some() {
            return None;
        }
        match self.timed(what, call) {
            Ok(value) => Some(value),
            Err(error) => {
                *self.0.failure.borrow_mut() = Some(Failure { what: what.to_string(), error: error.to_string() });
                None
            }
        }
    }

    fn timed<T>(&self, what: Work, call: impl FnOnce() -> T) -> T {
        if self.0.times.borrow().is_none() {
            return call();
        }
        // What fails here fails again at what is asked for next, and is noted there.
        let wait = || {
            let _ = self.stream().synchronize();
        };
        wait();
        let begun = Instant::now();
        let result = call();
        wait();
        if let Some(times) = &mut *self.0.times.borrow_mut() {
            let times = times.entry(what).or_default();
            times.count += 1;
            times.spent += begun.elapsed();
        }
        result
    }
}
