//! How a breach is worded: the numbers and the relation that they lack, why it must hold, what to write instead. One text
//! for the macro, the compiler and the run time.

use super::{Carried, Violation, is_valid};
use crate::bytes::Bytes;
use crate::inventory::{Inventory, Phase, Role};
use crate::key::Key;
use crate::law::{self, Law, Quantity, Rule, When};
use crate::plan::Plan;
use crate::saturating::{cut, zero_or};
use crate::spec::{Field, NUMBER_MAX, Recompute, Serving, Spec, StageList, Value, ZeroStage};
use crate::stages::{self, Misfit, Order, Part};
use crate::text::Text;

/// A value as a declaration writes it.
const fn written(text: Text, key: Key, code: u64) -> Text {
    match Spec::field(key) {
        Some(Field { value: Value::Choice { words, kinds: [] }, .. }) if code < words.len() as u64 => {
            // A place in a list fits, and is in it.
            #[allow(clippy::cast_possible_truncation)]
            text.str(words[code as usize].word)
        }
        _ if matches!(key, Key::RoutingSkew | Key::RoutingFactor) => text.thousandths(code),
        _ => text.int(code),
    }
}

/// Whether one ZeRO stage is said of all parameters.
const fn is_one_zero(spec: &Spec) -> bool {
    spec.layout.zero.dense as u8 == spec.layout.zero.expert as u8
}

/// Whether a key holds a word of a closed list.
const fn is_word(key: Key) -> bool {
    matches!(Spec::field(key), Some(Field { value: Value::Choice { kinds: [], .. }, .. }))
}

/// Whether a number is that of a key that is left out: 0, which says nothing or no number at all.
const fn is_left_out(key: Key, number: u64) -> bool {
    let may_be = matches!(Spec::field(key), Some(Field { required: false, .. }));
    number == 0 && may_be && Spec::DEFAULT.raw_numbers().of(key) == 0
}

/// A key and its value: `` `mesh.tp` = 3 ``.
const fn assigned(text: Text, key: Key, spec: &Spec) -> Text {
    let text = text.str("`").str(key.path()).str("`");
    match spec.numbers().get(key) {
        Some(code) => written(text.str(" = "), key, code),
        None => text,
    }
}

/// A quantity and its value: `` `mesh.ep` x `mesh.etp` = 8 ``.
const fn quantity(text: Text, quantity: Quantity, spec: &Spec) -> Text {
    let text = match quantity {
        Quantity::Of(key) => return assigned(text, key, spec),
        Quantity::Just(n) => return text.int(n),
        Quantity::Reachable => return reachable(text, spec),
        Quantity::RingPieces if spec.layout.mesh.sequence_parallel.is_on() => text.str("`mesh.cp` x lcm(2, `mesh.tp`)"),
        Quantity::RingPieces => text.str("2 x `mesh.cp`"),
        Quantity::ExpertReplicas => text.str("the number of replicas of each routed expert"),
        Quantity::Twice(key) => text.str("2 x `").str(key.path()).str("`"),
        Quantity::Layers if spec.architecture.layers.list.is_none() => {
            joined(text, &[Key::LayersDense, Key::LayersMoe], "` + `")
        }
        Quantity::Layers => text.str("the number of layers in `layers.list`"),
        Quantity::LayersOfChunks => text.str("the greatest common divisor of the layers of chunks"),
        Quantity::LayersOf(kind) => text.str("the number of layers with ").str(kind.name()).str(" in `layers.list`"),
        Quantity::CompressedLayers => text.str("the number of layers with compressed attention in `layers.list`"),
        Quantity::StartsWithMixer => text.str("the number of layers with a mixer in front in `layers.list`"),
        Quantity::HeadWidth if spec.numbers().of(Key::AttentionHeadDim) > 0 => {
            return assigned(text, Key::AttentionHeadDim, spec);
        }
        Quantity::HeadWidth => text.str("`hidden` / `attention.heads`"),
        Quantity::ListedStages => text.str("the number of stages in `stages.list`"),
        Quantity::ListedLayers => text.str("the number of layers in `stages.list`"),
        Quantity::ListedMtp => text.str("the number of MTP modules in `stages.list`"),
        Quantity::ListedMtpRank => text.str("the rank of the pipeline with the MTP modules in `stages.list`"),
        Quantity::Places => places(text, spec),
        Quantity::SharedWidth if spec.architecture.experts.shared_ffn > 0 => {
            return assigned(text, Key::ExpertsSharedFfn, spec);
        }
        Quantity::SharedWidth => joined(text, &[Key::ExpertsShared, Key::ExpertsFfn], "` x `"),
        Quantity::PhysicalExperts if spec.layout.placement.redundant_experts == 0 => {
            return assigned(text, Key::ExpertsRouted, spec);
        }
        Quantity::PhysicalExperts => text.str("`experts.routed` + `placement.redundant_experts`"),
        Quantity::Group if spec.layout.batch.group == 0 => return assigned(text, Key::MeshPp, spec),
        Quantity::Group => return assigned(text, Key::BatchGroup, spec),
        Quantity::HeadBlocks => heads_in_blocks(text.str("`mesh.tp`"), spec),
        Quantity::KvHeadBlocks => {
            let (tp, kv_heads) = (spec.layout.mesh.tp, spec.numbers().of(Key::AttentionKvHeads));
            heads_in_blocks(text.str(if tp < kv_heads { "`mesh.tp`" } else { "`attention.kv_heads`" }), spec)
        }
        Quantity::Product(keys) => joined(text, keys, "` x `"),
        Quantity::Sum(keys) => joined(text, keys, "` + `"),
    };
    match quantity.value(&spec.numbers()) {
        Some(value) => text.str(" = ").int(value),
        None => text.str(", which does not fit in 64 bits,"),
    }
}

