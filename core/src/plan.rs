//! The Plan: a checked layout made explicit. It exists only for a Spec that breaks no law.

use crate::budget::{self, Budget, Peak};
use crate::bytes::Bytes;
use crate::device::Device;
use crate::inventory::{Inventory, Phase};
use crate::key::KeySet;
use crate::law;
use crate::saturating::{add, cut, mul};
use crate::schedule::Run;
use crate::sizes::Sizes;
use crate::spec::{
    Accounting, Attention, Factor, Gqa, Layout, Load, NUMBER_MAX, Pool, Recompute, Routing, Spec, ZeroGroups,
};
use crate::stages::{self, Chunk, Division, Shape, Stage};
use crate::tally::Units;
use crate::verdict::{self, LawSet, Violations};
use core::ops::Range;

/// One architecture under one layout, checked: every stage, group and rank count follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    spec: Spec,
    shape: Shape,
    /// How layers fall to virtual stages, where they are not listed.
    division: Division,
    /// Replicas that share out the state of dense and of expert parameters.
    replicas: [u64; 2],
}

impl Plan {
    /// Checks a Spec.
    ///
    /// # Errors
    /// All laws that the Spec breaks.
    pub const fn new(spec: Spec) -> Result<Self, Violations> {
        if verdict::is_valid(&spec)
            && let Some(plan) = Self::unchecked(spec)
        {
            return Ok(plan);
        }
        Err(verdict::judge(&spec))
    }

    /// The plan with something changed, checked anew: another micro-batch, sequence, ZeRO stage or schedule.
    ///
    /// # Errors
    /// All laws that the changed Spec breaks.
    pub fn changed(&self, change: impl FnOnce(&mut Spec)) -> Result<Self, Violations> {
        let mut spec = self.spec;
        change(&mut spec);
        Self::new(spec)
    }

    /// The plan of a Spec that the macro has judged, and of whose other laws the compiler found these broken; each is
    /// reported elsewhere. An invalid one becomes the smallest plan there is, so that one wrong number does not produce an
    /// error at every use.
    #[doc(hidden)]
    #[must_use]
    pub const fn or_husk(spec: Spec, broken: LawSet) -> Self {
        match Self::unchecked(spec) {
            Some(plan) if broken.is_empty() => plan,
            _ => Self::HUSK,
        }
    }

    /// All sizes 1, and a layer for any stage that is asked for.
    #[doc(hidden)]
    pub const HUSK: Self = {
        let mut spec = Spec::DEFAULT;
        spec.architecture.layers.dense = NUMBER_MAX;
        spec.architecture.layers.ffn = 1;
        spec.architecture.attention = Attention::Gqa(Gqa::DEFAULT);
        spec.layout.mesh.pp = NUMBER_MAX;
        match Self::unchecked(spec) {
            Some(plan) => plan,
            None => panic!("one layer a stage falls to stages"),
        }
    };

    /// The plan of a Spec, if its layers fall to stages; all other laws are for the caller to judge.
    pub(crate) const fn unchecked(mut spec: Spec) -> Option<Self> {
        spec.layout.mesh = spec.layout.mesh.settled();
        let shape = shape(&spec.layout);
        let replicas = replicas(&spec.layout);
        if !spec.layout.stages.list.is_none() {
            let division = Division::whole(spec.architecture.layers.count());
            // Places are looked up in the list.
            let fits = spec.layout.stages.list.stages() == shape.places;
            return if fits { Some(Self { spec, shape, division, replicas }) } else { None };
        }
        match stages::divide(spec.architecture.layers.count(), shape, spec.layout.stages) {
            Ok(division) => Some(Self { spec, shape, division, replicas }),
            Err(_) => None,
        }
    }

    /// The plan of a whole model on one rank, for counting it.
    pub(crate) const fn alone(spec: Spec) -> Self {
        let division = Division::whole(spec.architecture.layers.count());
        Self { spec, shape: Shape::ONE, division, replicas: [1; 2] }
    }

    /// What is legal but costs something that one may not know of.
    #[must_use]
    pub const fn warnings(&self) -> Violations {
        verdict::advise(&self.spec, KeySet::EMPTY, verdict::given(&self.spec))
    }

    /// What the user said, with the data-parallel degree as a number where it follows from the world.
    #[must_use]
    pub const fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Ranks of the whole job.
    #[must_use]
    pub const fn world(&self) -> u64 {
        self.stage_ranks() * self.spec.layout.mesh.pp
    }

