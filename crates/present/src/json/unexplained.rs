//! Nulls that nothing explains, for tests: each in an object that is printed must have its reason.

use serde_json::{Map, Value};

/// Paths of the nulls below `value` that no `why` of an object around them explains, quantiles aside.
pub fn unexplained(value: &Value, path: &str, known: &[&Map<String, Value>], out: &mut Vec<String>) {
    match value {
        Value::Object(map) if !map.contains_key("lo_ns") => {
            let mut known = known.to_vec();
            known.extend(map.get("why").and_then(Value::as_object));
            for (key, value) in map {
                unexplained(value, &format!("{path}.{key}"), &known, out);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| unexplained(value, path, known, out)),
        Value::Null if !known.iter().any(|why| why.keys().any(|key| path.ends_with(&format!(".{key}")))) => {
            out.push(path.to_owned());
        }
        _ => {}
    }
}
