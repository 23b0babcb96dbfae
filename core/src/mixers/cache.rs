//! What a cache holds of the sequences that are served, as far as every mixer has it alike: tokens in whole blocks, those
//! of a window, and states whose size does not depend on the context.

use super::At;
use crate::inventory::{Element, Entry, Module, Role, Sink};
use crate::plan::Plan;
use crate::saturating::mul;
use crate::sizes::{Dim, Over, Symbol};
use crate::spec::{Dtype, Serving};

const ONE: Dim = Dim::ONE;
const VLLM: &str = "vLLM (git 001cabc1), vllm/v1/kv_cache_interface.py";
const STATES: &str = "vLLM (git 02d71083), vllm/model_executor/layers/mamba/mamba_utils.py";
const WAITING: &str = "deepseek-ai/DeepSeek-V4-Flash, inference/model.py";

/// How much is kept of how many sequences.
#[derive(Clone, Copy)]
pub(crate) struct Kept {
    /// Sequences whose tokens are kept.
    requests: Dim,
    /// Sequences whose states are kept.
    states: Dim,
    /// Blocks of a whole context on a rank.
    blocks: u64,
    /// Tokens of a block.
    block: u64,
    /// Ranks that deal the blocks of a sequence among them.
    cp: u64,
    /// Tokens of prompts that run at once, for which layers with a window have room beside it.
    running: u64,
    /// Whether what a window bounds is kept.
    windows: bool,
    formats: [Dtype; 3],
}

impl Kept {
    /// Everything that a layout serves.
    pub(crate) const fn all(plan: &Plan, serving: &Serving) -> Self {
        let cp = plan.spec().layout.mesh.cp;
        Self {
            requests: Dim::whole(Symbol::Requests, serving.requests),
            states: Dim::whole(Symbol::Requests, serving.requests),
            // Of a context as long as declared: both are numbers of a declaration, and their product fits.
            blocks: serving.context.div_ceil(serving.block * cp),
            block: serving.block,
            cp,
            running: serving.prefill_tokens(),
            windows: true,
            formats: [serving.cache, plan.spec().layout.precision.activations, serving.state],
        }
    }

    /// One sequence of a context, without the prompts that run.
    pub(crate) const fn one(plan: &Plan, serving: &Serving) -> Self {
        let mut kept = Self::all(plan, serving);
        (kept.requests, kept.states, kept.running) = (ONE, ONE, 0);
        kept
    }

    /// So many tokens of one sequence, as one rank holds them, that no window bounds.
    pub(crate) const fn tokens(plan: &Plan, serving: &Serving, tokens: u64) -> Self {
        let mut kept = Self::one(plan, serving);
        (kept.blocks, kept.block, kept.cp, kept.windows) = (tokens, 1, 1, false);
        kept.states = Dim::whole(Symbol::Requests, 0);
        kept
    }

    /// The states of one sequence.
    pub(crate) const fn states(plan: &Plan, serving: &Serving) -> Self {
        let mut kept = Self::one(plan, serving);
        kept.requests = Dim::whole(Symbol::Requests, 0);
        kept
    }

    /// What entries of a cache share, of so many layers.
    pub(crate) const fn entry(&self, count: u64) -> Entry {
        let mut entry = Entry::NONE;
        (entry.role, entry.module, entry.source) = (Role::KvCache, Module::Attention, VLLM);
        (entry.count, entry.held) = (count, count);
        entry.element = Element::float(self.formats[0]);
        entry
    }

    const fn dim(&self, blocks: u64) -> Dim {
        let local = mul(blocks, self.block);
        let mut dim = Dim::whole(Symbol::Cached, mul(local, self.cp));
        if self.cp > 1 {
            (dim.local, dim.over) = (local, Over::Cp);
        }
        dim
    }

    /// Lists what is kept of every token: `[requests, tokens, heads, width]`.
    pub(crate) const fn push(&self, list: &mut Sink<'_>, common: &Entry, name: &'static str, of: [Dim; 2]) {
        list.push(common, name, [self.requests, self.dim(self.blocks), of[0], of[1]]);
    }

