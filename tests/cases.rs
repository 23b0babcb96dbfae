//! Layouts that failed for real people, from public reports (`tests/data/invalid_layouts.jsonl`): each is refused at the
//! number that its right answer names, or accepted where that says so. Those that no key expresses yet are named with
//! what is missing.

use moe_model::spec::{
    Attention, Batch, Context, Dtype, Experts, Gqa, Layers, Mesh, Mla, Schedule, Spec, StageList, Stages, Switch,
    Target, Weighed, Zero,
};
use moe_model::{Key, Plan, Violation, judge};
use std::collections::BTreeSet;

/// What no key expresses yet, by case.
const NOT_EXPRESSED: &[(&str, &str)] = &[
    ("L07", "the tile of a kernel, which belongs to a backend"),
    ("L23", "several instances of the distributed optimizer"),
    ("L30", "what a backend supports"),
    ("L31", "rules of a serving engine"),
    ("L38", "packed sequences"),
    ("L39", "what a backend supports"),
    ("L49", "features that a framework excludes together"),
    ("L50", "recomputation by groups of layers"),
    ("L53", "MXFP8, which pads tokens to 32; of other fp8 recipes padding is counted (`tests/fp8.rs`)"),
];

/// The cases that a test below holds.
const HELD: &[&str] = &[
    "L01", "L03", "L04", "L06", "L08", "L12", "L14", "L15", "L17", "L18", "L19", "L21", "L24", "L26", "L27", "L32",
    "L33", "L36", "L40", "L43", "L45", "L46", "L48", "L51", "L54",
];

#[test]
fn every_case_is_held_or_named() {
    let file = include_str!("data/invalid_layouts.jsonl");
    let cases = file.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a line is JSON"));
    let ids: BTreeSet<String> = cases.map(|case| case["id"].as_str().expect("a case has an id").to_owned()).collect();
    let ours = HELD.iter().chain(NOT_EXPRESSED.iter().map(|(id, _)| id));
    assert_eq!(ours.map(|id| (*id).to_owned()).collect::<BTreeSet<_>>(), ids);
    assert_eq!(HELD.len() + NOT_EXPRESSED.len(), ids.len(), "no case is both");
}

/// A model whose widths divide by whatever the cases split them by.
fn moe(layers: u64, heads: u64, kv_heads: u64, routed: u64) -> Spec {
    let mut spec = Spec::DEFAULT;
    spec.architecture.hidden = 1024;
    spec.architecture.vocab = 27_720;
    spec.architecture.layers = Layers { dense: 0, moe: layers, ffn: 0, ..Layers::DEFAULT };
    spec.architecture.attention = Attention::Gqa(Gqa { heads, kv_heads, head_dim: 128, ..Gqa::DEFAULT });
    spec.architecture.experts = Experts { routed, active: 2, ffn: 27_720, ..Experts::DEFAULT };
    spec.layout.batch = Batch { sequence: 27_720, count: 64, ..Batch::DEFAULT };
    spec
}

fn dense(layers: u64) -> Spec {
    let mut spec = moe(0, 840, 840, 0);
    spec.architecture.layers = Layers { dense: layers, moe: 0, ffn: 27_720, ..Layers::DEFAULT };
    spec.architecture.experts = Experts::DEFAULT;
    spec
}

fn mesh(dp: u64, tp: u64, pp: u64, ep: u64) -> Mesh {
    let sequence_parallel = if tp > 1 { Switch::On } else { Switch::Off };
    Mesh { dp, tp, pp, ep, sequence_parallel, ..Mesh::DEFAULT }
}

/// The laws that a Spec breaks, with the key that each blames.
fn broken(spec: &Spec) -> Vec<(&'static str, &'static str)> {
    judge(spec).iter().map(|violation| (violation.id(), violation.at.path())).collect()
}

fn accepted(spec: Spec) -> Plan {
    Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"))
}

fn warnings(plan: &Plan) -> Vec<&'static str> {
    plan.warnings().iter().map(Violation::id).collect()
}

