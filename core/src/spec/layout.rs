//! How a model is laid out and run.

use super::megatron::MegatronCore;
use super::pytorch::{Torchtitan, Transformers};
use super::schema::{Field, Kind, NUMBER_MAX, Value, Word, field_code, field_decode, field_default, field_in_range};
use super::schema::{field_required, field_type, field_value, group, group_words, kind, kinds, words};
use super::serving::{Service, Serving};
use super::stage_list::StageList;
use super::values::{Dtype, Factor, Percent, Switch, percent};
use crate::device::Device;
use crate::key::{Key, KeySet, Numbers};
use crate::saturating::{mul, zero_or};

words! {
    /// How context-parallel ranks share a sequence. Under `accounting: reference` a rank also holds what is traded or goes round;
    /// else which of them it is does not change what a rank holds.
    Context {
        /// Each rank holds one piece.
        Contiguous = "contiguous",
        /// Each rank holds a piece from the front and one from the back, so that causal attention is the same work for
        /// all; keys and values go round (Megatron-LM's load-balanced ring).
        Ring = "ring",
        /// Between the projections and attention ranks trade tokens for heads (DeepSpeed-Ulysses, arXiv:2309.14509).
        AllToAll = "all_to_all",
        /// All-to-all among `mesh.cp_inner` ranks, a ring among groups of these (Megatron-LM's `a2a+p2p`, its
        /// `hierarchical_context_parallel_sizes` being `[cp_inner, cp / cp_inner]`).
        Hierarchical = "hierarchical",
    }
}

group! {
    /// The mesh of ranks: how many share each axis. World = dp x tp x cp x pp; expert ranks lie inside a stage.
    Mesh {
        /// Data-parallel degree of the dense part. Left out (0 in a Spec) it follows from `mesh.world`, and is 1 where that is
        /// not given either.
        dp: number at least 0 = MeshDp, default 0;
        /// Tensor-parallel degree of attention, dense feed-forward network, embedding and head.
        tp: number at least 1 = MeshTp, default 1;
        /// Pipeline stages.
        pp: number at least 1 = MeshPp, default 1;
        /// Virtual pipeline stages, or chunks, of each rank (VPP). Left out (0 in a Spec) it follows from the schedule or
        /// the stage list, and is otherwise 1.
        vpp: number at least 0 = MeshVpp, default 0;
        /// Context-parallel degree.
        cp: number at least 1 = MeshCp, default 1;
        /// Expert-parallel degree: over how many ranks the routed experts are dealt.
        ep: number at least 1 = MeshEp, default 1;
        /// Expert tensor-parallel degree: over how many ranks one expert is split. 1 here, never `tp` silently.
        etp: number at least 1 = MeshEtp, default 1;
        /// How context-parallel ranks share a sequence.
        context: Context = MeshContext, default Context::Contiguous;
        /// Under `context: hierarchical`, ranks that trade tokens for heads.
        cp_inner: number at least 0 = MeshCpInner, default 0;
        /// Ranks of the whole job. Left out (0 in a Spec) it is the product; given beside `mesh.dp` it must equal that.
        world: number at least 0 = MeshWorld, default 0;
        /// Whether the sequence is split over tensor-parallel ranks between the blocks.
        sequence_parallel: Switch = MeshSequenceParallel, default Switch::Off;
    }
}

impl Mesh {
    /// The mesh with its data-parallel degree as a number, where that follows from others.
    #[must_use]
    pub const fn settled(self) -> Self {
        if self.dp > 0 {
            return self;
        }
        let replica = mul(mul(self.tp, self.cp), self.pp);
        let dp = if self.world == 0 { 1 } else { zero_or(self.world.checked_div(replica)) };
        Self { dp, ..self }
    }

    /// Whether `world`, where it is given, is a whole number of replicas.
    pub(crate) const fn is_whole(&self) -> bool {
        let replica = mul(mul(self.tp, self.cp), self.pp);
        replica > 0 && self.world.is_multiple_of(replica)
    }

