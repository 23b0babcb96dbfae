//! A number for an architecture.

use moe_model::moe_model;

moe_model! {
    pub struct M;

    architecture: 671,
}

fn main() {}