    /// The same of tokens that become one, so many at a time.
    pub(crate) const fn push_compressed(
        &self,
        list: &mut Sink<'_>,
        common: &Entry,
        name: &'static str,
        of: Dim,
        together: u64,
    ) {
        let all = self.dim(self.blocks);
        let mut tokens = Dim::whole(Symbol::Cached, all.global.div_ceil(together));
        if self.cp > 1 {
            (tokens.local, tokens.over) = (all.local.div_ceil(together), Over::Cp);
        }
        list.push(common, name, [self.requests, tokens, of, ONE]);
    }

    /// The same of the tokens of a window, or of all where there is none. A window moves on token by token, and reaches into
    /// one block more than its tokens fill; beside it there is room for the prompts that run, each token of which is
    /// looked back at until its block is done.
    pub(crate) const fn push_window(
        &self,
        list: &mut Sink<'_>,
        common: &Entry,
        name: &'static str,
        of: [Dim; 2],
        window: u64,
    ) {
        if window == 0 {
            self.push(list, common, name, of);
            return;
        }
        if !self.windows {
            return;
        }
        let most = ((window - 1).div_ceil(self.block) + 1).div_ceil(self.cp);
        if most >= self.blocks {
            self.push(list, common, name, of);
            return;
        }
        list.push(common, name, [self.requests, self.dim(most), of[0], of[1]]);
        if self.running > 0 {
            let blocks = self.running.div_ceil(self.block * self.cp);
            list.push_part(common, name, "prompts that run", [ONE, self.dim(blocks), of[0], of[1]]);
        }
    }

    /// Lists a state of every sequence, in the format of activations: the tokens that a convolution looks back at.
    pub(crate) const fn push_convolution(&self, list: &mut Sink<'_>, common: &Entry, tokens: u64, of: Dim) {
        let mut common = common.stored_as(Element::float(self.formats[1]));
        common.source = STATES;
        let before = Dim::whole(Symbol::Kernel, tokens - 1);
        list.push(&common, "convolution state", [self.states, before, of, ONE]);
    }

    /// Lists a recurrent state of every sequence.
    pub(crate) const fn push_state(&self, list: &mut Sink<'_>, common: &Entry, of: [Dim; 3]) {
        let mut common = common.stored_as(Element::float(self.formats[2]));
        common.source = STATES;
        list.push(&common, "recurrent state", [self.states, of[0], of[1], of[2]]);
    }

    /// Lists what every sequence has waiting to be compressed, in fp32: values and scores of so many tokens.
    pub(crate) const fn push_waiting(&self, list: &mut Sink<'_>, common: &Entry, name: &'static str, of: [Dim; 2]) {
        let mut common = common.stored_as(Element::FP32).times(2);
        common.source = WAITING;
        list.push(&common, name, [self.states, of[0], of[1], ONE]);
    }
}

/// What is listed for: a mixer, and what of it is kept in how many layers.
#[derive(Clone, Copy)]
pub(crate) struct Caching<'a> {
    pub(crate) at: At<'a>,
    pub(crate) kept: &'a Kept,
    /// Layers with the mixer.
    pub(crate) layers: u64,
    /// Those of them that have no window by their place.
    pub(crate) whole: u64,
    pub(crate) serving: &'a Serving,
}

/// Lists keys and values: in layers without a window whole, in others as far as it reaches.
pub(super) const fn keys_and_values(list: &mut Sink<'_>, of: Caching<'_>, heads: Dim, widths: [Dim; 2], window: u64) {
    const NAMES: [&str; 2] = ["key cache", "value cache"];
    let (whole, windowed) = if window == 0 { (of.layers, 0) } else { (of.whole, of.layers - of.whole) };
    let mut i = 0;
    while i < NAMES.len() {
        let of_head = [heads, widths[i]];
        if whole > 0 {
            of.kept.push(list, &of.kept.entry(whole), NAMES[i], of_head);
        }
        if windowed > 0 {
            let mut entry = of.kept.entry(windowed);
            entry.part = if whole > 0 { "window" } else { "" };
            of.kept.push_window(list, &entry, NAMES[i], of_head, window);
        }
        i += 1;
    }
}
