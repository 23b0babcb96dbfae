//! A rank's part of a checkpoint: what of its weights, buffers and optimizer state its file holds, and what it reads of a
//! checkpoint that ranks of any layout wrote.

use super::Step;
use super::gradients::{State, States};
use super::model::Model;
use super::params::{Flat, Part, Place, Visit, Visitor, address};
use crate::checkpoint::blocks::Writer;
use crate::checkpoint::disk::{Disk, Real};
use crate::checkpoint::document::{self, Document, Listed, VERSION, file_name, of_spec};
use crate::checkpoint::shard::{self, Entry, dtype};
use crate::checkpoint::write::Partial;
use crate::checkpoint::{CheckpointError, Files, Kept, Saved};
use crate::comm::Comm;
use crate::device::{Device, Element, Format, Memory, Mut, Ref};
use crate::shapes::{Axis, Shapes};
use crate::tensor::StepError;
use core::mem::size_of;
use core::ops::Range;
use moe_model_core::manifest::{Held, Manifest, Orders, Piece, Shard, Slice, Tensor};
use moe_model_core::{Key, Plan};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::process;
use std::time::SystemTime;

/// Elements that are copied at once.
const CHUNK: usize = 1 << 18;

impl<D: Device, S: Shapes, E: Format, M: Format> Step<D, S, E, M> {
    /// Writes a checkpoint, of which this rank writes its part and all ranks of the world theirs, into a folder of
    /// checkpoints; it becomes the newest. Nothing is held twice but some megabytes at a time. Returns the folder of the
    /// checkpoint.
    ///
    /// One job writes to a folder at a time; what an earlier one left unfinished there is removed.
    ///
    /// # Errors
    /// If the device holds no values, the rank is alone and no whole model, or a file cannot be written; whatever it is, the
    /// checkpoints that were there are as they were, and what was the newest of them is. All ranks fail if one does.
    pub fn save(&mut self, folder: &Path) -> Result<PathBuf, StepError> {
        self.save_on(&Real, folder)
    }

    /// The same with what is done to files said.
    pub(crate) fn save_on(&mut self, disk: &dyn Disk, folder: &Path) -> Result<PathBuf, StepError> {
        if self.device.read(self.states.dense.master.view_mut().raw().read().part(0, 0), |_| ()).is_none() {
            return Err(StepError::Other(format!("the device {} holds no values to save", <D as Memory>::NAME)));
        }
        let world = self.plan.world();
        if self.comm.is_alone() && world > 1 {
            let text = format!("a rank that is alone has no checkpoint of a layout of {world} ranks");
            return Err(StepError::Other(text));
        }
        let manifest = Manifest::of(&self.plan, &self.orders).map_err(CheckpointError::from)?;
        let is_first = self.comm.rank() == 0;
        let begun = if is_first { Partial::begin(disk, folder, self.steps).map(Some) } else { Ok(None) };
        let id = identity();
        let begun = self.agree("begin of a checkpoint", begun, |begun| {
            begun.as_ref().map_or(Vec::new(), |begun| format!("{}\n{id}", begun.name()).into_bytes())
        })?;
        let names = String::from_utf8_lossy(&begun.1[0]).into_owned();
        let (name, id) = names.split_once('\n').unwrap_or_default();
        let partial = Partial::named(folder, name.to_owned());
        let written = self.write(disk, &partial, &manifest, id);
        let files = self.agree("files of a checkpoint", written, |file| {
            file.as_ref().map_or(Ok(Vec::new()), serde_json::to_vec).unwrap_or_default()
        });
        if files.is_err() && is_first {
            // Whoever cannot do that leaves it to the next writer.
            let _ = disk.remove_folder(&partial.path());
        }
        let (_, files) = files?;
        let finished = if is_first { self.finish(disk, partial, manifest, id, &files).map(Some) } else { Ok(None) };
        self.agree("end of a checkpoint", finished, |_| Vec::new())?;
        Ok(folder.join(name))
    }

