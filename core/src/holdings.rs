//! The weights that ranks of a stage hold, one by one: of which layer each is, how its dimensions are split, and where it
//! stands in the flat buffers of its ZeRO group. Manifests, checkpoints and the reference step all ask here.

use crate::checkpoint::are_one;
use crate::counts::{Count, Counts};
use crate::groups::{Coordinates, Group};
use crate::inventory::{Element, Entry, Inventory, Module, Sink};
use crate::mixers::Slot;
use crate::plan::Plan;
use crate::sizes::{Dim, Over, Symbol};
use crate::spec::{Attention, Beside, LayerKind, Split, ZeroGroups, ZeroStage};
use crate::weights::{self, Buffers};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// A weight that ranks of a stage hold, or a buffer that is saved with weights.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holding {
    /// Its name behind the layer's, as the inventory has it.
    pub name: &'static str,
    /// Its layer, from 0, those of multi-token-prediction modules behind the model's; none of embedding, final norm and head.
    pub layer: Option<u64>,
    /// Which of two blocks of its layer it is of, where layers are two.
    pub block: Option<u64>,
    /// The chunk of the rank that holds it.
    pub chunk: u64,
    /// What it belongs to.
    pub module: Module,
    /// The format of its elements.
    pub element: Element,
    /// Whether it is a buffer, which nothing optimises.
    pub is_buffer: bool,
    /// Whether its state is sharded with the routed experts' rather than with the dense parameters'.
    pub expert_group: bool,
    /// Whether it is a copy of the embedding table, as a head of another stage may be.
    pub is_table: bool,
    /// Where it begins in the flat buffers of its ZeRO group; where replicas share its storage, where a rank's part of it
    /// does. 0 of a buffer.
    pub start: u64,
    /// Its dimensions, as files have them: heads and what each has are one, weights of all experts of a layer one tensor.
    pub axes: Vec<Axis>,
    /// Replicas that share its storage (ZeRO-3); 1 where each holds it whole.
    pub shards: u64,
}

/// A dimension of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Axis {
    /// What the field calls it; of two that are one, the first.
    pub symbol: Symbol,
    /// Its length, padding apart.
    pub logical: u64,
    /// Its length over all ranks.
    pub global: u64,
    /// Its length on one rank.
    pub local: u64,
    /// What it is split over.
    pub over: Over,
}

/// What of a tensor a rank holds: along each dimension, from where on and how many.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Part {
    /// The first, along each dimension.
    pub start: Vec<u64>,
    /// How many, along each dimension.
    pub shape: Vec<u64>,
}

impl Part {
    /// Its elements.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }
}

impl fmt::Display for Part {
    /// `[8..16, 0..4096]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, (start, len)) in self.start.iter().zip(&self.shape).enumerate() {
            write!(f, "{}{start}..{}", if i == 0 { "" } else { ", " }, start.saturating_add(*len))?;
        }
        f.write_str("]")
    }
}

/// The parameters of each ZeRO group among what a stage holds: dense ones, and those of experts.
#[must_use]
pub fn parameters(holdings: &[Holding]) -> [u64; 2] {
    let of_group = |expert| holdings.iter().filter(move |of| !of.is_buffer && of.expert_group == expert);
    [false, true].map(|expert| of_group(expert).map(Holding::elements).sum())
}

/// How replicas share out a weight, its gradient or its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    elements: u64,
    start: u64,
    how: How,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// Each has all of it.
    Whole,
    /// The flat buffer of its group is cut into parts of so many elements, wherever they end.
    Buffer { each: u64 },
    /// It is cut by itself into parts of so many elements.
    Itself { each: u64 },
}

/// What of a weight a replica has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Share {
    /// Which of its elements.
    pub elements: Range<u64>,
    /// Where the first of them stands in the replica's flat buffer.
    pub at: u64,
}

