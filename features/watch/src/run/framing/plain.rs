//! Lines, and lengths in front of messages.

use super::{End, Prefix, Step, line as first_line, words};

pub(super) fn line(bytes: &[u8]) -> Step {
    match first_line(bytes) {
        Some((text, length)) => Step::Last(length as u64, End { name: words(text), ..End::default() }),
        None => Step::More,
    }
}

pub(super) fn prefix(prefix: Prefix, bytes: &[u8]) -> Step {
    if bytes.len() < prefix.head() {
        return Step::More;
    }
    match prefix.length(bytes) {
        Some(length) => Step::Last(length, End::default()),
        None => Step::Lost,
    }
}
