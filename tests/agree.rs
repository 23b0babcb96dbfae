//! Two ways to the same figure: sums of parts against the list itself, the peak that looks at few stages against all
//! of them, laws against dealing one by one, the compiler's const evaluation against the run time, for random layouts.

use moe_model::checkpoint::{Naming, Tensor};
use moe_model::inventory::Module;
use moe_model::spec::{
    Accounting, Attention, AttentionCode, AuxLoss, Backend, Batch, Beside, Bias, Capacity, Checkpoint, Compressed,
    Context, CoreAttention, CorrectionBias, Cublas, Dispatcher, Dropless, Dtype, ExpertKernel, Experts, Factor,
    GatedActivation, Gqa, Implementation, Kernel, LayerKind, LayerList, Layers, Layout, Loss, MegatronCore,
    MegatronVersion, Mesh, Mixer, Mla, MlaCache, Norm, NormCode, Paper, Placement, Pool, Precision, QkNorm, Recompute,
    RoutedCode, RouterFormat, Routing, Schedule, Score, Service, Serving, Spec, Split, StageList, Stages, Switch,
    Torchtitan, Transformers, Value, Weighed, WorkedExample, Zero, ZeroGroups, ZeroStage,
};
use moe_model::{Bytes, Key, Phase, Plan, Role, judge, moe_model};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Legal layouts that a run looks at.
const LEGAL: usize = 1000;

fn pick<T: Copy>(random: &mut fastrand::Rng, choices: &[T]) -> T {
    choices[random.usize(..choices.len())]
}

/// A small random Spec, often legal.
fn spec(random: &mut fastrand::Rng) -> Spec {
    let mut spec = Spec::DEFAULT;
    let heads = pick(random, &[2, 4, 6, 8]);
    spec.architecture.hidden = pick(random, &[8, 12, 30]);
    spec.architecture.vocab = random.u64(1..50);
    let (lead, moe, moe_every) = (random.u64(0..4), random.u64(0..8), pick(random, &[1, 1, 2, 3]));
    spec.architecture.layers = Layers {
        dense: lead + moe * (moe_every - 1),
        moe,
        ffn: pick(random, &[4, 8, 12]),
        moe_every,
        bias: if lead == 1 { Switch::On } else { Switch::Off },
        beside: pick(random, &[Beside::None, Beside::None, Beside::None, Beside::Dense, Beside::TwoBlocks]),
        gated: pick(random, Switch::ALL),
        list: LayerList::NONE,
    };
    spec.architecture.hyper_connections = pick(random, &[0, 0, 0, 2]);
    spec.architecture.positions = 6 * spec.architecture.hyper_connections;
    spec.architecture.attention = attention(random, heads);
    if random.u8(..3) == 0 {
        mix(random, &mut spec);
    }
    let layers = spec.architecture.layers;
    if let Attention::Gqa(gqa) = &mut spec.architecture.attention
        && (gqa.window == 0 || !layers.list.is_none() || layers.beside != Beside::None)
    {
        gqa.full_every = 0;
    }
    spec.architecture.experts = Experts {
        routed: pick(random, &[4, 6, 8]),
        shared: random.u64(0..3),
        active: random.u64(1..4),
        ffn: pick(random, &[4, 6]),
        bias: pick(random, Switch::ALL),
        shared_gate: pick(random, Switch::ALL),
        router_bias: pick(random, Switch::ALL),
        correction_bias: pick(random, CorrectionBias::ALL),
        latent: pick(random, &[0, 0, 3]),
        identity: pick(random, &[0, 0, 2]),
        router_scale: pick(random, Switch::ALL),
        ..Experts::DEFAULT
    };
    if spec.architecture.experts.shared > 0 {
        spec.architecture.experts.shared_ffn = pick(random, &[0, 0, 2, 10]);
    }
    spec.architecture.tied_embeddings = pick(random, Switch::ALL);
    spec.architecture.head_bias = pick(random, Switch::ALL);
    spec.architecture.norm = pick(random, Norm::ALL);
    spec.architecture.norms_per_layer = random.u64(1..8);
    layout(random, &mut spec);
    spec
}

fn attention(random: &mut fastrand::Rng, heads: u64) -> Attention {
    if random.u8(..6) == 0 {
        return Attention::Compressed(Compressed {
            heads,
            q_rank: random.u64(1..5),
            head_dim: random.u64(1..5),
            output_groups: pick(random, &[1, 2]),
            output_rank: random.u64(1..5),
            compress: random.u64(1..5),
            compress_heavy: random.u64(1..9),
            indexer_heads: random.u64(1..3),
            indexer_dim: random.u64(1..6),
            window: random.u64(0..9),
        });
    }
    if random.bool() {
        Attention::Mla(Mla {
            heads,
            q_rank: random.u64(0..5),
            kv_rank: random.u64(1..6),
            nope: random.u64(1..5),
            rope: random.u64(1..4),
            value: random.u64(1..5),
            indexer_heads: random.u64(0..3),
            indexer_dim: random.u64(0..6),
        })
    } else {
        Attention::Gqa(Gqa {
            heads,
            kv_heads: pick(random, &[1, 2, heads]),
            head_dim: random.u64(1..5),
            bias: pick(random, Bias::ALL),
            qk_norm: pick(random, QkNorm::ALL),
            sinks: pick(random, Switch::ALL),
            output_gate: pick(random, Switch::ALL),
            value_dim: random.u64(0..4),
            key_as_value: pick(random, Switch::ALL),
            window: pick(random, &[0, 1, 5]),
            full_every: pick(random, &[0, 0, 2, 3]),
        })
    }
}

