// A collective that gathers into what is no longer than a rank's own tokens.
use moe_model::gpu::comm::Solo;
use moe_model::gpu::device::Format;
use moe_model::gpu::shapes::{Lengths, Shapes, Tokens};
use moe_model::gpu::{Device, View, ViewMut};

fn gather<D: Device, S: Shapes, E: Format>(
    device: &D,
    all: ViewMut<'_, D, Tokens, S::Hidden, E>,
    own: View<'_, D, Tokens, S::Hidden, E>,
    lengths: &Lengths,
) {
    Solo.gather(device, all, own, lengths);
}

fn main() {}
