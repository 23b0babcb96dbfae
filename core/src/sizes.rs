//! The named sizes of a model under a layout: what the dimensions of its tensors are called, how long they are,
//! and over which ranks they are split.

use crate::plan::Plan;
use crate::saturating::{add, mul};
use crate::spec::{Attention, Spec, Split};

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

/// One dimension of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dim {
    /// What the field calls it: `h`, `s`, `n_h`.
    pub symbol: &'static str,
    /// Its length over all ranks.
    pub global: u64,
    /// Its length on one rank.
    pub local: u64,
    /// What it is split over.
    pub over: Over,
}

impl Dim {
    /// The dimension that is not there.
    pub const ONE: Self = Self::whole("", 1);

    /// A dimension that each rank holds whole.
    #[must_use]
    pub const fn whole(symbol: &'static str, length: u64) -> Self {
        Self { symbol, global: length, local: length, over: Over::Whole }
    }

    /// The dimension split over ranks; its length is a multiple of their number.
    #[must_use]
    pub const fn split(self, over: Over, ranks: u64) -> Self {
        Self { over, local: self.global / ranks, ..self }
    }
}

impl core::fmt::Display for Dim {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.global.checked_div(self.local) {
            None | Some(1) => f.write_str(self.symbol),
            Some(ranks) => write!(f, "{}/{ranks}", self.symbol),
        }
    }
}

/// Every named size of one plan.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // each is named by its symbol below, where it is made
pub struct Sizes {
    pub hidden: Dim,
    pub hidden_twice: Dim,
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
    pub dense_ffn: Dim,
    pub experts: Dim,
    pub local_experts: Dim,
    pub active: Dim,
    pub expert_ffn: Dim,
    pub shared_ffn: Dim,
    pub batch: Dim,
    pub sequence: Dim,
    pub context: Dim,
    pub own_tokens: Dim,
}

impl Sizes {
    /// The sizes of a plan.
    #[must_use]
    pub(crate) const fn of(plan: &Plan) -> Self {
        let Spec { architecture: a, layout: l } = plan.spec();
        let (tp, cp, ep, etp) = (l.mesh.tp, l.mesh.cp, l.mesh.ep, l.mesh.etp);
        let unused = Dim::ONE;
        let hidden = Dim::whole("h", a.hidden);
        let sequence = Dim::whole("s", l.batch.sequence);
        let mut sizes = Self {
            hidden,
            hidden_twice: Dim::whole("2h", mul(a.hidden, 2)),
            vocab: Dim::whole("v", plan.padded_vocab()).split(Over::Tp, tp),
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
            dense_ffn: over_tp(Dim::whole("h_F", a.layers.ffn), l.placement.dense_ffn, tp),
            experts: Dim::whole("N", a.experts.routed),
            local_experts: Dim::whole("N", add(a.experts.routed, l.placement.redundant_experts)).split(Over::Ep, ep),
            active: Dim::whole("N_r", a.experts.active),
            expert_ffn: Dim::whole("h_E", a.experts.ffn).split(Over::Etp, etp),
            shared_ffn: over_tp(Dim::whole("N_s h_E", a.experts.shared_width()), l.placement.shared_experts, tp),
            batch: Dim::whole("b", l.batch.micro),
            sequence,
            context: sequence.split(Over::Cp, cp),
            own_tokens: sequence.split(Over::Sequence, plan.sequence_ranks()),
        };
        match a.attention {
            Attention::Mla(mla) => {
                sizes.heads_whole = Dim::whole("n_h", mla.heads);
                sizes.q_rank = Dim::whole("d_cq", mla.q_rank);
                sizes.kv_rank = Dim::whole("d_c", mla.kv_rank);
                sizes.nope = Dim::whole("d_h", mla.nope);
                sizes.rope = Dim::whole("d_hr", mla.rope);
                sizes.query_key = Dim::whole("(d_h+d_hr)", add(mla.nope, mla.rope));
                sizes.value = Dim::whole("d_v", mla.value);
            }
            Attention::Gqa(gqa) => {
                sizes.heads_whole = Dim::whole("n_h", gqa.heads);
                sizes.head_dim = Dim::whole("d_h", gqa.head_width(a.hidden));
                sizes.head_dim_twice = Dim::whole("2d_h", mul(gqa.head_width(a.hidden), 2));
                // With fewer key/value heads than ranks each rank holds one, replicated over tp / n_kv ranks.
                let ranks = if gqa.kv_heads < tp { gqa.kv_heads } else { tp };
                sizes.kv_heads = Dim::whole("n_kv", gqa.kv_heads).split(Over::Tp, ranks);
            }
        }
        sizes.heads = sizes.heads_whole.split(Over::Tp, tp);
        sizes
    }
}

const fn over_tp(dim: Dim, split: Split, tp: u64) -> Dim {
    match split {
        Split::Split => dim.split(Over::Tp, tp),
        Split::Replicated => dim,
    }
}