/// Sets each key of a group to what its description asks for.
fn set_all(spec: &mut Spec, prefix: &str, mut number: impl FnMut(&Value) -> Option<u64>) {
    for key in Key::ALL.iter().filter(|key| key.path().starts_with(prefix)) {
        if let Some(number) = Spec::field(*key).and_then(|field| number(&field.value)) {
            spec.set(*key, number);
        }
    }
}

/// Numbers that are there, and of choices the last.
fn on(value: &Value) -> Option<u64> {
    match value {
        Value::Number { .. } => Some(4),
        Value::Choice { words, kinds: [] } => Some(words.len() as u64 - 1),
        _ => None,
    }
}

/// A mixer beside attention, or several kinds of compressed one, in layers that a list says.
fn mix(random: &mut fastrand::Rng, spec: &mut Spec) {
    let is_compressed = matches!(spec.architecture.attention, Attention::Compressed(_));
    let letters = match (is_compressed, random.u8(..2)) {
        (true, _) => "aAcChH",
        (false, 0) => "amed",
        (false, _) => "aAmM",
    };
    let letters: Vec<char> = letters.chars().collect();
    let text: String = (0..random.u8(1..12)).map(|_| pick(random, &letters)).collect();
    let list = LayerList::parse(&text);
    let layers = &mut spec.architecture.layers;
    (layers.list, layers.moe_every, layers.beside) = (list, 1, pick(random, &[Beside::None, Beside::Dense]));
    (layers.dense, layers.moe) = (list.count(LayerKind::Dense), list.count(LayerKind::Moe));
    if list.count(LayerKind::Mixer) > 0 {
        spec.choose(Key::Mixer, random.u64(..Mixer::KINDS.len() as u64));
        set_all(spec, "mixer.", |value| match value {
            Value::Number { .. } => Some(pick(random, &[2, 4])),
            Value::Choice { words, .. } if !words.is_empty() => Some(random.u64(..words.len() as u64)),
            _ => None,
        });
    }
}

fn layout(random: &mut fastrand::Rng, spec: &mut Spec) {
    let layout = &mut spec.layout;
    // Those whose layers each rank holds whole are few by chance.
    let alone = random.u8(..4) == 0;
    let degree = |random: &mut fastrand::Rng, choices: &[u64]| if alone { 1 } else { pick(random, choices) };
    let tp = degree(random, &[1, 2]);
    layout.mesh = Mesh {
        dp: pick(random, &[1, 2, 4, 6]),
        tp,
        pp: if alone && random.bool() { 1 } else { random.u64(1..6) },
        cp: degree(random, &[1, 2]),
        context: pick(random, Context::ALL),
        ep: degree(random, &[1, 2, 4]),
        etp: degree(random, &[1, 2]),
        vpp: 0,
        cp_inner: 0,
        world: 0,
        sequence_parallel: if tp > 1 && random.u8(..4) > 0 { Switch::On } else { Switch::Off },
    };
    if layout.mesh.context == Context::Hierarchical {
        layout.mesh.cp_inner = random.u64(1..=layout.mesh.cp);
    }
    layout.schedule = pick(random, Schedule::ALL);
    layout.mesh.vpp = match layout.schedule {
        Schedule::Interleaved => random.u64(2..4),
        _ => 0,
    };
    layout.stages = match random.u8(..4) {
        0 => Stages { embedding: pick(random, Weighed::ALL), loss: pick(random, Weighed::ALL), ..Stages::EVEN },
        1 => listed(random, layout.schedule, layout.mesh, &mut spec.architecture.layers),
        _ => Stages { first: random.u64(0..3), last: random.u64(0..3), ..Stages::EVEN },
    };
    let groups = pick(random, ZeroGroups::ALL);
    let ways = if groups == ZeroGroups::Uniform { random.u64(1..5) } else { 0 };
    let (dense, expert) = (pick(random, ZeroStage::ALL), pick(random, ZeroStage::ALL));
    // Of what was drawn before, so that a key more leaves the other draws alone.
    let is_twofold = layout.mesh.dp.is_multiple_of(2) && dense == expert && groups != ZeroGroups::Uniform;
    let instances = if is_twofold { 2 } else { 1 };
    layout.zero = Zero { dense, expert, groups, ways, instances };
    layout.placement = Placement {
        query_rope: pick(random, Split::ALL),
        shared_experts: pick(random, Split::ALL),
        dense_ffn: pick(random, Split::ALL),
        redundant_experts: pick(random, &[0, 0, 0, 2]),
        vocab_multiple: random.u64(1..4),
    };
    layout.precision = Precision {
        weights: pick(random, &Dtype::ALL[1..]),
        gradients: pick(random, &Dtype::ALL[1..]),
        master: pick(random, Dtype::ALL),
        moments: pick(random, Dtype::ALL),
        activations: pick(random, &Dtype::ALL[1..]),
        ..Precision::DEFAULT
    };
    let count = if random.bool() { random.u64(1..9) } else { layout.mesh.pp * random.u64(1..5) };
    layout.batch = Batch { sequence: pick(random, &[4, 8, 12]), micro: random.u64(1..3), count, ..Batch::DEFAULT };
    layout.routing = if random.bool() {
        let skew = Factor::thousandths(random.u64(1000..1800));
        // Of what was drawn before, so that a key more leaves the other draws alone.
        let is_worst = skew.thousandths.is_multiple_of(5);
        if is_worst { Routing::WORST } else { Routing::Dropless(Dropless { skew, ..Dropless::DEFAULT }) }
    } else {
        Routing::Capacity(Capacity { factor: Factor::thousandths(random.u64(1..3000)) })
    };
    layout.accounting = if alone && random.u8(..4) > 0 {
        if layout.mesh.pp == 1 && random.u8(..4) > 0 {
            Accounting::Transformers(transformers(random))
        } else {
            Accounting::Torchtitan(torchtitan(random))
        }
    } else if random.u8(..3) == 0 {
        Accounting::MegatronCore(megatron(random))
    } else if random.bool() {
        Accounting::Paper(Paper {
            kernel: pick(random, Kernel::ALL),
            dropout: pick(random, Switch::ALL),
            pool: pick(random, Pool::ALL),
        })
    } else {
        Accounting::WorkedExample(WorkedExample { checkpoint: pick(random, Checkpoint::ALL) })
    };
    layout.recompute = pick(random, Recompute::ALL);
    let layers = &spec.architecture.layers;
    let is_composed = !layers.list.is_none() || layers.beside != Beside::None;
    if is_composed && matches!(layout.accounting, Accounting::Transformers(_) | Accounting::Torchtitan(_)) {
        layout.recompute = Recompute::None;
    }
    // Some count that is drawn already.
    layout.recompute_layers = if layout.recompute == Recompute::Full { layout.batch.count % 3 } else { 0 };
    let counts_runs = matches!(layout.accounting, Accounting::Paper(_) | Accounting::MegatronCore(_)) && !is_composed;
    if counts_runs && layout.recompute == Recompute::Full && layout.batch.count.is_multiple_of(2) {
        (layout.recompute_layers, layout.recompute_together) = (0, 1 + layout.batch.count / 2 % 4);
        if let Accounting::MegatronCore(options) = &mut layout.accounting {
            // Those before take few lengths of runs.
            options.version = MegatronVersion::V020;
        }
    }
    if layout.recompute == Recompute::Selective && !matches!(layout.accounting, Accounting::Torchtitan(_)) {
        layout.accounting = Accounting::MegatronCore(megatron(random));
        set_all(spec, "modules.", |_| Some(random.u64(..2)));
    }
    if random.u8(..5) == 0 {
        serve(random, spec);
    }
}

