//! Tensors: memory of a device under a name of the inventory, with its dimensions and its format in the type. All are
//! matrices, whose rows and columns may be several dimensions behind one another.

use crate::checkpoint::CheckpointError;
use crate::comm::CommError;
use crate::device::{DeviceError, Element, Failure, Memory, Mut, OutOfMemory, Ref};
use crate::ledger::{Ledger, LedgerError, Ticket};
use crate::shapes::{Axis, Lengths};
use core::fmt;
use core::marker::PhantomData;
use core::mem::size_of;

/// Why a tensor could not be had, or a step not run.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StepError {
    /// The ledger refuses: the budget does not have it.
    Ledger(LedgerError),
    /// The device has no room for it.
    OutOfMemory {
        /// The tensor.
        name: &'static str,
        /// What the device says.
        device: OutOfMemory,
    },
    /// The device failed at something that it was asked for.
    Device(Failure),
    /// A peer does not do its part.
    Comm(CommError),
    /// A checkpoint is not written, or not read.
    Checkpoint(Box<CheckpointError>),
    /// Something else, in words.
    Other(String),
}

impl From<CommError> for StepError {
    fn from(error: CommError) -> Self {
        Self::Comm(error)
    }
}

impl From<Failure> for StepError {
    fn from(failure: Failure) -> Self {
        Self::Device(failure)
    }
}

impl StepError {
    /// Why a device gives no memory for something.
    pub(crate) fn refused(name: &'static str, error: DeviceError) -> Self {
        match error {
            DeviceError::OutOfMemory(device) => Self::OutOfMemory { name, device },
            DeviceError::Failed(failure) => Self::Device(failure),
        }
    }
}

impl From<CheckpointError> for StepError {
    fn from(error: CheckpointError) -> Self {
        Self::Checkpoint(Box::new(error))
    }
}

impl From<LedgerError> for StepError {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(error)
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ledger(error) => error.fmt(f),
            Self::Device(failure) => failure.fmt(f),
            Self::Comm(error) => error.fmt(f),
            Self::Checkpoint(error) => error.fmt(f),
            Self::OutOfMemory { name, device } => write!(f, "`{name}`: {device}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl core::error::Error for StepError {}

/// A tensor of rows `R` and columns `C`.
pub struct Tensor<D: Memory, R, C, E: Element> {
    buffer: D::Buffer<E>,
    ticket: Ticket,
    rows: usize,
    width: usize,
    shape: PhantomData<(R, C)>,
}

/// A tensor, or some of its rows, to be read.
pub struct View<'a, D: Memory, R, C, E: Element> {
    raw: Ref<'a, D, E>,
    rows: usize,
    width: usize,
    shape: PhantomData<(R, C)>,
}

/// A tensor, or some of its rows, to be written.
pub struct ViewMut<'a, D: Memory, R, C, E: Element> {
    raw: Mut<'a, D, E>,
    rows: usize,
    width: usize,
    shape: PhantomData<(R, C)>,
}

impl<D: Memory, R, C, E: Element> Clone for View<'_, D, R, C, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Memory, R, C, E: Element> Copy for View<'_, D, R, C, E> {}

/// What tensors are allocated with.
pub struct Room<'a, D> {
    /// Where they lie.
    pub device: &'a D,
    /// What may be allocated.
    pub ledger: &'a Ledger,
    /// How long dimensions are.
    pub lengths: &'a Lengths,
}

impl<D> Clone for Room<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for Room<'_, D> {}

impl<D: Memory> Room<'_, D> {
    /// A tensor of an entry of the inventory.
    ///
    /// # Errors
    /// If the budget or the device does not have it.
    pub fn take<R: Axis, C: Axis, E: Element>(&self, name: &'static str) -> Result<Tensor<D, R, C, E>, StepError> {
        self.take_rows(name, R::len(self.lengths))
    }

    /// The same of some number of rows: of tokens that are routed.
    ///
    /// # Errors
    /// If the budget or the device does not have it.
    pub fn take_rows<R, C: Axis, E: Element>(
        &self,
        name: &'static str,
        rows: usize,
    ) -> Result<Tensor<D, R, C, E>, StepError> {
        let width = C::len(self.lengths);
        let bytes = (rows as u64).saturating_mul(width as u64).saturating_mul(size_of::<E>() as u64);
        let ticket = self.ledger.take(name, bytes)?;
        let buffer = self.device.allocate(rows * width).map_err(|error| StepError::refused(name, error))?;
        Ok(Tensor { buffer, ticket, rows, width, shape: PhantomData })
    }
}

