//! Manifests of random layouts: every element of every tensor is in one file, once, and what one layout wrote another finds,
//! element by element.

use moe_model::holdings::Part;
use moe_model::manifest::{Held, Manifest, Orders, Piece, Shard, Slice, Tensor, overlaps};
use moe_model::preset::PRESETS;
use moe_model::spec::{
    Accounting, Attention, Batch, Bias, CorrectionBias, Experts, Gqa, Layers, Layout, MegatronCore, Mesh, Mla,
    Placement, Recompute, Schedule, Spec, Stages, Switch, Zero, ZeroStage,
};
use moe_model::{Group, Plan};
use std::collections::{BTreeMap, BTreeSet};

fn pick<T: Copy>(random: &mut fastrand::Rng, choices: &[T]) -> T {
    choices[random.usize(..choices.len())]
}

/// A small model.
fn model(random: &mut fastrand::Rng) -> Spec {
    let mut spec = Spec::DEFAULT;
    let a = &mut spec.architecture;
    (a.hidden, a.vocab, a.mtp) = (pick(random, &[4, 8]), random.u64(5..30), pick(random, &[0, 0, 1]));
    a.tied_embeddings = pick(random, Switch::ALL);
    a.head_bias = pick(random, Switch::ALL);
    a.layers = Layers { dense: random.u64(0..3), moe: random.u64(2..5), ffn: 8, ..Layers::DEFAULT };
    a.attention = if random.bool() {
        let q_rank = pick(random, &[0, 3]);
        Attention::Mla(Mla { heads: 4, q_rank, kv_rank: 5, nope: 3, rope: 2, value: 2, ..Mla::DEFAULT })
    } else {
        let (kv_heads, bias, sinks) = (pick(random, &[1, 2, 4]), pick(random, Bias::ALL), pick(random, Switch::ALL));
        Attention::Gqa(Gqa { heads: 4, kv_heads, head_dim: 3, bias, sinks, ..Gqa::DEFAULT })
    };
    a.experts = Experts {
        routed: pick(random, &[4, 8]),
        active: 2,
        ffn: 8,
        shared: random.u64(0..2),
        bias: pick(random, Switch::ALL),
        router_bias: pick(random, Switch::ALL),
        correction_bias: pick(random, CorrectionBias::ALL),
        ..Experts::DEFAULT
    };
    spec
}

/// A layout that the laws may refuse.
fn layout(random: &mut fastrand::Rng, layers: u64) -> Layout {
    let tp = pick(random, &[1, 2, 4]);
    let pp = pick(random, &[1, 1, 2, 3]);
    let schedule = pick(random, &[Schedule::OneFOneB, Schedule::Interleaved, Schedule::ZbV, Schedule::DualPipe]);
    let uneven = Stages { first: layers.saturating_sub(pp - 1), last: 1, ..Stages::EVEN };
    Layout {
        mesh: Mesh {
            tp,
            pp,
            cp: pick(random, &[1, 1, 2]),
            dp: pick(random, &[1, 2, 3, 4]),
            ep: pick(random, &[1, 2, 4]),
            etp: pick(random, &[1, 1, 2]),
            vpp: if schedule == Schedule::Interleaved { 2 } else { 0 },
            sequence_parallel: if tp > 1 { Switch::On } else { Switch::Off },
            ..Mesh::DEFAULT
        },
        schedule: if pp == 1 { Schedule::OneFOneB } else { schedule },
        stages: if pp > 1 && schedule == Schedule::OneFOneB { uneven } else { Stages::EVEN },
        zero: Zero { dense: pick(random, ZeroStage::ALL), expert: pick(random, ZeroStage::ALL), ..Zero::DEFAULT },
        placement: Placement { vocab_multiple: random.u64(1..6), ..Placement::DEFAULT },
        batch: Batch { sequence: 16, count: 4 * pp, ..Batch::DEFAULT },
        recompute: Recompute::None,
        accounting: Accounting::MegatronCore(MegatronCore::DEFAULT),
        ..Layout::DEFAULT
    }
}

fn plan(random: &mut fastrand::Rng, model: &Spec) -> Option<Plan> {
    let of = |random: &mut fastrand::Rng| {
        let mut layout = layout(random, model.architecture.layers.count());
        if layout.mesh.pp == 1 {
            layout.mesh.vpp = 0;
        }
        Plan::new(Spec { layout, ..*model }).ok()
    };
    (0..200).find_map(|_| of(random))
}

