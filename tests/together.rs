//! Layers that are computed again together, against a walk through a step: of single layers, all kept or computed again, it is
//! known what each block saves and works on; then every micro-batch goes forward and back, run by run and block by block, and
//! what is held is added up.

use moe_model::events::Work;
use moe_model::inventory::{Block, Entry, Lifetime, Module};
use moe_model::spec::{
    Accounting, Architecture, Attention, Batch, Compute, CoreAttention, Experts, Gqa, Implementation, Kernel, Layers,
    Layout, MegatronCore, MegatronVersion, Mesh, Mla, Paper, Precision, Recompute, Schedule, Spec, StageList, Stages,
    Switch,
};
use moe_model::{Device, Phase, Plan, Role};

/// The blocks of a layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Attention,
    Dense,
    Experts,
}

/// What single layers hold, in bytes.
struct Single {
    /// What attention, a dense network and experts save, if they are not computed again.
    saves: [u64; 3],
    /// What their backward works on beside that.
    works: [u64; 3],
    /// What is kept of a layer that is computed again: its input, and behind it the routing weights of one with experts.
    input: u64,
    routing: u64,
    /// What embedding and head save, and what backward of the head works on.
    ends: [u64; 2],
    head: u64,
}

fn sum(plan: &Plan, is_meant: impl Fn(&Entry) -> bool) -> u64 {
    plan.inventory(0).iter().filter(|entry| is_meant(entry)).map(|entry| entry.bytes().bytes()).sum()
}

impl Single {
    fn of(plan: &Plan) -> Self {
        let single = |has_experts: bool, recompute| {
            let changed = plan.changed(|spec| {
                let layers = &mut spec.architecture.layers;
                (layers.dense, layers.moe, layers.moe_every) = (u64::from(!has_experts), u64::from(has_experts), 1);
                (spec.layout.mesh.pp, spec.layout.mesh.vpp, spec.layout.stages) = (1, 0, Stages::EVEN);
                (spec.layout.schedule, spec.layout.batch.count) = (Schedule::OneFOneB, 1);
                (spec.layout.recompute, spec.layout.recompute_together) = (recompute, 0);
            });
            changed.unwrap_or_else(|violations| panic!("{violations}"))
        };
        let [dense, moe] = [false, true].map(|has_experts| single(has_experts, Recompute::None));
        let [dense_again, moe_again] = [false, true].map(|has_experts| single(has_experts, Recompute::Full));
        let saved = |plan: &Plan, module: fn(Module) -> bool| {
            sum(plan, |entry| entry.lifetime == Lifetime::MicroBatch && module(entry.module))
        };
        let in_backward = |plan: &Plan, block| sum(plan, |entry| entry.lifetime == Lifetime::InBackward(block));
        let of_network = |module| !matches!(module, Module::Attention | Module::Embedding | Module::Head);
        let attention = saved(&dense, |module| module == Module::Attention);
        assert_eq!(attention, saved(&moe, |module| module == Module::Attention));
        // While a layer is computed again, attention works on one table of positions beside what it always does.
        let table = sum(&dense_again, |entry| entry.name == "rotary cache");
        let inputs = ["layer input", "attention block input"];
        let is_input = |entry: &Entry| inputs.contains(&entry.name) && entry.lifetime == Lifetime::MicroBatch;
        Self {
            saves: [attention, saved(&dense, of_network), saved(&moe, of_network)],
            works: [
                in_backward(&dense, Block::Attention) + table,
                in_backward(&dense, Block::Dense),
                in_backward(&moe, Block::Moe),
            ],
            input: sum(&dense_again, is_input),
            routing: sum(&moe_again, |entry| entry.name == "routing weights" && entry.lifetime == Lifetime::MicroBatch),
            ends: [Module::Embedding, Module::Head]
                .map(|end| sum(&dense, |entry| entry.module == end && entry.lifetime == Lifetime::MicroBatch)),
            head: in_backward(&dense, Block::Head),
        }
    }
}

/// A chunk: whether each of its layers has experts, in runs, and its ends.
struct Walked {
    runs: Vec<Vec<bool>>,
    ends: [bool; 2],
}

impl Walked {
    fn of(plan: &Plan, stage: u64, chunk: u64) -> Self {
        let chunk = plan.chunk(stage, chunk);
        let layers: Vec<bool> = chunk.range().map(|layer| plan.spec().architecture.layers.has_experts(layer)).collect();
        let together = usize::try_from(plan.spec().layout.recompute_together).expect("it is small");
        Self { runs: layers.chunks(together).map(<[bool]>::to_vec).collect(), ends: [chunk.embedding, chunk.head] }
    }

    fn end(&self, end: usize, single: &Single) -> u64 {
        if self.ends[end] { single.ends[end] } else { 0 }
    }

