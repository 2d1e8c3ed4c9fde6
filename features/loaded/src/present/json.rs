//! The part of the schema that loaded runs add.

use msgpath_present::json::{Added, check_part};

use crate::analyse::LoadedSummary;
use crate::mix::analyse::MixSummary;

#[test]
fn the_schema_is_what_the_types_say() {
    let added = Added {
        of_run: &[
            ("loaded", |types| types.subschema_for::<LoadedSummary>()),
            ("mix", |types| types.subschema_for::<MixSummary>()),
        ],
        ..Added::default()
    };
    check_part(&added, (env!("CARGO_PKG_NAME"), env!("CARGO_MANIFEST_DIR")), crate::present::SCHEMA);
}
