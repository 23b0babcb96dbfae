//! Legal Specs: what a plan says that each rank holds is what dealing gives it.

use crate::cases;
use crate::deal::{Rank, deal, deal_evenly, things, world};
use crate::layers;
use crate::random::Case;
use crate::topics;
use moe_model::inventory::{Module, Role};
use moe_model::law::ADVICE;
use moe_model::sizes::{Dim, Over};
use moe_model::spec::{Attention, Mesh, Schedule, Split, ZeroGroups, ZeroStage};
use moe_model::{Entry, Group, Plan};
use std::sync::LazyLock;

/// Legal cases with their plans, the same in every run.
static PLANS: LazyLock<Vec<(Case, Plan)>> = LazyLock::new(|| {
    let legal = |case: Case| Some((case.clone(), Plan::new(case.spec).ok()?));
    let plans: Vec<_> = cases(6, 100, 4000).filter_map(legal).collect();
    assert!(plans.len() >= 600, "{} are legal", plans.len());
    plans
});

/// Asserts that a dimension's part is what each of so many ranks is dealt.
fn assert_dealt(dim: Dim, ranks: u64, case: &Case) {
    let hands = deal_evenly(&things(dim.global), ranks).unwrap_or_else(|| panic!("{dim:?} comes out even: {case:#?}"));
    assert_eq!(dim.local, hands[0].len() as u64, "{dim:?} over {ranks}: {case:#?}");
}

/// Whether a case does not follow a piece of advice.
fn is_advised(id: &str, case: &Case) -> bool {
    let advice = ADVICE.iter().find(|advice| advice.id == id).unwrap_or_else(|| panic!("there is advice `{id}`"));
    !advice.holds(&case.spec.numbers())
}

#[test]
fn sizes_are_what_is_dealt() {
    for (case, plan) in &*PLANS {
        let (sizes, architecture, layout) = (plan.sizes(), case.spec.architecture, case.spec.layout);
        let Mesh { tp, cp, ep, etp, .. } = layout.mesh;
        assert_dealt(sizes.heads, tp, case);
        assert_dealt(sizes.context, cp, case);
        if architecture.layers.dense > 0 {
            assert_dealt(sizes.dense_ffn, if layout.placement.dense_ffn == Split::Split { tp } else { 1 }, case);
        }
        if architecture.layers.moe > 0 {
            assert_dealt(sizes.local_experts, ep, case);
            assert_dealt(sizes.expert_ffn, etp, case);
        }
        if architecture.layers.moe > 0 && architecture.experts.shared > 0 {
            assert_dealt(sizes.shared_ffn, if layout.placement.shared_experts == Split::Split { tp } else { 1 }, case);
        }
        if let Attention::Gqa(gqa) = architecture.attention {
            let hands = topics::kv_hands(&things(gqa.kv_heads), tp).expect("key/value heads come out even");
            assert_eq!(sizes.kv_heads.local, hands[0].len() as u64);
            let copies = hands.iter().filter(|hand| hand.contains(&0)).count();
            assert_eq!(is_advised("kv-replicated", case), copies > 1, "{case:#?}");
        }
        let tokens = topics::tokens(&case.spec).expect("tokens come out even");
        assert_eq!(sizes.own_tokens.local, tokens[0].len() as u64);
        assert_eq!(plan.sequence_ranks(), tokens.len() as u64);
        let mut all = tokens.concat();
        all.sort_unstable();
        assert_eq!(all, things(layout.batch.sequence), "each token is somewhere once");
    }
}

/// Rows are added to the vocabulary one by one until it comes out even in whole multiples.
#[test]
fn the_vocabulary_is_padded_until_it_comes_out_even() {
    let mut padded = 0;
    for (case, plan) in &*PLANS {
        let (mesh, multiple) = (case.spec.layout.mesh, case.spec.layout.placement.vocab_multiple);
        let mut rows = case.spec.architecture.vocab;
        while topics::shards(rows, mesh.tp, multiple).is_none() {
            rows += 1;
        }
        assert_eq!(plan.padded_vocab(), rows, "{case:#?}");
        assert_dealt(plan.sizes().vocab, mesh.tp, case);
        let said = is_advised("vocab-padding", case);
        assert_eq!(said, rows > case.spec.architecture.vocab, "{case:#?}");
        padded += u64::from(said);
    }
    assert!(padded > 100, "{padded} are padded");
}

/// Each layer is where it was dealt to, chunk by chunk.
#[test]
fn chunks_hold_what_is_dealt() {
    for (case, plan) in &*PLANS {
        let ranks = layers::dealt(case).expect("layers come out even");
        for (rank, dealt) in (0..).zip(ranks) {
            assert_eq!(plan.chunks(), dealt.len() as u64, "{case:#?}");
            let chunk = |chunk| plan.chunk(rank, chunk).range().collect();
            let mut held: Vec<Vec<u64>> = (0..plan.chunks()).map(chunk).collect();
            let mut dealt = dealt;
            if case.spec.layout.schedule == Schedule::DualPipe {
                // Which direction comes first is another matter.
                held.sort_unstable();
                dealt.sort_unstable();
            }
            assert_eq!(held, dealt, "rank {rank}: {case:#?}");
        }
    }
}

