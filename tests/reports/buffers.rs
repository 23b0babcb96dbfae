//! Single tensors: logits, copies of tokens, the cache of keys and values.

use crate::{entry, plan, training};
use moe_model::preset::{DEEPSEEK_V2_LITE, DEEPSEEK_V3, QWEN3_8B, QWEN3_30B_A3B};
use moe_model::spec::{
    Accounting, Architecture, Attention, Gqa, Layers, Layout, MegatronCore, MegatronVersion, Mesh, Service, Serving,
};
use moe_model::{Bytes, Role, Spec};

/// M14: log-probabilities of four sequences want their logits in fp32, 9.27 GiB, in chunks of 512 tokens 1.16 GiB. The report
/// meets outside training what is the same tensor there.
#[test]
fn fp32_logits_of_four_sequences() {
    let logits = |sequence| {
        let mut spec = training(QWEN3_30B_A3B, Mesh::DEFAULT);
        spec.layout.accounting = Accounting::PAPER;
        (spec.layout.batch.micro, spec.layout.batch.sequence) = (4, sequence);
        entry(&plan(spec), 0, "logits").bytes()
    };
    assert_eq!(logits(4096).bytes(), 9_957_277_696);
    assert_eq!([4096, 512].map(|tokens| logits(tokens).to_string()), ["9.27 GiB", "1.16 GiB"]);
}

/// M07: outputs of experts, one for each copy of a token, that were kept so that routing weights can be applied to them: 48 MiB
/// a layer and micro-batch of DeepSeek-V2-Lite, 64 MiB of Qwen3-30B-A3B. megatron-core 0.11 keeps them too, later versions
/// apply the weights before the last product.
#[test]
fn outputs_of_experts_are_kept_to_be_weighted() {
    const NAME: &str = "outputs of copies";
    for (architecture, mib) in [(DEEPSEEK_V2_LITE, 48), (QWEN3_30B_A3B, 64)] {
        let of = |version| {
            let mut spec = training(architecture, Mesh { dp: 2, ep: 2, ..Mesh::DEFAULT });
            spec.layout.batch.sequence = 2048;
            spec.layout.accounting = Accounting::MegatronCore(MegatronCore { version, ..MegatronCore::DEFAULT });
            plan(spec)
        };
        let copies = entry(&of(MegatronVersion::V011), 0, NAME);
        assert_eq!(copies.local_elements() * copies.element.bytes, Bytes::mib(mib).bytes());
        assert_eq!((copies.role, copies.count), (Role::Activation, architecture.layers.moe));
        assert!(of(MegatronVersion::V016).inventory(0).iter().all(|entry| entry.name != NAME));
    }
}

/// E09: an engine sized what it sends to experts by heads x width of a head, 65,536, where tokens are as wide as the residual
/// stream, 7168: 9.14 times too much. Of the report's model only these widths matter.
#[test]
fn sent_tokens_are_as_wide_as_the_residual_stream() {
    let heads = Gqa { heads: 128, kv_heads: 1, head_dim: 512, ..Gqa::DEFAULT };
    let architecture = Architecture { hidden: 7168, attention: Attention::Gqa(heads), ..QWEN3_30B_A3B };
    let mut spec = training(architecture, Mesh { dp: 8, ep: 8, ..Mesh::DEFAULT });
    (spec.layout.accounting, spec.layout.batch.sequence) = (Accounting::WORKED_EXAMPLE, 8192);
    let buffers = entry(&plan(spec), 0, "all-to-all buffers");
    // Eight copies of each of the 8192 tokens of a rank, one buffer to send from and one to receive into.
    assert_eq!((buffers.role, buffers.bytes().bytes()), (Role::Communication, 2 * (8 * 8192) * 7168 * 2));
}

/// What a token takes in the cache of one rank that serves a model.
fn per_token(architecture: Architecture) -> u64 {
    let serving = Serving { requests: 1, context: 4096, ..Serving::DEFAULT };
    let layout = Layout { serving: Service::Serving(serving), ..Layout::DEFAULT };
    plan(Spec { architecture, layout }).kv_cache_per_token(0).bytes()
}

/// E16: calculators took the latent of MLA for keys and for values (124,928 bytes a token of DeepSeek-V3), and the width of a
/// head for hidden / heads (163,840 of Qwen3-32B).
#[test]
fn a_token_in_the_cache() {
    let heads = Gqa { heads: 64, kv_heads: 8, head_dim: 128, ..Gqa::DEFAULT };
    let qwen3_32b = Architecture {
        hidden: 5120,
        layers: Layers { dense: 64, ffn: 25_600, ..Layers::DEFAULT },
        attention: Attention::Gqa(heads),
        ..QWEN3_8B
    };
    assert_eq!((per_token(DEEPSEEK_V3), per_token(qwen3_32b)), (70_272, 262_144));
}
