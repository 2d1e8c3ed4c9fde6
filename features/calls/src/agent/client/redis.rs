//! Redis by its own protocol (RESP 2 and 3): PING, SET, GET, DEL and plain commands of a key and a value.

use msgpath_core::foreign::shown_bytes;
use msgpath_rpc::resp::{self, Follows};

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

/// Where a value ends that begins at `from`.
///
/// # Errors
/// Not RESP, or more than is taken.
fn end(bytes: &[u8], from: usize) -> Result<Frame, String> {
    const LONGEST_LINE: usize = 64 << 10;
    let (mut at, mut left) = (from, 1);
    while left > 0 {
        let rest = &bytes[at..];
        let Some((line, length)) = resp::line(rest) else {
            return match rest.first().is_none_or(|kind| KINDS.contains(kind)) && rest.len() < LONGEST_LINE {
                true => Ok(Frame::More(0)),
                false => Err(format!("no value of RESP begins with \"{}\"", shown_bytes(rest, 64))),
            };
        };
        let follows = resp::follows(line).filter(|_| rest[..length].ends_with(b"\r\n"));
        let follows = follows.ok_or_else(|| format!("no value of RESP begins with \"{}\"", shown_bytes(line, 64)))?;
        at += length;
        left -= 1;
        match follows {
            Follows::Nothing | Follows::Null => {}
            Follows::Values(values) => left += values,
            Follows::Bytes(size) => {
                at = at.saturating_add(size as usize).saturating_add(2);
                if at <= bytes.len() && !bytes[..at].ends_with(b"\r\n") {
                    return Err("a string that does not end where it must".into());
                }
            }
        }
        if at.saturating_add(left as usize) > MAX_REPLY {
            return Err(format!("a reply of more than {MAX_REPLY} bytes"));
        }
        if at > bytes.len() {
            return Ok(Frame::More(at));
        }
    }
    Ok(Frame::Whole(at))
}

/// What a value may begin with.
const KINDS: &[u8] = b"+-:$*_#,(!=~%|>";

/// Where the reply begins, behind what the server pushes unasked, and how far it is.
fn reply_at(bytes: &[u8]) -> Result<(usize, Frame), String> {
    let mut from = 0;
    loop {
        match end(bytes, from)? {
            Frame::Whole(whole) if bytes[from] == b'>' => from = whole,
            frame => return Ok((from, frame)),
        }
    }
}

/// How far the reply is.
///
/// # Errors
/// Not RESP, or more than is taken.
pub fn frame(bytes: &[u8]) -> Result<Frame, String> {
    reply_at(bytes).map(|(_, frame)| frame)
}

/// Takes a whole reply apart. Status 1: an error. No value under a key is an answer, not an error.
///
/// # Errors
/// Not RESP.
pub fn reply(bytes: &[u8]) -> Result<Reply, String> {
    let (from, frame) = reply_at(bytes)?;
    let Frame::Whole(whole) = frame else { return Err("a reply that is not whole".into()) };
    let (line, length) = resp::line(&bytes[from..]).ok_or("a reply without a line")?;
    let body = match resp::follows(line) {
        Some(Follows::Bytes(_)) => from + length..whole - 2,
        Some(Follows::Values(_)) => from + length..whole,
        Some(Follows::Null) => whole..whole,
        _ => from + 1..from + line.len(),
    };
    match line[0] {
        b'-' | b'!' => {
            let remark = Some(Remark { text: error(&bytes[body.clone()]), failed: true });
            Ok(Reply { status: 1, body, remark, ..Reply::default() })
        }
        _ => {
            let empty = resp::follows(line) == Some(Follows::Null);
            let remark = empty.then(|| Remark { text: MISS.into(), failed: false });
            Ok(Reply { body, remark, ..Reply::default() })
        }
    }
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
            for cut in 0..bytes.len() {
                assert!(matches!(frame(&bytes[..cut]), Ok(Frame::More(_))), "{text:?} {cut}");
            }
            assert_eq!(frame(bytes), Ok(Frame::Whole(bytes.len())), "{text:?}");
            let reply = reply(bytes).unwrap();
            assert_eq!((reply.status, &bytes[reply.body]), (status, body.as_bytes()), "{text:?}");
            assert_eq!(reply.remark.map(|remark| remark.text).as_deref(), remark, "{text:?}");
        }
        let many = format!("*{}\r\n", 1_u64 << 31);
        for bad in ["HTTP/1.1 200", "$-2\r\n", "$99999999999\r\n", "$x\r\n", "+a\n", "$1\r\nabc", "$1\r\nab\r\n", &many]
        {
            assert!(frame(bad.as_bytes()).is_err(), "{bad:?}");
        }
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
            if let Ok(Frame::Whole(whole)) = frame(&bytes) {
                prop_assert!(whole <= bytes.len());
                let _ = reply(&bytes[..whole]);
            }
        }
    }
}
