//! Names with units, and a reason for every `null`.

use serde_json::{Map, Value};

/// Gives keys of an object the names they have in JSON.
pub(super) fn rename(object: &mut Value, names: &[(&str, &str)]) {
    if let Value::Object(map) = object {
        for (old, new) in names {
            if let Some(value) = map.remove(*old) {
                map.insert((*new).to_owned(), value);
            }
        }
    }
}

/// Gives every quantile below `value` a `why` where it has something to say, and takes an empty `why` from whatever has
/// one.
pub(super) fn tidy_quantiles(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.get("why") == Some(&Value::Null) {
                map.remove("why");
            }
            if is_quantile(map) {
                let null = |key: &str| map.get(key) == Some(&Value::Null);
                if null("ns") {
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
pub(super) fn explain(object: &mut Value, reason: impl Fn(&str) -> String) {
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
