#[allow(unexpected_cfgs)]
const _: () = {
    #[cfg(rust_analyzer)]
    ::moe_model::__private::__editor!(
        #[doc = " A model."] pub struct Small; hidden : 2048, vocab : 102_400, layers :
        layers { moe : 28 }, attention : gqa { heads : 16, kv_heads : 16, head_dim : 128
        }, experts : experts { routed : 64, active : 6, ffn : 1408 }, #[doc =
        " Two nodes."] #[allow(deprecated)] layout Main : layout { mesh : mesh { dp : 8,
        tp : 2, ep : 16, sequence_parallel : on }, zero : optimizer, batch : batch {
        sequence : 4096, count : 2 }, routing : dropless { skew : 1.25 }, accounting :
        paper { kernel : flash }, device : h100, headroom : percent(10), }, layout
        Pipelined : layout { mesh : mesh { dp : 8, pp : 2, ep : 4 }, ..Main },
    );
};
/// A model.
pub struct Small;
#[automatically_derived]
#[allow(dead_code, deprecated, clippy::needless_update, clippy::unreadable_literal)]
impl Small {
    /// The declared architecture.
    pub const ARCHITECTURE: ::moe_model::spec::Architecture = ::moe_model::spec::Architecture {
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
        architecture: Self::ARCHITECTURE,
        layout: ::moe_model::spec::Layout {
            mesh: ::moe_model::spec::Mesh {
                dp: 8,
                tp: 2,
                ep: 16,
                sequence_parallel: ::moe_model::spec::Switch::On,
                ..::moe_model::spec::Mesh::DEFAULT
            },
            zero: ::moe_model::spec::zero::optimizer,
            batch: ::moe_model::spec::Batch {
                sequence: 4096,
                count: 2,
                ..::moe_model::spec::Batch::DEFAULT
            },
            routing: ::moe_model::spec::Routing::Dropless(::moe_model::spec::Dropless {
                skew: ::moe_model::spec::Factor::thousandths(1250u64),
                ..::moe_model::spec::Dropless::DEFAULT
            }),
            accounting: ::moe_model::spec::Accounting::Paper(::moe_model::spec::Paper {
                kernel: ::moe_model::spec::Kernel::Flash,
                ..::moe_model::spec::Paper::DEFAULT
            }),
            device: ::moe_model::spec::Device::H100,
            headroom: ::moe_model::spec::percent(10),
            ..::moe_model::spec::Layout::DEFAULT
        },
    };
    #[doc(hidden)]
    pub const __BROKEN_MAIN: ::moe_model::__private::__LawSet = ::moe_model::__private::__LawSet::NONE;
    /// Two nodes.
    #[allow(deprecated)]
    ///Layout `Main` of [`Small`].
    pub const MAIN: ::moe_model::Plan = ::moe_model::Plan::or_husk(
        Self::__SPEC_MAIN,
        Self::__BROKEN_MAIN,
    );
    #[doc(hidden)]
    pub const __SPEC_PIPELINED: ::moe_model::spec::Spec = ::moe_model::spec::Spec {
        architecture: Self::ARCHITECTURE,
        layout: ::moe_model::spec::Layout {
            zero: ::moe_model::spec::zero::optimizer,
            batch: ::moe_model::spec::Batch {
                sequence: 4096,
                count: 2,
                ..::moe_model::spec::Batch::DEFAULT
            },
            routing: ::moe_model::spec::Routing::Dropless(::moe_model::spec::Dropless {
                skew: ::moe_model::spec::Factor::thousandths(1250u64),
                ..::moe_model::spec::Dropless::DEFAULT
            }),
            accounting: ::moe_model::spec::Accounting::Paper(::moe_model::spec::Paper {
                kernel: ::moe_model::spec::Kernel::Flash,
                ..::moe_model::spec::Paper::DEFAULT
            }),
            device: ::moe_model::spec::Device::H100,
            headroom: ::moe_model::spec::percent(10),
            mesh: ::moe_model::spec::Mesh {
                dp: 8,
                pp: 2,
                ep: 4,
                ..::moe_model::spec::Mesh::DEFAULT
            },
            ..::moe_model::spec::Layout::DEFAULT
        },
    };
    #[doc(hidden)]
    pub const __BROKEN_PIPELINED: ::moe_model::__private::__LawSet = ::moe_model::__private::__LawSet::NONE;
    ///Layout `Pipelined` of [`Small`].
    pub const PIPELINED: ::moe_model::Plan = ::moe_model::Plan::or_husk(
        Self::__SPEC_PIPELINED,
        Self::__BROKEN_PIPELINED,
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
    )] = &[("Main", Self::__SPEC_MAIN), ("Pipelined", Self::__SPEC_PIPELINED)];
}
#[allow(deprecated)]
#[allow(unexpected_cfgs)]
const _: () = {
    #[cfg(not(rust_analyzer))]
    {
        #[deprecated(
            note = "the number of replicas of each routed expert = 1 is less than 2\n= note: the state of routed experts is sharded over their replicas, and one replica shares with none (expert-state-unsharded)\n= note: each rank holds up to 10.83 GiB of it whole\n= note: in layout `Main`\n= help: the nearest legal value of `mesh.ep` is 8"
        )]
        const fn expert_state_unsharded() {}
        expert_state_unsharded()
    }
};
