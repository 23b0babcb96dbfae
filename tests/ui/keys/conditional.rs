// Attributes that would be lost: conditions on a key and on a layout.
use moe_model::moe_model;

moe_model! {
    /// A small model.
    pub struct Small;

    hidden: 1024,
    vocab: 1000,
    layers: layers { moe: 8 },
    attention: gqa { heads: 16, kv_heads: 16, head_dim: 64 },
    experts: experts { routed: 16, active: 2, ffn: 1024 },

    #[cfg(any())]
    layout Main: layout {
        mesh: mesh { dp: 2, #[cfg(any())] ep: 2 },
        batch: batch { sequence: 4096 },
        accounting: paper,
    },
}

fn main() {}
