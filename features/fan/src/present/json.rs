//! The part of the schema that several clients add.

use msgpath_present::json::{Added, check_part};

use crate::analyse::FanSummary;

#[test]
fn the_schema_is_what_the_types_say() {
    let added = Added { of_run: &[("clients", |types| types.subschema_for::<FanSummary>())], ..Added::default() };
    check_part(&added, (env!("CARGO_PKG_NAME"), env!("CARGO_MANIFEST_DIR")), crate::present::SCHEMA);
}
