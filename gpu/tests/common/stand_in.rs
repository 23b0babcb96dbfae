//! What a test asks of a driver that is the stand-in.

// Calls through a library's symbols are what it is for.
#![allow(unsafe_code)]

use cudarc::driver::sys::culib;
use moe_model_gpu::smoke::skipped;

/// The stand-in, where it is the driver.
#[derive(Clone, Copy)]
pub(crate) struct StandIn(());

impl StandIn {
    /// Looks for it; the driver is there. Says so if it is another.
    pub(crate) fn find() -> Option<Self> {
        // SAFETY: the library is there; a function is looked for, and not called.
        let is_it = unsafe { culib().get::<unsafe extern "C" fn(i32) -> i32>(b"standin_clear").is_ok() };
        if !is_it {
            skipped("a real driver refuses nothing when asked to");
        }
        is_it.then_some(Self(()))
    }

    /// The n-th allocation from now on is refused; 0 for none.
    pub(crate) fn fail_allocation(self, n: u64) {
        self.fail("standin_fail_allocation", n);
    }

    /// The n-th copy, fill, launch or product from now on is refused; 0 for none.
    pub(crate) fn fail_work(self, n: u64) {
        self.fail("standin_fail_work", n);
    }

    #[allow(clippy::unused_self)] // it says that the functions are there
    fn fail(self, name: &str, n: u64) {
        // SAFETY: the stand-in has the function, of this signature.
        let code = unsafe { culib().get::<unsafe extern "C" fn(u64) -> i32>(name.as_bytes()).map(|call| call(n)) };
        assert_eq!(code.ok(), Some(0), "{name}");
    }

    /// Allocations of the first device that live, and their bytes.
    #[allow(clippy::unused_self)] // as above
    pub(crate) fn live(self) -> (u64, u64) {
        type Memory = unsafe extern "C" fn(i32, *mut [u64; 3]) -> i32;
        let mut counts = [0; 3];
        // SAFETY: as above; it writes three numbers.
        let code = unsafe { culib().get::<Memory>(b"standin_memory").map(|call| call(0, &raw mut counts)) };
        assert_eq!(code.ok(), Some(0), "standin_memory");
        (counts[0], counts[1])
    }
}
