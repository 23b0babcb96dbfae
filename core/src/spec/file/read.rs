//! From a file to a Spec: each key is looked up in the table of keys, each value read as that table says. One fault
//! never hides another.

use super::leaf::{self, Complaint, cannot_be};
use super::tree::{Document, Node};
use super::{ARCHITECTURE, Declared, Fault, Faults, KIND};
use crate::key::{Key, KeySet};
use crate::misread::{
    given_twice, has_no_key, key_help, key_meant, lacks, listed, name_help, one_of, unread_in_serving,
};
use crate::preset::PRESETS;
use crate::spec::{Architecture, Field, Kind, LayerList, Layout, Spec, StageList, Value, Word};
use crate::text::Text;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub(super) fn read(document: &Document) -> Result<Declared, Faults> {
    let mut reading = Reading { spec: Spec::DEFAULT, written: KeySet::EMPTY, list: Vec::new() };
    // A preset first: keys beside it hold instead of its own, wherever they stand.
    let mut presets = document.entries.iter().filter(|(name, _)| name == ARCHITECTURE).map(|(_, node)| node);
    let has_preset = presets.next().map(|node| reading.preset(node)).is_some();
    if presets.next().is_some() {
        reading.fault(ARCHITECTURE, format!("`{ARCHITECTURE}` is given twice"), "");
    }
    let keys = document.entries.iter().filter(|(name, _)| name != ARCHITECTURE);
    reading.group(None, &[Architecture::FIELDS, Layout::FIELDS], keys, has_preset);
    let Reading { spec, written, list } = reading;
    if list.is_empty() { Ok(Declared { spec, written }) } else { Err(Faults { list }) }
}

struct Reading {
    spec: Spec,
    written: KeySet,
    list: Vec<Fault>,
}

type Entry = (String, Node);

impl Reading {
    /// All keys of a group, or of the Spec itself.
    fn group<'e>(
        &mut self,
        owner: Option<Key>,
        fields: &[&'static [Field]],
        entries: impl Iterator<Item = &'e Entry>,
        has_preset: bool,
    ) {
        let fields = || fields.iter().copied().flatten();
        let mut given = KeySet::EMPTY;
        // Misspelt keys are not missing too.
        let mut meant = Vec::new();
        for (name, node) in entries {
            let Some(field) = fields().find(|field| field.key.name() == name) else {
                let names = fields().map(|field| field.key.name());
                meant.extend(key_meant(name, names.clone()));
                self.unknown(owner, name, names);
                continue;
            };
            if given.has(field.key) {
                self.fault(field.key.path(), given_twice(field.key), "");
                continue;
            }
            given = given.with(field.key);
            self.value(field, node);
        }
        let is_given = |key: Key| given.has(key) || has_preset && !key.is_layout() || meant.contains(&key.name());
        let mut spec = self.spec;
        // What was meant to serve lacks nothing of training.
        if given.has(Key::Serving) && !self.written.has(Key::Serving) {
            spec.choose(Key::Serving, 0);
        }
        if owner.is_none() && self.spec.layout.served().is_some() && given.has(Key::Accounting) {
            let [message, help] = unread_in_serving();
            self.fault(Key::Accounting.path(), message, help);
        }
        let missing = fields().filter(|field| field.is_required(&spec) && !is_given(field.key));
        if let Some(message) = lacks(&named(owner), missing.map(|field| field.key.name())) {
            self.fault(owner.map_or("", Key::path), message, "");
        }
    }

    /// All keys of a published architecture, by its name.
    fn preset(&mut self, node: &Node) {
        let name = if let Node::Words(name) = node { name } else { "" };
        if let Some(preset) = PRESETS.iter().find(|preset| preset.name == name) {
            self.spec.architecture = preset.architecture;
            let numbers = self.spec.numbers();
            let keys = Key::ALL.iter().filter(|key| !key.is_layout() && numbers.get(**key).is_some());
            self.written = keys.fold(self.written, |written, key| written.with(*key));
            return;
        }
        let names = || PRESETS.iter().map(|preset| preset.name);
        let help = name_help(name, names()).unwrap_or_else(|| Text::new().str("presets are ").text(&listed(names())));
        self.fault(ARCHITECTURE, cannot_be(ARCHITECTURE, node), help);
    }

