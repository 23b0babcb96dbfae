//! Serving: what is kept of the sequences, what the largest block works on while prompts or single tokens run, and the
//! longest context and the most requests that fit.
//!
//! Weights are those of training, by the same list. Each mixer lists its own cache (`mixers/`); this multiplies it by layers.

use crate::accounting::working;
use crate::bytes::Bytes;
use crate::counts::{Counts, Part};
use crate::device::Device;
use crate::inventory::{Block, Element, Entry, Lifetime, Module, Phase, Role, Sink};
use crate::mixers::cache::{Caching, Kept};
use crate::mixers::{At, Slot};
use crate::plan::Plan;
use crate::saturating::{cut, mul};
use crate::sizes::{Dim, Sizes, Symbol};
use crate::spec::{Attention, LayerKind, Mixer, NUMBER_MAX, Service, Serving};

const ONE: Dim = Dim::ONE;

/// Nothing is saved for backward, so only the largest block counts, and in it all that it makes: an upper bound of what an
/// engine holds at once, which frees some of it before the block's end.
const SOURCE: &str = "forward of one block, none of its tensors freed before its end";
const SAMPLING: &str = "vLLM (git 00ec9781), vllm/v1/sample/sampler.py: logits and log-probabilities in fp32";

/// Lists what prefill and decode work on, in each part of a model.
pub(crate) const fn list(list: &mut Sink<'_>, plan: &Plan, serving: &Serving, sizes: &Sizes, counts: Counts) {
    let mesh = &plan.spec().layout.mesh;
    let (prompts, requests) = (serving.prefill_tokens(), serving.requests);
    let last = if requests < prompts { requests } else { prompts };
    let scored = if serving.logprobs.is_on() { prompts.div_ceil(mesh.cp) } else { last };
    works(list, plan, &sizes.running(prompts, mesh.cp, plan.sequence_ranks()), counts, Phase::Prefill, scored);
    // Context-parallel ranks split a sequence's cache, not its one token.
    let own = if mesh.sequence_parallel.is_on() { mesh.tp } else { 1 };
    works(list, plan, &sizes.running(requests, 1, own), counts, Phase::Decode, requests);
}

/// What the blocks work on in a phase, of as many tokens as the sizes say, so many of which get logits.
const fn works(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, counts: Counts, phase: Phase, scored: u64) {
    let mut slot = 0;
    while slot < Slot::ALL.len() {
        if counts.mixers[slot].there > 0 {
            let slot = Slot::ALL[slot];
            list.part(slot.part());
            let entry = around(list, plan, sizes, phase, slot.block(), Module::Attention);
            At { plan, sizes, slot }.saved(list, &entry);
        }
        slot += 1;
    }
    if counts.dense.there > 0 {
        list.part(Part::Dense);
        let entry = around(list, plan, sizes, phase, Block::Dense, Module::DenseFfn);
        let (times, name) = working(plan, ["dense gate, up, product", "dense up, activation"]);
        list.push(&entry.times(times), name, [sizes.batch, sizes.context, sizes.dense_ffn, ONE]);
    }
    if counts.moe.there > 0 {
        list.part(Part::Moe);
        let entry = around(list, plan, sizes, phase, Block::Moe, Module::RoutedExperts);
        experts(list, plan, sizes, &entry);
    }
    if counts.last.there > 0 {
        list.part(Part::Last);
        let entry = work(plan, phase, Block::Head, Module::Head);
        let (rows, own) = (Dim::whole(Symbol::Running, scored), sizes.own_hidden());
        list.push(&entry.times(2), "final norm input, output", own);
        list.push(&entry, "logits", [ONE, rows, sizes.vocab, ONE]);
        let mut logits = entry.stored_as(Element::FP32);
        logits.source = SAMPLING;
        list.push(&logits, "logits in fp32", [ONE, rows, sizes.vocab, ONE]);
    }
}

/// What one block holds of the residual stream: it, the block's input behind its norm, and its output.
const fn around(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, phase: Phase, block: Block, module: Module) -> Entry {
    let entry = work(plan, phase, block, module);
    list.push(&entry, "residual stream", sizes.own_streams());
    list.push(&entry, "block input behind its norm", [sizes.batch, sizes.context, sizes.hidden, ONE]);
    list.push(&entry, "block output", [sizes.batch, sizes.context, sizes.hidden, ONE]);
    entry
}