/// Experts of some layers by chance.
fn orders(random: &mut fastrand::Rng, model: &Spec) -> Orders {
    let (layers, routed) =
        (model.architecture.layers.count() + model.architecture.mtp, model.architecture.experts.routed);
    (0..layers).fold(Orders::MODEL, |orders, layer| {
        let mut order: Vec<u64> = (0..routed).collect();
        random.shuffle(&mut order);
        if random.bool() { orders.with(layer, order) } else { orders }
    })
}

/// The number of each element of a part in the whole tensor, one after the other; none of padding. Written anew, place by
/// place, so that it shares no mistake.
fn elements(tensor: &Tensor, part: &Part, experts: &[u64]) -> Vec<Option<u64>> {
    let mut all = Vec::new();
    for element in 0..part.elements() {
        let (mut rest, mut number, mut stride, mut is_padding) = (element, 0, 1, false);
        for dim in (0..part.shape.len()).rev() {
            let within = rest % part.shape[dim];
            rest /= part.shape[dim];
            let mut place = part.start[dim] + within;
            if dim == 0 && !experts.is_empty() {
                place = experts[usize::try_from(within).expect("experts are few")];
            }
            is_padding |= place >= tensor.shape[dim];
            number += place * stride;
            stride *= tensor.shape[dim];
        }
        all.push((!is_padding).then_some(number));
    }
    all
}

type Shards = fn(&Held) -> &[Shard];
const KEPT: [Shards; 2] = [|held| &held.weights, |held| &held.states];

fn piece<'t>(slice: &'t Slice, shard: &Shard, elements: u64) -> Piece<'t> {
    Piece { part: &slice.part, experts: &slice.experts, first: shard.first, elements }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("models are small")
}

/// What is in files: each shard that is written, with the numbers of its elements.
fn written(tensor: &Tensor, kept: Shards) -> Vec<(Piece<'_>, Vec<u64>)> {
    let mut written = Vec::new();
    for slice in &tensor.slices {
        let numbers = elements(tensor, &slice.part, &slice.experts);
        for shard in slice.held.iter().flat_map(kept).filter(|shard| shard.writer.is_some()) {
            let stored = &numbers[index(shard.first)..][..index(shard.stored)];
            let stored = stored.iter().map(|number| number.expect("padding is in no file")).collect();
            written.push((piece(slice, shard, shard.stored), stored));
        }
    }
    written
}