/// The values of a key, up to a bound, under which a Spec is legal.
fn legal(spec: &Spec, key: Key, most: u64) -> Vec<u64> {
    let is_legal = |value: &u64| {
        let mut spec = *spec;
        spec.set(key, *value);
        if key == Key::MeshTp {
            spec.layout.mesh.sequence_parallel = if *value > 1 { Switch::On } else { Switch::Off };
        }
        judge(&spec).is_empty()
    };
    (1..=most).filter(is_legal).collect()
}

/// L01: three GPUs, 64 heads and 256 experts: both rules at once.
#[test]
fn three_ranks_for_powers_of_two() {
    let mut spec = moe(8, 64, 64, 256);
    spec.layout.mesh = mesh(1, 3, 1, 3);
    assert_eq!(broken(&spec), [("experts-ep", "mesh.ep"), ("heads-tp", "mesh.tp"), ("kv-heads-tp", "mesh.tp")]);
    spec.layout.mesh = mesh(1, 1, 1, 1);
    // What divides the heads; 64 x 433 would be needed to split the rest by 16 and more.
    assert_eq!(legal(&spec, Key::MeshTp, 8), [1, 2, 4, 8]);
}

/// L08: 28 heads over 4 key/value heads. The report leaves out 28 = 7 x 4, which replicates each head evenly.
#[test]
fn heads_and_key_value_heads() {
    let mut spec = moe(28, 28, 4, 64);
    spec.layout.mesh = mesh(1, 8, 1, 1);
    assert_eq!(broken(&spec), [("heads-tp", "mesh.tp")]);
    assert_eq!(legal(&spec, Key::MeshTp, 28), [1, 2, 4, 28]);
}

/// L12: more ranks than key/value heads: legal, each head replicated, and said.
#[test]
fn key_value_heads_are_replicated() {
    let mut spec = moe(8, 16, 2, 64);
    spec.layout.mesh = mesh(1, 4, 1, 1);
    let plan = accepted(spec);
    assert_eq!(warnings(&plan), ["kv-replicated"]);
    let keys = |plan: &Plan| plan.inventory(0).iter().find(|e| e.name.contains("k_proj")).map(moe_model::Entry::bytes);
    let two = plan.changed(|spec| spec.layout.mesh = mesh(1, 2, 1, 1)).expect("a head for each rank");
    assert_eq!(keys(&plan), keys(&two), "a rank holds one head either way");
    spec.layout.target = Target::Torchtitan;
    spec.layout.mesh.ep = 4;
    assert_eq!(broken(&spec), [("torchtitan-kv-heads", "attention.kv_heads")], "which does not replicate them");
}

/// L03: fp8 in blocks of 128: experts of 768 over 4 ranks are 192 wide, a block and a half.
#[test]
fn blocks_of_an_expert() {
    let mut spec = moe(48, 32, 4, 128);
    spec.architecture.experts.ffn = 768;
    spec.layout.precision.weights = Dtype::Fp8;
    spec.layout.mesh = Mesh { etp: 4, ..mesh(72, 1, 1, 1) };
    accepted(spec);
    spec.layout.precision.block = 128;
    assert_eq!(broken(&spec), [("block-expert-ffn", "mesh.etp")]);
    assert_eq!(legal(&spec, Key::MeshEtp, 12), [1, 2, 3, 6]);
    // As in the catalogue: 1536 over 8 ranks is 192 too, while expert parallelism keeps it whole.
    spec.architecture.experts.ffn = 1536;
    assert_eq!(legal(&spec, Key::MeshEtp, 18), [1, 2, 3, 4, 6, 12]);
    (spec.layout.mesh.etp, spec.layout.mesh.ep) = (1, 8);
    accepted(spec);
}

/// L04: 32 ranks over blocks of 128: the dense network (576) and the experts (64) are cut, four heads a rank are not.
#[test]
fn blocks_of_every_network() {
    let mut spec = moe(58, 128, 128, 256);
    spec.architecture.layers = Layers { dense: 3, moe: 58, ffn: 18_432, ..Layers::DEFAULT };
    spec.architecture.attention =
        Attention::Mla(Mla { heads: 128, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128, ..Mla::DEFAULT });
    spec.architecture.experts = Experts { routed: 256, shared: 1, active: 8, ffn: 2048, ..Experts::DEFAULT };
    spec.layout.batch.sequence = 4096;
    spec.layout.mesh = Mesh { etp: 32, ..mesh(1, 32, 1, 1) };
    accepted(spec);
    spec.layout.precision.block = 128;
    let ids: Vec<&str> = broken(&spec).iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, ["block-dense-ffn", "block-expert-ffn", "block-shared-ffn"]);
}

