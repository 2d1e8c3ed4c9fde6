//! The records of a perf ring.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msgpath_sys::perf::{Record, records};

fuzz_target!(|bytes: &[u8]| {
    let mut count = 0;
    let mut raw_bytes = 0;
    for record in records(bytes) {
        count += 1;
        match record {
            Record::Sample { raw, .. } => raw_bytes += raw.len(),
            Record::Named { name, .. } => {
                assert!(!name.contains(&0));
                raw_bytes += name.len();
            }
            _ => (),
        }
    }
    assert!(count * 8 <= bytes.len() && raw_bytes <= bytes.len());
});
