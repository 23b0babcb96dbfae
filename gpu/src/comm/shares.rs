//! What replicas share out: each member of a group has some elements of something, which functions of its number say.

use super::{Comm, CommError, have_lengths, put, solo, sum};
use crate::device::{Element, Memory, Mut, Ref};
use crate::ops::elementwise::Elementwise;
use crate::{View, ViewMut};
use core::ops::Range;
use moe_model_core::groups::Group;
use moe_model_core::traffic::Operation;

impl Comm {
    /// All of what members of a kind of group each have some elements of. Alone, its own again and again.
    pub(crate) fn gather_shares<D: Memory, E: Element>(
        &self,
        device: &D,
        group: Group,
        whole: Mut<'_, D, E>,
        own: Ref<'_, D, E>,
        of: impl Fn(usize) -> Range<usize>,
    ) -> Result<(), CommError> {
        if self.is_alone() {
            let (len, width) = (whole.len(), own.len());
            solo::repeat::<D, (), (), (), E>(device, ViewMut::of(whole, len, 1), View::of(own, width, 1));
            return Ok(());
        }
        let received = self.shares::<E>(group, device.read(own, E::to_bytes).unwrap_or_default(), &of)?;
        device.write(whole, |out| put(out, &received, of));
        Ok(())
    }

    /// The same of elements that lie on no device, so many in all.
    pub(crate) fn gather_values<E: Element>(
        &self,
        group: Group,
        len: usize,
        own: &[E],
        of: impl Fn(usize) -> Range<usize>,
    ) -> Result<Vec<E>, CommError> {
        let mut all = vec![E::default(); len];
        if self.is_alone() {
            all[self.own(group, of)].copy_from_slice(own);
        } else {
            put(&mut all, &self.shares::<E>(group, E::to_bytes(own), &of)?, of);
        }
        Ok(all)
    }

    /// What each member of a kind of group has of something.
    fn shares<E: Element>(
        &self,
        group: Group,
        own: Vec<u8>,
        of: &impl Fn(usize) -> Range<usize>,
    ) -> Result<Vec<Vec<u8>>, CommError> {
        const OPERATION: Operation = Operation::AllGather;
        let received = self.exchange(group, OPERATION, |members| vec![own; members])?.unwrap_or_default();
        have_lengths::<E>((group, self.plan.group(group, self.rank)), OPERATION, &received, |member| of(member).len())?;
        Ok(received)
    }

    /// Adds to the elements that this rank keeps of something what all members of a kind of group have made of them; each keeps
    /// others. Alone, its own.
    pub(crate) fn add_shares<D: Elementwise>(
        &self,
        device: &D,
        group: Group,
        kept: Mut<'_, D, f32>,
        made: Ref<'_, D, f32>,
        of: impl Fn(usize) -> Range<usize>,
    ) -> Result<(), CommError> {
        if self.is_alone() {
            let own = self.own(group, of);
            device.add(kept, made.part(own.start, own.len()));
            return Ok(());
        }
        let received = self.of_own(device, group, made, of)?;
        device.write(kept, |out| {
            let mut sums = vec![0.0; out.len()];
            sum(&mut sums, &received);
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out += sum);
        });
        Ok(())
    }

    /// The sum of what all members of a kind of group have of this rank's elements, in the place of its own; nothing to do
    /// where it is alone.
    pub(crate) fn sum_shares<D: Memory>(
        &self,
        device: &D,
        group: Group,
        all: Mut<'_, D, f32>,
        of: impl Fn(usize) -> Range<usize>,
    ) -> Result<(), CommError> {
        if self.is_alone() {
            return Ok(());
        }
        let own = self.own(group, &of);
        let received = self.of_own(device, group, all.read(), of)?;
        device.write(all.part(own.start, own.len()), |out| sum(out, &received));
        Ok(())
    }

    fn own(&self, group: Group, of: impl Fn(usize) -> Range<usize>) -> Range<usize> {
        of(usize::try_from(self.plan.place(group, self.rank)).expect("ranks are addresses"))
    }

    /// What each member of a kind of group made of this rank's elements.
    fn of_own<D: Memory>(
        &self,
        device: &D,
        group: Group,
        made: Ref<'_, D, f32>,
        of: impl Fn(usize) -> Range<usize>,
    ) -> Result<Vec<Vec<f32>>, CommError> {
        const OPERATION: Operation = Operation::ReduceScatter;
        let len = self.own(group, &of).len();
        let split = |values: &[f32], members| (0..members).map(|member| f32::to_bytes(&values[of(member)])).collect();
        let sent = |members| device.read(made, |values| split(values, members)).unwrap_or_default();
        let received = self.exchange(group, OPERATION, sent)?.unwrap_or_default();
        self.elements::<f32>(group, OPERATION, &received, |_| len)
    }
}
