//! Entries: parameters, limits, and the body with its blocks and labels.

use super::Parser;
use super::pointers::mark_pointers;
use super::scope::{Name, Scope};
use crate::ptx::PtxError;
use crate::ptx::instruction::{ALWAYS, Entry, Instruction, Op, Parameter};
use crate::ptx::lexer::Token;
use std::collections::HashMap;
use std::sync::Arc;

/// A body on its way.
#[derive(Default)]
pub(super) struct Body {
    labels: HashMap<String, u32>,
    /// Branches to labels: where each stands, its label, its line.
    pub(super) jumps: Vec<(usize, String, u32)>,
    /// Bytes of shared memory that are declared so far.
    shared: u32,
}

impl Parser {
    pub(super) fn entry(&mut self) -> Result<(), PtxError> {
        let (name, mut scope) = (self.word()?, Scope::of(&self.module));
        let mut entry = Entry {
            name,
            parameters: Vec::new(),
            parameter_bytes: 0,
            code: Vec::new(),
            registers: 0,
            predicates: 0,
            presets: Vec::new(),
            shared_bytes: 0,
            local_bytes: 0,
            max_threads: None,
        };
        self.parameters(&mut scope, &mut entry)?;
        self.limits(&mut entry)?;
        let mut body = Body::default();
        let dynamic = self.outer_shared(&mut scope, &mut body)?;
        self.body(&mut scope, &mut entry, &mut body)?;
        entry.shared_bytes = dynamic.unwrap_or(body.shared);
        for (at, label, line) in body.jumps {
            let Some(&target) = body.labels.get(&label) else {
                return Err(PtxError::new(line, format!("no label {label}")));
            };
            entry.code[at].op = Op::Branch { target };
        }
        let line = self.line();
        entry.code.push(Instruction { op: Op::Exit, guard: ALWAYS, negated: false, line });
        entry.registers = u16::try_from(scope.registers).or_else(|_| self.error("too many registers"))?;
        entry.predicates = u16::try_from(scope.predicates).or_else(|_| self.error("too many predicates"))?;
        entry.presets = scope.presets;
        mark_pointers(&mut entry);
        self.module.entries.insert(entry.name.clone(), Arc::new(entry));
        Ok(())
    }

    /// What a launch has to keep to.
    fn limits(&mut self, entry: &mut Entry) -> Result<(), PtxError> {
        while let Some(Token::Word(word)) = self.peek() {
            let word = word.clone();
            self.at += 1;
            match word.as_str() {
                ".maxntid" | ".reqntid" => {
                    let mut threads = self.small()?;
                    while self.is(',') {
                        threads = threads.saturating_mul(self.small()?);
                    }
                    entry.max_threads = Some(threads);
                }
                ".minnctapersm" | ".maxnreg" => {
                    self.small()?;
                }
                _ => return self.error(format!("unknown directive {word} of an entry")),
            }
        }
        Ok(())
    }

    /// Places the shared variables that are declared outside of entries; gives where those begin that are sized at launch, if
    /// there are any.
    fn outer_shared(&mut self, scope: &mut Scope, body: &mut Body) -> Result<Option<u32>, PtxError> {
        let shared = self.shared.clone();
        for (name, bytes, align) in &shared {
            if let Some(bytes) = bytes {
                let at = body.shared.next_multiple_of(*align);
                scope.name(name.clone(), Name::Shared(at));
                body.shared = at + bytes;
            }
        }
        // What is sized at launch begins after all that is declared, wherever in the body.
        let dynamic = self.declared_shared(body.shared)?.next_multiple_of(16);
        let mut sized = shared.iter().filter(|(_, bytes, _)| bytes.is_none()).peekable();
        let begins = sized.peek().map(|_| dynamic);
        sized.for_each(|(name, ..)| scope.name(name.clone(), Name::Shared(dynamic)));
        Ok(begins)
    }

    fn parameters(&mut self, scope: &mut Scope, entry: &mut Entry) -> Result<(), PtxError> {
        if !self.is('(') {
            return Ok(());
        }
        while !self.is(')') {
            if self.word()? != ".param" {
                return self.error(".param expected");
            }
            let (align, ty, name, count) = self.declaration()?;
            let bytes = count.unwrap_or(1) * ty.bytes();
            let offset = entry.parameter_bytes.next_multiple_of(align);
            entry.parameter_bytes = offset + bytes;
            scope.name(name, Name::Parameter(offset));
            entry.parameters.push(Parameter { offset, bytes, is_pointer: false });
            self.is(',');
        }
        Ok(())
    }

    fn body(&mut self, scope: &mut Scope, entry: &mut Entry, body: &mut Body) -> Result<(), PtxError> {
        self.expect('{')?;
        loop {
            if self.is('}') {
                return Ok(());
            }
            if self.peek() == Some(&Token::Mark('{')) {
                scope.open();
                self.body(scope, entry, body)?;
                scope.close();
                continue;
            }
            if self.is(';') {
                continue;
            }
            let line = self.line();
            if let (Some(Token::Word(word)), Some(Token::Mark(':'))) =
                (self.peek().cloned(), self.tokens.get(self.at + 1).map(|t| &t.token))
            {
                self.at += 2;
                body.labels.insert(word, u32::try_from(entry.code.len()).unwrap_or(u32::MAX));
                continue;
            }
            if let Some(Token::Word(word)) = self.peek().cloned()
                && word.starts_with('.')
            {
                self.at += 1;
                self.local_declaration(&word, scope, entry, &mut body.shared)?;
                continue;
            }
            self.instruction(scope, entry, body, line)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ptx::instruction::{ALWAYS, Op};
    use crate::ptx::parser::parse;
    use crate::ptx::parser::tests::module;

    #[test]
    fn guards_labels_and_scopes() {
        let body = ".reg .pred %p<2>; .reg .b32 %r<3>;\n$A: setp.lt.s32 %p1, %r1, 5;\n\
                    { .reg .b32 %own; mov.u32 %own, %tid.x; add.s32 %r1, %own, -1; }\n@!%p1 bra $A;\nret;";
        let module = parse(&module(body)).unwrap();
        let code = &module.entries["k"].code;
        assert!(matches!(code[3].op, Op::Branch { target: 0 }) && code[3].negated && code[3].guard != ALWAYS);
        // One more at the end, for bodies without.
        assert!(code.len() == 6 && code[4].op == Op::Exit && code[5].op == Op::Exit);
    }
}
