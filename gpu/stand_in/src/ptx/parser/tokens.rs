//! The tokens ahead, taken one by one.

use super::Parser;
use crate::ptx::PtxError;
use crate::ptx::lexer::Token;

impl Parser {
    pub(super) fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |t| t.line)
    }

    pub(super) fn error<T>(&self, text: impl Into<String>) -> Result<T, PtxError> {
        Err(PtxError::new(self.line(), text))
    }

    pub(super) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|t| &t.token)
    }

    pub(super) fn next(&mut self) -> Result<Token, PtxError> {
        let Some(token) = self.tokens.get(self.at) else { return self.error("the text ends too early") };
        self.at += 1;
        Ok(token.token.clone())
    }

    pub(super) fn is(&mut self, mark: char) -> bool {
        let is = self.peek() == Some(&Token::Mark(mark));
        self.at += usize::from(is);
        is
    }

    pub(super) fn expect(&mut self, mark: char) -> Result<(), PtxError> {
        if self.is(mark) { Ok(()) } else { self.error(format!("`{mark}` expected, found {:?}", self.peek())) }
    }

    pub(super) fn word(&mut self) -> Result<String, PtxError> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            other => {
                self.at -= 1;
                self.error(format!("a name expected, found {other:?}"))
            }
        }
    }

    pub(super) fn whole(&mut self) -> Result<u64, PtxError> {
        let negative = self.is('-');
        match self.next()? {
            Token::Number(n) => Ok(if negative { n.wrapping_neg() } else { n }),
            Token::Float32(n) => Ok(n.into()),
            Token::Float64(n) => Ok(n),
            other => {
                self.at -= 1;
                self.error(format!("a number expected, found {other:?}"))
            }
        }
    }

    pub(super) fn small(&mut self) -> Result<u32, PtxError> {
        let whole = self.whole()?;
        u32::try_from(whole).or_else(|_| self.error(format!("{whole} is too large")))
    }
}
