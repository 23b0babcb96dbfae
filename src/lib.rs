//! facade
pub use moe_model_core::{device, inventory, law, parameters, sizes, spec, verdict, device::*};
pub use moe_model_core::{Budget, Bytes, Device, Entry, Inventory, Key, KeySet, Parameters, Peak, Phase, Plan, Role, Spec, Stage, Text, Violation, Violations, judge};
/// Declares a model.
pub use moe_model_macros::moe_model;
/// A declared model.
pub trait Model {
    /// The name.
    const NAME: &'static str;
    /// The architecture.
    const ARCHITECTURE: spec::Architecture;
    /// The layouts.
    const LAYOUTS: &'static [(&'static str, Plan)];
}
#[doc(hidden)]
pub mod __private { pub use moe_model_core::verdict::{enforce, enforce_range}; }
