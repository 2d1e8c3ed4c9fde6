//! What features add to a thing of the base, such as the header of a run or its summary: each a part with a name of its own. The
//! base carries parts and knows none of them; a program that lacks a feature keeps its part as it is.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// What one feature adds.
pub trait Part: Clone + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Its name among the parts, and in JSON.
    const NAME: &'static str;
}

/// Parts by their names.
#[derive(Clone, Default)]
pub struct Parts(BTreeMap<String, Entry>);

/// A part as it is written, as its type holds it, or both.
#[derive(Default)]
struct Entry {
    written: OnceLock<Value>,
    held: OnceLock<Option<Box<dyn Held>>>,
}

/// A part of whatever type.
trait Held: Send + Sync {
    fn written(&self) -> Value;
    fn copied(&self) -> Box<dyn Held>;
    fn any(&self) -> &dyn Any;
    fn any_mut(&mut self) -> &mut dyn Any;
}

impl<T: Part> Held for T {
    fn written(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    fn copied(&self) -> Box<dyn Held> {
        Box::new(self.clone())
    }

    fn any(&self) -> &dyn Any {
        self
    }

    fn any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl Entry {
    fn held<T: Part>(&self) -> Option<&T> {
        let read = || Some(Box::new(T::deserialize(self.written.get()?).ok()?) as Box<dyn Held>);
        self.held.get_or_init(read).as_deref()?.any().downcast_ref()
    }

    fn written(&self) -> &Value {
        self.written
            .get_or_init(|| self.held.get().and_then(Option::as_ref).map(|held| held.written()).unwrap_or_default())
    }
}

impl Clone for Entry {
    fn clone(&self) -> Self {
        let held = self.held.get().and_then(Option::as_ref).map(|held| OnceLock::from(Some(held.copied())));
        Self { written: self.written.clone(), held: held.unwrap_or_default() }
    }
}

impl Parts {
    /// Adds parts; one of a name that is there already takes its place.
    pub fn extend(&mut self, others: Parts) {
        self.0.extend(others.0);
    }

    /// The part of this type; `None`: there is none, or one that this type cannot hold ([`Parts::unread`]).
    pub fn get<T: Part>(&self) -> Option<&T> {
        self.0.get(T::NAME)?.held()
    }

    /// The same, for changing it.
    pub fn get_mut<T: Part>(&mut self) -> Option<&mut T> {
        let entry = self.0.get_mut(T::NAME)?;
        entry.held::<T>()?;
        entry.written.take();
        entry.held.get_mut()?.as_mut()?.any_mut().downcast_mut()
    }

    /// Why the part of this type is there and cannot be read; `None`: it can, or there is none.
    pub fn unread<T: Part>(&self) -> Option<String> {
        T::deserialize(self.0.get(T::NAME)?.written()).err().map(|error| error.to_string())
    }

    /// Adds a part, in place of what was there.
    pub fn set<T: Part>(&mut self, part: T) {
        let held: Box<dyn Held> = Box::new(part);
        self.0.insert(T::NAME.to_owned(), Entry { written: OnceLock::new(), held: OnceLock::from(Some(held)) });
    }

    /// The same, for what is built in one expression.
    pub fn with<T: Part>(mut self, part: T) -> Self {
        self.set(part);
        self
    }

    /// Takes a part away.
    pub fn remove<T: Part>(&mut self) -> Option<T> {
        let part = self.get::<T>().cloned();
        self.0.remove(T::NAME);
        part
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PartialEq for Parts {
    fn eq(&self, other: &Self) -> bool {
        let same = |(one, other): ((&String, &Entry), (&String, &Entry))| {
            one.0 == other.0 && one.1.written() == other.1.written()
        };
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(same)
    }
}

impl Eq for Parts {}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, entry)| (name, entry.written()))).finish()
    }
}

impl Serialize for Parts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, entry)| (name, entry.written())))
    }
}

impl<'de> Deserialize<'de> for Parts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = BTreeMap::<String, Value>::deserialize(deserializer)?;
        let entry = |(name, written)| (name, Entry { written: OnceLock::from(written), held: OnceLock::new() });
        Ok(Self(written.into_iter().map(entry).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Wheels {
        count: u32,
    }

    impl Part for Wheels {
        const NAME: &'static str = "wheels";
    }

    #[derive(Clone, Serialize, Deserialize)]
    struct Doors(String);

    impl Part for Doors {
        const NAME: &'static str = "doors";
    }

    #[test]
    fn a_part_comes_back_from_what_was_written() {
        let mut parts = Parts::default();
        parts.set(Wheels { count: 4 });
        let text = serde_json::to_string(&parts).unwrap();
        assert_eq!(text, r#"{"wheels":{"count":4}}"#);
        let mut again: Parts = serde_json::from_str(&text).unwrap();
        assert_eq!((again.get(), again == parts), (Some(&Wheels { count: 4 }), true));
        again.get_mut::<Wheels>().unwrap().count = 3;
        assert_eq!((again.get(), again == parts), (Some(&Wheels { count: 3 }), false));
        assert_eq!((again.remove(), again.is_empty()), (Some(Wheels { count: 3 }), true));
    }

    #[test]
    fn a_part_that_nobody_here_knows_is_kept() {
        let text = r#"{"doors":"five","wheels":{"count":-1}}"#;
        let parts: Parts = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&parts).unwrap(), text);
        assert_eq!((parts.get::<Wheels>(), parts.get::<Doors>().map(|doors| doors.0.as_str())), (None, Some("five")));
        assert!(parts.unread::<Wheels>().is_some_and(|why| why.contains("u32")) && parts.unread::<Doors>().is_none());
    }
}
