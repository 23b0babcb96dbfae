//! Blocks with experts: a norm, a router, copies of tokens to the experts and back, and shared experts.

mod routed;
mod routing;
mod shared;

use super::context::{Context as Ctx, Norm, Passing};
use super::gradients::Gradients;
use super::params::{Buffer, Maker, Param, Visit, Visitor, visit_fields};
use super::probe::Probing;
use crate::device::{Device, Element, Format, Memory};
use crate::ops::gemm::{self, Into};
use crate::ops::{elementwise, permute, router};
use crate::shapes::{Context, One, OwnRows, Rows, Shapes, Sorted, Tokens};
use crate::tensor::{StepError, Tensor};
use crate::{View, ViewMut};
use moe_model_core::inventory::{Block, Module};
use moe_model_core::spec::{Architecture, CorrectionBias};
use routed::{KeptRouted, Routed};
use routing::KeptRouting;
use shared::{KeptShared, Shared, SharedWorks};

/// The block in the ledger.
pub(super) const BLOCK: Block = Block::Moe;

/// The weights of a block with experts.
pub(super) struct Moe<D: Memory, S: Shapes, E: Element> {
    norm: Param<D, S::Hidden, One, E>,
    router: Param<D, S::Experts, S::Hidden, E>,
    router_bias: Option<Param<D, S::Experts, One, E>>,
    correction_bias: Option<Buffer<D, S::Experts, One, f32>>,
    routed: Routed<D, S, E>,
    shared: Option<Shared<D, S, E>>,
}

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Moe<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        visit_fields!(self, visitor: norm, router, router_bias, correction_bias, routed, shared)
    }
}

impl<D: Memory, S: Shapes, E: Element> Moe<D, S, E> {
    pub(super) fn new(make: &mut Maker<'_, D>, architecture: &Architecture) -> Result<Self, StepError> {
        make.block(0);
        let experts = &architecture.experts;
        let corrects = matches!(experts.correction_bias, CorrectionBias::On);
        Ok(Self {
            norm: make.weight(Module::Norm, "post_attention_layernorm.weight")?,
            router: make.weight(Module::Router, "mlp.gate.weight")?,
            router_bias: make.weight_if(experts.router_bias.is_on(), Module::Router, "mlp.gate.bias")?,
            correction_bias: if corrects { Some(make.buffer("mlp.gate.e_score_correction_bias")?) } else { None },
            routed: Routed::new(make, experts.bias.is_on())?,
            shared: if experts.shared > 0 { Some(Shared::new(make, experts.shared_gate.is_on())?) } else { None },
        })
    }
}

/// What the block keeps beside its input.
pub(super) struct Kept<D: Memory, S: Shapes, E: Element> {
    statistics: Tensor<D, Tokens, One, f32>,
    routing: KeptRouting<D, S>,
    routed: KeptRouted<D, S, E>,
    shared: Option<KeptShared<D, S, E>>,
}

/// What it works on in both directions.
struct Works<D: Memory, S: Shapes, E: Element> {
    norm: Tensor<D, Tokens, S::Hidden, E>,
    logits: Tensor<D, Tokens, S::Experts, f32>,
    sent: Option<Sent<D, S, E>>,
    shared: Option<SharedWorks<D, S, E>>,
}

/// Copies of this rank's tokens, on their way to the ranks of their experts and back.
struct Sent<D: Memory, S: Shapes, E: Element> {
    rows: Tensor<D, Sorted, S::Hidden, E>,
    weights: Tensor<D, Sorted, One, f32>,
}

/// What it works on of the copies that its experts get, however many routing makes them.
struct RowWorks<D: Memory, S: Shapes, E: Element> {
    product: Tensor<D, Rows, S::ExpertFfn, E>,
    /// What experts make; in backward the gradients of that, and then of what they read.
    rows: Tensor<D, Rows, S::Hidden, E>,
    received: Option<Received<D, S, E>>,
}

