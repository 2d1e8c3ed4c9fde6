//! HTTP/1.1: GET, PUT and DELETE over a connection that is kept; replies with a length, in chunks, or up to the end.

use msgpath_core::foreign::shown_bytes;

use super::maker::{Draws, Maker};
use super::wire::{Frame, MAX_REPLY, Reply, Sent};

/// The longest head of a reply.
const MAX_HEAD: usize = 64 << 10;

/// One connection's HTTP.
#[derive(Clone, Debug, Default)]
pub struct Http {
    /// The field Host.
    pub host: String,
    /// The path, with its slash in front.
    pub path: String,
    /// How the reply in progress ends, once its head is there.
    body: Option<Body>,
}

/// How the body of the reply in progress ends.
#[derive(Clone, Copy, Debug)]
enum Body {
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

/// Head fields that matter.
struct Head {
    status: u32,
    /// Where the body begins.
    end: usize,
    length: Option<usize>,
    chunked: bool,
    closes: bool,
    server: Option<String>,
}

/// As much of a text of the server as is told.
fn begin(text: &str) -> String {
    shown_bytes(text.as_bytes(), 64)
}

fn head(bytes: &[u8]) -> Result<Option<Head>, String> {
    let Some(end) = bytes.windows(4).take(MAX_HEAD).position(|four| four == b"\r\n\r\n") else {
        let begins = |with: &[u8]| bytes.iter().zip(with).all(|(byte, other)| byte == other);
        return if !begins(b"HTTP/1.") {
            Err("no reply of HTTP/1 begins so".into())
        } else if bytes.len() >= MAX_HEAD {
            Err(format!("a head of more than {MAX_HEAD} bytes"))
        } else {
            Ok(None)
        };
    };
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| "a head that is not text".to_owned())?;
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let version_1_1 = first.starts_with("HTTP/1.1 ");
    let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)).and_then(|code| code.parse().ok());
    let status: u32 = status.ok_or_else(|| format!("\"{}\" is not a status line", begin(first)))?;
    let mut head = Head { status, end: end + 4, length: None, chunked: false, closes: !version_1_1, server: None };
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { return Err("a head field without a colon".into()) };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => {
                let length = value.parse().ok().filter(|length| *length <= MAX_REPLY);
                let length = length.ok_or_else(|| format!("a body of \"{}\" bytes", begin(value)))?;
                if head.length.is_some_and(|other| other != length) {
                    return Err("two lengths of one body".into());
                }
                head.length = Some(length);
            }
            "transfer-encoding" if value.eq_ignore_ascii_case("chunked") => head.chunked = true,
            "transfer-encoding" => return Err(format!("the encoding \"{}\"", begin(value))),
            "connection" if value.eq_ignore_ascii_case("close") => head.closes = true,
            "connection" if value.eq_ignore_ascii_case("keep-alive") => head.closes = false,
            "server" => head.server = Some(begin(value)),
            _ => {}
        }
    }
    Ok(Some(head))
}

