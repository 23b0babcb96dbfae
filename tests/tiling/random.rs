//! Small random Specs, legal and illegal ones both often.

use moe_model::Spec;
use moe_model::spec::{
    Attention, Batch, Compressed, Context, Experts, GatedDeltaNet, Gqa, Kda, LayerList, Layers, Lightning, LocalGqa,
    Mamba1, Mamba2, Mesh, Mixer, Mla, Placement, Precision, Schedule, Split, StageList, Stages, Switch, Weighed, Zero,
    ZeroGroups, ZeroStage,
};

/// A Spec, and the letters of each stage of its list, if it has one.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) spec: Spec,
    pub(crate) list: Option<Vec<String>>,
}

/// How likely a number is to be chosen to fit the others, in a hundred.
#[derive(Clone, Copy)]
pub(crate) struct Random<'a> {
    pub(crate) fit: u8,
    pub(crate) rng: &'a std::cell::RefCell<fastrand::Rng>,
}

impl Random<'_> {
    fn to(self, least: u64, most: u64) -> u64 {
        self.rng.borrow_mut().u64(least..=most)
    }

    fn pick<T: Copy>(self, choices: &[T]) -> T {
        choices[self.rng.borrow_mut().usize(..choices.len())]
    }

    /// One time in so many.
    fn rarely(self, times: u64) -> bool {
        self.to(1, times) == 1
    }

    fn degree(self) -> u64 {
        self.pick(&[1, 1, 1, 2, 2, 2, 3, 4, 5, 6])
    }

    /// Some whole multiples of a number, or now and then any number from 1 to 24.
    fn multiple(self, of: u64, most: u64) -> u64 {
        if self.rng.borrow_mut().u8(..100) < self.fit { of * self.to(1, most) } else { self.to(1, 24) }
    }

    fn switch(self) -> Switch {
        self.pick(Switch::ALL)
    }

    pub(crate) fn case(self) -> Case {
        let mut spec = Spec::DEFAULT;
        spec.layout.mesh = self.mesh();
        spec.layout.schedule = if self.rarely(2) { Schedule::OneFOneB } else { self.pick(Schedule::ALL) };
        self.chunks(&mut spec);
        let list = self.layers(&mut spec);
        self.precision(&mut spec);
        self.attention(&mut spec);
        self.mixer(&mut spec);
        self.networks(&mut spec);
        self.batch(&mut spec);
        self.zero(&mut spec);
        spec.architecture.vocab = self.to(1, 60);
        Case { spec, list }
    }

    fn mesh(self) -> Mesh {
        let (tp, cp, dp) = (self.degree(), self.degree(), self.degree());
        let pp = self.degree();
        let stage = tp * cp * dp;
        // Degrees that tile the stage are found by trying.
        let tiles: Vec<(u64, u64)> = (1..=6)
            .flat_map(|ep| (1..=6).map(move |etp| (ep, etp)))
            .filter(|(ep, etp)| (1..=stage).any(|edp| edp * ep * etp == stage))
            .collect();
        let fits = self.rng.borrow_mut().u8(..100) < self.fit;
        let (ep, etp) = if fits { self.pick(&tiles) } else { (self.degree(), self.degree()) };
        let sequence_parallel = if tp > 1 && self.to(1, 4) > 1 { Switch::On } else { Switch::Off };
        let world = match self.to(0, 9) {
            0 => self.to(1, 24),
            1 | 2 => stage * pp,
            _ => 0,
        };
        let context = self.pick(Context::ALL);
        let cp_inner = match context {
            Context::Hierarchical if fits => self.pick(&[1, cp]),
            Context::Hierarchical => self.to(1, 6),
            _ => 0,
        };
        Mesh { dp, tp, pp, cp, ep, etp, vpp: 0, context, cp_inner, world, sequence_parallel }
    }

    /// Chunks of a rank, mostly as the schedule needs them.
    fn chunks(self, spec: &mut Spec) {
        let fits = self.rng.borrow_mut().u8(..100) < self.fit;
        spec.layout.mesh.vpp = match spec.layout.schedule {
            _ if !fits => self.to(0, 4),
            Schedule::Interleaved => self.to(2, 3),
            Schedule::ZbV | Schedule::DualPipe | Schedule::DualPipeV => self.pick(&[0, 2]),
            _ => self.to(0, 1),
        };
    }

    /// Layers and how they fall to stages; the letters of the stages, if they are listed.
    fn layers(self, spec: &mut Spec) -> Option<Vec<String>> {
        let mesh = spec.layout.mesh;
        let places = match spec.layout.schedule {
            Schedule::Interleaved => mesh.pp * mesh.vpp.max(1),
            Schedule::ZbV | Schedule::DualPipeV => mesh.pp * 2,
            _ => mesh.pp,
        };
        spec.architecture.mtp = self.to(0, 2);
        let (mut count, mut list) = (self.multiple(places, 3), None);
        match self.to(0, 9) {
            0 | 1 => {
                spec.layout.stages = self.weighed();
                let Stages { embedding, loss, .. } = spec.layout.stages;
                let ends = [embedding, loss].iter().filter(|end| **end == Weighed::AsLayer).count();
                count = count.saturating_sub(ends as u64).max(1);
            }
            2 | 3 => {
                let stages = self.list(if self.rarely(4) { self.to(1, 12) } else { places });
                let letters = |of| stages.iter().map(|stage| stage.matches(of).count() as u64).sum();
                count = if self.rarely(6) { count } else { letters("t") };
                spec.architecture.mtp = if self.rarely(6) { self.to(0, 2) } else { letters("m") };
                spec.layout.stages = Stages { list: StageList::parse(&written(&stages, self)), ..Stages::EVEN };
                list = Some(stages);
            }
            4 | 5 => {
                let (first, last) = (self.to(0, 4), self.to(0, 4));
                spec.layout.stages = Stages { first, last, ..Stages::EVEN };
                let alike = mesh.pp.saturating_sub(u64::from(first > 0) + u64::from(last > 0));
                count = if self.rarely(3) { count } else { first + last + alike * self.to(1, 3) };
            }
            _ => {}
        }
        self.kinds(spec, count);
        list
    }

    fn weighed(self) -> Stages {
        Stages { embedding: self.pick(Weighed::ALL), loss: self.pick(Weighed::ALL), ..Stages::EVEN }
    }

    /// So many layers, dense ones or with experts.
    fn kinds(self, spec: &mut Spec, count: u64) {
        let dense = if self.rarely(3) { count } else { self.to(0, count) };
        spec.architecture.layers = Layers { dense, moe: count - dense, ffn: 1, ..Layers::DEFAULT };
        if count == dense && self.to(1, 6) > 1 {
            (spec.layout.mesh.ep, spec.layout.mesh.etp) = (1, 1);
        }
    }

    /// The letters of so many stages.
    fn list(self, stages: u64) -> Vec<String> {
        let mut stages: Vec<String> = (0..stages).map(|_| "t".repeat(self.rng.borrow_mut().usize(0..3))).collect();
        stages[0].insert(0, 'E');
        let last = stages.len() - 1;
        stages[last].push_str(&"m".repeat(self.rng.borrow_mut().usize(0..3)));
        stages[last].push('L');
        stages
    }

    fn precision(self, spec: &mut Spec) {
        let block = if self.rarely(2) { self.to(2, 6) } else { 0 };
        spec.layout.precision = Precision { block, block_attention: self.switch(), ..Precision::DEFAULT };
        // `query_rope` stays split: of what is replicated only a paper's count exists, no weight that blocks could lie on.
        spec.layout.placement = Placement {
            shared_experts: self.pick(Split::ALL),
            dense_ffn: self.pick(Split::ALL),
            vocab_multiple: self.to(1, 4),
            ..Placement::DEFAULT
        };
    }

    fn attention(self, spec: &mut Spec) {
        let Mesh { tp, cp, context, .. } = spec.layout.mesh;
        let ranks = if context == Context::AllToAll { tp * cp } else { tp };
        let block = spec.layout.precision.block.max(1);
        let heads = self.multiple(ranks, 3);
        spec.architecture.attention = if self.rarely(8) {
            Attention::Compressed(Compressed {
                heads,
                q_rank: 1,
                head_dim: if self.rarely(4) { 0 } else { self.multiple(block, 2) },
                output_groups: self.pick(&[tp, self.to(1, 6), heads]),
                output_rank: self.to(1, 3),
                compress: 1,
                compress_heavy: 1,
                indexer_heads: 1,
                indexer_dim: 1,
                window: 0,
            })
        } else if self.rarely(2) {
            let [nope, rope, value] = [(); 3].map(|()| self.multiple(block, 2));
            Attention::Mla(Mla { heads, q_rank: 1, kv_rank: 1, nope, rope, value, ..Mla::DEFAULT })
        } else {
            let kv_heads = if self.rarely(2) { self.pick(&[1, heads, tp, ranks]) } else { self.to(1, 12) };
            let head_dim = if self.rarely(4) { 0 } else { self.multiple(block, 2) };
            let value_dim = if self.rarely(4) { self.multiple(block, 2) } else { 0 };
            Attention::Gqa(Gqa { heads, kv_heads, head_dim, value_dim, ..Gqa::DEFAULT })
        };
        spec.architecture.hidden = self.multiple(heads, 3);
    }

    /// What stands in the place of attention in some layers: its last one, where there is no other list.
    fn mixer(self, spec: &mut Spec) {
        let (tp, layers) = (spec.layout.mesh.tp, spec.architecture.layers);
        if self.rarely(2) || layers.count() > 200 {
            return;
        }
        let (dense, moe) = ("a".repeat(in_memory(layers.dense)), "A".repeat(in_memory(layers.moe)));
        let mut text = dense + &moe;
        let last = text.pop().map_or("m", |letter| if letter == 'A' { "M" } else { "m" });
        spec.architecture.layers.list = LayerList::parse(&(text + last));
        let (heads, few) = (self.multiple(tp, 3), self.to(1, 6));
        let kv_heads = self.pick(&[1, heads, tp, few]);
        spec.architecture.mixer = match self.to(0, 7) {
            0 | 6 | 7 => Mixer::LocalGqa(LocalGqa { heads, kv_heads, head_dim: 1, ..LocalGqa::DEFAULT }),
            1 => Mixer::GatedDeltaNet(GatedDeltaNet {
                key_heads: heads,
                value_heads: if self.rarely(3) { few } else { heads * few },
                key_dim: self.to(1, 3),
                value_dim: self.to(1, 3),
                conv: 1,
            }),
            2 => Mixer::Kda(Kda { heads, head_dim: self.to(1, 3), conv: 1 }),
            3 => Mixer::Lightning(Lightning { heads, head_dim: self.to(1, 3), block: 1 }),
            4 => Mixer::Mamba1(Mamba1 { inner: heads, state: self.to(1, 3), conv: 1, time_rank: self.to(1, 3) }),
            _ => Mixer::Mamba2(Mamba2 {
                heads,
                head_dim: self.to(1, 3),
                state: self.to(1, 3),
                groups: kv_heads,
                conv: 1,
            }),
        };
    }

    fn networks(self, spec: &mut Spec) {
        let Mesh { tp, ep, etp, .. } = spec.layout.mesh;
        let block = spec.layout.precision.block.max(1);
        spec.architecture.layers.ffn = self.multiple(tp * block, 2);
        let routed = self.multiple(ep, 4);
        // Groups that tile the experts are found by trying.
        let tiles: Vec<u64> = (1..=6).filter(|size| (1..=routed).any(|groups| groups * size == routed)).collect();
        let groups = if self.rarely(4) { self.to(1, 6) } else { self.pick(&tiles) };
        let shared = self.to(0, 2);
        let width = if shared > 0 && self.rarely(2) { etp * tp } else { etp };
        spec.architecture.experts = Experts {
            routed,
            shared,
            active: if self.rarely(20) { self.to(0, 24) } else { 1 },
            ffn: if self.rarely(30) { 0 } else { self.multiple(width * block, 2) },
            groups,
            active_groups: 1,
            ..Experts::DEFAULT
        };
    }

    fn batch(self, spec: &mut Spec) {
        let Mesh { tp, cp, dp, pp, .. } = spec.layout.mesh;
        let count = match spec.layout.schedule {
            Schedule::Interleaved => self.multiple(pp, 3),
            Schedule::DualPipe | Schedule::DualPipeV => 2 * pp + self.to(0, 3),
            _ => self.to(1, 8),
        };
        let micro = self.to(1, 3);
        let global = match self.to(0, 5) {
            0 => self.to(1, 24),
            1 | 2 => micro * dp * count,
            _ => 0,
        };
        let pieces = self.pick(&[cp, cp * tp, 2 * cp, 2 * cp * tp]);
        spec.layout.batch = Batch { sequence: self.multiple(pieces, 3), micro, count, global, ..Batch::DEFAULT };
    }

    fn zero(self, spec: &mut Spec) {
        let Mesh { tp, cp, dp, .. } = spec.layout.mesh;
        let groups = self.pick(ZeroGroups::ALL);
        let ways = match groups {
            ZeroGroups::Uniform if self.rarely(2) => self.pick(&[dp, tp, cp * dp, tp * cp]),
            ZeroGroups::Uniform => self.to(1, 6),
            _ => 0,
        };
        let (dense, expert) = (self.pick(ZeroStage::ALL), self.pick(ZeroStage::ALL));
        // Of what was drawn before, so that a key more leaves the other draws alone.
        let instances = match (dense as u64 + 3 * expert as u64 + dp + cp) % 8 {
            few @ (2 | 3) if groups != ZeroGroups::Uniform => few,
            _ => 1,
        };
        spec.layout.zero = Zero { dense, expert, groups, ways, instances };
    }
}

fn in_memory(count: u64) -> usize {
    usize::try_from(count).expect("layers are few")
}

/// The stages in Megatron's notation, in one of the ways that it leaves open.
fn written(stages: &[String], random: Random<'_>) -> String {
    if random.rarely(2) {
        return stages.join(if random.rarely(2) { " | " } else { "|" });
    }
    let (mut pieces, mut at, end) = (Vec::new(), 0, stages.len());
    while at < end {
        // Stages alike in a row as a group, but for the last, which ends without a boundary.
        let alike = stages[at..end - 1].iter().take_while(|stage| **stage == stages[at]).count();
        pieces.push(match alike {
            0 => stages[at].clone(),
            1 => format!("{}|", stages[at]),
            _ => format!("({}|)*{alike}", stages[at]),
        });
        at += alike.max(1);
    }
    pieces.concat().replace("tt", "t*2")
}