    /// What forward leaves.
    fn kept(&self, single: &Single) -> u64 {
        let with_experts = self.runs.iter().flatten().filter(|has_experts| **has_experts).count() as u64;
        let inputs = single.input * self.runs.len() as u64 + single.routing * with_experts;
        inputs + self.end(0, single) + self.end(1, single)
    }

    /// The most that backward of one micro-batch holds, so much being held when it begins. Inputs of runs are counted until all
    /// of it is over.
    fn backward(&self, single: &Single, held: u64) -> u64 {
        let mut most = if self.ends[1] { held + single.head } else { held };
        let held = held - self.end(1, single);
        for run in self.runs.iter().rev() {
            let mut saved = Vec::new();
            for has_experts in run {
                saved.extend([Kind::Attention, if *has_experts { Kind::Experts } else { Kind::Dense }]);
            }
            while let Some(block) = saved.last() {
                let again: u64 = saved.iter().map(|kind| single.saves[*kind as usize]).sum();
                most = most.max(held + again + single.works[*block as usize]);
                saved.pop();
            }
        }
        most
    }
}

/// Walks through a step of every rank of the pipeline.
fn walk(plan: &Plan) {
    let single = Single::of(plan);
    for stage in 0..plan.stages() {
        let chunks: Vec<Walked> = (0..plan.chunks()).map(|chunk| Walked::of(plan, stage, chunk)).collect();
        let (mut held, mut worst) = (0, 0);
        for moment in plan.timeline(stage) {
            let Some(event) = moment.event else { continue };
            let chunk = &chunks[usize::try_from(event.chunk).expect("chunks are few")];
            match event.work {
                Work::Forward => held += chunk.kept(&single),
                Work::Backward => {
                    let most = chunk.backward(&single, held);
                    let said = moment.role(Role::Activation).bytes() + moment.role(Role::Transient).bytes();
                    assert_eq!(said, most, "{event:?} of stage {stage} of {:#?}", plan.spec());
                    worst = worst.max(most);
                }
                Work::Weight => held -= chunk.kept(&single),
            }
        }
        assert_eq!(held, 0, "every micro-batch comes back");
        let budget = plan.budget(stage);
        let said = [Role::Activation, Role::Transient].map(|role| budget.role_in(role, Phase::Backward).bytes());
        // Of several chunks the budget takes the moment that holds most and the block that works on most.
        assert!(
            said.iter().sum::<u64>() == worst || plan.chunks() > 1,
            "{said:?}, not {worst}, on stage {stage} of {:#?}",
            plan.spec()
        );
    }
}

fn pick<T: Copy>(random: &mut fastrand::Rng, choices: &[T]) -> T {
    choices[random.usize(..choices.len())]
}

/// A random model of layers with and without experts, of which either may save more.
fn spec(random: &mut fastrand::Rng) -> Spec {
    let (moe, moe_every) = (random.u64(0..7), pick(random, &[1, 1, 2, 3, 4]));
    let dense = random.u64(0..7) + moe * (moe_every - 1);
    let attention = if random.bool() {
        Attention::Mla(Mla { heads: 2, q_rank: 6, kv_rank: 4, nope: 4, rope: 2, value: 4, ..Mla::DEFAULT })
    } else {
        Attention::Gqa(Gqa { heads: 2, kv_heads: 1, head_dim: 4, ..Gqa::DEFAULT })
    };
    let [ffn, expert_ffn] = [(); 2].map(|()| pick(random, &[2, 8, 96, 400]));
    let mesh = Mesh { pp: random.u64(1..5), ..Mesh::DEFAULT };
    let (schedule, vpp) = pick(
        random,
        &[(Schedule::OneFOneB, 0), (Schedule::OneFOneB, 0), (Schedule::Gpipe, 0), (Schedule::Interleaved, 2)],
    );
    let stages = match random.u8(..3) {
        0 => Stages { first: random.u64(0..4), last: random.u64(0..4), ..Stages::EVEN },
        1 => {
            let places = mesh.pp * vpp.max(1);
            let mut left = dense + moe;
            let listed: Vec<String> = (0..places)
                .map(|place| {
                    let layers = if place + 1 == places { left } else { random.u64(0..=left) };
                    left -= layers;
                    "t".repeat(usize::try_from(layers).expect("layers are few"))
                })
                .collect();
            Stages { list: StageList::parse(&format!("E{}L", listed.join("|"))), ..Stages::EVEN }
        }
        _ => Stages::EVEN,
    };
    let megatron = MegatronCore {
        version: pick(random, MegatronVersion::ALL),
        core: pick(random, CoreAttention::ALL),
        dropout: pick(random, Switch::ALL),
        distribute: pick(random, Switch::ALL),
        ..MegatronCore::DEFAULT
    };
    let paper = Paper { kernel: pick(random, Kernel::ALL), ..Paper::DEFAULT };
    Spec {
        architecture: Architecture {
            hidden: 12,
            vocab: 20,
            layers: Layers { dense, moe, moe_every, ffn, ..Layers::DEFAULT },
            attention,
            experts: Experts { routed: 4, shared: random.u64(0..2), active: 2, ffn: expert_ffn, ..Experts::DEFAULT },
            ..Architecture::DEFAULT
        },
        layout: Layout {
            mesh: Mesh { vpp, ..mesh },
            schedule,
            stages,
            batch: Batch { sequence: 8, micro: random.u64(1..3), count: mesh.pp * random.u64(1..4), ..Batch::DEFAULT },
            recompute: Recompute::Full,
            recompute_together: random.u64(1..8),
            accounting: if random.bool() { Accounting::Paper(paper) } else { Accounting::MegatronCore(megatron) },
            ..Layout::DEFAULT
        },
    }
}

