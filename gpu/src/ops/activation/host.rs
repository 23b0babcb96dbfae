//! The activations on the CPU.
//!
//! A scale per row is the routing weight of a token's copy, taken in before the matrix that follows instead of after it.
//! That is the same where the matrix has no bias; the bias of gpt-oss has to be scaled on its own.

use super::Activation;
use crate::Float;
use crate::ops::exp::exp;
use crate::ops::reduce::dot;
use pulp::{Arch, Simd, WithSimd};

/// out `[rows, width]` = activation(gate, up), each row times its `row_scale` `[rows]` if there is one.
pub fn forward<T: Float>(
    out: &mut [T],
    gate: &[T],
    up: &[T],
    row_scale: Option<&[f32]>,
    width: usize,
    activation: Activation,
) {
    assert!(gate.len() == out.len() && up.len() == out.len(), "an activation: slices of one shape");
    assert_rows(out.len(), row_scale.map(<[f32]>::len), width);
    let rows = out.chunks_exact_mut(width).zip(gate.chunks_exact(width)).zip(up.chunks_exact(width));
    for (row, ((out, gate), up)) in rows.enumerate() {
        let scale = row_scale.map_or(1.0, |scale| scale[row]);
        Arch::new().dispatch(Products { out, gate, up, scale, activation });
    }
}

/// From `d_out` `[rows, width]`: gate and up become their gradients, and `d_row_scale` `[rows]` the gradient of the
/// scales.
pub fn backward<T: Float>(
    gate: &mut [T],
    up: &mut [T],
    d_out: &[T],
    row_scale: Option<&[f32]>,
    mut d_row_scale: Option<&mut [f32]>,
    width: usize,
    activation: Activation,
) {
    assert!(gate.len() == d_out.len() && up.len() == d_out.len(), "an activation: slices of one shape");
    assert_rows(d_out.len(), row_scale.map(<[f32]>::len), width);
    assert_rows(d_out.len(), d_row_scale.as_ref().map(|d| d.len()), width);
    let rows = gate.chunks_exact_mut(width).zip(up.chunks_exact_mut(width)).zip(d_out.chunks_exact(width));
    for (row, ((gate, up), d_out)) in rows.enumerate() {
        if let Some(d_row_scale) = &mut d_row_scale {
            d_row_scale[row] = along_products(gate, up, d_out, activation);
        }
        let scale = row_scale.map_or(1.0, |scale| scale[row]);
        Arch::new().dispatch(Gradients { gate, up, d_out, scale, activation });
    }
}

/// The sum over a row of `d_out` times what was not scaled.
fn along_products<T: Float>(gate: &[T], up: &[T], d_out: &[T], activation: Activation) -> f32 {
    let mut products = [0.0_f32; 256];
    let block = products.len();
    let mut sum = 0.0;
    for ((gate, up), d_out) in gate.chunks(block).zip(up.chunks(block)).zip(d_out.chunks(block)) {
        let products = &mut products[..d_out.len()];
        // A loop that adds too would not be vectorised.
        Arch::new().dispatch(Products { out: products, gate, up, scale: 1.0, activation });
        sum += dot(d_out, products);
    }
    sum
}

/// out = scale * activation(gate, up). No closure: one as long would not be compiled for the instructions it is dispatched to.
struct Products<'a, O, T> {
    out: &'a mut [O],
    gate: &'a [T],
    up: &'a [T],
    scale: f32,
    activation: Activation,
}

impl<O: Float, T: Float> WithSimd for Products<'_, O, T> {
    type Output = ();

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "it must be compiled for the instructions it is dispatched to")]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { out, gate, up, scale, activation } = self;
        for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
            *out = O::of_f32(scale * Point::new(*gate, *up, activation).product());
        }
    }
}

/// gate and up become their gradients.
struct Gradients<'a, T> {
    gate: &'a mut [T],
    up: &'a mut [T],
    d_out: &'a [T],
    scale: f32,
    activation: Activation,
}

impl<T: Float> WithSimd for Gradients<'_, T> {
    type Output = ();

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "it must be compiled for the instructions it is dispatched to")]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { gate, up, d_out, scale, activation } = self;
        for ((gate, up), d_out) in gate.iter_mut().zip(up.iter_mut()).zip(d_out) {
            let (d_gate, d_up) = Point::new(*gate, *up, activation).gradient(scale * d_out.to_f32());
            *gate = T::of_f32(d_gate);
            *up = T::of_f32(d_up);
        }
    }
}

/// One element: a linear factor of up, times gate * sigmoid(alpha * gate).
struct Point {
    linear: f32,
    gate: f32,
    sigmoid: f32,
    alpha: f32,
    /// Whether the value was not cut off, and so passes its gradient.
    gate_passes: bool,
    up_passes: bool,
}

