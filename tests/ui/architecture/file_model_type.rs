//! A model_type that is not supported.

use moe_model::moe_model;

moe_model! {
    pub struct M;

    architecture: file("configs/model_type.json"),
}

fn main() {}
