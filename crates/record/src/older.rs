//! What earlier versions of the schema called things, brought into the shape of this one.
//!
//! Schema 1 knew exactly two ends, as pairs of fields: `near` and `far`, `near_events` and `far_events`.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The oldest schema that is read.
pub(crate) const SCHEMA: &str = "msgpath/run/1";

/// The header of a run of schema 1.
pub(crate) fn header<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    let mut value: Value = serde_json::from_slice(bytes)?;
    if let Value::Object(header) = &mut value
        && header.contains_key("near")
    {
        let mut ends = pair(header, &["counters", "events"]);
        for (at, end) in ends.iter_mut().enumerate() {
            (end["name"], end["host"]) = (["near", "far"][at].into(), at.into());
        }
        ends[0]["clock"] = header.remove("clock").unwrap_or(json!({ "cost_ns": 0.0, "step_ns": 0 }));
        let hosts = ["near", "far"].map(|end| header.remove(end).unwrap_or_default());
        header.insert("hosts".into(), Value::from(hosts.to_vec()));
        header.insert("ends".into(), ends.to_vec().into());
        if let Some(plan) = header.get_mut("plan").and_then(Value::as_object_mut) {
            list(plan, "placement", |ends, _| ends.into());
            if let Some(options) = plan.get_mut("options").and_then(Value::as_object_mut) {
                list(options, "between", |ends, mut rest| {
                    rest.insert("ends".into(), ends.into());
                    rest.into()
                });
            }
        }
    }
    rename(&mut value);
    read(&value)
}

/// A round of schema 1, without its histograms.
pub(crate) fn round<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    let mut value: Value = serde_json::from_slice(bytes)?;
    if let Value::Object(round) = &mut value
        && round.contains_key("near")
    {
        let mut ends = pair(round, &["kernel", "speed_ns", "events", "threads"]);
        for (name, end) in ["near", "far"].into_iter().zip(&mut ends) {
            end["report"] = round.remove(name).unwrap_or_default();
        }
        round.insert("ends".into(), ends.to_vec().into());
        list(round, "trace", |threads, mut rest| {
            rest.insert("threads".into(), threads.into());
            rest.into()
        });
    }
    rename(&mut value);
    read(&value)
}

/// As text once more: read from a [`Value`], every type of the record would be in the program a second time.
fn read<T: DeserializeOwned>(value: &Value) -> serde_json::Result<T> {
    serde_json::from_slice(&serde_json::to_vec(value)?)
}

/// Fields, by their names then and now.
const FIELDS: [(&str, &str); 7] = [
    ("peel", "layers"),
    ("station", "mac_address"),
    ("cable", "properties"),
    ("under_way_sum", "in_flight_sum"),
    ("under_way_most", "in_flight_most"),
    ("trial", "ablation"),
    ("trials", "attempts"),
];
/// Values of a field, then and now.
const VALUES: [(&str, &str, &str); 3] =
    [("role", "yardstick", "reference"), ("role", "trial", "ablation"), ("kind", "card", "nic")];

/// Gives fields and values the names that they have now.
fn rename(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (then, now) in FIELDS {
                if let Some(value) = fields.remove(then) {
                    fields.insert(now.into(), value);
                }
            }
            for (name, then, now) in VALUES {
                if fields.get(name).is_some_and(|value| value == then) {
                    fields.insert(name.into(), now.into());
                }
            }
            fields.values_mut().for_each(rename);
        }
        Value::Array(values) => values.iter_mut().for_each(rename),
        _ => {}
    }
}

/// Takes `near_NAME` and `far_NAME` out of the fields, an object for each end.
fn pair(fields: &mut Map<String, Value>, names: &[&str]) -> [Value; 2] {
    ["near", "far"].map(|end| {
        let own = names.iter().filter_map(|name| Some(((*name).to_owned(), fields.remove(&format!("{end}_{name}"))?)));
        Value::Object(own.collect())
    })
}

/// Makes of an object with `near` and `far` what `of` says of both and of its other fields.
fn list(fields: &mut Map<String, Value>, name: &str, of: impl Fn(Vec<Value>, Map<String, Value>) -> Value) {
    if let Some(Value::Object(both)) = fields.get_mut(name) {
        let mut both = std::mem::take(both);
        let ends = ["near", "far"].into_iter().filter_map(|end| both.remove(end)).collect();
        fields[name] = of(ends, both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_another_name_now_is_found_by_it() {
        let then = json!({
            "near": { "boot_id": "one" }, "far": { "boot_id": "one" }, "floors": { "route": { "kind": "card" } },
            "plan": { "peel": true, "cases": [{ "role": "yardstick" }, { "role": "trial", "trial": { "of": 0 } }], "options": {
                "station": "broadcast",
                "between": { "near": { "name": "a" }, "far": { "name": "b" }, "link": null, "cable": "1 Gbit/s" },
            } },
        });
        let now: Value = header(then.to_string().as_bytes()).unwrap();
        let plan = json!({ "layers": true, "cases": [{ "role": "reference" }, { "role": "ablation", "ablation": { "of": 0 } }], "options": {
            "mac_address": "broadcast",
            "between": { "ends": [{ "name": "a" }, { "name": "b" }], "link": null, "properties": "1 Gbit/s" },
        } });
        assert_eq!((&now["plan"], &now["floors"]["route"]["kind"]), (&plan, &json!("nic")), "{now}");
        assert_eq!(now["hosts"].as_array().map(Vec::len), Some(2));
    }
}
