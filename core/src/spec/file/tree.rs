//! What a file says before any key is looked up. `kind` may stand behind the keys that it gives a meaning to, and what
//! is wrong in one place must not hide what is wrong in another: hence all of it is taken in first.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A file as it stands: names and values, none of them looked up yet.
#[derive(Clone, Debug)]
pub struct Document {
    pub(super) entries: Vec<(String, Node)>,
}

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// A whole number, of either sign and any size that a format has.
    Whole(i128),
    /// A number with a point, or a whole one that is larger still.
    Float(f64),
    Switch(bool),
    Words(String),
    /// What no key takes: its parts are not kept.
    List,
    Nothing,
    Table(Vec<(String, Node)>),
}

/// Tables within tables that are kept: the document's, those of groups, and a few more for keys to come. Deeper ones
/// are wrong wherever they stand.
const DEPTH: usize = 4;

impl<'de> serde::Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = deserializer.deserialize_map(Entries { depth: 0 })?;
        Ok(Self { entries })
    }
}

/// Takes in a table.
struct Entries {
    depth: usize,
}

impl<'de> Visitor<'de> for Entries {
    type Value = Vec<(String, Node)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of keys")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        if self.depth >= DEPTH {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(entries);
        }
        while let Some(name) = map.next_key::<String>()? {
            entries.push((name, map.next_value_seed(Inside { depth: self.depth + 1 })?));
        }
        Ok(entries)
    }
}

/// Takes in any value.
struct Inside {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Inside {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Inside {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, a word or a table of keys")
    }

    fn visit_bool<E: Error>(self, switch: bool) -> Result<Node, E> {
        Ok(Node::Switch(switch))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Whole(number.into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Node, E> {
        Ok(Node::Whole(number.into()))
    }

    fn visit_i128<E: Error>(self, number: i128) -> Result<Node, E> {
        Ok(Node::Whole(number))
    }

    fn visit_u128<E: Error>(self, number: u128) -> Result<Node, E> {
        // That it is too large is all that will be said of it.
        Ok(Node::Whole(number.try_into().unwrap_or(i128::MAX)))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Node, E> {
        Ok(Node::Float(number))
    }

    fn visit_str<E: Error>(self, words: &str) -> Result<Node, E> {
        Ok(Node::Words(words.to_owned()))
    }

    fn visit_string<E: Error>(self, words: String) -> Result<Node, E> {
        Ok(Node::Words(words))
    }

    fn visit_none<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Nothing)
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Node::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Node, A::Error> {
        Entries { depth: self.depth }.visit_map(map).map(Node::Table)
    }
}
