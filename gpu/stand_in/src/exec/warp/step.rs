//! One instruction of lanes that are together: where they go on.

use super::{Flow, Warp};
use crate::exec::Surroundings;
use crate::ptx::instruction::{Instruction, Op};
use crate::report::{Code, Fault};

impl Warp {
    /// Runs an instruction for the lanes of a mask, of a group that is at it.
    pub(super) fn step(
        &mut self,
        instruction: &Instruction,
        at: u32,
        group: u32,
        mask: u32,
        around: &mut Surroundings<'_>,
    ) -> Result<Flow, Fault> {
        match &instruction.op {
            Op::Load { space, ty, d, base, offset } => {
                self.load(at, mask, (*space, *ty, *base, *offset), d, around)?;
            }
            Op::Store { space, ty, a, base, offset } => {
                self.store(at, mask, (*space, *ty, *base, *offset), a, around)?;
            }
            &Op::Atomic { space, op, ty, d, base, offset, a, b } => {
                self.atomic(at, mask, (space, ty, base, offset), (op, d, a, b), around)?;
            }
            op @ (Op::Shuffle { members, .. }
            | Op::Vote { members, .. }
            | Op::Reduce { members, .. }
            | Op::Match { members, .. }
            | Op::WarpBarrier { members }) => return self.wait(op, at, (group, mask), *members, around),
            Op::Barrier { .. } => {
                self.set_at(group, at + 1);
                self.set_at(mask, at);
                self.at_barrier |= mask;
                return Ok(Flow::Split);
            }
            Op::Fence => {}
            Op::Branch { target } => {
                if mask == group {
                    return Ok(Flow::Jump(*target));
                }
                self.set_at(group, at + 1);
                self.set_at(mask, *target);
                return Ok(Flow::Split);
            }
            Op::Exit => {
                self.set_at(group, at + 1);
                self.live &= !mask;
                return Ok(Flow::Split);
            }
            Op::Trap => return Err(around.fault(Code::LaunchFailed, at, self.first(mask), "trap")),
            op @ (Op::Unary { .. }
            | Op::Binary { .. }
            | Op::Ternary { .. }
            | Op::BitFieldInsert { .. }
            | Op::Convert { .. }
            | Op::ConvertPair { .. }
            | Op::Convey { .. }
            | Op::Pack { .. }
            | Op::Unpack { .. }
            | Op::ActiveMask { .. }) => self.compute(op, mask),
            op @ (Op::Compare { .. }
            | Op::CompareTo { .. }
            | Op::Select { .. }
            | Op::PredicateMove { .. }
            | Op::PredicateLogic { .. }) => self.decide(op, mask),
        }
        Ok(Flow::Next)
    }
}
