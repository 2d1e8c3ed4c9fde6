//! Packs long texts for the program that they go into: a fifth of their bytes.

use std::path::PathBuf;
use std::{env, fs};

use miniz_oxide::deflate::compress_to_vec;

/// Names of packed texts, and what each is made of.
const TEXTS: [(&str, &[&str]); 2] = [
    ("schema.json", &["src/json/schema.json"]),
    (
        "script.js",
        &[
            "src/html/script/page.js",
            "src/html/script/readouts.js",
            "src/html/script/log.js",
            "src/html/script/timeline.js",
            "src/html/script/links.js",
        ],
    ),
];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names a folder"));
    for (name, parts) in TEXTS {
        let read = |part: &&str| {
            println!("cargo::rerun-if-changed={part}");
            fs::read(part).unwrap_or_else(|error| panic!("{part}: {error}"))
        };
        let text: Vec<u8> = parts.iter().flat_map(read).collect();
        fs::write(out.join(name), compress_to_vec(&text, 10)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
