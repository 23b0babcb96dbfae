//! Builds an example, for tests that run it as its user does.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The executable of an example. Cargo builds examples only for a run of all tests, so that one found beside this
/// executable could be an old one.
pub(crate) fn built(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in the target directory");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--example", name, "--message-format", "json"]);
    // The profile of this test, whose dependencies are built.
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).env("CARGO_TARGET_DIR", target);
    let output = cargo.output().expect("cargo starts");
    assert!(output.status.success(), "the example builds:\n{}", String::from_utf8_lossy(&output.stderr));
    executable(&String::from_utf8_lossy(&output.stdout), name).expect("cargo names the executable")
}

/// The executable among cargo's messages, one on a line.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut named = messages.filter(|message| message["target"]["name"] == name);
    named.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}