/// The same ranks, which serve.
fn serve(random: &mut fastrand::Rng, spec: &mut Spec) {
    let Layout { mesh, stages, placement, precision, routing, .. } = spec.layout;
    let serving = Serving {
        requests: random.u64(1..5),
        context: random.u64(1..40),
        block: random.u64(1..5),
        cache: pick(random, &Dtype::ALL[1..]),
        state: pick(random, &Dtype::ALL[1..]),
        mla: pick(random, MlaCache::ALL),
        prefill: random.u64(1..50),
        logprobs: pick(random, Switch::ALL),
    };
    let serving = Service::Serving(serving);
    let mesh = Mesh { vpp: 0, ..mesh };
    spec.layout = Layout { mesh, stages, placement, precision, routing, serving, ..Layout::DEFAULT };
}

fn transformers(random: &mut fastrand::Rng) -> Transformers {
    Transformers {
        attention: pick(random, AttentionCode::ALL),
        backend: pick(random, Backend::ALL),
        routed: pick(random, RoutedCode::ALL),
        score: pick(random, Score::ALL),
        router: pick(random, RouterFormat::ALL),
        normalised: pick(random, Switch::ALL),
        router_logits: pick(random, Switch::ALL),
    }
}

fn torchtitan(random: &mut fastrand::Rng) -> Torchtitan {
    Torchtitan {
        backend: pick(random, Backend::ALL),
        norms: pick(random, NormCode::ALL),
        score: pick(random, Score::ALL),
        router: pick(random, RouterFormat::ALL),
        normalised: pick(random, Switch::ALL),
    }
}

fn megatron(random: &mut fastrand::Rng) -> MegatronCore {
    // From a stream of their own: keys that came later leave the other draws alone.
    let mut later = fastrand::Rng::with_seed(random.clone().u64(..));
    MegatronCore {
        implementation: pick(&mut later, Implementation::ALL),
        cublas: pick(&mut later, Cublas::ALL),
        fused_gradients: pick(&mut later, Switch::ALL),
        loss: pick(&mut later, Loss::ALL),
        version: pick(random, MegatronVersion::ALL),
        core: pick(random, CoreAttention::ALL),
        experts: pick(random, ExpertKernel::ALL),
        activation: pick(random, GatedActivation::ALL),
        dropout: pick(random, Switch::ALL),
        score: pick(random, Score::ALL),
        aux_loss: pick(random, AuxLoss::ALL),
        router: pick(random, RouterFormat::ALL),
        dispatcher: pick(random, Dispatcher::ALL),
        pad: pick(random, Switch::ALL),
        shared_overlap: pick(random, Switch::ALL),
        distribute: pick(random, Switch::ALL),
        norms: pick(random, NormCode::ALL),
    }
}

/// A list of as many stages as the mesh has, and so many layers.
fn listed(random: &mut fastrand::Rng, schedule: Schedule, mesh: Mesh, layers: &mut Layers) -> Stages {
    let chunks = match schedule {
        Schedule::ZbV | Schedule::DualPipeV => 2,
        _ => mesh.vpp.max(1),
    };
    let stages: Vec<String> = (0..mesh.pp * chunks).map(|_| "t".repeat(random.usize(0..4))).collect();
    let list = StageList::parse(&format!("E{}L", stages.join("|")));
    layers.list = LayerList::NONE;
    layers.dense = layers.dense.min(list.layers());
    layers.moe = list.layers() - layers.dense;
    Stages { list, ..Stages::EVEN }
}

