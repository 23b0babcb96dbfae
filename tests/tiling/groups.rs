//! Groups of ranks, against looking for the ranks that differ along some axes alone.

use crate::deal::{Rank, world};
use moe_model::spec::{Attention, Experts, Gqa, Layers, Mesh, Spec, Switch};
use moe_model::{Coordinates, Group, Plan};

/// The plan of a mesh, of sizes that suit it; `None` where expert groups do not tile a stage.
fn plan(mesh: Mesh) -> Option<Plan> {
    let mut spec = Spec::DEFAULT;
    spec.architecture.layers = Layers { moe: mesh.pp, ..Layers::DEFAULT };
    spec.architecture.attention = Attention::Gqa(Gqa { heads: mesh.tp, kv_heads: 1, head_dim: 1, ..Gqa::DEFAULT });
    spec.architecture.experts = Experts { routed: mesh.ep, active: 1, ffn: mesh.etp, ..Experts::DEFAULT };
    spec.layout.batch.sequence = mesh.tp * mesh.cp;
    let sequence_parallel = if mesh.tp > 1 { Switch::On } else { Switch::Off };
    spec.layout.mesh = Mesh { sequence_parallel, ..mesh };
    Plan::new(spec).ok()
}

/// Plans of all small meshes.
fn plans() -> Vec<Plan> {
    let mut plans = Vec::new();
    for pp in 1..=2 {
        for degrees in 0..3_u64.pow(5) {
            let degree = |axis| degrees / 3_u64.pow(axis) % 3 + 1;
            let [tp, cp, dp, ep, etp] = [0, 1, 2, 3, 4].map(degree);
            plans.extend(plan(Mesh { tp, cp, dp, ep, etp, pp, ..Mesh::DEFAULT }));
        }
    }
    assert!(plans.len() > 100, "{} meshes are legal", plans.len());
    plans
}

/// The axes that members of a group have in common.
fn common(kind: Group, rank: &Rank) -> Vec<u64> {
    let Rank { tp, cp, dp, pp, etp, ep, edp, .. } = *rank;
    match kind {
        Group::Tp => vec![cp, dp, pp],
        Group::Cp => vec![tp, dp, pp],
        Group::Dp => vec![tp, cp, pp],
        Group::Pp => vec![tp, cp, dp],
        Group::TpCp => vec![dp, pp],
        Group::CpDp => vec![tp, pp],
        Group::Etp => vec![ep, edp, pp],
        Group::Ep => vec![etp, edp, pp],
        Group::EtpEp => vec![edp, pp],
        Group::Edp => vec![etp, ep, pp],
    }
}

/// How many a group should have.
fn degree(kind: Group, plan: &Plan) -> u64 {
    let Mesh { tp, cp, dp, pp, ep, etp, .. } = plan.spec().layout.mesh;
    match kind {
        Group::Tp => tp,
        Group::Cp => cp,
        Group::Dp => dp,
        Group::Pp => pp,
        Group::TpCp => tp * cp,
        Group::CpDp => cp * dp,
        Group::Etp => etp,
        Group::Ep => ep,
        Group::EtpEp => ep * etp,
        Group::Edp => plan.edp(),
    }
}

#[test]
fn groups_are_those_that_one_finds_by_looking() {
    for plan in plans() {
        let (ranks, _) = world(&plan.spec().layout.mesh);
        assert_eq!(plan.world(), ranks.len() as u64);
        for &kind in Group::ALL {
            for rank in &ranks {
                let alike = ranks.iter().filter(|other| common(kind, other) == common(kind, rank));
                let alike: Vec<u64> = alike.map(|other| other.number).collect();
                let group = plan.group(kind, rank.number);
                assert_eq!(group.into_iter().collect::<Vec<_>>(), alike, "{kind:?} of {rank:?}");
                assert_eq!((group.count, group.last()), (degree(kind, &plan), alike[alike.len() - 1]));
                assert!(ranks.iter().all(|other| group.has(other.number) == alike.contains(&other.number)));
            }
        }
    }
}

/// Each rank is in one group of each kind, its own.
#[test]
fn the_groups_of_a_kind_partition_the_world() {
    for plan in plans() {
        for &kind in Group::ALL {
            let groups: Vec<_> = plan.groups(kind).collect();
            let mut members: Vec<u64> = groups.iter().flat_map(|group| group.into_iter()).collect();
            members.sort_unstable();
            assert_eq!(members, (0..plan.world()).collect::<Vec<_>>(), "{kind:?}");
            for group in &groups {
                assert!(group.into_iter().all(|rank| plan.group(kind, rank) == *group), "{kind:?}");
            }
            assert!(groups.is_sorted_by_key(|group| group.first), "{kind:?}");
        }
    }
}

#[test]
fn coordinates_are_those_of_the_rank_order() {
    for plan in plans() {
        for Rank { number, tp, cp, dp, pp, etp, ep, edp } in world(&plan.spec().layout.mesh).0 {
            assert_eq!(plan.coordinates(number), Coordinates { tp, cp, dp, etp, ep, edp, pp });
            assert!(plan.ranks_of_stage(pp).contains(&number));
            let places = [(Group::Tp, tp), (Group::Cp, cp), (Group::Dp, dp), (Group::Pp, pp)];
            let expert_places = [(Group::Etp, etp), (Group::Ep, ep), (Group::Edp, edp)];
            for (kind, place) in places.into_iter().chain(expert_places) {
                assert_eq!(plan.group(kind, number).at(place), number, "{kind:?}");
            }
        }
    }
}

/// Sixteen ranks written out, as megatron-core 0.16 groups them in the order tp-cp-ep-dp-pp.
#[test]
fn sixteen_ranks() {
    let plan = plan(Mesh { tp: 2, cp: 2, dp: 2, pp: 2, ep: 4, ..Mesh::DEFAULT }).expect("the mesh is legal");
    let groups = |kind| plan.groups(kind).map(|group| group.into_iter().collect()).collect::<Vec<Vec<u64>>>();
    assert_eq!(groups(Group::Tp)[..3], [[0, 1], [2, 3], [4, 5]]);
    assert_eq!(groups(Group::Cp)[..3], [[0, 2], [1, 3], [4, 6]]);
    assert_eq!(groups(Group::Dp)[..3], [[0, 4], [1, 5], [2, 6]]);
    assert_eq!(groups(Group::CpDp), [[0, 2, 4, 6], [1, 3, 5, 7], [8, 10, 12, 14], [9, 11, 13, 15]]);
    assert_eq!(groups(Group::Ep), [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]);
    assert_eq!(groups(Group::Edp)[..5], [[0, 4], [1, 5], [2, 6], [3, 7], [8, 12]]);
    assert_eq!(groups(Group::Pp)[..2], [[0, 8], [1, 9]]);
}
