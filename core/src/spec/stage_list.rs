//! Layout strings: every pipeline stage written out, in Megatron-LM's notation.

// Lengths are compared with their bounds before they are cut.
#![allow(clippy::cast_possible_truncation)]

use super::LayerList;
use crate::stages::greatest;
use crate::text::Text;

/// The layers of every virtual stage, one by one: `Et|(tt|)*30mL` in Megatron-LM's notation
/// (`--pipeline-model-parallel-layout`, megatron-core 0.16).
///
/// `E` is the embedding, `t` a decoder layer, `m` a multi-token-prediction module, `L` the loss, `|` the boundary of two
/// stages; `x*3` repeats a letter or boundary, `(tt|)*30` a group. Commas and spaces are for the eye. The embedding comes
/// first, the loss last, modules behind the last decoder layer, all on one stage: the loss's or one before it.
///
/// ```
/// use moe_model_core::spec::StageList;
///
/// const LIST: StageList = StageList::parse("Et|(tt|)*30mL");
/// assert_eq!((LIST.stages(), LIST.layers(), LIST.mtp()), (32, 61, 1));
/// assert_eq!(LIST.to_string(), "Et|(tt|)*30mL");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StageList {
    /// Layers of all stages up to and with each: looked up more often than written.
    ends: [u16; StageList::MAX],
    stages: u16,
    mtp: u8,
    /// Stages behind the one that holds the multi-token-prediction modules.
    behind_mtp: u8,
}

/// What a text is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Notation {
    Stages,
    Layers,
}

impl Notation {
    /// The key that it is the value of, itself in one line, and its name.
    const fn about(self) -> [&'static str; 3] {
        match self {
            Self::Stages => ["stages.list", StageList::NOTATION, StageList::ID],
            Self::Layers => ["layers.list", LayerList::NOTATION, LayerList::ID],
        }
    }
}

/// Why a layout string or a layer list cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    of: Notation,
    /// The place of the character at fault, from 1.
    pub at: usize,
    /// What is wrong there.
    pub why: &'static str,
    /// The character itself, where it is none of the notation, in ASCII.
    letter: Option<u8>,
}

impl Fault {
    pub(super) const fn new<T>(of: Notation, place: usize, why: &'static str) -> Result<T, Self> {
        Err(Self { of, at: place + 1, why, letter: None })
    }

    pub(super) const fn letter<T>(of: Notation, place: usize, letter: u8) -> Result<T, Self> {
        let letter = if letter.is_ascii_graphic() { Some(letter) } else { None };
        Err(Self { of, at: place + 1, why: "this is no letter of the notation", letter })
    }

    const fn of_stages<T>(place: usize, why: &'static str) -> Result<T, Self> {
        Self::new(Notation::Stages, place, why)
    }

    /// The fault in one line, with a note on the notation.
    #[must_use]
    pub const fn text(&self) -> Text {
        let [key, notation, id] = self.of.about();
        let note = Text::new().str("\n= note: ").str(notation).str(" (").str(id).str(")");
        let text = Text::new().str("`").str(key).str("` cannot be read at character ");
        let text = text.int(self.at as u64).str(": ");
        let Some(letter) = self.letter else { return text.str(self.why).text(&note) };
        let text = match core::str::from_utf8(&[letter]) {
            Ok(letter) => text.str("`").str(letter).str("` is no letter of the notation"),
            Err(_) => text.str(self.why),
        };
        text.text(&note).str("\n= help: ").str(match self.of {
            Notation::Stages => meant_by(letter),
            Notation::Layers => layer_meant_by(letter),
        })
    }
}

/// What a character is written for that is none of the notation.
const fn meant_by(letter: u8) -> &'static str {
    match letter {
        b'e' => "the embedding is a capital `E`",
        b'l' => "the loss is a capital `L`",
        b'T' => "a layer is a small `t`",
        b'M' => "an MTP module is a small `m`",
        b'x' | b'X' => "repetition is `*`: `(tt|)*30`",
        b'[' | b']' | b'{' | b'}' => "a group stands in parentheses: `(tt|)*30`",
        b'O' | b'o' => "a number has the digit `0`",
        b'0'..=b'9' => "a number stands behind what it repeats: `(tt|)*30`",
        b')' => "a group begins with `(`",
        _ => "61 layers on 32 stages: `Et|(tt|)*30L`",
    }
}