/// Legal random plans, the same in every run.
static PLANS: LazyLock<Vec<Plan>> = LazyLock::new(|| {
    let mut random = fastrand::Rng::with_seed(20_261_129);
    std::iter::repeat_with(move || Plan::new(spec(&mut random))).filter_map(Result::ok).take(LEGAL).collect()
});

fn plans() -> impl Iterator<Item = Plan> {
    PLANS.iter().copied()
}

#[test]
fn random_plans_are_of_every_kind() {
    for schedule in Schedule::ALL {
        let of_schedule = || plans().filter(|plan| plan.spec().layout.schedule == *schedule);
        assert!(of_schedule().count() > 20, "{schedule:?}: {}", of_schedule().count());
    }
    assert!(plans().filter(|plan| !plan.spec().layout.stages.list.is_none()).count() > 100);
    // The reference step's is held against the step itself.
    for kind in Accounting::KINDS.iter().filter(|kind| kind.word != "reference") {
        for recompute in Recompute::ALL {
            let of_kind = |plan: &Plan| {
                let layout = &plan.spec().layout;
                layout.recompute == *recompute && layout.accounting.name() == kind.word
            };
            let is_counted = *recompute != Recompute::Selective || ["megatron_core", "torchtitan"].contains(&kind.word);
            let count = plans().filter(of_kind).count();
            assert!(if is_counted { count > 10 } else { count == 0 }, "{}, {recompute:?}: {count}", kind.word);
        }
    }
    for name in ["paper", "megatron_core"] {
        let of_runs = |plan: &Plan| {
            let layout = &plan.spec().layout;
            layout.recompute_together > 1 && layout.accounting.name() == name
        };
        let is_spaced = |plan: &Plan| plan.spec().architecture.layers.moe_every > 1;
        let counts = [plans().filter(of_runs).count(), plans().filter(of_runs).filter(is_spaced).count()];
        assert!(counts[0] > 10 && counts[1] > 2, "{name} {counts:?}");
    }
    let served = || plans().filter(|plan| plan.spec().layout.served().is_some());
    assert!(served().count() > 50, "{}", served().count());
    let has_windows = |plan: &Plan| plan.spec().numbers().of(Key::AttentionFullEvery) > 0;
    assert!(served().filter(has_windows).count() > 5, "{}", served().filter(has_windows).count());
    for kind in Mixer::KINDS {
        let of_kind = |plan: &Plan| format!("{:?}", plan.spec().architecture.mixer).starts_with(kind.ty);
        let count = plans().filter(of_kind).count();
        assert!(count > 3, "{}: {count}", kind.word);
    }
    for letter in ["a", "A", "m", "M", "c", "C", "h", "H", "e", "d"] {
        let has_letter = |plan: &Plan| plan.spec().architecture.layers.list.to_string().contains(letter);
        assert!(plans().filter(has_letter).count() > 10, "{letter}");
    }
}

/// One rank's bytes of each role in a phase, added up from its list alone, in the worst moment.
fn added_up(plan: &Plan, stage: u64, phase: Phase) -> Vec<Bytes> {
    let lines = plan.explain(stage, phase).lines;
    let of_role = |role: &Role| lines.iter().filter(|line| line.entry.role == *role).map(|line| line.bytes).sum();
    Role::ALL.iter().map(of_role).collect()
}

fn total(roles: &[Bytes]) -> Bytes {
    roles.iter().copied().sum()
}

#[test]
fn sums_of_parts_are_those_of_the_list() {
    for plan in plans() {
        for stage in 0..plan.stages() {
            let budget = plan.budget(stage);
            for phase in Phase::ALL {
                let listed = added_up(&plan, stage, *phase);
                for (role, listed) in Role::ALL.iter().zip(&listed) {
                    let summed = budget.role_in(*role, *phase);
                    assert_eq!(summed, *listed, "{role:?} in {phase:?} of {:#?}", plan.spec());
                }
                assert_eq!(budget.phase(*phase), total(&listed));
            }
        }
    }
}

/// Every amount says who counts it so, and what it is.
#[test]
fn every_entry_has_a_source() {
    for plan in plans() {
        for stage in 0..plan.stages() {
            for entry in &plan.inventory(stage) {
                assert!(!entry.source.is_empty() && !entry.name.is_empty(), "{entry} of {:#?}", plan.spec());
            }
        }
    }
}

/// The options of Megatron's accounting that list most.
const MOST: MegatronCore = MegatronCore {
    version: MegatronVersion::V016,
    implementation: Implementation::TransformerEngine,
    cublas: Cublas::Default,
    fused_gradients: Switch::On,
    loss: Loss::VocabParallel,
    core: CoreAttention::Unfused,
    experts: ExpertKernel::Grouped,
    activation: GatedActivation::Unfused,
    dropout: Switch::On,
    score: Score::Sigmoid,
    aux_loss: AuxLoss::BatchAndZ,
    router: RouterFormat::Activations,
    dispatcher: Dispatcher::AllToAll,
    pad: Switch::Off,
    shared_overlap: Switch::On,
    distribute: Switch::On,
    norms: NormCode::Composite,
};

