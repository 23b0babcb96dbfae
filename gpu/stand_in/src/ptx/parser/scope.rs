//! What names mean in an entry, and the registers that it has.

use crate::ptx::PtxError;
use crate::ptx::instruction::{Module, Predicate, Preset, Register, Special};
use std::collections::HashMap;

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
    pub(super) registers: u32,
    pub(super) predicates: u32,
    pub(super) presets: Vec<(Register, Preset)>,
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
    /// That of an entry of a module; two predicates are there, which always hold and never.
    pub(super) fn of(module: &Module) -> Self {
        Self {
            names: vec![HashMap::new()],
            families: vec![Vec::new()],
            registers: 0,
            predicates: 2,
            presets: Vec::new(),
            known: HashMap::new(),
            specials: HashMap::new(),
            symbols: HashMap::new(),
            variables: module.variables.iter().map(|(n, v)| (n.clone(), v.is_constant)).collect(),
        }
    }

    /// A block within begins.
    pub(super) fn open(&mut self) {
        self.names.push(HashMap::new());
        self.families.push(Vec::new());
    }

    /// It ends, and what it declared is forgotten.
    pub(super) fn close(&mut self) {
        self.names.pop();
        self.families.pop();
    }

    /// A name of the innermost block.
    pub(super) fn name(&mut self, name: String, means: Name) {
        if let Some(names) = self.names.last_mut() {
            names.insert(name, means);
        }
    }

    /// Registers or predicates of the innermost block: one of a name, or as many as are said, by a prefix.
    pub(super) fn declare(
        &mut self,
        name: String,
        count: Option<u32>,
        is_predicate: bool,
        line: u32,
    ) -> Result<(), PtxError> {
        let next = if is_predicate { &mut self.predicates } else { &mut self.registers };
        let first = *next;
        *next = next.saturating_add(count.unwrap_or(1));
        if *next > u32::from(u16::MAX) {
            return Err(PtxError::new(line, "too many registers"));
        }
        let small = u16::try_from(first).unwrap_or(u16::MAX);
        match (count, self.families.last_mut()) {
            (Some(count), Some(families)) => {
                let family = if is_predicate { Family::Predicates(first) } else { Family::Registers(first) };
                families.push((name, count, family));
            }
            _ => self.name(name, if is_predicate { Name::Predicate(small) } else { Name::Register(small) }),
        }
        Ok(())
    }

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
