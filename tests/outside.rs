//! What a rank takes beyond the tensors of its budget, counted by hand.

use moe_model::spec::{Attention, Experts, Gqa, Layers, Mesh, Spec, Switch};
use moe_model::{Bytes, Phase, Plan};

/// One layer of attention and a dense network.
fn spec() -> Spec {
    let mut spec = Spec::DEFAULT;
    (spec.architecture.hidden, spec.architecture.vocab) = (64, 100);
    spec.architecture.layers = Layers { dense: 1, ffn: 96, ..Layers::DEFAULT };
    spec.architecture.attention = Attention::Gqa(Gqa { heads: 2, kv_heads: 2, head_dim: 32, ..Gqa::DEFAULT });
    spec.layout.batch.sequence = 8;
    spec
}

fn plan(spec: Spec) -> Plan {
    Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"))
}

fn terms(plan: &Plan, stage: u64) -> Vec<u64> {
    plan.outside(stage).iter().map(|term| term.bytes.bytes()).collect()
}

const MIB: u64 = 1 << 20;

/// Small tensors share segments of 2 MiB: whatever they are, with what rounds them up they fill whole ones.
#[test]
fn small_tensors_share_segments() {
    let plan = plan(spec());
    let [rounding, segments, communicators] = terms(&plan, 0)[..] else { panic!("there are three terms") };
    let peak = plan.budget(0).peak();
    assert_eq!(peak.bytes() + rounding + segments, 2 * MIB, "{peak:?}");
    // Each of so many tensors grows by less than 512 bytes.
    let tensors: u64 = plan.explain(0, peak.phase).lines.iter().map(|line| line.entry.count).sum();
    assert!(rounding > 0 && rounding < 512 * tensors, "{rounding} of {tensors} tensors");
    assert_eq!(communicators, 0);
}

/// Between steps of a rank with one weight, a gradient and state, by hand.
#[test]
fn large_tensors_have_segments_of_their_own() {
    let mut spec = spec();
    // Logits of 300,000 x 8 in fp32 are 9,600,000 bytes, between 1 and 10 MiB; embedding and head of 64 x 300,000 in bf16
    // 38,400,000 each, which is 36.62 MiB.
    spec.architecture.vocab = 300_000;
    let plan = plan(spec);
    let lines = plan.explain(0, plan.budget(0).peak().phase).lines;
    let (mut small, mut middle, mut ends) = (0, 0, 0);
    for line in &lines {
        let tensors = line.bytes.bytes() / (line.entry.bytes().bytes() / line.entry.count);
        let one = (line.entry.bytes().bytes() / line.entry.count).div_ceil(512) * 512;
        match one {
            0..=1_048_576 => small += tensors * one,
            1_048_577..10_485_760 => middle += tensors * one,
            _ => ends += tensors * ((2 * MIB - one % (2 * MIB)) % (2 * MIB)),
        }
    }
    assert!(small > 0 && middle > 0 && ends > 0, "tensors of each size: {lines:?}");
    let rest = |all: u64, segment: u64| all.div_ceil(segment) * segment - all;
    assert_eq!(terms(&plan, 0)[1], ends + rest(small, 2 * MIB) + rest(middle, 20 * MIB));
    // 18.31 blocks of 2 MiB are 19 of them.
    let embedding = lines.iter().find(|line| line.entry.name == "lm_head.weight").expect("there is a head");
    assert_eq!(embedding.bytes, Bytes::new(38_400_000));
    assert_eq!(38_400_000 / (2 * MIB), 18);
}

/// A communicator for each group of several ranks, with the three buffers of one connection.
#[test]
fn groups_have_communicators() {
    let of = |mesh: Mesh| {
        let mut spec = spec();
        spec.architecture.layers = Layers { moe: 4, ..Layers::DEFAULT };
        spec.architecture.experts = Experts { routed: 8, active: 2, ffn: 64, ..Experts::DEFAULT };
        spec.layout.mesh = mesh;
        spec.layout.batch.count = 4;
        let plan = plan(spec);
        (0..plan.stages()).map(|stage| terms(&plan, stage)[2]).max().expect("there are stages")
    };
    let connection = 8 * 512 * 8 * 16 + 120 * 640 * 8 * 8 + (4 << 20);
    assert_eq!(connection, 9_633_792);
    assert_eq!(of(Mesh::DEFAULT), 0);
    // Data-parallel ranks alone, by whichever name.
    assert_eq!(of(Mesh { dp: 4, ..Mesh::DEFAULT }), connection);
    // Two of them hold half of the experts each: ep, and edp over the other.
    assert_eq!(of(Mesh { dp: 4, ep: 2, ..Mesh::DEFAULT }), 3 * connection);
    let both = Mesh { tp: 2, pp: 2, sequence_parallel: Switch::On, ..Mesh::DEFAULT };
    // Tensor-parallel ranks are the replicas of experts, too.
    assert_eq!(of(both), 2 * connection);
}

#[test]
fn terms_say_what_they_are() {
    let plan = plan(spec());
    for term in plan.outside(0) {
        assert!(term.to_string().ends_with(&format!("{}; {}", term.name, term.source)), "{term}");
        assert!(!term.source.is_empty());
    }
    assert_eq!(plan.budget(0).phase(Phase::Forward), plan.explain(0, Phase::Forward).total());
}
