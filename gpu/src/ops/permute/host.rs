//! The permutation on the CPU: a stable counting sort, so that the copies of an expert keep the order of their tokens.

use crate::Float;
use crate::ops::columns;
use crate::ops::index::{element, optional, position};

/// What stands for no copy in `order` and for no row in `inverse`.
pub const NONE: i32 = -1;

/// counts `[experts]` = how many copies choose each expert; choice is `[tokens, k]`.
pub fn counts(counts: &mut [i32], choice: &[i32]) {
    counts.fill(0);
    for expert in choice {
        counts[position(*expert)] += 1;
    }
}

/// order `[tokens * k]` = the copies sorted by expert, and starts `[experts]` = where each expert's begin.
pub fn sort(order: &mut [i32], counts: &[i32], starts: &mut [i32], choice: &[i32]) {
    assert!(order.len() == choice.len() && starts.len() == counts.len(), "a sort: slices of one length");
    assert_eq!(counts.iter().map(|n| position(*n)).sum::<usize>(), choice.len(), "copies that were counted");
    let mut next = 0;
    for (start, count) in starts.iter_mut().zip(counts) {
        *start = next;
        next += count;
    }
    for (copy, expert) in choice.iter().enumerate() {
        let start = &mut starts[position(*expert)];
        order[position(*start)] = element(copy);
        *start += 1;
    }
    // Each start has become its expert's end.
    for (start, count) in starts.iter_mut().zip(counts) {
        *start -= count;
    }
}

/// As [`sort`] where every expert has `slots` rows: order `[experts * slots]` = its first copies, [`NONE`] in a slot
/// that stays empty; later copies are dropped. kept `[experts]` = how many it has.
pub fn sort_limited(order: &mut [i32], choice: &[i32], experts: usize, slots: usize, kept: &mut [i32]) {
    assert!(order.len() == experts * slots && kept.len() == experts, "a sort: slices and their shapes");
    order.fill(NONE);
    kept.fill(0);
    for (copy, expert) in choice.iter().enumerate() {
        let expert = position(*expert);
        let taken = position(kept[expert]);
        if taken < slots {
            order[expert * slots + taken] = element(copy);
            kept[expert] += 1;
        }
    }
}

/// inverse `[tokens * k]` = the row of each copy, [`NONE`] where it was dropped.
pub fn invert(inverse: &mut [i32], order: &[i32]) {
    inverse.fill(NONE);
    for (row, copy) in order.iter().enumerate() {
        if let Some(copy) = optional(*copy) {
            inverse[copy] = element(row);
        }
    }
}

/// rows `[order.len(), width]` = each copy's token of x `[tokens, width]`, zeros in an empty slot. Also the backward
/// pass of [`combine`].
pub fn gather<T: Float>(rows: &mut [T], x: &[T], order: &[i32], k: usize, width: usize) {
    assert!(width > 0 && rows.len() == order.len() * width, "rows of copies: a slice and its shape");
    for (row, copy) in rows.chunks_exact_mut(width).zip(order) {
        match optional(*copy) {
            Some(copy) => row.copy_from_slice(&x[copy / k * width..][..width]),
            None => row.fill(T::default()),
        }
    }
}

/// Each row of x `[places.len(), width]` goes to its place among rows: `rows[places[i]] = x[i]`.
pub fn scatter<T: Float>(rows: &mut [T], x: &[T], places: &[i32], width: usize) {
    assert!(width > 0 && x.len() == places.len() * width && rows.len() == x.len(), "rows and their places");
    for (x, place) in x.chunks_exact(width).zip(places) {
        if let Some(place) = optional(*place) {
            rows[place * width..][..width].copy_from_slice(x);
        }
    }
}

/// out `[order.len()]` = the value of each copy, of values `[tokens * k]`; 0 in an empty slot.
pub fn gather_scalars(out: &mut [f32], values: &[f32], order: &[i32]) {
    assert_eq!(out.len(), order.len(), "values of copies: slices of one length");
    for (out, copy) in out.iter_mut().zip(order) {
        *out = optional(*copy).map_or(0.0, |copy| values[copy]);
    }
}

/// out `[tokens * k]` = each copy's of values `[order.len()]`, 0 where it was dropped: the backward pass of
/// [`gather_scalars`].
pub fn scatter_scalars(out: &mut [f32], values: &[f32], order: &[i32]) {
    assert_eq!(values.len(), order.len(), "values of copies: slices of one length");
    out.fill(0.0);
    for (value, copy) in values.iter().zip(order) {
        if let Some(copy) = optional(*copy) {
            out[copy] = *value;
        }
    }
}

