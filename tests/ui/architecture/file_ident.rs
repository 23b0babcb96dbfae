//! An identifier for a file.

use moe_model::moe_model;

moe_model! {
    pub struct M;

    architecture: file(config),
}

fn main() {}
