//! The macro in hostile places: every common name is somebody else's, no prelude, all warnings denied. What the
//! expansion means must not depend on what is in scope around it.

/// The figures of the models below, from a place where every name is what it seems.
const PARAMETERS: u64 = 671_026_404_352;
const PEAK: &str = "49.13 GiB on stage 1 in backward";

#[rustfmt::skip] // which would sort what is shadowed into the imports
mod shadowed {
    #![no_implicit_prelude]
    #![deny(warnings, clippy::all, clippy::pedantic)]

    /// Names of crates, types, traits, functions and constants that an expansion could mean by mistake.
    mod names {
        #![allow(dead_code, non_camel_case_types, non_upper_case_globals, missing_docs, unreachable_pub)]

        pub mod core {}
        pub mod std {}
        pub mod alloc {}
        pub mod moe_model {}
        pub mod spec {}
        pub mod layouts {}

        pub struct Option;
        pub struct Some;
        pub struct None;
        pub struct Result;
        pub struct Ok;
        pub struct Err;
        pub struct Vec;
        pub struct String;
        pub struct Spec;
        pub struct Plan;
        pub struct Layout;
        pub struct Architecture;
        pub struct Mesh;
        pub struct Device;
        pub struct Zero;
        pub struct Switch;
        pub struct u8;
        pub struct u64;
        pub struct u128;
        pub struct usize;
        pub struct str;
        pub struct bool;

        pub trait Model {}
        pub trait Sized {}
        pub trait Copy {}
        pub trait Into {}

        pub const fn drop() {}
        pub const fn percent() {}
        pub const fn heads_tp() {}

        pub const H100: () = ();
        pub const H200: () = ();
        pub const DEFAULT: () = ();
        pub const ARCHITECTURE: () = ();
        pub const LAYOUTS: () = ();
        pub const NAME: () = ();
        pub const mesh: () = ();
        pub const layout: () = ();
        pub const layers: () = ();
        pub const mla: () = ();
        pub const on: () = ();
        pub const off: () = ();
        pub const none: () = ();
        pub const gpipe: () = ();
        pub const one_f_one_b: () = ();
        pub const optimizer: () = ();
        pub const bf16: () = ();
        pub const paper: () = ();
        pub const h200: () = ();
        pub const hidden: () = ();
        pub const dp: () = ();
        pub const at: () = ();
        pub const laws: () = ();
    }
    #[expect(unused_imports, reason = "the expansion means none of them")]
    use names::*;

    #[macro_use]
    #[allow(unused_macros)]
    mod macros {
        macro_rules! compile_error { ($($any:tt)*) => { () }; }
        macro_rules! concat { ($($any:tt)*) => { () }; }
        macro_rules! assert { ($($any:tt)*) => { () }; }
        macro_rules! panic { ($($any:tt)*) => { () }; }
    }

    // Constants of the user's that are called as the expansion calls its own.
    const A: ::core::primitive::u64 = 32;
    const B: ::core::primitive::u64 = 2;
    const S: ::core::primitive::u64 = 16;
    #[allow(non_upper_case_globals)]
    const e: ::core::primitive::u64 = 8;
    const __SPEC_PAPER: ::core::primitive::u64 = 4096;
    #[allow(non_upper_case_globals)]
    const __words: ::core::primitive::u64 = 128;

    ::moe_model::moe_model! {
        /// Literals.
        pub(super) struct Literals;

        hidden: 7168,
        vocab: 129_280,
        layers: layers { dense: 3, moe: 58, ffn: 18_432 },
        attention: mla { heads: 128, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 },
        experts: experts { routed: 256, shared: 1, active: 8, ffn: 2048, groups: 8, active_groups: 4, correction_bias: on },
        mtp: 1,

        layout Paper: layout {
            mesh: mesh { dp: 32, tp: 2, pp: 16, ep: 8, etp: 1, sequence_parallel: on },
            stages: stages { first: 4, last: 1 },
            schedule: one_f_one_b,
            zero: zero { dense: optimizer, expert: optimizer, groups: moe_block },
            placement: placement { query_rope: replicated, shared_experts: replicated },
            precision: precision { weights: bf16, gradients: fp32, master: fp32, moments: bf16 },
            batch: batch { sequence: 4096, micro: 1, count: 32 },
            recompute: full,
            routing: dropless { skew: 1.0 },
            accounting: paper { kernel: eager, dropout: on, pool: replica },
            device: h200,
            headroom: percent(10),
        },
        layout Wide: layout { mesh: mesh { dp: 64, pp: 16, ep: 32 }, ..Paper },
        /// As many stages as micro-batches, or more, would idle: a warning, which is expected.
        #[expect(deprecated)]
        layout Idle: layout { batch: batch { sequence: 4096, count: 8 }, ..Paper },
    }

    ::moe_model::moe_model! {
        /// Constants, and a model that is called as a type of the library.
        pub(super) struct Spec;

        hidden: 56 * __words,
        vocab: 129_280,
        layers: layers { dense: 3, moe: 58, ffn: 18_432 },
        attention: mla { heads: __words, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 },
        experts: experts { routed: A * e, shared: 1, active: e, ffn: 2048, groups: e, active_groups: 4, correction_bias: on },
        mtp: 1,

        layout Paper: layout {
            mesh: mesh { dp: A, tp: B, pp: S, ep: e, etp: 1, sequence_parallel: on },
            stages: stages { first: 4, last: 1 },
            schedule: one_f_one_b,
            zero: zero { dense: optimizer, expert: optimizer, groups: moe_block },
            placement: placement { query_rope: replicated, shared_experts: replicated },
            precision: precision { weights: bf16, gradients: fp32, master: fp32, moments: bf16 },
            batch: batch { sequence: __SPEC_PAPER, micro: 1, count: A },
            recompute: full,
            accounting: paper { kernel: eager, dropout: on, pool: replica },
            device: h200,
            headroom: percent(10),
        },
        layout Wide: layout { mesh: mesh { dp: A * B, pp: S, ep: A }, ..Paper },
    }
}

use moe_model::{Model, Plan};
use shadowed::{Literals, Spec};

#[test]
fn figures_do_not_depend_on_what_is_in_scope() {
    for (architecture, plans) in
        [(Literals::ARCHITECTURE, [Literals::PAPER, Literals::WIDE]), (Spec::ARCHITECTURE, [Spec::PAPER, Spec::WIDE])]
    {
        assert_eq!(architecture, Literals::ARCHITECTURE);
        assert_eq!(architecture.parameters().total(), PARAMETERS);
        assert_eq!(plans[0].peak().to_string(), PEAK);
        assert_eq!(plans.map(|plan| plan.world()), [1024, 1024]);
    }
    assert_eq!(Literals::IDLE.spec().layout.batch.count, 8);
}

#[test]
fn a_model_is_the_facades() {
    fn names<M: Model>() -> (&'static str, Vec<&'static str>) {
        assert!(M::LAYOUTS.iter().all(|(_, spec)| Plan::new(*spec).is_ok()));
        (M::NAME, M::LAYOUTS.iter().map(|(name, _)| *name).collect())
    }
    assert_eq!(names::<Literals>(), ("Literals", vec!["Paper", "Wide", "Idle"]));
    assert_eq!(names::<Spec>(), ("Spec", vec!["Paper", "Wide"]));
}
