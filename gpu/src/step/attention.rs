//! Attention blocks: norm, projections of grouped-query or latent attention, attention itself, and the way back.

mod attend;

use super::context::{Context as Ctx, NormOutput, Passing};
use super::gradients::Gradients;
use super::params::{Maker, Param, Visit, Visitor, visit_fields};
use super::trade::Around;
use crate::device::{Device, Element, Format, Memory};
use crate::ops::gemm::{self, Into};
use crate::ops::{elementwise, rms_norm};
use crate::shapes::{Axis, Context, One, Plus, Shapes, Times, Tokens};
use crate::tensor::{StepError, Tensor};
use crate::{View, ViewMut};
use attend::Core;
use moe_model_core::inventory::{Block, Module};
use moe_model_core::spec::{self, Architecture};

const MODULE: Module = Module::Attention;

/// The weights of an attention block.
pub(super) struct Attention<D: Memory, S: Shapes, E: Element> {
    norm: Param<D, S::Hidden, One, E>,
    heads: Heads<D, S, E>,
    window: usize,
}

/// How queries, keys and values are made.
enum Heads<D: Memory, S: Shapes, E: Element> {
    Gqa(Gqa<D, S, E>),
    Mla(Mla<D, S, E>),
}

struct Gqa<D: Memory, S: Shapes, E: Element> {
    q: Param<D, Times<S::Heads, S::QueryKey>, S::Hidden, E>,
    k: Param<D, Times<S::KvHeads, S::QueryKey>, S::Hidden, E>,
    v: Param<D, Times<S::KvHeads, S::Value>, S::Hidden, E>,
    o: Param<D, S::Hidden, Times<S::Heads, S::Value>, E>,
    q_bias: Option<Param<D, Times<S::Heads, S::QueryKey>, One, E>>,
    k_bias: Option<Param<D, Times<S::KvHeads, S::QueryKey>, One, E>>,
    v_bias: Option<Param<D, Times<S::KvHeads, S::Value>, One, E>>,
    o_bias: Option<Param<D, S::Hidden, One, E>>,
    q_norm: Option<Param<D, S::QueryKey, One, E>>,
    k_norm: Option<Param<D, S::QueryKey, One, E>>,
    sinks: Option<Param<D, S::Heads, One, E>>,
}

/// Width of a query or key head under latent attention: without and with position.
type Wide<S> = Plus<<S as Shapes>::Nope, <S as Shapes>::Rope>;
/// What the key/value latent is projected up to: keys without position, values.
type Up<S> = Plus<<S as Shapes>::Nope, <S as Shapes>::Value>;
/// What hidden states are projected down to: the latent, and the rotary key of all heads.
type Down<S> = Plus<<S as Shapes>::KvRank, <S as Shapes>::Rope>;

struct Mla<D: Memory, S: Shapes, E: Element> {
    queries: Queries<D, S, E>,
    down: Param<D, Down<S>, S::Hidden, E>,
    latent_norm: Param<D, S::KvRank, One, E>,
    up: Param<D, Times<S::Heads, Up<S>>, S::KvRank, E>,
    o: Param<D, S::Hidden, Times<S::Heads, S::Value>, E>,
}

enum Queries<D: Memory, S: Shapes, E: Element> {
    Straight(Param<D, Times<S::Heads, Wide<S>>, S::Hidden, E>),
    Latent {
        down: Param<D, S::QRank, S::Hidden, E>,
        norm: Param<D, S::QRank, One, E>,
        up: Param<D, Times<S::Heads, Wide<S>>, S::QRank, E>,
    },
}

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Attention<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        match &mut self.heads {
            Heads::Gqa(gqa) => gqa.visit(visitor)?,
            Heads::Mla(mla) => mla.visit(visitor)?,
        }
        self.norm.visit(visitor)
    }
}

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Gqa<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        visit_fields!(self, visitor: q, k, v, o, q_bias, k_bias, v_bias, o_bias, q_norm, k_norm, sinks)
    }
}