/// Everything that a layout's ranks hold of a tensor, out of what another wrote.
fn read(tensor: &Tensor, from: &[(Piece<'_>, Vec<u64>)], kept: Shards) -> u64 {
    let mut read = 0;
    for slice in &tensor.slices {
        let numbers = elements(tensor, &slice.part, &slice.experts);
        for shard in slice.held.iter().flat_map(kept) {
            let mut found: Vec<Option<u64>> = vec![None; index(shard.elements)];
            for (piece, stored) in from {
                let wanted = self::piece(slice, shard, shard.elements);
                let copied: Result<(), ()> = overlaps(piece, &wanted, |run| {
                    for step in 0..run.len {
                        let place = &mut found[index(run.to + step)];
                        assert_eq!(*place, None, "{}: an element is there twice", tensor.name);
                        *place = Some(stored[index(run.from + step)]);
                    }
                    Ok(())
                });
                copied.expect("nothing is refused");
            }
            assert_eq!(found, numbers[index(shard.first)..][..index(shard.elements)], "{} {}", tensor.name, slice.part);
            read += found.iter().flatten().count() as u64;
        }
    }
    read
}

#[test]
fn what_one_layout_wrote_another_finds() {
    let mut random = fastrand::Rng::with_seed(20_261_130);
    let mut seen = BTreeSet::new();
    for _ in 0..60 {
        let model = model(&mut random);
        let pair = [plan(&mut random, &model), plan(&mut random, &model)];
        let [Some(one), Some(other)] = pair else { continue };
        let [there, here] = [&one, &other].map(|plan| {
            let orders = orders(&mut random, &model);
            Manifest::of(plan, &orders).unwrap_or_else(|unplaced| panic!("{unplaced}"))
        });
        let wrote: BTreeMap<&str, &Tensor> =
            there.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
        assert_eq!(wrote.len(), here.tensors.len());
        for tensor in &here.tensors {
            let there = wrote[tensor.name.as_str()];
            assert_eq!((&there.shape, there.buffer), (&tensor.shape, tensor.buffer), "{}", tensor.name);
            for kept in KEPT.into_iter().take(if tensor.buffer { 1 } else { 2 }) {
                let from = written(there, kept);
                let numbers: BTreeSet<u64> = from.iter().flat_map(|(_, stored)| stored).copied().collect();
                let stored: usize = from.iter().map(|(_, stored)| stored.len()).sum();
                assert_eq!((numbers.len(), stored), (index(there.elements()), stored), "{}", tensor.name);
                assert_eq!(numbers.len(), stored, "{}: each element is in one file", tensor.name);
                assert!(read(tensor, &from, kept) >= tensor.elements());
            }
        }
        for plan in [one, other] {
            let Layout { mesh, schedule, zero, .. } = plan.spec().layout;
            seen.extend([
                ("tp", mesh.tp),
                ("cp", mesh.cp),
                ("pp", mesh.pp),
                ("ep", mesh.ep),
                ("etp", mesh.etp),
                ("chunks", plan.chunks()),
                ("schedule", schedule as u64),
                ("dense zero", zero.dense as u64),
                ("expert zero", zero.expert as u64),
            ]);
        }
    }
    assert!(seen.len() >= 24, "all axes were there: {seen:?}");
}

/// Who holds a slice, and what of it, is what groups say: replicas hold the same, and share its state out.
#[test]
fn replicas_are_those_of_the_groups() {
    let mut random = fastrand::Rng::with_seed(9);
    for _ in 0..40 {
        let model = model(&mut random);
        let Some(plan) = plan(&mut random, &model) else { continue };
        let manifest = Manifest::of(&plan, &Orders::MODEL).unwrap_or_else(|unplaced| panic!("{unplaced}"));
        assert_eq!(manifest.world, plan.world());
        for tensor in &manifest.tensors {
            for held in tensor.slices.iter().flat_map(|slice| &slice.held) {
                let ranks: Vec<u64> = held.ranks.iter().flat_map(|ranks| ranks.into_iter()).collect();
                let kind = if tensor.expert_group { Group::Edp } else { Group::CpDp };
                for rank in &ranks {
                    assert_eq!(plan.coordinates(*rank).pp, held.stage);
                    let replicas = plan.group(kind, *rank);
                    assert!(replicas.into_iter().all(|replica| ranks.contains(&replica)), "{}", tensor.name);
                }
                let chunk = plan.chunk(held.stage, held.chunk);
                let is_module = |layer: u64| layer >= plan.spec().architecture.layers.count();
                assert!(tensor.layer.is_none_or(|layer| chunk.range().contains(&layer) || is_module(layer)));
                for shards in [&held.weights, &held.states] {
                    let holders: u64 = shards.iter().flat_map(|shard| &shard.ranks).map(|ranks| ranks.count).sum();
                    assert!(holders <= ranks.len() as u64, "each rank holds one part of it at most");
                }
            }
        }
    }
}

/// Of published models, a manifest has each parameter once.
#[test]
fn presets_have_each_parameter_once() {
    for preset in PRESETS {
        let mut spec = Spec { architecture: preset.architecture, ..Spec::DEFAULT };
        spec.layout.mesh.dp = 2;
        let Ok(plan) = Plan::new(spec) else { panic!("{}: one rank and its replica hold it", preset.name) };
        let manifest = Manifest::of(&plan, &Orders::MODEL).unwrap_or_else(|error| panic!("{}: {error}", preset.name));
        let parameters = manifest.tensors.iter().filter(|tensor| !tensor.buffer).map(Tensor::elements);
        assert_eq!(parameters.sum::<u64>(), preset.architecture.parameters().total(), "{}", preset.name);
    }
}

#[test]
fn what_layouts_do_not_say() {
    let mut spec = model(&mut fastrand::Rng::with_seed(1));
    spec.layout.mesh.dp = 2;
    spec.layout.placement.redundant_experts = 2;
    let plan = Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"));
    let unplaced = Manifest::of(&plan, &Orders::MODEL).expect_err("nobody knows which experts").to_string();
    assert_eq!(
        unplaced,
        "`placement.redundant_experts`: which experts are there more than once, the layout does not say"
    );
}