/// How many layers of the layer list a rule does not allow.
const fn layers_with(text: Text, rule: Rule, spec: &Spec) -> Text {
    let Rule::AtMost(of, _) = rule else { return text };
    let count = match of.value(&spec.numbers()) {
        Some(count) => count,
        None => 0,
    };
    text.str("`layers.list` has ").int(count).str(if count == 1 { " layer" } else { " layers" })
}

const fn places(text: Text, spec: &Spec) -> Text {
    let shape = law::shape(&spec.numbers());
    let text = text.str("`mesh.pp`");
    match shape.order {
        Order::Mirror => text,
        _ if spec.layout.mesh.vpp > 0 => text.str(" x `mesh.vpp`"),
        _ => text.str(" x ").int(shape.chunks).str(" chunks a rank"),
    }
}

const fn heads_in_blocks(text: Text, spec: &Spec) -> Text {
    match law::heads_in_blocks(&spec.numbers()) {
        1 => text.str(" x 1 head, which fills blocks of ").int(spec.layout.precision.block).str(","),
        heads => {
            text.str(" x ").int(heads).str(" heads, which fill blocks of ").int(spec.layout.precision.block).str(",")
        }
    }
}

const fn joined(mut text: Text, keys: &[Key], between: &str) -> Text {
    let mut i = 0;
    while i < keys.len() {
        text = text.str(if i == 0 { "`" } else { between }).str(keys[i].path());
        i += 1;
    }
    text.str("`")
}

/// What a quantity is held against, in the way that the quantity is written.
const fn limit(text: Text, of: Quantity, limit: Quantity, spec: &Spec) -> Text {
    match (of, limit) {
        (Quantity::Of(key), Quantity::Just(n)) => written(text, key, n),
        _ => quantity(text, limit, spec),
    }
}

const fn reachable(text: Text, spec: &Spec) -> Text {
    let experts = spec.architecture.experts;
    let size = zero_or(experts.routed.checked_div(experts.groups));
    text.str("the ")
        .int(experts.active_groups.saturating_mul(size))
        .str(" experts of `experts.active_groups` = ")
        .int(experts.active_groups)
        .str(" groups of ")
        .int(size)
}

