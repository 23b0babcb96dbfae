//! What a rank of the reference step sends to others in a step, collective by collective. The step's communicator counts
//! what it sends, and worlds hold the two against each other.

mod replicas;

use crate::bytes::Bytes;
use crate::cost::{own_tokens, to_others, tokens, traded};
use crate::counts::Counts;
use crate::groups::{Coordinates, Group};
use crate::mixers::{At, Slot};
use crate::plan::Plan;
use crate::saturating::{add, mul};
use crate::sizes::{Dim, Sizes};
use crate::spec::{Accounting, Attention, Recompute, Routing};
use alloc::vec::Vec;

/// What ranks of a group do together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Operation {
    /// Each gets what each has.
    AllGather,
    /// Each gets its part of the sum of what each has.
    ReduceScatter,
    /// Each gets the sum, or the largest, of what each has: as a reduce-scatter and an all-gather, of parts that are as long as
    /// each other but for the last ones.
    AllReduce,
    /// Copies of tokens go to the ranks of their experts, or heads to those that trade tokens for them, or back.
    AllToAll,
    /// Each says how many copies of tokens it is about to send.
    Counts,
    /// One rank sends to another.
    Send,
}

impl Operation {
    /// Every operation.
    pub const ALL: &'static [Self] =
        &[Self::AllGather, Self::ReduceScatter, Self::AllReduce, Self::AllToAll, Self::Counts, Self::Send];

    /// Its name in errors and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllGather => "all-gather",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllReduce => "all-reduce",
            Self::AllToAll => "all-to-all",
            Self::Counts => "exchange of counts",
            Self::Send => "send",
        }
    }
}

/// What a rank sends to others of a kind of group, the same so many times in a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// To whom.
    pub group: Group,
    /// In what they do together.
    pub operation: Operation,
    /// Of what.
    pub what: &'static str,
    /// Bytes to others, each time. Routing decides how many copies of tokens come to which rank of an expert group: of what
    /// they take these are each rank's share of what all send, in an all-to-all among them those included that stay.
    pub bytes: Bytes,
    /// How often in a step.
    pub times: u64,
}

impl Sent {
    /// Bytes of a step.
    #[must_use]
    pub const fn total(&self) -> Bytes {
        Bytes::new(mul(self.bytes.bytes(), self.times))
    }
}

/// Which tensor-parallel ranks have parts of the gradient of a weight that each of them holds.
#[derive(Clone, Copy)]
enum Partial {
    /// All, under sequence parallelism: each of its own tokens.
    Tokens,
    /// All: each of its own heads or columns.
    Heads,
    /// Those that share a key/value head, where there are fewer of these than ranks.
    SharedHeads,
}

/// The weights that tensor parallelism does not split, or not so far; of others a rank has the whole gradient.
const PARTIAL: &[(&str, Partial)] = &[
    ("input_layernorm.weight", Partial::Tokens),
    ("post_attention_layernorm.weight", Partial::Tokens),
    ("mlp.gate.weight", Partial::Tokens),
    ("mlp.gate.bias", Partial::Tokens),
    ("model.norm.weight", Partial::Tokens),
    ("enorm.weight", Partial::Tokens),
    ("hnorm.weight", Partial::Tokens),
    ("shared_head.norm.weight", Partial::Tokens),
    ("self_attn.q_norm.weight", Partial::Heads),
    ("self_attn.k_norm.weight", Partial::Heads),
    ("self_attn.q_a_proj.weight", Partial::Heads),
    ("self_attn.q_a_layernorm.weight", Partial::Heads),
    ("self_attn.kv_a_proj_with_mqa.weight", Partial::Heads),
    ("self_attn.kv_a_layernorm.weight", Partial::Heads),
    ("mlp.shared_expert_gate.weight", Partial::Heads),
    ("self_attn.k_proj.weight", Partial::SharedHeads),
    ("self_attn.v_proj.weight", Partial::SharedHeads),
    ("self_attn.k_proj.bias", Partial::SharedHeads),
    ("self_attn.v_proj.bias", Partial::SharedHeads),
];