impl Cut {
    /// What a replica has, numbered among those that share; an empty range if it has nothing.
    #[must_use]
    pub fn share(self, replica: u64) -> Share {
        let Self { elements, start, how } = self;
        match how {
            How::Whole => Share { elements: Range { start: 0, end: elements }, at: start },
            How::Buffer { each } => {
                // The last part ends with padding.
                let [first, end] = [replica, replica + 1].map(|replica| replica * each);
                let [from, to] = [first, end].map(|place| place.saturating_sub(start).min(elements));
                Share { elements: from..to, at: if from < to { start + from - first } else { 0 } }
            }
            How::Itself { each } => {
                let [from, to] = [replica, replica + 1].map(|replica| (replica * each).min(elements));
                Share { elements: from..to, at: start }
            }
        }
    }

    /// Whether each replica has all of it.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        matches!(self.how, How::Whole)
    }
}

/// Why a layout says how much ranks hold of a tensor, and not what of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unplaced {
    /// The key that says so.
    pub key: &'static str,
    /// What is not known.
    pub why: &'static str,
}

impl fmt::Display for Unplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.key, self.why)
    }
}

impl core::error::Error for Unplaced {}

impl Holding {
    /// Its elements on one rank.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.axes.iter().map(|axis| axis.local).product()
    }

    /// Its elements that a rank keeps, where replicas share its storage with padding.
    #[must_use]
    pub fn kept(&self) -> u64 {
        self.elements().div_ceil(self.shards)
    }

    /// The whole name of the tensor that it is of: `model.layers.3.mlp.gate.weight`, whatever names a family's checkpoints
    /// have. Copies of the embedding table have its name.
    #[must_use]
    pub fn tensor(&self) -> String {
        let name = self.key();
        let name = match (self.block, name.split_once('.')) {
            (Some(block), Some((module, rest))) => format!("{module}.{block}.{rest}"),
            (Some(block), None) => format!("{name}.{block}"),
            (None, _) => name.to_string(),
        };
        match self.layer {
            Some(layer) => format!("model.layers.{layer}.{name}"),
            None => name,
        }
    }

    /// The name of that tensor behind the layer's.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        if self.is_table { TABLE } else { self.name }
    }

    /// What of it the rank at a place holds.
    #[must_use]
    pub fn part(&self, plan: &Plan, at: &Coordinates) -> Part {
        let start = self.axes.iter().map(|axis| plan.place_along(at, axis) * axis.local).collect();
        Part { start, shape: self.axes.iter().map(|axis| axis.local).collect() }
    }
}

const TABLE: &str = "model.embed_tokens.weight";
const HEAD: &str = "lm_head.weight";

impl Plan {
    /// Every weight that a rank of a stage holds, in the order of its flat buffers, and the buffers that are saved with them.
    ///
    /// # Errors
    /// If the layout says how much a rank holds of a tensor alone, and not what.
    ///
    /// # Panics
    /// If there are not so many stages.
    pub fn holdings(&self, stage: u64) -> Result<Vec<Holding>, Unplaced> {
        self.is_placed()?;
        let mut list = List { plan: self, chunk: 0, starts: [0; 2], kinds: BTreeMap::new(), holdings: Vec::new() };
        let is_tied = self.spec().architecture.tied_embeddings.is_on();
        let has_table = (0..self.chunks()).any(|chunk| {
            let chunk = self.chunk(stage, chunk);
            chunk.embedding || chunk.mtp > 0
        });
        for number in 0..self.chunks() {
            list.chunk = number;
            list.chunk(stage, is_tied, has_table)?;
        }
        Ok(list.holdings)
    }

    /// How replicas share out what is sharded from a ZeRO stage on, of a weight whose group has so many parameters on a rank.
    #[must_use]
    pub fn cut(&self, of: &Holding, parameters: u64, from: ZeroStage) -> Cut {
        let how = match of {
            Holding { is_buffer: true, .. } => How::Whole,
            Holding { shards: 1, .. } => self.cut_of_group(of.expert_group, parameters, from).how,
            _ => How::Itself { each: of.kept() },
        };
        Cut { elements: of.elements(), start: of.start, how }
    }