#[test]
fn a_walk_holds_what_the_timeline_says() {
    let mut random = fastrand::Rng::with_seed(20_261_130);
    let plans: Vec<Plan> =
        std::iter::repeat_with(|| Plan::new(spec(&mut random))).filter_map(Result::ok).take(1500).collect();
    let of = |name, is_meant: fn(&Plan) -> bool| {
        let is_of = |plan: &&Plan| plan.spec().layout.accounting.name() == name && is_meant(plan);
        plans.iter().filter(is_of).count()
    };
    for name in ["paper", "megatron_core"] {
        let several = of(name, |plan| plan.spec().layout.recompute_together > 1);
        let spaced = of(name, |plan| plan.spec().architecture.layers.moe_every > 1);
        let chunked = of(name, |plan| plan.chunks() > 1);
        assert!(several > 200 && spaced > 100 && chunked > 20, "{name}: {several}, {spaced}, {chunked}");
    }
    for plan in &plans {
        walk(plan);
    }
}

/// What networks compute again by themselves while they run, under DeepSeek-V3's recipe, is there of one of them alone.
#[test]
fn a_recipe_that_computes_activations_again_does_so_one_by_one() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut walked = 0;
    while walked < 60 {
        let mut spec = spec(&mut random);
        let options = MegatronCore {
            version: MegatronVersion::V020,
            implementation: Implementation::TransformerEngine,
            ..MegatronCore::DEFAULT
        };
        (spec.layout.accounting, spec.layout.device) = (Accounting::MegatronCore(options), Device::H100);
        spec.layout.precision = Precision { compute: Compute::Fp8DeepseekV3, ..Precision::DEFAULT };
        let Ok(plan) = Plan::new(spec) else { continue };
        if plan.spec().architecture.layers.moe > 0 && plan.spec().layout.recompute_together > 1 {
            walk(&plan);
            walked += 1;
        }
    }
}

/// Under megatron-core's accounting runs of one layer are layers computed again each by itself.
#[test]
fn runs_of_one_layer_are_layers() {
    let mut random = fastrand::Rng::with_seed(11);
    let mut seen = 0;
    while seen < 100 {
        let Ok(plan) = Plan::new(spec(&mut random)) else { continue };
        if plan.spec().layout.accounting.name() != "megatron_core" {
            continue;
        }
        let with = |together| {
            let changed = plan.changed(|spec| spec.layout.recompute_together = together);
            changed.unwrap_or_else(|violations| panic!("{violations}"))
        };
        let [each, runs] = [with(0), with(1)];
        assert_eq!(each.peak(), runs.peak());
        for stage in 0..plan.stages() {
            assert_eq!(each.budget(stage), runs.budget(stage), "{:#?}", plan.spec());
        }
        seen += 1;
    }
}

/// Before 0.20 megatron-core's runs must fill every chunk: each is looked at by itself.
#[test]
fn older_versions_take_runs_that_fill_every_chunk() {
    let mut random = fastrand::Rng::with_seed(13);
    let mut seen = [0, 0];
    for _ in 0..4000 {
        let mut spec = spec(&mut random);
        let version = |version| Accounting::MegatronCore(MegatronCore { version, ..MegatronCore::DEFAULT });
        spec.layout.accounting = version(MegatronVersion::V020);
        let Ok(plan) = Plan::new(spec) else { continue };
        let places = (0..plan.stages()).flat_map(|stage| (0..plan.chunks()).map(move |chunk| (stage, chunk)));
        let is_filled =
            |(stage, chunk)| plan.chunk(stage, chunk).layers().is_multiple_of(spec.layout.recompute_together);
        let fills = places.into_iter().all(is_filled);
        for old in [MegatronVersion::V011, MegatronVersion::V016] {
            let old = plan.changed(|spec| spec.layout.accounting = version(old));
            assert_eq!(old.is_ok(), fills, "{spec:#?}");
        }
        seen[usize::from(fills)] += 1;
    }
    assert!(seen.iter().all(|seen| *seen > 200), "{seen:?}");
}
