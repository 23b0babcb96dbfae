//! A preset that is not there.

use moe_model::moe_model;

moe_model! {
    pub struct M;

    architecture: preset(falcon_180b),

    layout Main: layout {
        mesh: mesh { dp: 64, pp: 16, ep: 64 },
        stages: stages { first: 4, last: 1 },
        batch: batch { sequence: 4096, count: 32 },
        accounting: paper,
    },
}

fn main() {}
