//! How an example ends that says one text, or what is wrong.

use crate::exit::exit;
use std::io::{self, Write};
use std::process::ExitCode;

/// Prints it, or to stderr what is wrong, with its exit code.
pub(crate) fn end(said: Result<String, (String, u8)>) -> ExitCode {
    match said {
        Ok(text) => exit(io::stdout().write_all(text.as_bytes()), ExitCode::SUCCESS),
        Err((text, code)) => exit(io::stderr().write_all(text.as_bytes()), ExitCode::from(code)),
    }
}
