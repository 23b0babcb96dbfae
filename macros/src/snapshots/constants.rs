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
    ///Layout `Main` of [`Small`].
    pub const MAIN: ::moe_model::Plan = ::moe_model::Plan::or_husk(Self::__SPEC_MAIN);
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
        const B: __LawSet = __LawSet::of(2654934016u64).broken(S);
        #[track_caller]
        const fn e(__at: ::core::primitive::usize, __laws: ::core::primitive::u64) {
            __enforce(__at, __laws, B, 1217701281647061631983, S)
        }
        const _: () = {
            const fn world_size() {
                e(25, 9223372036854776832)
            }
            world_size()
        };
        const _: () = e(25, 4096);
        const _: () = {
            const fn heads_tp() {
                e(26, 9223372036854841344)
            }
            heads_tp()
        };
        const _: () = {
            const fn kv_heads_tp() {
                e(26, 131072)
            }
            kv_heads_tp()
        };
        const _: () = {
            const fn dense_ffn_tp() {
                e(26, 262144)
            }
            dense_ffn_tp()
        };
        const _: () = e(26, 1572864);
        const _: () = e(33, 2097152);
        const _: () = {
            const fn sequence_sp() {
                e(26, 100663296)
            }
            sequence_sp()
        };
        const _: () = e(7, 134217728);
        const _: () = e(8, 268435456);
        const _: () = e(44, 2147483648);
        const _: () = e(0, 9223372036854775808);
        const _: () = __enforce_budget(39usize, B, S);
    }
};
