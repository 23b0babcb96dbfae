//! What a step shows of the values that it computes.

use crate::View;
use crate::device::{Format, Memory};

/// Sees values that a step computes, by name and layer: the residual stream, what routers choose, logits.
pub type Probe<'p> = &'p mut dyn FnMut(&'static str, Option<u64>, Seen<'_>);

/// Values that a probe sees.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'a> {
    /// Numbers.
    Values(&'a [f32]),
    /// Experts.
    Indices(&'a [i32]),
}

/// A probe, if there is one, and where values lie.
pub(super) struct Probing<'p, 'd, D> {
    pub(super) probe: Option<Probe<'p>>,
    pub(super) device: &'d D,
}

impl<D: Memory> Probing<'_, '_, D> {
    pub(super) fn values<R, C, E: Format>(
        &mut self,
        name: &'static str,
        layer: impl Into<Option<u64>>,
        of: View<'_, D, R, C, E>,
    ) {
        let (Some(probe), layer) = (&mut self.probe, layer.into()) else { return };
        self.device.read(of.raw(), |values| {
            probe(name, layer, Seen::Values(&widened(values)));
        });
    }

    pub(super) fn indices<R, C>(&mut self, name: &'static str, layer: u64, of: View<'_, D, R, C, i32>) {
        let Some(probe) = &mut self.probe else { return };
        self.device.read(of.raw(), |indices| probe(name, Some(layer), Seen::Indices(indices)));
    }
}

/// Values of any format.
pub(super) fn widened<E: Format>(values: &[E]) -> Vec<f32> {
    values.iter().map(|value| value.to_f32()).collect()
}
