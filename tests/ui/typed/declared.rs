// A tensor of one layout where that of another is read: their heads are shared by other ranks.
use moe_model::gpu::shapes::{Shapes, Tokens};
use moe_model::gpu::{Meta, View};
use moe_model::moe_model;

moe_model! {
    pub struct Mixtral;

    architecture: preset(mixtral_8x7b),

    layout Two: layout {
        mesh: mesh { dp: 4, tp: 2, ep: 8, sequence_parallel: on },
        batch: batch { sequence: 4096 },
        accounting: reference,
    },
    layout Four: layout { mesh: mesh { dp: 2, tp: 4, ep: 8, sequence_parallel: on }, ..Two },
}

fn read(_: View<'_, Meta, Tokens, <MixtralTwo as Shapes>::Heads, f32>) {}

fn of_four(heads: View<'_, Meta, Tokens, <MixtralFour as Shapes>::Heads, f32>) {
    read(heads);
}

fn main() {}
