//! The description of a tracepoint, and records read by it. The bytes up to the first 0 are the description, the rest is the
//! record.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msgpath_sys::tracefs;

fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (text, raw) = bytes.split_at(end);
    let Ok(text) = std::str::from_utf8(text) else { return };
    if let Ok(format) = tracefs::parse(text) {
        for field in &format.fields {
            assert!(field.offset + field.size <= 8192);
            assert!(field.read(raw).is_none() || field.offset + field.size <= raw.len());
            assert_eq!(format.field(&field.name), Some(field), "names are unique");
        }
    }
});
