//! The products on a CUDA device, by cuBLAS. It takes two matrices of one format, and makes one of that or of f32: where
//! a gradient in f32 meets bf16, it is the sum of two matrices of bf16, in scratch, and the product is that of both.

use super::{Gemm, Groups};
use crate::Bf16;
use crate::cuda::compile::Kind;
use crate::cuda::launch::{Blocks, In, Narrow, Out, Wide};
use crate::cuda::{Cuda, Matrix, Product};
use crate::device::{Element, Format, Memory, Mut, Ref};

crate::cuda::launch::kernels! {
    fn bias_forward[X, W]<X, W>(y: Out<X>, bias: In<W>, rows: Wide, width: Narrow);
    fn bias_backward[X]<X, X>(db: Out<f32>, dy: In<X>, rows: Wide, width: Narrow);
    fn scaled_bias_forward[X, W]<X, W>(y: Out<X>, bias: In<W>, scale: In<f32>, rows: Wide, width: Narrow);
    fn scaled_bias_backward[X]<X, X>(db: Out<f32>, dy: In<X>, scale: In<f32>, rows: Wide, width: Narrow);
    // A gradient in f32, whose format is a type that is not said to be it.
    fn split[A]<Bf16, Bf16>(upper: Out<Bf16>, lower: Out<Bf16>, x: In<A>, n: Wide);
    fn scaled_bias_scale[X, W]<X, W>(d_scale: Out<f32>, dy: In<X>, bias: In<W>, rows: Wide, width: Narrow);
}

impl Gemm for Cuda {
    fn gemm_forward<Y: Format, X: Format, W: Format>(
        &self,
        y: Mut<'_, Self, Y>,
        x: Ref<'_, Self, X>,
        w: Ref<'_, Self, W>,
        [m, n, k]: [usize; 3],
        adds: bool,
    ) {
        assert_lengths("y = x w^T", [(y.len(), m * n), (x.len(), m * k), (w.len(), n * k)]);
        product(self, y, x, rows(k), w, columns(k), [m, n, k], adds);
    }

    fn gemm_input<Y: Format, X: Format, W: Format>(
        &self,
        dx: Mut<'_, Self, X>,
        dy: Ref<'_, Self, Y>,
        w: Ref<'_, Self, W>,
        [m, n, k]: [usize; 3],
        adds: bool,
    ) {
        assert_lengths("dx = dy w", [(dx.len(), m * k), (dy.len(), m * n), (w.len(), n * k)]);
        product(self, dx, dy, rows(n), w, rows(k), [m, k, n], adds);
    }

    fn gemm_weight<Y: Format, X: Format>(
        &self,
        dw: Mut<'_, Self, f32>,
        dy: Ref<'_, Self, Y>,
        x: Ref<'_, Self, X>,
        [m, n, k]: [usize; 3],
    ) {
        assert_lengths("dw = dy^T x", [(dw.len(), n * k), (dy.len(), m * n), (x.len(), m * k)]);
        product(self, dw, dy, columns(n), x, rows(k), [n, k, m], true);
    }

    fn grouped_forward<Y: Format, X: Format, W: Format>(
        &self,
        y: Mut<'_, Self, Y>,
        x: Ref<'_, Self, X>,
        w: Ref<'_, Self, W>,
        groups: Groups<'_>,
        [n, k]: [usize; 2],
        adds: bool,
    ) {
        assert_lengths("the groups' y = x w^T", [(w.len(), groups.len() * n * k)]);
        let of = |(w, (first, rows))| Part { c: first * n, a: first * k, b: w * n * k, sizes: [rows, n, k] };
        grouped(self, y, (x, rows(k)), (w, columns(k)), groups.iter().copied().enumerate().map(of), adds, false);
    }

    fn grouped_input<Y: Format, X: Format, W: Format>(
        &self,
        dx: Mut<'_, Self, X>,
        dy: Ref<'_, Self, Y>,
        w: Ref<'_, Self, W>,
        groups: Groups<'_>,
        [n, k]: [usize; 2],
        adds: bool,
    ) {
        assert_lengths("the groups' dx = dy w", [(w.len(), groups.len() * n * k)]);
        let of = |(w, (first, rows))| Part { c: first * k, a: first * n, b: w * n * k, sizes: [rows, k, n] };
        grouped(self, dx, (dy, rows(n)), (w, rows(k)), groups.iter().copied().enumerate().map(of), adds, false);
    }

    fn grouped_weight<Y: Format, X: Format>(
        &self,
        dw: Mut<'_, Self, f32>,
        dy: Ref<'_, Self, Y>,
        x: Ref<'_, Self, X>,
        groups: Groups<'_>,
        [n, k]: [usize; 2],
    ) {
        assert_lengths("the groups' dw = dy^T x", [(dw.len(), groups.len() * n * k)]);
        let of = |(dw, (first, rows))| Part { c: dw * n * k, a: first * n, b: first * k, sizes: [n, k, rows] };
        grouped(self, dw, (dy, columns(n)), (x, rows(k)), groups.iter().copied().enumerate().map(of), true, true);
    }

    fn bias_forward<Y: Format, W: Format>(&self, y: Mut<'_, Self, Y>, bias: Ref<'_, Self, W>, [m, n]: [usize; 2]) {
        assert_lengths("y += bias", [(y.len(), m * n), (bias.len(), n)]);
        bias_forward(self, Blocks::rows(m, n), y, bias, m, n);
    }

