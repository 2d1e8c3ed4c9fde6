//! The JSON of the lab's viewer, valid or not, and CSV: what is read as JSON is written again as JSON with the same stamps.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msgpath_rpc::{csv, json};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(document) = json::read(bytes) {
        let first = document.records.iter().map(|record| record.header.t[0]).min().unwrap_or(0);
        let base = json::base_of(first);
        let mut text = json::header(&document.title, base, first);
        document.records.iter().for_each(|record| text += &json::event(record, base));
        text += json::FOOTER;
        let again: serde_json::Value = serde_json::from_str(&text).expect("what is written is JSON");
        assert_eq!(again["events"].as_array().map(Vec::len), Some(document.records.len() + 1));
    }
    if let Some(table) = csv::table(bytes)
        && let Ok(rows) = csv::Rows::new(&bytes[table.at..], table)
    {
        rows.take_while(Result::is_ok).for_each(drop);
    }
});
