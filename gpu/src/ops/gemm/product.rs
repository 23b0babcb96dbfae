//! The product of two matrices of any format and strides, put into one of f32 or added to it. It is faer's.
//!
//! On x86 with AVX2 or AVX-512 faer packs into memory that it keeps for each thread, as large as twice the third cache; the
//! system backs the pages that were written to. A thread takes it at its first product ([`warm`]). Elsewhere faer takes a
//! buffer for each product, and gives it back.

use crate::Float;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use pulp::Arch;

/// A matrix in a slice, by rows or, transposed, by columns.
#[derive(Clone, Copy)]
pub(crate) struct View<'a, T> {
    /// The memory, from element (0, 0) on.
    data: &'a [T],
    /// From a line (a row, or a column where it is transposed) to the next.
    stride: usize,
    transposed: bool,
}

impl<'a, T> View<'a, T> {
    /// A row-major matrix whose rows begin `stride` apart.
    pub(crate) fn rows(data: &'a [T], stride: usize) -> Self {
        Self { data, stride, transposed: false }
    }

    /// The transpose.
    pub(crate) fn transposed(self) -> Self {
        Self { transposed: !self.transposed, ..self }
    }

    /// The matrix without its first rows and columns.
    pub(crate) fn from(self, row: usize, column: usize) -> Self {
        let (line, element) = if self.transposed { (column, row) } else { (row, column) };
        Self { data: self.data.get(line * self.stride + element..).unwrap_or_default(), ..self }
    }
}

impl<'a, T: Float> View<'a, T> {
    /// Whether it is f32 as it is.
    pub(crate) fn is_f32(self) -> bool {
        T::slice_as_f32(self.data).is_some()
    }

    /// As a matrix of f32, in the same memory or widened into scratch, and what is left of that.
    fn widened(self, rows: usize, columns: usize, scratch: &'a mut [f32]) -> (MatRef<'a, f32>, &'a mut [f32]) {
        let (lines, width) = if self.transposed { (columns, rows) } else { (rows, columns) };
        let (matrix, scratch) = if let Some(data) = T::slice_as_f32(self.data) {
            (MatRef::from_row_major_slice_with_stride(data, lines, width, self.stride), scratch)
        } else {
            let (wide, scratch) = scratch.split_at_mut(lines * width);
            Arch::new().dispatch(|| {
                for (wide, line) in wide.chunks_exact_mut(width).zip(self.data.chunks(self.stride)) {
                    for (wide, x) in wide.iter_mut().zip(line) {
                        *wide = x.to_f32();
                    }
                }
            });
            (MatRef::from_row_major_slice(&*wide, lines, width), scratch)
        };
        (if self.transposed { matrix.transpose() } else { matrix }, scratch)
    }
}

/// c = a b, or += if it accumulates, with a `[m, k]`, b `[k, n]`, and c `[m, n]` whose rows begin `stride` apart, none of
/// them empty. Scratch holds those of a and b that are not of f32.
pub(crate) fn multiply<A: Float, B: Float>(
    c: &mut [f32],
    stride: usize,
    a: View<A>,
    b: View<B>,
    (m, n, k): (usize, usize, usize),
    accumulate: bool,
    scratch: &mut [f32],
) {
    let (a, scratch) = a.widened(m, k, scratch);
    let (b, _) = b.widened(k, n, scratch);
    // By columns and turned: faer 0.24.4's `from_row_major_slice_with_stride_mut` takes rows for columns, and writes past
    // the end.
    let c = MatMut::from_column_major_slice_with_stride_mut(c, n, m, stride).transpose_mut();
    matmul(c, if accumulate { Accum::Add } else { Accum::Replace }, a, b, 1.0, Par::Seq);
}

/// Has this thread take what faer keeps for it.
pub(crate) fn warm() {
    // Large enough to be packed.
    const SIDE: usize = 32;
    let ones = [1.0_f32; SIDE * SIDE];
    let mut c = ones;
    let square = View::rows(&ones, SIDE);
    multiply(&mut c, SIDE, square, square, (SIDE, SIDE, SIDE), false, &mut []);
}
