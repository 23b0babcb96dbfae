//! Laws of pipelines: stages, chunks and schedules.

use super::law;
use crate::key::Key;
use crate::law::Quantity::{self, Just, Of, Sum};
use crate::law::Rule::{self, AtLeast, AtMost, Divides, Equal};
use crate::law::{Law, When};
use crate::stages::CHUNKS_MAX;

pub(super) const LAWS: &[Law] = &[
    law(
        "layers-stages",
        &[Key::MeshPp, Key::StagesFirst, Key::StagesLast, Key::MeshVpp],
        Rule::LayersFallToStages,
        When::Layers,
        "stages between the first and the last hold the same number of layers, and none is dropped",
    ),
    law(
        "list-layers",
        &[Key::StagesList],
        Equal(Quantity::ListedLayers, Quantity::Layers),
        When::Listed,
        "a stage list holds every decoder layer once",
    ),
    law(
        "list-mtp",
        &[Key::StagesList],
        Equal(Quantity::ListedMtp, Of(Key::Mtp)),
        When::Listed,
        "a stage list holds every MTP module once",
    ),
    law(
        "list-stages",
        &[Key::StagesList],
        Equal(Quantity::ListedStages, Quantity::Places),
        When::Listed,
        "every rank of the pipeline holds the same number of listed stages",
    ),
    law(
        "list-alone",
        &[Key::StagesFirst, Key::StagesLast, Key::StagesEmbedding, Key::StagesLoss],
        AtMost(Sum(&[Key::StagesFirst, Key::StagesLast, Key::StagesEmbedding, Key::StagesLoss]), Just(0)),
        When::Listed,
        "a stage list says all of what the other keys of `stages` would",
    ),
    law(
        "schedule-chunks",
        &[Key::MeshVpp, Key::Schedule],
        Rule::ChunksOfSchedule,
        When::Always,
        "interleaved schedules run several chunks a rank, folded ones two, the others one",
    ),
    law(
        "chunks-max",
        &[Key::MeshVpp],
        AtMost(Of(Key::MeshVpp), Just(CHUNKS_MAX)),
        When::Chunked,
        "a rank of the pipeline holds a handful of chunks",
    ),
    law(
        "vpp-needs-pp",
        &[Key::MeshPp, Key::MeshVpp],
        AtLeast(Of(Key::MeshPp), Just(2)),
        When::Chunked,
        "chunks of a rank take turns with those of other ranks of the pipeline",
    ),
    law(
        "group-pipeline",
        &[Key::BatchGroup],
        AtLeast(Quantity::Group, Of(Key::MeshPp)),
        When::Interleaved,
        "a group of micro-batches fills the pipeline before it comes back for the next chunk",
    ),
    law(
        "group-count",
        &[Key::BatchCount, Key::BatchGroup],
        AtMost(Quantity::Group, Of(Key::BatchCount)),
        When::Interleaved,
        "a step of interleaved chunks has at least one whole group of micro-batches, `mesh.pp` of them by default",
    ),
    law(
        "group-last",
        &[Key::BatchCount, Key::BatchGroup],
        Rule::LastGroupFills,
        When::Interleaved,
        "micro-batches of interleaved chunks run in groups, the last of which fills the pipeline too",
    ),
    law(
        "group-unused",
        &[Key::BatchGroup],
        AtMost(Of(Key::BatchGroup), Just(0)),
        When::NotInterleaved,
        "only `schedule: interleaved` reads `batch.group`",
    ),
    law(
        "dual-pipe-ranks",
        &[Key::MeshPp],
        Divides(Just(2), Of(Key::MeshPp)),
        When::DualPipe,
        "each rank of DualPipe has one that mirrors it",
    ),
    law(
        "dual-pipe-count",
        &[Key::BatchCount],
        Divides(Just(2), Of(Key::BatchCount)),
        When::DualPipe,
        "half of the micro-batches enter DualPipe from either end",
    ),
    law(
        "dual-pipe-fill",
        &[Key::BatchCount],
        AtLeast(Of(Key::BatchCount), Quantity::Twice(Key::MeshPp)),
        When::DualPipes,
        "the steady state of DualPipe needs two micro-batches for each rank of the pipeline",
    ),
    law(
        "stages-weighed",
        &[Key::StagesFirst, Key::StagesLast],
        AtMost(Sum(&[Key::StagesFirst, Key::StagesLast]), Just(0)),
        When::Weighed,
        "where an end counts as a layer, the first and the last stage follow from the others",
    ),
];
