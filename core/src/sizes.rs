//! The named sizes of a model under a layout: what the dimensions of its tensors are called, how long they are,
//! and over which ranks they are split.

use crate::plan::Plan;
use crate::saturating::{add, mul};
use crate::spec::{Spec, Split};

/// The ranks that a dimension is split over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// None: each rank holds the whole dimension.
    Whole,
    /// Tensor-parallel ranks.
    Tp,
    /// Context-parallel ranks.
    Cp,
    /// Context-parallel ranks, and tensor-parallel ranks under sequence parallelism.
    Sequence,
    /// Expert-parallel ranks.
    Ep,
    /// Expert tensor-parallel ranks.
    Etp,
    /// The replicas that share out optimizer state (ZeRO).
    Zero,
}

macro_rules! symbols {
    ($($(#[$doc:meta])* $symbol:ident = $name:literal,)*) => {
        /// What the field calls a dimension. A number rather than a string, since const evaluation copies dimensions
        /// often, and pointers cost it most.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Symbol {
            $($(#[$doc])* $symbol,)*
        }

        impl Symbol {
            /// As papers write it: `h`, `s`, `n_h`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                const NAMES: &[&str] = &[$($name,)*];
                NAMES[self as usize]
            }
        }
    };
}

symbols! {
    /// Nothing: a dimension that is not there.
    None = "",
    /// A dimension of one that files have.
    Unit = "1",
    /// Width of the residual stream.
    Hidden = "h",
    /// Twice that.
    HiddenTwice = "2h",
    /// Rows of the embedding.
    Vocab = "v",
    /// Learned positions.
    Positions = "s_max",
    /// Query heads.
    Heads = "n_h",
    /// Key/value heads.
    KvHeads = "n_kv",
    /// Width of a head.
    HeadDim = "d_h",
    /// Twice that.
    HeadDimTwice = "2d_h",
    /// Width of the query latent.
    QRank = "d_cq",
    /// Width of the key/value latent.
    KvRank = "d_c",
    /// Width of the rotary part of a head.
    Rope = "d_hr",
    /// Width of a query or key head.
    QueryKey = "(d_h+d_hr)",
    /// Width of a value head.
    Value = "d_v",
    /// Heads of an indexer.
    IndexerHeads = "n_I",
    /// Width of an indexer's head.
    IndexerDim = "d_I",
    /// Outputs of the heads of a group.
    GroupOutput = "n_h d_h/n_g",
    /// Latents of all groups.
    OutputRank = "n_g d_co",
    /// Heads of a mixer.
    MixerHeads = "n_m",
    /// All of what a mixer's input projection makes.
    Projected = "d_p",
    /// What of it runs through its convolution.
    Mixed = "d_x",
    /// Inner width of a mixer.
    Inner = "d_i",
    /// Numbers of state of a channel.
    State = "d_s",
    /// Rank of the time step.
    TimeRank = "d_dt",
    /// Tokens of a convolution.
    Kernel = "k",
    /// Tokens of a block, or that become one.
    Block = "B",
    /// Residual streams.
    Streams = "n_s",
    /// All of them together.
    StreamsWide = "n_s h",
    /// Numbers that have no name.
    Count = "n",
    /// Tiles of 128 numbers.
    Tiles = "n_128",
    /// What mixes them around a block.
    StreamsMixed = "n_s(n_s+2)",
    /// Width of a dense feed-forward network.
    DenseFfn = "h_F",
    /// Experts.
    Experts = "N",
    /// Experts of a token.
    Active = "N_r",
    /// Width of an expert.
    ExpertFfn = "h_E",
    /// Width that experts read and write.
    Latent = "h_L",
    /// Width of all shared experts.
    SharedFfn = "N_s h_E",
    /// Sequences of a micro-batch.
    Batch = "b",
    /// Tokens of a sequence.
    Sequence = "s",
    /// Token copies at a rank's experts.
    Rows = "R",
    /// Sequences that are served.
    Requests = "n_r",
    /// Tokens of a sequence in the cache, in whole blocks.
    Cached = "s_c",
    /// Tokens that run at once.
    Running = "t",
    /// Parameters of the dense ZeRO group.
    DenseParameters = "P_dense",
    /// Parameters of the expert ZeRO group.
    ExpertParameters = "P_expert",
}

/// One dimension of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dim {
    /// What the field calls it.
    pub symbol: Symbol,
    /// Its length over all ranks.
    pub global: u64,
    /// Its length on one rank.
    pub local: u64,
    /// What it is split over.
    pub over: Over,
}

impl Dim {
    /// The dimension that is not there.
    pub const ONE: Self = Self::whole(Symbol::None, 1);
    /// A last dimension of one that files have.
    pub const UNIT: Self = Self::whole(Symbol::Unit, 1);

    /// A dimension that each rank holds whole.
    #[must_use]
    pub const fn whole(symbol: Symbol, length: u64) -> Self {
        Self { symbol, global: length, local: length, over: Over::Whole }
    }

    /// The dimension split over ranks; its length is a multiple of their number.
    #[must_use]
    pub const fn split(self, over: Over, ranks: u64) -> Self {
        Self { over, local: self.global / ranks, ..self }
    }

    /// What of a rank's heads each of so many ranks has that it trades tokens for: an even share, or one where they are fewer
    /// than these, and each is dealt to several.
    #[must_use]
    pub const fn dealt(self, ranks: u64) -> Self {
        let share = self.local / ranks;
        Self { local: if share == 0 { 1 } else { share }, ..self }
    }
}

impl core::fmt::Display for Dim {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.global.checked_div(self.local) {
            None | Some(1) => f.write_str(self.symbol.name()),
            Some(ranks) => write!(f, "{}/{ranks}", self.symbol.name()),
        }
    }
}

