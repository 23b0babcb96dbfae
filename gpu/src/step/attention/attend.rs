//! Attention itself, of whatever made queries, keys and values: alone, or with what context-parallel ranks trade or pass round.

use crate::device::{Device, Element, Format, Memory, Ref};
use crate::ops::attention::{self, Attended, Qkv, QkvMut};
use crate::ops::gemm::{self, Into};
use crate::ops::rope::Turn;
use crate::shapes::{Axis, Context, Dealt, Keys, Lengths, One, Shapes, Times, Traded};
use crate::step::context::Context as Ctx;
use crate::step::gradients::Gradients;
use crate::step::params::Param;
use crate::step::ring::{self, Known, RingGradients};
use crate::step::trade::{Around, OwnMut};
use crate::tensor::{StepError, Tensor};
use crate::{View, ViewMut};
use moe_model_core::spec::{Accounting, Kernel};

/// What attention itself keeps: of `K` key/value heads, queries and keys of width `W`.
pub(super) struct Core<D: Memory, S: Shapes, K, W, E: Element> {
    q: Tensor<D, Traded, Times<Dealt<S::Heads>, W>, E>,
    k: Tensor<D, Traded, Times<Dealt<K>, W>, E>,
    v: Tensor<D, Traded, Times<Dealt<K>, S::Value>, E>,
    o: Tensor<D, Traded, Times<Dealt<S::Heads>, S::Value>, E>,
    /// Of all heads of this rank's tokens, where these are traded.
    own_o: Option<Tensor<D, Context, Times<S::Heads, S::Value>, E>>,
    softmax: Softmax<D, S, E>,
}

enum Softmax<D: Memory, S: Shapes, E: Element> {
    Lse(Tensor<D, Times<Traded, Dealt<S::Heads>>, One, f32>),
    Probabilities(Tensor<D, Times<Traded, Dealt<S::Heads>>, Keys, E>),
}

/// Gradients of a core's queries, keys and values.
pub(super) struct CoreGradients<D: Memory, S: Shapes, K, W, E: Element> {
    q: Tensor<D, Traded, Times<Dealt<S::Heads>, W>, E>,
    k: Tensor<D, Traded, Times<Dealt<K>, W>, E>,
    v: Tensor<D, Traded, Times<Dealt<K>, S::Value>, E>,
    // Held as long as the others: a frame gives everything back at its end.
    _d_o: Tensor<D, Traded, Times<Dealt<S::Heads>, S::Value>, E>,
    _own_d_o: Option<Tensor<D, Context, Times<S::Heads, S::Value>, E>>,
    _scores: Scores<D, S, E>,
    _round: Option<RingGradients<D, S, K, W, E>>,
}

enum Scores<D: Memory, S: Shapes, E: Element> {
    Delta(Tensor<D, Times<Traded, Dealt<S::Heads>>, One, f32>),
    Gradient(Tensor<D, Times<Traded, Dealt<S::Heads>>, Keys, E>),
}

impl<D: Device, S: Shapes, K: Axis, W: Axis, E: Format> CoreGradients<D, S, K, W, E> {
    /// Turns queries and keys back, and gives those of all heads of this rank's tokens.
    pub(super) fn back<'v>(
        &'v mut self,
        of: &Ctx<'_, D>,
        rotary: usize,
        around: &'v mut Around<D, S, K, W, E>,
    ) -> Result<OwnMut<'v, D, S, K, W, E>, StepError> {
        let n = of.room.lengths;
        let mut all = QkvMut { q: self.q.view_mut(), k: self.k.view_mut(), v: self.v.view_mut() };
        of.rotate(all.q.again(), rotary, Turn::Back);
        of.rotate(all.k.again(), rotary, Turn::Back);
        match around {
            Around::Trade(own) => {
                own.take_back(of, &all)?;
                Ok(own.view_mut())
            }
            _ => Ok(OwnMut { q: all.q.reshaped(n), k: all.k.reshaped(n), v: all.v.reshaped(n) }),
        }
    }
}

