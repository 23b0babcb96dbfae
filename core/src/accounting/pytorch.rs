//! What operations of PyTorch save for backward, whichever framework calls them.

use crate::inventory::{Block, Element, Entry, Lifetime, Module, Role, Sink};
use crate::mixers::Heads;
use crate::plan::Plan;
use crate::sizes::{Dim, Sizes, Symbol};
use crate::spec::{Backend, Cublas, Norm, NormCode};

const ONE: Dim = Dim::ONE;

/// PyTorch 2.9, `aten/src/ATen/cuda/CublasHandlePool.cpp`: a workspace for each handle and stream. The thread that runs
/// forward has a handle, and the one that runs backward another.
const PYTORCH: &str = "PyTorch 2.9, CublasHandlePool.cpp";
const PYTORCH_HANDLES: u64 = 2;

/// The workspaces that PyTorch gives cuBLAS.
pub(super) const fn cublas(list: &mut Sink<'_>, plan: &Plan, cublas: Cublas) {
    const MIB: u64 = 1 << 20;
    let bytes = match cublas {
        Cublas::Default if plan.spec().layout.device.compute_capability() < 9 => 8 * MIB + MIB / 8,
        Cublas::Default | Cublas::Large => 32 * MIB,
        Cublas::Small => MIB / 8,
    };
    let mut entry = Entry::NONE;
    (entry.role, entry.module, entry.count) = (Role::Workspace, Module::Libraries, PYTORCH_HANDLES);
    entry.source = PYTORCH;
    list.push(&entry, "cuBLAS workspace", [Dim::whole(Symbol::Count, bytes), ONE, ONE, ONE]);
}

/// What a fused kernel of attention keeps beside its inputs and its output: a logarithm for each row, and the state of its
/// dropout.
pub(super) const fn fused_state(list: &mut Sink<'_>, kept: &Entry, sizes: &Sizes, queries: Dim, backend: Backend) {
    let Sizes { batch, context, .. } = *sizes;
    let (rows, numbers) = match backend {
        Backend::Flash => (context, 3),
        Backend::Efficient => {
            let (global, local) = (context.global.next_multiple_of(32), context.local.next_multiple_of(32));
            (Dim { global, local, ..context }, 2)
        }
        Backend::Cudnn | Backend::Math => (context, 2),
    };
    list.push(&kept.stored_as(Element::FP32), "log-sum-exp", [batch, queries, rows, ONE]);
    let numbers = Dim::whole(Symbol::Count, numbers);
    list.push(&kept.stored_as(Element::INT64), "random state", [numbers, ONE, ONE, ONE]);
}

/// What the scaled dot product keeps: of entries that it reads, its values among them apart, and of those that its kernel
/// makes. The projection behind it reads its output.
pub(super) const fn scaled_dot_product(
    list: &mut Sink<'_>,
    [read, values, made]: [&Entry; 3],
    sizes: &Sizes,
    heads: Heads,
    backend: Backend,
) {
    let Sizes { batch, context, .. } = *sizes;
    let Heads { queries, keys, width, value, .. } = heads;
    let output = [batch, context, queries, value];
    if matches!(backend, Backend::Math) {
        // Repeated for each query head.
        let fp32 = &read.stored_as(Element::FP32);
        list.push(fp32, "query in fp32", [batch, context, queries, width]);
        list.push(fp32, "key in fp32", [batch, context, queries, width]);
        list.push(fp32, "value in fp32", output);
        list.push(fp32, "softmax", [batch, queries, context, sizes.sequence]);
        list.push(read, "attention output", output);
        return;
    }
    list.push(read, "query", [batch, context, queries, width]);
    list.push(read, "key", [batch, context, keys, width]);
    if heads.is_latent {
        up_projection(list, values, sizes, heads);
    } else {
        list.push(values, "value", [batch, context, keys, value]);
    }
    fused_state(list, made, sizes, queries, backend);
    list.push(made, "fused attention output", output);
}

/// All of what comes of the key/value latent: values are a view of it.
pub(super) const fn up_projection(list: &mut Sink<'_>, kept: &Entry, sizes: &Sizes, heads: Heads) {
    let (batch, context, name) = (sizes.batch, sizes.context, "up-projected key/value");
    list.push_part(kept, name, "keys", [batch, context, heads.keys, sizes.nope]);
    list.push_part(kept, name, "values", [batch, context, heads.keys, heads.value]);
}

/// The largest of what a loss works on that is computed of logits in fp32, beyond what it saves: these and those of the head,
/// and in backward their gradients before and behind the softmax.
pub(super) const fn loss_works(list: &mut Sink<'_>, forward: &Entry, logits: [Dim; 4]) {
    let backward = &forward.transient(Lifetime::InBackward(Block::Head)).stored_as(Element::FP32);
    list.push(forward, "logits", logits);
    list.push(&forward.stored_as(Element::FP32), "logits in fp32", logits);
    list.push(&forward.stored_as(Element::FP32), "loss", [ONE; 4]);
    list.push(&backward.times(2), "gradients of logits", logits);
    list.push(backward, "gradient of the loss", [ONE; 4]);
    list.push(backward, "loss that is asked for", [ONE; 4]);
}

/// Whether PyTorch takes norms apart, so that they keep none of their inputs.
pub(super) const fn takes_apart(norm: Norm, code: NormCode) -> bool {
    matches!((norm, code), (Norm::Rms, NormCode::Composite))
}

/// What PyTorch's own norms keep of their rows, beside their inputs where one kernel reads these: for each in fp32 the
/// reciprocal of its deviation, and the mean of one that centres rows.
pub(super) const fn norm(
    list: &mut Sink<'_>,
    kept: &Entry,
    (norm, code): (Norm, NormCode),
    names: [&'static str; 3],
    [input, rows]: [[Dim; 4]; 2],
) {
    let fp32 = &kept.stored_as(Element::FP32);
    if takes_apart(norm, code) {
        rms(list, [kept, fp32], names, input, rows);
    } else {
        list.push(&fp32.times(if matches!(norm, Norm::Rms) { 1 } else { 2 }), names[1], rows);
    }
}

/// What a root mean square keeps that is written out, or taken apart: a copy of its input in fp32, for each row the reciprocal
/// of its deviation, and what it made of the input, which its weight scales.
pub(super) const fn rms(
    list: &mut Sink<'_>,
    [kept, scaled]: [&Entry; 2],
    names: [&'static str; 3],
    input: [Dim; 4],
    rows: [Dim; 4],
) {
    let fp32 = &kept.stored_as(Element::FP32);
    list.push(fp32, names[0], input);
    list.push(fp32, names[1], rows);
    list.push(scaled, names[2], input);
}
