//! Layers, dealt to the stages that a micro-batch passes.

use crate::deal::deal_evenly;
use crate::random::Case;
use moe_model::spec::{Schedule, Stages, Weighed};
use std::collections::BTreeSet;

/// The ranks that a micro-batch passes in forward, one path for each end that micro-batches enter at; `None` where the
/// schedule does not run that many chunks a rank.
fn paths(case: &Case) -> Option<Vec<Vec<u64>>> {
    let mesh = case.spec.layout.mesh;
    let down: Vec<u64> = (0..mesh.pp).collect();
    let up: Vec<u64> = (0..mesh.pp).rev().collect();
    let paths = match case.spec.layout.schedule {
        Schedule::Gpipe | Schedule::OneFOneB | Schedule::ZbH1 => vec![down],
        Schedule::ZbV | Schedule::DualPipeV => vec![[down, up].concat()],
        Schedule::DualPipe => vec![down, up],
        Schedule::Interleaved => vec![down.repeat(rounds(case)?)],
    };
    let visits = |rank: u64| paths.iter().flatten().filter(|other| **other == rank).count() as u64;
    let declared = (0..mesh.pp).all(|rank| mesh.vpp == 0 || visits(rank) == mesh.vpp);
    // A rank that is passed more than once has others that are passed in between.
    let takes_turns = mesh.pp > 1 || visits(0) == 1;
    (declared && takes_turns).then_some(paths)
}

/// How often an interleaved micro-batch comes round: as declared, or until every listed stage was passed. Once round is
/// not interleaved.
fn rounds(case: &Case) -> Option<usize> {
    let ranks = usize::try_from(case.spec.layout.mesh.pp).expect("ranks are few");
    let listed = case.list.as_ref().map_or(0, Vec::len);
    let mut rounds = usize::try_from(case.spec.layout.mesh.vpp).expect("chunks are few");
    while case.spec.layout.mesh.vpp == 0 && rounds * ranks < listed {
        rounds += 1;
    }
    (rounds > 1).then_some(rounds)
}

/// What lies on a stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Item {
    Embedding,
    Layer(u64),
    Loss,
}

/// The layers of each stage along a path.
fn stages(case: &Case, path: &[u64]) -> Option<Vec<Vec<u64>>> {
    let layers: Vec<u64> = (0..case.spec.architecture.layers.count()).collect();
    let Stages { first, last, embedding, loss, .. } = case.spec.layout.stages;
    if let Some(list) = &case.list {
        listed(list, &layers, case.spec.architecture.mtp, path)
    } else if embedding == Weighed::AsLayer || loss == Weighed::AsLayer {
        weighed(&layers, embedding, loss, path.len())
    } else if case.spec.layout.schedule == Schedule::Interleaved {
        rounds_alike(&layers, case, path)
    } else {
        apart(&layers, first, last, path.len())
    }
}

/// As the letters say; every letter must find its thing, and every thing its letter.
fn listed(list: &[String], layers: &[u64], mtp: u64, path: &[u64]) -> Option<Vec<Vec<u64>>> {
    let (mut left, mut modules) = (layers.iter().copied(), mtp);
    let mut stages = Vec::new();
    for letters in list {
        let mut stage = Vec::new();
        for letter in letters.chars() {
            match letter {
                't' => stage.push(left.next()?),
                'm' => modules = modules.checked_sub(1)?,
                _ => {}
            }
        }
        stages.push(stage);
    }
    (left.next().is_none() && modules == 0 && stages.len() == path.len()).then_some(stages)
}

/// The ends are things like layers.
fn weighed(layers: &[u64], embedding: Weighed, loss: Weighed, places: usize) -> Option<Vec<Vec<u64>>> {
    let mut items: Vec<Item> = layers.iter().map(|layer| Item::Layer(*layer)).collect();
    if embedding == Weighed::AsLayer {
        items.insert(0, Item::Embedding);
    }
    if loss == Weighed::AsLayer {
        items.push(Item::Loss);
    }
    let layer = |item: &Item| if let Item::Layer(layer) = item { Some(*layer) } else { None };
    let dealt = deal_evenly(&items, places as u64)?;
    Some(dealt.iter().map(|stage| stage.iter().filter_map(layer).collect()).collect())
}

/// The first and the last stage take what they are said to; the others share the rest.
fn apart(layers: &[u64], first: u64, last: u64, places: usize) -> Option<Vec<Vec<u64>>> {
    let [first, last] = [first, last].map(|count| usize::try_from(count).expect("layers are few"));
    let between = places.checked_sub(usize::from(first > 0) + usize::from(last > 0))?;
    let end = layers.len().checked_sub(last)?;
    let rest = layers.get(first..end)?;
    let mut stages = Vec::new();
    if first > 0 {
        stages.push(layers[..first].to_vec());
    }
    match between {
        0 if rest.is_empty() => {}
        0 => return None,
        _ => stages.extend(deal_evenly(rest, between as u64)?),
    }
    if last > 0 {
        stages.push(layers[end..].to_vec());
    }
    Some(stages)
}

/// Each rank takes its number of layers, and the same part of it in every round.
fn rounds_alike(layers: &[u64], case: &Case, path: &[u64]) -> Option<Vec<Vec<u64>>> {
    let Stages { first, last, .. } = case.spec.layout.stages;
    let ranks = usize::try_from(case.spec.layout.mesh.pp).expect("ranks are few");
    let rounds = path.iter().filter(|rank| **rank == 0).count() as u64;
    let of_ranks = apart(layers, first, last, ranks)?;
    let each: Vec<usize> =
        of_ranks.iter().map(|rank| Some(deal_evenly(rank, rounds)?[0].len())).collect::<Option<_>>()?;
    let mut left = layers.iter().copied();
    Some(path.iter().map(|rank| left.by_ref().take(each[usize::try_from(*rank).expect("few")]).collect()).collect())
}

/// What each rank of the pipeline holds, chunk by chunk; `None` where a layer is dropped, held too often, or where stages
/// that should be alike are not.
pub(crate) fn dealt(case: &Case) -> Option<Vec<Vec<Vec<u64>>>> {
    let paths = paths(case)?;
    // DualPipe says that each stage is on two ranks, all else that it is on one.
    let copies = if case.spec.layout.schedule == Schedule::DualPipe { 2 } else { 1 };
    let holders = |place: usize| paths.iter().map(|path| path[place]).collect::<BTreeSet<u64>>().len();
    if (0..paths[0].len()).any(|place| holders(place) != copies) {
        return None;
    }
    let mut ranks = vec![Vec::new(); usize::try_from(case.spec.layout.mesh.pp).expect("ranks are few")];
    let layers: Vec<u64> = (0..case.spec.architecture.layers.count()).collect();
    // A model without layers is another law's to refuse.
    if layers.is_empty() && case.list.is_none() {
        return Some(ranks);
    }
    for path in &paths {
        let stages = stages(case, path)?;
        // In the order of the model, each once.
        if stages.concat() != layers {
            return None;
        }
        for (rank, stage) in path.iter().zip(stages) {
            ranks[usize::try_from(*rank).expect("ranks are few")].push(stage);
        }
    }
    Some(ranks)
}
