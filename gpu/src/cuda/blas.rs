//! Matrix products by cuBLAS, with sums in f32.

#![allow(unsafe_code)]

use super::compile::Kind;
use super::error::{Library, NoDevice};
use core::ffi::c_int;
use cudarc::cublas::{CudaBlas, result, sys};
use cudarc::driver::CudaStream;
use std::sync::Arc;

/// A handle of cuBLAS.
pub(super) struct Blas(CudaBlas);

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
        CudaBlas::new(stream.clone()).map(Self).map_err(|error| NoDevice::Blas(format!("{error:?}")))
    }

    /// Has products work on this memory, and on none of the library's own.
    pub(super) fn work_on(&self, (address, bytes): (u64, usize)) -> Result<(), String> {
        // SAFETY: the memory is there as long as the handle: the device keeps both, and gives new memory before it frees the
        // old.
        unsafe { sys::cublasSetWorkspace_v2(*self.0.handle(), address as *mut _, bytes) }
            .result()
            .map_err(|error| format!("{error:?}"))
    }

    /// Multiplies. cuBLAS counts by columns, in which c is its transpose, bᵀ aᵀ.
    pub(super) fn multiply(&self, product: &Product) -> Result<(), String> {
        let Product { a, b, inputs, c, output, sizes: [m, n, k], adds } = *product;
        let int = |n: usize| c_int::try_from(n).expect("sizes of a product are below 2^31");
        let (one, beta) = (1.0_f32, if adds { 1.0_f32 } else { 0.0 });
        let way = |matrix: Matrix| {
            if matrix.is_transposed { sys::cublasOperation_t::CUBLAS_OP_T } else { sys::cublasOperation_t::CUBLAS_OP_N }
        };
        let format = |kind| match kind {
            Kind::F32 => sys::cudaDataType::CUDA_R_32F,
            Kind::Bf16 => sys::cudaDataType::CUDA_R_16BF,
        };
        // SAFETY: operations assert that tensors are as long as their sizes say; they are borrowed until the call returns,
        // and freed in the order of the same stream. Both factors are on the host, as the handle expects them.
        unsafe {
            result::gemm_ex(
                *self.0.handle(),
                way(b),
                way(a),
                int(n),
                int(m),
                int(k),
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
                int(n),
                sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        }
        .map_err(|error| format!("{error:?}"))
    }
}
