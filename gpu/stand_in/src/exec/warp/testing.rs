//! What tests of a warp's instructions run.

use crate::exec::{Launch, Traffic, run};
use crate::memory::{Memory, Rules};
use crate::ptx::parser::parse;
use crate::report::Fault;
use std::collections::HashMap;

/// Runs a body of which the lanes of one block end with a number in `%r0` each.
pub(super) fn lanes(threads: u32, body: &str) -> Result<Vec<u32>, Fault> {
    let text = format!(
        ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(\n.param .u64 k_0\n)\n{{\n\
         .reg .b64 %rd<4>; .reg .b32 %r<10>; .reg .pred %p<5>; .shared .align 4 .b8 tile[256];\n\
         mov.u32 %r1, %tid.x;\nmov.u32 %r0, 0;\n{body}\n$END:\n\
         ld.param.u64 %rd0, [k_0];\ncvta.to.global.u64 %rd0, %rd0;\nmul.wide.u32 %rd1, %r1, 4;\n\
         add.s64 %rd0, %rd0, %rd1;\nst.global.u32 [%rd0], %r0;\nret;\n}}\n"
    );
    let module = parse(&text).unwrap();
    let rules = Rules { capacity: 1 << 20, granularity: 1, refuse_unwritten: true, is_dry: false };
    let mut memory = Memory::new(1 << 44, rules);
    let out = memory.allocate(4 * u64::from(threads), None).unwrap();
    let launch = Launch {
        entry: &module.entries["k"],
        lines: &module.lines,
        constants: &[],
        symbols: &HashMap::new(),
        grid: [1; 3],
        block: [threads, 1, 1],
        dynamic_shared: 0,
        checks_blocks: false,
        parameters: &out.to_le_bytes(),
        most_instructions: 1 << 16,
    };
    let Traffic { written, .. } = run(&launch, &mut memory)?;
    assert_eq!(written, 4 * u64::from(threads));
    let mut bytes = vec![0; 4 * threads as usize];
    memory.read(out, &mut bytes).unwrap();
    Ok(bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect())
}
