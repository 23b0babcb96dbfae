//! Layer lists: what each decoder layer is made of, one letter a layer.

// Lengths are compared with their bounds before they are cut.
#![allow(clippy::cast_possible_truncation)]

use super::stage_list::{DEPTH, Fault, Notation, closing, repetition};

/// A kind of block that a layer may hold. A layer of a list holds one of the first four, or none, and one of the last two,
/// or none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum LayerKind {
    /// The attention of `attention`; of a compressed one, that within its window alone.
    Attention,
    /// What `mixer` says instead.
    Mixer,
    /// Compressed attention that chooses what it looks at.
    Compressed,
    /// Heavily compressed attention, which looks at all of it.
    Heavy,
    /// A dense feed-forward network.
    Dense,
    /// Router and experts.
    Moe,
}

impl LayerKind {
    /// Every kind.
    pub const ALL: &'static [Self] =
        &[Self::Attention, Self::Mixer, Self::Compressed, Self::Heavy, Self::Dense, Self::Moe];

    /// What it is called in a sentence.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Attention => "attention",
            Self::Mixer => "the mixer",
            Self::Compressed => "compressed attention",
            Self::Heavy => "heavily compressed attention",
            Self::Dense => "a dense network",
            Self::Moe => "experts",
        }
    }

    /// The letter of a layer that has it, with a dense network where it is a mixer.
    const LETTERS: [u8; Self::ALL.len()] = *b"amchde";
}

/// What each decoder layer is made of, a letter for each: `(MMMA)*12`.
///
/// `a` is a layer with the model's attention, `m` one with its `mixer` instead, `c` and `h` with compressed attention that
/// chooses what it looks at or is heavily compressed (DeepSeek-V4). A small letter has a dense feed-forward network behind
/// it, a capital one experts. Where `d` or `e` stand, a dense network or experts alone, each letter is one block: `a` or
/// `m` have nothing behind them (Nemotron-H). `x*3` repeats a letter, `(mmma)*12` a group; commas and spaces are for the
/// eye.
///
/// ```
/// use moe_model_core::spec::{LayerKind, LayerList};
///
/// const LIST: LayerList = LayerList::parse("(MMMA)*12");
/// assert_eq!(LIST.layers(), 48);
/// assert_eq!(LIST.count(LayerKind::Attention), 12);
/// assert!(LIST.has(LayerKind::Mixer, 0) && LIST.has(LayerKind::Attention, 3));
/// assert_eq!(LIST.to_string(), "(MMMA)*12");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LayerList {
    /// The layers that have each kind of block, a bit each.
    of: [[u64; LayerList::WORDS]; LayerKind::ALL.len()],
    layers: u16,
    /// Whether each letter is one block.
    alone: bool,
}

impl LayerList {
    /// The most layers that a list holds.
    pub const MAX: usize = 256;

    const WORDS: usize = Self::MAX / 64;

    /// The name under which a text that is no layer list is reported.
    pub const ID: &str = "layer-list";

    /// The notation in one line.
    pub const NOTATION: &str = "a attention, m mixer, c compressed, h heavily compressed attention: with a dense network, capitals with experts; \
         d, e a dense network or experts alone; x*n or (...)*n repetition";

    /// No list: layers follow from their numbers.
    pub const NONE: Self = Self { of: [[0; Self::WORDS]; LayerKind::ALL.len()], layers: 0, alone: false };

    /// Reads a layer list.
    ///
    /// # Errors
    /// Where it is not in the notation.
    pub const fn read(text: &str) -> Result<Self, Fault> {
        let text = text.as_bytes();
        let mut list = Self { alone: has_letter(text, b'd') || has_letter(text, b'e'), ..Self::NONE };
        if let Err(fault) = list.piece(text, 0, text.len(), 0) {
            return Err(fault);
        }
        if list.layers == 0 {
            return Fault::new(Notation::Layers, 0, "a model has at least one decoder layer");
        }
        Ok(list)
    }

    /// Reads a layer list that is known to be right.
    ///
    /// # Panics
    /// With the fault's text, if it is not.
    #[must_use]
    #[track_caller]
    pub const fn parse(text: &str) -> Self {
        match Self::read(text) {
            Ok(list) => list,
            Err(fault) => panic!("{}", fault.text().as_str()),
        }
    }

    /// A list of so many layers of no kind: what stands for a list where only its length is known.
    ///
    /// # Panics
    /// If a list does not hold so many.
    #[must_use]
    pub(crate) const fn empty(layers: u64) -> Self {
        assert!(layers <= Self::MAX as u64, "a list holds at most 256 layers");
        Self { layers: layers as u16, ..Self::NONE }
    }

