//! Modules for multi-token prediction (DeepSeek-V3, arXiv:2412.19437, section 2.2): behind the head, a layer that reads the
//! next token's embedding beside the hidden state, and predicts one token further, through the model's own head.

use super::context::Context as Ctx;
use super::ends::{Embedding, Exit, Ids};
use super::gradients::Gradients;
use super::layer::Layer;
use super::params::{Maker, Param, Visit, Visitor, visit_fields};
use crate::device::{Device, Element, Format, Memory};
use crate::ops::elementwise::{self, Columns};
use crate::ops::gemm::{self, Into};
use crate::ops::{embedding, rms_norm};
use crate::shapes::{Context, One, Plus, Shapes, Shard, Tokens};
use crate::tensor::{StepError, Tensor};
use crate::{View, ViewMut};
use moe_model_core::inventory::Module;

/// Two hidden states side by side.
type Twice<S> = Plus<<S as Shapes>::Hidden, <S as Shapes>::Hidden>;

/// The weights of a module; embedding and head are the model's.
pub(super) struct Mtp<D: Memory, S: Shapes, E: Element> {
    pub(super) entrance: Entrance<D, S, E>,
    pub(super) layer: Layer<D, S, E>,
    pub(super) exit: Exit<D, S, E>,
}

/// What it has in front of its layer.
pub(super) struct Entrance<D: Memory, S: Shapes, E: Element> {
    projection: Param<D, Shard<S::Hidden>, Twice<S>, E>,
    token_norm: Param<D, S::Hidden, One, E>,
    hidden_norm: Param<D, S::Hidden, One, E>,
    /// Which of the modules it is, from 1: how many tokens further it looks.
    pub(super) depth: usize,
}

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Mtp<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        visit_fields!(self, visitor: entrance, exit, layer)
    }
}

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Entrance<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        visit_fields!(self, visitor: projection, token_norm, hidden_norm)
    }
}

/// What a module keeps beside what its layer and its head do.
pub(super) struct Kept<D: Memory, S: Shapes, E: Element> {
    /// The tokens that it looks ahead to, where those of this rank's last tokens are another's.
    next: Option<Ids<D>>,
    embedding: Tensor<D, Tokens, S::Hidden, E>,
    token_rows: Tensor<D, Tokens, One, f32>,
    hidden_rows: Tensor<D, Tokens, One, f32>,
}

/// The hidden state that a module reads: what a norm makes of the residual stream, made again where it is needed.
pub(super) struct Hidden<'a, D: Memory, S: Shapes, E: Element> {
    pub(super) norm: &'a Param<D, S::Hidden, One, E>,
    pub(super) x: View<'a, D, Tokens, S::Hidden, E>,
    pub(super) rows: View<'a, D, Tokens, One, f32>,
}

/// What a module works on in both directions.
struct Works<D: Memory, S: Shapes, E: Element> {
    hidden: Tensor<D, Tokens, S::Hidden, E>,
    half: Tensor<D, Tokens, S::Hidden, E>,
    input: Tensor<D, Tokens, Twice<S>, E>,
    /// Of tensor-parallel ranks, which share the rows of the projection.
    shared: Option<SharedWorks<D, S, E>>,
    embedding: Option<Tensor<D, Context, S::Hidden, E>>,
}

struct SharedWorks<D: Memory, S: Shapes, E: Element> {
    input: Tensor<D, Context, Twice<S>, E>,
    columns: Tensor<D, Context, Shard<S::Hidden>, E>,
    output: Tensor<D, Context, S::Hidden, E>,
}

impl<D: Device, S: Shapes, E: Format> Works<D, S, E> {
    fn new(of: &Ctx<'_, D>) -> Result<Self, StepError> {
        let room = of.room;
        Ok(Self {
            hidden: room.take("entrance hidden")?,
            half: room.take("entrance half")?,
            input: room.take("entrance input")?,
            shared: if room.lengths.tensor_ranks > 1 {
                Some(SharedWorks {
                    input: room.take("entrance input of all tokens")?,
                    columns: room.take("entrance columns")?,
                    output: room.take("entrance output of all tokens")?,
                })
            } else {
                None
            },
            embedding: if of.gathers() { Some(room.take("gathered embedding")?) } else { None },
        })
    }
}

