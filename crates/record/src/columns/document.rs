//! The tables of columns in `docs/record.md` are those of the code. `INSTA_UPDATE=always cargo test -p msgpath-record
//! document` writes them.

use std::fmt::Write;
use std::{fs, path::Path};

use msgpath_core::schema::MessageRow;

use super::calls::CALLS;
use super::events::EVENTS;
use super::messages::MESSAGES;
use super::requests::REQUESTS;
use super::{Column, Form, Kind, Stored, of_case};
use crate::export::csv_rounds::{END, ROUND, RUN};

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

fn table<'a, R: 'static>(columns: impl IntoIterator<Item = &'a Column<R>>) -> String {
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

#[test]
fn the_document_has_these_columns() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("docs/record.md");
    let text = fs::read_to_string(&file).unwrap();
    let mut wanted = text.clone();
    for (name, table) in [
        ("messages", table(&MESSAGES)),
        ("calls", table(&CALLS)),
        ("events", table(&EVENTS).replace("| int64 |", "|  |")),
        ("requests", table(&REQUESTS).replace("| key | int64 |", "| key | text |")),
        ("case", table(&of_case::<MessageRow>())),
        ("rounds", table(RUN.iter().chain(&ROUND))),
        ("ends", table(&END)),
    ] {
        let begin = format!("<!-- columns: {name} -->\n");
        let from = wanted.find(&begin).unwrap_or_else(|| panic!("no {begin}")) + begin.len();
        let length = wanted[from..].find("<!-- end -->").unwrap();
        wanted.replace_range(from..from + length, &table);
    }
    if std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always") {
        fs::write(&file, wanted).unwrap();
    } else {
        assert!(text == wanted, "docs/record.md: INSTA_UPDATE=always cargo test -p msgpath-record document");
    }
}
