//! Attention to keys and values that context-parallel ranks pass round (ring attention, arXiv:2310.01889), their pieces in order
//! or, for as much work on each, one from the front and one from the back (Megatron-LM). What attention to each piece makes is
//! put together by its log-sum-exp; in backward gradients of keys and values go round with these.

use super::context::Context as Ctx;
use crate::ViewMut;
use crate::device::{Device, Element, Format, Memory, Mut, Ref};
use crate::ops::attention::Shape;
use crate::ops::rope::{self, Rope, Turn};
use crate::shapes::{Axis, Context, One, Piece, Shapes, Times};
use crate::tensor::{StepError, Tensor};
use core::ops::Range;

/// Keys and values as they come round, and what a forward works on.
pub(super) struct Ring<D: Memory, S: Shapes, K, W, E: Element> {
    key: Tensor<D, Context, Times<K, W>, E>,
    value: Tensor<D, Context, Times<K, S::Value>, E>,
    sums: Option<Sums<D, S, E>>,
}

struct Sums<D: Memory, S: Shapes, E: Element> {
    all: Tensor<D, Context, Times<S::Heads, S::Value>, f32>,
    part: Tensor<D, Piece, Times<S::Heads, S::Value>, E>,
    lse: Tensor<D, Times<Piece, S::Heads>, One, f32>,
}

/// What a backward works on: sums of gradients, those of keys and values as they come round, and what one piece gives.
pub(super) struct RingGradients<D: Memory, S: Shapes, K, W, E: Element> {
    q: Tensor<D, Context, Times<S::Heads, W>, f32>,
    k: Tensor<D, Context, Times<K, W>, f32>,
    v: Tensor<D, Context, Times<K, S::Value>, f32>,
    of_q: Tensor<D, Piece, Times<S::Heads, W>, E>,
    of_k: Tensor<D, Piece, Times<K, W>, E>,
    of_v: Tensor<D, Piece, Times<K, S::Value>, E>,
}

/// What this rank has of its own: queries, keys, values, and what its heads keep beside.
pub(super) struct Of<'a, D: Memory, E: Element> {
    pub(super) qkv: [Ref<'a, D, E>; 3],
    pub(super) sinks: Option<Ref<'a, D, E>>,
    /// The shape of attention to one piece.
    pub(super) shape: Shape,
}

/// What backward knows of the output.
pub(super) struct Known<'a, D: Memory, E: Element> {
    pub(super) d_o: Ref<'a, D, E>,
    pub(super) o: Ref<'a, D, E>,
    pub(super) lse: Ref<'a, D, f32>,
}

impl<D: Memory, E: Element> Of<'_, D, E> {
    /// Elements of a piece of rows of so many heads of some width.
    fn span(&self, place: usize, heads: usize, width: usize) -> Range<usize> {
        let len = self.shape.sequence * heads * width;
        place * len..(place + 1) * len
    }

    /// Of the places of a piece of queries and one of keys, among the pieces of all sequences: where these lie, and where
    /// queries, keys, values, outputs and numbers of rows do.
    fn spans(&self, [query, key]: [usize; 2]) -> [Range<usize>; 5] {
        let Shape { heads, kv_heads, width, value, .. } = self.shape;
        [
            self.span(query, heads, width),
            self.span(key, kv_heads, width),
            self.span(key, kv_heads, value),
            self.span(query, heads, value),
            self.span(query, heads, 1),
        ]
    }
}

fn part<'a, D: Memory, E: Element>(of: Ref<'a, D, E>, span: &Range<usize>) -> Ref<'a, D, E> {
    of.part(span.start, span.len())
}

impl<D: Device, S: Shapes, K: Axis, W: Axis, E: Format> Ring<D, S, K, W, E> {
    pub(super) fn new(of: &Ctx<'_, D>) -> Result<Self, StepError> {
        let room = of.room;
        Ok(Self { key: room.take("key that comes round")?, value: room.take("value that comes round")?, sums: None })
    }

