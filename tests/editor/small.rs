//! What `tests/editor.rs` edits. Some keys are left out, to be offered.

use moe_model::moe_model;

const TP: u64 = 2;

moe_model! {
    /// A small model.
    pub struct Small;

    hidden: 2048,
    vocab: 102_400,
    layers: layers { dense: 1, moe: 27, ffn: 10_944 },
    attention: mla { heads: 16, kv_rank: 512, nope: 128, rope: 64, value: 128 },
    experts: experts { routed: 64, shared: 2, active: 6, ffn: 1408, groups: 1, active_groups: 1 },

    /// One node.
    layout Node: layout {
        mesh: mesh { dp: 4, tp: TP, pp: 2, ep: 4, cp: 1, etp: 1, sequence_parallel: on },
        stages: stages { embedding: apart, loss: apart },
        schedule: gpipe,
        zero: optimizer,
        batch: batch { sequence: 4096, micro: 1, count: 8 },
        recompute: full,
        routing: dropless { skew: 1.25 },
        accounting: paper { kernel: flash, dropout: off, pool: group },
        device: h100,
        headroom: percent(10),
    },
    layout Wide: layout { mesh: mesh { dp: 8, ep: 4 }, ..Node },
}

/// A figure from outside the declaration.
pub(crate) const WORLD: u64 = Small::NODE.world();
