//! HTTP/1.1 over a connection that is kept; replies with a length, in chunks, or up to the end.

use std::sync::Arc;

use msgpath_core::foreign::shown_bytes;

use super::maker::{Draws, Maker};
use super::wire::{Frame, MAX_REPLY, Remark, Reply, Sent};
use msgpath_rpc::http::{self, Body, ReplyHead};

/// One connection's HTTP.
#[derive(Clone, Debug, Default)]
pub struct Http {
    /// The path, with its slash in front.
    path: String,
    /// Fields of the head of every request, each with its line end.
    fields: String,
    /// The body of requests that have one and no value.
    body: Option<Arc<[u8]>>,
    /// Each call has a connection of its own.
    closes: bool,
    /// The request is HEAD: its reply has no body.
    no_body: bool,
    /// How the reply in progress ends, once its head is there.
    ends: Option<Ends>,
}

/// How the body of the reply in progress ends.
#[derive(Clone, Copy, Debug)]
enum Ends {
    /// After so many bytes, all together.
    At(usize),
    /// In chunks: where the next one begins.
    Chunk(usize),
    /// When the server closes.
    Close,
}

/// The HTTP method that a method of the lab stands for.
pub fn command(method: &str) -> String {
    match method.to_ascii_lowercase().as_str() {
        "write" => "PUT".into(),
        "read" | "ping" => "GET".into(),
        other => other.to_ascii_uppercase(),
    }
}

/// Whether requests of a method have a body.
pub fn has_body(method: &str) -> bool {
    ["PUT", "POST", "PATCH"].contains(&command(method).as_str())
}

/// As much of a text of the server as is told.
fn begin(text: &[u8]) -> String {
    shown_bytes(text, 64)
}

impl Http {
    pub fn new(host: String, path: String) -> Self {
        Self { path, fields: format!("Host: {host}\r\nUser-Agent: msgpath\r\n"), ..Self::default() }
    }

    /// With more fields, each with its line end, in place of those of the same name.
    #[must_use]
    pub fn with(mut self, more: &str) -> Self {
        let name = |line: &str| line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        let set: Vec<String> = more.lines().map(name).collect();
        let kept = self.fields.split_inclusive("\r\n").filter(|line| !set.contains(&name(line)));
        self.fields = kept.collect::<String>() + more;
        self
    }

    /// With this body for requests that have one and no value.
    #[must_use]
    pub fn with_body(self, body: Option<Vec<u8>>) -> Self {
        Self { body: body.map(Into::into), ..self }
    }

    /// With a connection of its own for each call.
    #[must_use]
    pub fn closing(mut self) -> Self {
        self.fields += "Connection: close\r\n";
        Self { closes: true, ..self }
    }

    /// The fields of the head of every request, each with its line end.
    pub fn fields(&self) -> &str {
        &self.fields
    }

    /// Whether each call has a connection of its own.
    pub fn closes(&self) -> bool {
        self.closes
    }

    /// The path of a key: below the path of the target, its odd bytes percent-encoded. Returns where the key begins;
    /// without one, where the path does.
    fn put_path(&self, key: &[u8], out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.extend_from_slice(self.path.as_bytes());
        if key.is_empty() {
            return start;
        }
        if !self.path.ends_with('/') {
            out.push(b'/');
        }
        let start = out.len();
        for byte in key {
            match byte {
                byte if byte.is_ascii_alphanumeric() || b"._-~".contains(byte) => out.push(*byte),
                byte => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            }
        }
        start
    }

    /// Calls of this method follow.
    pub fn turn_to(&mut self, method: &str) {
        self.no_body = command(method) == "HEAD";
    }

