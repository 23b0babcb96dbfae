//! DeepSeek-V3 under the layout of arXiv:2502.07846: what each rank holds, stage by stage, without and with full
//! recomputation, however much of its state is sharded, beside what the paper prints; and what two steps of such ranks
//! allocated, each allocation asserted.
//!
//! `cargo run --example deepseek_v3` prints tables; `-- --json` prints the same as JSON, in exact
//! integers, `-- --csv` our numbers beside the paper's.
//! Every number of ours comes from the model declared below; what is typed in is what the paper prints.

#[path = "common/behind.rs"]
#[allow(dead_code)] // how other reports say it
mod behind;
#[path = "deepseek_v3/by_zero.rs"]
mod by_zero;
#[path = "common/columns.rs"]
mod columns;
#[path = "deepseek_v3/csv.rs"]
mod csv_rows;
#[path = "common/number.rs"]
mod number;
#[path = "deepseek_v3/paper.rs"]
mod paper;
#[path = "deepseek_v3/report.rs"]
mod report;
#[path = "deepseek_v3/review.rs"]
mod review;
#[path = "common/sheet.rs"]
#[allow(dead_code)] // what labs say
mod sheet;
#[path = "common/small.rs"]
mod small;
#[path = "deepseek_v3/step.rs"]
mod step;
#[path = "common/table.rs"]
mod table;
#[path = "deepseek_v3/tables.rs"]
mod tables;
#[path = "deepseek_v3/text.rs"]
mod text;
#[path = "common/wrapped.rs"]
mod wrapped;

use clap::{Arg, ArgAction, ArgMatches, Command};
use moe_model::{H200, moe_model};
use report::Report;
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

    /// What the step of this project holds on the same ranks, which its ledger asserts while it runs.
    layout Step: layout { placement: placement {}, accounting: reference, ..Full },
}

// The build fails if the worst rank outgrows an H200.
const _: () = assert!(DeepSeekV3::FULL.peak().bytes() < H200.usable().bytes());

fn main() -> ExitCode {
    let matches = command().get_matches();
    let report = match Report::new(&DeepSeekV3::PAPER, &DeepSeekV3::FULL) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    match print(&report, &matches) {
        Ok(()) => ExitCode::SUCCESS,
        // A reader such as `head` has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: the report could not be written: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(report: &Report, matches: &ArgMatches) -> io::Result<()> {
    let text = match (matches.get_flag("json"), matches.get_flag("csv")) {
        (true, _) => serde_json::to_string_pretty(report)? + "\n",
        (_, true) => csv_rows::of(report).map_err(io::Error::other)?,
        _ => tables::all(report),
    };
    io::stdout().write_all(text.as_bytes())
}

fn command() -> Command {
    Command::new("deepseek_v3")
        .about("Memory of each rank of DeepSeek-V3 under the layout of arXiv:2502.07846")
        .long_about(
            "Memory of each rank of DeepSeek-V3 under the layout of arXiv:2502.07846.\n\n\
             Prints, for every pipeline stage, parameters, weights, gradients, optimizer state and activations,\n\
             without and with full recomputation; the static bytes under each ZeRO stage; the worst rank of each\n\
             combination; what the paper prints beside our numbers, with the reason where they differ; objections\n\
             to it, answered; the ranges that it allows beyond tensors, beside terms of ours; and what two steps\n\
             allocated, of such ranks without values and of a small model on the CPU, each one asserted.",
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .conflicts_with("csv")
                .help("Print the same as JSON, with exact integers, and nothing else"),
        )
        .arg(
            Arg::new("csv")
                .long("csv")
                .action(ArgAction::SetTrue)
                .help("Print our numbers beside the paper's as CSV, with exact integers"),
        )
}
