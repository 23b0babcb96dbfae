//! The Spec: what the user said, as plain data, and the one table of keys behind it.
//!
//! Each group in `architecture.rs` and `layout.rs` is written once. From it come the struct that a declaration fills,
//! its documentation, the [`Field`]s by which the macro (and any file reader) walks a declaration, and access by
//! [`Key`]. A new key is one line in `key.rs` and one line there.

mod architecture;
#[cfg(feature = "serde")]
pub mod file;
mod layer_list;
mod layout;
mod megatron;
mod pytorch;
pub(crate) mod schema;
mod serving;
mod stage_list;
mod values;

pub use crate::device::Device;
pub use crate::mixers::*;
pub(crate) use architecture::Blocks;
pub use architecture::{Architecture, Beside, CorrectionBias, Experts, Layers, Norm};
pub use layer_list::{LayerKind, LayerList};
pub use layout::{
    Accounting, Batch, Capacity, Checkpoint, Compute, Context, Dropless, Kernel, Layout, Load, Mesh, Modules, Paper,
    Placement, Pool, Precision, Recompute, Reference, Routing, Schedule, Split, Stages, Target, Weighed, WorkedExample,
    Zero, ZeroGroups, ZeroStage,
};
#[doc(hidden)]
pub use layout::{accounting, routing, stages, zero};
pub use megatron::{
    AuxLoss, CoreAttention, Cublas, Dispatcher, ExpertKernel, GatedActivation, Implementation, Loss, MegatronCore,
    MegatronVersion, RouterFormat, Score,
};
pub use pytorch::{AttentionCode, Backend, NormCode, RoutedCode, Torchtitan, Transformers};
pub use schema::{Field, Kind, NUMBER_MAX, Value, Word};
pub use serving::{MlaCache, Service, Serving};
pub use stage_list::{Fault, StageList};
pub use values::{Dtype, Factor, Percent, Switch, percent};

use crate::key::{Key, KeySet, Numbers};

/// The groups that have no other kinds.
const PLAIN: [&[Field]; 11] = [
    Architecture::FIELDS,
    Layers::FIELDS,
    Experts::FIELDS,
    Layout::FIELDS,
    Mesh::FIELDS,
    Stages::FIELDS,
    Zero::FIELDS,
    Placement::FIELDS,
    Precision::FIELDS,
    Batch::FIELDS,
    Modules::FIELDS,
];

/// Those that have.
const CHOICES: [&[Kind]; 5] = [Attention::KINDS, Mixer::KINDS, Routing::KINDS, Service::KINDS, Accounting::KINDS];

/// The keys of every group and kind.
pub const GROUPS: &[&[Field]] = &{
    let (mut groups, mut len) = ([PLAIN[0]; PLAIN.len() + kinds()], 0);
    while len < PLAIN.len() {
        groups[len] = PLAIN[len];
        len += 1;
    }
    let mut choice = 0;
    while choice < CHOICES.len() {
        let mut kind = 0;
        while kind < CHOICES[choice].len() {
            groups[len] = CHOICES[choice][kind].fields;
            (kind, len) = (kind + 1, len + 1);
        }
        choice += 1;
    }
    groups
};

