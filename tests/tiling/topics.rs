//! What is dealt, topic by topic: the simulation, and the laws that must hold exactly where it succeeds.

use crate::deal::{Rank, deal, deal_evenly, holds_whole_blocks, things, world};
use crate::layers;
use crate::random::Case;
use moe_model::Spec;
use moe_model::spec::{
    Attention, Compressed, Context, Gqa, Kda, Lightning, LocalGqa, Mamba2, Mixer, Mla, Schedule, Split, ZeroGroups,
    ZeroStage,
};

/// Things that are dealt together, and the laws that say when that comes out even.
pub(crate) struct Topic {
    pub(crate) name: &'static str,
    pub(crate) laws: &'static [&'static str],
    pub(crate) comes_out: fn(&Case) -> bool,
}

/// Every topic. Laws that only mean something where others hold stand beside those.
pub(crate) const TOPICS: &[Topic] = &[
    Topic { name: "ranks", laws: &["world-grid"], comes_out: ranks },
    Topic { name: "query heads", laws: &["heads-tp"], comes_out: query_heads },
    Topic { name: "key/value heads", laws: &["kv-heads-tp"], comes_out: kv_heads },
    Topic { name: "heads of a key/value head", laws: &["kv-heads"], comes_out: heads_of_kv_heads },
    Topic { name: "attention", laws: &["heads-tp", "kv-heads", "kv-heads-tp"], comes_out: attention },
    Topic { name: "heads of a mixer", laws: &["mixer-heads-tp"], comes_out: mixer_heads },
    Topic {
        name: "key/value heads of a mixer",
        laws: &["mixer-kv-heads", "mixer-kv-heads-tp"],
        comes_out: mixer_kv_heads,
    },
    Topic {
        name: "heads of keys and values",
        laws: &["mixer-key-heads-tp", "mixer-value-heads"],
        comes_out: key_and_value_heads,
    },
    Topic { name: "channels of a mixer", laws: &["mixer-inner-tp"], comes_out: channels },
    Topic { name: "groups of a mixer", laws: &["mixer-groups", "mixer-groups-tp"], comes_out: mixer_groups },
    Topic { name: "groups of outputs", laws: &["output-groups", "output-groups-tp"], comes_out: output_groups },
    Topic { name: "hidden width", laws: &["head-dim"], comes_out: |case| head_width(&case.spec).is_some() },
    Topic { name: "dense width", laws: &["dense-ffn-tp"], comes_out: |case| dense(&case.spec, 0) },
    Topic { name: "shared width", laws: &["shared-ffn-tp"], comes_out: |case| shared(&case.spec, 0) },
    Topic { name: "router groups", laws: &["router-groups"], comes_out: router_groups },
    Topic { name: "expert grid", laws: &["expert-grid"], comes_out: expert_grid },
    Topic { name: "experts", laws: &["experts-ep"], comes_out: experts },
    Topic { name: "expert width", laws: &["expert-ffn-etp"], comes_out: |case| expert(&case.spec, 0) },
    Topic { name: "slices", laws: &["expert-grid", "experts-ep", "expert-ffn-etp"], comes_out: slices },
    Topic {
        name: "layers",
        laws: &[
            "layers-stages",
            "list-layers",
            "list-mtp",
            "list-stages",
            "schedule-chunks",
            "vpp-needs-pp",
            "dual-pipe-ranks",
        ],
        comes_out: |case| layers::dealt(case).is_some(),
    },
    Topic {
        name: "tokens",
        laws: &["sequence-cp", "sequence-sp", "sequence-ring"],
        comes_out: |case| tokens(&case.spec).is_some(),
    },
    Topic { name: "tokens of a ring", laws: &["sequence-ring"], comes_out: ring_tokens },
    Topic { name: "traded heads", laws: &["heads-context"], comes_out: traded_heads },
    Topic { name: "traded key/value heads", laws: &["kv-heads-tp", "kv-heads-context"], comes_out: traded_kv_heads },
    Topic {
        name: "traded attention",
        laws: &["heads-tp", "kv-heads", "kv-heads-tp", "heads-context", "kv-heads-context"],
        comes_out: traded_attention,
    },
    Topic { name: "traded heads of a mixer", laws: &["mixer-heads-context"], comes_out: traded_mixer_heads },
    Topic {
        name: "traded key/value heads of a mixer",
        laws: &["mixer-kv-heads-tp", "mixer-kv-heads-context"],
        comes_out: traded_mixer_kv_heads,
    },
    Topic { name: "heads of a mixer on the inner level", laws: &["mixer-heads-inner"], comes_out: inner_mixer_heads },
    Topic {
        name: "key/value heads of a mixer on the inner level",
        laws: &["mixer-kv-heads-tp", "mixer-kv-heads-inner"],
        comes_out: inner_mixer_kv_heads,
    },
    Topic { name: "levels of context", laws: &["cp-inner"], comes_out: levels },
    Topic { name: "heads of the inner level", laws: &["heads-inner"], comes_out: inner_heads },
    Topic {
        name: "key/value heads of the inner level",
        laws: &["kv-heads-tp", "kv-heads-inner"],
        comes_out: inner_kv_heads,
    },
    Topic { name: "global batch", laws: &["global-batch"], comes_out: global_batch },
    Topic { name: "directions", laws: &["dual-pipe-count"], comes_out: directions },
    Topic { name: "shards of state", laws: &["zero-ways-ranks"], comes_out: uniform_shards },
    Topic { name: "instances of state", laws: &["zero-instances"], comes_out: instances },
    Topic {
        name: "instances of the state of experts",
        laws: &["expert-grid", "zero-instances-experts"],
        comes_out: expert_instances,
    },
    Topic { name: "blocks of heads", laws: &["heads-tp", "head-dim", "block-heads"], comes_out: head_blocks },
    Topic {
        name: "blocks of key/value heads",
        laws: &["kv-heads-tp", "head-dim", "block-kv-heads"],
        comes_out: kv_head_blocks,
    },
    Topic {
        name: "blocks of dense width",
        laws: &["dense-ffn-tp", "block-dense-ffn"],
        comes_out: |case| dense(&case.spec, case.spec.layout.precision.block),
    },
    Topic {
        name: "blocks of expert width",
        laws: &["expert-ffn-etp", "block-expert-ffn"],
        comes_out: |case| expert(&case.spec, case.spec.layout.precision.block),
    },
    Topic {
        name: "blocks of shared width",
        laws: &["shared-ffn-tp", "block-shared-ffn"],
        comes_out: |case| shared(&case.spec, case.spec.layout.precision.block),
    },
];

