//! Heads of HTTP/1 and where bodies end (RFC 9112), as [`httparse`] reads them.

use httparse::{EMPTY_HEADER, Header, ParserConfig, Status};
use msgpath_core::foreign::shown_bytes;

/// The longest head that is read, bytes.
pub const MAX_HEAD: usize = 64 << 10;
/// Characters of what is wrong that are shown.
const SHOWN: usize = 64;
/// Most fields of a head.
const MAX_FIELDS: usize = 256;
/// The longest line of a chunk's size, bytes.
const MAX_CHUNK_LINE: usize = 1024;

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    None,
    /// After so many bytes.
    Length(u64),
    /// After its last chunk.
    Chunked,
    /// When the connection does.
    UntilClose,
}

#[derive(Clone, Debug)]
pub struct ReplyHead<'a> {
    /// `200`.
    pub status: u16,
    /// `OK`, if it says so.
    pub reason: &'a str,
    /// Bytes of the head.
    pub bytes: usize,
    /// What follows it.
    pub body: Body,
    /// The server closes the connection behind the reply.
    pub closes: bool,
    pub server: Option<&'a [u8]>,
    pub location: Option<&'a [u8]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHead<'a> {
    /// `GET`.
    pub method: &'a str,
    /// Bytes of the head.
    pub bytes: usize,
    /// What follows it.
    pub body: Body,
}

/// What the fields say of the body and of the connection.
#[derive(Default)]
struct Framing {
    length: Option<u64>,
    /// The last encoding is `chunked`; `Some(false)`: it is another.
    chunked: Option<bool>,
    closes: Option<bool>,
}

/// The items of a list such as `close, TE`.
fn items(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

impl Framing {
    fn of(fields: &[Header<'_>]) -> Result<Self, String> {
        let mut framing = Self::default();
        for field in fields {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                for item in items(field.value) {
                    let digits = std::str::from_utf8(item).ok().filter(|text| text.bytes().all(|c| c.is_ascii_digit()));
                    let length = digits.and_then(|digits| digits.parse().ok());
                    let length =
                        length.ok_or_else(|| format!("Content-Length: {}", shown_bytes(field.value, SHOWN)))?;
                    if framing.length.is_some_and(|other| other != length) {
                        return Err("two lengths of one body".into());
                    }
                    framing.length = Some(length);
                }
            } else if is("transfer-encoding") {
                let coding = items(field.value).filter(|item| !item.eq_ignore_ascii_case(b"identity")).last();
                framing.chunked = coding.map(|coding| coding.eq_ignore_ascii_case(b"chunked")).or(framing.chunked);
            } else if is("connection") {
                let has = |word: &[u8]| items(field.value).any(|item| item.eq_ignore_ascii_case(word));
                framing.closes = has(b"close").then_some(true).or(framing.closes);
                framing.closes = framing.closes.or(has(b"keep-alive").then_some(false));
            }
        }
        Ok(framing)
    }

    fn body(&self, otherwise: Body) -> Body {
        match (self.chunked, self.length) {
            (Some(true), _) => Body::Chunked,
            (Some(false), _) => Body::UntilClose,
            (None, Some(length)) => Body::Length(length),
            (None, None) => otherwise,
        }
    }
}

/// What was read of a head so far: it is not whole.
fn more<T>(bytes: &[u8]) -> Result<Option<T>, String> {
    match bytes.len() < MAX_HEAD {
        true => Ok(None),
        false => Err(format!("a head of more than {MAX_HEAD} bytes")),
    }
}

fn no_head(error: httparse::Error, bytes: &[u8]) -> String {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let begin = shown_bytes(line, SHOWN);
    match error {
        httparse::Error::Version => format!("not HTTP/1: it begins with \"{begin}\""),
        error => format!("{error} in the head that begins with \"{begin}\""),
    }
}

/// The head of a reply that `bytes` begin with; `None`: it is not whole. `no_body`: the request was HEAD.
///
/// # Errors
/// Not HTTP/1, or a head that contradicts itself.
pub fn reply(bytes: &[u8], no_body: bool) -> Result<Option<ReplyHead<'_>>, String> {
    let mut fields = [EMPTY_HEADER; MAX_FIELDS];
    let mut head = httparse::Response::new(&mut fields);
    let mut config = ParserConfig::default();
    config.allow_obsolete_multiline_headers_in_responses(true);
    config.allow_spaces_after_header_name_in_responses(true);
    config.allow_multiple_spaces_in_response_status_delimiters(true);
    let length = match config.parse_response(&mut head, bytes).map_err(|error| no_head(error, bytes))? {
        Status::Complete(length) => length,
        Status::Partial => return more(bytes),
    };
    let framing = Framing::of(head.headers)?;
    let status = head.code.unwrap_or_default();
    let body = match status {
        // RFC 9112 6.3: these have no body, whatever the head says.
        100..200 | 204 | 304 => Body::None,
        _ if no_body => Body::None,
        _ => framing.body(Body::UntilClose),
    };
    let field = |name: &str| head.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
    let closes = framing.closes.unwrap_or(head.version == Some(0)) || body == Body::UntilClose;
    Ok(Some(ReplyHead {
        status,
        reason: head.reason.unwrap_or_default(),
        bytes: length,
        body,
        closes,
        server: field("server").map(|field| field.value),
        location: field("location").map(|field| field.value),
    }))
}

