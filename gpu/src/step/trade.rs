//! What context-parallel ranks have around attention: all heads of their own tokens, which they trade for some heads of all, or
//! what goes round a ring.

use super::context::Context as Ctx;
use super::ring::Ring;
use crate::device::{Device, Element, Format, Memory};
use crate::ops::attention::QkvMut;
use crate::shapes::{Axis, Context, Dealt, One, Shapes, Times};
use crate::tensor::{StepError, Tensor};
use crate::{View, ViewMut};

/// Queries, keys and values of a rank's own tokens, before they are traded; their gradients, once these are traded back. `K`
/// heads have keys and values, of width `W` are queries and keys.
pub(super) struct Own<D: Memory, S: Shapes, K, W, E: Element> {
    q: Tensor<D, Context, Times<S::Heads, W>, E>,
    k: Tensor<D, Context, Times<K, W>, E>,
    v: Tensor<D, Context, Times<K, S::Value>, E>,
}

/// The same to be written, wherever they lie.
pub(super) struct OwnMut<'v, D: Memory, S: Shapes, K, W, E: Element> {
    pub(super) q: ViewMut<'v, D, Context, Times<S::Heads, W>, E>,
    pub(super) k: ViewMut<'v, D, Context, Times<K, W>, E>,
    pub(super) v: ViewMut<'v, D, Context, Times<K, S::Value>, E>,
}

/// Those that a rank attends with: some heads of all tokens.
pub(super) type Traded<'v, D, S, K, W, E> =
    QkvMut<'v, D, Dealt<<S as Shapes>::Heads>, Dealt<K>, W, <S as Shapes>::Value, E>;

/// What context-parallel ranks have around attention, in both directions.
pub(super) enum Around<D: Memory, S: Shapes, K, W, E: Element> {
    /// Nothing: there is one.
    Nothing,
    /// They trade tokens for heads.
    Trade(Own<D, S, K, W, E>),
    /// They pass keys and values round.
    Ring(Ring<D, S, K, W, E>),
}

impl<D: Device, S: Shapes, K: Axis, W: Axis, E: Format> Around<D, S, K, W, E> {
    pub(super) fn new(of: &Ctx<'_, D>) -> Result<Self, StepError> {
        Ok(match of.room.lengths {
            n if n.trading_ranks > 1 => Self::Trade(Own::new(of)?),
            n if n.ring_ranks > 1 => Self::Ring(Ring::new(of)?),
            _ => Self::Nothing,
        })
    }
}

impl<D: Device, S: Shapes, K: Axis, W: Axis, E: Format> Own<D, S, K, W, E> {
    fn new(of: &Ctx<'_, D>) -> Result<Self, StepError> {
        Ok(Self {
            q: of.room.take("query of own tokens")?,
            k: of.room.take("key of own tokens")?,
            v: of.room.take("value of own tokens")?,
        })
    }

    pub(super) fn view_mut(&mut self) -> OwnMut<'_, D, S, K, W, E> {
        OwnMut { q: self.q.view_mut(), k: self.k.view_mut(), v: self.v.view_mut() }
    }

    /// Gives them for some heads of all tokens.
    pub(super) fn trade(&self, of: &Ctx<'_, D>, to: Traded<'_, D, S, K, W, E>) -> Result<(), StepError> {
        let (device, n) = (of.room.device, of.room.lengths);
        of.comm.trade(device, to.q, self.q.view(), n)?;
        of.comm.trade(device, to.k, self.k.view(), n)?;
        Ok(of.comm.trade(device, to.v, self.v.view(), n)?)
    }

    /// Takes gradients of all heads of its own tokens.
    pub(super) fn take_back(&mut self, of: &Ctx<'_, D>, from: &Traded<'_, D, S, K, W, E>) -> Result<(), StepError> {
        let (device, n) = (of.room.device, of.room.lengths);
        of.comm.trade_back(device, self.q.view_mut(), from.q.view(), n)?;
        of.comm.trade_back(device, self.k.view_mut(), from.k.view(), n)?;
        Ok(of.comm.trade_back(device, self.v.view_mut(), from.v.view(), n)?)
    }
}

impl<D: Device> Ctx<'_, D> {
    /// Numbers of the heads that this rank attends with.
    pub(super) fn dealt<'v, A: Axis, E: Element>(&self, of: View<'v, D, A, One, E>) -> View<'v, D, Dealt<A>, One, E> {
        of.some(self.first_dealt::<A>(), Dealt::<A>::len(self.room.lengths)).reshaped(self.room.lengths)
    }

    /// The same, to be written.
    pub(super) fn dealt_mut<'v, A: Axis, E: Element>(
        &self,
        of: ViewMut<'v, D, A, One, E>,
    ) -> ViewMut<'v, D, Dealt<A>, One, E> {
        of.some(self.first_dealt::<A>(), Dealt::<A>::len(self.room.lengths)).reshaped(self.room.lengths)
    }

    fn first_dealt<A: Axis>(&self) -> usize {
        let n = self.room.lengths;
        self.cp() % n.trading_ranks * Dealt::<A>::len(n)
    }
}
