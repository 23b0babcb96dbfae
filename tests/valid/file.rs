//! An architecture out of a file, whose path begins here.

use moe_model::{preset, spec};

moe_model::moe_model! {
    /// As published.
    pub struct Published;

    architecture: file("../data/configs/deepseek-v3.json"),

    layout Main: layout {
        mesh: mesh { dp: 64, pp: 16, ep: 64 },
        stages: stages { first: 4, last: 1 },
        batch: batch { sequence: 4096, count: 32 },
        accounting: paper,
    },
}

moe_model::moe_model! {
    /// With another number of layers.
    pub struct Shorter;

    architecture: file("../data/configs/llama-3.1-8b.json"),
    layers: layers { dense: 4, ffn: 14_336 },
}

macro_rules! declared {
    ($name:ident, $path:literal, $preset:ident, $other:ident) => {
        moe_model::moe_model! {
            /// The path of another macro's.
            pub struct $name;
            architecture: file($path),
        }
        moe_model::moe_model! {
            /// The name of another macro's.
            pub struct $other;
            architecture: preset($preset),
        }
    };
}

declared!(Passed, r"../data/configs/kimi-k2.json", kimi_k2, Named);

#[test]
fn it_is_valid() {
    assert_eq!(Published::ARCHITECTURE, preset::DEEPSEEK_V3);
    let layers = spec::Layers { dense: 4, ..preset::LLAMA_3_1_8B.layers };
    assert_eq!(Shorter::ARCHITECTURE, spec::Architecture { layers, ..preset::LLAMA_3_1_8B });
    assert_eq!(Passed::ARCHITECTURE, preset::KIMI_K2);
    assert_eq!(Named::ARCHITECTURE, preset::KIMI_K2);
}