impl<D: Memory, S: Shapes, E: Element> Visit<D, E> for Mla<D, S, E> {
    fn visit(&mut self, visitor: &mut dyn Visitor<D, E>) -> Result<(), StepError> {
        match &mut self.queries {
            Queries::Straight(q) => q.visit(visitor)?,
            Queries::Latent { down, norm, up } => {
                down.visit(visitor)?;
                norm.visit(visitor)?;
                up.visit(visitor)?;
            }
        }
        visit_fields!(self, visitor: down, latent_norm, up, o)
    }
}

impl<D: Memory, S: Shapes, E: Element> Attention<D, S, E> {
    /// The weights of a layer's attention.
    pub(super) fn new(make: &mut Maker<'_, D>, architecture: &Architecture, layer: u64) -> Result<Self, StepError> {
        make.block(0);
        let heads = match &architecture.attention {
            spec::Attention::Gqa(gqa) => Heads::Gqa(Gqa::new(make, gqa)?),
            spec::Attention::Mla(mla) => Heads::Mla(Mla::new(make, mla)?),
            spec::Attention::Compressed(_) => {
                return Err(StepError::Other("the step has no compressed attention".to_owned()));
            }
        };
        let norm = make.weight(Module::Norm, "input_layernorm.weight")?;
        Ok(Self { norm, heads, window: window(architecture, layer) })
    }
}

/// Tokens that a layer looks back at, 0 for all of them.
fn window(architecture: &Architecture, layer: u64) -> usize {
    match &architecture.attention {
        spec::Attention::Gqa(gqa) => {
            let is_full = gqa.full_every > 0 && (layer + 1).is_multiple_of(gqa.full_every);
            if is_full { 0 } else { usize::try_from(gqa.window).unwrap_or(0) }
        }
        _ => 0,
    }
}

impl<D: Memory, S: Shapes, E: Element> Gqa<D, S, E> {
    fn new(make: &mut Maker<'_, D>, of: &spec::Gqa) -> Result<Self, StepError> {
        let (qkv, all) = (!matches!(of.bias, spec::Bias::None), matches!(of.bias, spec::Bias::All));
        let norms = !matches!(of.qk_norm, spec::QkNorm::None);
        Ok(Self {
            q: make.weight(MODULE, "self_attn.q_proj.weight")?,
            k: make.weight(MODULE, "self_attn.k_proj.weight")?,
            v: make.weight(MODULE, "self_attn.v_proj.weight")?,
            o: make.weight(MODULE, "self_attn.o_proj.weight")?,
            q_bias: make.weight_if(qkv, MODULE, "self_attn.q_proj.bias")?,
            k_bias: make.weight_if(qkv, MODULE, "self_attn.k_proj.bias")?,
            v_bias: make.weight_if(qkv, MODULE, "self_attn.v_proj.bias")?,
            o_bias: make.weight_if(all, MODULE, "self_attn.o_proj.bias")?,
            q_norm: make.weight_if(norms, Module::Norm, "self_attn.q_norm.weight")?,
            k_norm: make.weight_if(norms, Module::Norm, "self_attn.k_norm.weight")?,
            sinks: make.weight_if(of.sinks.is_on(), MODULE, "self_attn.sinks")?,
        })
    }
}

impl<D: Memory, S: Shapes, E: Element> Mla<D, S, E> {
    fn new(make: &mut Maker<'_, D>, of: &spec::Mla) -> Result<Self, StepError> {
        let queries = if of.q_rank == 0 {
            Queries::Straight(make.weight(MODULE, "self_attn.q_proj.weight")?)
        } else {
            Queries::Latent {
                down: make.weight(MODULE, "self_attn.q_a_proj.weight")?,
                norm: make.weight(Module::Norm, "self_attn.q_a_layernorm.weight")?,
                up: make.weight(MODULE, "self_attn.q_b_proj.weight")?,
            }
        };
        Ok(Self {
            queries,
            down: make.weight(MODULE, "self_attn.kv_a_proj_with_mqa.weight")?,
            latent_norm: make.weight(Module::Norm, "self_attn.kv_a_layernorm.weight")?,
            up: make.weight(MODULE, "self_attn.kv_b_proj.weight")?,
            o: make.weight(MODULE, "self_attn.o_proj.weight")?,
        })
    }
}

