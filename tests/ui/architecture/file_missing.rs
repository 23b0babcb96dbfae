//! A file that is not there.

use moe_model::moe_model;

moe_model! {
    pub struct M;

    architecture: file("configs/nowhere.json"),
}

fn main() {}
