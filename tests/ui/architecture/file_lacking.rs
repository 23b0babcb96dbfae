//! Fields that are missing.

use moe_model::moe_model;

moe_model! {
    pub struct M;

    architecture: file("configs/lacking.json"),
}

fn main() {}
