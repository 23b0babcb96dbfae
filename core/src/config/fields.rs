//! The fields of a config as a [`ModelType`](super::ModelType) asks for them. What is wrong is noted, and a number
//! stands in, so that everything is found at once; what nobody asked for is an error in the end.

use super::error::{Fault, Reason};
use crate::spec::Switch;
use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use serde_json::{Map, Value};

pub(super) struct Fields<'j> {
    model_type: &'static str,
    object: &'j Map<String, Value>,
    asked: BTreeSet<&'static str>,
    missing: Vec<String>,
    faults: Vec<Fault>,
    /// What nobody asked for in the objects within.
    unknown: Vec<Fault>,
}

/// Fields of an object that are not read.
pub(super) struct Idle {
    /// Fields of which one meaning is supported, with the values that have it, as JSON. Without the field, or with null,
    /// the published code means the same.
    pub(super) only: &'static [(&'static str, &'static [&'static str])],
    /// Fields that change no tensor's shape or number, beside [`BOOKKEEPING`].
    pub(super) ignored: &'static [&'static str],
}

/// Fields of any model that change no tensor's shape or number: who wrote the file, tokens with a role, initial values,
/// dropout, positions, training losses, number formats.
const BOOKKEEPING: &[&str] = &[
    "_attn_implementation_autoset",
    "_name_or_path",
    "attention_dropout",
    "auto_map",
    "bos_token_id",
    "dtype",
    "eos_token_id",
    "initializer_range",
    "max_position_embeddings",
    "output_router_logits",
    "pad_token_id",
    "partial_rotary_factor",
    "pretraining_tp",
    "quantization_config",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "router_aux_loss_coef",
    "torch_dtype",
    "transformers_version",
    "use_cache",
];

impl<'j> Fields<'j> {
    pub(super) fn new(object: &'j Map<String, Value>, model_type: &'static str) -> Self {
        let (asked, missing, faults, unknown) = (BTreeSet::new(), Vec::new(), Vec::new(), Vec::new());
        Self { model_type, object, asked, missing, faults, unknown }
    }

    /// A field that needs no look: it changes nothing.
    pub(super) fn pass(&mut self, name: &'static str) {
        self.asked.insert(name);
    }

    /// Fields that are not read.
    pub(super) fn idle(&mut self, idle: &Idle) {
        for (name, values) in idle.only {
            self.word(name, values);
        }
        BOOKKEEPING.iter().chain(idle.ignored).for_each(|name| self.pass(name));
    }

