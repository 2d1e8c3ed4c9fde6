//! Latency under load in the JSON of a run.

use msgpath_analyse::Summary;
use msgpath_present::json::nulls::explain;
use msgpath_present::json::value;
use msgpath_record::Run;
use serde_json::Value;

use crate::analyse::LoadedSummary;

/// All of it; `None`: it is no such run.
pub(super) fn json(_: &Run, summary: &Summary) -> Option<(&'static str, Value)> {
    let mut out = value(summary.sections.get::<LoadedSummary>()?);
    explain(&mut out, |path| {
        let part = path.split('.').rfind(|part| !["value", "low", "high"].contains(part)).unwrap_or_default();
        match part {
            _ if path.ends_with(".low") || path.ends_with(".high") => "too few rounds for an interval",
            "rate_bits" => "as much as passes",
            "marks" => "its queueing disciplines do not mark",
            "device_bytes" => "the device has no byte queue limits, or sysfs shows another network namespace",
            "unsent_bytes" | "unacknowledged_bytes" | "rtt_ns" => "no TCP socket of the load was found there",
            "beyond_ns" => "the queue of an end that sends was not read",
            "per_minute" | "idle_per_minute" => "messages were lost, or none came",
            "added_ns" | "connect_ns" | "idle" => "no round was recorded",
            _ => "the queues of this end were not read, or the kernel does not tell",
        }
        .to_owned()
    });
    Some(("loaded", out))
}

#[cfg(test)]
mod tests {
    use msgpath_present::json::{Added, schema_part};

    use crate::analyse::LoadedSummary;

    #[test]
    fn the_schema_is_what_the_types_say() {
        let added = Added {
            of_run: &[("loaded", |types| types.subschema_for::<Option<LoadedSummary>>())],
            explained: &["LoadedSummary"],
            ..Added::default()
        };
        let wanted = format!("{:#}\n", schema_part(&added));
        if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/present/schema.json"), &wanted).unwrap();
        } else {
            assert!(wanted == crate::present::SCHEMA, "INSTA_UPDATE=always cargo test -p msgpath-loaded the_schema_is");
        }
    }
}
