//! Buffers: bytes of the pool.

#![allow(unsafe_code)]

use super::pool::Pool;
use super::{Cuda, Work};
use crate::device::{DeviceError, Element, Failure, Memory, Mut, OutOfMemory, Ref};
use core::marker::PhantomData;
use core::mem::size_of;
use cudarc::driver::{CudaSlice, DevicePtr, result};
use std::rc::Rc;

/// Memory of a CUDA device.
pub struct Buffer<E> {
    /// None of no elements, which the driver does not allocate.
    bytes: Option<CudaSlice<u8>>,
    address: u64,
    /// Dropped after the bytes.
    _pool: Rc<Pool>,
    elements: PhantomData<E>,
}

impl<E: Element> Ref<'_, Cuda, E> {
    /// Where its first element lies.
    pub(crate) fn address(self) -> u64 {
        self.buffer.address + (self.start * size_of::<E>()) as u64
    }

    fn bytes(self) -> usize {
        self.len * size_of::<E>()
    }
}

impl<E> Buffer<E> {
    /// Its first address, of a buffer that nothing else is done with.
    pub(super) fn whole(&self) -> (u64, usize) {
        (self.address, self.bytes.as_ref().map_or(0, CudaSlice::len))
    }
}

impl Memory for Cuda {
    type Buffer<E: Element> = Buffer<E>;

    const NAME: &'static str = "cuda";

    fn allocate<E: Element>(&self, len: usize) -> Result<Buffer<E>, DeviceError> {
        if let Some(failure) = self.0.failure.take() {
            return Err(failure.into());
        }
        let bytes = len.saturating_mul(size_of::<E>());
        let buffer = |bytes, address| Buffer { bytes, address, _pool: self.pool().clone(), elements: PhantomData };
        if bytes == 0 {
            return Ok(buffer(None, 0));
        }
        // SAFETY: nobody reads what nobody wrote: operations write whole tensors before others read them, which a device
        // that poisons fresh memory checks.
        match unsafe { self.stream().alloc::<u8>(bytes) } {
            Ok(slice) => {
                let address = slice.device_ptr(self.stream()).0;
                Ok(buffer(Some(slice), address))
            }
            Err(error) if error.0 == cudarc::driver::sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                Err(OutOfMemory { bytes: bytes as u64 }.into())
            }
            Err(error) => {
                let what = format!("an allocation of {bytes} bytes");
                Err(Failure { what, error: error.to_string() }.into())
            }
        }
    }

    fn finish(&self) -> Result<(), Failure> {
        let done = self.stream().synchronize();
        if let Some(failure) = self.0.failure.take() {
            return Err(failure);
        }
        done.map_err(|error| Failure { what: "the end of what was asked for".to_owned(), error: error.to_string() })
    }

    fn write<E: Element>(&self, to: Mut<'_, Self, E>, fill: impl FnOnce(&mut [E])) {
        let mut values = vec![E::default(); to.len()];
        fill(&mut values);
        let to = to.read();
        if to.is_empty() {
            return;
        }
        let copy = || {
            // SAFETY: as many elements are there, which a `Mut` borrows alone; the host's are kept until all are copied.
            unsafe { result::memcpy_htod_async(to.address(), &values, self.stream().cu_stream()) }
                .and_then(|()| self.stream().synchronize())
        };
        self.attempt(Work::ToDevice(to.bytes()), copy);
    }

    fn read<E: Element, T>(&self, from: Ref<'_, Self, E>, see: impl FnOnce(&[E]) -> T) -> Option<T> {
        let mut values = vec![E::default(); from.len()];
        let copy = || {
            if from.is_empty() {
                return Ok(());
            }
            // SAFETY: as many elements are there, and every pattern of bits is an element; the host's memory is kept until
            // all are copied.
            unsafe { result::memcpy_dtoh_async(&mut values, from.address(), self.stream().cu_stream()) }
                .and_then(|()| self.stream().synchronize())
        };
        self.attempt(Work::ToHost(from.bytes()), copy)?;
        Some(see(&values))
    }

    fn copy<E: Element>(&self, to: Mut<'_, Self, E>, from: Ref<'_, Self, E>) {
        let to = to.read();
        assert_eq!(to.len(), from.len(), "a copy: buffers of one length");
        if to.is_empty() {
            return;
        }
        let stream = self.stream().cu_stream();
        // SAFETY: both have as many bytes, and the one that is written is borrowed alone.
        let copy = || unsafe { result::memcpy_dtod_async(to.address(), from.address(), to.bytes(), stream) };
        self.attempt(Work::Copy(to.bytes()), copy);
    }

    fn zero<E: Element>(&self, to: Mut<'_, Self, E>) {
        let to = to.read();
        if to.is_empty() {
            return;
        }
        // SAFETY: as many bytes are there, borrowed alone.
        let fill = || unsafe { result::memset_d8_async(to.address(), 0, to.bytes(), self.stream().cu_stream()) };
        self.attempt(Work::Zeros(to.bytes()), fill);
    }
}
