//! Sums of an inventory: what budgets are made of. Sums of one layer of each kind make those of any stage, so that
//! a pipeline of any length costs one listing of each kind.

use crate::accounting;
use crate::counts::{Count, Counts, Part};
use crate::inventory::{Phase, Role, Sink, Turns};
use crate::mixers::cache::Kept;
use crate::plan::Plan;
use crate::serving;
use crate::spec::{Accounting, LayerKind, LayerList};
use crate::stages::{CHUNKS_MAX, Chunk};
use crate::together::{Held, Runs};
use crate::weights;

pub(crate) const ROLES: usize = Role::ALL.len();

/// Bytes by lifetime, and by role where the lifetime does not say it. In 128 bits, where no sum of a model overflows, so
/// that the compiler's const evaluation, whose calls are dear, adds and multiplies in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tally {
    /// Parameters of router and experts, before ZeRO shares them out.
    pub(crate) moe: u128,
    /// All other parameters.
    pub(crate) non_moe: u128,
    /// Parameters by ZeRO group: dense, expert.
    pub(crate) grouped: [u128; 2],
    /// What of them the rank holds, where replicas share out weights too.
    pub(crate) shares: [u128; 2],
    /// What stands from loading to the end, by role.
    pub(crate) always: [u128; ROLES],
    /// Activations of one micro-batch, in all chunks.
    pub(crate) micro_batch: u128,
    /// Activations of all micro-batches in flight, in the worst moment.
    pub(crate) stored: u128,
    /// Communication buffers that stand throughout forward and backward.
    pub(crate) buffers: u128,
    /// Transients of forward: of one block, or of the largest of those that take turns.
    pub(crate) forward: u128,
    /// Transients of backward, likewise.
    pub(crate) backward: u128,
    /// The worst moment of forward and of backward.
    worst: [Worst; 2],
    /// Transients of the optimizer step.
    pub(crate) update: u128,
    /// What is kept between steps without need.
    pub(crate) idle: u128,
    /// Transients of prefill, of one block or of the largest of those that take turns.
    pub(crate) prefill: u128,
    /// Transients of decode, likewise.
    pub(crate) decode: u128,
}

/// The moment of forward or backward in which most is held: what a block works on, while what the blocks behind it save of
/// the same micro-batch is not yet there, or no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Worst {
    works: u128,
    away: u128,
}

impl Worst {
    const NONE: Self = Self { works: 0, away: BEYOND };

    /// The same where so much is stored, less than at another time.
    const fn beside(self, most: u128, stored: u128) -> Self {
        Self { works: self.works, away: self.away + most.saturating_sub(stored) }
    }

    const fn or(self, works: u128, away: u128) -> Self {
        if works + self.away >= self.works + away { Self { works, away } } else { self }
    }
}

/// Stands for amounts that outgrow 64 bits by far: sums of several of these still fit.
const BEYOND: u128 = 1 << 120;

const fn larger(a: u128, b: u128) -> u128 {
    if a < b { b } else { a }
}

impl Tally {
    pub(crate) const EMPTY: Self = Self {
        moe: 0,
        non_moe: 0,
        grouped: [0; 2],
        shares: [0; 2],
        always: [0; ROLES],
        micro_batch: 0,
        stored: 0,
        buffers: 0,
        forward: 0,
        backward: 0,
        worst: [Worst::NONE; 2],
        update: 0,
        idle: 0,
        prefill: 0,
        decode: 0,
    };

    /// Adds `count` times the sums of one part of a model. Weights and activations of so many parts are so many
    /// times those of one; buffers serve all layers, and the parts, a block each, take turns.
    /// While they run, so much of their micro-batch is away.
    const fn add_many(&mut self, one: &Self, count: Count, away: u128) {
        if count.there == 0 {
            return;
        }
        let is_counted = one.micro_batch <= u64::MAX as u128;
        let stored = if is_counted { one.micro_batch * count.in_flight as u128 } else { BEYOND };
        self.stored += if stored > BEYOND { BEYOND } else { stored };
        let count = count.there as u128;
        self.moe += one.moe * count;
        self.non_moe += one.non_moe * count;
        self.grouped[0] += one.grouped[0] * count;
        self.grouped[1] += one.grouped[1] * count;
        self.shares[0] += one.shares[0] * count;
        self.shares[1] += one.shares[1] * count;
        // Of what always stands, parts hold weights and workspaces: the state of all of them is listed together.
        self.always[Role::Weight as usize] += one.always[Role::Weight as usize] * count;
        self.always[Role::Workspace as usize] += one.always[Role::Workspace as usize] * count;
        self.micro_batch += one.micro_batch * count;
        self.idle += one.idle * count;
        self.buffers = larger(self.buffers, one.buffers);
        self.forward = larger(self.forward, one.forward);
        self.backward = larger(self.backward, one.backward);
        self.prefill = larger(self.prefill, one.prefill);
        self.decode = larger(self.decode, one.decode);
        self.worst = [self.worst[0].or(one.forward, away), self.worst[1].or(one.backward, away)];
    }