/// Router, permuted copies of tokens, what the experts of a rank make of them, and shared experts.
const fn experts(list: &mut Sink<'_>, plan: &Plan, sizes: &Sizes, entry: &Entry) {
    let (batch, own) = (sizes.batch, sizes.own_tokens);
    let scores = entry.of(Module::Router).stored_as(Element::FP32);
    list.push(&scores, "router logits", [batch, own, sizes.experts, ONE]);
    let rows = Dim::whole(Symbol::Rows, plan.rows_of(own.local));
    list.push(&entry.times(2), "permuted copies, routed output", [rows, sizes.expert_io, ONE, ONE]);
    let (times, name) = working(plan, ["routed gate, up, product", "routed up, activation"]);
    list.push(&entry.times(times), name, [rows, sizes.expert_ffn, ONE, ONE]);
    if plan.spec().architecture.experts.latent > 0 {
        let latents = entry.of(Module::Router).times(2);
        list.push(&latents, "latent input, latent output", [batch, own, sizes.expert_io, ONE]);
    }
    if plan.spec().architecture.experts.shared > 0 {
        let (times, name) = working(plan, ["shared gate, up, product", "shared up, activation"]);
        let shared = entry.of(Module::SharedExperts).times(times);
        list.push(&shared, name, [batch, sizes.context, sizes.shared_ffn, ONE]);
    }
}

const fn work(plan: &Plan, phase: Phase, block: Block, module: Module) -> Entry {
    let mut entry = Entry::NONE;
    (entry.role, entry.module, entry.source) = (Role::Transient, module, SOURCE);
    entry.lifetime = match phase {
        Phase::Decode => Lifetime::InDecode(block),
        _ => Lifetime::InPrefill(block),
    };
    entry.element = Element::float(plan.spec().layout.precision.activations);
    (entry.count, entry.held) = (1, 1);
    entry
}

/// Lists what a rank of a stage keeps of sequences.
pub(crate) const fn list_caches(list: &mut Sink<'_>, plan: &Plan, serving: &Serving, stage: u64, kept: &Kept) {
    let (sizes, chunk) = (&plan.sizes(), plan.chunk(stage, 0));
    let architecture = &plan.spec().architecture;
    let counts = Counts::of(plan, &chunk, 1);
    let mut slot = 0;
    while slot < Slot::ALL.len() {
        let mut layers = counts.mixers[slot].there;
        // A stage that starts with layers that read the keys and values of the one in front holds a copy of these.
        if slot == Slot::Attention as usize
            && let Mixer::LocalGqa(local) = &architecture.mixer
            && local.shared_kv.is_on()
            && stage > 0
            && architecture.layers.list.has(LayerKind::Mixer, chunk.first_layer)
        {
            layers += 1;
        }
        if layers > 0 {
            let at = At { plan, sizes, slot: Slot::ALL[slot] };
            let range = chunk.range();
            let whole = if slot == 0 { whole(architecture.attention, range.start, range.end) } else { 0 };
            Caching { at, kept, layers, whole, serving }.list(list);
        }
        slot += 1;
    }
}

/// Layers of a run that have no window by their place.
const fn whole(attention: Attention, start: u64, end: u64) -> u64 {
    match attention {
        Attention::Gqa(gqa) if gqa.full_every > 0 => end / gqa.full_every - start / gqa.full_every,
        _ => 0,
    }
}

impl Plan {
    /// What a rank of a stage keeps of sequences; nothing where the layout serves none.
    const fn kept(&self, stage: u64, kept: &Kept) -> u128 {
        let Some(serving) = self.spec().layout.served() else { return 0 };
        let mut list = Sink::new(&mut []);
        list_caches(&mut list, self, serving, stage, kept);
        list.tally().always[Role::KvCache as usize]
    }

    /// Bytes that one more token of a context takes on a rank that holds it, in the layers of a stage that keep all
    /// tokens; where several tokens are kept as one, a token's part of it, rounded up. Layers that keep a window or a state
    /// take no more. Nothing where the layout serves none.
    ///
    /// ```
    /// use moe_model_core::preset::DEEPSEEK_V3;
    /// use moe_model_core::spec::{Layout, MlaCache, Service, Serving};
    /// use moe_model_core::{Plan, Spec};
    ///
    /// let mut serving = Serving { requests: 32, context: 65_536, ..Serving::DEFAULT };
    /// let of = |serving| {
    ///     let layout = Layout { serving: Service::Serving(serving), ..Layout::DEFAULT };
    ///     Plan::new(Spec { architecture: DEEPSEEK_V3, layout })
    /// };
    /// // 61 layers of a latent of 512 and a rotary key of 64, in bf16.
    /// assert_eq!(of(serving)?.kv_cache_per_token(0).bytes(), 61 * (512 + 64) * 2);
    /// serving.mla = MlaCache::Expanded;
    /// assert_eq!(of(serving)?.kv_cache_per_token(0).bytes(), 61 * 128 * (192 + 128) * 2);
    /// # Ok::<(), moe_model_core::Violations>(())
    /// ```
    ///
    /// # Panics
    /// If there are not so many stages.
    #[must_use]
    pub const fn kv_cache_per_token(&self, stage: u64) -> Bytes {
        let Some(serving) = self.spec().layout.served() else { return Bytes::ZERO };
        // As many as become whole numbers of compressed ones.
        let tokens = match &self.spec().architecture.attention {
            Attention::Compressed(compressed) => mul(compressed.compress, compressed.compress_heavy),
            _ => 1,
        };
        Bytes::new(cut(self.kept(stage, &Kept::tokens(self, serving, tokens)).div_ceil(tokens as u128)))
    }

