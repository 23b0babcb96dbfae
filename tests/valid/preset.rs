//! Architectures by name: alone, with keys of their own beside it, and as constants.

use moe_model::{Key, preset, spec};

moe_model::moe_model! {
    /// As published.
    pub struct Published;

    architecture: preset(deepseek_v3),

    layout Main: layout {
        mesh: mesh { dp: 64, pp: 16, ep: 64 },
        stages: stages { first: 4, last: 1 },
        batch: batch { sequence: 4096, count: 32 },
        accounting: paper,
    },
}

const VOCAB: u64 = 32_000;

moe_model::moe_model! {
    /// With another vocabulary and no multi-token prediction; what is written holds, whatever its order.
    pub struct Changed;

    mtp: 0,
    architecture: preset(deepseek_v3),
    vocab: VOCAB,
}

moe_model::moe_model! {
    /// A key that is written stands for all of its group.
    pub struct Smaller;

    architecture: preset(mixtral_8x7b),
    attention: mla { heads: 16, kv_rank: 512, nope: 128, rope: 64, value: 128 },
    experts: experts { routed: 16, active: 2, ffn: 1024 },
}

const _: () = assert!(Published::ARCHITECTURE.parameters().total() == preset::DEEPSEEK_V3.parameters().total());

#[test]
fn it_is_valid() {
    assert_eq!(Published::ARCHITECTURE, preset::DEEPSEEK_V3);
    assert_eq!(Published::MAIN.spec().numbers().of(Key::ExpertsGroups), 8);
    assert_eq!(Changed::ARCHITECTURE, spec::Architecture { vocab: 32_000, mtp: 0, ..preset::DEEPSEEK_V3 });
    assert_eq!(Smaller::ARCHITECTURE.layers, preset::MIXTRAL_8X7B.layers);
    assert_eq!(Smaller::ARCHITECTURE.experts.ffn, 1024);
    assert!(matches!(Smaller::ARCHITECTURE.attention, spec::Attention::Mla(_)));
}