    /// Weights, gradients and optimizer state.
    pub(crate) const fn standing(&self) -> u128 {
        let (mut sum, mut role) = (0, 0);
        while role < ROLES {
            sum += self.always[role];
            role += 1;
        }
        sum
    }

    /// Transients at the peak of a phase.
    pub(crate) const fn transients(&self, phase: Phase) -> u128 {
        match phase {
            Phase::BetweenSteps => 0,
            Phase::Forward => self.worst[0].works,
            Phase::Backward => self.worst[1].works,
            Phase::OptimizerStep => self.update,
            Phase::Prefill => self.prefill,
            Phase::Decode => self.decode,
        }
    }

    /// What blocks save of a micro-batch that is not there at the peak of a phase.
    pub(crate) const fn away(&self, phase: Phase) -> u128 {
        let away = match phase {
            Phase::Forward => self.worst[0].away,
            Phase::Backward => self.worst[1].away,
            _ => 0,
        };
        // Of what works on nothing.
        if away < self.stored { away } else { 0 }
    }

    /// Activations of all micro-batches in flight at the peak of forward or backward.
    pub(crate) const fn stored_at(&self, phase: Phase) -> u128 {
        self.stored - self.away(phase)
    }

    /// Everything at the peak of a phase, `standing` of it from the start.
    pub(crate) const fn phase(&self, phase: Phase, standing: u128) -> u128 {
        let sum = standing + self.transients(phase);
        match phase {
            Phase::Forward | Phase::Backward => sum + self.buffers + self.stored_at(phase),
            Phase::BetweenSteps | Phase::OptimizerStep => sum + self.idle,
            Phase::Prefill | Phase::Decode => sum,
        }
    }
}

/// The sums of one of each part of a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Units {
    of: [Tally; Part::COUNT],
    /// The same of layers that are not computed again, where others are, or are several at once.
    whole: [Tally; Part::COUNT],
}

impl Units {
    pub(crate) const fn of(plan: &Plan) -> Self {
        let (layers, sizes) = (plan.spec().architecture.layers, &plan.sizes());
        let (dense, moe) = (one_if(layers.has_dense()), one_if(layers.moe > 0));
        let mixers = if layers.list.is_none() { ATTENTION_ALONE } else { held(&layers.list) };
        let counts = Counts { mixers, dense, moe, mtp: one_if(plan.counted_mtp() > 0), ..Counts::ONE };
        let mut list = Sink::by_part();
        weights::list(&mut list, plan, sizes, counts);
        match plan.spec().layout.served() {
            Some(serving) => serving::list(&mut list, plan, serving, sizes, counts),
            None => accounting::list(&mut list, plan, sizes, counts),
        }
        let of = list.tallies;
        if plan.spec().layout.recompute_layers + plan.spec().layout.recompute_together == 0 {
            return Self { of, whole: [Tally::EMPTY; Part::COUNT] };
        }
        let mut list = Sink::by_part();
        weights::list(&mut list, plan, sizes, counts);
        accounting::list(&mut list, &plan.without_recomputation(), sizes, counts);
        Self { of, whole: list.tallies }
    }

    /// What a rank of the pipeline holds, in the moment when its activations are most; of a single chunk, so many
    /// micro-batches.
    #[allow(clippy::cast_possible_truncation)] // chunks are few
    pub(crate) const fn worst(&self, plan: &Plan, stage: u64, first: &Chunk, in_flight: u64) -> Counts {
        let tied = plan.spec().architecture.tied_embeddings;
        if plan.chunks() == 1 {
            return self.counts(plan, first, in_flight).tied(tied);
        }
        let (run, chunks) = (plan.run(), plan.chunks());
        // What one micro-batch of each chunk weighs, then the moment when all of them weigh most.
        let (mut weights, mut chunk) = ([0; CHUNKS_MAX as usize], 0);
        while chunk < chunks {
            let of = &plan.chunk(stage, chunk);
            let one = self.parts(plan, of, &Counts::of(plan, of, 1)).stored;
            weights[chunk as usize] = if one > u64::MAX as u128 { 1 << 64 } else { one };
            chunk += 1;
        }
        let moment = run.worst(stage, &weights);
        let (mut counts, mut chunk) = (Counts::NONE, 0);
        while chunk < chunks {
            let more = self.counts(plan, &plan.chunk(stage, chunk), run.held(stage, chunk, moment));
            let again = if more.runs.there > 0 { self.larger(&counts.again, &more.again) } else { counts.again };
            counts = counts.with(more);
            counts.again = again;
            chunk += 1;
        }
        counts.tied(tied)
    }

