//! Compares a value with the part of JSON Schema that `msgpath schema` uses, for tests. Stricter than the schema: a field that
//! it does not name is a fault, so that nothing is printed undocumented.

use serde_json::{Map, Value};

pub struct Checker<'a> {
    shapes: &'a Map<String, Value>,
}

impl<'a> Checker<'a> {
    pub fn new(schema: &'a Value) -> Self {
        Self { shapes: schema["$defs"].as_object().expect("a schema with shapes") }
    }

    /// What does not fit the shape of this name, with its place.
    pub fn faults(&self, shape: &str, value: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        self.check(&self.shapes[shape], value, shape, &mut faults);
        faults
    }

    fn referred(&self, schema: &'a Value) -> Option<&'a Value> {
        let name = schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/").expect("a shape of its own");
        Some(self.shapes.get(name).unwrap_or_else(|| panic!("there is no shape {name}")))
    }

    fn check(&self, schema: &'a Value, value: &Value, at: &str, faults: &mut Vec<String>) {
        let Some(keywords) = schema.as_object() else {
            assert_eq!(schema, &Value::Bool(true), "{at}");
            return;
        };
        for (keyword, rule) in keywords {
            let fits = match keyword.as_str() {
                // Words, or what is looked at together with others.
                "$schema" | "title" | "description" | "format" | "properties" | "default" => true,
                "additionalProperties" | "$ref" | "items" | "prefixItems" | "maxItems" => true,
                "type" => match rule {
                    Value::Array(kinds) => kinds.iter().any(|kind| is(kind, value)),
                    kind => is(kind, value),
                },
                "const" => rule == value,
                "enum" => rule.as_array().is_some_and(|values| values.contains(value)),
                "minimum" => value.as_f64().is_none_or(|number| Some(number) >= rule.as_f64()),
                "maximum" => value.as_f64().is_none_or(|number| Some(number) <= rule.as_f64()),
                "minItems" => value.as_array().is_none_or(|list| Some(list.len() as u64) >= rule.as_u64()),
                "required" => rule.as_array().into_iter().flatten().all(|name| {
                    value.as_object().is_none_or(|map| name.as_str().is_some_and(|name| map.contains_key(name)))
                }),
                "anyOf" | "oneOf" => {
                    let tried: Vec<Vec<String>> =
                        rule.as_array().expect("a list").iter().map(|one| self.tried(one, value, at)).collect();
                    let fitting = tried.iter().filter(|faults| faults.is_empty()).count();
                    if fitting == 0 {
                        // The one that fits best says what is wrong.
                        faults.extend(tried.into_iter().min_by_key(Vec::len).unwrap_or_default());
                    }
                    fitting == 1 || keyword == "anyOf" || fitting == 0
                }
                other => panic!("{at}: the checker does not know {other}"),
            };
            if !fits {
                faults.push(format!("{at}: {keyword} {rule} and {value}"));
            }
        }
        if let Some(shape) = self.referred(schema) {
            let mut own = Vec::new();
            self.check(shape, value, at, &mut own);
            // Fields beside a reference are known here, not there.
            let beside = |fault: &String| {
                keywords
                    .get("properties")
                    .and_then(Value::as_object)
                    .is_some_and(|fields| fields.keys().any(|name| *fault == unknown(at, name)))
            };
            faults.extend(own.into_iter().filter(|fault| !beside(fault)));
        }
        match value {
            Value::Object(map) => self.fields(schema, map, at, faults),
            Value::Array(list) => {
                let first = schema.get("prefixItems").and_then(Value::as_array);
                for (n, item) in list.iter().enumerate() {
                    let schema = first.and_then(|first| first.get(n)).or(schema.get("items"));
                    if let Some(schema) = schema {
                        self.check(schema, item, &format!("{at}[{n}]"), faults);
                    }
                }
            }
            _ => {}
        }
    }

    fn tried(&self, schema: &'a Value, value: &Value, at: &str) -> Vec<String> {
        let mut faults = Vec::new();
        self.check(schema, value, at, &mut faults);
        faults
    }

    fn fields(&self, schema: &'a Value, map: &Map<String, Value>, at: &str, faults: &mut Vec<String>) {
        let known = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        if known.is_none() && others.is_none() {
            return;
        }
        let referred = self.referred(schema).and_then(|shape| shape.get("properties"));
        for (name, value) in map {
            let place = format!("{at}.{name}");
            match known.and_then(|known| known.get(name)).or(others) {
                Some(schema) if schema != &Value::Bool(false) => self.check(schema, value, &place, faults),
                _ if referred.is_some_and(|fields| fields.get(name).is_some()) => {}
                _ => faults.push(unknown(at, name)),
            }
        }
    }
}

fn unknown(at: &str, name: &str) -> String {
    format!("{at}: nothing is said of {name}")
}

fn is(kind: &Value, value: &Value) -> bool {
    match kind.as_str().expect("the name of a type") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the checker does not know the type {other}"),
    }
}
