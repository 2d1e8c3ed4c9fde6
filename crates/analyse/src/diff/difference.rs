//! Something in which two runs differ.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something in which two runs differ.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[schemars(rename = "RunDifference")]
pub struct Difference {
    /// What: `kernel`, `tcp_rmem`, `options.nodelay` ...
    pub what: String,
    /// `near`, `far`, `both`; empty where it belongs to the run.
    pub end: String,
    /// In the first run.
    pub a: String,
    /// In the second run.
    pub b: String,
    /// Whether the runs cannot be compared because of it.
    pub refuses: bool,
}
