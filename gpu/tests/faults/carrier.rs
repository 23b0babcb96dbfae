//! A carrier that counts what its rank does with others, and has a fault happen to one of these things: ranks are killed,
//! stall and disagree in the middle of whatever a layout has them do.

use moe_model_core::groups::{Group, Ranks};
use moe_model_gpu::comm::{Carrier, CommError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How often a rank exchanged with others or sent to one, by kind of group and operation.
pub(crate) type Done = Rc<RefCell<BTreeMap<(Group, &'static str), u64>>>;

/// What happens to a rank, when it does something for the n-th time, from 0.
pub(crate) struct Fault {
    /// Over which kind of group.
    pub(crate) group: Group,
    /// In what.
    pub(crate) operation: &'static str,
    /// How often it did the same before.
    pub(crate) before: u64,
    /// What happens, at each message that it is about to send to another.
    pub(crate) happens: Box<dyn Fn(&mut Vec<u8>)>,
}

/// Bytes by way of another carrier, until a fault happens.
pub(crate) struct Faulty<C> {
    /// Who carries them.
    pub(crate) carrier: C,
    /// Whose they are.
    pub(crate) rank: u64,
    /// What was done so far.
    pub(crate) done: Done,
    /// What happens, if anything.
    pub(crate) fault: Option<Fault>,
}

impl<C> Faulty<C> {
    /// Counts one thing more; gives what happens to it.
    fn does(&self, group: Group, operation: &'static str) -> Option<&Fault> {
        let mut done = self.done.borrow_mut();
        let times = done.entry((group, operation)).or_default();
        *times += 1;
        let is_it = |fault: &&Fault| (fault.group, fault.operation, fault.before + 1) == (group, operation, *times);
        self.fault.as_ref().filter(is_it)
    }
}

impl<C: Carrier> Carrier for Faulty<C> {
    fn exchange(
        &self,
        group: Group,
        ranks: Ranks,
        operation: &'static str,
        mut sent: Vec<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>, CommError> {
        // Who is alone in a group does nothing with others.
        let fault = if ranks.count > 1 { self.does(group, operation) } else { None };
        if let Some(fault) = fault {
            let to_others = ranks.into_iter().zip(&mut sent).filter(|(to, _)| *to != self.rank);
            to_others.for_each(|(_, message)| (fault.happens)(message));
        }
        self.carrier.exchange(group, ranks, operation, sent)
    }

    fn send(&self, to: u64, group: Group, operation: &'static str, mut message: Vec<u8>) -> Result<(), CommError> {
        if let Some(fault) = self.does(group, operation) {
            (fault.happens)(&mut message);
        }
        self.carrier.send(to, group, operation, message)
    }

    fn receive(&self, from: u64, group: Group, operation: &'static str) -> Result<Vec<u8>, CommError> {
        self.carrier.receive(from, group, operation)
    }
}
