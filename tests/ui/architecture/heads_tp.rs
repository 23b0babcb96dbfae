//! Tensor parallelism that does not divide the heads of a preset, by a literal and by a constant.

use moe_model::moe_model;

const TP: u64 = 3;

moe_model! {
    pub struct M;

    architecture: preset(deepseek_v3),

    layout Literal: layout {
        mesh: mesh { dp: 64, tp: 3, ep: 64, sequence_parallel: on },
        batch: batch { sequence: 4098 },
        accounting: paper,
    },
    layout Constant: layout {
        mesh: mesh { dp: 64, tp: TP, ep: 64, sequence_parallel: on },
        ..Literal
    },
}

fn main() {}
