// Nothing at all.
use moe_model::moe_model;

moe_model! {}

fn main() {}
