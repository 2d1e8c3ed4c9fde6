//! Redis by its own protocol (RESP 2 and 3): PING, SET, GET, DEL and plain commands of a key and a value.

use std::ops::Range;

use bytes::Bytes;
use msgpath_core::foreign::shown_bytes;
use msgpath_rpc::resp::{self, Follows};
use resp_rs::resp3::{Frame as Value, ParseError, parse_frame};

use super::maker::{Draws, Maker};
use super::wire::{Frame, MAX_REPLY, Remark, Reply, Sent};

/// The command that a method of the lab stands for.
pub fn command(method: &str) -> String {
    match method.to_ascii_lowercase().as_str() {
        "write" => "SET".into(),
        "read" => "GET".into(),
        "delete" => "DEL".into(),
        "reset" => "FLUSHALL".into(),
        other => other.to_ascii_uppercase(),
    }
}

/// Words as an array of strings.
pub fn array(words: &[&str]) -> Vec<u8> {
    let strings = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), strings.collect::<String>()).into_bytes()
}

/// An array of bulk strings: the command, the key, the value.
pub fn build(method: &str, maker: &mut Maker, draws: &mut Draws, out: &mut Vec<u8>) -> Sent {
    let command = command(method);
    let (key, value) = (maker.key_bytes(), maker.value_bytes());
    let parts = 1 + usize::from(key.is_some()) + usize::from(value.is_some());
    out.extend_from_slice(format!("*{parts}\r\n${}\r\n{command}\r\n", command.len()).as_bytes());
    let mut sent = Sent::default();
    if let Some(bytes) = key {
        out.extend_from_slice(format!("${bytes}\r\n").as_bytes());
        maker.put_key(out, draws);
        sent.key = out.len() - bytes..out.len();
        out.extend_from_slice(b"\r\n");
    }
    sent.drawn = maker.drawn(draws);
    if let Some(bytes) = value {
        out.extend_from_slice(format!("${bytes}\r\n").as_bytes());
        maker.put_value(out, draws);
        sent.body = out.len() - bytes..out.len();
        out.extend_from_slice(b"\r\n");
    }
    sent.rpcid = draws.id();
    Sent { bytes: out.len(), ..sent }
}

/// Where more bytes than these are there, a list is read value by value: what was read of it is not read again, and what is held of it
/// is one value. What the server says unasked has no more.
const LONG: usize = 64 << 10;

/// One connection's Redis: how far the reply in progress is, and what the last whole one was.
#[derive(Clone, Debug, Default)]
pub struct Redis {
    /// Where it begins, behind what the server says unasked.
    from: usize,
    /// Bytes of it that are read.
    at: usize,
    /// Values of a long list that are still to come.
    left: u64,
    found: Found,
}

/// A whole reply.
#[derive(Clone, Debug, Default)]
struct Found {
    failed: bool,
    /// There is no value.
    null: bool,
    body: Range<usize>,
}

impl Redis {
    /// How far the reply is that `bytes` begin with, as `resp-rs` reads it: that bounds depth, lines and lengths.
    ///
    /// # Errors
    /// Not RESP, or more than is taken.
    pub fn frame(&mut self, bytes: &Bytes) -> Result<Frame, String> {
        let frame = self.go_on(bytes);
        if !matches!(frame, Ok(Frame::More(_))) {
            (self.from, self.at, self.left) = (0, 0, 0);
        }
        frame
    }

    fn go_on(&mut self, bytes: &Bytes) -> Result<Frame, String> {
        loop {
            let mut rest = bytes.slice(self.at..);
            let is_long = rest.len() > LONG;
            if is_long && let Some((length, values)) = list(&rest)? {
                self.at += length;
                self.left = self.left.saturating_sub(1) + values;
                continue;
            }
            let unasked = is_long && matches!(rest[0], b'>' | b'|');
            if unasked {
                rest.truncate(LONG);
            }
            let there = rest.len();
            match parse_frame(rest) {
                Ok((value, behind)) => {
                    self.at += there - behind.len();
                    if self.take(&value, bytes)? {
                        return Ok(Frame::Whole(self.at));
                    }
                }
                Err(ParseError::Incomplete) if unasked => {
                    return Err(format!("more than {LONG} bytes that nobody asked for"));
                }
                Err(ParseError::Incomplete) if bytes.len() > MAX_REPLY => return Err(too_long()),
                Err(ParseError::Incomplete) => return Ok(Frame::More(0)),
                Err(error) => {
                    let begin = shown_bytes(&bytes[self.at..], 64);
                    return Err(format!("no value of RESP begins with \"{begin}\" ({error})"));
                }
            }
        }
    }

