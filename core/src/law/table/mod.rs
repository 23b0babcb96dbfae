//! Every law as data: its name, whom it may blame, what must hold, where, and why; by subjects, in the order in which they are
//! judged and said.

mod accountings;
mod advice;
mod context;
mod fp8;
mod mesh;
mod model;
mod recompute;
mod replicas;
mod routing;
mod serving;
mod stages;
mod targets;

pub use advice::ADVICE;

use super::Quantity::{self, Product, Sum};
use super::Rule;
use super::{Law, When};
use crate::key::Key;
use crate::spec::Dtype;

const fn law(id: &'static str, at: &'static [Key], rule: Rule, when: When, why: &'static str) -> Law {
    Law { id, at, rule, when, why }
}

const STAGE_RANKS: Quantity = Product(super::quantity::STAGE_RANKS);
const LAYERS: Quantity = Sum(&[Key::LayersDense, Key::LayersMoe]);
/// Formats of weights that are not quantised.
const HIGH_PRECISION: &[u64] = &[Dtype::Fp32 as u64, Dtype::Bf16 as u64, Dtype::Fp16 as u64];

/// Those that judge budgets come last, and only where all others hold.
const BUDGETS: &[Law] = &[
    law(
        "fits-64-bits",
        &[Key::BatchSequence, Key::BatchMicro, Key::BatchCount, Key::ServingContext, Key::ServingRequests],
        Rule::Fits64Bits,
        When::Always,
        "amounts of memory are counted in 64 bits of bytes",
    ),
    law(
        "fits-device",
        &[Key::Device],
        Rule::FitsDevice,
        When::Given(Key::Device),
        "the worst rank with its headroom must fit on the device",
    ),
];

/// By subjects.
const PARTS: &[&[Law]] = &[
    model::LAWS,
    mesh::LAWS,
    stages::LAWS,
    context::LAWS,
    replicas::LAWS,
    routing::LAWS,
    targets::LAWS,
    recompute::LAWS,
    accountings::LAWS,
    fp8::LAWS,
    serving::LAWS,
    BUDGETS,
];

const fn count(parts: &[&[Law]]) -> usize {
    let (mut all, mut part) = (0, 0);
    while part < parts.len() {
        all += parts[part].len();
        part += 1;
    }
    all
}

/// The laws of all parts behind one another.
const fn joined<const N: usize>(parts: &[&[Law]]) -> [Law; N] {
    let (mut all, mut at, mut part) = ([parts[0][0]; N], 0, 0);
    while part < parts.len() {
        let mut law = 0;
        while law < parts[part].len() {
            all[at] = parts[part][law];
            (at, law) = (at + 1, law + 1);
        }
        part += 1;
    }
    all
}

/// The laws. Each is judged only where its numbers are in range, which [`range`](super::range) says first.
pub const LAWS: &[Law] = &joined::<{ count(PARTS) }>(PARTS);

/// How many laws, from the end of the table, judge budgets and need all others to hold.
pub const BUDGET_LAWS: usize = BUDGETS.len();
