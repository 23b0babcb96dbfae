// A matrix product of two dimensions that differ.
use moe_model::gpu::device::Format;
use moe_model::gpu::ops::gemm::{Into, forward};
use moe_model::gpu::shapes::{Shapes, Tokens};
use moe_model::gpu::{Device, View, ViewMut};

fn down<D: Device, S: Shapes, E: Format>(
    device: &D,
    y: ViewMut<'_, D, Tokens, S::Hidden, E>,
    x: View<'_, D, Tokens, S::Hidden, E>,
    w: View<'_, D, S::Hidden, S::Ffn, E>,
) {
    forward(device, y, x, w, Into::Set);
}

fn main() {}
