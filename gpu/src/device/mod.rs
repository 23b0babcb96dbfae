//! Devices: where tensors lie and operations run. The step is written once over [`Memory`] and the operations of
//! [`ops`]; `meta` records what is asked for at any scale, `host` computes.

mod host;
mod meta;

pub use host::Host;
pub use meta::Meta;

use crate::shapes::Lengths;
use crate::{Float, ops};
use core::fmt;

/// Numbers without gaps, of which every pattern of bits is one: devices copy them as bytes. No other crate adds to them.
mod plain {
    #[allow(unnameable_types)] // what it is for
    pub trait Plain {}
}

/// What elements of a buffer may be.
pub trait Element: plain::Plain + Copy + Default + Send + Sync + 'static {
    /// The name in reports.
    const NAME: &'static str;
    /// What fresh memory holds where a device marks it: nothing that an operation may read.
    const POISON: Self;

    /// The elements as files hold them: the lowest byte of each first.
    fn to_bytes(elements: &[Self]) -> Vec<u8>;

    /// Fills elements from what files hold of them, as many as there are.
    fn from_bytes(elements: &mut [Self], bytes: &[u8]);
}

macro_rules! elements {
    ($($ty:ty, $name:literal, $poison:expr;)*) => {$(
        impl plain::Plain for $ty {}

        impl Element for $ty {
            const NAME: &'static str = $name;
            const POISON: Self = $poison;

            fn to_bytes(elements: &[Self]) -> Vec<u8> {
                elements.iter().map(|element| element.to_le_bytes()).collect::<Vec<_>>().into_flattened()
            }

            fn from_bytes(elements: &mut [Self], bytes: &[u8]) {
                let stored = bytes.as_chunks().0.iter();
                elements.iter_mut().zip(stored).for_each(|(element, bytes)| *element = <$ty>::from_le_bytes(*bytes));
            }
        }
    )*};
}

elements! {
    f32, "fp32", f32::NAN;
    crate::Bf16, "bf16", crate::Bf16::NAN;
    i32, "int32", i32::MIN;
    i64, "int64", i64::MIN;
}

/// The formats that the step computes in.
pub trait Format: Float + Element {}

impl<E: Float + Element> Format for E {}

/// A device refuses an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    /// Bytes asked for.
    pub bytes: u64,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the device has no room for {} bytes", self.bytes)
    }
}

impl core::error::Error for OutOfMemory {}

/// What a device was asked for failed: a copy, a kernel or a product. What it made since is not to be trusted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What was asked for. A device that works behind the host's back may say at one what went wrong before it.
    pub what: String,
    /// What the device says.
    pub error: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the device failed at {}: {}", self.what, self.error)
    }
}

impl core::error::Error for Failure {}

/// Why a device gives no memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceError {
    /// It has no room.
    OutOfMemory(OutOfMemory),
    /// Something failed before.
    Failed(Failure),
}

impl From<OutOfMemory> for DeviceError {
    fn from(error: OutOfMemory) -> Self {
        Self::OutOfMemory(error)
    }
}

impl From<Failure> for DeviceError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory(error) => error.fmt(f),
            Self::Failed(failure) => failure.fmt(f),
        }
    }
}

impl core::error::Error for DeviceError {}

/// Memory of a device. A buffer is freed when it is dropped.
///
/// Copies and operations say nothing of their own failure: a device may only find out later. From the first on they do
/// nothing and reads show nothing, until the next allocation or [`finish`](Self::finish) gives it. Then it is forgotten, and
/// the device goes on, if it can.
pub trait Memory: Sized {
    /// So many elements of one format.
    type Buffer<E: Element>;

    /// The name in reports.
    const NAME: &'static str;

    /// Sets memory aside.
    ///
    /// # Errors
    /// If the device has no room, or failed.
    fn allocate<E: Element>(&self, len: usize) -> Result<Self::Buffer<E>, DeviceError>;

    /// Waits until all is done that was asked for.
    ///
    /// # Errors
    /// The first failure since one was given.
    fn finish(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Has values written from the host, if the device holds values: the closure is not called elsewhere.
    fn write<E: Element>(&self, to: Mut<'_, Self, E>, fill: impl FnOnce(&mut [E]));

    /// Shows values to the host, if the device holds any and did not fail.
    fn read<E: Element, T>(&self, from: Ref<'_, Self, E>, see: impl FnOnce(&[E]) -> T) -> Option<T>;

    /// Copies as many elements as both have.
    fn copy<E: Element>(&self, to: Mut<'_, Self, E>, from: Ref<'_, Self, E>);

    /// Sets all elements to what zero bytes are.
    fn zero<E: Element>(&self, to: Mut<'_, Self, E>);
}

/// What runs a step.
pub trait Device:
    Memory
    + ops::activation::Activate
    + ops::adamw::Optimize
    + ops::attention::Attend
    + ops::cross_entropy::CrossEntropy
    + ops::elementwise::Elementwise
    + ops::embedding::Embed
    + ops::gemm::Gemm
    + ops::permute::Permute
    + ops::rms_norm::RmsNorm
    + ops::rope::Rotate
    + ops::router::Route
{
    /// Sets aside what operations on tensors of these lengths work on beside them.
    ///
    /// # Errors
    /// If the device has no room, or its operations do not take such lengths.
    fn prepare(&self, lengths: &Lengths) -> Result<(), DeviceError>;
}

/// Part of a buffer, to be read.
pub struct Ref<'a, D: Memory, E: Element> {
    pub(crate) buffer: &'a D::Buffer<E>,
    pub(crate) start: usize,
    pub(crate) len: usize,
}

/// Part of a buffer, to be written.
pub struct Mut<'a, D: Memory, E: Element> {
    pub(crate) buffer: &'a mut D::Buffer<E>,
    pub(crate) start: usize,
    pub(crate) len: usize,
}

impl<D: Memory, E: Element> Clone for Ref<'_, D, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Memory, E: Element> Copy for Ref<'_, D, E> {}

impl<D: Memory, E: Element> Ref<'_, D, E> {
    /// How many elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// So many elements from one on.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn part(self, start: usize, len: usize) -> Self {
        assert!(start + len <= self.len, "{start} and {len} more of {} elements", self.len);
        Self { start: self.start + start, len, ..self }
    }
}

impl<'a, D: Memory, E: Element> Mut<'a, D, E> {
    /// To be read from now on.
    #[must_use]
    pub fn into_read(self) -> Ref<'a, D, E> {
        Ref { buffer: self.buffer, start: self.start, len: self.len }
    }

    /// How many elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// So many elements from one on.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn part(self, start: usize, len: usize) -> Self {
        assert!(start + len <= self.len, "{start} and {len} more of {} elements", self.len);
        Self { start: self.start + start, len, ..self }
    }

    /// The same, for a while.
    pub fn again(&mut self) -> Mut<'_, D, E> {
        Mut { buffer: self.buffer, start: self.start, len: self.len }
    }

    /// The same, to be read.
    #[must_use]
    pub fn read(&self) -> Ref<'_, D, E> {
        Ref { buffer: self.buffer, start: self.start, len: self.len }
    }
}
