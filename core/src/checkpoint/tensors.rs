//! The list of a checkpoint's tensors.

use super::naming::{EXPERT, EXPERTS, LAYER, MTP_COPIES, Naming, Op, Rule};
use super::pattern::Pattern;
use super::whole::{Whole, wholes};
use crate::inventory::{Count, Counts, Entry, Inventory, Module, Sink};
use crate::plan::Plan;
use crate::saturating::{add, mul};
use crate::sizes::Sizes;
use crate::spec::{Architecture, Layers};
use crate::weights;
use alloc::format;
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
}

impl Kind {
    /// The name in reports and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parameter => "parameter",
            Self::Buffer => "buffer",
            Self::Copy => "copy",
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
}

impl Architecture {
    /// The tensors of a checkpoint, from the embedding table to the head, with its buffers; then, of
    /// [`Module::Mtp`], those of multi-token-prediction modules, with their copies of embedding and head.
    ///
    /// Such copies are what DeepSeek and GLM-4.5 publish; some later checkpoints go without.
    ///
    /// # Panics
    /// If a number lies outside what its key may hold.
    #[must_use]
    pub fn checkpoint(&self, naming: &Naming) -> Vec<Tensor> {
        let plan = &self.alone();
        let (layers, mtp) = (self.layers.count(), self.mtp);
        let [dense, moe] = kinds(&self.layers);
        let head = if self.tied_embeddings.is_on() { Count::NONE } else { Count::ONE };
        let first = Section::of(plan, None, Counts { first: Count::ONE, ..Counts::NONE });
        let last = Section::of(plan, None, Counts { last: Count::ONE, head, ..Counts::NONE });
        let sections = [
            Section::of(plan, range(0, layers), Counts { attention: Count::ONE, ..Counts::NONE }),
            Section::of(plan, dense, Counts { dense: Count::ONE, ..Counts::NONE }),
            Section::of(plan, moe, Counts { moe: Count::ONE, ..Counts::NONE }),
        ];
        let mut list = Vec::new();
        first.name(naming, &mut list);
        sections.iter().filter(|section| section.layers.is_some()).for_each(|section| section.name(naming, &mut list));
        last.name(naming, &mut list);
        if let Some(numbers) = range(layers, add(layers, mtp)) {
            Section::mtp(plan, numbers, [first, last]).name(naming, &mut list);
        }
        list
    }
}

/// Layers from one to another, the other not included; `None` if there are none.
fn range(first: u64, end: u64) -> Option<String> {
    run(first, end, 1).map(|run| format!("{{{run}}}"))
}

/// Every so manieth number from one to another, the other not included, as it stands in braces.
fn run(first: u64, end: u64, step: u64) -> Option<String> {
    let last = first + (end.checked_sub(first)?.checked_sub(1)?) / step * step;
    match last - first {
        0 => Some(format!("{first}")),
        _ if step == 1 => Some(format!("{first}..{last}")),
        _ => Some(format!("{first}..{last}..{step}")),
    }
}

/// The dense layers and those with experts.
fn kinds(layers: &Layers) -> [Option<String>; 2] {
    let Layers { moe, moe_every, .. } = *layers;
    let (lead, count) = (layers.lead(), layers.count());
    if moe_every <= 1 {
        return [range(0, lead), range(lead, count)];
    }
    let group = |number: u64| add(lead, mul(number, moe_every));
    let between = (0..moe).filter_map(|number| run(group(number), group(number + 1) - 1, 1));
    // Of pairs the dense ones are a run too.
    let between = if moe_every == 2 { run(lead, count, 2).into_iter().collect() } else { between.collect::<Vec<_>>() };
    let dense: Vec<String> = run(0, lead, 1).into_iter().chain(between).collect();
    let dense = Some(format!("{{{}}}", dense.join(","))).filter(|_| !dense.is_empty());
    [dense, run(add(lead, moe_every - 1), count, moe_every).map(|run| format!("{{{run}}}"))]
}

/// What layers with the same tensors have, or the model beside its layers.
struct Section {
    layers: Option<String>,
    tensors: Vec<(Kind, Whole)>,
}

