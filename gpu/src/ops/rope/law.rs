//! Rotation of the heads of tokens by their positions.

use super::Rope;
use crate::device::{Format, Host, Meta, Mut};
use crate::shapes::{Axis, Lengths, Times};
use crate::{Memory, ViewMut};

operation! {
    /// Rotary positions.
    Rotate {
        /// Turns dimensions from `offset` on, `rotary` of them, of each of `heads` heads of some width, or back.
        fn rotate[X: Format](
            x: Mut<'_, Self, X>, heads: usize, width: usize, offset: usize, rotary: usize, rope: Rope, back: bool);
    }
}

impl Rotate for Host {
    fn rotate<X: Format>(
        &self,
        x: Mut<'_, Self, X>,
        heads: usize,
        width: usize,
        offset: usize,
        rotary: usize,
        rope: Rope,
        back: bool,
    ) {
        super::host::rotate(x.slice(), heads, width, offset, rotary, &rope, back);
    }
}

/// Which way to turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// By its position.
    Forward,
    /// Back, as gradients do.
    Back,
}

/// Turns the last `rotary` dimensions of every head.
pub fn rotate<D: Rotate, T, H: Axis, W: Axis, X: Format>(
    device: &D,
    x: ViewMut<'_, D, T, Times<H, W>, X>,
    rotary: usize,
    rope: Rope,
    turn: Turn,
    lengths: &Lengths,
) {
    let (heads, width) = (H::len(lengths), W::len(lengths));
    device.rotate(x.raw(), heads, width, width - rotary, rotary, rope, turn == Turn::Back);
}
