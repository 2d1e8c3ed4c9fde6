//! The RPC lab's messages: a marker with the lengths of what follows, and its checksum; a header; a body.

use msgpath_rpc::{Header, MARKER_BYTES, Marker, RPC_HEADER_BYTES};

use super::{End, Name, Step, words};

fn marker(bytes: &[u8]) -> Option<Marker> {
    Marker::parse(bytes.first_chunk::<MARKER_BYTES>()?).ok()
}

/// Whether a message begins so.
pub(super) fn begins(bytes: &[u8]) -> bool {
    marker(bytes).is_some()
}

/// What is called.
pub(super) fn name(bytes: &[u8]) -> Name {
    let header = bytes.get(MARKER_BYTES..).and_then(|bytes| Header::parse(bytes).ok());
    header.map_or_else(Name::default, |header| words(header.method.bytes()))
}

pub(super) fn step(bytes: &[u8]) -> Step {
    if bytes.len() < MARKER_BYTES {
        return Step::More;
    }
    let Some(marker) = marker(bytes) else { return Step::Lost };
    if bytes.len() < MARKER_BYTES + RPC_HEADER_BYTES {
        return Step::More;
    }
    let length = MARKER_BYTES as u64 + u64::from(marker.header) + u64::from(marker.body);
    Step::Last(length, End { name: name(bytes), ..End::default() })
}