    fn unknown<'n>(&mut self, owner: Option<Key>, name: &str, names: impl Iterator<Item = &'n str> + Clone) {
        let is_top = [Architecture::FIELDS, Layout::FIELDS].into_iter().flatten().any(|field| field.key.name() == name);
        // In TOML what stands behind a table's header is the table's.
        let help = match owner {
            Some(owner) if is_top => format!("`{name}` stands outside `{}`", owner.path()),
            _ => key_help(owner, name, names).to_string(),
        };
        let path = owner.map_or_else(|| name.to_string(), |owner| format!("{}.{name}", owner.path()));
        self.fault(path, has_no_key(&named(owner), name), help);
    }

    fn value(&mut self, field: &'static Field, node: &Node) {
        if let (Value::Choice { words, kinds: kinds @ [_, ..] }, Node::Table(entries)) = (&field.value, node) {
            self.table(field.key, words, kinds, entries);
            return;
        }
        if let Some(text) = list_of(field, node) {
            self.list(if field.key == Key::LayersList { Key::LayersList } else { Key::StagesList }, text);
            return;
        }
        match leaf::read(field, node) {
            Ok(code) => {
                self.spec.set(field.key, code);
                self.written = self.written.with(field.key);
            }
            Err(Complaint { message, help }) => self.fault(field.key.path(), message, help),
        }
    }

    /// A layer list, or a layout string in its own place or in that of its group.
    fn list(&mut self, key: Key, text: &str) {
        let read = if key == Key::LayersList {
            LayerList::read(text).map(|list| self.spec.architecture.layers.list = list)
        } else {
            StageList::read(text).map(|list| self.spec.layout.stages.list = list)
        };
        match read {
            Ok(()) => self.written = self.written.with(key),
            Err(fault) => {
                let text = fault.text();
                let (message, help) = text.as_str().split_once("\n= help: ").unwrap_or((text.as_str(), ""));
                self.fault(key.path(), message, help);
            }
        }
    }

    /// A group, of the kind that it names or of the only one.
    fn table(&mut self, key: Key, words: &[Word], kinds: &'static [Kind], entries: &[Entry]) {
        let mut named = entries.iter().filter(|(name, _)| name == KIND).map(|(_, node)| node);
        let place = match named.next() {
            Some(node) => self.kind(key, words, kinds, node),
            None if kinds.len() == 1 => Some(0),
            None => {
                let help = format!("it is {}", one_of(kinds.iter().map(|kind| kind.word)));
                self.fault(key.path(), format!("`{}` lacks `{KIND}`", key.path()), help);
                None
            }
        };
        if named.next().is_some() {
            let path = format!("{}.{KIND}", key.path());
            self.fault(path.as_str(), format!("`{path}` is given twice"), "");
        }
        // Of what kind it was meant to be is not known: nor are its keys.
        let Some(place) = place else { return };
        self.spec.choose(key, place as u64);
        self.written = self.written.with(key);
        let keys = entries.iter().filter(|(name, _)| name != KIND);
        self.group(Some(key), &[kinds[place].fields], keys, false);
    }

    /// The place of the kind that a table names.
    fn kind(&mut self, key: Key, words: &[Word], kinds: &[Kind], node: &Node) -> Option<usize> {
        let written = if let Node::Words(written) = node { written } else { "" };
        let place = kinds.iter().position(|kind| kind.word == written);
        if place.is_none() {
            let names = || kinds.iter().map(|kind| kind.word);
            let help = if words.iter().any(|word| word.word == written) {
                format!("`{written}` takes no keys: write it in the table's place")
            } else {
                name_help(written, names()).unwrap_or_else(|| Text::new().str("write ").text(&one_of(names()))).into()
            };
            let path = format!("{}.{KIND}", key.path());
            self.fault(path.as_str(), cannot_be(&path, node), help);
        }
        place
    }

    fn fault(&mut self, path: impl Into<String>, message: impl Into<String>, help: impl Into<String>) {
        self.list.push(Fault { path: path.into(), message: message.into(), help: help.into() });
    }
}

/// The layout string or layer list that stands in a value's place.
fn list_of<'n>(field: &Field, node: &'n Node) -> Option<&'n str> {
    match (&field.value, node) {
        (Value::StageList | Value::LayerList, Node::Words(text)) => Some(text),
        (Value::Choice { .. }, Node::Words(text)) if field.key == Key::Stages && StageList::is_meant_by(text) => {
            Some(text)
        }
        _ => None,
    }
}

/// Whose keys are read, as a sentence needs it.
fn named(owner: Option<Key>) -> String {
    owner.map_or_else(|| "the Spec".to_string(), |key| format!("`{}`", key.path()))
}
