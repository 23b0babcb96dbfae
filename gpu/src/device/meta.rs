//! The device that holds no values: a step on it asks for every allocation and computes nothing, whatever its scale.

use super::{Device, DeviceError, Element, Memory, Mut, Ref};
use crate::shapes::Lengths;
use core::marker::PhantomData;

/// Allocations alone.
#[derive(Clone, Copy, Default, Debug)]
pub struct Meta;

/// A buffer without values.
#[derive(Debug)]
pub struct Nothing<E>(PhantomData<E>);

impl Memory for Meta {
    type Buffer<E: Element> = Nothing<E>;

    const NAME: &'static str = "meta";

    fn allocate<E: Element>(&self, _: usize) -> Result<Nothing<E>, DeviceError> {
        Ok(Nothing(PhantomData))
    }

    fn write<E: Element>(&self, _: Mut<'_, Self, E>, _: impl FnOnce(&mut [E])) {}

    fn read<E: Element, T>(&self, _: Ref<'_, Self, E>, _: impl FnOnce(&[E]) -> T) -> Option<T> {
        None
    }

    fn copy<E: Element>(&self, _: Mut<'_, Self, E>, _: Ref<'_, Self, E>) {}

    fn zero<E: Element>(&self, _: Mut<'_, Self, E>) {}
}

impl Device for Meta {
    fn prepare(&self, _: &Lengths) -> Result<(), DeviceError> {
        Ok(())
    }
}
