//! The list of a checkpoint's tensors.

use super::naming::{EXPERT, IN_BLOCKS, LAYER, MTP_COPIES, Naming, Op, Rule, plain};
use super::pattern::{Pattern, Run, braces};
use super::whole::{Whole, wholes};
use crate::bytes::Bytes;
use crate::counts::{Count, Counts};
use crate::inventory::{Element, Entry, Inventory, Module, Sink};
use crate::mixers::Slot;
use crate::plan::Plan;
use crate::saturating::{add, mul};
use crate::spec::{Architecture, Beside, Dtype, LayerKind, Layers};
use crate::weights::{self, Buffers};
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{borrow::ToOwned, vec};

/// What a tensor of a checkpoint is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// A parameter.
    Parameter,
    /// A buffer that is saved and is no parameter.
    Buffer,
    /// A parameter that stands elsewhere in the checkpoint too.
    Copy,
    /// The scales of a matrix that is quantised in blocks.
    Scale,
}

impl Kind {
    /// The name in reports and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parameter => "parameter",
            Self::Buffer => "buffer",
            Self::Copy => "copy",
            Self::Scale => "scale",
        }
    }
}

/// Tensors of a checkpoint that differ in the number of their layer or expert alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tensor {
    /// Their names.
    pub name: Pattern,
    /// The shape of each.
    pub shape: Vec<u64>,
    /// What they are.
    pub kind: Kind,
    /// What they belong to.
    pub module: Module,
    /// The format of their elements.
    pub element: Element,
}

impl Tensor {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.name.count()
    }

    /// Elements of all of them.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(self.count(), |product, length| mul(product, *length))
    }

    /// What all of them take.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        Bytes::new(mul(self.elements(), self.element.bytes))
    }
}

impl Architecture {
    /// The tensors of a checkpoint in bf16, from the embedding table to the head, with its buffers in formats of their own;
    /// then, of [`Module::Mtp`], those of multi-token-prediction modules, with their copies of embedding and head.
    ///
    /// Such copies are what DeepSeek and GLM-4.5 publish; some later checkpoints go without.
    ///
    /// # Panics
    /// If a number lies outside what its key may hold.
    #[must_use]
    pub fn checkpoint(&self, naming: &Naming) -> Vec<Tensor> {
        self.tensors(naming, None)
    }

    /// The same of a checkpoint whose matrices are quantised to fp8 in blocks of so many rows and columns, each of which has
    /// a scale in fp32: those of attention and of all feed-forward networks, experts among them. Router, norms, embedding
    /// and head stay as they are, as does what projects into a multi-token-prediction module (DeepSeek-V3's
    /// `weight_block_size`; MiniMax-M2).
    ///
    /// # Panics
    /// If a number lies outside what its key may hold, or a block has no rows or columns.
    #[must_use]
    pub fn checkpoint_in_blocks(&self, naming: &Naming, block: [u64; 2]) -> Vec<Tensor> {
        assert!(block[0] > 0 && block[1] > 0, "a block has rows and columns");
        self.tensors(naming, Some(block))
    }

    fn tensors(&self, naming: &Naming, block: Option<[u64; 2]>) -> Vec<Tensor> {
        let plan = &self.alone();
        let (layers, mtp) = (self.layers.count(), self.mtp);
        let head = if self.tied_embeddings.is_on() { Count::NONE } else { Count::ONE };
        let first = Section::of(plan, Counts { first: Count::ONE, ..Counts::NONE });
        let last = Section::of(plan, Counts { last: Count::ONE, head, ..Counts::NONE });
        let mut list = List { naming, block, tensors: Vec::new() };
        list.extend(&first);
        for (numbers, section) in sections(plan) {
            list.extend(&section.in_layers(numbers));
        }
        list.extend(&last);
        if let Some(numbers) = braces([Run::of(layers, add(layers, mtp), 1)].into_iter().flatten()) {
            list.extend(&Section::mtp(plan, numbers, [first, last]));
        }
        list.tensors
    }
}

