//! What stands at a plug point: told by whoever lists it, so that the plug point need not know who that is.

use std::sync::{PoisonError, RwLock};

/// A list that is filled before anything asks for it; until then it is empty.
pub struct Plugged<T: ?Sized + 'static>(RwLock<Vec<&'static T>>);

impl<T: ?Sized> Plugged<T> {
    /// An empty one, for a `static`.
    #[expect(clippy::new_without_default, reason = "a static wants a const function")]
    pub const fn new() -> Self {
        Self(RwLock::new(Vec::new()))
    }

    /// Lists some more, behind those that are there.
    pub fn extend(&self, more: impl IntoIterator<Item = &'static T>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).extend(more);
    }

    /// In the order in which they were told.
    pub fn all(&self) -> std::vec::IntoIter<&'static T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone().into_iter()
    }
}

impl<T> Plugged<T> {
    /// Lists one more; a second time changes nothing.
    pub fn add(&self, one: &'static T) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !all.iter().any(|known| std::ptr::eq(*known, one)) {
            all.push(one);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static ONE: u32 = 1;
    static TWO: u32 = 2;

    #[test]
    fn what_was_told_is_there_once_and_in_order() {
        let list = Plugged::new();
        assert_eq!(list.all().next(), None);
        list.extend([&TWO]);
        list.add(&ONE);
        list.add(&TWO);
        assert_eq!(list.all().collect::<Vec<_>>(), [&2, &1]);
    }
}