/// L06: int4 in groups of 128, experts split as the tool in the report splits them, over the tensor-parallel ranks.
#[test]
fn groups_of_an_expert_split_over_tp() {
    let mut spec = moe(48, 32, 4, 128);
    spec.architecture.experts.ffn = 768;
    spec.layout.precision.block = 128;
    let is_legal = |tp: &u64| {
        let mut spec = spec;
        spec.layout.mesh = Mesh { etp: *tp, ..mesh(1, *tp, 1, 1) };
        judge(&spec).is_empty()
    };
    assert_eq!((1..=8).filter(is_legal).collect::<Vec<_>>(), [1, 2]);
}

/// L19: 60 layers as 4, six times 8, and 8 again: each a multiple of the four chunks of a rank.
#[test]
fn chunks_of_uneven_ranks() {
    let mut spec = dense(60);
    spec.layout.schedule = Schedule::Interleaved;
    spec.layout.mesh = Mesh { vpp: 4, ..mesh(1, 1, 8, 1) };
    assert_eq!(broken(&spec), [("layers-stages", "mesh.pp")]);
    spec.layout.stages = Stages { first: 4, last: 8, ..Stages::EVEN };
    let plan = accepted(spec);
    let layers = |stage| plan.stage(stage).layers();
    assert_eq!((0..8).map(layers).collect::<Vec<_>>(), [4, 8, 8, 8, 8, 8, 8, 8]);
    // The report's other split has its light stage last.
    spec.layout.stages = Stages { first: 8, last: 4, ..Stages::EVEN };
    accepted(spec);
}

/// L54: five layers a rank do not fall to chunks of two.
#[test]
fn chunks_of_five_layers() {
    let mut spec = dense(40);
    spec.layout.schedule = Schedule::Interleaved;
    spec.layout.mesh = Mesh { vpp: 2, ..mesh(1, 1, 8, 1) };
    let violations = judge(&spec);
    let violation = violations.first().expect("five layers are odd");
    assert_eq!(violation.id(), "layers-stages");
    assert!(violation.message(&spec).as_str().contains("does not divide the 5 layers of a rank"));
}

/// L43: a virtual stage of MTP and loss alone is legal; so is one of the embedding alone.
#[test]
fn ends_alone_on_a_virtual_stage() {
    let mut spec = moe(60, 64, 8, 256);
    spec.architecture.mtp = 1;
    spec.layout.schedule = Schedule::Interleaved;
    spec.layout.mesh = mesh(8, 1, 16, 8);
    spec.layout.stages.list = StageList::parse("E(|tt)*30,|mL");
    let plan = accepted(spec);
    assert_eq!((plan.chunks(), plan.chunk(0, 0).layers(), plan.chunk(15, 1).layers()), (2, 0, 0));
    assert_eq!((0..16).map(|stage| plan.stage(stage).layers()).sum::<u64>(), 60);
    spec.architecture.mtp = 2;
    assert_eq!(broken(&spec), [("list-mtp", "stages.list")]);
    (spec.architecture.mtp, spec.architecture.layers.moe) = (1, 61);
    assert_eq!(broken(&spec), [("list-layers", "stages.list")]);
}

/// L40: one framework does not run experts under ZeRO-3; the mathematics does.
#[test]
fn experts_under_zero_3() {
    let mut spec = moe(32, 32, 8, 8);
    spec.layout.mesh = mesh(8, 1, 1, 8);
    spec.layout.zero = Zero::PARAMETERS;
    accepted(spec);
    spec.layout.target = Target::Deepspeed;
    assert_eq!(broken(&spec), [("deepspeed-moe-zero", "zero.dense")]);
}