impl Section {
    /// One of some parts of a model.
    fn of(plan: &Plan, layers: Option<String>, counts: Counts) -> Self {
        let sizes = &plan.sizes();
        let weights = listed(sizes, |list| weights::list(list, plan, sizes, counts));
        let buffers = listed(sizes, |list| weights::list_buffers(list, plan, Module::Router, counts.moe.there));
        Self { layers, tensors: with_kinds(weights, buffers) }
    }

    /// The multi-token-prediction modules, behind the last layer.
    fn mtp(plan: &Plan, layers: String, model: [Self; 2]) -> Self {
        let sizes = &plan.sizes();
        let has_experts = plan.spec().architecture.layers.moe > 0;
        let weights = listed(sizes, |list| weights::list_mtp(list, plan));
        let buffers = listed(sizes, |list| weights::list_buffers(list, plan, Module::Mtp, has_experts.into()));
        let mut tensors = with_kinds(weights, buffers);
        for (_, whole) in model.into_iter().flat_map(|section| section.tensors) {
            if let Some((_, name)) = MTP_COPIES.iter().find(|(of, _)| *of == whole.name) {
                tensors.push((Kind::Copy, Whole { name, module: Module::Mtp, ..whole }));
            }
        }
        Self { layers: Some(layers), tensors }
    }

    /// Lists the tensors as a checkpoint has them.
    fn name(&self, naming: &Naming, list: &mut Vec<Tensor>) {
        for (kind, whole) in &self.tensors {
            let rule = naming.rules.iter().find(|rule| rule.from.contains(&whole.name));
            // What several become one of stands in the place of the first.
            let Some((name, shape)) = (match rule {
                Some(rule) if rule.from[0] != whole.name => None,
                Some(rule) => Some((rule.to.to_owned(), self.packed(rule))),
                None => Some((plain(whole.name), whole.shape.clone())),
            }) else {
                continue;
            };
            list.extend(self.tensor(naming, &name, shape, (*kind, whole.module)));
        }
    }

    /// The shape of what a rule makes.
    fn packed(&self, rule: &Rule) -> Vec<u64> {
        let of =
            |name: &&str| self.tensors.iter().find(|(_, whole)| whole.name == *name).map(|(_, whole)| &whole.shape);
        let mut shapes = rule.from.iter().filter_map(of);
        let mut shape = shapes.next().cloned().unwrap_or_default();
        for op in rule.how {
            match op {
                Op::Join(along) => shapes.by_ref().for_each(|other| shape[*along] = add(shape[*along], other[*along])),
                Op::Transpose => {
                    let len = shape.len();
                    shape.swap(len - 2, len - 1);
                }
                Op::Rows => {
                    let experts = shape.remove(0);
                    shape[0] = mul(shape[0], experts);
                }
                Op::Lone => shape.insert(0, 1),
            }
        }
        shape
    }

    /// One of each layer, and of each expert where the name says so; none where there are no experts.
    fn tensor(&self, naming: &Naming, name: &str, mut shape: Vec<u64>, of: (Kind, Module)) -> Option<Tensor> {
        let mut text = self.layers.as_ref().map_or_else(String::new, |layers| naming.layer.replace(LAYER, layers));
        if name.contains(EXPERT) {
            text += &name.replace(EXPERT, &range(0, shape.remove(0))?);
        } else {
            text += name;
        }
        let name = Pattern::parse(&text).expect("names in tables hold no braces but those of layer and expert");
        Some(Tensor { name, shape, kind: of.0, module: of.1 })
    }
}

/// The name of a tensor that no rule speaks of: each expert has its own.
fn plain(name: &str) -> String {
    match name.strip_prefix(EXPERTS) {
        Some(rest) => format!("{EXPERTS}{EXPERT}.{rest}"),
        None => name.to_owned(),
    }
}

fn with_kinds(weights: Vec<Whole>, buffers: Vec<Whole>) -> Vec<(Kind, Whole)> {
    let weights = weights.into_iter().map(|whole| (Kind::Parameter, whole));
    weights.chain(buffers.into_iter().map(|whole| (Kind::Buffer, whole))).collect()
}

/// What is listed of one layer.
fn listed(sizes: &Sizes, lists: impl FnOnce(&mut Sink<'_>)) -> Vec<Whole> {
    let mut entries = vec![Entry::NONE; Inventory::CAPACITY];
    lists(&mut Sink::new(&mut entries));
    let len = entries.iter().take_while(|entry| !entry.name.is_empty()).count();
    wholes(&entries[..len], sizes)
}