    /// Ranks that hold one stage.
    #[must_use]
    pub const fn stage_ranks(&self) -> u64 {
        mul(mul(self.tp, self.cp), self.dp)
    }

    /// Ranks that trade tokens for heads around attention.
    #[must_use]
    pub const fn trading_ranks(&self) -> u64 {
        match self.context {
            Context::AllToAll => self.cp,
            // Of a hierarchy it would be the inner ranks, which nothing counts apart.
            Context::Hierarchical | Context::Contiguous | Context::Ring => 1,
        }
    }

    /// Ranks that pass keys and values round.
    #[must_use]
    pub const fn ring_ranks(&self) -> u64 {
        match self.context {
            Context::Contiguous | Context::Ring => self.cp,
            Context::AllToAll | Context::Hierarchical => 1,
        }
    }

    /// Pieces of a sequence that a rank has, a piece being the tokens that stand next to one another.
    #[must_use]
    pub const fn pieces(&self) -> u64 {
        if self.cp > 1 && matches!(self.context, Context::Ring) { 2 } else { 1 }
    }

    /// The place of such a piece of a rank among the pieces of all context-parallel ranks.
    #[must_use]
    pub const fn piece(&self, rank: u64, number: u64) -> u64 {
        if number == 0 { rank } else { 2 * self.cp - 1 - rank }
    }

    /// Ranks of one expert group.
    #[must_use]
    pub const fn expert_ranks(&self) -> u64 {
        mul(self.ep, self.etp)
    }
}

words! {
    /// Whether an end of the model counts as a layer when layers are dealt to stages.
    Weighed {
        /// It stands apart: stages share decoder layers alone.
        Apart = "apart",
        /// It counts as one, and its stage holds a decoder layer less (Megatron-LM's
        /// `account_for_embedding_in_pipeline_split` and `account_for_loss_in_pipeline_split`).
        AsLayer = "as_layer",
    }
}

group! {
    /// How many layers each pipeline stage holds. A string in place of the group is its `list`.
    Stages {
        /// Every virtual stage written out, in Megatron-LM's notation: `"Et|(tt|)*30mL"`.
        list: stage_list = StagesList, default StageList::NONE;
        /// Layers of the first stage; 0 lets it share evenly with the others. Under schedules that fold the pipeline (V
        /// shape) the first virtual stage.
        first: number at least 0 = StagesFirst, default 0;
        /// Layers of the last stage; 0 lets it share evenly with the others. Under schedules that fold the pipeline the
        /// last virtual stage.
        last: number at least 0 = StagesLast, default 0;
        /// Whether the embedding counts as a layer of the first stage.
        embedding: Weighed = StagesEmbedding, default Weighed::Apart;
        /// Whether head and loss count as a layer of the last stage.
        loss: Weighed = StagesLoss, default Weighed::Apart;
    }
}

group_words! {
    Stages, stages {
        /// Every stage holds the same number of layers.
        EVEN = even: Self::DEFAULT;
    }
}

words! {
    /// The order in which a rank of the pipeline runs its micro-batches.
    Schedule {
        /// All forwards, then all backwards: every micro-batch is in flight at once.
        Gpipe = "gpipe",
        /// One forward, one backward (PipeDream-Flush): stage i holds at most pp - i micro-batches.
        OneFOneB = "one_f_one_b",
        /// One forward, one backward over several chunks a rank (arXiv:2104.04473), `mesh.vpp` of them, in groups of
        /// `batch.group` micro-batches; as in megatron-core 0.16.
        Interleaved = "interleaved",
        /// Zero bubble, handcrafted schedule 1 (arXiv:2401.10241): gradients of weights are put off, at the memory of 1F1B.
        ZbH1 = "zb_h1",
        /// Zero bubble in V shape (arXiv:2405.15362): rank i holds virtual stages i and 2 pp - 1 - i.
        ZbV = "zb_v",
        /// DualPipe (DeepSeek-V3, arXiv:2412.19437): two directions at once, rank i holds stages i and pp - 1 - i, so that
        /// every stage is there twice.
        DualPipe = "dual_pipe",
        /// DualPipe folded in V shape, every stage once: rank i holds virtual stages i and 2 pp - 1 - i.
        DualPipeV = "dual_pipe_v",
    }
}

