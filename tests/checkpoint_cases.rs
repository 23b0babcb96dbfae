//! Checkpoints that were wrong for real people, from public reports (`tests/data/checkpoints.jsonl`): what each names as its
//! right answer.

use moe_model::Plan;
use moe_model::gpu::checkpoint::Saved;
use moe_model::gpu::comm::threads::{self, PATIENCE};
use moe_model::gpu::random::Random;
use moe_model::gpu::shapes::Dynamic;
use moe_model::gpu::smoke::ADAMW;
use moe_model::gpu::step::{Place, Source, Step};
use moe_model::gpu::{Host, Numerics};
use moe_model::manifest::{Held, Manifest, Orders, Slice, Tensor};
use moe_model::preset::{
    DEEPSEEK_V2_LITE, DEEPSEEK_V3, DEEPSEEK_V4_FLASH, LLAMA_3_1_8B, MINIMAX_M2_5, QWEN3_5_35B_A3B, QWEN3_235B_A22B,
};
use moe_model::spec::{
    Accounting, Architecture, Attention, Batch, Dtype, Experts, Gqa, Layers, MegatronCore, Mesh, Precision, Routing,
    Spec, Stages, Switch, Zero,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The cases that a test below holds.
const HELD: &[&str] = &["C01", "C03", "C04", "C07", "C09", "C10", "C11", "C13", "C14", "L11"];

#[test]
fn every_case_is_held() {
    let file = include_str!("data/checkpoints.jsonl");
    let cases = file.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a line is JSON"));
    let ids: BTreeSet<String> = cases.map(|case| case["id"].as_str().expect("a case has an id").to_owned()).collect();
    assert_eq!(HELD.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>(), ids);
}

fn plan(spec: Spec) -> Plan {
    Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"))
}

/// A model as megatron-core counts it, modules for multi-token prediction among it.
fn laid_out(architecture: Architecture, mesh: Mesh) -> Spec {
    let mut spec = Spec { architecture, ..Spec::DEFAULT };
    spec.layout.accounting = Accounting::MegatronCore(MegatronCore::DEFAULT);
    spec.layout.batch.sequence = 64;
    spec.layout.mesh = mesh;
    spec
}

fn manifest(spec: Spec) -> Manifest {
    Manifest::of(&plan(spec), &Orders::MODEL).unwrap_or_else(|unplaced| panic!("{unplaced}"))
}

fn tensor<'m>(manifest: &'m Manifest, name: &str) -> &'m Tensor {
    let found = manifest.tensors.iter().find(|tensor| tensor.name == name);
    found.unwrap_or_else(|| panic!("no `{name}`"))
}

/// The slice that a rank holds.
fn of_rank(tensor: &Tensor, rank: u64) -> &Slice {
    let has = |held: &Held| held.ranks.iter().any(|ranks| ranks.has(rank));
    let found = tensor.slices.iter().find(|slice| slice.held.iter().any(has));
    found.unwrap_or_else(|| panic!("rank {rank} has none of `{}`", tensor.name))
}

const PROJECTIONS: [&str; 3] = ["gate_proj", "up_proj", "down_proj"];

fn experts(layer: u64, projection: &str) -> String {
    format!("model.layers.{layer}.mlp.experts.{projection}.weight")
}

/// A model that steps run.
fn tiny(mesh: Mesh) -> Spec {
    let mut spec = Spec::DEFAULT;
    let architecture = &mut spec.architecture;
    (architecture.hidden, architecture.vocab) = (16, 37);
    architecture.layers = Layers { dense: 1, moe: 3, ffn: 24, ..Layers::DEFAULT };
    architecture.attention = Attention::Gqa(Gqa { heads: 4, kv_heads: 2, head_dim: 8, ..Gqa::DEFAULT });
    architecture.experts = Experts { routed: 8, active: 2, ffn: 8, shared: 1, ..Experts::DEFAULT };
    spec.layout.precision = Precision { weights: Dtype::Fp32, activations: Dtype::Fp32, ..Precision::DEFAULT };
    spec.layout.batch = Batch { sequence: 8, count: 2, ..Batch::DEFAULT };
    spec.layout.zero = Zero::OPTIMIZER;
    spec.layout.accounting = Accounting::REFERENCE;
    spec.layout.routing = Routing::WORST;
    spec.layout.mesh = mesh;
    spec
}

type Rank = Step<Host, Dynamic, f32, f32>;

/// Weights that no training survives.
struct Nothing;

impl Source for Nothing {
    fn fill(&mut self, _: &Place, out: &mut [f32]) -> Result<(), String> {
        out.fill(f32::NAN);
        Ok(())
    }
}

