//! Engines of a periodic run in the JSON of a run.

use msgpath_analyse::Summary;
use msgpath_present::json::nulls::explain;
use msgpath_present::json::value;
use msgpath_record::Run;
use serde_json::Value;

use crate::analyse::PeriodicSummary;

/// The engines; `None`: it is no periodic run.
pub(super) fn json(_: &Run, summary: &Summary) -> Option<(&'static str, Value)> {
    let mut out = value(summary.sections.get::<PeriodicSummary>()?);
    for engine in out["engines"].as_array_mut().into_iter().flatten() {
        explain(engine, |path| {
            match path {
                "handler_ns" => "no signal was handled",
                "receiver_delay_ns" | "sender_delay_ns" => "schedstat could not be read",
                "cold_mac_ns" | "warm_mac_ns" => "messages were not authenticated",
                _ if path.ends_with("p99_ns") => "fewer than 500 messages, or a lost one",
                _ => "no such message arrived",
            }
            .to_owned()
        });
    }
    Some(("periodic", out))
}

#[cfg(test)]
mod tests {
    use msgpath_present::json::{Added, schema_part};

    use crate::analyse::PeriodicSummary;

    #[test]
    fn the_schema_is_what_the_types_say() {
        let added = Added {
            of_run: &[("periodic", |types| types.subschema_for::<Option<PeriodicSummary>>())],
            explained: &["Engine"],
            ..Added::default()
        };
        let wanted = format!("{:#}\n", schema_part(&added));
        if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/present/schema.json"), &wanted).unwrap();
        } else {
            assert!(
                wanted == crate::present::SCHEMA,
                "INSTA_UPDATE=always cargo test -p msgpath-periodic the_schema_is"
            );
        }
    }
}