/// What an attention block keeps beside its input.
pub(super) struct Kept<D: Memory, S: Shapes, E: Element> {
    statistics: Tensor<D, Tokens, One, f32>,
    heads: KeptHeads<D, S, E>,
}

enum KeptHeads<D: Memory, S: Shapes, E: Element> {
    Gqa { core: Core<D, S, S::KvHeads, S::QueryKey, E>, norms: Option<KeptNorms<D, S, E>> },
    Mla { core: Core<D, S, S::Heads, Wide<S>, E>, latents: KeptLatents<D, S, E> },
}

/// Queries and keys before their norms.
struct KeptNorms<D: Memory, S: Shapes, E: Element> {
    q: Tensor<D, Context, Times<S::Heads, S::QueryKey>, E>,
    k: Tensor<D, Context, Times<S::KvHeads, S::QueryKey>, E>,
    q_statistics: Tensor<D, Times<Context, S::Heads>, One, f32>,
    k_statistics: Tensor<D, Times<Context, S::KvHeads>, One, f32>,
}

struct KeptLatents<D: Memory, S: Shapes, E: Element> {
    query: Option<(Tensor<D, Context, S::QRank, E>, Tensor<D, Context, One, f32>)>,
    latent: Tensor<D, Context, S::KvRank, E>,
    statistics: Tensor<D, Context, One, f32>,
}

/// What a block works on in both directions.
struct Works<D: Memory, S: Shapes, E: Element> {
    norm: NormOutput<D, S, E>,
    /// Of grouped-query attention.
    around: Around<D, S, S::KvHeads, S::QueryKey, E>,
    latents: Option<Latents<D, S, E>>,
}

struct Latents<D: Memory, S: Shapes, E: Element> {
    query: Option<Tensor<D, Context, S::QRank, E>>,
    latent: Tensor<D, Context, S::KvRank, E>,
    down: Tensor<D, Context, Down<S>, E>,
    up: Tensor<D, Context, Times<S::Heads, Up<S>>, E>,
    around: Around<D, S, S::Heads, Wide<S>, E>,
}

impl<D: Device, S: Shapes, E: Format> Works<D, S, E> {
    fn new(of: &Ctx<'_, D>, weights: &Heads<D, S, E>) -> Result<Self, StepError> {
        let room = of.room;
        let norm = NormOutput::new(of, "attention norm output")?;
        let (around, latents) = match weights {
            Heads::Gqa(_) => (Around::new(of)?, None),
            Heads::Mla(mla) => (
                Around::Nothing,
                Some(Latents {
                    query: match mla.queries {
                        Queries::Straight(_) => None,
                        Queries::Latent { .. } => Some(room.take("query latent norm output")?),
                    },
                    latent: room.take("key/value latent norm output")?,
                    down: room.take("key/value down-projection")?,
                    up: room.take("key/value up-projection")?,
                    around: Around::new(of)?,
                }),
            ),
        };
        Ok(Self { norm, around, latents })
    }
}

/// The input of a block, as the residual stream has it.
type Input<'a, D, S, E> = View<'a, D, Tokens, <S as Shapes>::Hidden, E>;

