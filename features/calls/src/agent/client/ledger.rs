//! What was written under which key, so that a read can be compared byte by byte.

use std::collections::HashMap;
use std::sync::Mutex;

use super::maker::Drawn;

/// Keys that are remembered; what is written under others is not verified.
const MOST_KEYS: usize = 1 << 20;

/// What is known of a key.
enum Entry {
    /// Written by this connection.
    Written(u32, Drawn),
    /// Written by several connections, or deleted: nobody can say what is there.
    Unknown,
}

/// Shared by all connections of a run.
#[derive(Default)]
pub struct Ledger(Mutex<HashMap<Vec<u8>, Entry>>);

impl Ledger {
    /// A write of a connection was answered with success.
    pub fn written(&self, connection: u32, key: &[u8], drawn: Drawn) {
        let mut entries = self.0.lock().expect("no holder panics");
        if entries.len() >= MOST_KEYS && !entries.contains_key(key) {
            return;
        }
        let entry = match entries.get(key) {
            Some(Entry::Written(other, _)) if *other != connection => Entry::Unknown,
            Some(Entry::Unknown) => Entry::Unknown,
            _ => Entry::Written(connection, drawn),
        };
        entries.insert(key.to_vec(), entry);
    }

    /// What is under a key can no longer be told.
    pub fn forget(&self, key: &[u8]) {
        self.0.lock().expect("no holder panics").remove(key);
    }

    /// Forgets everything: the store was reset.
    pub fn clear(&self) {
        self.0.lock().expect("no holder panics").clear();
    }

    /// What a read of the key must give; `None`: not known.
    pub fn expected(&self, key: &[u8]) -> Option<Vec<u8>> {
        let drawn = match self.0.lock().expect("no holder panics").get(key)? {
            Entry::Written(_, drawn) => drawn.clone(),
            Entry::Unknown => return None,
        };
        Some(drawn.value())
    }
}
