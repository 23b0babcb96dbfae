//! Launches of kernels. What a kernel takes is declared once, beside the operation that launches it; a function of that
//! name launches it, and a test holds the declaration against the compiled kernel.

use super::compile::Kind as Format;
use super::{Cuda, Work};
use crate::Float;
use crate::device::{Element, Mut, Ref};
use core::marker::PhantomData;
use cudarc::driver::{CudaContext, CudaFunction, CudaModule, LaunchConfig, PushKernelArg};
use std::collections::HashMap;
use std::sync::Arc;

/// What a kernel takes in one place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parameter {
    /// An address in the device's memory.
    Address,
    /// A whole number of 64 bits.
    U64,
    /// A whole number of 32 bits.
    U32,
    /// A number.
    F32,
}

/// A kernel as its launches have it.
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub parameters: &'static [Parameter],
}

/// The kernels that are launched.
pub const KERNELS: [&[Signature]; 11] = [
    crate::ops::activation::cuda::KERNELS,
    crate::ops::adamw::cuda::KERNELS,
    crate::ops::attention::cuda::KERNELS,
    crate::ops::cross_entropy::cuda::KERNELS,
    crate::ops::elementwise::cuda::KERNELS,
    crate::ops::embedding::cuda::KERNELS,
    crate::ops::gemm::cuda::KERNELS,
    crate::ops::permute::cuda::KERNELS,
    crate::ops::rms_norm::cuda::KERNELS,
    crate::ops::rope::cuda::KERNELS,
    crate::ops::router::cuda::KERNELS,
];

/// An argument as the driver takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    U64(u64),
    U32(u32),
    F32(f32),
}

/// A kind of argument: what a launch is given for it, and what the kernel gets.
pub(crate) trait Kind {
    type Argument<'a>;
    const PARAMETER: Parameter;

    fn value(argument: Self::Argument<'_>) -> Value;
}

/// A tensor that is read.
pub(crate) struct In<E>(PhantomData<E>);

/// A tensor that is written.
pub(crate) struct Out<E>(PhantomData<E>);

/// A tensor that is read, if there is one.
pub(crate) struct MayIn<E>(PhantomData<E>);

/// A tensor that is written, if there is one.
pub(crate) struct MayOut<E>(PhantomData<E>);

/// A length of 64 bits.
pub(crate) struct Wide;

/// A length below 2^32: of a row.
pub(crate) struct Narrow;

/// A number.
pub(crate) struct Number;

/// Whether something is so.
pub(crate) struct Flag;

impl<E: Element> Kind for In<E> {
    type Argument<'a> = Ref<'a, Cuda, E>;
    const PARAMETER: Parameter = Parameter::Address;

    fn value(argument: Ref<'_, Cuda, E>) -> Value {
        Value::U64(argument.address())
    }
}

impl<E: Element> Kind for Out<E> {
    type Argument<'a> = Mut<'a, Cuda, E>;
    const PARAMETER: Parameter = Parameter::Address;

    fn value(argument: Mut<'_, Cuda, E>) -> Value {
        Value::U64(argument.read().address())
    }
}

impl<E: Element> Kind for MayIn<E> {
    type Argument<'a> = Option<Ref<'a, Cuda, E>>;
    const PARAMETER: Parameter = Parameter::Address;

    fn value(argument: Option<Ref<'_, Cuda, E>>) -> Value {
        Value::U64(argument.map_or(0, Ref::address))
    }
}

impl<E: Element> Kind for MayOut<E> {
    type Argument<'a> = Option<Mut<'a, Cuda, E>>;
    const PARAMETER: Parameter = Parameter::Address;

    fn value(argument: Option<Mut<'_, Cuda, E>>) -> Value {
        Value::U64(argument.map_or(0, |argument| argument.read().address()))
    }
}

impl Kind for Wide {
    type Argument<'a> = usize;
    const PARAMETER: Parameter = Parameter::U64;

    fn value(argument: usize) -> Value {
        Value::U64(argument as u64)
    }
}

impl Kind for Narrow {
    type Argument<'a> = usize;
    const PARAMETER: Parameter = Parameter::U32;

    fn value(argument: usize) -> Value {
        Value::U32(argument.try_into().expect("rows are shorter than 2^32"))
    }
}

impl Kind for Number {
    type Argument<'a> = f32;
    const PARAMETER: Parameter = Parameter::F32;

    fn value(argument: f32) -> Value {
        Value::F32(argument)
    }
}

impl Kind for Flag {
    type Argument<'a> = bool;
    const PARAMETER: Parameter = Parameter::U32;

    fn value(argument: bool) -> Value {
        Value::U32(argument.into())
    }
}

/// How many blocks of how many threads, and how much shared memory each has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    count: u32,
    threads: u32,
    shared: u32,
}

/// The most blocks: each goes on where a grid of them ends.
const MOST_BLOCKS: usize = 1 << 20;

