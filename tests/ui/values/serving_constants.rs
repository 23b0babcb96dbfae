// What is served by constants: the compiler finds that it does not fit, and a batch beside it.
use moe_model::moe_model;

const REQUESTS: u64 = 64;

moe_model! {
    /// Llama 3.1 8B.
    pub struct Llama;

    architecture: preset(llama_3_1_8b),

    layout Long: layout {
        mesh: mesh { dp: 1 },
        serving: serving { requests: REQUESTS, context: 131_072 },
        device: h100,
    },
    layout Both: layout {
        mesh: mesh { dp: 1 },
        serving: serving { requests: REQUESTS, context: 1024 },
        batch: batch { sequence: REQUESTS },
        device: h100,
    },
}

fn main() {}