    /// An object within, whose fields are read, refused and missed as those around it are, by their path.
    pub(super) fn nested<T>(&mut self, name: &'static str, idle: &Idle, read: impl FnOnce(&mut Fields<'_>) -> T) -> T {
        let (value, nothing) = (self.value(name), Map::new());
        let object = value.and_then(Value::as_object);
        let mut inner = Fields::new(object.unwrap_or(&nothing), self.model_type);
        let read = read(&mut inner);
        inner.idle(idle);
        match (object, value) {
            (Some(_), _) => {
                let path = |field: &str| format!("{name}.{field}");
                let renamed = |fault: Fault| Fault { field: path(&fault.field), ..fault };
                let mut unknown = inner.not_asked_for();
                unknown.append(&mut inner.unknown);
                self.missing.extend(inner.missing.iter().map(|field| path(field)));
                self.faults.extend(inner.faults.into_iter().map(renamed));
                self.unknown.extend(unknown.into_iter().map(renamed));
            }
            (None, Some(value)) => self.faults.push(Fault::of(name, value, Reason::NotA { kind: "an object" })),
            (None, None) => self.missing.push(name.to_owned()),
        }
        read
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

    /// Whether a field is there.
    pub(super) fn has(&mut self, name: &'static str) -> bool {
        self.value(name).is_some()
    }

    /// A field that must be there: without it the published code means something else, or nobody knows what.
    pub(super) fn needed(&mut self, name: &'static str) {
        if !self.has(name) {
            self.missing.push(name.to_owned());
        }
    }

    /// A number that must be there: sizes are never guessed from the `model_type`.
    pub(super) fn number(&mut self, name: &'static str) -> u64 {
        self.optional(name).unwrap_or_else(|| {
            self.missing.push(name.to_owned());
            0
        })
    }

    /// A number of things that there may be none of: null says so, but the field must be there.
    pub(super) fn number_or_null(&mut self, name: &'static str) -> u64 {
        if self.object.contains_key(name) { self.optional(name).unwrap_or(0) } else { self.number(name) }
    }

    /// A number that was read and must not be 0, which would say something else to us.
    pub(super) fn above_0(&mut self, name: &'static str, number: u64) -> u64 {
        if number == 0 {
            self.contradicts(name, &[], "is not a number above 0".to_owned());
        }
        number
    }

    /// Such a number that must be there.
    pub(super) fn positive(&mut self, name: &'static str) -> u64 {
        let number = self.number(name);
        self.above_0(name, number)
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

    /// A value of any kind that somebody else reads.
    pub(super) fn raw(&mut self, name: &'static str) -> Option<&'j Value> {
        self.value(name)
    }

    /// A text, where the value is one.
    pub(super) fn text(&mut self, name: &'static str) -> Option<&'j str> {
        self.value(name).and_then(Value::as_str)
    }

    /// Something that must be known beside the fields.
    pub(super) fn lacks(&mut self, name: &str) {
        self.missing.push(name.to_owned());
    }

    /// A field whose effect is not modelled, unless it says that there is none.
    pub(super) fn refuse(&mut self, name: &'static str, why: &'static str) {
        let is_off =
            |value: &&Value| *value == false || value.as_str().is_some_and(|word| word == "none" || word == "adam");
        if let Some(value) = self.value(name).filter(|value| !is_off(value)) {
            self.refuse_value(name, value, why);
        }
    }

    /// A field without which something follows that is not modelled.
    pub(super) fn refuse_absent(&mut self, name: &'static str, why: &'static str) {
        self.refuse_value(name, &Value::Null, why);
    }

    /// A value whose effect is not modelled.
    pub(super) fn refuse_value(&mut self, name: &str, value: &Value, why: &'static str) {
        self.faults.push(Fault::of(name, value, Reason::NotModelled { why }));
    }

    /// Whether a field is a certain word, where it may be something else too.
    pub(super) fn is(&mut self, name: &'static str, word: &str) -> bool {
        self.value(name).is_some_and(|value| value == word)
    }

    /// Whether something is there; `absent` is what the published code takes the field's absence for.
    pub(super) fn switch(&mut self, name: &'static str, absent: Switch) -> Switch {
        let Some(value) = self.value(name) else { return absent };
        match value.as_bool() {
            Some(true) => Switch::On,
            Some(false) => Switch::Off,
            None => {
                self.faults.push(Fault::of(name, value, Reason::NotA { kind: "true or false" }));
                absent
            }
        }
    }

    /// A list of words, each of which means the same to us.
    pub(super) fn each(&mut self, name: &'static str, words: &[&str]) {
        self.items(name, |item| item.as_str().filter(|word| words.contains(word)).map(drop));
    }

    /// The items of a list, as `read` takes them; none where there is no list, or an item that `read` does not know.
    pub(super) fn items<T>(&mut self, name: &'static str, read: impl Fn(&Value) -> Option<T>) -> Vec<T> {
        let items = self.list(name).unwrap_or_default().iter();
        self.all_known(name, items.map(|item| read(item).ok_or_else(|| item.clone())).collect())
    }

    /// The letters of a word, as `read` takes them; none where there is no word, or a letter that `read` does not know.
    pub(super) fn letters<T>(&mut self, name: &'static str, read: impl Fn(char) -> Option<T>) -> Vec<T> {
        let value = self.value(name);
        let word = value.and_then(Value::as_str);
        if let (Some(value), None) = (value, word) {
            self.faults.push(Fault::of(name, value, Reason::NotA { kind: "a string" }));
        }
        let letters = word.unwrap_or_default().chars();
        self.all_known(name, letters.map(|letter| read(letter).ok_or_else(|| letter.to_string().into())).collect())
    }

    /// All that a field holds, unless something in it is not known.
    fn all_known<T>(&mut self, name: &'static str, read: Result<Vec<T>, Value>) -> Vec<T> {
        read.unwrap_or_else(|other| {
            self.contradicts(name, &[], format!("holds {other}, which is not supported yet"));
            Vec::new()
        })
    }

    /// What holds so many items must hold one for each layer.
    pub(super) fn one_a_layer(&mut self, name: &'static str, items: usize, layers: u64) {
        if items as u64 != layers {
            let how = format!("is not a list of as many as `num_hidden_layers` = {layers}");
            self.contradicts(name, &["num_hidden_layers"], how);
        }
    }

    /// A number of every layer: one for all, or a list of one for each, which must be the same.
    pub(super) fn uniform(&mut self, name: &'static str, layers: u64) -> u64 {
        let Some(list) = self.object.get(name).and_then(Value::as_array) else { return self.number(name) };
        self.asked.insert(name);
        let Some(first) = list.first().and_then(Value::as_u64) else {
            self.contradicts(name, &[], "is not a list of whole numbers".to_owned());
            return 0;
        };
        if list.iter().any(|item| item.as_u64() != Some(first)) {
            self.contradicts(name, &[], "is not the same in every layer: no other is supported yet".to_owned());
        }
        self.one_a_layer(name, list.len(), layers);
        first
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
        let is_wrong = |name: &str| {
            self.missing.iter().any(|field| field == name) || self.faults.iter().any(|fault| fault.field == name)
        };
        if !is_wrong(name) && !others.iter().any(|other| is_wrong(other)) {
            let value = self.object.get(name).unwrap_or(&Value::Null);
            self.faults.push(Fault::of(name, value, Reason::Contradicts { how }));
        }
    }

    /// Fields that nobody asked for; null ones may pass, since null says that what the field is for is absent, as its
    /// absence does.
    fn not_asked_for(&self) -> Vec<Fault> {
        let model_type = self.model_type;
        let unknown =
            self.object.iter().filter(|(name, value)| !value.is_null() && !self.asked.contains(name.as_str()));
        unknown.map(|(name, value)| Fault::of(name, value, Reason::Unknown { model_type })).collect()
    }

    /// All that is wrong.
    pub(super) fn into_faults(self) -> Vec<Fault> {
        let unknown = self.not_asked_for();
        let Self { missing, mut faults, unknown: within, .. } = self;
        if !missing.is_empty() {
            faults.push(Fault::missing(missing, self.model_type));
        }
        faults.extend(within);
        faults.extend(unknown);
        faults
    }
}