/// Every named size of one plan.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // each is named by its symbol below, where it is made
pub struct Sizes {
    pub hidden: Dim,
    pub hidden_twice: Dim,
    /// Residual streams, where there are several.
    pub streams: Dim,
    pub vocab: Dim,
    pub heads: Dim,
    pub heads_whole: Dim,
    pub kv_heads: Dim,
    pub head_dim: Dim,
    pub head_dim_twice: Dim,
    pub q_rank: Dim,
    pub kv_rank: Dim,
    pub nope: Dim,
    pub rope: Dim,
    pub query_key: Dim,
    pub value: Dim,
    pub indexer_heads: Dim,
    pub indexer_dim: Dim,
    pub dense_ffn: Dim,
    pub experts: Dim,
    pub local_experts: Dim,
    pub active: Dim,
    pub expert_io: Dim,
    pub expert_ffn: Dim,
    pub shared_ffn: Dim,
    pub batch: Dim,
    pub sequence: Dim,
    pub context: Dim,
    pub own_tokens: Dim,
}

/// The dimensions of a model that its step names, each with its name there: `gpu::shapes::Shapes`.
impl Sizes {
    /// How many there are.
    pub const NAMED: usize = 16;

    /// All of them.
    #[must_use]
    pub const fn named(&self) -> [(&'static str, Dim); Self::NAMED] {
        // Under latent attention each query head has a key and a value.
        let is_latent = !matches!(self.kv_rank.symbol, Symbol::None);
        [
            ("Hidden", self.hidden),
            ("Vocab", self.vocab),
            ("Heads", self.heads),
            ("KvHeads", if is_latent { self.heads } else { self.kv_heads }),
            ("QueryKey", if is_latent { self.query_key } else { self.head_dim }),
            ("Value", self.value),
            ("QRank", self.q_rank),
            ("KvRank", self.kv_rank),
            ("Nope", self.nope),
            ("Rope", self.rope),
            ("Ffn", self.dense_ffn),
            ("Experts", self.experts),
            ("LocalExperts", self.local_experts),
            ("Active", self.active),
            ("ExpertFfn", self.expert_ffn),
            ("SharedFfn", self.shared_ffn),
        ]
    }
}

/// What a rank has between blocks, of its own tokens.
impl Sizes {
    /// So many numbers for each token.
    pub(crate) const fn own_each(&self, width: Dim) -> [Dim; 4] {
        [self.batch, self.own_tokens, width, Dim::ONE]
    }

