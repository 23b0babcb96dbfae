//! Experts of a rank: their matrices below one another, each for the rows that are routed to it.

use super::{Ctx, Kept, KeptRouting, RowWorks, Works};
use crate::device::{Device, Element, Format, Memory};
use crate::ops::gemm::{self, Into};
use crate::ops::{activation, permute};
use crate::shapes::{One, Rows, Shapes, Times};
use crate::step::gradients::Gradients;
use crate::step::params::{Maker, Param, Visit, Visitor, visit_fields};
use crate::tensor::{StepError, Tensor};
use moe_model_core::inventory::Module;

/// Matrices of all experts of the rank, below one another.
pub(super) struct Routed<D: Memory, S: Shapes, E: Element> {
    gate: Param<D, Times<S::LocalExperts, S::ExpertFfn>, S::Hidden, E>,
    up: Param<D, Times<S::LocalExperts, S::ExpertFfn>, S::Hidden, E>,
    down: Param<D, Times<S::LocalExperts, S::Hidden>, S::ExpertFfn, E>,
    biases: Option<Biases<D, S, E>>,
}

struct Biases<D: Memory, S: Shapes, E: Element> {
    gate: Param<D, Times<S::LocalExperts, S::ExpertFfn>, One, E>,
    up: Param<D, Times<S::LocalExperts, S::ExpertFfn>, One, E>,
    down: Param<D, Times<S::LocalExperts, S::Hidden>, One, E>,
}

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Routed<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        visit_fields!(self, visitor: gate, up, down, biases)
    }
}

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Biases<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        visit_fields!(self, visitor: gate, up, down)
    }
}

impl<D: Memory, S: Shapes, E: Element> Routed<D, S, E> {
    pub(super) fn new(make: &mut Maker<'_, D>, has_biases: bool) -> Result<Self, StepError> {
        const ROUTED: Module = Module::RoutedExperts;
        Ok(Self {
            gate: make.weight(ROUTED, "mlp.experts.gate_proj.weight")?,
            up: make.weight(ROUTED, "mlp.experts.up_proj.weight")?,
            down: make.weight(ROUTED, "mlp.experts.down_proj.weight")?,
            biases: if has_biases {
                Some(Biases {
                    gate: make.weight(ROUTED, "mlp.experts.gate_proj.bias")?,
                    up: make.weight(ROUTED, "mlp.experts.up_proj.bias")?,
                    down: make.weight(ROUTED, "mlp.experts.down_proj.bias")?,
                })
            } else {
                None
            },
        })
    }
}

/// What they keep.
pub(super) struct KeptRouted<D: Memory, S: Shapes, E: Element> {
    input: Tensor<D, Rows, S::Hidden, E>,
    weights: Tensor<D, Rows, One, f32>,
    gate: Tensor<D, Rows, S::ExpertFfn, E>,
    up: Tensor<D, Rows, S::ExpertFfn, E>,
}

impl<D: Device, S: Shapes, E: Format> Routed<D, S, E> {
    /// Copies of tokens at their experts, gate and up.
    pub(super) fn inner(
        &self,
        of: &Ctx<'_, D>,
        routing: &KeptRouting<D, S>,
        works: &mut Works<D, S, E>,
        row_works: &mut RowWorks<D, S, E>,
    ) -> Result<KeptRouted<D, S, E>, StepError> {
        let (room, device, n, rows) = (of.room, of.room.device, of.room.lengths, routing.rows());
        let mut kept = KeptRouted {
            input: room.take_rows("routed input", rows)?,
            weights: room.take_rows("routed weights", rows)?,
            gate: room.take_rows("routed gate", rows)?,
            up: room.take_rows("routed up", rows)?,
        };
        let (order, weights) = (routing.order.view(), routing.weights.view());
        if let (Some(sent), Some(received), Some(places)) =
            (&mut works.sent, &mut row_works.received, &routing.received)
        {
            permute::gather(device, sent.rows.view_mut(), works.norm.view(), order, n.active);
            permute::gather_scalars(device, sent.weights.view_mut(), weights, order);
            let (rows, weights) =
                received.part.as_mut().map(|part| (part.rows.view_mut(), part.weights.view_mut())).unzip();
            super::there(of, routing, received.rows.view_mut(), rows, sent.rows.view())?;
            super::there(of, routing, received.weights.view_mut(), weights, sent.weights.view())?;
            permute::scatter(device, kept.input.view_mut(), received.rows.view(), places.view());
            permute::scatter_scalars(device, kept.weights.view_mut(), received.weights.view(), places.view());
        } else {
            permute::gather(device, kept.input.view_mut(), works.norm.view(), order.reshaped(n), n.active);
            permute::gather_scalars(device, kept.weights.view_mut(), weights, order.reshaped(n));
        }
        let (x, experts) = (kept.input.view(), &routing.segments[..]);
        gemm::grouped_forward(device, kept.gate.view_mut(), x, self.gate.view(), experts, Into::Set);
        gemm::grouped_forward(device, kept.up.view_mut(), x, self.up.view(), experts, Into::Set);
        if let Some(biases) = &self.biases {
            for (expert, (first, rows)) in experts.iter().copied().enumerate() {
                let (gate, up) = (biases.gate.view().each::<S::ExpertFfn>(expert, n), biases.up.view().each(expert, n));
                gemm::add_bias(device, kept.gate.view_mut().some(first, rows), gate);
                gemm::add_bias(device, kept.up.view_mut().some(first, rows), up);
            }
        }
        Ok(kept)
    }

