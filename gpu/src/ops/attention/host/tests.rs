//! Tiles against the definition, the definition against differences.

use super::tile::TILE;
use super::{
    backward, backward_eager, backward_scratch_len, eager_scratch_len, forward, forward_eager, forward_scratch_len,
    merge,
};
use crate::ops::attention::Shape;
use crate::ops::testing::{assert_close, assert_gradient, assert_same, random, rounded, weighted, widened};
use crate::{Bf16, Float};
use core::ops::Range;

const PLAIN: Shape =
    Shape { batch: 2, sequence: 5, heads: 2, kv_heads: 1, width: 3, value: 2, ahead: 0, window: 0, scale: 0.7 };

/// Random q, k, v, gradient of o, and sinks.
struct Case<T> {
    shape: Shape,
    q: Vec<T>,
    k: Vec<T>,
    v: Vec<T>,
    do_: Vec<T>,
    sinks: Option<Vec<f32>>,
}

/// What both passes give.
struct Result<T> {
    o: Vec<T>,
    dq: Vec<T>,
    dk: Vec<T>,
    dv: Vec<T>,
    dsinks: Vec<f32>,
}

impl<T: Float> Case<T> {
    fn new(rng: &mut fastrand::Rng, shape: Shape, sinks: bool) -> Self {
        let Shape { heads, kv_heads, width, value, .. } = shape;
        let mut tensor = |row: usize| rounded(&random(rng, shape.tokens() * row));
        let (q, k) = (tensor(heads * width), tensor(kv_heads * width));
        let (v, do_) = (tensor(kv_heads * value), tensor(heads * value));
        Self { shape, q, k, v, do_, sinks: sinks.then(|| random(rng, heads)) }
    }

    fn forward_tiled(&self, threads: usize) -> (Vec<T>, Vec<f32>) {
        let mut o = vec![T::of_f32(f32::NAN); self.do_.len()];
        let mut lse = vec![f32::NAN; self.shape.tokens() * self.shape.heads];
        let mut scratch = vec![f32::NAN; forward_scratch_len(&self.shape, threads)];
        let Self { shape, q, k, v, sinks, .. } = self;
        forward(&mut o, &mut lse, q, k, v, sinks.as_deref(), shape, &mut scratch, threads);
        (o, lse)
    }

    fn tiled(&self, threads: usize) -> Result<T> {
        let (o, lse) = self.forward_tiled(threads);
        self.gradients(&o, &lse, threads)
    }

    /// From the output, and what it keeps.
    fn gradients(&self, o: &[T], lse: &[f32], threads: usize) -> Result<T> {
        let nan = |x: &[T]| vec![T::of_f32(f32::NAN); x.len()];
        let (mut dq, mut dk, mut dv) = (nan(&self.q), nan(&self.k), nan(&self.v));
        let mut dsinks = vec![0.5; self.shape.heads];
        let mut delta = vec![f32::NAN; lse.len()];
        let mut scratch = vec![f32::NAN; backward_scratch_len(&self.shape, threads)];
        backward(
            &mut dq,
            &mut dk,
            &mut dv,
            Some(&mut dsinks),
            &mut delta,
            &self.do_,
            o,
            lse,
            &self.q,
            &self.k,
            &self.v,
            self.sinks.as_deref(),
            &self.shape,
            &mut scratch,
            threads,
        );
        Result { o: o.to_vec(), dq, dk, dv, dsinks }
    }

    fn forward_eager(&self, threads: usize) -> (Vec<T>, Vec<T>) {
        let Self { shape, q, k, v, sinks, .. } = self;
        let nan = T::of_f32(f32::NAN);
        let mut o = vec![nan; self.do_.len()];
        let mut probabilities = vec![nan; shape.tokens() * shape.heads * shape.sequence];
        let mut scratch = vec![f32::NAN; eager_scratch_len(shape, threads)];
        forward_eager(&mut o, &mut probabilities, q, k, v, sinks.as_deref(), shape, &mut scratch, threads);
        (o, probabilities)
    }

