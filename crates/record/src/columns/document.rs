//! The lists of columns in `docs/record.md` and `crates/record/FORMAT.md` are those of the code. `INSTA_UPDATE=always cargo test document` writes them.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::{Column, Form, Kind, Stored};

fn form<R>(stored: &Stored<R>) -> &'static str {
    match stored {
        Stored::Number(Form::Itself, ..) => "itself",
        Stored::Number(Form::Difference, ..) => "difference",
        Stored::Number(Form::Rising, ..) => "rising",
        Stored::Number(Form::Optional, ..) => "optional",
        Stored::Number(Form::OptionalDifference, ..) => "optional difference",
        Stored::Number(Form::ByKind, ..) => "difference by kind",
        Stored::Key(..) => "key",
    }
}

/// Ends of names that tell the unit.
const UNITS: [(&str, &str); 4] = [("_ns", "ns"), ("_us", "µs"), ("_bytes", "bytes"), ("bits_per_s", "bit/s")];

/// The list of columns. What most of them share is left out: in a block as `itself`, exported as int64, the unit in the name.
pub fn table<'a, R: 'static>(columns: impl IntoIterator<Item = &'a Column<R>>) -> String {
    let columns: Vec<_> = columns.into_iter().collect();
    let in_blocks = columns.iter().any(|column| column.stored.is_some());
    let mut out = String::new();
    let mut before = "";
    for column in columns {
        let Column { name, unit, says, null, .. } = column;
        let mut facts = Vec::new();
        match &column.stored {
            Some(stored) if form(stored) != "itself" => facts.push(form(stored)),
            None if in_blocks => facts.push("export only"),
            _ => {}
        }
        if column.required {
            facts.push("required");
        }
        match column.kind {
            _ if !column.is_exported() => facts.push("block only"),
            Kind::Text => facts.push("text"),
            Kind::Int32 => facts.push("int32"),
            Kind::Decimal => facts.push("decimal"),
            Kind::Int64 => {}
        }
        if !unit.is_empty() && !UNITS.iter().any(|(end, of_name)| unit == of_name && name.ends_with(end)) {
            facts.push(unit);
        }
        let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        let empty = match *null {
            "" => String::new(),
            null if null == before => ". Empty: likewise".into(),
            null => format!(". Empty: {null}"),
        };
        before = null;
        let _ = writeln!(out, "* `{name}`{facts}: {says}{empty}");
    }
    out
}

/// The pages that have lists, from the root.
const PAGES: [&str; 2] = ["docs/record.md", "crates/record/FORMAT.md"];

/// Compares lists with those of the pages, by name, or writes them.
///
/// # Panics
/// A page has another one, or none has one.
pub fn documented(tables: &[(&str, String)]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = 0;
    for page in PAGES {
        let file = root.join(page);
        let text = fs::read_to_string(&file).expect("the page");
        let mut wanted = text.clone();
        for (name, table) in tables {
            let begin = format!("<!-- columns: {name} -->\n");
            let Some(from) = wanted.find(&begin).map(|at| at + begin.len()) else { continue };
            let length = wanted[from..].find("<!-- end -->").expect("the end of the list");
            wanted.replace_range(from..from + length, table);
            found += 1;
        }
        if std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always") {
            fs::write(&file, wanted).expect("the page");
        } else {
            assert!(text == wanted, "{page}: INSTA_UPDATE=always cargo test document");
        }
    }
    assert_eq!(found, tables.len(), "each list is in one page");
}

#[cfg(test)]
mod tests {
    use msgpath_core::schema::MessageRow;

    use super::super::events::EVENTS;
    use super::super::messages::MESSAGES;
    use super::super::of_case;
    use super::*;
    use crate::export::csv_rounds::{END, ROUND, RUN};

    #[test]
    fn the_document_has_these_columns() {
        documented(&[
            ("messages", table(&MESSAGES)),
            ("events", table(&EVENTS)),
            ("case", table(&of_case::<MessageRow>())),
            ("rounds", table(RUN.iter().chain(&ROUND))),
            ("ends", table(&END)),
        ]);
    }
}
