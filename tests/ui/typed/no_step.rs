// The typed step of a layout whose numbers the compiler knows alone.
use moe_model::gpu::random::Random;
use moe_model::gpu::{Meta, Numerics};
use moe_model::{Model, moe_model};

const RANKS: u64 = 8;

moe_model! {
    pub struct Mixtral;

    architecture: preset(mixtral_8x7b),

    layout Main: layout {
        mesh: mesh { dp: RANKS, ep: 8 },
        batch: batch { sequence: 4096 },
        accounting: reference,
    },
}

fn main() {
    let mut random = Random::of(&Mixtral::MAIN);
    let numerics = Numerics::usual(&Mixtral::ARCHITECTURE);
    let _ = Mixtral::reference_step::<MixtralMain, _>(0, Meta, numerics, &mut random);
}