/// The same in a layer list.
const fn layer_meant_by(letter: u8) -> &'static str {
    match letter {
        b'*' => "repetition stands behind a letter or a group; attention is `a`",
        b'-' | b'D' => "a dense network alone is a small `d`",
        b'E' => "experts alone are a small `e`",
        b't' | b'T' => "a layer with attention is `a`, with experts `A`",
        b'l' | b'L' | b's' | b'S' => "a layer with the mixer of `mixer` is `m`, with experts `M`",
        b'x' => "repetition is `*`: `(MMMA)*12`",
        b'[' | b']' | b'{' | b'}' => "a group stands in parentheses: `(MMMA)*12`",
        b'0'..=b'9' => "a number stands behind what it repeats: `(MMMA)*12`",
        b')' => "a group begins with `(`",
        _ => "48 layers with experts, each fourth with attention: `(MMMA)*12`",
    }
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.text().as_str())
    }
}

impl core::error::Error for Fault {}

/// How deep groups may lie in one another.
pub(super) const DEPTH: u64 = 8;

impl StageList {
    /// The most stages that a list holds.
    pub const MAX: usize = 256;

    /// The name under which a text that is no layout string is reported.
    pub const ID: &str = "stage-list";

    /// The notation in one line.
    pub const NOTATION: &str = "E embedding, t layer, m MTP module, L loss, | next stage, x*n or (...)*n repetition";

    /// No list: stages follow from their number.
    pub const NONE: Self = Self { ends: [0; Self::MAX], stages: 0, mtp: 0, behind_mtp: 0 };

    /// Reads a layout string.
    ///
    /// # Errors
    /// Where it is not in the notation, or an end stands elsewhere than at its end.
    pub const fn read(text: &str) -> Result<Self, Fault> {
        let mut reading = Reading { list: Self::NONE, embedding: false, loss: false };
        reading.list.stages = 1;
        let text = text.as_bytes();
        if let Err(fault) = reading.piece(text, 0, text.len(), 0) {
            return Err(fault);
        }
        if !reading.embedding {
            return Fault::of_stages(0, "the embedding `E` comes first");
        }
        if !reading.loss {
            return Fault::of_stages(text.len(), "the loss `L` comes last");
        }
        Ok(reading.list)
    }

    /// Reads a layout string that is known to be right.
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

    /// A list of so many stages without layers: what stands for a list where only its length is known.
    ///
    /// # Panics
    /// If a list does not hold so many.
    #[must_use]
    pub(crate) const fn empty(stages: u64) -> Self {
        assert!(stages <= Self::MAX as u64, "a list holds at most 256 stages");
        Self { stages: stages as u16, ..Self::NONE }
    }

    /// A list of so many layers on so many stages, the ends as light as any; `None` where there are too many of either
    /// for a list, or fewer layers than stages.
    #[must_use]
    pub(crate) const fn balanced(layers: u64, stages: u64, mtp: u64) -> Option<Self> {
        if stages == 0 || stages > Self::MAX as u64 || layers < stages || mtp > u8::MAX as u64 {
            return None;
        }
        let (share, more) = (layers / stages, layers % stages);
        if share >= u8::MAX as u64 {
            return None;
        }
        let mut list = Self { mtp: mtp as u8, stages: stages as u16, ..Self::NONE };
        let mut i = 0;
        while i < stages {
            // Behind the first stage, which also holds the embedding and the most micro-batches.
            let heavier = if i < more { i } else { more };
            list.ends[i as usize] = ((i + 1) * share + heavier) as u16;
            i += 1;
        }
        Some(list)
    }

    /// Whether a text is meant to be a layout string rather than a word, right or not.
    #[must_use]
    pub fn is_meant_by(text: &str) -> bool {
        text.starts_with('E') || text.contains(['|', '*', '('])
    }

