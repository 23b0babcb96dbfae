//! Text built in `const fn`: what laws say when they are broken, from the macro, from the compiler's
//! const evaluation and at run time alike.

use core::fmt;

/// Room for one message: the longest is a budget that does not fit, with its largest tensors.
const CAPACITY: usize = 1536;

/// A message of bounded length, built piece by piece; what does not fit ends in an ellipsis.
#[derive(Clone, Copy)]
pub struct Text {
    bytes: [u8; CAPACITY],
    len: usize,
    is_cut: bool,
}

const ELLIPSIS: &str = "…";

impl Text {
    /// No text.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: [0; CAPACITY], len: 0, is_cut: false }
    }

    /// Appends a string. The first that does not fit ends the text: cutting inside could split a character.
    #[must_use]
    pub const fn str(self, piece: &str) -> Self {
        if self.is_cut {
            self
        } else if self.len + piece.len() + ELLIPSIS.len() > CAPACITY {
            Self { is_cut: true, ..self.copy(ELLIPSIS.as_bytes()) }
        } else {
            self.copy(piece.as_bytes())
        }
    }

    /// Appends what fits.
    const fn copy(mut self, piece: &[u8]) -> Self {
        let mut i = 0;
        while i < piece.len() {
            self.bytes[self.len] = piece[i];
            self.len += 1;
            i += 1;
        }
        self
    }

    /// Appends a whole number.
    #[must_use]
    pub const fn int(self, n: u64) -> Self {
        self.digits(n, 1)
    }

    /// Appends a whole number with leading zeros up to `width` digits.
    #[must_use]
    pub(crate) const fn digits(self, mut n: u64, width: usize) -> Self {
        let mut digits = [b'0'; 20];
        let mut start = digits.len();
        while n > 0 || digits.len() - start < width {
            start -= 1;
            digits[start] = b'0' + (n % 10) as u8;
            n /= 10;
        }
        match core::str::from_utf8(digits.split_at(start).1) {
            Ok(digits) => self.str(digits),
            Err(_) => self,
        }
    }

    /// Appends thousandths as a decimal number: 1500 is `1.5`.
    #[must_use]
    pub const fn thousandths(self, n: u64) -> Self {
        let text = self.int(n / 1000);
        match n % 1000 {
            0 => text,
            part if part % 100 == 0 => text.str(".").digits(part / 100, 1),
            part if part % 10 == 0 => text.str(".").digits(part / 10, 2),
            part => text.str(".").digits(part, 3),
        }
    }

    /// Appends another text.
    #[must_use]
    pub const fn text(self, other: &Self) -> Self {
        self.str(other.as_str())
    }

    /// The text.
    ///
    /// # Panics
    /// Never: only whole strings are appended.
    #[must_use]
    pub const fn as_str(&self) -> &str {
        match core::str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(text) => text,
            Err(_) => panic!("only whole strings are appended"),
        }
    }

    /// Whether nothing was appended.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::Text;

    #[test]
    fn numbers_and_decimals() {
        const TEXT: Text =
            Text::new().int(0).str(" ").int(u64::MAX).str(" ").thousandths(1250).str(" ").thousandths(2000);
        assert_eq!(TEXT.as_str(), "0 18446744073709551615 1.25 2");
        assert_eq!(Text::new().thousandths(4_627).as_str(), "4.627");
        assert_eq!(Text::new().thousandths(1_005).as_str(), "1.005");
        assert_eq!(Text::new().thousandths(1_050).as_str(), "1.05");
    }

    #[test]
    fn what_does_not_fit_is_cut_once_between_characters() {
        let mut text = Text::new();
        for _ in 0..400 {
            text = text.str("größe ").int(7);
        }
        assert!(text.as_str().ends_with('…'));
        assert_eq!(text.as_str().matches('…').count(), 1);
        assert_eq!(Text::new().str("cut…").int(7).as_str(), "cut…7");
    }
}
