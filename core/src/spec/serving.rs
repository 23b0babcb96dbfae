//! What a layout that serves keeps and runs, in the place of a training step.

use super::schema::{
    Field, Kind, NUMBER_MAX, Value, Word, field_code, field_decode, field_default, field_in_range, field_required,
    field_type, field_value, group, kinds, words,
};
use super::values::{Dtype, Switch};
use crate::key::{Key, KeySet, Numbers};
use crate::saturating::mul;

words! {
    /// What is cached of multi-head latent attention.
    MlaCache {
        /// The latent and the rotary key, which all heads share: each tensor-parallel rank holds them whole.
        Latent = "latent",
        /// Keys and values of every head, as engines without a kernel for latents hold them.
        Expanded = "expanded",
    }
}

group! {
    /// What is served: sequences that are kept at once, and the tokens that run at once.
    Serving {
        /// Sequences that each data-parallel replica keeps at once.
        requests: number at least 1 = ServingRequests;
        /// Tokens of each of them, prompt and answer together.
        context: number at least 1 = ServingContext;
        /// Tokens of a block in which the cache is handed out (vLLM's `--block-size`): a context takes whole ones.
        block: number at least 1 = ServingBlock, default 16;
        /// Format of cached keys, values and latents, an indexer's keys among them, without scales (vLLM's
        /// `--kv-cache-dtype`; its `fp8_ds_mla` keeps rotary keys in bf16 and scales beside the latents, 656 bytes instead of
        /// 576).
        cache: Dtype = ServingCache, default Dtype::Bf16;
        /// Format of the recurrent states of linear attention and of state spaces (vLLM's `--mamba-ssm-cache-dtype`, which
        /// takes that of activations unless it or the model says otherwise); their convolutions keep tokens in that of
        /// activations.
        state: Dtype = ServingState, default Dtype::Fp32;
        /// What is cached of multi-head latent attention.
        mla: MlaCache = ServingMla, default MlaCache::Latent;
        /// Tokens of prompts that run at once, whatever the prompts' length (chunked prefill, vLLM's
        /// `--max-num-batched-tokens`).
        prefill: number at least 1 = ServingPrefill, default 8192;
        /// Whether log-probabilities of all tokens of a prompt are wanted, not of the last alone.
        logprobs: Switch = ServingLogprobs, default Switch::Off;
    }
}

kinds! {
    /// What a layout serves, if it does not train.
    Service or None = "none" {
        /// Requests with a context each.
        Serving = "serving",
    }
}

impl Serving {
    /// Tokens that one pass over the prompts takes, over all context-parallel ranks.
    #[must_use]
    pub const fn prefill_tokens(&self) -> u64 {
        let all = mul(self.requests, self.context);
        if all < self.prefill { all } else { self.prefill }
    }
}