fn gqa(spec: &Spec) -> Option<Gqa> {
    if let Attention::Gqa(gqa) = spec.architecture.attention { Some(gqa) } else { None }
}

fn heads(spec: &Spec) -> u64 {
    match spec.architecture.attention {
        Attention::Mla(Mla { heads, .. })
        | Attention::Gqa(Gqa { heads, .. })
        | Attention::Compressed(Compressed { heads, .. }) => heads,
    }
}

fn tp(case: &Case) -> u64 {
    case.spec.layout.mesh.tp
}

/// Heads over ranks, and whatever each of them has over them.
fn in_groups(things: u64, groups: u64, ranks: u64) -> bool {
    shards(things, groups, 0).is_some() && shards(groups, ranks, 0).is_some()
}

fn mixer_heads(case: &Case) -> bool {
    match case.spec.architecture.mixer {
        Mixer::LocalGqa(LocalGqa { heads, .. })
        | Mixer::Kda(Kda { heads, .. })
        | Mixer::Lightning(Lightning { heads, .. })
        | Mixer::Mamba2(Mamba2 { heads, .. }) => shards(heads, tp(case), 0).is_some(),
        Mixer::None | Mixer::GatedDeltaNet(_) | Mixer::Mamba1(_) => true,
    }
}

fn mixer_kv_heads(case: &Case) -> bool {
    let Mixer::LocalGqa(gqa) = case.spec.architecture.mixer else { return true };
    shards(gqa.heads, gqa.kv_heads, 0).is_some() && kv_hands(&things(gqa.kv_heads), tp(case)).is_some()
}

fn key_and_value_heads(case: &Case) -> bool {
    let Mixer::GatedDeltaNet(net) = case.spec.architecture.mixer else { return true };
    in_groups(net.value_heads, net.key_heads, tp(case))
}

fn channels(case: &Case) -> bool {
    let Mixer::Mamba1(mamba) = case.spec.architecture.mixer else { return true };
    shards(mamba.inner, tp(case), 0).is_some()
}

fn mixer_groups(case: &Case) -> bool {
    let Mixer::Mamba2(mamba) = case.spec.architecture.mixer else { return true };
    in_groups(mamba.heads, mamba.groups, tp(case))
}