    fn bias_backward<Y: Format>(&self, db: Mut<'_, Self, f32>, dy: Ref<'_, Self, Y>, [m, n]: [usize; 2]) {
        assert_lengths("db += dy", [(db.len(), n), (dy.len(), m * n)]);
        bias_backward(self, Blocks::columns(n), db, dy, m, n);
    }

    fn scaled_bias_forward<Y: Format, W: Format>(
        &self,
        y: Mut<'_, Self, Y>,
        bias: Ref<'_, Self, W>,
        scale: Ref<'_, Self, f32>,
        n: usize,
    ) {
        let m = scale.len();
        assert_lengths("y += scale bias", [(y.len(), m * n), (bias.len(), n)]);
        scaled_bias_forward(self, Blocks::rows(m, n), y, bias, scale, m, n);
    }

    fn scaled_bias_backward<Y: Format, W: Format>(
        &self,
        db: Mut<'_, Self, f32>,
        d_scale: Mut<'_, Self, f32>,
        dy: Ref<'_, Self, Y>,
        bias: Ref<'_, Self, W>,
        scale: Ref<'_, Self, f32>,
        n: usize,
    ) {
        let m = scale.len();
        assert_lengths("db += scale dy", [(db.len(), n), (d_scale.len(), m), (dy.len(), m * n), (bias.len(), n)]);
        scaled_bias_backward(self, Blocks::columns(n), db, dy, scale, m, n);
        scaled_bias_scale(self, Blocks::rows(m, n), d_scale, dy, bias, m, n);
    }
}

/// How a matrix is read: by rows of so many elements, or by their columns.
type Way = (usize, bool);

const fn rows(width: usize) -> Way {
    (width, false)
}

const fn columns(width: usize) -> Way {
    (width, true)
}

/// c `[m, n]` = a b, or that much more.
fn product<C: Format, A: Format, B: Format>(
    device: &Cuda,
    c: Mut<'_, Cuda, C>,
    a: Ref<'_, Cuda, A>,
    a_way: Way,
    b: Ref<'_, Cuda, B>,
    b_way: Way,
    sizes: [usize; 3],
    adds: bool,
) {
    if c.is_empty() {
        return;
    }
    if sizes[2] == 0 {
        if !adds {
            device.zero(c);
        }
        return;
    }
    let (output, c) = (Kind::of::<C>(), c.read().address());
    let multiply = |a: Matrix, b: Matrix, inputs: Kind, adds: bool| {
        device.multiply(&Product { a, b, inputs, c, output, sizes, adds });
    };
    match (Kind::of::<A>(), Kind::of::<B>()) {
        (Kind::F32, Kind::Bf16) => {
            device.with_halves(a.len(), |mut upper, mut lower| {
                split(device, Blocks::elements(a.len()), upper.again(), lower.again(), a, a.len());
                // The smaller part first: what it is rounded to is then far below the other's rounding.
                multiply(matrix(lower.read(), a_way), matrix(b, b_way), Kind::Bf16, adds);
                multiply(matrix(upper.read(), a_way), matrix(b, b_way), Kind::Bf16, true);
            });
        }
        (Kind::Bf16, Kind::F32) => panic!("no product of the step has weights in f32 and activations in bf16"),
        (inputs, _) => multiply(matrix(a, a_way), matrix(b, b_way), inputs, adds),
    }
}

/// The product of one of several groups: where its matrices begin, in elements, and how large it is.
struct Part {
    c: usize,
    a: usize,
    b: usize,
    sizes: [usize; 3],
}

/// c `[m, n]` = a b of each group, or that much more; of gradients of weights it is k that groups have parts of.
fn grouped<C: Format, A: Format, B: Format>(
    device: &Cuda,
    mut c: Mut<'_, Cuda, C>,
    (a, a_way): (Ref<'_, Cuda, A>, Way),
    (b, b_way): (Ref<'_, Cuda, B>, Way),
    parts: impl Iterator<Item = Part>,
    adds: bool,
    is_weight: bool,
) {
    let [inputs, others, output] = [Kind::of::<A>(), Kind::of::<B>(), Kind::of::<C>()];
    let mut products = Vec::new();
    for Part { c: first, a: of_a, b: of_b, sizes: sizes @ [m, n, k] } in parts {
        let (a, b) = (a.part(of_a, m * k), b.part(of_b, k * n));
        let c = c.again().part(first, m * n);
        // Of a group without rows there is no product, and no address that cuBLAS could be given.
        if k == 0 || c.is_empty() || inputs != others {
            product(device, c, a, a_way, b, b_way, sizes, adds);
            continue;
        }
        let (a, b, c) = (matrix(a, a_way), matrix(b, b_way), c.read().address());
        products.push(Product { a, b, inputs, c, output, sizes, adds });
    }
    device.multiply_groups(&products, is_weight);
}

fn matrix<E: Element>(x: Ref<'_, Cuda, E>, (width, is_transposed): Way) -> Matrix {
    Matrix { address: x.address(), width, is_transposed }
}

fn assert_lengths<const N: usize>(what: &str, lengths: [(usize, usize); N]) {
    for (length, shape) in lengths {
        assert_eq!(length, shape, "{what}: a slice and its shape");
    }
}
