// A name, and nothing else.
use moe_model::moe_model;

moe_model! { pub struct M; }

fn main() {}