words! {
    /// What is sharded over the replicas of a parameter (ZeRO, arXiv:1910.02054).
    ZeroStage {
        /// Nothing.
        None = "none",
        /// Optimizer state (ZeRO-1).
        Optimizer = "optimizer",
        /// Optimizer state and gradients (ZeRO-2).
        Gradients = "gradients",
        /// Optimizer state, gradients and parameters (ZeRO-3).
        Parameters = "parameters",
    }
}

words! {
    /// Over which ranks the state of which parameters is sharded.
    ZeroGroups {
        /// Dense parameters over dp x cp, routed experts over their own replicas (EDP).
        ByReplica = "by_replica",
        /// As arXiv:2502.07846 counts: router and shared experts follow the routed experts' group.
        MoeBlock = "moe_block",
        /// Every parameter over `zero.ways` ranks.
        Uniform = "uniform",
    }
}

group! {
    /// ZeRO, separately for dense and routed-expert parameters.
    Zero {
        /// Stage for the parameters of the dense group.
        dense: ZeroStage = ZeroDense, default ZeroStage::None;
        /// Stage for the parameters of the expert group.
        expert: ZeroStage = ZeroExpert, default ZeroStage::None;
        /// Which ranks share.
        groups: ZeroGroups = ZeroGroups, default ZeroGroups::ByReplica;
        /// Ranks that share under `groups: uniform`.
        ways: number at least 0 = ZeroWays, default 0;
        /// Times that the replicas of a parameter hold its state, each over a part of them (Megatron-LM's
        /// `num_distributed_optimizer_instances`).
        instances: number at least 1 = ZeroInstances, default 1;
    }
}

// In the order of `ZeroStage::ALL`, which `Spec::set` relies on.
group_words! {
    Zero, zero {
        /// Nothing is sharded.
        NONE = none: Self::both(ZeroStage::None);
        /// Optimizer state is sharded (ZeRO-1).
        OPTIMIZER = optimizer: Self::both(ZeroStage::Optimizer);
        /// Optimizer state and gradients are sharded (ZeRO-2).
        GRADIENTS = gradients: Self::both(ZeroStage::Gradients);
        /// Optimizer state, gradients and parameters are sharded (ZeRO-3).
        PARAMETERS = parameters: Self::both(ZeroStage::Parameters);
    }
}

impl Zero {
    /// The same groups, with one stage for dense and expert parameters.
    #[must_use]
    pub const fn at(self, stage: ZeroStage) -> Self {
        Self { dense: stage, expert: stage, ..self }
    }

    /// One stage for dense and expert parameters, over their own replicas.
    #[must_use]
    pub const fn both(stage: ZeroStage) -> Self {
        Self { dense: stage, expert: stage, ..Self::DEFAULT }
    }
}

words! {
    /// How the ranks of a group hold a weight.
    Split {
        /// Each holds its part.
        Split = "split",
        /// Each holds the whole.
        Replicated = "replicated",
    }
}

group! {
    /// Where frameworks (or a paper) differ in placing a weight.
    Placement {
        /// The rotary part of the query projection, over `tp`.
        query_rope: Split = PlacementQueryRope, default Split::Split;
        /// The shared experts, over `tp`.
        shared_experts: Split = PlacementSharedExperts, default Split::Split;
        /// The dense feed-forward network, over `tp`.
        dense_ffn: Split = PlacementDenseFfn, default Split::Split;
        /// Copies of busy experts, of all of them, beside the routed ones (DeepSeek's expert-parallel load balancer): every
        /// rank of an expert group holds as many physical experts.
        redundant_experts: number at least 0 = PlacementRedundantExperts, default 0;
        /// The vocabulary is padded to a multiple of this times `tp` (Megatron pads to 128).
        vocab_multiple: number at least 1 = PlacementVocabMultiple, default 1;
    }
}