/// Weights by chance on every rank of a layout, and something with them.
fn world<T: Send>(plan: &Plan, is_read: bool, of_rank: impl Fn(&mut Rank) -> T + Sync) -> Vec<T> {
    let numerics = Numerics::usual(&plan.spec().architecture);
    let results = threads::run(plan.world(), PATIENCE, |rank, end| {
        let source: &mut dyn Source = if is_read { &mut Nothing } else { &mut Random::of(plan) };
        let step = Step::in_world(*plan, rank, Box::new(end), Host::new(1), numerics, source);
        of_rank(&mut step.unwrap_or_else(|error| panic!("{error}")))
    });
    results.into_iter().map(|result| result.unwrap_or_else(|error| panic!("{error}"))).collect()
}

fn folder(name: &str) -> PathBuf {
    let folder = env::temp_dir().join(format!("moe-model-case-{name}"));
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn save(step: &mut Rank, folder: &Path) {
    step.save(folder).unwrap_or_else(|error| panic!("{error}"));
}

fn load(step: &mut Rank, folder: &Path) {
    step.load(folder).unwrap_or_else(|error| panic!("{error}"));
}

fn train(step: &mut Rank, plan: &Plan) -> Option<f64> {
    step.train(&mut Random::of(plan), ADAMW).unwrap_or_else(|error| panic!("{error}")).loss
}

fn mean(losses: &[Option<f64>]) -> f64 {
    let losses: Vec<f64> = losses.iter().copied().flatten().collect();
    losses.iter().sum::<f64>() / f64::from(u32::try_from(losses.len()).expect("ranks are few"))
}

/// C01: 4 experts over 2 ranks: each has its number in the model, and all are there once.
#[test]
fn experts_have_their_numbers() {
    let mut spec = tiny(Mesh { dp: 2, ep: 2, ..Mesh::DEFAULT });
    spec.architecture.experts.routed = 4;
    let manifest = manifest(spec);
    for layer in 1..4 {
        for projection in PROJECTIONS {
            let slices = &tensor(&manifest, &experts(layer, projection)).slices;
            assert_eq!(slices.iter().map(|slice| &slice.experts[..]).collect::<Vec<_>>(), [[0, 1], [2, 3]]);
            let writers = slices.iter().map(|slice| slice.held[0].weights[0].writer);
            assert_eq!(writers.collect::<Vec<_>>(), [Some(0), Some(1)]);
        }
    }
}

/// C03: the third step behind a reload under another expert parallelism has the loss of a run without a break.
#[test]
fn the_loss_goes_on() {
    let folder = folder("goes-on");
    let mut layouts = [(4, 1), (4, 4), (1, 1)].map(|(dp, ep)| {
        let mut spec = tiny(Mesh { dp, ep, pp: 2, ..Mesh::DEFAULT });
        spec.layout.batch.count = 8 / dp;
        plan(spec)
    });
    layouts.sort_by_key(|plan| plan.spec().layout.mesh.ep);
    let [.., four] = layouts;
    let whole = world(&four, false, |step| {
        let losses = [train(step, &four), train(step, &four)];
        save(step, &folder);
        [losses[0], losses[1], train(step, &four)]
    });
    let [first, second, third] =
        [0, 1, 2].map(|step| mean(&whole.iter().map(|losses| losses[step]).collect::<Vec<_>>()));
    assert!(first > second && second > third, "it learns: {first}, {second}, {third}");
    for other in layouts {
        let behind = mean(&world(&other, true, |step| {
            load(step, &folder);
            train(step, &other)
        }));
        assert!((behind - third).abs() < 2e-6, "{behind}, not {third}: {:?}", other.spec().layout.mesh);
    }
}

/// C04: the bytes of all experts are experts x 3 x h x ffn elements, whatever splits them.
#[test]
fn every_part_of_an_expert_is_saved() {
    for etp in [1, 2, 4, 8] {
        let manifest = manifest(laid_out(DEEPSEEK_V2_LITE, Mesh { dp: 8, etp, ..Mesh::DEFAULT }));
        let routed = manifest.tensors.iter().filter(|tensor| tensor.name.contains(".mlp.experts."));
        let stored = |tensor: &Tensor| -> u64 {
            let held = tensor.slices.iter().flat_map(|slice| &slice.held);
            let shards = held.flat_map(|held| &held.weights).filter(|shard| shard.writer.is_some());
            shards.map(|shard| shard.stored).sum()
        };
        assert_eq!(routed.map(stored).sum::<u64>(), 26 * 64 * 3 * 2048 * 1408, "etp {etp}");
    }
}

/// C07: nothing that a step holds stays as it was: each element is read, or the load fails. Over as many ranks as the report
/// has, each expert has a place that it is read from.
#[test]
fn nothing_stays_unread() {
    let (one, folder) = (plan(tiny(Mesh { dp: 4, ep: 4, ..Mesh::DEFAULT })), folder("unread"));
    world(&one, false, |step| save(step, &folder));
    let other = plan(tiny(Mesh { dp: 2, ep: 2, pp: 2, ..Mesh::DEFAULT }));
    world(&other, true, |step| {
        load(step, &folder);
        let see = &mut |place: &Place, values: &[f32]| {
            assert!(values.iter().all(|value| !value.is_nan()), "{place:?} is read");
        };
        step.weights(see).expect("it has values");
        // What the optimizer keeps too.
        assert!(train(step, &other).is_none_or(f64::is_finite));
        let see = &mut |_: &Place, values: &[f32]| assert!(values.iter().all(|value| !value.is_nan()));
        step.weights(see).expect("it has values");
    });
    let saved = Saved::open(&folder).expect("it is whole");
    let file = fs::read_dir(saved.folder()).expect("it is there").filter_map(Result::ok);
    let file =
        file.map(|file| file.path()).find(|path| path.ends_with("rank-00002.safetensors")).expect("rank 2 has one");
    fs::remove_file(file).expect("it is there");
    let read = world(&other, true, |step| step.load(&folder).is_ok());
    assert_eq!(read, [false; 4], "every rank says so");
    let published = manifest(laid_out(MINIMAX_M2_5, Mesh { dp: 32, ep: 32, ..Mesh::DEFAULT }));
    let last = tensor(&published, &experts(61, "down_proj"));
    assert_eq!(
        (last.slices.len(), &of_rank(last, 31).experts[..]),
        (32, &[248, 249, 250, 251, 252, 253, 254, 255][..])
    );
}

/// C09: the experts of a module for multi-token prediction lie where those of layers lie: rank 7 of 8 has 224 first.
#[test]
fn experts_of_modules() {
    let architecture = Architecture { mtp: 1, ..QWEN3_5_35B_A3B };
    let layers = architecture.layers.count();
    let manifest = manifest(laid_out(architecture, Mesh { dp: 8, ep: 8, ..Mesh::DEFAULT }));
    for layer in [0, layers - 1, layers] {
        for rank in 0..8 {
            let slice = of_rank(tensor(&manifest, &experts(layer, "up_proj")), rank);
            assert_eq!(slice.experts, (rank * 32..rank * 32 + 32).collect::<Vec<_>>(), "layer {layer}");
        }
    }
    assert_eq!(of_rank(tensor(&manifest, &experts(layers, "gate_proj")), 7).experts[0], 224);
}

/// C10: of gate and up, 2048 rows in all, each of two ranks has the same half of either, 1024 in all: not the first half of
/// both.
#[test]
fn halves_of_gate_and_up() {
    for (hidden, ffn) in [(4096, 1024), (2048, 512)] {
        let experts_of = Experts { ffn, ..QWEN3_5_35B_A3B.experts };
        let architecture = Architecture { hidden, experts: experts_of, ..QWEN3_5_35B_A3B };
        let manifest = manifest(laid_out(architecture, Mesh { dp: 2, etp: 2, ..Mesh::DEFAULT }));
        for rank in 0..2 {
            let [gate, up] = ["gate_proj", "up_proj"].map(|name| of_rank(tensor(&manifest, &experts(3, name)), rank));
            assert_eq!(gate.part, up.part);
            assert_eq!(gate.part.start, [0, rank * ffn / 2, 0]);
            assert_eq!(gate.part.shape[1] + up.part.shape[1], ffn, "rows of both");
            assert_eq!(gate.part.shape[2], hidden);
        }
    }
}

/// C11: a file for each rank that writes, whatever the degrees of dense and expert parts are, and each slice in one of them.
#[test]
fn files_are_those_of_ranks() {
    for (tp, etp, ep) in [(2, 1, 2), (1, 2, 2), (2, 1, 4), (4, 2, 2), (2, 4, 1)] {
        let sequence_parallel = if tp > 1 { Switch::On } else { Switch::Off };
        let mesh = Mesh { dp: 4, tp, etp, ep, pp: 2, sequence_parallel, ..Mesh::DEFAULT };
        let manifest = manifest(laid_out(tiny(Mesh::DEFAULT).architecture, mesh));
        for tensor in &manifest.tensors {
            let writers = tensor.slices.iter().flat_map(|slice| &slice.held).flat_map(|held| &held.weights);
            let writers: Vec<u64> = writers.filter_map(|shard| shard.writer).collect();
            let distinct: BTreeSet<&u64> = writers.iter().collect();
            assert_eq!((writers.len(), distinct.len()), (tensor.slices.len(), tensor.slices.len()), "{}", tensor.name);
        }
        let routed = tensor(&manifest, &experts(2, "up_proj"));
        assert_eq!(routed.slices.len() as u64, ep * etp);
    }
}

/// C13: 1536 over 8 ranks is 192 each: ranks 6 and 7 begin at 1152 and 1344, whatever a kernel pads theirs to.
#[test]
fn parts_are_as_long_as_they_are() {
    assert_eq!(QWEN3_235B_A22B.experts.ffn, 1536);
    for (etp, starts) in [(8, [1152, 1344]), (4, [768, 1152])] {
        let manifest = manifest(laid_out(QWEN3_235B_A22B, Mesh { dp: 8, etp, ..Mesh::DEFAULT }));
        let (last, each) = (etp - 1, 1536 / etp);
        for (rank, start) in [(last - 1, starts[0]), (last, starts[1])] {
            let up = of_rank(tensor(&manifest, &experts(93, "up_proj")), rank);
            assert_eq!((up.part.start[1], up.part.shape[1]), (start, each));
            let down = of_rank(tensor(&manifest, &experts(93, "down_proj")), rank);
            assert_eq!((down.part.start[2], down.part.shape[2]), (start, each));
        }
    }
}

/// C14: 43 layers over uneven stages: each has its number in the model and its place in its stage, and the module behind them
/// the next one.
#[test]
fn layers_have_their_numbers() {
    // The model of the report, whose module no layout counts, and one of as many layers that has one.
    let layers = Layers { dense: 3, moe: 40, ..DEEPSEEK_V3.layers };
    for architecture in [DEEPSEEK_V4_FLASH, Architecture { layers, mtp: 1, ..DEEPSEEK_V3 }] {
        assert_eq!(architecture.layers.count(), 43);
        let mut spec = laid_out(architecture, Mesh { dp: 2, pp: 4, ..Mesh::DEFAULT });
        spec.layout.stages = Stages { first: 10, last: 11, ..Stages::EVEN };
        spec.layout.batch.count = 4;
        let manifest = manifest(spec);
        let mut seen = BTreeSet::new();
        for tensor in &manifest.tensors {
            let Some(layer) = tensor.layer else { continue };
            assert!(tensor.name.starts_with(&format!("model.layers.{layer}.")));
            for held in tensor.slices.iter().flat_map(|slice| &slice.held) {
                let (stage, first) = match layer {
                    0..10 => (0, 0),
                    10..21 => (1, 10),
                    21..32 => (2, 21),
                    _ => (3, 32),
                };
                assert_eq!((held.stage, held.stage_layer), (stage, Some(layer - first)), "{}", tensor.name);
                seen.insert(layer);
            }
        }
        assert_eq!(seen, (0..43 + architecture.mtp).collect());
    }
}

/// L11: a checkpoint has the vocabulary without padding, and says how it was padded; under another degree it is padded anew.
#[test]
fn vocabularies_are_padded_anew() {
    let of = |vocab: u64, tp: u64, vocab_multiple: u64| {
        let architecture = Architecture { vocab, ..LLAMA_3_1_8B };
        let mut spec = laid_out(architecture, Mesh { tp, ..Mesh::DEFAULT });
        spec.layout.placement.vocab_multiple = vocab_multiple;
        manifest(spec)
    };
    let eight = of(128_256, 8, 64);
    assert_eq!((eight.vocab_logical, eight.vocab_padded), (128_256, 128_512));
    let table = tensor(&eight, "model.embed_tokens.weight");
    assert_eq!((&table.shape[..], &table.padded[..]), (&[128_256, 4096][..], &[128_512, 4096][..]));
    let last = of_rank(table, 7);
    assert_eq!((last.part.start[0], last.part.shape[0]), (7 * 16_064, 16_064));
    assert_eq!(last.held[0].weights[0].stored, (16_064 - 256) * 4096, "padding is not saved");
    assert_eq!(of(128_256, 4, 64).vocab_padded, 128_256);
    assert_eq!(of(65_535, 2, 1).vocab_padded, 65_536);

    let folder = folder("vocabulary");
    let plans = [2, 1].map(|tp| {
        let sequence_parallel = if tp > 1 { Switch::On } else { Switch::Off };
        let mut spec = tiny(Mesh { dp: 2, tp, sequence_parallel, ..Mesh::DEFAULT });
        spec.layout.placement.vocab_multiple = if tp > 1 { 8 } else { 5 };
        plan(spec)
    });
    assert_eq!(plans.map(|plan| plan.padded_vocab()), [48, 40]);
    let losses = |is_read: bool, plan: &Plan| {
        mean(&world(plan, is_read, |step| {
            if is_read {
                load(step, &folder);
            } else {
                train(step, plan);
                save(step, &folder);
            }
            train(step, plan)
        }))
    };
    let (before, behind) = (losses(false, &plans[0]), losses(true, &plans[1]));
    assert!((before - behind).abs() < 2e-6, "{before} and {behind}");
}
