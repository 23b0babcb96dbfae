// mixer-heads-tp: 62 heads of lightning attention over 4 ranks.
use moe_model::moe_model;

moe_model! {
    /// MiniMax-Text-01.
    pub struct MinimaxText01;

    hidden: 6144,
    vocab: 200_064,
    layers: layers { moe: 80, list: "(MMMMMMMA)*10" },
    attention: gqa { heads: 64, kv_heads: 8, head_dim: 128 },
    mixer: lightning { heads: 62, head_dim: 128, block: 256 },
    experts: experts { routed: 32, active: 2, ffn: 9216 },

    layout Cluster: layout {
        mesh: mesh { dp: 8, tp: 4, pp: 8, ep: 32, sequence_parallel: on },
        zero: optimizer,
        batch: batch { sequence: 4096, count: 8 },
        accounting: paper { kernel: flash },
    },
}

fn main() {}