impl Violation {
    /// The law's name.
    #[must_use]
    pub const fn id(&self) -> &'static str {
        match self.law {
            Some(law) => law.id,
            None => law::NUMBER_RANGE,
        }
    }

    /// The breach in one line: the numbers and the relation that they lack.
    #[must_use]
    pub const fn message(&self, spec: &Spec) -> Text {
        let text = Text::new();
        let Some(law) = self.law else {
            if self.is_said_zero(spec) {
                return text.str("`").str(self.at.path()).str("` = 0 is less than 1");
            }
            let text = assigned(text, self.at, spec);
            return match Spec::least(self.at) {
                Some(least) if matches!(spec.numbers().get(self.at), Some(n) if n < least) => {
                    text.str(" is less than ").int(least)
                }
                _ => written(text.str(" is more than "), self.at, NUMBER_MAX),
            };
        };
        match law.rule {
            Rule::Divides(Quantity::Just(2), b) => quantity(text, b, spec).str(" is odd"),
            Rule::Divides(a, b) => quantity(quantity(text, a, spec).str(" does not divide "), b, spec),
            Rule::EitherDivides(a, b) => {
                quantity(quantity(text, a, spec).str(" neither divides nor is divided by "), b, spec)
            }
            Rule::AtLeast(Quantity::LayersOf(_), _) => {
                text.str("`mixer` is given, and no layer of `layers.list` has it")
            }
            Rule::AtLeast(Quantity::Sum([Key::ModulesCoreAttention, ..]), _) => {
                text.str("`recompute` = selective, and no key of `modules` is on")
            }
            Rule::AtLeast(a, b) => limit(quantity(text, a, spec).str(" is less than "), a, b, spec),
            Rule::AtMost(Quantity::LayersOf(_) | Quantity::Sum(_), _) if matches!(law.when, When::Reference) => {
                self.of_reference(text, law, spec)
            }
            Rule::AtMost(Quantity::LayersOf(_), _) => {
                layers_with(text, law.rule, spec).str(" with a mixer, and no `mixer` is given")
            }
            Rule::AtMost(Quantity::CompressedLayers, _) => {
                layers_with(text, law.rule, spec).str(" with compressed attention, and `attention` is of another kind")
            }
            Rule::AtMost(Quantity::StartsWithMixer, _) => {
                text.str("`layers.list` starts with a layer that would read the keys and values of one in front")
            }
            Rule::AtMost(Quantity::Of(Key::Mtp), Quantity::Just(0)) => {
                assigned(text, Key::Mtp, spec).str(" does not go with these layers")
            }
            Rule::AtMost(Quantity::Sum([Key::ModulesCoreAttention, ..]), _) => text.str("`modules` is not read here"),
            Rule::AtMost(Quantity::Sum([Key::BatchSequence, ..]), _) => {
                text.str("`batch` is not read beside `serving`")
            }
            Rule::AtMost(Quantity::Sum([Key::ZeroDense, ..]), _) => {
                text.str("`zero` shards nothing of what is kept beside `serving`")
            }
            Rule::AtMost(Quantity::Sum(_), _) if matches!(law.when, When::Fp8) => {
                assigned(text, self.at, spec).str(" does not go with a `precision.compute` in fp8")
            }
            Rule::AtMost(Quantity::Sum(_), _) if matches!(law.when, When::Fp8DelayedModules) => {
                assigned(text, self.at, spec).str(" does not go with `precision.compute: fp8_delayed`")
            }
            Rule::AtMost(a @ Quantity::Of(Key::RecomputeLayers), _) if matches!(law.when, When::Given(_)) => {
                quantity(text, a, spec).str(" is not read beside `recompute_together`")
            }
            Rule::AtMost(Quantity::Of(key @ Key::RecomputeTogether), _)
                if matches!(law.when, When::NoTogether | When::SeveralBlocks) =>
            {
                let text = assigned(text, key, spec).str(" does not go with ");
                text.str(if matches!(law.when, When::NoTogether) { "this accounting" } else { "these layers" })
            }
            Rule::AtMost(a, Quantity::Just(0)) => quantity(text, a, spec).str(" is not read here"),
            Rule::AtMost(a, b) => limit(quantity(text, a, spec).str(" is more than "), a, b, spec),
            Rule::Given(key) => text.str("`").str(key.path()).str("` is missing or 0"),
            Rule::Equal(a, b) => quantity(quantity(text, a, spec).str(" is not "), b, spec),
            Rule::Needs(key, a, b) => {
                let text = assigned(text, key, spec).str(" needs ");
                quantity(quantity(text, a, spec).str(" to be at least "), b, spec)
            }
            Rule::IsOn(key) => assigned(text, key, spec).str(" must be on"),
            Rule::IsKept(key) if matches!(law.when, When::Serving) => {
                assigned(text, key, spec).str(" leaves out what the next token needs")
            }
            Rule::IsKept(key) => assigned(text, key, spec).str(" leaves out what the step needs"),
            Rule::OneOf(key, _) => one_of(assigned(text, key, spec), law, spec),
            Rule::LayersFallToStages => misfit(text, spec),
            Rule::ChunksOfSchedule => chunks(text, spec),
            Rule::LastGroupFills => last_group(text, spec),
            Rule::RanksHoldLayers => match Plan::unchecked(*spec) {
                Some(plan) => text
                    .str("rank ")
                    .int(zero_or(plan.rank_without_layers()))
                    .str(" of `mesh.pp` = ")
                    .int(plan.stages())
                    .str(" holds no decoder layer"),
                None => text,
            },
            Rule::SkewIsPossible => {
                let text = assigned(text, Key::RoutingSkew, spec).str(" is not between 1 and ");
                text.thousandths(law::worst_skew(&spec.numbers()))
            }
            Rule::FactorIsPossible => {
                let text = assigned(text, Key::RoutingFactor, spec).str(" is not between 0.001 and ");
                text.thousandths(law::worst_factor(&spec.numbers()))
            }
            Rule::Fits64Bits => text.str("the budget of the worst rank does not fit in 64 bits of bytes"),
            Rule::FitsDevice => unfit(text, spec),
        }
    }

    /// Whether a number is out of range because it says 0 where it could be left out.
    const fn is_said_zero(&self, spec: &Spec) -> bool {
        self.law.is_none() && law::follows_at_zero(self.at) && spec.raw_numbers().of(self.at) == 0
    }

    /// What the reference step does not compute.
    const fn of_reference(&self, text: Text, law: &Law, spec: &Spec) -> Text {
        match law.rule {
            Rule::AtMost(Quantity::LayersOf(_), _) => {
                layers_with(text, law.rule, spec).str(" with a mixer, which the reference step does not compute")
            }
            _ => assigned(text, self.at, spec).str(" is not among what the reference step computes"),
        }
    }

    /// Why the law is one, with its name.
    #[must_use]
    pub const fn note(&self) -> Text {
        let (id, why) = match self.law {
            Some(law) => (law.id, law.why),
            None => (law::NUMBER_RANGE, law::NUMBER_RANGE_WHY),
        };
        Text::new().str(why).str(" (").str(id).str(")")
    }

    /// What a breach of advice costs, as a note; empty of laws, and where it is not counted.
    #[must_use]
    pub const fn cost(&self, spec: &Spec) -> Text {
        match self.law {
            Some(Law { rule: Rule::AtLeast(Quantity::ExpertReplicas, _), .. }) => unsharded(spec),
            Some(Law { rule: Rule::Divides(_, Quantity::Of(Key::Vocab)), .. }) => padding(spec),
            _ => Text::new(),
        }
    }

    /// What to write instead; empty where nothing near helps.
    #[must_use]
    pub const fn help(&self, spec: &Spec) -> Text {
        let text = Text::new();
        let Some(law) = self.law else {
            return if self.is_said_zero(spec) { text.str("leave it out: it follows from the others") } else { text };
        };
        match law.rule {
            Rule::FitsDevice => return relief(text, spec),
            Rule::Given(Key::ZeroWays) => return text.str("write `ways`, a divisor of the ranks of a stage"),
            Rule::Given(Key::MeshCpInner) => return text.str("write `cp_inner`, a divisor of `cp`"),
            Rule::Given(_) => return text,
            Rule::IsKept(key) => return text.str("`").str(key.path()).str("` is `fp32`, `bf16`, `fp16` or `fp8`"),
            Rule::OneOf(key, _) if !another(key, law.when).is_empty() => return text.str(another(key, law.when)),
            Rule::AtMost(Quantity::Product(_), _) if matches!(law.when, When::Transformers | When::Torchtitan) => {
                return text.str("write `accounting: megatron_core`, or leave these degrees at 1");
            }
            Rule::AtLeast(Quantity::Sum([Key::ModulesCoreAttention, ..]), _) => {
                return text.str("write `modules: modules { core_attention: on }`, or others of its keys");
            }
            Rule::AtMost(of, Quantity::Just(_)) if !unread(of, law.when).is_empty() => {
                return text.str(unread(of, law.when));
            }
            Rule::AtMost(Quantity::Of(Key::ZeroDense), Quantity::Just(most)) if is_one_zero(spec) => {
                return text.str("write `zero: ").str(ZeroStage::at(most).word()).str("`");
            }
            Rule::Equal(Quantity::Of(Key::ZeroExpert), _) => {
                let (dense, expert) = (spec.layout.zero.dense, spec.layout.zero.expert);
                let most = if dense as u8 > expert as u8 { dense } else { expert };
                return text.str("write `zero: ").str(most.word()).str("`");
            }
            Rule::AtMost(Quantity::Sum(_), Quantity::Just(0)) if !spec.layout.stages.list.is_none() => {
                return text.str("leave out all keys of `stages` but the list");
            }
            _ => {}
        }
        let text = match (self.below, self.above) {
            (Some(value), None) | (None, Some(value)) if is_word(self.at) => {
                return written(text.str("write `").str(self.at.name()).str(": "), self.at, value).str("`");
            }
            // Words have an order, but are not near each other.
            (Some(below), Some(above)) if is_word(self.at) => {
                let text = written(text.str("write `").str(self.at.name()).str(": "), self.at, below);
                written(text.str("` or `").str(self.at.name()).str(": "), self.at, above).str("`")
            }
            (Some(below), None) if is_left_out(self.at, below) => text.str("leave out `").str(self.at.path()).str("`"),
            (Some(below), Some(above)) if is_left_out(self.at, below) => {
                let text = text.str("leave out `").str(self.at.path()).str("`, or write `").str(self.at.name());
                written(text.str(": "), self.at, above).str("`")
            }
            (Some(below), Some(above)) => {
                let text = text.str("the nearest legal values of `").str(self.at.path()).str("` are ");
                written(written(text, self.at, below).str(" and "), self.at, above)
            }
            (Some(value), None) | (None, Some(value)) => {
                let text = text.str("the nearest legal value of `").str(self.at.path()).str("` is ");
                written(text, self.at, value)
            }
            (None, None) => text,
        };
        match law.rule {
            Rule::LayersFallToStages => stages_help(text, spec),
            Rule::Equal(_, Quantity::Layers) | Rule::AtMost(Quantity::LayersOf(_), _)
                if matches!(law.when, When::Reference) =>
            {
                text.str("write `a` and `A` for all layers, or another `accounting`")
            }
            Rule::Equal(Quantity::ListedStages | Quantity::ListedLayers | Quantity::ListedMtp, _) => {
                list_help(text, spec)
            }
            Rule::AtLeast(Quantity::ListedMtpRank, _) => list_help(text, spec),
            Rule::AtLeast(Quantity::LayersOf(_), _) => {
                text.str("write `m` for its layers in `layers.list`, such as \"(MMMA)*12\", or `mixer: none`")
            }
            Rule::AtMost(Quantity::LayersOf(_), _) => {
                text.str("write `mixer: …` of one of its kinds, or `a` for layers with attention")
            }
            Rule::AtMost(Quantity::StartsWithMixer, _) => {
                text.str("write `a` or `A` for the first layer, whose keys and values others can read")
            }
            Rule::AtMost(Quantity::CompressedLayers, _) => {
                text.str("write `a` for layers with attention, `m` for those with the mixer of `mixer`")
            }
            Rule::ChunksOfSchedule => chunks_help(text, spec, matches!(self.at, Key::Schedule)),
            Rule::Equal(Quantity::Of(key), _)
                if key as u8 == self.at as u8 && law::follows_at_zero(key) && !text.is_empty() =>
            {
                text.str("; it may be left out")
            }
            Rule::AtLeast(Quantity::Of(Key::MeshPp), _) if text.is_empty() => {
                // A list of several stages makes chunks too.
                let listed = if spec.layout.stages.list.is_none() { "" } else { " and `stages`" };
                let text = text.str("without a pipeline leave out `vpp`").str(listed);
                text.str(" and write `schedule: one_f_one_b`")
            }
            Rule::Divides(Quantity::Product(keys), _) if keys[0] as u8 == Key::MeshEp as u8 => {
                world_help(self.carried_help(text), spec)
            }
            _ => self.carried_help(text),
        }
    }

    /// The degree that could carry a factor instead.
    const fn carried_help(&self, text: Text) -> Text {
        let Some(Carried { left, by, degree }) = self.carried else { return text };
        let text = if text.is_empty() { text.str("write") } else { text.str("; or write") };
        let text = text.str(" `").str(self.at.name()).str(": ").int(left).str("` and `").str(by.name());
        text.str(": ").int(degree).str("`, on as many ranks")
    }

    /// The whole text: message, note and help.
    #[must_use]
    pub const fn text(&self, spec: &Spec) -> Text {
        let text = self.message(spec).str("\n= note: ").text(&self.note());
        let cost = self.cost(spec);
        let text = if cost.is_empty() { text } else { text.str("\n= note: ").text(&cost) };
        let help = self.help(spec);
        if help.is_empty() { text } else { text.str("\n= help: ").text(&help) }
    }
}

