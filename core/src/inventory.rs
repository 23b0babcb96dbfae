//! The Inventory: every kind of tensor that a rank holds, with its shape, format, number and lifetime. Budgets,
//! timelines, manifests and reports are folds over this list; none of them knows an architecture.

use crate::accounting;
use crate::bytes::Bytes;
use crate::counts::{Counts, Part};
use crate::mixers::cache::Kept;
use crate::plan::Plan;
use crate::saturating::{add, mul};
use crate::serving;
use crate::sizes::Dim;
use crate::spec::{Dtype, ZeroGroups};
use crate::tally::{Tally, Units};
use crate::weights;
use core::fmt;

/// What a tensor is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[repr(u8)]
#[non_exhaustive]
pub enum Role {
    /// A weight that forward and backward use.
    Weight,
    /// A gradient that accumulates over micro-batches.
    Gradient,
    /// The optimizer's master copy of weights.
    MasterWeight,
    /// The optimizer's first moment.
    FirstMoment,
    /// The optimizer's second moment.
    SecondMoment,
    /// Saved by forward for backward.
    Activation,
    /// A working set inside an operation, or a block or layers that are computed again.
    Transient,
    /// A buffer that collectives send from or receive into.
    Communication,
    /// What a library or a framework keeps beyond the tensors of the model: workspaces of matrix products, buffers that are
    /// used again, what a dispatcher remembers.
    Workspace,
    /// Kept of the sequences that are served: keys and values, latents, states.
    KvCache,
}

impl Role {
    /// Every role.
    pub const ALL: &'static [Self] = &[
        Self::Weight,
        Self::Gradient,
        Self::MasterWeight,
        Self::FirstMoment,
        Self::SecondMoment,
        Self::Activation,
        Self::Transient,
        Self::Communication,
        Self::Workspace,
        Self::KvCache,
    ];

    /// The name in reports and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::Gradient => "gradient",
            Self::MasterWeight => "master_weight",
            Self::FirstMoment => "first_moment",
            Self::SecondMoment => "second_moment",
            Self::Activation => "activation",
            Self::Transient => "transient",
            Self::Communication => "communication",
            Self::Workspace => "workspace",
            Self::KvCache => "kv_cache",
        }
    }
}

/// A part of a step, or of serving, whose peak is looked at by itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[repr(u8)]
#[non_exhaustive]
pub enum Phase {
    /// Before the first forward of a step; in serving once the model is loaded and its cache set aside.
    BetweenSteps,
    /// The last forward before the first backward: all micro-batches in flight.
    Forward,
    /// The first backward: all micro-batches still in flight.
    Backward,
    /// The optimizer's update.
    OptimizerStep,
    /// Serving, while prompts run, as many of their tokens at once as `serving.prefill` says.
    Prefill,
    /// Serving, while one token of every sequence runs.
    Decode,
}

impl Phase {
    /// Every phase: those of a step in their order, then those of serving.
    pub const ALL: &'static [Self] =
        &[Self::BetweenSteps, Self::Forward, Self::Backward, Self::OptimizerStep, Self::Prefill, Self::Decode];

    /// The phases of a training step, in its order.
    pub const TRAINING: &'static [Self] = Self::ALL.split_at(4).0;

    /// The phases of serving.
    pub const SERVING: &'static [Self] = &[Self::BetweenSteps, Self::Prefill, Self::Decode];

    /// The name in reports and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BetweenSteps => "between_steps",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::OptimizerStep => "optimizer_step",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The part of a model that a tensor belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Module {
    /// Embedding table and token ids.
    Embedding,
    /// Attention.
    Attention,
    /// Norms.
    Norm,
    /// What mixes residual streams around blocks.
    HyperConnections,
    /// Dense feed-forward network.
    DenseFfn,
    /// Router.
    Router,
    /// Routed experts.
    RoutedExperts,
    /// Shared experts.
    SharedExperts,
    /// Head, logits and loss.
    Head,
    /// Multi-token-prediction modules.
    Mtp,
    /// Flat buffers of the dense ZeRO group.
    DenseState,
    /// Flat buffers of the expert ZeRO group.
    ExpertState,
    /// Libraries that compute.
    Libraries,
}

