//! How keys are described, and the macros by which a group is written once: its struct, its documentation, its
//! [`Field`]s and its numbers by key.

use super::Spec;
use crate::key::{Key, Numbers};

/// The largest number that a declaration may hold: the product of four of them, in bytes, still fits in 128 bits.
pub const NUMBER_MAX: u64 = 1 << 31;

/// One key of a group, as a reader of declarations sees it.
#[derive(Debug)]
pub struct Field {
    /// The key.
    pub key: Key,
    /// What may stand behind the colon.
    pub value: Value,
    /// Whether the key must be given, `batch` and `accounting` in layouts that train: see [`Field::is_required`].
    pub required: bool,
}

impl Field {
    /// Whether the key must be given in a Spec of which so much is known: what only training reads need not, where the
    /// layout serves.
    #[must_use]
    pub const fn is_required(&self, spec: &Spec) -> bool {
        let is_of_training = matches!(self.key, Key::Batch | Key::Accounting);
        self.required && !(is_of_training && spec.layout.served().is_some())
    }
}

/// What may stand behind the colon of a key.
#[derive(Debug)]
pub enum Value {
    /// A whole number of at least this much, and at most [`NUMBER_MAX`].
    Number {
        /// The smallest legal number.
        min: u64,
    },
    /// A decimal number such as `1.25`, held in thousandths.
    Decimal,
    /// `percent(n)`.
    Percent,
    /// A layout string: see [`StageList`](super::StageList).
    StageList,
    /// A letter for each layer: see [`LayerList`](super::LayerList).
    LayerList,
    /// A bare word of a closed list, or a kind with a group of keys of its own: `mla { … }`.
    Choice {
        /// The bare words.
        words: &'static [Word],
        /// The kinds.
        kinds: &'static [Kind],
    },
}

/// A bare word that may stand as a value.
#[derive(Debug)]
pub struct Word {
    /// The word.
    pub word: &'static str,
    /// The path of the Rust value it stands for, within this module.
    pub path: &'static str,
}

/// A kind of value with keys of its own.
#[derive(Debug)]
pub struct Kind {
    /// The word in front of the braces.
    pub word: &'static str,
    /// The Rust struct that the braces fill, within this module.
    pub ty: &'static str,
    /// The enum variant around that struct, within this module; empty where there is none.
    pub variant: &'static str,
    /// The keys inside.
    pub fields: &'static [Field],
}

impl Kind {
    /// The kind that numbers are of: it has all its keys there, and of kinds that share keys it is the one with most.
    #[must_use]
    pub fn chosen(kinds: &'static [Self], numbers: &Numbers) -> Option<&'static Self> {
        let is_whole = |kind: &&Self| kind.fields.iter().all(|field| numbers.get(field.key).is_some());
        kinds.iter().filter(is_whole).max_by_key(|kind| kind.fields.len())
    }

    /// A group whose Rust struct stands alone, named after its key.
    pub(super) const fn plain(word: &'static str, ty: &'static str, fields: &'static [Field]) -> Self {
        Self { word, ty, variant: "", fields }
    }
}

pub(crate) const fn kind(kinds: &'static [Kind]) -> Value {
    Value::Choice { words: &[], kinds }
}

/// Writes a closed choice: the enum, its words, and the way back from a word's index.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// Every choice.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// The words that a declaration may use.
            pub const WORDS: &'static [Word] =
                &[$(Word { word: $word, path: concat!(stringify!($name), "::", stringify!($variant)) },)*];

            /// The choice at a place of the list.
            ///
            /// # Panics
            /// If the list is shorter.
            #[must_use]
            #[allow(clippy::cast_possible_truncation)] // lists are short
            pub const fn at(place: u64) -> Self {
                assert!(place < Self::ALL.len() as u64, "the list of choices is shorter");
                Self::ALL[place as usize]
            }

            /// The word in a declaration.
            #[must_use]
            pub const fn word(self) -> &'static str {
                Self::WORDS[self as usize].word
            }
        }
    };
}

