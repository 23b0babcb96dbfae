//! The loss on the CPU. logits are `[tokens, width]`, the columns from `first_row` on of the vocabulary.

use crate::Float;
use crate::ops::embedding::host::local;
use crate::ops::exp::{exp_row, sum_exp};
use crate::ops::reduce;

/// Columns of logits `[tokens, width]` from one on become what no softmax sees: rows of the head that are padding.
pub fn mask(logits: &mut [f32], width: usize, from: usize) {
    assert!(width > 0 && logits.len().is_multiple_of(width) && from <= width, "columns of logits");
    for row in logits.chunks_exact_mut(width) {
        row[from..].fill(f32::NEG_INFINITY);
    }
}

/// max `[tokens]` = the largest logit of each row.
pub fn row_max(max: &mut [f32], logits: &[f32], width: usize) {
    assert_rows(logits.len(), max.len(), width);
    for (max, logits) in max.iter_mut().zip(logits.chunks_exact(width)) {
        *max = reduce::max(logits);
    }
}

/// sum `[tokens]` = the sum of exp(logit - max) of each row, and target `[tokens]` = the label's logit, 0 where the
/// label is negative or in columns of another rank. max is that of the whole rows.
pub fn row_sum(
    sum: &mut [f32],
    target: &mut [f32],
    logits: &[f32],
    max: &[f32],
    labels: &[i64],
    first_row: usize,
    width: usize,
) {
    assert_rows(logits.len(), labels.len(), width);
    assert!(sum.len() == labels.len() && target.len() == labels.len() && max.len() == labels.len(), "one per token");
    let rows = sum.iter_mut().zip(target).zip(logits.chunks_exact(width)).zip(max).zip(labels);
    for ((((sum, target), logits), max), label) in rows {
        *sum = sum_exp(logits, *max);
        *target = local(*label, first_row, width).map_or(0.0, |column| logits[column]);
    }
}

/// The sum of the tokens' cross entropies in nats, and how many tokens are scored. sum, max and target are those of the
/// whole rows.
#[must_use]
pub fn loss(sum: &[f32], max: &[f32], target: &[f32], labels: &[i64]) -> (f64, usize) {
    assert!(sum.len() == labels.len() && target.len() == labels.len() && max.len() == labels.len(), "one per token");
    let tokens = sum.iter().zip(max).zip(target).zip(labels).filter(|(_, label)| **label >= 0);
    tokens.fold((0.0, 0), |(total, scored), (((sum, max), target), _)| {
        (total + (f64::from(*sum).ln() + f64::from(*max) - f64::from(*target)), scored + 1)
    })
}

/// logits `[tokens, width]` become their gradient: scale * (probability - 1 at the label), 0 where a token is not
/// scored.
pub fn backward(
    logits: &mut [f32],
    max: &[f32],
    sum: &[f32],
    labels: &[i64],
    first_row: usize,
    width: usize,
    scale: f32,
) {
    assert_rows(logits.len(), labels.len(), width);
    assert!(sum.len() == labels.len() && max.len() == labels.len(), "one per token");
    for (((logits, max), sum), label) in logits.chunks_exact_mut(width).zip(max).zip(sum).zip(labels) {
        if *label < 0 {
            logits.fill(0.0);
            continue;
        }
        exp_row(logits, 1.0, *max);
        let factor = scale / sum;
        for logit in logits.iter_mut() {
            *logit *= factor;
        }
        if let Some(column) = local(*label, first_row, width) {
            logits[column] -= scale;
        }
    }
}

/// out `[tokens, width]` = logits, or their gradient, in another format.
pub fn narrow<T: Float>(out: &mut [T], logits: &[f32]) {
    crate::ops::elementwise::host::convert(out, logits);
}

/// Panics unless the elements are `rows` rows of `width`.
fn assert_rows(elements: usize, rows: usize, width: usize) {
    assert!(width > 0 && elements == rows * width, "{rows} rows of {width} in {elements} elements");
}

