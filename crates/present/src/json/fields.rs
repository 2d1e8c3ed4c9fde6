//! The fields of `--json` that a word names, a line each: `msgpath schema WORD`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use crate::terminal::{width, wrap};

/// The widest line, in characters.
const COLUMNS: usize = 80;
/// Columns of the paths; a longer one moves the rest of its line to the right.
const PATH_COLUMNS: usize = 38;
/// So many fields at most have their descriptions whole.
const FEW: usize = 5;

/// A field of an object that is printed.
struct Field<'a> {
    /// The way to it in the words of jq, from its object, or from a shape that several fields have: `Run.cases[].open.lateness`,
    /// `Quantile.lo_ns`.
    path: String,
    name: &'a str,
    /// The shape that has it.
    shape: &'a str,
    kind: String,
    doc: &'a str,
}

impl Field<'_> {
    /// `word` is in small letters.
    fn has(&self, word: &str) -> bool {
        let holds = |text: &str| text.to_lowercase().contains(word);
        match word.contains(['.', '[']) {
            true => holds(&self.path),
            false => holds(self.name) || holds(self.doc) || self.shape.to_lowercase() == word,
        }
    }
}

/// The fields of a schema whose name or description has `word`, or that are in the shape of this name; of a word with a dot or a bracket,
/// those whose path has it. A line of at most 80 characters each: path, type (`?`: may be null), description, which is cut where there
/// are more than a few of them. Empty: there is none.
///
/// # Panics
/// `schema` is not one of [`super::schema()`]: a defect.
pub fn fields(schema: &str, word: &str) -> String {
    let schema: Value = serde_json::from_str(schema).expect("what the types say");
    let word = word.to_lowercase();
    let found: Vec<Field<'_>> = all(&schema).into_iter().filter(|field| field.has(&word)).collect();
    if found.len() <= FEW {
        return found.iter().map(whole).collect();
    }
    let widest = |of: fn(&Field<'_>) -> usize| found.iter().map(of).max().unwrap_or(0);
    let (path, kind) = (widest(|field| width(&field.path)).min(PATH_COLUMNS), widest(|field| width(&field.kind)));
    found.iter().map(|field| line(field, path, kind)).collect()
}

/// Names of all fields, each once.
pub fn field_names(schema: &str) -> BTreeSet<String> {
    let schema: Value = serde_json::from_str(schema).expect("what the types say");
    all(&schema).into_iter().map(|field| field.name.to_owned()).collect()
}

/// With its description on lines of its own.
fn whole(field: &Field<'_>) -> String {
    let doc = wrap(field.doc, COLUMNS, 2, 2).into_iter().map(|line| format!("  {line}\n"));
    format!("{}  {}\n{}", field.path, field.kind, doc.collect::<String>())
}

fn line(field: &Field<'_>, path: usize, kind: usize) -> String {
    let head = format!("{:path$}  ", field.path);
    // A path that is too long for its column takes its room from the gap behind the type.
    let column = (path + 2 + kind).saturating_sub(width(&head)).max(width(&field.kind));
    let line = format!("{head}{:column$}  {}", field.kind, field.doc);
    let line = match width(&line) > COLUMNS {
        true => line.chars().take(COLUMNS - 1).collect::<String>().trim_end().to_owned() + "…",
        false => line.trim_end().to_owned(),
    };
    line + "\n"
}

/// Every field of every shape, those near the top of an object first.
fn all(schema: &Value) -> Vec<Field<'_>> {
    let mut references = BTreeMap::new();
    count_references(schema, &mut references);
    let mut walk = Walk { found: Vec::new(), ahead: VecDeque::new(), seen: BTreeSet::new() };
    for document in schema["anyOf"].as_array().into_iter().flatten() {
        if let Some(name) = shape_of(document) {
            walk.ahead.push_back((name, name.to_owned()));
        }
    }
    while let Some((shape, path)) = walk.ahead.pop_front() {
        if walk.seen.insert(shape) {
            let path = if references[shape] > 1 { shape.to_owned() } else { path };
            walk.enter(&schema["$defs"][shape], shape, &path);
        }
    }
    walk.found
}

/// How often each shape is referred to.
fn count_references<'a>(schema: &'a Value, counts: &mut BTreeMap<&'a str, usize>) {
    match schema {
        Value::Object(map) => {
            shape_of(schema).into_iter().for_each(|name| *counts.entry(name).or_default() += 1);
            map.values().for_each(|value| count_references(value, counts));
        }
        Value::Array(list) => list.iter().for_each(|value| count_references(value, counts)),
        _ => {}
    }
}

/// A walk through the shapes, breadth first.
struct Walk<'a> {
    found: Vec<Field<'a>>,
    /// Shapes to enter, each with the path to it.
    ahead: VecDeque<(&'a str, String)>,
    seen: BTreeSet<&'a str>,
}

impl<'a> Walk<'a> {
    fn enter(&mut self, schema: &'a Value, shape: &'a str, path: &str) {
        if let Some(name) = shape_of(schema) {
            self.ahead.push_back((name, path.to_owned()));
        }
        for one in ["anyOf", "oneOf"].iter().filter_map(|key| schema[key].as_array()).flatten() {
            self.enter(one, shape, path);
        }
        let entries = schema["prefixItems"].as_array().into_iter().flatten();
        for entry in entries.chain(["items", "additionalProperties"].iter().filter_map(|key| schema.get(key))) {
            self.enter(entry, shape, &format!("{path}[]"));
        }
        for (name, field) in schema["properties"].as_object().into_iter().flat_map(Map::iter) {
            let path = format!("{path}.{name}");
            let doc = field["description"].as_str().unwrap_or_default();
            self.found.push(Field { path: path.clone(), name, shape, kind: kind(field), doc });
            self.enter(field, shape, &path);
        }
    }
}