/// Every option that lists a tensor, under every pair of kinds: what a rank holds of the most kinds of tensors.
#[test]
fn the_longest_lists_are_listed_whole() {
    let (mut longest, mut judged) = (0, 0);
    let kinds = |kinds: &[_]| 0..kinds.len() as u64;
    for (attention, mixer) in kinds(Attention::KINDS).flat_map(|one| kinds(Mixer::KINDS).map(move |other| (one, other)))
    {
        for (accounting, recompute, beside) in [
            (0, 0, 0),
            (0, 1, 0),
            (1, 0, 0),
            (1, 1, 0),
            (2, 0, 0),
            (3, 0, 0),
            (4, 0, 0),
            (0, 2, 0),
            (1, 2, 0),
            (0, 0, 1),
            (0, 1, 1),
            (1, 0, 1),
            (1, 1, 1),
            (2, 0, 1),
            (3, 0, 1),
            (4, 0, 1),
        ] {
            let mut spec = Spec::DEFAULT;
            (spec.architecture.hidden, spec.architecture.vocab) = (16, 16);
            (spec.architecture.norm, spec.architecture.norms_per_layer) = (Norm::LayerBias, 7);
            (spec.architecture.head_bias, spec.architecture.layer_scalar) = (Switch::On, Switch::On);
            spec.choose(Key::Attention, attention);
            spec.choose(Key::Mixer, mixer);
            spec.choose(Key::Accounting, accounting);
            for prefix in ["attention.", "mixer.", "experts."] {
                set_all(&mut spec, prefix, on);
            }
            let architecture = &mut spec.architecture;
            architecture.experts.correction_bias = CorrectionBias::Parameter;
            (architecture.experts.hash_layers, architecture.experts.identity) = (0, 0);
            if let Attention::Gqa(gqa) = &mut architecture.attention {
                (gqa.key_as_value, gqa.output_gate) = (Switch::Off, Switch::On);
                gqa.full_every = 0;
            }
            if let Mixer::LocalGqa(gqa) = &mut architecture.mixer {
                gqa.shared_kv = Switch::Off;
            }
            let has_kinds = matches!(architecture.attention, Attention::Compressed(_));
            // Of each kind one that may be computed again, and one that is not.
            let list = LayerList::parse(if has_kinds { "aAmMcChHaAmMcChH" } else { "aAmMaAmM" });
            architecture.layers = Layers {
                dense: list.count(LayerKind::Dense),
                moe: list.count(LayerKind::Moe),
                ffn: 4,
                list,
                beside: Beside::ALL[beside],
                ..Layers::DEFAULT
            };
            architecture.hyper_connections = if beside == 0 { 4 } else { 0 };
            let choices =
                [(Recompute::None, 0), (Recompute::Full, 0), (Recompute::Full, if has_kinds { 8 } else { 4 })];
            (spec.layout.recompute, spec.layout.recompute_layers) = choices[recompute];
            spec.layout.accounting = match spec.layout.accounting {
                Accounting::WorkedExample(_) => {
                    Accounting::WorkedExample(WorkedExample { checkpoint: Checkpoint::SubBlock })
                }
                Accounting::Paper(_) => Accounting::PAPER,
                Accounting::MegatronCore(_) => Accounting::MegatronCore(MOST),
                Accounting::Transformers(_) => Accounting::Transformers(Transformers {
                    score: Score::Sigmoid,
                    router_logits: Switch::On,
                    ..Transformers::DEFAULT
                }),
                Accounting::Torchtitan(_) => Accounting::TORCHTITAN,
                Accounting::Reference(_) => Accounting::REFERENCE,
            };
            let plan = Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"));
            longest = longest.max(plan.inventory(0).len());
            judged += 1;
        }
    }
    assert_eq!(judged, Attention::KINDS.len() * Mixer::KINDS.len() * 16);
    longest = longest.max(longest_of_first_layers());
    // The longest fills most of the list: more options need more room.
    assert!((256..=310).contains(&longest), "{longest}");
}

/// The longest list of an accounting that lists most where the first layers are computed again, or several together: those are
/// attention and one network each.
fn longest_of_first_layers() -> usize {
    let kinds = (0..Attention::KINDS.len() as u64).flat_map(|kind| [(kind, false), (kind, true)]);
    let of_kind = |(attention, is_together)| {
        let mut spec = Spec::DEFAULT;
        let architecture = &mut spec.architecture;
        (architecture.hidden, architecture.vocab, architecture.mtp) = (16, 16, 1);
        architecture.layers = Layers { dense: 2, moe: 2, ffn: 4, ..Layers::DEFAULT };
        spec.choose(Key::Attention, attention);
        for prefix in ["attention.", "experts."] {
            set_all(&mut spec, prefix, on);
        }
        let architecture = &mut spec.architecture;
        architecture.experts.correction_bias = CorrectionBias::Parameter;
        (architecture.experts.hash_layers, architecture.experts.identity) = (0, 0);
        if let Attention::Gqa(gqa) = &mut architecture.attention {
            (gqa.key_as_value, gqa.full_every) = (Switch::Off, 0);
        }
        (spec.layout.recompute, spec.layout.recompute_layers) = (Recompute::Full, 1);
        if is_together {
            (spec.layout.recompute_layers, spec.layout.recompute_together) = (0, 4);
            (spec.architecture.layers.moe_every, spec.architecture.mtp) = (2, 0);
        }
        spec.layout.accounting = Accounting::MegatronCore(MOST);
        let plan = Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"));
        plan.inventory(0).len()
    };
    kinds.map(of_kind).max().expect("there are kinds")
}