#[cfg(test)]
mod tests {
    use super::{backward, loss, narrow, row_max, row_sum};
    use crate::Bf16;
    use crate::ops::testing::{assert_close, assert_gradient, random, rounded, widened};

    const LABELS: [i64; 4] = [2, -100, 0, 6];

    /// Loss and gradient over the columns in `shards` pieces, reduced as ranks would.
    fn sharded(logits: &[f32], width: usize, pieces: &[core::ops::Range<usize>], scale: f32) -> (f64, usize, Vec<f32>) {
        let tokens = LABELS.len();
        let part = |piece: &core::ops::Range<usize>| -> Vec<f32> {
            logits.chunks(width).flat_map(|row| row[piece.clone()].to_vec()).collect()
        };
        let mut max = vec![f32::NEG_INFINITY; tokens];
        for piece in pieces {
            let mut own = vec![f32::NAN; tokens];
            row_max(&mut own, &part(piece), piece.len());
            max.iter_mut().zip(own).for_each(|(max, own)| *max = max.max(own));
        }
        let (mut sum, mut target) = (vec![0.0; tokens], vec![0.0; tokens]);
        for piece in pieces {
            let (mut own, mut own_target) = (vec![f32::NAN; tokens], vec![f32::NAN; tokens]);
            row_sum(&mut own, &mut own_target, &part(piece), &max, &LABELS, piece.start, piece.len());
            sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
            target.iter_mut().zip(own_target).for_each(|(target, own)| *target += own);
        }
        let (total, scored) = loss(&sum, &max, &target, &LABELS);
        let mut gradient = vec![f32::NAN; logits.len()];
        for piece in pieces {
            let mut d = part(piece);
            backward(&mut d, &max, &sum, &LABELS, piece.start, piece.len(), scale);
            for (gradient, d) in gradient.chunks_mut(width).zip(d.chunks(piece.len())) {
                gradient[piece.clone()].copy_from_slice(d);
            }
        }
        (total, scored, gradient)
    }

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "one shard")]
    fn shards_of_the_vocabulary_give_the_whole_loss() {
        let mut rng = fastrand::Rng::with_seed(13);
        let logits: Vec<f32> = random(&mut rng, LABELS.len() * 7).iter().map(|x| 5.0 * x).collect();
        let (total, scored, gradient) = sharded(&logits, 7, &[0..7], 0.5);
        let (split_total, split_scored, split_gradient) = sharded(&logits, 7, &[0..3, 3..7], 0.5);
        assert_eq!((scored, split_scored), (3, 3));
        assert!((total - split_total).abs() < 1e-5, "{total} {split_total}");
        assert_close("gradient", &split_gradient, &gradient, 1e-6);
    }

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "one shard")]
    fn value_and_gradient() {
        let logits = [0.0; 28];
        let (total, scored, _) = sharded(&logits, 7, &[0..7], 1.0);
        assert!(scored == 3 && (total - 3.0 * 7_f64.ln()).abs() < 1e-6);
        // Large logits do not overflow: the loss of the label's own is 0, of the others 1000.
        let mut large = [0.0; 28];
        large[2] = 1000.0;
        large[15] = 1000.0;
        large[27] = 1000.0;
        let (total, _, _) = sharded(&large, 7, &[0..7], 1.0);
        assert!((total - 1000.0).abs() < 1e-3, "{total}");

        let mut rng = fastrand::Rng::with_seed(14);
        let logits = random(&mut rng, 28);
        let (_, _, gradient) = sharded(&logits, 7, &[0..7], 0.25);
        assert!(gradient[7..14].iter().all(|d| *d == 0.0), "not scored");
        assert_gradient("logits", &logits, &gradient, |logits| 0.25 * sharded(logits, 7, &[0..7], 1.0).0);
    }

    #[test]
    fn narrowed() {
        let mut out = [Bf16::ZERO; 2];
        narrow(&mut out, &[1.003, -2.0]);
        assert_eq!(widened(&out), widened::<Bf16>(&rounded(&[1.003, -2.0])));
    }
}