    /// Whether there is no list.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.stages == 0
    }

    /// Virtual stages; 0 where there is no list.
    #[must_use]
    pub const fn stages(&self) -> u64 {
        self.stages as u64
    }

    /// Decoder layers of all stages.
    #[must_use]
    pub const fn layers(&self) -> u64 {
        self.layers_before(self.stages as u64)
    }

    /// Multi-token-prediction modules, all on one stage.
    #[must_use]
    pub const fn mtp(&self) -> u64 {
        self.mtp as u64
    }

    /// The stage that holds the multi-token-prediction modules, if there are any.
    #[must_use]
    pub const fn mtp_stage(&self) -> Option<u64> {
        if self.mtp == 0 { None } else { Some(self.stages as u64 - 1 - self.behind_mtp as u64) }
    }

    const fn has_mtp(&self, stage: u64) -> bool {
        match self.mtp_stage() {
            Some(holder) => holder == stage,
            None => false,
        }
    }

    /// Decoder layers of one stage.
    ///
    /// # Panics
    /// If the list is shorter.
    #[must_use]
    pub const fn layers_of(&self, stage: u64) -> u64 {
        assert!(stage < self.stages as u64, "the list is shorter");
        self.ends[stage as usize] as u64 - self.layers_before(stage)
    }

    /// Decoder layers of all stages before one.
    pub(crate) const fn layers_before(&self, stage: u64) -> u64 {
        if stage == 0 { 0 } else { self.ends[stage as usize - 1] as u64 }
    }

    /// The most layers that divide those of each stage, 0 where none has any.
    pub(crate) const fn common(&self) -> u64 {
        let (mut common, mut stage) = (0, 0);
        while stage < self.stages as u64 {
            common = greatest(common, self.layers_of(stage));
            stage += 1;
        }
        common
    }

    /// The list in the notation, as far as a text has room for it.
    #[must_use]
    pub const fn text(&self) -> Text {
        let (mut text, mut stage) = (Text::new(), 0);
        while stage < self.stages as u64 {
            let (piece, next) = self.piece(stage);
            text = text.text(&piece);
            stage = next;
        }
        text
    }

    /// The stages alike from one on, as one group, and the stage behind them. The ends of the list stand alone, and the
    /// stage with multi-token-prediction modules.
    const fn piece(&self, stage: u64) -> (Text, u64) {
        let (layers, end) = (self.layers_of(stage), self.stages as u64);
        let mut next = stage + 1;
        let is_alone = stage == 0 || self.has_mtp(stage);
        while next + 1 < end && !is_alone && self.layers_of(next) == layers && !self.has_mtp(next) {
            next += 1;
        }
        let alike = next - stage;
        let text = Text::new().str(if stage == 0 {
            "E"
        } else if alike > 1 {
            "("
        } else {
            ""
        });
        let text = repeated(text, "t", layers);
        let text = if self.has_mtp(stage) { repeated(text, "m", self.mtp as u64) } else { text };
        let text = text.str(if next == end { "L" } else { "|" });
        (if alike > 1 { text.str(")*").int(alike) } else { text }, next)
    }
}

/// A letter so many times.
const fn repeated(mut text: Text, letter: &str, times: u64) -> Text {
    if times > 4 {
        return text.str(letter).str("*").int(times);
    }
    let mut i = 0;
    while i < times {
        text = text.str(letter);
        i += 1;
    }
    text
}

impl core::fmt::Display for StageList {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut stage = 0;
        while stage < self.stages() {
            let (piece, next) = self.piece(stage);
            f.write_str(piece.as_str())?;
            stage = next;
        }
        Ok(())
    }
}

impl core::fmt::Debug for StageList {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "StageList({self})")
    }
}

/// A list that is being read.
struct Reading {
    list: StageList,
    embedding: bool,
    loss: bool,
}

impl Reading {
    /// Reads the characters of a range. Each turn of a repetition adds to the list, whose room is bounded, so that no
    /// text takes long.
    const fn piece(&mut self, text: &[u8], mut at: usize, end: usize, depth: u64) -> Result<(), Fault> {
        while at < end {
            let letter = text[at];
            if matches!(letter, b' ' | b',') {
                at += 1;
                continue;
            }
            let start = at;
            if letter == b'(' {
                at = match closing(Notation::Stages, text, at, end) {
                    Ok(closing) => closing,
                    Err(fault) => return Err(fault),
                };
                if depth == DEPTH {
                    return Fault::of_stages(start, "groups lie too deep in one another");
                }
            }
            at += 1;
            let close = at;
            let times = match repetition(Notation::Stages, text, &mut at, end) {
                Ok(times) => times,
                Err(fault) => return Err(fault),
            };
            let read = if letter == b'(' {
                self.group(text, start + 1, close - 1, times, depth + 1)
            } else {
                self.letter(letter, start, times)
            };
            if let Err(fault) = read {
                return Err(fault);
            }
        }
        Ok(())
    }

    const fn group(&mut self, text: &[u8], start: usize, end: usize, times: u64, depth: u64) -> Result<(), Fault> {
        let mut i = start;
        while i < end && matches!(text[i], b' ' | b',' | b'(' | b')') {
            i += 1;
        }
        if i == end {
            return Fault::of_stages(start, "a group holds a letter or a boundary");
        }
        let mut turn = 0;
        while turn < times {
            if let Err(fault) = self.piece(text, start, end, depth) {
                return Err(fault);
            }
            turn += 1;
        }
        Ok(())
    }

