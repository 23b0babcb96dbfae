//! Where a figure of a budget comes from: the tensors that a rank holds in the worst moment of a phase, each with its shape,
//! its number and who counts it so.

use crate::behind;
use crate::bytes::Bytes;
use crate::cost::Piece;
use crate::counts::Counts;
use crate::inventory::{Block, Entry, Lifetime, Module, Phase};
use crate::plan::Plan;
use crate::sizes::Dim;
use crate::spec::Accounting;
use alloc::vec::Vec;
use core::fmt;

/// A kind of tensor, and what it takes.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The kind.
    pub entry: Entry,
    /// Bytes of all of them then: of what lives from forward to backward, for all micro-batches in flight.
    pub bytes: Bytes,
}

impl Line {
    /// How its bytes come about, each factor by its name and number: `b=1 x s=4096 x h=7168 x 2 B x 60`.
    #[must_use]
    pub fn formula(&self) -> Formula {
        Formula { entry: self.entry, times: self.bytes.bytes() / self.entry.one().bytes().max(1) }
    }
}

/// A kind of tensor, so many times: prints the product that its bytes are, from left to right, quotients rounded up.
#[derive(Clone, Copy, Debug)]
pub struct Formula {
    entry: Entry,
    times: u64,
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, dim) in self.entry.shape.iter().filter(|dim| **dim != Dim::ONE).enumerate() {
            write!(f, "{}{dim}={}", if place > 0 { " x " } else { "" }, dim.local)?;
        }
        if self.entry.shards > 1 {
            write!(f, " / {}", self.entry.shards)?;
        }
        let is_scalar = self.entry.shape.iter().all(|dim| *dim == Dim::ONE);
        write!(f, "{}{} B", if is_scalar { "" } else { " x " }, self.entry.element.bytes)?;
        if self.times == 1 { Ok(()) } else { write!(f, " x {}", self.times) }
    }
}

/// What a rank holds in the worst moment of a phase.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// Of which stage the rank is.
    pub stage: u64,
    /// The phase.
    pub phase: Phase,
    /// The largest first.
    pub lines: Vec<Line>,
}

impl Explanation {
    /// The sum of all lines: what the budget says of the phase.
    #[must_use]
    pub fn total(&self) -> Bytes {
        self.lines.iter().map(|line| line.bytes).sum()
    }
}

/// A line for each kind of tensor: what it takes, its name, shape and number, and its source.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Line { entry, bytes } in &self.lines {
            writeln!(f, "{bytes:>12}  {entry}; {}, {}", entry.role, entry.source)?;
        }
        writeln!(f, "{:>12}  in all", self.total())
    }
}

impl Plan {
    /// What a rank of a stage holds in the worst moment of a phase, tensor by tensor. Under `accounting: reference`
    /// budgets also follow which of several chunks runs, and which of its layers are computed again where others are not: they
    /// may then be less than this sum.
    ///
    /// ```
    /// use moe_model_core::preset::MIXTRAL_8X7B;
    /// use moe_model_core::spec::{Batch, Spec};
    /// use moe_model_core::{Phase, Plan, Role};
    ///
    /// let mut spec = Spec { architecture: MIXTRAL_8X7B, ..Spec::DEFAULT };
    /// spec.layout.batch = Batch { sequence: 4096, ..Batch::DEFAULT };
    /// let plan = Plan::new(spec).expect("the layout is legal");
    /// let explained = plan.explain(0, Phase::Forward);
    /// assert_eq!(explained.total(), plan.budget(0).phase(Phase::Forward));
    /// let largest = explained.lines[0];
    /// assert_eq!((largest.entry.name, largest.entry.role), ("gradient", Role::Gradient));
    /// ```
    ///
    /// # Panics
    /// If there are not so many stages.
    #[must_use]
    pub fn explain(&self, stage: u64, phase: Phase) -> Explanation {
        let inventory = self.inventory(stage);
        let is_simple = self.chunks() == 1 && self.spec().layout.recompute_layers == 0;
        let follows_blocks = matches!(self.spec().layout.accounting, Accounting::Reference(_)) && is_simple;
        let chunk = self.chunk(stage, 0);
        let moment = |block| {
            let away = if follows_blocks && matches!(phase, Phase::Forward | Phase::Backward) {
                Some(self.behind(&chunk, block)?)
            } else {
                None
            };
            let mut lines: Vec<Line> = inventory
                .iter()
                .map(|entry| Line { entry: *entry, bytes: held(entry, phase, block, away.is_some()) })
                .collect();
            behind::take_away(&mut lines, away.as_deref().unwrap_or_default());
            Some(lines)
        };
        // The head first: of moments alike it is the one that the budget means.
        let blocks = core::iter::once(Block::Head).chain(Block::ALL.iter().copied());
        let worst = |(most, lines): (Bytes, Vec<Line>), next: Vec<Line>| {
            let bytes = next.iter().map(|line| line.bytes).sum();
            if bytes > most { (bytes, next) } else { (most, lines) }
        };
        let (_, mut lines) = blocks.filter_map(moment).fold((Bytes::ZERO, Vec::new()), worst);
        lines.retain(|line| line.bytes > Bytes::ZERO);
        lines.sort_by_key(|line| core::cmp::Reverse(line.bytes));
        Explanation { stage, phase, lines }
    }

    /// What one micro-batch keeps from its forward to its backward on a rank of a stage, tensor by tensor.
    ///
    /// # Panics
    /// If there are not so many stages.
    #[must_use]
    pub fn explain_micro_batch(&self, stage: u64) -> Vec<Line> {
        let inventory = self.inventory(stage);
        let kept = inventory.iter().filter(|entry| entry.lifetime == Lifetime::MicroBatch);
        kept.map(|entry| Line { entry: *entry, bytes: entry.bytes() }).collect()
    }

    /// What [`forward_cost`](Self::forward_cost) is the sum of: each product, and each thing that is sent.
    ///
    /// # Panics
    /// If there are not so many stages.
    #[must_use]
    pub fn explain_forward(&self, stage: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        self.each_piece(stage, Counts::all, &mut |piece| pieces.push(*piece));
        pieces
    }

    /// What [`recompute_cost`](Self::recompute_cost) is the sum of.
    ///
    /// # Panics
    /// If there are not so many stages.
    #[must_use]
    pub fn explain_recompute(&self, stage: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        self.each_recomputed(stage, &mut |piece| pieces.push(*piece));
        pieces
    }
}

/// What an entry takes in a phase while a block runs: nothing if it belongs to another block; and while layers run, the head
/// holds nothing of their micro-batch.
fn held(entry: &Entry, phase: Phase, runs: Block, follows_blocks: bool) -> Bytes {
    let block = match entry.lifetime {
        Lifetime::InForward(block)
        | Lifetime::InBackward(block)
        | Lifetime::InPrefill(block)
        | Lifetime::InDecode(block) => Some(block),
        _ => None,
    };
    if block.is_some_and(|block| block != runs) {
        return Bytes::ZERO;
    }
    let all = entry.bytes_at(phase);
    let is_of_head = entry.module == Module::Head && entry.lifetime == Lifetime::MicroBatch;
    let is_away =
        is_of_head && runs != Block::Head && !follows_blocks && matches!(phase, Phase::Forward | Phase::Backward);
    // Of one micro-batch, if any is in flight in the head.
    if is_away { Bytes::new(all.bytes().saturating_sub(entry.bytes().bytes())) } else { all }
}