/// y `[tokens, width]` += the rows of each token's copies, of rows `[order.len(), width]`, summed in f32 and rounded
/// once. Also the backward pass of [`gather`].
pub fn combine<T: Float>(y: &mut [T], rows: &[T], inverse: &[i32], k: usize, width: usize) {
    assert!(width > 0 && y.len() * k == inverse.len() * width, "copies of tokens: a slice and its shape");
    for (y, copies) in y.chunks_exact_mut(width).zip(inverse.chunks_exact(k)) {
        columns::accumulate(y, k, |j, columns, sums| {
            if let Some(row) = optional(copies[j]) {
                for (sum, x) in sums.iter_mut().zip(&rows[row * width..][columns]) {
                    *sum += x.to_f32();
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{NONE, combine, counts, gather, gather_scalars, invert, scatter_scalars, sort, sort_limited};
    use crate::ops::index::element;
    use crate::ops::testing::{assert_gradient, assert_same, random, weighted, widened};
    use crate::{Bf16, Float};

    /// The order, the starts and the counts of choices.
    fn sorted(choice: &[i32], experts: usize) -> (Vec<i32>, Vec<i32>, Vec<i32>) {
        let (mut order, mut starts, mut n) = (vec![9; choice.len()], vec![9; experts], vec![9; experts]);
        counts(&mut n, choice);
        sort(&mut order, &n, &mut starts, choice);
        (order, starts, n)
    }

    #[test]
    fn by_expert_in_the_order_of_tokens() {
        let (order, starts, n) = sorted(&[0, 2, 2, 3, 0, 3, 0, 2], 4);
        assert_eq!(n, [3, 0, 3, 2]);
        assert_eq!(starts, [0, 3, 3, 6]);
        assert_eq!(order, [0, 4, 6, 1, 2, 7, 3, 5]);
    }

    #[test]
    fn a_permutation_and_its_inverse() {
        let mut rng = fastrand::Rng::with_seed(18);
        let choice: Vec<i32> = (0..300).map(|_| rng.i32(0..7)).collect();
        let (order, _, _) = sorted(&choice, 7);
        let mut inverse = vec![9; 300];
        invert(&mut inverse, &order);
        for (row, copy) in order.iter().enumerate() {
            assert_eq!(inverse[usize::try_from(*copy).unwrap()], element(row));
        }
        let mut seen = order.clone();
        seen.sort_unstable();
        assert!(seen.iter().enumerate().all(|(i, copy)| *copy == element(i)));
    }

    #[test]
    fn capacity_drops_the_later_copies() {
        // Expert 0 is chosen by copies 0, 2 and 4, expert 1 by 1, 3 and 5, expert 2 by none.
        let choice = [0, 1, 0, 1, 0, 1];
        let (mut order, mut kept) = ([9; 6], [9; 3]);
        sort_limited(&mut order, &choice, 3, 2, &mut kept);
        assert_eq!((order, kept), ([0, 2, 1, 3, NONE, NONE], [2, 2, 0]));
        let mut inverse = [9; 6];
        invert(&mut inverse, &order);
        assert_eq!(inverse, [0, 2, 1, 3, NONE, NONE]);

        let mut rows = [9.0; 6];
        gather(&mut rows, &[1.0, 2.0, 3.0], &order, 2, 1);
        assert_same("rows", &rows, &[1.0, 2.0, 1.0, 2.0, 0.0, 0.0]);
        let mut y = [10.0, 20.0, 30.0];
        combine(&mut y, &[1.0, 2.0, 3.0, 4.0, 500.0, 600.0], &inverse, 2, 1);
        assert_same("y", &y, &[14.0, 26.0, 30.0]);

        let mut scalars = [9.0; 6];
        gather_scalars(&mut scalars, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], &order);
        assert_same("gathered", &scalars, &[0.0, 2.0, 1.0, 3.0, 0.0, 0.0]);
        let mut values = [9.0; 6];
        scatter_scalars(&mut values, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &order);
        assert_same("scattered", &values, &[1.0, 3.0, 2.0, 4.0, 0.0, 0.0]);
    }

    #[test]
    fn gather_and_combine_are_each_other_backwards() {
        let mut rng = fastrand::Rng::with_seed(19);
        let (tokens, k, width, experts) = (5, 3, 130, 4);
        let choice: Vec<i32> = (0..tokens * k).map(|_| rng.i32(0..4)).collect();
        for slots in [tokens * k, 3] {
            let (mut order, mut kept) = (vec![0; experts * slots], vec![0; experts]);
            sort_limited(&mut order, &choice, experts, slots, &mut kept);
            let mut inverse = vec![0; tokens * k];
            invert(&mut inverse, &order);
            let gathered = |x: &[f32]| {
                let mut rows = vec![f32::NAN; order.len() * width];
                gather(&mut rows, x, &order, k, width);
                rows
            };
            let (x, d_rows) = (random(&mut rng, tokens * width), random(&mut rng, order.len() * width));
            let mut dx = vec![0.0; x.len()];
            combine(&mut dx, &d_rows, &inverse, k, width);
            // Linear: one inner product says that each is the other's transpose.
            let (left, right) = (weighted(&gathered(&x), &d_rows), weighted(&x, &dx));
            assert!((left - right).abs() < 1e-4 && left.abs() > 0.1, "{left} {right}");
            if slots == 3 {
                assert_gradient("x", &x, &dx, |x| weighted(&gathered(x), &d_rows));
            }
        }
    }

    #[test]
    fn copies_of_bf16_are_rounded_once() {
        // 1 + 3 * 2^-9 is 1 + 2^-7 after one rounding; added one by one, each would be lost.
        let one = Bf16::of_f32(1.0);
        let mut y = [one];
        combine(&mut y, &[Bf16::of_f32(0.001_953_125); 3], &[2, 0, 1], 3, 1);
        assert_same("y", &widened(&y), &[1.007_812_5]);
    }
}
