//! Sums and products that stay at `u64::MAX` instead of wrapping. Written out, since the compiler's const evaluation
//! takes about 10 µs for a call of the standard library's and 3 µs for these, and a budget makes hundreds.

/// The sum, at most `u64::MAX`.
pub(crate) const fn add(a: u64, b: u64) -> u64 {
    if a > u64::MAX - b { u64::MAX } else { a + b }
}

/// The product, at most `u64::MAX`.
pub(crate) const fn mul(a: u64, b: u64) -> u64 {
    if a == 1 {
        return b;
    }
    cut(a as u128 * b as u128)
}

/// The number, at most `u64::MAX`, which a Plan refuses where it is an amount of memory (law `fits-64-bits`).
#[allow(clippy::cast_possible_truncation)] // judged in front of it
pub(crate) const fn cut(n: u128) -> u64 {
    if n > u64::MAX as u128 { u64::MAX } else { n as u64 }
}

/// The number, or 0 where there is none: a share of nothing.
pub(crate) const fn zero_or(n: Option<u64>) -> u64 {
    match n {
        Some(n) => n,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{add, mul};

    #[test]
    fn agree_with_the_standard_library() {
        let numbers = [0, 1, 2, 3, 1 << 31, 1 << 32, (1 << 32) + 1, 1 << 63, u64::MAX - 1, u64::MAX];
        for a in numbers {
            for b in numbers {
                assert_eq!(add(a, b), a.saturating_add(b));
                assert_eq!(mul(a, b), a.saturating_mul(b));
            }
        }
    }
}
