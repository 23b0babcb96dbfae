//! Matrix products by cuBLAS, with sums in f32.

#![allow(unsafe_code)]

use super::compile::Kind;
use super::error::{Library, NoDevice};
use core::ffi::c_int;
use cudarc::cublas::result::CublasError;
use cudarc::cublas::{CudaBlas, result, sys};
use cudarc::driver::{CudaStream, result as driver};
use std::sync::Arc;

/// A handle of cuBLAS.
pub(super) struct Blas {
    handle: CudaBlas,
    stream: Arc<CudaStream>,
    /// Whether the library has products of groups, as it has since 12.5.
    has_groups: bool,
}

/// One of two matrices that are multiplied, row-major: where it lies, how long its rows are, and whether it is read by
/// columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    pub(crate) address: u64,
    pub(crate) width: usize,
    pub(crate) is_transposed: bool,
}

/// A product c [m, n] = a [m, k] b [k, n].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) a: Matrix,
    pub(crate) b: Matrix,
    /// That of both.
    pub(crate) inputs: Kind,
    pub(crate) c: u64,
    pub(crate) output: Kind,
    pub(crate) sizes: [usize; 3],
    pub(crate) adds: bool,
}

impl Blas {
    pub(super) fn new(stream: &Arc<CudaStream>) -> Result<Self, NoDevice> {
        // SAFETY: the call only tries to load a library by name, and cudarc loads the same one later. Asked first, since
        // cudarc panics where the library is missing.
        if !unsafe { sys::is_culib_present() } {
            return Err(NoDevice::NoLibrary(Library::Cublas));
        }
        // SAFETY: the function is looked for, and not called: cudarc panics where one is missing.
        let has_groups = unsafe { sys::culib().get::<unsafe extern "C" fn()>(b"cublasGemmGroupedBatchedEx") }.is_ok();
        let handle = CudaBlas::new(stream.clone()).map_err(|error| NoDevice::Blas(format!("{error:?}")))?;
        Ok(Self { handle, stream: stream.clone(), has_groups })
    }

    /// Has products work on this memory, and on none of the library's own.
    pub(super) fn work_on(&self, (address, bytes): (u64, usize)) -> Result<(), String> {
        // SAFETY: the memory is there as long as the handle: the device keeps both, and gives new memory before it frees the
        // old.
        unsafe { sys::cublasSetWorkspace_v2(*self.handle.handle(), address as *mut _, bytes) }
            .result()
            .map_err(|error| format!("{error:?}"))
    }

