//! The declared layouts with something changed, checked anew.

use moe_model::spec::{Layout, ZeroStage};
use moe_model::{Plan, Violations};
use serde::Serialize;

/// The plan with another layout.
pub(crate) fn variant(plan: &Plan, change: impl FnOnce(&mut Layout)) -> Result<Plan, Violations> {
    let mut spec = *plan.spec();
    change(&mut spec.layout);
    Plan::new(spec)
}

/// The plan under another [`ZeroStage`], over the groups that were declared.
pub(crate) fn with_zero(plan: &Plan, stage: ZeroStage) -> Result<Plan, Violations> {
    variant(plan, |layout| {
        layout.zero.dense = stage;
        layout.zero.expert = stage;
    })
}

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
        let make = |stage| Ok(make(&with_zero(plan, stage)?, stage));
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