    /// Ranks that hold one stage.
    #[must_use]
    pub const fn stage_ranks(&self) -> u64 {
        self.spec.layout.mesh.stage_ranks()
    }

    /// The ranks that hold a stage. Stages are the outermost axis of the rank order (tp-cp-ep-dp-pp).
    ///
    /// # Panics
    /// If there are not so many stages.
    #[must_use]
    pub const fn ranks_of_stage(&self, stage: u64) -> Range<u64> {
        assert!(stage < self.stages(), "the pipeline has fewer stages");
        stage * self.stage_ranks()..(stage + 1) * self.stage_ranks()
    }

    /// Expert data-parallel degree: replicas of each routed expert.
    #[must_use]
    pub const fn edp(&self) -> u64 {
        edp(&self.spec.layout)
    }

    /// Ranks that a sequence is split over between the blocks: context-parallel ones, and tensor-parallel ones under
    /// sequence parallelism.
    #[must_use]
    pub const fn sequence_ranks(&self) -> u64 {
        let mesh = &self.spec.layout.mesh;
        if mesh.sequence_parallel.is_on() { mul(mesh.cp, mesh.tp) } else { mesh.cp }
    }

    /// Replicas that share out the optimizer state of expert or dense parameters.
    #[must_use]
    pub const fn replicas(&self, expert: bool) -> u64 {
        self.replicas[expert as usize]
    }

    /// Rows of the embedding and the head, padded so that tensor-parallel ranks hold the same number.
    #[must_use]
    pub const fn padded_vocab(&self) -> u64 {
        let multiple = mul(self.spec.layout.placement.vocab_multiple, self.spec.layout.mesh.tp);
        mul(self.spec.architecture.vocab.div_ceil(multiple), multiple)
    }

    /// Ranks of the pipeline, each of which holds a stage, or several chunks of the model.
    #[must_use]
    pub const fn stages(&self) -> u64 {
        self.spec.layout.mesh.pp
    }

    /// Chunks (virtual stages) on each rank of the pipeline.
    #[must_use]
    pub const fn chunks(&self) -> u64 {
        self.shape.chunks
    }

    /// One chunk of a rank of the pipeline.
    ///
    /// # Panics
    /// If there are not so many ranks or chunks.
    #[must_use]
    pub const fn chunk(&self, stage: u64, chunk: u64) -> Chunk {
        assert!(stage < self.stages(), "the pipeline has fewer stages");
        assert!(chunk < self.chunks(), "a rank holds fewer chunks");
        let (place, places) = (self.shape.place(stage, chunk), self.shape.places);
        let (list, layers) = (&self.spec.layout.stages.list, &self.spec.architecture.layers);
        let mut chunk = if list.is_none() {
            self.division.chunk(place, places, layers)
        } else {
            stages::chunk(place, places, list.layers_before(place), list.layers_of(place), layers)
        };
        if self.counted_mtp() > 0 {
            let holder = match list.mtp_stage() {
                Some(listed) => listed,
                None => places - 1,
            };
            chunk.mtp = if place == holder { self.counted_mtp() } else { 0 };
        }
        chunk
    }

    /// Whether backward computes a layer of a chunk again: under `recompute: full` all of them, or the first
    /// `recompute_layers` decoder layers.
    #[must_use]
    pub const fn computes_again(&self, chunk: &Chunk, layer: u64) -> bool {
        let layout = &self.spec.layout;
        let (first, index) = (layout.recompute_layers, layer.saturating_sub(chunk.first_layer));
        let is_first = first == 0 || (index < first && index < chunk.layers());
        matches!(layout.recompute, Recompute::Full) && is_first
    }

    /// The same, nothing being computed again.
    pub(crate) const fn without_recomputation(&self) -> Self {
        let mut plan = *self;
        let layout = &mut plan.spec.layout;
        (layout.recompute, layout.recompute_layers, layout.recompute_together) = (Recompute::None, 0, 0);
        plan
    }

    /// The multi-token-prediction modules that the accounting counts on a rank: megatron-core's and the reference step's;
    /// others know none.
    #[must_use]
    pub const fn counted_mtp(&self) -> u64 {
        match (self.spec.layout.accounting, self.spec.layout.served()) {
            (Accounting::MegatronCore(_) | Accounting::Reference(_), None) => self.spec.architecture.mtp,
            _ => 0,
        }
    }

