//! Look-up on the CPU.

use crate::Float;
use crate::ops::index::optional;

/// x `[tokens, width]` = the rows of table `[rows, width]` that ids `[tokens]` name; the table's first row is row
/// `first_row` of the vocabulary, and ids outside of it give zeros.
pub fn forward<T: Float, W: Float>(x: &mut [T], ids: &[i64], table: &[W], width: usize, first_row: usize, rows: usize) {
    assert_shapes(x.len(), ids.len(), table.len(), width, rows);
    for (x, id) in x.chunks_exact_mut(width).zip(ids) {
        match local(*id, first_row, rows) {
            Some(row) => {
                for (x, w) in x.iter_mut().zip(&table[row * width..][..width]) {
                    *x = T::of_f32(w.to_f32());
                }
            }
            None => x.fill(T::default()),
        }
    }
}

/// `d_table` `[rows, width]` += the rows of dx `[tokens, width]`, token by token: where G is not f32, each is rounded.
pub fn backward<T: Float, G: Float>(
    d_table: &mut [G],
    ids: &[i64],
    dx: &[T],
    width: usize,
    first_row: usize,
    rows: usize,
) {
    assert_shapes(dx.len(), ids.len(), d_table.len(), width, rows);
    for (dx, id) in dx.chunks_exact(width).zip(ids) {
        if let Some(row) = local(*id, first_row, rows) {
            for (d, dx) in d_table[row * width..][..width].iter_mut().zip(dx) {
                *d = G::of_f32(d.to_f32() + dx.to_f32());
            }
        }
    }
}

/// The row of a range of the vocabulary that an id or a label names, if it is in the range.
pub(crate) fn local(id: i64, first_row: usize, rows: usize) -> Option<usize> {
    optional(id)?.checked_sub(first_row).filter(|row| *row < rows)
}

fn assert_shapes(x: usize, tokens: usize, table: usize, width: usize, rows: usize) {
    assert!(width > 0 && x == tokens * width, "{tokens} tokens of {width} in {x} elements");
    assert!(table == rows * width, "a table of {rows} rows of {width} in {table} elements");
}

#[cfg(test)]
mod tests {
    use super::{backward, forward};
    use crate::ops::testing::{assert_gradient, assert_same, random, weighted};

    const IDS: [i64; 6] = [3, 0, 6, 3, 4, -1];

    fn look_up(table: &[f32], width: usize, first_row: usize) -> Vec<f32> {
        let mut x = vec![f32::NAN; IDS.len() * width];
        forward(&mut x, &IDS, table, width, first_row, table.len() / width);
        x
    }

    #[test]
    fn rows_of_the_table() {
        let table: Vec<f32> = [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0].iter().flat_map(|x| [*x, x + 1.0]).collect();
        let expected = [30.0, 31.0, 0.0, 1.0, 60.0, 61.0, 30.0, 31.0, 40.0, 41.0, 0.0, 0.0];
        assert_same("x", &look_up(&table, 2, 0), &expected);
    }

    #[test]
    fn shards_add_up_to_the_whole() {
        let mut rng = fastrand::Rng::with_seed(11);
        let width = 5;
        let table = random(&mut rng, 7 * width);
        let (low, high) = table.split_at(4 * width);
        let sum: Vec<f32> = look_up(low, width, 0).iter().zip(look_up(high, width, 4)).map(|(a, b)| a + b).collect();
        assert_same("x", &sum, &look_up(&table, width, 0));

        let dx = random(&mut rng, IDS.len() * width);
        let gradient = |first_row: usize, rows: usize| {
            let mut d = vec![0.25_f32; rows * width];
            backward(&mut d, &IDS, &dx, width, first_row, rows);
            d
        };
        assert_same("d", &[gradient(0, 4), gradient(4, 3)].concat(), &gradient(0, 7));
    }

    #[test]
    fn gradient() {
        let mut rng = fastrand::Rng::with_seed(12);
        let width = 3;
        let (table, dx) = (random(&mut rng, 7 * width), random(&mut rng, IDS.len() * width));
        let mut d_table = vec![0.0_f32; table.len()];
        backward(&mut d_table, &IDS, &dx, width, 0, 7);
        assert_gradient("table", &table, &d_table, |table| weighted(&look_up(table, width, 0), &dx));
        let once = d_table.clone();
        backward(&mut d_table, &IDS, &vec![0.0_f32; dx.len()], width, 0, 7);
        assert_same("added to", &d_table, &once);
    }
}