impl Http {
    /// For a host and a path.
    pub fn new(host: String, path: String) -> Self {
        Self { host, path, body: None }
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

    /// Puts a request together.
    pub fn build(&self, method: &str, maker: &mut Maker, draws: &mut Draws, out: &mut Vec<u8>) -> Sent {
        let mut key = Vec::new();
        maker.put_key(&mut key, draws);
        out.extend_from_slice(command(method).as_bytes());
        out.push(b' ');
        let key = self.put_path(&key, out)..out.len();
        out.extend_from_slice(format!(" HTTP/1.1\r\nHost: {}\r\nUser-Agent: msgpath\r\n", self.host).as_bytes());
        let drawn = maker.drawn(draws);
        if let Some(bytes) = maker.value_bytes() {
            out.extend_from_slice(format!("Content-Length: {bytes}\r\n").as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        let body = out.len();
        maker.put_value(out, draws);
        Sent { rpcid: draws.id(), bytes: out.len(), key, body: body..out.len(), drawn }
    }

    /// How far the reply is.
    ///
    /// # Errors
    /// Not HTTP/1, or more than is taken.
    pub fn frame(&mut self, bytes: &[u8]) -> Result<Frame, String> {
        if self.body.is_none() {
            let Some(head) = head(bytes)? else { return Ok(Frame::More(0)) };
            self.body = Some(match head {
                _ if head.chunked => Body::Chunk(head.end),
                // RFC 9112 6.3: these have no body, whatever the head says.
                _ if (100..200).contains(&head.status) || head.status == 204 || head.status == 304 => {
                    Body::At(head.end)
                }
                Head { length: Some(length), .. } => Body::At(head.end + length),
                _ => Body::Close,
            });
        }
        let frame = match self.body.expect("just set") {
            Body::At(whole) if bytes.len() >= whole => Frame::Whole(whole),
            Body::At(whole) => Frame::More(whole),
            Body::Close if bytes.len() > MAX_REPLY => return Err(format!("a body of more than {MAX_REPLY} bytes")),
            Body::Close => Frame::UntilClose,
            Body::Chunk(at) => self.chunks(bytes, at)?,
        };
        if matches!(frame, Frame::Whole(_)) {
            self.body = None;
        }
        Ok(frame)
    }

    /// Goes from chunk to chunk as far as the bytes go.
    fn chunks(&mut self, bytes: &[u8], mut at: usize) -> Result<Frame, String> {
        loop {
            self.body = Some(Body::Chunk(at));
            let Some((size, data)) = chunk(bytes, at)? else { return Ok(Frame::More(0)) };
            if size == 0 {
                // Trailers, if any, end with an empty line.
                let rest = &bytes[data..];
                if rest.starts_with(b"\r\n") {
                    return Ok(Frame::Whole(data + 2));
                }
                return match rest.windows(4).position(|four| four == b"\r\n\r\n") {
                    Some(end) => Ok(Frame::Whole(data + end + 4)),
                    None if rest.len() > MAX_HEAD => Err("trailers without an end".into()),
                    None => Ok(Frame::More(0)),
                };
            }
            let next = data + size + 2;
            if next > MAX_REPLY {
                return Err(format!("a body of more than {MAX_REPLY} bytes"));
            }
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
        matches!(self.body.take(), Some(Body::Close))
    }

    /// Takes a whole reply apart. The status is that of HTTP where it is not success.
    ///
    /// # Errors
    /// Not HTTP/1.
    pub fn reply(&mut self, bytes: &[u8]) -> Result<Reply, String> {
        let head = head(bytes)?.ok_or("a reply without a head")?;
        let status = if (200..300).contains(&head.status) { 0 } else { head.status };
        Ok(Reply {
            status,
            body: head.end..bytes.len(),
            closes: head.closes || (!head.chunked && head.length.is_none() && head.status != 204 && head.status != 304),
            server: head.server,
            ..Reply::default()
        })
    }

    /// The body without its chunk lines; `None`: it has none.
    pub fn unchunked(bytes: &[u8]) -> Option<Vec<u8>> {
        let head = head(bytes).ok()??;
        if !head.chunked {
            return None;
        }
        let (mut out, mut at) = (Vec::new(), head.end);
        while let Ok(Some((size, data))) = chunk(bytes, at) {
            if size == 0 {
                break;
            }
            out.extend_from_slice(bytes.get(data..data + size)?);
            at = data + size + 2;
        }
        Some(out)
    }
}

/// Size of the chunk that begins at `at`, and where its data begin; `None`: its line is not whole.
fn chunk(bytes: &[u8], at: usize) -> Result<Option<(usize, usize)>, String> {
    let rest = bytes.get(at..).unwrap_or_default();
    let Some(end) = rest.windows(2).take(1024).position(|two| two == b"\r\n") else {
        return if rest.len() > 1024 { Err("the line of a chunk has no end".into()) } else { Ok(None) };
    };
    let text = String::from_utf8_lossy(&rest[..end]);
    let digits = text.split(';').next().unwrap_or_default().trim();
    let size = usize::from_str_radix(digits, 16).ok().filter(|size| *size <= MAX_REPLY && !digits.starts_with('+'));
    let size = size.ok_or_else(|| format!("a chunk of \"{}\" bytes", begin(digits)))?;
    Ok(Some((size, at + end + 2)))
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
        let (get, key) = made("GET");
        assert!(get.starts_with("GET /kv HTTP/1.1\r\n") && get.ends_with("\r\n\r\n"), "{get}");
        assert_eq!(key, b"/kv");
    }

    #[test]
    fn replies_are_whole_at_their_last_byte() {
        for (text, status, body) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 0, "hi"),
            ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", 404, ""),
            ("HTTP/1.1 204 No Content\r\n\r\n", 0, ""),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n3;x=y\r\nyou\r\n0\r\n\r\n", 0, "hiyou"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\n", 0, ""),
        ] {
            let (bytes, mut http) = (text.as_bytes(), http());
            for cut in 0..bytes.len() {
                assert!(matches!(http.frame(&bytes[..cut]), Ok(Frame::More(_))), "{text:?} {cut}");
            }
            assert_eq!(http.frame(bytes), Ok(Frame::Whole(bytes.len())), "{text:?}");
            let reply = http.reply(bytes).unwrap();
            let there = Http::unchunked(bytes).unwrap_or_else(|| bytes[reply.body].to_vec());
            assert_eq!((reply.status, reply.closes, there.as_slice()), (status, false, body.as_bytes()), "{text:?}");
        }
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
    fn what_is_no_reply_is_refused() {
        for bad in [
            "SSH-2.0-x\r\n",
            "HTTP/1.1 2xx OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhixx",
        ] {
            assert!(http().frame(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(head in "(HTTP/1.1 200 OK\r\n(Content-Length: [0-9]{1,3}\r\n|Transfer-Encoding: chunked\r\n)?\r\n)?", tail in prop::collection::vec(any::<u8>(), 0..64)) {
            let bytes = [head.as_bytes(), &tail].concat();
            let mut http = http();
            if let Ok(Frame::Whole(whole)) = http.frame(&bytes) {
                prop_assert!(whole <= bytes.len());
                let _ = (http.reply(&bytes[..whole]), Http::unchunked(&bytes[..whole]));
            }
        }
    }
}
