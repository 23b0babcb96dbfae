fn editor() {
    let _ = ::moe_model::spec::Architecture {
        hidden: 2048,
        vocab: 102_400,
        layers: __words::layers::layers {
            moe: 28,
            ..{ ::moe_model::spec::Layers::DEFAULT }
        },
        attention: {
            let _ = __words::attention::gqa {
                heads: 16,
                kv_heads: 16,
                head_dim: 128,
                ..{ ::moe_model::spec::Gqa::DEFAULT }
            };
            loop {}
        },
        experts: __words::experts::experts {
            routed: 64,
            active: 6,
            ffn: 1408,
            ..{ ::moe_model::spec::Experts::DEFAULT }
        },
        ..{
            ::moe_model::spec::Architecture::DEFAULT
        }
    };
    let _ = ::moe_model::spec::Layout {
        mesh: __words::mesh::mesh {
            dp: 8,
            tp: 2,
            ep: 16,
            sequence_parallel: __words::mesh_sequence_parallel::on,
            ..{ ::moe_model::spec::Mesh::DEFAULT }
        },
        zero: __words::zero::optimizer,
        batch: __words::batch::batch {
            sequence: 4096,
            count: 2,
            ..{ ::moe_model::spec::Batch::DEFAULT }
        },
        routing: {
            let _ = __words::routing::dropless {
                skew: {
                    let _ = 1.25;
                    loop {}
                },
                ..{ ::moe_model::spec::Dropless::DEFAULT }
            };
            loop {}
        },
        accounting: {
            let _ = __words::accounting::paper {
                kernel: __words::accounting_kernel::flash,
                ..{ ::moe_model::spec::Paper::DEFAULT }
            };
            loop {}
        },
        device: __words::device::h100,
        headroom: __words::headroom::percent(10),
        ..{
            ::moe_model::spec::Layout::DEFAULT
        }
    };
    let _ = ::moe_model::spec::Layout {
        mesh: __words::mesh::mesh {
            dp: 8,
            pp: 2,
            ep: 4,
            ..{ ::moe_model::spec::Mesh::DEFAULT }
        },
        ..{
            <Small>::MAIN.spec().layout
        }
    };
    #[allow(nonstandard_style)]
    mod __words {
        pub mod tied_embeddings {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod head_bias {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod norm {
            pub use ::moe_model::spec::Norm::Rms as rms;
            pub use ::moe_model::spec::Norm::Layer as layer;
            pub use ::moe_model::spec::Norm::LayerBias as layer_bias;
        }
        pub mod layer_scalar {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod layers {
            pub use ::moe_model::spec::Layers as layers;
        }
        pub mod attention {
            pub use ::moe_model::spec::Mla as mla;
            pub use ::moe_model::spec::Gqa as gqa;
            pub use ::moe_model::spec::Compressed as compressed;
        }
        pub mod mixer {
            pub use ::moe_model::spec::Mixer::None as none;
            pub use ::moe_model::spec::LocalGqa as gqa;
            pub use ::moe_model::spec::GatedDeltaNet as gated_delta_net;
            pub use ::moe_model::spec::Kda as kda;
            pub use ::moe_model::spec::Lightning as lightning;
            pub use ::moe_model::spec::Mamba1 as mamba1;
            pub use ::moe_model::spec::Mamba2 as mamba2;
        }
        pub mod experts {
            pub use ::moe_model::spec::Experts as experts;
        }
        pub mod layers_beside {
            pub use ::moe_model::spec::Beside::None as none;
            pub use ::moe_model::spec::Beside::Dense as dense;
            pub use ::moe_model::spec::Beside::TwoBlocks as two_blocks;
        }
        pub mod layers_gated {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod layers_bias {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod experts_bias {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod experts_shared_gate {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod experts_router_bias {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod experts_correction_bias {
            pub use ::moe_model::spec::CorrectionBias::Off as off;
            pub use ::moe_model::spec::CorrectionBias::On as on;
            pub use ::moe_model::spec::CorrectionBias::Parameter as parameter;
        }
        pub mod experts_router_scale {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod mesh {
            pub use ::moe_model::spec::Mesh as mesh;
        }
        pub mod stages {
            pub use ::moe_model::spec::stages::even as even;
            pub use ::moe_model::spec::Stages as stages;
        }
        pub mod schedule {
            pub use ::moe_model::spec::Schedule::Gpipe as gpipe;
            pub use ::moe_model::spec::Schedule::OneFOneB as one_f_one_b;
            pub use ::moe_model::spec::Schedule::Interleaved as interleaved;
            pub use ::moe_model::spec::Schedule::ZbH1 as zb_h1;
            pub use ::moe_model::spec::Schedule::ZbV as zb_v;
            pub use ::moe_model::spec::Schedule::DualPipe as dual_pipe;
            pub use ::moe_model::spec::Schedule::DualPipeV as dual_pipe_v;
        }
        pub mod zero {
            pub use ::moe_model::spec::zero::none as none;
            pub use ::moe_model::spec::zero::optimizer as optimizer;
            pub use ::moe_model::spec::zero::gradients as gradients;
            pub use ::moe_model::spec::zero::parameters as parameters;
            pub use ::moe_model::spec::Zero as zero;
        }
        pub mod placement {
            pub use ::moe_model::spec::Placement as placement;
        }
        pub mod precision {
            pub use ::moe_model::spec::Precision as precision;
        }
        pub mod batch {
            pub use ::moe_model::spec::Batch as batch;
        }
        pub mod recompute {
            pub use ::moe_model::spec::Recompute::None as none;
            pub use ::moe_model::spec::Recompute::Full as full;
            pub use ::moe_model::spec::Recompute::Selective as selective;
        }
        pub mod modules {
            pub use ::moe_model::spec::Modules as modules;
        }
        pub mod routing {
            pub use ::moe_model::spec::routing::balanced as balanced;
            pub use ::moe_model::spec::routing::worst as worst;
            pub use ::moe_model::spec::Dropless as dropless;
            pub use ::moe_model::spec::Capacity as capacity;
        }
        pub mod serving {
            pub use ::moe_model::spec::Service::None as none;
            pub use ::moe_model::spec::Serving as serving;
        }
        pub mod accounting {
            pub use ::moe_model::spec::accounting::paper as paper;
            pub use ::moe_model::spec::accounting::worked_example as worked_example;
            pub use ::moe_model::spec::accounting::megatron_core as megatron_core;
            pub use ::moe_model::spec::accounting::transformers as transformers;
            pub use ::moe_model::spec::accounting::torchtitan as torchtitan;
            pub use ::moe_model::spec::accounting::reference as reference;
            pub use ::moe_model::spec::Paper as paper;
            pub use ::moe_model::spec::WorkedExample as worked_example;
            pub use ::moe_model::spec::MegatronCore as megatron_core;
            pub use ::moe_model::spec::Transformers as transformers;
            pub use ::moe_model::spec::Torchtitan as torchtitan;
            pub use ::moe_model::spec::Reference as reference;
        }
        pub mod target {
            pub use ::moe_model::spec::Target::Reference as reference;
            pub use ::moe_model::spec::Target::MegatronCore as megatron_core;
            pub use ::moe_model::spec::Target::Deepspeed as deepspeed;
            pub use ::moe_model::spec::Target::Torchtitan as torchtitan;
        }
        pub mod device {
            pub use ::moe_model::spec::Device::None as none;
            pub use ::moe_model::spec::Device::A100Gb40 as a100_40gb;
            pub use ::moe_model::spec::Device::A100Gb80 as a100_80gb;
            pub use ::moe_model::spec::Device::H100 as h100;
            pub use ::moe_model::spec::Device::H200 as h200;
            pub use ::moe_model::spec::Device::B200 as b200;
        }
        pub mod headroom {
            pub use ::moe_model::spec::percent as percent;
        }
        pub mod mesh_context {
            pub use ::moe_model::spec::Context::Contiguous as contiguous;
            pub use ::moe_model::spec::Context::Ring as ring;
            pub use ::moe_model::spec::Context::AllToAll as all_to_all;
            pub use ::moe_model::spec::Context::Hierarchical as hierarchical;
        }
        pub mod mesh_sequence_parallel {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod stages_embedding {
            pub use ::moe_model::spec::Weighed::Apart as apart;
            pub use ::moe_model::spec::Weighed::AsLayer as as_layer;
        }
        pub mod stages_loss {
            pub use ::moe_model::spec::Weighed::Apart as apart;
            pub use ::moe_model::spec::Weighed::AsLayer as as_layer;
        }
        pub mod zero_dense {
            pub use ::moe_model::spec::ZeroStage::None as none;
            pub use ::moe_model::spec::ZeroStage::Optimizer as optimizer;
            pub use ::moe_model::spec::ZeroStage::Gradients as gradients;
            pub use ::moe_model::spec::ZeroStage::Parameters as parameters;
        }
        pub mod zero_expert {
            pub use ::moe_model::spec::ZeroStage::None as none;
            pub use ::moe_model::spec::ZeroStage::Optimizer as optimizer;
            pub use ::moe_model::spec::ZeroStage::Gradients as gradients;
            pub use ::moe_model::spec::ZeroStage::Parameters as parameters;
        }
        pub mod zero_groups {
            pub use ::moe_model::spec::ZeroGroups::ByReplica as by_replica;
            pub use ::moe_model::spec::ZeroGroups::MoeBlock as moe_block;
            pub use ::moe_model::spec::ZeroGroups::Uniform as uniform;
        }
        pub mod placement_query_rope {
            pub use ::moe_model::spec::Split::Split as split;
            pub use ::moe_model::spec::Split::Replicated as replicated;
        }
        pub mod placement_shared_experts {
            pub use ::moe_model::spec::Split::Split as split;
            pub use ::moe_model::spec::Split::Replicated as replicated;
        }
        pub mod placement_dense_ffn {
            pub use ::moe_model::spec::Split::Split as split;
            pub use ::moe_model::spec::Split::Replicated as replicated;
        }
        pub mod precision_weights {
            pub use ::moe_model::spec::Dtype::None as none;
            pub use ::moe_model::spec::Dtype::Fp32 as fp32;
            pub use ::moe_model::spec::Dtype::Bf16 as bf16;
            pub use ::moe_model::spec::Dtype::Fp16 as fp16;
            pub use ::moe_model::spec::Dtype::Fp8 as fp8;
        }
        pub mod precision_gradients {
            pub use ::moe_model::spec::Dtype::None as none;
            pub use ::moe_model::spec::Dtype::Fp32 as fp32;
            pub use ::moe_model::spec::Dtype::Bf16 as bf16;
            pub use ::moe_model::spec::Dtype::Fp16 as fp16;
            pub use ::moe_model::spec::Dtype::Fp8 as fp8;
        }
        pub mod precision_master {
            pub use ::moe_model::spec::Dtype::None as none;
            pub use ::moe_model::spec::Dtype::Fp32 as fp32;
            pub use ::moe_model::spec::Dtype::Bf16 as bf16;
            pub use ::moe_model::spec::Dtype::Fp16 as fp16;
            pub use ::moe_model::spec::Dtype::Fp8 as fp8;
        }
        pub mod precision_moments {
            pub use ::moe_model::spec::Dtype::None as none;
            pub use ::moe_model::spec::Dtype::Fp32 as fp32;
            pub use ::moe_model::spec::Dtype::Bf16 as bf16;
            pub use ::moe_model::spec::Dtype::Fp16 as fp16;
            pub use ::moe_model::spec::Dtype::Fp8 as fp8;
        }
        pub mod precision_activations {
            pub use ::moe_model::spec::Dtype::None as none;
            pub use ::moe_model::spec::Dtype::Fp32 as fp32;
            pub use ::moe_model::spec::Dtype::Bf16 as bf16;
            pub use ::moe_model::spec::Dtype::Fp16 as fp16;
            pub use ::moe_model::spec::Dtype::Fp8 as fp8;
        }
        pub mod precision_block_attention {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod precision_compute {
            pub use ::moe_model::spec::Compute::Activations as activations;
            pub use ::moe_model::spec::Compute::Fp8Delayed as fp8_delayed;
            pub use ::moe_model::spec::Compute::Fp8Current as fp8_current;
            pub use ::moe_model::spec::Compute::Fp8Blockwise as fp8_blockwise;
            pub use ::moe_model::spec::Compute::Fp8DeepseekV3 as fp8_deepseek_v3;
        }
        pub mod modules_core_attention {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod modules_latent_up {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod modules_norms {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod modules_activation {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod modules_shared_experts {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod modules_experts {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod modules_dense {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod attention_bias {
            pub use ::moe_model::spec::Bias::None as none;
            pub use ::moe_model::spec::Bias::Qkv as qkv;
            pub use ::moe_model::spec::Bias::All as all;
        }
        pub mod attention_qk_norm {
            pub use ::moe_model::spec::QkNorm::None as none;
            pub use ::moe_model::spec::QkNorm::Head as head;
            pub use ::moe_model::spec::QkNorm::Full as full;
        }
        pub mod attention_sinks {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod attention_output_gate {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod attention_key_as_value {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod mixer_bias {
            pub use ::moe_model::spec::Bias::None as none;
            pub use ::moe_model::spec::Bias::Qkv as qkv;
            pub use ::moe_model::spec::Bias::All as all;
        }
        pub mod mixer_qk_norm {
            pub use ::moe_model::spec::QkNorm::None as none;
            pub use ::moe_model::spec::QkNorm::Head as head;
            pub use ::moe_model::spec::QkNorm::Full as full;
        }
        pub mod mixer_sinks {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod mixer_shared_kv {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod routing_load {
            pub use ::moe_model::spec::Load::Skew as skew;
            pub use ::moe_model::spec::Load::Worst as worst;
        }
        pub mod serving_cache {
            pub use ::moe_model::spec::Dtype::None as none;
            pub use ::moe_model::spec::Dtype::Fp32 as fp32;
            pub use ::moe_model::spec::Dtype::Bf16 as bf16;
            pub use ::moe_model::spec::Dtype::Fp16 as fp16;
            pub use ::moe_model::spec::Dtype::Fp8 as fp8;
        }
        pub mod serving_state {
            pub use ::moe_model::spec::Dtype::None as none;
            pub use ::moe_model::spec::Dtype::Fp32 as fp32;
            pub use ::moe_model::spec::Dtype::Bf16 as bf16;
            pub use ::moe_model::spec::Dtype::Fp16 as fp16;
            pub use ::moe_model::spec::Dtype::Fp8 as fp8;
        }
        pub mod serving_mla {
            pub use ::moe_model::spec::MlaCache::Latent as latent;
            pub use ::moe_model::spec::MlaCache::Expanded as expanded;
        }
        pub mod serving_logprobs {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod accounting_kernel {
            pub use ::moe_model::spec::Kernel::Eager as eager;
            pub use ::moe_model::spec::Kernel::Flash as flash;
        }
        pub mod accounting_dropout {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod accounting_pool {
            pub use ::moe_model::spec::Pool::Replica as replica;
            pub use ::moe_model::spec::Pool::Group as group;
        }
        pub mod accounting_checkpoint {
            pub use ::moe_model::spec::Checkpoint::Layer as layer;
            pub use ::moe_model::spec::Checkpoint::SubBlock as sub_block;
        }
        pub mod accounting_version {
            pub use ::moe_model::spec::MegatronVersion::V011 as v0_11;
            pub use ::moe_model::spec::MegatronVersion::V016 as v0_16;
            pub use ::moe_model::spec::MegatronVersion::V020 as v0_20;
        }
        pub mod accounting_implementation {
            pub use ::moe_model::spec::Implementation::Local as local;
            pub use ::moe_model::spec::Implementation::TransformerEngine as transformer_engine;
        }
        pub mod accounting_cublas {
            pub use ::moe_model::spec::Cublas::Default as default;
            pub use ::moe_model::spec::Cublas::Large as large;
            pub use ::moe_model::spec::Cublas::Small as small;
        }
        pub mod accounting_fused_gradients {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod accounting_loss {
            pub use ::moe_model::spec::Loss::VocabParallel as vocab_parallel;
            pub use ::moe_model::spec::Loss::Engine as transformer_engine;
            pub use ::moe_model::spec::Loss::EngineInPlace as transformer_engine_in_place;
        }
        pub mod accounting_core {
            pub use ::moe_model::spec::CoreAttention::Unfused as unfused;
            pub use ::moe_model::spec::CoreAttention::FusedSoftmax as fused_softmax;
            pub use ::moe_model::spec::CoreAttention::Flash as flash;
            pub use ::moe_model::spec::CoreAttention::Cudnn as cudnn;
            pub use ::moe_model::spec::CoreAttention::Efficient as efficient;
        }
        pub mod accounting_experts {
            pub use ::moe_model::spec::ExpertKernel::Sequential as sequential;
            pub use ::moe_model::spec::ExpertKernel::Grouped as grouped;
            pub use ::moe_model::spec::ExpertKernel::GroupedCompiled as grouped_compiled;
        }
        pub mod accounting_activation {
            pub use ::moe_model::spec::GatedActivation::Fused as fused;
            pub use ::moe_model::spec::GatedActivation::Unfused as unfused;
            pub use ::moe_model::spec::GatedActivation::Fp8Input as fp8_input;
        }
        pub mod accounting_dropout {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod accounting_score {
            pub use ::moe_model::spec::Score::Sigmoid as sigmoid;
            pub use ::moe_model::spec::Score::Softmax as softmax;
            pub use ::moe_model::spec::Score::PreSoftmax as pre_softmax;
        }
        pub mod accounting_aux_loss {
            pub use ::moe_model::spec::AuxLoss::None as none;
            pub use ::moe_model::spec::AuxLoss::Batch as batch;
            pub use ::moe_model::spec::AuxLoss::Sequence as sequence;
            pub use ::moe_model::spec::AuxLoss::BatchAndZ as batch_and_z;
        }
        pub mod accounting_router {
            pub use ::moe_model::spec::RouterFormat::Fp32 as fp32;
            pub use ::moe_model::spec::RouterFormat::Activations as activations;
        }
        pub mod accounting_dispatcher {
            pub use ::moe_model::spec::Dispatcher::AllToAll as all_to_all;
            pub use ::moe_model::spec::Dispatcher::AllGather as all_gather;
        }
        pub mod accounting_pad {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod accounting_shared_overlap {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod accounting_norms {
            pub use ::moe_model::spec::NormCode::Fused as fused;
            pub use ::moe_model::spec::NormCode::Composite as composite;
        }
        pub mod accounting_distribute {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod accounting_attention {
            pub use ::moe_model::spec::AttentionCode::Eager as eager;
            pub use ::moe_model::spec::AttentionCode::Sdpa as sdpa;
        }
        pub mod accounting_backend {
            pub use ::moe_model::spec::Backend::Math as math;
            pub use ::moe_model::spec::Backend::Flash as flash;
            pub use ::moe_model::spec::Backend::Efficient as efficient;
            pub use ::moe_model::spec::Backend::Cudnn as cudnn;
        }
        pub mod accounting_routed {
            pub use ::moe_model::spec::RoutedCode::Eager as eager;
            pub use ::moe_model::spec::RoutedCode::GroupedMm as grouped_mm;
        }
        pub mod accounting_score {
            pub use ::moe_model::spec::Score::Sigmoid as sigmoid;
            pub use ::moe_model::spec::Score::Softmax as softmax;
            pub use ::moe_model::spec::Score::PreSoftmax as pre_softmax;
        }
        pub mod accounting_router {
            pub use ::moe_model::spec::RouterFormat::Fp32 as fp32;
            pub use ::moe_model::spec::RouterFormat::Activations as activations;
        }
        pub mod accounting_normalised {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod accounting_router_logits {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod accounting_backend {
            pub use ::moe_model::spec::Backend::Math as math;
            pub use ::moe_model::spec::Backend::Flash as flash;
            pub use ::moe_model::spec::Backend::Efficient as efficient;
            pub use ::moe_model::spec::Backend::Cudnn as cudnn;
        }
        pub mod accounting_norms {
            pub use ::moe_model::spec::NormCode::Fused as fused;
            pub use ::moe_model::spec::NormCode::Composite as composite;
        }
        pub mod accounting_score {
            pub use ::moe_model::spec::Score::Sigmoid as sigmoid;
            pub use ::moe_model::spec::Score::Softmax as softmax;
            pub use ::moe_model::spec::Score::PreSoftmax as pre_softmax;
        }
        pub mod accounting_router {
            pub use ::moe_model::spec::RouterFormat::Fp32 as fp32;
            pub use ::moe_model::spec::RouterFormat::Activations as activations;
        }
        pub mod accounting_normalised {
            pub use ::moe_model::spec::Switch::Off as off;
            pub use ::moe_model::spec::Switch::On as on;
        }
        pub mod accounting_kernel {
            pub use ::moe_model::spec::Kernel::Eager as eager;
            pub use ::moe_model::spec::Kernel::Flash as flash;
        }
        pub mod layouts {
            pub const Main: ::moe_model::spec::Layout = ::moe_model::spec::Layout::DEFAULT;
            pub const Pipelined: ::moe_model::spec::Layout = ::moe_model::spec::Layout::DEFAULT;
        }
    }
}
