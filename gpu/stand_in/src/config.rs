//! What the environment says about the devices.

use crate::memory::Rules;
use std::time::Duration;

/// Settings, each from a variable of the environment.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// `STAND_IN_DEVICES`: how many devices there are.
    pub devices: usize,
    /// `STAND_IN_CAPACITY`, `STAND_IN_GRANULARITY`, `STAND_IN_UNWRITTEN`, `STAND_IN_DRY`.
    pub rules: Rules,
    /// `STAND_IN_FAIL_ALLOCATION`: the allocation, counted from 1 in the process, that is refused; 0 for none.
    pub fail_allocation: u64,
    /// `STAND_IN_FAIL_WORK`: the copy, fill, launch or product, counted from 1 in the process, that is refused; 0 for none.
    pub fail_work: u64,
    /// `STAND_IN_PATIENCE`: how long a rank waits for another, in milliseconds.
    pub patience: Duration,
    /// `STAND_IN_TRAFFIC`: every launch prints what it moved.
    pub reports_traffic: bool,
    /// `STAND_IN_BLOCK_RACES`: whether races between blocks in global memory are looked for.
    pub checks_blocks: bool,
    /// `STAND_IN_MAX_INSTRUCTIONS`: a launch of more instructions of warps is stopped; 0 for never.
    pub most_instructions: u64,
}

/// Bytes, with `KiB`, `MiB`, `GiB`, `kB`, `MB`, `GB` understood.
#[must_use]
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let number: u64 = text[..digits].replace('_', "").parse().ok()?;
    let unit = match text[digits..].trim() {
        "" | "B" => 1,
        "kB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

impl Config {
    /// From variables, given how one is looked up. What is not understood is said and ignored.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str, otherwise: u64| {
            let Some(text) = lookup(name) else { return otherwise };
            bytes(&text).unwrap_or_else(|| {
                eprintln!("stand-in: {name}={text} is not understood");
                otherwise
            })
        };
        let flag = |name: &str| lookup(name).is_some_and(|v| v == "1");
        Self {
            devices: usize::try_from(number("STAND_IN_DEVICES", 1)).unwrap_or(1),
            rules: Rules {
                // As much as an H200 shows.
                capacity: number("STAND_IN_CAPACITY", 150_110_011_392),
                granularity: number("STAND_IN_GRANULARITY", 1),
                refuse_unwritten: lookup("STAND_IN_UNWRITTEN").is_none_or(|v| v != "allow"),
                is_dry: flag("STAND_IN_DRY"),
            },
            fail_allocation: number("STAND_IN_FAIL_ALLOCATION", 0),
            fail_work: number("STAND_IN_FAIL_WORK", 0),
            patience: Duration::from_millis(number("STAND_IN_PATIENCE", 20_000)),
            reports_traffic: flag("STAND_IN_TRAFFIC"),
            checks_blocks: flag("STAND_IN_BLOCK_RACES"),
            most_instructions: number("STAND_IN_MAX_INSTRUCTIONS", 1 << 34),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Config, bytes};

    #[test]
    fn amounts_have_units() {
        assert_eq!(bytes("80 GiB"), Some(80 << 30));
        assert_eq!(bytes("1_000kB"), Some(1_000_000));
        assert_eq!(bytes("3 apples"), None);
    }

    #[test]
    fn what_is_not_set_has_a_default() {
        let config = Config::read(|name| (name == "STAND_IN_DEVICES").then(|| "4".into()));
        assert_eq!((config.devices, config.rules.granularity, config.rules.is_dry), (4, 1, false));
    }
}