impl<D: Device, S: Shapes, E: Format> Attention<D, S, E> {
    /// Runs the block; gives what it keeps, and its output.
    pub(super) fn forward(
        &self,
        of: &Ctx<'_, D>,
        x: Input<'_, D, S, E>,
    ) -> Result<(Kept<D, S, E>, Tensor<D, Tokens, S::Hidden, E>), StepError> {
        let (room, device, n) = (of.room, of.room.device, of.room.lengths);
        let mut works = Works::new(of, &self.heads)?;
        let kept = self.attend(of, x, &mut works)?;
        let mut result: Tensor<D, Context, S::Hidden, E> = room.take("attention result")?;
        let mut output: Tensor<D, Tokens, S::Hidden, E> = room.take("attention block output")?;
        let (o, weight, bias) = match (&kept.heads, &self.heads) {
            (KeptHeads::Gqa { core, .. }, Heads::Gqa(gqa)) => (core.output(n), &gqa.o, gqa.o_bias.as_ref()),
            (KeptHeads::Mla { core, .. }, Heads::Mla(mla)) => (core.output(n), &mla.o, None),
            _ => unreachable!("what is kept is of the same kind as its weights"),
        };
        gemm::forward(device, result.view_mut(), o, weight.view(), Into::Set);
        of.reduce(output.view_mut(), result.view_mut())?;
        if let Some(bias) = bias {
            gemm::add_bias(device, output.view_mut(), bias.view());
        }
        elementwise::add(device, output.view_mut(), x);
        Ok((kept, output))
    }

    /// Everything up to attention's output.
    fn attend(
        &self,
        of: &Ctx<'_, D>,
        x: Input<'_, D, S, E>,
        works: &mut Works<D, S, E>,
    ) -> Result<Kept<D, S, E>, StepError> {
        let mut statistics: Tensor<D, Tokens, One, f32> = of.room.take("attention norm statistics")?;
        let norm = of.norm(&self.norm);
        norm.statistics(of, statistics.view_mut(), x);
        works.norm.fill(of, &norm, x, statistics.view())?;
        let heads = match &self.heads {
            Heads::Gqa(gqa) => self.attend_gqa(of, gqa, &works.norm, &mut works.around)?,
            Heads::Mla(mla) => {
                let latents = works.latents.as_mut().expect("latent attention works on latents");
                Self::attend_mla(of, mla, &works.norm, latents)?
            }
        };
        Ok(Kept { statistics, heads })
    }

    fn attend_gqa(
        &self,
        of: &Ctx<'_, D>,
        gqa: &Gqa<D, S, E>,
        input: &NormOutput<D, S, E>,
        around: &mut Around<D, S, S::KvHeads, S::QueryKey, E>,
    ) -> Result<KeptHeads<D, S, E>, StepError> {
        let (n, x) = (of.room.lengths, input.view());
        let mut core = Core::<D, S, S::KvHeads, S::QueryKey, E>::new(of)?;
        let own = core.own(around, n);
        project(of, own.v, x, &gqa.v, gqa.v_bias.as_ref());
        let norms = if let (Some(q_norm), Some(k_norm)) = (&gqa.q_norm, &gqa.k_norm) {
            let mut kept = KeptNorms {
                q: of.room.take("query before its norm")?,
                k: of.room.take("key before its norm")?,
                q_statistics: of.room.take("query norm statistics")?,
                k_statistics: of.room.take("key norm statistics")?,
            };
            project(of, kept.q.view_mut(), x, &gqa.q, gqa.q_bias.as_ref());
            project(of, kept.k.view_mut(), x, &gqa.k, gqa.k_bias.as_ref());
            let q_norm = of.norm(q_norm);
            let k_norm = of.norm(k_norm);
            let (q, k) = (kept.q.view().reshaped(n), kept.k.view().reshaped(n));
            q_norm.statistics(of, kept.q_statistics.view_mut(), q);
            k_norm.statistics(of, kept.k_statistics.view_mut(), k);
            q_norm.forward(of, own.q.reshaped(n), q, kept.q_statistics.view());
            k_norm.forward(of, own.k.reshaped(n), k, kept.k_statistics.view());
            Some(kept)
        } else {
            project(of, own.q, x, &gqa.q, gqa.q_bias.as_ref());
            project(of, own.k, x, &gqa.k, gqa.k_bias.as_ref());
            None
        };
        core.forward(of, around, S::QueryKey::len(n), gqa.sinks.as_ref(), self.window)?;
        Ok(KeptHeads::Gqa { core, norms })
    }