    /// Multiplies. cuBLAS counts by columns, in which c is its transpose, bᵀ aᵀ.
    pub(super) fn multiply(&self, product: &Product) -> Result<(), String> {
        let Product { a, b, inputs, c, output, sizes, adds } = *product;
        let [m, n, k] = sizes.map(int);
        assert!(output == inputs || output == Kind::F32, "cuBLAS makes no bf16 of f32");
        let (one, beta) = (1.0_f32, factor(adds));
        // SAFETY: operations assert that tensors are as long as their sizes say; they are borrowed until the call returns,
        // and freed in the order of the same stream. Both factors are on the host, as the handle expects them.
        unsafe {
            result::gemm_ex(
                *self.handle.handle(),
                way(b),
                way(a),
                n,
                m,
                k,
                (&raw const one).cast(),
                b.address as *const _,
                format(inputs),
                int(b.width),
                a.address as *const _,
                format(inputs),
                int(a.width),
                (&raw const beta).cast(),
                c as *mut _,
                format(output),
                n,
                COMPUTE,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        }
        .map_err(said)
    }

    /// Multiplies several, none of them empty and no two into the same memory, in one call where the library has one: pointers
    /// to their matrices lie on the device then, where there is memory for so many addresses.
    ///
    /// The library groups products of f32, and of bf16 that are rounded to bf16. For gradients of weights in f32 of what is
    /// bf16 it has no grouped routine ([`are_grouped`]): these are made one by one. Each of them is as large as a matrix of
    /// weights, however few rows it is summed over, so that it fills a device without others beside it; a kernel of our own
    /// would need tensor cores to keep up with that.
    pub(super) fn multiply_all(&self, products: &[Product], pointers: (u64, usize)) -> Result<(), String> {
        if products.len() < 2 || !self.has_groups || !are_grouped(products) {
            return products.iter().try_for_each(|product| self.multiply(product));
        }
        let (at, room) = pointers;
        assert!(3 * products.len() <= room, "{} products at once, and room for {}", products.len(), room / 3);
        let addresses = [
            |product: &Product| product.b.address,
            |product: &Product| product.a.address,
            |product: &Product| product.c,
        ];
        let addresses: Vec<u64> = addresses.iter().flat_map(|of| products.iter().map(of)).collect();
        // SAFETY: there is room for them. The host's memory is pageable: all of it is read before the call returns.
        unsafe { driver::memcpy_htod_async(at, &addresses, self.stream.cu_stream()) }.map_err(|e| e.to_string())?;
        self.grouped(products, [0, 1, 2].map(|array| at + (8 * array * products.len()) as u64))
    }

    /// The call, given where pointers to what are cuBLAS's a, b and c lie on the device.
    fn grouped(&self, products: &[Product], [a, b, c]: [u64; 3]) -> Result<(), String> {
        let Some(first) = products.first() else { return Ok(()) };
        let ints = |of: fn(&Product) -> usize| products.iter().map(|product| int(of(product))).collect::<Vec<_>>();
        let ways = |of: fn(&Product) -> Matrix| products.iter().map(|product| way(of(product))).collect::<Vec<_>>();
        let factors = |of: fn(&Product) -> f32| products.iter().map(of).collect::<Vec<_>>();
        let (ways_a, ways_b) = (ways(|product| product.b), ways(|product| product.a));
        let (m, n, k) = (ints(|of| of.sizes[1]), ints(|of| of.sizes[0]), ints(|of| of.sizes[2]));
        let (wide_a, wide_b) = (ints(|of| of.b.width), ints(|of| of.a.width));
        let (alpha, beta) = (factors(|_| 1.0), factors(|product| factor(product.adds)));
        let one_each = vec![1; products.len()];
        // SAFETY: as for one product. The arrays of sizes, ways and factors are the host's and as long as there are groups; the
        // pointers are on the device, one of each array for each group, and what they point to is borrowed as for one product.
        unsafe {
            sys::cublasGemmGroupedBatchedEx(
                *self.handle.handle(),
                ways_a.as_ptr(),
                ways_b.as_ptr(),
                m.as_ptr(),
                n.as_ptr(),
                k.as_ptr(),
                alpha.as_ptr().cast(),
                a as *const _,
                format(first.inputs),
                wide_a.as_ptr(),
                b as *const _,
                format(first.inputs),
                wide_b.as_ptr(),
                beta.as_ptr().cast(),
                c as *const _,
                format(first.output),
                m.as_ptr(),
                int(products.len()),
                one_each.as_ptr(),
                COMPUTE,
            )
        }
        .result()
        .map_err(said)
    }
}

/// Sums in f32, whatever the matrices are of.
const COMPUTE: sys::cublasComputeType_t = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;

fn said(error: CublasError) -> String {
    format!("{error:?}")
}

fn int(n: usize) -> c_int {
    c_int::try_from(n).expect("sizes of a product are below 2^31")
}

/// What is kept of what c holds.
fn factor(adds: bool) -> f32 {
    if adds { 1.0 } else { 0.0 }
}

fn way(matrix: Matrix) -> sys::cublasOperation_t {
    if matrix.is_transposed { sys::cublasOperation_t::CUBLAS_OP_T } else { sys::cublasOperation_t::CUBLAS_OP_N }
}

fn format(kind: Kind) -> sys::cudaDataType {
    match kind {
        Kind::F32 => sys::cudaDataType::CUDA_R_32F,
        Kind::Bf16 => sys::cudaDataType::CUDA_R_16BF,
    }
}

/// Whether the library takes them as groups. Its manual (13.0, `cublasGemmGroupedBatchedEx`) lists sums in f32 of f32 to f32 and
/// of bf16 to bf16, and wants matrices of bf16 to begin at multiples of 16 bytes where k numbers are multiples of 16 bytes, and
/// of 4 where they are of 4.
fn are_grouped(products: &[Product]) -> bool {
    products.iter().all(|product| {
        let Product { a, b, inputs, c, output, sizes: [.., k], .. } = *product;
        let bytes = match inputs {
            Kind::F32 => return output == Kind::F32,
            Kind::Bf16 => 2 * k,
        };
        let step = [16, 4].into_iter().find(|step| bytes.is_multiple_of(*step)).unwrap_or(1) as u64;
        output == Kind::Bf16 && [a.address, b.address, c].iter().all(|address| address.is_multiple_of(step))
    })
}

#[cfg(test)]
mod tests {
    use super::{Kind, Matrix, Product, are_grouped};

    fn product(inputs: Kind, output: Kind, k: usize, [a, b, c]: [u64; 3]) -> Product {
        let matrix = |address, width| Matrix { address, width, is_transposed: false };
        Product { a: matrix(a, k), b: matrix(b, 5), inputs, c, output, sizes: [3, 5, k], adds: false }
    }

    #[test]
    fn groups_are_of_one_format_and_begin_where_the_library_reads_them() {
        let (f32, bf16) = (Kind::F32, Kind::Bf16);
        let at = [[512, 1024, 2048], [512, 1028, 2048], [512, 1024, 2056], [514, 1024, 2048]];
        assert!(at.iter().all(|at| are_grouped(&[product(f32, f32, 8, *at)])));
        assert!(!are_grouped(&[product(bf16, f32, 8, at[0])]));
        let of = |k| at.map(|at| are_grouped(&[product(bf16, bf16, k, at)]));
        assert_eq!(of(8), [true, false, false, false]);
        assert_eq!(of(6), [true, true, true, false]);
        assert_eq!(of(7), [true; 4]);
        assert!(!are_grouped(&[product(bf16, bf16, 8, at[0]), product(bf16, bf16, 8, at[1])]));
    }
}
