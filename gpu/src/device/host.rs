//! The CPU: f32 and bf16, sums in f32.

use super::{Device, DeviceError, Element, Memory, Mut, OutOfMemory, Ref};
use crate::ops::attention;
use crate::ops::gemm::host::Gemm;
use crate::shapes::Lengths;
use core::cell::RefCell;
use core::mem::size_of;
use moe_model_core::Bytes;

/// The CPU. What its operations work on beside tensors is set aside before a step, so that a step allocates tensors alone.
///
/// Twice. Their scratch is this device's ([`Self::scratch`]). And on x86 with AVX2 each thread that multiplies matrices has
/// memory into which faer packs them, twice as large as the third cache, from [`Device::prepare`] on until the thread ends.
/// No ledger counts it: it is there before a step and after it, shared by all devices of a thread, and what a product does
/// not pack into stays without pages. A thread that did not prepare takes it at its first product. On other CPUs faer takes a
/// small buffer for each product instead.
#[derive(Debug)]
pub struct Host {
    pub(crate) gemm: Gemm,
    pub(crate) scratch: RefCell<Vec<f32>>,
    poison: bool,
}

impl Host {
    /// With so many threads.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        assert!(threads > 0, "somebody has to compute");
        let gemm = Gemm { threads };
        Self { gemm, scratch: RefCell::new(Vec::new()), poison: false }
    }

    /// What its operations work on beside tensors, without what faer keeps for each thread.
    #[must_use]
    pub fn scratch(&self) -> Bytes {
        Bytes::new((self.scratch.borrow().len() * size_of::<f32>()) as u64)
    }

    /// Marks fresh memory with values that spread where they are read (NaN), so that an operation that reads what nobody wrote
    /// is found.
    #[must_use]
    pub fn poisoned(self) -> Self {
        Self { poison: true, ..self }
    }
}

impl Memory for Host {
    type Buffer<E: Element> = Box<[E]>;

    const NAME: &'static str = "host";

    fn allocate<E: Element>(&self, len: usize) -> Result<Box<[E]>, DeviceError> {
        let fresh = if self.poison { E::POISON } else { E::default() };
        Ok(all_of(fresh, len)?.into_boxed_slice())
    }

    fn write<E: Element>(&self, to: Mut<'_, Self, E>, fill: impl FnOnce(&mut [E])) {
        fill(to.slice());
    }

    fn read<E: Element, T>(&self, from: Ref<'_, Self, E>, see: impl FnOnce(&[E]) -> T) -> Option<T> {
        Some(see(from.slice()))
    }

    fn copy<E: Element>(&self, to: Mut<'_, Self, E>, from: Ref<'_, Self, E>) {
        to.slice().copy_from_slice(from.slice());
    }

    fn zero<E: Element>(&self, to: Mut<'_, Self, E>) {
        to.slice().fill(E::default());
    }
}

impl Device for Host {
    fn prepare(&self, lengths: &Lengths) -> Result<(), DeviceError> {
        let shape = attention::Shape {
            batch: lengths.batch,
            sequence: lengths.keys,
            heads: lengths.dealt(lengths.heads),
            kv_heads: lengths.dealt(lengths.kv_heads),
            width: lengths.query_key,
            value: lengths.value,
            ahead: 0,
            window: 0,
            scale: 1.0,
        };
        let threads = self.gemm.threads;
        let needs = [
            self.gemm.scratch_len(),
            attention::host::forward_scratch_len(&shape, threads),
            attention::host::backward_scratch_len(&shape, threads),
            attention::host::eager_scratch_len(&shape, threads),
        ];
        let most = needs.into_iter().max().unwrap_or(0);
        let mut scratch = self.scratch.borrow_mut();
        if scratch.len() < most {
            *scratch = all_of(0.0, most)?;
        }
        self.gemm.warm();
        Ok(())
    }
}

/// So many elements, if there is room.
fn all_of<E: Element>(value: E, len: usize) -> Result<Vec<E>, OutOfMemory> {
    let refused = OutOfMemory { bytes: (len as u64).saturating_mul(size_of::<E>() as u64) };
    let mut elements = Vec::new();
    elements.try_reserve_exact(len).map_err(|_| refused)?;
    elements.resize(len, value);
    Ok(elements)
}

impl<'a, E: Element> Ref<'a, Host, E> {
    pub(crate) fn slice(self) -> &'a [E] {
        &self.buffer[self.start..self.start + self.len]
    }
}

impl<'a, E: Element> Mut<'a, Host, E> {
    pub(crate) fn slice(self) -> &'a mut [E] {
        &mut self.buffer[self.start..self.start + self.len]
    }
}
