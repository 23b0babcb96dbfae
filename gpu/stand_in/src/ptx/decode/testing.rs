//! What tests of single instructions read.

use crate::ptx::PtxError;
use crate::ptx::instruction::Op;
use crate::ptx::parser::parse;

/// One instruction, of registers `%r`, `%rd`, `%f` and `%p`.
pub(super) fn one(text: &str) -> Result<Op, PtxError> {
    let module = parse(&format!(
        ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{{\n\
         .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .f32 %f<4>; .reg .pred %p<4>;\n{text}\nret;\n}}\n"
    ))?;
    Ok(module.entries["k"].code[0].op.clone())
}

/// Why one is refused.
pub(super) fn refused(text: &str) -> String {
    match one(text) {
        Err(error) => error.text,
        Ok(op) => panic!("{text} is {op:?}"),
    }
}