impl Plan {
    /// How many neighbours among tensor-parallel ranks have parts of the gradient of a weight of the reference step that
    /// each of them holds; 1 where each has all of it.
    #[must_use]
    pub fn gradient_parts(&self, weight: &str) -> u64 {
        let mesh = &self.spec().layout.mesh;
        match PARTIAL.iter().find(|(name, _)| *name == weight) {
            Some((_, Partial::Tokens)) if mesh.sequence_parallel.is_on() => mesh.tp,
            Some((_, Partial::Heads)) => mesh.tp,
            Some((_, Partial::SharedHeads)) => match &self.spec().architecture.attention {
                Attention::Gqa(gqa) => mesh.tp / gqa.kv_heads.min(mesh.tp),
                _ => 1,
            },
            _ => 1,
        }
    }

    /// What a rank of the reference step sends to others in a step; `None` for a layout that is not of its accounting, or does
    /// not say what of each tensor ranks hold.
    ///
    /// ```
    /// use moe_model_core::preset::MIXTRAL_8X7B;
    /// use moe_model_core::spec::{Accounting, Mesh, Spec};
    /// use moe_model_core::{Group, Plan};
    ///
    /// let mut spec = Spec { architecture: MIXTRAL_8X7B, ..Spec::DEFAULT };
    /// spec.layout.mesh = Mesh { dp: 8, ep: 8, ..Mesh::DEFAULT };
    /// spec.layout.batch.sequence = 4096;
    /// spec.layout.accounting = Accounting::REFERENCE;
    /// let plan = Plan::new(spec)?;
    /// let sent = plan.traffic(0).expect("it is of the reference step");
    /// // Gradients in fp32: seven of eight parts are sent to be summed, and the sum of the eighth to seven ranks.
    /// let experts = 32 * 8 * 3 * 4096 * 14_336;
    /// let gradients = 4 * (plan.budget(0).parameters().total() - experts / 8);
    /// let of_group = |group| sent.iter().filter(move |sent| sent.group == group).map(|sent| sent.total().bytes());
    /// assert_eq!(of_group(Group::CpDp).sum::<u64>(), 2 * gradients / 8 * 7);
    /// # Ok::<(), moe_model_core::Violations>(())
    /// ```
    ///
    /// # Panics
    /// If there are not so many ranks.
    #[must_use]
    pub fn traffic(&self, rank: u64) -> Option<Vec<Sent>> {
        if !matches!(self.spec().layout.accounting, Accounting::Reference(_)) || self.spec().layout.served().is_some() {
            return None;
        }
        let holdings = self.holdings(self.coordinates(rank).pp).ok()?;
        let mut of = Of::new(self, rank);
        of.blocks();
        of.pipeline();
        of.gradients(holdings);
        of.list.retain(|sent| sent.total() > Bytes::ZERO);
        Some(of.list)
    }
}

/// What a list is made of.
struct Of<'p> {
    plan: &'p Plan,
    sizes: Sizes,
    rank: u64,
    at: Coordinates,
    counts: Counts,
    /// Blocks of attention that backward computes again, and layers with experts.
    again: [u64; 2],
    /// Bytes of an activation or a weight.
    element: u64,
    list: Vec<Sent>,
}

const FP32: u64 = 4;
const INT32: u64 = 4;
/// The sum of the losses of a rank's tokens, and how many they are.
const LOSS: u64 = 16;

impl<'p> Of<'p> {
    fn new(plan: &'p Plan, rank: u64) -> Self {
        let at = plan.coordinates(rank);
        let of_chunk = |chunk| Counts::of(plan, &plan.chunk(at.pp, chunk), 1);
        let counts = (0..plan.chunks()).map(of_chunk).fold(Counts::NONE, Counts::with);
        let is_again = matches!(plan.spec().layout.recompute, Recompute::Full);
        let again = if is_again { [counts.mixers[0].there, counts.moe.there] } else { [0; 2] };
        let counts = counts.all().tied(plan.spec().architecture.tied_embeddings);
        let element = plan.spec().layout.precision.activations.bytes();
        Self { plan, sizes: plan.sizes(), rank, at, counts, again, element, list: Vec::new() }
    }

    fn push(&mut self, group: Group, operation: Operation, what: &'static str, bytes: u64, times: u64) {
        let new = Sent { group, operation, what, bytes: Bytes::new(bytes), times };
        match self.list.iter_mut().find(|sent| Sent { times, ..**sent } == new) {
            Some(sent) => sent.times = add(sent.times, times),
            None => self.list.push(new),
        }
    }

    /// Micro-batches of a step.
    const fn micro_batches(&self) -> u64 {
        self.plan.spec().layout.batch.count
    }

