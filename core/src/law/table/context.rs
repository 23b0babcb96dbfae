//! Laws of sequences that context parallelism splits.

use super::law;
use crate::key::Key;
use crate::law::Quantity::{self, Just, Of, Product};
use crate::law::Rule::{self, AtMost, Divides, EitherDivides};
use crate::law::{Law, When};

pub(super) const LAWS: &[Law] = &[
    law(
        "sequence-cp",
        &[Key::MeshCp, Key::BatchSequence],
        Divides(Of(Key::MeshCp), Of(Key::BatchSequence)),
        When::NoSequenceParallel,
        "context parallelism splits the sequence",
    ),
    law(
        "sequence-sp",
        &[Key::MeshTp, Key::MeshCp, Key::BatchSequence],
        Divides(Product(&[Key::MeshCp, Key::MeshTp]), Of(Key::BatchSequence)),
        When::WholeSequence,
        "context and sequence parallelism together split the sequence",
    ),
    law(
        "sequence-ring",
        &[Key::MeshCp, Key::MeshTp, Key::BatchSequence],
        Divides(Quantity::RingPieces, Of(Key::BatchSequence)),
        When::Ring,
        "each rank of a load-balanced ring holds two pieces, each of them split by sequence parallelism",
    ),
    law(
        "heads-context",
        &[Key::MeshCp, Key::AttentionHeads],
        Divides(Product(&[Key::MeshTp, Key::MeshCp]), Of(Key::AttentionHeads)),
        When::AllToAll,
        "all-to-all context parallelism deals the heads of a tensor-parallel rank over context-parallel ranks",
    ),
    law(
        "kv-heads-context",
        &[Key::MeshCp, Key::AttentionKvHeads],
        EitherDivides(Product(&[Key::MeshTp, Key::MeshCp]), Of(Key::AttentionKvHeads)),
        When::GqaAllToAll,
        "all-to-all context parallelism deals key/value heads too, or replicates each the same number of times",
    ),
    law(
        "mixer-heads-context",
        &[Key::MeshCp, Key::MixerHeads],
        Divides(Product(&[Key::MeshTp, Key::MeshCp]), Of(Key::MixerHeads)),
        When::MixerAllToAll,
        "all-to-all context parallelism deals the heads of a tensor-parallel rank over context-parallel ranks",
    ),
    law(
        "mixer-kv-heads-context",
        &[Key::MeshCp, Key::MixerKvHeads],
        EitherDivides(Product(&[Key::MeshTp, Key::MeshCp]), Of(Key::MixerKvHeads)),
        When::MixerAllToAll,
        "all-to-all context parallelism deals key/value heads too, or replicates each the same number of times",
    ),
    law(
        "cp-inner-given",
        &[Key::MeshCpInner],
        Rule::Given(Key::MeshCpInner),
        When::Hierarchical,
        "hierarchical context parallelism has an inner degree, that of its all-to-all",
    ),
    law(
        "cp-inner",
        &[Key::MeshCpInner, Key::MeshCp],
        Divides(Of(Key::MeshCpInner), Of(Key::MeshCp)),
        When::Inner,
        "the product of the levels of context parallelism is its degree",
    ),
    law(
        "cp-inner-unused",
        &[Key::MeshCpInner],
        AtMost(Of(Key::MeshCpInner), Just(0)),
        When::NotHierarchical,
        "only `context: hierarchical` reads `mesh.cp_inner`",
    ),
    law(
        "heads-inner",
        &[Key::MeshCpInner, Key::AttentionHeads],
        Divides(Product(&[Key::MeshTp, Key::MeshCpInner]), Of(Key::AttentionHeads)),
        When::Inner,
        "the inner level deals the heads of a tensor-parallel rank over its ranks",
    ),
    law(
        "kv-heads-inner",
        &[Key::MeshCpInner, Key::AttentionKvHeads],
        EitherDivides(Product(&[Key::MeshTp, Key::MeshCpInner]), Of(Key::AttentionKvHeads)),
        When::GqaInner,
        "the inner level deals key/value heads too, or replicates each the same number of times",
    ),
    law(
        "mixer-heads-inner",
        &[Key::MeshCpInner, Key::MixerHeads],
        Divides(Product(&[Key::MeshTp, Key::MeshCpInner]), Of(Key::MixerHeads)),
        When::MixerInner,
        "the inner level deals the heads of a tensor-parallel rank over its ranks",
    ),
    law(
        "mixer-kv-heads-inner",
        &[Key::MeshCpInner, Key::MixerKvHeads],
        EitherDivides(Product(&[Key::MeshTp, Key::MeshCpInner]), Of(Key::MixerKvHeads)),
        When::MixerInner,
        "the inner level deals key/value heads too, or replicates each the same number of times",
    ),
];