    /// All files are there.
    fn finish(
        &self,
        disk: &dyn Disk,
        partial: Partial,
        manifest: Manifest,
        id: &str,
        files: &[Vec<u8>],
    ) -> Result<PathBuf, CheckpointError> {
        let path = partial.path().join(document::MANIFEST);
        let wrong = |error: String| CheckpointError::manifest(&path, error);
        let files = files.iter().filter(|file| !file.is_empty()).map(|file| serde_json::from_slice(file));
        let files: Vec<Listed> = files.collect::<Result<_, _>>().map_err(|error| wrong(error.to_string()))?;
        let document = Document {
            version: VERSION,
            program: concat!("moe-model ", env!("CARGO_PKG_VERSION")).to_owned(),
            checkpoint: id.to_owned(),
            steps: self.steps,
            spec_checksum: of_spec(self.plan.spec()).map_err(wrong)?,
            spec: *self.plan.spec(),
            manifest,
            files,
        };
        partial.finish(disk, &document)
    }

    /// Goes on from the checkpoint in a folder, or from the newest of those that a folder holds, whatever the layout was that
    /// it was saved under: it reads what this rank holds of the model. Rows that pad the vocabulary become zeros.
    ///
    /// # Errors
    /// If the checkpoint is of another model or of other formats, or a file is not what was written; all ranks fail if one
    /// does. The step then holds part of what was read, and nothing is to be done with it but another load.
    pub fn load(&mut self, folder: &Path) -> Result<(), StepError> {
        let read = self.read(folder);
        let steps = self.agree("reading of a checkpoint", read, |steps| steps.to_le_bytes().to_vec())?.0;
        self.steps = steps;
        Ok(())
    }

    /// The step with experts in another order than the model's: what it reads it puts in this order, what it saves says so.
    /// Weights that it holds are taken to be in this order already.
    ///
    /// # Errors
    /// If an order does not have each expert of its layer once, or takes a group of experts apart.
    pub fn with_experts(self, orders: Orders) -> Result<Self, StepError> {
        let experts = &self.plan.spec().architecture.experts;
        for (layer, order) in orders.iter() {
            check_order(order, experts.routed, experts.groups)
                .map_err(|what| StepError::Other(format!("the order of experts of layer {layer}: {what}")))?;
        }
        Ok(Self { orders, ..self })
    }

    fn read(&mut self, folder: &Path) -> Result<i32, StepError> {
        let saved = Saved::open(folder)?;
        is_same(&saved, &self.plan)?;
        let manifest = Manifest::of(&self.plan, &self.orders).map_err(CheckpointError::from)?;
        let mut pass = self.pass(&manifest);
        let mut read = Read { files: saved.files(), manifest: &manifest };
        for kept in [Kept::Weight, Kept::MasterWeight, Kept::FirstMoment, Kept::SecondMoment] {
            pass.over(kept, &mut read)?;
        }
        Ok(saved.steps())
    }

    /// Writes this rank's file, if it has any.
    fn write(
        &mut self,
        disk: &dyn Disk,
        partial: &Partial,
        manifest: &Manifest,
        id: &str,
    ) -> Result<Option<Listed>, StepError> {
        let rank = self.comm.rank();
        let mut pass = self.pass(manifest);
        let mut list = List { rank, manifest, entries: Vec::new() };
        let order = order::<E, M>();
        for kept in order {
            pass.over(kept, &mut list)?;
        }
        let entries = list.entries;
        if entries.is_empty() {
            return Ok(None);
        }
        let path = partial.path().join(file_name(rank));
        let writer = shard::begin(disk, &path, Some((id, rank)), &entries)?;
        let mut write = Write { rank, writer, path: &path };
        for kept in order {
            pass.over(kept, &mut write)?;
        }
        let sums = write.writer.finish().map_err(CheckpointError::io(&path, "writing"))?;
        self.device.finish()?;
        Ok(Some(Listed { rank, name: file_name(rank), sums }))
    }

    /// What goes through all that this rank holds.
    fn pass<'p>(&'p mut self, manifest: &'p Manifest) -> Pass<'p, D, S, E, M> {
        let held = held(manifest, &self.plan, &self.comm);
        let rank = self.comm.rank();
        Pass { rank, device: &self.device, model: &mut self.model, states: &mut self.states, held }
    }

