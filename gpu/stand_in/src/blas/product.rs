//! Products of matrices, by columns as cuBLAS has them: each sum of products in order and in f32 (f64 of f64).

use crate::driver::Driver;
use crate::exec::alu::{narrow, widen};
use crate::ptx::instruction::Type;
use crate::report::{Code, Fault};

/// A matrix, or several in a row, by columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Matrix {
    pub(super) at: u64,
    pub(super) ty: Type,
    pub(super) leading: i32,
    pub(super) is_transposed: bool,
    pub(super) stride: i64,
}

/// `c = alpha a b + beta c`, or several.
#[derive(Debug, Clone, Copy)]
pub(super) struct Product {
    pub(super) m: i32,
    pub(super) n: i32,
    pub(super) k: i32,
    pub(super) alpha: f64,
    pub(super) beta: f64,
    pub(super) a: Matrix,
    pub(super) b: Matrix,
    pub(super) c: Matrix,
    pub(super) batch: i32,
}

pub(super) fn size(of: i32, what: &str) -> Result<usize, Fault> {
    usize::try_from(of).map_err(|_| Fault::new(Code::InvalidValue, format!("{what} is {of}")))
}

impl Matrix {
    fn bytes(self) -> usize {
        self.ty.bytes() as usize
    }

    /// One of several.
    fn nth(self, index: i64) -> Self {
        Self { at: self.at.wrapping_add_signed(index * self.stride * i64::from(self.ty.bytes())), ..self }
    }

    /// Its columns' elements, and how many columns there are, of a matrix that is `rows` by `columns` as it is read.
    pub(super) const fn stored(self, rows: usize, columns: usize) -> (usize, usize) {
        if self.is_transposed { (columns, rows) } else { (rows, columns) }
    }

    /// From one column to the next.
    ///
    /// # Errors
    /// If columns are longer.
    pub(super) fn leading(self, rows: usize, columns: usize) -> Result<usize, Fault> {
        let (height, _) = self.stored(rows, columns);
        let leading = size(self.leading, "a leading dimension")?;
        if leading < height.max(1) {
            return Err(Fault::new(Code::InvalidValue, format!("a leading dimension of {leading} for {height} rows")));
        }
        Ok(leading)
    }

    /// Bytes from its first element to behind its last.
    pub(super) fn span(self, rows: usize, columns: usize) -> Result<u64, Fault> {
        let ((height, width), leading) = (self.stored(rows, columns), self.leading(rows, columns)?);
        Ok(if width == 0 { 0 } else { (((width - 1) * leading + height) * self.bytes()) as u64 })
    }

    /// Reads it as f64, transposed as asked, by rows.
    fn read(self, d: &Driver, device: usize, rows: usize, columns: usize) -> Result<Vec<f64>, Fault> {
        let ((height, width), leading) = (self.stored(rows, columns), self.leading(rows, columns)?);
        let bytes = self.bytes();
        let device = d.working(device)?;
        let mut out = vec![0.0; rows * columns];
        let mut column = vec![0; height * bytes];
        if !self.at.is_multiple_of(bytes as u64) {
            return Err(Fault::new(Code::MisalignedAddress, format!("a matrix at {:#x}", self.at)));
        }
        for j in 0..width {
            device.memory.read_written(self.at + (j * leading * bytes) as u64, &mut column)?;
            for (i, value) in column.chunks_exact(bytes).enumerate() {
                let mut bits = [0; 8];
                bits[..bytes].copy_from_slice(value);
                let place = if self.is_transposed { j * columns + i } else { i * columns + j };
                out[place] = widen(u64::from_le_bytes(bits), self.ty);
            }
        }
        Ok(out)
    }
}

/// Multiplies.
///
/// # Errors
/// If a matrix does not lie in memory that was written, or sizes are none.
pub(super) fn multiply(d: &Driver, device: usize, p: &Product) -> Result<(), Fault> {
    let Product { m, n, k, .. } = p;
    let each = |index| {
        let (a, b, c) = (p.a.nth(index), p.b.nth(index), p.c.nth(index));
        one(d, device, &Product { a, b, c, ..*p })
    };
    let mut all = (0..i64::from(p.batch)).map(each);
    all.try_for_each(|done| done.map_err(|fault| fault.within(&format!("a product of {m} by {n} over {k}"))))
}