impl<D: Device, S: Shapes, K: Axis, W: Axis, E: Format> Core<D, S, K, W, E> {
    pub(super) fn new(of: &Ctx<'_, D>) -> Result<Self, StepError> {
        Ok(Self {
            q: of.room.take("query")?,
            k: of.room.take("key")?,
            v: of.room.take("value")?,
            o: of.room.take("attention output")?,
            own_o: if of.trades() { Some(of.room.take("attention output of own tokens")?) } else { None },
            softmax: match of.kernel() {
                Kernel::Flash => Softmax::Lse(of.room.take("log-sum-exp")?),
                Kernel::Eager => Softmax::Probabilities(of.room.take("attention probabilities")?),
            },
        })
    }

    fn shape(of: &Ctx<'_, D>, window: usize) -> attention::Shape {
        let n = of.room.lengths;
        #[allow(clippy::cast_precision_loss)] // widths of heads
        let scale = (W::len(n) as f32).sqrt().recip();
        attention::Shape {
            batch: n.batch,
            sequence: n.keys,
            heads: Dealt::<S::Heads>::len(n),
            kv_heads: Dealt::<K>::len(n),
            width: W::len(n),
            value: n.value,
            ahead: 0,
            window,
            scale,
        }
    }

    fn qkv(&self) -> Qkv<'_, D, Dealt<S::Heads>, Dealt<K>, W, S::Value, E> {
        Qkv { q: self.q.view(), k: self.k.view(), v: self.v.view() }
    }

    /// Where queries, keys and values of this rank's tokens are written.
    pub(super) fn own<'v>(
        &'v mut self,
        around: &'v mut Around<D, S, K, W, E>,
        n: &Lengths,
    ) -> OwnMut<'v, D, S, K, W, E> {
        match around {
            Around::Trade(own) => own.view_mut(),
            _ => OwnMut {
                q: self.q.view_mut().reshaped(n),
                k: self.k.view_mut().reshaped(n),
                v: self.v.view_mut().reshaped(n),
            },
        }
    }

    /// The output of all heads of this rank's tokens.
    pub(super) fn output(&self, n: &Lengths) -> View<'_, D, Context, Times<S::Heads, S::Value>, E> {
        self.own_o.as_ref().map_or_else(|| self.o.view().reshaped(n), Tensor::view)
    }

    /// From queries, keys and values of this rank's tokens, of which so many numbers turn with their positions.
    pub(super) fn forward(
        &mut self,
        of: &Ctx<'_, D>,
        around: &mut Around<D, S, K, W, E>,
        rotary: usize,
        sinks: Option<&Param<D, S::Heads, One, E>>,
        window: usize,
    ) -> Result<(), StepError> {
        let (device, n) = (of.room.device, of.room.lengths);
        if let Around::Trade(own) = around {
            own.trade(of, QkvMut { q: self.q.view_mut(), k: self.k.view_mut(), v: self.v.view_mut() })?;
        }
        of.rotate(self.q.view_mut(), rotary, Turn::Forward);
        of.rotate(self.k.view_mut(), rotary, Turn::Forward);
        match (around, &mut self.softmax) {
            (Around::Ring(ring), Softmax::Lse(lse)) => {
                let qkv = [self.q.view().raw(), self.k.view().raw(), self.v.view().raw()];
                let own = Self::of_ring(of, qkv, sinks, window);
                ring.attend(of, &own, self.o.view_mut().raw(), lse.view_mut().raw())?;
            }
            _ => self.attend(of, sinks, window),
        }
        if let Some(own) = &mut self.own_o {
            of.comm.trade_back(device, own.view_mut(), self.o.view(), n)?;
        }
        Ok(())
    }

    /// What a ring attends with.
    fn of_ring<'a>(
        of: &Ctx<'_, D>,
        qkv: [Ref<'a, D, E>; 3],
        sinks: Option<&'a Param<D, S::Heads, One, E>>,
        window: usize,
    ) -> ring::Of<'a, D, E> {
        let shape = Self::shape(of, window);
        let shape = attention::Shape { batch: 1, sequence: of.room.lengths.piece, ..shape };
        ring::Of { qkv, sinks: sinks.map(|sinks| sinks.view().raw()), shape }
    }

    fn attend(&mut self, of: &Ctx<'_, D>, sinks: Option<&Param<D, S::Heads, One, E>>, window: usize) {
        let (shape, sinks) = (Self::shape(of, window), sinks.map(|sinks| of.dealt(sinks.view())));
        let qkv = Qkv { q: self.q.view(), k: self.k.view(), v: self.v.view() };
        match &mut self.softmax {
            Softmax::Lse(lse) => {
                attention::forward(of.room.device, self.o.view_mut(), lse.view_mut(), &qkv, sinks, shape);
            }
            Softmax::Probabilities(all) => {
                attention::forward_eager(of.room.device, self.o.view_mut(), all.view_mut(), &qkv, sinks, shape);
            }
        }
    }

    /// From the gradient of what the output projection makes.
    #[allow(clippy::too_many_arguments)] // what it reads and writes
    pub(super) fn backward(
        &self,
        of: &Ctx<'_, D>,
        gradients: &mut Gradients<D>,
        o_weight: &Param<D, S::Hidden, Times<S::Heads, S::Value>, E>,
        sinks: Option<&Param<D, S::Heads, One, E>>,
        dy: View<'_, D, Context, S::Hidden, E>,
        window: usize,
        around: &mut Around<D, S, K, W, E>,
    ) -> Result<CoreGradients<D, S, K, W, E>, StepError> {
        let (device, n, shape) = (of.room.device, of.room.lengths, Self::shape(of, window));
        let mut d_o: Tensor<D, Traded, Times<Dealt<S::Heads>, S::Value>, E> =
            of.room.take("attention output gradient")?;
        gemm::weight(device, gradients.of(o_weight), dy, self.output(n));
        let mut own_d_o = None;
        if of.trades() {
            let own: &mut Tensor<D, Context, Times<S::Heads, S::Value>, E> =
                own_d_o.insert(of.room.take("attention output gradient of own tokens")?);
            gemm::input(device, own.view_mut(), dy, o_weight.view(), Into::Set);
            of.comm.trade(device, d_o.view_mut(), own.view(), n)?;
        } else {
            gemm::input(device, d_o.view_mut().reshaped(n), dy, o_weight.view(), Into::Set);
        }
        let mut q = of.room.take("query gradient")?;
        let mut k = of.room.take("key gradient")?;
        let mut v = of.room.take("value gradient")?;
        let mut round = None;
        let d = QkvMut { q: q.view_mut(), k: k.view_mut(), v: v.view_mut() };
        let d_sinks = sinks.map(|sinks| of.dealt_mut(gradients.of(sinks)));
        let (qkv, of_sinks, sinks) = (self.qkv(), sinks, sinks.map(|sinks| of.dealt(sinks.view())));
        let scores = match &self.softmax {
            Softmax::Lse(lse) => {
                let mut delta: Tensor<D, Times<Traded, Dealt<S::Heads>>, One, f32> = of.room.take("softmax delta")?;
                if let Around::Ring(ring) = around {
                    let own = Self::of_ring(of, [qkv.q.raw(), qkv.k.raw(), qkv.v.raw()], of_sinks, window);
                    let known = Known { d_o: d_o.view().raw(), o: self.o.view().raw(), lse: lse.view().raw() };
                    let (d, d_sinks) = ([d.q.raw(), d.k.raw(), d.v.raw()], d_sinks.map(ViewMut::raw));
                    round = Some(ring.backward(of, &own, &known, d, d_sinks, delta.view_mut().raw())?);
                } else {
                    let kept = Attended { d_o: d_o.view(), o: self.o.view(), lse: lse.view() };
                    attention::backward(device, d, d_sinks, delta.view_mut(), &kept, &qkv, sinks, shape);
                }
                Scores::Delta(delta)
            }
            Softmax::Probabilities(all) => {
                let mut scores = of.room.take("score gradient")?;
                let (d_o, all) = (d_o.view(), all.view());
                attention::backward_eager(device, d, d_sinks, scores.view_mut(), d_o, all, &qkv, shape);
                Scores::Gradient(scores)
            }
        };
        Ok(CoreGradients { q, k, v, _d_o: d_o, _own_d_o: own_d_o, _scores: scores, _round: round })
    }
}

impl<D> Ctx<'_, D> {
    fn kernel(&self) -> Kernel {
        match self.plan.spec().layout.accounting {
            Accounting::Reference(reference) => reference.kernel,
            _ => Kernel::Flash,
        }
    }
}
