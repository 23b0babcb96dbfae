//! Laws of replicas: their batches, and state that they share out.

use super::{STAGE_RANKS, law};
use crate::key::Key;
use crate::law::Quantity::{self, Just, Of, Product};
use crate::law::Rule::{self, AtMost, Divides, Equal};
use crate::law::{Law, When};

const GLOBAL_BATCH: Quantity = Product(&[Key::BatchMicro, Key::MeshDp, Key::BatchCount]);

pub(super) const LAWS: &[Law] = &[
    law(
        "global-batch",
        &[Key::BatchGlobal, Key::BatchCount, Key::MeshDp],
        Equal(Of(Key::BatchGlobal), GLOBAL_BATCH),
        When::Given(Key::BatchGlobal),
        "every replica runs the same whole number of micro-batches",
    ),
    law(
        "zero-ways",
        &[Key::ZeroWays],
        Rule::Given(Key::ZeroWays),
        When::Uniform,
        "`zero.groups: uniform` shards over `zero.ways` ranks",
    ),
    law(
        "zero-ways-ranks",
        &[Key::ZeroWays],
        Divides(Of(Key::ZeroWays), STAGE_RANKS),
        When::UniformWays,
        "the ranks of a stage fall into groups that share its state",
    ),
    law(
        "zero-ways-unused",
        &[Key::ZeroWays, Key::ZeroGroups],
        AtMost(Of(Key::ZeroWays), Just(0)),
        When::ByGroup,
        "only `zero.groups: uniform` reads `zero.ways`; the other groups follow from the mesh",
    ),
    law(
        "zero-instances",
        &[Key::ZeroInstances],
        Divides(Of(Key::ZeroInstances), Product(&[Key::MeshDp, Key::MeshCp])),
        When::ByGroup,
        "each instance of the state is shared out over as many replicas of dense parameters",
    ),
    law(
        "zero-instances-experts",
        &[Key::ZeroInstances],
        Divides(Of(Key::ZeroInstances), Quantity::ExpertReplicas),
        When::ExpertZero,
        "each instance of the state is shared out over as many replicas of an expert",
    ),
    law(
        "zero-instances-unused",
        &[Key::ZeroInstances, Key::ZeroGroups],
        AtMost(Of(Key::ZeroInstances), Just(1)),
        When::Uniform,
        "under `zero.groups: uniform` `zero.ways` says over how many ranks state is shared out",
    ),
];