    /// Takes a value that ends at `self.at`. Whether the reply does too.
    fn take(&mut self, value: &Value, bytes: &[u8]) -> Result<bool, String> {
        let end = self.at;
        match value {
            Value::Attribute(_) if self.left > 0 => return Ok(false),
            Value::Attribute(_) | Value::Push(_) if self.left == 0 => {
                self.from = end;
                return Ok(false);
            }
            _ if self.left > 1 => {
                self.left -= 1;
                return Ok(false);
            }
            _ => {}
        }
        let body = match value {
            _ if self.left == 1 => behind_line(bytes, self.from)..end,
            Value::Array(Some(_)) | Value::Set(_) | Value::Map(_) => behind_line(bytes, self.from)..end,
            Value::BulkString(Some(text)) | Value::BlobError(text) | Value::VerbatimString { payload: text } => {
                end - 2 - text.len()..end - 2
            }
            Value::Null | Value::BulkString(None) | Value::Array(None) => end..end,
            Value::SimpleString(_)
            | Value::Error(_)
            | Value::Integer(_)
            | Value::Double(_)
            | Value::SpecialFloat(_)
            | Value::Boolean(_)
            | Value::BigNumber(_) => self.from + 1..end - 2,
            _ => return Err("a value whose length is not said, which no Redis sends".into()),
        };
        let alone = self.left == 0;
        self.found = Found {
            failed: alone && matches!(value, Value::Error(_) | Value::BlobError(_)),
            null: alone && matches!(value, Value::Null | Value::BulkString(None) | Value::Array(None)),
            body,
        };
        Ok(true)
    }

    /// Takes the reply apart that was whole last. Status 1: an error. No value under a key is an answer, not an error.
    ///
    /// # Errors
    /// These bytes are another reply.
    pub fn reply(&self, bytes: &[u8]) -> Result<Reply, String> {
        let Found { failed, null, ref body } = self.found;
        let text = bytes.get(body.clone()).ok_or("a reply that is not whole")?;
        let remark = match (failed, null) {
            (true, _) => Some(Remark { text: error(text), failed: true }),
            (_, true) => Some(Remark { text: MISS.into(), failed: false }),
            _ => None,
        };
        Ok(Reply { status: u32::from(failed), body: body.clone(), remark, ..Reply::default() })
    }
}

/// Where the first line ends of what begins at `from`.
fn behind_line(bytes: &[u8], from: usize) -> usize {
    from + resp::line(&bytes[from..]).map_or(0, |(_, length)| length)
}

/// The length of the first line of a list, and how many values it has, where `bytes` begin with one that is not empty.
///
/// # Errors
/// It has more than fit.
fn list(bytes: &[u8]) -> Result<Option<(usize, u64)>, String> {
    let Some((line, length)) = resp::line(bytes).filter(|(line, _)| matches!(line.first(), Some(b'*' | b'~' | b'%')))
    else {
        return Ok(None);
    };
    match resp::follows(line) {
        Some(Follows::Values(values)) if values > MAX_REPLY as u64 / 3 => Err(too_long()),
        Some(Follows::Values(values)) if values > 0 => Ok(Some((length, values))),
        _ => Ok(None),
    }
}

fn too_long() -> String {
    format!("a reply of more than {MAX_REPLY} bytes")
}

/// What is said of a key that has no value.
pub const MISS: &str = "no value under the key";

/// An error as it is counted: of another node of a cluster without the slot, which every key has another of.
fn error(text: &[u8]) -> String {
    let text = shown_bytes(text, 160);
    match text.split(' ').collect::<Vec<_>>()[..] {
        [word @ ("MOVED" | "ASK"), _, to] => format!("{word} to {to}"),
        _ => text,
    }
}

