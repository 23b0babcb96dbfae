//! Where keys stand in a file: the line and column of each path, such as `mesh.tp`.

use serde::Serialize;
use std::collections::BTreeMap;
use toml::de::{DeTable, DeValue};

/// A place in a text, if there is one: line and column counted from 1, columns in characters.
#[derive(Clone, Copy, Default, Serialize, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) line: Option<usize>,
    pub(crate) column: Option<usize>,
}

impl Place {
    /// The place of a byte.
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        let before = &text[..text.floor_char_boundary(offset)];
        let line = before.rsplit('\n').next().unwrap_or_default();
        Self { line: Some(before.matches('\n').count() + 1), column: Some(line.chars().count() + 1) }
    }
}

/// The places of keys, by their paths. Groups hold no groups, so that paths have two names at most.
#[derive(Default)]
pub(crate) struct Places {
    offsets: BTreeMap<String, usize>,
}

/// No group has a longer name: what stands in one is of no interest, and its path would only take room.
const LONGEST: usize = 64;

impl Places {
    /// Of a table with spans.
    pub(crate) fn of_toml(table: &DeTable<'_>) -> Self {
        let mut places = Self::default();
        for (name, value) in table {
            places.offsets.insert(name.get_ref().to_string(), name.span().start);
            if let DeValue::Table(group) = value.get_ref()
                && name.get_ref().len() <= LONGEST
            {
                let inside =
                    group.keys().map(|key| (format!("{}.{}", name.get_ref(), key.get_ref()), key.span().start));
                places.offsets.extend(inside);
            }
        }
        places
    }

    /// Of a text that is known to be JSON. There, a string with a colon behind it is a key and nothing else is. Of a
    /// key that stands twice the last place is kept.
    pub(crate) fn of_json(text: &str) -> Self {
        let mut places = Self::default();
        let (mut depth, mut at, mut group) = (0_usize, 0, String::new());
        while let Some(&byte) = text.as_bytes().get(at) {
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'"' => {
                    let end = end_of_string(text.as_bytes(), at);
                    let is_key = text[end..].trim_start().starts_with(':');
                    if is_key && let Ok(name) = serde_json::from_str::<String>(&text[at..end]) {
                        match depth {
                            1 => {
                                places.offsets.insert(name.clone(), at);
                                group = name;
                            }
                            2 if group.len() <= LONGEST => {
                                places.offsets.insert(format!("{group}.{name}"), at);
                            }
                            _ => {}
                        }
                    }
                    at = end;
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        places
    }

    /// Where a key stands, or else the group that it would stand in.
    pub(crate) fn of(&self, path: &str) -> Option<usize> {
        let group = || self.offsets.get(path.split_once('.')?.0);
        self.offsets.get(path).or_else(group).copied()
    }
}

/// The byte behind a string that begins at a quote.
fn end_of_string(text: &[u8], quote: usize) -> usize {
    let mut at = quote + 1;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}