impl<D: Device, S: Shapes, E: Format> Mtp<D, S, E> {
    pub(super) fn new(make: &mut Maker<'_, D>, layer: Layer<D, S, E>, depth: usize) -> Result<Self, StepError> {
        const MTP: Module = Module::Mtp;
        // The embedding's table and a norm that its block reads come first among what that has.
        make.block(make.table() + make.lengths().hidden);
        let entrance = Entrance {
            projection: make.weight(MTP, "eh_proj.weight")?,
            token_norm: make.weight(MTP, "enorm.weight")?,
            hidden_norm: make.weight(MTP, "hnorm.weight")?,
            depth,
        };
        Ok(Self { entrance, exit: Exit::new(make, MTP, "shared_head.norm.weight")?, layer })
    }
}

impl<D: Device, S: Shapes, E: Format> Entrance<D, S, E> {
    /// The input of the module's layer.
    pub(super) fn forward(
        &self,
        of: &Ctx<'_, D>,
        table: &Embedding<D, S, E>,
        (ids, next): (&Ids<D>, impl FnOnce(&mut [i64])),
        hidden: &Hidden<'_, D, S, E>,
    ) -> Result<(Kept<D, S, E>, Tensor<D, Tokens, S::Hidden, E>), StepError> {
        let (room, n) = (of.room, of.room.lengths);
        let mut kept = Kept {
            next: if of.has_pieces() { Some(room.take("next token ids")?) } else { None },
            embedding: room.take("next token embedding")?,
            token_rows: room.take("next token norm statistics")?,
            hidden_rows: room.take("hidden norm statistics")?,
        };
        let mut works = Works::new(of)?;
        if let Some(ids) = &mut kept.next {
            room.device.write(ids.view_mut().raw(), |out| of.own_tokens(out, next));
        }
        let ids = self.ahead(ids, kept.next.as_ref());
        of.made_sum(&mut kept.embedding, works.embedding.as_mut(), |out| embed(of, out, table, ids))?;
        of.norm(&self.token_norm).statistics(of, kept.token_rows.view_mut(), kept.embedding.view());
        of.norm(hidden.norm).forward(of, works.hidden.view_mut(), hidden.x, hidden.rows);
        of.norm(&self.hidden_norm).statistics(of, kept.hidden_rows.view_mut(), works.hidden.view());
        self.input(of, &kept, &mut works);
        let mut output: Tensor<D, Tokens, S::Hidden, E> = room.take("entrance output")?;
        if let Some(shared) = &mut works.shared {
            of.gather(shared.input.view_mut(), works.input.view())?;
            let (columns, input) = (shared.columns.view_mut(), shared.input.view());
            gemm::forward(room.device, columns, input, self.projection.view(), Into::Set);
            of.comm.gather_columns(room.device, shared.output.view_mut(), shared.columns.view(), n)?;
            of.comm.own_tokens(room.device, output.view_mut(), shared.output.view(), n);
        } else {
            let output = output.view_mut().reshaped::<Tokens, Shard<S::Hidden>>(n);
            gemm::forward(room.device, output, works.input.view(), self.projection.view(), Into::Set);
        }
        Ok((kept, output))
    }

