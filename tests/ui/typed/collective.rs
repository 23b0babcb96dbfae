// A collective that gathers into what is no longer than a rank's own tokens.
use moe_model::gpu::comm::{Comm, CommError};
use moe_model::gpu::device::Format;
use moe_model::gpu::shapes::{Lengths, Shapes, Tokens};
use moe_model::gpu::{Device, View, ViewMut};

fn gather<D: Device, S: Shapes, E: Format>(
    comm: &Comm,
    device: &D,
    all: ViewMut<'_, D, Tokens, S::Hidden, E>,
    own: View<'_, D, Tokens, S::Hidden, E>,
    lengths: &Lengths,
) -> Result<(), CommError> {
    comm.gather(device, all, own, lengths)
}

fn main() {}
