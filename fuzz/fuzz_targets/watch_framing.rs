//! What watched programs send, in pieces with holes: messages lie one behind the other inside what was sent, and pieces that are
//! known together give the same messages as their bytes one by one.
#![no_main]

use framing::{Expect, Frame, Framer, Framing, Protocol};
use libfuzzer_sys::fuzz_target;

// The module alone, as in `wire`.
#[allow(dead_code)]
#[path = "../../features/watch/src/run/framing/mod.rs"]
mod framing;

const FRAMINGS: [&str; 8] = ["http", "resp", "postgres", "line", "u16be", "1:u32le-9", "rpc", "http2"];

fn framer(protocol: Protocol, requests: bool, born: bool) -> Framer {
    if requests { Framer::requests(protocol, born) } else { Framer::replies(protocol) }
}

fuzz_target!(|bytes: &[u8]| {
    let Some(([which, ends, hole], bytes)) = bytes.split_first_chunk::<3>() else { return };
    let framing: Framing = FRAMINGS[usize::from(*which) % FRAMINGS.len()].parse().expect("one that there is");
    let protocol = Protocol::of(framing).expect("not auto");
    // Streams lie between each other.
    let follows = |a: &Frame, b: &Frame| a.to <= if protocol == Protocol::Http2 { b.to } else { b.from };
    let _ = (Protocol::recognise(bytes, ends & 2 != 0), protocol.name(bytes));
    let (requests, born) = (ends & 1 != 0, ends & 2 != 0);

    let (mut whole, mut single) = (framer(protocol, requests, born), framer(protocol, requests, born));
    let (mut frames, mut others): (Vec<Frame>, Vec<Frame>) = (Vec::new(), Vec::new());
    for framer in [&mut whole, &mut single] {
        framer.expect(Expect::NoBody).expect("the first");
    }
    let at_once = whole.known(bytes, &mut frames);
    let one_by_one = bytes.iter().try_for_each(|byte| single.known(&[*byte], &mut others));
    // What is too long without an end is refused earlier in pieces.
    if at_once.is_ok() && one_by_one.is_ok() {
        assert_eq!((&frames, whole.begin()), (&others, single.begin()));
    }
    assert!(frames.iter().all(|frame| frame.from < frame.to && frame.to <= bytes.len() as u64));
    assert!(frames.is_sorted_by(follows));

    let mut holes = framer(protocol, requests, born);
    let mut found = Vec::new();
    for piece in bytes.chunks(usize::from(*hole).max(1)) {
        if holes.known(piece, &mut found).and_then(|()| holes.unknown((*hole).into(), &mut found)).is_err() {
            break;
        }
    }
    assert!(found.is_sorted_by(follows));
});
