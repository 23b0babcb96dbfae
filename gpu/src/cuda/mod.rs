//! The CUDA device, on cudarc: found when asked for, and a clear error where it is not.
//!
//! One stream runs everything in order. Memory comes from a pool of the device's own; what operations need beside their
//! tensors is set aside by [`Device::prepare`], in [`Cuda::scratch_bytes`].

mod blas;
pub mod compile;
mod error;
pub mod launch;
mod memory;
mod pool;
mod work;

pub(crate) use blas::{Matrix, Product};
pub use error::{Library, NoDevice};
pub use memory::Buffer;
pub use work::{Times, Work};

use crate::Bf16;
use crate::device::{Device, DeviceError, Failure, Memory, Mut, Ref};
use crate::ops::attention;
use crate::ops::rope::Rope;
use crate::shapes::Lengths;
use blas::Blas;
use compile::Kind;
use core::cell::{Cell, OnceCell, RefCell};
use core::fmt;
use core::mem::size_of;
use cudarc::driver::{CudaContext, CudaStream};
use error::refused;
use launch::Loaded;
use pool::Pool;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// A CUDA device. Clones are the same one. Of one GPU one is used at a time: its pool is the GPU's current one.
#[derive(Clone)]
pub struct Cuda(Rc<Inner>);

struct Inner {
    scratch: RefCell<Scratch>,
    /// The first thing that failed, until it is given.
    failure: RefCell<Option<Failure>>,
    /// Times of work, where they are measured.
    times: RefCell<Option<BTreeMap<Work, Times>>>,
    fixed: Fixed,
    is_prepared: Cell<bool>,
    kernels: [[OnceCell<Loaded>; 2]; 2],
    architecture: &'static str,
    workspace: usize,
    blas: Blas,
    stream: Arc<CudaStream>,
    pool: Rc<Pool>,
}

/// What operations work on beside tensors.
#[derive(Default)]
struct Scratch {
    /// cuBLAS's.
    workspace: Option<Buffer<i32>>,
    /// A gradient in f32 as its product with another format takes it: that of router logits, the sum of two.
    halves: Option<[Space<Bf16>; 2]>,
    /// Where matrices of experts that are multiplied at once lie: three addresses for each.
    pointers: Option<Space<i64>>,
    /// Rotary frequencies, with the base and the dimensions that they are of.
    frequencies: Option<Space<f32>>,
    made_of: Option<(u32, usize)>,
}

/// Bytes of a device's memory, as the driver shows them, that no pool holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fixed {
    /// What was free once there was a context: the rest of the device is the context's, and that of other processes.
    pub free: u64,
    /// What a handle of cuBLAS took of it.
    pub blas: u64,
}

/// A buffer, and its elements.
struct Space<E>(Buffer<E>, usize);

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cuda({}, {})", self.0.stream.context().ordinal(), self.0.architecture)
    }
}

impl Cuda {
    /// Opens a device, from 0, whose memory is at most so many bytes: those of the ledger, each allocation rounded up as the
    /// driver does, and [`Self::scratch_bytes`].
    ///
    /// # Errors
    /// If there is no driver or another library is missing; if the driver refuses, or there are fewer devices.
    pub fn open(ordinal: usize, budget: Option<u64>) -> Result<Self, NoDevice> {
        let context = context(ordinal)?;
        // SAFETY: everything runs on one stream, in order, so that no event has to say what is done. Nothing is allocated yet.
        #[allow(unsafe_code)]
        unsafe {
            context.disable_event_tracking();
        }
        let (major, _) = context.compute_capability().map_err(refused)?;
        let is_hopper = major >= 9;
        let stream = context.default_stream();
        let free = || context.mem_get_info().map(|(free, _)| free as u64).map_err(refused);
        let idle = free()?;
        let blas = Blas::new(&stream)?;
        let fixed = Fixed { free: idle, blas: idle.saturating_sub(free()?) };
        let device = Self(Rc::new(Inner {
            scratch: RefCell::default(),
            failure: RefCell::default(),
            times: RefCell::default(),
            fixed,
            is_prepared: Cell::new(false),
            kernels: Default::default(),
            architecture: if is_hopper { "compute_90" } else { "compute_80" },
            // What the library's manual advises.
            workspace: if is_hopper { 32 << 20 } else { 4 << 20 },
            blas,
            stream,
            pool: Rc::new(Pool::current(&context, budget)?),
        }));
        // Both pairs that steps compute in: what does not compile is an error here.
        for kind in [Kind::F32, Kind::Bf16] {
            device.load(kind, kind)?;
        }
        Ok(device)
    }

