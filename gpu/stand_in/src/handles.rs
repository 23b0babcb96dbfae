//! What a library lends by number, as handles.

use crate::report::{Code, Fault};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All of one sort.
#[derive(Debug)]
pub struct Table<T> {
    what: &'static str,
    all: Mutex<BTreeMap<usize, T>>,
}

impl<T: Clone> Table<T> {
    /// None yet, of what is called so.
    #[must_use]
    pub const fn new(what: &'static str) -> Self {
        Self { what, all: Mutex::new(BTreeMap::new()) }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<usize, T>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn none(&self, number: usize) -> Fault {
        Fault::new(Code::InvalidHandle, format!("{number:#x} is no {}", self.what))
    }

    /// One more; gives its number.
    pub fn add(&self, one: T) -> usize {
        let mut all = self.all();
        // Aligned as pointers are, and nothing that a pointer is.
        let number = all.last_key_value().map_or(1 << 12, |(last, _)| last + 16);
        all.insert(number, one);
        number
    }

    /// One by its number.
    ///
    /// # Errors
    /// If there is none.
    pub fn get(&self, number: usize) -> Result<T, Fault> {
        self.all().get(&number).cloned().ok_or_else(|| self.none(number))
    }

    /// Changes one.
    ///
    /// # Errors
    /// If there is none.
    pub fn change(&self, number: usize, with: impl FnOnce(&mut T)) -> Result<(), Fault> {
        self.all().get_mut(&number).map(with).ok_or_else(|| self.none(number))
    }

    /// Forgets one.
    ///
    /// # Errors
    /// If there is none.
    pub fn remove(&self, number: usize) -> Result<T, Fault> {
        self.all().remove(&number).ok_or_else(|| self.none(number))
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn numbers_are_given_and_forgotten() {
        let table = Table::new("apple");
        let [first, second] = [table.add(1), table.add(2)];
        table.change(second, |apple| *apple += 5).unwrap();
        assert_eq!((table.get(first), table.remove(second), table.get(first)), (Ok(1), Ok(7), Ok(1)));
        assert_eq!(table.get(second).unwrap_err().text, format!("{second:#x} is no apple"));
        assert!(table.remove(second).is_err() && table.change(second, |_| ()).is_err());
    }
}
