//! Tokens to a module: declarations, entries, labels.

mod declaration;
mod entry;
mod instruction;
mod pointers;
mod scope;
mod tokens;

pub(crate) use instruction::constant_predicate;
pub(crate) use scope::Scope;

use super::PtxError;
use super::instruction::Module;
use super::lexer::{Located, Token, tokens};

/// Reads a module.
///
/// # Errors
/// The first thing that is not understood, with its line.
pub fn parse(text: &str) -> Result<Module, PtxError> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens, at: 0, module: Module::default(), shared: Vec::new() };
    parser.module.lines = text.lines().map(|l| l.trim().to_owned()).collect();
    parser.module()?;
    Ok(parser.module)
}

struct Parser {
    pub(super) tokens: Vec<Located>,
    pub(super) at: usize,
    pub(super) module: Module,
    /// Shared variables outside of entries: name, bytes (`None`: sized at launch), alignment.
    pub(super) shared: Vec<(String, Option<u32>, u32)>,
}

impl Parser {
    fn module(&mut self) -> Result<(), PtxError> {
        while self.peek().is_some() {
            let word = self.word()?;
            match word.as_str() {
                ".version" => self.version()?,
                ".target" => {
                    self.word()?;
                    while self.is(',') {
                        self.word()?;
                    }
                }
                ".address_size" => {
                    if self.whole()? != 64 {
                        return self.error("addresses of 64 bits alone");
                    }
                }
                ".visible" | ".weak" | ".extern" | ".common" => {}
                ".entry" => self.entry()?,
                ".global" | ".const" | ".shared" => self.variable(&word)?,
                ".file" | ".section" => return self.error(format!("{word}: compile without debug information")),
                ".func" => return self.error(".func: a function that is called, not inlined (use __forceinline__)"),
                _ => {
                    self.at -= 1;
                    return self.error(format!("unknown directive {word}"));
                }
            }
        }
        Ok(())
    }

    fn version(&mut self) -> Result<(), PtxError> {
        let version = self.next()?;
        // `9.0` is a number and a word.
        if let Some(Token::Word(w)) = self.peek()
            && w.starts_with('.')
            && w[1..].bytes().all(|b| b.is_ascii_digit())
        {
            self.at += 1;
        }
        if matches!(version, Token::Number(1..=9)) {
            return Ok(());
        }
        self.at -= 1;
        self.error("a PTX version after 9 is not known")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::parse;

    /// A module of one entry.
    pub(in crate::ptx::parser) fn module(body: &str) -> String {
        format!(
            ".version 9.0\n.target sm_90\n.address_size 64\n.extern .shared .align 16 .b8 tile[];\n\
             .visible .entry k(\n.param .u64 k_0,\n.param .u32 k_1,\n.param .u64 k_2\n)\n.maxntid 128, 1, 1\n{{\n{body}\n}}\n"
        )
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_line() {
        for (bad, says) in [
            ("wgmma.fence.sync.aligned;", "wgmma"),
            ("ld.global.v8.f32 %f1, [%rd1];", "v8"),
            ("add.s32 %r9, %r1, 1;", "%r9"),
            ("bra $nowhere;", "$nowhere"),
            ("bar.sync 0, 64;", "a part of the block"),
            ("cvt.rna.tf32.f32 %r1, %f1;", "tf32"),
            ("call.uni f, ();", "call"),
        ] {
            let body = format!(".reg .b64 %rd<2>; .reg .f32 %f<2>; .reg .b32 %r<2>;\n{bad}\nret;");
            let error = parse(&module(&body)).unwrap_err();
            assert!(error.line == 13 && error.text.contains(says), "{bad}: {error}");
        }
    }

    #[test]
    fn a_newer_version_and_debug_information_are_refused() {
        assert!(parse(".version 10.1").unwrap_err().text.contains("version"));
        assert!(parse(".version 9.0\n.file 1 \"x.cu\"").unwrap_err().text.contains("debug"));
    }
}