    fn attend_mla(
        of: &Ctx<'_, D>,
        mla: &Mla<D, S, E>,
        input: &NormOutput<D, S, E>,
        works: &mut Latents<D, S, E>,
    ) -> Result<KeptHeads<D, S, E>, StepError> {
        let (room, device, n, x) = (of.room, of.room.device, of.room.lengths, input.view());
        let mut core = Core::<D, S, S::Heads, Wide<S>, E>::new(of)?;
        let mut own = core.own(&mut works.around, n);
        let query = match &mla.queries {
            Queries::Straight(q) => {
                gemm::forward(device, own.q, x, q.view(), Into::Set);
                None
            }
            Queries::Latent { down, norm, up } => {
                let mut latent: Tensor<D, Context, S::QRank, E> = room.take("query latent")?;
                let mut statistics: Tensor<D, Context, One, f32> = room.take("query latent statistics")?;
                gemm::forward(device, latent.view_mut(), x, down.view(), Into::Set);
                let norm = of.norm(norm);
                norm.statistics(of, statistics.view_mut(), latent.view());
                let normed = works.query.as_mut().expect("a query latent has a norm");
                norm.forward(of, normed.view_mut(), latent.view(), statistics.view());
                gemm::forward(device, own.q, normed.view(), up.view(), Into::Set);
                Some((latent, statistics))
            }
        };
        let mut latent: Tensor<D, Context, S::KvRank, E> = room.take("key/value latent")?;
        let mut statistics: Tensor<D, Context, One, f32> = room.take("key/value latent statistics")?;
        gemm::forward(device, works.down.view_mut(), x, mla.down.view(), Into::Set);
        elementwise::first_columns(device, latent.view_mut(), works.down.view());
        let norm = of.norm(&mla.latent_norm);
        norm.statistics(of, statistics.view_mut(), latent.view());
        norm.forward(of, works.latent.view_mut(), latent.view(), statistics.view());
        gemm::forward(device, works.up.view_mut(), works.latent.view(), mla.up.view(), Into::Set);
        elementwise::split_heads(device, own.k.again(), own.v, works.up.view(), n);
        elementwise::share_head(device, own.k, works.down.view(), n);
        core.forward(of, &mut works.around, S::Rope::len(n), None, 0)?;
        Ok(KeptHeads::Mla { core, latents: KeptLatents { query, latent, statistics } })
    }

    /// The way back: the gradient of the block's output becomes that of its input.
    pub(super) fn backward(
        &self,
        of: &Ctx<'_, D>,
        gradients: &mut Gradients<D>,
        x: Input<'_, D, S, E>,
        kept: Option<Kept<D, S, E>>,
        residual: &mut Tensor<D, Tokens, S::Hidden, E>,
    ) -> Result<(), StepError> {
        let mut works = Works::new(of, &self.heads)?;
        let norm = of.norm(&self.norm);
        let kept = match kept {
            Some(kept) => {
                works.norm.fill(of, &norm, x, kept.statistics.view())?;
                self.refill(of, &kept, &mut works);
                kept
            }
            None => self.attend(of, x, &mut works)?,
        };
        let mut passing = Passing::<D, S, E>::new(of, residual.view())?;
        let dy = passing.all(residual.view(), of.room.lengths);
        let mut d_input: Tensor<D, Context, S::Hidden, E> = of.room.take("attention input gradient")?;
        match (&kept.heads, &self.heads) {
            (KeptHeads::Gqa { core, norms }, Heads::Gqa(gqa)) => {
                let kept = (core, norms.as_ref());
                let (x, around) = (works.norm.view(), &mut works.around);
                self.backward_gqa(of, gradients, gqa, kept, x, around, dy, d_input.view_mut())?;
            }
            (KeptHeads::Mla { core, latents }, Heads::Mla(mla)) => {
                let works_on = works.latents.as_mut().expect("latent attention works on latents");
                let kept = (core, latents);
                Self::backward_mla(of, gradients, mla, kept, works.norm.view(), works_on, dy, d_input.view_mut())?;
            }
            _ => unreachable!("what is kept is of the same kind as its weights"),
        }
        passing.back_through_norm(of, gradients, &norm, residual, d_input.view_mut(), x, kept.statistics.view())
    }