    /// The activation of all rows, times their weights.
    fn product(of: &Ctx<'_, D>, kept: &KeptRouted<D, S, E>, works: &mut RowWorks<D, S, E>) {
        let (gate, up, scale) = (kept.gate.view(), kept.up.view(), Some(kept.weights.view()));
        let activation = of.numerics.routed_activation;
        activation::forward(of.room.device, works.product.view_mut(), gate, up, scale, activation);
    }

    /// What experts make.
    pub(super) fn finish(&self, of: &Ctx<'_, D>, kept: &Kept<D, S, E>, works: &mut RowWorks<D, S, E>) {
        let (device, n) = (of.room.device, of.room.lengths);
        Self::product(of, &kept.routed, works);
        let experts = &kept.routing.segments[..];
        gemm::grouped_forward(
            device,
            works.rows.view_mut(),
            works.product.view(),
            self.down.view(),
            experts,
            Into::Set,
        );
        // Of ranks that each make a part of the sum, one adds it.
        if let Some(biases) = self.biases.as_ref().filter(|_| of.is_first_part()) {
            for (expert, (first, rows)) in experts.iter().copied().enumerate() {
                let bias = biases.down.view().each::<S::Hidden>(expert, n);
                let scale = kept.routed.weights.view().some(first, rows);
                gemm::add_scaled_bias(device, works.rows.view_mut().some(first, rows), bias, scale);
            }
        }
    }

    /// From the gradients of what experts make to those of what they read, in the same rows.
    pub(super) fn backward(
        &self,
        of: &Ctx<'_, D>,
        gradients: &mut Gradients<D>,
        kept: &mut Kept<D, S, E>,
        works: &mut RowWorks<D, S, E>,
        d_weights: &mut Tensor<D, Rows, One, f32>,
    ) {
        let (device, n, activation) = (of.room.device, of.room.lengths, of.numerics.routed_activation);
        if !of.is_first_part() {
            // The gradient of the bias is that of all parts; what it makes of weights one of them adds.
            device.zero(d_weights.view_mut().raw());
            self.biases_backward(of, gradients, kept, works, d_weights);
        }
        Self::product(of, &kept.routed, works);
        let (experts, dy) = (&kept.routing.segments[..], works.rows.view());
        gemm::grouped_weight(device, gradients.of(&self.down), dy, works.product.view(), experts);
        gemm::grouped_input(device, works.product.view_mut(), dy, self.down.view(), experts, Into::Set);
        activation::backward(
            device,
            kept.routed.gate.view_mut(),
            kept.routed.up.view_mut(),
            works.product.view(),
            Some((kept.routed.weights.view(), d_weights.view_mut())),
            activation,
        );
        if of.is_first_part() {
            self.biases_backward(of, gradients, kept, works, d_weights);
        }
        let (d_gate, d_up) = (kept.routed.gate.view(), kept.routed.up.view());
        if let Some(biases) = &self.biases {
            for (expert, (first, rows)) in experts.iter().copied().enumerate() {
                let (d_gate, d_up) = (d_gate.some(first, rows), d_up.some(first, rows));
                gemm::bias(device, gradients.of(&biases.gate).each::<S::ExpertFfn>(expert, n), d_gate);
                gemm::bias(device, gradients.of(&biases.up).each::<S::ExpertFfn>(expert, n), d_up);
            }
        }
        let x = kept.routed.input.view();
        gemm::grouped_weight(device, gradients.of(&self.gate), d_gate, x, experts);
        gemm::grouped_weight(device, gradients.of(&self.up), d_up, x, experts);
        // What the experts made is needed no more: the gradient of what they read takes its place.
        gemm::grouped_input(device, works.rows.view_mut(), d_gate, self.gate.view(), experts, Into::Set);
        gemm::grouped_input(device, works.rows.view_mut(), d_up, self.up.view(), experts, Into::Add);
    }

    /// The gradients of the biases of the last projections, and what these make of the weights of rows.
    fn biases_backward(
        &self,
        of: &Ctx<'_, D>,
        gradients: &mut Gradients<D>,
        kept: &Kept<D, S, E>,
        works: &RowWorks<D, S, E>,
        d_weights: &mut Tensor<D, Rows, One, f32>,
    ) {
        let (device, n) = (of.room.device, of.room.lengths);
        let Some(biases) = &self.biases else { return };
        for (expert, (first, rows)) in kept.routing.segments.iter().copied().enumerate() {
            let dy = works.rows.view().some(first, rows);
            let scale = kept.routed.weights.view().some(first, rows);
            let bias = biases.down.view().each::<S::Hidden>(expert, n);
            let d_bias = gradients.of(&biases.down).each::<S::Hidden>(expert, n);
            gemm::scaled_bias(device, d_bias, d_weights.view_mut().some(first, rows), dy, bias, scale);
        }
    }
}