    fn eager(&self, threads: usize) -> Result<T> {
        let (o, probabilities) = self.forward_eager(threads);
        let nan = |x: &[T]| vec![T::of_f32(f32::NAN); x.len()];
        let (mut dq, mut dk, mut dv) = (nan(&self.q), nan(&self.k), nan(&self.v));
        let mut dsinks = vec![0.5; self.shape.heads];
        let mut scratch = vec![f32::NAN; eager_scratch_len(&self.shape, threads)];
        backward_eager(
            &mut dq,
            &mut dk,
            &mut dv,
            self.sinks.is_some().then_some(&mut dsinks[..]),
            &mut nan(&probabilities),
            &self.do_,
            &probabilities,
            &self.q,
            &self.k,
            &self.v,
            &self.shape,
            &mut scratch,
            threads,
        );
        Result { o, dq, dk, dv, dsinks }
    }
}

impl Result<f32> {
    /// Takes in the gradients of some queries and keys of a sequence.
    fn add(&mut self, part: &Self, tokens: usize, [queries, keys]: [&Range<usize>; 2]) {
        let parts = [(&mut self.dq, &part.dq, queries), (&mut self.dk, &part.dk, keys), (&mut self.dv, &part.dv, keys)];
        for (all, part, at) in parts {
            let first = at.start * (all.len() / tokens);
            all[first..].iter_mut().zip(part).for_each(|(all, part)| *all += part);
        }
        // Each has begun at half.
        self.dsinks.iter_mut().zip(&part.dsinks).for_each(|(all, part)| *all += part - 0.5);
    }
}

impl<T: Float> Result<T> {
    #[track_caller]
    fn assert_close(&self, other: &Self, tolerance: f32) {
        let tensors = [
            ("o", &self.o, &other.o),
            ("dq", &self.dq, &other.dq),
            ("dk", &self.dk, &other.dk),
            ("dv", &self.dv, &other.dv),
        ];
        for (name, got, expected) in tensors {
            assert_close(name, &widened(got), &widened(expected), tolerance);
        }
        assert_close("dsinks", &self.dsinks, &other.dsinks, 10.0 * tolerance);
    }
}

#[test]
fn probabilities_by_hand() {
    // Two tokens, q = k = 1 and 2, values 1 and 3. Query 1 scores 2 and 4 times 0.5: 1 and 2.
    let shape =
        Shape { batch: 1, sequence: 2, heads: 1, kv_heads: 1, width: 1, value: 1, ahead: 0, window: 0, scale: 0.5 };
    let x = vec![1.0_f32, 2.0];
    let case = Case { shape, q: x.clone(), k: x, v: vec![1.0, 3.0], do_: vec![0.0; 2], sinks: None };
    let second = 1.0 / (1.0 + (-1_f32).exp());
    let (o, probabilities) = case.forward_eager(1);
    assert_close("p", &probabilities, &[1.0, 0.0, 1.0 - second, second], 1e-6);
    assert_close("o", &o, &[1.0, 1.0 + 2.0 * second], 1e-6);
    let (o, lse) = case.forward_tiled(1);
    assert_close("o", &o, &[1.0, 1.0 + 2.0 * second], 1e-6);
    assert_close("lse", &lse, &[0.5, (1_f32.exp() + 2_f32.exp()).ln()], 1e-6);

    // A window of one sees itself, and a sink of 1, unscaled, takes its share.
    let case = Case { shape: Shape { window: 1, ..shape }, sinks: Some(vec![1.0]), ..case };
    let own = 1.0 / (1.0 + (-1_f32).exp());
    let (o, lse) = case.forward_tiled(1);
    assert_close("o", &o, &[1.0 - 1.0 / (1.0 + (-0.5_f32).exp()), 3.0 * own], 1e-6);
    assert_close("lse", &lse, &[(0.5_f32.exp() + 1_f32.exp()).ln(), (1_f32.exp() + 2_f32.exp()).ln()], 1e-6);
}

