//! Mixture-of-Experts layouts, checked and budgeted to the byte while your crate compiles.
//!
//! Declare an architecture and the layouts that it runs under with [`moe_model!`]. A layout that cannot work is a
//! compile error at the wrong number, with the legal values in the message; the memory of every rank in every phase is
//! known, tensor by tensor, before anything runs.
//!
//! ```
//! use moe_model::{H100, Phase, moe_model};
//!
//! moe_model! {
//!     /// A small Mixture-of-Experts model.
//!     pub struct Small;
//!
//!     hidden: 2048,
//!     vocab: 102_400,
//!     layers: layers { dense: 1, moe: 26, ffn: 10_944 },
//!     attention: mla { heads: 16, kv_rank: 512, nope: 128, rope: 64, value: 128 },
//!     experts: experts { routed: 64, shared: 2, active: 6, ffn: 1408 },
//!
//!     /// Two nodes of eight.
//!     layout TwoNodes: layout {
//!         mesh: mesh { dp: 8, tp: 2, ep: 8, sequence_parallel: on },
//!         zero: optimizer,
//!         batch: batch { sequence: 4096, count: 8 },
//!         recompute: full,
//!         accounting: paper { kernel: flash, dropout: off, pool: group },
//!         device: h100,
//!         headroom: percent(10),
//!     },
//! }
//!
//! // Every figure is a constant, so a claim about it is one that the compiler checks.
//! const PEAK: u64 = Small::TWO_NODES.peak().bytes();
//! const _: () = assert!(PEAK < H100.usable().bytes());
//!
//! let budget = Small::TWO_NODES.budget(0);
//! assert_eq!(Small::ARCHITECTURE.parameters().total(), 15_706_484_224);
//! println!("weights {}, in backward {}", budget.weights(), budget.phase(Phase::Backward));
//! for entry in &Small::TWO_NODES.inventory(0) {
//!     println!("{entry}");
//! }
//! ```
//!
//! # Where to begin
//!
//! * To have a model and its layouts in your code, checked and counted while it compiles: [`cookbook::declare`], and
//!   [`cookbook::memory`] for what their figures are made of.
//! * To learn why a layout cannot work, and what would: [`cookbook::errors`], [`cookbook::fit`]; of files instead of
//!   declarations, [`cookbook::files`].
//! * To test the step that a layout describes, on the CPU and on a GPU: [`cookbook::step`], with feature `step`.
//!
//! # The path
//!
//! Tokens become a [`Spec`], plain data that says what the user said. The [laws](law::LAWS) judge it; a Spec that
//! breaks none becomes a [`Plan`]. The Plan lists its [`Inventory`], every kind of tensor with shape, format, number and
//! lifetime; a [`Budget`] adds that up. All of it is `const fn`: the macro, the compiler and your program run the same
//! code, and [`judge`] says at run time what the macro says while it expands.
#![no_std]

pub mod cookbook;

#[cfg(feature = "config")]
pub use moe_model_core::config;
pub use moe_model_core::device::{A100_80GB, B200, H100, H200};
pub use moe_model_core::{
    Budget, Bytes, Chunk, Coordinates, Device, Entry, Group, Inventory, Key, KeySet, Numbers, Parameters, Peak, Phase,
    Plan, Ranks, Role, Spec, Stage, Text, Violation, Violations, checkpoint, cost, device, groups, inventory, judge,
    law, parameters, preset, replicas, sizes, spec,
};
#[cfg(feature = "alloc")]
pub use moe_model_core::{events, explain, holdings, manifest, outside, timeline, traffic};
#[doc(inline)]
pub use moe_model_gpu as gpu;