    /// Bytes of what [`Device::prepare`] sets aside for a model: a workspace of cuBLAS, 32 MiB on Hopper and later and 4 MiB
    /// before; the gradient of router logits in two parts of bf16, tokens x experts x 4; pointers to the
    /// matrices of a product of the rank's experts, experts x 24; rotary frequencies, half of a head's width x 4.
    #[must_use]
    pub fn scratch_bytes(&self, lengths: &Lengths) -> u64 {
        let [workspace, narrow, pointers, frequencies] = self.scratch_lens(lengths);
        let wide = workspace * size_of::<i32>() + pointers * size_of::<i64>() + frequencies * size_of::<f32>();
        (wide + 2 * narrow * size_of::<Bf16>()) as u64
    }

    fn scratch_lens(&self, lengths: &Lengths) -> [usize; 4] {
        let narrow = lengths.context.max(lengths.tokens) * lengths.experts.max(1);
        let frequencies = lengths.query_key.max(lengths.rope).div_ceil(2);
        [self.0.workspace / size_of::<i32>(), narrow, 3 * lengths.local_experts, frequencies]
    }

    /// The most bytes of the pool that were held since [`Self::reset_high_water`].
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn high_water(&self) -> Result<u64, NoDevice> {
        self.0.pool.high().map_err(refused)
    }

    /// The most is counted from now on: at the start of a phase.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn reset_high_water(&self) -> Result<(), NoDevice> {
        self.0.pool.reset_high().map_err(refused)
    }

    /// Bytes of the pool that are held.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn used(&self) -> Result<u64, NoDevice> {
        self.0.pool.used().map_err(refused)
    }

    /// The most bytes that the pool took from the device, since [`Self::reset_high_water`]: it takes more at once than is asked
    /// for.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn reserved_high_water(&self) -> Result<u64, NoDevice> {
        self.0.pool.reserved_high().map_err(refused)
    }

    /// What it took of the device's memory to open it.
    #[must_use]
    pub fn fixed(&self) -> Fixed {
        self.0.fixed
    }

    /// The name that the driver has for it.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn name(&self) -> Result<String, NoDevice> {
        self.0.stream.context().name().map_err(refused)
    }

    /// Bytes of the whole device that are free, and all that it has: what the context, modules and libraries hold is missing
    /// from the first.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn free_and_total(&self) -> Result<(u64, u64), NoDevice> {
        let (free, total) = self.0.stream.context().mem_get_info().map_err(refused)?;
        Ok((free as u64, total as u64))
    }

    /// Waits until all is done that was asked for.
    ///
    /// # Errors
    /// If something of it failed.
    pub fn synchronize(&self) -> Result<(), NoDevice> {
        self.0.stream.synchronize().map_err(refused)
    }

    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        self.0.stream.context()
    }

    fn stream(&self) -> &Arc<CudaStream> {
        &self.0.stream
    }

    fn pool(&self) -> &Rc<Pool> {
        &self.0.pool
    }

    /// The kernels of a pair of formats. Those of unlike ones, which the bias of a router has, are compiled when first
    /// launched.
    fn load(&self, activations: Kind, weights: Kind) -> Result<&Loaded, NoDevice> {
        let cell = &self.0.kernels[activations as usize][weights as usize];
        if let Some(loaded) = cell.get() {
            return Ok(loaded);
        }
        let ptx = compile::ptx(self.0.architecture, activations, weights)?;
        let loaded = Loaded::new(self.0.stream.context(), ptx)?;
        Ok(cell.get_or_init(|| loaded))
    }

    /// Multiplies matrices.
    pub(crate) fn multiply(&self, product: &Product) {
        assert!(self.0.is_prepared.get(), "a device is prepared before it multiplies");
        self.attempt(Work::Product(product.sizes), || self.0.blas.multiply(product));
    }

    /// Multiplies matrices of groups, none of them empty, at once where cuBLAS can; of gradients of weights groups have parts
    /// of k.
    pub(crate) fn multiply_groups(&self, products: &[Product], is_weight: bool) {
        let Some(first) = products.first() else { return };
        let scratch = self.0.scratch.borrow();
        let Some(Space(pointers, _)) = &scratch.pointers else { panic!("a device is prepared before it multiplies") };
        let mut sizes = first.sizes;
        let shared = if is_weight { 2 } else { 0 };
        sizes[shared] = products.iter().map(|product| product.sizes[shared]).sum();
        let (at, bytes) = pointers.whole();
        let room = (at, bytes / size_of::<i64>());
        let what = Work::Products { groups: products.len(), sizes, is_weight };
        self.attempt(what, || self.0.blas.multiply_all(products, room));
    }

    /// Lends scratch for so many numbers in bf16, twice.
    pub(crate) fn with_halves(&self, len: usize, then: impl FnOnce(Mut<'_, Self, Bf16>, Mut<'_, Self, Bf16>)) {
        let mut scratch = self.0.scratch.borrow_mut();
        let Some([Space(upper, room), Space(lower, _)]) = &mut scratch.halves else {
            panic!("a device is prepared before it multiplies")
        };
        assert!(len <= *room, "{len} numbers to be multiplied in another format, and room for {room}");
        then(Mut { buffer: upper, start: 0, len }, Mut { buffer: lower, start: 0, len });
    }

    /// Shows the frequencies of a rotation, which lie in scratch: made when another was the last.
    pub(crate) fn frequencies(&self, rope: &Rope, rotary: usize, then: impl FnOnce(Ref<'_, Self, f32>)) {
        let mut scratch = self.0.scratch.borrow_mut();
        let Scratch { frequencies, made_of, .. } = &mut *scratch;
        let Some(Space(buffer, len)) = frequencies else { panic!("a device is prepared before it rotates") };
        let pairs = rotary / 2;
        assert!(pairs <= *len, "{pairs} frequencies, and room for {len}");
        let wanted = (rope.theta.to_bits(), rotary);
        if *made_of != Some(wanted) {
            let fill = |out: &mut [f32]| {
                out.iter_mut().zip(0..).for_each(|(out, pair)| *out = rope.frequency(pair, rotary));
            };
            self.write(Mut { buffer, start: 0, len: pairs }, fill);
            *made_of = self.0.failure.borrow().is_none().then_some(wanted);
        }
        then(Ref { buffer, start: 0, len: pairs });
    }
}