/// The layers of a model by what they have, and the tensors of each kind.
fn sections(plan: &Plan) -> Vec<(String, Section)> {
    let Architecture { layers, experts, .. } = &plan.spec().architecture;
    let mut sections = Vec::new();
    let mut take =
        |runs: Vec<Run>, section: Section| sections.extend(braces(runs.into_iter()).map(|runs| (runs, section)));
    let two = matches!(layers.beside, Beside::TwoBlocks);
    for slot in Slot::ALL {
        let mut counts = Counts::NONE;
        counts.mixers[slot as usize] = Count::ONE;
        let numbers = mixer_runs(layers, slot);
        let buffers = Buffers { mixer: u64::from(slot == Slot::Mixer), ..Buffers::NONE };
        let section = || Section::with_buffers(plan, counts, &buffers);
        if two {
            // A law lets no list stand beside.
            let [dense, moe] = ffn_runs(layers);
            take(if slot == Slot::Attention { dense } else { Vec::new() }, section());
            take(if slot == Slot::Attention { moe } else { Vec::new() }, section().twice());
        } else {
            take(numbers, section());
        }
    }
    let all = Run::of(0, layers.count(), 1).into_iter().collect();
    take(all, Section::with_buffers(plan, Counts::NONE, &Buffers { layers: 1, ..Buffers::NONE }));
    let [dense, moe] = ffn_runs(layers);
    let ffn = || Section::of(plan, Counts { dense: Count::ONE, ..Counts::NONE });
    take(dense, ffn());
    match layers.beside {
        Beside::None => {}
        Beside::Dense => take(moe.clone(), ffn()),
        Beside::TwoBlocks => take(moe.clone(), ffn().twice()),
    }
    let counts = Counts { moe: Count::ONE, ..Counts::NONE };
    let (hashed, scored) = split(moe, experts.hash_layers);
    take(hashed, Section::with_buffers(plan, counts, &Buffers { hash: 1, ..Buffers::NONE }));
    take(scored, Section::with_buffers(plan, counts, &Buffers { moe: 1, ..Buffers::NONE }));
    sections
}

/// The layers of a slot.
fn mixer_runs(layers: &Layers, slot: Slot) -> Vec<Run> {
    if layers.list.is_none() {
        let all = Run::of(0, layers.count(), 1).into_iter();
        return all.filter(|_| slot == Slot::Attention).collect();
    }
    listed_runs(layers, LayerKind::ALL[slot as usize])
}

fn listed_runs(layers: &Layers, kind: LayerKind) -> Vec<Run> {
    Run::all((0..layers.list.layers()).filter(|layer| layers.list.has(kind, *layer)))
}

/// The dense layers and those with experts.
fn ffn_runs(layers: &Layers) -> [Vec<Run>; 2] {
    if !layers.list.is_none() {
        return [LayerKind::Dense, LayerKind::Moe].map(|kind| listed_runs(layers, kind));
    }
    let Layers { moe, moe_every, .. } = *layers;
    let (lead, count) = (layers.lead(), layers.count());
    if moe_every <= 1 {
        return [(0, lead), (lead, count)].map(|(first, end)| Run::of(first, end, 1).into_iter().collect());
    }
    let group = |number: u64| add(lead, mul(number, moe_every));
    let between = (0..moe).filter_map(|number| Run::of(group(number), group(number + 1) - 1, 1));
    // Of pairs the dense ones are a run too.
    let between =
        if moe_every == 2 { Run::of(lead, count, 2).into_iter().collect() } else { between.collect::<Vec<_>>() };
    let dense = Run::of(0, lead, 1).into_iter().chain(between).collect();
    [dense, Run::of(add(lead, moe_every - 1), count, moe_every).into_iter().collect()]
}

/// The first so many numbers, and the rest.
fn split(runs: Vec<Run>, count: u64) -> (Vec<Run>, Vec<Run>) {
    let (mut before, mut behind, mut left) = (Vec::new(), Vec::new(), count);
    for run in runs {
        let (first, rest) = run.split(left);
        left -= first.map_or(0, Run::count);
        before.extend(first);
        behind.extend(rest);
    }
    (before, behind)
}

/// What layers with the same tensors have, or the model beside its layers.
struct Section {
    layers: Option<String>,
    /// Whether a layer has all of it twice.
    twice: bool,
    tensors: Vec<(Kind, Whole)>,
}

impl Section {
    /// One of some parts of a model.
    fn of(plan: &Plan, counts: Counts) -> Self {
        Self::with_buffers(plan, counts, &Buffers::NONE)
    }

    fn with_buffers(plan: &Plan, counts: Counts, buffers: &Buffers) -> Self {
        let sizes = &plan.sizes();
        let weights = listed(|list| weights::list(list, plan, sizes, counts));
        let buffers = listed(|list| weights::list_buffers(list, plan, sizes, Module::Router, buffers));
        Self { layers: None, twice: false, tensors: with_kinds(weights, buffers) }
    }

    fn in_layers(self, numbers: String) -> Self {
        Self { layers: Some(numbers), ..self }
    }

    fn twice(self) -> Self {
        Self { twice: true, ..self }
    }

