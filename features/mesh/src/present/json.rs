//! The objects of meshes in `msgpath schema`: a text, as that of the base is one.
//! `INSTA_UPDATE=always cargo test -p msgpath-mesh the_schema_is` writes it.

/// What it adds to the schema of `--json`.
pub(crate) const SCHEMA: &str = include_str!("schema.json");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::{MeshDiff, MeshSummary};
    use msgpath_present::json::{Added, check_part};

    #[test]
    fn the_schema_is_what_the_types_say() {
        let documents: [msgpath_present::json::Shape; 2] =
            [|types| types.subschema_for::<MeshSummary>(), |types| types.subschema_for::<MeshDiff>()];
        let added = Added { documents: &documents, ..Added::default() };
        check_part(&added, (env!("CARGO_PKG_NAME"), env!("CARGO_MANIFEST_DIR")), SCHEMA);
    }
}
