//! From a Spec to a file: every key that the Spec has, in the order of the table of keys.

use super::KIND;
use super::leaf::Leaf;
use crate::key::{Key, Numbers};
use crate::law;
use crate::spec::{Architecture, Batch, Field, Kind, Layout, Mixer, Spec, Value};
use alloc::format;
use serde::ser::{Error, SerializeMap};
use serde::{Serialize, Serializer};

impl Serialize for Spec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let from = From { numbers: self.raw_numbers(), spec: self };
        let mut map = serializer.serialize_map(Some(Architecture::FIELDS.len() + Layout::FIELDS.len()))?;
        for field in [Architecture::FIELDS, Layout::FIELDS].into_iter().flatten() {
            entry(&mut map, field, &from)?;
        }
        map.end()
    }
}

/// What a Spec holds: numbers, and what is none.
struct From<'s> {
    numbers: Numbers,
    spec: &'s Spec,
}

/// A group of one kind.
struct Group<'s> {
    /// The kind's word, where there are several.
    word: Option<&'static str>,
    fields: &'static [Field],
    from: &'s From<'s>,
}

impl Serialize for Group<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(word) = self.word {
            map.serialize_entry(KIND, word)?;
        }
        for field in self.fields {
            entry(&mut map, field, self.from)?;
        }
        map.end()
    }
}

fn entry<M: SerializeMap>(map: &mut M, field: &'static Field, from: &From<'_>) -> Result<(), M::Error> {
    let name = field.key.name();
    // What was not said is not written: no list, no mixer, nothing of training where there is none, and no number that follows from others.
    let is_unsaid = match field.key {
        Key::StagesList => from.spec.layout.stages.list.is_none(),
        Key::LayersList => from.spec.architecture.layers.list.is_none(),
        Key::Mixer => matches!(from.spec.architecture.mixer, Mixer::None),
        Key::Serving => from.spec.layout.served().is_none(),
        Key::Batch => from.spec.layout.served().is_some() && from.spec.layout.batch == Batch::DEFAULT,
        Key::Accounting => from.spec.layout.served().is_some(),
        key => law::follows_at_zero(key) && from.numbers.of(key) == 0,
    };
    if is_unsaid {
        return Ok(());
    }
    if let Value::Choice { kinds: kinds @ [_, ..], .. } = &field.value {
        let Some(kind) = Kind::chosen(kinds, &from.numbers) else {
            return Err(M::Error::custom(format!("`{}` is of no kind", field.key.path())));
        };
        let word = if kinds.len() > 1 { Some(kind.word) } else { None };
        return map.serialize_entry(name, &Group { word, fields: kind.fields, from });
    }
    map.serialize_entry(name, &Leaf { field, code: from.numbers.of(field.key), spec: from.spec })
}