    /// What all ranks say, or the error of one of them; and this rank's own.
    fn agree<T, X: Into<StepError>>(
        &self,
        operation: &'static str,
        own: Result<T, X>,
        say: impl FnOnce(&T) -> Vec<u8>,
    ) -> Result<(T, Vec<Vec<u8>>), StepError> {
        let own = own.map_err(Into::into);
        let mut message = match &own {
            Ok(own) => [&[1], &say(own)[..]].concat(),
            Err(error) => [&[0], error.to_string().as_bytes()].concat(),
        };
        let known = if self.comm.is_alone() {
            vec![core::mem::take(&mut message)]
        } else {
            self.comm.everyone(operation, message)?
        };
        let own = own?;
        let mut said = Vec::new();
        for (message, rank) in known.iter().zip(0..) {
            match message.split_first() {
                Some((1, rest)) => said.push(rest.to_vec()),
                Some((_, rest)) => {
                    let says = String::from_utf8_lossy(rest).into_owned();
                    return Err(CheckpointError::Peer { rank, says }.into());
                }
                None => return Err(CheckpointError::Peer { rank, says: "it says nothing".to_owned() }.into()),
            }
        }
        Ok((own, said))
    }
}

/// What tells a checkpoint from every other one.
fn identity() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}", now.as_nanos(), process::id())
}

/// What a file holds first: elements of more bytes stand in front, so that none lies across a multiple of its size.
fn order<E: Format, M: Format>() -> [Kept; 4] {
    let mut order = [
        (size_of::<f32>(), Kept::MasterWeight),
        (size_of::<M>(), Kept::FirstMoment),
        (size_of::<M>(), Kept::SecondMoment),
        (size_of::<E>(), Kept::Weight),
    ];
    order.sort_by_key(|(size, _)| core::cmp::Reverse(*size));
    order.map(|(_, kept)| kept)
}

/// Whether each of so many experts is there once, and groups stay together, whose experts are chosen among by group.
fn check_order(order: &[u64], routed: u64, groups: u64) -> Result<(), String> {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..routed) {
        return Err(format!("{order:?} does not have each of {routed} experts once"));
    }
    let each = routed / groups.max(1);
    let of_one_group = |experts: &[u64]| experts.iter().all(|expert| expert / each == experts[0] / each);
    let is_whole = groups <= 1 || usize::try_from(each).is_ok_and(|each| order.chunks(each.max(1)).all(of_one_group));
    if is_whole { Ok(()) } else { Err(format!("{order:?} takes one of {groups} groups apart")) }
}

/// Whether a checkpoint is of the same model, and its numbers in the same formats.
fn is_same(saved: &Saved, plan: &Plan) -> Result<(), CheckpointError> {
    let (there, here) = (saved.spec(), plan.spec());
    let other = |of: &str, there: String, here: String| CheckpointError::Other { of: of.to_owned(), there, here };
    if there.architecture != here.architecture {
        let (numbers_there, numbers_here) = (there.numbers(), here.numbers());
        let keys = Key::ALL.iter().filter(|key| !moe_model_core::KeySet::EMPTY.with(**key).has_layout());
        for key in keys {
            let (one, two) = (numbers_there.get(*key), numbers_here.get(*key));
            if one != two {
                let said = |number: Option<u64>| number.map_or_else(|| "none".to_owned(), |number| number.to_string());
                return Err(other(&format!("`{}`", key.path()), said(one), said(two)));
            }
        }
        return Err(other("the architecture", "one kind".to_owned(), "another".to_owned()));
    }
    let (one, two) = (&there.layout.precision, &here.layout.precision);
    for (key, one, two) in [
        ("`precision.weights`", one.weights, two.weights),
        ("`precision.master`", one.master, two.master),
        ("`precision.moments`", one.moments, two.moments),
    ] {
        if one != two {
            return Err(other(key, one.word().to_owned(), two.word().to_owned()));
        }
    }
    Ok(())
}

/// What of a tensor the rank holds.
#[derive(Clone, Copy)]
struct Mine<'m> {
    tensor: &'m Tensor,
    slice: &'m Slice,
    held: &'m Held,
}

/// By names and layers; of several that have the same, in the order of the rank's chunks.
type Mines<'m> = BTreeMap<(&'static str, Option<u64>), VecDeque<Mine<'m>>>;

