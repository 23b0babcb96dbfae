// latent-replicated, a warning, here denied.
#![deny(deprecated)]
use moe_model::moe_model;

moe_model! {
    /// DeepSeek-V2-Lite.
    pub struct Lite;

    architecture: preset(deepseek_v2_lite),

    layout Served: layout {
        mesh: mesh { tp: 8, ep: 8, sequence_parallel: on },
        serving: serving { requests: 16, context: 32_768 },
    },
}

fn main() {}
