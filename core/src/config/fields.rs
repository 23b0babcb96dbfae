//! The fields of a config as a [`ModelType`](super::ModelType) asks for them. What is wrong is noted, and a number
//! stands in, so that everything is found at once; what nobody asked for is an error in the end.

use super::error::{Fault, Reason};
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use serde_json::{Map, Value};

pub(super) struct Fields<'j> {
    object: &'j Map<String, Value>,
    asked: BTreeSet<&'static str>,
    missing: Vec<&'static str>,
    faults: Vec<Fault>,
}

impl<'j> Fields<'j> {
    pub(super) fn new(object: &'j Map<String, Value>) -> Self {
        Self { object, asked: BTreeSet::new(), missing: Vec::new(), faults: Vec::new() }
    }

    /// A field that needs no look: it changes nothing.
    pub(super) fn pass(&mut self, name: &'static str) {
        self.asked.insert(name);
    }

    /// A value; none where the field is absent or null.
    fn value(&mut self, name: &'static str) -> Option<&'j Value> {
        self.asked.insert(name);
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// A number that may be absent or null.
    pub(super) fn optional(&mut self, name: &'static str) -> Option<u64> {
        let value = self.value(name)?;
        let number = value.as_u64();
        if number.is_none() {
            let is_large = value.as_f64().is_some_and(|number| number >= 18_446_744_073_709_551_616.0);
            let kind = if is_large { "a number of 64 bits" } else { "a whole number" };
            self.faults.push(Fault::of(name, value, Reason::NotA { kind }));
        }
        // A fault stands for itself: what depends on the number is not to be wrong as well.
        Some(number.unwrap_or(0))
    }

    /// A number that must be there: sizes are never guessed from the `model_type`.
    pub(super) fn number(&mut self, name: &'static str) -> u64 {
        self.optional(name).unwrap_or_else(|| {
            self.missing.push(name);
            0
        })
    }

    /// A number of things that there may be none of: null says so, but the field must be there.
    pub(super) fn number_or_null(&mut self, name: &'static str) -> u64 {
        if self.object.contains_key(name) { self.optional(name).unwrap_or(0) } else { self.number(name) }
    }

    /// One of some words; the place in their list.
    pub(super) fn word(&mut self, name: &'static str, words: &'static [&'static str]) -> Option<usize> {
        let value = self.value(name)?;
        let written = value.to_string();
        let place = words.iter().position(|word| written == *word);
        if place.is_none() {
            self.faults.push(Fault::of(name, value, Reason::Unsupported { supported: words }));
        }
        place
    }

    /// A field of which some values are supported, which all mean what its absence means.
    pub(super) fn only(&mut self, name: &'static str, values: &'static [&'static str]) {
        self.word(name, values);
    }

    /// A list.
    pub(super) fn list(&mut self, name: &'static str) -> Option<&'j [Value]> {
        let value = self.value(name)?;
        let list = value.as_array();
        if list.is_none() {
            self.faults.push(Fault::of(name, value, Reason::NotA { kind: "a list" }));
        }
        list.map(Vec::as_slice)
    }

    /// A field that contradicts others: `how` follows its value in the sentence. Nothing is said where one of them is
    /// wrong by itself.
    pub(super) fn contradicts(&mut self, name: &'static str, others: &[&str], how: String) {
        let is_wrong = |name: &str| self.missing.contains(&name) || self.faults.iter().any(|fault| fault.field == name);
        if !is_wrong(name) && !others.iter().any(|other| is_wrong(other)) {
            let value = self.object.get(name).unwrap_or(&Value::Null);
            self.faults.push(Fault::of(name, value, Reason::Contradicts { how }));
        }
    }

    /// All that is wrong. Fields that nobody asked for are; null ones may pass, since null says that what the field is
    /// for is absent, as its absence does.
    pub(super) fn into_faults(self, model_type: &'static str) -> Vec<Fault> {
        let Self { object, asked, missing, mut faults } = self;
        if !missing.is_empty() {
            faults.push(Fault::missing(&missing));
        }
        let unknown = object.iter().filter(|(name, value)| !value.is_null() && !asked.contains(name.as_str()));
        faults.extend(unknown.map(|(name, value)| Fault::of(name, value, Reason::Unknown { model_type })));
        faults
    }
}