/// Declares a model and the layouts that it runs under.
///
/// # What is written
///
/// A name, then keys: `moe_model! { pub struct Name; key: value, … }`. A value is a number, a word of a closed list
/// (`schedule: gpipe`), or a kind with keys of its own in braces (`attention: mla { … }`). Layouts are named items among
/// the keys: `layout Name: layout { … }`; one may be built on another declared above it with `..Other`, and then holds
/// the other's keys but for those that it gives itself. The keys, their meaning and their defaults are the fields of
/// [`spec::Architecture`] and [`spec::Layout`] and of the groups in them.
///
/// A number is a literal, or any constant expression: then the compiler judges the laws that it is part of.
///
/// # Architectures by name and out of files
///
/// `architecture: preset(name)` stands for all keys of the architecture of a published model (see [`preset`]), and
/// `architecture: file("config.json")` for those that a Hugging Face config says. As in a layout that is built on another,
/// a key that is written beside it holds instead, a group with all its keys. Laws that a number of the preset or file
/// breaks are reported at its name or path.
///
/// ```
/// use moe_model::{moe_model, preset};
///
/// moe_model! {
///     pub struct DeepSeekV3;
///     architecture: preset(deepseek_v3),
///     mtp: 0,
///     layout Main: layout {
///         mesh: mesh { dp: 64, pp: 16, ep: 64 },
///         stages: stages { first: 4, last: 1 },
///         batch: batch { sequence: 4096, count: 32 },
///         accounting: paper,
///     },
/// }
///
/// assert_eq!(DeepSeekV3::ARCHITECTURE.parameters(), preset::DEEPSEEK_V3.parameters());
/// ```
///
/// The path is relative to the source file that it is written in, as that of `include_str!`; where the compiler (or an
/// editor in its place) does not tell that file, to the folder of the crate's `Cargo.toml`. A change of the file rebuilds
/// the crate. What a config means follows from its `model_type`, sizes never do: a size that it lacks is an error. So is
/// each field that is not known, or has a value that is not supported; one that is null may pass, as it says no more than
/// its absence. The same reader is `Architecture::from_config_json` at run time, behind the feature `config`.
///
/// # Layers that differ
///
/// Without more, all layers have the same attention, and dense ones come first (`layers.dense`, `layers.moe`) or between
/// those with experts (`layers.moe_every`). A list says of each layer what it is made of, one letter a layer
/// ([`spec::LayerList`]): `a` has the model's attention, `m` what `mixer` says instead, `c` and `h` the compressed kinds of
/// `attention: compressed`; a capital has experts behind it, a small letter a dense network. Where `d` or `e` stand, a dense
/// network or experts alone, each letter is one block. `layers.beside` puts dense networks beside experts.
///
/// ```
/// use moe_model::moe_model;
///
/// moe_model! {
///     /// Jamba: attention in one of eight layers, experts in every second.
///     pub struct Jamba;
///     hidden: 4096,
///     vocab: 65_536,
///     layers: layers { dense: 16, moe: 16, ffn: 14_336, list: "(mMmMaMmM)*4" },
///     attention: gqa { heads: 32, kv_heads: 8, head_dim: 128 },
///     mixer: mamba1 { inner: 8192, state: 16, conv: 4, time_rank: 256 },
///     experts: experts { routed: 16, active: 2, ffn: 14_336 },
/// }
///
/// assert_eq!(Jamba::ARCHITECTURE.parameters().total(), 51_570_323_328);
/// ```
///
/// # Pipelines
///
/// `mesh.pp` ranks form a pipeline. Layers fall to them evenly, or with `stages: stages { first: 4, last: 1 }` set apart,
/// or with the embedding and the loss counted as a layer (`embedding: as_layer`), or as a stage list says in Megatron-LM's
/// notation. `schedule` is one of `gpipe`, `one_f_one_b`, `interleaved`, `zb_h1`, `zb_v`, `dual_pipe` and `dual_pipe_v`;
/// each knows how many chunks (virtual stages, `mesh.vpp`) a rank holds, and how many micro-batches of each are in flight.
///
/// ```
/// use moe_model::moe_model;
///
/// moe_model! {
///     pub struct DeepSeekV3;
///     architecture: preset(deepseek_v3),
///     layout Interleaved: layout {
///         mesh: mesh { dp: 64, pp: 16, ep: 64 },
///         // 32 virtual stages, two chunks a rank: E embedding, t layer, m MTP module, L loss.
///         stages: "Et|(tt|)*30mL",
///         schedule: interleaved,
///         batch: batch { sequence: 4096, count: 32 },
///         accounting: paper,
///     },
///     layout Dual: layout { stages: stages { first: 4, last: 1 }, schedule: dual_pipe, ..Interleaved },
/// }
///
/// let interleaved = DeepSeekV3::INTERLEAVED;
/// assert_eq!((interleaved.chunks(), interleaved.in_flight(0)), (2, 47));
/// assert_eq!((interleaved.chunk(0, 0).range(), interleaved.chunk(0, 1).range()), (0..1, 31..33));
/// // Two directions at once: every stage is there twice, and the first rank holds both ends of the model.
/// assert_eq!((DeepSeekV3::DUAL.chunk(0, 0).range(), DeepSeekV3::DUAL.chunk(0, 1).range()), (0..4, 60..61));
/// ```
///
/// `target: megatron_core` (or `deepspeed`, `torchtitan`) adds the limits of that framework, at the version that its laws
/// name.
///
/// # Serving
///
/// A layout with `serving` keeps weights and, of every sequence, what its attention looks back at; it has neither `batch`
/// nor `accounting`. Its phases are `prefill` and `decode`.
///
/// ```
/// use moe_model::{Bytes, H100, Phase, moe_model};
///
/// moe_model! {
///     pub struct Llama;
///     architecture: preset(llama_3_1_8b),
///     layout Served: layout {
///         mesh: mesh { dp: 2 },
///         // Sequences of each replica, and tokens of each of them.
///         serving: serving { requests: 32, context: 8192, prefill: 4096 },
///         device: h100,
///     },
/// }
///
/// // 32 layers, 8 heads, keys and values of 128 in bf16.
/// const TOKEN: u64 = Llama::SERVED.kv_cache_per_token(0).bytes();
/// assert_eq!(TOKEN, 32 * 8 * 2 * 128 * 2);
/// assert_eq!(Llama::SERVED.budget(0).kv_cache(), Bytes::gib(32));
/// assert_eq!(Llama::SERVED.peak().phase, Phase::Prefill);
/// // In whole blocks: one more does not fit.
/// let longest = Llama::SERVED.longest_context(32, H100).expect("a block fits");
/// assert!(longest >= 8192 && longest % 16 == 0);
/// ```
///
/// # Tests of the reference step
///
/// `smoke Name: smoke { … }`, behind the layouts, makes tests of one of them that counts as the reference step does
/// (`accounting: reference`), with feature `step`: two steps of every stage, without values at its own scale, and on the CPU
/// with the keys in the braces instead, of the architecture and of the layout. With feature `cuda` a third runs the latter
/// on the first CUDA device, where there is one, and says where there is none. See [`gpu::smoke`].
///
/// # What is generated
///
/// The type, with `ARCHITECTURE` ([`spec::Architecture`]) and for each layout a constant of its name in capitals, a
/// checked [`Plan`]; and an implementation of [`Model`]. Of a layout with `accounting: reference`, and with feature `step`,
/// also a type of both names, which has its dimensions as types ([`gpu::shapes::Shapes`]) and is what
/// `Model::reference_step` takes. Where something is wrong the items exist all the same, as those
/// of the smallest model, so that one wrong number is one error.
///
/// # Errors
///
/// Everything that is wrong is reported at once, each at its token: what cannot be read, unknown and missing keys, and
/// every [law](law::LAWS) that is broken, at the number to blame, with the nearest legal values. A degree that does not
/// divide does not compile:
///
/// ```compile_fail
/// moe_model::moe_model! {
///     pub struct Broken;
///     hidden: 2048, vocab: 102_400,
///     layers: layers { moe: 26 },
///     attention: gqa { heads: 16, kv_heads: 16, head_dim: 128 },
///     experts: experts { routed: 64, active: 6, ffn: 1408 },
///     layout Main: layout {
///         mesh: mesh { dp: 8, ep: 48 },
///         batch: batch { sequence: 4096 },
///         accounting: paper,
///     },
/// }
/// ```
///
/// # Warnings
///
/// What is legal but costs something, such as padding or a stage that waits, is a warning at its number. Macros on stable
/// Rust have one way to warn, the use of something deprecated: `#[allow(deprecated)]` or `#[expect(deprecated)]` stands on
/// the layout that it concerns, or on a module around the declaration. On the invocation `moe_model!` itself the compiler
/// ignores either, and calls it unused. The compiler has no way to warn of what it evaluates: of numbers that are constants
/// or expressions there are no warnings at compile time; [`Plan::warnings`] has them all.
///
/// ```
/// # #![deny(deprecated, unfulfilled_lint_expectations)]
/// moe_model::moe_model! {
///     pub struct Padded;
///     architecture: preset(deepseek_v3),
///     vocab: 129_281,
///     #[expect(deprecated)]
///     layout Main: layout {
///         mesh: mesh { dp: 32, tp: 2, ep: 64, sequence_parallel: on },
///         batch: batch { sequence: 4096, count: 32 },
///         accounting: paper,
///     },
/// }
/// ```
///
/// # Constants and expressions
///
/// ```
/// use moe_model::{Model, Plan, moe_model};
///
/// const NODES: u64 = 4;
///
/// moe_model! {
///     pub struct Small;
///     hidden: 2048, vocab: 102_400,
///     layers: layers { moe: 26 },
///     attention: gqa { heads: 16, kv_heads: 16, head_dim: 128 },
///     experts: experts { routed: 64, active: 6, ffn: 1408 },
///     layout Main: layout {
///         mesh: mesh { dp: NODES * 8, ep: 8 },
///         batch: batch { sequence: 4096 },
///         accounting: paper,
///     },
///     layout Pipelined: layout { mesh: mesh { dp: NODES * 4, pp: 2, ep: 8 }, ..Main },
/// }
///
/// assert_eq!(Small::MAIN.world(), 32);
/// for (name, spec) in Small::LAYOUTS {
///     println!("{name}: {}", Plan::new(*spec)?.peak());
/// }
/// # Ok::<(), moe_model::Violations>(())
/// ```
pub use moe_model_macros::moe_model;

