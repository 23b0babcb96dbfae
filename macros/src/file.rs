//! The file behind `architecture: file("config.json")`: found, read, and given to the core. All that is wrong with it is
//! said at its path.

use crate::report::Report;
use moe_model_core::spec::Architecture;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{env, fs, io};
use syn::LitStr;

/// No config is as large; a wrong path may lead to anything.
const LARGEST: u64 = 4 << 20;

/// The architecture in a file, and the file's absolute path; `None` if there is none, which is reported.
pub(crate) fn read(literal: &LitStr, report: &mut Report) -> Option<(Architecture, String)> {
    let written = literal.value();
    let path = match located(literal, &written) {
        Ok(path) => path,
        Err(error) => {
            report.error(literal, format!("`{written}` cannot be looked for: {error}"));
            return None;
        }
    };
    match text(&path) {
        Ok(text) => {
            let architecture = parsed(literal, &text, report)?;
            Some((architecture, path.to_str()?.to_owned()))
        }
        Err(error) => {
            report.error(literal, unreadable(&written, &path, &error));
            None
        }
    }
}

/// Where a path leads: from the source file that it is written in, as `include_str!` has it. Where the compiler does not
/// tell that file, from the crate's folder.
fn located(literal: &LitStr, written: &str) -> io::Result<PathBuf> {
    let source = literal.span().local_file().and_then(|file| file.parent().map(Path::to_owned));
    let folder = source.or_else(|| env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from)).unwrap_or_default();
    let path = std::path::absolute(folder.join(written))?;
    // It is written into the expansion, which is text.
    if path.to_str().is_none() {
        return Err(io::Error::other("the folder's name is not UTF-8"));
    }
    Ok(path)
}

fn text(path: &Path) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    // A pipe would be waited for.
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    if metadata.len() > LARGEST {
        return Err(io::Error::other("it is larger than 4 MiB, which no config is"));
    }
    let bytes = fs::read(path)?;
    String::from_utf8(bytes)
        .map_err(|error| io::Error::other(format!("byte {} is not UTF-8", error.utf8_error().valid_up_to())))
}

fn parsed(literal: &LitStr, text: &str, report: &mut Report) -> Option<Architecture> {
    match Architecture::from_config_json(text) {
        Ok(architecture) => Some(architecture),
        Err(error) => {
            for fault in error.faults() {
                report.error(literal, fault.to_string());
            }
            None
        }
    }
}

fn unreadable(written: &str, path: &Path, error: &io::Error) -> String {
    let what = match error.kind() {
        ErrorKind::NotFound => "there is no such file".to_owned(),
        _ => error.to_string(),
    };
    let note = format!("`{written}` cannot be read: {what}\n= note: it is looked for at `{}`", path.display());
    if error.kind() == ErrorKind::NotFound && Path::new(written).is_relative() {
        return note + "\n= help: a path begins at the source file that it is written in";
    }
    note
}
