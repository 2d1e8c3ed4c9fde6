//! Names with units, and a reason for every `null`.

use serde_json::{Map, Value};

/// Shapes some fields of which have another name in JSON than in the record, and these names: with the unit, or plainer.
/// Objects and schema are made by it.
pub(super) const NAMES: &[(&str, &[(&str, &str)])] = &[
    ("AblationChange", &[("working_set", "working_set_bytes")]),
    ("Case", &[("size", "size_bytes"), ("reply", "reply_bytes")]),
    ("ClockPiece", &[("drift", "drift_ns_per_ns")]),
    (
        "Crossover",
        &[
            ("size", "size_bytes"),
            ("low", "low_bytes"),
            ("high", "high_bytes"),
            ("crossings", "crossings_bytes"),
            ("undecided", "undecided_bytes"),
        ],
    ),
    ("Expectation", &[("time", "time_ns"), ("bits", "bits_per_s")]),
    ("Finding", &[("next", "try")]),
    ("Floors", &[("last_level_cache", "last_level_cache_bytes"), ("caches", "caches_bytes")]),
    ("Load", &[("rate", "rate_per_s")]),
    ("LoadCurve", &[("size", "size_bytes")]),
    ("Pieces", &[("size", "size_bytes"), ("rest", "rest_bytes")]),
    ("Route", &[("mtu", "mtu_bytes")]),
    ("TcpInfo", &[("pacing_rate", "pacing_bytes_per_s"), ("rcv_space", "rcv_space_bytes")]),
    (
        "Throughput",
        &[
            ("receiver_bits", "receiver_bits_per_s"),
            ("sender_bits", "sender_bits_per_s"),
            ("messages", "messages_per_s"),
            ("beginning_bits", "beginning_bits_per_s"),
        ],
    ),
    ("Winner", &[("size", "size_bytes")]),
];

/// The names of a shape.
pub fn names(shape: &str) -> &'static [(&'static str, &'static str)] {
    NAMES.iter().find(|(name, _)| *name == shape).map_or(&[], |(_, names)| names)
}

/// Gives the fields of an object of this shape the names they have in JSON.
pub fn rename(object: &mut Value, shape: &str) {
    names(shape).iter().for_each(|(old, new)| rename_one(object, old, new));
}

/// Gives one field of an object another name.
pub fn rename_one(object: &mut Value, old: &str, new: &str) {
    if let Some(map) = object.as_object_mut()
        && let Some(value) = map.remove(old)
    {
        map.insert(new.to_owned(), value);
    }
}

/// Gives every quantile below `value` a `why` where it has something to say, and takes an empty `why` from whatever has
/// one.
pub fn tidy_quantiles(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.get("why") == Some(&Value::Null) {
                map.remove("why");
            }
            if is_quantile(map) {
                let null = |key: &str| map.get(key) == Some(&Value::Null);
                if map.get("range").is_some_and(|range| range == "withheld") {
                    // It says so itself.
                } else if null("ns") {
                    map.insert("why".into(), "the quantile is a lost message".into());
                } else if !map.contains_key("why") && (null("lo_ns") || null("hi_ns")) {
                    map.insert("why".into(), "the end of the range lies beyond the messages that arrived".into());
                }
            }
            map.values_mut().for_each(tidy_quantiles);
        }
        Value::Array(list) => list.iter_mut().for_each(tidy_quantiles),
        _ => {}
    }
}

/// Adds `why` to an object: for each `null` in it, by its path (`restarts.best_rounds`; entries of a list share one), a
/// reason. Quantiles explain themselves.
pub fn explain(object: &mut Value, reason: impl Fn(&str) -> String) {
    let mut paths = Vec::new();
    collect(object, "", &mut paths);
    let why: Map<String, Value> = paths.into_iter().map(|path| (path.clone(), reason(&path).into())).collect();
    if let (Value::Object(map), false) = (object, why.is_empty()) {
        map.insert("why".into(), Value::Object(why));
    }
}

/// Whether an object is a quantile: it says itself why something in it is missing.
fn is_quantile(map: &Map<String, Value>) -> bool {
    map.contains_key("lo_ns")
}

fn collect(value: &Value, path: &str, paths: &mut Vec<String>) {
    match value {
        Value::Null => paths.push(path.to_owned()),
        Value::Object(map) if !is_quantile(map) => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                collect(value, &path, paths);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, path, paths)),
        _ => {}
    }
}
