//! Causal attention: softmax(scale * q kᵀ) v over the keys that a query sees. Grouped heads share keys and values, and
//! latent attention, once its keys are unfolded, is the case of values narrower than keys. A sink is a logit of each
//! head that joins the softmax and carries no value.

#[cfg(feature = "cuda")]
pub(crate) mod cuda;
pub mod host;
mod law;

pub use law::*;

use core::ops::Range;

/// The sizes of an attention. q is `[batch, sequence, heads, width]`, k `[batch, sequence, kv_heads, width]`, v
/// `[batch, sequence, kv_heads, value]`, o `[batch, sequence, heads, value]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Sequences.
    pub batch: usize,
    /// Tokens of a sequence.
    pub sequence: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values; query head h reads head h / (heads / `kv_heads`).
    pub kv_heads: usize,
    /// The width of a query and a key.
    pub width: usize,
    /// The width of a value.
    pub value: usize,
    /// How many tokens further queries are than keys: none of one sequence, more where keys are of an earlier piece of it.
    pub ahead: usize,
    /// Query i sees keys j <= i + ahead with i + ahead - j < window; 0 is no window.
    pub window: usize,
    /// The factor of the logits, but for a sink; not negative.
    pub scale: f32,
}

impl Shape {
    /// Tokens of the batch.
    #[must_use]
    pub const fn tokens(&self) -> usize {
        self.batch * self.sequence
    }

    /// The keys that a query sees.
    fn keys_of(&self, query: usize) -> Range<usize> {
        let last = query + self.ahead + 1;
        let first = if self.window == 0 { 0 } else { last.saturating_sub(self.window) };
        first.min(self.sequence)..last.min(self.sequence)
    }

    /// The queries that see a key.
    fn queries_of(&self, key: usize) -> Range<usize> {
        let first = key.saturating_sub(self.ahead);
        let last = if self.window == 0 { self.sequence } else { (key + self.window).saturating_sub(self.ahead) };
        first..last.min(self.sequence)
    }

    /// The keys that some of a range of queries see, some of which there are.
    fn keys_of_all(&self, queries: &Range<usize>) -> Range<usize> {
        self.keys_of(queries.start).start..self.keys_of(queries.end - 1).end
    }

    /// The queries that see some of a range of keys, some of which there are.
    fn queries_of_all(&self, keys: &Range<usize>) -> Range<usize> {
        self.queries_of(keys.start).start..self.queries_of(keys.end - 1).end
    }

    /// Heads of queries that share a head of keys.
    const fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Panics unless the shape is one, and q, k, v and o, or their gradients, are as long as it says.
    fn assert_fits<T>(&self, q: &[T], k: &[T], v: &[T], o: &[T]) {
        self.assert_lengths([q.len(), k.len(), v.len(), o.len()]);
    }

    /// The same of their lengths.
    fn assert_lengths(&self, [q, k, v, o]: [usize; 4]) {
        let Self { heads, kv_heads, width, value, .. } = *self;
        assert!(kv_heads > 0 && heads.is_multiple_of(kv_heads), "{heads} heads share {kv_heads}");
        assert!(width > 0 && value > 0, "heads of an attention have a width");
        assert!(self.scale >= 0.0, "the largest score is scaled after it is found");
        let lengths = [(q, heads * width), (k, kv_heads * width), (v, kv_heads * value), (o, heads * value)];
        assert!(lengths.iter().all(|(x, row)| *x == self.tokens() * row), "an attention: a slice and its shape");
    }
}

#[cfg(test)]
mod tests {
    use super::Shape;

    #[test]
    fn keys_and_queries_see_each_other() {
        for (window, ahead) in [0, 1, 3, 12, 20].into_iter().flat_map(|window| [(window, 0), (window, 9), (window, 18)])
        {
            let one =
                Shape { batch: 1, sequence: 9, heads: 1, kv_heads: 1, width: 1, value: 1, window, ahead, scale: 1.0 };
            for query in 0..9 {
                for key in 0..9 {
                    let sees = key <= query + ahead && (window == 0 || query + ahead - key < window);
                    assert_eq!(one.keys_of(query).contains(&key), sees, "{window} {ahead}: {query} {key}");
                    assert_eq!(one.queries_of(key).contains(&query), sees, "{window} {ahead}: {query} {key}");
                }
            }
        }
    }
}