    /// The list with one more layer, of some blocks.
    ///
    /// # Panics
    /// If a list does not hold so many.
    pub(crate) const fn with(mut self, kinds: &[LayerKind]) -> Self {
        assert!(self.layers < Self::MAX as u16, "a list holds at most 256 layers");
        let mut i = 0;
        while i < kinds.len() {
            self.of[kinds[i] as usize][self.layers as usize / 64] |= 1 << (self.layers % 64);
            i += 1;
        }
        self.alone |= kinds.len() < 2;
        self.layers += 1;
        self
    }

    /// Whether there is no list.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.layers == 0
    }

    /// How many layers it holds; 0 where there is no list.
    #[must_use]
    pub const fn layers(&self) -> u64 {
        self.layers as u64
    }

    /// Whether each layer is one block: a mixer, a dense network or experts, with norms of its own.
    #[must_use]
    pub const fn is_alone(&self) -> bool {
        self.alone
    }

    /// Whether a layer has a kind of block.
    #[must_use]
    pub const fn has(&self, kind: LayerKind, layer: u64) -> bool {
        layer < self.layers() && self.of[kind as usize][layer as usize / 64] >> (layer % 64) & 1 > 0
    }

    /// How many layers have a kind of block.
    #[must_use]
    pub const fn count(&self, kind: LayerKind) -> u64 {
        self.among(kind, 0, Self::MAX as u64)
    }

    /// The same among so many from one on.
    #[must_use]
    pub const fn among(&self, kind: LayerKind, first: u64, count: u64) -> u64 {
        let (of, end) = (&self.of[kind as usize], first + count);
        let (mut sum, mut word) = (0, 0);
        while word < Self::WORDS {
            let start = word as u64 * 64;
            // The bits of this word from `first` on, and those before `end`.
            let from = first.saturating_sub(start);
            let to = end.saturating_sub(start);
            if from < 64 && to > from {
                let bits = of[word] >> from;
                let bits = if to < 64 { bits & ((1 << (to - from)) - 1) } else { bits };
                sum += bits.count_ones() as u64;
            }
            word += 1;
        }
        sum
    }

    /// The letter of a layer.
    fn letter(&self, layer: u64) -> char {
        let kinds = || LayerKind::ALL.iter().filter(|kind| self.has(**kind, layer));
        let letter = kinds().next().map_or(b'?', |kind| LayerKind::LETTERS[*kind as usize]);
        let with_experts = kinds().count() > 1 && self.has(LayerKind::Moe, layer);
        char::from(if with_experts { letter.to_ascii_uppercase() } else { letter })
    }

    /// Reads the characters of a range. Each turn of a repetition adds to the list, whose room is bounded, so that no
    /// text takes long.
    const fn piece(&mut self, text: &[u8], mut at: usize, end: usize, depth: u64) -> Result<(), Fault> {
        while at < end {
            let (start, letter) = (at, text[at]);
            at += 1;
            if matches!(letter, b' ' | b',') {
                continue;
            }
            if letter == b'(' {
                at = match closing(Notation::Layers, text, start, end) {
                    Ok(closing) => closing + 1,
                    Err(fault) => return Err(fault),
                };
                if depth == DEPTH {
                    return Fault::new(Notation::Layers, start, "groups lie too deep in one another");
                }
            }
            let close = at;
            let times = match repetition(Notation::Layers, text, &mut at, end) {
                Ok(times) => times,
                Err(fault) => return Err(fault),
            };
            let before = self.layers;
            let mut turn = 0;
            while turn < times {
                let read = if letter == b'(' {
                    self.piece(text, start + 1, close - 1, depth + 1)
                } else {
                    self.take(letter, start)
                };
                if let Err(fault) = read {
                    return Err(fault);
                }
                if self.layers == before {
                    return Fault::new(Notation::Layers, start, "a group holds a layer");
                }
                turn += 1;
            }
        }
        Ok(())
    }

    /// Takes one letter.
    const fn take(&mut self, letter: u8, at: usize) -> Result<(), Fault> {
        if self.layers() == Self::MAX as u64 {
            return Fault::new(Notation::Layers, at, "a list holds at most 256 layers");
        }
        let (small, mut kind) = (letter.to_ascii_lowercase(), 0);
        while kind < LayerKind::LETTERS.len() && LayerKind::LETTERS[kind] != small {
            kind += 1;
        }
        if kind == LayerKind::LETTERS.len() || letter != small && kind >= LayerKind::Dense as usize {
            return Fault::letter(Notation::Layers, at, letter);
        }
        if letter != small && self.alone {
            return Fault::new(
                Notation::Layers,
                at,
                "where `d` or `e` stand alone, so does every block: a small letter",
            );
        }
        let ffn = if letter == small { LayerKind::Dense } else { LayerKind::Moe };
        *self = if self.alone { self.with(&[LayerKind::ALL[kind]]) } else { self.with(&[LayerKind::ALL[kind], ffn]) };
        Ok(())
    }
}

const fn has_letter(text: &[u8], letter: u8) -> bool {
    let mut i = 0;
    while i < text.len() {
        if text[i] == letter {
            return true;
        }
        i += 1;
    }
    false
}