/// A model declared with [`moe_model!`], for code that takes any of them.
pub trait Model {
    /// The name of the type.
    const NAME: &'static str;
    /// The architecture.
    const ARCHITECTURE: spec::Architecture;
    /// Every layout by name, over its architecture. Each is valid if the model compiled.
    const LAYOUTS: &'static [(&'static str, Spec)];

    /// The reference step of one rank of a layout, by the type that the declaration makes of it: that of layout `Main` of
    /// `Small` is `SmallMain`. Weights, gradients and optimizer state are set aside, each allocation asserted.
    ///
    /// # Errors
    /// If memory is refused, or a weight is missing.
    #[cfg(feature = "step")]
    fn reference_step<L: gpu::step::Reference<Model = Self>, D: gpu::Device>(
        stage: u64,
        device: D,
        numerics: gpu::Numerics,
        source: &mut dyn gpu::step::Source,
    ) -> Result<gpu::Step<D, L, L::Weights, L::Moments>, gpu::StepError>
    where
        Self: Sized,
    {
        gpu::Step::new(L::PLAN, stage, device, numerics, source)
    }
}

/// What expansions call. Not for use by hand: it changes without notice.
#[doc(hidden)]
pub mod __private {
    pub use crate::{moe_model_cuda as __cuda, moe_model_smoke as __smoke, moe_model_step as __step};
    pub use moe_model_core::Spec as __Spec;
    pub use moe_model_core::verdict::{LawSet as __LawSet, enforce as __enforce, enforce_budget as __enforce_budget};
    pub use moe_model_macros::editor as __editor;
}

