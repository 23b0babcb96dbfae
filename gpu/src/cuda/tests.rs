//! Every operation against the CPU's, where there is a driver; skipped where there is none, which is said.

use super::{Cuda, Library, NoDevice};
use crate::device::{Device, DeviceError, Element, Failure, Format, Host, Memory, Mut, OutOfMemory, Ref};
use crate::ops::activation::Activation;
use crate::ops::adamw::AdamW;
use crate::ops::attention::Shape;
use crate::ops::elementwise::{Columns, Elementwise};
use crate::ops::gemm::Gemm;
use crate::ops::rope::{Pairs, Rope};
use crate::ops::router::{Router, Score};
use crate::shapes::Lengths;
use crate::smoke::skipped;
use crate::{Bf16, Float};
use moe_model_core::Plan;
use moe_model_core::spec::Spec;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One device at a time: its pool is the GPU's.
static ONE: Mutex<()> = Mutex::new(());

/// The device, if there is one.
fn device() -> Option<(Cuda, MutexGuard<'static, ()>)> {
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    match Cuda::open(0, None) {
        Ok(device) => Some((device, guard)),
        Err(error @ (NoDevice::NoDriver | NoDevice::NoLibrary(_) | NoDevice::Absent { .. })) => {
            skipped(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Whether the driver is the stand-in, which has a function that no other has.
fn is_stand_in() -> bool {
    // SAFETY: the library is there, as a device was opened; the function is looked for, and not called.
    #[allow(unsafe_code)]
    unsafe {
        cudarc::driver::sys::culib().get::<unsafe extern "C" fn(i32) -> i32>(b"standin_clear").is_ok()
    }
}

/// Memory of a device, with what it is made of.
struct Space<'d, D: Memory, E: Element> {
    device: &'d D,
    buffer: D::Buffer<E>,
    len: usize,
}

impl<'d, D: Memory, E: Element> Space<'d, D, E> {
    /// In the middle of a buffer, so that offsets count.
    const OFFSET: usize = 8;

    fn new(device: &'d D, values: &[E]) -> Self {
        let len = values.len();
        let buffer = device.allocate(len + 2 * Self::OFFSET).expect("there is room");
        let mut space = Self { device, buffer, len };
        device.write(space.to(), |out| out.copy_from_slice(values));
        space
    }

    fn at(&self) -> Ref<'_, D, E> {
        Ref { buffer: &self.buffer, start: Self::OFFSET, len: self.len }
    }

    fn to(&mut self) -> Mut<'_, D, E> {
        Mut { buffer: &mut self.buffer, start: Self::OFFSET, len: self.len }
    }

    fn values(&self) -> Vec<E> {
        self.device.read(self.at(), <[E]>::to_vec).expect("the device has values")
    }
}

/// What operations made.
#[derive(Default)]
struct Made {
    numbers: Vec<(String, Vec<f32>)>,
    indices: Vec<(String, Vec<i32>)>,
}

impl Made {
    fn numbers<D: Memory, E: Format>(&mut self, name: impl Into<String>, space: &Space<'_, D, E>) {
        self.numbers.push((name.into(), space.values().into_iter().map(Float::to_f32).collect()));
    }

    fn indices<D: Memory>(&mut self, name: impl Into<String>, space: &Space<'_, D, i32>) {
        self.indices.push((name.into(), space.values()));
    }
}

/// What an operation is given, by a seed.
struct Given<'d, D> {
    device: &'d D,
    rng: fastrand::Rng,
}

impl<'d, D: Memory> Given<'d, D> {
    fn random<E: Format>(&mut self, n: usize) -> Space<'d, D, E> {
        self.spread(n, 1.0)
    }

    fn spread<E: Format>(&mut self, n: usize, by: f32) -> Space<'d, D, E> {
        let values: Vec<E> = (0..n).map(|_| E::of_f32(by * (2.0 * self.rng.f32() - 1.0))).collect();
        Space::new(self.device, &values)
    }

    fn empty<E: Element>(&self, n: usize) -> Space<'d, D, E> {
        Space::new(self.device, &vec![E::POISON; n])
    }

    fn indices<E: Element>(&mut self, n: usize, make: impl Fn(&mut fastrand::Rng) -> E) -> Space<'d, D, E> {
        let values: Vec<E> = (0..n).map(|_| make(&mut self.rng)).collect();
        Space::new(self.device, &values)
    }
}