#[test]
fn eager_gradients() {
    let mut rng = fastrand::Rng::with_seed(22);
    for (sinks, shape) in [
        (false, PLAIN),
        (true, Shape { window: 2, heads: 4, kv_heads: 2, ..PLAIN }),
        (true, Shape { batch: 1, sequence: 7, width: 2, value: 5, ..PLAIN }),
    ] {
        let case = Case::<f32>::new(&mut rng, shape, sinks);
        let Result { dq, dk, dv, dsinks, .. } = case.eager(1);
        let loss = |case: &Case<f32>| weighted(&case.forward_eager(1).0, &case.do_);
        let with = |q: &[f32], k: &[f32], v: &[f32], sinks: Option<&[f32]>| {
            let sinks = sinks.map(<[f32]>::to_vec);
            loss(&Case { shape, q: q.to_vec(), k: k.to_vec(), v: v.to_vec(), do_: case.do_.clone(), sinks })
        };
        let Case { q, k, v, sinks, .. } = &case;
        let sinks = sinks.as_deref();
        assert_gradient("q", q, &dq, |q| with(q, k, v, sinks));
        assert_gradient("k", k, &dk, |k| with(q, k, v, sinks));
        assert_gradient("v", v, &dv, |v| with(q, k, v, sinks));
        if let Some(sinks) = sinks {
            let added: Vec<f32> = dsinks.iter().map(|d| d - 0.5).collect();
            assert_gradient("sinks", sinks, &added, |sinks| with(q, k, v, Some(sinks)));
        }
    }
}

#[test]
fn tiles_are_the_definition() {
    let mut rng = fastrand::Rng::with_seed(23);
    // The number of shapes is odd: each is met with sinks and without.
    let mut sinks = false;
    for sequence in [1, 5, TILE - 1, TILE, TILE + 1, 2 * TILE + 7] {
        for window in [0, 1, 6, TILE + 10] {
            for (heads, kv_heads, width, value) in [(1, 1, 4, 4), (4, 2, 5, 3), (3, 1, 12, 20)] {
                let shape = Shape { batch: 2, sequence, heads, kv_heads, width, value, ahead: 0, window, scale: 0.9 };
                let case = Case::<f32>::new(&mut rng, shape, sinks);
                case.tiled(1).assert_close(&case.eager(1), 1e-5);
                sinks = !sinks;
            }
        }
    }
}

#[test]
fn large_scores_do_not_overflow() {
    let mut rng = fastrand::Rng::with_seed(24);
    let shape = Shape { sequence: TILE + 12, scale: 300.0, ..PLAIN };
    let case = Case::<f32>::new(&mut rng, shape, true);
    let (o, lse) = case.forward_tiled(1);
    assert!(lse.iter().any(|lse| *lse > 100.0), "scores are large");
    assert_close("o", &o, &case.forward_eager(1).0, 1e-3);
}

#[test]
fn threads_change_no_bit() {
    let mut rng = fastrand::Rng::with_seed(25);
    let shape = Shape { sequence: 4 * TILE + 5, heads: 4, kv_heads: 2, ..PLAIN };
    let case = Case::<f32>::new(&mut rng, shape, true);
    for threads in [2, 3] {
        for (one, more) in [(case.tiled(1), case.tiled(threads)), (case.eager(1), case.eager(threads))] {
            assert_same("o", &one.o, &more.o);
            assert_same("dq", &one.dq, &more.dq);
            assert_same("dk", &one.dk, &more.dk);
            assert_same("dv", &one.dv, &more.dv);
            assert_same("dsinks", &one.dsinks, &more.dsinks);
        }
    }
}

