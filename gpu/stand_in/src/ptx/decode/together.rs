//! What lanes of a warp, or threads of a block, do together.

use super::{Decoder, type_of};
use crate::ptx::PtxError;
use crate::ptx::instruction::{Binary, Gather, NEVER, Op, Shuffle, Type, Vote};

impl Decoder<'_> {
    pub(super) fn shuffle(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        let ["sync", mode, "b32"] = rest else { return self.unknown() };
        let mode = match *mode {
            "up" => Shuffle::Up,
            "down" => Shuffle::Down,
            "bfly" => Shuffle::Butterfly,
            "idx" => Shuffle::Index,
            _ => return self.unknown(),
        };
        let d = self.result(0)?;
        let (p, first) = self.may_result_predicate()?;
        self.count(first + 4)?;
        let (a, b) = (self.typed(first, Type::U32)?, self.typed(first + 1, Type::U32)?);
        let (clamp, members) = (self.typed(first + 2, Type::U32)?, self.typed(first + 3, Type::U32)?);
        Ok(Op::Shuffle { mode, d, p, a, b, clamp, members })
    }

    pub(super) fn vote(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        self.count(3)?;
        let (a, negate) = self.predicate(1)?;
        let members = self.typed(2, Type::U32)?;
        let vote = match rest {
            ["sync", "ballot", "b32"] => {
                return Ok(Op::Vote { vote: Vote::Ballot, d: self.result(0)?, p: NEVER, a, negate, members });
            }
            ["sync", "all", "pred"] => Vote::All,
            ["sync", "any", "pred"] => Vote::Any,
            ["sync", "uni", "pred"] => Vote::Uniform,
            _ => return self.unknown(),
        };
        Ok(Op::Vote { vote, d: 0, p: self.result_predicate(0)?, a, negate, members })
    }

    pub(super) fn redux(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        self.count(3)?;
        let ["sync", op, ty] = rest else { return self.unknown() };
        let op = match *op {
            "add" => Binary::Add,
            "min" => Binary::Minimum,
            "max" => Binary::Maximum,
            "and" => Binary::And,
            "or" => Binary::Or,
            "xor" => Binary::Xor,
            _ => return self.unknown(),
        };
        let Some(ty @ (Type::U32 | Type::S32)) = type_of(ty) else { return self.unknown() };
        Ok(Op::Reduce { op, ty, d: self.result(0)?, a: self.typed(1, ty)?, members: self.typed(2, Type::U32)? })
    }

    pub(super) fn match_(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        let [mode @ ("any" | "all"), "sync", ty] = rest else { return self.unknown() };
        let Some(ty @ (Type::U32 | Type::U64)) = type_of(ty) else { return self.unknown() };
        let d = self.result(0)?;
        let (p, first) = self.may_result_predicate()?;
        self.count(first + 2)?;
        let (a, members) = (self.typed(first, ty)?, self.typed(first + 1, Type::U32)?);
        Ok(Op::Match { all: *mode == "all", ty, d, p, a, members })
    }

    pub(super) fn barrier(&mut self, rest: &[&str]) -> Result<Op, PtxError> {
        match rest {
            ["warp", "sync"] => {
                self.count(1)?;
                Ok(Op::WarpBarrier { members: self.typed(0, Type::U32)? })
            }
            ["sync"] | ["cta", "sync"] | ["sync", "aligned"] | ["cta", "sync", "aligned"] => {
                if self.operands.len() != 1 {
                    return self.refuse("a barrier of a part of the block is not understood");
                }
                Ok(Op::Barrier { id: self.typed(0, Type::U32)?, gather: None })
            }
            _ => {
                let kinds: Vec<&str> =
                    rest.iter().copied().filter(|s| !matches!(*s, "cta" | "red" | "sync" | "aligned")).collect();
                if !rest.contains(&"red") {
                    return self.unknown();
                }
                self.count(3)?;
                let (p, negate) = self.predicate(2)?;
                let id = self.typed(1, Type::U32)?;
                let gather = match kinds[..] {
                    ["popc", "u32"] => (Gather::Count, self.result(0)?, NEVER, p, negate),
                    ["and", "pred"] => (Gather::All, 0, self.result_predicate(0)?, p, negate),
                    ["or", "pred"] => (Gather::Any, 0, self.result_predicate(0)?, p, negate),
                    _ => return self.unknown(),
                };
                Ok(Op::Barrier { id, gather: Some(gather) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{one, refused};
    use crate::ptx::instruction::{Binary, Gather, Op, Shuffle, Vote};

    #[test]
    fn operations_of_several_lanes_name_them() {
        let Op::Shuffle { mode, p, .. } = one("shfl.sync.bfly.b32 %r1|%p1, %r2, 4, 31, -1;").unwrap() else { panic!() };
        assert!(mode == Shuffle::Butterfly && p.is_some());
        let Op::Vote { vote, .. } = one("vote.sync.uni.pred %p1, !%p2, -1;").unwrap() else { panic!() };
        assert_eq!(vote, Vote::Uniform);
        let Op::Reduce { op, .. } = one("redux.sync.min.s32 %r1, %r2, -1;").unwrap() else { panic!() };
        assert_eq!(op, Binary::Minimum);
        let Op::Barrier { gather, .. } = one("bar.red.popc.u32 %r1, 0, %p1;").unwrap() else { panic!() };
        assert!(matches!(gather, Some((Gather::Count, .., false))));
        assert!(matches!(one("barrier.cta.sync.aligned 0;"), Ok(Op::Barrier { gather: None, .. })));
        for text in ["shfl.up.b32 %r1, %r2, 1, 0;", "bar.arrive 0, 64;", "redux.sync.add.f32 %f1, %f2, -1;"] {
            assert!(refused(text).contains("not understood"), "{text}");
        }
    }
}
