//! What was seen of watched programs as JSON, and its part of the schema: a text, as that of the base is one.
//! `INSTA_UPDATE=always cargo test -p msgpath-watch the_schema_is` writes it.

use msgpath_core::foreign::shown_json;

use crate::analyse::WatchSummary;

/// Its part of `msgpath schema`.
pub(crate) const SCHEMA: &str = include_str!("schema.json");

/// One JSON object on one line.
pub(crate) fn json(summary: &WatchSummary) -> String {
    shown_json(&serde_json::to_string(summary).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_present::json::{Added, check_part};

    #[test]
    fn the_schema_is_what_the_types_say() {
        let added = Added { documents: &[|types| types.subschema_for::<WatchSummary>()], ..Added::default() };
        check_part(&added, (env!("CARGO_PKG_NAME"), env!("CARGO_MANIFEST_DIR")), SCHEMA);
    }
}
