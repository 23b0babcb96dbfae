//! The rotation on the CPU, in place and without a table: an angle serves every head of its token.

use super::{Pairs, Rope};
use crate::Float;
use crate::float::count;

/// Turns dimensions offset..offset + rotary of every head of x `[tokens, heads, width]`; `inverse` turns them back,
/// which is the backward pass.
pub fn rotate<T: Float>(
    x: &mut [T],
    heads: usize,
    width: usize,
    offset: usize,
    rotary: usize,
    rope: &Rope,
    inverse: bool,
) {
    assert!(rotary.is_multiple_of(2) && offset + rotary <= width, "{rotary} of {width} dimensions from {offset}");
    assert!(heads > 0 && width > 0 && x.len().is_multiple_of(heads * width), "x of a rotation: a slice and its shape");
    for (token, x) in x.chunks_exact_mut(heads * width).enumerate() {
        let position = count(rope.start + token % rope.sequence);
        for pair in 0..rotary / 2 {
            let (sin, cos) = (position * rope.frequency(pair, rotary)).sin_cos();
            let sin = if inverse { -sin } else { sin };
            let (a, b) = match rope.pairs {
                Pairs::Half => (pair, pair + rotary / 2),
                Pairs::Interleaved => (2 * pair, 2 * pair + 1),
            };
            for head in x.chunks_exact_mut(width) {
                let head = &mut head[offset..];
                let (x, y) = (head[a].to_f32(), head[b].to_f32());
                head[a] = T::of_f32(x * cos - y * sin);
                head[b] = T::of_f32(y * cos + x * sin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::rotate;
    use crate::ops::rope::{Pairs, Rope};
    use crate::ops::testing::{assert_close, assert_gradient, assert_same, random, weighted};

    #[test]
    fn angles_and_pairs() {
        let rope = Rope { theta: 100.0, pairs: Pairs::Half, start: 0, sequence: 2 };
        // Frequencies 1 and 100^(-2/4) = 0.1; tokens 0 and 2 are at position 0, 1 and 3 at position 1.
        let (c0, s0, c1, s1) = (1_f32.cos(), 1_f32.sin(), 0.1_f32.cos(), 0.1_f32.sin());
        let x = [9.0, 1.0, 2.0, 3.0, 4.0, 8.0].repeat(4);
        let mut half = x.clone();
        rotate(&mut half, 1, 6, 1, 4, &rope, false);
        let turned = [9.0, c0 - 3.0 * s0, 2.0 * c1 - 4.0 * s1, 3.0 * c0 + s0, 4.0 * c1 + 2.0 * s1, 8.0];
        let expected: Vec<f32> = [&x[..6], &turned, &x[..6], &turned].concat();
        assert_close("half", &half, &expected, 1e-6);

        let mut interleaved = x.clone();
        rotate(&mut interleaved, 1, 6, 1, 4, &Rope { pairs: Pairs::Interleaved, ..rope }, false);
        let turned = [9.0, c0 - 2.0 * s0, 2.0 * c0 + s0, 3.0 * c1 - 4.0 * s1, 4.0 * c1 + 3.0 * s1, 8.0];
        let expected: Vec<f32> = [&x[..6], &turned, &x[..6], &turned].concat();
        assert_close("interleaved", &interleaved, &expected, 1e-6);
    }

    #[test]
    fn every_head_turns_alike_and_the_inverse_is_the_gradient() {
        let mut rng = fastrand::Rng::with_seed(8);
        for pairs in [Pairs::Half, Pairs::Interleaved] {
            let rope = Rope { theta: 1e4, pairs, start: 5, sequence: 3 };
            let (heads, width, offset, rotary) = (3, 7, 1, 6);
            let x = random(&mut rng, 6 * heads * width);
            let turn = |x: &[f32], inverse| {
                let mut x = x.to_vec();
                rotate(&mut x, heads, width, offset, rotary, &rope, inverse);
                x
            };
            let y = turn(&x, false);
            assert_close("back", &turn(&y, true), &x, 1e-6);
            for (token, (x, y)) in x.chunks(heads * width).zip(y.chunks(heads * width)).enumerate() {
                for (x, y) in x.chunks(width).zip(y.chunks(width)) {
                    let mut alone = vec![0.0; 6 * width];
                    alone[token * width..][..width].copy_from_slice(x);
                    rotate(&mut alone, 1, width, offset, rotary, &rope, false);
                    assert_same("head", y, &alone[token * width..][..width]);
                }
            }
            let dy = random(&mut rng, x.len());
            assert_gradient("dx", &x, &turn(&dy, true), |x| weighted(&turn(x, false), &dy));
        }
    }
}
