//! The keys of a declaration: one name per thing, in errors, documentation, code and files alike.

use crate::spec::{LayerKind, Mesh};

macro_rules! keys {
    ($($variant:ident = $path:literal,)*) => {
        /// Every key that a declaration can hold, groups included; the architecture's come first.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Key {
            $(#[doc = concat!("`", $path, "`")] $variant,)*
        }

        impl Key {
            /// Every key, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The full path, as users write and read it.
            #[must_use]
            pub const fn path(self) -> &'static str {
                const PATHS: &[&str] = &[$($path,)*];
                PATHS[self as usize]
            }
        }
    };
}

keys! {
    Hidden = "hidden",
    Vocab = "vocab",
    TiedEmbeddings = "tied_embeddings",
    HeadBias = "head_bias",
    Norm = "norm",
    NormsPerLayer = "norms_per_layer",
    LayerScalar = "layer_scalar",
    HyperConnections = "hyper_connections",
    Positions = "positions",
    Layers = "layers",
    LayersDense = "layers.dense",
    LayersMoe = "layers.moe",
    LayersFfn = "layers.ffn",
    LayersMoeEvery = "layers.moe_every",
    LayersList = "layers.list",
    LayersBeside = "layers.beside",
    LayersGated = "layers.gated",
    LayersBias = "layers.bias",
    Attention = "attention",
    AttentionHeads = "attention.heads",
    AttentionKvHeads = "attention.kv_heads",
    AttentionHeadDim = "attention.head_dim",
    AttentionBias = "attention.bias",
    AttentionQkNorm = "attention.qk_norm",
    AttentionSinks = "attention.sinks",
    AttentionOutputGate = "attention.output_gate",
    AttentionValueDim = "attention.value_dim",
    AttentionKeyAsValue = "attention.key_as_value",
    AttentionWindow = "attention.window",
    AttentionFullEvery = "attention.full_every",
    AttentionQRank = "attention.q_rank",
    AttentionKvRank = "attention.kv_rank",
    AttentionNope = "attention.nope",
    AttentionRope = "attention.rope",
    AttentionValue = "attention.value",
    AttentionIndexerHeads = "attention.indexer_heads",
    AttentionIndexerDim = "attention.indexer_dim",
    AttentionOutputGroups = "attention.output_groups",
    AttentionOutputRank = "attention.output_rank",
    AttentionCompress = "attention.compress",
    AttentionCompressHeavy = "attention.compress_heavy",
    Mixer = "mixer",
    MixerHeads = "mixer.heads",
    MixerKvHeads = "mixer.kv_heads",
    MixerHeadDim = "mixer.head_dim",
    MixerValueDim = "mixer.value_dim",
    MixerBias = "mixer.bias",
    MixerQkNorm = "mixer.qk_norm",
    MixerSinks = "mixer.sinks",
    MixerSharedKv = "mixer.shared_kv",
    MixerWindow = "mixer.window",
    MixerKeyHeads = "mixer.key_heads",
    MixerValueHeads = "mixer.value_heads",
    MixerKeyDim = "mixer.key_dim",
    MixerConv = "mixer.conv",
    MixerBlock = "mixer.block",
    MixerInner = "mixer.inner",
    MixerState = "mixer.state",
    MixerTimeRank = "mixer.time_rank",
    MixerGroups = "mixer.groups",
    Experts = "experts",
    ExpertsRouted = "experts.routed",
    ExpertsShared = "experts.shared",
    ExpertsActive = "experts.active",
    ExpertsFfn = "experts.ffn",
    ExpertsBias = "experts.bias",
    ExpertsSharedFfn = "experts.shared_ffn",
    ExpertsSharedGate = "experts.shared_gate",
    ExpertsRouterBias = "experts.router_bias",
    ExpertsGroups = "experts.groups",
    ExpertsActiveGroups = "experts.active_groups",
    ExpertsCorrectionBias = "experts.correction_bias",
    ExpertsLatent = "experts.latent",
    ExpertsIdentity = "experts.identity",
    ExpertsHashLayers = "experts.hash_layers",
    ExpertsRouterScale = "experts.router_scale",
    Mtp = "mtp",
    // The layout's keys start here: see `Key::is_layout`.
    Mesh = "mesh",
    MeshDp = "mesh.dp",
    MeshTp = "mesh.tp",
    MeshPp = "mesh.pp",
    MeshVpp = "mesh.vpp",
    MeshCp = "mesh.cp",
    MeshEp = "mesh.ep",
    MeshEtp = "mesh.etp",
    MeshContext = "mesh.context",
    MeshCpInner = "mesh.cp_inner",
    MeshWorld = "mesh.world",
    MeshSequenceParallel = "mesh.sequence_parallel",
    Stages = "stages",
    StagesList = "stages.list",
    StagesFirst = "stages.first",
    StagesLast = "stages.last",
    StagesEmbedding = "stages.embedding",
    StagesLoss = "stages.loss",
    Schedule = "schedule",
    Zero = "zero",
    ZeroDense = "zero.dense",
    ZeroExpert = "zero.expert",
    ZeroGroups = "zero.groups",
    ZeroWays = "zero.ways",
    ZeroInstances = "zero.instances",
    Placement = "placement",
    PlacementQueryRope = "placement.query_rope",
    PlacementSharedExperts = "placement.shared_experts",
    PlacementDenseFfn = "placement.dense_ffn",
    PlacementRedundantExperts = "placement.redundant_experts",
    PlacementVocabMultiple = "placement.vocab_multiple",
    Precision = "precision",
    PrecisionWeights = "precision.weights",
    PrecisionGradients = "precision.gradients",
    PrecisionMaster = "precision.master",
    PrecisionMoments = "precision.moments",
    PrecisionActivations = "precision.activations",
    PrecisionBlock = "precision.block",
    PrecisionBlockAttention = "precision.block_attention",
    PrecisionCompute = "precision.compute",
    PrecisionAmaxHistory = "precision.amax_history",
    Batch = "batch",
    BatchSequence = "batch.sequence",
    BatchMicro = "batch.micro",
    BatchCount = "batch.count",
    BatchGlobal = "batch.global",
    BatchGroup = "batch.group",
    Recompute = "recompute",
    RecomputeLayers = "recompute_layers",
    RecomputeTogether = "recompute_together",
    Modules = "modules",
    ModulesCoreAttention = "modules.core_attention",
    ModulesLatentUp = "modules.latent_up",
    ModulesNorms = "modules.norms",
    ModulesActivation = "modules.activation",
    ModulesSharedExperts = "modules.shared_experts",
    ModulesExperts = "modules.experts",
    ModulesDense = "modules.dense",
    Routing = "routing",
    RoutingLoad = "routing.load",
    RoutingSkew = "routing.skew",
    RoutingFactor = "routing.factor",
    Serving = "serving",
    ServingRequests = "serving.requests",
    ServingContext = "serving.context",
    ServingBlock = "serving.block",
    ServingCache = "serving.cache",
    ServingState = "serving.state",
    ServingMla = "serving.mla",
    ServingPrefill = "serving.prefill",
    ServingLogprobs = "serving.logprobs",
    Accounting = "accounting",
    AccountingKernel = "accounting.kernel",
    AccountingDropout = "accounting.dropout",
    AccountingPool = "accounting.pool",
    AccountingCheckpoint = "accounting.checkpoint",
    AccountingVersion = "accounting.version",
    AccountingImplementation = "accounting.implementation",
    AccountingCublas = "accounting.cublas",
    AccountingFusedGradients = "accounting.fused_gradients",
    AccountingLoss = "accounting.loss",
    AccountingCore = "accounting.core",
    AccountingExperts = "accounting.experts",
    AccountingActivation = "accounting.activation",
    AccountingScore = "accounting.score",
    AccountingAuxLoss = "accounting.aux_loss",
    AccountingRouter = "accounting.router",
    AccountingDispatcher = "accounting.dispatcher",
    AccountingPad = "accounting.pad",
    AccountingSharedOverlap = "accounting.shared_overlap",
    AccountingDistribute = "accounting.distribute",
    AccountingAttention = "accounting.attention",
    AccountingBackend = "accounting.backend",
    AccountingRouted = "accounting.routed",
    AccountingNormalised = "accounting.normalised",
    AccountingRouterLogits = "accounting.router_logits",
    AccountingNorms = "accounting.norms",
    Target = "target",
    Device = "device",
    Headroom = "headroom",
}

