//! Attention to some keys and attention to others are attention to both.

use crate::Float;
use crate::ops::attention::Shape;

/// o `[batch, sequence, heads, value]` and lse `[batch, heads, sequence]` of some keys take in those of others.
pub fn merge<T: Float>(o: &mut [f32], lse: &mut [f32], part: &[T], part_lse: &[f32], shape: &Shape) {
    let Shape { sequence, heads, value, .. } = *shape;
    let rows = shape.tokens() * heads;
    assert!(o.len() == rows * value && part.len() == rows * value, "outputs of an attention: slices and their shape");
    assert!(lse.len() == rows && part_lse.len() == rows, "lse of an attention: a slice and its shape");
    for (row, (o, part)) in o.chunks_exact_mut(value).zip(part.chunks_exact(value)).enumerate() {
        let (token, head) = (row / heads, row % heads);
        let at = (token / sequence * heads + head) * sequence + token % sequence;
        let (some, others) = (lse[at], part_lse[at]);
        let max = some.max(others);
        // There may be none that are seen.
        if max == f32::NEG_INFINITY {
            continue;
        }
        let all = max + ((some - max).exp() + (others - max).exp()).ln();
        let [keep, take] = [(some - all).exp(), (others - all).exp()];
        for (o, part) in o.iter_mut().zip(part) {
            *o = *o * keep + part.to_f32() * take;
        }
        lse[at] = all;
    }
}