words! {
    /// What linear layers multiply in. Embedding, head, router, norms and attention itself stay in the format of activations or
    /// in fp32, and weights are stored as `precision.weights` says: in fp8 they lie a second and a third time, row by row and
    /// column by column.
    Compute {
        /// In the format of activations.
        Activations = "activations",
        /// In fp8, each tensor with one scale that follows from its largest values in steps before (Transformer Engine's
        /// `DelayedScaling`).
        Fp8Delayed = "fp8_delayed",
        /// In fp8, each tensor with one scale of its own (`Float8CurrentScaling`, Megatron-LM's `--fp8-recipe tensorwise`).
        Fp8Current = "fp8_current",
        /// In fp8, a scale for each 1 x 128 numbers of an activation and each 128 x 128 of a weight (`Float8BlockScaling`).
        Fp8Blockwise = "fp8_blockwise",
        /// The same as DeepSeek-V3 was trained (arXiv:2412.19437, section 3.3): tokens go to experts in fp8 too, experts keep
        /// the input of their activation in fp8 and compute the rest again, and what attention puts out is kept in 12 bits.
        /// It had `moments: bf16`.
        Fp8DeepseekV3 = "fp8_deepseek_v3",
    }
}

impl Compute {
    /// Whether linear layers compute in fp8.
    #[must_use]
    pub const fn is_fp8(self) -> bool {
        !matches!(self, Self::Activations)
    }
}

group! {
    /// The number format of each role.
    Precision {
        /// Weights that forward and backward use.
        weights: Dtype = PrecisionWeights, default Dtype::Bf16;
        /// Gradients that accumulate over micro-batches.
        gradients: Dtype = PrecisionGradients, default Dtype::Fp32;
        /// The optimizer's master copy of the weights.
        master: Dtype = PrecisionMaster, default Dtype::Fp32;
        /// First and second moment, each.
        moments: Dtype = PrecisionMoments, default Dtype::Fp32;
        /// Activations saved for backward, masks and fp32 logits apart.
        activations: Dtype = PrecisionActivations, default Dtype::Bf16;
        /// Side of the blocks that weights are quantised in, which no rank's shard may cut: 128 for fp8 in 128 x 128 blocks
        /// (DeepSeek-V3) or int4 in groups of 128; 0 for none. Their scales are not counted yet.
        block: number at least 0 = PrecisionBlock, default 0;
        /// Whether the projections of attention are quantised in blocks too.
        block_attention: Switch = PrecisionBlockAttention, default Switch::On;
        /// What linear layers of attention, dense networks and experts multiply in. It changes no format that others of these
        /// keys say: computing in fp8 is not storing in fp8.
        compute: Compute = PrecisionCompute, default Compute::Activations;
        /// Under `compute: fp8_delayed`, steps that the largest values of each tensor are remembered for
        /// (`--fp8-amax-history-len`). Left out (0 in a Spec) it is 1, Megatron-LM's own.
        amax_history: number at least 0 = PrecisionAmaxHistory, default 0;
    }
}

group! {
    /// The work of one step on one replica.
    Batch {
        /// Tokens of one sequence.
        sequence: number at least 1 = BatchSequence;
        /// Sequences of one micro-batch.
        micro: number at least 1 = BatchMicro, default 1;
        /// Micro-batches of one step.
        count: number at least 1 = BatchCount, default 1;
        /// Sequences of one step over all replicas. Left out (0 in a Spec) it is the product; given it must equal that.
        global: number at least 0 = BatchGlobal, default 0;
        /// Under `schedule: interleaved`, micro-batches that run through one chunk before the next one
        /// (Megatron-LM's `microbatch_group_size_per_vp_stage`). Left out (0 in a Spec) it is `mesh.pp`.
        group: number at least 0 = BatchGroup, default 0;
    }
}

words! {
    /// What is computed again in backward instead of being kept.
    Recompute {
        /// Nothing: forward keeps all that backward needs.
        None = "none",
        /// Everything but the input of each block, of each layer or of several together, as the accounting counts and
        /// `recompute_together` says.
        Full = "full",
        /// What `modules` says (Megatron-LM's `--recompute-granularity selective`); under `accounting: torchtitan` what its
        /// own list of operations does not keep (`SelectiveAC`).
        Selective = "selective",
    }
}

