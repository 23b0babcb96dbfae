// A comma is missing before a layout with a comment; both layouts exist.
use moe_model::moe_model;


moe_model! {
    /// A small model.
    pub struct Small;

    hidden: 1024,
    vocab: 1000,
    layers: layers { dense: 1, moe: 7, ffn: 4096 },
    attention: gqa { heads: 24, kv_heads: 24, head_dim: 64 },
    experts: experts { routed: 64, active: 8, ffn: 960 },

    layout A: layout { mesh: mesh { dp: 8 }, batch: batch { sequence: 4096 }, accounting: paper }
    /// The other.
    layout B: layout { recompute: full, ..A },
}

fn main() {
    let _ = (Small::A.peak(), Small::B.budget(3));
}
