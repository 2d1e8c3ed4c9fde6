//! Control messages and zero-copy completions.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msgpath_sys::{cmsg, errqueue};

fuzz_target!(|bytes: &[u8]| {
    let read: usize = cmsg::iter(bytes).map(|message| message.data.len()).sum();
    assert!(read <= bytes.len());
    if let Some(completion) = errqueue::parse(bytes) {
        assert!((1..=1 << 32).contains(&completion.count()));
    }
});
