//! Sums down the columns of a matrix, in f32, a block of columns at a time: the sums stay in registers and cache, and
//! are rounded to the format of the result once.

use crate::Float;
use core::ops::Range;

/// Columns whose sums are made together.
const BLOCK: usize = 128;

/// Adds to `sums` `[width]` what `add(row, columns, block)` adds to its block of f32 sums, over all rows.
pub(crate) fn accumulate<G: Float>(sums: &mut [G], rows: usize, mut add: impl FnMut(usize, Range<usize>, &mut [f32])) {
    let mut block = [0.0_f32; BLOCK];
    for (i, sums) in sums.chunks_mut(BLOCK).enumerate() {
        let columns = i * BLOCK..i * BLOCK + sums.len();
        let block = &mut block[..sums.len()];
        for (wide, sum) in block.iter_mut().zip(sums.iter()) {
            *wide = sum.to_f32();
        }
        for row in 0..rows {
            add(row, columns.clone(), block);
        }
        for (sum, wide) in sums.iter_mut().zip(block.iter()) {
            *sum = G::of_f32(*wide);
        }
    }
}
