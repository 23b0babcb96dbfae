//! Numbers in a file that break laws.

use moe_model::moe_model;

moe_model! {
    pub struct M;

    architecture: file("configs/laws.json"),
}

fn main() {}
