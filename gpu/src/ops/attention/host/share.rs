//! Rows shared between threads. The shares are whole tiles, so that the result has the same bits for any number.

use super::tile::TILE;
use core::ops::Range;

/// Calls `work(rows, a, b, scratch)` for shares of the rows, with the parts of `a` and `b` `[rows, ·]` and of scratch
/// that are the share's, so that the sum of `cost` is about the same in all. One thread is the caller's and takes all.
pub(super) fn share<A: Send, B: Send>(
    threads: usize,
    rows: Range<usize>,
    a: &mut [A],
    b: &mut [B],
    scratch: &mut [f32],
    cost: &(impl Fn(usize) -> usize + Sync),
    work: &(impl Fn(Range<usize>, &mut [A], &mut [B], &mut [f32]) + Sync),
) {
    if threads <= 1 || rows.len() <= TILE {
        return work(rows, a, b, scratch);
    }
    let fewer = threads / 2;
    let share_of_fewer = rows.clone().map(cost).sum::<usize>() * fewer / threads;
    let mut middle = rows.start;
    let mut sum = 0;
    while middle + TILE < rows.end && (sum < share_of_fewer || middle == rows.start) {
        sum += (middle..middle + TILE).map(cost).sum::<usize>();
        middle += TILE;
    }
    let before = middle - rows.start;
    let (a_width, b_width) = (a.len() / rows.len(), b.len() / rows.len());
    let (a, a_rest) = a.split_at_mut(before * a_width);
    let (b, b_rest) = b.split_at_mut(before * b_width);
    let (scratch, scratch_rest) = scratch.split_at_mut(scratch.len() / threads * fewer);
    rayon::join(
        || share(fewer, rows.start..middle, a, b, scratch, cost, work),
        || share(threads - fewer, middle..rows.end, a_rest, b_rest, scratch_rest, cost, work),
    );
}

#[cfg(test)]
mod tests {
    use super::{TILE, share};
    use core::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_row_is_in_one_share() {
        for rows in [0, 1, TILE, TILE + 1, 7 * TILE + 5] {
            for threads in 1..5 {
                let (mut a, mut b) = (vec![0; 2 * rows], vec![0; rows]);
                let mut scratch = vec![0.0; 3 * threads];
                let calls = AtomicUsize::new(0);
                share(threads, 0..rows, &mut a, &mut b, &mut scratch, &|row| row, &|rows, a, b, scratch| {
                    assert!(a.len() == 2 * rows.len() && b.len() == rows.len() && scratch.len() >= 3);
                    assert!(rows.start.is_multiple_of(TILE));
                    calls.fetch_add(1, Ordering::Relaxed);
                    for (b, row) in b.iter_mut().zip(rows) {
                        *b += row + 1;
                    }
                    for a in a {
                        *a += 1;
                    }
                });
                let calls = calls.into_inner();
                assert!(calls <= threads && (calls > 1) == (threads > 1 && rows > TILE), "{rows} {threads}: {calls}");
                assert!(b.iter().enumerate().all(|(i, b)| *b == i + 1), "{rows} {threads}");
                assert!(a.iter().all(|a| *a == 1), "{rows} {threads}");
            }
        }
    }
}
