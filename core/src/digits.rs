//! Numbers as they are written: what they are, what they were meant for, and what is said of those that are none.

use crate::key::Key;
use crate::misread::shortened;
use crate::text::Text;

/// `1.25` as 1250, if it has at most three places.
#[must_use]
pub fn thousandths(digits: &str) -> Option<u64> {
    // `parse` would take a sign.
    if digits.contains(['+', '-']) {
        return None;
    }
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let scale = match part.len() {
        0 => return whole.parse::<u64>().ok()?.checked_mul(1000),
        1 => 100,
        2 => 10,
        3 => 1,
        _ => return None,
    };
    let part = part.parse::<u64>().ok()? * scale;
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(part)
}

/// `` `mesh.tp` = 99999999999999999999 does not fit in 64 bits ``
#[must_use]
pub fn outgrows_64_bits(key: Key, digits: &str) -> Text {
    Text::new().str("`").str(key.path()).str("` = ").text(&shortened(digits)).str(" does not fit in 64 bits")
}

/// `` `mesh.tp` = -2 is negative ``
#[must_use]
pub fn negative(key: Key, number: &str) -> Text {
    Text::new().str("`").str(key.path()).str("` = ").text(&shortened(number)).str(" is negative")
}

/// The thousandths of a key's decimal number.
///
/// # Errors
/// What is wrong with it.
pub fn decimal(key: Key, digits: &str) -> Result<u64, Text> {
    let is_long = digits.split_once('.').is_some_and(|(_, places)| places.len() > 3);
    thousandths(digits).ok_or_else(|| {
        if digits.starts_with('-') {
            negative(key, digits)
        } else if digits.contains(['e', 'E']) {
            let number = Text::new().str("`").str(key.path()).str("` = ").text(&shortened(digits));
            number.str(" is written with an exponent\n= help: write a decimal number such as 1.25")
        } else if is_long {
            let number = Text::new().str("`").str(key.path()).str("` = ").text(&shortened(digits));
            number.str(" has more than three decimal places")
        } else {
            outgrows_64_bits(key, digits).str(", counted in thousandths")
        }
    })
}

/// `8.0` or `1e3` as a whole number, if it is one that floats keep exactly.
#[must_use]
pub fn whole(digits: &str) -> Option<u64> {
    const EXACT: u64 = 1 << 53;
    let number: f64 = digits.parse().ok()?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // what does not fit is cut, and not equal
    let whole = number as u64;
    #[allow(clippy::cast_precision_loss, clippy::float_cmp)] // exact below that
    let is_whole = whole < EXACT && whole as f64 == number;
    is_whole.then_some(whole)
}

/// The percentage that `0.1`, `10`, `10%` or one of these in quotes was meant for.
#[must_use]
pub fn percent_meant(written: &str) -> Option<u64> {
    let written = written.trim_matches('"');
    let digits = written.strip_suffix('%').unwrap_or(written).trim();
    match thousandths(digits)? {
        part @ 1..1000 if digits.len() == written.len() => part.is_multiple_of(10).then_some(part / 10),
        percent => percent.is_multiple_of(1000).then_some(percent / 1000),
    }
}

/// `` write it without quotes: `1.25` ``
#[must_use]
pub fn without_quotes(digits: &str) -> Text {
    Text::new().str("write it without quotes: `").text(&shortened(digits)).str("`")
}

#[cfg(test)]
mod tests {
    use super::{decimal, percent_meant, thousandths, whole};
    use crate::key::Key;

    #[test]
    fn numbers_are_meant() {
        assert_eq!(
            ["8.0", "1e3", "2.5", "-1.0", "1e300", "nan", ""].map(whole),
            [Some(8), Some(1000), None, None, None, None, None]
        );
        let meant = ["0.1", "10", "10%", "10 %", "\"10%\"", "7.5", "0.125", "0.5%", "1.0", ""].map(percent_meant);
        assert_eq!(meant, [Some(10), Some(10), Some(10), Some(10), Some(10), None, None, None, Some(1), None]);
        assert_eq!(decimal(Key::RoutingSkew, "-1.5").unwrap_err().as_str(), "`routing.skew` = -1.5 is negative");
        let exponent = decimal(Key::RoutingSkew, "1.5e1").unwrap_err();
        assert!(exponent.as_str().starts_with("`routing.skew` = 1.5e1 is written with an exponent"));
    }

    #[test]
    fn decimals_have_at_most_three_places() {
        let read = ["1", "1.", "1.2", "1.25", "0.001", "18446744073709551.615"].map(thousandths);
        let expected = [1000, 1000, 1200, 1250, 1, u64::MAX].map(Some);
        assert_eq!(read, expected);
        for wrong in ["", "1.2345", "-1", "1.-2", "1.+2", "NaN", "18446744073709551.616"] {
            assert_eq!(thousandths(wrong), None, "{wrong}");
        }
    }
}
