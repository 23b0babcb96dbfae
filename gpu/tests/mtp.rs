//! Modules for multi-token prediction: gradients against differences of the loss, labels that look further, and budgets of
//! every way to lay them out.

use moe_model_core::spec::{
    Accounting, Attention, Batch, CorrectionBias, Dtype, Experts, Layers, Mesh, Mla, Precision, Recompute, Schedule,
    Spec, Switch,
};
use moe_model_core::{Phase, Plan};
use moe_model_gpu::random::Random;
use moe_model_gpu::shapes::Dynamic;
use moe_model_gpu::smoke::ADAMW;
use moe_model_gpu::step::{self, Place, Source};
use moe_model_gpu::{Host, Meta, Numerics, Step};

fn spec(mtp: u64) -> Spec {
    let mut spec = Spec::DEFAULT;
    let architecture = &mut spec.architecture;
    (architecture.hidden, architecture.vocab, architecture.mtp) = (16, 40, mtp);
    architecture.layers = Layers { dense: 1, moe: 1, ffn: 24, ..Layers::DEFAULT };
    architecture.attention =
        Attention::Mla(Mla { heads: 4, q_rank: 8, kv_rank: 8, nope: 8, rope: 4, value: 8, ..Mla::DEFAULT });
    architecture.experts =
        Experts { routed: 4, active: 2, ffn: 8, shared: 1, correction_bias: CorrectionBias::On, ..Experts::DEFAULT };
    spec.layout.precision = Precision { weights: Dtype::Fp32, activations: Dtype::Fp32, ..Precision::DEFAULT };
    spec.layout.batch = Batch { sequence: 8, micro: 2, count: 2, ..Batch::DEFAULT };
    spec.layout.accounting = Accounting::REFERENCE;
    spec
}

fn plan(spec: Spec) -> Plan {
    Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"))
}

/// Weights by chance, one of which is moved along some direction.
struct Moved {
    random: Random,
    name: &'static str,
    layer: Option<u64>,
    by: f32,
}

/// The same direction in every run: signs.
fn direction(len: usize) -> impl Iterator<Item = f32> {
    let mut random = fastrand::Rng::with_seed(len as u64);
    (0..len).map(move |_| if random.bool() { 1.0 } else { -1.0 })
}

impl Source for Moved {
    fn fill(&mut self, place: &Place, out: &mut [f32]) -> Result<(), String> {
        self.random.fill(place, out)?;
        if place.name == self.name && place.layer == self.layer {
            let len = out.len();
            out.iter_mut().zip(direction(len)).for_each(|(out, sign)| *out += self.by * sign);
        }
        Ok(())
    }
}