#[test]
fn bf16_is_near_f32_of_the_same_values() {
    let mut rng = fastrand::Rng::with_seed(26);
    let shape = Shape { sequence: TILE + 12, ..PLAIN };
    let case = Case::<Bf16>::new(&mut rng, shape, true);
    let Case { q, k, v, do_, sinks, .. } = &case;
    let wide = Case { shape, q: widened(q), k: widened(k), v: widened(v), do_: widened(do_), sinks: sinks.clone() };
    // The forward pass in tiles rounds nothing but its result.
    let rounded_once: Vec<Bf16> = rounded(&wide.forward_tiled(1).0);
    assert_same("o", &widened(&case.forward_tiled(1).0), &widened(&rounded_once));
    let exact = wide.eager(1);
    for result in [case.tiled(1), case.eager(1)] {
        assert_close("dq", &widened(&result.dq), &exact.dq, 0.02);
        assert_close("dk", &widened(&result.dk), &exact.dk, 0.05);
        assert_close("dv", &widened(&result.dv), &exact.dv, 0.05);
    }
}

#[test]
fn nothing_to_do() {
    for shape in [Shape { batch: 0, ..PLAIN }, Shape { sequence: 0, ..PLAIN }] {
        let case = Case::<f32>::new(&mut fastrand::Rng::with_seed(27), shape, true);
        assert_same("dsinks", &case.tiled(1).dsinks, &[0.5; 2]);
        assert_same("dsinks", &case.eager(1).dsinks, &[0.5; 2]);
    }
}

/// Rows of some tokens of one sequence.
fn rows<T: Copy>(x: &[T], tokens: usize, piece: Range<usize>) -> Vec<T> {
    let width = x.len() / tokens;
    x[piece.start * width..piece.end * width].to_vec()
}

/// What queries of each piece make of the keys of each is, put together, what all make of all; and so are gradients.
#[test]
fn pieces_make_the_whole() {
    let mut rng = fastrand::Rng::with_seed(11);
    let piece = 7;
    for (window, sinks) in [0, 3, 9, 17].into_iter().flat_map(|window| [(window, false), (window, true)]) {
        let shape = Shape { batch: 1, sequence: 3 * piece, window, heads: 4, kv_heads: 2, ..PLAIN };
        let case: Case<f32> = Case::new(&mut rng, shape, sinks);
        let (expected, (_, lse)) = (case.tiled(1), case.forward_tiled(1));
        let lse_of =
            |at: &Range<usize>| lse.chunks(shape.sequence).flat_map(|head| head[at.clone()].to_vec()).collect();
        let zeros = |x: &[f32]| vec![0.0; x.len()];
        let [dq, dk, dv, o] = [&case.q, &case.k, &case.v, &case.do_].map(|x| zeros(x));
        let mut got = Result { o, dq, dk, dv, dsinks: vec![0.5; 4] };
        for queries in (0..3).map(|number| number * piece..(number + 1) * piece) {
            let of = |keys: Range<usize>| {
                let cut = |x: &[f32], at: &Range<usize>| rows(x, shape.sequence, at.clone());
                Case {
                    shape: Shape { sequence: piece, ahead: queries.start - keys.start, ..shape },
                    q: cut(&case.q, &queries),
                    k: cut(&case.k, &keys),
                    v: cut(&case.v, &keys),
                    do_: cut(&case.do_, &queries),
                    sinks: case.sinks.clone().filter(|_| keys == queries),
                }
            };
            let (mut all, mut all_lse) = of(queries.clone()).forward_tiled(1);
            for keys in (0..queries.start / piece).map(|number| number * piece..(number + 1) * piece) {
                let (part, part_lse) = of(keys.clone()).forward_tiled(1);
                merge(&mut all, &mut all_lse, &part, &part_lse, &Shape { sequence: piece, ..shape });
            }
            let whole: Vec<f32> = lse_of(&queries);
            assert_close("lse", &all_lse, &whole, 1e-6);
            for keys in (0..=queries.start / piece).map(|number| number * piece..(number + 1) * piece) {
                let part = of(keys.clone()).gradients(&all, &all_lse, 1);
                got.add(&part, shape.sequence, [&queries, &keys]);
            }
            let width = all.len() / piece;
            got.o[queries.start * width..queries.end * width].copy_from_slice(&all);
        }
        if !sinks {
            got.dsinks.clone_from(&expected.dsinks);
        }
        got.assert_close(&expected, 2e-6);
    }
}
