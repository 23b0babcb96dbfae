// A residual of tokens that are not gathered yet.
use moe_model::gpu::device::Format;
use moe_model::gpu::ops::elementwise::add;
use moe_model::gpu::shapes::{Context, Shapes, Tokens};
use moe_model::gpu::{Device, View, ViewMut};

fn residual<D: Device, S: Shapes, E: Format>(
    device: &D,
    y: ViewMut<'_, D, Tokens, S::Hidden, E>,
    x: View<'_, D, Context, S::Hidden, E>,
) {
    add(device, y, x);
}

fn main() {}