impl<D: Memory, R, C, E: Element> Tensor<D, R, C, E> {
    /// To be read.
    #[must_use]
    pub fn view(&self) -> View<'_, D, R, C, E> {
        let raw = Ref { buffer: &self.buffer, start: 0, len: self.rows * self.width };
        View { raw, rows: self.rows, width: self.width, shape: PhantomData }
    }

    /// To be written.
    pub fn view_mut(&mut self) -> ViewMut<'_, D, R, C, E> {
        let raw = Mut { buffer: &mut self.buffer, start: 0, len: self.rows * self.width };
        ViewMut { raw, rows: self.rows, width: self.width, shape: PhantomData }
    }

    /// How many rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Its place in the ledger.
    #[must_use]
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// The tensor becomes one of another entry, as a block's output becomes the next one's input.
    ///
    /// # Errors
    /// If the budget does not have it.
    pub fn becomes(mut self, name: &'static str) -> Result<Self, StepError> {
        self.ticket.becomes(name)?;
        Ok(self)
    }

    /// The same tensor, its dimensions looked at in another way: as many rows and columns, or as many elements.
    ///
    /// # Panics
    /// If there are not as many.
    #[must_use]
    pub fn reshaped<R2: Axis, C2: Axis>(self, lengths: &Lengths) -> Tensor<D, R2, C2, E> {
        let (rows, width) = reshaped::<R2, C2>(self.rows * self.width, lengths);
        Tensor { buffer: self.buffer, ticket: self.ticket, rows, width, shape: PhantomData }
    }
}

fn reshaped<R: Axis, C: Axis>(elements: usize, lengths: &Lengths) -> (usize, usize) {
    let (rows, width) = (R::len(lengths), C::len(lengths));
    assert_eq!(rows * width, elements, "a tensor has as many elements however it is looked at");
    (rows, width)
}

impl<'a, D: Memory, R, C, E: Element> View<'a, D, R, C, E> {
    /// Part of a buffer as a tensor.
    pub(crate) fn of(raw: Ref<'a, D, E>, rows: usize, width: usize) -> Self {
        assert_eq!(raw.len(), rows * width, "rows x columns are all elements");
        Self { raw, rows, width, shape: PhantomData }
    }

    /// How many rows.
    #[must_use]
    pub fn rows(self) -> usize {
        self.rows
    }

    /// How many columns.
    #[must_use]
    pub fn width(self) -> usize {
        self.width
    }

    /// Its elements.
    #[must_use]
    pub fn raw(self) -> Ref<'a, D, E> {
        self.raw
    }

    /// Some of its rows.
    #[must_use]
    pub fn some(self, first: usize, rows: usize) -> Self {
        let raw = self.raw.part(first * self.width, rows * self.width);
        Self { raw, rows, ..self }
    }

    /// The same elements under other dimensions.
    ///
    /// # Panics
    /// If there are not as many.
    #[must_use]
    pub fn reshaped<R2: Axis, C2: Axis>(self, lengths: &Lengths) -> View<'a, D, R2, C2, E> {
        let (rows, width) = reshaped::<R2, C2>(self.rows * self.width, lengths);
        View { raw: self.raw, rows, width, shape: PhantomData }
    }

    /// Of rows that are several matrices below one another, one.
    #[must_use]
    pub fn each<R2: Axis>(self, number: usize, lengths: &Lengths) -> View<'a, D, R2, C, E> {
        let rows = R2::len(lengths);
        let View { raw, width, .. } = self.some(number * rows, rows);
        View { raw, rows, width, shape: PhantomData }
    }
}

impl<'a, D: Memory, R, C, E: Element> ViewMut<'a, D, R, C, E> {
    /// Part of a buffer as a tensor.
    pub(crate) fn of(raw: Mut<'a, D, E>, rows: usize, width: usize) -> Self {
        assert_eq!(raw.len(), rows * width, "rows x columns are all elements");
        Self { raw, rows, width, shape: PhantomData }
    }

    /// How many rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Its elements.
    #[must_use]
    pub fn raw(self) -> Mut<'a, D, E> {
        self.raw
    }

    /// The same, for a while.
    pub fn again(&mut self) -> ViewMut<'_, D, R, C, E> {
        ViewMut { raw: self.raw.again(), rows: self.rows, width: self.width, shape: PhantomData }
    }

    /// To be read from now on.
    #[must_use]
    pub fn into_view(self) -> View<'a, D, R, C, E> {
        View { raw: self.raw.into_read(), rows: self.rows, width: self.width, shape: PhantomData }
    }

    /// The same, to be read.
    #[must_use]
    pub fn view(&self) -> View<'_, D, R, C, E> {
        View { raw: self.raw.read(), rows: self.rows, width: self.width, shape: PhantomData }
    }

    /// Some of its rows.
    #[must_use]
    pub fn some(self, first: usize, rows: usize) -> Self {
        let raw = self.raw.part(first * self.width, rows * self.width);
        Self { raw, rows, ..self }
    }

    /// The same elements under other dimensions.
    ///
    /// # Panics
    /// If there are not as many.
    #[must_use]
    pub fn reshaped<R2: Axis, C2: Axis>(self, lengths: &Lengths) -> ViewMut<'a, D, R2, C2, E> {
        let (rows, width) = reshaped::<R2, C2>(self.rows * self.width, lengths);
        ViewMut { raw: self.raw, rows, width, shape: PhantomData }
    }

    /// Of rows that are several matrices below one another, one.
    #[must_use]
    pub fn each<R2: Axis>(self, number: usize, lengths: &Lengths) -> ViewMut<'a, D, R2, C, E> {
        let rows = R2::len(lengths);
        let ViewMut { raw, width, .. } = self.some(number * rows, rows);
        ViewMut { raw, rows, width, shape: PhantomData }
    }
}
