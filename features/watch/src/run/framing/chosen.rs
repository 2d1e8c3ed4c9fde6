//! How a stream is cut into messages: what `--framing` takes.

use std::fmt;
use std::str::FromStr;

/// How messages are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// By the protocol, where it is recognised; else by turns.
    #[default]
    Auto,
    /// HTTP/1.
    Http,
    /// HTTP/2.
    Http2,
    /// Redis (RESP 2 and 3).
    Resp,
    /// PostgreSQL, version 3 of its protocol.
    Postgres,
    /// The RPC lab's messages.
    Rpc,
    /// A message is a line.
    Line,
    /// A length stands in front of each message.
    Prefix(Prefix),
}

/// A length in front of each message: `u32be`, or `2:u16le-4`, which stands behind two bytes and is 4 more than what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Bytes before the length.
    pub offset: u8,
    /// Bytes of the length: 1, 2, 4 or 8.
    pub width: u8,
    /// Its least significant byte comes first.
    pub little: bool,
    /// What is added to it to have the bytes that follow it.
    pub add: i32,
}

/// Bytes before a length, at most.
const FURTHEST: u8 = 64;
/// What may be added to it.
const MOST_ADDED: i32 = 1 << 16;

const NAMES: [(Framing, &str); 7] = [
    (Framing::Auto, "auto"),
    (Framing::Http, "http"),
    (Framing::Http2, "http2"),
    (Framing::Resp, "resp"),
    (Framing::Postgres, "postgres"),
    (Framing::Rpc, "rpc"),
    (Framing::Line, "line"),
];

impl Prefix {
    /// Bytes that must be there to know how long a message is.
    pub fn head(self) -> usize {
        usize::from(self.offset) + usize::from(self.width)
    }

    /// How long the message is that begins with these bytes, [`Prefix::head`] of them. `None`: shorter than its own head, or longer
    /// than any stream.
    pub fn length(self, head: &[u8]) -> Option<u64> {
        let field = head.get(usize::from(self.offset)..self.head())?;
        let digit = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        let value = match self.little {
            true => field.iter().rev().fold(0, digit),
            false => field.iter().fold(0, digit),
        };
        let follows = value.checked_add_signed(self.add.into())?;
        follows.checked_add(self.head() as u64).filter(|length| *length <= i64::MAX as u64)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.offset > 0 {
            write!(f, "{}:", self.offset)?;
        }
        write!(f, "u{}", u32::from(self.width) * 8)?;
        if self.width > 1 {
            f.write_str(if self.little { "le" } else { "be" })?;
        }
        if self.add != 0 { write!(f, "{:+}", self.add) } else { Ok(()) }
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (offset, rest) = match text.split_once(':') {
            Some((offset, rest)) => (digits(offset).and_then(|offset| u8::try_from(offset).ok()), rest),
            None => (Some(0), text),
        };
        let offset = offset
            .filter(|offset| *offset <= FURTHEST)
            .ok_or_else(|| format!("{text:?}: the length stands behind at most {FURTHEST} bytes"))?;
        let (field, add) = match rest.find(['+', '-']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (width, little) = match field {
            "u8" => (1, false),
            "u16be" => (2, false),
            "u16le" => (2, true),
            "u32be" => (4, false),
            "u32le" => (4, true),
            "u64be" => (8, false),
            "u64le" => (8, true),
            _ => return Err(format!("{text:?}: the length is one of u8, u16be, u16le, u32be, u32le, u64be, u64le")),
        };
        let add = match (add.get(..1), add.get(1..).and_then(digits)) {
            (None, _) => Some(0),
            (Some("+"), Some(more)) => Some(more),
            (Some(_), Some(less)) => Some(-less),
            (Some(_), None) => None,
        };
        let add = add
            .filter(|add| add.abs() <= MOST_ADDED)
            .ok_or_else(|| format!("{text:?}: what is added is a number up to {MOST_ADDED}"))?;
        Ok(Self { offset, width, little, add })
    }
}

/// A number without a sign.
fn digits(text: &str) -> Option<i32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

impl fmt::Display for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, NAMES.iter().find(|(framing, _)| framing == self)) {
            (Framing::Prefix(prefix), _) => prefix.fmt(f),
            (_, Some((_, name))) => f.write_str(name),
            (_, None) => Ok(()),
        }
    }
}

impl FromStr for Framing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((framing, _)) = NAMES.iter().find(|(_, name)| *name == text) {
            return Ok(*framing);
        }
        text.parse().map(Framing::Prefix).map_err(|why| {
            format!("{why}; --framing takes auto, http, http2, resp, postgres, rpc, line, or a length in front of each message: u32be, 2:u16le-4")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn framings_as_people_type_them() {
        for text in [
            "auto",
            "http",
            "http2",
            "resp",
            "postgres",
            "rpc",
            "line",
            "u8",
            "u32be",
            "u16le-4",
            "1:u32be-4",
            "4:u64le+8",
        ] {
            assert_eq!(text.parse::<Framing>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "u32",
            "u24be",
            "65:u8",
            "-1:u8",
            "u32be+",
            "u32be+-1",
            "u16le-99999",
            "http3",
            ":u8",
            "u8:u8",
            "+1:u8",
        ] {
            let why = text.parse::<Framing>().unwrap_err();
            assert!(why.contains("--framing takes auto"), "{text}: {why}");
        }
    }

    #[test]
    fn lengths_as_protocols_have_them() {
        let length = |text: &str, head: &[u8]| text.parse::<Prefix>().unwrap().length(head);
        assert_eq!(length("u32be", &[0, 0, 1, 2]), Some(262));
        assert_eq!(length("u16le", &[2, 1]), Some(260));
        // The messages of PostgreSQL: a type, and a length that contains itself.
        assert_eq!(length("1:u32be-4", b"Q\0\0\0\x0a"), Some(11));
        assert_eq!(length("1:u32be-4", b"Q\0\0\0\x03"), None);
        assert_eq!((length("u64be", &[255; 8]), length("u32be", &[0, 0])), (None, None));
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "([0-9]{0,3}:)?(u8|u16|u32|u64)?(be|le)?([+-][0-9]{0,6})?|.{0,20}", head in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(framing) = text.parse::<Framing>() {
                prop_assert_eq!(framing.to_string().parse(), Ok(framing));
                if let Framing::Prefix(prefix) = framing {
                    let length = prefix.length(&head);
                    prop_assert!(length.is_none_or(|length| length >= prefix.head() as u64));
                }
            }
        }
    }
}
