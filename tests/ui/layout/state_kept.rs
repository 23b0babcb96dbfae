// state-kept: states that hold nothing.
use moe_model::moe_model;

moe_model! {
    /// DeepSeek-V3, served on eight ranks.
    pub struct DeepSeekV3;

    architecture: preset(deepseek_v3),
    mtp: 0,

    layout Served: layout {
        mesh: mesh { dp: 8, ep: 8 },
        serving: serving { requests: 16, context: 65_536, state: none },
    },
}

fn main() {}
