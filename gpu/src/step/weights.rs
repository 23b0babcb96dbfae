//! What goes through all weights of a rank, one after the other: fills them in, takes them to the optimizer's state and back,
//! shows them.

use super::Source;
use super::params::{Flat, Gradients, Place, States, Visitor};
use super::probe::widened;
use crate::device::{Device, Element, Format, Memory, Mut};
use crate::tensor::StepError;
use core::ops::Range;

/// Fills weights in from a source.
pub(super) struct Fill<'a, D> {
    pub(super) device: &'a D,
    pub(super) source: &'a mut dyn Source,
}

impl<D: Memory> Fill<'_, D> {
    fn fill<E: Format>(&mut self, place: Place, elements: Mut<'_, D, E>) -> Result<(), StepError> {
        let mut filled = Ok(());
        self.device.write(elements, |out| {
            let mut values = vec![0.0; out.len()];
            filled = self.source.fill(&place, &mut values);
            out.iter_mut().zip(values).for_each(|(out, value)| *out = E::of_f32(value));
        });
        filled.map_err(StepError::Other)
    }
}

impl<D: Memory, E: Format> Visitor<D, E> for Fill<'_, D> {
    fn param(&mut self, place: Place, _: Flat, elements: Mut<'_, D, E>) -> Result<(), StepError> {
        self.fill(place, elements)
    }

    fn buffer(&mut self, place: Place, elements: Mut<'_, D, f32>) -> Result<(), StepError> {
        self.fill(place, elements)
    }
}

/// What of a parameter lies in a rank's shard: where there, where in the parameter, and how much.
pub(super) fn overlap(flat: Flat, len: usize, shards: &[Range<usize>; 2]) -> Option<(usize, usize, usize)> {
    let shard = &shards[usize::from(flat.expert)];
    let (start, end) = (shard.start.max(flat.start), shard.end.min(flat.start + len));
    (start < end).then(|| (start - shard.start, start - flat.start, end - start))
}

/// Takes weights to the master weights of the rank's shard.
pub(super) struct Widen<'a, D: Memory, M: Element> {
    pub(super) device: &'a D,
    pub(super) states: &'a mut States<D, M>,
    pub(super) shards: [Range<usize>; 2],
}

impl<D: Device, E: Format, M: Format> Visitor<D, E> for Widen<'_, D, M> {
    fn param(&mut self, _: Place, flat: Flat, elements: Mut<'_, D, E>) -> Result<(), StepError> {
        if let Some((at, from, len)) = overlap(flat, elements.len(), &self.shards) {
            let master = self.states.master(flat.expert).part(at, len);
            self.device.widen(master, elements.part(from, len).read());
        }
        Ok(())
    }
}

/// Takes master weights of the rank's shard back to weights.
pub(super) struct WriteBack<'a, D: Memory, M: Element> {
    pub(super) device: &'a D,
    pub(super) states: &'a mut States<D, M>,
    pub(super) shards: [Range<usize>; 2],
}

impl<D: Device, E: Format, M: Format> Visitor<D, E> for WriteBack<'_, D, M> {
    fn param(&mut self, _: Place, flat: Flat, elements: Mut<'_, D, E>) -> Result<(), StepError> {
        if let Some((at, from, len)) = overlap(flat, elements.len(), &self.shards) {
            let master = self.states.master(flat.expert).part(at, len);
            self.device.write_back(elements.part(from, len), master.read());
        }
        Ok(())
    }
}

/// Shows weights and buffers.
pub(super) struct Show<'a, D> {
    pub(super) device: &'a D,
    pub(super) see: &'a mut dyn FnMut(&Place, &[f32]),
}

impl<D: Memory> Show<'_, D> {
    fn show<E: Format>(&mut self, place: Place, elements: &Mut<'_, D, E>) {
        self.device.read(elements.read(), |values| {
            (self.see)(&place, &widened(values));
        });
    }
}

impl<D: Memory, E: Format> Visitor<D, E> for Show<'_, D> {
    fn param(&mut self, place: Place, _: Flat, elements: Mut<'_, D, E>) -> Result<(), StepError> {
        self.show(place, &elements);
        Ok(())
    }

    fn buffer(&mut self, place: Place, elements: Mut<'_, D, f32>) -> Result<(), StepError> {
        self.show(place, &elements);
        Ok(())
    }
}

/// Shows gradients.
pub(super) struct ShowGradient<'a, D: Memory> {
    pub(super) device: &'a D,
    pub(super) gradients: &'a mut Gradients<D>,
    /// Those of a group that replicas share out, put together.
    pub(super) whole: [Option<Vec<f32>>; 2],
    pub(super) see: &'a mut dyn FnMut(&Place, &[f32]),
}

impl<D: Memory, E: Format> Visitor<D, E> for ShowGradient<'_, D> {
    fn param(&mut self, place: Place, flat: Flat, elements: Mut<'_, D, E>) -> Result<(), StepError> {
        if let Some(whole) = &self.whole[usize::from(flat.expert)] {
            (self.see)(&place, &whole[flat.start..][..elements.len()]);
            return Ok(());
        }
        let gradient = self.gradients.group(flat.expert).part(flat.start, elements.len());
        self.device.read(gradient.read(), |values| (self.see)(&place, values));
        Ok(())
    }
}
