//! A path alone.

use moe_model::moe_model;

moe_model! {
    pub struct M;

    architecture: "configs/laws.json",
}

fn main() {}
