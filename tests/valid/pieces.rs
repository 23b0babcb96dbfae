// Numbers, kinds and percentages that another macro passes on; items named like the expansion's own; a local model.
#![deny(warnings)]
use moe_model::{Plan, moe_model};

macro_rules! model {
    ($name:ident, $heads:expr, $attention:expr, $room:expr) => {
        moe_model! {
            /// A small model.
            pub struct $name;

            hidden: $heads * 64,
            vocab: 1000,
            layers: layers { dense: 8, ffn: 4096 },
            attention: gqa { heads: $attention, kv_heads: 8, head_dim: 64 },

            layout Main: layout {
                mesh: mesh { dp: 2 },
                batch: batch { sequence: 4096 },
                accounting: paper,
                headroom: $room,
            },
        }
    };
}

model!(LawSet, 16, 16, percent(10));

const TP: u64 = 2;

moe_model! {
    /// Named like what the expansion of a constant uses.
    pub struct Spec;

    hidden: 1024,
    vocab: 1000,
    layers: layers { dense: 8, ffn: 4096 },
    attention: gqa { heads: 16, kv_heads: 8, head_dim: 64 },

    layout B: layout { mesh: mesh { dp: 2, tp: TP }, batch: batch { sequence: 4096 }, accounting: paper },
    layout S: layout { recompute: full, ..B },
}

#[test]
fn it_is_valid() {
    const S: u64 = 8;
    moe_model! {
        struct Local;

        hidden: 1024,
        vocab: 1000,
        layers: layers { dense: S, ffn: 4096 },
        attention: gqa { heads: 16, kv_heads: 8, head_dim: 64 },

        layout Main: layout { mesh: mesh { dp: 2 }, batch: batch { sequence: 4096 }, accounting: paper },
    }
    let plans: [Plan; 4] = [LawSet::MAIN, Spec::B, Spec::S, Local::MAIN];
    assert!(plans.iter().all(|plan| plan.world() >= 2));
}