    /// What a chunk holds, so many micro-batches of which are in flight.
    pub(crate) const fn counts(&self, plan: &Plan, chunk: &Chunk, micro_batches: u64) -> Counts {
        let mut counts = Counts::of(plan, chunk, micro_batches);
        if counts.runs.there > 0 {
            let runs = Runs::of(chunk, plan.spec().layout.recompute_together);
            counts.again = runs.worst(&plan.spec().architecture.layers, &self.saved());
        }
        counts
    }

    /// What attention saves, a dense network, and experts.
    const fn saved(&self) -> [u128; 3] {
        let [attention, dense, moe] = TOGETHER;
        let saved = &self.whole;
        [saved[attention as usize].micro_batch, saved[dense as usize].micro_batch, saved[moe as usize].micro_batch]
    }

    const fn larger(&self, one: &[Held; 3], other: &[Held; 3]) -> [Held; 3] {
        Held::larger(one, other, &self.saved())
    }

    /// The sums of so many parts of a chunk.
    pub(crate) const fn parts(&self, plan: &Plan, chunk: &Chunk, counts: &Counts) -> Tally {
        let mut sum = Tally::EMPTY;
        self.add_parts(&mut sum, counts, &self.away(plan, chunk, counts));
        sum
    }

    /// The sums of a rank of the pipeline: of its parts, and of the state of all its parameters.
    pub(crate) const fn stage(&self, plan: &Plan, stage: u64, first: &Chunk, in_flight: u64) -> Tally {
        let (mut sum, counts) = (Tally::EMPTY, self.worst(plan, stage, first, in_flight));
        if plan.chunks() > 1 && matches!(plan.spec().layout.accounting, Accounting::Reference(_)) {
            self.add_parts(&mut sum, &counts, &Away::NOTHING);
            sum.worst = self.busiest(plan, stage, sum.stored);
        } else {
            self.add_parts(&mut sum, &counts, &self.away(plan, first, &counts));
        }
        let served = plan.spec().layout.served();
        if served.is_none() {
            weights::add_states(&mut sum, plan);
        }
        let mut list = Sink::new(&mut []);
        list.tallies[0] = sum;
        match served {
            Some(serving) => serving::list_caches(&mut list, plan, serving, stage, &Kept::all(plan, serving)),
            None => accounting::list_rank(&mut list, plan, &counts.all()),
        }
        *list.tally()
    }

    /// The worst moments of a rank of several chunks where it is followed which of them runs: all that weighs less then than
    /// in the moment when most is stored is away.
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // chunks are few, none weighs 2^127
    const fn busiest(&self, plan: &Plan, stage: u64, stored: u128) -> [Worst; 2] {
        const CHUNKS: usize = CHUNKS_MAX as usize;
        let (mut weights, mut works) = ([0; CHUNKS], [[0; 2]; CHUNKS]);
        let (mut worst, mut chunk) = ([[Worst { works: 0, away: 0 }; 2]; CHUNKS], 0);
        while chunk < plan.chunks() as usize {
            let of = &plan.chunk(stage, chunk as u64);
            let one = self.parts(plan, of, &Counts::of(plan, of, 1));
            weights[chunk] = if one.micro_batch > u64::MAX as u128 { 1 << 64 } else { one.micro_batch };
            let mut phase = 0;
            while phase < 2 {
                // What holds nothing works on nothing.
                if one.worst[phase].away < BEYOND {
                    worst[chunk][phase] = one.worst[phase];
                }
                works[chunk][phase] = worst[chunk][phase].works as i128 - worst[chunk][phase].away as i128;
                phase += 1;
            }
            chunk += 1;
        }
        let [forward, backward] = plan.run().busiest(stage, &weights, &works);
        [
            worst[forward.1 as usize][0].beside(stored, forward.0),
            worst[backward.1 as usize][1].beside(stored, backward.0),
        ]
    }