group! {
    /// Under `recompute: selective`, what is computed again in backward (Megatron-LM's `--recompute-modules`).
    Modules {
        /// Attention itself, between its projections (`core_attn`).
        core_attention: Switch = ModulesCoreAttention, default Switch::Off;
        /// What makes queries, keys and values out of MLA's latents (`mla_up_proj`).
        latent_up: Switch = ModulesLatentUp, default Switch::Off;
        /// The norms in front of attention and feed-forward networks (`layernorm`).
        norms: Switch = ModulesNorms, default Switch::Off;
        /// The activation of routed experts (`moe_act`).
        activation: Switch = ModulesActivation, default Switch::Off;
        /// Shared experts (`shared_experts`).
        shared_experts: Switch = ModulesSharedExperts, default Switch::Off;
        /// Router, routed and shared experts (`moe`).
        experts: Switch = ModulesExperts, default Switch::Off;
        /// Dense feed-forward networks (`mlp`).
        dense: Switch = ModulesDense, default Switch::Off;
    }
}

words! {
    /// How much the hottest rank gets where no token is dropped.
    Load {
        /// `routing.skew` times the balanced load.
        Skew = "skew",
        /// All that can be: of every token as many copies as the rank has experts, or as a token has copies.
        Worst = "worst",
    }
}

group! {
    /// No token is dropped; the hottest rank gets `skew` times the balanced load, or all that it can.
    Dropless {
        /// How much the hottest rank gets.
        load: Load = RoutingLoad, default Load::Skew;
        /// Load of the hottest rank over the balanced load.
        skew: decimal = RoutingSkew, default Factor::ONE;
    }
}

group! {
    /// Each expert has a fixed number of slots; what does not fit is dropped.
    Capacity {
        /// Slots over the balanced load of an expert.
        factor: decimal = RoutingFactor, default Factor::ONE;
    }
}

kinds! {
    /// How many token copies a rank's experts must make room for.
    Routing {
        /// No token is dropped.
        Dropless = "dropless",
        /// A fixed number of slots for each expert.
        Capacity = "capacity",
    }
}

group_words! {
    Routing, routing {
        /// Dropless, and every expert gets the same load.
        BALANCED = balanced: Self::Dropless(Dropless::DEFAULT);
        /// Dropless, and the hottest rank gets all that it can.
        WORST = worst: Self::Dropless(Dropless { load: Load::Worst, ..Dropless::DEFAULT });
    }
}

words! {
    /// How attention is computed.
    Kernel {
        /// Scores and probabilities are kept, s x s of them a head.
        Eager = "eager",
        /// A fused kernel keeps one fp32 log-sum-exp a row and head (FlashAttention, arXiv:2205.14135).
        Flash = "flash",
    }
}

words! {
    /// Whose tokens an expert-parallel group routes.
    Pool {
        /// As arXiv:2502.07846 counts: one replica's tokens, dealt over the group; router and shared experts
        /// see the whole sequence.
        Replica = "replica",
        /// Every rank of the group brings its own tokens, and router and shared experts see those: what the
        /// grid implies.
        Group = "group",
    }
}

words! {
    /// At what grain full recomputation keeps inputs.
    Checkpoint {
        /// One input a layer.
        Layer = "layer",
        /// One input for attention and one for the feed-forward network.
        SubBlock = "sub_block",
    }
}

group! {
    /// arXiv:2502.07846: what its Table 10 counts, and by name what it leaves open.
    Paper {
        /// How attention is computed; the paper counts eager attention.
        kernel: Kernel = AccountingKernel, default Kernel::Eager;
        /// Whether dropout masks are counted; the paper does, DeepSeek-V3 has none.
        dropout: Switch = AccountingDropout, default Switch::On;
        /// Whose tokens are routed.
        pool: Pool = AccountingPool, default Pool::Replica;
    }
}

