//! The tables of columns in `docs/record.md` are those of the code. `INSTA_UPDATE=always cargo test document` writes them.

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

const HEAD: &str = "| column | in a block | exported | unit | what | empty |\n|---|---|---|---|---|---|\n";

/// The table of columns.
pub fn table<'a, R: 'static>(columns: impl IntoIterator<Item = &'a Column<R>>) -> String {
    let mut out = String::from(HEAD);
    for column in columns {
        let kind = match (column.is_exported(), column.kind) {
            (false, _) => "",
            (_, Kind::Text) => "text",
            (_, Kind::Int32) => "int32",
            (_, Kind::Int64) => "int64",
            (_, Kind::Decimal) => "decimal",
        };
        let Column { name, unit, says, null, .. } = column;
        let required = if column.required { ", required" } else { "" };
        let stored = column.stored.as_ref().map_or("", form).to_owned() + required;
        let _ = writeln!(out, "| `{name}` | {stored} | {kind} | {unit} | {says} | {null} |");
    }
    out
}

/// Compares tables with those of the document, by name, or writes them.
///
/// # Panics
/// The document has other ones.
pub fn documented(tables: &[(&str, String)]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("docs/record.md");
    let text = fs::read_to_string(&file).expect("the document");
    let mut wanted = text.clone();
    for (name, table) in tables {
        let begin = format!("<!-- columns: {name} -->\n");
        let from = wanted.find(&begin).unwrap_or_else(|| panic!("no {begin}")) + begin.len();
        let length = wanted[from..].find("<!-- end -->").expect("the end of the table");
        wanted.replace_range(from..from + length, table);
    }
    if std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always") {
        fs::write(&file, wanted).expect("the document");
    } else {
        assert!(text == wanted, "docs/record.md: INSTA_UPDATE=always cargo test document");
    }
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
            ("events", table(&EVENTS).replace("| int64 |", "|  |")),
            ("case", table(&of_case::<MessageRow>())),
            ("rounds", table(RUN.iter().chain(&ROUND))),
            ("ends", table(&END)),
        ]);
    }
}