/// Each tensor of a model has a name of its own, and all of them together are what is said of a checkpoint.
#[test]
fn a_checkpoint_holds_every_tensor_once() {
    for plan in plans() {
        let architecture = &plan.spec().architecture;
        let tensors = architecture.checkpoint(&Naming::LLAMA);
        let own = || tensors.iter().filter(|tensor| tensor.module != Module::Mtp);
        let names: BTreeSet<String> = own().map(|tensor| tensor.name.to_string()).collect();
        assert_eq!(names.len(), own().count(), "{architecture:#?}");
        let elements: u64 = own().map(Tensor::elements).sum();
        assert_eq!(elements, architecture.checkpoint_elements(), "{architecture:#?}");
    }
}

#[test]
fn the_peak_is_the_largest_of_all_stages_and_phases() {
    for plan in plans() {
        let all = (0..plan.stages()).flat_map(|stage| Phase::ALL.iter().map(move |phase| (stage, *phase)));
        let worst = all.map(|(stage, phase)| plan.budget(stage).phase(phase)).max().expect("a plan has stages");
        let peak = plan.peak();
        assert_eq!(peak.total, worst, "{:#?}", plan.spec());
        assert_eq!(plan.budget(peak.stage).phase(peak.phase), worst);
    }
}

/// Deals every weight to the ranks of a stage: each rank gets the same whole number of elements along each dimension,
/// and the parts make the whole.
#[test]
fn parts_make_the_whole() {
    for plan in plans() {
        let mut parameters = 0;
        for stage in 0..plan.stages() {
            for entry in plan.inventory(stage).into_iter().filter(|entry| entry.role == Role::Weight) {
                for dim in entry.shape {
                    assert!(dim.local > 0 && dim.global % dim.local == 0, "{entry} is not dealt evenly");
                }
                parameters += entry.global_elements() * entry.count;
            }
        }
        // Padding is the plan's, not the model's.
        let architecture = plan.spec().architecture;
        // A tied table is there twice where the ends of the model are on two ranks.
        let ends = [plan.stage(0), plan.stage(plan.stages() - 1)];
        let is_tied = architecture.tied_embeddings.is_on();
        let is_apart = !(ends[0].embedding && ends[0].head);
        let tables = if is_tied && !is_apart { 1 } else { 2 };
        let table = plan.padded_vocab() * architecture.hidden;
        let bias = if architecture.head_bias.is_on() { plan.padded_vocab() - architecture.vocab } else { 0 };
        let copies = if is_tied && is_apart { table } else { 0 };
        let unpadded = if is_tied && is_apart { 1 } else { tables };
        let padding = unpadded * (plan.padded_vocab() - architecture.vocab) * architecture.hidden + bias + copies;
        // So are copies of experts.
        let copies_of_experts = plan.spec().layout.placement.redundant_experts * architecture.layers.moe;
        let (hidden, ffn, latent) = (architecture.hidden, architecture.experts.ffn, architecture.experts.latent);
        let (width, inputs) =
            (if latent > 0 { latent } else { hidden }, if architecture.layers.gated.is_on() { 2 } else { 1 });
        let bias_of_one = if architecture.experts.bias.is_on() { inputs * ffn + width } else { 0 };
        let experts = copies_of_experts * ((inputs + 1) * width * ffn + bias_of_one);
        let whole = architecture.parameters().total() + padding + experts;
        // DualPipe holds every stage twice, once for each direction.
        let copies = if plan.spec().layout.schedule == Schedule::DualPipe { 2 } else { 1 };
        assert_eq!(parameters, copies * whole, "{:#?}", plan.spec());
    }
}

/// The pieces of a load-balanced ring, by dealing tokens: `2 cp` equal pieces, each rank one from the front and one from
/// the back, and the tokens of a rank over its tensor-parallel ranks.
#[test]
fn a_ring_deals_tokens_evenly() {
    for cp in 2..=8_u64 {
        for tp in 1..=8 {
            for sequence in 1..=400 {
                let mut spec = *Plan::HUSK.spec();
                (spec.architecture.layers.dense, spec.architecture.layers.ffn) = (1, 840);
                spec.architecture.attention =
                    Attention::Gqa(Gqa { heads: 840, kv_heads: 840, head_dim: 1, ..Gqa::DEFAULT });
                let sequence_parallel = if tp > 1 { Switch::On } else { Switch::Off };
                spec.layout.mesh = Mesh { tp, cp, context: Context::Ring, sequence_parallel, ..Mesh::DEFAULT };
                spec.layout.batch.sequence = sequence;
                let even = sequence % (2 * cp) == 0 && sequence / cp % tp == 0;
                assert_eq!(judge(&spec).is_empty(), even, "cp {cp} tp {tp} sequence {sequence}");
            }
        }
    }
}

/// Balanced, a rank's experts receive the same number of rows for any expert-parallel degree, if each brings its own.
#[test]
fn expert_parallelism_trades_tokens_and_saves_none() {
    let trains = |plan: &Plan| plan.spec().layout.served().is_none();
    for plan in plans().filter(|plan| plan.spec().architecture.layers.moe > 0 && trains(plan)) {
        let balanced = plan.changed(|spec| spec.layout.routing = Routing::BALANCED);
        let balanced = balanced.expect("a balanced layout is legal where a skewed one is");
        let Mesh { tp, ep, etp, sequence_parallel, .. } = plan.spec().layout.mesh;
        let batch = plan.spec().layout.batch;
        let own = batch.micro * batch.sequence / plan.sequence_ranks();
        // The tokens of all ranks that split an expert; without sequence parallelism, where each expert-parallel degree
        // is 1, those of one tensor-parallel group are the same.
        let distinct = if sequence_parallel.is_on() { etp } else { (ep * etp).div_ceil(tp) / ep };
        let copies = own * distinct * plan.spec().architecture.experts.active;
        assert_eq!(balanced.routed_rows(Pool::Group), copies, "{:#?}", plan.spec());
    }
}

