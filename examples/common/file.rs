//! The file that an example is asked about.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The bytes of a file, or of stdin if the path is `-`; or why there are none. Larger files than `largest` are not read.
pub(crate) fn bytes(path: &Path, largest: u64) -> Result<Vec<u8>, String> {
    let opened: io::Result<Box<dyn Read>> =
        if path == "-" { Ok(Box::new(io::stdin())) } else { File::open(path).map(|file| Box::new(file) as _) };
    let mut bytes = Vec::new();
    match opened.and_then(|file| file.take(largest + 1).read_to_end(&mut bytes)) {
        Err(error) => Err(format!("the file cannot be read: {error}")),
        Ok(_) if bytes.len() as u64 > largest => Err(format!("the file has more than {largest} bytes")),
        Ok(_) => Ok(bytes),
    }
}
