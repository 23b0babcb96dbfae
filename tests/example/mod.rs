//! Builds an example and runs it as its user does.

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// Exit code, stdout, stderr.
pub(crate) type Said = (i32, String, String);

/// The day that reports are of, in seconds and in words.
pub(crate) const DATE: (&str, &str) = ("1795996800", "2026-11-30");

/// An example, built once for all tests of an executable.
pub(crate) struct Example {
    name: &'static str,
    executable: OnceLock<PathBuf>,
}

impl Example {
    pub(crate) const fn named(name: &'static str) -> Self {
        Self { name, executable: OnceLock::new() }
    }

    /// In the root of the repository.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(self.executable.get_or_init(|| built(self.name)));
        command.current_dir(env!("CARGO_MANIFEST_DIR")).env("SOURCE_DATE_EPOCH", DATE.0);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        said(self.command().args(arguments).output().expect("the example starts"))
    }

    /// Of a text on stdin.
    #[allow(dead_code)] // one example reads none
    pub(crate) fn run_on(&self, text: &[u8], arguments: &[&str]) -> Said {
        let mut command = self.command();
        command.args(["-"]).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the example starts");
        child.stdin.take().expect("stdin is piped").write_all(text).expect("it reads all");
        said(child.wait_with_output().expect("it exits"))
    }
}

pub(crate) fn said(output: Output) -> Said {
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    (output.status.code().expect("it exits"), text(output.stdout), text(output.stderr))
}

/// The executable of an example. Cargo builds examples only for a run of all tests, so that one found beside this
/// executable could be an old one.
fn built(name: &str) -> PathBuf {
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