/// Stages of as many layers of each kind differ where the first of them are computed again: the third keeps a dense network.
#[test]
fn which_layers_are_computed_again_tells_stages_apart() {
    let mut spec = Spec::DEFAULT;
    (spec.architecture.hidden, spec.architecture.vocab) = (16, 16);
    let list = LayerList::parse("aAaAAaaA");
    spec.architecture.layers = Layers { dense: 4, moe: 4, ffn: 4096, list, ..Layers::DEFAULT };
    spec.architecture.attention = Attention::Gqa(Gqa { heads: 2, kv_heads: 2, head_dim: 8, ..Gqa::DEFAULT });
    spec.architecture.experts = Experts { routed: 2, active: 1, ffn: 4, ..Experts::DEFAULT };
    spec.layout.mesh = Mesh { pp: 4, ..Mesh::DEFAULT };
    spec.layout.schedule = Schedule::Gpipe;
    spec.layout.batch = Batch { sequence: 64, count: 8, ..Batch::DEFAULT };
    (spec.layout.recompute, spec.layout.recompute_layers) = (Recompute::Full, 1);
    let plan = Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"));
    let worst = (0..4).map(|stage| plan.budget(stage).peak()).max_by_key(|peak| peak.total).expect("there are stages");
    assert_eq!((plan.peak(), plan.peak().stage), (worst, 2));
}

/// What shared experts hold for one micro-batch does not depend on how much is kept besides.
#[test]
fn shared_experts_are_the_same_at_either_checkpoint() {
    let shared = |plan: &Plan| -> Bytes {
        let names = ["shared gate, up, activation, product", "shared up, activation"];
        let of = |entry: &&moe_model::Entry| names.contains(&entry.name);
        (0..plan.stages())
            .map(|stage| -> Bytes { plan.inventory(stage).iter().filter(of).map(moe_model::Entry::bytes).sum() })
            .sum()
    };
    let is_simple = |layers: &Layers| layers.list.is_none() && layers.beside == Beside::None;
    let is_whole = |spec: &Spec| is_simple(&spec.architecture.layers) && spec.layout.recompute != Recompute::Selective;
    for plan in plans().filter(|plan| is_whole(plan.spec())) {
        let [layer, sub_block] = [Checkpoint::Layer, Checkpoint::SubBlock].map(|checkpoint| {
            let example = Accounting::WorkedExample(WorkedExample { checkpoint });
            let changed = plan.changed(|spec| {
                (spec.layout.accounting, spec.layout.recompute_together) = (example, 0);
            });
            changed.expect("the accounting breaks no law")
        });
        assert_eq!(shared(&layer), shared(&sub_block), "{:#?}", plan.spec());
    }
}

/// Numbers up to the largest that a key may hold give errors or plans, never a wrapped figure.
#[test]
fn large_numbers_neither_wrap_nor_panic() {
    let mut random = fastrand::Rng::with_seed(64);
    let sizes = [0, 1, 2, 3, 1 << 10, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, 1 << 63, u64::MAX];
    for _ in 0..5_000 {
        let mut spec = spec(&mut random);
        for _ in 0..random.usize(1..8) {
            let key = moe_model::Key::ALL[random.usize(..moe_model::Key::ALL.len())];
            if Spec::least(key).is_some() {
                spec.set(key, pick(&mut random, &sizes));
            }
        }
        match Plan::new(spec) {
            Ok(plan) => assert!(plan.peak().total < Bytes::MAX),
            Err(violations) => {
                assert!(!violations.is_empty(), "{spec:#?}");
                assert!(violations.iter().all(|violation| !violation.text(&spec).is_empty()));
            }
        }
    }
}

/// A budget beyond 64 bits is refused where all else is legal.
#[test]
fn a_budget_beyond_64_bits_is_refused() {
    let mut spec = *Plan::HUSK.spec();
    spec.layout.batch = Batch { sequence: 1 << 31, micro: 1 << 31, count: 1 << 31, global: 0, group: 0 };
    let violations = judge(&spec);
    assert_eq!(violations.iter().map(moe_model::Violation::id).collect::<Vec<_>>(), ["fits-64-bits"]);
}

moe_model! {
    /// Numbers that only the compiler knows.
    pub struct Opaque;

    hidden: WIDTH * 2,
    vocab: 1000,
    layers: layers { dense: 1, moe: 7, ffn: 96 },
    attention: mla { heads: HEADS, kv_rank: 16, nope: 8, rope: 4, value: 8 },
    experts: experts { routed: 16, shared: 1, active: 2, ffn: 32 },

    layout Main: layout {
        mesh: mesh { dp: 4, tp: TP, pp: 2, ep: 2 + 2, sequence_parallel: on },
        batch: batch { sequence: 64, micro: 2, count: 4 },
        accounting: paper,
        device: h100,
    },
}

const WIDTH: u64 = 64;
const HEADS: u64 = 8;
const TP: u64 = 2;

