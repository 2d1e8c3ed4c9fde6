//! What stands at a plug point: told once by whoever lists it, so that the plug point need not know who that is.

use std::sync::OnceLock;

/// A list that is filled before anything else is done; until then it is empty.
pub(crate) struct Plugged<T: ?Sized + 'static>(OnceLock<Vec<&'static T>>);

impl<T: ?Sized> Plugged<T> {
    /// An empty one.
    pub(crate) const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Fills it; a second time changes nothing.
    pub(crate) fn fill(&self, all: impl IntoIterator<Item = &'static T>) {
        self.0.get_or_init(|| all.into_iter().collect());
    }

    /// In the order in which they were told.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static T> {
        self.0.get().into_iter().flatten().copied()
    }
}