    /// Bytes on a rank of a stage that one sequence takes whatever its context: recurrent states and what convolutions look
    /// back at, and tokens that wait to be compressed.
    ///
    /// # Panics
    /// If there are not so many stages.
    #[must_use]
    pub const fn state_per_sequence(&self, stage: u64) -> Bytes {
        let Some(serving) = self.spec().layout.served() else { return Bytes::ZERO };
        Bytes::new(cut(self.kept(stage, &Kept::states(self, serving))))
    }

    /// Bytes on a rank of a stage that one sequence of so many tokens takes: whole blocks of the tokens that each layer
    /// keeps, windows as far as they reach, and states.
    ///
    /// # Panics
    /// If there are not so many stages.
    #[must_use]
    pub const fn kv_cache_of_sequence(&self, stage: u64, context: u64) -> Bytes {
        let Some(serving) = self.spec().layout.served() else { return Bytes::ZERO };
        let context = if context > NUMBER_MAX { NUMBER_MAX } else { context };
        let serving = Serving { context, ..*serving };
        Bytes::new(cut(self.kept(stage, &Kept::one(self, &serving))))
    }

    /// The plan with other requests of another context.
    const fn serving(&self, requests: u64, context: u64) -> Option<Self> {
        let Some(serving) = self.spec().layout.served() else { return None };
        let mut spec = *self.spec();
        spec.layout.serving = Service::Serving(Serving { requests, context, ..*serving });
        Self::unchecked(spec)
    }

    const fn serves_on(&self, requests: u64, context: u64, device: Device) -> bool {
        match self.serving(requests, context) {
            Some(plan) => plan.fits(device),
            None => false,
        }
    }

    /// The longest context, in whole blocks, that so many requests of each data-parallel replica can have at once on a
    /// device, with the declared headroom: one block more does not fit, or is more than a declaration can say. `None`
    /// where not one block fits, where there are no requests, or where the layout serves none.
    ///
    /// ```
    /// use moe_model_core::preset::LLAMA_3_1_8B;
    /// use moe_model_core::spec::{Layout, Service, Serving, percent};
    /// use moe_model_core::{Device, Plan, Spec};
    ///
    /// let serving = Service::Serving(Serving { requests: 8, context: 8192, ..Serving::DEFAULT });
    /// let layout = Layout { serving, headroom: percent(10), ..Layout::DEFAULT };
    /// let plan = Plan::new(Spec { architecture: LLAMA_3_1_8B, layout })?;
    /// let longest = plan.longest_context(8, Device::A100Gb80).expect("a block fits");
    /// assert_eq!(plan.most_requests(longest, Device::A100Gb80), Some(8));
    /// assert!(plan.most_requests(longest + 16, Device::A100Gb80) < Some(8));
    /// # Ok::<(), moe_model_core::Violations>(())
    /// ```
    #[must_use]
    pub const fn longest_context(&self, requests: u64, device: Device) -> Option<u64> {
        let Some(serving) = self.spec().layout.served() else { return None };
        if requests == 0 || requests > NUMBER_MAX {
            return None;
        }
        // Context-parallel ranks deal the blocks of a sequence among them, and each holds as many.
        let block = serving.block * self.spec().layout.mesh.cp;
        match self.most(Some(requests), block, NUMBER_MAX / block, device) {
            Some(blocks) => Some(blocks * block),
            None => None,
        }
    }

    /// The most requests of so long a context that each data-parallel replica can keep at once on a device, with the declared
    /// headroom: one more does not fit, or is more than a declaration can say. `None` where not one fits, where the context is
    /// empty, or where the layout serves none.
    #[must_use]
    pub const fn most_requests(&self, context: u64, device: Device) -> Option<u64> {
        if context == 0 || context > NUMBER_MAX {
            return None;
        }
        self.most(None, context, NUMBER_MAX, device)
    }

    /// The most that fit on a device, up to a limit: of so many requests, lengths of context; else requests of that length.
    const fn most(&self, requests: Option<u64>, length: u64, limit: u64, device: Device) -> Option<u64> {
        let (mut fits, mut not) = (0, limit + 1);
        while not - fits > 1 {
            let middle = fits + (not - fits) / 2;
            let (requests, context) = match requests {
                Some(requests) => (requests, middle * length),
                None => (middle, length),
            };
            if self.serves_on(requests, context, device) {
                fits = middle;
            } else {
                not = middle;
            }
        }
        if fits == 0 { None } else { Some(fits) }
    }
}
