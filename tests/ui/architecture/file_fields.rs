//! Fields of the wrong type, of a value that is not supported, and not known.

use moe_model::moe_model;

moe_model! {
    pub struct M;

    architecture: file("configs/fields.json"),
}

fn main() {}
