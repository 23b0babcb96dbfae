//! The operations of a training step, one folder each: what it computes in `mod.rs`, how the CPU does it in `host.rs`.
//!
//! Tensors are row-major slices; token t of a batch is b * sequence + position. Every sum is made in f32 and rounded to
//! the format of the result once. Nothing here takes memory from the heap: what an operation needs beside its arguments
//! is a `scratch` that the caller owns and counts. Only more threads than one take some, for their queues. A slice of a
//! wrong length panics.

#![allow(clippy::missing_panics_doc, reason = "said above, once for all of them")]
#![allow(clippy::too_many_arguments, reason = "an operation takes its tensors and sizes one by one; types come above")]

/// Declares an operation: what a device must do for it, and that the device without values does nothing.
macro_rules! operation {
    (
        $(#[$doc:meta])*
        $name:ident {
            $(
                $(#[$what:meta])*
                fn $op:ident [$($g:ident: $bound:path),*] ($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;
            )*
        }
    ) => {
        $(#[$doc])*
        pub trait $name: Memory {
            $($(#[$what])* fn $op<$($g: $bound),*>(&self, $($arg: $ty),*) $(-> $ret)?;)*
        }

        impl $name for Meta {
            $(fn $op<$($g: $bound),*>(&self, $(_: $ty),*) $(-> $ret)? { Default::default() })*
        }
    };
}

pub mod activation;
pub mod adamw;
pub mod attention;
mod columns;
pub mod cross_entropy;
pub mod elementwise;
pub mod embedding;
mod exp;
pub mod gemm;
mod index;
pub mod permute;
mod reduce;
pub mod rms_norm;
pub mod rope;
pub mod router;
#[cfg(test)]
mod testing;