    /// Takes one letter so many times.
    const fn letter(&mut self, letter: u8, at: usize, times: u64) -> Result<(), Fault> {
        let stage = self.list.stages as usize - 1;
        if self.loss {
            return Fault::of_stages(at, "nothing stands behind the loss `L`");
        }
        if !matches!(letter, b'E' | b't' | b'm' | b'L' | b'|') {
            return Fault::letter(Notation::Stages, at, letter);
        }
        if !self.embedding && letter != b'E' {
            return Fault::of_stages(at, "the embedding `E` comes first");
        }
        match letter {
            b'E' if self.embedding || times > 1 => Fault::of_stages(at, "the embedding `E` stands once"),
            b'E' => {
                self.embedding = true;
                Ok(())
            }
            b'L' if times > 1 => Fault::of_stages(at, "the loss `L` stands once"),
            b'L' => {
                self.loss = true;
                Ok(())
            }
            b't' if self.list.mtp > 0 => Fault::of_stages(at, "no decoder layer stands behind an MTP module"),
            b't' if self.list.layers_of(stage as u64) + times > u8::MAX as u64 => {
                Fault::of_stages(at, "a stage holds at most 255 layers")
            }
            b't' => {
                self.list.ends[stage] += times as u16;
                Ok(())
            }
            b'm' if self.list.behind_mtp > 0 => Fault::of_stages(at, "all MTP modules stand on one stage"),
            b'm' => match add_up(self.list.mtp, times) {
                Some(mtp) => {
                    self.list.mtp = mtp;
                    Ok(())
                }
                None => Fault::of_stages(at, "there are at most 255 MTP modules"),
            },
            b'|' if times > (StageList::MAX - 1 - stage) as u64 => {
                Fault::of_stages(at, "a list holds at most 256 stages")
            }
            b'|' => {
                let (layers, mut next) = (self.list.ends[stage], 1);
                while next <= times as usize {
                    self.list.ends[stage + next] = layers;
                    next += 1;
                }
                self.list.stages += times as u16;
                if self.list.mtp > 0 {
                    self.list.behind_mtp += times as u8;
                }
                Ok(())
            }
            _ => Fault::letter(Notation::Stages, at, letter),
        }
    }
}

/// The sum of a number and some more, if it fits.
const fn add_up(held: u8, more: u64) -> Option<u8> {
    if more > (u8::MAX - held) as u64 { None } else { Some(held + more as u8) }
}

/// The place of the parenthesis that closes the one here.
pub(super) const fn closing(of: Notation, text: &[u8], open: usize, end: usize) -> Result<usize, Fault> {
    let (mut depth, mut i) = (0_u64, open);
    while i < end {
        match text[i] {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Ok(i);
        }
        i += 1;
    }
    Fault::new(of, open, "this group is not closed")
}

/// How often what stands before is repeated: the number behind `*`, or once.
pub(super) const fn repetition(of: Notation, text: &[u8], at: &mut usize, end: usize) -> Result<u64, Fault> {
    if *at == end || text[*at] != b'*' {
        return Ok(1);
    }
    let star = *at;
    *at += 1;
    let mut times = 0;
    while *at < end && text[*at].is_ascii_digit() {
        times = times * 10 + (text[*at] - b'0') as u64;
        if times > u16::MAX as u64 {
            return Fault::new(of, star, "nothing is repeated so often");
        }
        *at += 1;
    }
    if times == 0 { Fault::new(of, star, "a number from 1 stands behind `*`") } else { Ok(times) }
}