/// A last group of micro-batches that is shorter than the pipeline.
const fn last_group(text: Text, spec: &Spec) -> Text {
    let text = assigned(text, Key::BatchCount, spec).str(" leaves a last group of ");
    let last = law::last_group(&spec.numbers());
    let text = text.int(last).str(if last == 1 { " micro-batch" } else { " micro-batches" });
    assigned(text.str(", fewer than "), Key::MeshPp, spec)
}

/// Why a word of a list does not go where it stands, behind that word.
const fn one_of(text: Text, law: &Law, spec: &Spec) -> Text {
    if law.keys().has(Key::Target) {
        return text.str(" is not among what `target` = ").str(spec.layout.target.word()).str(" runs");
    }
    text.str(" does not go with ").str(match law.when {
        When::LayerList => "`layers.list`",
        When::Alone => "a list of blocks alone",
        When::Given(Key::HyperConnections) => "`hyper_connections`",
        When::Hashed => "`experts.hash_layers`",
        When::NoSelective | When::Fp8NoEngine => "this accounting",
        When::Reference | When::ReferenceContext | When::ReferenceZero => "`accounting: reference`",
        When::ReferenceRing => "a ring of context-parallel ranks",
        When::Fp8Mixers => "these mixers",
        When::Fp8 => "a `precision.compute` in fp8",
        When::Fp8Stored => return text.str(" says how weights are stored, and computes nothing in fp8"),
        When::Serving => "`serving`",
        When::ServedOtherwise => "this attention",
        _ => "layers of several mixers or blocks",
    })
}

