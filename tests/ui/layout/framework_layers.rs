// framework-layers: one layer computed again, of layers that differ.
use moe_model::moe_model;

moe_model! {
    /// Qwen3-Next 80B-A3B.
    pub struct Qwen3Next;

    hidden: 2048,
    vocab: 151_936,
    layers: layers { moe: 48, list: "(MMMA)*12" },
    attention: gqa { heads: 16, kv_heads: 2, head_dim: 256, qk_norm: head, output_gate: on },
    mixer: gated_delta_net { key_heads: 16, value_heads: 32, key_dim: 128, value_dim: 128, conv: 4 },
    experts: experts { routed: 512, shared: 1, active: 10, ffn: 512, shared_gate: on },

    layout Cluster: layout {
        mesh: mesh { dp: 8, tp: 2, pp: 4, ep: 8, sequence_parallel: on },
        zero: optimizer,
        batch: batch { sequence: 4096, count: 8 },
        recompute: full,
        accounting: megatron_core,
    },
}

fn main() {}