moe_model! {
    /// The same in literals.
    pub struct Literal;

    hidden: 128,
    vocab: 1000,
    layers: layers { dense: 1, moe: 7, ffn: 96 },
    attention: mla { heads: 8, kv_rank: 16, nope: 8, rope: 4, value: 8 },
    experts: experts { routed: 16, shared: 1, active: 2, ffn: 32 },

    layout Main: layout {
        mesh: mesh { dp: 4, tp: 2, pp: 2, ep: 4, sequence_parallel: on },
        batch: batch { sequence: 64, micro: 2, count: 4 },
        accounting: paper,
        device: h100,
    },
}

#[test]
fn the_compiler_and_the_run_time_agree() {
    const PEAK: moe_model::Peak = Opaque::MAIN.peak();
    const BUDGET: moe_model::Budget = Opaque::MAIN.budget(1);
    assert_eq!(Opaque::MAIN, Literal::MAIN);
    let run_time = Plan::new(*std::hint::black_box(Literal::MAIN.spec())).expect("the layout is legal");
    assert_eq!(run_time, Literal::MAIN);
    assert_eq!(run_time.peak(), PEAK);
    assert_eq!(run_time.budget(1), BUDGET);
}

/// All tokens of the expert group choose experts of one rank as far as it has any: counted copy by copy.
#[test]
fn the_worst_load_is_what_one_rank_can_get() {
    for (routed, active, ep) in [(8, 2, 4), (8, 3, 4), (16, 4, 2), (16, 4, 16), (4, 4, 1)] {
        let mut spec = Spec::DEFAULT;
        spec.architecture.layers = Layers { moe: 1, ..Layers::DEFAULT };
        spec.architecture.experts = Experts { routed, active, ffn: 4, ..Experts::DEFAULT };
        spec.layout.mesh = Mesh { dp: ep, ep, ..Mesh::DEFAULT };
        spec.layout.batch = Batch { sequence: 6, micro: 2, ..Batch::DEFAULT };
        let rows = |routing| {
            let plan = Plan::new(Spec { layout: Layout { routing, ..spec.layout }, ..spec }).expect("it is legal");
            plan.routed_rows(Pool::Group)
        };
        // Each token takes the experts of the first rank, then others.
        let mut copies = vec![0; usize::try_from(ep).expect("ranks are few")];
        for _token in 0..ep * 12 {
            (0..active).for_each(|expert| copies[usize::try_from(expert / (routed / ep)).expect("they are few")] += 1);
        }
        assert_eq!(rows(Routing::WORST), copies[0], "{routed} experts, {active} a token, over {ep} ranks");
        // Balanced, a rank's experts get as many copies as its own tokens make, whatever the group.
        assert_eq!(rows(Routing::BALANCED), 12 * active);
        // The load of that worst case says the same as its name.
        let plan = Plan::new(spec).expect("it is legal");
        let loads: Vec<u64> = (0..routed).map(|expert| if expert < active { ep * 12 } else { 0 }).collect();
        let skew = plan.skew_of(&loads).expect("there is a load");
        assert_eq!(rows(Routing::Dropless(Dropless { skew, ..Dropless::DEFAULT })), copies[0]);
        assert_eq!((plan.skew_of(&[1]), plan.skew_of(&vec![0; loads.len()])), (None, None));
    }
}

/// Weights one by one are those that the inventory counts, name by name, and fill the flat buffers of either group.
#[test]
fn weights_one_by_one() {
    let mut count = 0;
    for plan in plans().step_by(4) {
        for stage in BTreeSet::from([0, plan.stages() - 1]) {
            let Ok(holdings) = plan.holdings(stage) else { continue };
            count += 1;
            let (mut listed, mut counted) = (BTreeMap::new(), BTreeMap::new());
            let (mut groups, mut starts) = ([0, 0], [0, 0]);
            for holding in holdings.iter().filter(|holding| !holding.is_buffer) {
                *listed.entry(holding.name).or_insert(0) += holding.elements();
                let group = usize::from(holding.expert_group);
                assert_eq!(holding.start, starts[group], "{}: behind the one in front of it", holding.name);
                starts[group] += holding.elements().div_ceil(holding.shards);
                groups[group] += holding.elements();
            }
            let inventory = plan.inventory(stage);
            for entry in inventory.iter().filter(|entry| entry.role == Role::Weight) {
                *counted.entry(entry.name).or_insert(0) += entry.local_elements() * entry.count;
            }
            assert_eq!(listed, counted, "{:?}", plan.spec());
            if plan.spec().layout.served().is_some() || plan.spec().layout.precision.master == Dtype::None {
                continue;
            }
            for (expert, parameters) in [false, true].into_iter().zip(groups) {
                let state = inventory.iter().find(|e| e.role == Role::MasterWeight && e.expert_group == expert);
                let of_group = || holdings.iter().filter(|of| !of.is_buffer && of.expert_group == expert);
                let shares = plan.ranks_of_stage(stage).map(|rank| {
                    let replica = plan.replica(rank, expert);
                    let cut = |of| plan.cut(of, parameters, ZeroStage::Optimizer).share(replica);
                    let mut next = None;
                    let each = of_group().map(cut).filter(|share| !share.elements.is_empty()).map(|share| {
                        assert!(next.is_none_or(|next| next <= share.at), "one behind the other");
                        let len = share.elements.end - share.elements.start;
                        next = Some(share.at + len);
                        len
                    });
                    each.sum::<u64>()
                });
                assert_eq!(shares.max().filter(|most| *most > 0), state.map(moe_model::Entry::local_elements));
            }
        }
    }
    assert!(count > 200, "{count} stages");
}
