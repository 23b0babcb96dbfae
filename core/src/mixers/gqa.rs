//! Grouped-query attention: that of all layers, or, in the place of it, that of some with heads of their own.

use super::cache::{self, Caching};
use super::{At, Heads};
use crate::inventory::{Entry, Sink};
use crate::key::{Key, KeySet, Numbers};
use crate::plan::Plan;
use crate::saturating::{mul, zero_or};
use crate::sizes::{Dim, Over, Sizes, Symbol};
use crate::spec::Switch;
use crate::spec::schema::{
    Field, NUMBER_MAX, Value, Word, field_code, field_decode, field_default, field_in_range, field_required,
    field_type, field_value, group, words,
};

const ONE: Dim = Dim::ONE;

words! {
    /// Which projections of attention have a bias.
    Bias {
        /// None.
        None = "none",
        /// Those of query, key and value.
        Qkv = "qkv",
        /// These and the output's.
        All = "all",
    }
}

words! {
    /// What queries and keys are normalised over, by a weight of its own each.
    QkNorm {
        /// They are not.
        None = "none",
        /// Each head, by one weight for all heads (Qwen3).
        Head = "head",
        /// All heads together, by a weight of their whole width (OLMoE).
        Full = "full",
    }
}

group! {
    /// Grouped-query attention; with as many key/value heads as query heads it is multi-head attention.
    Gqa {
        /// Query heads, split over tensor-parallel ranks.
        heads: number at least 1 = AttentionHeads;
        /// Key/value heads, split over tensor-parallel ranks, or replicated where there are fewer of them.
        kv_heads: number at least 1 = AttentionKvHeads;
        /// Width of a head. Left out (0 in a Spec) it is `hidden` over `heads`.
        head_dim: number at least 0 = AttentionHeadDim, default 0;
        /// Which projections have a bias.
        bias: Bias = AttentionBias, default Bias::None;
        /// What queries and keys are normalised over.
        qk_norm: QkNorm = AttentionQkNorm, default QkNorm::None;
        /// Whether each head has a learned score that attends to nothing (gpt-oss).
        sinks: Switch = AttentionSinks, default Switch::Off;
        /// Whether the query projection is twice as wide and one half gates the output (Qwen3-Next).
        output_gate: Switch = AttentionOutputGate, default Switch::Off;
        /// Width of a value head (MiMo-V2-Flash). Left out (0 in a Spec) it is that of the others.
        value_dim: number at least 0 = AttentionValueDim, default 0;
        /// Whether values are the keys, so that there is no projection of them (Gemma 4's full layers).
        key_as_value: Switch = AttentionKeyAsValue, default Switch::Off;
        /// Tokens that a layer looks back at, or among which it is cut into pieces (Llama 4), and that its cache holds; 0
        /// where it looks at all of them.
        window: number at least 0 = AttentionWindow, default 0;
        /// Every so many layers one has no window, the last of them (gpt-oss: 2); 0 where all have it.
        full_every: number at least 0 = AttentionFullEvery, default 0;
    }
}

impl Gqa {
    /// Width of a head in a model of this hidden width.
    #[must_use]
    pub const fn head_width(&self, hidden: u64) -> u64 {
        if self.head_dim == 0 { zero_or(hidden.checked_div(self.heads)) } else { self.head_dim }
    }
}

group! {
    /// Grouped-query attention with heads of its own, in the layers that have no `attention`: those with a window, or that
    /// read the keys and values of a layer in front.
    LocalGqa {
        /// Query heads, split over tensor-parallel ranks.
        heads: number at least 1 = MixerHeads;
        /// Key/value heads, split over tensor-parallel ranks, or replicated where there are fewer of them.
        kv_heads: number at least 1 = MixerKvHeads;
        /// Width of a head.
        head_dim: number at least 1 = MixerHeadDim;
        /// Width of a value head. Left out (0 in a Spec) it is that of the others.
        value_dim: number at least 0 = MixerValueDim, default 0;
        /// Which projections have a bias.
        bias: Bias = MixerBias, default Bias::None;
        /// What queries and keys are normalised over.
        qk_norm: QkNorm = MixerQkNorm, default QkNorm::None;
        /// Whether each head has a learned score that attends to nothing (MiMo-V2-Flash).
        sinks: Switch = MixerSinks, default Switch::Off;
        /// Whether keys and values are those of the layer in front, so that there is no projection of them
        /// (Hunyuan-Large's cross-layer attention, arXiv:2405.12981).
        shared_kv: Switch = MixerSharedKv, default Switch::Off;
        /// Tokens that a layer looks back at, and that its cache holds; 0 where it looks at all of them.
        window: number at least 0 = MixerWindow, default 0;
    }
}

