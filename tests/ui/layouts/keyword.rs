// The word in front of a layout misspelt, and left out; both are layouts all the same.
use moe_model::moe_model;

moe_model! {
    pub struct Small;

    hidden: 64,
    vocab: 100,
    layers: layers { dense: 2, ffn: 128 },
    attention: gqa { heads: 4, kv_heads: 2 },

    layuot Main: layout { mesh: mesh { tp: 2 }, batch: batch { sequence: 16 }, accounting: paper },
    /// Twice as many ranks.
    Wide: layout { mesh: mesh { tp: 3 }, ..Main },
}

fn main() {
    let _ = (Small::MAIN, Small::WIDE);
}