/// The longest group that a list is written with.
const LONGEST_GROUP: u64 = 16;

impl LayerList {
    /// The group from a layer on that, repeated, says most letters: its length, and how often it stands there.
    fn group(&self, first: u64) -> (u64, u64) {
        let mut best = (1, 1);
        for length in 1..=LONGEST_GROUP {
            let mut end = first + length;
            while end < self.layers() && self.letter(end) == self.letter(end - length) {
                end += 1;
            }
            let times = end.saturating_sub(first) / length;
            // Only where that is shorter.
            let written = if length == 1 { 3 } else { length + 4 };
            if times > 1 && length * times > written && length * times > best.0 * best.1 {
                best = (length, times);
            }
        }
        best
    }
}

/// The list in the notation.
impl core::fmt::Display for LayerList {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        use core::fmt::Write;
        let mut layer = 0;
        while layer < self.layers() {
            let (length, times) = self.group(layer);
            let is_group = length > 1 && times > 1;
            f.write_str(if is_group { "(" } else { "" })?;
            (layer..layer + length).try_for_each(|layer| f.write_char(self.letter(layer)))?;
            f.write_str(if is_group { ")" } else { "" })?;
            if times > 1 {
                write!(f, "*{times}")?;
            }
            layer += length * times;
        }
        Ok(())
    }
}

impl core::fmt::Debug for LayerList {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "LayerList({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::{LayerKind, LayerList};
    use alloc::format;
    use alloc::string::{String, ToString};

    fn letters(text: &str) -> String {
        let list = LayerList::read(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
        (0..list.layers()).map(|layer| list.letter(layer)).collect()
    }

    #[test]
    fn lists_are_read_as_they_are_written() {
        for (text, read) in [
            ("a", "a"),
            ("A*3", "AAA"),
            ("(MMMA)*2", "MMMAMMMA"),
            ("a, (mM)*2 A", "amMmMA"),
            ("aa(CH)*2C", "aaCHCHC"),
            ("mema(me)*2", "memameme"),
            ("((a)*2m)*2", "aamaam"),
        ] {
            assert_eq!(letters(text), read, "{text}");
            assert_eq!(letters(&LayerList::parse(text).to_string()), read, "{text}");
        }
    }

    #[test]
    fn lists_are_written_as_people_write_them() {
        for text in ["(MMMA)*12", "aA*47", "(MMMMMMMA)*10", "mMmMaMmM", "(AMMMM)*8A", "AA(CH)*20C", "(aae)*5"] {
            assert_eq!(LayerList::parse(text).to_string(), text);
        }
    }

    /// Counts against letters, from every layer and of every length, over the boundary of words too.
    #[test]
    fn counts_are_those_of_letters() {
        for layers in [1, 3, 63, 64, 65, 130, 256] {
            // In no order that repeats soon.
            let letter = |layer: usize| char::from(b"aAmMcChH"[layer * layer * layer / 11 % 8]);
            let text: String = (0..layers).map(letter).collect();
            let list = LayerList::parse(&text);
            for first in 0..=layers {
                for count in [0, 1, 2, 63, 64, 65, layers].into_iter().filter(|count| first + count <= layers) {
                    let among = &text[first..first + count];
                    for (kind, letters) in
                        [(LayerKind::Attention, "aA"), (LayerKind::Heavy, "hH"), (LayerKind::Moe, "AMCH")]
                    {
                        let expected = among.chars().filter(|letter| letters.contains(*letter)).count();
                        assert_eq!(list.among(kind, first as u64, count as u64), expected as u64, "{text}");
                    }
                }
            }
        }
    }

    #[test]
    fn one_block_a_layer() {
        let list = LayerList::parse("mema*2d");
        assert!(list.is_alone());
        let counts = LayerKind::ALL.iter().map(|kind| list.count(*kind));
        assert!(counts.eq([2, 2, 0, 0, 1, 1]), "{list}");
        assert!(!LayerList::parse("mMaA").is_alone());
    }

    #[test]
    fn faults_say_where() {
        for (text, at, why) in [
            ("", 1, "at least one"),
            ("ab", 2, "`b` is no letter"),
            ("aE", 2, "`E` is no letter"),
            ("eA", 2, "small letter"),
            ("(a", 1, "not closed"),
            ("a()", 2, "a group holds a layer"),
            ("a*0", 2, "from 1"),
            ("a*257", 1, "at most 256"),
            ("(a*20)*20", 2, "at most 256"),
            ("((((((((((a))))))))))", 9, "too deep"),
        ] {
            let fault = LayerList::read(text).expect_err(text).to_string();
            assert!(fault.contains(&format!("character {at}: ")) && fault.contains(why), "{text}: {fault}");
            assert!(fault.starts_with("`layers.list` cannot be read"), "{fault}");
        }
    }
}
