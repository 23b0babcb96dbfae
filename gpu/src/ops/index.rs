//! Integers of tensors as positions in slices, and back.

/// The position that an element of an index tensor means.
pub(crate) fn position<I: TryInto<usize> + Copy + core::fmt::Display>(i: I) -> usize {
    i.try_into().unwrap_or_else(|_| panic!("{i} is no position"))
}

/// The position that an element means, or none where it is negative.
pub(crate) fn optional<I: TryInto<usize>>(i: I) -> Option<usize> {
    i.try_into().ok()
}

/// A position as an element of an index tensor.
pub(crate) fn element(position: usize) -> i32 {
    i32::try_from(position).expect("an index tensor holds positions below 2^31")
}
