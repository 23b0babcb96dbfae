//! What a Mixture-of-Experts model and its parallel layout are, whether they can work, and what every rank holds.
//!
//! The path is straight: a [`Spec`] is judged by the [`LAWS`](law::LAWS); a valid one becomes a [`Plan`]; the Plan
//! lists its [`Inventory`]; the [`Budget`] adds that up. All of it is `const fn` over plain data, without `std` and
//! without allocation, so that one body of code serves the macro while it expands, the compiler's const evaluation in
//! the user's crate, and the run time.
#![no_std]

// To read a file, which may hold anything, for lists as long as they are and for text, and for tests.
#[cfg(any(test, feature = "serde", feature = "alloc"))]
extern crate alloc;

mod accounting;
mod aliases;
#[cfg(feature = "alloc")]
mod behind;
pub mod budget;
mod bytes;
pub mod checkpoint;
#[cfg(feature = "config")]
pub mod config;
pub mod cost;
mod counts;
#[cfg(feature = "alloc")]
mod declaration;
pub mod device;
mod digits;
#[cfg(feature = "alloc")]
pub mod events;
#[cfg(feature = "alloc")]
pub mod explain;
pub mod groups;
#[cfg(feature = "alloc")]
pub mod holdings;
pub mod inventory;
mod key;
pub mod law;
#[cfg(feature = "alloc")]
pub mod manifest;
pub mod misread;
mod mixers;
mod nearest;
#[cfg(feature = "alloc")]
pub mod outside;
pub mod parameters;
mod plan;
pub mod preset;
pub mod replicas;
mod saturating;
mod schedule;
mod serving;
pub mod sizes;
#[cfg(feature = "alloc")]
mod slices;
pub mod spec;
mod stages;
mod tally;
mod text;
#[cfg(feature = "alloc")]
pub mod timeline;
mod together;
#[cfg(feature = "alloc")]
pub mod traffic;
pub mod verdict;
mod weights;

pub use budget::{Budget, Peak};
pub use bytes::Bytes;
pub use device::Device;
pub use groups::{Coordinates, Group, Ranks};
pub use inventory::{Entry, Inventory, Phase, Role};
pub use key::{Key, KeySet, Numbers};
pub use parameters::Parameters;
pub use plan::Plan;
pub use spec::Spec;
pub use stages::{Chunk, Stage};
pub use text::Text;
pub use verdict::{Violation, Violations, judge};
