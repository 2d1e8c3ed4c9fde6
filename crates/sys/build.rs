//! Packs the BPF objects for the program that they go into: a fifth of their bytes.

use std::path::PathBuf;
use std::{env, fs};

use miniz_oxide::deflate::compress_to_vec;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names a folder"));
    for name in ["attr.bpf.o", "watch.bpf.o"] {
        let file = format!("bpf/{name}");
        println!("cargo::rerun-if-changed={file}");
        let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
        fs::write(out.join(name), compress_to_vec(&bytes, 10)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
