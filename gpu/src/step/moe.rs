//! Blocks with experts: a norm, a router, copies of tokens to the experts and back, and shared experts.

use super::context::{Context as Ctx, Norm, Passing};
use super::params::{Buffer, Gradients, Maker, Param, Visit, Visitor, visit_fields};
use super::{Load, Probing};
use crate::View;
use crate::device::{Device, Element, Format, Memory};
use crate::ops::gemm::{self, Into};
use crate::ops::router::{self, Router};
use crate::ops::{activation, elementwise, permute};
use crate::shapes::{Context, One, Rows, Shapes, Sorted, Times, Tokens};
use crate::tensor::{StepError, Tensor};
use moe_model_core::inventory::{Block, Module};
use moe_model_core::spec::{Architecture, CorrectionBias, Pool, Routing};

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

/// Matrices of all experts of the rank, below one another.
struct Routed<D: Memory, S: Shapes, E: Element> {
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

struct Shared<D: Memory, S: Shapes, E: Element> {
    gate: Param<D, S::SharedFfn, S::Hidden, E>,
    up: Param<D, S::SharedFfn, S::Hidden, E>,
    down: Param<D, S::Hidden, S::SharedFfn, E>,
    score: Option<Param<D, One, S::Hidden, E>>,
}

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Moe<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        visit_fields!(self, visitor: norm, router, router_bias, correction_bias, routed, shared)
    }
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

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Shared<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        visit_fields!(self, visitor: gate, up, down, score)
    }
}

