// hash-correction-bias: a parameter of layers that have none.
use moe_model::moe_model;

moe_model! {
    /// DeepSeek-V4 Flash.
    pub struct DeepSeekV4Flash;

    hidden: 4096,
    vocab: 129_280,
    hyper_connections: 4,
    layers: layers { moe: 43, list: "AA(CH)*20C" },
    attention: compressed {
        heads: 64, q_rank: 1024, head_dim: 512, output_groups: 8, output_rank: 1024, compress: 4, compress_heavy: 128,
        indexer_heads: 64, indexer_dim: 128,
    },
    experts: experts { routed: 256, shared: 1, active: 6, ffn: 2048, correction_bias: parameter, hash_layers: 3 },

    layout Cluster: layout {
        mesh: mesh { dp: 16, tp: 4, ep: 32, sequence_parallel: on },
        zero: optimizer,
        batch: batch { sequence: 4096, count: 8 },
        accounting: paper { kernel: flash },
    },
}

fn main() {}