    /// The output of all queries, and their log-sum-exp, piece by piece.
    pub(super) fn attend(
        &mut self,
        of: &Ctx<'_, D>,
        own: &Of<'_, D, E>,
        o: Mut<'_, D, E>,
        mut lse: Mut<'_, D, f32>,
    ) -> Result<(), StepError> {
        let (room, device) = (of.room, of.room.device);
        let mut sums: Sums<D, S, E> = Sums {
            all: room.take("sum of attention outputs")?,
            part: room.take("attention output of a piece")?,
            lse: room.take("log-sum-exp of a piece")?,
        };
        device.zero(sums.all.view_mut().raw());
        for round in 0..room.lengths.ring_ranks {
            self.come(of, own, round)?;
            let [_, k, v] = self.qkv(own, round);
            for (places, ahead) in of.pairs(round, own.shape.window) {
                let shape = Shape { ahead, ..own.shape };
                let [q_at, k_at, v_at, o_at, rows] = own.spans(places);
                let inputs = [part(own.qkv[0], &q_at), part(k, &k_at), part(v, &v_at)];
                let mut lse = lse.again().part(rows.start, rows.len());
                let all = sums.all.view_mut().raw().part(o_at.start, o_at.len());
                if ahead == 0 {
                    // Every query sees its own key, and the sink, which is one: it comes first.
                    device.attend(sums.part.view_mut().raw(), lse.again(), inputs, own.sinks, shape);
                    device.add_up(all, sums.part.view().raw());
                } else {
                    device.attend(sums.part.view_mut().raw(), sums.lse.view_mut().raw(), inputs, None, shape);
                    device.merge(all, lse, sums.part.view().raw(), sums.lse.view().raw(), shape);
                }
            }
        }
        device.narrow(o, sums.all.view().raw());
        self.sums = Some(sums);
        Ok(())
    }

    /// The gradients of queries, keys and values; gives what is to be held as long as these.
    pub(super) fn backward(
        &mut self,
        of: &Ctx<'_, D>,
        own: &Of<'_, D, E>,
        known: &Known<'_, D, E>,
        [dq, dk, dv]: [Mut<'_, D, E>; 3],
        mut d_sinks: Option<Mut<'_, D, f32>>,
        delta: Mut<'_, D, f32>,
    ) -> Result<RingGradients<D, S, K, W, E>, StepError> {
        let (device, ranks) = (of.room.device, of.room.lengths.ring_ranks);
        let (mut d, mut delta) = (RingGradients::new(of)?, delta.part(0, own.span(0, own.shape.heads, 1).len()));
        for round in 0..ranks {
            self.come(of, own, round)?;
            let [q, k, v] = self.qkv(own, round);
            for (places, ahead) in of.pairs(round, own.shape.window) {
                let shape = Shape { ahead, ..own.shape };
                let [q_at, k_at, v_at, o_at, rows] = own.spans(places);
                let (d_sinks, sinks) =
                    if ahead == 0 { (d_sinks.as_mut().map(Mut::again), own.sinks) } else { (None, None) };
                device.attend_backward(
                    [d.of_q.view_mut().raw(), d.of_k.view_mut().raw(), d.of_v.view_mut().raw()],
                    d_sinks,
                    delta.again(),
                    part(known.d_o, &o_at),
                    part(known.o, &o_at),
                    part(known.lse, &rows),
                    [part(q, &q_at), part(k, &k_at), part(v, &v_at)],
                    sinks,
                    shape,
                );
                device.add_up(d.q.view_mut().raw().part(q_at.start, q_at.len()), d.of_q.view().raw());
                device.add_up(d.k.view_mut().raw().part(k_at.start, k_at.len()), d.of_k.view().raw());
                device.add_up(d.v.view_mut().raw().part(v_at.start, v_at.len()), d.of_v.view().raw());
            }
            // They go with the keys and values that they are of, and behind the last round home.
            of.comm.shift(device, d.k.view_mut())?;
            of.comm.shift(device, d.v.view_mut())?;
        }
        device.narrow(dq, d.q.view().raw());
        device.narrow(dk, d.k.view().raw());
        device.narrow(dv, d.v.view().raw());
        Ok(d)
    }

    /// Keys and values of a round come from the rank in front, which had them in the last one.
    fn come(&mut self, of: &Ctx<'_, D>, own: &Of<'_, D, E>, round: usize) -> Result<(), StepError> {
        let device = of.room.device;
        if round == 0 {
            return Ok(());
        }
        if round == 1 {
            let [_, k, v] = own.qkv;
            device.copy(self.key.view_mut().raw(), k);
            device.copy(self.value.view_mut().raw(), v);
        }
        of.comm.shift(device, self.key.view_mut())?;
        Ok(of.comm.shift(device, self.value.view_mut())?)
    }

    /// Queries, and the keys and values of a round.
    fn qkv<'a>(&'a self, own: &Of<'a, D, E>, round: usize) -> [Ref<'a, D, E>; 3] {
        if round == 0 { own.qkv } else { [own.qkv[0], self.key.view().raw(), self.value.view().raw()] }
    }
}

