//! Named dimensions. A tensor of `(Hidden, Ffn)` says in an error what it is; a size of bare bits would not.

use core::ops::Mul;
use typenum::{Prod, Unsigned};

/// A dimension of a model, with its length as a type.
///
/// ```
/// use moe_model_gpu::{Dim, typenum};
///
/// struct Hidden;
/// impl Dim for Hidden {
///     type Size = typenum::U2048;
/// }
/// assert_eq!(Hidden::SIZE, 2048);
/// ```
pub trait Dim {
    /// The length.
    type Size: Unsigned;
    /// The length as a number.
    const SIZE: usize = <Self::Size as Unsigned>::USIZE;
}

/// A dimension that, times a number of ranks, is a whole one. Proved by multiplication: the compiler takes half a
/// millisecond to multiply such sizes and twenty to divide them.
///
/// ```
/// use moe_model_gpu::{Dim, ShardOf, typenum};
///
/// struct Ffn;
/// impl Dim for Ffn {
///     type Size = typenum::U1024;
/// }
/// struct FfnShard;
/// impl Dim for FfnShard {
///     type Size = typenum::U512;
/// }
/// struct Tp;
/// impl Dim for Tp {
///     type Size = typenum::U2;
/// }
///
/// fn split<Shard: ShardOf<Whole, Ranks>, Whole, Ranks>() {}
/// split::<FfnShard, Ffn, Tp>();
/// ```
///
/// A shard that does not make the whole does not compile:
///
/// ```compile_fail,E0277
/// # use moe_model_gpu::{Dim, ShardOf, typenum};
/// # struct Ffn;
/// # impl Dim for Ffn { type Size = typenum::U1024; }
/// # struct FfnShard;
/// # impl Dim for FfnShard { type Size = typenum::U500; }
/// # struct Tp;
/// # impl Dim for Tp { type Size = typenum::U2; }
/// # fn split<Shard: ShardOf<Whole, Ranks>, Whole, Ranks>() {}
/// split::<FfnShard, Ffn, Tp>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` x `{Ranks}` is not `{Whole}`",
    label = "not a shard of `{Whole}`",
    note = "a shard times the ranks must be the whole dimension"
)]
pub trait ShardOf<Whole, Ranks> {}

#[diagnostic::do_not_recommend]
impl<Shard: Dim, Whole: Dim, Ranks: Dim> ShardOf<Whole, Ranks> for Shard
where
    Shard::Size: Mul<Ranks::Size>,
    Prod<Shard::Size, Ranks::Size>: typenum::IsEqual<Whole::Size, Output = typenum::True>,
{
}