    /// What a rank of the pipeline holds, over all its chunks.
    ///
    /// # Panics
    /// If there are not so many stages.
    #[must_use]
    pub const fn stage(&self, index: u64) -> Stage {
        let mut stage = Stage::empty(index).with(self.chunk(index, 0));
        let mut chunk = 1;
        while chunk < self.chunks() {
            stage = stage.with(self.chunk(index, chunk));
            chunk += 1;
        }
        stage
    }

    /// Whether two ranks of the pipeline hold the same kinds of layers in each chunk but the first, as many of each.
    pub(crate) const fn hold_alike(&self, a: u64, b: u64) -> bool {
        let mut chunk = 1;
        while chunk < self.chunks() {
            if !self.chunk(a, chunk).holds_as(self.chunk(b, chunk)) {
                return false;
            }
            chunk += 1;
        }
        true
    }

    /// The first rank that holds a layer with experts behind any dense ones, or the number of stages if there is none.
    pub(crate) const fn turn(&self) -> u64 {
        let layers = self.spec.architecture.layers;
        if layers.moe == 0 { self.stages() } else { self.shape.rank(self.division.holder(layers.dense)) }
    }

    /// The first rank of the pipeline without a decoder layer.
    pub(crate) const fn rank_without_layers(&self) -> Option<u64> {
        let stages = &self.spec.layout.stages;
        let has_ends_alone = self.is_listed() || stages.embedding as u64 + stages.loss as u64 > 0;
        // Only a list, or an end that counts as a layer, leaves a rank without; an end is the first or the last rank's.
        let mut stage = 0;
        while has_ends_alone && stage < self.stages() {
            if self.stage(stage).layers() == 0 {
                return Some(stage);
            }
            // Without a list the first, then the last.
            stage = if self.is_listed() || stage > 0 || self.stages() == 1 { stage + 1 } else { self.stages() - 1 };
        }
        None
    }

    pub(crate) const fn is_listed(&self) -> bool {
        !self.spec.layout.stages.list.is_none()
    }

    /// Whether stages may differ from one another anywhere, not only at the ends and where experts begin.
    pub(crate) const fn is_uneven(&self) -> bool {
        let layers = &self.spec.architecture.layers;
        self.is_listed() || !layers.list.is_none() || layers.moe > 0 && layers.moe_every > 1 || self.has_places()
    }

    /// Whether layers of one kind are cached by their place in the model.
    pub(crate) const fn has_places(&self) -> bool {
        let has_windows = match &self.spec.architecture.attention {
            Attention::Gqa(gqa) => gqa.window > 0 && gqa.full_every > 0,
            _ => false,
        };
        self.spec.layout.served().is_some() && has_windows
    }

