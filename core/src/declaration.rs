//! A declaration out of an architecture: `moe_model!` as its user would have written it, by the table of keys.

use crate::key::{Key, Numbers};
use crate::spec::{Architecture, Attention, Field, Kind, Layout, Mixer, Spec, Value, Word};
use crate::text::Text;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// A longer line is broken.
const WIDTH: usize = 100;

impl Architecture {
    /// A `moe_model!` of this name, ready to paste: required keys, and those that differ from their defaults. The lines
    /// of `about` become its documentation.
    ///
    /// ```
    /// let text = moe_model_core::preset::LLAMA_3_1_8B.declaration("Llama", "Llama 3.1 8B.");
    /// assert_eq!(
    ///     text,
    ///     "moe_model::moe_model! {
    ///     /// Llama 3.1 8B.
    ///     pub struct Llama;
    ///
    ///     hidden: 4096,
    ///     vocab: 128_256,
    ///     layers: layers { dense: 32, ffn: 14_336 },
    ///     attention: gqa { heads: 32, kv_heads: 8, head_dim: 128 },
    /// }
    /// "
    /// );
    /// ```
    #[must_use]
    pub fn declaration(&self, name: &str, about: &str) -> String {
        let numbers = Spec { architecture: *self, layout: Layout::DEFAULT }.numbers();
        let defaults = self.defaults();
        let about = about.lines().map(|line| format!("    /// {line}").trim_end().to_string());
        let keys = Self::FIELDS.iter().flat_map(|field| said(field, self, &numbers, &defaults));
        let lines = ["moe_model::moe_model! {".to_string()].into_iter().chain(about);
        let lines = lines.chain([format!("    pub struct {name};"), String::new()]);
        lines.chain(keys).chain(["}".to_string()]).fold(String::new(), |text, line| text + &line + "\n")
    }

    /// What absent keys mean under the same kinds of attention and mixer.
    fn defaults(&self) -> Numbers {
        let numbers = Spec { architecture: *self, layout: Layout::DEFAULT }.numbers();
        let mut defaults = Spec::DEFAULT;
        for (key, kinds) in [(Key::Attention, Attention::KINDS), (Key::Mixer, Mixer::KINDS)] {
            if let Some(chosen) = Kind::chosen(kinds, &numbers)
                && let Some(place) = kinds.iter().position(|kind| kind.word == chosen.word)
            {
                defaults.choose(key, place as u64);
            }
        }
        defaults.numbers()
    }
}

/// The lines of a key; none if it is not to be said.
fn said(field: &Field, of: &Architecture, numbers: &Numbers, defaults: &Numbers) -> Vec<String> {
    let name = field.key.name();
    let Value::Choice { kinds: kinds @ [_, ..], .. } = &field.value else {
        return leaf(field, of, numbers, defaults).map(|value| format!("    {name}: {value},")).into_iter().collect();
    };
    let Some(kind) = Kind::chosen(kinds, numbers) else { return Vec::new() };
    let value = |field: &Field| Some(format!("{}: {}", field.key.name(), leaf(field, of, numbers, defaults)?));
    let inside: Vec<String> = kind.fields.iter().filter_map(value).collect();
    if inside.is_empty() && !field.required {
        return Vec::new();
    }
    let line = format!("    {name}: {} {{ {} }},", kind.word, inside.join(", "));
    if line.len() <= WIDTH {
        return Vec::from([line]);
    }
    let lines = filled(&inside).into_iter();
    [format!("    {name}: {} {{", kind.word)].into_iter().chain(lines).chain(["    },".to_string()]).collect()
}

/// As many on a line as it holds.
fn filled(values: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for value in values {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + value.len() < WIDTH => line.extend([" ", value, ","]),
            _ => lines.push(format!("        {value},")),
        }
    }
    lines
}

/// The value of a key, if it is to be said.
fn leaf(field: &Field, of: &Architecture, numbers: &Numbers, defaults: &Numbers) -> Option<String> {
    let code = numbers.get(field.key)?;
    if !field.required && code == defaults.of(field.key) {
        return None;
    }
    match &field.value {
        Value::Number { .. } => Some(grouped(code)),
        Value::Decimal => Some(Text::new().thousandths(code).as_str().to_string()),
        Value::Percent => Some(format!("percent({code})")),
        Value::Choice { words, .. } => word(words, code).map(ToString::to_string),
        Value::LayerList => Some(format!("\"{}\"", of.layers.list)),
        // No key of an architecture holds one.
        Value::StageList => None,
    }
}

fn word(words: &'static [Word], code: u64) -> Option<&'static str> {
    words.get(usize::try_from(code).ok()?).map(|word| word.word)
}

/// Digits in groups of three, from five digits on.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('_');
        }
        text.push(digit);
    }
    text
}
