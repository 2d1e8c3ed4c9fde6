//! Replies of HTTP servers, of Redis and of PostgreSQL, whole and in pieces: what is framed and taken apart lies inside what was read.
#![no_main]

use client::http::Http;
use client::postgres::{Hello, Postgres};
use client::redis::Redis;
use client::wire::{Frame, MAX_REPLY, Reply};
use libfuzzer_sys::fuzz_target;

// The modules alone, as in `wire`.
#[allow(dead_code)]
mod client;

/// Frames of all of it at once, and as it comes in pieces: the same end.
fn framed(bytes: &[u8], piece: usize, mut frame: impl FnMut(&[u8]) -> Result<Frame, String>) -> Option<usize> {
    let mut seen = 0;
    loop {
        seen = (seen + piece).min(bytes.len());
        match frame(&bytes[..seen]) {
            Ok(Frame::Whole(whole)) => {
                assert!(whole <= seen);
                return Some(whole);
            }
            Ok(Frame::More(_) | Frame::UntilClose) if seen < bytes.len() => {}
            Ok(Frame::More(more)) => {
                assert!(more <= 2 * MAX_REPLY);
                return None;
            }
            Ok(Frame::UntilClose) => return Some(seen),
            Err(_) => return None,
        }
    }
}

fn inside(reply: &Reply, bytes: &[u8]) {
    assert!(reply.body.start <= reply.body.end && reply.body.end <= bytes.len(), "{:?}", reply.body);
    assert!(reply.server.as_ref().is_none_or(|server| !server.chars().any(char::is_control)));
}

/// A reply, and a greeting.
fn postgres(bytes: &[u8], piece: usize) {
    let new = || Postgres::new(vec!["SELECT 1".into()]);
    let mut wire = new();
    if let Some(whole) = framed(bytes, piece, |bytes| wire.frame(bytes)) {
        assert_eq!(new().frame(bytes), Ok(Frame::Whole(whole)));
        if let Ok(reply) = wire.reply(&bytes[..whole]) {
            inside(&reply, &bytes[..whole]);
        }
    }
    let _ = Postgres::parting(bytes);
    let statements = [("SELECT $1".to_owned(), 1)];
    let Ok((mut hello, _)) = Hello::new(("anna", Some("word"), "db"), &statements) else { return };
    let mut fed = bytes::BytesMut::from(bytes);
    while let Ok(Some(_)) = hello.feed(&mut fed) {}
    assert!(hello.server.is_none_or(|server| !server.chars().any(char::is_control)));
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let piece = usize::from(*first).max(1);
    let mut http = Http::new("host".into(), "/".into());
    let in_pieces = framed(bytes, piece, |bytes| http.frame(bytes));
    if let Some(whole) = in_pieces {
        let mut at_once = Http::new("host".into(), "/".into());
        if let Ok(Frame::Whole(other)) = at_once.frame(bytes) {
            assert_eq!(whole, other);
        }
        if let Ok(reply) = http.reply(&bytes[..whole]) {
            inside(&reply, &bytes[..whole]);
        }
        if let Some(body) = http.unchunked(&bytes[..whole]) {
            assert!(body.len() <= whole);
        }
    }
    let _ = http.unchunked(bytes);
    let all = bytes::Bytes::copy_from_slice(bytes);
    let mut redis = Redis::default();
    if let Some(whole) = framed(bytes, piece, |bytes| redis.frame(&all.slice(..bytes.len()))) {
        assert_eq!(Redis::default().frame(&all), Ok(Frame::Whole(whole)));
        if let Ok(reply) = redis.reply(&bytes[..whole]) {
            inside(&reply, &bytes[..whole]);
        }
    }
    let _ = redis.reply(bytes);
    postgres(bytes, piece);
});