/// Half a step of bf16 is 2^-9 of a number: both sides round once or twice, and what they round differs in the last bits.
/// In f32, sums of a few hundred terms come in another order.
fn tolerance<X: Format>() -> f32 {
    if X::slice_as_f32(&[]).is_some() { 4e-6 } else { 1.0 / 128.0 }
}

trait Case {
    fn run<D: Device, X: Format>(given: &mut Given<'_, D>, made: &mut Made);
}

/// Runs a case on both devices, in both formats.
fn same<C: Case>() {
    let Some((device, _guard)) = device() else { return };
    let host = Host::new(1);
    let lengths = lengths();
    host.prepare(&lengths).expect("there is room");
    device.prepare(&lengths).expect("there is room");
    both::<C, f32>(&host, &device);
    both::<C, Bf16>(&host, &device);
}

/// Long enough for all cases.
fn lengths() -> Lengths {
    let mut spec = Spec::DEFAULT;
    spec.architecture = moe_model_core::preset::MIXTRAL_8X7B;
    Lengths {
        batch: 2,
        tokens: 160,
        context: 160,
        keys: 160,
        heads: 8,
        kv_heads: 4,
        query_key: 64,
        value: 64,
        rope: 64,
        experts: 64,
        local_experts: 4,
        ..Lengths::of(&Plan::new(spec).expect("it is legal"), 0)
    }
}

fn both<C: Case, X: Format>(host: &Host, device: &Cuda) {
    let (mut expected, mut got) = (Made::default(), Made::default());
    C::run::<Host, X>(&mut Given { device: host, rng: fastrand::Rng::with_seed(11) }, &mut expected);
    C::run::<Cuda, X>(&mut Given { device, rng: fastrand::Rng::with_seed(11) }, &mut got);
    let format = <X as Float>::NAME;
    assert_eq!(expected.indices.len(), got.indices.len());
    for ((name, expected), (_, got)) in expected.indices.iter().zip(&got.indices) {
        assert_eq!(expected, got, "{format} {name}");
    }
    assert_eq!(expected.numbers.len(), got.numbers.len());
    for ((name, expected), (_, got)) in expected.numbers.iter().zip(&got.numbers) {
        assert_eq!(expected.len(), got.len(), "{format} {name}");
        // Sums of terms of both signs are as exact as the largest of them.
        let size = expected.iter().fold(0.0_f32, |most, x| if x.is_finite() { most.max(x.abs()) } else { most });
        // Where they cancel out to nothing, as at a query that has one key, of what cancels: numbers up to 1.
        let size = if size < 1e-6 { 1.0 } else { size };
        for (i, (expected, got)) in expected.iter().zip(got).enumerate() {
            let is_same = expected.to_bits() == got.to_bits();
            let is_near = (expected - got).abs() <= tolerance::<X>() * (expected.abs() + 0.25 * size);
            assert!(is_same || is_near, "{format} {name}[{i}]: {got}, the CPU has {expected}");
        }
    }
}

macro_rules! cases {
    ($($name:ident($given:ident, $made:ident: $d:ident, $x:ident) $body:block)*) => {$(
        #[test]
        fn $name() {
            struct It;
            impl Case for It {
                fn run<$d: Device, $x: Format>($given: &mut Given<'_, $d>, $made: &mut Made) $body
            }
            same::<It>();
        }
    )*};
}

const SWI: [Activation; 2] = [Activation::SwiGlu, Activation::ClampedSwiGlu { limit: 0.75, alpha: 1.702 }];

cases! {
    activations(given, made: D, X) {
        let device = given.device;
        for (activation, scaled) in SWI.into_iter().flat_map(|activation| [(activation, false), (activation, true)]) {
            for (rows, width) in [(5, 70), (3, 300)] {
                let (mut gate, mut up) = (given.spread::<X>(rows * width, 2.0), given.spread::<X>(rows * width, 2.0));
                let (mut out, d_out) = (given.empty::<X>(rows * width), given.random::<X>(rows * width));
                let (scale, mut d_scale) = (given.random::<f32>(rows), given.empty::<f32>(rows));
                let at = || scaled.then(|| scale.at());
                device.activate(out.to(), gate.at(), up.at(), at(), width, activation);
                let to = scaled.then(|| d_scale.to());
                device.activate_backward(gate.to(), up.to(), d_out.at(), at(), to, width, activation);
                made.numbers("out", &out);
                made.numbers("gate", &gate);
                made.numbers("up", &up);
                if scaled {
                    made.numbers("scale", &d_scale);
                }
            }
        }
    }

    optimizer(given, made: D, X) {
        let n = 700;
        let adamw = AdamW { lr: 0.1, beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0.1 };
        let (mut master, mut first) = (given.random::<f32>(n), given.random::<X>(n));
        let mut second = given.indices(n, |rng| X::of_f32(rng.f32() + 0.01));
        let (gradient, mut w) = (given.random::<f32>(n), given.empty::<X>(n));
        given.device.adamw(master.to(), first.to(), second.to(), gradient.at(), adamw, 3, 0.5);
        given.device.write_back(w.to(), master.at());
        for (name, space) in [("first", &first), ("second", &second), ("weights", &w)] {
            made.numbers(name, space);
        }
        made.numbers("master", &master);
        given.device.widen(master.to(), w.at());
        made.numbers("widened", &master);
    }

    losses(given, made: D, X) {
        let (rows, width, first) = (9, 77, 10_usize);
        let mut logits = given.spread::<f32>(rows * width, 5.0);
        let labels = given.indices(rows, |rng| rng.i64(-2..100));
        let [mut max, mut sum, mut target] = [0; 3].map(|_| given.empty::<f32>(rows));
        let mut out = given.empty::<X>(rows * width);
        let device = given.device;
        device.mask(logits.to(), width, 70);
        device.row_max(max.to(), logits.at(), width);
        device.row_sum(sum.to(), target.to(), logits.at(), max.at(), labels.at(), first, width);
        let (loss, scored) = device.loss(sum.at(), max.at(), target.at(), labels.at()).expect("it has values");
        made.indices.push(("scored".to_owned(), vec![scored.try_into().unwrap()]));
        #[allow(clippy::cast_possible_truncation)] // compared as the others are
        made.numbers.push(("loss".to_owned(), vec![loss as f32]));
        device.loss_backward(logits.to(), max.at(), sum.at(), labels.at(), first, width, 0.25);
        device.narrow(out.to(), logits.at());
        for (name, space) in [("max", &max), ("sum", &sum), ("target", &target), ("logits", &logits)] {
            made.numbers(name, space);
        }
        made.numbers("narrow", &out);
    }

    elements(given, made: D, X) {
        let device = given.device;
        let (rows, width) = (6, 75);
        let (mut y, x) = (given.random::<X>(rows * width), given.random::<X>(rows * width));
        device.add(y.to(), x.at());
        let mut sums = given.random::<f32>(x.len);
        device.add_up(sums.to(), x.at());
        made.numbers("sums", &sums);
        made.numbers("sum", &y);
        let (gate, mut d_gate) = (given.random::<f32>(rows), given.empty::<f32>(rows));
        device.gate_rows(y.to(), gate.at(), width);
        made.numbers("gated", &y);
        device.gate_rows_backward(y.to(), d_gate.to(), x.at(), gate.at(), width);
        made.numbers("d gated", &y);
        made.numbers("d gate", &d_gate);
        let mut out = given.random::<X>(rows * 20);
        let (to, from) = (Columns { all: 20, first: 3 }, Columns { all: 75, first: 40 });
        device.copy_columns(out.to(), to, x.at(), from, 11);
        made.numbers("columns", &out);
        let mut heads = given.random::<X>(rows * 4 * 20);
        device.share_columns(heads.to(), to, 4, x.at(), from, 17);
        made.numbers("shared", &heads);
        let (to, from) = (Columns { all: 75, first: 40 }, Columns { all: 20, first: 3 });
        device.sum_columns(y.to(), to, 4, heads.at(), from, 17);
        made.numbers("of heads", &y);
    }

    embeddings(given, made: D, X) {
        let (tokens, width, rows, first) = (70, 40, 11, 5);
        let ids = given.indices(tokens, |rng| rng.i64(-1..20));
        let (table, mut x) = (given.random::<X>(rows * width), given.empty::<X>(tokens * width));
        given.device.embed(x.to(), ids.at(), table.at(), width, first, rows);
        made.numbers("x", &x);
        let mut d_table = given.random::<f32>(rows * width);
        given.device.embed_backward(d_table.to(), ids.at(), x.at(), width, first, rows);
        made.numbers("table", &d_table);
    }

    products(given, made: D, X) {
        let device = given.device;
        for (m, n, k) in [(5, 7, 3), (1, 33, 20), (24, 1, 40), (0, 4, 4), (40, 64, 32)] {
            let (x, w) = (given.random::<X>(m * k), given.random::<X>(n * k));
            let (mut y, mut wide) = (given.random::<X>(m * n), given.random::<f32>(m * n));
            for adds in [false, true] {
                device.gemm_forward(y.to(), x.at(), w.at(), [m, n, k], adds);
                made.numbers("y", &y);
                device.gemm_forward(wide.to(), x.at(), w.at(), [m, n, k], adds);
                made.numbers("wide y", &wide);
            }
            let mut dx = given.random::<X>(m * k);
            for adds in [false, true] {
                device.gemm_input(dx.to(), y.at(), w.at(), [m, n, k], adds);
                made.numbers("dx", &dx);
                device.gemm_input(dx.to(), wide.at(), w.at(), [m, n, k], adds);
                made.numbers("dx of wide", &dx);
            }
            let mut dw = given.random::<f32>(n * k);
            device.gemm_weight(dw.to(), y.at(), x.at(), [m, n, k]);
            made.numbers("dw", &dw);
            device.gemm_weight(dw.to(), wide.at(), x.at(), [m, n, k]);
            made.numbers("dw of wide", &dw);
        }
    }

    grouped_products(given, made: D, X) {
        let device = given.device;
        // Experts with more rows and fewer, and none; widths that cuBLAS takes in one call, and those whose rows begin where it
        // does not read them.
        for (counts, [n, k]) in [
            (&[3, 0, 9, 1][..], [24, 16]),
            (&[0, 2, 5], [16, 7]),
            (&[1, 4, 0], [7, 16]),
            (&[0, 0], [8, 8]),
            (&[6], [8, 24]),
            (&[], [8, 8]),
        ] {
            let all: usize = counts.iter().sum();
            // The last group lies first.
            let mut end = 0;
            let run = |rows: &usize| {
                end += rows;
                (end - rows, *rows)
            };
            let mut groups: Vec<(usize, usize)> = counts.iter().rev().map(run).collect();
            groups.reverse();
            let (x, w) = (given.random::<X>(all * k), given.random::<X>(groups.len() * n * k));
            let (mut y, mut wide) = (given.random::<X>(all * n), given.random::<f32>(all * n));
            let mut dx = given.random::<X>(all * k);
            for adds in [false, true] {
                device.grouped_forward(y.to(), x.at(), w.at(), &groups, [n, k], adds);
                made.numbers("y", &y);
                device.grouped_forward(wide.to(), x.at(), w.at(), &groups, [n, k], adds);
                made.numbers("wide y", &wide);
                device.grouped_input(dx.to(), y.at(), w.at(), &groups, [n, k], adds);
                made.numbers("dx", &dx);
                device.grouped_input(dx.to(), wide.at(), w.at(), &groups, [n, k], adds);
                made.numbers("dx of wide", &dx);
            }
            let mut dw = given.random::<f32>(groups.len() * n * k);
            device.grouped_weight(dw.to(), y.at(), x.at(), &groups, [n, k]);
            made.numbers("dw", &dw);
            device.grouped_weight(dw.to(), wide.at(), x.at(), &groups, [n, k]);
            made.numbers("dw of wide", &dw);
        }
    }

    biases(given, made: D, X) {
        let device = given.device;
        for (m, n) in [(5, 70), (45, 3), (0, 6)] {
            let (mut y, bias) = (given.random::<X>(m * n), given.random::<X>(n));
            let mut wide = given.random::<f32>(m * n);
            device.bias_forward(y.to(), bias.at(), [m, n]);
            device.bias_forward(wide.to(), bias.at(), [m, n]);
            made.numbers("y", &y);
            made.numbers("wide y", &wide);
            let (mut db, scale, mut d_scale) = (given.random::<f32>(n), given.random::<f32>(m), given.random::<f32>(m));
            device.bias_backward(db.to(), y.at(), [m, n]);
            made.numbers("db", &db);
            device.scaled_bias_forward(y.to(), bias.at(), scale.at(), n);
            made.numbers("scaled y", &y);
            device.scaled_bias_backward(db.to(), d_scale.to(), y.at(), bias.at(), scale.at(), n);
            made.numbers("scaled db", &db);
            made.numbers("d scale", &d_scale);
        }
    }

    permutations(given, made: D, X) {
        let device = given.device;
        let (tokens, k, width) = (110, 3, 40);
        for experts in [1, 7, 40] {
            let choice = given.indices(tokens * k, |rng| rng.i32(0..experts));
            let x = given.random::<X>(tokens * width);
            let values = given.random::<f32>(tokens * k);
            let experts = usize::try_from(experts).unwrap();
            for slots in [0, 2, 400] {
                let rows = if slots == 0 { tokens * k } else { experts * slots };
                let (mut order, mut inverse) = (given.empty::<i32>(rows), given.empty::<i32>(tokens * k));
                let (mut counts, mut starts) = (given.empty::<i32>(experts), given.empty::<i32>(experts));
                if slots == 0 {
                    device.sort(order.to(), counts.to(), starts.to(), choice.at());
                    made.indices("starts", &starts);
                } else {
                    device.sort_limited(order.to(), counts.to(), choice.at(), slots);
                }
                device.invert(inverse.to(), order.at());
                for (name, space) in [("order", &order), ("counts", &counts), ("inverse", &inverse)] {
                    made.indices(format!("{experts} {slots} {name}"), space);
                }
                if rows > 1000 {
                    continue;
                }
                let (mut gathered, mut y) = (given.empty::<X>(rows * width), given.random::<X>(tokens * width));
                device.gather(gathered.to(), x.at(), order.at(), k, width);
                made.numbers("gathered", &gathered);
                device.combine(y.to(), gathered.at(), inverse.at(), k, width);
                made.numbers("combined", &y);
                let (mut out, mut back) = (given.empty::<f32>(rows), given.empty::<f32>(tokens * k));
                device.gather_scalars(out.to(), values.at(), order.at());
                device.scatter_scalars(back.to(), out.at(), order.at());
                made.numbers("scalars", &out);
                made.numbers("scalars back", &back);
                if slots == 0 {
                    let mut scattered = given.empty::<X>(rows * width);
                    device.scatter(scattered.to(), gathered.at(), order.at(), width);
                    made.numbers("scattered", &scattered);
                }
            }
        }
    }

    norms(given, made: D, X) {
        for (rows, width) in [(5, 70), (40, 8), (2, 600)] {
            let (x, w) = (given.random::<X>(rows * width), given.random::<X>(width));
            let (mut rstd, mut y) = (given.empty::<f32>(rows), given.empty::<X>(rows * width));
            let device = given.device;
            device.norm_statistics(rstd.to(), x.at(), width, 1e-5);
            made.numbers("rstd", &rstd);
            device.norm_forward(y.to(), x.at(), rstd.at(), w.at(), width);
            made.numbers("y", &y);
            let (mut dx, mut dw) = (given.random::<X>(rows * width), given.random::<f32>(width));
            let mut dy = given.random::<X>(rows * width);
            device.norm_backward(dx.to(), dw.to(), dy.at(), x.at(), rstd.at(), w.at(), width);
            made.numbers("dx", &dx);
            device.norm_backward_in_place(dy.to(), dw.to(), x.at(), rstd.at(), w.at(), width);
            made.numbers("dx in place", &dy);
            made.numbers("dw", &dw);
        }
    }

    rotations(given, made: D, X) {
        for pairs in [Pairs::Half, Pairs::Interleaved] {
            for (heads, width, rotary) in [(3, 16, 16), (2, 24, 8), (40, 10, 10)] {
                let rope = Rope { theta: 10_000.0, pairs, start: 0, sequence: 9 };
                let mut x = given.random::<X>(18 * heads * width);
                for back in [false, true, true] {
                    given.device.rotate(x.to(), heads, width, width - rotary, rotary, rope, back);
                    made.numbers("x", &x);
                }
            }
        }
        // At positions far out, every quadrant.
        let rope = Rope { theta: 500_000.0, pairs: Pairs::Half, start: 70_000, sequence: 60_000 };
        let mut x = given.random::<X>(500 * 4);
        given.device.rotate(x.to(), 1, 4, 0, 4, rope, false);
        made.numbers("far", &x);
    }

    routers(given, made: D, X) {
        // Of one format; in both rounds.
        let _ = size_of::<X>();
        let device = given.device;
        let plain = Router {
            score: Score::Softmax, experts: 40, active: 6, groups: 1, active_groups: 1, normalise: false, scale: 1.0,
        };
        let tokens = 37;
        for score in [Score::Softmax, Score::Sigmoid, Score::SoftmaxOfChosen] {
            let grouped = Router { groups: 8, active_groups: 3, scale: 2.5, ..plain };
            let narrow = Router { groups: 40, active_groups: 7, normalise: true, ..plain };
            for router in [plain, Router { normalise: true, ..plain }, grouped, narrow] {
                let router = Router { score, ..router };
                for biased in [false, true] {
                    let bias = given.random::<f32>(router.experts);
                    // Some are equal: the first of them goes first.
                    let few = given.rng.bool();
                    let logits = given.indices(tokens * router.experts, |rng| {
                        if few { f32::from(rng.u8(0..9)) - 4.0 } else { 4.0 * rng.f32() - 2.0 }
                    });
                    let mut scores = given.empty::<f32>(tokens * router.experts);
                    let n = tokens * router.active;
                    let (mut choice, mut weights) = (given.empty::<i32>(n), given.empty::<f32>(n));
                    let at = biased.then(|| bias.at());
                    device.route(scores.to(), choice.to(), weights.to(), logits.at(), at, router);
                    made.indices(format!("choice of {router:?}"), &choice);
                    made.numbers("scores", &scores);
                    made.numbers("weights", &weights);
                    let (mut d_logits, d_weights) = (given.empty::<f32>(logits.len), given.random::<f32>(n));
                    device.route_backward(d_logits.to(), d_weights.at(), scores.at(), choice.at(), router);
                    made.numbers("logits", &d_logits);
                }
            }
        }
    }

    attentions(given, made: D, X) {
        let device = given.device;
        let plain = Shape {
            batch: 2, sequence: 13, heads: 4, kv_heads: 2, width: 12, value: 8, ahead: 0, window: 0, scale: 0.3,
        };
        let long = Shape { batch: 1, sequence: 140, heads: 1, kv_heads: 1, ..plain };
        let further = Shape { ahead: 13, ..plain };
        let shapes = [plain, Shape { window: 5, ..plain }, Shape { kv_heads: 4, sequence: 1, ..plain }, long];
        let shapes = shapes.into_iter().chain([further, Shape { window: 15, ..further }]);
        for (shape, sunk) in shapes.flat_map(|shape| [(shape, false), (shape, true)]) {
            let (tokens, heads, kv_heads) = (shape.tokens(), shape.heads, shape.kv_heads);
            let n = tokens * heads;
            let q = given.spread::<X>(n * shape.width, 2.0);
            let k = given.spread::<X>(tokens * kv_heads * shape.width, 2.0);
            let v = given.random::<X>(tokens * kv_heads * shape.value);
            let d_o = given.random::<X>(n * shape.value);
            let (mut o, sinks) = (given.empty::<X>(n * shape.value), given.random::<X>(heads));
            let (mut lse, mut delta) = (given.empty::<f32>(n), given.empty::<f32>(n));
            let mut d = [q.len, k.len, v.len].map(|len| given.empty::<X>(len));
            let mut d_sinks = given.random::<f32>(heads);
            let at = || sunk.then(|| sinks.at());
            device.attend(o.to(), lse.to(), [q.at(), k.at(), v.at()], at(), shape);
            made.numbers("o", &o);
            made.numbers("lse", &lse);
            let inputs = [q.at(), k.at(), v.at()];
            let to = sunk.then(|| d_sinks.to());
            let of = d.each_mut().map(Space::to);
            device.attend_backward(of, to, delta.to(), d_o.at(), o.at(), lse.at(), inputs, at(), shape);
            for (name, space) in ["dq", "dk", "dv"].into_iter().zip(&d) {
                made.numbers(name, space);
            }
            made.numbers("delta", &delta);
            made.numbers("sinks", &d_sinks);
            let (mut all, part) = (given.random::<f32>(n * shape.value), given.random::<X>(n * shape.value));
            let (mut all_lse, part_lse) = (given.random::<f32>(n), given.random::<f32>(n));
            device.merge(all.to(), all_lse.to(), part.at(), part_lse.at(), shape);
            made.numbers("both", &all);
            made.numbers("lse of both", &all_lse);
            if shape.sequence > 100 || shape.ahead > 0 {
                continue;
            }
            let squares = n * shape.sequence;
            let (mut p, mut d_scores) = (given.empty::<X>(squares), given.empty::<X>(squares));
            device.attend_eager(o.to(), p.to(), inputs, at(), shape);
            made.numbers("eager o", &o);
            made.numbers("probabilities", &p);
            let to = sunk.then(|| d_sinks.to());
            let of = d.each_mut().map(Space::to);
            device.attend_eager_backward(of, to, d_scores.to(), d_o.at(), p.at(), inputs, shape);
            for (name, space) in ["eager dq", "eager dk", "eager dv"].into_iter().zip(&d) {
                made.numbers(name, space);
            }
            made.numbers("scores", &d_scores);
            made.numbers("eager sinks", &d_sinks);
        }
    }
}

/// One product for all experts where cuBLAS has it, and one for each where it has not.
#[test]
fn products_of_experts_are_one_call() {
    let Some((device, _guard)) = device() else { return };
    if !is_stand_in() {
        skipped("a real driver fails no call when it is asked to");
        return;
    }
    assert_eq!(calls_of_groups::<Bf16>(&device), [2, 2, 3], "a copy of pointers and a call, or one for each");
    assert_eq!(calls_of_groups::<f32>(&device), [2, 2, 2]);
}

/// What is asked of the driver for the products of three experts that have rows: forward, and both gradients.
fn calls_of_groups<X: Format>(device: &Cuda) -> [u64; 3] {
    let (groups, size) = ([(0, 2), (2, 0), (2, 5), (7, 1)], [8, 16]);
    device.prepare(&lengths()).expect("there is room");
    let mut given = Given { device, rng: fastrand::Rng::with_seed(3) };
    let (mut x, w, mut y) = (given.random::<X>(8 * 16), given.random::<X>(4 * 8 * 16), given.random::<X>(8 * 8));
    let mut dw = given.random::<f32>(4 * 8 * 16);
    let forward = calls(device, || device.grouped_forward(y.to(), x.at(), w.at(), &groups, size, false));
    let weight = calls(device, || device.grouped_weight(dw.to(), y.at(), x.at(), &groups, size));
    [forward, calls(device, || device.grouped_input(x.to(), y.at(), w.at(), &groups, size, false)), weight]
}

/// How many calls of the driver something makes: the first that may fail without harm, less one.
fn calls(device: &Cuda, mut it: impl FnMut()) -> u64 {
    let mut failing = 1;
    loop {
        fail_work(failing);
        it();
        fail_work(0);
        if device.finish().is_ok() {
            return failing - 1;
        }
        failing += 1;
    }
}

/// Has the stand-in refuse the n-th piece of work from now on, none for 0.
fn fail_work(n: u64) {
    // SAFETY: the stand-in is there, and has the function of that type.
    #[allow(unsafe_code)]
    unsafe {
        let library = cudarc::driver::sys::culib();
        let function = library.get::<unsafe extern "C" fn(u64) -> i32>(b"standin_fail_work").expect("it is there");
        function(n);
    }
}

/// Copies, zeros and buffers of nothing.
#[test]
fn memory() {
    let Some((device, _guard)) = device() else { return };
    let before = device.used().expect("the driver says");
    let mut a = Space::new(&device, &[1_i64, -2, 3, i64::MAX]);
    let mut b = Space::new(&device, &[0_i64; 3]);
    device.copy(b.to(), a.at().part(1, 3));
    assert_eq!(b.values(), [-2, 3, i64::MAX]);
    device.zero(a.to().part(1, 2));
    assert_eq!(a.values(), [1, 0, 0, i64::MAX]);
    let nothing = device.allocate::<f32>(0).expect("nothing fits");
    assert_eq!(device.read(Ref { buffer: &nothing, start: 0, len: 0 }, <[f32]>::len), Some(0));
    assert!(device.used().expect("the driver says") > before);
    drop((a, b, nothing));
    device.synchronize().expect("all is done");
    assert_eq!(device.used().expect("the driver says"), before);
}

/// A budget is the driver's own: what exceeds it is refused, and what fits is not, before and after.
#[test]
fn what_exceeds_a_budget_is_refused() {
    let Some((unbounded, _guard)) = device() else { return };
    drop(unbounded);
    let budget = 64 << 20;
    let device = Cuda::open(0, Some(budget)).expect("there is one");
    let half = device.allocate::<f32>(8 << 20).expect("it fits");
    let error = device.allocate::<f32>(10 << 20).map(|_| ()).expect_err("it does not");
    assert_eq!(error, DeviceError::OutOfMemory(OutOfMemory { bytes: 40 << 20 }));
    drop(half);
    device.synchronize().expect("all is done");
    drop(device.allocate::<f32>(10 << 20).expect("it fits now"));
    assert!(device.high_water().expect("the driver says") <= budget);
    device.synchronize().expect("all is done");
    device.reset_high_water().expect("the driver resets it");
    assert!(device.high_water().expect("the driver says") < 1 << 20);
}

/// A copy that misses is given once, by the next allocation or the end, and until then nothing else is done. The device
/// goes on.
#[test]
fn what_fails_is_given_once() {
    let Some((device, _guard)) = device() else { return };
    if !is_stand_in() {
        skipped("a real driver does not look where copies go");
        return;
    }
    let a = Space::new(&device, &[1.0_f32, 2.0]);
    let mut b = Space::new(&device, &[3.0_f32, 4.0]);
    let beyond = 1 << 30;
    let past = Ref { buffer: &a.buffer, start: beyond, len: 2 };
    let named = |failure: &Failure| {
        assert_eq!(failure.what, "a copy of 8 bytes on it");
        assert!(failure.error.contains("CUDA_ERROR_INVALID_VALUE"), "{failure}");
    };
    device.copy(b.to(), past);
    device.zero(b.to());
    assert_eq!(device.read(b.at(), <[f32]>::len), None);
    match device.allocate::<f32>(1).map(drop) {
        Err(DeviceError::Failed(failure)) => named(&failure),
        other => panic!("{other:?}"),
    }
    assert_eq!(b.values(), [3.0, 4.0]);
    device.copy(b.to(), past);
    named(&device.finish().expect_err("it missed"));
    device.finish().expect("it was given");
    device.copy(b.to(), a.at());
    assert_eq!(b.values(), [1.0, 2.0]);
}

/// What a kernel does wrong stays wrong until the device is opened again: errors, and no panic.
#[test]
fn a_kernel_that_goes_wrong_is_an_error_until_the_device_is_opened_again() {
    let Some((device, _guard)) = device() else { return };
    if !is_stand_in() {
        skipped("it would end the process's other work on a real device");
        return;
    }
    let [mut a, mut b] = [1.0_f32, 2.0].map(|value| Space::new(&device, &[value]));
    for space in [&mut a, &mut b] {
        let len = 1 + 2 * Space::<Cuda, f32>::OFFSET;
        device.zero(Mut { buffer: &mut space.buffer, start: 0, len });
    }
    let len = 1 << 20;
    Elementwise::add::<f32>(
        &device,
        Mut { buffer: &mut b.buffer, start: 0, len },
        Ref { buffer: &a.buffer, start: 0, len },
    );
    for _ in 0..2 {
        let failure = device.finish().expect_err("it went on behind the end");
        assert!(failure.error.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{failure}");
        assert_eq!(device.read(a.at(), <[f32]>::len), None);
        assert!(matches!(device.allocate::<f32>(1), Err(DeviceError::Failed(_))));
    }
    drop((a, b));
    drop(device);
    let device = Cuda::open(0, None).expect("it is there again");
    assert_eq!(Space::new(&device, &[5.0_f32]).values(), [5.0]);
}

/// Runs everywhere: with a driver the absent device is refused by number, without one by the library's name.
#[test]
fn an_absent_device_is_an_error_that_says_what_was_looked_for() {
    match Cuda::open(4096, None) {
        Err(NoDevice::NoDriver) => assert!(NoDevice::NoDriver.to_string().contains("libcuda.so")),
        Err(NoDevice::Absent { ordinal, count }) => assert!(ordinal == 4096 && count < 4096),
        Err(NoDevice::Driver(error)) => assert!(!error.is_empty()),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("no machine has so many devices"),
    }
    let text = NoDevice::NoLibrary(Library::Cublas).to_string();
    assert!(text.contains("libcublas.so"), "{text}");
}
