//! facade
pub use moe_model_core::{
    Budget, Bytes, Device, Entry, Inventory, Key, KeySet, Parameters, Peak, Phase, Plan, Role, Spec, Stage, Text,
    Violation, Violations, judge,
};
pub use moe_model_core::{device, device::*, inventory, law, parameters, sizes, spec, verdict};
/// Declares a model.
pub use moe_model_macros::moe_model;
/// A declared model.
pub trait Model {
    /// The name.
    const NAME: &'static str;
    /// The architecture.
    const ARCHITECTURE: spec::Architecture;
    /// The layouts.
    const LAYOUTS: &'static [(&'static str, Spec)];
}
#[doc(hidden)]
pub mod __private {
    pub use moe_model_core::verdict::{LawSet, enforce, enforce_budget};
    pub use moe_model_core::{Key, Spec};
}
