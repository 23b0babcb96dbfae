//! Products of groups in one call: each group has sizes of its own, and pointers to its matrices lie on the device.

// As in the driver's calls: the names are cuBLAS's, the arguments as C hands them over.
#![allow(unsafe_code, non_snake_case, clippy::too_many_arguments)]

use super::product::{Matrix, Product, multiply, size};
use super::{HANDLES, answer, is_transposed, launch, scale_of, type_of};
use crate::driver::Driver;
use crate::driver::border::{In, source};
use crate::exec::alu::widen;
use crate::ptx::instruction::Type;
use crate::report::{Code, Fault};

/// An array of the host, one number for each group.
type Array = In<u8>;

/// The arrays of one of the three matrices: pointers on the device, a type, leading dimensions, operations.
struct Matrices {
    pointers: u64,
    ty: Type,
    leading: Vec<i32>,
    is_transposed: Vec<bool>,
}

/// What a call is given: of groups all vectors are as long.
struct Groups {
    sizes: Vec<[i32; 3]>,
    factors: Vec<[f64; 2]>,
    matrices: [Matrices; 3],
    /// Products of each group.
    counts: Vec<i32>,
    /// Where numbers of 16 bits are multiplied, or in a fast way, matrices have to begin at multiples.
    is_aligned: bool,
}

fn ints(from: Array, groups: usize) -> Result<Vec<i32>, Fault> {
    Ok(source(from, 4 * groups)?.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect())
}

fn scalars(from: Array, groups: usize, ty: Type) -> Result<Vec<f64>, Fault> {
    let bytes = ty.bytes() as usize;
    let number = |stored: &[u8]| {
        let mut bits = [0; 8];
        bits[..bytes].copy_from_slice(stored);
        widen(u64::from_le_bytes(bits), ty)
    };
    Ok(source(from, bytes * groups)?.chunks_exact(bytes).map(number).collect())
}

fn ways(from: Array, groups: usize) -> Result<Vec<bool>, Fault> {
    ints(from, groups)?.into_iter().map(|operation| is_transposed(operation.cast_unsigned())).collect()
}

/// Whether the routine has these types: one of all matrices, as its manual lists them.
fn supports(types: [Type; 3], compute: u32) -> Result<(), Fault> {
    let is_known = match (types[0], compute) {
        (Type::Bf16 | Type::F16, 68) | (Type::F32, 68 | 69 | 77) | (Type::F64, 70 | 71) => types == [types[0]; 3],
        _ => false,
    };
    let [a, b, c] = types;
    let text = || format!("groups of {a:?} by {b:?} to {c:?}, compute type {compute}");
    if is_known { Ok(()) } else { Err(Fault::new(Code::NotSupported, text())) }
}

impl Groups {
    /// Whether the host's arrays make sense.
    fn check(&self) -> Result<(), Fault> {
        for (group, [m, n, k]) in self.sizes.iter().enumerate() {
            let (m, n, k) = (size(*m, "m")?, size(*n, "n")?, size(*k, "k")?);
            size(self.counts[group], "a group")?;
            for (of, (rows, columns)) in [(m, k), (k, n), (m, n)].into_iter().enumerate() {
                self.matrix(of, group, 0).leading(rows, columns)?;
            }
        }
        Ok(())
    }

    fn matrix(&self, of: usize, group: usize, at: u64) -> Matrix {
        let Matrices { ty, leading, is_transposed, .. } = &self.matrices[of];
        Matrix { at, ty: *ty, leading: leading[group], is_transposed: is_transposed[group], stride: 0 }
    }