impl Key {
    /// Whether the key belongs to a layout; the others belong to the architecture.
    #[must_use]
    pub const fn is_layout(self) -> bool {
        self as u8 >= Self::Mesh as u8
    }

    /// The last part of the path: what stands in front of the colon.
    #[must_use]
    pub const fn name(self) -> &'static str {
        let path = self.path();
        let bytes = path.as_bytes();
        let mut start = bytes.len();
        while start > 0 && bytes[start - 1] != b'.' {
            start -= 1;
        }
        path.split_at(start).1
    }
}

/// A set of keys: a bit for each, the first 128 of them first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeySet([u128; 2]);

impl KeySet {
    /// No keys.
    pub const EMPTY: Self = Self([0; 2]);
    /// Every key.
    pub const ALL: Self = Self([u128::MAX; 2]);

    /// The set of these keys.
    #[must_use]
    pub const fn of(keys: &[Key]) -> Self {
        let (mut set, mut i) = (Self::EMPTY, 0);
        while i < keys.len() {
            set = set.with(keys[i]);
            i += 1;
        }
        set
    }

    /// The keys from one place on, up to another.
    pub(crate) const fn between(first: usize, end: usize) -> Self {
        let (mut set, mut i) = (Self::EMPTY, first);
        while i < end {
            set = set.with(Key::ALL[i]);
            i += 1;
        }
        set
    }

