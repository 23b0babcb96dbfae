//! Which ranks share what: the place of a rank in the mesh, and the members of every group that it is in.
//!
//! Ranks are numbered in the order tp-cp-ep-dp-pp, the default of megatron-core 0.16 (`RankGenerator` in
//! `core/parallel_state.py`): the first axis changes with every rank, the last one slowest. Two grids lie over the same
//! ranks of a stage. In the dense one ep is no axis, so tp changes first, then cp, then dp. In the expert one tp and dp
//! are those of experts and cp is no axis, so etp changes first, then ep, then edp. Stages come last in both, so that each
//! is a run of ranks: [`Plan::ranks_of_stage`].
//!
//! The axes of a group lie next to one another in that order, so its members are evenly spaced and nothing is stored.

use crate::plan::Plan;

/// A kind of group: the axes along which its members differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Group {
    /// Ranks that split the dense tensors of a layer.
    Tp,
    /// Ranks that split a sequence.
    Cp,
    /// Ranks with the same part of the model and other sequences.
    Dp,
    /// Ranks with the same part of other stages.
    Pp,
    /// Ranks that split a sequence, under sequence parallelism over tensor-parallel ranks too.
    TpCp,
    /// Replicas of a dense parameter: who adds up its gradients, and shares its state under ZeRO.
    CpDp,
    /// Ranks that split one expert.
    Etp,
    /// Ranks that the routed experts are dealt over.
    Ep,
    /// Ranks that hold all routed experts once.
    EtpEp,
    /// Replicas of a routed expert: who adds up its gradients, and shares its state under ZeRO.
    Edp,
}

impl Group {
    /// Every kind.
    pub const ALL: &'static [Self] =
        &[Self::Tp, Self::Cp, Self::Dp, Self::Pp, Self::TpCp, Self::CpDp, Self::Etp, Self::Ep, Self::EtpEp, Self::Edp];

    /// Its axes, the fastest first.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tp => "tp",
            Self::Cp => "cp",
            Self::Dp => "dp",
            Self::Pp => "pp",
            Self::TpCp => "tp-cp",
            Self::CpDp => "cp-dp",
            Self::Etp => "etp",
            Self::Ep => "ep",
            Self::EtpEp => "etp-ep",
            Self::Edp => "edp",
        }
    }
}

/// The members of one group: evenly spaced ranks, in order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Ranks {
    /// The first member.
    pub first: u64,
    /// From one member to the next.
    pub stride: u64,
    /// How many there are.
    pub count: u64,
}

impl Ranks {
    /// Whether a rank is one of them.
    #[must_use]
    pub const fn has(self, rank: u64) -> bool {
        rank >= self.first && (rank - self.first).is_multiple_of(self.stride) && rank <= self.last()
    }

    /// The last member.
    #[must_use]
    pub const fn last(self) -> u64 {
        self.first + (self.count - 1) * self.stride
    }

    /// The member at a place, from 0.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub const fn at(self, place: u64) -> u64 {
        assert!(place < self.count, "the group has fewer members");
        self.first + place * self.stride
    }
}

impl IntoIterator for Ranks {
    type Item = u64;
    type IntoIter = Members;

    fn into_iter(self) -> Members {
        Members { ranks: self, next: 0 }
    }
}

/// The members of a group, one by one.
#[derive(Clone, Debug)]
pub struct Members {
    ranks: Ranks,
    next: u64,
}

impl Iterator for Members {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.next == self.ranks.count {
            return None;
        }
        self.next += 1;
        Some(self.ranks.at(self.next - 1))
    }
}

/// The place of a rank in both grids, each from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // each is the place in the group of its name
pub struct Coordinates {
    pub tp: u64,
    pub cp: u64,
    pub dp: u64,
    pub etp: u64,
    pub ep: u64,
    pub edp: u64,
    pub pp: u64,
}

impl Plan {
    /// The stride and the length of a kind of group. Those of a checked mesh fit, since its world does.
    const fn axis(&self, kind: Group) -> (u64, u64) {
        let mesh = &self.spec().layout.mesh;
        match kind {
            Group::Tp => (1, mesh.tp),
            Group::Cp => (mesh.tp, mesh.cp),
            Group::Dp => (mesh.tp * mesh.cp, mesh.dp),
            Group::TpCp => (1, mesh.tp * mesh.cp),
            Group::CpDp => (mesh.tp, mesh.cp * mesh.dp),
            Group::Etp => (1, mesh.etp),
            Group::Ep => (mesh.etp, mesh.ep),
            Group::EtpEp => (1, mesh.expert_ranks()),
            Group::Edp => (mesh.expert_ranks(), self.edp()),
            Group::Pp => (self.stage_ranks(), mesh.pp),
        }
    }

    /// The group of a kind that a rank is in. Every rank is in one of each kind.
    ///
    /// ```
    /// use moe_model_core::spec::{Experts, Layers, Mesh};
    /// use moe_model_core::{Group, Plan, Spec};
    ///
    /// let mut spec = Spec::DEFAULT;
    /// spec.architecture.layers = Layers { moe: 2, ..Layers::DEFAULT };
    /// spec.architecture.experts = Experts { routed: 8, active: 2, ffn: 64, ..Experts::DEFAULT };
    /// spec.layout.mesh = Mesh { dp: 4, cp: 2, ep: 4, pp: 2, ..Mesh::DEFAULT };
    /// spec.layout.batch.sequence = 16;
    /// let plan = Plan::new(spec)?;
    /// assert_eq!(plan.group(Group::Ep, 5).into_iter().collect::<Vec<_>>(), [4, 5, 6, 7]);
    /// assert_eq!(plan.group(Group::Edp, 5).into_iter().collect::<Vec<_>>(), [1, 5]);
    /// assert_eq!(plan.group(Group::Pp, 5).into_iter().collect::<Vec<_>>(), [5, 13]);
    /// # Ok::<(), moe_model_core::Violations>(())
    /// ```
    ///
    /// # Panics
    /// If there are not so many ranks.
    #[must_use]
    pub const fn group(&self, kind: Group, rank: u64) -> Ranks {
        let (stride, count) = self.axis(kind);
        Ranks { first: rank - self.place(kind, rank) * stride, stride, count }
    }

    /// All groups of a kind, by their first members; each rank is in one of them.
    pub fn groups(&self, kind: Group) -> impl Iterator<Item = Ranks> {
        let (stride, count) = self.axis(kind);
        let first = move |group: u64| group / stride * stride * count + group % stride;
        (0..self.world() / count).map(move |group| Ranks { first: first(group), stride, count })
    }

    /// The place of a rank in its group of a kind, from 0.
    ///
    /// # Panics
    /// If there are not so many ranks.
    #[must_use]
    pub const fn place(&self, kind: Group, rank: u64) -> u64 {
        assert!(rank < self.world(), "the world has fewer ranks");
        let (stride, count) = self.axis(kind);
        rank / stride % count
    }

    /// The place of a rank along every axis.
    ///
    /// # Panics
    /// If there are not so many ranks.
    #[must_use]
    pub const fn coordinates(&self, rank: u64) -> Coordinates {
        Coordinates {
            tp: self.place(Group::Tp, rank),
            cp: self.place(Group::Cp, rank),
            dp: self.place(Group::Dp, rank),
            etp: self.place(Group::Etp, rank),
            ep: self.place(Group::Ep, rank),
            edp: self.place(Group::Edp, rank),
            pp: self.place(Group::Pp, rank),
        }
    }
}