    /// The multi-token-prediction modules, behind the last layer.
    fn mtp(plan: &Plan, layers: String, model: [Self; 2]) -> Self {
        let sizes = &plan.sizes();
        let moe = u64::from(plan.spec().architecture.layers.moe > 0);
        let weights = listed(|list| weights::list_mtp(list, plan));
        let buffers = Buffers { moe, ..Buffers::NONE };
        let buffers = listed(|list| weights::list_buffers(list, plan, sizes, Module::Mtp, &buffers));
        let mut tensors = with_kinds(weights, buffers);
        for (_, whole) in model.into_iter().flat_map(|section| section.tensors) {
            if let Some((_, name)) = MTP_COPIES.iter().find(|(of, _)| *of == whole.name) {
                tensors.push((Kind::Copy, Whole { name, module: Module::Mtp, ..whole }));
            }
        }
        Self { layers: Some(layers), twice: false, tensors }
    }

    /// The shape of what a rule makes.
    fn packed(&self, rule: &Rule) -> Vec<u64> {
        let of =
            |name: &&str| self.tensors.iter().find(|(_, whole)| whole.name == *name).map(|(_, whole)| &whole.shape);
        Op::shape(rule.how, rule.from.iter().filter_map(of).cloned()).unwrap_or_default()
    }

    /// A name of one of each layer, and of each expert where it says so; none where there are no experts.
    fn pattern(&self, naming: &Naming, name: &str, shape: &mut Vec<u64>) -> Option<Pattern> {
        let mut text = self.layers.as_ref().map_or_else(String::new, |layers| naming.layer.replace(LAYER, layers));
        if name.contains(EXPERT) {
            text += &name.replace(EXPERT, &braces([Run::of(0, shape.remove(0), 1)?].into_iter())?);
        } else if self.twice {
            // Which of two blocks stands behind the module's name, or a tensor's of its own.
            let (module, rest) = name.find('.').map_or((name, ""), |dot| name.split_at(dot));
            text.extend([module, ".{0..1}", rest]);
        } else {
            text += name;
        }
        Some(Pattern::parse(&text).expect("names in tables hold no braces but those of layer and expert"))
    }
}

/// The tensors of a checkpoint, as far as they are listed.
struct List<'n> {
    naming: &'n Naming,
    /// Rows and columns that share a scale.
    block: Option<[u64; 2]>,
    tensors: Vec<Tensor>,
}

impl List<'_> {
    /// Lists a section's tensors as a checkpoint has them.
    fn extend(&mut self, section: &Section) {
        for (kind, whole) in &section.tensors {
            let mut rules = self.naming.rules.iter().copied().flatten();
            let rule = rules.find(|rule| rule.from.contains(&whole.name));
            // What several become one of stands in the place of the first.
            let (name, mut shape) = match rule {
                Some(rule) if rule.from[0] != whole.name => continue,
                Some(rule) => (rule.to.to_owned(), section.packed(rule)),
                None => (plain(whole.name), whole.shape.clone()),
            };
            let scales = self.block.filter(|_| IN_BLOCKS.contains(&whole.name)).map(|block| {
                let mut scales = shape.clone();
                let ends = scales.iter_mut().rev().zip(block.iter().rev());
                ends.for_each(|(length, block)| *length = length.div_ceil(*block));
                (name.clone() + "_scale_inv", scales)
            });
            let element = if scales.is_some() { Element::float(Dtype::Fp8) } else { whole.element };
            let of = |name, shape, kind, element| Tensor { name, shape, kind, module: whole.module, element };
            if let Some(name) = section.pattern(self.naming, &name, &mut shape) {
                self.tensors.push(of(name, shape, *kind, element));
            }
            if let Some((name, mut shape)) = scales
                && let Some(name) = section.pattern(self.naming, &name, &mut shape)
            {
                self.tensors.push(of(name, shape, Kind::Scale, Element::FP32));
            }
        }
    }
}

fn with_kinds(weights: Vec<Whole>, buffers: Vec<Whole>) -> Vec<(Kind, Whole)> {
    let weights = weights.into_iter().map(|whole| (Kind::Parameter, whole));
    weights.chain(buffers.into_iter().map(|whole| (Kind::Buffer, whole))).collect()
}

/// What is listed of one layer.
fn listed(lists: impl FnOnce(&mut Sink<'_>)) -> Vec<Whole> {
    let mut entries = vec![Entry::NONE; Inventory::CAPACITY];
    lists(&mut Sink::new(&mut entries));
    let len = entries.iter().take_while(|entry| !entry.name.is_empty()).count();
    wholes(&entries[..len])
}
