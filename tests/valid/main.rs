//! Declarations that are valid: they compile as they stand, without a warning where a file denies them, and mean what is
//! written. Those that are wrong are cases of `tests/ui/`.

// They are as users write them, whose lints are not this workspace's; what a file denies it denies.
#![allow(deprecated, unreachable_pub)]
#![allow(clippy::doc_markdown, clippy::too_many_lines, clippy::unreadable_literal)]

mod constants;
#[rustfmt::skip]
mod declarations;
mod deepseek_v3;
mod file;
mod pieces;
mod preset;
mod warning_allowed;
mod warning_expected;