/// What to write instead of a word of a list, where it is not another of them; else empty.
const fn another(key: Key, when: When) -> &'static str {
    match (key, when) {
        (_, When::NoSelective) => "write `accounting: megatron_core`, or another `recompute` and no `modules`",
        (_, When::Fp8NoEngine) => ENGINE,
        (Key::PrecisionWeights, When::Fp8Stored) => {
            "write `weights: bf16` and, to train in fp8, a recipe such as `compute: fp8_blockwise`"
        }
        (Key::PrecisionWeights, When::Fp8) => "write `weights: bf16`",
        (Key::PrecisionWeights, _) => "write `fp32` or `bf16`, for `weights` and `activations` alike",
        (Key::MeshContext, _) => "write `context: ring` or `context: all_to_all`, and no `cp_inner`",
        (Key::ZeroGroups, _) => "write `groups: by_replica`, and no `ways`",
        (Key::Device, _) => "write another `device`, or leave out `compute`",
        _ => "",
    }
}

/// What to write where computing in fp8 is not counted.
const ENGINE: &str = "write `accounting: megatron_core { implementation: transformer_engine }`, or leave out `compute`";

/// What to write where keys are not read; empty of other quantities.
const fn unread(of: Quantity, when: When) -> &'static str {
    match (of, when) {
        (Quantity::Sum(_), When::Reference) => "leave it out, or write another `accounting`",
        (Quantity::Sum(_), When::Fp8) => "leave it out, or leave out `compute`",
        (Quantity::Sum(_), When::Fp8DelayedModules) => "leave it off, or write another `compute`",
        (Quantity::Of(Key::PrecisionAmaxHistory), _) => "leave it out, or write `compute: fp8_delayed`",
        (Quantity::Of(Key::ZeroWays), _) => "leave it out, or write `groups: uniform`",
        (Quantity::Of(Key::ExpertsRouted), When::NoMoe) => {
            "leave `experts` out, or say in `layers` how many layers have them"
        }
        (Quantity::Of(Key::BatchGroup), _) => "leave it out, or write `schedule: interleaved`",
        (Quantity::Of(Key::MeshCpInner), _) => "leave it out, or write `context: hierarchical`",
        (Quantity::Of(Key::AttentionFullEvery), When::NoWindow) => "leave it out, or write `window`",
        (Quantity::Of(Key::RecomputeLayers), When::Given(_)) => "leave out one of them",
        (Quantity::Of(Key::RecomputeLayers | Key::RecomputeTogether), When::NotFull) => {
            "leave it out, or write `recompute: full`"
        }
        (Quantity::Of(Key::RecomputeTogether), When::NoTogether) => {
            "leave it out, or write `accounting: megatron_core` or `accounting: paper`"
        }
        (Quantity::Of(Key::RoutingSkew), _) => "leave it out, or leave out `load`",
        (Quantity::Of(Key::ZeroInstances | Key::AttentionFullEvery), _)
        | (Quantity::Of(Key::RecomputeTogether), When::SeveralBlocks) => "leave it out",
        (Quantity::Sum([Key::BatchSequence, ..]), _) => {
            "leave out `batch`: `serving` says how many requests there are, and of what context"
        }
        (Quantity::Sum([Key::ZeroDense, ..]), _) => "leave out `zero`",
        (Quantity::Sum([Key::ModulesCoreAttention, ..]), _) => "leave out `modules`, or write `recompute: selective`",
        _ => "",
    }
}