/// What expansions have beside plans, where there is a step.
#[doc(hidden)]
#[macro_export]
#[cfg(feature = "step")]
macro_rules! moe_model_step {
    ($($items:tt)*) => { $($items)* };
}

/// Nothing of it where there is none.
#[doc(hidden)]
#[macro_export]
#[cfg(not(feature = "step"))]
macro_rules! moe_model_step {
    ($($items:tt)*) => {};
}

/// Generated tests, where there is a step to run.
#[doc(hidden)]
#[macro_export]
#[cfg(feature = "step")]
macro_rules! moe_model_smoke {
    ($($items:tt)*) => { $($items)* };
}

/// What tests need.
#[doc(hidden)]
#[macro_export]
#[cfg(not(feature = "step"))]
macro_rules! moe_model_smoke {
    ($($items:tt)*) => {
        compile_error!("`smoke` runs the reference step: turn on feature `step` of the crate `moe-model`");
    };
}

/// What expansions have where the CUDA device is compiled.
#[doc(hidden)]
#[macro_export]
#[cfg(feature = "cuda")]
macro_rules! moe_model_cuda {
    ($($items:tt)*) => { $($items)* };
}

/// Nothing of it where it is not.
#[doc(hidden)]
#[macro_export]
#[cfg(not(feature = "cuda"))]
macro_rules! moe_model_cuda {
    ($($items:tt)*) => {};
}

/// The README's declaration compiles and says what it claims.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
