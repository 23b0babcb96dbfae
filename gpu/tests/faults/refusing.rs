//! A device that refuses an allocation, and otherwise holds and computes nothing.

use core::cell::Cell;
use moe_model_gpu::device::{Device, DeviceError, Element, Format, Memory, Mut, OutOfMemory, Ref};
use moe_model_gpu::ops::activation::{Activate, Activation};
use moe_model_gpu::ops::adamw::{AdamW, Optimize};
use moe_model_gpu::ops::attention::{Attend, Shape};
use moe_model_gpu::ops::cross_entropy::CrossEntropy;
use moe_model_gpu::ops::elementwise::{Columns, Elementwise};
use moe_model_gpu::ops::embedding::Embed;
use moe_model_gpu::ops::gemm::{Gemm, Groups};
use moe_model_gpu::ops::permute::Permute;
use moe_model_gpu::ops::rms_norm::RmsNorm;
use moe_model_gpu::ops::rope::{Rope, Rotate};
use moe_model_gpu::ops::router::{Route, Router};
use moe_model_gpu::shapes::Lengths;

/// Has room for so many more allocations, one refusal, and then for all.
pub(crate) struct Refusing(pub(crate) Cell<u64>);

impl Memory for &'static Refusing {
    type Buffer<E: Element> = ();

    const NAME: &'static str = "refusing";

    fn allocate<E: Element>(&self, len: usize) -> Result<(), DeviceError> {
        let left = self.0.get();
        self.0.set(left.wrapping_sub(1));
        let refused = OutOfMemory { bytes: (len * size_of::<E>()) as u64 };
        if left == 0 { Err(refused.into()) } else { Ok(()) }
    }

    fn write<E: Element>(&self, _: M<'_, E>, _: impl FnOnce(&mut [E])) {}

    fn read<E: Element, T>(&self, _: R<'_, E>, _: impl FnOnce(&[E]) -> T) -> Option<T> {
        None
    }

    fn copy<E: Element>(&self, _: M<'_, E>, _: R<'_, E>) {}

    fn zero<E: Element>(&self, _: M<'_, E>) {}
}

impl Device for &'static Refusing {
    fn prepare(&self, _: &Lengths) -> Result<(), DeviceError> {
        Ok(())
    }
}

type M<'a, E> = Mut<'a, &'static Refusing, E>;
type R<'a, E> = Ref<'a, &'static Refusing, E>;

macro_rules! nothing {
    ($($operation:ident {$(
        $name:ident [$($g:ident),*] ($($arg:ty),*) $(-> $ret:ty)?;
    )*})*) => {$(
        impl $operation for &'static Refusing {
            $(fn $name<$($g: Format),*>(&self, $(_: $arg),*) $(-> $ret)? { Default::default() })*
        }
    )*};
}

