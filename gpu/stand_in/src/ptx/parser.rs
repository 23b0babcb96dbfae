//! Tokens to a module: declarations, entries, labels.

use super::PtxError;
use super::decode::{self, Operand};
use super::instruction::{
    ALWAYS, Entry, Instruction, Module, NEVER, Op, Parameter, Predicate, Preset, Register, Space, Special, Type,
    Variable,
};
use super::lexer::{Located, Token, tokens};
use std::collections::HashMap;
use std::sync::Arc;

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
    tokens: Vec<Located>,
    at: usize,
    module: Module,
    /// Shared variables outside of entries: name, bytes (`None`: sized at launch), alignment.
    shared: Vec<(String, Option<u32>, u32)>,
}

/// What a name in an entry means.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Name {
    Register(Register),
    Predicate(Predicate),
    Parameter(u32),
    Shared(u32),
    Local(u32),
}

/// An entry on its way.
pub(crate) struct Scope {
    names: Vec<HashMap<String, Name>>,
    /// `%f<10>`: prefix, how many, the first's number.
    families: Vec<Vec<(String, u32, Family)>>,
    registers: u32,
    predicates: u32,
    presets: Vec<(Register, Preset)>,
    known: HashMap<u64, Register>,
    specials: HashMap<Special, Register>,
    symbols: HashMap<String, Register>,
    variables: HashMap<String, bool>,
}

#[derive(Debug, Clone, Copy)]
enum Family {
    Registers(u32),
    Predicates(u32),
}

impl Scope {
    pub(crate) fn fresh(&mut self, line: u32) -> Result<Register, PtxError> {
        let at = Register::try_from(self.registers).map_err(|_| PtxError::new(line, "too many registers"))?;
        self.registers += 1;
        Ok(at)
    }

    /// A register that holds a number.
    pub(crate) fn number(&mut self, value: u64, line: u32) -> Result<Register, PtxError> {
        if let Some(&r) = self.known.get(&value) {
            return Ok(r);
        }
        let r = self.fresh(line)?;
        self.known.insert(value, r);
        self.presets.push((r, Preset::Number(value)));
        Ok(r)
    }

    pub(crate) fn special(&mut self, special: Special, line: u32) -> Result<Register, PtxError> {
        if let Some(&r) = self.specials.get(&special) {
            return Ok(r);
        }
        let r = self.fresh(line)?;
        self.specials.insert(special, r);
        self.presets.push((r, Preset::Special(special)));
        Ok(r)
    }

    /// The register with the address of a module's variable.
    pub(crate) fn symbol(&mut self, name: &str, line: u32) -> Result<Option<Register>, PtxError> {
        if !self.variables.contains_key(name) {
            return Ok(None);
        }
        if let Some(&r) = self.symbols.get(name) {
            return Ok(Some(r));
        }
        let r = self.fresh(line)?;
        self.symbols.insert(name.to_owned(), r);
        self.presets.push((r, Preset::Symbol(name.to_owned())));
        Ok(Some(r))
    }

    pub(crate) fn lookup(&self, name: &str) -> Option<Name> {
        for (names, families) in self.names.iter().zip(&self.families).rev() {
            if let Some(&found) = names.get(name) {
                return Some(found);
            }
            for (prefix, count, family) in families {
                let Some(digits) = name.strip_prefix(prefix.as_str()) else { continue };
                let Ok(number) = digits.parse::<u32>() else { continue };
                if number < *count {
                    // All of them fit, it was checked where they were declared.
                    return Some(match family {
                        Family::Registers(first) => Name::Register(Register::try_from(first + number).ok()?),
                        Family::Predicates(first) => Name::Predicate(Predicate::try_from(first + number).ok()?),
                    });
                }
            }
        }
        None
    }
}

