//! cuBLAS: its handles, and the calls that multiply matrices.

// As in the driver's calls: the names are cuBLAS's, the arguments as C hands them over.
#![allow(unsafe_code, non_snake_case, clippy::too_many_arguments)]

mod grouped;
mod product;

use crate::driver::Driver;
use crate::driver::border::{In, Out, answer_in};
use crate::exec::alu::widen;
use crate::handles::Table;
use crate::ptx::instruction::Type;
use crate::report::{self, Code, Fault};
use product::{Matrix, Product, multiply};

const NOT_INITIALIZED: i32 = 1;
const INVALID_VALUE: i32 = 7;
const EXECUTION_FAILED: i32 = 13;
const NOT_SUPPORTED: i32 = 15;

#[derive(Debug, Default, Clone, Copy)]
struct Handle {
    device: usize,
    stream: usize,
    /// Scalars are on the device.
    on_device: bool,
    workspace: (u64, usize),
    math_mode: u32,
}

static HANDLES: Table<Handle> = Table::new("cuBLAS handle");

/// Answers a call with cuBLAS's codes.
fn answer(call: impl FnOnce(&'static Driver) -> Result<(), Fault>) -> i32 {
    let code = |code| match code {
        Code::InvalidHandle | Code::InvalidContext => NOT_INITIALIZED,
        Code::InvalidValue => INVALID_VALUE,
        Code::NotSupported => NOT_SUPPORTED,
        _ => EXECUTION_FAILED,
    };
    answer_in(code, call)
}

fn change(number: usize, with: impl FnOnce(&mut Handle)) -> i32 {
    answer(|_| HANDLES.change(number, with))
}

fn get<T>(number: usize, to: Out<T>, what: impl FnOnce(Handle) -> T) -> i32 {
    answer(|_| to.put(what(HANDLES.get(number)?)))
}

#[unsafe(no_mangle)]
extern "C" fn cublasCreate_v2(to: Out<usize>) -> i32 {
    answer(|d| to.put(HANDLES.add(Handle { device: d.current()?, ..Handle::default() })))
}

#[unsafe(no_mangle)]
extern "C" fn cublasDestroy_v2(number: usize) -> i32 {
    answer(|_| HANDLES.remove(number).map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn cublasGetVersion_v2(_number: usize, version: Out<i32>) -> i32 {
    answer(|_| version.put(130_000))
}

#[unsafe(no_mangle)]
extern "C" fn cublasSetStream_v2(number: usize, stream: usize) -> i32 {
    change(number, |h| h.stream = stream)
}

#[unsafe(no_mangle)]
extern "C" fn cublasGetStream_v2(number: usize, stream: Out<usize>) -> i32 {
    get(number, stream, |h| h.stream)
}

#[unsafe(no_mangle)]
extern "C" fn cublasSetWorkspace_v2(number: usize, address: u64, bytes: usize) -> i32 {
    answer(|d| {
        let h = HANDLES.get(number)?;
        if bytes > 0 {
            // It has to be the caller's, all of it.
            let device = d.working(h.device)?;
            device.memory.check(address, bytes as u64)?;
        }
        HANDLES.change(number, |h| h.workspace = (address, bytes))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cublasSetMathMode(number: usize, mode: u32) -> i32 {
    change(number, |h| h.math_mode = mode)
}

#[unsafe(no_mangle)]
extern "C" fn cublasGetMathMode(number: usize, mode: Out<u32>) -> i32 {
    get(number, mode, |h| h.math_mode)
}

#[unsafe(no_mangle)]
extern "C" fn cublasSetPointerMode_v2(number: usize, mode: u32) -> i32 {
    change(number, |h| h.on_device = mode == 1)
}

#[unsafe(no_mangle)]
extern "C" fn cublasGetPointerMode_v2(number: usize, mode: Out<u32>) -> i32 {
    get(number, mode, |h| u32::from(h.on_device))
}

fn type_of(number: u32) -> Result<Type, Fault> {
    match number {
        0 => Ok(Type::F32),
        1 => Ok(Type::F64),
        2 => Ok(Type::F16),
        14 => Ok(Type::Bf16),
        _ => Err(Fault::new(Code::NotSupported, format!("a matrix of cudaDataType {number}"))),
    }
}

fn is_transposed(operation: u32) -> Result<bool, Fault> {
    match operation {
        0 => Ok(false),
        1 | 2 => Ok(true),
        _ => Err(Fault::new(Code::InvalidValue, format!("no operation {operation} on a matrix"))),
    }
}

/// A fault of products is the device's, as of a kernel.
fn launch(d: &Driver, device: usize, products: impl FnOnce() -> Result<(), Fault>) -> Result<(), Fault> {
    match products() {
        Err(fault) if matches!(fault.code, Code::IllegalAddress | Code::MisalignedAddress | Code::LaunchFailed) => {
            report::publish(&fault);
            d.device(device)?.sticky = Some(fault.code);
            Ok(())
        }
        other => other,
    }
}

/// The type of scalars and sums that a `cublasComputeType` says: 64: f16, 68 to 77: f32 and what is nearly so, 70 and 71: f64.
fn scale_of(compute: u32) -> Result<Type, Fault> {
    match compute {
        68 | 69 | 74 | 75 | 77 => Ok(Type::F32),
        70 | 71 => Ok(Type::F64),
        64 | 65 => Ok(Type::F16),
        _ => Err(Fault::new(Code::NotSupported, format!("cublasComputeType {compute}"))),
    }
}

fn scalar(d: &Driver, h: Handle, at: In<u8>, ty: Type) -> Result<f64, Fault> {
    let mut bits = [0; 8];
    let bytes = ty.bytes() as usize;
    if h.on_device {
        d.working(h.device)?.memory.read_written(at.address(), &mut bits[..bytes])?;
    } else {
        bits[..bytes].copy_from_slice(crate::driver::border::source(at, bytes)?);
    }
    Ok(widen(u64::from_le_bytes(bits), ty))
}

/// A matrix as a caller gives it: address, type, leading dimension, stride.
type Given = (u64, u32, i32, i64);

/// The arguments of `cublasGemmStridedBatchedEx`.
fn gemm(
    number: usize,
    operations: (u32, u32),
    (m, n, k): (i32, i32, i32),
    (alpha, beta): (In<u8>, In<u8>),
    (a, b, c): (Given, Given, Given),
    batch: i32,
    compute: u32,
) -> i32 {
    answer(|d| {
        let h = HANDLES.get(number)?;
        let scale = scale_of(compute)?;
        let matrix = |(at, ty, leading, stride): Given, operation: u32| {
            Ok::<_, Fault>(Matrix { at, ty: type_of(ty)?, leading, is_transposed: is_transposed(operation)?, stride })
        };
        let (a, b, c) = (matrix(a, operations.0)?, matrix(b, operations.1)?, matrix(c, 0)?);
        let is_known = match (a.ty, c.ty) {
            (Type::F64, Type::F64) => scale == Type::F64,
            (Type::F64, _) | (_, Type::F64) => false,
            (_, Type::F32) => scale == Type::F32,
            (from, to) => from == to,
        };
        if a.ty != b.ty || !is_known {
            let text = format!("{:?} by {:?} to {:?}, compute type {compute}", a.ty, b.ty, c.ty);
            return Err(Fault::new(Code::NotSupported, text));
        }
        d.may_work("a product")?;
        let (alpha, beta) = (scalar(d, h, alpha, scale)?, scalar(d, h, beta, scale)?);
        launch(d, h.device, || multiply(d, h.device, &Product { m, n, k, alpha, beta, a, b, c, batch }))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cublasGemmEx(
    number: usize,
    op_a: u32,
    op_b: u32,
    m: i32,
    n: i32,
    k: i32,
    alpha: In<u8>,
    a: u64,
    a_type: u32,
    lda: i32,
    b: u64,
    b_type: u32,
    ldb: i32,
    beta: In<u8>,
    c: u64,
    c_type: u32,
    ldc: i32,
    compute: u32,
    _algorithm: i32,
) -> i32 {
    let matrices = ((a, a_type, lda, 0), (b, b_type, ldb, 0), (c, c_type, ldc, 0));
    gemm(number, (op_a, op_b), (m, n, k), (alpha, beta), matrices, 1, compute)
}

#[unsafe(no_mangle)]
extern "C" fn cublasGemmStridedBatchedEx(
    number: usize,
    op_a: u32,
    op_b: u32,
    m: i32,
    n: i32,
    k: i32,
    alpha: In<u8>,
    a: u64,
    a_type: u32,
    lda: i32,
    stride_a: i64,
    b: u64,
    b_type: u32,
    ldb: i32,
    stride_b: i64,
    beta: In<u8>,
    c: u64,
    c_type: u32,
    ldc: i32,
    stride_c: i64,
    batch: i32,
    compute: u32,
    _algorithm: i32,
) -> i32 {
    let matrices = ((a, a_type, lda, stride_a), (b, b_type, ldb, stride_b), (c, c_type, ldc, stride_c));
    gemm(number, (op_a, op_b), (m, n, k), (alpha, beta), matrices, batch, compute)
}

#[unsafe(no_mangle)]
extern "C" fn cublasSgemm_v2(
    number: usize,
    op_a: u32,
    op_b: u32,
    m: i32,
    n: i32,
    k: i32,
    alpha: In<u8>,
    a: u64,
    lda: i32,
    b: u64,
    ldb: i32,
    beta: In<u8>,
    c: u64,
    ldc: i32,
) -> i32 {
    let matrices = ((a, 0, lda, 0), (b, 0, ldb, 0), (c, 0, ldc, 0));
    gemm(number, (op_a, op_b), (m, n, k), (alpha, beta), matrices, 1, 68)
}

#[unsafe(no_mangle)]
extern "C" fn cublasSgemmStridedBatched(
    number: usize,
    op_a: u32,
    op_b: u32,
    m: i32,
    n: i32,
    k: i32,
    alpha: In<u8>,
    a: u64,
    lda: i32,
    stride_a: i64,
    b: u64,
    ldb: i32,
    stride_b: i64,
    beta: In<u8>,
    c: u64,
    ldc: i32,
    stride_c: i64,
    batch: i32,
) -> i32 {
    let matrices = ((a, 0, lda, stride_a), (b, 0, ldb, stride_b), (c, 0, ldc, stride_c));
    gemm(number, (op_a, op_b), (m, n, k), (alpha, beta), matrices, batch, 68)
}