    /// Hidden states.
    pub(crate) const fn own_hidden(&self) -> [Dim; 4] {
        self.own_each(self.hidden)
    }

    /// Hidden states of all residual streams, where there are several.
    pub(crate) const fn own_streams(&self) -> [Dim; 4] {
        [self.batch, self.own_tokens, self.hidden, self.streams]
    }
}

impl Sizes {
    /// The sizes of a plan.
    #[must_use]
    pub(crate) const fn of(plan: &Plan) -> Self {
        let Spec { architecture: a, layout: l } = plan.spec();
        let (tp, cp, ep, etp) = (l.mesh.tp, l.mesh.cp, l.mesh.ep, l.mesh.etp);
        let unused = Dim::ONE;
        let hidden = Dim::whole(Symbol::Hidden, a.hidden);
        let sequence = Dim::whole(Symbol::Sequence, l.batch.sequence);
        let mut sizes = Self {
            hidden,
            streams: if a.hyper_connections > 0 { Dim::whole(Symbol::Streams, a.hyper_connections) } else { unused },
            hidden_twice: Dim::whole(Symbol::HiddenTwice, mul(a.hidden, 2)),
            vocab: Dim::whole(Symbol::Vocab, plan.padded_vocab()).split(Over::Tp, tp),
            heads: unused,
            heads_whole: unused,
            kv_heads: unused,
            head_dim: unused,
            head_dim_twice: unused,
            q_rank: unused,
            kv_rank: unused,
            nope: unused,
            rope: unused,
            query_key: unused,
            value: unused,
            indexer_heads: unused,
            indexer_dim: unused,
            dense_ffn: over_tp(Dim::whole(Symbol::DenseFfn, a.layers.ffn), l.placement.dense_ffn, tp),
            experts: Dim::whole(Symbol::Experts, add(a.experts.routed, a.experts.identity)),
            local_experts: Dim::whole(Symbol::Experts, add(a.experts.routed, l.placement.redundant_experts))
                .split(Over::Ep, ep),
            active: Dim::whole(Symbol::Active, a.experts.active),
            expert_io: if a.experts.latent == 0 { hidden } else { Dim::whole(Symbol::Latent, a.experts.latent) },
            expert_ffn: Dim::whole(Symbol::ExpertFfn, a.experts.ffn).split(Over::Etp, etp),
            shared_ffn: over_tp(
                Dim::whole(Symbol::SharedFfn, a.experts.shared_width()),
                l.placement.shared_experts,
                tp,
            ),
            batch: Dim::whole(Symbol::Batch, l.batch.micro),
            sequence,
            context: sequence.split(Over::Cp, cp),
            own_tokens: sequence.split(Over::Sequence, plan.sequence_ranks()),
        };
        a.attention.sizes(&mut sizes, plan);
        sizes.heads = sizes.heads_whole.split(Over::Tp, tp);
        sizes
    }

    /// The sizes where so many tokens run at once, of any number of sequences: prompts, whose tokens context-parallel
    /// ranks share, or single tokens, which they do not. What ranks do not share evenly rounds up.
    pub(crate) const fn running(mut self, tokens: u64, cp: u64, own: u64) -> Self {
        let all = Dim::whole(Symbol::Running, tokens);
        self.batch = Dim::ONE;
        self.sequence = all;
        self.context = Dim { local: tokens.div_ceil(cp), over: Over::Cp, ..all };
        self.own_tokens = Dim { local: tokens.div_ceil(own), over: Over::Sequence, ..all };
        self
    }
}

const fn over_tp(dim: Dim, split: Split, tp: u64) -> Dim {
    match split {
        Split::Split => dim.split(Over::Tp, tp),
        Split::Replicated => dim,
    }
}