/// Who holds the same parameters, by asking every rank, is the group that shares their state.
#[test]
fn replicas_are_those_that_hold_the_same() {
    for (case, plan) in &*PLANS {
        let (ranks, _) = world(&case.spec.layout.mesh);
        let experts = case.spec.architecture.layers.moe > 0;
        let holders = topics::slice_holders(&case.spec, &ranks);
        assert!(!experts || holders.iter().all(|holders| *holders == plan.edp()), "{case:#?}");
        for rank in &ranks {
            let dense = ranks.iter().filter(|other| (other.pp, other.tp) == (rank.pp, rank.tp));
            let expert = ranks.iter().filter(|other| (other.pp, other.ep, other.etp) == (rank.pp, rank.ep, rank.etp));
            let [dense, expert]: [Vec<u64>; 2] =
                [dense.map(|rank| rank.number).collect(), expert.map(|rank| rank.number).collect()];
            assert_eq!(plan.group(Group::CpDp, rank.number).into_iter().collect::<Vec<_>>(), dense);
            assert_eq!(plan.group(Group::Edp, rank.number).into_iter().collect::<Vec<_>>(), expert);
            if case.spec.layout.zero.groups != ZeroGroups::Uniform {
                let (instances, expert) = (case.spec.layout.zero.instances, expert.len() as u64);
                assert_eq!(plan.replicas(false) * instances, dense.len() as u64);
                let is_shared = experts && case.spec.layout.zero.expert != ZeroStage::None;
                assert!(!is_shared || plan.replicas(true) * instances == expert, "{case:#?}");
            }
        }
    }
}

/// What is dealt at once: all parameters of a group; or, where weights are shared out too, each tensor by itself, so many times.
fn dealt_at_once(weights: &[&Entry], stage: ZeroStage) -> Vec<(u64, u64)> {
    if stage != ZeroStage::Parameters {
        return vec![(weights.iter().map(|entry| entry.local_elements() * entry.count).sum(), 1)];
    }
    let tensors = weights.chunk_by(|one, next| one.name == next.name && !next.part.is_empty());
    tensors.map(|parts| (parts.iter().map(|part| part.local_elements()).sum(), parts[0].count)).collect()
}

/// The state of every parameter is on one of the ranks that share it, in equal shards but for padding at the end.
#[test]
fn state_is_dealt_to_replicas() {
    let mut sharded = 0;
    for (case, plan) in &*PLANS {
        let zero = case.spec.layout.zero;
        for stage in 0..plan.stages() {
            let inventory = plan.inventory(stage);
            for (expert, stage) in [(false, zero.dense), (true, zero.expert)] {
                let weights =
                    inventory.iter().filter(|entry| entry.role == Role::Weight && entry.expert_group == expert);
                let weights: Vec<&Entry> = weights.collect();
                let module = if expert { Module::ExpertState } else { Module::DenseState };
                let of_state = inventory.iter().find(|entry| entry.role == Role::FirstMoment && entry.module == module);
                let ways = if stage == ZeroStage::None { 1 } else { plan.replicas(expert) };
                // The fullest hand is what all have room for.
                let room = dealt_at_once(&weights, stage).into_iter().map(|(parameters, times)| {
                    let hands = deal(&things(parameters), ways);
                    assert_eq!(hands.concat(), things(parameters));
                    hands[0].len() as u64 * times
                });
                let held = of_state.map_or(0, |entry| entry.local_elements() * entry.count);
                assert_eq!(held, room.sum::<u64>(), "{case:#?}");
                sharded += u64::from(ways > 1 && held > 0);
            }
        }
    }
    assert!(sharded > 200, "{sharded} are sharded");
}

/// Along which axes, and where on each, a rank's part of a weight lies.
fn part(entry: &Entry, rank: &Rank) -> Vec<u64> {
    let place = |dim: &Dim| match dim.over {
        Over::Whole => None,
        Over::Tp => Some(rank.tp),
        Over::Ep => Some(rank.ep),
        Over::Etp => Some(rank.etp),
        other => panic!("no weight is split over {other:?}"),
    };
    entry.shape.iter().filter_map(place).collect()
}

/// Ranks can share the state of what all of them hold. Under `moe_block`, which is how a paper counts, shared experts that
/// are split over `tp` are the exception.
#[test]
fn ranks_that_share_state_hold_the_same_part() {
    let (mut shared, mut exceptions) = (0, 0);
    for (case, plan) in &*PLANS {
        let groups = case.spec.layout.zero.groups;
        let (ranks, _) = world(&case.spec.layout.mesh);
        let inventory = plan.inventory(0);
        let weights = inventory.iter().filter(|entry| entry.role == Role::Weight);
        for entry in weights.filter(|_| groups != ZeroGroups::Uniform) {
            let kind = if entry.expert_group { Group::Edp } else { Group::CpDp };
            let is_same = plan.groups(kind).all(|group| {
                let mut parts = ranks.iter().filter(|rank| group.has(rank.number)).map(|rank| part(entry, rank));
                let first = parts.next();
                parts.all(|part| Some(part) == first)
            });
            let may_differ = groups == ZeroGroups::MoeBlock && entry.module == Module::SharedExperts;
            assert!(is_same || may_differ, "{} of {case:#?}", entry.name);
            shared += u64::from(is_same);
            exceptions += u64::from(!is_same);
        }
    }
    assert!(shared > 1000 && exceptions > 0, "{shared} shared, {exceptions} exceptions");
}