/// Stages that would hold the layers as they are, where none are declared apart or none of what is mends it.
const fn stages_help(text: Text, spec: &Spec) -> Text {
    let stages = spec.layout.stages;
    if law::shape(&spec.numbers()).chunks > 1 || matches!(law::division(&spec.numbers()), Err(Misfit::Weighed(_))) {
        return list_help(text, spec);
    }
    if (text.is_empty() || stages.first == 0 && stages.last == 0)
        && let Some(last) = stages::proposal(spec.architecture.layers.count(), spec.layout.mesh.pp)
    {
        // A last stage of more than twice as many layers as the others' is no balance; a list may be written out.
        let share = spec.architecture.layers.count() / spec.layout.mesh.pp;
        if last > 2 * (share + 1) && spec.layout.mesh.pp <= StageList::MAX as u64 {
            return list_help(text, spec);
        }
        let text = if text.is_empty() { text } else { text.str("; or keep it and ") };
        return text.str("write `stages: stages { last: ").int(last).str(" }`");
    }
    text
}

/// How much of the optimizer state of routed experts each rank holds whole, where it is most.
const fn unsharded(spec: &Spec) -> Text {
    let Some(plan) = Plan::unchecked(*spec) else { return Text::new() };
    let (mut most, mut stage) = (Bytes::ZERO, 0);
    while stage < plan.stages() && stage < LOOKED_AT {
        let (inventory, mut bytes, mut i) = (plan.inventory(stage), Bytes::ZERO, 0);
        while i < inventory.len() {
            let entry = inventory.get(i);
            let is_state = matches!(entry.role, Role::MasterWeight | Role::FirstMoment | Role::SecondMoment);
            bytes = if is_state && entry.expert_group { bytes.plus(entry.bytes()) } else { bytes };
            i += 1;
        }
        most = most.larger(bytes);
        stage += 1;
    }
    Text::new().str("each rank holds up to ").text(&most.text()).str(" of it whole")
}

/// Stages that a figure in a warning is looked up in, at most.
const LOOKED_AT: u64 = 64;

/// The rows that padding adds.
const fn padding(spec: &Spec) -> Text {
    let Some(plan) = Plan::unchecked(*spec) else { return Text::new() };
    let (padded, rows) = (plan.padded_vocab(), spec.architecture.vocab);
    let text = Text::new().int(rows).str(" rows become ").int(padded).str(", ");
    text.int(padded - rows).str(" of them padding")
}

/// The smallest world that carries a mesh: expert groups and tensor-parallel ones both tile the ranks of a stage.
const fn world_help(text: Text, spec: &Spec) -> Text {
    let mesh = &spec.layout.mesh;
    let (dense, expert) = (mesh.tp.saturating_mul(mesh.cp), mesh.expert_ranks());
    let stage = expert as u128 / law::gcd(dense, expert) as u128 * dense as u128;
    let world = stage * mesh.pp as u128;
    if world > NUMBER_MAX as u128 || world <= mesh.pp as u128 * mesh.stage_ranks() as u128 {
        return text;
    }
    let text = if text.is_empty() { text } else { text.str("; ") };
    text.str("the smallest world that carries it has ")
        .int(cut(world))
        .str(" ranks, with `dp: ")
        .int(cut(stage) / dense)
        .str("`")
}

