//! Variables, of a module and of an entry, and registers.

use super::Parser;
use super::scope::{Name, Scope};
use crate::ptx::PtxError;
use crate::ptx::decode;
use crate::ptx::instruction::{Entry, Type, Variable};
use crate::ptx::lexer::Token;

impl Parser {
    /// `.align N .TYPE name[count]`: alignment, size of an element, name, how many (`None`: sized at launch).
    pub(super) fn declaration(&mut self) -> Result<(u32, Type, String, Option<u32>), PtxError> {
        let mut align = None;
        let ty = loop {
            let word = self.word()?;
            match word.as_str() {
                ".align" => align = Some(self.small()?),
                ".managed" | ".ptr" | ".global" | ".const" | ".shared" => {}
                _ => match decode::type_of(word.trim_start_matches('.')) {
                    Some(ty) => break ty,
                    None => return self.error(format!("unknown attribute {word} of a variable")),
                },
            }
        };
        // A parameter's attributes may follow its type: `.param .u64 .ptr .align 1 name`.
        while matches!(self.peek(), Some(Token::Word(w)) if w.starts_with('.')) {
            if self.word()? == ".align" {
                self.small()?;
            }
        }
        let name = self.word()?;
        let mut count = Some(1_u32);
        while self.is('[') {
            if self.is(']') {
                count = None;
            } else {
                let n = self.small()?;
                count = count.and_then(|c| c.checked_mul(n));
                self.expect(']')?;
            }
        }
        Ok((align.unwrap_or(ty.bytes()).max(ty.bytes()), ty, name, count))
    }

    pub(super) fn variable(&mut self, space: &str) -> Result<(), PtxError> {
        let (align, ty, name, count) = self.declaration()?;
        let bytes = count.map(|c| c * ty.bytes());
        if space == ".shared" {
            self.shared.push((name, bytes, align));
            return self.expect(';');
        }
        let Some(bytes) = bytes else { return self.error(format!("{name} has no size")) };
        let mut content = if self.is('=') { self.content(ty)? } else { Vec::new() };
        content.resize(bytes as usize, 0);
        self.module.variables.insert(name, Variable { content, is_constant: space == ".const" });
        self.expect(';')
    }

    /// The numbers of a variable, in braces within braces or alone.
    fn content(&mut self, ty: Type) -> Result<Vec<u8>, PtxError> {
        let (mut content, mut depth) = (Vec::new(), 0);
        loop {
            if self.is('{') {
                depth += 1;
            } else if self.is('}') {
                depth -= 1;
            } else if !self.is(',') {
                let value = self.whole()?;
                content.extend_from_slice(&value.to_le_bytes()[..ty.bytes() as usize]);
            }
            if depth == 0 {
                return Ok(content);
            }
        }
    }

    /// Bytes of shared memory that the body ahead declares.
    pub(super) fn declared_shared(&mut self, from: u32) -> Result<u32, PtxError> {
        let (start, mut depth, mut bytes) = (self.at, 0, from);
        while let Some(token) = self.peek().cloned() {
            self.at += 1;
            match token {
                Token::Mark('{') => depth += 1,
                Token::Mark('}') => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                Token::Word(word) if word == ".shared" => {
                    let (align, ty, _, count) = self.declaration()?;
                    bytes = bytes.next_multiple_of(align) + count.unwrap_or(0) * ty.bytes();
                }
                _ => {}
            }
        }
        self.at = start;
        Ok(bytes)
    }

    /// A directive in an entry's body.
    pub(super) fn local_declaration(
        &mut self,
        word: &str,
        scope: &mut Scope,
        entry: &mut Entry,
        static_at: &mut u32,
    ) -> Result<(), PtxError> {
        match word {
            ".reg" => self.registers(scope)?,
            ".shared" | ".local" => {
                let (align, ty, name, count) = self.declaration()?;
                let at = if word == ".shared" { &mut *static_at } else { &mut entry.local_bytes };
                let first = at.next_multiple_of(align);
                *at = first + count.unwrap_or(0) * ty.bytes();
                scope.name(name, if word == ".shared" { Name::Shared(first) } else { Name::Local(first) });
            }
            ".pragma" => {
                self.next()?;
            }
            ".loc" => {
                while self.peek().is_some() && self.tokens[self.at].line == self.tokens[self.at - 1].line {
                    self.at += 1;
                }
                return Ok(());
            }
            _ => return self.error(format!("unknown directive {word}")),
        }
        self.expect(';')
    }

    /// `.TYPE name, name<count>`.
    fn registers(&mut self, scope: &mut Scope) -> Result<(), PtxError> {
        let ty = self.word()?;
        let is_predicate = ty == ".pred";
        if !is_predicate && decode::type_of(ty.trim_start_matches('.')).is_none() {
            return self.error(format!("registers of type {ty} are not known"));
        }
        loop {
            let name = self.word()?;
            let mut count = None;
            if self.is('<') {
                count = Some(self.small()?);
                self.expect('>')?;
            }
            scope.declare(name, count, is_predicate, self.line())?;
            if !self.is(',') {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ptx::instruction::Preset;
    use crate::ptx::parser::parse;
    use crate::ptx::parser::tests::module;

    #[test]
    fn what_is_sized_at_launch_begins_after_what_is_declared() {
        let body = ".reg .b64 %rd<2>; .shared .align 4 .b8 own[20];\nmov.u64 %rd0, tile;\nmov.u64 %rd1, own;\nret;";
        let module = parse(&module(body)).unwrap();
        let entry = &module.entries["k"];
        assert_eq!(entry.shared_bytes, 32);
        assert!(entry.presets.iter().any(|(_, p)| *p == Preset::Number(32)));
        assert!(entry.presets.iter().any(|(_, p)| *p == Preset::Number(0)));
    }

    #[test]
    fn variables_of_a_module_have_their_content() {
        let text = ".version 9.0\n.target sm_90\n.address_size 64\n.const .align 4 .u32 t[2] = {1, -2};\n\
                    .global .align 8 .b8 g[3] = {7};\n";
        let module = parse(text).unwrap();
        assert_eq!(module.variables["t"].content, [1, 0, 0, 0, 254, 255, 255, 255]);
        assert_eq!(module.variables["g"].content, [7, 0, 0]);
        assert!(module.variables["t"].is_constant && !module.variables["g"].is_constant);
    }
}
