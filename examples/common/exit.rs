//! How an example ends.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// How it went, unless what there is to say could not be said.
pub(crate) fn exit(printed: io::Result<()>, code: ExitCode) -> ExitCode {
    match printed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            // With stderr gone as well, the exit code is all there is.
            let _ = writeln!(io::stderr(), "error: the report could not be written: {error}");
            ExitCode::from(2)
        }
        // A reader such as `head` has seen enough.
        _ => code,
    }
}