    /// So many bytes to be the sum of all members' on each of them, or on those neighbours among them that share it.
    fn all_reduce(
        &mut self,
        group: Group,
        (what, times): (&'static str, u64),
        elements: u64,
        element: u64,
        share: u64,
    ) {
        let own = own_part(elements, self.plan.place(group, self.rank) % share, share);
        let sent = add(elements - own, mul(own, share - 1));
        self.push(group, Operation::AllReduce, what, mul(sent, element), times);
    }

    /// Numbers for each token that tensor-parallel ranks gather, each having its own; in each micro-batch so many times.
    fn gathered(&mut self, what: &'static str, width: Dim, times: u64) {
        let tp = self.plan.spec().layout.mesh.tp;
        if self.plan.spec().layout.mesh.sequence_parallel.is_on() {
            let all = mul(mul(tokens(&self.sizes), width.global), self.element);
            self.push(Group::Tp, Operation::AllGather, what, to_others(all, tp), mul(times, self.micro_batches()));
        }
    }

    /// Numbers for each token of which tensor-parallel ranks have parts of the sum, each to have its own tokens.
    fn summed(&mut self, what: &'static str, width: Dim, times: u64) {
        let (mesh, times) = (self.plan.spec().layout.mesh, mul(times, self.micro_batches()));
        let all = mul(tokens(&self.sizes), width.global);
        if mesh.sequence_parallel.is_on() {
            let bytes = to_others(mul(all, self.element), mesh.tp);
            self.push(Group::Tp, Operation::ReduceScatter, what, bytes, times);
        } else {
            self.all_reduce(Group::Tp, (what, times), all, self.element, mesh.tp);
        }
    }

    /// Forward and backward of a block that gathers what its norm makes, and sums what it makes.
    fn around(&mut self, what: &'static str, times: u64) {
        let hidden = self.sizes.hidden;
        // The norm's output, once more in backward, and the gradient of what the block makes.
        self.gathered(what, hidden, mul(3, times));
        self.summed(what, hidden, mul(2, times));
    }

    fn blocks(&mut self) {
        let (hidden, counts) = (self.sizes.hidden, self.counts);
        let stage = self.plan.stage(self.at.pp);
        if stage.embedding {
            self.summed("embedding", hidden, 1);
            self.gathered("embedding", hidden, 1);
        }
        self.around("attention", counts.mixers[0].there);
        self.trade(counts.mixers[0].there);
        self.ring(counts.mixers[0].there);
        self.around("dense feed-forward network", counts.dense.there);
        self.experts(counts.moe.there);
        self.head("head", counts.last.there);
        self.entrance(counts.mtp.there);
        self.head("head of a module for multi-token prediction", counts.mtp.there);
    }

    /// Heads that context-parallel ranks trade tokens for, and their gradients.
    fn trade(&mut self, times: u64) {
        let (plan, sizes) = (self.plan, &self.sizes);
        let ranks = plan.spec().layout.mesh.trading_ranks();
        let Some(heads) = (At { plan, sizes, slot: Slot::Attention }).heads() else { return };
        let bytes = mul(traded(sizes, &heads, ranks), self.element);
        let times = add(mul(2, times), self.again[0]);
        self.push(Group::Cp, Operation::AllToAll, "heads", bytes, mul(times, self.micro_batches()));
    }

    /// Keys and values that context-parallel ranks pass round, forward to the last of them; and in backward once more, with
    /// their gradients, which end where they began.
    fn ring(&mut self, times: u64) {
        let (plan, sizes) = (self.plan, &self.sizes);
        let ranks = plan.spec().layout.mesh.ring_ranks();
        let Some(heads) = (At { plan, sizes, slot: Slot::Attention }).heads() else { return };
        if ranks == 1 {
            return;
        }
        let numbers = mul(mul(tokens(sizes), heads.keys.local), add(heads.width.local, heads.value.local));
        let (times, again) = (mul(times, self.micro_batches()), mul(self.again[0], self.micro_batches()));
        let (bytes, rounds) = (mul(numbers, self.element), add(mul(2, times), again));
        self.push(Group::Cp, Operation::Send, "keys and values", bytes, mul(rounds, ranks - 1));
        self.push(Group::Cp, Operation::Send, "their gradients", mul(numbers, FP32), mul(times, ranks));
    }

    fn experts(&mut self, times: u64) {
        const WHAT: &str = "shared experts";
        let hidden = self.sizes.hidden;
        if self.plan.spec().architecture.experts.shared > 0 {
            self.around(WHAT, times);
        } else {
            // The gradient of what the block makes is gathered whoever reads it.
            self.gathered(WHAT, hidden, times);
        }
        let (mesh, times) = (self.plan.spec().layout.mesh, mul(times, self.micro_batches()));
        if mesh.expert_ranks() == 1 {
            return;
        }
        let again = mul(self.again[1], self.micro_batches());
        let copies = match self.plan.spec().layout.routing {
            Routing::Dropless(_) => {
                let (what, times) = ("copies of each expert", add(times, again));
                let counts = mul(self.sizes.local_experts.local, INT32);
                self.push(Group::Ep, Operation::Counts, what, mul(counts, mesh.ep - 1), times);
                self.push(Group::Etp, Operation::Counts, what, mul(mul(counts, mesh.ep), mesh.etp - 1), times);
                mul(own_tokens(&self.sizes), self.sizes.active.local)
            }
            // Slots are sent, empty or not, as many as come back.
            Routing::Capacity(_) => self.plan.received_rows(),
        };
        let row = mul(hidden.local, self.element);
        // There and back in either direction, and there once more to be computed again; their weights there, and the gradients
        // of these back.
        for (what, bytes, there, back) in [
            ("copies of tokens", row, add(mul(2, times), again), mul(2, times)),
            ("weights of copies", FP32, add(times, again), times),
        ] {
            let bytes = mul(copies, bytes);
            self.push(Group::Ep, Operation::AllToAll, what, bytes, add(there, back));
            let shared = mul(bytes, mesh.etp - 1);
            self.push(Group::Etp, Operation::AllGather, what, shared, there);
            self.push(Group::Etp, Operation::ReduceScatter, what, shared, back);
        }
    }

    /// A norm, the logits and the loss.
    fn head(&mut self, what: &'static str, times: u64) {
        let tp = self.plan.spec().layout.mesh.tp;
        self.gathered(what, self.sizes.hidden, mul(2, times));
        self.summed(what, self.sizes.hidden, times);
        // The largest logit of each token, the sum of exponentials, the label's logit.
        let times = mul(times, self.micro_batches());
        self.all_reduce(Group::Tp, (what, mul(3, times)), tokens(&self.sizes), FP32, tp);
        let loss = mul(LOSS, self.plan.spec().layout.mesh.cp - 1);
        self.push(Group::Cp, Operation::AllGather, what, loss, times);
    }

    /// What a module for multi-token prediction has in front of its layer.
    fn entrance(&mut self, times: u64) {
        const WHAT: &str = "entrance of a module for multi-token prediction";
        let (hidden, twice, tp) = (self.sizes.hidden, self.sizes.hidden_twice, self.plan.spec().layout.mesh.tp);
        // The next token's embedding, and its gradient.
        self.summed(WHAT, hidden, times);
        self.gathered(WHAT, hidden, times);
        // What is projected, once more in backward, and its gradient; the gradient of what is made.
        self.gathered(WHAT, twice, mul(2, times));
        self.summed(WHAT, twice, times);
        self.gathered(WHAT, hidden, times);
        // Columns of the projection.
        let columns = mul(mul(tokens(&self.sizes), hidden.global), self.element);
        let times = mul(times, self.micro_batches());
        self.push(Group::Tp, Operation::AllGather, WHAT, to_others(columns, tp), times);
    }

    /// Hidden states to the next stage, and their gradients to the one in front.
    fn pipeline(&mut self) {
        let plan = self.plan;
        let hidden = mul(mul(own_tokens(&self.sizes), self.sizes.hidden.local), self.element);
        for chunk in 0..plan.chunks() {
            let chunk = plan.chunk(self.at.pp, chunk);
            let [forward, backward] = [!chunk.head, !chunk.embedding].map(u64::from);
            self.push(Group::Pp, Operation::Send, "hidden states", hidden, mul(forward, self.micro_batches()));
            self.push(Group::Pp, Operation::Send, "their gradients", hidden, mul(backward, self.micro_batches()));
        }
    }
}

/// What of so many elements a member of a group sums for all: parts are as long as each other, but for the last ones.
fn own_part(elements: u64, place: u64, members: u64) -> u64 {
    let part = elements.div_ceil(members);
    elements.min(mul(part, place + 1)) - elements.min(mul(part, place))
}