impl Device for Cuda {
    /// Sets scratch aside, more of it where there is too little.
    fn prepare(&self, lengths: &Lengths) -> Result<(), DeviceError> {
        attention::cuda::fits(lengths)?;
        let [workspace, narrow, pointers, frequencies] = self.scratch_lens(lengths);
        let mut scratch = self.0.scratch.borrow_mut();
        if scratch.workspace.is_none() {
            let buffer = self.allocate(workspace)?;
            let worked = self.0.blas.work_on(buffer.whole());
            worked.map_err(|error| Failure { what: "the workspace of cuBLAS".to_owned(), error })?;
            scratch.workspace = Some(buffer);
            self.0.is_prepared.set(true);
        }
        if scratch.halves.as_ref().is_none_or(|[Space(_, room), _]| *room < narrow) {
            scratch.halves = None;
            let [upper, lower] = [self.allocate(narrow)?, self.allocate(narrow)?];
            scratch.halves = Some([Space(upper, narrow), Space(lower, narrow)]);
        }
        if scratch.pointers.as_ref().is_none_or(|made| made.1 < pointers) {
            scratch.pointers = None;
            scratch.pointers = Some(Space(self.allocate(pointers)?, pointers));
        }
        if scratch.frequencies.as_ref().is_none_or(|made| made.1 < frequencies) {
            (scratch.frequencies, scratch.made_of) = (None, None);
            scratch.frequencies = Some(Space(self.allocate(frequencies)?, frequencies));
        }
        Ok(())
    }
}

/// Opens a device's context.
fn context(ordinal: usize) -> Result<Arc<CudaContext>, NoDevice> {
    // SAFETY: the call only tries to load a library by name, and cudarc loads the same one later. Asked first, since
    // cudarc panics where the library is missing.
    #[allow(unsafe_code)]
    let is_present = unsafe { cudarc::driver::sys::is_culib_present() };
    if !is_present {
        return Err(NoDevice::NoDriver);
    }
    let count = CudaContext::device_count().map_err(refused)?;
    let count = usize::try_from(count).unwrap_or(0);
    if ordinal >= count {
        return Err(NoDevice::Absent { ordinal, count });
    }
    CudaContext::new(ordinal).map_err(refused)
}

#[cfg(test)]
mod tests;