/// How many kinds there are to choose from.
const fn kinds() -> usize {
    let (mut sum, mut choice) = (0, 0);
    while choice < CHOICES.len() {
        sum += CHOICES[choice].len();
        choice += 1;
    }
    sum
}

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
        // By index rather than by a call for each, which const evaluation would notice.
        const SINGLE: KeySet = KeySet::of(&[
            Key::Hidden,
            Key::Vocab,
            Key::TiedEmbeddings,
            Key::HeadBias,
            Key::Norm,
            Key::NormsPerLayer,
            Key::LayerScalar,
            Key::HyperConnections,
            Key::Positions,
            Key::Mtp,
            Key::Schedule,
            Key::Recompute,
            Key::RecomputeLayers,
            Key::RecomputeTogether,
            Key::Target,
            Key::Device,
            Key::Headroom,
        ]);
        let (a, l) = (&self.architecture, &self.layout);
        let mut numbers = Numbers::NONE;
        let n = &mut numbers;
        n.present = SINGLE;
        n.values[Key::Hidden as usize] = a.hidden;
        n.values[Key::Vocab as usize] = a.vocab;
        n.values[Key::TiedEmbeddings as usize] = a.tied_embeddings as u64;
        n.values[Key::HeadBias as usize] = a.head_bias as u64;
        n.values[Key::Norm as usize] = a.norm as u64;
        n.values[Key::NormsPerLayer as usize] = a.norms_per_layer;
        n.values[Key::LayerScalar as usize] = a.layer_scalar as u64;
        n.values[Key::HyperConnections as usize] = a.hyper_connections;
        n.values[Key::Positions as usize] = a.positions;
        n.values[Key::Mtp as usize] = a.mtp;
        n.values[Key::Schedule as usize] = l.schedule as u64;
        n.values[Key::Recompute as usize] = l.recompute as u64;
        n.values[Key::RecomputeLayers as usize] = l.recompute_layers;
        n.values[Key::RecomputeTogether as usize] = l.recompute_together;
        n.values[Key::Target as usize] = l.target as u64;
        n.values[Key::Device as usize] = l.device as u64;
        n.values[Key::Headroom as usize] = l.headroom.percent;
        a.layers.read(n);
        if n.values[Key::LayersList as usize] > 0 {
            let mut kind = 0;
            while kind < LayerKind::ALL.len() {
                n.kinds[kind] = a.layers.list.count(LayerKind::ALL[kind]);
                kind += 1;
            }
            n.starts_with_mixer = a.layers.list.has(LayerKind::Mixer, 0);
        }
        a.attention.read(n);
        if !matches!(a.mixer, Mixer::None) {
            a.mixer.read(n);
        }
        a.experts.read(n);
        l.mesh.read(n);
        l.stages.read(n);
        if n.values[Key::StagesList as usize] > 0 {
            let list = &l.stages.list;
            let mtp_stage = match list.mtp_stage() {
                Some(stage) => stage,
                None => 0,
            };
            let common = if l.recompute_together > 0 { list.common() } else { 0 };
            n.listed = [list.layers(), list.mtp(), mtp_stage, common];
        }
        l.zero.read(n);
        l.placement.read(n);
        l.precision.read(n);
        l.batch.read(n);
        l.modules.read(n);
        l.routing.read(n);
        if !matches!(l.serving, Service::None) {
            l.serving.read(n);
        }
        l.accounting.read(n);
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
        let top = a.hidden >= 1 && a.hidden <= NUMBER_MAX && a.vocab >= 1 && a.vocab <= NUMBER_MAX;
        top && a.mtp <= NUMBER_MAX
            && a.norms_per_layer >= 1
            && a.norms_per_layer <= NUMBER_MAX
            && a.hyper_connections <= NUMBER_MAX
            && a.positions <= NUMBER_MAX
            && a.attention.is_in_range()
            && (matches!(a.mixer, Mixer::None) || a.mixer.is_in_range())
            && a.layers.is_in_range()
            && a.experts.is_in_range()
            && l.mesh.is_in_range()
            && l.stages.is_in_range()
            && l.batch.is_in_range()
            && l.zero.is_in_range()
            && l.placement.is_in_range()
            && l.precision.is_in_range()
            && l.modules.is_in_range()
            && l.routing.is_in_range()
            && (matches!(l.serving, Service::None) || l.serving.is_in_range())
            && l.accounting.is_in_range()
            && l.recompute_layers <= NUMBER_MAX
            && l.recompute_together <= NUMBER_MAX
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
            Key::LayerScalar => a.layer_scalar = Switch::at(code),
            Key::HyperConnections => a.hyper_connections = code,
            Key::Positions => a.positions = code,
            Key::Mtp => a.mtp = code,
            Key::Schedule => l.schedule = Schedule::at(code),
            Key::Recompute => l.recompute = Recompute::at(code),
            Key::RecomputeLayers => l.recompute_layers = code,
            Key::RecomputeTogether => l.recompute_together = code,
            Key::Target => l.target = Target::at(code),
            Key::Device => l.device = Device::at(code),
            Key::Headroom => l.headroom = percent(code),
            Key::Zero => l.zero = Zero::both(ZeroStage::at(code)),
            Key::Stages => {
                assert!(code == 0, "the list of choices is shorter");
                self.choose(key, 0);
            }
            Key::Routing => {
                assert!(code < Routing::WORDS.len() as u64, "the list of choices is shorter");
                l.routing = if code == 0 { Routing::BALANCED } else { Routing::WORST };
            }
            Key::Accounting => self.choose(key, code),
            Key::Mixer => {
                assert!(code == 0, "the list of choices is shorter");
                a.mixer = Mixer::None;
            }
            Key::Serving => {
                assert!(code == 0, "the list of choices is shorter");
                l.serving = Service::None;
            }
            _ => {
                a.layers.set(key, code);
                a.attention.set(key, code);
                a.mixer.set(key, code);
                a.experts.set(key, code);
                l.mesh.set(key, code);
                l.stages.set(key, code);
                l.zero.set(key, code);
                l.placement.set(key, code);
                l.precision.set(key, code);
                l.batch.set(key, code);
                l.modules.set(key, code);
                l.routing.set(key, code);
                l.serving.set(key, code);
                l.accounting.set(key, code);
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
            (Key::Attention, kind) => a.attention = Attention::of_kind(kind),
            (Key::Mixer, kind) => a.mixer = Mixer::of_kind(kind),
            (Key::Layers, 0) => a.layers = Layers::DEFAULT,
            (Key::Experts, 0) => a.experts = Experts::DEFAULT,
            (Key::Mesh, 0) => l.mesh = Mesh::DEFAULT,
            (Key::Stages, 0) => l.stages = Stages::DEFAULT,
            (Key::Zero, 0) => l.zero = Zero::DEFAULT,
            (Key::Placement, 0) => l.placement = Placement::DEFAULT,
            (Key::Precision, 0) => l.precision = Precision::DEFAULT,
            (Key::Batch, 0) => l.batch = Batch::DEFAULT,
            (Key::Modules, 0) => l.modules = Modules::DEFAULT,
            (Key::Routing, kind) => l.routing = Routing::of_kind(kind),
            (Key::Serving, kind) => l.serving = Service::of_kind(kind),
            (Key::Accounting, kind) => l.accounting = Accounting::of_kind(kind),
            _ => panic!("the key has no such kind"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Accounting, Attention, Mixer, Routing, Service, Spec, Value};
    use crate::key::Key;

    /// Kinds of a group may share a key; what it may hold is the same in all of them.
    #[test]
    fn shared_keys_hold_the_same() {
        for field in super::GROUPS.iter().copied().flatten() {
            let first = Spec::field(field.key).expect("it is described");
            match (&first.value, &field.value) {
                (Value::Number { min: a }, Value::Number { min: b }) => assert_eq!(a, b, "{}", field.key.path()),
                (Value::Choice { words: a, .. }, Value::Choice { words: b, .. }) => assert_eq!(a.len(), b.len()),
                (a, b) => assert_eq!(core::mem::discriminant(a), core::mem::discriminant(b), "{}", field.key.path()),
            }
        }
    }

    /// Every key is described once, and every leaf can be read and written by it.
    #[test]
    fn keys_are_described_read_and_written() {
        for key in Key::ALL {
            let field = Spec::field(*key).unwrap_or_else(|| panic!("{} is described", key.path()));
            let is_leaf = !matches!(field.value, Value::Choice { kinds: [_, ..], .. });
            // One choice of kinds or the other has the key.
            let mut held = false;
            let choices = [Attention::KINDS, Mixer::KINDS, Routing::KINDS, Service::KINDS, Accounting::KINDS];
            let groups = [Key::Attention, Key::Mixer, Key::Routing, Key::Serving, Key::Accounting];
            for (group, kinds) in groups.into_iter().zip(choices) {
                for kind in 0..kinds.len() as u64 {
                    let mut spec = Spec::DEFAULT;
                    spec.choose(group, kind);
                    if spec.numbers().get(*key).is_some() {
                        held = true;
                        spec.set(*key, 1);
                        assert_eq!(spec.numbers().get(*key), Some(1), "{}", key.path());
                    }
                }
            }
            assert_eq!(held, is_leaf, "{}", key.path());
        }
    }
}
