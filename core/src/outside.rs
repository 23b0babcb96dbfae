//! What a rank takes beyond the tensors of its budget, each term by its name and with its source: what PyTorch's allocator
//! rounds up, and what communicators buffer.
//!
//! What follows from a layout is counted, and no more. How much memory an allocator reserves beyond that depends on the order
//! in which tensors come and go, how many channels a communicator opens on the machine's links; the CUDA context is the
//! driver's. They belong to `headroom`. Workspaces of libraries are tensors of the budget
//! ([`Role::Workspace`](crate::Role::Workspace)).

use crate::bytes::Bytes;
use crate::groups::Group;
use crate::inventory::Phase;
use crate::plan::Plan;
use crate::saturating::mul;
use alloc::vec::Vec;
use core::fmt;

/// One term.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Term {
    /// What takes it.
    pub name: &'static str,
    /// How much it is.
    pub bytes: Bytes,
    /// Where that is written.
    pub source: &'static str,
}

/// `64.00 KiB  rounding of tensors to 512 B; …`.
impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12}  {}; {}", self.bytes, self.name, self.source)
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// `kMinBlockSize`; `kSmallSize` and `kSmallBuffer`; `kMinLargeAlloc` and `kLargeBuffer`; `kRoundLarge`, with
/// `expandable_segments` off.
const PYTORCH: &str = "PyTorch 001074d2, c10/cuda/CUDACachingAllocator.cpp";
const BLOCK: u64 = 512;
const SMALL: u64 = MIB;
const SMALL_SEGMENT: u64 = 2 * MIB;
const LARGE: u64 = 10 * MIB;
const MIDDLE_SEGMENT: u64 = 20 * MIB;

/// The buffers of a connection for each of three protocols: `DEFAULT_LL_BUFFSIZE`, `DEFAULT_LL128_BUFFSIZE` and
/// `DEFAULT_BUFFSIZE`.
const NCCL: &str = "NCCL 2.30.7, src/init.cc";
const CONNECTION: u64 = 512 * KIB + 4800 * KIB + 4 * MIB;

impl Plan {
    /// What a rank of a stage takes beyond its budget, in the phase where that is most: what blocks are longer than tensors,
    /// what segments are longer than blocks before use cuts them up, and the buffers of one channel, to one other rank, of each
    /// communicator.
    ///
    /// ```
    /// use moe_model_core::preset::MIXTRAL_8X7B;
    /// use moe_model_core::spec::{Batch, Mesh, Spec, Switch};
    /// use moe_model_core::{Bytes, Plan};
    ///
    /// let mut spec = Spec { architecture: MIXTRAL_8X7B, ..Spec::DEFAULT };
    /// spec.layout.batch = Batch { sequence: 4096, ..Batch::DEFAULT };
    /// spec.layout.mesh = Mesh { tp: 4, sequence_parallel: Switch::On, ..Mesh::DEFAULT };
    /// let terms = Plan::new(spec).expect("the layout is legal").outside(0);
    /// assert_eq!(terms.len(), 3);
    /// // Tensor-parallel ranks are the one group of several.
    /// assert_eq!(terms[2].bytes, Bytes::new(9_633_792));
    /// ```
    ///
    /// # Panics
    /// If there are not so many stages.
    #[must_use]
    pub fn outside(&self, stage: u64) -> Vec<Term> {
        let [rounding, segments] = self.around_tensors(stage, self.budget(stage).peak().phase);
        let communicators = mul(self.communicators(stage), CONNECTION);
        alloc::vec![
            Term { name: "rounding of tensors to 512 B", bytes: rounding, source: PYTORCH },
            Term { name: "ends of the segments that tensors lie in", bytes: segments, source: PYTORCH },
            Term { name: "a channel between two ranks of each group", bytes: Bytes::new(communicators), source: NCCL },
        ]
    }

    /// What blocks are longer than tensors, and what is left over of segments: each tensor of 10 MiB or more has one of its own,
    /// a multiple of 2 MiB; smaller ones fill those of 20 MiB, those up to 1 MiB of 2 MiB.
    fn around_tensors(&self, stage: u64, phase: Phase) -> [Bytes; 2] {
        let (mut rounding, mut ends, mut small, mut middle) = (0_u64, 0_u64, 0_u64, 0_u64);
        for line in self.explain(stage, phase).lines {
            let entry = line.entry;
            let one = entry.one().bytes();
            let count = line.bytes.bytes() / one.max(1);
            let block = one.next_multiple_of(BLOCK);
            let all = mul(count, block);
            rounding = rounding.saturating_add(mul(count, block - one));
            if block <= SMALL {
                small = small.saturating_add(all);
            } else if block < LARGE {
                middle = middle.saturating_add(all);
            } else {
                ends = ends.saturating_add(mul(count, block.next_multiple_of(SMALL_SEGMENT) - block));
            }
        }
        let of_small = small.next_multiple_of(SMALL_SEGMENT) - small;
        let of_middle = middle.next_multiple_of(MIDDLE_SEGMENT) - middle;
        [Bytes::new(rounding), Bytes::new(ends.saturating_add(of_small).saturating_add(of_middle))]
    }

    /// Groups of several ranks that a rank of the stage is in, those with the same members once.
    fn communicators(&self, stage: u64) -> u64 {
        let rank = self.ranks_of_stage(stage).start;
        let mut seen = Vec::new();
        for kind in Group::ALL {
            let ranks = self.group(*kind, rank);
            if ranks.count > 1 && !seen.contains(&ranks) {
                seen.push(ranks);
            }
        }
        seen.len() as u64
    }
}