impl<D: Memory, S: Shapes, E: Element> Moe<D, S, E> {
    pub(super) fn new(make: &mut Maker<'_, D>, architecture: &Architecture) -> Result<Self, StepError> {
        const ROUTED: Module = Module::RoutedExperts;
        const SHARED: Module = Module::SharedExperts;
        let experts = &architecture.experts;
        let corrects = matches!(experts.correction_bias, CorrectionBias::On);
        Ok(Self {
            norm: make.weight(Module::Norm, "post_attention_layernorm.weight")?,
            router: make.weight(Module::Router, "mlp.gate.weight")?,
            router_bias: make.weight_if(experts.router_bias.is_on(), Module::Router, "mlp.gate.bias")?,
            correction_bias: if corrects { Some(make.buffer("mlp.gate.e_score_correction_bias")?) } else { None },
            routed: Routed {
                gate: make.weight(ROUTED, "mlp.experts.gate_proj.weight")?,
                up: make.weight(ROUTED, "mlp.experts.up_proj.weight")?,
                down: make.weight(ROUTED, "mlp.experts.down_proj.weight")?,
                biases: if experts.bias.is_on() {
                    Some(Biases {
                        gate: make.weight(ROUTED, "mlp.experts.gate_proj.bias")?,
                        up: make.weight(ROUTED, "mlp.experts.up_proj.bias")?,
                        down: make.weight(ROUTED, "mlp.experts.down_proj.bias")?,
                    })
                } else {
                    None
                },
            },
            shared: if experts.shared > 0 {
                Some(Shared {
                    gate: make.weight(SHARED, "mlp.shared_experts.gate_proj.weight")?,
                    up: make.weight(SHARED, "mlp.shared_experts.up_proj.weight")?,
                    down: make.weight(SHARED, "mlp.shared_experts.down_proj.weight")?,
                    score: make.weight_if(experts.shared_gate.is_on(), SHARED, "mlp.shared_expert_gate.weight")?,
                })
            } else {
                None
            },
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

struct KeptRouting<D: Memory, S: Shapes> {
    scores: Tensor<D, Tokens, S::Experts, f32>,
    weights: Tensor<D, Tokens, S::Active, f32>,
    choice: Tensor<D, Tokens, S::Active, i32>,
    /// Copies of tokens in the order of their experts.
    order: Tensor<D, Sorted, One, i32>,
    /// Where each copy stands in it.
    places: Tensor<D, Tokens, S::Active, i32>,
    /// Where each copy that is received stands at the experts of this rank.
    received: Option<Tensor<D, Rows, One, i32>>,
    /// The rows of each expert of this rank: first, and how many.
    segments: Vec<(usize, usize)>,
}

struct KeptRouted<D: Memory, S: Shapes, E: Element> {
    input: Tensor<D, Rows, S::Hidden, E>,
    weights: Tensor<D, Rows, One, f32>,
    gate: Tensor<D, Rows, S::ExpertFfn, E>,
    up: Tensor<D, Rows, S::ExpertFfn, E>,
}

struct KeptShared<D: Memory, S: Shapes, E: Element> {
    gate: Tensor<D, Context, S::SharedFfn, E>,
    up: Tensor<D, Context, S::SharedFfn, E>,
    scores: Option<Tensor<D, Context, One, f32>>,
}

/// What it works on in both directions.
struct Works<D: Memory, S: Shapes, E: Element> {
    norm: Tensor<D, Tokens, S::Hidden, E>,
    logits: Tensor<D, Tokens, S::Experts, f32>,
    product: Tensor<D, Rows, S::ExpertFfn, E>,
    /// What experts make; in backward the gradients of that, and then of what they read.
    rows: Tensor<D, Rows, S::Hidden, E>,
    dealt: Option<Dealt<D, S, E>>,
    shared: Option<SharedWorks<D, S, E>>,
}

/// What goes from rank to rank.
struct Dealt<D: Memory, S: Shapes, E: Element> {
    sent: Tensor<D, Sorted, S::Hidden, E>,
    received: Tensor<D, Rows, S::Hidden, E>,
    sent_weights: Tensor<D, Sorted, One, f32>,
    received_weights: Tensor<D, Rows, One, f32>,
}

struct SharedWorks<D: Memory, S: Shapes, E: Element> {
    input: Option<Tensor<D, Context, S::Hidden, E>>,
    product: Tensor<D, Context, S::SharedFfn, E>,
}

impl<D: Device, S: Shapes, E: Format> Works<D, S, E> {
    fn new(of: &Ctx<'_, D>, has_shared: bool, rows: usize) -> Result<Self, StepError> {
        let room = of.room;
        let shared = |()| -> Result<_, StepError> {
            Ok(SharedWorks {
                product: room.take("shared product")?,
                input: if of.gathers() { Some(room.take("shared input")?) } else { None },
            })
        };
        let dealt = |()| -> Result<_, StepError> {
            Ok(Dealt {
                sent: room.take("sent copies")?,
                received: room.take_rows("received copies", rows)?,
                sent_weights: room.take("sent weights")?,
                received_weights: room.take_rows("received weights", rows)?,
            })
        };
        Ok(Self {
            norm: room.take("expert norm output")?,
            logits: room.take("router logits")?,
            product: room.take_rows("routed product", rows)?,
            rows: room.take_rows("routed output", rows)?,
            dealt: of.is_dealt().then_some(()).map(dealt).transpose()?,
            shared: has_shared.then_some(()).map(shared).transpose()?,
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
    ) {
        norm.forward(of, self.norm.view_mut(), x, statistics);
        if let Some(input) = self.shared.as_mut().and_then(|shared| shared.input.as_mut()) {
            of.comm.gather(of.room.device, input.view_mut(), self.norm.view(), of.room.lengths);
        }
    }
}

impl<D> Ctx<'_, D> {
    /// Whether experts are dealt over ranks.
    fn is_dealt(&self) -> bool {
        self.plan.spec().layout.mesh.ep > 1
    }

    /// Slots of each expert, if they are bounded.
    fn slots(&self) -> Option<usize> {
        match self.plan.spec().layout.routing {
            Routing::Capacity(capacity) => {
                usize::try_from(self.plan.slots_per_expert(Pool::Group, capacity.factor)).ok()
            }
            Routing::Dropless(_) => None,
        }
    }

    /// Copies of tokens that come to this rank's experts. Peers are stood in for, so that it is as many as the budget counts,
    /// or as many as can come at all.
    fn rows(&self) -> usize {
        let n = self.room.lengths;
        match self.load {
            Load::AllHere if self.is_dealt() => {
                let pooled = usize::try_from(self.plan.pooled_tokens(Pool::Group)).expect("tokens are addresses");
                pooled * n.local_experts.min(n.active)
            }
            _ => n.rows,
        }
    }

    fn router(&self) -> Router {
        let (n, experts) = (self.room.lengths, &self.plan.spec().architecture.experts);
        Router {
            score: self.numerics.score,
            experts: n.experts,
            active: n.active,
            groups: usize::try_from(experts.groups).expect("groups are addresses"),
            active_groups: usize::try_from(experts.active_groups).expect("groups are addresses"),
            normalise: self.numerics.normalise,
            scale: self.numerics.routed_scale,
        }
    }
}

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
        let mut works = Works::new(of, self.shared.is_some(), of.rows())?;
        let (kept, _counts) = self.inner(of, x, &mut works)?;
        probe.values("router_logits", layer, works.logits.view());
        probe.indices("topk_index", layer, kept.routing.choice.view());
        probe.values("topk_weight", layer, kept.routing.weights.view());
        self.routed.finish(of, &kept, &mut works);
        let mut output: Tensor<D, Tokens, S::Hidden, E> = room.take("expert block output")?;
        device.copy(output.view_mut().raw(), x.raw());
        if let Some(dealt) = &mut works.dealt {
            let received = kept.routing.received.as_ref().expect("copies are received");
            permute::gather(device, dealt.received.view_mut(), works.rows.view(), received.view(), 1);
            of.comm.deal_back(device, dealt.sent.view_mut(), dealt.received.view());
            permute::combine(device, output.view_mut(), dealt.sent.view(), kept.routing.places.view());
        } else {
            permute::combine(device, output.view_mut(), works.rows.view(), kept.routing.places.view());
        }
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
    ) -> Result<(Kept<D, S, E>, [Tensor<D, S::Experts, One, i32>; 2]), StepError> {
        let mut statistics: Tensor<D, Tokens, One, f32> = of.room.take("expert norm statistics")?;
        let norm = Norm { weight: &self.norm, eps: of.numerics.norm_eps };
        norm.statistics(of, statistics.view_mut(), x);
        works.fill(of, &norm, x, statistics.view());
        let (routing, counts) = self.route(of, works)?;
        let routed = self.routed.inner(of, &routing, works)?;
        let shared = self.shared.as_ref().map(|shared| shared.inner(of, works)).transpose()?;
        Ok((Kept { statistics, routing, routed, shared }, counts))
    }

    /// Which experts each token goes to, and copies of tokens by expert.
    fn route(
        &self,
        of: &Ctx<'_, D>,
        works: &mut Works<D, S, E>,
    ) -> Result<(KeptRouting<D, S>, [Tensor<D, S::Experts, One, i32>; 2]), StepError> {
        let (room, device, rows) = (of.room, of.room.device, of.rows());
        let mut kept = KeptRouting {
            scores: room.take("router scores")?,
            weights: room.take("routing weights")?,
            choice: room.take("chosen experts")?,
            order: room.take("copies by expert")?,
            places: room.take("places of copies")?,
            received: if of.is_dealt() { Some(room.take_rows("received copies by expert", rows)?) } else { None },
            segments: Vec::new(),
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
        kept.segments = segments(of, counts.view(), rows);
        if let Some(received) = &mut kept.received {
            // Those of peers that are stood in for come in the order of this rank's experts.
            device.write(received.view_mut().raw(), |places| {
                places.iter_mut().zip(0..).for_each(|(place, number)| *place = number);
            });
        }
        Ok((kept, [counts, starts]))
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
        let mut works = Works::new(of, self.shared.is_some(), of.rows())?;
        let norm = Norm { weight: &self.norm, eps: of.numerics.norm_eps };
        let (mut kept, _counts) = if let Some(kept) = kept {
            works.fill(of, &norm, x, kept.statistics.view());
            (kept, None)
        } else {
            let (kept, counts) = self.inner(of, x, &mut works)?;
            (kept, Some(counts))
        };
        let mut passing = Passing::<D, S, E>::new(of, residual.view())?;
        let mut d_input: Tensor<D, Tokens, S::Hidden, E> = room.take("expert input gradient")?;
        let mut d_weights: Tensor<D, Tokens, S::Active, f32> = room.take("routing weight gradient")?;
        let mut d_row_weights: Tensor<D, Rows, One, f32> = room.take_rows("routed weight gradient", of.rows())?;
        spread(of, &kept.routing, &mut works, residual.view());
        self.routed.backward(of, gradients, &mut kept, &mut works, &mut d_row_weights);
        collect_weights(of, &kept.routing, &mut works, d_row_weights.view(), &mut d_weights);
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
        collect(of, &kept.routing, &mut works, &mut d_input);
        let mut held = None;
        if let (Some(shared), Some(kept)) = (&self.shared, &mut kept.shared) {
            let dy = passing.all(residual.view(), room.lengths);
            held = Some(shared.backward(of, gradients, kept, &mut works, dy, &mut d_input)?);
        }
        if let Some(partial) = held.as_ref().and_then(|held| held.d_input.as_ref()) {
            elementwise::add(device, d_input.view_mut(), passing.own(of, partial.view()));
        }
        let (rows, dw) = (kept.statistics.view(), gradients.of(&self.norm));
        crate::ops::rms_norm::backward(device, residual.view_mut(), dw, d_input.view(), x, rows, self.norm.view());
        Ok(())
    }
}

/// The rows of each expert of this rank.
fn segments<D: Device, N>(of: &Ctx<'_, D>, counts: View<'_, D, N, One, i32>, rows: usize) -> Vec<(usize, usize)> {
    let experts = of.room.lengths.local_experts;
    let even = |expert| rows / experts + usize::from(expert < rows % experts);
    let lens: Vec<usize> = if let Some(slots) = of.slots() {
        vec![slots; experts]
    } else if of.is_dealt() {
        (0..experts).map(even).collect()
    } else {
        let see = |counts: &[i32]| counts.iter().map(|count| usize::try_from(*count).unwrap_or(0)).collect();
        of.room.device.read(counts.raw(), see).unwrap_or_else(|| (0..experts).map(even).collect())
    };
    let mut first = 0;
    lens.into_iter()
        .map(|len| {
            first += len;
            (first - len, len)
        })
        .collect()
}

/// The gradient of the block's output, to the rows of experts.
fn spread<D: Device, S: Shapes, E: Format>(
    of: &Ctx<'_, D>,
    routing: &KeptRouting<D, S>,
    works: &mut Works<D, S, E>,
    dy: View<'_, D, Tokens, S::Hidden, E>,
) {
    let (device, k, n) = (of.room.device, of.room.lengths.active, of.room.lengths);
    if let (Some(dealt), Some(received)) = (&mut works.dealt, &routing.received) {
        permute::gather(device, dealt.sent.view_mut(), dy, routing.order.view(), k);
        of.comm.deal(device, dealt.received.view_mut(), dealt.sent.view());
        permute::scatter(device, works.rows.view_mut(), dealt.received.view(), received.view());
    } else {
        permute::gather(device, works.rows.view_mut(), dy, routing.order.view().reshaped(n), k);
    }
}

/// The gradients of what experts read, to their tokens.
fn collect<D: Device, S: Shapes, E: Format>(
    of: &Ctx<'_, D>,
    routing: &KeptRouting<D, S>,
    works: &mut Works<D, S, E>,
    dx: &mut Tensor<D, Tokens, S::Hidden, E>,
) {
    let device = of.room.device;
    if let (Some(dealt), Some(received)) = (&mut works.dealt, &routing.received) {
        permute::gather(device, dealt.received.view_mut(), works.rows.view(), received.view(), 1);
        of.comm.deal_back(device, dealt.sent.view_mut(), dealt.received.view());
        permute::combine(device, dx.view_mut(), dealt.sent.view(), routing.places.view());
    } else {
        permute::combine(device, dx.view_mut(), works.rows.view(), routing.places.view());
    }
}

/// The gradients of the weights of copies, to their tokens.
fn collect_weights<D: Device, S: Shapes, E: Format>(
    of: &Ctx<'_, D>,
    routing: &KeptRouting<D, S>,
    works: &mut Works<D, S, E>,
    d_rows: View<'_, D, Rows, One, f32>,
    d_weights: &mut Tensor<D, Tokens, S::Active, f32>,
) {
    let (device, n) = (of.room.device, of.room.lengths);
    if let (Some(dealt), Some(received)) = (&mut works.dealt, &routing.received) {
        permute::gather_scalars(device, dealt.received_weights.view_mut(), d_rows, received.view());
        of.comm.deal_back(device, dealt.sent_weights.view_mut(), dealt.received_weights.view());
        let sent = dealt.sent_weights.view();
        permute::scatter_scalars(device, d_weights.view_mut(), sent, routing.order.view());
    } else {
        permute::scatter_scalars(device, d_weights.view_mut(), d_rows, routing.order.view().reshaped(n));
    }
}

impl<D: Device, S: Shapes, E: Format> Routed<D, S, E> {
    /// Copies of tokens at their experts, gate and up.
    fn inner(
        &self,
        of: &Ctx<'_, D>,
        routing: &KeptRouting<D, S>,
        works: &mut Works<D, S, E>,
    ) -> Result<KeptRouted<D, S, E>, StepError> {
        let (room, device, n, rows) = (of.room, of.room.device, of.room.lengths, of.rows());
        let mut kept = KeptRouted {
            input: room.take_rows("routed input", rows)?,
            weights: room.take_rows("routed weights", rows)?,
            gate: room.take_rows("routed gate", rows)?,
            up: room.take_rows("routed up", rows)?,
        };
        let (order, weights) = (routing.order.view(), routing.weights.view());
        if let (Some(dealt), Some(received)) = (&mut works.dealt, &routing.received) {
            permute::gather(device, dealt.sent.view_mut(), works.norm.view(), order, n.active);
            permute::gather_scalars(device, dealt.sent_weights.view_mut(), weights, order);
            of.comm.deal(device, dealt.received.view_mut(), dealt.sent.view());
            of.comm.deal(device, dealt.received_weights.view_mut(), dealt.sent_weights.view());
            permute::scatter(device, kept.input.view_mut(), dealt.received.view(), received.view());
            let received_weights = dealt.received_weights.view();
            permute::scatter_scalars(device, kept.weights.view_mut(), received_weights, received.view());
        } else {
            permute::gather(device, kept.input.view_mut(), works.norm.view(), order.reshaped(n), n.active);
            permute::gather_scalars(device, kept.weights.view_mut(), weights, order.reshaped(n));
        }
        for (expert, (first, rows)) in routing.segments.iter().copied().enumerate() {
            let x = kept.input.view().some(first, rows);
            let (gate, up) = (self.gate.view().each::<S::ExpertFfn>(expert, n), self.up.view().each(expert, n));
            gemm::forward(device, kept.gate.view_mut().some(first, rows), x, gate, Into::Set);
            gemm::forward(device, kept.up.view_mut().some(first, rows), x, up, Into::Set);
            if let Some(biases) = &self.biases {
                let (gate, up) = (biases.gate.view().each::<S::ExpertFfn>(expert, n), biases.up.view().each(expert, n));
                gemm::add_bias(device, kept.gate.view_mut().some(first, rows), gate);
                gemm::add_bias(device, kept.up.view_mut().some(first, rows), up);
            }
        }
        Ok(kept)
    }

    /// The activation of all rows, times their weights.
    fn product(of: &Ctx<'_, D>, kept: &KeptRouted<D, S, E>, works: &mut Works<D, S, E>) {
        let (gate, up, scale) = (kept.gate.view(), kept.up.view(), Some(kept.weights.view()));
        let activation = of.numerics.routed_activation;
        activation::forward(of.room.device, works.product.view_mut(), gate, up, scale, activation);
    }

    /// What experts make.
    fn finish(&self, of: &Ctx<'_, D>, kept: &Kept<D, S, E>, works: &mut Works<D, S, E>) {
        let (device, n) = (of.room.device, of.room.lengths);
        Self::product(of, &kept.routed, works);
        for (expert, (first, rows)) in kept.routing.segments.iter().copied().enumerate() {
            let product = works.product.view().some(first, rows);
            let down = self.down.view().each::<S::Hidden>(expert, n);
            gemm::forward(device, works.rows.view_mut().some(first, rows), product, down, Into::Set);
            if let Some(biases) = &self.biases {
                let bias = biases.down.view().each::<S::Hidden>(expert, n);
                let scale = kept.routed.weights.view().some(first, rows);
                gemm::add_scaled_bias(device, works.rows.view_mut().some(first, rows), bias, scale);
            }
        }
    }

    /// From the gradients of what experts make to those of what they read, in the same rows.
    fn backward(
        &self,
        of: &Ctx<'_, D>,
        gradients: &mut Gradients<D>,
        kept: &mut Kept<D, S, E>,
        works: &mut Works<D, S, E>,
        d_weights: &mut Tensor<D, Rows, One, f32>,
    ) {
        let (device, n, activation) = (of.room.device, of.room.lengths, of.numerics.routed_activation);
        Self::product(of, &kept.routed, works);
        for (expert, (first, rows)) in kept.routing.segments.iter().copied().enumerate() {
            let dy = works.rows.view().some(first, rows);
            let mut product = works.product.view_mut().some(first, rows);
            let d_down = gradients.of(&self.down).each::<S::Hidden>(expert, n);
            gemm::weight(device, d_down, dy, product.view());
            gemm::input(device, product.again(), dy, self.down.view().each::<S::Hidden>(expert, n), Into::Set);
        }
        activation::backward(
            device,
            kept.routed.gate.view_mut(),
            kept.routed.up.view_mut(),
            works.product.view(),
            Some((kept.routed.weights.view(), d_weights.view_mut())),
            activation,
        );
        for (expert, (first, rows)) in kept.routing.segments.iter().copied().enumerate() {
            let x = kept.routed.input.view().some(first, rows);
            let (d_gate, d_up) = (kept.routed.gate.view().some(first, rows), kept.routed.up.view().some(first, rows));
            if let Some(biases) = &self.biases {
                let dy = works.rows.view().some(first, rows);
                let (scale, d_scale) =
                    (kept.routed.weights.view().some(first, rows), d_weights.view_mut().some(first, rows));
                let bias = biases.down.view().each::<S::Hidden>(expert, n);
                let d_bias = gradients.of(&biases.down).each::<S::Hidden>(expert, n);
                gemm::scaled_bias(device, d_bias, d_scale, dy, bias, scale);
                gemm::bias(device, gradients.of(&biases.gate).each::<S::ExpertFfn>(expert, n), d_gate);
                gemm::bias(device, gradients.of(&biases.up).each::<S::ExpertFfn>(expert, n), d_up);
            }
            gemm::weight(device, gradients.of(&self.gate).each::<S::ExpertFfn>(expert, n), d_gate, x);
            gemm::weight(device, gradients.of(&self.up).each::<S::ExpertFfn>(expert, n), d_up, x);
            // What the experts made is needed no more: the gradient of what they read takes its place.
            let (gate, up) = (self.gate.view().each::<S::ExpertFfn>(expert, n), self.up.view().each(expert, n));
            gemm::input(device, works.rows.view_mut().some(first, rows), d_gate, gate, Into::Set);
            gemm::input(device, works.rows.view_mut().some(first, rows), d_up, up, Into::Add);
        }
    }
}

/// What shared experts hold to the end of a block.
struct SharedResult<D: Memory, S: Shapes, E: Element> {
    _result: Tensor<D, Context, S::Hidden, E>,
    _scattered: Option<Tensor<D, Tokens, S::Hidden, E>>,
}

struct SharedGradients<D: Memory, S: Shapes, E: Element> {
    d_input: Option<Tensor<D, Context, S::Hidden, E>>,
    _gated: Option<Gated<D, S, E>>,
}

struct Gated<D: Memory, S: Shapes, E: Element> {
    result: Tensor<D, Context, S::Hidden, E>,
    d_scores: Tensor<D, Context, One, f32>,
    d_output: Tensor<D, Context, S::Hidden, E>,
}

impl<D: Device, S: Shapes, E: Format> Shared<D, S, E> {
    fn inner(&self, of: &Ctx<'_, D>, works: &Works<D, S, E>) -> Result<KeptShared<D, S, E>, StepError> {
        let (room, device, x) = (of.room, of.room.device, works.shared_input(of));
        let mut kept = KeptShared {
            gate: room.take("shared gate")?,
            up: room.take("shared up")?,
            scores: if self.score.is_some() { Some(room.take("shared expert scores")?) } else { None },
        };
        gemm::forward(device, kept.gate.view_mut(), x, self.gate.view(), Into::Set);
        gemm::forward(device, kept.up.view_mut(), x, self.up.view(), Into::Set);
        if let (Some(scores), Some(weight)) = (&mut kept.scores, &self.score) {
            gemm::forward(device, scores.view_mut(), x, weight.view(), Into::Set);
        }
        Ok(kept)
    }

    fn product(of: &Ctx<'_, D>, kept: &KeptShared<D, S, E>, product: &mut Tensor<D, Context, S::SharedFfn, E>) {
        let activation = of.numerics.activation;
        activation::forward(of.room.device, product.view_mut(), kept.gate.view(), kept.up.view(), None, activation);
    }

    /// Adds what they make to the block's output.
    fn finish(
        &self,
        of: &Ctx<'_, D>,
        kept: &KeptShared<D, S, E>,
        works: &mut Works<D, S, E>,
        output: &mut Tensor<D, Tokens, S::Hidden, E>,
    ) -> Result<SharedResult<D, S, E>, StepError> {
        let (room, device, n) = (of.room, of.room.device, of.room.lengths);
        let product = &mut works.shared.as_mut().expect("shared experts work").product;
        Self::product(of, kept, product);
        let mut result: Tensor<D, Context, S::Hidden, E> = room.take("shared result")?;
        gemm::forward(device, result.view_mut(), product.view(), self.down.view(), Into::Set);
        if let Some(scores) = &kept.scores {
            elementwise::gate_rows(device, result.view_mut(), scores.view());
        }
        let mut scattered = None;
        if of.gathers() {
            let own: &mut Tensor<D, Tokens, S::Hidden, E> = scattered.insert(room.take("scattered result")?);
            of.comm.reduce_scatter(device, own.view_mut(), result.view(), n);
            elementwise::add(device, output.view_mut(), own.view());
        } else {
            elementwise::add(device, output.view_mut(), result.view().reshaped(n));
        }
        Ok(SharedResult { _result: result, _scattered: scattered })
    }

    /// From the gradient of the block's output; what is partial on tensor-parallel ranks is given back.
    fn backward(
        &self,
        of: &Ctx<'_, D>,
        gradients: &mut Gradients<D>,
        kept: &mut KeptShared<D, S, E>,
        works: &mut Works<D, S, E>,
        dy: View<'_, D, Context, S::Hidden, E>,
        d_tokens: &mut Tensor<D, Tokens, S::Hidden, E>,
    ) -> Result<SharedGradients<D, S, E>, StepError> {
        let (room, device, n) = (of.room, of.room.device, of.room.lengths);
        let mut partial: Option<Tensor<D, Context, S::Hidden, E>> =
            if of.gathers() { Some(room.take("shared input gradient")?) } else { None };
        let Works { shared, norm, .. } = works;
        let SharedWorks { input, product } = shared.as_mut().expect("shared experts work");
        let x = match input {
            Some(input) => input.view(),
            None => norm.view().reshaped(n),
        };
        Self::product(of, kept, product);
        let mut gated = None;
        if let Some(scores) = &kept.scores {
            let mut of_gate = Gated {
                result: room.take("shared result")?,
                d_scores: room.take("shared expert score gradient")?,
                d_output: room.take("shared output gradient")?,
            };
            gemm::forward(device, of_gate.result.view_mut(), product.view(), self.down.view(), Into::Set);
            device.copy(of_gate.d_output.view_mut().raw(), dy.raw());
            let (d, d_scores) = (of_gate.d_output.view_mut(), of_gate.d_scores.view_mut());
            elementwise::gate_rows_backward(device, d, d_scores, of_gate.result.view(), scores.view());
            gated = Some(of_gate);
        }
        let dy = gated.as_ref().map_or(dy, |gated| gated.d_output.view());
        gemm::weight(device, gradients.of(&self.down), dy, product.view());
        gemm::input(device, product.view_mut(), dy, self.down.view(), Into::Set);
        let (gate, up) = (kept.gate.view_mut(), kept.up.view_mut());
        activation::backward(device, gate, up, product.view(), None, of.numerics.activation);
        gemm::weight(device, gradients.of(&self.gate), kept.gate.view(), x);
        gemm::weight(device, gradients.of(&self.up), kept.up.view(), x);
        let (mut dx, into) = match &mut partial {
            Some(partial) => (partial.view_mut(), Into::Set),
            None => (d_tokens.view_mut().reshaped(n), Into::Add),
        };
        gemm::input(device, dx.again(), kept.gate.view(), self.gate.view(), into);
        gemm::input(device, dx.again(), kept.up.view(), self.up.view(), Into::Add);
        if let (Some(gated), Some(weight)) = (&gated, &self.score) {
            gemm::weight(device, gradients.of(weight), gated.d_scores.view(), x);
            gemm::input(device, dx, gated.d_scores.view(), weight.view(), Into::Add);
        }
        Ok(SharedGradients { d_input: partial, _gated: gated })
    }
}