impl Module {
    /// The name in reports and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::Attention => "attention",
            Self::Norm => "norm",
            Self::HyperConnections => "hyper_connections",
            Self::DenseFfn => "dense_ffn",
            Self::Router => "router",
            Self::RoutedExperts => "routed_experts",
            Self::SharedExperts => "shared_experts",
            Self::Head => "head",
            Self::Mtp => "mtp",
            Self::DenseState => "dense_state",
            Self::ExpertState => "expert_state",
            Self::Libraries => "libraries",
        }
    }

    /// Whether the module is part of what replaces the dense network in a layer with experts.
    #[must_use]
    pub const fn is_moe(self) -> bool {
        matches!(self, Self::Router | Self::RoutedExperts | Self::SharedExperts)
    }

    /// Whether its optimizer state is sharded with the routed experts' or with the dense parameters'.
    #[must_use]
    pub const fn is_expert_group(self, groups: ZeroGroups) -> bool {
        match groups {
            ZeroGroups::MoeBlock => self.is_moe(),
            ZeroGroups::ByReplica | ZeroGroups::Uniform => matches!(self, Self::RoutedExperts),
        }
    }
}

/// The blocks of a layer that run one after the other, never at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Block {
    /// Embedding.
    Embedding,
    /// Attention.
    Attention,
    /// The mixer in its place.
    Mixer,
    /// Compressed attention.
    Compressed,
    /// Heavily compressed attention.
    Heavy,
    /// Dense feed-forward network, or the whole dense layer.
    Dense,
    /// Router and experts, or the whole layer with experts.
    Moe,
    /// Final norm, head and loss.
    Head,
    /// What a multi-token-prediction module has in front of its layer.
    Mtp,
    /// What it has behind it: norm, head and loss.
    MtpHead,
}

impl Block {
    /// Every block.
    pub const ALL: &'static [Self] = &[
        Self::Embedding,
        Self::Attention,
        Self::Mixer,
        Self::Compressed,
        Self::Heavy,
        Self::Dense,
        Self::Moe,
        Self::Head,
        Self::Mtp,
        Self::MtpHead,
    ];
}

/// When a tensor lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime {
    /// From loading to the end.
    Always,
    /// From a micro-batch's forward to its backward: one for each micro-batch in flight.
    MicroBatch,
    /// Throughout forward and backward, whatever runs.
    ForwardAndBackward,
    /// In forward, while one block of one layer runs.
    InForward(Block),
    /// In backward, while one block of one layer runs.
    InBackward(Block),
    /// Throughout the optimizer step.
    OptimizerStep,
    /// From the last backward of a step to the first forward of the next: what is kept of the last micro-batch without need.
    Idle,
    /// In prefill, while one block of one layer runs.
    InPrefill(Block),
    /// In decode, while one block of one layer runs.
    InDecode(Block),
}

impl Lifetime {
    /// What layers share, one after the other: a bit for each of these lifetimes, none for others.
    const fn turn(self) -> u8 {
        match self {
            Self::InForward(_) => Turns::FORWARD,
            Self::InBackward(_) => Turns::BACKWARD,
            Self::ForwardAndBackward => Turns::BUFFERS,
            _ => 0,
        }
    }
}

/// The format of one element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Element {
    /// Its name.
    pub name: &'static str,
    /// Its size.
    pub bytes: u64,
}

impl Element {
    /// A mask of one byte an element.
    pub const MASK: Self = Self { name: "mask", bytes: 1 };
    /// A 32-bit integer.
    pub const INT32: Self = Self { name: "int32", bytes: 4 };
    /// A 64-bit integer.
    pub const INT64: Self = Self { name: "int64", bytes: 8 };
    /// IEEE single precision.
    pub const FP32: Self = Self::float(Dtype::Fp32);

    /// A float of some format.
    #[must_use]
    pub const fn float(dtype: Dtype) -> Self {
        Self { name: dtype.word(), bytes: dtype.bytes() }
    }
}

/// One kind of tensor on a rank, with a multiplicity: never 256 copies of the same line.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name, as checkpoints name it behind `model.layers.N.` where they hold it.
    pub name: &'static str,
    /// Which rows of that tensor, where the layout treats some apart; empty for all.
    pub part: &'static str,
    /// What it belongs to.
    pub module: Module,
    /// What it is for.
    pub role: Role,
    /// Its dimensions; trailing ones are not there.
    pub shape: [Dim; 4],
    /// The format of its elements.
    pub element: Element,
    /// How many there are on the rank: layers, or tensors of the same shape in an operation.
    pub count: u64,
    /// How many of them are held at once, at most: for what lives from forward to backward, as many times as micro-batches
    /// are in flight.
    pub held: u64,
    /// Replicas that share its storage (ZeRO-3); 1 where each holds it whole.
    pub shards: u64,
    /// Whether its state is sharded with the routed experts' rather than with the dense parameters'.
    pub expert_group: bool,
    /// When it lives.
    pub lifetime: Lifetime,
    /// Who counts it so.
    pub source: &'static str,
    /// Whether its module is part of what replaces the dense network: asked once for many entries.
    pub(crate) is_moe: bool,
    /// Elements of parts of the same tensor in front of this one: replicas that share its storage round up once.
    pub(crate) before: u64,
}

