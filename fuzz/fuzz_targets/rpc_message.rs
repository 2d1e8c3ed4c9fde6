//! Messages of the RPC lab: marker, header, what our server adds, strings of the body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msgpath_rpc::{Header, MARKER_BYTES, Marker, Telling, first_hash, put_string, take_string};

fuzz_target!(|bytes: &[u8]| {
    if let Some((marker, _)) = bytes.split_first_chunk::<MARKER_BYTES>()
        && let Ok(parsed) = Marker::parse(marker)
    {
        assert_eq!(parsed.to_bytes(), *marker);
    }
    if let Ok(header) = Header::parse(bytes) {
        assert!(bytes.starts_with(&header.to_bytes()));
        let _ = (header.method.to_string(), Telling::of(&header, bytes));
    }
    let _ = first_hash(bytes);
    let (mut body, mut again) = (bytes, Vec::new());
    while let Some(string) = take_string(&mut body) {
        put_string(&mut again, string);
    }
    assert_eq!([again.as_slice(), body].concat(), bytes);
});