/// The same in the order in which they come.
struct Received<D: Memory, S: Shapes, E: Element> {
    rows: Tensor<D, Rows, S::Hidden, E>,
    weights: Tensor<D, Rows, One, f32>,
    part: Option<Part<D, S, E>>,
}

/// What of them comes to the rank itself, where those that split the same experts put theirs together.
struct Part<D: Memory, S: Shapes, E: Element> {
    rows: Tensor<D, OwnRows, S::Hidden, E>,
    weights: Tensor<D, OwnRows, One, f32>,
}

impl<D: Device, S: Shapes, E: Format> RowWorks<D, S, E> {
    fn new(of: &Ctx<'_, D>, routing: &KeptRouting<D, S>) -> Result<Self, StepError> {
        let (room, rows, own) = (of.room, routing.rows(), routing.own_rows(of));
        let part = if of.is_split() {
            let copies = room.take_rows("own part of received copies", own)?;
            Some(Part { rows: copies, weights: room.take_rows("own part of received weights", own)? })
        } else {
            None
        };
        let received = if of.is_dealt() {
            let copies = room.take_rows("received copies", rows)?;
            Some(Received { rows: copies, weights: room.take_rows("received weights", rows)?, part })
        } else {
            None
        };
        Ok(Self {
            received,
            product: room.take_rows("routed product", rows)?,
            rows: room.take_rows("routed output", rows)?,
        })
    }
}

impl<D: Device, S: Shapes, E: Format> Works<D, S, E> {
    fn new(of: &Ctx<'_, D>, has_shared: bool) -> Result<Self, StepError> {
        let room = of.room;
        Ok(Self {
            norm: room.take("expert norm output")?,
            logits: room.take("router logits")?,
            sent: if of.is_dealt() {
                Some(Sent { rows: room.take("sent copies")?, weights: room.take("sent weights")? })
            } else {
                None
            },
            shared: if has_shared {
                Some(SharedWorks {
                    product: room.take("shared product")?,
                    input: if of.gathers() { Some(room.take("shared input")?) } else { None },
                })
            } else {
                None
            },
        })
    }

    /// What shared experts read.
    fn shared_input(&self, of: &Ctx<'_, D>) -> View<'_, D, Context, S::Hidden, E> {
        match self.shared.as_ref().and_then(|shared| shared.input.as_ref()) {
            Some(input) => input.view(),
            None => self.norm.view().reshaped(of.room.lengths),
        }
    }

    /// The norm's output, gathered for shared experts.
    fn fill(
        &mut self,
        of: &Ctx<'_, D>,
        norm: &Norm<'_, D, S::Hidden, E>,
        x: View<'_, D, Tokens, S::Hidden, E>,
        statistics: View<'_, D, Tokens, One, f32>,
    ) -> Result<(), StepError> {
        norm.forward(of, self.norm.view_mut(), x, statistics);
        if let Some(input) = self.shared.as_mut().and_then(|shared| shared.input.as_mut()) {
            of.comm.gather(of.room.device, input.view_mut(), self.norm.view(), of.room.lengths)?;
        }
        Ok(())
    }
}

/// What is kept, what is worked on of rows, and how many copies each expert gets, to be held to the end.
type Inner<D, S, E> = (Kept<D, S, E>, RowWorks<D, S, E>, [Tensor<D, <S as Shapes>::Experts, One, i32>; 2]);

impl<D: Device, S: Shapes, E: Format> Moe<D, S, E> {
    /// Runs the block; gives what it keeps, and its output.
    pub(super) fn forward(
        &self,
        of: &Ctx<'_, D>,
        x: View<'_, D, Tokens, S::Hidden, E>,
        layer: u64,
        probe: &mut Probing<'_, '_, D>,
    ) -> Result<(Kept<D, S, E>, Tensor<D, Tokens, S::Hidden, E>), StepError> {
        let (room, device) = (of.room, of.room.device);
        let mut works = Works::new(of, self.shared.is_some())?;
        let (kept, mut rows, _counts) = self.inner(of, x, &mut works)?;
        probe.values("router_logits", layer, works.logits.view());
        probe.indices("topk_index", layer, kept.routing.choice.view());
        probe.values("topk_weight", layer, kept.routing.weights.view());
        self.routed.finish(of, &kept, &mut rows);
        let mut output: Tensor<D, Tokens, S::Hidden, E> = room.take("expert block output")?;
        device.copy(output.view_mut().raw(), x.raw());
        collect(of, &kept.routing, &mut works, &mut rows, &mut output)?;
        let mut held = None;
        if let (Some(shared), Some(kept)) = (&self.shared, &kept.shared) {
            held = Some(shared.finish(of, kept, &mut works, &mut output)?);
        }
        drop(held);
        Ok((kept, output))
    }

