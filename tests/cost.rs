//! What a forward and recomputation cost, against parameters that a token meets and sums by hand.

use moe_model::cost::Cost;
use moe_model::preset::{DEEPSEEK_V3, LLAMA_3_1_8B, MIXTRAL_8X7B, QWEN3_30B_A3B};
use moe_model::spec::{
    Accounting, Architecture, Batch, Dtype, Layout, Mesh, Modules, Precision, Recompute, Spec, Switch, Zero, ZeroStage,
};
use moe_model::{Bytes, Group, Plan, Role};

/// On one rank a forward multiplies every token with each weight that it meets, twice in operations: as many as there are
/// active parameters, vectors apart, and those of attention's scores.
#[test]
fn a_forward_multiplies_what_a_token_meets() {
    for (architecture, pairs) in [
        // Queries and keys of 192, values of 128, 128 heads; of 61 layers.
        (DEEPSEEK_V3, 61 * 128 * (192 + 128)),
        (QWEN3_30B_A3B, 48 * 32 * (128 + 128)),
    ] {
        let mut spec = Spec { architecture: Architecture { mtp: 0, ..architecture }, ..Spec::DEFAULT };
        spec.layout.batch = Batch { sequence: 512, ..Batch::DEFAULT };
        let plan = Plan::new(spec).expect("it is legal");
        let vectors: u64 = plan
            .inventory(0)
            .iter()
            .filter(|entry| entry.role == Role::Weight && entry.shape[1].global == 1)
            .map(|entry| entry.local_elements() * entry.count)
            .sum();
        let met = spec.architecture.active_without_input_embedding() - vectors;
        let forward = plan.forward_cost(0);
        assert_eq!(forward.operations, 2 * 512 * (met + 512 * pairs));
        // Alone, a rank sends nothing.
        let sent = [forward.all_to_all, forward.tensor, forward.context];
        assert_eq!(sent, [Bytes::ZERO; 3]);
        assert_eq!(plan.recompute_cost(0), Cost::default());
    }
}

/// What recomputation does again is part of a forward, shared out over ranks as that is; what it costs to compute experts
/// again is what goes to them.
#[test]
fn recomputation_costs_parts_of_a_forward() {
    let mut spec = Spec { architecture: Architecture { mtp: 0, ..DEEPSEEK_V3 }, ..Spec::DEFAULT };
    spec.layout.mesh = Mesh { dp: 4, tp: 2, ep: 8, sequence_parallel: Switch::On, ..Mesh::DEFAULT };
    spec.layout.batch = Batch { sequence: 4096, ..Batch::DEFAULT };
    spec.layout.accounting = Accounting::MEGATRON_CORE;
    let with = |modules: Modules| {
        let layout = Layout { recompute: Recompute::Selective, modules, ..spec.layout };
        Plan::new(Spec { layout, ..spec }).unwrap_or_else(|violations| panic!("{violations}")).recompute_cost(0)
    };
    let on = Switch::On;
    let core = with(Modules { core_attention: on, ..Modules::DEFAULT });
    // Half of the heads, all pairs of tokens.
    assert_eq!(core.operations, 2 * 4096 * 4096 * 61 * 64 * (192 + 128));
    assert_eq!((core.all_to_all, core.tensor), (Bytes::ZERO, Bytes::ZERO));
    assert_eq!(with(Modules { norms: on, activation: on, ..Modules::DEFAULT }), Cost::default());
    let experts = with(Modules { experts: on, ..Modules::DEFAULT });
    // 2048 tokens of its own, 8 copies each in bf16, seven of eight to other ranks, there and back, in 58 layers.
    assert_eq!(experts.all_to_all.bytes(), 58 * 2 * 7 * 2048 * 7168 * 2);
    // Shared experts gather the sequence and reduce what they make: half of it goes to the other rank, each time.
    assert_eq!(experts.tensor.bytes(), 58 * 2 * 4096 * 7168 * 2 / 2);
    let shared = with(Modules { shared_experts: on, ..Modules::DEFAULT });
    assert_eq!((shared.tensor, shared.all_to_all), (experts.tensor, Bytes::ZERO));
    assert_eq!(shared.operations, 58 * 2 * 4096 * 3 * 7168 * 1024);
    // Balanced, routed experts see as many rows as a rank's own tokens make copies.
    let routed = 58 * 2 * 2048 * (8 * 3 * 7168 * 2048 + 256 * 7168);
    assert_eq!(experts.operations, shared.operations + routed);
    assert_eq!(with(Modules { experts: on, shared_experts: on, ..Modules::DEFAULT }), experts);
}

/// Of the first layers computed again each costs its own forward, and all of them what `full` does.
#[test]
fn the_first_layers_cost_their_own_forward() {
    let mut spec = Spec { architecture: Architecture { mtp: 0, ..DEEPSEEK_V3 }, ..Spec::DEFAULT };
    spec.layout.mesh = Mesh { dp: 8, ep: 8, ..Mesh::DEFAULT };
    spec.layout.batch = Batch { sequence: 4096, ..Batch::DEFAULT };
    let first = |layers: u64| {
        let layout = Layout { recompute: Recompute::Full, recompute_layers: layers, ..spec.layout };
        Plan::new(Spec { layout, ..spec }).unwrap_or_else(|violations| panic!("{violations}")).recompute_cost(0)
    };
    // Three dense layers, then 58 with experts.
    let (dense, four) = (first(1), first(4));
    let moe = four.operations - 3 * dense.operations;
    assert_eq!(dense.all_to_all, Bytes::ZERO);
    assert_eq!(first(2).operations, 2 * dense.operations);
    assert_eq!(first(61).operations, 3 * dense.operations + 58 * moe);
    assert_eq!(first(61).all_to_all.bytes(), 58 * four.all_to_all.bytes());
    assert_eq!([first(0), first(1000)], [first(61); 2]);
    // In runs each layer still runs forward once more.
    let layout = Layout { recompute: Recompute::Full, recompute_together: 4, ..spec.layout };
    let runs = Plan::new(Spec { layout, ..spec }).unwrap_or_else(|violations| panic!("{violations}"));
    assert_eq!(runs.recompute_cost(0), first(0));
}