/// Where keys and values come from.
#[derive(Clone, Copy)]
enum Source {
    Projections,
    /// Values are the keys.
    Key,
    /// The layer in front.
    Layer,
}

/// What both have: the widths of one, and its options.
#[derive(Clone, Copy)]
struct Widths {
    heads: Dim,
    kv_heads: Dim,
    /// Width of a head.
    dim: Dim,
    /// What the query projection makes of it, a gate behind it.
    query: Dim,
    /// Width of a value head.
    value: Dim,
    bias: Bias,
    qk_norm: QkNorm,
    sinks: bool,
    gate: bool,
    from: Source,
}

/// Key/value heads: with fewer of them than ranks each rank holds one, replicated over as many of them as fall to it.
const fn kv_heads(heads: u64, tp: u64) -> Dim {
    Dim::whole(Symbol::KvHeads, heads).split(Over::Tp, if heads < tp { heads } else { tp })
}

impl Gqa {
    pub(super) const fn sizes(&self, sizes: &mut Sizes, plan: &Plan) {
        let width = self.head_width(plan.spec().architecture.hidden);
        sizes.heads_whole = Dim::whole(Symbol::Heads, self.heads);
        sizes.head_dim = Dim::whole(Symbol::HeadDim, width);
        sizes.value = if self.value_dim == 0 { sizes.head_dim } else { Dim::whole(Symbol::Value, self.value_dim) };
        sizes.head_dim_twice = Dim::whole(Symbol::HeadDimTwice, mul(width, 2));
        sizes.kv_heads = kv_heads(self.kv_heads, plan.spec().layout.mesh.tp);
    }

    const fn of(&self, sizes: &Sizes) -> Widths {
        let gate = self.output_gate.is_on();
        Widths {
            heads: sizes.heads,
            kv_heads: sizes.kv_heads,
            dim: sizes.head_dim,
            query: if gate { sizes.head_dim_twice } else { sizes.head_dim },
            value: sizes.value,
            bias: self.bias,
            qk_norm: self.qk_norm,
            sinks: self.sinks.is_on(),
            gate,
            from: if self.key_as_value.is_on() { Source::Key } else { Source::Projections },
        }
    }

    pub(super) const fn weights(&self, list: &mut Sink<'_>, at: At<'_>, w: &Entry, norm: &Entry) {
        self.of(at.sizes).weights(list, at.sizes, w, norm);
    }

    pub(super) const fn saved(&self, list: &mut Sink<'_>, at: At<'_>, kept: &Entry) {
        self.of(at.sizes).saved(list, at.sizes, kept);
    }
}

impl Gqa {
    pub(super) const fn heads(&self, at: At<'_>) -> Heads {
        self.of(at.sizes).heads()
    }

    pub(super) const fn cache(&self, list: &mut Sink<'_>, of: Caching<'_>) {
        let sizes = of.at.sizes;
        // Keys are turned by their position and normalised, values are not: both are cached where one is made of the other.
        cache::keys_and_values(list, of, sizes.kv_heads, [sizes.head_dim, sizes.value], self.window);
    }

    pub(super) const fn gate_saved(&self, list: &mut Sink<'_>, sizes: &Sizes, kept: &Entry) {
        self.of(sizes).gate_saved(list, sizes, kept);
    }
}

impl LocalGqa {
    pub(super) const fn heads(&self, at: At<'_>) -> Heads {
        self.of(at.plan).heads()
    }

    const fn of(&self, plan: &Plan) -> Widths {
        let (tp, dim) = (plan.spec().layout.mesh.tp, Dim::whole(Symbol::HeadDim, self.head_dim));
        Widths {
            heads: Dim::whole(Symbol::Heads, self.heads).split(Over::Tp, tp),
            kv_heads: kv_heads(self.kv_heads, tp),
            dim,
            query: dim,
            value: if self.value_dim == 0 { dim } else { Dim::whole(Symbol::Value, self.value_dim) },
            bias: self.bias,
            qk_norm: self.qk_norm,
            sinks: self.sinks.is_on(),
            gate: false,
            from: if self.shared_kv.is_on() { Source::Layer } else { Source::Projections },
        }
    }

    pub(super) const fn weights(&self, list: &mut Sink<'_>, at: At<'_>, w: &Entry, norm: &Entry) {
        self.of(at.plan).weights(list, at.sizes, w, norm);
    }

    pub(super) const fn saved(&self, list: &mut Sink<'_>, at: At<'_>, kept: &Entry) {
        self.of(at.plan).saved(list, at.sizes, kept);
    }