    /// The set with one more key.
    #[must_use]
    pub const fn with(self, key: Key) -> Self {
        let bit = 1 << (key as u8 % 128);
        if (key as u8) < 128 { Self([self.0[0] | bit, self.0[1]]) } else { Self([self.0[0], self.0[1] | bit]) }
    }

    /// The set of these bits, by the order of the keys.
    #[must_use]
    pub const fn of_bits(bits: [u128; 2]) -> Self {
        Self(bits)
    }

    /// The bits of the set, by the order of the keys.
    #[must_use]
    pub const fn bits(self) -> [u128; 2] {
        self.0
    }

    /// The union of two sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    /// The keys that are in both sets.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self([self.0[0] & other.0[0], self.0[1] & other.0[1]])
    }

    /// Whether no key is in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0[0] | self.0[1] == 0
    }

    /// Whether the key is in the set.
    #[must_use]
    pub const fn has(self, key: Key) -> bool {
        self.0[key as usize / 128] & (1 << (key as usize % 128)) != 0
    }

    /// Whether the two sets share a key.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        (self.0[0] & other.0[0]) | (self.0[1] & other.0[1]) != 0
    }

    /// Whether a key of a layout is in the set.
    #[must_use]
    pub const fn has_layout(self) -> bool {
        self.intersects(const { Self::between(Key::Mesh as usize, Key::ALL.len()) })
    }
}

/// Every leaf of a Spec as one number, by its key: itself, thousandths, percent, or the place of a word in its list.
/// What laws are judged on: a look-up costs the compiler's const evaluation an index, not calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    pub(crate) values: [u64; Key::ALL.len()],
    pub(crate) present: KeySet,
    /// Whether `mesh.dp` follows from the others: see [`Mesh::settled`](crate::spec::Mesh::settled).
    pub(crate) dp_follows: bool,
    /// Layers and MTP modules of the stage list, whose stages stand for it among the values, the modules' stage, and the most
    /// layers that divide those of each stage, where that matters.
    pub(crate) listed: [u64; 4],
    /// Layers of each kind in the layer list, whose length stands for it among the values.
    pub(crate) kinds: [u64; LayerKind::ALL.len()],
    /// Whether the first layer of that list has a mixer in the place of attention.
    pub(crate) starts_with_mixer: bool,
}

impl Numbers {
    pub(crate) const NONE: Self = Self {
        values: [0; Key::ALL.len()],
        present: KeySet::EMPTY,
        dp_follows: false,
        listed: [0; 4],
        kinds: [0; LayerKind::ALL.len()],
        starts_with_mixer: false,
    };

    /// Writes the number of a key.
    pub(crate) const fn put(&mut self, key: Key, number: u64) {
        self.values[key as usize] = number;
        self.present = self.present.with(key);
    }

    /// Changes a number, and what follows from it.
    pub(crate) const fn change(&mut self, key: Key, number: u64) {
        self.put(key, number);
        match key {
            Key::MeshDp => self.dp_follows = false,
            Key::MeshWorld | Key::MeshTp | Key::MeshCp | Key::MeshPp if self.dp_follows => {
                let (tp, cp, pp) = (self.of(Key::MeshTp), self.of(Key::MeshCp), self.of(Key::MeshPp));
                let mesh = Mesh { dp: 0, tp, cp, pp, world: self.of(Key::MeshWorld), ..Mesh::DEFAULT };
                self.put(Key::MeshDp, mesh.settled().dp);
            }
            _ => {}
        }
    }

    /// The number of a key, 0 where the Spec has no such key.
    #[must_use]
    pub const fn of(&self, key: Key) -> u64 {
        self.values[key as usize]
    }

    /// The number of a key, or `None` where the Spec has no such key, such as `attention.kv_heads` under MLA, and for
    /// whole groups.
    #[must_use]
    pub const fn get(&self, key: Key) -> Option<u64> {
        if self.present.has(key) { Some(self.values[key as usize]) } else { None }
    }
}

const _: () = assert!(Key::ALL.len() <= 256, "a KeySet holds 256 keys");