    /// The pointers of an array on the device.
    fn pointers(&self, of: usize, d: &Driver, device: usize) -> Result<Vec<u64>, Fault> {
        let (at, name) = (self.matrices[of].pointers, ["a", "b", "c"][of]);
        let count: i32 = self.counts.iter().sum();
        let mut bytes = vec![0; 8 * size(count, "all groups")?];
        let within = |fault: Fault| fault.within(&format!("pointers to matrices {name} of groups"));
        if !at.is_multiple_of(8) {
            return Err(within(Fault::new(Code::MisalignedAddress, format!("an array at {at:#x}"))));
        }
        let device = d.working(device)?;
        device.memory.check(at, bytes.len() as u64).map_err(within)?;
        device.memory.read_written(at, &mut bytes).map_err(within)?;
        Ok(bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
    }

    /// All products, with the group of each.
    fn products(&self, d: &Driver, device: usize) -> Result<Vec<(usize, Product)>, Fault> {
        let [a, b, c] = [self.pointers(0, d, device)?, self.pointers(1, d, device)?, self.pointers(2, d, device)?];
        let groups = self.counts.iter().enumerate();
        let groups = groups.flat_map(|(group, count)| (0..*count).map(move |_| group));
        let product = |(of, group): (usize, usize)| {
            let [m, n, k] = self.sizes[group];
            let [alpha, beta] = self.factors[group];
            let [a, b, c] = [(0, a[of]), (1, b[of]), (2, c[of])].map(|(which, at)| self.matrix(which, group, at));
            (group, Product { m, n, k, alpha, beta, a, b, c, batch: 1 })
        };
        Ok(groups.enumerate().map(product).collect())
    }

    /// Multiplies. Where nothing is stored, no pointer is known.
    fn run(&self, d: &Driver, device: usize) -> Result<(), Fault> {
        let products = self.products(d, device)?;
        if d.config.rules.is_dry {
            return Ok(());
        }
        apart(&products)?;
        for (group, product) in products {
            let within = |fault: Fault| fault.within(&format!("group {group}"));
            if self.is_aligned {
                aligned(&product).map_err(within)?;
            }
            multiply(d, device, &product).map_err(within)?;
        }
        Ok(())
    }
}

/// Whether a product's matrices begin where the routine can read them: at multiples of 16 bytes if k numbers are multiples of
/// that, of 4 if they are of 4.
fn aligned(product: &Product) -> Result<(), Fault> {
    let Product { m, n, k, a, b, c, .. } = product;
    let bytes = u64::from(a.ty.bytes()) * size(*k, "k")? as u64;
    let step = [16, 4].into_iter().find(|step| bytes.is_multiple_of(*step)).unwrap_or(1);
    match [a, b, c].into_iter().find(|matrix| !matrix.at.is_multiple_of(step)) {
        Some(Matrix { at, .. }) if *m > 0 && *n > 0 => {
            let text = format!("a matrix at {at:#x}, no multiple of {step}, where k is {k}");
            Err(Fault::new(Code::MisalignedAddress, text))
        }
        _ => Ok(()),
    }
}

/// Whether no two products write the same memory: they are made in no order.
fn apart(products: &[(usize, Product)]) -> Result<(), Fault> {
    let mut all = Vec::new();
    for (group, Product { m, n, c, .. }) in products {
        let (rows, columns) = (size(*m, "m")?, size(*n, "n")?);
        if rows > 0 && columns > 0 {
            all.push((c.at, c.at.saturating_add(c.span(rows, columns)?), *group, rows as u64, *c));
        }
    }
    all.sort_by_key(|(first, ..)| *first);
    for (place, (first, end, group, rows, c)) in all.iter().enumerate() {
        let near = all[place + 1..].iter().take_while(|(next, ..)| next < end);
        for (next, _, other, more, of_other) in near {
            // Columns of two may lie between one another.
            let leading = u64::try_from(c.leading).unwrap_or(1);
            let row = (next - first) / u64::from(c.ty.bytes()) % leading;
            if c.leading != of_other.leading || row < *rows || row + more > leading {
                let text = format!("groups {group} and {other} write the same memory, from {next:#x}");
                return Err(Fault::new(Code::LaunchFailed, text));
            }
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cublasGemmGroupedBatchedEx(
    number: usize,
    ops_a: Array,
    ops_b: Array,
    m: Array,
    n: Array,
    k: Array,
    alpha: Array,
    a: u64,
    a_type: u32,
    lda: Array,
    b: u64,
    b_type: u32,
    ldb: Array,
    beta: Array,
    c: u64,
    c_type: u32,
    ldc: Array,
    groups: i32,
    counts: Array,
    compute: u32,
) -> i32 {
    answer(|d| {
        let (h, groups) = (HANDLES.get(number)?, size(groups, "the number of groups")?);
        if h.on_device {
            return Err(Fault::new(Code::NotSupported, "groups whose scalars are on the device"));
        }
        let types = [type_of(a_type)?, type_of(b_type)?, type_of(c_type)?];
        supports(types, compute)?;
        let scale = scale_of(compute)?;
        let matrices = |pointers, ty, leading: Array, is_transposed: Vec<bool>| {
            Ok::<_, Fault>(Matrices { pointers, ty, leading: ints(leading, groups)?, is_transposed })
        };
        let sizes = ints(m, groups)?.into_iter().zip(ints(n, groups)?).zip(ints(k, groups)?);
        let factors = scalars(alpha, groups, scale)?.into_iter().zip(scalars(beta, groups, scale)?);
        let given = Groups {
            sizes: sizes.map(|((m, n), k)| [m, n, k]).collect(),
            factors: factors.map(|(alpha, beta)| [alpha, beta]).collect(),
            matrices: [
                matrices(a, types[0], lda, ways(ops_a, groups)?)?,
                matrices(b, types[1], ldb, ways(ops_b, groups)?)?,
                matrices(c, types[2], ldc, vec![false; groups])?,
            ],
            counts: ints(counts, groups)?,
            is_aligned: types[0].bytes() == 2 || compute == 77,
        };
        given.check()?;
        d.may_work("products of groups")?;
        launch(d, h.device, || given.run(d, h.device))
    })
}

#[cfg(test)]
mod tests {
    use super::super::product::tests::{matrix, values};
    use super::{Groups, Matrices, Matrix, Type, supports};
    use crate::config::Config;
    use crate::driver::{Driver, Source};
    use crate::report::Code;

    fn driver() -> Driver {
        Driver::new(Config::read(|_| None))
    }

    fn on_device(d: &Driver, pointers: &[u64]) -> u64 {
        let at = d.allocate(8 * pointers.len() as u64, Source::Pool(0, 0)).unwrap();
        let bytes: Vec<u8> = pointers.iter().flat_map(|pointer| pointer.to_le_bytes()).collect();
        d.device(0).unwrap().memory.write(at, &bytes).unwrap();
        at
    }

    /// Rows by one matrix each, of groups of one product: a is as many by 2, b 2 by 1.
    fn groups(d: &Driver, rows: &[i32], of: [&[Matrix]; 3]) -> Groups {
        let count = rows.len();
        let matrices = of.map(|of| Matrices {
            pointers: on_device(d, &of.iter().map(|matrix| matrix.at).collect::<Vec<_>>()),
            ty: of[0].ty,
            leading: of.iter().map(|matrix| matrix.leading).collect(),
            is_transposed: vec![false; count],
        });
        Groups {
            sizes: rows.iter().map(|rows| [*rows, 1, 2]).collect(),
            factors: vec![[1.0, 1.0]; count],
            matrices,
            counts: vec![1; count],
            is_aligned: false,
        }
    }

    /// Two rows, none, and one.
    fn ragged(d: &Driver) -> (Groups, [Matrix; 3]) {
        let a = [&[1.0, 2.0, 3.0, 4.0][..], &[0.0], &[5.0, 6.0]].map(|a| matrix(d, 1, false, a));
        let a = [Matrix { leading: 2, ..a[0] }, Matrix { at: 0, ..a[1] }, a[2]];
        let b = [[1.0, 1.0], [7.0, 7.0], [10.0, 1.0]].map(|b| matrix(d, 2, false, &b));
        let c = [&[0.5, 0.25][..], &[9.0], &[0.125]].map(|c| matrix(d, 2, false, c));
        (groups(d, &[2, 0, 1], [&a, &b, &c]), c)
    }

    #[test]
    fn each_group_has_its_own_sizes_and_an_empty_one_is_left_alone() {
        let d = driver();
        let (given, c) = ragged(&d);
        given.check().unwrap();
        given.run(&d, 0).unwrap();
        assert_eq!(values(&d, c[0], 2), [4.5, 6.25]);
        assert_eq!(values(&d, c[1], 1), [9.0]);
        assert_eq!(values(&d, c[2], 1), [56.125]);
    }

    #[test]
    fn groups_of_several_products_take_as_many_pointers() {
        let d = driver();
        let (mut given, c) = ragged(&d);
        (given.sizes, given.counts) = (vec![[1, 1, 2], [1, 1, 2]], vec![2, 1]);
        given.factors.truncate(2);
        given.matrices[0].leading = vec![1; 3];
        let all = [&given.matrices[0], &given.matrices[2]].map(|of| of.pointers);
        // The second of three has a matrix now.
        let again = |at: u64, value: u64| d.device(0).unwrap().memory.write(at + 8, &value.to_le_bytes()).unwrap();
        again(all[0], matrix(&d, 1, false, &[1.0, 1.0]).at);
        given.run(&d, 0).unwrap();
        let made: Vec<f32> = c.iter().flat_map(|c| values(&d, *c, 1)).collect();
        assert_eq!(made, [0.5 + 1.0 + 2.0, 9.0 + 14.0, 0.125 + 56.0]);
    }

    #[test]
    fn pointers_of_the_host_or_to_what_is_not_there_are_refused() {
        let d = driver();
        let (given, _) = ragged(&d);
        let codes = |change: &dyn Fn(&mut Groups)| {
            let (mut given, _) = ragged(&d);
            change(&mut given);
            given.run(&d, 0).unwrap_err().code
        };
        let host = [given.matrices[0].pointers; 3];
        assert_eq!(codes(&|given| given.matrices[0].pointers = host.as_ptr().addr() as u64), Code::IllegalAddress);
        assert_eq!(codes(&|given| given.matrices[2].pointers += 4), Code::MisalignedAddress);
        // More pointers than the array has.
        assert_eq!(codes(&|given| given.matrices[1].pointers += 8), Code::IllegalAddress);
        let fresh = d.allocate(24, Source::Pool(0, 0)).unwrap();
        assert_eq!(codes(&|given| given.matrices[1].pointers = fresh), Code::LaunchFailed);
        let null = on_device(&d, &[0; 3]);
        assert_eq!(codes(&|given| given.matrices[1].pointers = null), Code::IllegalAddress);
        // The last group's a has one row of two.
        assert_eq!(codes(&|given| given.sizes[2][2] = 3), Code::IllegalAddress);
    }

    #[test]
    fn what_overlaps_is_refused_and_what_lies_side_by_side_is_not() {
        let d = driver();
        let a = [matrix(&d, 1, false, &[1.0, 1.0]), matrix(&d, 1, false, &[2.0, 2.0])];
        let b = [matrix(&d, 2, false, &[1.0, 2.0, 3.0, 4.0]); 2];
        let c = matrix(&d, 2, false, &[0.0; 4]);
        let run = |off: u64| {
            let mut given = groups(&d, &[1, 1], [&a, &b, &[c, Matrix { at: c.at + off, ..c }]]);
            given.sizes = vec![[1, 2, 2]; 2];
            given.run(&d, 0)
        };
        run(4).unwrap();
        assert_eq!(values(&d, c, 4), [3.0, 6.0, 7.0, 14.0]);
        assert_eq!(run(0).unwrap_err().code, Code::LaunchFailed);
        assert_eq!(run(8).unwrap_err().code, Code::LaunchFailed);
    }

    #[test]
    fn sizes_and_leading_dimensions_have_to_be_some() {
        let d = driver();
        let codes = |change: &dyn Fn(&mut Groups)| {
            let (mut given, _) = ragged(&d);
            change(&mut given);
            given.check().unwrap_err().code
        };
        assert_eq!(codes(&|given| given.sizes[1][0] = -1), Code::InvalidValue);
        assert_eq!(codes(&|given| given.counts[1] = -1), Code::InvalidValue);
        assert_eq!(codes(&|given| given.matrices[0].leading[0] = 1), Code::InvalidValue);
        // Of an empty matrix too.
        assert_eq!(codes(&|given| given.matrices[2].leading[1] = 0), Code::InvalidValue);
    }

    #[test]
    fn types_are_those_of_the_manual() {
        let (f32, bf16) = (Type::F32, Type::Bf16);
        for (types, compute, is_known) in [
            ([bf16; 3], 68, true),
            ([Type::F16; 3], 68, true),
            ([f32; 3], 68, true),
            ([f32; 3], 77, true),
            ([Type::F64; 3], 70, true),
            ([bf16, bf16, f32], 68, false),
            ([bf16; 3], 69, false),
            ([f32, f32, bf16], 68, false),
            ([Type::F64; 3], 68, false),
        ] {
            assert_eq!(supports(types, compute).is_ok(), is_known, "{types:?} {compute}");
        }
    }

    /// Numbers of 16 bits begin at multiples of what k of them are multiples of, but where nothing is multiplied.
    #[test]
    fn matrices_of_16_bits_are_aligned() {
        let at = |at: u64| Matrix { at, ty: Type::Bf16, leading: 8, is_transposed: false, stride: 0 };
        let check = |k: i32, [a, b, c]: [u64; 3], m: i32| {
            let (a, b, c) = (at(a), at(b), at(c));
            super::aligned(&super::Product { m, n: 1, k, alpha: 1.0, beta: 0.0, a, b, c, batch: 1 }).is_ok()
        };
        assert!(check(8, [16, 32, 48], 1) && !check(8, [16, 32, 52], 1) && check(8, [16, 32, 52], 0));
        assert!(check(6, [4, 32, 52], 1) && !check(6, [6, 32, 52], 1));
        assert!(check(7, [2, 6, 10], 1));
    }
}
