// serving-mla: no latent that could be expanded.
use moe_model::moe_model;

moe_model! {
    /// gpt-oss-120b.
    pub struct GptOss;

    architecture: preset(gpt_oss_120b),

    layout Served: layout {
        mesh: mesh { dp: 8, ep: 8 },
        serving: serving { requests: 16, context: 65_536, mla: expanded },
    },
}

fn main() {}
