#[allow(unexpected_cfgs)]
const _: () = {
    #[cfg(rust_analyzer)]
    ::moe_model::__private::__editor!(
        struct Small; hidden : HIDDEN, vocab : 102_400, layers : layers { dense : 28, ffn
        : 8192 }, attention : gqa { heads : 16, kv_heads : 16, head_dim : 128 }, layout
        Main : layout { mesh : mesh { dp : config::NODES * 8, tp : TP }, batch : batch {
        sequence : 4096 }, accounting : paper, device : h100, },
    );
};
struct Small;
#[automatically_derived]
#[allow(dead_code, deprecated, clippy::needless_update, clippy::unreadable_literal)]
impl Small {
    /// The declared architecture.
    pub const ARCHITECTURE: ::moe_model::spec::Architecture = ::moe_model::spec::Architecture {
        hidden: HIDDEN,
        vocab: 102_400,
        layers: ::moe_model::spec::Layers {
            dense: 28,
            ffn: 8192,
            ..::moe_model::spec::Layers::DEFAULT
        },
        attention: ::moe_model::spec::Attention::Gqa(::moe_model::spec::Gqa {
            heads: 16,
            kv_heads: 16,
            head_dim: 128,
            ..::moe_model::spec::Gqa::DEFAULT
        }),
        ..::moe_model::spec::Architecture::DEFAULT
    };
    #[doc(hidden)]
    pub const __SPEC_MAIN: ::moe_model::spec::Spec = ::moe_model::spec::Spec {
        architecture: Self::ARCHITECTURE,
        layout: ::moe_model::spec::Layout {
            mesh: ::moe_model::spec::Mesh {
                dp: config::NODES * 8,
                tp: TP,
                ..::moe_model::spec::Mesh::DEFAULT
            },
            batch: ::moe_model::spec::Batch {
                sequence: 4096,
                ..::moe_model::spec::Batch::DEFAULT
            },
            accounting: ::moe_model::spec::accounting::paper,
            device: ::moe_model::spec::Device::H100,
            ..::moe_model::spec::Layout::DEFAULT
        },
    };
    #[doc(hidden)]
    pub const __BROKEN_MAIN: ::moe_model::__private::__LawSet = ::moe_model::__private::__LawSet::of([
            39614081258430898737361453056, 256,
        ])
        .broken(&Self::__SPEC_MAIN, [906694364710971881029633, 0]);
    ///Layout `Main` of [`Small`].
    pub const MAIN: ::moe_model::Plan = ::moe_model::Plan::or_husk(
        Self::__SPEC_MAIN,
        Self::__BROKEN_MAIN,
    );
}
#[automatically_derived]
#[allow(deprecated)]
impl ::moe_model::Model for Small {
    const NAME: &'static ::core::primitive::str = "Small";
    const ARCHITECTURE: ::moe_model::spec::Architecture = <Small>::ARCHITECTURE;
    const LAYOUTS: &'static [(
        &'static ::core::primitive::str,
        ::moe_model::spec::Spec,
    )] = &[("Main", Self::__SPEC_MAIN)];
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
                [996920996839744714770018095742064131, 140737489403904],
                S,
            )
        }
        const _: () = {
            const fn world_size() {
                e(78, [4398046511104, 170141183460469231731687303715884105728])
            }
            world_size()
        };
        const _: () = {
            const fn heads_tp() {
                e(79, [562949953421312, 170141183460469231731687303715884105728])
            }
            heads_tp()
        };
        const _: () = {
            const fn kv_heads_tp() {
                e(79, [1125899906842624, 0])
            }
            kv_heads_tp()
        };
        const _: () = {
            const fn dense_ffn_tp() {
                e(79, [144115188075855872, 0])
            }
            dense_ffn_tp()
        };
        const _: () = e(88, [1152921504606846976, 256]);
        const _: () = e(101, [39614081257132168796771975168, 0]);
        const _: () = e(0, [0, 170141183460469231731687303715884105728]);
        const _: () = __enforce_budget(172usize, B, S);
    }
};
