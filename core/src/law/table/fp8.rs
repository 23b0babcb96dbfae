//! Laws of computing in fp8.

use super::{HIGH_PRECISION, law};
use crate::device::Device;
use crate::key::Key;
use crate::law::Quantity::{Just, Of, Sum};
use crate::law::Rule::{self, AtMost};
use crate::law::{Law, When};
use crate::spec::{Compute, MegatronVersion};

/// What has linear layers whose copies in fp8 are not counted.
const FP8_LACKS: &[Key] = &[
    Key::AttentionIndexerHeads,
    Key::AttentionOutputGate,
    Key::AttentionKeyAsValue,
    Key::MixerSharedKv,
    Key::ExpertsLatent,
];

pub(super) const LAWS: &[Law] = &[
    law(
        "fp8-engine",
        &[Key::PrecisionCompute],
        Rule::OneOf(Key::PrecisionCompute, &[Compute::Activations as u64]),
        When::Fp8NoEngine,
        "what computes in fp8 is counted as Transformer Engine does it for Megatron-LM",
    ),
    law(
        "fp8-version",
        &[Key::AccountingVersion],
        Rule::OneOf(Key::AccountingVersion, &[MegatronVersion::V016 as u64, MegatronVersion::V020 as u64]),
        When::Fp8,
        "of megatron-core before 0.16 it is not counted what it keeps beside fp8",
    ),
    law(
        "fp8-weights",
        &[Key::PrecisionWeights],
        Rule::OneOf(Key::PrecisionWeights, HIGH_PRECISION),
        When::Fp8,
        "what computes in fp8 quantises weights that are stored in more, and counts its copies of them itself",
    ),
    law(
        "fp8-attention",
        &[Key::PrecisionCompute],
        Rule::OneOf(Key::PrecisionCompute, &[Compute::Activations as u64]),
        When::Fp8Mixers,
        "of linear layers in fp8 those of grouped-query and latent attention are counted",
    ),
    law(
        "fp8-lacks",
        FP8_LACKS,
        AtMost(Sum(FP8_LACKS), Just(0)),
        When::Fp8,
        "what linear layers of these keep in fp8 is not counted yet",
    ),
    law(
        "fp8-device",
        &[Key::Device, Key::PrecisionCompute],
        Rule::OneOf(Key::Device, &[Device::None as u64, Device::H100 as u64, Device::H200 as u64, Device::B200 as u64]),
        When::Fp8,
        "tensor cores multiply fp8 from Hopper on",
    ),
    law(
        "fp8-delayed-modules",
        &[Key::ModulesNorms, Key::ModulesActivation],
        AtMost(Sum(&[Key::ModulesNorms, Key::ModulesActivation]), Just(0)),
        When::Fp8DelayedModules,
        "a scale that follows from values before is another when a norm or an activation is computed again",
    ),
    law(
        "amax-history-unused",
        &[Key::PrecisionAmaxHistory],
        AtMost(Of(Key::PrecisionAmaxHistory), Just(0)),
        When::Fp8History,
        "only delayed scaling remembers the largest values of steps before",
    ),
];
