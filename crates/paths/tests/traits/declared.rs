//! What every path declares, for the tests of crates that do not see the registry.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use msgpath_core::{PathName, Traits};

/// The traits of a path, whatever its settings; nothing where there is no such path.
pub fn declared(path: &PathName) -> Traits {
    static ALL: LazyLock<BTreeMap<String, Traits>> =
        LazyLock::new(|| serde_json::from_str(include_str!("../traits.json")).expect("a table of traits"));
    ALL.get(&path.clone().with(None).to_string()).cloned().unwrap_or_default()
}
