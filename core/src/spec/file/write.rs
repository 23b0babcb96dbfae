//! From a Spec to a file: every key that the Spec has, in the order of the table of keys.

use super::KIND;
use super::leaf::Leaf;
use crate::key::Numbers;
use crate::spec::{Architecture, Field, Kind, Layout, Spec, Value};
use alloc::format;
use serde::ser::{Error, SerializeMap};
use serde::{Serialize, Serializer};

impl Serialize for Spec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let numbers = self.numbers();
        let mut map = serializer.serialize_map(Some(Architecture::FIELDS.len() + Layout::FIELDS.len()))?;
        for field in [Architecture::FIELDS, Layout::FIELDS].into_iter().flatten() {
            entry(&mut map, field, &numbers)?;
        }
        map.end()
    }
}

/// A group of one kind.
struct Group<'s> {
    /// The kind's word, where there are several.
    word: Option<&'static str>,
    fields: &'static [Field],
    numbers: &'s Numbers,
}

impl Serialize for Group<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.fields.len() + usize::from(self.word.is_some())))?;
        if let Some(word) = self.word {
            map.serialize_entry(KIND, word)?;
        }
        for field in self.fields {
            entry(&mut map, field, self.numbers)?;
        }
        map.end()
    }
}

fn entry<M: SerializeMap>(map: &mut M, field: &'static Field, numbers: &Numbers) -> Result<(), M::Error> {
    let name = field.key.name();
    if let Value::Choice { kinds: kinds @ [_, ..], .. } = &field.value {
        let Some(kind) = kind_of(kinds, numbers) else {
            return Err(M::Error::custom(format!("`{}` is of no kind", field.key.path())));
        };
        let word = if kinds.len() > 1 { Some(kind.word) } else { None };
        return map.serialize_entry(name, &Group { word, fields: kind.fields, numbers });
    }
    map.serialize_entry(name, &Leaf { field, code: numbers.of(field.key) })
}

/// The kind that a Spec has: it has all its keys, and of kinds that share keys it is the one with most.
fn kind_of(kinds: &'static [Kind], numbers: &Numbers) -> Option<&'static Kind> {
    let is_whole = |kind: &&Kind| kind.fields.iter().all(|field| numbers.get(field.key).is_some());
    kinds.iter().filter(is_whole).max_by_key(|kind| kind.fields.len())
}
