//! On one thread no operation takes memory from the heap: what a step holds is what its tensors are counted to be.

use moe_model_gpu::Bf16;
use moe_model_gpu::ops::activation::{self, Activation};
use moe_model_gpu::ops::adamw::{self, AdamW};
use moe_model_gpu::ops::attention::{Shape, host as attention};
use moe_model_gpu::ops::cross_entropy::host as cross_entropy;
use moe_model_gpu::ops::elementwise::{Columns, host as elementwise};
use moe_model_gpu::ops::embedding::host as embedding;
use moe_model_gpu::ops::gemm::host as gemm;
use moe_model_gpu::ops::permute::host as permute;
use moe_model_gpu::ops::rms_norm::host as rms_norm;
use moe_model_gpu::ops::rope::{Pairs, Rope, host as rope};
use moe_model_gpu::ops::router::{Router, Score, host as router};

/// Panics if `run` takes anything from the heap.
#[track_caller]
fn assert_none(name: &str, run: impl FnOnce()) {
    let heap = allocation_counter::measure(run);
    assert_eq!((heap.count_total, heap.bytes_total), (0, 0), "{name}");
}

/// A tensor of ones.
fn ones(n: usize) -> Vec<Bf16> {
    vec![Bf16::ONE; n]
}

#[test]
fn the_count_sees_a_vector() {
    let heap = allocation_counter::measure(|| drop(ones(100)));
    assert_eq!((heap.count_total, heap.bytes_total), (1, 200));
}

#[test]
fn products() {
    let (m, n, k) = (200, 530, 270);
    let one = gemm::Gemm { threads: 1 };
    one.warm();
    let mut scratch = vec![0.0; one.scratch_len()];
    let (mut x, w, mut y) = (ones(m * k), ones(n * k), ones(m * n));
    let (mut wide, wide_x, wide_w) = (vec![0.0_f32; m * n], vec![1.0_f32; m * k], vec![1.0_f32; n * k]);
    let (mut dw, mut db) = (vec![0.0_f32; n * k], vec![0.0_f32; n]);
    assert_none("products", || {
        one.forward(&mut scratch, &mut y, &x, &w, m, n, k, true);
        one.forward(&mut scratch, &mut wide, &wide_x, &wide_w, m, n, k, false);
        one.weight(&mut scratch, &mut dw, &y, &x, m, n, k);
        one.input(&mut scratch, &mut x, &y, &w, m, n, k, false);
        gemm::bias_forward(&mut y, &w[..n], m, n);
        gemm::bias_backward(&mut db, &y, m, n);
    });
}

#[test]
fn attentions() {
    let shape =
        Shape { batch: 2, sequence: 130, heads: 4, kv_heads: 2, width: 6, value: 5, ahead: 0, window: 100, scale: 0.5 };
    let (q, k, v, do_) =
        (ones(shape.tokens() * 24), ones(shape.tokens() * 12), ones(shape.tokens() * 10), ones(shape.tokens() * 20));
    let (mut dq, mut dk, mut dv, mut o) = (q.clone(), k.clone(), v.clone(), do_.clone());
    let (mut lse, mut delta) = (vec![0.0; shape.tokens() * 4], vec![0.0; shape.tokens() * 4]);
    let (sinks, mut dsinks) = ([1.0_f32; 4], [0.0_f32; 4]);
    gemm::Gemm { threads: 1 }.warm();
    let mut scratch = vec![0.0; attention::forward_scratch_len(&shape, 1)];
    assert_none("forward", || {
        attention::forward(&mut o, &mut lse, &q, &k, &v, Some(&sinks), &shape, &mut scratch, 1);
    });
    let mut scratch = vec![0.0; attention::backward_scratch_len(&shape, 1)];
    assert_none("backward", || {
        let (q, k, v) = (&q, &k, &v);
        let (dq, dk, dv, dsinks) = (&mut dq, &mut dk, &mut dv, Some(&mut dsinks[..]));
        let (sinks, scratch) = (Some(&sinks[..]), &mut scratch);
        attention::backward(dq, dk, dv, dsinks, &mut delta, &do_, &o, &lse, q, k, v, sinks, &shape, scratch, 1);
    });
    let mut scratch = vec![0.0; attention::eager_scratch_len(&shape, 1)];
    let mut probabilities = ones(shape.tokens() * 4 * shape.sequence);
    let mut d_scores = probabilities.clone();
    assert_none("eager", || {
        attention::forward_eager(&mut o, &mut probabilities, &q, &k, &v, Some(&sinks), &shape, &mut scratch, 1);
        let (q, k, v, d) = (&q, &k, &v, &mut d_scores);
        let (dq, dk, dv, dsinks) = (&mut dq, &mut dk, &mut dv, Some(&mut dsinks[..]));
        attention::backward_eager(dq, dk, dv, dsinks, d, &do_, &probabilities, q, k, v, &shape, &mut scratch, 1);
    });
}

