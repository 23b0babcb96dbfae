//! The dimensions that tensors of the step have, by name. A tensor of `(Tokens, Hidden)` is no tensor of `(Hidden, Ffn)`,
//! whatever their lengths, so that a product, a residual or a collective of wrong shapes or shards does not compile.
//!
//! How long they are says the model: as types, for one that the macro declares with literal numbers, or at run time
//! ([`Dynamic`]), for one out of a file. Numbers of tokens are run-time dimensions of both.

use crate::{Dim, ShardOf};
use moe_model_core::Plan;
use moe_model_core::spec::{Pool, Routing};

/// A named dimension, of a length that types or a plan say.
pub trait Axis: 'static {
    /// Its length on a rank.
    fn len(lengths: &Lengths) -> usize;
}

/// Behind each element of one dimension as many as another has.
#[derive(Debug)]
pub struct Times<A, B>(core::marker::PhantomData<(A, B)>);

impl<A: Axis, B: Axis> Axis for Times<A, B> {
    fn len(lengths: &Lengths) -> usize {
        A::len(lengths) * B::len(lengths)
    }
}

/// One dimension behind another.
#[derive(Debug)]
pub struct Plus<A, B>(core::marker::PhantomData<(A, B)>);

impl<A: Axis, B: Axis> Axis for Plus<A, B> {
    fn len(lengths: &Lengths) -> usize {
        A::len(lengths) + B::len(lengths)
    }
}

/// What of a dimension a tensor-parallel rank has, where they share it evenly.
#[derive(Debug)]
pub struct Shard<A>(core::marker::PhantomData<A>);

impl<A: Axis> Axis for Shard<A> {
    fn len(lengths: &Lengths) -> usize {
        A::len(lengths) / lengths.tensor_ranks
    }
}

/// What of heads a context-parallel rank attends with, where these trade tokens for heads: an even share, or one where there are
/// fewer heads than ranks.
#[derive(Debug)]
pub struct Dealt<A>(core::marker::PhantomData<A>);

impl<A: Axis> Axis for Dealt<A> {
    fn len(lengths: &Lengths) -> usize {
        lengths.dealt(A::len(lengths))
    }
}

macro_rules! axes {
    ($($(#[$doc:meta])* $name:ident = $field:ident,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Axis for $name {
            fn len(lengths: &Lengths) -> usize {
                lengths.$field
            }
        }
    )*};
}

axes! {
    /// One number for each.
    One = one,
    /// Tokens of a micro-batch that a rank has between blocks.
    Tokens = tokens,
    /// Tokens of a micro-batch that a rank has inside blocks: those of all tensor-parallel ranks.
    Context = context,
    /// Tokens of a micro-batch that a rank attends with: those inside blocks, and where context-parallel ranks trade tokens for
    /// heads those of all of them.
    Traded = traded,
    /// Tokens of a piece of a sequence.
    Piece = piece,
    /// Keys that a query may look at.
    Keys = keys,
    /// Copies of tokens at the experts of a rank, as many as the budget counts.
    Rows = rows,
    /// Copies of tokens that come to a rank itself, before ranks that split experts put theirs together.
    OwnRows = own_rows,
    /// Copies of a rank's own tokens by expert: those it has, or under bounded capacity the slots.
    Sorted = sorted,
    /// Dense parameters that the rank keeps gradients of.
    DenseGradients = dense_gradients,
    /// Parameters of experts that the rank keeps gradients of.
    ExpertGradients = expert_gradients,
    /// Dense parameters that it keeps the optimizer state of.
    DenseShard = dense_shard,
    /// Parameters of experts that it keeps the optimizer state of.
    ExpertShard = expert_shard,
}

/// The lengths of all dimensions on a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // each is the dimension of its name
pub struct Lengths {
    pub one: usize,
    pub batch: usize,
    pub tokens: usize,
    pub context: usize,
    pub traded: usize,
    pub piece: usize,
    pub pieces: usize,
    pub keys: usize,
    pub rows: usize,
    pub own_rows: usize,
    pub sorted: usize,
    pub hidden: usize,
    pub vocab: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub query_key: usize,
    pub value: usize,
    pub q_rank: usize,
    pub kv_rank: usize,
    pub nope: usize,
    pub rope: usize,
    pub ffn: usize,
    pub experts: usize,
    pub local_experts: usize,
    pub active: usize,
    pub expert_ffn: usize,
    pub shared_ffn: usize,
    pub tensor_ranks: usize,
    pub trading_ranks: usize,
    pub ring_ranks: usize,
    pub dense_gradients: usize,
    pub expert_gradients: usize,
    pub dense_shard: usize,
    pub expert_shard: usize,
}

impl Lengths {
    /// What of so many heads a rank attends with.
    pub(crate) fn dealt(&self, heads: usize) -> usize {
        (heads / self.trading_ranks).max(1)
    }