    /// How replicas share out what is sharded from a ZeRO stage on, of all parameters of a group, so many on a rank, that each of
    /// them holds whole: one flat buffer.
    #[must_use]
    pub fn cut_of_group(&self, expert: bool, parameters: u64, from: ZeroStage) -> Cut {
        let each = weights::flat_share(parameters, self, expert, from);
        let how = if each < parameters { How::Buffer { each } } else { How::Whole };
        Cut { elements: parameters, start: 0, how }
    }

    /// Whether the first and the last stage of the pipeline hold one table, and this is one of them: a tied one, or that of
    /// modules for multi-token prediction.
    #[must_use]
    pub fn has_table_twice(&self, stage: u64) -> bool {
        let (architecture, last) = (&self.spec().architecture, self.stages() - 1);
        let is_shared = architecture.tied_embeddings.is_on() || self.counted_mtp() > 0;
        is_shared && last > 0 && (stage == 0 || stage == last)
    }

    /// Which of the replicas that share the state of dense parameters, or of experts, a rank is.
    ///
    /// # Panics
    /// If there are not so many ranks.
    #[must_use]
    pub fn replica(&self, rank: u64, expert: bool) -> u64 {
        let group = if expert { Group::Edp } else { Group::CpDp };
        self.place(group, rank) % self.replicas(expert).max(1)
    }

    /// Whether it is known what of each tensor ranks hold.
    fn is_placed(&self) -> Result<(), Unplaced> {
        let (layout, experts) = (&self.spec().layout, &self.spec().architecture.experts);
        if layout.placement.redundant_experts > 0 && experts.routed > 0 {
            let why = "which experts are there more than once, the layout does not say";
            return Err(Unplaced { key: "placement.redundant_experts", why });
        }
        let is_latent = matches!(self.spec().architecture.attention, Attention::Mla(_));
        if is_latent && layout.mesh.tp > 1 && layout.placement.query_rope == Split::Replicated {
            let why = "a rank holds some heads of one matrix, and of their rotary parts all";
            return Err(Unplaced { key: "placement.query_rope", why });
        }
        if layout.zero.groups == ZeroGroups::Uniform && layout.zero != layout.zero.at(ZeroStage::None) {
            return Err(Unplaced { key: "zero.groups", why: "which ranks share state, `uniform` does not say" });
        }
        Ok(())
    }

    /// Which part of a dimension a rank holds.
    pub(crate) fn place_along(&self, at: &Coordinates, axis: &Axis) -> u64 {
        match (axis.over, axis.global.checked_div(axis.local)) {
            // Neighbours share a part where there are fewer parts than ranks.
            (Over::Tp, Some(parts)) if parts > 0 => at.tp / (self.spec().layout.mesh.tp / parts),
            (Over::Ep, _) => at.ep,
            (Over::Etp, _) => at.etp,
            _ => 0,
        }
    }
}

/// What of a model a chunk holds as one: all layers of one kind are alike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    First,
    Layer(Layer),
    Last,
    Head,
}

/// What a layer has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Layer {
    slots: [bool; 4],
    dense: bool,
    experts: Experts,
    of: Of,
}

/// Whether a layer has experts, and how they are found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Experts {
    None,
    Scored,
    LookedUp,
}

/// What a layer is part of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    /// The model: it has what layers have once.
    Model,
    /// A layer of two blocks: it is one of them.
    Layer,
    /// A module for multi-token prediction.
    Module,
}

struct List<'p> {
    plan: &'p Plan,
    chunk: u64,
    starts: [u64; 2],
    /// What was listed of each kind: of other layers it is the same.
    kinds: BTreeMap<Kind, Vec<Holding>>,
    holdings: Vec<Holding>,
}

