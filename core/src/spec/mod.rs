//! The Spec: what the user said, as plain data, and the one table of keys behind it.
//!
//! Each group in `architecture.rs` and `layout.rs` is written once. From it come the struct that a declaration fills,
//! its documentation, the [`Field`]s by which the macro (and any file reader) walks a declaration, and access by
//! [`Key`]. A new key is one line in `key.rs` and one line there.

mod architecture;
#[cfg(feature = "serde")]
pub mod file;
mod layout;
pub(crate) mod schema;
mod stage_list;
mod values;

pub use crate::device::Device;
pub use architecture::{Architecture, Attention, Bias, CorrectionBias, Experts, Gqa, Layers, Mla, Norm, QkNorm};
pub use layout::{
    Accounting, Batch, Capacity, Checkpoint, Context, Dropless, Kernel, Layout, Mesh, Paper, Placement, Pool,
    Precision, Recompute, Routing, Schedule, Split, Stages, Target, Weighed, WorkedExample, Zero, ZeroGroups,
    ZeroStage,
};
#[doc(hidden)]
pub use layout::{accounting, routing, stages, zero};
pub use schema::{Field, Kind, NUMBER_MAX, Value, Word};
pub use stage_list::{Fault, StageList};
pub use values::{Dtype, Factor, Percent, Switch, percent};

use crate::key::{Key, Numbers};

/// The keys of every group.
pub const GROUPS: &[&[Field]] = &[
    Architecture::FIELDS,
    Layers::FIELDS,
    Mla::FIELDS,
    Gqa::FIELDS,
    Experts::FIELDS,
    Layout::FIELDS,
    Mesh::FIELDS,
    Stages::FIELDS,
    Zero::FIELDS,
    Placement::FIELDS,
    Precision::FIELDS,
    Batch::FIELDS,
    Dropless::FIELDS,
    Capacity::FIELDS,
    Paper::FIELDS,
    WorkedExample::FIELDS,
];

/// One architecture under one layout: everything that a budget depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Spec {
    /// What the model is.
    pub architecture: Architecture,
    /// How it is laid out.
    pub layout: Layout,
}

impl Spec {
    /// Absent keys at their defaults, required ones at the smallest legal number.
    pub const DEFAULT: Self = Self { architecture: Architecture::DEFAULT, layout: Layout::DEFAULT };

    /// Every leaf as one number, by its key, and what follows where it is not given.
    #[must_use]
    pub const fn numbers(&self) -> Numbers {
        let mut numbers = self.raw_numbers();
        let mesh = &self.layout.mesh;
        if mesh.dp == 0 {
            numbers.dp_follows = true;
            numbers.put(Key::MeshDp, mesh.settled().dp);
        }
        numbers
    }

    /// Every leaf as it was given.
    pub(crate) const fn raw_numbers(&self) -> Numbers {
        let (a, l) = (&self.architecture, &self.layout);
        let mut numbers = Numbers::NONE;
        let n = &mut numbers;
        n.put(Key::Hidden, a.hidden);
        n.put(Key::Vocab, a.vocab);
        n.put(Key::TiedEmbeddings, a.tied_embeddings as u64);
        n.put(Key::HeadBias, a.head_bias as u64);
        n.put(Key::Norm, a.norm as u64);
        n.put(Key::NormsPerLayer, a.norms_per_layer);
        n.put(Key::Mtp, a.mtp);
        a.layers.read(n);
        match &a.attention {
            Attention::Mla(mla) => mla.read(n),
            Attention::Gqa(gqa) => gqa.read(n),
        }
        a.experts.read(n);
        l.mesh.read(n);
        l.stages.read(n);
        if !l.stages.list.is_none() {
            let list = &l.stages.list;
            let mtp_stage = match list.mtp_stage() {
                Some(stage) => stage,
                None => 0,
            };
            n.listed = [list.layers(), list.mtp(), mtp_stage];
        }
        n.put(Key::Schedule, l.schedule as u64);
        l.zero.read(n);
        l.placement.read(n);
        l.precision.read(n);
        l.batch.read(n);
        n.put(Key::Recompute, l.recompute as u64);
        match &l.routing {
            Routing::Dropless(dropless) => dropless.read(n),
            Routing::Capacity(capacity) => capacity.read(n),
        }
        match &l.accounting {
            Accounting::Paper(paper) => paper.read(n),
            Accounting::WorkedExample(example) => example.read(n),
        }
        n.put(Key::Target, l.target as u64);
        n.put(Key::Device, l.device as u64);
        n.put(Key::Headroom, l.headroom.percent);
        numbers
    }