fn output_groups(case: &Case) -> bool {
    let Attention::Compressed(attention) = case.spec.architecture.attention else { return true };
    in_groups(attention.heads, attention.output_groups, tp(case))
}

/// Every rank of the declared world has one place in the mesh, and every place a rank.
fn ranks(case: &Case) -> bool {
    let mesh = case.spec.layout.mesh;
    mesh.world == 0 || world(&mesh).0.len() as u64 == mesh.world
}

/// The hands of a dimension over the ranks of an axis, each at least one block where there are such.
pub(crate) fn shards(width: u64, ranks: u64, block: u64) -> Option<Vec<Vec<u64>>> {
    let hands = deal_evenly(&things(width), ranks)?;
    (block == 0 || holds_whole_blocks(&hands, block)).then_some(hands)
}

fn query_heads(case: &Case) -> bool {
    shards(heads(&case.spec), case.spec.layout.mesh.tp, 0).is_some()
}

/// The key/value heads of each of so many ranks: dealt, or where there are fewer heads, ranks dealt to heads.
pub(crate) fn kv_hands(kv_heads: &[u64], ranks: u64) -> Option<Vec<Vec<u64>>> {
    if kv_heads.len() as u64 >= ranks {
        return deal_evenly(kv_heads, ranks);
    }
    let replicas = deal_evenly(&things(ranks), kv_heads.len() as u64)?;
    Some(kv_heads.iter().zip(&replicas).flat_map(|(head, ranks)| ranks.iter().map(|_| vec![*head])).collect())
}

fn kv_heads(case: &Case) -> bool {
    gqa(&case.spec).is_none_or(|gqa| kv_hands(&things(gqa.kv_heads), case.spec.layout.mesh.tp).is_some())
}

fn heads_of_kv_heads(case: &Case) -> bool {
    gqa(&case.spec).is_none_or(|gqa| shards(gqa.heads, gqa.kv_heads, 0).is_some())
}

/// Query heads over so many ranks, each with the key/value heads that they look at: one rank for each key/value head and
/// as many of them on each, or one key/value head for each rank and each on as many.
fn attends(gqa: Gqa, ranks: u64) -> bool {
    let served = deal(&things(gqa.heads), gqa.kv_heads);
    let served_evenly = deal_evenly(&things(gqa.heads), gqa.kv_heads).is_some();
    let Some(hands) = deal_evenly(&things(gqa.heads), ranks) else { return false };
    let looks_at = |hand: &Vec<u64>| -> Vec<usize> {
        (0..served.len()).filter(|kv_head| served[*kv_head].iter().any(|head| hand.contains(head))).collect()
    };
    let held: Vec<Vec<usize>> = hands.iter().map(looks_at).collect();
    let holders = |kv_head| held.iter().filter(|rank| rank.contains(&kv_head)).count();
    let alike = held.iter().all(|rank| rank.len() == held[0].len())
        && (0..served.len()).all(|kv_head| holders(kv_head) == holders(0));
    served_evenly && alike && (held[0].len() == 1 || holders(0) == 1)
}

fn attention(case: &Case) -> bool {
    let tp = case.spec.layout.mesh.tp;
    gqa(&case.spec).map_or_else(|| query_heads(case), |gqa| attends(gqa, tp))
}

/// The width of a head, where the heads share out the hidden width or say it.
fn head_width(spec: &Spec) -> Option<u64> {
    let (heads, head_dim) = match spec.architecture.attention {
        Attention::Gqa(Gqa { heads, head_dim, .. }) | Attention::Compressed(Compressed { heads, head_dim, .. }) => {
            (heads, head_dim)
        }
        Attention::Mla(_) => return Some(0),
    };
    if head_dim > 0 { Some(head_dim) } else { Some(shards(spec.architecture.hidden, heads, 0)?[0].len() as u64) }
}

fn dense(spec: &Spec, block: u64) -> bool {
    let layers = spec.architecture.layers;
    let is_split = spec.layout.placement.dense_ffn == Split::Split;
    layers.dense == 0 || layers.ffn == 0 || !is_split || shards(layers.ffn, spec.layout.mesh.tp, block).is_some()
}

/// Whether there are experts, fully described: what is missing is another law's to say.
fn has_experts(spec: &Spec) -> bool {
    let experts = spec.architecture.experts;
    spec.architecture.layers.moe > 0 && experts.routed > 0 && experts.active > 0 && experts.ffn > 0
}

