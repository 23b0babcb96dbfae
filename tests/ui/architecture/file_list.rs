//! JSON, but no object.

use moe_model::moe_model;

moe_model! {
    pub struct M;

    architecture: file("configs/list.json"),
}

fn main() {}