impl Entry {
    pub(crate) const NONE: Self = Self {
        name: "",
        part: "",
        module: Module::Norm,
        role: Role::Weight,
        shape: [Dim::ONE; 4],
        element: Element::MASK,
        count: 0,
        held: 0,
        shards: 1,
        expert_group: false,
        lifetime: Lifetime::Always,
        source: "",
        is_moe: false,
        before: 0,
    };

    /// Elements over all ranks of a replica, of one such tensor.
    #[must_use]
    pub const fn global_elements(&self) -> u64 {
        let [a, b, c, d] = self.shape;
        mul(mul(mul(d.global, c.global), b.global), a.global)
    }

    /// Elements of this rank's part of one such tensor, before ZeRO shares it out.
    #[must_use]
    pub const fn local_elements(&self) -> u64 {
        let [a, b, c, d] = &self.shape;
        mul(mul(mul(d.local, c.local), b.local), a.local)
    }

    /// Bytes of one of them on this rank.
    #[must_use]
    pub const fn one(&self) -> Bytes {
        self.bytes_of(1)
    }

    /// Bytes on this rank, over all `count` of them; for one micro-batch where it lives for one.
    #[must_use]
    pub const fn bytes(&self) -> Bytes {
        self.bytes_of(self.count)
    }

    const fn bytes_of(&self, count: u64) -> Bytes {
        let (local, before) = (self.local_elements(), self.before);
        let held = if self.shards == 1 {
            local
        } else {
            add(before, local).div_ceil(self.shards) - before.div_ceil(self.shards)
        };
        Bytes::new(mul(mul(count, self.element.bytes), held))
    }

    /// Bytes on this rank in a phase, if its block runs; of what lives from forward to backward, for all micro-batches in
    /// flight.
    #[must_use]
    pub const fn bytes_at(&self, phase: Phase) -> Bytes {
        let runs = matches!(phase, Phase::Forward | Phase::Backward);
        match self.lifetime {
            Lifetime::Always => self.bytes(),
            Lifetime::MicroBatch if runs => self.bytes_of(self.held),
            Lifetime::ForwardAndBackward if runs => self.bytes(),
            Lifetime::InForward(_) if matches!(phase, Phase::Forward) => self.bytes(),
            Lifetime::InBackward(_) if matches!(phase, Phase::Backward) => self.bytes(),
            Lifetime::OptimizerStep if matches!(phase, Phase::OptimizerStep) => self.bytes(),
            Lifetime::Idle if matches!(phase, Phase::BetweenSteps | Phase::OptimizerStep) => self.bytes(),
            Lifetime::InPrefill(_) if matches!(phase, Phase::Prefill) => self.bytes(),
            Lifetime::InDecode(_) if matches!(phase, Phase::Decode) => self.bytes(),
            _ => Bytes::ZERO,
        }
    }
}

/// `self_attn.q_b_proj.weight (rope): [n_h/2, d_hr, d_cq] x 2 B x 4 = 48.00 MiB`.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if !self.part.is_empty() {
            write!(f, " ({})", self.part)?;
        }
        f.write_str(": [")?;
        for (i, dim) in self.shape.iter().filter(|dim| **dim != Dim::ONE).enumerate() {
            write!(f, "{}{dim}", if i == 0 { "" } else { ", " })?;
        }
        write!(f, "] x {} B", self.element.bytes)?;
        if self.count != 1 {
            write!(f, " x {}", self.count)?;
        }
        if self.shards != 1 {
            write!(f, " / {}", self.shards)?;
        }
        write!(f, " = {}", self.bytes())
    }
}

/// Where entries are listed: their sums, and they themselves as far as there is room wanted for them. What a rank
/// holds is listed by one body of code, whether the list is wanted or, in const evaluation, its sums alone.
///
/// Not generic over the room: const evaluation takes twice as long in generic functions.
pub(crate) struct Sink<'l> {
    entries: &'l mut [Entry],
    len: usize,
    keeps: bool,
    /// The sums of each part, if they are wanted apart; else all in the first.
    pub(crate) tallies: [Tally; Part::COUNT],
    splits: bool,
    part: usize,
    /// What is listed elsewhere.
    left_out: Turns,
    /// Of [`left_out`](Self::left_out) the bits of the part that is listed.
    turns: u8,
}

