//! What the heap gives a step on the CPU is what its ledger counts, but for a few handles and lists.

mod common;

use allocation_counter::{AllocationInfo, measure};
use common::{ADAMW, Random};
use moe_model_core::spec::{
    Accounting, Architecture, Attention, Batch, CorrectionBias, Dtype, Experts, Gqa, Kernel, Layers, Layout, Mesh, Mla,
    Precision, Recompute, Reference, Spec, Switch, Zero,
};
use moe_model_core::{Bytes, Phase, Plan};
use moe_model_gpu::device::{Device, Format};
use moe_model_gpu::shapes::{Dynamic, Lengths};
use moe_model_gpu::step::Step;
use moe_model_gpu::{Bf16, Host, Numerics};

/// What beside tensors lies on the heap.
const SLACK: i64 = 64 << 10;

const ARCHITECTURE: Architecture = Architecture {
    hidden: 64,
    vocab: 600,
    layers: Layers { dense: 1, moe: 2, ffn: 160, ..Layers::DEFAULT },
    attention: Attention::Gqa(Gqa { heads: 8, kv_heads: 2, head_dim: 16, ..Gqa::DEFAULT }),
    experts: Experts {
        routed: 4,
        shared: 1,
        active: 2,
        ffn: 96,
        correction_bias: CorrectionBias::On,
        ..Experts::DEFAULT
    },
    ..Architecture::DEFAULT
};

const LAYOUT: Layout = Layout {
    batch: Batch { sequence: 64, micro: 2, count: 1, ..Batch::DEFAULT },
    accounting: Accounting::REFERENCE,
    ..Layout::DEFAULT
};

fn plan(architecture: Architecture, layout: Layout) -> Plan {
    Plan::new(Spec { architecture, layout }).unwrap_or_else(|violations| panic!("{violations}"))
}

#[track_caller]
fn assert_near(what: &str, heap: i64, ledger: Bytes) {
    let ledger = ledger.bytes().cast_signed();
    assert!((heap - ledger).abs() <= SLACK, "{what}: {heap} bytes of the heap, {ledger} of the ledger");
}

/// Two steps of a rank, the second of them measured.
fn assert_counted<E: Format>(plan: Plan, stage: u64) {
    let (device, architecture) = (Host::new(1), plan.spec().architecture);
    let mut random = Random { seed: 3, vocab: architecture.vocab };
    // What operations work on beside tensors is set aside before.
    device.prepare(&Lengths::of(&plan, stage)).expect("there is room");
    let mut made = None;
    let make =
        || made = Some(Step::<_, Dynamic, E>::new(plan, stage, device, Numerics::usual(&architecture), &mut random));
    let heap = measure(make);
    let mut step = made.expect("it was made").unwrap_or_else(|error| panic!("{error}"));
    let standing = step.ledger().live();
    assert_near("weights and state", heap.bytes_current, standing);
    step.train(&mut random, ADAMW).unwrap_or_else(|error| panic!("{error}"));

    let ledger = step.ledger().clone();
    let above = |phase| Bytes::new(ledger.peak(phase).bytes() - standing.bytes());
    let heap = measure(|| assert!(step.gradients(&mut random, None).is_ok()));
    let (forward, backward) = (above(Phase::Forward), above(Phase::Backward));
    let most = forward.max(backward);
    assert!(
        standing.bytes().min(most.bytes()) > 8 * SLACK.cast_unsigned(),
        "{standing}, {most}: large beside what is not counted"
    );
    assert_near("forward and backward", peak(&heap), most);
    assert_near("behind them", heap.bytes_current, Bytes::new(0));
    let heap = measure(|| step.update(ADAMW).expect("it asks for nothing"));
    assert_near("the update", peak(&heap), above(Phase::OptimizerStep));
    assert_near("behind it", heap.bytes_current, Bytes::new(0));
    step.settle().expect("the budget holds");
}

fn peak(heap: &AllocationInfo) -> i64 {
    i64::try_from(heap.bytes_max).expect("a heap is not so large")
}

#[test]
fn a_whole_model() {
    assert_counted::<Bf16>(plan(ARCHITECTURE, LAYOUT), 0);
}

#[test]
fn a_whole_model_computed_again() {
    assert_counted::<Bf16>(plan(ARCHITECTURE, Layout { recompute: Recompute::Full, ..LAYOUT }), 0);
}

#[test]
fn scores_in_fp32() {
    let precision = Precision { weights: Dtype::Fp32, activations: Dtype::Fp32, ..Precision::DEFAULT };
    let accounting = Accounting::Reference(Reference { kernel: Kernel::Eager });
    let mla = Mla { heads: 4, q_rank: 48, kv_rank: 32, nope: 16, rope: 8, value: 16, ..Mla::DEFAULT };
    let architecture = Architecture { attention: Attention::Mla(mla), ..ARCHITECTURE };
    assert_counted::<f32>(plan(architecture, Layout { precision, accounting, ..LAYOUT }), 0);
}

#[test]
fn each_stage_of_a_part() {
    let mesh = Mesh { dp: 2, tp: 2, pp: 3, ep: 4, sequence_parallel: Switch::On, ..Mesh::DEFAULT };
    let batch = Batch { sequence: 128, count: 3, ..LAYOUT.batch };
    let plan = plan(ARCHITECTURE, Layout { mesh, batch, zero: Zero::OPTIMIZER, ..LAYOUT });
    for stage in 0..3 {
        assert_counted::<Bf16>(plan, stage);
    }
}
