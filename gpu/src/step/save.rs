//! A rank's weights, buffers and optimizer state in one safetensors file, from which its step goes on as if it had not
//! stopped. A file is written beside the old one and takes its place when it is whole.

use super::Step;
use super::model::Model;
use super::params::{Flat, Place, States, Visit, Visitor};
use crate::device::{Device, Element, Format, Memory, Mut};
use crate::shapes::Shapes;
use crate::tensor::StepError;
use core::cell::RefCell;
use core::mem::size_of;
use safetensors::{Dtype, SafeTensors, View, serialize_to_file};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::{fs, io};

/// The key of the number of steps among a file's metadata.
const STEPS: &str = "steps";

/// Why a file was not written or read.
fn failed(path: &Path, error: impl core::fmt::Display) -> StepError {
    StepError::Other(format!("{}: {error}", path.display()))
}

impl<D: Device, S: Shapes, E: Format, M: Format> Step<D, S, E, M> {
    /// Writes weights, buffers, master weights and moments of the rank to a file, tensor by tensor: never more than one of
    /// them is copied at once.
    ///
    /// # Errors
    /// If the device holds no values, or the file cannot be written; one that is there already then is as it was.
    pub fn save(&mut self, path: &Path) -> Result<(), StepError> {
        let mut list = List(Vec::new());
        each(&mut self.model, &mut self.states, &mut list)?;
        let metadata = HashMap::from([(STEPS.to_owned(), self.steps.to_string())]);
        let values = RefCell::new(Values { device: &self.device, model: &mut self.model, states: &mut self.states });
        if values.borrow_mut().is_empty() {
            return Err(StepError::Other(format!("the device {} holds no values to save", <D as Memory>::NAME)));
        }
        let tensors: Vec<_> =
            list.0.iter().map(|stored| (stored.name.as_str(), Lazy { stored, values: &values })).collect();
        let beside = path.with_extension("partial");
        serialize_to_file(tensors, Some(metadata), &beside).map_err(|error| failed(&beside, error))?;
        values.borrow().device.finish()?;
        let sync = fs::File::open(&beside).and_then(|file| file.sync_all());
        sync.and_then(|()| fs::rename(&beside, path)).map_err(|error| failed(path, error))
    }

    /// Goes on from a file that the same rank of the same layout wrote.
    ///
    /// # Errors
    /// If the file cannot be read, or holds other tensors: one that is missing, left over, or of another shape or format.
    /// What was read until then stays.
    pub fn load(&mut self, path: &Path) -> Result<(), StepError> {
        let bytes = fs::read(path).map_err(|error: io::Error| failed(path, error))?;
        let file = SafeTensors::deserialize(&bytes).map_err(|error| failed(path, error))?;
        let (_, metadata) = SafeTensors::read_metadata(&bytes).map_err(|error| failed(path, error))?;
        let steps = metadata.metadata().as_ref().and_then(|metadata| metadata.get(STEPS)?.parse().ok());
        let steps = steps.ok_or_else(|| failed(path, format!("its metadata has no number of `{STEPS}`")))?;
        let mut read = Read { device: &self.device, file: &file, path, count: 0 };
        each(&mut self.model, &mut self.states, &mut read)?;
        let (held, count) = (file.len(), read.count);
        if held != count {
            return Err(failed(path, format!("it holds {held} tensors, this rank {count}")));
        }
        self.steps = steps;
        Ok(())
    }
}

/// A tensor of a file.
struct Stored {
    name: String,
    shape: Vec<usize>,
    dtype: Dtype,
    bytes: usize,
}

/// Sees every tensor that is saved.
trait Each<D: Memory> {
    fn see<T: Element>(&mut self, name: String, shape: [usize; 2], elements: Mut<'_, D, T>) -> Result<(), StepError>;
}

/// Weights and buffers, then the state of both groups.
fn each<D: Device, S: Shapes, E: Format, M: Format>(
    model: &mut Model<D, S, E>,
    states: &mut States<D, M>,
    see: &mut impl Each<D>,
) -> Result<(), StepError> {
    model.visit(&mut Named(see))?;
    let of = |name: &str| format!("optimizer.{name}");
    let mut flat = |name: &str, elements: Mut<'_, D, f32>| {
        let len = elements.len();
        see.see(of(name), [len, 1], elements)
    };
    flat("dense.master_weight", states.dense.master.view_mut().raw())?;
    if let Some(state) = &mut states.expert {
        flat("expert.master_weight", state.master.view_mut().raw())?;
    }
    let mut flat = |name: &str, elements: Mut<'_, D, M>| {
        let len = elements.len();
        see.see(of(name), [len, 1], elements)
    };
    flat("dense.first_moment", states.dense.first.view_mut().raw())?;
    flat("dense.second_moment", states.dense.second.view_mut().raw())?;
    if let Some(state) = &mut states.expert {
        flat("expert.first_moment", state.first.view_mut().raw())?;
        flat("expert.second_moment", state.second.view_mut().raw())?;
    }
    Ok(())
}

