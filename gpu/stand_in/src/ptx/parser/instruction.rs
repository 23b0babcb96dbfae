//! Instructions: guard, opcode, operands.

use super::Parser;
use super::entry::Body;
use super::scope::{Name, Scope};
use crate::ptx::PtxError;
use crate::ptx::decode::{self, Operand};
use crate::ptx::instruction::{ALWAYS, Entry, Instruction, NEVER, Op, Predicate, Space};
use crate::ptx::lexer::Token;

impl Parser {
    pub(super) fn instruction(
        &mut self,
        scope: &mut Scope,
        entry: &mut Entry,
        body: &mut Body,
        line: u32,
    ) -> Result<(), PtxError> {
        let (mut guard, mut negated) = (ALWAYS, false);
        if self.is('@') {
            negated = self.is('!');
            let name = self.word()?;
            let Some(Name::Predicate(p)) = scope.lookup(&name) else {
                return self.error(format!("{name} is no predicate"));
            };
            guard = p;
        }
        let opcode = self.word()?;
        let operands = self.operands(&opcode, scope)?;
        if opcode == "bra" || opcode == "bra.uni" {
            let [Operand::Name(label)] = &operands[..] else {
                return Err(PtxError::new(line, "a branch to a label expected"));
            };
            body.jumps.push((entry.code.len(), label.clone(), line));
            entry.code.push(Instruction { op: Op::Branch { target: 0 }, guard, negated, line });
            return Ok(());
        }
        let op = decode::decode(&opcode, &operands, scope, line)?;
        entry.code.push(Instruction { op, guard, negated, line });
        Ok(())
    }

    fn operands(&mut self, opcode: &str, scope: &mut Scope) -> Result<Vec<Operand>, PtxError> {
        let mut operands = Vec::new();
        if self.is(';') {
            return Ok(operands);
        }
        loop {
            let operand = self.operand(scope);
            operands.push(operand.map_err(|e| PtxError::new(e.line, format!("{opcode}: {}", e.text)))?);
            // `%r1|%p1`: two results.
            if self.is('|') {
                operands.push(Operand::Bar);
            } else if !self.is(',') {
                self.expect(';')?;
                return Ok(operands);
            }
        }
    }

    fn operand(&mut self, scope: &mut Scope) -> Result<Operand, PtxError> {
        let line = self.line();
        if self.is('{') {
            let mut parts = Vec::new();
            while !self.is('}') {
                parts.push(self.operand(scope)?);
                self.is(',');
            }
            return Ok(Operand::Vector(parts));
        }
        if self.is('[') {
            return self.address(scope, line);
        }
        if self.is('!') {
            let name = self.word()?;
            return match scope.lookup(&name) {
                Some(Name::Predicate(p)) => Ok(Operand::Predicate(p, true)),
                _ => self.error(format!("{name} is no predicate")),
            };
        }
        if self.peek() == Some(&Token::Mark('-')) {
            return Ok(Operand::Number(self.whole()?));
        }
        match self.next()? {
            Token::Number(n) => Ok(Operand::Number(n)),
            Token::Float32(n) => Ok(Operand::Float32(n)),
            Token::Float64(n) => Ok(Operand::Float64(n)),
            Token::Word(name) => self.named(name, scope, line),
            other => {
                self.at -= 1;
                self.error(format!("an operand expected, found {other:?}"))
            }
        }
    }

    /// What is in brackets, the first of which is taken.
    fn address(&mut self, scope: &mut Scope, line: u32) -> Result<Operand, PtxError> {
        let (base, space) = match self.next()? {
            Token::Word(name) => match scope.lookup(&name) {
                Some(Name::Register(r)) => (r, None),
                Some(Name::Parameter(at)) => (scope.number(at.into(), line)?, Some(Space::Param)),
                Some(Name::Shared(at)) => (scope.number(at.into(), line)?, Some(Space::Shared)),
                Some(Name::Local(at)) => (scope.number(at.into(), line)?, Some(Space::Local)),
                Some(Name::Predicate(_)) => return self.error(format!("{name} is no address")),
                None => match scope.symbol(&name, line)? {
                    Some(r) => (r, None),
                    None => return self.error(format!("unknown address {name}")),
                },
            },
            Token::Number(at) => (scope.number(at, line)?, None),
            other => return self.error(format!("an address expected, found {other:?}")),
        };
        let mut offset = 0_u64;
        if self.is('+') || self.peek() == Some(&Token::Mark('-')) {
            offset = self.whole()?;
        }
        self.expect(']')?;
        Ok(Operand::Address { base, offset: offset.cast_signed(), space })
    }

    fn named(&mut self, name: String, scope: &mut Scope, line: u32) -> Result<Operand, PtxError> {
        if name == "_" {
            return Ok(Operand::Sink);
        }
        if let Some(found) = scope.lookup(&name) {
            return Ok(match found {
                Name::Register(r) => Operand::Register(r),
                Name::Predicate(p) => Operand::Predicate(p, false),
                Name::Shared(at) | Name::Local(at) => Operand::Number(at.into()),
                Name::Parameter(_) => return self.error(format!("the address of parameter {name} is taken")),
            });
        }
        if let Some(special) = decode::special_of(&name) {
            return Ok(Operand::Register(scope.special(special, line)?));
        }
        if let Some(r) = scope.symbol(&name, line)? {
            return Ok(Operand::Register(r));
        }
        if name.starts_with('%') {
            self.at -= 1;
            return self.error(format!("unknown register {name}"));
        }
        Ok(Operand::Name(name))
    }
}

/// The predicate of a number.
pub(crate) fn constant_predicate(number: u64) -> Predicate {
    if number == 0 { NEVER } else { ALWAYS }
}

#[cfg(test)]
mod tests {
    use crate::ptx::instruction::{Op, Space};
    use crate::ptx::parser::parse;
    use crate::ptx::parser::tests::module;

    #[test]
    fn accesses_know_space_width_and_offset() {
        let body = ".reg .b64 %rd<2>; .reg .f32 %f<5>;\n\
                    ld.global.nc.L1::no_allocate.v4.f32 {%f0, %f1, %f2, %f3}, [%rd1+-16];\nret;";
        let module = parse(&module(body)).unwrap();
        let Op::Load { space, d, offset, .. } = &module.entries["k"].code[0].op else { panic!("no load") };
        assert_eq!((*space, d.len(), *offset), (Space::Global, 4, -16));
    }
}
