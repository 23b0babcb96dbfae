//! Text to tokens.

use super::PtxError;

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    /// A name, an opcode with its dotted parts, a register, a directive.
    Word(String),
    /// A whole number as its two's complement.
    Number(u64),
    /// `0f3F800000`: the bits.
    Float32(u32),
    /// `0d3FF0000000000000`: the bits.
    Float64(u64),
    /// A quoted text.
    Text(String),
    /// One of `, ; { } [ ] ( ) < > + - | @ ! = : *`.
    Mark(char),
}

/// A token and its line, from 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Located {
    /// The token.
    pub token: Token,
    /// Its line.
    pub line: u32,
}

fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'_' | b'$' | b'%' | b'.')
}

/// All tokens of a text.
///
/// # Errors
/// A character or a number that is none of PTX.
pub fn tokens(text: &str) -> Result<Vec<Located>, PtxError> {
    let bytes = text.as_bytes();
    let (mut at, mut line) = (0, 1_u32);
    let mut all = Vec::new();
    while at < bytes.len() {
        let c = bytes[at];
        let next = bytes.get(at + 1).copied().unwrap_or(0);
        if c == b'\n' {
            line += 1;
            at += 1;
        } else if c.is_ascii_whitespace() || c == 0 {
            at += 1;
        } else if c == b'/' && next == b'/' {
            while at < bytes.len() && bytes[at] != b'\n' {
                at += 1;
            }
        } else if c == b'/' && next == b'*' {
            let end = text[at + 2..].find("*/").map_or(bytes.len(), |e| at + 2 + e + 2);
            line += u32::try_from(text[at..end].matches('\n').count()).unwrap_or(0);
            at = end;
        } else if c == b'"' {
            let end = text[at + 1..].find('"').map(|e| at + 1 + e);
            let end = end.ok_or_else(|| PtxError::new(line, "a text without its end"))?;
            all.push(Located { token: Token::Text(text[at + 1..end].into()), line });
            at = end + 1;
        } else if c.is_ascii_digit() {
            let start = at;
            while at < bytes.len() && is_word(bytes[at]) && bytes[at] != b'.' {
                at += 1;
            }
            all.push(Located { token: number(&text[start..at], line)?, line });
        } else if is_word(c) {
            let start = at;
            loop {
                if at < bytes.len() && is_word(bytes[at]) {
                    at += 1;
                } else if text[at..].starts_with("::") {
                    at += 2;
                } else {
                    break;
                }
            }
            all.push(Located { token: Token::Word(text[start..at].into()), line });
        } else if b",;{}[]()<>+-|@!=:*".contains(&c) {
            all.push(Located { token: Token::Mark(char::from(c)), line });
            at += 1;
        } else {
            return Err(PtxError::new(line, format!("unknown character {:?}", char::from(c))));
        }
    }
    Ok(all)
}

fn number(text: &str, line: u32) -> Result<Token, PtxError> {
    let bad = |_| PtxError::new(line, format!("{text} is no number"));
    if let Some(hex) = text.strip_prefix("0f").or(text.strip_prefix("0F")) {
        return Ok(Token::Float32(u32::from_str_radix(hex, 16).map_err(bad)?));
    }
    if let Some(hex) = text.strip_prefix("0d").or(text.strip_prefix("0D")) {
        return Ok(Token::Float64(u64::from_str_radix(hex, 16).map_err(bad)?));
    }
    let digits = text.trim_end_matches('U');
    let value = if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        u64::from_str_radix(hex, 16)
    } else if digits.len() > 1 && digits.starts_with('0') {
        u64::from_str_radix(digits, 8)
    } else {
        digits.parse()
    };
    Ok(Token::Number(value.map_err(bad)?))
}

#[cfg(test)]
mod tests {
    use super::{Token, tokens};

    #[test]
    fn opcodes_registers_and_numbers_are_tokens_with_their_lines() {
        let all = tokens("// x\nld.global.L1::no_allocate.f32 %f1, [%rd2+-4]; /* \n */ mov 0f3F800000, 0x1F;").unwrap();
        assert_eq!(all[0].token, Token::Word("ld.global.L1::no_allocate.f32".into()));
        assert_eq!((all[0].line, all.last().unwrap().line), (2, 3));
        assert!(all.iter().any(|t| t.token == Token::Float32(0x3f80_0000)));
        assert!(all.iter().any(|t| t.token == Token::Number(31)));
    }

    #[test]
    fn a_label_is_a_word_and_a_colon() {
        let all = tokens("$L__BB0_2:").unwrap();
        assert_eq!((all.len(), &all[1].token), (2, &Token::Mark(':')));
    }

    #[test]
    fn a_stray_character_is_refused_with_its_line() {
        assert_eq!(tokens("\n\n ^").unwrap_err().line, 3);
    }
}