group! {
    /// The hand-sized worked example: fused attention, no dropout, all-to-all buffers, a working set in forward
    /// and an fp32 copy of the gradient shard in the optimizer step.
    WorkedExample {
        /// At what grain inputs are kept.
        checkpoint: Checkpoint = AccountingCheckpoint, default Checkpoint::Layer;
    }
}

group! {
    /// What the reference step keeps and works on, the one that this project generates: exactly, since its ledger refuses
    /// any other allocation.
    Reference {
        /// How attention is computed.
        kernel: Kernel = AccountingKernel, default Kernel::Flash;
    }
}

kinds! {
    /// By whose rules activations and transients are counted. Modules for multi-token prediction are counted on a rank by
    /// megatron-core's and the reference step's alone, their weights among them; the router's correction bias by the latter.
    Accounting {
        /// arXiv:2502.07846.
        Paper = "paper",
        /// The hand-sized worked example.
        WorkedExample = "worked_example",
        /// megatron-core.
        MegatronCore = "megatron_core",
        /// Hugging Face transformers.
        Transformers = "transformers",
        /// torchtitan.
        Torchtitan = "torchtitan",
        /// The reference step.
        Reference = "reference",
    }
}

group_words! {
    Accounting, accounting {
        /// The paper's own choices.
        PAPER = paper: Self::Paper(Paper::DEFAULT);
        /// One checkpoint a layer.
        WORKED_EXAMPLE = worked_example: Self::WorkedExample(WorkedExample::DEFAULT);
        /// megatron-core 0.16 with FlashAttention and grouped experts.
        MEGATRON_CORE = megatron_core: Self::MegatronCore(MegatronCore::DEFAULT);
        /// transformers 5.24 with FlashAttention and grouped experts.
        TRANSFORMERS = transformers: Self::Transformers(Transformers::DEFAULT);
        /// torchtitan 0.3 with cuDNN's attention.
        TORCHTITAN = torchtitan: Self::Torchtitan(Torchtitan::DEFAULT);
        /// The reference step with attention that keeps no scores.
        REFERENCE = reference: Self::Reference(Reference::DEFAULT);
    }
}

impl Accounting {
    /// The name in a declaration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paper(_) => "paper",
            Self::WorkedExample(_) => "worked_example",
            Self::MegatronCore(_) => "megatron_core",
            Self::Transformers(_) => "transformers",
            Self::Torchtitan(_) => "torchtitan",
            Self::Reference(_) => "reference",
        }
    }
}

words! {
    /// The framework that will run the layout. It adds that framework's limits, and changes nothing else.
    Target {
        /// The step that this crate generates: no limits beyond the mathematics.
        Reference = "reference",
        /// Megatron-LM, megatron-core 0.16.
        MegatronCore = "megatron_core",
        /// DeepSpeed 0.18.
        Deepspeed = "deepspeed",
        /// torchtitan 0.3.
        Torchtitan = "torchtitan",
    }
}

/// How the model is laid out and run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    /// The mesh of ranks.
    pub mesh: Mesh,
    /// Layers of each stage.
    pub stages: Stages,
    /// Order of micro-batches.
    pub schedule: Schedule,
    /// What is sharded over replicas.
    pub zero: Zero,
    /// Where weights are split or replicated.
    pub placement: Placement,
    /// Number formats.
    pub precision: Precision,
    /// The work of one step.
    pub batch: Batch,
    /// What is computed again.
    pub recompute: Recompute,
    /// Under `recompute: full`, how many layers of each chunk, from its first on, are computed again (Megatron-LM's
    /// `--recompute-method block --recompute-num-layers`); 0 for all of them.
    pub recompute_layers: u64,
    /// Under `recompute: full`, how many layers of a chunk, one behind the other, are computed again together, the last of them
    /// fewer: forward keeps the input of the first alone, and backward holds what all of them save at once (Megatron-LM's
    /// `--recompute-method uniform --recompute-num-layers`). 0 for each layer by itself, and under `paper` each of its blocks.
    pub recompute_together: u64,
    /// Which modules, where not all are.
    pub modules: Modules,
    /// Load of the experts.
    pub routing: Routing,
    /// What is served, if this is no layout of training. Then there are no gradients, no optimizer and no saved activations;
    /// `batch` and `accounting` are not given, and `recompute`, `zero` and other schedules refused.
    pub serving: Service,
    /// By whose rules activations are counted, in training.
    pub accounting: Accounting,
    /// Whose limits apply.
    pub target: Target,
    /// What the worst rank must fit on, if anything.
    pub device: Device,
    /// What to keep free on top of the budget.
    pub headroom: Percent,
}

