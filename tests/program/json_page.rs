//! `docs/json.md` is written from the schema that the program prints, with the parts of its features.
//! `INSTA_UPDATE=always cargo test --test program the_page_is` writes it.

use std::fmt::Write;
use std::fs;

use serde_json::Value;

use crate::borders::root;
use crate::command::msgpath;

const HEAD: &str = "# What `--json` prints

Every verb with `--json` prints one object on one line (`preset`: on several). `msgpath schema` prints its JSON Schema, of which
this page is made: every shape with its fields.

* `schema` names the object and its version. Within a version fields may be added, never renamed or removed.
* **What is not known is `null`, never 0**, and `why` in the same object or in one around it says why, by the path of the field
  (`restarts.best_rounds`; entries of a list share one). A quantile says it itself.
* The unit is in the name of a field, or in what is said of it. Ratios and shares have none.
* With `--jsonl` `echo`, `stream`, `compare`, `rpc`, `periodic` and `resume` print a line for each round as soon as it is recorded
  ([Round](#round)), and as the last line what `--json` prints. The rounds of a periodic session are recorded at its end.
* Under `--json` an error is an object as well: [Failure](#failure). The exit code is the same as without.

";

/// Ends of names and the unit that they stand for.
const UNITS: [(&str, &str); 9] = [
    ("bits_per_s", "bit/s"),
    ("bytes_per_s", "bytes/s"),
    ("_per_s", "1/s"),
    ("_ns", "ns"),
    ("ns_per_message", "ns"),
    ("ns_per_ns", "ns/ns"),
    ("_us", "µs"),
    ("_bytes", "bytes"),
    ("_share", "share"),
];

fn unit(name: &str) -> &'static str {
    UNITS
        .iter()
        .find(|(end, _)| name.ends_with(end) || end.strip_prefix('_') == Some(name))
        .map_or("", |(_, unit)| unit)
}

/// The type of a field in words.
fn kind(schema: &Value) -> String {
    let list = |of: &str| schema[of].as_array().into_iter().flatten().map(kind).collect::<Vec<_>>();
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if schema["const"].is_string() {
        return format!("`{}`", schema["const"].as_str().unwrap_or_default());
    }
    if schema.get("anyOf").is_some() {
        return list("anyOf").join(" or ");
    }
    let named = |name: &str| match name {
        "array" if schema.get("prefixItems").is_some() => format!("[{}]", list("prefixItems").join(", ")),
        "array" => format!("list of {}", kind(&schema["items"])),
        "object" if schema.get("additionalProperties").is_some() => {
            format!("{} by name", kind(&schema["additionalProperties"]))
        }
        "object" => "object".to_owned(),
        other => other.to_owned(),
    };
    match &schema["type"] {
        Value::String(name) => named(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).map(named).collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    }
}

fn says(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

fn fields(out: &mut String, schema: &Value) {
    let Some(fields) = schema["properties"].as_object() else { return };
    out.push_str("| field | type | unit | what |\n|---|---|---|---|\n");
    let required: Vec<&Value> = schema["required"].as_array().into_iter().flatten().collect();
    for (name, field) in fields {
        let optional = if required.iter().any(|required| *required == name) { "" } else { ", may be missing" };
        let says = says(field).replace('|', "\\|");
        let _ = writeln!(out, "| `{name}` | {}{optional} | {} | {says} |", kind(field), unit(name));
    }
    out.push('\n');
}

fn shape(out: &mut String, name: &str, schema: &Value) {
    let _ = writeln!(out, "### {name}\n\n{}\n", says(schema));
    fields(out, schema);
    for list in ["oneOf", "anyOf", "enum"] {
        for one in schema[list].as_array().into_iter().flatten() {
            let value = one.get("const").unwrap_or(one);
            let keys = || one["properties"].as_object().into_iter().flatten();
            let fields: Vec<String> = keys()
                .map(|(key, field)| match field.get("properties").and_then(Value::as_object) {
                    Some(inner) => {
                        let inner = inner.iter().map(|(name, field)| format!("`{name}`: {}", kind(field)));
                        format!("`{key}`: {{ {} }}", inner.collect::<Vec<_>>().join(", "))
                    }
                    None => format!("`{key}`: {}", kind(field)),
                })
                .collect();
            let what = match value {
                Value::String(text) => format!("`{text:?}`"),
                _ if !fields.is_empty() && one.get("$ref").is_some() => format!(
                    "{{ {} }} with the fields of {}",
                    fields.join(", "),
                    kind(&serde_json::json!({ "$ref": one["$ref"] }))
                ),
                _ if !fields.is_empty() => format!("{{ {} }}", fields.join(", ")),
                _ if one.get("enum").is_some() => one["enum"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|value| format!("`{value}`"))
                    .collect::<Vec<_>>()
                    .join(", "),
                _ => kind(one),
            };
            let text = says(one);
            let _ = writeln!(out, "* {what}{}{text}", if text.is_empty() { "" } else { ": " });
        }
    }
    out.truncate(out.trim_end().len());
    out.push_str("\n\n");
}

fn page(schema: &Value) -> String {
    let mut out = String::from(HEAD);
    out.push_str("## Objects\n\n");
    for document in schema["anyOf"].as_array().into_iter().flatten() {
        let name = document["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")).unwrap_or_default();
        let _ = writeln!(out, "* {}: {}", kind(document), says(&schema["$defs"][name]));
    }
    out.push_str("\n## Shapes\n\n");
    for (name, of) in schema["$defs"].as_object().into_iter().flatten() {
        shape(&mut out, name, of);
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

#[test]
fn the_page_is_that_of_the_schema() {
    let file = root().join("docs/json.md");
    let wanted = page(&msgpath(&["schema"]).ends_with(0).json().plain());
    if std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always") {
        fs::write(&file, wanted).unwrap();
    } else {
        let same = fs::read_to_string(&file).is_ok_and(|text| text == wanted);
        assert!(same, "docs/json.md: INSTA_UPDATE=always cargo test --test program the_page_is");
    }
}