/// Writes the words that stand for a whole group: constants of its type, and the same as items named as in a declaration,
/// which are what an editor can offer, explain and go to.
macro_rules! group_words {
    ($name:ident, $items:ident { $($(#[$doc:meta])* $constant:ident = $word:ident: $value:expr;)* }) => {
        impl $name {
            $($(#[$doc])* pub const $constant: Self = $value;)*
            /// The words that may stand for the whole group.
            pub(crate) const WORDS: &'static [Word] = &[$(Word {
                word: stringify!($word),
                path: concat!(stringify!($items), "::", stringify!($word)),
            },)*];
        }

        #[doc(hidden)]
        #[allow(non_upper_case_globals)]
        pub mod $items {
            use super::$name;

            $($(#[$doc])* pub const $word: $name = $name::$constant;)*
        }
    };
}

macro_rules! field_type {
    (number) => {
        u64
    };
    (decimal) => {
        Factor
    };
    (percent) => {
        Percent
    };
    (stage_list) => {
        StageList
    };
    (layer_list) => {
        LayerList
    };
    ($choice:ident) => {
        $choice
    };
}

macro_rules! field_value {
    (number $(at least $min:literal)?) => { Value::Number { min: 0 $(+ $min)? } };
    (decimal) => { Value::Decimal };
    (percent) => { Value::Percent };
    (stage_list) => { Value::StageList };
    (layer_list) => { Value::LayerList };
    ($choice:ident) => { Value::Choice { words: $choice::WORDS, kinds: &[] } };
}

/// Every leaf can be read and written as one number: itself, thousandths, or the place of a word in its list.
macro_rules! field_code {
    (number, $value:expr) => {
        $value
    };
    (decimal, $value:expr) => {
        $value.thousandths
    };
    (percent, $value:expr) => {
        $value.percent
    };
    // A list is no number: its stages stand for it.
    (stage_list, $value:expr) => {
        $value.stages()
    };
    // Nor is this: its layers do.
    (layer_list, $value:expr) => {
        $value.layers()
    };
    ($choice:ident, $value:expr) => {
        $value as u64
    };
}

macro_rules! field_decode {
    (number, $code:expr) => {
        $code
    };
    (decimal, $code:expr) => {
        Factor::thousandths($code)
    };
    (percent, $code:expr) => {
        percent($code)
    };
    (stage_list, $code:expr) => {
        StageList::empty($code)
    };
    (layer_list, $code:expr) => {
        LayerList::empty($code)
    };
    ($choice:ident, $code:expr) => {
        $choice::at($code)
    };
}

/// What an absent key means: its default, or, for a required one, the smallest thing that stands for it.
macro_rules! field_default {
    (number, $default:expr) => {
        $default
    };
    (number) => {
        1
    };
    ($other:ident, $default:expr) => {
        $default
    };
}

macro_rules! field_required {
    ($default:expr) => {
        false
    };
    () => {
        true
    };
}

/// Whether a leaf's number is one that its key may hold; words always are.
macro_rules! field_in_range {
    (number at least $min:literal, $value:expr) => {
        $value >= $min && $value <= NUMBER_MAX
    };
    (decimal, $value:expr) => {
        $value.thousandths <= NUMBER_MAX
    };
    ($choice:ident, $value:expr) => {
        true
    };
}

macro_rules! group {
    (
        $(#[$doc:meta])*
        $name:ident {
            $(
                $(#[$field_doc:meta])*
                $field:ident: $kind:ident $(at least $min:literal)? = $key:ident $(, default $default:expr)?;
            )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: field_type!($kind),)*
        }

        impl $name {
            /// What absent keys mean; a required key stands at the smallest legal number.
            pub const DEFAULT: Self = Self { $($field: field_default!($kind $(, $default)?),)* };
            /// The keys of this group.
            pub const FIELDS: &'static [Field] = &[$(Field {
                key: Key::$key,
                value: field_value!($kind $(at least $min)?),
                required: field_required!($($default)?),
            },)*];

            pub(crate) const fn read(&self, numbers: &mut Numbers) {
                $(numbers.values[Key::$key as usize] = field_code!($kind, self.$field);)*
                numbers.present = numbers.present.union(const { KeySet::of(&[$(Key::$key,)*]) });
            }

            #[allow(unused_comparisons)] // of those that may be 0
            pub(crate) const fn is_in_range(&self) -> bool {
                $(field_in_range!($kind $(at least $min)?, self.$field))&&*
            }

            pub(crate) const fn set(&mut self, key: Key, code: u64) {
                match key {
                    $(Key::$key => self.$field = field_decode!($kind, code),)*
                    _ => {}
                }
            }
        }
    };
}

/// Writes a choice of groups: the enum around them, its kinds, and what is done to whichever is chosen.
macro_rules! kinds {
    (
        $(#[$doc:meta])*
        $name:ident $(or $none:ident = $none_word:literal)? { $($(#[$kind_doc:meta])* $kind:ident = $word:literal,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $name {
            $(
                /// None of them.
                $none,
            )?
            $($(#[$kind_doc])* $kind($kind),)*
        }

        impl $name {
            /// The kinds that a declaration may choose from.
            pub const KINDS: &'static [Kind] = &[$(Kind {
                word: $word,
                ty: stringify!($kind),
                variant: concat!(stringify!($name), "::", stringify!($kind)),
                fields: $kind::FIELDS,
            },)*];

            /// One of each kind, all its keys at their defaults.
            const DEFAULTS: &'static [Self] = &[$(Self::$kind($kind::DEFAULT),)*];

            $(
                /// The word for none of them.
                pub(crate) const WORDS: &'static [Word] =
                    &[Word { word: $none_word, path: concat!(stringify!($name), "::", stringify!($none)) }];
            )?

            /// The kind at a place of the list, all its keys at their defaults.
            ///
            /// # Panics
            /// If the list is shorter.
            #[allow(clippy::cast_possible_truncation)] // lists are short
            pub(crate) const fn of_kind(place: u64) -> Self {
                assert!(place < Self::DEFAULTS.len() as u64, "the key has no such kind");
                Self::DEFAULTS[place as usize]
            }

            pub(crate) const fn read(&self, numbers: &mut Numbers) {
                match self {
                    $(Self::$none => {})?
                    $(Self::$kind(kind) => kind.read(numbers),)*
                }
            }

            pub(crate) const fn is_in_range(&self) -> bool {
                match self {
                    $(Self::$none => true,)?
                    $(Self::$kind(kind) => kind.is_in_range(),)*
                }
            }

            pub(crate) const fn set(&mut self, key: Key, code: u64) {
                match self {
                    $(Self::$none => {})?
                    $(Self::$kind(kind) => kind.set(key, code),)*
                }
            }
        }
    };
}

pub(super) use group_words;
pub(crate) use {
    field_code, field_decode, field_default, field_in_range, field_required, field_type, field_value, group, kinds,
    words,
};