/// Of a model without experts, everything in one format and one micro-batch, replicas send 2, 2, 2 and 3 times the parameters
/// (arXiv:1910.02054, section 7), but for the part that each has itself.
#[test]
fn zero_sends_what_its_paper_says() {
    let mut spec = Spec { architecture: LLAMA_3_1_8B, ..Spec::DEFAULT };
    spec.layout.mesh = Mesh { dp: 64, ..Mesh::DEFAULT };
    spec.layout.batch = Batch { sequence: 4096, ..Batch::DEFAULT };
    spec.layout.precision = Precision { gradients: Dtype::Bf16, ..Precision::DEFAULT };
    let parameters = LLAMA_3_1_8B.parameters().total();
    assert_eq!(parameters % 64, 0);
    let one = 2 * parameters / 64 * 63;
    let sent = |spec: Spec, zero: Zero| {
        let layout = Layout { zero, ..spec.layout };
        Plan::new(Spec { layout, ..spec }).unwrap_or_else(|violations| panic!("{violations}")).replica_traffic(0)
    };
    let stages = ZeroStage::ALL.iter().map(|stage| sent(spec, Zero::both(*stage)));
    let totals: Vec<u64> = stages.map(|traffic| traffic.total().bytes()).collect();
    assert_eq!(totals, [2 * one, 2 * one, 2 * one, 3 * one]);
    // Of several micro-batches, what is sharded is reduced, or gathered, for each of them.
    spec.layout.batch.count = 4;
    let totals: Vec<[u64; 2]> = ZeroStage::ALL
        .iter()
        .map(|stage| sent(spec, Zero::both(*stage)))
        .map(|traffic| [traffic.gradients, traffic.weights].map(Bytes::bytes))
        .collect();
    assert_eq!(totals, [[2 * one, 0], [one, one], [4 * one, one], [4 * one, 8 * one]]);
    // Held twice, state is summed over 32 replicas each, and between the two of them.
    let twice = sent(spec, Zero { instances: 2, ..Zero::OPTIMIZER });
    let shard = 2 * parameters / 32;
    assert_eq!([twice.gradients, twice.weights].map(Bytes::bytes), [31 * shard + shard, 31 * shard]);
}

/// Experts have fewer replicas than all else: none where each is on one rank.
#[test]
fn replicas_of_experts_are_their_own() {
    let mut spec = Spec { architecture: Architecture { mtp: 0, ..DEEPSEEK_V3 }, ..Spec::DEFAULT };
    spec.layout.mesh = Mesh { dp: 32, ep: 8, ..Mesh::DEFAULT };
    spec.layout.batch = Batch { sequence: 4096, ..Batch::DEFAULT };
    spec.layout.zero = Zero::OPTIMIZER;
    let experts = 58 * 256 * 3 * 7168 * 2048;
    let dense = DEEPSEEK_V3.parameters().total() - experts;
    let sent = |spec: Spec| Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}")).replica_traffic(0);
    assert_eq!(dense % 32, 0);
    assert_eq!(sent(spec).gradients.bytes(), 4 * (dense / 32 * 31 + experts / 8 / 4 * 3));
    spec.layout.mesh.ep = 32;
    assert_eq!(sent(spec).gradients.bytes(), 4 * (dense / 32 * 31));
}

/// What the reference step lists for replicas, which worlds send to the byte, is the same where it shards as much.
#[test]
fn replicas_send_what_the_reference_step_sends() {
    let mut spec = Spec { architecture: MIXTRAL_8X7B, ..Spec::DEFAULT };
    spec.layout.mesh = Mesh { dp: 8, tp: 2, ep: 4, sequence_parallel: Switch::On, ..Mesh::DEFAULT };
    spec.layout.batch = Batch { sequence: 4096, count: 4, ..Batch::DEFAULT };
    spec.layout.accounting = Accounting::REFERENCE;
    for zero in [Zero::NONE, Zero::OPTIMIZER, Zero::GRADIENTS, Zero::PARAMETERS] {
        spec.layout.zero = zero;
        let plan = Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"));
        let listed = plan.traffic(0).expect("it is of the reference step");
        let of_replicas = listed.iter().filter(|sent| matches!(sent.group, Group::CpDp | Group::Edp));
        let (weights, gradients): (Vec<_>, Vec<_>) = of_replicas.partition(|sent| sent.what.starts_with("weights"));
        let total = |sent: &[&moe_model::traffic::Sent]| sent.iter().map(|sent| sent.total()).sum::<Bytes>();
        let ours = plan.replica_traffic(0);
        // Backward of the embedding does not read its table: seven of eight ranks are sent an eighth, in bf16, four times.
        let table = if zero == Zero::PARAMETERS { 32_000 / 2 * 4096 / 8 * 7 * 2 * 4 } else { 0 };
        let kept = total(&weights).plus(Bytes::new(table));
        assert_eq!((total(&gradients), kept), (ours.gradients, ours.weights), "{zero:?}");
        assert!(ours.gradients > Bytes::ZERO);
    }
}
