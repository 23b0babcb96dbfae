//! Context-parallel ranks pass what each has round, from each to the next.

use super::{Comm, CommError, has_length};
use crate::ViewMut;
use crate::device::{Element, Memory};
use moe_model_core::groups::Group;
use moe_model_core::traffic::Operation;

impl Comm {
    /// Gives values to the next context-parallel rank for those of the one in front. Alone, these are its own.
    pub(crate) fn shift<D: Memory, R, C, E: Element>(
        &self,
        device: &D,
        values: ViewMut<'_, D, R, C, E>,
    ) -> Result<(), CommError> {
        const GROUP: Group = Group::Cp;
        const OPERATION: Operation = Operation::Send;
        let Some(carrier) = &self.carrier else { return Ok(()) };
        let (ranks, place) = (self.plan.group(GROUP, self.rank), self.plan.place(GROUP, self.rank));
        let [next, front] = [place + 1, place + ranks.count - 1].map(|place| ranks.at(place % ranks.count));
        let sent = device.read(values.view().raw(), E::to_bytes).unwrap_or_default();
        let len = sent.len();
        self.count(GROUP, OPERATION, [len, 0]);
        // Where carriers first meet who they carry to, not all may begin with the same neighbour.
        let bytes = if place.is_multiple_of(2) {
            carrier.send(next, GROUP, OPERATION.name(), sent)?;
            carrier.receive(front, GROUP, OPERATION.name())?
        } else {
            let bytes = carrier.receive(front, GROUP, OPERATION.name())?;
            carrier.send(next, GROUP, OPERATION.name(), sent)?;
            bytes
        };
        has_length(&bytes, len, (front, GROUP, OPERATION.name()))?;
        device.write(values.raw(), |out| E::from_bytes(out, &bytes));
        Ok(())
    }
}
