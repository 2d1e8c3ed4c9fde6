//! Labs as JSON, and their part of `msgpath schema`: a text, as that of the base is one.
//! `INSTA_UPDATE=always cargo test -p msgpath-namespaces the_schema_is` writes it.

use msgpath_core::foreign::shown_json;
use msgpath_core::plan::EndPlace;
use msgpath_core::schema::Status;
use schemars::JsonSchema;
use serde::Serialize;

use crate::lab::{KeptLab, LabRelay, LostRelay, RelayedPackets};

/// What it adds to the schema of `--json`.
pub(crate) const SCHEMA: &str = include_str!("schema.json");

const LABS_SCHEMA: &str = "msgpath/labs/1";

/// What `msgpath lab status` lists.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Labs")]
struct LabList<'a> {
    /// Name and version of this schema.
    #[schemars(extend("const" = LABS_SCHEMA))]
    schema: &'a str,
    status: Status,
    /// Labs that were put up with `msgpath lab up`.
    labs: Vec<LabEntry<'a>>,
    /// Relays whose lab is gone.
    lost_relays: &'a [LostRelay],
}

/// A lab: network namespaces with links between them.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Lab")]
struct LabEntry<'a> {
    /// Name of the lab.
    name: &'a str,
    /// `up`, `being made` or `broken`.
    state: &'a str,
    /// What the links do, as text: rate, delay, loss; empty: nothing but carry packets.
    shape: &'a str,
    /// The namespaces in which ends can run.
    places: &'a [EndPlace],
    /// What users of the lab must know, a sentence each.
    notes: &'a [String],
    /// What is broken; null: nothing.
    missing: Option<String>,
    /// The relay that delays and loses packets where the kernel has no netem; null: there is none.
    relay: Option<&'a LabRelay>,
    /// Packets that the relay has handled; null: there is none, or it does not answer.
    packets: Option<RelayedPackets>,
}

/// Labs, each with a word for its state, and lost relays as one JSON object on one line.
pub(crate) fn labs(labs: &[(KeptLab, &str)], lost_relays: &[LostRelay]) -> String {
    fn entry<'a>((lab, state): &'a (KeptLab, &str)) -> LabEntry<'a> {
        LabEntry {
            name: &lab.name,
            state,
            shape: &lab.shape,
            places: &lab.places,
            notes: &lab.notes,
            missing: lab.missing(),
            relay: lab.relay.as_ref(),
            packets: lab.counts(),
        }
    }
    let labs = labs.iter().map(entry).collect();
    let document = LabList { schema: LABS_SCHEMA, status: Status::Ok, labs, lost_relays };
    shown_json(&serde_json::to_string(&document).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_present::json::{Added, check_part};

    #[test]
    fn the_schema_is_what_the_types_say() {
        let added = Added { documents: &[|types| types.subschema_for::<LabList<'_>>()], ..Added::default() };
        check_part(&added, (env!("CARGO_PKG_NAME"), env!("CARGO_MANIFEST_DIR")), SCHEMA);
    }
}
