//! The word alone.

use moe_model::moe_model;

moe_model! {
    pub struct M;

    architecture: file,
}

fn main() {}
