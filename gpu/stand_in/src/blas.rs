//! cuBLAS: products of matrices, each sum of products in order and in f32 (f64 of f64).

// As in the driver's calls: the names are cuBLAS's, the arguments as C hands them over.
#![allow(unsafe_code, non_snake_case, clippy::too_many_arguments)]

use crate::driver::Driver;
use crate::driver::border::{In, Out, answer_in};
use crate::exec::alu::{narrow, widen};
use crate::handles::Table;
use crate::ptx::instruction::Type;
use crate::report::{self, Code, Fault};

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

/// A matrix, or several in a row, by columns.
#[derive(Debug, Clone, Copy)]
struct Matrix {
    at: u64,
    ty: Type,
    leading: i32,
    is_transposed: bool,
    stride: i64,
}

/// `c = alpha a b + beta c`, or several.
#[derive(Debug, Clone, Copy)]
struct Product {
    m: i32,
    n: i32,
    k: i32,
    alpha: f64,
    beta: f64,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    batch: i32,
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

fn size(of: i32, what: &str) -> Result<usize, Fault> {
    usize::try_from(of).map_err(|_| Fault::new(Code::InvalidValue, format!("{what} is {of}")))
}

/// Reads `rows` by `columns` as f64, transposed as asked, by rows.
fn read(d: &Driver, device: usize, x: Matrix, rows: usize, columns: usize, index: i64) -> Result<Vec<f64>, Fault> {
    let (height, width) = if x.is_transposed { (columns, rows) } else { (rows, columns) };
    let leading = size(x.leading, "a leading dimension")?;
    if leading < height.max(1) {
        return Err(Fault::new(Code::InvalidValue, format!("a leading dimension of {leading} for {height} rows")));
    }
    let bytes = x.ty.bytes() as usize;
    let device = d.working(device)?;
    let mut out = vec![0.0; rows * columns];
    let mut column = vec![0; height * bytes];
    let first = x.at.wrapping_add_signed(index * x.stride * i64::from(x.ty.bytes()));
    if !first.is_multiple_of(bytes as u64) {
        return Err(Fault::new(Code::MisalignedAddress, format!("a matrix at {first:#x}")));
    }
    for j in 0..width {
        let at = first + (j * leading * bytes) as u64;
        device.memory.read_written(at, &mut column)?;
        for (i, value) in column.chunks_exact(bytes).enumerate() {
            let mut bits = [0; 8];
            bits[..bytes].copy_from_slice(value);
            let place = if x.is_transposed { j * columns + i } else { i * columns + j };
            out[place] = widen(u64::from_le_bytes(bits), x.ty);
        }
    }
    Ok(out)
}

#[allow(clippy::cast_possible_truncation)] // sums in f32 are what the compute type says
fn multiply(d: &Driver, device: usize, p: &Product) -> Result<(), Fault> {
    let (m, n, k) = (size(p.m, "m")?, size(p.n, "n")?, size(p.k, "k")?);
    if m == 0 || n == 0 {
        return Ok(());
    }
    let leading = size(p.c.leading, "ldc")?;
    if leading < m {
        return Err(Fault::new(Code::InvalidValue, format!("a leading dimension of {leading} for {m} rows")));
    }
    let is_double = p.c.ty == Type::F64;
    let bytes = p.c.ty.bytes() as usize;
    for index in 0..i64::from(p.batch) {
        let first = p.c.at.wrapping_add_signed(index * p.c.stride * i64::from(p.c.ty.bytes()));
        let span = (((n - 1) * leading + m) * bytes) as u64;
        d.working(device)?.memory.check(first, span)?;
        if d.config.rules.is_dry {
            for (x, rows, columns) in [(p.a, m, k), (p.b, k, n)] {
                let (height, width) = if x.is_transposed { (columns, rows) } else { (rows, columns) };
                let bytes = x.ty.bytes() as usize;
                let span = (width.saturating_sub(1) * size(x.leading, "a leading dimension")? + height) * bytes;
                let first = x.at.wrapping_add_signed(index * x.stride * i64::from(x.ty.bytes()));
                d.working(device)?.memory.check(first, span as u64)?;
            }
            continue;
        }
        let (a, b) = if k == 0 || p.alpha == 0.0 {
            (Vec::new(), Vec::new())
        } else {
            (read(d, device, p.a, m, k, index)?, read(d, device, p.b, k, n, index)?)
        };
        let old = if p.beta == 0.0 { Vec::new() } else { read(d, device, p.c, m, n, index)? };
        let mut sums = vec![0.0_f64; m * n];
        if is_double {
            for i in 0..m {
                for (l, x) in a.get(i * k..(i + 1) * k).unwrap_or_default().iter().enumerate() {
                    for (sum, y) in sums[i * n..(i + 1) * n].iter_mut().zip(&b[l * n..(l + 1) * n]) {
                        *sum += x * y;
                    }
                }
            }
        } else {
            let b: Vec<f32> = b.iter().map(|x| *x as f32).collect();
            let mut row = vec![0.0_f32; n];
            for i in 0..m {
                row.fill(0.0);
                for (l, x) in a.get(i * k..(i + 1) * k).unwrap_or_default().iter().enumerate() {
                    let x = *x as f32;
                    for (sum, y) in row.iter_mut().zip(&b[l * n..(l + 1) * n]) {
                        *sum += x * y;
                    }
                }
                for (to, sum) in sums[i * n..(i + 1) * n].iter_mut().zip(&row) {
                    *to = f64::from(*sum);
                }
            }
        }
        let mut guard = d.working(device)?;
        let mut column = vec![0; m * bytes];
        for j in 0..n {
            for i in 0..m {
                let product =
                    if is_double { p.alpha * sums[i * n + j] } else { f64::from((p.alpha * sums[i * n + j]) as f32) };
                let value = match old.get(i * n + j) {
                    Some(old) => product + p.beta * old,
                    None => product,
                };
                let value = if is_double { value } else { f64::from(value as f32) };
                column[i * bytes..(i + 1) * bytes].copy_from_slice(&narrow(value, p.c.ty).to_le_bytes()[..bytes]);
            }
            guard.memory.write(first + (j * leading * bytes) as u64, &column)?;
        }
    }
    Ok(())
}

/// A fault of a product is the device's, as of a kernel.
fn launch(d: &Driver, device: usize, p: &Product) -> Result<(), Fault> {
    match multiply(d, device, p) {
        Err(fault) if matches!(fault.code, Code::IllegalAddress | Code::MisalignedAddress | Code::LaunchFailed) => {
            let Product { m, n, k, .. } = p;
            let fault = fault.within(&format!("a product of {m} by {n} over {k}"));
            report::publish(&fault);
            d.device(device)?.sticky = Some(fault.code);
            Ok(())
        }
        other => other,
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
        // 64: f16, 68 to 77: f32 and what is nearly so, 70 and 71: f64.
        let scale = match compute {
            68 | 69 | 74 | 75 | 77 => Type::F32,
            70 | 71 => Type::F64,
            64 | 65 => Type::F16,
            _ => return Err(Fault::new(Code::NotSupported, format!("cublasComputeType {compute}"))),
        };
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
        launch(d, h.device, &Product { m, n, k, alpha, beta, a, b, c, batch })
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

#[cfg(test)]
mod tests {
    use super::{Matrix, Product, multiply};
    use crate::config::Config;
    use crate::driver::{Driver, Source};
    use crate::ptx::instruction::Type;
    use crate::report::Code;

    fn matrix(d: &Driver, leading: i32, is_transposed: bool, values: &[f32]) -> Matrix {
        let at = d.allocate(4 * values.len() as u64, Source::Pool(0, 0)).unwrap();
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        d.device(0).unwrap().memory.write(at, &bytes).unwrap();
        Matrix { at, ty: Type::F32, leading, is_transposed, stride: 0 }
    }

    fn values(d: &Driver, x: Matrix, count: usize) -> Vec<f32> {
        let mut bytes = vec![0; 4 * count];
        d.device(0).unwrap().memory.read(x.at, &mut bytes).unwrap();
        bytes.chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
    }

    #[test]
    fn products_are_by_columns_transposed_as_asked_and_added() {
        let d = Driver::new(Config::read(|_| None));
        // [1 2 3; 4 5 6] times [1 0; 0 1; 1 1] is [4 5; 10 11].
        let a = matrix(&d, 2, false, &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let turned = matrix(&d, 3, true, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let b = matrix(&d, 3, false, &[1.0, 0.0, 1.0, 0.0, 1.0, 1.0]);
        for a in [a, turned] {
            // One row of it is left alone.
            let c = matrix(&d, 3, false, &[1.0, 1.0, -7.0, 1.0, 1.0, -7.0]);
            let p = Product { m: 2, n: 2, k: 3, alpha: 2.0, beta: 3.0, a, b, c, batch: 1 };
            multiply(&d, 0, &p).unwrap();
            assert_eq!(values(&d, c, 6), [11.0, 23.0, -7.0, 13.0, 25.0, -7.0]);
        }
    }

    #[test]
    fn several_products_go_by_their_strides() {
        let d = Driver::new(Config::read(|_| None));
        let mut a = matrix(&d, 1, false, &[2.0, 3.0]);
        a.stride = 1;
        let b = matrix(&d, 1, false, &[5.0]);
        let mut c = matrix(&d, 1, false, &[0.0, 0.0]);
        c.stride = 1;
        multiply(&d, 0, &Product { m: 1, n: 1, k: 1, alpha: 1.0, beta: 0.0, a, b, c, batch: 2 }).unwrap();
        assert_eq!(values(&d, c, 2), [10.0, 15.0]);
    }

    #[test]
    fn what_is_too_small_or_unwritten_is_refused() {
        let d = Driver::new(Config::read(|_| None));
        let a = matrix(&d, 2, false, &[1.0; 4]);
        let c = matrix(&d, 2, false, &[1.0; 3]);
        let p = Product { m: 2, n: 2, k: 2, alpha: 1.0, beta: 0.0, a, b: a, c, batch: 1 };
        assert_eq!(multiply(&d, 0, &p).unwrap_err().code, Code::IllegalAddress);
        let at = d.allocate(16, Source::Pool(0, 0)).unwrap();
        let p = Product { a: Matrix { at, ..a }, c: a, ..p };
        assert_eq!(multiply(&d, 0, &p).unwrap_err().code, Code::LaunchFailed);
        let p = Product { a: Matrix { leading: 1, ..a }, ..p };
        assert_eq!(multiply(&d, 0, &p).unwrap_err().code, Code::InvalidValue);
    }
}
