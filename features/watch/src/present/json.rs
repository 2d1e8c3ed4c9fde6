//! What was seen of watched programs as JSON, and its part of the schema: a text, as that of the base is one.
//! `INSTA_UPDATE=always cargo test -p msgpath-watch the_schema_is` writes it.

use msgpath_core::foreign::shown_json;
use msgpath_present::json::{findings, gate, value};

use crate::analyse::WatchSummary;

/// Its part of `msgpath schema`.
pub(crate) const SCHEMA: &str = include_str!("schema.json");

/// One JSON object on one line.
pub(crate) fn json(summary: &WatchSummary) -> String {
    let mut out = value(summary);
    for (shown, server) in out["servers"].as_array_mut().into_iter().flatten().zip(&summary.servers) {
        shown["findings"] = findings(&server.findings);
    }
    out["gates"] = summary.gates.iter().map(gate).collect();
    shown_json(&out.to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_present::json::{Added, schema_part};

    #[test]
    fn the_schema_is_what_the_types_say() {
        let wanted = format!(
            "{:#}\n",
            schema_part(&Added { documents: &[|types| types.subschema_for::<WatchSummary>()], ..Added::default() })
        );
        if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/present/schema.json"), wanted).unwrap();
        } else {
            let same = SCHEMA == wanted;
            assert!(same, "schema.json: INSTA_UPDATE=always cargo test -p msgpath-watch the_schema_is");
        }
    }
}