/// The head of a request that `bytes` begin with; `None`: it is not whole.
///
/// # Errors
/// Not HTTP/1, or a head that contradicts itself.
pub fn request(bytes: &[u8]) -> Result<Option<RequestHead<'_>>, String> {
    let mut fields = [EMPTY_HEADER; MAX_FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    let length = match head.parse(bytes).map_err(|error| no_head(error, bytes))? {
        Status::Complete(length) => length,
        Status::Partial => return more(bytes),
    };
    let body = Framing::of(head.headers)?.body(Body::None);
    Ok(Some(RequestHead { method: head.method.unwrap_or_default(), bytes: length, body }))
}

/// The size of the chunk that `bytes` begin with, and the length of its line; `None`: that is not whole.
///
/// # Errors
/// No chunk begins so.
pub fn chunk(bytes: &[u8]) -> Result<Option<(u64, usize)>, String> {
    let begin = || format!("a chunk that begins with \"{}\"", shown_bytes(bytes, SHOWN));
    if !bytes.first().is_none_or(u8::is_ascii_hexdigit) {
        return Err(begin());
    }
    match httparse::parse_chunk_size(bytes).map_err(|_| begin())? {
        Status::Complete((line, size)) => Ok(Some((size, line))),
        Status::Partial if bytes.len() > MAX_CHUNK_LINE => Err(begin()),
        Status::Partial => Ok(None),
    }
}

/// Bytes of the trailers behind the last chunk, with the empty line that ends them; `None`: they are not whole.
///
/// # Errors
/// No trailers are like that.
pub fn trailers(bytes: &[u8]) -> Result<Option<usize>, String> {
    let mut fields = [EMPTY_HEADER; MAX_FIELDS];
    match httparse::parse_headers(bytes, &mut fields).map_err(|error| no_head(error, bytes))? {
        Status::Complete((length, _)) => Ok(Some(length)),
        Status::Partial => more(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body_of(fields: &str) -> Result<Body, String> {
        reply(format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes(), false).map(|head| head.unwrap().body)
    }

    #[test]
    fn fields_say_where_the_body_ends() {
        for (fields, body) in [
            ("Content-Length: 5\r\n", Body::Length(5)),
            ("content-length:5\r\n", Body::Length(5)),
            ("Content-Length: 5, 5\r\n", Body::Length(5)),
            ("Content-Length: 5\r\nContent-Length: 5\r\n", Body::Length(5)),
            ("Transfer-Encoding: chunked\r\n", Body::Chunked),
            ("Transfer-Encoding: gzip, Chunked\r\nContent-Length: 5\r\n", Body::Chunked),
            ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", Body::Chunked),
            ("Transfer-Encoding: gzip\r\n", Body::UntilClose),
            ("Transfer-Encoding: identity\r\nContent-Length: 5\r\n", Body::Length(5)),
            ("", Body::UntilClose),
        ] {
            assert_eq!(body_of(fields), Ok(body), "{fields:?}");
        }
        for bad in
            ["Content-Length: 5, 6\r\n", "Content-Length: -1\r\n", "Content-Length: +1\r\n", "Content-Length: \r\n"]
        {
            assert!(body_of(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn chunks_have_extensions_and_trailers() {
        assert_eq!(chunk(b"5\r\nhello"), Ok(Some((5, 3))));
        assert_eq!(chunk(b"5;a=b;c=\"d\"\r\n"), Ok(Some((5, 13))));
        assert_eq!(chunk(b"00A \r\n"), Ok(Some((10, 6))));
        assert_eq!(chunk(b"5"), Ok(None));
        assert!(chunk(b"xyz\r\n").is_err() && chunk(b"+5\r\n").is_err() && chunk(b"fffffffffffffffff\r\n").is_err());
        assert_eq!(trailers(b"\r\n"), Ok(Some(2)));
        assert_eq!(trailers(b"Digest: x\r\n\r\nmore"), Ok(Some(13)));
        assert_eq!(trailers(b"Digest: x\r\n"), Ok(None));
    }
}