fn one(d: &Driver, device: usize, p: &Product) -> Result<(), Fault> {
    let (m, n, k) = (size(p.m, "m")?, size(p.n, "n")?, size(p.k, "k")?);
    if m == 0 || n == 0 {
        return Ok(());
    }
    d.working(device)?.memory.check(p.c.at, p.c.span(m, n)?)?;
    if d.config.rules.is_dry {
        d.working(device)?.memory.check(p.a.at, p.a.span(m, k)?)?;
        return d.working(device)?.memory.check(p.b.at, p.b.span(k, n)?);
    }
    let mut sums = if k == 0 || p.alpha == 0.0 {
        vec![0.0; m * n]
    } else {
        let (a, b) = (p.a.read(d, device, m, k)?, p.b.read(d, device, k, n)?);
        if p.c.ty == Type::F64 { sums(&a, &b, k, n) } else { sums_in_f32(&a, &b, k, n) }
    };
    let old = if p.beta == 0.0 { Vec::new() } else { p.c.read(d, device, m, n)? };
    for (place, sum) in sums.iter_mut().enumerate() {
        let product = rounded(p.alpha * *sum, p.c.ty);
        *sum = rounded(old.get(place).map_or(product, |old| product + p.beta * old), p.c.ty);
    }
    write(d, device, p.c, &sums, m, n)
}

/// Writes what is made by rows.
fn write(d: &Driver, device: usize, c: Matrix, values: &[f64], m: usize, n: usize) -> Result<(), Fault> {
    let (bytes, leading) = (c.bytes(), c.leading(m, n)?);
    let mut guard = d.working(device)?;
    let mut column = vec![0; m * bytes];
    for j in 0..n {
        for (i, to) in column.chunks_exact_mut(bytes).enumerate() {
            to.copy_from_slice(&narrow(values[i * n + j], c.ty).to_le_bytes()[..bytes]);
        }
        guard.memory.write(c.at + (j * leading * bytes) as u64, &column)?;
    }
    Ok(())
}

/// What is computed in, of a result: f32 but of f64.
#[allow(clippy::cast_possible_truncation)] // what the compute type says
fn rounded(value: f64, of: Type) -> f64 {
    if of == Type::F64 { value } else { f64::from(value as f32) }
}

fn sums(a: &[f64], b: &[f64], k: usize, n: usize) -> Vec<f64> {
    let row = |a: &[f64]| {
        let mut row = vec![0.0; n];
        for (x, b) in a.iter().zip(b.chunks_exact(n)) {
            row.iter_mut().zip(b).for_each(|(sum, y)| *sum += x * y);
        }
        row
    };
    a.chunks_exact(k).flat_map(row).collect()
}

#[allow(clippy::cast_possible_truncation)] // sums in f32 are what the compute type says
fn sums_in_f32(a: &[f64], b: &[f64], k: usize, n: usize) -> Vec<f64> {
    let b: Vec<f32> = b.iter().map(|x| *x as f32).collect();
    let row = |a: &[f64]| {
        let mut row = vec![0.0_f32; n];
        for (x, b) in a.iter().zip(b.chunks_exact(n)) {
            let x = *x as f32;
            row.iter_mut().zip(b).for_each(|(sum, y)| *sum += x * y);
        }
        row.into_iter().map(f64::from)
    };
    a.chunks_exact(k).flat_map(row).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Matrix, Product, multiply};
    use crate::config::Config;
    use crate::driver::{Driver, Source};
    use crate::ptx::instruction::Type;
    use crate::report::Code;

    pub(in crate::blas) fn matrix(d: &Driver, leading: i32, is_transposed: bool, values: &[f32]) -> Matrix {
        let at = d.allocate(4 * values.len() as u64, Source::Pool(0, 0)).unwrap();
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        d.device(0).unwrap().memory.write(at, &bytes).unwrap();
        Matrix { at, ty: Type::F32, leading, is_transposed, stride: 0 }
    }

    pub(in crate::blas) fn values(d: &Driver, x: Matrix, count: usize) -> Vec<f32> {
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
