//! The files of a run: blocks, their payloads, the header.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| msgpath_record::fuzz_blocks(bytes));