    /// Those of a stage of a plan.
    ///
    /// # Panics
    /// If the lengths outgrow this machine's addresses.
    #[must_use]
    pub fn of(plan: &Plan, stage: u64) -> Self {
        let n = |length: u64| usize::try_from(length).expect("lengths are addresses");
        let sizes = plan.sizes();
        let (batch, layout) = (sizes.batch.local, &plan.spec().layout);
        let (tokens, rows) = (batch * sizes.own_tokens.local, plan.routed_rows(Pool::Group));
        let (is_dealt, is_dropless) = (layout.mesh.expert_ranks() > 1, matches!(layout.routing, Routing::Dropless(_)));
        let [hidden, vocab, heads, kv_heads, query_key, value, q_rank, kv_rank, nope, rope, ffn, rest @ ..] =
            sizes.named().map(|(_, dim)| n(dim.local));
        let [experts, local_experts, active, expert_ffn, shared_ffn] = rest;
        let flat = |role, group| {
            let inventory = plan.inventory(stage);
            let entry = inventory.iter().find(|entry| entry.role == role && entry.expert_group == group);
            entry.map_or(0, |entry| n(entry.local_elements()))
        };
        let grouped =
            |group| [flat(moe_model_core::Role::Gradient, group), flat(moe_model_core::Role::MasterWeight, group)];
        let [[dense_gradients, dense_shard], [expert_gradients, expert_shard]] = [grouped(false), grouped(true)];
        Self {
            one: 1,
            batch: n(batch),
            tokens: n(tokens),
            context: n(batch * sizes.context.local),
            traded: n(batch * sizes.context.local * layout.mesh.trading_ranks()),
            piece: n(sizes.context.local / layout.mesh.pieces()),
            pieces: n(layout.mesh.pieces()),
            keys: n(sizes.sequence.local),
            rows: n(rows),
            own_rows: n(plan.received_rows()),
            sorted: n(match (is_dealt, is_dropless) {
                (true, true) => tokens * sizes.active.local,
                (true, false) => plan.received_rows(),
                (false, _) => rows,
            }),
            hidden,
            vocab,
            heads,
            kv_heads,
            query_key,
            value,
            q_rank,
            kv_rank,
            nope,
            rope,
            ffn,
            experts,
            local_experts,
            active,
            expert_ffn,
            shared_ffn,
            tensor_ranks: n(layout.mesh.tp),
            trading_ranks: n(layout.mesh.trading_ranks()),
            ring_ranks: n(layout.mesh.ring_ranks()),
            dense_gradients,
            expert_gradients,
            dense_shard,
            expert_shard,
        }
    }
}

macro_rules! shapes {
    ($($(#[$doc:meta])* $name:ident = $field:ident,)*) => {
        /// The dimensions of a model under a layout, on one rank.
        pub trait Shapes: 'static {
            $($(#[$doc])* type $name: Axis;)*

            /// Whether they are as long as the plan says.
            #[must_use]
            fn agree(lengths: &Lengths) -> Option<Disagreement> {
                let all = [$((stringify!($name), Self::$name::len(lengths), lengths.$field),)*];
                all.into_iter().find(|(_, typed, planned)| typed != planned).map(
                    |(name, typed, planned)| Disagreement { name, typed, planned })
            }
        }

        /// Dimensions whose lengths a plan says at run time.
        pub mod dynamic {
            use super::{Axis, Lengths};
            axes! { $($(#[$doc])* $name = $field,)* }
        }

        /// A model whose lengths are known at run time alone.
        #[derive(Clone, Copy, Debug)]
        pub struct Dynamic;

        impl Shapes for Dynamic {
            $(type $name = dynamic::$name;)*
        }
    };
}

shapes! {
    /// Width of the residual stream.
    Hidden = hidden,
    /// Rows of the embedding and the head on a tensor-parallel rank.
    Vocab = vocab,
    /// Query heads of a tensor-parallel rank.
    Heads = heads,
    /// Key/value heads of a tensor-parallel rank; all heads under latent attention.
    KvHeads = kv_heads,
    /// Width of a query or key head.
    QueryKey = query_key,
    /// Width of a value head.
    Value = value,
    /// Width of the query latent.
    QRank = q_rank,
    /// Width of the key/value latent.
    KvRank = kv_rank,
    /// Width of a head without rotary position, under latent attention.
    Nope = nope,
    /// Width of the rotary part of a head, under latent attention.
    Rope = rope,
    /// Width of a dense feed-forward network on a tensor-parallel rank.
    Ffn = ffn,
    /// Routed experts of all ranks.
    Experts = experts,
    /// Routed experts of an expert-parallel rank.
    LocalExperts = local_experts,
    /// Experts of a token.
    Active = active,
    /// Width of a routed expert.
    ExpertFfn = expert_ffn,
    /// Width of all shared experts on a tensor-parallel rank.
    SharedFfn = shared_ffn,
}

/// A dimension that a type and a plan give different lengths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disagreement {
    /// Its name.
    pub name: &'static str,
    /// As its type says.
    pub typed: usize,
    /// As the plan says.
    pub planned: usize,
}

impl core::fmt::Display for Disagreement {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { name, typed, planned } = self;
        write!(f, "the type of `{name}` says {typed}, the plan {planned}")
    }
}

/// Proves that a dimension times the ranks that it is split over is the whole one.
pub const fn split<Shard: ShardOf<Whole, Ranks>, Whole, Ranks>() {}

impl<D: Dim + 'static> Axis for D {
    fn len(_: &Lengths) -> usize {
        D::SIZE
    }
}