nothing! {
    Activate {
        activate[X](M<'_, X>, R<'_, X>, R<'_, X>, Option<R<'_, f32>>, usize, Activation);
        activate_backward[X](M<'_, X>, M<'_, X>, R<'_, X>, Option<R<'_, f32>>, Option<M<'_, f32>>, usize, Activation);
    }
    Optimize {
        adamw[S](M<'_, f32>, M<'_, S>, M<'_, S>, R<'_, f32>, AdamW, i32, f32);
        write_back[W](M<'_, W>, R<'_, f32>);
        widen[W](M<'_, f32>, R<'_, W>);
    }
    Attend {
        attend[X](M<'_, X>, M<'_, f32>, [R<'_, X>; 3], Option<R<'_, X>>, Shape);
        attend_backward[X]([M<'_, X>; 3], Option<M<'_, f32>>, M<'_, f32>, R<'_, X>, R<'_, X>, R<'_, f32>, [R<'_,
            X>; 3], Option<R<'_, X>>, Shape);
        merge[X](M<'_, f32>, M<'_, f32>, R<'_, X>, R<'_, f32>, Shape);
        attend_eager[X](M<'_, X>, M<'_, X>, [R<'_, X>; 3], Option<R<'_, X>>, Shape);
        attend_eager_backward[X]([M<'_, X>; 3], Option<M<'_, f32>>, M<'_, X>, R<'_, X>, R<'_, X>, [R<'_, X>; 3],
            Shape);
    }
    CrossEntropy {
        mask[](M<'_, f32>, usize, usize);
        row_max[](M<'_, f32>, R<'_, f32>, usize);
        row_sum[](M<'_, f32>, M<'_, f32>, R<'_, f32>, R<'_, f32>, R<'_, i64>, usize, usize);
        loss[](R<'_, f32>, R<'_, f32>, R<'_, f32>, R<'_, i64>) -> Option<(f64, usize)>;
        loss_backward[](M<'_, f32>, R<'_, f32>, R<'_, f32>, R<'_, i64>, usize, usize, f32);
        narrow[X](M<'_, X>, R<'_, f32>);
    }
    Elementwise {
        add[X](M<'_, X>, R<'_, X>);
        add_up[X](M<'_, f32>, R<'_, X>);
        gate_rows[X](M<'_, X>, R<'_, f32>, usize);
        gate_rows_backward[X](M<'_, X>, M<'_, f32>, R<'_, X>, R<'_, f32>, usize);
        copy_columns[X](M<'_, X>, Columns, R<'_, X>, Columns, usize);
        share_columns[X](M<'_, X>, Columns, usize, R<'_, X>, Columns, usize);
        sum_columns[X](M<'_, X>, Columns, usize, R<'_, X>, Columns, usize);
    }
    Embed {
        embed[X, W](M<'_, X>, R<'_, i64>, R<'_, W>, usize, usize, usize);
        embed_backward[X](M<'_, f32>, R<'_, i64>, R<'_, X>, usize, usize, usize);
    }
    Gemm {
        gemm_forward[Y, X, W](M<'_, Y>, R<'_, X>, R<'_, W>, [usize; 3], bool);
        gemm_input[Y, X, W](M<'_, X>, R<'_, Y>, R<'_, W>, [usize; 3], bool);
        gemm_weight[Y, X](M<'_, f32>, R<'_, Y>, R<'_, X>, [usize; 3]);
        grouped_forward[Y, X, W](M<'_, Y>, R<'_, X>, R<'_, W>, Groups<'_>, [usize; 2], bool);
        grouped_input[Y, X, W](M<'_, X>, R<'_, Y>, R<'_, W>, Groups<'_>, [usize; 2], bool);
        grouped_weight[Y, X](M<'_, f32>, R<'_, Y>, R<'_, X>, Groups<'_>, [usize; 2]);
        bias_forward[Y, W](M<'_, Y>, R<'_, W>, [usize; 2]);
        bias_backward[Y](M<'_, f32>, R<'_, Y>, [usize; 2]);
        scaled_bias_forward[Y, W](M<'_, Y>, R<'_, W>, R<'_, f32>, usize);
        scaled_bias_backward[Y, W](M<'_, f32>, M<'_, f32>, R<'_, Y>, R<'_, W>, R<'_, f32>, usize);
    }
    Permute {
        sort[](M<'_, i32>, M<'_, i32>, M<'_, i32>, R<'_, i32>);
        sort_limited[](M<'_, i32>, M<'_, i32>, R<'_, i32>, usize);
        invert[](M<'_, i32>, R<'_, i32>);
        gather[X](M<'_, X>, R<'_, X>, R<'_, i32>, usize, usize);
        combine[X](M<'_, X>, R<'_, X>, R<'_, i32>, usize, usize);
        scatter[X](M<'_, X>, R<'_, X>, R<'_, i32>, usize);
        gather_scalars[](M<'_, f32>, R<'_, f32>, R<'_, i32>);
        scatter_scalars[](M<'_, f32>, R<'_, f32>, R<'_, i32>);
    }
    RmsNorm {
        norm_statistics[X](M<'_, f32>, R<'_, X>, usize, f32);
        norm_forward[X, W](M<'_, X>, R<'_, X>, R<'_, f32>, R<'_, W>, usize);
        norm_backward[X, W](M<'_, X>, M<'_, f32>, R<'_, X>, R<'_, X>, R<'_, f32>, R<'_, W>, usize);
        norm_backward_in_place[X, W](M<'_, X>, M<'_, f32>, R<'_, X>, R<'_, f32>, R<'_, W>, usize);
    }
    Rotate {
        rotate[X](M<'_, X>, usize, usize, usize, usize, Rope, bool);
    }
    Route {
        route[](M<'_, f32>, M<'_, i32>, M<'_, f32>, R<'_, f32>, Option<R<'_, f32>>, Router);
        route_backward[](M<'_, f32>, R<'_, f32>, R<'_, f32>, R<'_, i32>, Router);
    }
}