fn shared(spec: &Spec, block: u64) -> bool {
    let experts = spec.architecture.experts;
    let is_split = spec.layout.placement.shared_experts == Split::Split;
    // Side by side they are one network.
    let width: u64 = (0..experts.shared).map(|_| experts.ffn).sum();
    !has_experts(spec) || width == 0 || !is_split || shards(width, spec.layout.mesh.tp, block).is_some()
}

fn router_groups(case: &Case) -> bool {
    let experts = case.spec.architecture.experts;
    !has_experts(&case.spec) || shards(experts.routed, experts.groups, 0).is_some()
}

fn expert_grid(case: &Case) -> bool {
    !has_experts(&case.spec) || world(&case.spec.layout.mesh).1
}

fn experts(case: &Case) -> bool {
    !has_experts(&case.spec) || shards(case.spec.architecture.experts.routed, case.spec.layout.mesh.ep, 0).is_some()
}

fn expert(spec: &Spec, block: u64) -> bool {
    !has_experts(spec) || shards(spec.architecture.experts.ffn, spec.layout.mesh.etp, block).is_some()
}

/// How many ranks of a stage hold each column of each expert, by asking every rank.
pub(crate) fn slice_holders(spec: &Spec, ranks: &[Rank]) -> Vec<u64> {
    let (mesh, experts) = (spec.layout.mesh, spec.architecture.experts);
    let (of_ep, of_etp) = (deal(&things(experts.routed), mesh.ep), deal(&things(experts.ffn), mesh.etp));
    let at = |place: u64| usize::try_from(place).expect("places are few");
    let mut holders = vec![0; at(experts.routed * experts.ffn)];
    for rank in ranks.iter().filter(|rank| rank.pp == 0) {
        for expert in &of_ep[at(rank.ep)] {
            for column in &of_etp[at(rank.etp)] {
                holders[at(expert * experts.ffn + column)] += 1;
            }
        }
    }
    holders
}

/// Each slice of each expert lies on one rank of every replica, and replicas are whole.
fn slices(case: &Case) -> bool {
    if !has_experts(&case.spec) {
        return true;
    }
    let (ranks, _) = world(&case.spec.layout.mesh);
    let stage: Vec<Rank> = ranks.into_iter().filter(|rank| rank.pp == 0).collect();
    let replicas = stage.iter().filter(|rank| rank.ep == 0 && rank.etp == 0).count() as u64;
    let is_evenly_dealt = experts(case) && expert(&case.spec, 0);
    is_evenly_dealt && slice_holders(&case.spec, &stage).iter().all(|holders| *holders == replicas)
}

/// The tokens of each rank that shares a sequence.
pub(crate) fn tokens(spec: &Spec) -> Option<Vec<Vec<u64>>> {
    let (mesh, sequence) = (spec.layout.mesh, things(spec.layout.batch.sequence));
    let of_cp = match mesh.context {
        Context::Ring | Context::Hierarchical if mesh.cp > 1 => ring(&sequence, mesh.cp)?,
        _ => deal_evenly(&sequence, mesh.cp)?,
    };
    if !mesh.sequence_parallel.is_on() {
        return Some(of_cp);
    }
    let of_tp: Vec<_> = of_cp.iter().map(|tokens| deal_evenly(tokens, mesh.tp)).collect::<Option<_>>()?;
    Some(of_tp.concat())
}

/// Two pieces for each rank, one from the front and one from the back. Causal attention looks back at all tokens before,
/// so the ranks then have the same to do.
fn ring(sequence: &[u64], cp: u64) -> Option<Vec<Vec<u64>>> {
    let mut pieces: std::collections::VecDeque<_> = deal_evenly(sequence, cp + cp)?.into();
    let mut hands = Vec::new();
    while let (Some(front), Some(back)) = (pieces.pop_front(), pieces.pop_back()) {
        hands.push([front, back].concat());
    }
    let work = |hand: &Vec<u64>| hand.iter().map(|token| token + 1).sum::<u64>();
    assert!(hands.iter().all(|hand| work(hand) == work(&hands[0])), "a balanced ring is balanced");
    Some(hands)
}

/// A ring alone: it says all of how its sequence is shared out.
fn ring_tokens(case: &Case) -> bool {
    let mesh = case.spec.layout.mesh;
    let is_ring = matches!(mesh.context, Context::Ring | Context::Hierarchical);
    !is_ring || mesh.cp == 1 || tokens(&case.spec).is_some()
}

