#[allow(unexpected_cfgs)]
const _: () = {
    #[cfg(rust_analyzer)]
    ::moe_model::__private::__editor!(
        pub struct Small; hidden : 2048, vocab : 102_400, layers : layers { moe : 28 },
        attention : gqa { heads : 16, kv_heads : 16, head_dim : 128 }, experts : experts
        { routed : 64, active : 6, ffn : 1408 }, layout Main : layout { mesh : mesh { dp
        : 48, ep : 48 }, batch : batch { sequence : SEQUENCE }, accounting : paper, },
        layout Misspelt : layout { scedule : gpipe, ..Main },
    );
};
::core::compile_error! {
    "layout `Misspelt` has no key `scedule`\n  = help: did you mean `schedule`?"
}
::core::compile_error! {
    "`mesh.ep` = 48 does not divide `experts.routed` = 64\n  = note: every rank of an expert group holds the same number of experts (experts-ep)\n  = note: in layout `Main`\n  = help: the nearest legal value of `mesh.ep` is 16"
}
pub struct Small;
#[automatically_derived]
#[allow(dead_code, deprecated, clippy::needless_update, clippy::unreadable_literal)]
impl Small {
    /// The declared architecture.
    pub const ARCHITECTURE: ::moe_model::spec::Architecture = ::moe_model::spec::Architecture::DEFAULT;
    #[doc(hidden)]
    pub const __ARCHITECTURE: ::moe_model::spec::Architecture = ::moe_model::spec::Architecture {
        hidden: 2048,
        vocab: 102_400,
        layers: ::moe_model::spec::Layers {
            moe: 28,
            ..::moe_model::spec::Layers::DEFAULT
        },
        attention: ::moe_model::spec::Attention::Gqa(::moe_model::spec::Gqa {
            heads: 16,
            kv_heads: 16,
            head_dim: 128,
            ..::moe_model::spec::Gqa::DEFAULT
        }),
        experts: ::moe_model::spec::Experts {
            routed: 64,
            active: 6,
            ffn: 1408,
            ..::moe_model::spec::Experts::DEFAULT
        },
        ..::moe_model::spec::Architecture::DEFAULT
    };
    #[doc(hidden)]
    pub const __SPEC_MAIN: ::moe_model::spec::Spec = ::moe_model::spec::Spec {
        architecture: Self::__ARCHITECTURE,
        layout: ::moe_model::spec::Layout {
            mesh: ::moe_model::spec::Mesh {
                dp: 48,
                ep: 48,
                ..::moe_model::spec::Mesh::DEFAULT
            },
            batch: ::moe_model::spec::Batch {
                sequence: SEQUENCE,
                ..::moe_model::spec::Batch::DEFAULT
            },
            accounting: ::moe_model::spec::accounting::paper,
            ..::moe_model::spec::Layout::DEFAULT
        },
    };
    #[doc(hidden)]
    pub const __BROKEN_MAIN: ::moe_model::__private::__LawSet = ::moe_model::__private::__LawSet::of([
            151115727451828646838272, 0,
        ])
        .broken(&Self::__SPEC_MAIN, [664613997892457936451903530140172288, 0]);
    ///Layout `Main` of [`Small`].
    pub const MAIN: ::moe_model::Plan = ::moe_model::Plan::HUSK;
    ///Layout `Misspelt` of [`Small`].
    pub const MISSPELT: ::moe_model::Plan = ::moe_model::Plan::HUSK;
}
#[automatically_derived]
#[allow(deprecated)]
impl ::moe_model::Model for Small {
    const NAME: &'static ::core::primitive::str = "Small";
    const ARCHITECTURE: ::moe_model::spec::Architecture = <Small>::ARCHITECTURE;
    const LAYOUTS: &'static [(
        &'static ::core::primitive::str,
        ::moe_model::spec::Spec,
    )] = &[
        ("Main", *::moe_model::Plan::HUSK.spec()),
        ("Misspelt", *::moe_model::Plan::HUSK.spec()),
    ];
}
#[allow(unexpected_cfgs)]
const _: () = {
    #[cfg(not(rust_analyzer))]
    {
        use ::moe_model::__private::*;
        const S: &__Spec = &<Small>::__SPEC_MAIN;
        const B: __LawSet = <Small>::__BROKEN_MAIN;
        #[track_caller]
        const fn e(
            __at: ::core::primitive::usize,
            __laws: [::core::primitive::u128; 2],
        ) {
            __enforce(
                __at,
                __laws,
                B,
                [996920996848811689546008438937225731, 1048576],
                S,
            )
        }
        const _: () = e(
            119,
            [151115727451828646838272, 170141183460469231731687303715884105728],
        );
        const _: () = __enforce_budget(171usize, B, S);
    }
};