/// A list that would hold what there is.
const fn list_help(text: Text, spec: &Spec) -> Text {
    let (layers, places) = (spec.architecture.layers.count(), law::shape(&spec.numbers()).places);
    match StageList::balanced(layers, places, spec.architecture.mtp) {
        Some(list) => {
            let text = if text.is_empty() { text } else { text.str("; or ") };
            text.str("write `stages: \"").text(&list.text()).str("\"`")
        }
        None => text,
    }
}

/// How many chunks a schedule runs, and how many there are.
const fn chunks(text: Text, spec: &Spec) -> Text {
    let chunks = law::shape(&spec.numbers()).chunks;
    let text = if spec.layout.mesh.vpp > 0 {
        assigned(text, Key::MeshVpp, spec).str(" under ")
    } else {
        text.int(chunks).str(if chunks == 1 { " chunk a rank under " } else { " chunks a rank under " })
    };
    let text = assigned(text, Key::Schedule, spec);
    match spec.layout.schedule.chunks() {
        (1, _) => text.str(", which runs 1 chunk a rank"),
        (least, most) if least == most => text.str(", which runs ").int(least).str(" chunks a rank"),
        (least, _) => text.str(", which runs ").int(least).str(" chunks a rank or more"),
    }
}

const fn chunks_help(text: Text, spec: &Spec, names_schedules: bool) -> Text {
    let chunks = law::shape(&spec.numbers()).chunks;
    match spec.layout.schedule.chunks() {
        (least, _) if spec.layout.mesh.vpp == 0 && chunks < least => {
            Text::new().str("say how many: `mesh: mesh { vpp: 2 }`, or list the stages")
        }
        (2, most) if most > 2 && chunks < 2 => Text::new().str("write `vpp: 2` or more, or `schedule: one_f_one_b`"),
        (_, 1) if chunks > 1 && !names_schedules => {
            let text = if text.is_empty() { text } else { text.str("; or ") };
            text.str("write `schedule: interleaved`")
        }
        _ => text,
    }
}

/// So many things.
const fn counted(text: Text, n: u64, what: &str) -> Text {
    text.int(n).str(" ").str(what).str(if n == 1 { "" } else { "s" })
}

/// How layers fail to fall to stages.
const fn misfit(text: Text, spec: &Spec) -> Text {
    let layers = Quantity::Sum(&[Key::LayersDense, Key::LayersMoe]);
    let is_plain = law::shape(&spec.numbers()).chunks == 1;
    let pipeline = if is_plain { Quantity::Of(Key::MeshPp) } else { Quantity::Places };
    match law::division(&spec.numbers()) {
        Err(Misfit::Rest(division)) if division.first == 0 && division.last == 0 => {
            quantity(quantity(text, pipeline, spec).str(" does not divide "), layers, spec)
        }
        Err(Misfit::Chunks(share, part)) => {
            let text = assigned(text, Key::MeshVpp, spec).str(" does not divide the ");
            counted(text, share, "layer").str(match part {
                Part::First => " that `stages.first` gives",
                Part::Last => " that `stages.last` gives",
                Part::Others => " of a rank",
            })
        }
        Err(Misfit::Rest(division)) => quantity(text, pipeline, spec)
            .str(" leaves ")
            .int(division.alike)
            .str(" stages alike for ")
            .int(division.rest)
            .str(" layers, after `stages.first` = ")
            .int(division.first)
            .str(" and `stages.last` = ")
            .int(division.last)
            .str(" of ")
            .int(division.layers),
        Err(Misfit::Layers) => quantity(
            quantity(text, Quantity::Sum(&[Key::StagesFirst, Key::StagesLast]), spec).str(" is more than "),
            layers,
            spec,
        ),
        Err(Misfit::Weighed(all)) => quantity(
            quantity(text, pipeline, spec)
                .str(" does not divide ")
                .int(all)
                .str(", the ends that count as layers and "),
            layers,
            spec,
        ),
        _ => quantity(text, pipeline, spec).str(" has no room for both `stages.first` and `stages.last`"),
    }
}

/// By how much the worst rank does not fit, and what fills it.
const fn unfit(text: Text, spec: &Spec) -> Text {
    let Some(plan) = Plan::unchecked(*spec) else { return text };
    let peak = plan.peak();
    let device = spec.layout.device;
    let ranks = plan.ranks_of_stage(peak.stage);
    let mut text = text
        .str("the worst rank needs ")
        .text(&plan.peak_with_headroom().text())
        .str(", more than the ")
        .text(&device.usable().text())
        .str(" of `device` = ")
        .str(device.word())
        .str("\n= note: ranks ")
        .int(ranks.start)
        .str(" to ")
        .int(ranks.end - 1)
        .str(", stage ")
        .int(peak.stage)
        .str(", in ")
        .str(peak.phase.name())
        .str(": ")
        .text(&peak.total.text());
    if spec.layout.headroom.percent > 0 {
        text = text.str(", and ").int(spec.layout.headroom.percent).str(" percent headroom");
    }
    text = text.str("\n= note: the largest are ");
    let inventory = plan.inventory(peak.stage);
    let (mut shown, mut last) = (0, None);
    while shown < 5 {
        let Some(i) = next_largest(&inventory, peak.phase, last) else { break };
        let entry = inventory.get(i);
        text = text.str(if shown > 0 { ", `" } else { "`" }).str(entry.name);
        if !entry.part.is_empty() {
            text = text.str(" (").str(entry.part).str(")");
        }
        text = text.str("` ").text(&entry.bytes_at(peak.phase).text());
        last = Some(i);
        shown += 1;
    }
    text
}