    /// Everything in front of the experts' last projections.
    fn inner(
        &self,
        of: &Ctx<'_, D>,
        x: View<'_, D, Tokens, S::Hidden, E>,
        works: &mut Works<D, S, E>,
    ) -> Result<Inner<D, S, E>, StepError> {
        let mut statistics: Tensor<D, Tokens, One, f32> = of.room.take("expert norm statistics")?;
        let norm = of.norm(&self.norm);
        norm.statistics(of, statistics.view_mut(), x);
        works.fill(of, &norm, x, statistics.view())?;
        let (mut routing, counts, places) = self.route(of, works)?;
        let mut rows = RowWorks::new(of, &routing)?;
        routing.put(of, places)?;
        let routed = self.routed.inner(of, &routing, works, &mut rows)?;
        let shared = self.shared.as_ref().map(|shared| shared.inner(of, works)).transpose()?;
        Ok((Kept { statistics, routing, routed, shared }, rows, counts))
    }

    /// Which experts each token goes to, and copies of tokens by expert.
    fn route(
        &self,
        of: &Ctx<'_, D>,
        works: &mut Works<D, S, E>,
    ) -> Result<(KeptRouting<D, S>, [Tensor<D, S::Experts, One, i32>; 2], Vec<usize>), StepError> {
        let (room, device) = (of.room, of.room.device);
        let mut kept = KeptRouting {
            scores: room.take("router scores")?,
            weights: room.take("routing weights")?,
            choice: room.take("chosen experts")?,
            order: room.take("copies by expert")?,
            places: room.take("places of copies")?,
            received: None,
            segments: Vec::new(),
            sends: Vec::new(),
            receives: Vec::new(),
            parts: Vec::new(),
        };
        let mut counts: Tensor<D, S::Experts, One, i32> = room.take("copies of each expert")?;
        let mut starts: Tensor<D, S::Experts, One, i32> = room.take("first copy of each expert")?;
        gemm::forward(device, works.logits.view_mut(), works.norm.view(), self.router.view(), Into::Set);
        if let Some(bias) = &self.router_bias {
            gemm::add_bias(device, works.logits.view_mut(), bias.view());
        }
        router::forward(
            device,
            kept.scores.view_mut(),
            kept.choice.view_mut(),
            kept.weights.view_mut(),
            works.logits.view(),
            self.correction_bias.as_ref().map(Buffer::view),
            of.router(),
        );
        let (order, choice) = (kept.order.view_mut().raw(), kept.choice.view().raw());
        match of.slots() {
            Some(slots) => device.sort_limited(order, counts.view_mut().raw(), choice, slots),
            None => device.sort(order, counts.view_mut().raw(), starts.view_mut().raw(), choice),
        }
        device.invert(kept.places.view_mut().raw(), kept.order.view().raw());
        let places = kept.share(of, counts.view())?;
        Ok((kept, [counts, starts], places))
    }

