//! A number that could not be had is `null` in JSON, and the object around it says why: `why` holds the reason for each `null`, by the
//! path of the field (`restarts.best_rounds`; entries of a list share one).

use std::borrow::Cow;

use schemars::Schema;
use serde::ser::Error;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

/// An object that says why something in it is `null`. Its type is declared with `#[serde(remote = "Self")]` and
/// `#[schemars(transform = msgpath_core::explained::schema)]`, and [`explained!`](crate::explained!) implements `Serialize`.
pub trait Explained {
    /// Changes what the type holds where JSON says less: counters that were not read.
    fn hide(&self, _object: &mut Value) {}

    /// The reason for a `null`.
    fn reason(&self, path: &str) -> Cow<'_, str>;
}

/// Serializes an object with its reasons. `plain`: the object without them.
pub fn serialize<S: Serializer>(
    object: &impl Explained,
    plain: serde_json::Result<Value>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut plain = plain.map_err(S::Error::custom)?;
    object.hide(&mut plain);
    let mut paths = Vec::new();
    collect(&plain, "", &mut paths);
    let why: Map<String, Value> =
        paths.into_iter().map(|path| (path.clone(), object.reason(&path).into_owned().into())).collect();
    if let (Value::Object(fields), false) = (&mut plain, why.is_empty()) {
        fields.insert("why".into(), why.into());
    }
    plain.serialize(serializer)
}

/// The paths of the nulls that no object below explains.
fn collect(value: &Value, path: &str, paths: &mut Vec<String>) {
    match value {
        Value::Null => paths.push(path.to_owned()),
        Value::Object(fields) if !explains_itself(fields) => {
            for (key, value) in fields {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                collect(value, &path, paths);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, path, paths)),
        _ => {}
    }
}

/// An object that is [`Explained`], or a quantile, which says in words what it lacks.
fn explains_itself(fields: &Map<String, Value>) -> bool {
    fields.get("why").is_some_and(Value::is_object) || fields.contains_key("lo_ns")
}

/// Adds `why` to the schema of a type that is [`Explained`].
pub fn schema(schema: &mut Schema) {
    if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        fields.insert(
            "why".into(),
            json!({
                "description": "For each null here and below, by its path: why it is null.",
                "type": "object",
                "additionalProperties": { "type": "string" },
            }),
        );
    }
}

/// Implements `Serialize` for a type that is [`Explained`], with `read` before it `Deserialize` too.
#[macro_export]
macro_rules! explained {
    (read $($type:ty),+) => {
        $crate::explained!($($type),+);
        $(
            impl<'de> ::serde::Deserialize<'de> for $type {
                fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    Self::deserialize(deserializer)
                }
            }
        )+
    };
    ($($type:ty),+) => {$(
        impl ::serde::Serialize for $type {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::explained::serialize(self, Self::serialize(self, ::serde_json::value::Serializer), serializer)
            }
        }
    )+};
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(remote = "Self")]
    #[schemars(transform = crate::explained::schema)]
    struct Inner {
        speed: Option<f64>,
    }

    #[derive(Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(remote = "Self")]
    #[schemars(transform = crate::explained::schema)]
    struct Outer {
        mean_ns: f64,
        parts: Vec<(Option<u8>, u8)>,
        inner: Inner,
    }

    impl Explained for Inner {
        fn reason(&self, _: &str) -> Cow<'_, str> {
            "it stands still".into()
        }
    }

    impl Explained for Outer {
        fn reason(&self, path: &str) -> Cow<'_, str> {
            format!("no {path}").into()
        }
    }

    explained!(read Inner, Outer);

    #[test]
    fn each_object_explains_its_own_nulls() {
        let outer = Outer { mean_ns: f64::NAN, parts: vec![(None, 1), (None, 2)], inner: Inner { speed: None } };
        let json = serde_json::to_value(&outer).unwrap();
        assert_eq!(json["why"], json!({ "mean_ns": "no mean_ns", "parts": "no parts" }));
        assert_eq!(json["inner"]["why"], json!({ "speed": "it stands still" }));
        let whole = Outer { mean_ns: 1.0, parts: Vec::new(), inner: Inner { speed: Some(2.0) } };
        let json = serde_json::to_value(&whole).unwrap();
        assert_eq!(json, json!({ "mean_ns": 1.0, "parts": [], "inner": { "speed": 2.0 } }));
        assert_eq!(serde_json::from_value::<Outer>(json).unwrap().inner.speed, Some(2.0));
    }

    #[test]
    fn the_schema_has_the_reasons() {
        let schema = schemars::SchemaGenerator::default().into_root_schema_for::<Outer>();
        assert_eq!(schema.as_value()["properties"]["why"]["type"], "object");
    }
}
