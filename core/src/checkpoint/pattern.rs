//! Names that differ in numbers, written once: `model.layers.{3..60}.mlp.experts.{0..255}.down_proj.weight`.

use crate::saturating::{add, mul};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// Names that differ in numbers. In braces stand the numbers, both ends included: `{0..60}`, every second one of them
/// `{0..60..2}`, a single one `{61}`, or several of these with commas between.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pattern {
    pieces: Vec<Piece>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Piece {
    Text(String),
    Numbers(Vec<Run>),
}

/// Numbers at the same distance from each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Run {
    first: u64,
    last: u64,
    step: u64,
}

impl Run {
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split("..");
        let first = number(numbers.next()?)?;
        let last = numbers.next().map_or(Some(first), number)?;
        let step = numbers.next().map_or(Some(1), number)?;
        let is_run = first <= last && step > 0 && numbers.next().is_none();
        is_run.then_some(Self { first, last, step })
    }

    /// Every so manieth number from one to another, the other not included; `None` if there are none.
    pub(super) fn of(first: u64, end: u64, step: u64) -> Option<Self> {
        let last = first + (end.checked_sub(first)?.checked_sub(1)?) / step * step;
        Some(Self { first, last, step: if last == first { 1 } else { step } })
    }

    /// Numbers that ascend, as runs of neighbours; alone at the same distance they are one run too, three or more of them.
    pub(super) fn all(numbers: impl Iterator<Item = u64>) -> Vec<Self> {
        let mut runs: Vec<Self> = Vec::new();
        for number in numbers {
            match runs.last_mut() {
                Some(run) if run.step == 1 && number == run.last + 1 => run.last = number,
                _ => runs.push(Self { first: number, last: number, step: 1 }),
            }
        }
        let mut joined: Vec<Self> = Vec::new();
        for run in runs {
            match joined[..] {
                [.., Self { first, last, step }] if step > 1 && run.count() == 1 && run.first == last + step => {
                    joined.pop();
                    joined.push(Self { first, last: run.first, step });
                }
                [.., a, b]
                    if [a, b, run].iter().all(|run| run.first == run.last)
                        && b.first - a.first == run.first - b.first =>
                {
                    joined.truncate(joined.len() - 2);
                    joined.push(Self { first: a.first, last: run.first, step: b.first - a.first });
                }
                _ => joined.push(run),
            }
        }
        joined
    }

    /// The first so many of its numbers, and the rest.
    pub(super) fn split(self, count: u64) -> (Option<Self>, Option<Self>) {
        let middle = add(self.first, mul(count, self.step));
        if middle > self.last {
            return (Some(self), None);
        }
        let rest = Self { first: middle, ..self };
        (Self::of(self.first, middle, self.step), Some(rest))
    }

    pub(super) const fn count(self) -> u64 {
        add((self.last - self.first) / self.step, 1)
    }
}

/// Runs as they stand in braces; `None` if there are none.
pub(super) fn braces(runs: impl Iterator<Item = Run>) -> Option<String> {
    let text = runs.map(|run| run.to_string()).collect::<Vec<_>>().join(",");
    if text.is_empty() { None } else { Some(format!("{{{text}}}")) }
}

/// Digits alone: a sign is part of the name, not of a number.
fn number(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// How many numbers some runs have.
fn counted(runs: &[Run]) -> u64 {
    runs.iter().fold(0, |sum, run| add(sum, run.count()))
}

/// One of the numbers of some runs.
fn at(runs: &[Run], mut index: u64) -> u64 {
    for run in runs {
        if index < run.count() {
            return run.first + index * run.step;
        }
        index -= run.count();
    }
    unreachable!("the index is less than the count")
}

impl Pattern {
    /// Reads one; `None` if braces are not closed or hold something else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((before, behind)) = rest.split_once('{') {
            let (inside, behind) = behind.split_once('}')?;
            pieces.push(Piece::Text(before.to_owned()));
            pieces.push(Piece::Numbers(inside.split(',').map(Run::parse).collect::<Option<_>>()?));
            rest = behind;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Some(Self { pieces })
    }

    /// How many names it stands for.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.pieces.iter().fold(1, |product, piece| match piece {
            Piece::Text(_) => product,
            Piece::Numbers(runs) => mul(product, counted(runs)),
        })
    }

    /// The names, one after the other; the last numbers run fastest.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.count()).map(|index| self.name(index))
    }

    fn name(&self, mut index: u64) -> String {
        let mut numbers = Vec::new();
        for piece in self.pieces.iter().rev() {
            if let Piece::Numbers(runs) = piece {
                numbers.push(at(runs, index % counted(runs)));
                index /= counted(runs);
            }
        }
        let mut name = String::new();
        for piece in &self.pieces {
            // Into a string nothing fails to be written.
            let _ = match piece {
                Piece::Text(text) => fmt::Write::write_str(&mut name, text),
                Piece::Numbers(_) => fmt::Write::write_fmt(&mut name, format_args!("{}", numbers.pop().unwrap_or(0))),
            };
        }
        name
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => f.write_str(text)?,
                Piece::Numbers(runs) => {
                    for (i, run) in runs.iter().enumerate() {
                        write!(f, "{}{run}", if i == 0 { "{" } else { "," })?;
                    }
                    f.write_str("}")?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last, step } = self;
        match (last - first, step) {
            (0, 1) => write!(f, "{first}"),
            (_, 1) => write!(f, "{first}..{last}"),
            _ => write!(f, "{first}..{last}..{step}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    fn names(pattern: &str) -> Vec<String> {
        let read = Pattern::parse(pattern).unwrap_or_else(|| panic!("{pattern} can be read"));
        assert_eq!(read.to_string(), pattern);
        let names: Vec<String> = read.names().collect();
        assert_eq!(read.count(), names.len() as u64);
        names
    }

    #[test]
    fn stand_for_names() {
        assert_eq!(names("model.norm.weight"), ["model.norm.weight"]);
        assert_eq!(names("a.{2..4}.b"), ["a.2.b", "a.3.b", "a.4.b"]);
        assert_eq!(names("{1..6..2}{0}x"), ["10x", "30x", "50x"]);
        assert_eq!(names("a{0..1,5,7..9..2}"), ["a0", "a1", "a5", "a7", "a9"]);
        assert_eq!(names("l{0..1}.e{8..9}"), ["l0.e8", "l0.e9", "l1.e8", "l1.e9"]);
        assert_eq!(names(&alloc::format!("{{{}}}", u64::MAX)), [u64::MAX.to_string()]);
    }

    #[test]
    fn count_without_listing() {
        let all = alloc::format!("{{0..{0}}}{{0..{0}}}", u64::MAX);
        assert_eq!(Pattern::parse(&all).expect("it can be read").count(), u64::MAX);
    }

    #[test]
    fn what_is_none() {
        for text in ["{", "a{0", "{}", "{a}", "{1..}", "{2..1}", "{0..4..0}", "{0..4..1..1}", "{0,}", "{-1}", "{+1}"] {
            assert_eq!(Pattern::parse(text), None, "{text}");
        }
    }
}
