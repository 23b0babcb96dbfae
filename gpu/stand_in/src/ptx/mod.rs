//! PTX as NVRTC writes it: text to typed instructions.

pub mod decode;
pub mod instruction;
pub mod lexer;
pub mod parser;

use core::fmt;

/// Why a module is refused, and in which line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PtxError {
    /// From 1.
    pub line: u32,
    /// The reason.
    pub text: String,
}

impl PtxError {
    pub(crate) fn new(line: u32, text: impl Into<String>) -> Self {
        Self { line, text: text.into() }
    }
}

impl fmt::Display for PtxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PTX line {}: {}", self.line, self.text)
    }
}

impl core::error::Error for PtxError {}