impl<D: Device, S: Shapes, K: Axis, W: Axis, E: Format> RingGradients<D, S, K, W, E> {
    fn new(of: &Ctx<'_, D>) -> Result<Self, StepError> {
        let (room, device) = (of.room, of.room.device);
        let mut d = Self {
            q: room.take("sum of query gradients")?,
            k: room.take("key gradient that comes round")?,
            v: room.take("value gradient that comes round")?,
            of_q: room.take("query gradient of a piece")?,
            of_k: room.take("key gradient of a piece")?,
            of_v: room.take("value gradient of a piece")?,
        };
        device.zero(d.q.view_mut().raw());
        device.zero(d.k.view_mut().raw());
        device.zero(d.v.view_mut().raw());
        Ok(d)
    }
}

impl<D: Device> Ctx<'_, D> {
    /// Turns queries or keys by the positions of their tokens, or back.
    pub(super) fn rotate<T, H: Axis, W: Axis, E: Format>(
        &self,
        mut x: ViewMut<'_, D, T, Times<H, W>, E>,
        rotary: usize,
        turn: Turn,
    ) {
        let (n, device) = (self.room.lengths, self.room.device);
        let rope = |start, sequence| Rope {
            theta: self.numerics.rope_theta,
            pairs: self.numerics.rope_pairs,
            start,
            sequence,
        };
        if n.ring_ranks == 1 {
            rope::rotate(device, x, rotary, rope(0, n.keys), turn, n);
            return;
        }
        for (place, start) in (0..n.batch).flat_map(|_| self.starts(self.cp())).enumerate() {
            let piece = x.again().some(place * n.piece, n.piece);
            rope::rotate(device, piece, rotary, rope(start, n.piece), turn, n);
        }
    }
}

impl<D: Memory> Ctx<'_, D> {
    /// The places of pieces of queries, among those of all sequences, and of pieces of keys that they see in a round, and how many
    /// tokens further they are; first of all their own.
    fn pairs(&self, round: usize, window: usize) -> Vec<([usize; 2], usize)> {
        let n = self.room.lengths;
        let owner = (self.cp() + n.ring_ranks - round) % n.ring_ranks;
        let mut pairs = Vec::new();
        for (query, query_start) in self.starts(self.cp()).enumerate() {
            for (key, key_start) in self.starts(owner).enumerate() {
                let Some(ahead) = query_start.checked_sub(key_start) else { continue };
                // The first query is the nearest to the last key.
                if window == 0 || ahead < window + n.piece - 1 {
                    let at = |sequence: usize| [query, key].map(|number| sequence * n.pieces + number);
                    pairs.extend((0..n.batch).map(|sequence| (at(sequence), ahead)));
                }
            }
        }
        pairs.sort_by_key(|(_, ahead)| *ahead);
        pairs
    }
}