impl Parser {
    fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |t| t.line)
    }

    fn error<T>(&self, text: impl Into<String>) -> Result<T, PtxError> {
        Err(PtxError::new(self.line(), text))
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|t| &t.token)
    }

    fn next(&mut self) -> Result<Token, PtxError> {
        let Some(token) = self.tokens.get(self.at) else { return self.error("the text ends too early") };
        self.at += 1;
        Ok(token.token.clone())
    }

    fn is(&mut self, mark: char) -> bool {
        let is = self.peek() == Some(&Token::Mark(mark));
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, mark: char) -> Result<(), PtxError> {
        if self.is(mark) { Ok(()) } else { self.error(format!("`{mark}` expected, found {:?}", self.peek())) }
    }

    fn word(&mut self) -> Result<String, PtxError> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            other => {
                self.at -= 1;
                self.error(format!("a name expected, found {other:?}"))
            }
        }
    }

    fn whole(&mut self) -> Result<u64, PtxError> {
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

    fn small(&mut self) -> Result<u32, PtxError> {
        let whole = self.whole()?;
        u32::try_from(whole).or_else(|_| self.error(format!("{whole} is too large")))
    }

    fn module(&mut self) -> Result<(), PtxError> {
        while self.peek().is_some() {
            let word = self.word()?;
            match word.as_str() {
                ".version" => {
                    let version = self.next()?;
                    // `9.0` is a number and a word.
                    if let Some(Token::Word(w)) = self.peek()
                        && w.starts_with('.')
                        && w[1..].bytes().all(|b| b.is_ascii_digit())
                    {
                        self.at += 1;
                    }
                    if !matches!(version, Token::Number(1..=9)) {
                        self.at -= 1;
                        return self.error("a PTX version after 9 is not known");
                    }
                }
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

    /// `.align N .TYPE name[count]`: alignment, size of an element, name, how many (`None`: sized at launch).
    fn declaration(&mut self) -> Result<(u32, Type, String, Option<u32>), PtxError> {
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

    fn variable(&mut self, space: &str) -> Result<(), PtxError> {
        let (align, ty, name, count) = self.declaration()?;
        let bytes = count.map(|c| c * ty.bytes());
        if space == ".shared" {
            self.shared.push((name, bytes, align));
            return self.expect(';');
        }
        let Some(bytes) = bytes else { return self.error(format!("{name} has no size")) };
        let mut content = Vec::new();
        if self.is('=') {
            let mut depth = 0;
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
                    break;
                }
            }
        }
        content.resize(bytes as usize, 0);
        self.module.variables.insert(name, Variable { content, is_constant: space == ".const" });
        self.expect(';')
    }

    fn entry(&mut self) -> Result<(), PtxError> {
        let name = self.word()?;
        let mut scope = Scope {
            names: vec![HashMap::new()],
            families: vec![Vec::new()],
            registers: 0,
            predicates: 2,
            presets: Vec::new(),
            known: HashMap::new(),
            specials: HashMap::new(),
            symbols: HashMap::new(),
            variables: self.module.variables.iter().map(|(n, v)| (n.clone(), v.is_constant)).collect(),
        };
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
        let mut static_at = 0_u32;
        let shared = self.shared.clone();
        for (name, bytes, align) in &shared {
            if let Some(bytes) = bytes {
                let at = static_at.next_multiple_of(*align);
                scope.names[0].insert(name.clone(), Name::Shared(at));
                static_at = at + bytes;
            }
        }
        // What is sized at launch begins after all that is declared, wherever in the body.
        let dynamic = self.declared_shared(static_at)?.next_multiple_of(16);
        for (name, _, _) in shared.iter().filter(|s| s.1.is_none()) {
            scope.names[0].insert(name.clone(), Name::Shared(dynamic));
        }
        let (mut labels, mut jumps) = (HashMap::new(), Vec::new());
        self.body(&mut scope, &mut entry, &mut labels, &mut jumps, &mut static_at)?;
        entry.shared_bytes = if shared.iter().any(|s| s.1.is_none()) { dynamic } else { static_at };
        for (at, label, line) in jumps {
            let Some(&target) = labels.get(&label) else {
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

    /// Bytes of shared memory that the body ahead declares.
    fn declared_shared(&mut self, from: u32) -> Result<u32, PtxError> {
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
            scope.names[0].insert(name, Name::Parameter(offset));
            entry.parameters.push(Parameter { offset, bytes, is_pointer: false });
            self.is(',');
        }
        Ok(())
    }

    fn body(
        &mut self,
        scope: &mut Scope,
        entry: &mut Entry,
        labels: &mut HashMap<String, u32>,
        jumps: &mut Vec<(usize, String, u32)>,
        static_at: &mut u32,
    ) -> Result<(), PtxError> {
        self.expect('{')?;
        loop {
            if self.is('}') {
                return Ok(());
            }
            if self.peek() == Some(&Token::Mark('{')) {
                scope.names.push(HashMap::new());
                scope.families.push(Vec::new());
                self.body(scope, entry, labels, jumps, static_at)?;
                scope.names.pop();
                scope.families.pop();
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
                labels.insert(word, u32::try_from(entry.code.len()).unwrap_or(u32::MAX));
                continue;
            }
            if let Some(Token::Word(word)) = self.peek().cloned()
                && word.starts_with('.')
            {
                self.at += 1;
                self.local_declaration(&word, scope, entry, static_at)?;
                continue;
            }
            self.instruction(scope, entry, jumps, line)?;
        }
    }

    fn local_declaration(
        &mut self,
        word: &str,
        scope: &mut Scope,
        entry: &mut Entry,
        static_at: &mut u32,
    ) -> Result<(), PtxError> {
        match word {
            ".reg" => {
                let ty = self.word()?;
                let is_predicate = ty == ".pred";
                let parsed = decode::type_of(ty.trim_start_matches('.'));
                if !is_predicate && parsed.is_none() {
                    return self.error(format!("registers of type {ty} are not known"));
                }
                loop {
                    let name = self.word()?;
                    let count = if self.is('<') {
                        let count = self.small()?;
                        self.expect('>')?;
                        Some(count)
                    } else {
                        None
                    };
                    let next = if is_predicate { &mut scope.predicates } else { &mut scope.registers };
                    let first = *next;
                    *next = next.saturating_add(count.unwrap_or(1));
                    if *next > u32::from(u16::MAX) {
                        return self.error("too many registers");
                    }
                    let (names, families) = (scope.names.last_mut(), scope.families.last_mut());
                    let small = u16::try_from(first).unwrap_or(u16::MAX);
                    match (count, names, families) {
                        (Some(count), _, Some(families)) => families.push((
                            name,
                            count,
                            if is_predicate { Family::Predicates(first) } else { Family::Registers(first) },
                        )),
                        (None, Some(names), _) => {
                            let found = if is_predicate { Name::Predicate(small) } else { Name::Register(small) };
                            names.insert(name, found);
                        }
                        _ => {}
                    }
                    if !self.is(',') {
                        break;
                    }
                }
            }
            ".shared" | ".local" => {
                let (align, ty, name, count) = self.declaration()?;
                let at = if word == ".shared" { &mut *static_at } else { &mut entry.local_bytes };
                let first = at.next_multiple_of(align);
                *at = first + count.unwrap_or(0) * ty.bytes();
                let found = if word == ".shared" { Name::Shared(first) } else { Name::Local(first) };
                if let Some(names) = scope.names.last_mut() {
                    names.insert(name, found);
                }
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

    fn instruction(
        &mut self,
        scope: &mut Scope,
        entry: &mut Entry,
        jumps: &mut Vec<(usize, String, u32)>,
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
        let mut operands = Vec::new();
        if !self.is(';') {
            loop {
                let operand = self.operand(scope);
                operands.push(operand.map_err(|e| PtxError::new(e.line, format!("{opcode}: {}", e.text)))?);
                // `%r1|%p1`: two results.
                if self.is('|') {
                    operands.push(Operand::Bar);
                    continue;
                }
                if !self.is(',') {
                    break;
                }
            }
            self.expect(';')?;
        }
        if opcode == "bra" || opcode == "bra.uni" {
            let [Operand::Name(label)] = &operands[..] else {
                return Err(PtxError::new(line, "a branch to a label expected"));
            };
            jumps.push((entry.code.len(), label.clone(), line));
            entry.code.push(Instruction { op: Op::Branch { target: 0 }, guard, negated, line });
            return Ok(());
        }
        let op = decode::decode(&opcode, &operands, scope, line)?;
        entry.code.push(Instruction { op, guard, negated, line });
        Ok(())
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
            return Ok(Operand::Address { base, offset: offset.cast_signed(), space });
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
            Token::Word(name) => {
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
            other => {
                self.at -= 1;
                self.error(format!("an operand expected, found {other:?}"))
            }
        }
    }
}

/// A parameter that is converted to a global address, or used as one, is a pointer.
fn mark_pointers(entry: &mut Entry) {
    let numbers: HashMap<Register, u64> = entry
        .presets
        .iter()
        .filter_map(|(r, p)| if let Preset::Number(n) = p { Some((*r, *n)) } else { None })
        .collect();
    let mut loaded: HashMap<Register, u32> = HashMap::new();
    for instruction in &entry.code {
        let used = match &instruction.op {
            Op::Load { space: Space::Param, ty, d, base, offset } if ty.bytes() == 8 => {
                if let ([Some(d)], Some(at)) = (&d[..], numbers.get(base))
                    && let Ok(at) = u32::try_from(at.wrapping_add_signed(*offset))
                {
                    loaded.insert(*d, at);
                }
                continue;
            }
            Op::Convey { space: Space::Global, to_generic: false, a, .. } => *a,
            Op::Load { space: Space::Global | Space::Generic, base, .. }
            | Op::Store { space: Space::Global | Space::Generic, base, .. } => *base,
            _ => continue,
        };
        if let Some(&at) = loaded.get(&used)
            && let Some(parameter) = entry.parameters.iter_mut().find(|p| p.offset == at)
        {
            parameter.is_pointer = true;
        }
    }
}

/// The predicate of a number.
pub(crate) fn constant_predicate(number: u64) -> Predicate {
    if number == 0 { NEVER } else { ALWAYS }
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::ptx::instruction::{ALWAYS, Op, Preset, Space};

    fn module(body: &str) -> String {
        format!(
            ".version 9.0\n.target sm_90\n.address_size 64\n.extern .shared .align 16 .b8 tile[];\n\
             .visible .entry k(\n.param .u64 k_0,\n.param .u32 k_1,\n.param .u64 k_2\n)\n.maxntid 128, 1, 1\n{{\n{body}\n}}\n"
        )
    }

    #[test]
    fn parameters_have_offsets_and_pointers_are_known_by_their_use() {
        let body = ".reg .b64 %rd<9>; .reg .f32 %f<3>;\nld.param.u64 %rd1, [k_0];\nld.param.u64 %rd2, [k_2];\n\
                    cvta.to.global.u64 %rd3, %rd1;\nst.global.f32 [%rd3+4], 0f3F800000;\nret;";
        let module = parse(&module(body)).unwrap();
        let entry = &module.entries["k"];
        let parameters: Vec<_> = entry.parameters.iter().map(|p| (p.offset, p.bytes, p.is_pointer)).collect();
        assert_eq!(parameters, [(0, 8, true), (8, 4, false), (16, 8, false)]);
        assert_eq!((entry.parameter_bytes, entry.max_threads), (24, Some(128)));
    }

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
    fn guards_labels_and_scopes() {
        let body = ".reg .pred %p<2>; .reg .b32 %r<3>;\n$A: setp.lt.s32 %p1, %r1, 5;\n\
                    { .reg .b32 %own; mov.u32 %own, %tid.x; add.s32 %r1, %own, -1; }\n@!%p1 bra $A;\nret;";
        let module = parse(&module(body)).unwrap();
        let code = &module.entries["k"].code;
        assert!(matches!(code[3].op, Op::Branch { target: 0 }) && code[3].negated && code[3].guard != ALWAYS);
        // One more at the end, for bodies without.
        assert!(code.len() == 6 && code[4].op == Op::Exit && code[5].op == Op::Exit);
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

    #[test]
    fn accesses_know_space_width_and_offset() {
        let body = ".reg .b64 %rd<2>; .reg .f32 %f<5>;\n\
                    ld.global.nc.L1::no_allocate.v4.f32 {%f0, %f1, %f2, %f3}, [%rd1+-16];\nret;";
        let module = parse(&module(body)).unwrap();
        let Op::Load { space, d, offset, .. } = &module.entries["k"].code[0].op else { panic!("no load") };
        assert_eq!((*space, d.len(), *offset), (Space::Global, 4, -16));
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