/// Of parts that are listed twice, computed again and not, what is listed once: of each part, a bit for what it works on in
/// forward, in backward, and for its buffers.
#[derive(Clone, Copy)]
pub(crate) struct Turns {
    pub(crate) of: [u8; Part::COUNT],
}

impl Turns {
    pub(crate) const FORWARD: u8 = 1;
    pub(crate) const BACKWARD: u8 = 2;
    pub(crate) const BUFFERS: u8 = 4;
    pub(crate) const NONE: Self = Self { of: [0; Part::COUNT] };
}

/// Part of a tensor, by its name.
type Named = (&'static str, [Dim; 4]);

impl<'l> Sink<'l> {
    /// With no room, only sums are kept.
    pub(crate) const fn new(entries: &'l mut [Entry]) -> Self {
        Self {
            keeps: !entries.is_empty(),
            entries,
            len: 0,
            tallies: [Tally::EMPTY; Part::COUNT],
            splits: false,
            part: 0,
            left_out: Turns::NONE,
            turns: 0,
        }
    }

    /// For the sums of each part, listed once.
    pub(crate) const fn by_part() -> Sink<'static> {
        Sink {
            entries: &mut [],
            len: 0,
            keeps: false,
            tallies: [Tally::EMPTY; Part::COUNT],
            splits: true,
            part: 0,
            left_out: Turns::NONE,
            turns: 0,
        }
    }

    /// How many entries are listed.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// What follows is listed without what parts share.
    pub(crate) const fn leave_out(&mut self, turns: Turns) {
        (self.left_out, self.turns) = (turns, 0);
    }

    /// What follows belongs to a part.
    pub(crate) const fn part(&mut self, part: Part) {
        if self.splits {
            self.part = part as usize;
        } else {
            self.turns = self.left_out.of[part as usize];
        }
    }

    /// The sums of all that was listed, where parts are not wanted apart.
    pub(crate) const fn tally(&self) -> &Tally {
        &self.tallies[0]
    }

    /// Appends an entry of some name and shape; what it shares with others is in `common`. One function, since const
    /// evaluation notices each call, and this is what it calls most.
    pub(crate) const fn push(&mut self, common: &Entry, name: &'static str, shape: [Dim; 4]) {
        if self.turns != 0 && self.turns & common.lifetime.turn() != 0 {
            return;
        }
        let tally = &mut self.tallies[self.part];
        // Four numbers of a declaration, or fewer and a sum or product of two: see `NUMBER_MAX`.
        let [a, b, c, d] = &shape;
        let elements = a.local as u128 * b.local as u128 * c.local as u128 * d.local as u128;
        let held = if common.shards == 1 {
            elements
        } else {
            let (before, shards) = (common.before as u128, common.shards as u128);
            (before + elements).div_ceil(shards) - before.div_ceil(shards)
        };
        let held = if held > u64::MAX as u128 { u64::MAX as u128 } else { held };
        let bytes = held * (common.element.bytes * common.count) as u128;
        // The role follows from the lifetime, but for what always stands.
        match common.lifetime {
            Lifetime::Always => tally.always[common.role as usize] += bytes,
            Lifetime::MicroBatch => tally.micro_batch += bytes,
            Lifetime::ForwardAndBackward => tally.buffers += bytes,
            Lifetime::InForward(_) => tally.forward += bytes,
            Lifetime::InBackward(_) => tally.backward += bytes,
            Lifetime::OptimizerStep => tally.update += bytes,
            Lifetime::Idle => tally.idle += bytes,
            Lifetime::InPrefill(_) => tally.prefill += bytes,
            Lifetime::InDecode(_) => tally.decode += bytes,
        }
        if let Role::Weight = common.role {
            let elements = elements * common.count as u128;
            tally.grouped[common.expert_group as usize] += elements;
            tally.shares[common.expert_group as usize] += held * common.count as u128;
            if common.is_moe {
                tally.moe += elements;
            } else {
                tally.non_moe += elements;
            }
        }
        // What the rank has none of adds nothing to sums, and is left out of lists.
        if self.keeps && common.count > 0 && common.element.bytes > 0 {
            self.entries[self.len] = Entry { name, shape, ..*common };
            self.len += 1;
        }
    }

    /// Appends an entry of which part of a tensor it is.
    pub(crate) const fn push_part(&mut self, common: &Entry, name: &'static str, part: &'static str, shape: [Dim; 4]) {
        let listed = self.len;
        self.push(common, name, shape);
        if self.len > listed {
            self.entries[listed].part = part;
        }
    }

    /// Appends two entries that are one tensor's parts.
    pub(crate) const fn push_two(&mut self, common: &Entry, name: &'static str, first: Named, second: Named) {
        self.push_part(common, name, first.0, first.1);
        if common.shards == 1 {
            self.push_part(common, name, second.0, second.1);
            return;
        }
        let mut rest = *common;
        rest.before = Entry { shape: first.1, ..*common }.local_elements();
        self.push_part(&rest, name, second.0, second.1);
    }
}