/// L14: 46 layers over 4 stages need a division of their own, and 64 ranks.
#[test]
fn forty_six_layers_over_four_stages() {
    let mut spec = moe(46, 96, 8, 128);
    spec.layout.mesh = mesh(2, 8, 4, 16);
    spec.layout.batch = Batch { sequence: 4096, micro: 2, count: 4, global: 16, group: 0 };
    spec.architecture.vocab = 151_552;
    spec.architecture.experts.ffn = 1408;
    assert_eq!(broken(&spec), [("layers-stages", "mesh.pp")]);
    spec.layout.stages = Stages { first: 11, last: 11, ..Stages::EVEN };
    let plan = accepted(spec);
    assert_eq!((0..4).map(|stage| plan.stage(stage).layers()).collect::<Vec<_>>(), [11, 12, 12, 11]);
    assert_eq!(plan.world(), 64);
    spec.layout.mesh.dp = 1;
    spec.layout.batch.global = 8;
    assert!(broken(&spec).iter().any(|(id, _)| *id == "expert-grid"), "32 ranks do not carry it");
}

/// L15, L17, L18, L51: layers that would have been dropped in silence.
#[test]
fn no_layer_is_dropped() {
    for (layers, pp, first, last) in [(30, 4, 0, 0), (48, 2, 11, 13), (20, 1, 0, 1), (7, 2, 0, 0), (40, 16, 0, 0)] {
        let mut spec = dense(layers);
        spec.layout.mesh = mesh(1, 1, pp, 1);
        spec.layout.stages = Stages { first, last, ..Stages::EVEN };
        let broken = broken(&spec);
        assert!(
            matches!(broken[..], [("layers-stages", at)] if at == "mesh.pp" || at.starts_with("stages.")),
            "{broken:?}"
        );
    }
    let mut spec = dense(20);
    spec.layout.stages = Stages { first: 0, last: 20, ..Stages::EVEN };
    accepted(spec);
}

/// L21: a legal layout that was refused because the expert tensor-parallel degree was taken for `tp`.
#[test]
fn expert_tensor_parallelism_is_one_unless_given() {
    let mut spec = moe(48, 32, 4, 128);
    spec.layout.mesh = Mesh { world: 4, ..mesh(1, 4, 1, 4) };
    assert_eq!(accepted(spec).edp(), 1);
    spec.layout.mesh.etp = 4;
    assert!(broken(&spec).iter().any(|(id, _)| *id == "expert-grid"));
}

/// L24: expert degrees that tile neither the ranks nor the experts.
#[test]
fn expert_degrees_tile_ranks_and_experts() {
    let mut spec = moe(8, 16, 16, 12);
    spec.layout.mesh = mesh(4, 2, 1, 3);
    assert_eq!(broken(&spec), [("expert-grid", "mesh.ep")]);
    let mut spec = moe(8, 16, 16, 8);
    spec.layout.mesh = mesh(8, 2, 1, 16);
    assert_eq!(broken(&spec), [("experts-ep", "mesh.ep")]);
}

/// L26: with ep = dp the experts' state is sharded over nobody, the dense state still is.
#[test]
fn expert_state_of_one_replica() {
    let mut spec = moe(8, 16, 16, 64);
    spec.layout.mesh = mesh(8, 1, 1, 8);
    spec.layout.zero = Zero::OPTIMIZER;
    let plan = accepted(spec);
    assert_eq!(warnings(&plan), ["expert-state-unsharded"]);
    assert_eq!((plan.replicas(false), plan.replicas(true)), (8, 1));
}

/// L27: fewer micro-batches than stages: under 1F1B and `GPipe` legal, and said; interleaved they must fill it.
#[test]
fn fewer_micro_batches_than_stages() {
    let mut spec = dense(8);
    spec.layout.mesh = mesh(1, 1, 8, 1);
    spec.layout.batch.count = 4;
    assert_eq!(warnings(&accepted(spec)), ["pipeline-bubble"]);
    spec.architecture.layers.dense = 16;
    (spec.layout.schedule, spec.layout.mesh.vpp) = (Schedule::Interleaved, 2);
    assert_eq!(broken(&spec), [("group-count", "batch.count")]);
    assert_eq!(legal(&spec, Key::BatchCount, 24), [8, 16, 24]);
}

