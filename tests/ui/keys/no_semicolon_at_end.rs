// The name alone, while it is typed.
use moe_model::moe_model;

moe_model! { pub struct Small }

fn main() {}
