//! The binary log of the RPC lab: what is accepted is written again as the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msgpath_rpc::log::{RECORD_BYTES, records};

fuzz_target!(|bytes: &[u8]| {
    for (at, record) in records(bytes, 0).enumerate() {
        match record {
            Ok(record) => {
                assert_eq!(record.to_bytes(), bytes[at * RECORD_BYTES..(at + 1) * RECORD_BYTES]);
                assert!(record.key().is_none_or(|key| key.len() <= 20));
                let _ = (record.request_length(), record.reply_length());
            }
            Err(damage) => assert_eq!(damage.offset, (at * RECORD_BYTES) as u64),
        }
    }
});