    /// The way back: the gradient of the block's output becomes that of its input.
    pub(super) fn backward(
        &self,
        of: &Ctx<'_, D>,
        gradients: &mut Gradients<D>,
        x: View<'_, D, Tokens, S::Hidden, E>,
        kept: Option<Kept<D, S, E>>,
        residual: &mut Tensor<D, Tokens, S::Hidden, E>,
    ) -> Result<(), StepError> {
        let (room, device) = (of.room, of.room.device);
        let mut works = Works::new(of, self.shared.is_some())?;
        let norm = of.norm(&self.norm);
        let (mut kept, mut rows, _counts) = if let Some(kept) = kept {
            works.fill(of, &norm, x, kept.statistics.view())?;
            let rows = RowWorks::new(of, &kept.routing)?;
            (kept, rows, None)
        } else {
            let (kept, rows, counts) = self.inner(of, x, &mut works)?;
            (kept, rows, Some(counts))
        };
        let mut passing = Passing::<D, S, E>::new(of, residual.view())?;
        let mut d_input: Tensor<D, Tokens, S::Hidden, E> = room.take("expert input gradient")?;
        let mut d_weights: Tensor<D, Tokens, S::Active, f32> = room.take("routing weight gradient")?;
        let mut d_row_weights: Tensor<D, Rows, One, f32> =
            room.take_rows("routed weight gradient", kept.routing.rows())?;
        spread(of, &kept.routing, &mut works, &mut rows, residual.view())?;
        self.routed.backward(of, gradients, &mut kept, &mut rows, &mut d_row_weights);
        collect_weights(of, &kept.routing, &mut works, &mut rows, d_row_weights.view(), &mut d_weights)?;
        router::backward(
            device,
            works.logits.view_mut(),
            d_weights.view(),
            kept.routing.scores.view(),
            kept.routing.choice.view(),
            of.router(),
        );
        gemm::weight(device, gradients.of(&self.router), works.logits.view(), works.norm.view());
        if let Some(bias) = &self.router_bias {
            gemm::bias(device, gradients.of(bias), works.logits.view());
        }
        gemm::input(device, d_input.view_mut(), works.logits.view(), self.router.view(), Into::Set);
        collect(of, &kept.routing, &mut works, &mut rows, &mut d_input)?;
        let mut held = None;
        if let (Some(shared), Some(kept)) = (&self.shared, &mut kept.shared) {
            let dy = passing.all(residual.view(), room.lengths);
            held = Some(shared.backward(of, gradients, kept, &mut works, dy, &mut d_input)?);
        }
        if let Some(partial) = held.as_mut().and_then(|held| held.d_input.as_mut()) {
            elementwise::add(device, d_input.view_mut(), passing.own(of, partial.view_mut())?);
        }
        let (rows, dw) = (kept.statistics.view(), gradients.of(&self.norm));
        crate::ops::rms_norm::backward(device, residual.view_mut(), dw, d_input.view(), x, rows, self.norm.view());
        Ok(())
    }
}

/// Copies of tokens to the ranks of their experts; those that split the same experts put what came to each together.
fn there<D: Device, S: Shapes, C, E: Element>(
    of: &Ctx<'_, D>,
    routing: &KeptRouting<D, S>,
    all: ViewMut<'_, D, Rows, C, E>,
    part: Option<ViewMut<'_, D, OwnRows, C, E>>,
    sent: View<'_, D, Sorted, C, E>,
) -> Result<(), StepError> {
    let device = of.room.device;
    let Some(mut part) = part else { return Ok(of.comm.all_to_all(device, all, sent, routing.there())?) };
    of.comm.all_to_all(device, part.again(), sent, routing.there())?;
    Ok(of.comm.gather_rows(device, all, part.view(), &routing.parts)?)
}

/// What experts made of them, back: of those that split the same experts each has a part of the sum.
fn back<D: Device, S: Shapes, C, E: Format>(
    of: &Ctx<'_, D>,
    routing: &KeptRouting<D, S>,
    sent: ViewMut<'_, D, Sorted, C, E>,
    part: Option<ViewMut<'_, D, OwnRows, C, E>>,
    all: View<'_, D, Rows, C, E>,
) -> Result<(), StepError> {
    let device = of.room.device;
    let Some(mut part) = part else { return Ok(of.comm.all_to_all(device, sent, all, routing.back())?) };
    of.comm.reduce_rows(device, part.again(), all, &routing.parts)?;
    Ok(of.comm.all_to_all(device, sent, part.view(), routing.back())?)
}

/// The gradient of the block's output, to the rows of experts.
fn spread<D: Device, S: Shapes, E: Format>(
    of: &Ctx<'_, D>,
    routing: &KeptRouting<D, S>,
    works: &mut Works<D, S, E>,
    rows: &mut RowWorks<D, S, E>,
    dy: View<'_, D, Tokens, S::Hidden, E>,
) -> Result<(), StepError> {
    let (device, k, n) = (of.room.device, of.room.lengths.active, of.room.lengths);
    if let (Some(sent), Some(received), Some(places)) = (&mut works.sent, &mut rows.received, &routing.received) {
        permute::gather(device, sent.rows.view_mut(), dy, routing.order.view(), k);
        let part = received.part.as_mut().map(|part| part.rows.view_mut());
        there(of, routing, received.rows.view_mut(), part, sent.rows.view())?;
        permute::scatter(device, rows.rows.view_mut(), received.rows.view(), places.view());
    } else {
        permute::gather(device, rows.rows.view_mut(), dy, routing.order.view().reshaped(n), k);
    }
    Ok(())
}

/// What experts made, or the gradients of what they read, to their tokens.
fn collect<D: Device, S: Shapes, E: Format>(
    of: &Ctx<'_, D>,
    routing: &KeptRouting<D, S>,
    works: &mut Works<D, S, E>,
    rows: &mut RowWorks<D, S, E>,
    out: &mut Tensor<D, Tokens, S::Hidden, E>,
) -> Result<(), StepError> {
    let device = of.room.device;
    if let (Some(sent), Some(received), Some(places)) = (&mut works.sent, &mut rows.received, &routing.received) {
        permute::gather(device, received.rows.view_mut(), rows.rows.view(), places.view(), 1);
        let part = received.part.as_mut().map(|part| part.rows.view_mut());
        back(of, routing, sent.rows.view_mut(), part, received.rows.view())?;
        permute::combine(device, out.view_mut(), sent.rows.view(), routing.places.view());
    } else {
        permute::combine(device, out.view_mut(), rows.rows.view(), routing.places.view());
    }
    Ok(())
}

/// The gradients of the weights of copies, to their tokens.
fn collect_weights<D: Device, S: Shapes, E: Format>(
    of: &Ctx<'_, D>,
    routing: &KeptRouting<D, S>,
    works: &mut Works<D, S, E>,
    rows: &mut RowWorks<D, S, E>,
    d_rows: View<'_, D, Rows, One, f32>,
    d_weights: &mut Tensor<D, Tokens, S::Active, f32>,
) -> Result<(), StepError> {
    let (device, n) = (of.room.device, of.room.lengths);
    if let (Some(sent), Some(received), Some(places)) = (&mut works.sent, &mut rows.received, &routing.received) {
        permute::gather_scalars(device, received.weights.view_mut(), d_rows, places.view());
        let part = received.part.as_mut().map(|part| part.weights.view_mut());
        back(of, routing, sent.weights.view_mut(), part, received.weights.view())?;
        permute::scatter_scalars(device, d_weights.view_mut(), sent.weights.view(), routing.order.view());
    } else {
        permute::scatter_scalars(device, d_weights.view_mut(), d_rows, routing.order.view().reshaped(n));
    }
    Ok(())
}
