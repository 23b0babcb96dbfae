//! What the compiler says of declarations that are wrong, case by case: see `tests/ui/README.md`.

use std::env;
use std::io::{self, Write};
use std::process::Command;

/// The compiler whose words the `.stderr` files hold.
const BLESSED: &str = "rustc 1.95.";

#[test]
fn ui() {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().expect("rustc tells its version");
    let version = String::from_utf8_lossy(&output.stdout);
    if !version.starts_with(BLESSED) {
        // Straight to standard error: the test harness swallows what a passing test prints.
        let line = format!("SKIPPED ui tests: they hold the messages of {BLESSED}x, this is {version}");
        io::stderr().write_all(line.as_bytes()).expect("standard error is open");
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
    cases.compile_fail("tests/ui/architecture/*.rs");
    cases.compile_fail("tests/ui/keys/*.rs");
    cases.compile_fail("tests/ui/layout/*.rs");
    cases.compile_fail("tests/ui/layouts/*.rs");
    cases.compile_fail("tests/ui/one_number/*.rs");
    cases.compile_fail("tests/ui/smoke/*.rs");
    cases.compile_fail("tests/ui/typed/*.rs");
    cases.compile_fail("tests/ui/values/*.rs");
    cases.compile_fail("tests/ui/warnings/*.rs");
}