/// Weights by their names in a file.
struct Named<'a, V>(&'a mut V);

impl<D: Memory, E: Format, V: Each<D>> Visitor<D, E> for Named<'_, V> {
    fn param(&mut self, place: Place, _: Flat, elements: Mut<'_, D, E>) -> Result<(), StepError> {
        self.0.see(file_name(&place), [place.rows, place.width], elements)
    }

    fn buffer(&mut self, place: Place, elements: Mut<'_, D, f32>) -> Result<(), StepError> {
        self.0.see(file_name(&place), [place.rows, place.width], elements)
    }
}

fn file_name(place: &Place) -> String {
    match place.layer {
        Some(layer) => format!("model.layers.{layer}.{}", place.name),
        None => place.name.to_owned(),
    }
}

fn dtype<T: Element>() -> Dtype {
    match T::NAME {
        "fp32" => Dtype::F32,
        "bf16" => Dtype::BF16,
        "int32" => Dtype::I32,
        _ => Dtype::I64,
    }
}

/// What a file will hold.
struct List(Vec<Stored>);

impl<D: Memory> Each<D> for List {
    fn see<T: Element>(&mut self, name: String, shape: [usize; 2], elements: Mut<'_, D, T>) -> Result<(), StepError> {
        let bytes = elements.len() * size_of::<T>();
        self.0.push(Stored { name, shape: shape.to_vec(), dtype: dtype::<T>(), bytes });
        Ok(())
    }
}

/// Where values are when a file asks for them.
struct Values<'a, D: Device, S: Shapes, E: Format, M: Format> {
    device: &'a D,
    model: &'a mut Model<D, S, E>,
    states: &'a mut States<D, M>,
}

impl<D: Device, S: Shapes, E: Format, M: Format> Values<'_, D, S, E, M> {
    /// Whether the device has none.
    fn is_empty(&mut self) -> bool {
        let master = self.states.dense.master.view_mut().raw();
        self.device.read(master.read(), |_| ()).is_none()
    }

    fn bytes(&mut self, name: &str) -> Vec<u8> {
        let mut copy = Copy { device: self.device, name, bytes: Vec::new() };
        // It refuses nothing.
        let _ = each(self.model, self.states, &mut copy);
        copy.bytes
    }
}

/// One tensor's values.
struct Copy<'a, D> {
    device: &'a D,
    name: &'a str,
    bytes: Vec<u8>,
}

impl<D: Memory> Each<D> for Copy<'_, D> {
    fn see<T: Element>(&mut self, name: String, _: [usize; 2], elements: Mut<'_, D, T>) -> Result<(), StepError> {
        if name == self.name {
            self.bytes = self.device.read(elements.read(), T::to_bytes).unwrap_or_default();
        }
        Ok(())
    }
}

/// A tensor that is copied when it is written.
struct Lazy<'a, 'v, D: Device, S: Shapes, E: Format, M: Format> {
    stored: &'a Stored,
    values: &'a RefCell<Values<'v, D, S, E, M>>,
}

impl<D: Device, S: Shapes, E: Format, M: Format> View for Lazy<'_, '_, D, S, E, M> {
    fn dtype(&self) -> Dtype {
        self.stored.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.stored.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Owned(self.values.borrow_mut().bytes(&self.stored.name))
    }

    fn data_len(&self) -> usize {
        self.stored.bytes
    }
}

/// Puts a file's values in their places.
struct Read<'a, D> {
    device: &'a D,
    file: &'a SafeTensors<'a>,
    path: &'a Path,
    count: usize,
}

impl<D: Memory> Each<D> for Read<'_, D> {
    fn see<T: Element>(&mut self, name: String, shape: [usize; 2], elements: Mut<'_, D, T>) -> Result<(), StepError> {
        let tensor = self.file.tensor(&name).map_err(|error| failed(self.path, format!("`{name}`: {error}")))?;
        if tensor.shape() != shape || tensor.dtype() != dtype::<T>() {
            let (has, of) = (tensor.shape(), tensor.dtype());
            let text = format!("`{name}` is {has:?} of {of:?} there, and {shape:?} of {:?} on this rank", dtype::<T>());
            return Err(failed(self.path, text));
        }
        self.device.write(elements, |out| T::from_bytes(out, tensor.data()));
        self.count += 1;
        Ok(())
    }
}
