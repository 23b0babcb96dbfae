// The second layout keeps all activations, on the device of the first.
use moe_model::moe_model;

const TP: u64 = 2;
moe_model! {
    /// A small model.
    pub struct Small;

    hidden: 1024,
    vocab: 1000,
    layers: layers { dense: 1, moe: 7, ffn: 4096 },
    attention: gqa { heads: 24, kv_heads: 24, head_dim: 64 },
    experts: experts { routed: 64, active: 8, ffn: 960 },

    layout A: layout {
        mesh: mesh { dp: 8, tp: TP, sequence_parallel: on },
        batch: batch { sequence: 65_536 },
        recompute: full,
        accounting: paper { kernel: flash },
        device: h100,
    },
    layout B: layout { recompute: none, accounting: paper { kernel: eager }, ..A },
}

fn main() {}