impl List<'_> {
    fn chunk(&mut self, stage: u64, is_tied: bool, has_table: bool) -> Result<(), Unplaced> {
        let (chunk, architecture) = (self.plan.chunk(stage, self.chunk), &self.plan.spec().architecture);
        // Modules for multi-token prediction have a copy of their own where the table is on another stage.
        if chunk.embedding || chunk.mtp > 0 {
            self.take(Kind::First, None, None)?;
        }
        for layer in chunk.range() {
            let of = self.layer(layer);
            if architecture.layers.beside == Beside::TwoBlocks && of.experts != Experts::None {
                for block in 0..2 {
                    let one = Layer { experts: Experts::None, of: Of::Layer, ..of };
                    self.take(Kind::Layer(one), Some(layer), Some(block))?;
                }
                self.take(Kind::Layer(Layer { slots: [false; 4], dense: false, ..of }), Some(layer), None)?;
            } else {
                self.take(Kind::Layer(of), Some(layer), None)?;
            }
        }
        for depth in 0..chunk.mtp {
            let (dense, experts) =
                if architecture.layers.moe > 0 { (false, Experts::Scored) } else { (true, Experts::None) };
            let of = Layer { slots: [true, false, false, false], dense, experts, of: Of::Module };
            self.take(Kind::Layer(of), Some(architecture.layers.count() + depth), None)?;
        }
        if chunk.head {
            self.take(Kind::Last, None, None)?;
            if !(is_tied && has_table) {
                self.take(Kind::Head, None, None)?;
            }
        }
        Ok(())
    }

    fn layer(&self, layer: u64) -> Layer {
        let architecture = &self.plan.spec().architecture;
        let layers = &architecture.layers;
        let before = || (0..layer).filter(|layer| layers.has_experts(*layer)).count() as u64;
        let experts = if !layers.has_experts(layer) {
            Experts::None
        } else if architecture.experts.hash_layers > 0 && before() < architecture.experts.hash_layers {
            Experts::LookedUp
        } else {
            Experts::Scored
        };
        let is_beside = experts != Experts::None && layers.beside != Beside::None;
        if layers.list.is_none() {
            let dense = experts == Experts::None || is_beside;
            return Layer { slots: [true, false, false, false], dense, experts, of: Of::Model };
        }
        let has = |kind| layers.list.has(kind, layer);
        let slots = Slot::ALL.map(|slot| has(LayerKind::ALL[slot as usize]));
        Layer { slots, dense: has(LayerKind::Dense) || is_beside, experts, of: Of::Model }
    }

    fn take(&mut self, kind: Kind, layer: Option<u64>, block: Option<u64>) -> Result<(), Unplaced> {
        let alike = match self.kinds.get(&kind) {
            Some(alike) => alike.clone(),
            None => self.kinds.entry(kind).or_insert(self.plan.of_kind(kind)?).clone(),
        };
        for holding in alike {
            let mut next = 0;
            if !holding.is_buffer {
                let group = &mut self.starts[usize::from(holding.expert_group)];
                next = *group;
                *group += holding.kept();
            }
            self.holdings.push(Holding { layer, block, chunk: self.chunk, start: next, ..holding });
        }
        Ok(())
    }
}

impl Plan {
    /// What stands where a chunk holds something.
    fn of_kind(&self, kind: Kind) -> Result<Vec<Holding>, Unplaced> {
        let (mut counts, mut buffers) = (Counts::NONE, Buffers::NONE);
        match kind {
            Kind::First => counts.first = Count::ONE,
            Kind::Last => counts.last = Count::ONE,
            Kind::Head => counts.head = Count::ONE,
            Kind::Layer(of) => {
                counts.mixers = of.slots.map(count_if);
                (counts.dense, counts.moe) = (count_if(of.dense), count_if(of.experts != Experts::None));
                counts.mtp = count_if(of.of == Of::Module);
                buffers = Buffers {
                    layers: u64::from(of.of == Of::Model),
                    mixer: u64::from(of.slots[Slot::Mixer as usize]),
                    moe: u64::from(of.experts == Experts::Scored),
                    hash: u64::from(of.experts == Experts::LookedUp),
                };
            }
        }
        let sizes = &self.sizes();
        let weights = listed(|list| weights::list(list, self, sizes, counts));
        let buffers = listed(|list| weights::list_buffers(list, self, sizes, Module::Router, &buffers));
        let is_tied = self.spec().architecture.tied_embeddings.is_on();
        let of = |entries: &[Entry], is_buffer| {
            let alike = entries.chunk_by(|one, next| one.name == next.name && !next.part.is_empty());
            alike.map(|parts| self.holding(parts, is_buffer, is_tied)).collect::<Result<Vec<_>, _>>()
        };
        let mut all = of(&weights, false)?;
        all.extend(of(&buffers, true)?);
        Ok(all)
    }

