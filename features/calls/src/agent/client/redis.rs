//! Redis by its own protocol (RESP 2): PING, SET, GET, DEL and plain commands of a key and a value.

use msgpath_core::foreign::shown_bytes;

use super::maker::{Draws, Maker};
use super::wire::{Frame, MAX_REPLY, Reply, Sent};

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

/// The first line without its end, and where what follows begins.
fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, String> {
    const LONGEST: usize = 64 << 10;
    match bytes.iter().take(LONGEST).position(|byte| *byte == b'\n') {
        Some(at) if at > 0 && bytes[at - 1] == b'\r' => Ok(Some((&bytes[..at - 1], at + 1))),
        Some(_) => Err("a line of RESP ends with CR and LF".into()),
        None if bytes.len() >= LONGEST => Err(format!("a line of more than {LONGEST} bytes")),
        None => Ok(None),
    }
}

fn length(text: &[u8]) -> Result<Option<usize>, String> {
    match String::from_utf8_lossy(text).parse::<i64>() {
        Ok(-1) => Ok(None),
        Ok(length) if (0..=MAX_REPLY as i64).contains(&length) => Ok(Some(length as usize)),
        _ => Err(format!("a length of \"{}\" bytes", shown_bytes(text, 64))),
    }
}

/// How far the reply is.
///
/// # Errors
/// Not RESP, or an array: no call of ours is answered with one.
pub fn frame(bytes: &[u8]) -> Result<Frame, String> {
    let Some(kind) = bytes.first() else { return Ok(Frame::More(0)) };
    if !b"+-:$".contains(kind) {
        return Err(format!("no reply of Redis begins with {:#04x}", kind));
    }
    let Some((head, after)) = line(bytes)? else { return Ok(Frame::More(0)) };
    let whole = match (kind, length(&head[1..])) {
        (b'$', Ok(Some(length))) => after + length + 2,
        (b'$', Err(why)) => return Err(why),
        _ => after,
    };
    Ok(if bytes.len() >= whole { Frame::Whole(whole) } else { Frame::More(whole) })
}

/// Takes a whole reply apart. Status 1: an error, or no value under the key.
///
/// # Errors
/// A value that does not end as it must.
pub fn reply(bytes: &[u8]) -> Result<Reply, String> {
    let (head, after) = line(bytes)?.ok_or("a reply without a line")?;
    let of = |status, body| Ok(Reply { status, body, ..Reply::default() });
    match head.first() {
        Some(b'$') => match length(&head[1..])? {
            None => of(1, after..after),
            Some(length) if bytes.get(after + length..) == Some(b"\r\n") => of(0, after..after + length),
            Some(_) => Err("a value that does not end where it must".into()),
        },
        Some(b'-') => of(1, 1..head.len()),
        _ => of(0, 1..head.len()),
    }
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
        for (text, status, body) in [
            ("+PONG\r\n", 0, "PONG"),
            ("$5\r\nhello\r\n", 0, "hello"),
            ("$0\r\n\r\n", 0, ""),
            ("$-1\r\n", 1, ""),
            ("-ERR no\r\n", 1, "ERR no"),
            (":1\r\n", 0, "1"),
        ] {
            let bytes = text.as_bytes();
            for cut in 0..bytes.len() {
                assert!(matches!(frame(&bytes[..cut]), Ok(Frame::More(_))), "{text:?} {cut}");
            }
            assert_eq!(frame(bytes), Ok(Frame::Whole(bytes.len())));
            let reply = reply(bytes).unwrap();
            assert_eq!((reply.status, &bytes[reply.body]), (status, body.as_bytes()), "{text:?}");
        }
        for bad in ["HTTP/1.1 200", "$-2\r\n", "$99999999999\r\n", "$x\r\n", "+a\n", "*1\r\n"] {
            assert!(frame(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(reply(b"$1\r\nabc").is_err());
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