/// L32: experts over tensor-parallel ranks need sequence parallelism, and that needs them.
#[test]
fn experts_over_tensor_parallel_ranks() {
    let mut spec = moe(32, 32, 8, 8);
    spec.layout.mesh = Mesh { sequence_parallel: Switch::Off, ..mesh(4, 2, 1, 8) };
    assert_eq!(broken(&spec), [("ep-needs-sp", "mesh.sequence_parallel")]);
    spec.layout.mesh = Mesh { sequence_parallel: Switch::On, ..mesh(8, 1, 1, 8) };
    assert_eq!(broken(&spec), [("sp-needs-tp", "mesh.sequence_parallel")]);
}

/// L33: fewer expert-parallel than tensor-parallel ranks, experts split: one framework's limit, no rule.
#[test]
fn experts_split_like_tensors() {
    let mut spec = moe(8, 16, 16, 8);
    spec.layout.mesh = Mesh { etp: 4, ..mesh(2, 4, 1, 2) };
    accepted(spec);
    spec.layout.target = Target::Torchtitan;
    assert_eq!(broken(&spec), [("torchtitan-ep-tp", "mesh.ep")]);
}

/// L36: ring and sequence parallelism together cut the sequence into cp x lcm(2, tp) pieces: 16 here, not 8 and not 32.
#[test]
fn pieces_of_a_ring() {
    let mut spec = dense(8);
    spec.layout.mesh = Mesh { cp: 4, context: Context::Ring, ..mesh(1, 4, 1, 1) };
    spec.layout.batch.sequence = 48;
    accepted(spec);
    spec.layout.batch.sequence = 40;
    assert_eq!(broken(&spec).iter().map(|(id, _)| *id).collect::<Vec<_>>(), ["sequence-ring"]);
}

/// L45: 94 layers over 32 stages, because embedding and loss count as a layer each; ep 8 leaves one replica of an expert.
#[test]
fn ends_count_as_layers() {
    let mut spec = moe(94, 64, 4, 128);
    spec.layout.mesh = mesh(8, 1, 32, 8);
    spec.layout.batch = Batch { sequence: 4096, micro: 4, count: 128, global: 4096, group: 0 };
    assert_eq!(broken(&spec), [("layers-stages", "mesh.pp")]);
    let as_layer = Weighed::AsLayer;
    spec.layout.stages = Stages { embedding: as_layer, loss: as_layer, ..Stages::EVEN };
    let plan = accepted(spec);
    assert_eq!((plan.world(), plan.edp()), (256, 1));
    assert_eq!([0, 15, 31].map(|stage| plan.stage(stage).layers()), [2, 3, 2]);
    // The report interleaves three chunks of each rank: 96 virtual stages of one layer or end.
    (spec.layout.schedule, spec.layout.mesh.vpp) = (Schedule::Interleaved, 3);
    let plan = accepted(spec);
    assert_eq!([0, 15, 31].map(|stage| plan.stage(stage).layers()), [2, 3, 2]);
    assert_eq!([plan.chunk(0, 0), plan.chunk(31, 2)].map(moe_model::Chunk::layers), [0, 0]);
}

/// L46: a global batch that seven replicas cannot share out.
#[test]
fn a_global_batch_for_seven_replicas() {
    let mut spec = dense(8);
    spec.layout.mesh = mesh(7, 1, 1, 1);
    spec.layout.batch = Batch { micro: 2, count: 18, global: 256, ..spec.layout.batch };
    let violations = judge(&spec);
    let violation = violations.first().expect("256 is not 2 x 7 x 18");
    assert_eq!((violation.id(), violation.at, violation.below), ("global-batch", Key::BatchGlobal, Some(252)));
    spec.layout.mesh.dp = 8;
    spec.layout.batch.count = 16;
    accepted(spec);
}

/// L48: 61 layers over 4 stages with a lighter last one.
#[test]
fn sixty_one_layers_over_four_stages() {
    let mut spec = dense(61);
    spec.layout.mesh = mesh(1, 1, 4, 1);
    spec.layout.stages = Stages { first: 0, last: 13, ..Stages::EVEN };
    let plan = accepted(spec);
    assert_eq!((0..4).map(|stage| plan.stage(stage).layers()).collect::<Vec<_>>(), [16, 16, 16, 13]);
    assert_eq!(plan.in_flight(0), 4, "the first stage holds four micro-batches, so a lighter first would help more");
}