fn trades(spec: &Spec) -> bool {
    spec.layout.mesh.cp > 1 && spec.layout.mesh.context == Context::AllToAll
}

/// The heads of each tensor-parallel rank, dealt to its context-parallel ranks.
fn traded_heads(case: &Case) -> bool {
    let mesh = case.spec.layout.mesh;
    !trades(&case.spec) || fall_twice(heads(&case.spec), mesh.tp, mesh.cp)
}

/// Heads dealt over tensor-parallel ranks, and those of each over others.
fn fall_twice(heads: u64, tp: u64, ranks: u64) -> bool {
    deal_evenly(&things(heads), tp).is_some_and(|hands| hands.iter().all(|hand| deal_evenly(hand, ranks).is_some()))
}

/// The same where there may be fewer heads than ranks, in either step.
fn fall_or_repeat_twice(heads: u64, tp: u64, ranks: Option<u64>) -> bool {
    let Some(of_tp) = kv_hands(&things(heads), tp) else { return false };
    ranks.is_none_or(|ranks| of_tp.iter().all(|heads| kv_hands(heads, ranks).is_some()))
}

fn local(spec: &Spec) -> Option<LocalGqa> {
    match spec.architecture.mixer {
        Mixer::LocalGqa(gqa) => Some(gqa),
        _ => None,
    }
}

fn traded_mixer_heads(case: &Case) -> bool {
    let mesh = case.spec.layout.mesh;
    !trades(&case.spec) || local(&case.spec).is_none_or(|gqa| fall_twice(gqa.heads, mesh.tp, mesh.cp))
}

fn traded_mixer_kv_heads(case: &Case) -> bool {
    let mesh = case.spec.layout.mesh;
    let cp = trades(&case.spec).then_some(mesh.cp);
    local(&case.spec).is_none_or(|gqa| fall_or_repeat_twice(gqa.kv_heads, mesh.tp, cp))
}

fn inner_mixer_heads(case: &Case) -> bool {
    let (local, inner) = (local(&case.spec), inner(&case.spec));
    let (Some(gqa), Some(inner)) = (local, inner) else { return true };
    fall_twice(gqa.heads, case.spec.layout.mesh.tp, inner)
}

fn inner_mixer_kv_heads(case: &Case) -> bool {
    let Some(gqa) = local(&case.spec) else { return true };
    fall_or_repeat_twice(gqa.kv_heads, case.spec.layout.mesh.tp, inner(&case.spec))
}

/// The same of key/value heads, in either step replicated where they are fewer than ranks.
fn traded_kv_heads(case: &Case) -> bool {
    let (Some(gqa), mesh) = (gqa(&case.spec), case.spec.layout.mesh) else { return true };
    fall_or_repeat_twice(gqa.kv_heads, mesh.tp, trades(&case.spec).then_some(mesh.cp))
}

/// Under all-to-all each rank of either axis attends for its own heads.
fn traded_attention(case: &Case) -> bool {
    let mesh = case.spec.layout.mesh;
    let attends = |ranks| {
        let heads = heads(&case.spec);
        gqa(&case.spec).map_or_else(|| shards(heads, ranks, 0).is_some(), |gqa| attends(gqa, ranks))
    };
    attends(mesh.tp) && (!trades(&case.spec) || attends((0..mesh.tp).map(|_| mesh.cp).sum()))
}

/// Ranks that trade tokens for heads, where rings go through groups of them.
fn inner(spec: &Spec) -> Option<u64> {
    let mesh = spec.layout.mesh;
    (mesh.context == Context::Hierarchical && mesh.cp_inner > 0).then_some(mesh.cp_inner)
}

/// The ranks of a sequence, so many at a time.
fn levels(case: &Case) -> bool {
    inner(&case.spec).is_none_or(|inner| deal_evenly(&things(case.spec.layout.mesh.cp), inner).is_some())
}

fn inner_heads(case: &Case) -> bool {
    inner(&case.spec).is_none_or(|inner| fall_twice(heads(&case.spec), case.spec.layout.mesh.tp, inner))
}

fn inner_kv_heads(case: &Case) -> bool {
    let (Some(gqa), tp) = (gqa(&case.spec), case.spec.layout.mesh.tp) else { return true };
    fall_or_repeat_twice(gqa.kv_heads, tp, inner(&case.spec))
}