    /// The phases whose peaks are looked at: those of a step, or of serving.
    #[must_use]
    pub const fn phases(&self) -> &'static [Phase] {
        if self.spec.layout.served().is_some() { Phase::SERVING } else { Phase::TRAINING }
    }

    pub(crate) const fn shape(&self) -> Shape {
        self.shape
    }

    /// The schedule over this pipeline.
    pub(crate) const fn run(&self) -> Run {
        let layout = &self.spec.layout;
        let group = if layout.batch.group == 0 { layout.mesh.pp } else { layout.batch.group };
        Run { schedule: layout.schedule, shape: self.shape, count: layout.batch.count, group }
    }

    /// Micro-batches whose activations a rank of the pipeline holds at once, at most, each chunk's counted by itself.
    /// Where a schedule puts off the gradients of weights, until these are done.
    ///
    /// # Panics
    /// If there are not so many stages.
    #[must_use]
    pub const fn in_flight(&self, stage: u64) -> u64 {
        assert!(stage < self.stages(), "the pipeline has fewer stages");
        self.run().in_flight(stage)
    }

    /// Tokens of one micro-batch that meet the experts of one expert-parallel group.
    #[must_use]
    pub const fn pooled_tokens(&self, pool: Pool) -> u64 {
        let layout = &self.spec.layout;
        let tokens = mul(layout.batch.micro, layout.batch.sequence);
        match pool {
            Pool::Replica => tokens / layout.mesh.cp,
            Pool::Group => self.pooled(tokens / self.sequence_ranks()),
        }
    }

    /// Tokens that meet the experts of one expert-parallel group, each rank of which brings so many of its own.
    const fn pooled(&self, own: u64) -> u64 {
        let mesh = &self.spec.layout.mesh;
        let ranks = mesh.expert_ranks();
        // Without sequence parallelism tensor-parallel ranks hold the same tokens.
        mul(own, if mesh.sequence_parallel.is_on() { ranks } else { ranks.div_ceil(mesh.tp) })
    }

    /// Slots of one expert under bounded capacity: ceil(pool x active x factor / routed) as the paper counts; else each
    /// rank of the expert-parallel group bounds its own tokens, as Megatron-Core's routers do, and an expert has so many
    /// times the slots of one of them ([`Plan::slots_of_rank`]).
    #[must_use]
    pub const fn slots_per_expert(&self, pool: Pool, factor: Factor) -> u64 {
        self.slots_of_pool(self.pooled_tokens(pool), factor)
    }

    /// Slots of one expert for copies of one rank's own tokens: ceil(own tokens x active x factor / routed).
    #[must_use]
    pub const fn slots_of_rank(&self, factor: Factor) -> u64 {
        self.slots(self.pooled_tokens(Pool::Group) / self.pooled(1), factor)
    }

    const fn slots_of_pool(&self, pooled: u64, factor: Factor) -> u64 {
        if matches!(self.spec.layout.accounting, Accounting::Paper(_) | Accounting::WorkedExample(_)) {
            return self.slots(pooled, factor);
        }
        let ranks = self.pooled(1);
        mul(ranks, self.slots(pooled.div_ceil(ranks), factor))
    }

    /// Slots of one expert for so many tokens.
    const fn slots(&self, pooled: u64, factor: Factor) -> u64 {
        let experts = &self.spec.architecture.experts;
        if experts.routed == 0 {
            return 0;
        }
        // The factor counts thousandths.
        ceil_share(pooled, experts.active, factor.thousandths, experts.routed as u128 * 1000)
    }

    /// Token copies that the experts of the hottest rank make room for, for one micro-batch and layer.
    #[must_use]
    pub const fn routed_rows(&self, pool: Pool) -> u64 {
        self.rows(self.pooled_tokens(pool))
    }

    /// The same that come by all-to-all, before ranks that split experts put theirs together.
    #[must_use]
    pub const fn received_rows(&self) -> u64 {
        let (pooled, etp) = (self.pooled_tokens(Pool::Group), self.spec.layout.mesh.etp);
        match self.spec.layout.routing {
            Routing::Dropless(_) => self.rows(pooled / etp),
            // Slots are each rank's own.
            Routing::Capacity(_) => self.rows(pooled) / etp,
        }
    }

    /// The same where each rank of an expert-parallel group brings so many tokens of its own.
    pub(crate) const fn rows_of(&self, own: u64) -> u64 {
        self.rows(self.pooled(own))
    }

    const fn rows(&self, pooled: u64) -> u64 {
        let experts = &self.spec.architecture.experts;
        let ep = self.spec.layout.mesh.ep;
        let local = add(experts.routed, self.spec.layout.placement.redundant_experts) / ep;
        match self.spec.layout.routing {
            Routing::Dropless(dropless) => {
                // No token sends a rank more copies than it has experts.
                let most = mul(pooled, if local < experts.active { local } else { experts.active });
                if matches!(dropless.load, Load::Worst) {
                    return most;
                }
                let hottest = ceil_share(pooled, experts.active, dropless.skew.thousandths, ep as u128 * 1000);
                if hottest < most { hottest } else { most }
            }
            Routing::Capacity(capacity) => mul(self.slots_of_pool(pooled, capacity.factor), local),
        }
    }

    /// Token copies that bounded capacity drops, and all of them, of one micro-batch and layer, if they spread evenly
    /// over so many experts and leave the others idle; none are dropped without bounds.
    #[must_use]
    pub const fn dropped(&self, pool: Pool, experts: u64) -> (u64, u64) {
        let copies = mul(self.pooled_tokens(pool), self.spec.architecture.experts.active);
        match self.spec.layout.routing {
            Routing::Dropless(_) => (0, copies),
            Routing::Capacity(capacity) => {
                let kept = mul(self.slots_per_expert(pool, capacity.factor), experts);
                (copies.saturating_sub(kept), copies)
            }
        }
    }

    /// The skew of a load: how many copies of tokens each routed expert gets, in the order of experts, whose hottest rank
    /// gets so many times the balanced load, to a thousandth, rounded up; to declare as `routing.skew`.
    ///
    /// ```
    /// use moe_model_core::preset::MIXTRAL_8X7B;
    /// use moe_model_core::spec::{Factor, Mesh, Spec};
    /// use moe_model_core::Plan;
    ///
    /// let mut spec = Spec { architecture: MIXTRAL_8X7B, ..Spec::DEFAULT };
    /// spec.layout.mesh = Mesh { dp: 4, ep: 4, ..Mesh::DEFAULT };
    /// let plan = Plan::new(spec).expect("the layout is legal");
    /// // The third of four ranks gets 150 of 400 copies.
    /// let skew = plan.skew_of(&[50, 50, 40, 60, 90, 60, 25, 25]);
    /// assert_eq!(skew, Some(Factor::thousandths(1500)));
    /// ```
    ///
    /// `None` if there are not as many loads as experts, or no load at all.
    #[must_use]
    pub fn skew_of(&self, loads: &[u64]) -> Option<Factor> {
        let (routed, ep) = (self.spec.architecture.experts.routed, self.spec.layout.mesh.ep);
        let local = usize::try_from(routed.checked_div(ep)?).ok()?;
        let sum = |loads: &[u64]| loads.iter().map(|load| u128::from(*load)).sum::<u128>();
        if loads.len() as u64 != routed || local == 0 || sum(loads) == 0 {
            return None;
        }
        let hottest = loads.chunks(local).map(sum).max()?;
        let skew = (hottest * u128::from(ep) * 1000).div_ceil(sum(loads));
        // Rounded up it may be more than can be.
        Some(Factor::thousandths(cut(skew)).min(self.worst_skew()))
    }

    /// The worst skew that routing allows, to a thousandth.
    #[must_use]
    pub const fn worst_skew(&self) -> Factor {
        Factor::thousandths(law::worst_skew(&self.spec.numbers()))
    }

    /// The named sizes of its tensors.
    #[must_use]
    pub const fn sizes(&self) -> Sizes {
        Sizes::of(self)
    }

    /// Every kind of tensor on a rank of a stage.
    #[must_use]
    pub const fn inventory(&self, stage: u64) -> Inventory {
        Inventory::of(self, stage)
    }

    /// Bytes on a rank of a stage, by phase and role.
    #[must_use]
    pub const fn budget(&self, stage: u64) -> Budget {
        Budget::of(self, &Units::of(self), stage)
    }

    /// The worst rank in its worst phase.
    #[must_use]
    pub const fn peak(&self) -> Peak {
        budget::peak(self)
    }

    /// The peak with the declared headroom on top, rounded up.
    #[must_use]
    pub const fn peak_with_headroom(&self) -> Bytes {
        self.peak().total.with_headroom(self.spec.layout.headroom.percent)
    }

    /// Whether the worst rank, with the declared headroom, fits on a device.
    #[must_use]
    pub const fn fits(&self, device: Device) -> bool {
        self.peak_with_headroom().bytes() <= device.usable().bytes()
    }
}

