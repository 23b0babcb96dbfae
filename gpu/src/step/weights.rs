//! What goes through all weights of a rank, one after the other: fills them in, takes them to the optimizer's state and back,
//! shows them.

use super::Source;
use super::gradients::{Gradients, States};
use super::params::{Flat, Part, Place, Visitor};
use super::probe::widened;
use crate::comm::{Comm, CommError};
use crate::device::{Device, Element, Format, Memory, Mut};
use crate::tensor::StepError;
use core::ops::Range;

/// Fills weights in from a source.
pub(super) struct Fill<'a, D> {
    pub(super) device: &'a D,
    pub(super) source: &'a mut dyn Source,
}

impl<D: Memory> Fill<'_, D> {
    /// Of all that the source has, some elements.
    fn fill<E: Format>(&mut self, place: Place, elements: Range<usize>, out: Mut<'_, D, E>) -> Result<(), StepError> {
        let mut filled = Ok(());
        self.device.write(out, |out| {
            let mut values = vec![0.0; place.rows * place.width];
            filled = self.source.fill(&place, &mut values);
            out.iter_mut().zip(&values[elements]).for_each(|(out, value)| *out = E::of_f32(*value));
        });
        filled.map_err(StepError::Other)
    }
}

impl<D: Memory, E: Format> Visitor<D, E> for Fill<'_, D> {
    fn param(&mut self, place: Place, _: Flat, elements: Range<usize>, kept: Mut<'_, D, E>) -> Result<(), StepError> {
        self.fill(place, elements, kept)
    }

    fn buffer(&mut self, place: Place, elements: Mut<'_, D, f32>) -> Result<(), StepError> {
        self.fill(place, 0..elements.len(), elements)
    }
}

/// Of what a rank keeps of a weight, from which element on, that which it keeps the state of.
fn of_state<D: Memory, E: Element>(flat: Flat, first: usize, kept: Mut<'_, D, E>) -> (Part, Mut<'_, D, E>) {
    let part = flat.state();
    let kept = kept.part(part.elements.start.saturating_sub(first), part.elements.len());
    (part, kept)
}

/// Takes weights to the master weights of the rank's shard.
pub(super) struct Widen<'a, D: Memory, M: Element> {
    pub(super) device: &'a D,
    pub(super) states: &'a mut States<D, M>,
}

impl<D: Device, E: Format, M: Format> Visitor<D, E> for Widen<'_, D, M> {
    fn param(&mut self, _: Place, flat: Flat, elements: Range<usize>, kept: Mut<'_, D, E>) -> Result<(), StepError> {
        let (Part { elements, at }, kept) = of_state(flat, elements.start, kept);
        if !elements.is_empty() {
            self.device.widen(self.states.master(flat.expert).part(at, elements.len()), kept.read());
        }
        Ok(())
    }
}

/// Takes master weights of the rank's shard back to weights.
pub(super) struct WriteBack<'a, D: Memory, M: Element> {
    pub(super) device: &'a D,
    pub(super) states: &'a mut States<D, M>,
}

impl<D: Device, E: Format, M: Format> Visitor<D, E> for WriteBack<'_, D, M> {
    fn param(&mut self, _: Place, flat: Flat, elements: Range<usize>, kept: Mut<'_, D, E>) -> Result<(), StepError> {
        let (Part { elements, at }, kept) = of_state(flat, elements.start, kept);
        if !elements.is_empty() {
            self.device.write_back(kept, self.states.master(flat.expert).part(at, elements.len()).read());
        }
        Ok(())
    }
}

/// All of something that replicas share out, so many elements; of a rank that is alone what it has, and zeros.
pub(super) fn whole(comm: &Comm, flat: Flat, len: usize, own: &[f32]) -> Result<Vec<f32>, CommError> {
    comm.gather_values(flat.replicas(), len, own, |replica| flat.elements_of(replica))
}

/// Shows weights and buffers.
pub(super) struct Show<'a, D> {
    pub(super) device: &'a D,
    pub(super) comm: &'a Comm,
    pub(super) see: &'a mut dyn FnMut(&Place, &[f32]),
}

impl<D: Memory, E: Format> Visitor<D, E> for Show<'_, D> {
    fn param(&mut self, place: Place, flat: Flat, _: Range<usize>, kept: Mut<'_, D, E>) -> Result<(), StepError> {
        let Some(mut values) = self.device.read(kept.read(), widened) else { return Ok(()) };
        if flat.shares_weight() {
            values = whole(self.comm, flat, place.rows * place.width, &values)?;
        }
        (self.see)(&place, &values);
        Ok(())
    }

    fn buffer(&mut self, place: Place, elements: Mut<'_, D, f32>) -> Result<(), StepError> {
        self.device.read(elements.read(), |values| (self.see)(&place, values));
        Ok(())
    }
}

/// Shows gradients.
pub(super) struct ShowGradient<'a, D: Memory> {
    pub(super) device: &'a D,
    pub(super) comm: &'a Comm,
    pub(super) gradients: &'a mut Gradients<D>,
    pub(super) see: &'a mut dyn FnMut(&Place, &[f32]),
}

impl<D: Memory, E: Format> Visitor<D, E> for ShowGradient<'_, D> {
    fn param(&mut self, place: Place, flat: Flat, _: Range<usize>, _: Mut<'_, D, E>) -> Result<(), StepError> {
        let all = place.rows * place.width;
        let (_, kept) = self.gradients.kept(flat, all);
        let Some(mut values) = self.device.read(kept.read(), <[f32]>::to_vec) else { return Ok(()) };
        if flat.is_shared() && !flat.shares_gradient() && !self.comm.is_alone() {
            // Of all of it, only what the rank updates was summed.
            values = values[flat.state().elements].to_vec();
        }
        if flat.shares_gradient() || flat.is_shared() && !self.comm.is_alone() {
            values = whole(self.comm, flat, all, &values)?;
        }
        (self.see)(&place, &values);
        Ok(())
    }
}