/// The most f32s of shared memory: what every device gives without being asked for more.
pub(crate) const MOST_SHARED: usize = 12 << 10;

impl Blocks {
    fn new(count: usize, threads: usize) -> Self {
        let number = |n: usize| n.try_into().expect("grids are bounded");
        Self { count: number(count.min(MOST_BLOCKS)), threads: number(threads), shared: 0 }
    }

    /// One for each row of so many columns.
    pub(crate) fn rows(rows: usize, width: usize) -> Self {
        Self::new(rows, width.next_multiple_of(32).clamp(32, 256))
    }

    /// One for each row, of so many threads.
    pub(crate) fn of(rows: usize, threads: usize) -> Self {
        Self::new(rows, threads)
    }

    /// For so many elements.
    pub(crate) fn elements(n: usize) -> Self {
        Self::new(n.div_ceil(256), 256)
    }

    /// One for every 32 columns that are summed up.
    pub(crate) fn columns(width: usize) -> Self {
        Self::new(width.div_ceil(32), 256)
    }

    /// A warp for each row.
    pub(crate) fn warps(rows: usize) -> Self {
        Self::new(rows.div_ceil(8), 256)
    }

    /// With so many f32s of shared memory each.
    pub(crate) fn sharing(self, floats: usize) -> Self {
        assert!(floats <= MOST_SHARED, "{floats} numbers of shared memory, {MOST_SHARED} are there");
        Self { shared: u32::try_from(floats * 4).expect("it is bounded"), ..self }
    }
}

/// The kernels of one pair of formats, by name.
pub(super) struct Loaded(HashMap<&'static str, CudaFunction>);

impl Loaded {
    /// Loads compiled kernels.
    pub(super) fn new(context: &Arc<CudaContext>, ptx: cudarc::nvrtc::Ptx) -> Result<Self, super::NoDevice> {
        let failed = |error| super::NoDevice::Kernels(format!("{error}"));
        let module: Arc<CudaModule> = context.load_module(ptx).map_err(failed)?;
        let mut functions = HashMap::new();
        for signature in KERNELS.into_iter().flatten() {
            functions.insert(signature.name, module.load_function(signature.name).map_err(failed)?);
        }
        Ok(Self(functions))
    }
}

impl Cuda {
    /// Launches a kernel that was compiled for activations of one format and weights of another.
    pub(crate) fn launch<X: Float, W: Float>(&self, name: &'static str, blocks: Blocks, values: &[Value]) {
        if blocks.count == 0 {
            return;
        }
        let load = || self.load(Format::of::<X>(), Format::of::<W>());
        let Some(kernels) = self.attempt(Work::Compile(name), load) else { return };
        let mut launch = self.stream().launch_builder(&kernels.0[name]);
        for value in values {
            match value {
                Value::U64(value) => launch.arg(value),
                Value::U32(value) => launch.arg(value),
                Value::F32(value) => launch.arg(value),
            };
        }
        let (grid_dim, block_dim) = ((blocks.count, 1, 1), (blocks.threads, 1, 1));
        let shape = LaunchConfig { grid_dim, block_dim, shared_mem_bytes: blocks.shared };
        // SAFETY: the arguments are those of the kernel's declaration, which a test holds against what was compiled. Tensors
        // are borrowed until the call returns, and are freed in the order of the same stream; each operation asserts that
        // they are as long as the sizes that it passes say.
        #[allow(unsafe_code)]
        self.attempt(Work::Kernel(name), || unsafe { launch.launch(shape) });
    }
}

/// Declares kernels by what they take, as `kernels!` in the source of each: a function for each, which launches it with
/// blocks and arguments, and the list of all. In brackets are the formats that it is generic over, in angles that of
/// activations and that of weights that it was compiled with.
macro_rules! kernels {
    ($(fn $name:ident [$($g:ident),*] <$x:ty, $w:ty> ($($arg:ident: $kind:ty),* $(,)?);)*) => {
        $(
            fn $name<$($g: $crate::device::Format),*>(
                device: &$crate::cuda::Cuda,
                blocks: $crate::cuda::launch::Blocks,
                $($arg: <$kind as $crate::cuda::launch::Kind>::Argument<'_>),*
            ) {
                let values = [$(<$kind as $crate::cuda::launch::Kind>::value($arg)),*];
                device.launch::<$x, $w>(stringify!($name), blocks, &values);
            }
        )*

        /// The kernels of this operation.
        pub(crate) const KERNELS: &[$crate::cuda::launch::Signature] = &[$({
            // What a kernel takes does not depend on formats.
            $(type $g = f32;)*
            $crate::cuda::launch::Signature {
                name: stringify!($name),
                parameters: &[$(<$kind as $crate::cuda::launch::Kind>::PARAMETER),*],
            }
        }),*];
    };
}
pub(crate) use kernels;
