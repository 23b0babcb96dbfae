//! A path without quotes.

use moe_model::moe_model;

moe_model! {
    pub struct M;

    architecture: file(configs/laws.json),
}

fn main() {}