    const fn add_parts(&self, sum: &mut Tally, counts: &Counts, away: &Away) {
        let layers = &away.layers[0];
        sum.add_many(&self.of[Part::First as usize], counts.first, away.embedding);
        sum.add_many(&self.of[Part::Attention as usize], counts.mixers[0], layers.mixers);
        if counts.mixers[1].there + counts.mixers[2].there + counts.mixers[3].there > 0 {
            sum.add_many(&self.of[Part::Mixer as usize], counts.mixers[1], layers.mixers);
            sum.add_many(&self.of[Part::Compressed as usize], counts.mixers[2], layers.mixers);
            sum.add_many(&self.of[Part::Heavy as usize], counts.mixers[3], layers.mixers);
        }
        sum.add_many(&self.of[Part::Dense as usize], counts.dense, layers.dense);
        sum.add_many(&self.of[Part::Moe as usize], counts.moe, layers.moe);
        if counts.runs.there > 0 {
            self.add_runs(sum, counts, layers.mixers);
        }
        sum.add_many(&self.of[Part::Mtp as usize], counts.mtp, away.mtp);
        sum.add_many(&self.of[Part::MtpHead as usize], counts.mtp, 0);
        if counts.has_whole() {
            self.add_whole(sum, counts, away);
        }
        sum.add_many(&self.of[Part::Last as usize], counts.last, away.head);
        sum.add_many(&self.of[Part::Head as usize], counts.head, 0);
    }

    /// What is away while each part runs: behind layers the head, and where accounting follows blocks one by one, also all
    /// layers behind the last of a kind.
    const fn away(&self, plan: &Plan, chunk: &Chunk, counts: &Counts) -> Away {
        let head = &self.of[Part::Last as usize];
        // As much as no device holds stays as it is.
        let is_there = counts.last.there > 0 && counts.last.in_flight > 0 && head.micro_batch <= u64::MAX as u128;
        let head = if is_there { head.micro_batch } else { 0 };
        match plan.spec().layout.accounting {
            Accounting::Reference(_) => self.away_by_block(plan, chunk, head),
            _ => Away { embedding: head, layers: [OfLayers::all(head); 2], mtp: head, head: 0 },
        }
    }

    /// Of layers that are attention and one network each, and of modules behind the head that are such a layer.
    const fn away_by_block(&self, plan: &Plan, chunk: &Chunk, head: u128) -> Away {
        let layers = &plan.spec().architecture.layers;
        let (entrance, exit) = (self.of[Part::Mtp as usize].micro_batch, self.of[Part::MtpHead as usize].micro_batch);
        let are_apart = plan.spec().layout.recompute_layers > 0;
        let mut met = Met { of: [OfLayers::all(NOT_MET); 2] };
        // A module's layer is never among the first.
        let of_module = Saves::of(self, are_apart, layers.moe > 0);
        let module = entrance + of_module.attention + of_module.network + exit;
        let modules = module * chunk.mtp as u128;
        if chunk.mtp > 0 {
            met.layer(&of_module, exit);
        }
        let (mut behind, mut layer) = (modules + head, chunk.first_layer + chunk.layers());
        while layer > chunk.first_layer {
            layer -= 1;
            let is_whole = are_apart && !plan.computes_again(chunk, layer);
            let saves = Saves::of(self, is_whole, layers.has_experts(layer));
            met.layer(&saves, behind);
            behind += saves.network + saves.attention;
        }
        Away { embedding: behind, layers: met.of, mtp: module - entrance, head: modules }
    }
}

/// What a layer saves.
struct Saves {
    is_whole: bool,
    has_experts: bool,
    attention: u128,
    network: u128,
}

impl Saves {
    const fn of(units: &Units, is_whole: bool, has_experts: bool) -> Self {
        let of = if is_whole { &units.whole } else { &units.of };
        let network = if has_experts { Part::Moe } else { Part::Dense };
        let (attention, network) = (of[Part::Attention as usize].micro_batch, of[network as usize].micro_batch);
        Self { is_whole, has_experts, attention, network }
    }
}

/// The last block of each kind, met from behind: of layers that are computed again, or all of them, and of whole ones.
struct Met {
    of: [OfLayers; 2],
}

/// Stands for what no layer says.
const NOT_MET: u128 = u128::MAX;