impl Layout {
    /// What the layout serves; `None` where it trains.
    #[must_use]
    pub const fn served(&self) -> Option<&Serving> {
        match &self.serving {
            Service::Serving(serving) => Some(serving),
            Service::None => None,
        }
    }

    /// What absent keys mean; required ones stand at the smallest legal number.
    pub const DEFAULT: Self = Self {
        mesh: Mesh::DEFAULT,
        stages: Stages::EVEN,
        schedule: Schedule::OneFOneB,
        zero: Zero::NONE,
        placement: Placement::DEFAULT,
        precision: Precision::DEFAULT,
        batch: Batch::DEFAULT,
        recompute: Recompute::None,
        recompute_layers: 0,
        recompute_together: 0,
        modules: Modules::DEFAULT,
        routing: Routing::BALANCED,
        serving: Service::None,
        accounting: Accounting::PAPER,
        target: Target::Reference,
        device: Device::None,
        headroom: percent(0),
    };

    /// The keys of a layout.
    pub const FIELDS: &'static [Field] = &[
        Field { key: Key::Mesh, value: kind(&[Kind::plain("mesh", "Mesh", Mesh::FIELDS)]), required: true },
        Field {
            key: Key::Stages,
            value: Value::Choice { words: Stages::WORDS, kinds: &[Kind::plain("stages", "Stages", Stages::FIELDS)] },
            required: false,
        },
        Field { key: Key::Schedule, value: Value::Choice { words: Schedule::WORDS, kinds: &[] }, required: false },
        Field {
            key: Key::Zero,
            value: Value::Choice { words: Zero::WORDS, kinds: &[Kind::plain("zero", "Zero", Zero::FIELDS)] },
            required: false,
        },
        Field {
            key: Key::Placement,
            value: kind(&[Kind::plain("placement", "Placement", Placement::FIELDS)]),
            required: false,
        },
        Field {
            key: Key::Precision,
            value: kind(&[Kind::plain("precision", "Precision", Precision::FIELDS)]),
            required: false,
        },
        Field { key: Key::Batch, value: kind(&[Kind::plain("batch", "Batch", Batch::FIELDS)]), required: true },
        Field { key: Key::Recompute, value: Value::Choice { words: Recompute::WORDS, kinds: &[] }, required: false },
        Field { key: Key::RecomputeLayers, value: Value::Number { min: 0 }, required: false },
        Field { key: Key::RecomputeTogether, value: Value::Number { min: 0 }, required: false },
        Field {
            key: Key::Modules,
            value: kind(&[Kind::plain("modules", "Modules", Modules::FIELDS)]),
            required: false,
        },
        Field {
            key: Key::Routing,
            value: Value::Choice { words: Routing::WORDS, kinds: Routing::KINDS },
            required: false,
        },
        Field {
            key: Key::Serving,
            value: Value::Choice { words: Service::WORDS, kinds: Service::KINDS },
            required: false,
        },
        Field {
            key: Key::Accounting,
            value: Value::Choice { words: Accounting::WORDS, kinds: Accounting::KINDS },
            required: true,
        },
        Field { key: Key::Target, value: Value::Choice { words: Target::WORDS, kinds: &[] }, required: false },
        Field { key: Key::Device, value: Value::Choice { words: Device::WORDS, kinds: &[] }, required: false },
        Field { key: Key::Headroom, value: Value::Percent, required: false },
    ];
}