    /// The tokens so many further, and behind them, where there are none, those that are there, which nothing is predicted from.
    fn ahead<'v>(&self, ids: &'v Ids<D>, next: Option<&'v Ids<D>>) -> [IdView<'v, D>; 2] {
        if let Some(next) = next {
            return [next.view(), next.view().some(next.rows(), 0)];
        }
        let (ids, rows) = (ids.view(), ids.rows());
        let ahead = self.depth.min(rows);
        [ids.some(ahead, rows - ahead), ids.some(rows - ahead, ahead)]
    }

    /// Both norms' outputs, side by side.
    fn input(&self, of: &Ctx<'_, D>, kept: &Kept<D, S, E>, works: &mut Works<D, S, E>) {
        let Works { hidden, half, input, .. } = works;
        of.norm(&self.token_norm).forward(of, half.view_mut(), kept.embedding.view(), kept.token_rows.view());
        side(of, input.view_mut(), half.view(), 0);
        of.norm(&self.hidden_norm).forward(of, half.view_mut(), hidden.view(), kept.hidden_rows.view());
        side(of, input.view_mut(), half.view(), 1);
    }

    /// The gradient of the layer's input becomes that of the hidden state.
    pub(super) fn backward(
        &self,
        of: &Ctx<'_, D>,
        gradients: &mut Gradients<D>,
        (table, ids): (&Embedding<D, S, E>, &Ids<D>),
        hidden: &Hidden<'_, D, S, E>,
        kept: &Kept<D, S, E>,
        residual: &mut Tensor<D, Tokens, S::Hidden, E>,
    ) -> Result<(), StepError> {
        let (device, n) = (of.room.device, of.room.lengths);
        let ids = self.ahead(ids, kept.next.as_ref());
        let mut works = Works::new(of)?;
        of.norm(hidden.norm).forward(of, works.hidden.view_mut(), hidden.x, hidden.rows);
        self.input(of, kept, &mut works);
        if let Some(shared) = &mut works.shared {
            of.gather(shared.input.view_mut(), works.input.view())?;
            of.gather(shared.output.view_mut(), residual.view())?;
            of.comm.own_columns(device, shared.columns.view_mut(), shared.output.view());
            gemm::weight(device, gradients.of(&self.projection), shared.columns.view(), shared.input.view());
            let (d_input, columns) = (shared.input.view_mut(), shared.columns.view());
            gemm::input(device, d_input, columns, self.projection.view(), Into::Set);
            of.reduce(works.input.view_mut(), shared.input.view_mut())?;
        } else {
            let dy = residual.view().reshaped::<Tokens, Shard<S::Hidden>>(n);
            gemm::weight(device, gradients.of(&self.projection), dy, works.input.view());
            gemm::input(device, works.input.view_mut(), dy, self.projection.view(), Into::Set);
        }
        half(of, works.half.view_mut(), works.input.view(), 0);
        let (dw, rows) = (gradients.of(&self.token_norm), kept.token_rows.view());
        let weight = self.token_norm.view();
        rms_norm::backward_in_place(device, works.half.view_mut(), dw, kept.embedding.view(), rows, weight);
        match &mut works.embedding {
            Some(all) => {
                of.comm.gather(device, all.view_mut(), works.half.view(), n)?;
                embed_backward(of, gradients, table, ids, all.view());
            }
            None => embed_backward(of, gradients, table, ids, works.half.view().reshaped(n)),
        }
        half(of, residual.view_mut(), works.input.view(), 1);
        let (dw, rows) = (gradients.of(&self.hidden_norm), kept.hidden_rows.view());
        let weight = self.hidden_norm.view();
        rms_norm::backward_in_place(device, residual.view_mut(), dw, works.hidden.view(), rows, weight);
        Ok(())
    }
}

/// Token ids that a module looks at.
type IdView<'v, D> = View<'v, D, Context, One, i64>;

/// Rows of the table for tokens, behind one another.
fn embed<D: Device, S: Shapes, E: Format>(
    of: &Ctx<'_, D>,
    mut out: ViewMut<'_, D, Context, S::Hidden, E>,
    table: &Embedding<D, S, E>,
    ids: [IdView<'_, D>; 2],
) {
    let (mut first, part) = (0, of.first_row());
    for ids in ids.into_iter().filter(|ids| ids.rows() > 0) {
        let out = out.again().some(first, ids.rows());
        embedding::forward(of.room.device, out, ids, table.table.view(), part);
        first += ids.rows();
    }
}

/// Their gradients.
fn embed_backward<D: Device, S: Shapes, E: Format>(
    of: &Ctx<'_, D>,
    gradients: &mut Gradients<D>,
    table: &Embedding<D, S, E>,
    ids: [IdView<'_, D>; 2],
    dx: View<'_, D, Context, S::Hidden, E>,
) {
    let (mut first, part) = (0, of.first_row());
    for ids in ids.into_iter().filter(|ids| ids.rows() > 0) {
        let dx = dx.some(first, ids.rows());
        embedding::backward(of.room.device, gradients.of(&table.table), ids, dx, part);
        first += ids.rows();
    }
}

/// One of two hidden states side by side.
fn half<D: Device, H, E: Format>(
    of: &Ctx<'_, D>,
    out: ViewMut<'_, D, Tokens, H, E>,
    both: View<'_, D, Tokens, Plus<H, H>, E>,
    number: usize,
) {
    let width = out.width();
    let from = Columns { all: both.width(), first: number * width };
    elementwise::copy_columns(of.room.device, out, Columns { all: width, first: 0 }, both, from);
}

/// Becomes one of two side by side.
fn side<D: Device, H, E: Format>(
    of: &Ctx<'_, D>,
    both: ViewMut<'_, D, Tokens, Plus<H, H>, E>,
    half: View<'_, D, Tokens, H, E>,
    number: usize,
) {
    let width = half.width();
    let to = Columns { all: both.width(), first: number * width };
    elementwise::copy_columns(of.room.device, both, to, half, Columns { all: width, first: 0 });
}