/// All that a rank holds.
fn held<'m>(manifest: &'m Manifest, plan: &Plan, comm: &Comm) -> Mines<'m> {
    let tensors: BTreeMap<&str, &Tensor> =
        manifest.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let (rank, stage) = (comm.rank(), comm.place().pp);
    let mut mines = Mines::new();
    for holding in plan.holdings(stage).unwrap_or_default() {
        let Some(tensor) = tensors.get(holding.tensor().as_str()) else { continue };
        for slice in &tensor.slices {
            let is_it = |held: &&Held| {
                held.stage == stage && held.chunk == holding.chunk && held.ranks.iter().any(|ranks| ranks.has(rank))
            };
            if let Some(held) = slice.held.iter().find(is_it) {
                let mine = Mine { tensor, slice, held };
                mines.entry((holding.name, holding.layer)).or_default().push_back(mine);
            }
        }
    }
    mines
}

/// Sees what a rank holds, one after the other.
trait Each<D: Memory> {
    /// So many elements of a tensor that lie in memory, of those that the rank holds.
    fn see<T: Element>(
        &mut self,
        device: &D,
        kept: Kept,
        mine: &Mine<'_>,
        shard: &Shard,
        elements: Mut<'_, D, T>,
    ) -> Result<(), StepError>;
}

/// Goes through all that a rank holds.
struct Pass<'p, D: Device, S: Shapes, E: Format, M: Format> {
    rank: u64,
    device: &'p D,
    model: &'p mut Model<D, S, E>,
    states: &'p mut States<D, M>,
    held: Mines<'p>,
}

impl<D: Device, S: Shapes, E: Format, M: Format> Pass<'_, D, S, E, M> {
    fn over(&mut self, kept: Kept, see: &mut impl Each<D>) -> Result<(), StepError> {
        let (rank, device, held) = (self.rank, self.device, self.held.clone());
        let mut over = Over { rank, device, states: self.states, held, kept, see };
        self.model.visit(&mut over)
    }
}

struct Over<'a, 'm, D: Memory, M: Element, V> {
    rank: u64,
    device: &'a D,
    states: &'a mut States<D, M>,
    held: Mines<'m>,
    kept: Kept,
    see: &'a mut V,
}

impl<'m, D: Device, M: Format, V: Each<D>> Over<'_, 'm, D, M, V> {
    fn next(&mut self, place: &Place) -> Result<Mine<'m>, StepError> {
        let mine = self.held.get_mut(&(place.name, place.layer)).and_then(VecDeque::pop_front);
        mine.ok_or_else(|| disagree(place, "nothing of it"))
    }

    /// The rank's share of a tensor's state.
    fn state(&mut self, mine: &Mine<'_>, place: &Place, flat: Flat) -> Result<(), StepError> {
        let Some(shard) = mine.held.states.iter().find(|shard| shard.has(self.rank)) else { return Ok(()) };
        let Part { elements, at } = flat.state();
        let len = elements.len();
        if (address(shard.first), address(shard.elements)) != (elements.start, len) {
            return Err(disagree(place, &format!("the state of elements {:?}", shard.range())));
        }
        let (device, kept, see) = (self.device, self.kept, &mut *self.see);
        match &mut self.states.expert {
            Some(state) if flat.expert => of_state(device, kept, mine, shard, state, (at, len), see),
            _ => of_state(device, kept, mine, shard, &mut self.states.dense, (at, len), see),
        }
    }
}

fn of_state<D: Device, R: Axis, M: Format>(
    device: &D,
    kept: Kept,
    mine: &Mine<'_>,
    shard: &Shard,
    state: &mut State<D, R, M>,
    (at, len): (usize, usize),
    see: &mut impl Each<D>,
) -> Result<(), StepError> {
    match kept {
        Kept::Weight => Ok(()),
        Kept::MasterWeight => see.see(device, kept, mine, shard, state.master.view_mut().raw().part(at, len)),
        Kept::FirstMoment => see.see(device, kept, mine, shard, state.first.view_mut().raw().part(at, len)),
        Kept::SecondMoment => see.see(device, kept, mine, shard, state.second.view_mut().raw().part(at, len)),
    }
}

/// The step and the plan do not agree on what the rank holds.
fn disagree(place: &Place, plan: &str) -> StepError {
    StepError::Other(format!("of {place:?} the plan says that this rank has {plan}"))
}