/// Sequences handed out one by one until every replica has run its micro-batches: none is missing, none is left.
fn global_batch(case: &Case) -> bool {
    let (batch, dp) = (case.spec.layout.batch, case.spec.layout.mesh.dp);
    let mut left = 0..batch.global;
    let runs = (0..batch.count).flat_map(|_| 0..dp).flat_map(|_| 0..batch.micro).all(|_| left.next().is_some());
    batch.global == 0 || runs && left.next().is_none()
}

/// Micro-batches, dealt to the two ends of DualPipe.
fn directions(case: &Case) -> bool {
    let is_one_rank = case.spec.layout.mesh.pp == 1;
    is_one_rank
        || case.spec.layout.schedule != Schedule::DualPipe
        || shards(case.spec.layout.batch.count, 2, 0).is_some()
}

/// The ranks of a stage, put together as many at a time as share their state.
fn uniform_shards(case: &Case) -> bool {
    let (mesh, zero) = (case.spec.layout.mesh, case.spec.layout.zero);
    let (ranks, _) = world(&mesh);
    let stage: Vec<u64> = ranks.iter().filter(|rank| rank.pp == 0).map(|rank| rank.number).collect();
    let ways = usize::try_from(zero.ways).expect("ways are few");
    zero.groups != ZeroGroups::Uniform || ways == 0 || stage.chunks(ways).all(|group| group.len() == ways)
}

/// Whether the ranks of the first stage that hold the same of it fall into as many groups as there are instances.
fn have_instances(case: &Case, is_alike: fn(&Rank) -> bool) -> bool {
    let (mesh, zero) = (case.spec.layout.mesh, case.spec.layout.zero);
    let (ranks, _) = world(&mesh);
    let replicas: Vec<u64> =
        ranks.iter().filter(|rank| rank.pp == 0 && is_alike(rank)).map(|rank| rank.number).collect();
    zero.groups == ZeroGroups::Uniform || deal_evenly(&replicas, zero.instances).is_some()
}

fn instances(case: &Case) -> bool {
    have_instances(case, |rank| rank.tp == 0)
}

fn expert_instances(case: &Case) -> bool {
    let is_sharded = has_experts(&case.spec) && case.spec.layout.zero.expert != ZeroStage::None;
    expert_grid(case) && (!is_sharded || have_instances(case, |rank| rank.ep == 0 && rank.etp == 0))
}

/// The rows of some heads that lie one after the other.
fn rows(hands: &[Vec<u64>], width: u64) -> Vec<Vec<u64>> {
    let of_head = |head: &u64| head * width..head * width + width;
    hands.iter().map(|heads| heads.iter().flat_map(of_head).collect()).collect()
}

/// Every projection that is split by heads, of each rank: whole blocks.
fn head_blocks(case: &Case) -> bool {
    let (spec, precision) = (&case.spec, case.spec.layout.precision);
    let Some(hands) = deal_evenly(&things(heads(spec)), spec.layout.mesh.tp) else { return false };
    let Some(width) = head_width(spec) else { return false };
    let widths = match spec.architecture.attention {
        // Queries; keys and values out of the latent; the output.
        Attention::Mla(mla) => vec![mla.nope + mla.rope, mla.nope + mla.value, mla.value],
        Attention::Gqa(gqa) => vec![width, value_width(gqa, width)],
        Attention::Compressed(_) => vec![width],
    };
    let is_quantised = precision.block > 0 && precision.block_attention.is_on();
    !is_quantised || widths.iter().all(|width| holds_whole_blocks(&rows(&hands, *width), precision.block))
}

fn kv_head_blocks(case: &Case) -> bool {
    let (spec, precision) = (&case.spec, case.spec.layout.precision);
    let Some(width) = head_width(spec) else { return false };
    let Some(gqa) = gqa(spec) else { return true };
    let Some(hands) = kv_hands(&things(gqa.kv_heads), spec.layout.mesh.tp) else { return false };
    let is_quantised = precision.block > 0 && precision.block_attention.is_on();
    let widths = [width, value_width(gqa, width)];
    !is_quantised || widths.iter().all(|width| holds_whole_blocks(&rows(&hands, *width), precision.block))
}

fn value_width(gqa: Gqa, width: u64) -> u64 {
    if gqa.value_dim > 0 { gqa.value_dim } else { width }
}