/// Every kind of tensor on a rank. Kinds are few whatever the model's size, so the list is of fixed capacity.
#[derive(Clone, Copy, Debug)]
pub struct Inventory {
    entries: [Entry; Self::CAPACITY],
    len: usize,
}

impl Inventory {
    pub(crate) const CAPACITY: usize = 320;

    /// The weights of so many parts.
    #[allow(clippy::large_stack_arrays)] // 64 KiB, for the length of a call
    pub(crate) fn of_weights(plan: &Plan, counts: Counts) -> Self {
        let mut entries = [Entry::NONE; Self::CAPACITY];
        let mut list = Sink::new(&mut entries);
        weights::list(&mut list, plan, &plan.sizes(), counts);
        let len = list.len;
        Self { entries, len }
    }

    /// The list of a rank of one stage of a plan.
    #[must_use]
    #[allow(clippy::large_stack_arrays)] // 64 KiB, for the length of a call
    pub(crate) const fn of(plan: &Plan, stage: u64) -> Self {
        let mut entries = [Entry::NONE; Self::CAPACITY];
        let mut list = Sink::new(&mut entries);
        let (sizes, units) = (plan.sizes(), Units::of(plan));
        let counts = units.worst(plan, stage, &plan.chunk(stage, 0), plan.in_flight(stage));
        weights::list(&mut list, plan, &sizes, counts.all());
        if let Some(serving) = plan.spec().layout.served() {
            serving::list(&mut list, plan, serving, &sizes, counts);
            serving::list_caches(&mut list, plan, serving, stage, &Kept::all(plan, serving));
        } else {
            weights::list_states(&mut list, plan);
            blocks(&mut list, plan, &units, counts);
            accounting::list_rank(&mut list, plan, &counts.all());
        }
        let len = list.len;
        Self { entries, len }
    }

    /// What blocks of one chunk save and work on, one of its micro-batches being in flight.
    #[must_use]
    #[allow(clippy::large_stack_arrays)] // 64 KiB, for the length of a call
    pub const fn of_chunk(plan: &Plan, stage: u64, chunk: u64) -> Self {
        let mut entries = [Entry::NONE; Self::CAPACITY];
        let mut list = Sink::new(&mut entries);
        let units = Units::of(plan);
        blocks(&mut list, plan, &units, units.counts(plan, &plan.chunk(stage, chunk), 1));
        let len = list.len;
        Self { entries, len }
    }

    /// How many kinds of tensors there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether the rank holds nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// One of them.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub const fn get(&self, index: usize) -> &Entry {
        assert!(index < self.len, "the inventory is shorter");
        &self.entries[index]
    }

    /// All of them.
    #[must_use]
    pub const fn entries(&self) -> &[Entry] {
        self.entries.split_at(self.len).0
    }

    /// All of them, one after the other.
    pub fn iter(&self) -> core::slice::Iter<'_, Entry> {
        self.entries().iter()
    }
}

/// What blocks save and work on, of layers that are computed again and of those that are not.
const fn blocks(list: &mut Sink<'_>, plan: &Plan, units: &Units, counts: Counts) {
    let (sizes, [again, whole]) = (plan.sizes(), units.shared(&counts));
    list.leave_out(again);
    accounting::list(list, plan, &sizes, counts);
    if counts.has_whole() {
        list.leave_out(whole);
        accounting::list(list, &plan.without_recomputation(), &sizes, counts.whole());
    }
    list.leave_out(Turns::NONE);
}

impl<'a> IntoIterator for &'a Inventory {
    type Item = &'a Entry;
    type IntoIter = core::slice::Iter<'a, Entry>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries().iter()
    }
}