    /// How a key is described; `None` where it is described nowhere.
    #[must_use]
    pub const fn field(key: Key) -> Option<&'static Field> {
        let mut g = 0;
        while g < GROUPS.len() {
            let mut f = 0;
            while f < GROUPS[g].len() {
                if GROUPS[g][f].key as u8 == key as u8 {
                    return Some(&GROUPS[g][f]);
                }
                f += 1;
            }
            g += 1;
        }
        None
    }

    /// The smallest number that a key may hold, or `None` where the key holds no number.
    #[must_use]
    pub const fn least(key: Key) -> Option<u64> {
        match Self::field(key) {
            Some(Field { value: Value::Number { min }, .. }) => Some(*min),
            _ => None,
        }
    }

    /// Whether every number is one that its key may hold.
    #[must_use]
    pub const fn is_in_range(&self) -> bool {
        let (a, l) = (&self.architecture, &self.layout);
        let attention = match &a.attention {
            Attention::Mla(mla) => mla.is_in_range(),
            Attention::Gqa(gqa) => gqa.is_in_range(),
        };
        let routing = match &l.routing {
            Routing::Dropless(dropless) => dropless.is_in_range(),
            Routing::Capacity(capacity) => capacity.is_in_range(),
        };
        let accounting = match &l.accounting {
            Accounting::Paper(paper) => paper.is_in_range(),
            Accounting::WorkedExample(example) => example.is_in_range(),
        };
        let top = a.hidden >= 1 && a.hidden <= NUMBER_MAX && a.vocab >= 1 && a.vocab <= NUMBER_MAX;
        top && a.mtp <= NUMBER_MAX
            && a.norms_per_layer >= 1
            && a.norms_per_layer <= NUMBER_MAX
            && attention
            && a.layers.is_in_range()
            && a.experts.is_in_range()
            && l.mesh.is_in_range()
            && l.stages.is_in_range()
            && l.batch.is_in_range()
            && l.zero.is_in_range()
            && l.placement.is_in_range()
            && l.precision.is_in_range()
            && routing
            && accounting
            && l.headroom.percent <= NUMBER_MAX
    }

    /// Writes the leaf behind a key, in the coding of [`Numbers`]; a key that this Spec does not have is left
    /// alone. A bare word in the place of a group (`zero: optimizer`) writes what the word stands for.
    ///
    /// # Panics
    /// If `code` is not the place of a word in the key's list.
    pub const fn set(&mut self, key: Key, code: u64) {
        let (a, l) = (&mut self.architecture, &mut self.layout);
        match key {
            Key::Hidden => a.hidden = code,
            Key::Vocab => a.vocab = code,
            Key::TiedEmbeddings => a.tied_embeddings = Switch::at(code),
            Key::HeadBias => a.head_bias = Switch::at(code),
            Key::Norm => a.norm = Norm::at(code),
            Key::NormsPerLayer => a.norms_per_layer = code,
            Key::Mtp => a.mtp = code,
            Key::Schedule => l.schedule = Schedule::at(code),
            Key::Recompute => l.recompute = Recompute::at(code),
            Key::Target => l.target = Target::at(code),
            Key::Device => l.device = Device::at(code),
            Key::Headroom => l.headroom = percent(code),
            Key::Zero => l.zero = Zero::both(ZeroStage::at(code)),
            Key::Stages | Key::Routing => {
                assert!(code == 0, "the list of choices is shorter");
                self.choose(key, 0);
            }
            Key::Accounting => self.choose(key, code),
            _ => {
                a.layers.set(key, code);
                match &mut a.attention {
                    Attention::Mla(mla) => mla.set(key, code),
                    Attention::Gqa(gqa) => gqa.set(key, code),
                }
                a.experts.set(key, code);
                l.mesh.set(key, code);
                l.stages.set(key, code);
                l.zero.set(key, code);
                l.placement.set(key, code);
                l.precision.set(key, code);
                l.batch.set(key, code);
                match &mut l.routing {
                    Routing::Dropless(dropless) => dropless.set(key, code),
                    Routing::Capacity(capacity) => capacity.set(key, code),
                }
                match &mut l.accounting {
                    Accounting::Paper(paper) => paper.set(key, code),
                    Accounting::WorkedExample(example) => example.set(key, code),
                }
            }
        }
    }

    /// Chooses a kind by its place in the key's list, all its own keys at their defaults.
    ///
    /// # Panics
    /// If the key has no such kind.
    pub const fn choose(&mut self, key: Key, kind: u64) {
        let (a, l) = (&mut self.architecture, &mut self.layout);
        match (key, kind) {
            (Key::Attention, 0) => a.attention = Attention::Mla(Mla::DEFAULT),
            (Key::Attention, 1) => a.attention = Attention::Gqa(Gqa::DEFAULT),
            (Key::Layers, 0) => a.layers = Layers::DEFAULT,
            (Key::Experts, 0) => a.experts = Experts::DEFAULT,
            (Key::Mesh, 0) => l.mesh = Mesh::DEFAULT,
            (Key::Stages, 0) => l.stages = Stages::DEFAULT,
            (Key::Zero, 0) => l.zero = Zero::DEFAULT,
            (Key::Placement, 0) => l.placement = Placement::DEFAULT,
            (Key::Precision, 0) => l.precision = Precision::DEFAULT,
            (Key::Batch, 0) => l.batch = Batch::DEFAULT,
            (Key::Routing, 0) => l.routing = Routing::BALANCED,
            (Key::Routing, 1) => l.routing = Routing::Capacity(Capacity::DEFAULT),
            (Key::Accounting, 0) => l.accounting = Accounting::PAPER,
            (Key::Accounting, 1) => l.accounting = Accounting::WORKED_EXAMPLE,
            _ => panic!("the key has no such kind"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Spec, Value};
    use crate::key::Key;

    /// Every key is described once, and every leaf can be read and written by it.
    #[test]
    fn keys_are_described_read_and_written() {
        for key in Key::ALL {
            let field = Spec::field(*key).unwrap_or_else(|| panic!("{} is described", key.path()));
            let is_leaf = !matches!(field.value, Value::Choice { kinds: [_, ..], .. });
            // One choice of kinds or the other has the key.
            let mut held = 0;
            for choice in 0..8 {
                let mut spec = Spec::DEFAULT;
                spec.choose(Key::Attention, choice & 1);
                spec.choose(Key::Routing, choice >> 1 & 1);
                spec.choose(Key::Accounting, choice >> 2);
                if spec.numbers().get(*key).is_some() {
                    held += 1;
                    spec.set(*key, 1);
                    assert_eq!(spec.numbers().get(*key), Some(1), "{}", key.path());
                }
            }
            assert_eq!(held > 0, is_leaf, "{}", key.path());
        }
    }
}