impl Met {
    /// A layer, so much being behind it.
    const fn layer(&mut self, saves: &Saves, behind: u128) {
        let of = &mut self.of[saves.is_whole as usize];
        let network = if saves.has_experts { &mut of.moe } else { &mut of.dense };
        if *network == NOT_MET {
            *network = behind;
        }
        if of.mixers == NOT_MET {
            of.mixers = behind + saves.network;
        }
    }
}

/// What of a micro-batch is not yet there, or no more, while the last block of each kind runs.
struct Away {
    embedding: u128,
    /// Of layers that are computed again, or all of them, and of whole ones.
    layers: [OfLayers; 2],
    /// In front of modules for multi-token prediction.
    mtp: u128,
    head: u128,
}

impl Away {
    /// For whoever finds the worst moments in another way.
    const NOTHING: Self = Self { embedding: 0, layers: [OfLayers::all(0); 2], mtp: 0, head: 0 };
}

/// The same by blocks of layers.
#[derive(Clone, Copy)]
struct OfLayers {
    mixers: u128,
    dense: u128,
    moe: u128,
}

impl OfLayers {
    const fn all(away: u128) -> Self {
        Self { mixers: away, dense: away, moe: away }
    }
}

/// Parts of layers that are computed again together, in the order of [`Counts::again`].
const TOGETHER: [Part; 3] = [Part::Attention, Part::Dense, Part::Moe];

impl Units {
    /// Adds what is kept of layers that are computed again together, and what is there at once of them beyond a layer by
    /// itself.
    const fn add_runs(&self, sum: &mut Tally, counts: &Counts, away: u128) {
        sum.add_many(&self.of[Part::Run as usize], counts.runs, away);
        let (saved, there) = (self.saved(), [counts.mixers[0].there, counts.dense.there, counts.moe.there]);
        let mut i = 0;
        while i < TOGETHER.len() {
            if there[i] > 0 {
                let more = counts.again[i].bytes(&saved) - Held::ALONE[i].bytes(&saved);
                let works = self.of[TOGETHER[i] as usize].backward + more;
                sum.backward = larger(sum.backward, works);
                sum.worst[1] = sum.worst[1].or(works, away);
            }
            i += 1;
        }
    }
}

/// Parts that are layers, in the order of [`Counts::whole`].
const LAYERS: [Part; Counts::LAYERS] =
    [Part::Attention, Part::Mixer, Part::Compressed, Part::Heavy, Part::Dense, Part::Moe];

impl Units {
    /// Adds layers that are not computed again.
    const fn add_whole(&self, sum: &mut Tally, counts: &Counts, away: &Away) {
        let mut i = 0;
        while i < LAYERS.len() {
            let of = &away.layers[1];
            let away = match LAYERS[i] {
                Part::Dense => of.dense,
                Part::Moe => of.moe,
                _ => of.mixers,
            };
            sum.add_many(&self.whole[LAYERS[i] as usize], counts.whole[i], away);
            i += 1;
        }
    }

    /// Where layers of a kind are computed again and others not, what to leave out of the list of either: they take turns, so
    /// that what they work on is counted of those that work on more.
    pub(crate) const fn shared(&self, counts: &Counts) -> [Turns; 2] {
        let [mut again, mut whole] = [Turns::NONE; 2];
        if !counts.has_whole() {
            return [again, whole];
        }
        let (layers, mut i) = (counts.layers(), 0);
        while i < LAYERS.len() {
            let part = LAYERS[i] as usize;
            let (one, other) = (&self.of[part], &self.whole[part]);
            if layers[i].there > 0 && counts.whole[i].there > 0 {
                let forward = if other.forward > one.forward { Turns::FORWARD } else { 0 };
                let backward = if other.backward > one.backward { Turns::BACKWARD } else { 0 };
                again.of[part] = forward | backward;
                whole.of[part] = (Turns::FORWARD | Turns::BACKWARD | Turns::BUFFERS) ^ again.of[part];
            }
            i += 1;
        }
        [again, whole]
    }
}

const ATTENTION_ALONE: [Count; 4] = [Count::ONE, Count::NONE, Count::NONE, Count::NONE];

/// One of each mixer that a list holds.
const fn held(list: &LayerList) -> [Count; 4] {
    let (mut mixers, mut slot) = ([Count::NONE; 4], 0);
    while slot < mixers.len() {
        mixers[slot] = one_if(list.count(LayerKind::ALL[slot]) > 0);
        slot += 1;
    }
    mixers
}

const fn one_if(there: bool) -> Count {
    if there { Count::ONE } else { Count::NONE }
}