    /// Nothing where the layer in front has it.
    pub(super) const fn cache(&self, list: &mut Sink<'_>, of: Caching<'_>) {
        if !self.shared_kv.is_on() {
            let widths = self.of(of.at.plan);
            cache::keys_and_values(list, of, widths.kv_heads, [widths.dim, widths.value], self.window);
        }
    }

    /// Heads with scores that a softmax turns into weights.
    pub(super) const fn scored(&self, at: At<'_>) -> Dim {
        self.of(at.plan).heads
    }
}

impl Widths {
    const fn heads(&self) -> Heads {
        Heads {
            queries: self.heads,
            keys: self.kv_heads,
            width: self.dim,
            value: self.value,
            rotary: self.dim,
            is_latent: false,
            norms: self.qk_norm,
        }
    }

    const fn weights(&self, list: &mut Sink<'_>, sizes: &Sizes, w: &Entry, norm: &Entry) {
        let (hidden, heads, kv_heads) = (sizes.hidden, self.heads, self.kv_heads);
        list.push(w, "self_attn.q_proj.weight", [heads, self.query, hidden, ONE]);
        if !matches!(self.from, Source::Layer) {
            list.push(w, "self_attn.k_proj.weight", [kv_heads, self.dim, hidden, ONE]);
        }
        if matches!(self.from, Source::Projections) {
            list.push(w, "self_attn.v_proj.weight", [kv_heads, self.value, hidden, ONE]);
        }
        list.push(w, "self_attn.o_proj.weight", [hidden, heads, self.value, ONE]);
        self.options(list, hidden, w, norm);
    }

    /// What some models have beside the four projections.
    const fn options(&self, list: &mut Sink<'_>, hidden: Dim, w: &Entry, norm: &Entry) {
        let (heads, kv_heads, dim) = (self.heads, self.kv_heads, self.dim);
        if !matches!(self.bias, Bias::None) {
            list.push(w, "self_attn.q_proj.bias", [heads, self.query, ONE, ONE]);
            if !matches!(self.from, Source::Layer) {
                list.push(w, "self_attn.k_proj.bias", [kv_heads, dim, ONE, ONE]);
            }
            if matches!(self.from, Source::Projections) {
                list.push(w, "self_attn.v_proj.bias", [kv_heads, self.value, ONE, ONE]);
            }
        }
        if matches!(self.bias, Bias::All) {
            list.push(w, "self_attn.o_proj.bias", [hidden, ONE, ONE, ONE]);
        }
        match self.qk_norm {
            QkNorm::None => {}
            // Of keys too, where these are those of the layer in front: each layer normalises what it reads.
            QkNorm::Head => {
                list.push(norm, "self_attn.q_norm.weight", [dim, ONE, ONE, ONE]);
                list.push(norm, "self_attn.k_norm.weight", [dim, ONE, ONE, ONE]);
            }
            QkNorm::Full => {
                list.push(norm, "self_attn.q_norm.weight", [heads, dim, ONE, ONE]);
                list.push(norm, "self_attn.k_norm.weight", [kv_heads, dim, ONE, ONE]);
            }
        }
        if self.sinks {
            list.push(w, "self_attn.sinks", [heads, ONE, ONE, ONE]);
        }
    }

    const fn gate_saved(&self, list: &mut Sink<'_>, sizes: &Sizes, kept: &Entry) {
        if self.gate {
            let output = [sizes.batch, sizes.context, self.heads, self.value];
            list.push(&kept.times(2), "output gate, gated output", output);
        }
    }

    /// What attention saves. Of what the style of these accountings does not know, a norm saves its input, a gate itself
    /// and what it gates.
    const fn saved(&self, list: &mut Sink<'_>, sizes: &Sizes, kept: &Entry) {
        let (batch, context, heads, kv_heads) = (sizes.batch, sizes.context, self.heads, self.kv_heads);
        if !matches!(self.qk_norm, QkNorm::None) {
            list.push(kept, "query before its norm", [batch, context, heads, self.dim]);
            list.push(kept, "key before its norm", [batch, context, kv_heads, self.dim]);
        }
        self.gate_saved(list, sizes, kept);
        list.push(kept, "query", [batch, context, heads, self.dim]);
        if !matches!(self.from, Source::Layer) {
            list.push(kept, "key", [batch, context, kv_heads, self.dim]);
            list.push(kept, "value", [batch, context, kv_heads, self.value]);
        }
        list.push(kept, "attention output", [batch, context, heads, self.value]);
    }
}
