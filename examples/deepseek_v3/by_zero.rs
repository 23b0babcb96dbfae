//! One thing for each ZeRO stage.

use moe_model::spec::ZeroStage;
use moe_model::{Plan, Violations};
use serde::Serialize;

/// One for each [`ZeroStage`].
#[derive(Serialize)]
pub(crate) struct ByZero<T> {
    pub(crate) none: T,
    pub(crate) optimizer: T,
    pub(crate) gradients: T,
    pub(crate) parameters: T,
}

impl<T> ByZero<T> {
    /// Makes each from the plan under its stage.
    pub(crate) fn of(plan: &Plan, make: impl Fn(&Plan, ZeroStage) -> T) -> Result<Self, Violations> {
        // Over the groups that were declared.
        let make = |stage| Ok(make(&plan.changed(|spec| spec.layout.zero = spec.layout.zero.at(stage))?, stage));
        Ok(Self {
            none: make(ZeroStage::None)?,
            optimizer: make(ZeroStage::Optimizer)?,
            gradients: make(ZeroStage::Gradients)?,
            parameters: make(ZeroStage::Parameters)?,
        })
    }

    pub(crate) fn get(&self, stage: ZeroStage) -> &T {
        match stage {
            ZeroStage::None => &self.none,
            ZeroStage::Optimizer => &self.optimizer,
            ZeroStage::Gradients => &self.gradients,
            ZeroStage::Parameters => &self.parameters,
        }
    }

    /// Each with the word of its stage.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &T)> {
        ZeroStage::ALL.iter().map(|stage| (stage.word(), self.get(*stage)))
    }
}
