// fits-device: 305 GiB of expanded keys and values of one sequence.
use moe_model::moe_model;

moe_model! {
    /// DeepSeek-V3, served on eight ranks.
    pub struct DeepSeekV3;

    architecture: preset(deepseek_v3),
    mtp: 0,

    layout Served: layout {
        mesh: mesh { dp: 8, ep: 8 },
        serving: serving { requests: 1, context: 65_536, mla: expanded },
        device: h200,
        headroom: percent(5),
    },
}

fn main() {}