#[test]
fn routing() {
    let (tokens, experts, k, width) = (20, 8, 3, 9);
    let (logits, bias) = (vec![0.5; tokens * experts], vec![0.1; experts]);
    let (mut scores, mut d_logits) = (logits.clone(), logits.clone());
    let (mut choice, mut weights) = (vec![0; tokens * k], vec![0.0; tokens * k]);
    let (mut counts, mut starts, mut order, mut inverse) =
        (vec![0; experts], vec![0; experts], vec![0; tokens * k], vec![0; tokens * k]);
    let (mut x, mut rows, mut scalars) = (ones(tokens * width), ones(tokens * k * width), vec![0.0; tokens * k]);
    for score in [Score::Softmax, Score::Sigmoid, Score::SoftmaxOfChosen] {
        let one = Router { score, experts, active: k, groups: 4, active_groups: 2, normalise: true, scale: 2.0 };
        assert_none("routing", || {
            router::forward(&mut scores, &mut choice, &mut weights, &logits, Some(&bias), &one);
            router::backward(&mut d_logits, &weights, &scores, &choice, &one);
            permute::counts(&mut counts, &choice);
            permute::sort(&mut order, &counts, &mut starts, &choice);
            permute::invert(&mut inverse, &order);
            permute::gather(&mut rows, &x, &order, k, width);
            permute::gather_scalars(&mut scalars, &weights, &order);
            permute::scatter_scalars(&mut weights, &scalars, &order);
            permute::combine(&mut x, &rows, &inverse, k, width);
            permute::sort_limited(&mut order[..experts * 5], &choice, experts, 5, &mut counts);
        });
    }
}

#[test]
fn the_rest() {
    let (tokens, width, vocabulary) = (12, 40, 30);
    let (mut x, mut y, mut d, mut w) = (ones(tokens * width), ones(tokens * width), ones(tokens * width), ones(width));
    let (mut rstd, mut dw, mut gate) = (vec![0.0; tokens], vec![0.0_f32; width], vec![0.5; tokens]);
    let (ids, mut table) = (vec![3; tokens], vec![1.0_f32; vocabulary * width]);
    let mut logits = vec![1.0; tokens * vocabulary];
    let (mut max, mut sum, mut target) = (vec![0.0; tokens], vec![0.0; tokens], vec![0.0; tokens]);
    let (mut master, mut m, mut v) = (vec![1.0_f32; width], vec![0.0_f32; width], vec![0.0_f32; width]);
    let mut part = ones(tokens * 4);
    assert_none("the rest", || {
        rms_norm::statistics(&mut rstd, &x, width, 1e-5);
        rms_norm::forward(&mut y, &x, &rstd, &w, width);
        rms_norm::backward(&mut d, &mut dw, &y, &x, &rstd, &w, width);
        rms_norm::backward_in_place(&mut d, &mut dw, &x, &rstd, &w, width);
        let turn = Rope { theta: 1e4, pairs: Pairs::Half, start: 0, sequence: 6 };
        rope::rotate(&mut x, 2, width / 2, 4, 16, &turn, false);
        let clamped = Activation::ClampedSwiGlu { limit: 7.0, alpha: 1.702 };
        activation::host::forward(&mut d, &x, &y, Some(&rstd), width, clamped);
        activation::host::backward(&mut x, &mut y, &d, Some(&rstd), Some(&mut gate), width, clamped);
        embedding::forward(&mut x, &ids, &table, width, 0, vocabulary);
        embedding::backward(&mut table, &ids, &x, width, 0, vocabulary);
        cross_entropy::row_max(&mut max, &logits, vocabulary);
        cross_entropy::row_sum(&mut sum, &mut target, &logits, &max, &ids, 0, vocabulary);
        assert_eq!(cross_entropy::loss(&sum, &max, &target, &ids).1, tokens);
        cross_entropy::backward(&mut logits, &max, &sum, &ids, 0, vocabulary, 0.1);
        cross_entropy::narrow(&mut x[..vocabulary], &logits[..vocabulary]);
        let adam = AdamW { lr: 1e-3, beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0.1 };
        adamw::host::step(&mut master, &mut m, &mut v, &dw, &adam, 1, 1.0);
        adamw::host::write_back(&mut w, &master);
        elementwise::add(&mut x, &y);
        elementwise::fill(&mut y, 0.5);
        elementwise::scale_rows_sigmoid(&mut x, &gate, width);
        elementwise::scale_rows_sigmoid_backward(&mut x, &mut rstd, &y, &gate, width);
        let of = |all, first| Columns { all, first };
        elementwise::copy_columns(&mut part, of(4, 0), &x, of(width, 3), 4);
        elementwise::share_columns(&mut x, of(width / 2, 5), 2, &part, of(4, 0), 4);
        elementwise::sum_columns(&mut part, of(4, 0), 2, &x, of(width / 2, 5), 4);
    });
}