/// The name of the shape that a schema refers to.
fn shape_of(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}

/// The type of a field in a word: `string`, `Quantile[]`, `integer?` (may be null), `{number}` (an object with keys of its own).
fn kind(schema: &Value) -> String {
    if let Some(name) = shape_of(schema) {
        return name.to_owned();
    }
    if let Some(choices) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        let (null, some): (Vec<String>, Vec<String>) = choices.iter().map(kind).partition(|kind| kind == "null");
        let some: BTreeSet<String> = some.into_iter().collect();
        let optional = if null.is_empty() { "" } else { "?" };
        return some.into_iter().collect::<Vec<_>>().join("|") + optional;
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    let some = types.iter().find(|name| **name != "null").or(types.first()).copied().unwrap_or("any");
    let name = match some {
        "array" => {
            let entry = schema.get("items").filter(|items| items.is_object()).or(schema["prefixItems"].get(0));
            entry.map_or_else(|| "any".into(), kind) + "[]"
        }
        "object" => match schema.get("additionalProperties").filter(|values| values.is_object()) {
            Some(values) => format!("{{{}}}", kind(values)),
            None => some.into(),
        },
        _ => some.into(),
    };
    let optional = if types.len() > 1 && types.contains(&"null") { "?" } else { "" };
    name + optional
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::schema;
    use serde_json::json;

    fn found(word: &str) -> Vec<String> {
        fields(&schema(&[]), word).lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_field_is_one_line_of_at_most_eighty_characters() {
        // Every field has a name with one of these.
        for word in ["a", "e", "i", "o", "p", "s"] {
            let lines = found(word);
            assert!(lines.len() > 50, "{word}: {}", lines.len());
            for line in lines {
                let words: Vec<&str> = line.split_whitespace().collect();
                assert!(width(&line) <= COLUMNS && words.len() >= 2 && words[0].contains('.'), "{line:?}");
            }
        }
    }

    #[test]
    fn a_path_leads_from_the_object_to_the_field() {
        let lines = found("lateness");
        assert!(lines.iter().any(|line| line.starts_with("Run.cases[].open.lateness ")), "{lines:#?}");
        assert!(lines.iter().any(|line| line.ends_with(" Quantile[]")), "{lines:#?}");
        // Found by its description.
        assert!(lines.iter().any(|line| line.starts_with("Run.cases[].open.blocked_share ")), "{lines:#?}");
        let lines = found("run.CASES[].open.l");
        assert!(!lines.is_empty() && lines[0].starts_with("Run.cases[].open.l"), "{lines:#?}");
        // All that a shape has, by its name.
        let lines = found("quantile");
        for field in ["lo_ns", "hi_ns", "p"] {
            assert!(lines.iter().any(|line| line.starts_with(&format!("Quantile.{field} "))), "{field}: {lines:#?}");
        }
    }

    #[test]
    fn every_field_has_one_line_and_none_is_left_out() {
        let text = schema(&[]);
        let value: Value = serde_json::from_str(&text).unwrap();
        let all = all(&value);
        let own: usize = value["$defs"]
            .as_object()
            .unwrap()
            .values()
            .map(|shape| shape["properties"].as_object().map_or(0, Map::len))
            .sum();
        assert!(all.len() >= own, "{} of {own}", all.len());
        let paths: BTreeSet<&str> = all.iter().map(|field| &*field.path).collect();
        assert!(all.len() - paths.len() < 20, "{} of {} stand twice", all.len() - paths.len(), all.len());
    }

    #[test]
    fn a_word_that_no_field_has_finds_nothing() {
        assert_eq!(fields(&schema(&[]), "zebra"), "");
        assert_eq!(fields(&schema(&[]), "Run.zebra"), "");
    }

    #[test]
    fn the_descriptions_of_few_fields_are_whole() {
        let doc = "word ".repeat(30);
        let field = json!({ "type": ["integer", "null"], "description": doc.trim() });
        let shapes = json!({ "One": { "type": "object", "properties": { "count": field } } });
        let text = fields(&json!({ "anyOf": [{ "$ref": "#/$defs/One" }], "$defs": shapes }).to_string(), "COUNT");
        assert!(text.starts_with("One.count  integer?\n  word word"), "{text}");
        assert!(text.matches("word").count() == 30 && text.lines().all(|line| width(line) <= COLUMNS), "{text}");
    }

    #[test]
    fn types_are_a_word() {
        let kinds = [
            (json!({ "type": "string" }), "string"),
            (json!({ "type": ["number", "null"] }), "number?"),
            (json!({ "$ref": "#/$defs/Quantile" }), "Quantile"),
            (json!({ "anyOf": [{ "$ref": "#/$defs/Case" }, { "type": "null" }] }), "Case?"),
            (json!({ "type": "array", "items": { "$ref": "#/$defs/Case" } }), "Case[]"),
            (json!({ "type": "array", "prefixItems": [{ "type": "integer" }, { "type": "integer" }] }), "integer[]"),
            (json!({ "type": "object", "additionalProperties": { "type": "integer" } }), "{integer}"),
            (json!(true), "any"),
        ];
        for (schema, word) in kinds {
            assert_eq!(kind(&schema), word);
        }
    }
}
