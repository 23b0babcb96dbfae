// The second layout splits what the first replicates.
use moe_model::moe_model;

const TP: u64 = 3;
moe_model! {
    /// A small model.
    pub struct Small;

    hidden: 1024,
    vocab: 1000,
    layers: layers { dense: 1, moe: 7, ffn: 1000 },
    attention: gqa { heads: 24, kv_heads: 24, head_dim: 64 },
    experts: experts { routed: 64, active: 8, ffn: 960 },

    layout A: layout {
        mesh: mesh { dp: 8, tp: TP, sequence_parallel: on },
        batch: batch { sequence: 3072 },
        placement: placement { dense_ffn: replicated },
        accounting: paper,
    },
    layout B: layout { placement: placement { dense_ffn: split }, ..A },
}

fn main() {}
