//! The rotation on a CUDA device.

use super::{Pairs, Rope, Rotate};
use crate::cuda::Cuda;
use crate::cuda::launch::{Blocks, Flag, In, Narrow, Out, Wide};
use crate::device::{Format, Mut};

crate::cuda::launch::kernels! {
    fn rotate[X]<X, X>(
        x: Out<X>, frequencies: In<f32>, tokens: Wide, heads: Narrow, width: Narrow, offset: Narrow, pairs: Narrow,
        start: Narrow, sequence: Narrow, interleaves: Flag, back: Flag,
    );
}

impl Rotate for Cuda {
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
        assert!(rotary.is_multiple_of(2) && offset + rotary <= width, "{rotary} of {width} dimensions from {offset}");
        let row = heads * width;
        assert!(row > 0 && x.len().is_multiple_of(row), "x of a rotation: a slice and its shape");
        let (tokens, pairs) = (x.len() / row, rotary / 2);
        let (blocks, interleaves) = (Blocks::rows(tokens, heads * pairs), rope.pairs == Pairs::Interleaved);
        self.frequencies(&rope, rotary, |frequencies| {
            let (start, sequence) = (rope.start, rope.sequence);
            rotate(
                self,
                blocks,
                x,
                frequencies,
                tokens,
                heads,
                width,
                offset,
                pairs,
                start,
                sequence,
                interleaves,
                back,
            );
        });
    }
}