impl<D: Device, E: Format, M: Format, V: Each<D>> Visitor<D, E> for Over<'_, '_, D, M, V> {
    fn param(
        &mut self,
        place: Place,
        flat: Flat,
        elements: Range<usize>,
        kept: Mut<'_, D, E>,
    ) -> Result<(), StepError> {
        let mine = self.next(&place)?;
        if self.kept == Kept::Weight {
            if elements.is_empty() {
                return Ok(());
            }
            let shard = weights(&mine, self.rank, &place, elements.len())?;
            self.see.see(self.device, self.kept, &mine, shard, kept)
        } else {
            self.state(&mine, &place, flat)
        }
    }

    fn buffer(&mut self, place: Place, elements: Mut<'_, D, f32>) -> Result<(), StepError> {
        let mine = self.next(&place)?;
        if self.kept != Kept::Weight {
            return Ok(());
        }
        let shard = weights(&mine, self.rank, &place, elements.len())?;
        self.see.see(self.device, self.kept, &mine, shard, elements)
    }
}

/// What of the weights of a slice a rank holds, which is so many elements.
fn weights<'m>(mine: &Mine<'m>, rank: u64, place: &Place, len: usize) -> Result<&'m Shard, StepError> {
    let shard = mine.held.weights.iter().find(|shard| shard.has(rank));
    shard.filter(|shard| shard.elements == len as u64).ok_or_else(|| disagree(place, "another number of elements"))
}

/// What a file will hold.
struct List<'m> {
    rank: u64,
    manifest: &'m Manifest,
    entries: Vec<Entry>,
}

impl<D: Memory> Each<D> for List<'_> {
    fn see<T: Element>(
        &mut self,
        _: &D,
        kept: Kept,
        mine: &Mine<'_>,
        shard: &Shard,
        _: Mut<'_, D, T>,
    ) -> Result<(), StepError> {
        if shard.writer != Some(self.rank) {
            return Ok(());
        }
        let element = kept.element(self.manifest, mine.tensor);
        let Some(dtype) = element.filter(|element| *element == T::NAME).and_then(dtype) else {
            let text = format!("`{}` is of format {} here, and {element:?} in the plan", mine.tensor.name, T::NAME);
            return Err(StepError::Other(text));
        };
        self.entries.push(kept.entry(mine.tensor, mine.slice, shard.stored, dtype));
        Ok(())
    }
}

/// Writes what a file holds.
struct Write<'w> {
    rank: u64,
    writer: Writer<'w>,
    path: &'w Path,
}

impl<D: Memory> Each<D> for Write<'_> {
    fn see<T: Element>(
        &mut self,
        device: &D,
        _: Kept,
        _: &Mine<'_>,
        shard: &Shard,
        elements: Mut<'_, D, T>,
    ) -> Result<(), StepError> {
        if shard.writer != Some(self.rank) {
            return Ok(());
        }
        let all: Ref<'_, D, T> = elements.into_read();
        let (len, mut done) = (address(shard.stored), 0);
        while done < len {
            let now = CHUNK.min(len - done);
            let written = device.read(all.part(done, now), |values| self.writer.write(&T::to_bytes(values)));
            written.unwrap_or(Ok(())).map_err(CheckpointError::io(self.path, "writing"))?;
            done += now;
        }
        Ok(())
    }
}

/// Reads what the rank holds.
struct Read<'s, 'm> {
    files: Files<'s>,
    manifest: &'m Manifest,
}

impl<D: Memory> Each<D> for Read<'_, '_> {
    fn see<T: Element>(
        &mut self,
        device: &D,
        kept: Kept,
        mine: &Mine<'_>,
        shard: &Shard,
        elements: Mut<'_, D, T>,
    ) -> Result<(), StepError> {
        let element = kept.element(self.manifest, mine.tensor);
        debug_assert_eq!(element, Some(T::NAME), "the step has the plan's formats");
        let Slice { part, experts, .. } = mine.slice;
        let wanted = Piece { part, experts, first: shard.first, elements: shard.elements };
        let mut read = Ok(0);
        device.write(elements, |out| {
            out.fill(T::default());
            read = self.files.read(kept, mine.tensor, &wanted, |at, bytes| {
                let len = bytes.len() / size_of::<T>();
                T::from_bytes(&mut out[address(at)..][..len], bytes);
            });
        });
        let (has, needs) = (read?, shard.stored);
        if has != needs {
            let (of, there) = (format!("`{}` {part}", mine.tensor.name), format!("{has} elements of it"));
            return Err(CheckpointError::Other { of, there, here: needs.to_string() }.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