const fn bytes_of(inventory: &Inventory, i: usize, phase: Phase) -> u64 {
    inventory.get(i).bytes_at(phase).bytes()
}

/// The largest entry behind another, those alike in the order of the list.
const fn next_largest(inventory: &Inventory, phase: Phase, last: Option<usize>) -> Option<usize> {
    let (limit, from) = match last {
        Some(last) => (bytes_of(inventory, last, phase), last + 1),
        None => (u64::MAX, 0),
    };
    let (mut largest, mut most, mut i) = (None, 0, 0);
    while i < inventory.len() {
        let bytes = bytes_of(inventory, i, phase);
        let is_behind = bytes < limit || (bytes == limit && i >= from);
        if is_behind && bytes > most {
            (largest, most) = (Some(i), bytes);
        }
        i += 1;
    }
    largest
}

/// A change that may make the worst rank fit, and how it is written; nothing if it changes nothing.
const fn relieved(spec: &Spec, change: usize) -> (Spec, &'static str) {
    let mut trial = *spec;
    let l = &mut trial.layout;
    let (dense, expert) = (l.zero.dense as u8, l.zero.expert as u8);
    let least = if dense < expert { dense } else { expert };
    match change {
        0 if matches!(l.recompute, Recompute::None) => {
            l.recompute = Recompute::Full;
            (trial, "`recompute: full`")
        }
        0 if l.recompute_layers > 0 => {
            l.recompute_layers = 0;
            (trial, "`recompute_layers` left out")
        }
        0 if l.recompute_together > 0 => {
            l.recompute_together = 0;
            (trial, "`recompute_together` left out")
        }
        1 if least < ZeroStage::Optimizer as u8 => {
            l.zero = l.zero.at(ZeroStage::Optimizer);
            (trial, "`zero: optimizer`")
        }
        2 if l.batch.micro > 1 => {
            l.batch.micro = 1;
            (trial, "`micro: 1`")
        }
        3 if least < ZeroStage::Parameters as u8 => {
            l.zero = l.zero.at(ZeroStage::Parameters);
            (trial, "`zero: parameters`")
        }
        4 if spec.architecture.layers.moe > 0 => {
            l.mesh.ep = l.mesh.ep.saturating_mul(2);
            (trial, "`ep` doubled")
        }
        5 if matches!(l.recompute, Recompute::Full) && l.recompute_layers + l.recompute_together == 0 => {
            l.recompute_together = 2;
            (trial, "`recompute_together: 2`")
        }
        _ => (trial, ""),
    }
}

const CHANGES: usize = 6;

/// The longest context of as many requests, and the most requests of that context, that fit.
const fn served_relief(mut text: Text, plan: &Plan, serving: &Serving) -> Text {
    let device = plan.spec().layout.device;
    let longest = plan.longest_context(serving.requests, device);
    if let Some(context) = longest {
        text = text.str("it fits with `context: ").int(context).str("`");
    }
    if let Some(requests) = plan.most_requests(serving.context, device) {
        let text = text.str(if longest.is_some() { ", or with" } else { "it fits with" });
        return text.str(" `requests: ").int(requests).str("`");
    }
    text
}

/// Changes that would make the worst rank fit, up to three, one by one or else two together: tried, not guessed.
const fn relief(mut text: Text, spec: &Spec) -> Text {
    if let Some(serving) = spec.layout.served()
        && let Some(plan) = Plan::unchecked(*spec)
    {
        let served = served_relief(text, &plan, serving);
        if !served.is_empty() {
            return served;
        }
    }
    let (mut found, mut i) = (0, 0);
    while i < CHANGES && found < 3 {
        let (trial, change) = relieved(spec, i);
        if !change.is_empty() && is_valid(&trial) {
            text = text.str(if found == 0 { "it fits with " } else { ", or with " }).str(change);
            found += 1;
        }
        i += 1;
    }
    let mut pair = 0;
    while found == 0 && pair < CHANGES * CHANGES {
        let (one, other) = (pair / CHANGES, pair % CHANGES);
        let (first, change) = relieved(spec, one);
        let (both, more) = relieved(&first, other);
        if one < other && !change.is_empty() && !more.is_empty() && is_valid(&both) {
            text = text.str("it fits with ").str(change).str(" and ").str(more);
            found += 1;
        }
        pair += 1;
    }
    text
}