    /// What norms of latents made, once more.
    fn refill(&self, of: &Ctx<'_, D>, kept: &Kept<D, S, E>, works: &mut Works<D, S, E>) {
        let (Heads::Mla(mla), KeptHeads::Mla { latents, .. }, Some(works)) =
            (&self.heads, &kept.heads, &mut works.latents)
        else {
            return;
        };
        if let (Queries::Latent { norm, .. }, Some((latent, statistics)), Some(normed)) =
            (&mla.queries, &latents.query, &mut works.query)
        {
            let norm = of.norm(norm);
            norm.forward(of, normed.view_mut(), latent.view(), statistics.view());
        }
        let norm = of.norm(&mla.latent_norm);
        norm.forward(of, works.latent.view_mut(), latents.latent.view(), latents.statistics.view());
    }

    #[allow(clippy::too_many_arguments)] // what it reads and writes
    fn backward_gqa(
        &self,
        of: &Ctx<'_, D>,
        gradients: &mut Gradients<D>,
        gqa: &Gqa<D, S, E>,
        (core, norms): (&Core<D, S, S::KvHeads, S::QueryKey, E>, Option<&KeptNorms<D, S, E>>),
        x: View<'_, D, Context, S::Hidden, E>,
        around: &mut Around<D, S, S::KvHeads, S::QueryKey, E>,
        dy: View<'_, D, Context, S::Hidden, E>,
        mut dx: ViewMut<'_, D, Context, S::Hidden, E>,
    ) -> Result<(), StepError> {
        let (device, n) = (of.room.device, of.room.lengths);
        if let Some(bias) = &gqa.o_bias {
            gemm::bias(device, gradients.of(bias), dy);
        }
        let mut d = core.backward(of, gradients, &gqa.o, gqa.sinks.as_ref(), dy, self.window, around)?;
        let mut d = d.back(of, S::QueryKey::len(n), around)?;
        if let (Some(kept), Some(q_norm), Some(k_norm)) = (norms, &gqa.q_norm, &gqa.k_norm) {
            let (q, k) = (d.q.again().reshaped(n), d.k.again().reshaped(n));
            let (q_rows, k_rows) = (kept.q_statistics.view(), kept.k_statistics.view());
            let (q_in, k_in) = (kept.q.view().reshaped(n), kept.k.view().reshaped(n));
            rms_norm::backward_in_place(device, q, gradients.of(q_norm), q_in, q_rows, q_norm.view());
            rms_norm::backward_in_place(device, k, gradients.of(k_norm), k_in, k_rows, k_norm.view());
        }
        unproject(of, gradients, dx.again(), d.q.view(), x, (&gqa.q, gqa.q_bias.as_ref()), Into::Set);
        unproject(of, gradients, dx.again(), d.k.view(), x, (&gqa.k, gqa.k_bias.as_ref()), Into::Add);
        unproject(of, gradients, dx, d.v.view(), x, (&gqa.v, gqa.v_bias.as_ref()), Into::Add);
        Ok(())
    }