/// What helps against an error of Redis, which begins with its name.
pub fn advice(text: &str) -> Option<&'static str> {
    Some(match text.split(' ').next()? {
        "NOAUTH" => "the server wants a password: --password-file FILE, or REDISCLI_AUTH in the environment",
        "WRONGPASS" => "another password (--password-file, REDISCLI_AUTH) or another user: redis://USER@HOST",
        "NOPERM" => {
            "this user may not call that command with that key: ACL LIST at the server; another user: redis://USER@HOST"
        }
        "MOVED" | "ASK" => {
            "a cluster: the key belongs to the node that the reply names. --cluster calls each key at its node; or call that node, with keys \
             of its slots: {1}k0, {1}k1 are in one slot"
        }
        "CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN" => {
            "the cluster is not whole at the moment: CLUSTER INFO at the server"
        }
        "LOADING" => "the server still reads its data from disk: wait until PING is answered with PONG",
        "OOM" => "the server is at its maxmemory and evicts nothing: a larger maxmemory, or an eviction policy",
        "READONLY" => "this server is a replica: call its master (INFO replication names it)",
        "MISCONF" => "the server cannot save its data and takes no writes: its log says why",
        "BUSY" => "a script runs at the server: SCRIPT KILL there",
        "WRONGTYPE" => "the key holds a value of another type: another -key",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_rpc::command::parse;
    use proptest::prelude::*;

    fn frame(redis: &mut Redis, bytes: &[u8]) -> Result<Frame, String> {
        redis.frame(&Bytes::copy_from_slice(bytes))
    }

    #[test]
    fn requests_are_arrays_of_strings() {
        let made = |line: &str| {
            let script = parse(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
            let (mut out, mut draws) = (Vec::new(), Draws::of(1, 1).remove(0));
            let sent = build(&script.steps[0].method, &mut Maker::new(&script.steps[0], 0, 1), &mut draws, &mut out);
            assert_eq!(sent.bytes, out.len());
            (String::from_utf8(out.clone()).unwrap(), out[sent.key].to_vec())
        };
        assert_eq!(made("ping").0, "*1\r\n$4\r\nPING\r\n");
        assert_eq!(
            made("write -key kk -value vv 4"),
            ("*3\r\n$3\r\nSET\r\n$2\r\nkk\r\n$4\r\nvv_b\r\n".into(), b"kk".to_vec())
        );
        assert_eq!(made("GET -key kk").0, "*2\r\n$3\r\nGET\r\n$2\r\nkk\r\n");
    }

    #[test]
    fn replies_are_whole_at_their_last_byte() {
        for (text, status, body, remark) in [
            ("+PONG\r\n", 0, "PONG", None),
            ("$5\r\nhello\r\n", 0, "hello", None),
            ("$0\r\n\r\n", 0, "", None),
            ("$4\r\na\r\nb\r\n", 0, "a\r\nb", None),
            ("$-1\r\n", 0, "", Some(MISS)),
            ("*-1\r\n", 0, "", Some(MISS)),
            ("_\r\n", 0, "", Some(MISS)),
            ("-ERR no\r\n", 1, "ERR no", Some("ERR no")),
            ("-MOVED 3999 10.0.0.2:6381\r\n", 1, "MOVED 3999 10.0.0.2:6381", Some("MOVED to 10.0.0.2:6381")),
            ("-ASK 3999 10.0.0.2:6381\r\n", 1, "ASK 3999 10.0.0.2:6381", Some("ASK to 10.0.0.2:6381")),
            ("!6\r\nERR no\r\n", 1, "ERR no", Some("ERR no")),
            (":1\r\n", 0, "1", None),
            (",1.5\r\n", 0, "1.5", None),
            ("#t\r\n", 0, "t", None),
            ("(12345678901234567890\r\n", 0, "12345678901234567890", None),
            ("=7\r\ntxt:abc\r\n", 0, "txt:abc", None),
            ("*2\r\n$1\r\na\r\n*1\r\n:1\r\n", 0, "$1\r\na\r\n*1\r\n:1\r\n", None),
            ("%1\r\n+k\r\n+v\r\n", 0, "+k\r\n+v\r\n", None),
            ("~0\r\n", 0, "", None),
            (">2\r\n+invalidate\r\n*1\r\n+k\r\n$2\r\nhi\r\n", 0, "hi", None),
        ] {
            let bytes = text.as_bytes();
            let mut redis = Redis::default();
            for cut in 0..bytes.len() {
                assert!(matches!(frame(&mut redis, &bytes[..cut]), Ok(Frame::More(_))), "{text:?} {cut}");
            }
            assert_eq!(frame(&mut redis, bytes), Ok(Frame::Whole(bytes.len())), "{text:?}");
            let reply = redis.reply(bytes).unwrap();
            assert_eq!((reply.status, &bytes[reply.body]), (status, body.as_bytes()), "{text:?}");
            assert_eq!(reply.remark.map(|remark| remark.text).as_deref(), remark, "{text:?}");
        }
        let many = format!("*{}\r\n", 1_u64 << 31);
        let deep = "*1\r\n".repeat(10_000);
        for bad in [
            "HTTP/1.1 200",
            "$-2\r\n",
            "$99999999999\r\n",
            "$x\r\n",
            "$1\r\nabc",
            "$1\r\nab\r\n",
            "#x\r\n",
            ":1a\r\n",
            "*?\r\n",
            &many,
            &deep,
        ] {
            assert!(frame(&mut Redis::default(), bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    /// In pieces of the size of a read each value is taken once, whatever the list is in.
    #[test]
    fn long_lists_are_read_once() {
        let values = 20_000;
        let list: String =
            (0..values).map(|at| format!("*2\r\n:{at}\r\n|1\r\n+ttl\r\n:1\r\n$5\r\nvalue\r\n")).collect();
        let text = format!(">1\r\n+first\r\n*1\r\n%{}\r\n{list}+PONG\r\n", values / 2);
        let whole = text.len() - "+PONG\r\n".len();
        let all = Bytes::from(text);
        let mut redis = Redis::default();
        let mut seen = 0;
        loop {
            let before = redis.at;
            seen = (seen + LONG).min(all.len());
            match redis.frame(&all.slice(..seen)).unwrap() {
                Frame::Whole(end) => {
                    assert_eq!((end, seen), (whole, all.len()));
                    break;
                }
                _ => assert!(redis.at > before || seen <= 2 * LONG, "{before}: nothing of {seen} bytes was taken"),
            }
        }
        let reply = redis.reply(&all[..whole]).unwrap();
        assert_eq!((reply.status, &all[reply.body.start..reply.body.start + 8]), (0, &b"%10000\r\n"[..]));
        assert_eq!((reply.body.end, reply.remark), (whole, None));
        assert_eq!(frame(&mut redis, b"+PONG\r\n"), Ok(Frame::Whole(7)));
        // What never ends is given up.
        let value = format!("$9991\r\n{}\r\n", "v".repeat(9991));
        let endless = Bytes::from(format!("*20000000\r\n{}", value.repeat(MAX_REPLY / 10_000 + 1)));
        assert!(redis.frame(&endless).unwrap_err().contains("a reply of more than"));
        let pushed = Bytes::from(format!(">100000\r\n{}", ":1\r\n".repeat(LONG / 4)));
        assert!(redis.frame(&pushed).unwrap_err().contains("nobody asked for"));
    }

    #[test]
    fn errors_of_redis_have_advice() {
        assert!(advice("NOAUTH Authentication required.").unwrap().contains("--password-file"));
        assert!(advice("MOVED to h:1").unwrap().contains("node"));
        assert!(advice("LOADING Redis is loading the dataset in memory").unwrap().contains("wait"));
        assert_eq!(advice("ERR unknown command"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut redis = Redis::default();
            if let Ok(Frame::Whole(whole)) = frame(&mut redis, &bytes) {
                prop_assert!(whole <= bytes.len());
                prop_assert!(redis.reply(&bytes[..whole]).unwrap().body.end <= whole);
            }
        }
    }
}
