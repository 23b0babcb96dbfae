//! A file that is no JSON.

use moe_model::moe_model;

moe_model! {
    pub struct M;

    architecture: file("configs/malformed.json"),
}

fn main() {}