    /// A tensor whose parts these are.
    fn holding(&self, parts: &[Entry], is_buffer: bool, is_tied: bool) -> Result<Holding, Unplaced> {
        let first = &parts[0];
        let is_stacked = |dim: &Dim| {
            matches!(dim.symbol, Symbol::Projected | Symbol::Mixed) && dim.over == Over::Tp && dim.local < dim.global
        };
        if first.shape.iter().any(is_stacked) {
            let why =
                "ranks hold their heads of several matrices that stand below one another, in an order of their own";
            return Err(Unplaced { key: "mixer", why });
        }
        Ok(Holding {
            name: first.name,
            layer: None,
            block: None,
            chunk: 0,
            module: first.module,
            element: first.element,
            is_buffer,
            expert_group: first.expert_group && !is_buffer,
            is_table: is_tied && first.name == HEAD,
            start: 0,
            axes: self.axes(&whole(parts)),
            shards: if is_buffer { 1 } else { first.shards },
        })
    }

    /// The dimensions as files have them.
    fn axes(&self, dims: &[Dim]) -> Vec<Axis> {
        let vocab = self.spec().architecture.vocab;
        let len = dims.iter().rposition(|dim| *dim != Dim::ONE).map_or(1, |last| last + 1);
        let (mut axes, mut before): (Vec<Axis>, &Dim) = (Vec::new(), &Dim::ONE);
        for dim in &dims[..len] {
            match axes.last_mut() {
                Some(last) if dim.local == dim.global && are_one(before, dim) => {
                    let each = dim.global;
                    for length in [&mut last.logical, &mut last.global, &mut last.local] {
                        *length *= each;
                    }
                }
                _ => {
                    let Dim { symbol, global, local, over } = *dim;
                    let logical = if symbol == Symbol::Vocab { vocab.min(global) } else { global };
                    axes.push(Axis { symbol, logical, global, local, over });
                }
            }
            before = dim;
        }
        axes
    }
}

fn count_if(is_there: bool) -> Count {
    if is_there { Count::ONE } else { Count::NONE }
}

/// The dimensions of a weight whose parts these are: they stand behind one another in the second one, of each head, or in the
/// first.
fn whole(parts: &[Entry]) -> Vec<Dim> {
    let [first, second, third, fourth] = parts[0].shape;
    let sum = |place: usize| {
        let of = parts.iter().map(|entry| entry.shape[place]);
        of.fold((0, 0), |(global, local), dim| (global + dim.global, local + dim.local))
    };
    let is_as_first = |entry: &Entry| {
        let [dim, other] = [entry.shape[0], first];
        (dim.symbol, dim.global, dim.local) == (other.symbol, other.global, other.local)
    };
    let is_by_head = parts.len() > 1 && parts.iter().all(is_as_first);
    if is_by_head {
        let (global, local) = sum(1);
        vec![first, Dim { global, local, ..second }, third, fourth]
    } else {
        let (global, local) = sum(0);
        vec![Dim { global, local, ..first }, second, third, fourth]
    }
}

/// What is listed of one layer.
fn listed(lists: impl FnOnce(&mut Sink<'_>)) -> Vec<Entry> {
    let mut entries = vec![Entry::NONE; Inventory::CAPACITY];
    lists(&mut Sink::new(&mut entries));
    let len = entries.iter().take_while(|entry| !entry.name.is_empty()).count();
    entries.truncate(len);
    entries
}