    /// Puts a request together.
    pub fn build(&self, method: &str, maker: &mut Maker, draws: &mut Draws, out: &mut Vec<u8>) -> Sent {
        let mut key = Vec::new();
        maker.put_key(&mut key, draws);
        out.extend_from_slice(command(method).as_bytes());
        out.push(b' ');
        let key = self.put_path(&key, out)..out.len();
        out.extend_from_slice(format!(" HTTP/1.1\r\n{}", self.fields).as_bytes());
        let drawn = maker.drawn(draws);
        let fixed = match maker.value_bytes() {
            None if has_body(method) => Some(self.body.as_deref().unwrap_or_default()),
            _ => None,
        };
        if let Some(bytes) = maker.value_bytes().or(fixed.map(<[u8]>::len)) {
            out.extend_from_slice(format!("Content-Length: {bytes}\r\n").as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        let body = out.len();
        maker.put_value(out, draws);
        out.extend_from_slice(fixed.unwrap_or_default());
        Sent { rpcid: draws.id(), bytes: out.len(), key, body: body..out.len(), drawn }
    }

    /// How far the reply is.
    ///
    /// # Errors
    /// Not HTTP/1, or more than is taken.
    pub fn frame(&mut self, bytes: &[u8]) -> Result<Frame, String> {
        let ends = match self.ends {
            Some(ends) => ends,
            None => {
                let Some((begin, head)) = self.head(bytes)? else { return Ok(Frame::More(0)) };
                let end = begin + head.bytes;
                match head.body {
                    Body::None => Ends::At(end),
                    Body::Length(length) if length > MAX_REPLY as u64 => return Err(too_long(length)),
                    Body::Length(length) => Ends::At(end + length as usize),
                    Body::Chunked => Ends::Chunk(end),
                    Body::UntilClose => Ends::Close,
                }
            }
        };
        self.ends = Some(ends);
        let frame = match ends {
            Ends::At(whole) if bytes.len() >= whole => Frame::Whole(whole),
            Ends::At(whole) => Frame::More(whole),
            Ends::Close if bytes.len() > MAX_REPLY => return Err(too_long(bytes.len() as u64)),
            Ends::Close => Frame::UntilClose,
            Ends::Chunk(at) => self.chunks(bytes, at)?,
        };
        if matches!(frame, Frame::Whole(_)) {
            self.ends = None;
        }
        Ok(frame)
    }

    /// The head of the reply behind those that only announce it (100, 103), and where it begins.
    fn head<'a>(&self, bytes: &'a [u8]) -> Result<Option<(usize, ReplyHead<'a>)>, String> {
        let mut begin = 0;
        loop {
            match http::reply(&bytes[begin..], self.no_body)? {
                Some(head) if head.status == 101 => return Err("101: the server goes on in another protocol".into()),
                Some(head) if head.status < 200 => begin += head.bytes,
                head => return Ok(head.map(|head| (begin, head))),
            }
        }
    }

    /// Goes from chunk to chunk as far as the bytes go.
    fn chunks(&mut self, bytes: &[u8], mut at: usize) -> Result<Frame, String> {
        loop {
            self.ends = Some(Ends::Chunk(at));
            let Some((size, line)) = http::chunk(&bytes[at..])? else { return Ok(Frame::More(0)) };
            if size == 0 {
                let end = http::trailers(&bytes[at + line..])?;
                return Ok(end.map_or(Frame::More(0), |end| Frame::Whole(at + line + end)));
            }
            if size > MAX_REPLY as u64 || at > MAX_REPLY {
                return Err(too_long(size.max(at as u64)));
            }
            let next = at + line + size as usize + 2;
            if bytes.len() < next {
                return Ok(Frame::More(next));
            }
            if &bytes[next - 2..next] != b"\r\n" {
                return Err("a chunk that does not end where it must".into());
            }
            at = next;
        }
    }

    /// The end of the connection was the end of the reply.
    pub fn closed(&mut self) -> bool {
        matches!(self.ends.take(), Some(Ends::Close))
    }

    /// Takes a whole reply apart. A status from 400 on is a failure; a redirect is measured as the reply that it is.
    ///
    /// # Errors
    /// Not HTTP/1.
    pub fn reply(&mut self, bytes: &[u8]) -> Result<Reply, String> {
        let (from, head) = self.head(bytes)?.ok_or("a reply without a head")?;
        let failed = head.status >= 400;
        let text = format!("{} {}", head.status, begin(head.reason.as_bytes()));
        let remark = match (head.status, head.location) {
            (400.., _) => Some(text.trim_end().to_owned()),
            (300..400, Some(location)) => Some(format!("{text} to {}: measured as the reply", begin(location))),
            _ => None,
        };
        Ok(Reply {
            status: if failed { head.status.into() } else { 0 },
            body: from + head.bytes..bytes.len(),
            closes: head.closes || self.closes,
            server: head.server.map(begin),
            remark: remark.map(|text| Remark { text, failed }),
            ..Reply::default()
        })
    }

    /// The body without its chunk lines; `None`: it has none.
    pub fn unchunked(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (from, head) = self.head(bytes).ok()??;
        if head.body != Body::Chunked {
            return None;
        }
        let (mut out, mut at) = (Vec::new(), from + head.bytes);
        while let Ok(Some((size @ 1.., line))) = http::chunk(bytes.get(at..)?) {
            let data = at + line;
            at = data.checked_add(usize::try_from(size).ok()?)?;
            out.extend_from_slice(bytes.get(data..at)?);
            at += 2;
        }
        Some(out)
    }
}

fn too_long(bytes: u64) -> String {
    format!("a body of {bytes} bytes: at most {MAX_REPLY} are taken")
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_rpc::command::parse;
    use proptest::prelude::*;

    fn http() -> Http {
        Http::new("h:1".into(), "/kv".into())
    }

    #[test]
    fn requests_name_the_key_in_the_path() {
        let made = |line: &str| {
            let script = parse(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
            let (mut out, mut draws) = (Vec::new(), Draws::of(1, 1).remove(0));
            let sent =
                http().build(&script.steps[0].method, &mut Maker::new(&script.steps[0], 0, 1), &mut draws, &mut out);
            (String::from_utf8(out.clone()).unwrap(), out[sent.key].to_vec())
        };
        let (put, key) = made("write -key a/b -value vv 4");
        assert!(put.starts_with("PUT /kv/a%2Fb HTTP/1.1\r\nHost: h:1\r\n"), "{put}");
        assert!(put.ends_with("\r\nContent-Length: 4\r\n\r\nvv_b"), "{put}");
        assert_eq!(key, b"a%2Fb");
        let body = http().with_body(Some(b"a=1".to_vec())).closing();
        let script = parse(&["POST"]).unwrap();
        let (mut out, mut draws) = (Vec::new(), Draws::of(1, 1).remove(0));
        body.build("POST", &mut Maker::new(&script.steps[0], 0, 1), &mut draws, &mut out);
        let post = String::from_utf8(out).unwrap();
        assert!(post.ends_with("\r\nConnection: close\r\nContent-Length: 3\r\n\r\na=1"), "{post}");
        let (get, key) = made("GET");
        assert!(get.starts_with("GET /kv HTTP/1.1\r\n") && get.ends_with("\r\n\r\n"), "{get}");
        assert_eq!(key, b"/kv");
    }

    #[test]
    fn fields_of_the_user_take_the_place_of_ours() {
        let http = http().with("host: other\r\nAccept: */*\r\n");
        assert_eq!(http.fields, "User-Agent: msgpath\r\nhost: other\r\nAccept: */*\r\n");
    }

    /// Replies as servers send them: what was asked, the text, status and body as they are read, and whether the server closes.
    const REPLIES: &[(&str, &str, u32, &str, bool)] = &[
        ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 0, "hi", false),
        ("GET", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nhi", 0, "hi", false),
        ("GET", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", 0, "", false),
        ("GET", "HTTP/1.1 299 Whatever It Is\r\ncontent-length:1\r\n\r\nx", 0, "x", false),
        ("GET", "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", 404, "", false),
        (
            "GET",
            "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 3\r\nConnection: close\r\n\r\noh!",
            500,
            "oh!",
            true,
        ),
        ("GET", "HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", 999, "", false),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n", 0, "", false),
        ("GET", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", 0, "", false),
        ("PUT", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", 0, "", false),
        ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 1234\r\nETag: \"x\"\r\n\r\n", 0, "", false),
        ("GET", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", 0, "", false),
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n", 0, "", false),
        ("HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 0, "", false),
        ("HEAD", "HTTP/1.1 200 OK\r\n\r\n", 0, "", false),
        ("PUT", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", 0, "", false),
        (
            "GET",
            "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
            0,
            "x",
            false,
        ),
        (
            "GET",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx",
            404,
            "x",
            false,
        ),
        ("GET", "HTTP/1.1 102 Processing\r\nContent-Length: 5\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 0, "", false),
        ("GET", "HTTP/1.1 301 Moved Permanently\r\nLocation: /new\r\nContent-Length: 3\r\n\r\nnew", 0, "new", false),
        ("GET", "HTTP/1.1 302 Found\r\nLocation: http://h/\r\nContent-Length: 0\r\n\r\n", 0, "", false),
        ("GET", "HTTP/1.1 300 Multiple Choices\r\nContent-Length: 0\r\n\r\n", 0, "", false),
        ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello", 0, "hello", false),
        ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 0, "hello", false),
        (
            "GET",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n3;x=y\r\nyou\r\n0\r\n\r\n",
            0,
            "hiyou",
            false,
        ),
        ("GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\nA: b\r\nDigest: x\r\n\r\n", 0, "", false),
        ("GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n00001 \r\nx\r\n0;last\r\n\r\n", 0, "x", false),
        (
            "GET",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n",
            0,
            "0123456789",
            false,
        ),
        (
            "GET",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
            0,
            "x",
            false,
        ),
        ("GET", "HTTP/1.1 200 OK\r\nConnection: close, TE\r\nContent-Length: 1\r\n\r\nx", 0, "x", true),
        ("GET", "HTTP/1.1 200 OK\r\nConnection: TE\r\nConnection: Close\r\nContent-Length: 1\r\n\r\nx", 0, "x", true),
        (
            "GET",
            "HTTP/1.1 200 OK\r\nConnection: Keep-Alive\r\nKeep-Alive: timeout=5, max=99\r\nContent-Length: 1\r\n\r\nx",
            0,
            "x",
            false,
        ),
        ("GET", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 0, "x", true),
        ("GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", 0, "x", false),
        ("GET", "HTTP/1.1 200 OK\nContent-Length: 1\n\nx", 0, "x", false),
        ("GET", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n1\r\nx\r\n0\r\n\r\n", 0, "x", false),
        ("GET", "HTTP/1.1 200 OK\r\nX-Folded: a\r\n b\r\n\tc\r\nContent-Length: 1\r\n\r\nx", 0, "x", false),
        ("GET", "HTTP/1.1 200 OK\r\nX-Space : a\r\nContent-Length : 1\r\n\r\nx", 0, "x", false),
        ("GET", "HTTP/1.1  200  OK\r\nContent-Length: 1\r\n\r\nx", 0, "x", false),
        ("GET", "HTTP/1.1 200 OK\r\nX-Empty:\r\nContent-Length:   1  \r\n\r\nx", 0, "x", false),
        ("GET", "\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 0, "x", false),
        (
            "DELETE",
            "HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\nSet-Cookie: a=b; Expires=Thu, 01 Jan 1970\r\n\r\n{}",
            0,
            "{}",
            false,
        ),
    ];

    #[test]
    fn replies_are_whole_at_their_last_byte() {
        assert!(REPLIES.len() > 40);
        for (method, text, status, body, closes) in REPLIES {
            let (bytes, mut http) = (text.as_bytes(), http());
            http.turn_to(method);
            for cut in 0..bytes.len() {
                let frame = http.frame(&bytes[..cut]);
                assert!(matches!(frame, Ok(Frame::More(_))), "{text:?} {cut}: {frame:?}");
            }
            assert_eq!(http.frame(bytes), Ok(Frame::Whole(bytes.len())), "{text:?}");
            let reply = http.reply(bytes).unwrap();
            let there = http.unchunked(bytes).unwrap_or_else(|| bytes[reply.body].to_vec());
            assert_eq!((reply.status, reply.closes, there.as_slice()), (*status, *closes, body.as_bytes()), "{text:?}");
        }
    }

    #[test]
    fn failures_and_redirects_are_named() {
        let remark = |head: &str| {
            let text = format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n");
            http().reply(text.as_bytes()).unwrap().remark.map(|remark| (remark.text, remark.failed))
        };
        assert_eq!(remark("200 OK"), None);
        assert_eq!(remark("404 Not Found"), Some(("404 Not Found".into(), true)));
        assert_eq!(remark("503"), Some(("503".into(), true)));
        let moved = remark("301 Moved Permanently\r\nLocation: https://h/x").unwrap();
        assert_eq!(moved, ("301 Moved Permanently to https://h/x: measured as the reply".into(), false));
    }

    #[test]
    fn fields_may_be_latin_1() {
        let bytes = b"HTTP/1.1 200 OK\r\nServer: caf\xe9\r\nContent-Length: 1\r\n\r\nx";
        let mut http = http();
        assert_eq!(http.frame(bytes), Ok(Frame::Whole(bytes.len())));
        assert!(http.reply(bytes).unwrap().server.unwrap().starts_with("caf"));
    }

    #[test]
    fn old_servers_close_after_a_reply() {
        let mut http = http();
        let bytes = b"HTTP/1.0 200 OK\r\nServer: SimpleHTTP/0.6\r\nContent-Length: 1\r\n\r\nx";
        assert_eq!(http.frame(bytes), Ok(Frame::Whole(bytes.len())));
        let reply = http.reply(bytes).unwrap();
        assert!(reply.closes && reply.server.as_deref() == Some("SimpleHTTP/0.6"));
        let open = b"HTTP/1.1 200 OK\r\n\r\nabc";
        assert_eq!(http.frame(open), Ok(Frame::UntilClose));
        assert!(http.closed() && !http.closed());
        assert!(http.reply(open).unwrap().closes);
    }

    #[test]
    fn what_is_no_reply_is_refused_by_name() {
        let ok = "HTTP/1.1 200 OK\r\n";
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for (begin, rest, said) in [
            ("SSH-2.0-x\r\n", "", "not HTTP/1: it begins with \"SSH-2.0-x"),
            ("HTTP/2 200\r\n\r\n", "", "not HTTP/1: it begins with \"HTTP/2 200"),
            ("<html>\r\n", "", "not HTTP/1: it begins with \"<html>"),
            ("HTTP/1.1 2xx OK\r\n\r\n", "", "in the head that begins with \"HTTP/1.1 2xx OK"),
            (ok, "no colon\r\n\r\n", "in the head that begins with \"HTTP/1.1 200 OK"),
            (ok, "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "two lengths of one body"),
            (ok, "Content-Length: 5, 6\r\n\r\n", "two lengths of one body"),
            (ok, "Content-Length: -1\r\n\r\n", "Content-Length: -1"),
            (ok, "Content-Length: 99999999999\r\n\r\n", "a body of 99999999999 bytes"),
            (
                "HTTP/1.1 101 Switching Protocols\r\n",
                "Upgrade: h2c\r\n\r\n",
                "101: the server goes on in another protocol",
            ),
            (chunked, "zz\r\n", "a chunk that begins with \"zz"),
            (chunked, "2\r\nhixx", "a chunk that does not end where it must"),
        ] {
            let bad = format!("{begin}{rest}");
            let why = http().frame(bad.as_bytes()).unwrap_err();
            assert!(why.contains(said), "{bad:?}: {why}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(head in "(HTTP/1.1 200 OK\r\n(Content-Length: [0-9]{1,3}\r\n|Transfer-Encoding: chunked\r\n)?\r\n)?", tail in prop::collection::vec(any::<u8>(), 0..64)) {
            let bytes = [head.as_bytes(), &tail].concat();
            let mut http = http();
            if let Ok(Frame::Whole(whole)) = http.frame(&bytes) {
                prop_assert!(whole <= bytes.len());
                let _ = (http.reply(&bytes[..whole]), http.unchunked(&bytes[..whole]));
            }
        }
    }
}
