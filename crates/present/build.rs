//! Packs the text of the JSON Schema for the program that it goes into: a seventh of its bytes.

use std::path::PathBuf;
use std::{env, fs};

use miniz_oxide::deflate::compress_to_vec;

const SCHEMA: &str = "src/json/schema.json";

fn main() {
    println!("cargo::rerun-if-changed={SCHEMA}");
    let text = fs::read(SCHEMA).unwrap_or_else(|error| panic!("{SCHEMA}: {error}"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names a folder"));
    fs::write(out.join("schema.json"), compress_to_vec(&text, 10)).unwrap_or_else(|error| panic!("{SCHEMA}: {error}"));
}
