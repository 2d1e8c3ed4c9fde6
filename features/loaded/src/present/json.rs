//! The part of the schema that loaded runs add.

use msgpath_present::json::{Added, schema_part};

use crate::analyse::LoadedSummary;

#[test]
fn the_schema_is_what_the_types_say() {
    let added = Added { of_run: &[("loaded", |types| types.subschema_for::<LoadedSummary>())], ..Added::default() };
    let wanted = format!("{:#}\n", schema_part(&added));
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/present/schema.json"), &wanted).unwrap();
    } else {
        assert!(wanted == crate::present::SCHEMA, "INSTA_UPDATE=always cargo test -p msgpath-loaded the_schema_is");
    }
}