    #[allow(clippy::too_many_arguments)] // what it reads and writes
    fn backward_mla(
        of: &Ctx<'_, D>,
        gradients: &mut Gradients<D>,
        mla: &Mla<D, S, E>,
        (core, latents): (&Core<D, S, S::Heads, Wide<S>, E>, &KeptLatents<D, S, E>),
        x: View<'_, D, Context, S::Hidden, E>,
        works: &mut Latents<D, S, E>,
        dy: View<'_, D, Context, S::Hidden, E>,
        mut dx: ViewMut<'_, D, Context, S::Hidden, E>,
    ) -> Result<(), StepError> {
        let (room, device, n) = (of.room, of.room.device, of.room.lengths);
        let mut d = core.backward(of, gradients, &mla.o, None, dy, 0, &mut works.around)?;
        let d = d.back(of, S::Rope::len(n), &mut works.around)?;
        // Keys and values.
        elementwise::join_heads(device, works.up.view_mut(), d.k.view(), d.v.view(), n);
        gemm::weight(device, gradients.of(&mla.up), works.up.view(), works.latent.view());
        let mut d_latent: Tensor<D, Context, S::KvRank, E> = room.take("key/value latent gradient")?;
        gemm::input(device, d_latent.view_mut(), works.up.view(), mla.up.view(), Into::Set);
        let rows = latents.statistics.view();
        let (latent, weight) = (latents.latent.view(), mla.latent_norm.view());
        rms_norm::backward_in_place(device, d_latent.view_mut(), gradients.of(&mla.latent_norm), latent, rows, weight);
        elementwise::set_first_columns(device, works.down.view_mut(), d_latent.view());
        elementwise::gather_head(device, works.down.view_mut(), d.k.view(), n);
        gemm::weight(device, gradients.of(&mla.down), works.down.view(), x);
        gemm::input(device, dx.again(), works.down.view(), mla.down.view(), Into::Set);
        // Queries.
        match (&mla.queries, &latents.query) {
            (Queries::Latent { down, norm, up }, Some((latent, statistics))) => {
                let normed = works.query.as_ref().expect("a query latent has a norm");
                let mut d_latent: Tensor<D, Context, S::QRank, E> = room.take("query latent gradient")?;
                gemm::weight(device, gradients.of(up), d.q.view(), normed.view());
                gemm::input(device, d_latent.view_mut(), d.q.view(), up.view(), Into::Set);
                let (latent, rows, weight) = (latent.view(), statistics.view(), norm.view());
                rms_norm::backward_in_place(device, d_latent.view_mut(), gradients.of(norm), latent, rows, weight);
                gemm::weight(device, gradients.of(down), d_latent.view(), x);
                gemm::input(device, dx, d_latent.view(), down.view(), Into::Add);
            }
            (Queries::Straight(q), _) => {
                gemm::weight(device, gradients.of(q), d.q.view(), x);
                gemm::input(device, dx, d.q.view(), q.view(), Into::Add);
            }
            _ => unreachable!("a query latent is kept"),
        }
        Ok(())
    }
}

/// A linear layer that may have a bias.
fn project<D: Device, T, N, K, C, E: Format>(
    of: &Ctx<'_, D>,
    mut y: ViewMut<'_, D, T, N, E>,
    x: View<'_, D, T, K, E>,
    weight: &Param<D, N, K, E>,
    bias: Option<&Param<D, N, C, E>>,
) {
    gemm::forward(of.room.device, y.again(), x, weight.view(), Into::Set);
    if let Some(bias) = bias {
        gemm::add_bias(of.room.device, y, bias.view());
    }
}

/// Its gradients.
fn unproject<D: Device, T, N, K, C, E: Format>(
    of: &Ctx<'_, D>,
    gradients: &mut Gradients<D>,
    dx: ViewMut<'_, D, T, K, E>,
    dy: View<'_, D, T, N, E>,
    x: View<'_, D, T, K, E>,
    (weight, bias): (&Param<D, N, K, E>, Option<&Param<D, N, C, E>>),
    into: Into,
) {
    let device = of.room.device;
    gemm::weight(device, gradients.of(weight), dy, x);
    if let Some(bias) = bias {
        gemm::bias(device, gradients.of(bias), dy);
    }
    gemm::input(device, dx, dy, weight.view(), into);
}

/// The block in the ledger.
pub(super) const BLOCK: Block = Block::Attention;
