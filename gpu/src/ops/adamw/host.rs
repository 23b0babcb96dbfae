//! The step on the CPU, one pass over the elements.

use super::AdamW;
use crate::Float;
use pulp::Arch;

/// Step `t`, from 1, of the master weights and both moments `[n]`, with gradient `[n]` * `gradient_scale`.
pub fn step<P: Float, S: Float, G: Float>(
    master: &mut [P],
    m: &mut [S],
    v: &mut [S],
    gradient: &[G],
    adamw: &AdamW,
    t: i32,
    gradient_scale: f32,
) {
    let n = master.len();
    assert!(m.len() == n && v.len() == n && gradient.len() == n, "a step: slices of one length");
    assert!(t > 0, "steps count from 1");
    let AdamW { lr, beta1, beta2, eps, weight_decay } = *adamw;
    let size = lr / correction(beta1, t);
    let root = correction(beta2, t).sqrt();
    let keep = 1.0 - lr * weight_decay;
    Arch::new().dispatch(move || {
        for (((p, m), v), g) in master.iter_mut().zip(m).zip(v).zip(gradient) {
            let g = g.to_f32() * gradient_scale;
            let first = beta1 * m.to_f32() + (1.0 - beta1) * g;
            let second = beta2 * v.to_f32() + (1.0 - beta2) * g * g;
            *m = S::of_f32(first);
            *v = S::of_f32(second);
            *p = P::of_f32(p.to_f32() * keep - size * first / (second.sqrt() / root + eps));
        }
    });
}

/// w `[n]` = the master weights in the format that the passes compute in.
pub fn write_back<W: Float, P: Float>(w: &mut [W], master: &[P]) {
    crate::ops::elementwise::host::convert(w, master);
}

/// 1 - beta^t, in f64: the power of a beta near 1 would lose digits in f32.
#[expect(clippy::cast_possible_truncation, reason = "the nearest f32")]
pub(super) fn correction(beta: f32, t: i32) -> f32 {
    (1.0 - f64::from(beta).powi(t)) as f32
}

#[cfg(test)]
mod tests {
    use super::{AdamW, step, write_back};
    use crate::Bf16;
    use crate::ops::testing::{assert_close, assert_same, random, rounded, widened};

    const ADAMW: AdamW = AdamW { lr: 0.1, beta1: 0.5, beta2: 0.75, eps: 0.125, weight_decay: 0.5 };

    #[test]
    fn two_steps_by_hand() {
        let (mut p, mut m, mut v) = ([2.0_f32], [0.0_f32], [0.0_f32]);
        // g = 1: m = 0.5, v = 0.25; both corrections make 1: p = 2 * 0.95 - 0.1 / (1 + 0.125) = 1.9 - 0.0888889.
        step(&mut p, &mut m, &mut v, &[2.0_f32], &ADAMW, 1, 0.5);
        assert_close("m v p", &[m[0], v[0], p[0]], &[0.5, 0.25, 1.811_111_1], 1e-6);
        // g = -1: m = -0.25, v = 0.4375, corrections 0.75 and 0.4375, so the root is 1 again:
        // p = 1.8111111 * 0.95 + 0.1 / 0.75 * 0.25 / 1.125 = 1.7205556 + 0.0296296.
        step(&mut p, &mut m, &mut v, &[-2.0_f32], &ADAMW, 2, 0.5);
        assert_close("m v p", &[m[0], v[0], p[0]], &[-0.25, 0.4375, 1.750_185_2], 1e-6);
    }

    #[test]
    fn without_a_gradient_weights_decay() {
        let (mut p, mut m, mut v) = ([4.0_f32], [0.0_f32], [0.0_f32]);
        step(&mut p, &mut m, &mut v, &[0.0_f32], &ADAMW, 1, 1.0);
        assert_same("p", &p, &[4.0 * 0.95]);
    }

    #[test]
    fn other_formats_round_what_they_store() {
        let mut rng = fastrand::Rng::with_seed(15);
        let n = 9;
        let p: Vec<Bf16> = rounded(&random(&mut rng, n));
        let m: Vec<Bf16> = rounded(&random(&mut rng, n));
        let v: Vec<Bf16> = m.iter().map(|m| *m * *m).collect();
        let g: Vec<Bf16> = rounded(&random(&mut rng, n));
        let (mut p32, mut m32, mut v32) = (widened(&p), widened(&m), widened(&v));
        step(&mut p32, &mut m32, &mut v32, &g, &ADAMW, 3, 0.25);
        let (mut p, mut m, mut v) = (p, m, v);
        step(&mut p, &mut m, &mut v, &g, &ADAMW, 3, 0.25);
        for (name, got, wide) in [("p", &p, &p32), ("m", &m, &m32), ("v", &v, &v32)] {
            assert_same(name, &widened(got), &widened::<Bf16>(&rounded(wide)));
        }
        let mut w = vec![Bf16::ZERO; n];
        write_back(&mut w, &p32);
        assert_same("w", &widened(&w), &widened(&p));
    }
}