#[cfg(test)]
mod tests {
    use super::{Fault, StageList};
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    fn read(text: &str) -> (Vec<u64>, u64) {
        let list = StageList::read(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
        ((0..list.stages()).map(|stage| list.layers_of(stage)).collect(), list.mtp())
    }

    #[test]
    fn lists_read_as_megatron_reads_them() {
        assert_eq!(read("EL"), (alloc::vec![0], 0));
        assert_eq!(read("Ettt|tt|ttL"), (alloc::vec![3, 2, 2], 0));
        assert_eq!(read("Et*3|(t|)*2,mmL"), (alloc::vec![3, 1, 1, 0], 2));
        let (stages, mtp) = read("Et|(tt|)*30mL");
        assert_eq!((stages.len(), stages.iter().sum::<u64>(), mtp), (32, 61, 1));
        let (stages, mtp) = read("E(|tt)*30,|mL");
        assert_eq!((stages.len(), stages.iter().sum::<u64>(), mtp), (32, 60, 1));
        assert_eq!(read("E((t|)*2t|)*2L").0, [1, 1, 1, 1, 1, 1, 0]);
        assert_eq!(read("E|*3tL").0, [0, 0, 0, 1]);
        let apart = StageList::parse("Et*3|(tt|)*29m|L");
        assert_eq!((apart.stages(), apart.layers(), apart.mtp(), apart.mtp_stage()), (32, 61, 1, Some(30)));
        assert_eq!(StageList::parse("EtmL").mtp_stage(), Some(0));
        assert_eq!(StageList::parse("Et|tL").mtp_stage(), None);
    }

    #[test]
    fn lists_are_written_as_they_are_read() {
        for text in [
            "EL",
            "E|L",
            "Et|(tt|)*30mL",
            "Ettt|tt|ttL",
            "E|(tt|)*30mL",
            "Et*7|(t*5|)*3mmL",
            "Et|t|tL",
            "Ettt|(tt|)*29m|L",
            "Et|(t|)*3tmm||L",
        ] {
            assert_eq!(StageList::parse(text).to_string(), text);
        }
        for (layers, stages) in [(61, 32), (43, 8), (94, 64), (61, 61), (1, 1), (255, 2)] {
            let list = StageList::balanced(layers, stages, 1).expect("there is room");
            let counts: Vec<u64> = (0..stages).map(|stage| list.layers_of(stage)).collect();
            assert!(counts.iter().all(|count| count - counts[0] <= 1), "{list}");
            assert_eq!((list.layers(), list.stages(), list.mtp()), (layers, stages, 1));
            assert_eq!(StageList::read(&list.to_string()), Ok(list));
        }
        // Longer than any message.
        let long = String::from("E") + &"t*201|t*203|".repeat(127) + "t*201|t*203L";
        assert_eq!(StageList::parse(&long).to_string(), long);
        assert_eq!(StageList::balanced(3, 4, 0), None);
        assert_eq!(StageList::balanced(1 << 31, 2, 0), None);
    }

    #[test]
    fn faults_are_told_where_they_are() {
        let long = "t|".repeat(300);
        let cases: &[(&str, usize, &str)] = &[
            ("", 1, "comes first"),
            ("ttL", 1, "comes first"),
            ("Ett", 4, "comes last"),
            ("EtEL", 3, "stands once"),
            ("EtLt", 4, "behind the loss"),
            ("EtL*2", 3, "stands once"),
            ("EmtL", 3, "no decoder layer stands behind"),
            ("Et|m|mL", 6, "on one stage"),
            ("Etm|tL", 5, "no decoder layer stands behind"),
            ("Et|m|*255L", 5, "256 stages"),
            ("Etx", 3, "no letter"),
            ("E(ttL", 2, "not closed"),
            ("Ett)L", 4, "no letter"),
            ("E()*9L", 3, "holds a letter"),
            ("E(())*9L", 3, "holds a letter"),
            ("Et*L", 3, "a number from 1"),
            ("Et*0L", 3, "a number from 1"),
            ("Et*99999999999999999999L", 3, "so often"),
            ("Et*256L", 2, "255 layers"),
            ("E|*256L", 2, "256 stages"),
            ("Em*300L", 2, "255 MTP"),
            ("Eé", 2, "no letter"),
        ];
        for (text, at, why) in cases {
            let fault = StageList::read(text).expect_err(text);
            assert_eq!(fault.at, *at, "{text}: {fault}");
            assert!(fault.why.contains(why), "{text}: {fault}");
        }
        for (text, found, help) in [
            ("et|tL", "1: `e` is", "a capital `E`"),
            ("Et|tl", "5: `l` is", "a capital `L`"),
            ("E14*(t|)L", "2: `1` is", "behind what it repeats"),
            ("14*(t|)L", "1: `1` is", "behind what it repeats"),
            ("Et|(tt|)x30L", "9: `x` is", "repetition is `*`"),
            ("Et|[tt|]*30L", "4: `[` is", "in parentheses"),
            ("Et|(tt|)*3OL", "11: `O` is", "the digit `0`"),
            ("Et|dL", "4: `d` is", "61 layers"),
        ] {
            let said = StageList::read(text).expect_err(text).to_string();
            assert!(said.contains(&alloc::format!("character {found} no letter of the notation\n")), "{text}: {said}");
            let (_, said) = said.split_once("\n= help: ").expect("there is a help");
            assert!(said.contains(help), "{text}: {said}");
        }
        let fault = StageList::read(&(String::from("E") + &long + "L")).expect_err("too many stages");
        assert_eq!(fault.why, "a list holds at most 256 stages");
        let deep = String::from("E") + &"(".repeat(20) + "t" + &")".repeat(20) + "L";
        let too_deep =
            Fault { of: super::Notation::Stages, at: 10, why: "groups lie too deep in one another", letter: None };
        assert_eq!(StageList::read(&deep), Err(too_deep));
    }
}
