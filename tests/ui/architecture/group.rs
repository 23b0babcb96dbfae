//! Keys in the place of an architecture.

use moe_model::moe_model;

moe_model! {
    pub struct M;

    architecture: mla { heads: 128 },
}

fn main() {}