impl Point {
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "it must be compiled for the instructions of the loop it is in")]
    fn new<T: Float>(gate: T, up: T, activation: Activation) -> Self {
        let (gate, up) = (gate.to_f32(), up.to_f32());
        match activation {
            Activation::SwiGlu => {
                Self { linear: up, gate, sigmoid: sigmoid(gate), alpha: 1.0, gate_passes: true, up_passes: true }
            }
            Activation::ClampedSwiGlu { limit, alpha } => {
                let (gate_passes, up_passes) = (gate <= limit, up.abs() <= limit);
                let (gate, up) = (gate.min(limit), up.clamp(-limit, limit));
                Self { linear: up + 1.0, gate, sigmoid: sigmoid(alpha * gate), alpha, gate_passes, up_passes }
            }
        }
    }

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "it must be compiled for the instructions of the loop it is in")]
    fn product(&self) -> f32 {
        self.linear * (self.gate * self.sigmoid)
    }

    /// The gradients of gate and up, from that of the product.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "it must be compiled for the instructions of the loop it is in")]
    fn gradient(&self, d_product: f32) -> (f32, f32) {
        let slope = self.sigmoid * (1.0 + self.alpha * self.gate * (1.0 - self.sigmoid));
        let d_gate = if self.gate_passes { d_product * self.linear * slope } else { 0.0 };
        let d_up = if self.up_passes { d_product * self.gate * self.sigmoid } else { 0.0 };
        (d_gate, d_up)
    }
}

/// 1 / (1 + e^-x)
#[inline(always)]
#[allow(clippy::inline_always, reason = "it must be compiled for the instructions of the loop it is in")]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Panics unless the elements are whole rows, as many as a vector of them has, where there is one.
fn assert_rows(elements: usize, rows: Option<usize>, width: usize) {
    assert!(width > 0 && elements.is_multiple_of(width), "rows of {width} in {elements} elements");
    assert!(rows.is_none_or(|rows| rows * width == elements), "{rows:?} rows of {width} in {elements} elements");
}

#[cfg(test)]
mod tests {
    use super::{Activation, backward, forward};
    use crate::Bf16;
    use crate::ops::testing::{assert_close, assert_gradient, assert_same, random, rounded, weighted, widened};

    const CLAMPED: Activation = Activation::ClampedSwiGlu { limit: 0.5, alpha: 1.702 };

    fn run(gate: &[f32], up: &[f32], scale: Option<&[f32]>, width: usize, activation: Activation) -> Vec<f32> {
        let mut out = vec![f32::NAN; gate.len()];
        forward(&mut out, gate, up, scale, width, activation);
        out
    }

    #[test]
    fn values_by_hand() {
        // sigmoid(1) = 0.7310586
        assert_close("SwiGLU", &run(&[1.0], &[-2.0], None, 1, Activation::SwiGlu), &[-1.462_117_2], 1e-6);
        assert_close("scaled", &run(&[1.0], &[-2.0], Some(&[0.5]), 1, Activation::SwiGlu), &[-0.731_058_6], 1e-6);
        // gate 0.5, up -0.5: 0.5 * 0.5 * sigmoid(0.851) = 0.25 * 0.7007789
        assert_close("clamped", &run(&[3.0], &[-4.0], None, 1, CLAMPED), &[0.175_194_7], 1e-6);
        // A gate is not cut off below: 1.5 * -3 * sigmoid(-5.106) = -4.5 * 0.0060238
        assert_close("below", &run(&[-3.0], &[4.0], None, 1, CLAMPED), &[-0.027_106_97], 1e-6);
    }

    #[test]
    fn gradients() {
        let mut rng = fastrand::Rng::with_seed(9);
        for activation in [Activation::SwiGlu, CLAMPED] {
            for (rows, width) in [(1, 1), (3, 5), (4, 17)] {
                // Away from the limit, where the clamp has no derivative.
                let mut values = || -> Vec<f32> {
                    let x = random(&mut rng, rows * width);
                    x.into_iter().map(|x| if (x.abs() - 0.5).abs() < 0.02 { x * 0.9 } else { x }).collect()
                };
                let (gate, up, d_out) = (values(), values(), values());
                let scale = random(&mut rng, rows);
                for scale in [None, Some(&scale[..])] {
                    let (mut d_gate, mut d_up, mut d_scale) = (gate.clone(), up.clone(), vec![f32::NAN; rows]);
                    backward(&mut d_gate, &mut d_up, &d_out, scale, Some(&mut d_scale), width, activation);
                    let loss = |gate: &[f32], up: &[f32], scale: Option<&[f32]>| {
                        weighted(&run(gate, up, scale, width, activation), &d_out)
                    };
                    assert_gradient("gate", &gate, &d_gate, |gate| loss(gate, &up, scale));
                    assert_gradient("up", &up, &d_up, |up| loss(&gate, up, scale));
                    let at = scale.map_or_else(|| vec![1.0; rows], <[f32]>::to_vec);
                    assert_gradient("scale", &at, &d_scale, |scale| loss(&gate, &up, Some(scale)));
                }
            }
        }
    }

    #[test]
    fn what_is_cut_off_passes_no_gradient() {
        let (mut gate, mut up) = ([0.6, 0.5, -0.6, 0.1], [0.1, 0.5, -0.6, 0.6]);
        backward(&mut gate, &mut up, &[1.0; 4], None, None, 4, CLAMPED);
        assert_eq!(gate.map(|d| d == 0.0), [true, false, false, false]);
        assert_eq!(up.map(|d| d == 0.0), [false, false, true, true]);
    }

    #[test]
    fn bf16_is_f32_rounded_once() {
        let mut rng = fastrand::Rng::with_seed(10);
        let gate: Vec<Bf16> = rounded(&random(&mut rng, 30));
        let up: Vec<Bf16> = rounded(&random(&mut rng, 30));
        let mut out = vec![Bf16::ZERO; 30];
        forward(&mut out, &gate, &up, Some(&[0.3; 3]), 10, CLAMPED);
        let wide = run(&widened(&gate), &widened(&up), Some(&[0.3; 3]), 10, CLAMPED);
        assert_same("out", &widened(&out), &widened::<Bf16>(&rounded(&wide)));
    }
}