const fn shape(layout: &Layout) -> Shape {
    Shape::of(layout.schedule, layout.mesh.pp, layout.mesh.vpp, layout.stages.list.stages())
}

const fn edp(layout: &Layout) -> u64 {
    let (stage, experts) = (layout.mesh.stage_ranks(), layout.mesh.expert_ranks());
    // Without experts the expert grid is not judged, and nothing is sharded over it.
    if experts == 0 || experts > stage { 1 } else { stage / experts }
}

/// Replicas that share out the state of dense and of expert parameters.
const fn replicas(layout: &Layout) -> [u64; 2] {
    match layout.zero.groups {
        ZeroGroups::Uniform => [layout.zero.ways; 2],
        ZeroGroups::ByReplica | ZeroGroups::MoeBlock => {
            let instances = layout.zero.instances;
            let (dense, expert) = (mul(layout.mesh.dp, layout.mesh.cp), edp(layout));
            if instances <= 1 { [dense, expert] } else { [dense / instances, expert.div_ceil(instances)] }
        }
    }
}

/// ceil(a b c / d) in 128 bits, at most `u64::MAX`.
const fn ceil_share(a: u64, b: u64, c: u64, d: u128) -> u64 {
    let product = (a as u128 * b as u128).saturating_mul(c as u128);
    cut(product.div_ceil(d))
}
