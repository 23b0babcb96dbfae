//! The report: what is kept, what fills a rank, what fits, as text or as JSON.

use crate::behind::Behind;
use crate::input::{Input, said};
use moe_model::spec::{MlaCache, Service, Serving};
use moe_model::{Device, Entry, Phase, Plan, Role, judge};
use serde::Serialize;

/// Changes with any key of the JSON.
const FORMAT: &str = "moe-model/serving/2";

/// What a model takes to be served.
#[derive(Serialize)]
pub(crate) struct Report {
    format: &'static str,
    pub(crate) behind: Behind,
    /// The file, or the preset.
    pub(crate) source: String,
    pub(crate) ranks: u64,
    pub(crate) requests: u64,
    pub(crate) context: u64,
    pub(crate) block: u64,
    /// Of each stage, on one of its ranks.
    pub(crate) stages: Vec<OfStage>,
    /// The stage, and the phase, in which a rank holds most.
    pub(crate) worst_stage: u64,
    pub(crate) worst_phase: &'static str,
    pub(crate) peak_bytes: u64,
    /// With the headroom on top.
    pub(crate) needed_bytes: u64,
    pub(crate) device: Option<&'static str>,
    pub(crate) device_bytes: Option<u64>,
    /// Null without a device.
    pub(crate) fits: Option<bool>,
    /// On the device, latent attention cached in both ways.
    pub(crate) contexts: Vec<Longest>,
    /// The most requests of the context.
    pub(crate) most_requests: Option<u64>,
    pub(crate) warnings: Vec<String>,
}

/// What a rank of a stage keeps and works on.
#[derive(Serialize)]
pub(crate) struct OfStage {
    pub(crate) stage: u64,
    pub(crate) weight_bytes: u64,
    pub(crate) kv_cache_bytes: u64,
    /// Of what grows with every token.
    pub(crate) kv_cache_bytes_per_token: u64,
    /// Of what does not depend on the context.
    pub(crate) state_bytes_per_sequence: u64,
    /// One sequence of the context.
    pub(crate) kv_cache_bytes_of_sequence: u64,
    pub(crate) prefill_bytes: u64,
    pub(crate) decode_bytes: u64,
    pub(crate) caches: Vec<Cache>,
}

/// A tensor of the cache, over all requests.
#[derive(Serialize)]
pub(crate) struct Cache {
    pub(crate) name: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) format: &'static str,
    /// Layers that have one.
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    source: &'static str,
}

/// The longest context of so many requests; null where not one block fits.
#[derive(Serialize)]
pub(crate) struct Longest {
    pub(crate) requests: u64,
    pub(crate) context: Option<u64>,
    /// Of multi-head latent attention that is cached in the other way: latent, or expanded.
    pub(crate) otherwise: Option<u64>,
}

impl Report {
    /// Of a Spec; or all laws that it breaks.
    pub(crate) fn of(input: &Input) -> Result<Self, String> {
        // Whether it fits is what the report says.
        let (device, mut spec) = (input.spec.layout.device, input.spec);
        spec.layout.device = Device::None;
        let plan = Plan::new(spec).map_err(|violations| {
            violations.iter().map(|violation| said(&input.source, violation.text(&spec).as_str())).collect::<String>()
        })?;
        let serving = *plan.spec().layout.served().expect("the input serves");
        let (peak, is_named) = (plan.peak(), device != Device::None);
        let warnings = plan.warnings();
        Ok(Self {
            format: FORMAT,
            behind: Behind::of(&input.source, &input.spec),
            source: input.source.clone(),
            ranks: plan.world(),
            requests: serving.requests,
            context: serving.context,
            block: serving.block,
            stages: (0..plan.stages()).map(|stage| OfStage::of(&plan, stage, serving.context)).collect(),
            worst_stage: peak.stage,
            worst_phase: peak.phase.name(),
            peak_bytes: peak.bytes(),
            needed_bytes: plan.peak_with_headroom().bytes(),
            device: is_named.then(|| device.word()),
            device_bytes: is_named.then(|| device.usable().bytes()),
            fits: is_named.then(|| plan.fits(device)),
            contexts: if is_named { contexts(&plan, &serving, device) } else { Vec::new() },
            most_requests: if is_named { plan.most_requests(serving.context, device) } else { None },
            warnings: warnings.iter().map(|warning| warning.text(plan.spec()).to_string()).collect(),
        })
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("its keys are strings") + "\n"
    }
}

impl OfStage {
    fn of(plan: &Plan, stage: u64, context: u64) -> Self {
        let (budget, inventory) = (plan.budget(stage), plan.inventory(stage));
        Self {
            stage,
            weight_bytes: budget.weights().bytes(),
            kv_cache_bytes: budget.kv_cache().bytes(),
            kv_cache_bytes_per_token: plan.kv_cache_per_token(stage).bytes(),
            state_bytes_per_sequence: plan.state_per_sequence(stage).bytes(),
            kv_cache_bytes_of_sequence: plan.kv_cache_of_sequence(stage, context).bytes(),
            prefill_bytes: budget.role_in(Role::Transient, Phase::Prefill).bytes(),
            decode_bytes: budget.role_in(Role::Transient, Phase::Decode).bytes(),
            caches: inventory.iter().filter(|entry| entry.role == Role::KvCache).map(Cache::of).collect(),
        }
    }
}

impl Cache {
    fn of(entry: &Entry) -> Self {
        let part = if entry.part.is_empty() { String::new() } else { format!(" ({})", entry.part) };
        Self {
            name: format!("{}{part}", entry.name),
            shape: entry.shape.iter().map(|dim| dim.local).filter(|length| *length != 1).collect(),
            format: entry.element.name,
            count: entry.count,
            bytes: entry.bytes().bytes(),
            source: entry.source,
        }
    }
}

/// Of one request, twice as many and so on, and of as many as are asked for.
fn contexts(plan: &Plan, serving: &Serving, device: Device) -> Vec<Longest> {
    let others = MlaCache::ALL.iter().find(|mla| **mla != serving.mla);
    let other = others.and_then(|mla| {
        let mut spec = *plan.spec();
        spec.layout.serving = Service::Serving(Serving { mla: *mla, ..*serving });
        // Expanded keys and values are of latent attention alone.
        judge(&spec).is_empty().then(|| Plan::new(spec).ok()).flatten()
    });
    let doubled = std::iter::successors(Some(1_u64), |requests| requests.checked_mul(2));
    let requests = doubled.take_while(|requests| *requests < serving.requests).chain([serving.requests]);
    let longest = |requests| Longest {
        requests,
        context: plan.longest_context(requests, device),
        otherwise: other.as_ref().and_then(|plan| plan.longest_context(requests, device)),
    };
    requests.map(longest).collect()
}
