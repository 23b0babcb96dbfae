// mixer-inner-tp: 8190 channels over 4 ranks.
use moe_model::moe_model;

moe_model! {
    /// Jamba v0.1.
    pub struct Jamba;

    hidden: 4096,
    vocab: 65_536,
    layers: layers { dense: 16, moe: 16, ffn: 14_336, list: "(mMmMaMmM)*4" },
    attention: gqa { heads: 32, kv_heads: 8, head_dim: 128 },
    mixer: mamba1 { inner: 8190, state: 16, conv: 4, time_rank: 256 },
    experts: experts { routed: 16, active: 2, ffn: 14_336 },

    layout Cluster: layout {
        mesh: mesh { dp: 4, tp: 4, pp: 4, ep: 16, sequence_parallel: on },
        zero: optimizer,
        batch: batch { sequence: 4096, count: 8 },
        accounting: paper { kernel: flash },
    },
}

fn main() {}