/// The loss that gradients are of: the model's, and that of its modules as it counts.
fn loss(plan: &Plan, numerics: Numerics, (name, layer): (&'static str, Option<u64>), by: f32) -> f64 {
    let mut source = Moved { random: Random::of(plan), name, layer, by };
    let step = Step::<Host, Dynamic, f32>::new(*plan, 0, Host::new(1), numerics, &mut source);
    let report = step.expect("the budget has all of it").gradients(&mut Random::of(plan), None);
    let report = report.expect("the budget has all of it");
    let own = report.loss.expect("the rank has the loss");
    own + f64::from(numerics.mtp_weight) * report.mtp_loss.expect("the rank has modules")
}

#[test]
fn gradients_are_differences_of_the_loss() {
    for mtp in [1, 2] {
        let plan = plan(spec(mtp));
        // As much as the model's own loss, so that it decides.
        let numerics = Numerics { mtp_weight: 1.0, ..Numerics::usual(&plan.spec().architecture) };
        let step = Step::<Host, Dynamic, f32>::new(plan, 0, Host::new(1), numerics, &mut Random::of(&plan));
        let mut step = step.expect("the budget has all of it");
        step.gradients(&mut Random::of(&plan), None).expect("the budget has all of it");
        let mut along = Vec::new();
        let see = &mut |place: &Place, gradient: &[f32]| {
            let sum: f32 = gradient.iter().zip(direction(gradient.len())).map(|(g, sign)| g * sign).sum();
            along.push((place.name, place.layer, sum));
        };
        step.each_gradient(see).expect("it has values");
        let of_modules = along.iter().filter(|(_, layer, _)| layer.is_some_and(|layer| layer >= 2)).count();
        assert_eq!(of_modules as u64, 20 * mtp, "each module has a layer, a projection and three norms");
        for (name, layer, gradient) in along {
            let by = 2e-3;
            let [above, below] = [by, -by].map(|by| loss(&plan, numerics, (name, layer), by));
            let difference = (above - below) / f64::from(2.0 * by);
            let off = (difference - f64::from(gradient)).abs();
            assert!(off < 3e-3 + 0.02 * difference.abs(), "{mtp}: {layer:?} {name}: {gradient} and {difference}");
        }
    }
}

/// The loss of a module that looks one token further is that of the labels one token further.
#[test]
fn labels_look_further() {
    struct Few(Random);
    impl step::Batch for Few {
        fn ids(&mut self, micro_batch: u64, out: &mut [i64]) {
            self.0.ids(micro_batch, out);
        }

        fn labels(&mut self, _: u64, out: &mut [i64]) {
            out.fill(-1);
            // The first label alone is nothing to look further from.
            out.iter_mut().step_by(8).for_each(|label| *label = 7);
        }
    }
    let plan = plan(spec(1));
    let numerics = Numerics::usual(&plan.spec().architecture);
    let step = Step::<Host, Dynamic, f32>::new(plan, 0, Host::new(1), numerics, &mut Random::of(&plan));
    let report = step.expect("the budget has it").gradients(&mut Few(Random::of(&plan)), None);
    let report = report.expect("the budget has it");
    assert!(report.loss.is_some_and(|loss| loss > 0.5), "the model predicts it");
    assert_eq!(report.mtp_loss, Some(0.0), "the module has nothing to predict");
}

#[test]
fn every_layout_holds_its_budget() {
    let mut ran = 0;
    for mtp in [1, 2] {
        for (tp, sequence_parallel) in [(1, Switch::Off), (2, Switch::Off), (2, Switch::On), (4, Switch::On)] {
            for (pp, schedule) in [(1, Schedule::OneFOneB), (2, Schedule::OneFOneB), (2, Schedule::Gpipe)] {
                for recompute in [Recompute::None, Recompute::Full] {
                    for tied in [Switch::Off, Switch::On] {
                        let mut spec = spec(mtp);
                        spec.architecture.tied_embeddings = tied;
                        spec.layout.mesh = Mesh { tp, pp, sequence_parallel, ..Mesh::DEFAULT };
                        (spec.layout.schedule, spec.layout.recompute) = (schedule, recompute);
                        both(&plan(spec));
                        ran += 1;
                    }
                }
            }
        }
    }
    assert_eq!(ran, 96);
}

/// Two steps of every stage, with values and without.
fn both(plan: &Plan) {
    let numerics = Numerics::usual(&plan.spec().architecture);
    for stage in 0..plan.stages() {
        let random = || Random::of(plan);
        let meta = Step::<Meta, Dynamic, f32>::new(*plan, stage, Meta, numerics, &mut random());
        let host = Step::<Host, Dynamic, f32>::new(*plan, stage, Host::new(1).poisoned(), numerics, &mut random());
        let (mut meta, mut host) = (meta.expect("the budget has it"), host.expect("the budget has it"));
        for _ in 0..2 {
            meta.train(&mut random(), ADAMW).unwrap_or_else(|error| panic!("{:?}: {error}", plan.spec().layout));
            let report = host.train(&mut random(), ADAMW).unwrap_or_else(|error| panic!("{error}"));
            let has_loss = stage + 1 == plan.stages();
            assert_eq!(report.mtp_loss.is_some_and(f64::is_finite), has_loss, "{report:?}");
        }
        assert_eq!(meta.ledger().allocations(), host.ledger().allocations());
        assert_eq!(host.ledger().peak(Phase::Backward), plan.budget(stage).phase(Phase::Backward));
    }
}
