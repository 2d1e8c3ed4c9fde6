use super::*;
use msgpath_rpc::{Header, Marker, Method, RPC_HEADER_BYTES};
use proptest::collection::vec;
use proptest::prelude::*;

/// A message as it is sent, and what is to be found of it.
#[derive(Clone, Debug)]
struct Sent {
    bytes: Vec<u8>,
    name: &'static str,
    /// Nobody asked for it, or it asks for nothing.
    alone: bool,
}

fn sent(bytes: impl Into<Vec<u8>>, name: &'static str) -> Sent {
    Sent { bytes: bytes.into(), name, alone: false }
}

fn alone(bytes: impl Into<Vec<u8>>) -> Sent {
    Sent { alone: true, ..sent(bytes, "") }
}

/// A message of PostgreSQL.
fn typed(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[kind][..], &length, body].concat()
}

fn body(size: usize) -> Vec<u8> {
    b"ab\r\n\r\nGET / \0".iter().copied().cycle().take(size).collect()
}

fn chunked(sizes: &[usize]) -> Vec<u8> {
    let chunk = |size: &usize| [format!("{size:X};a=b\r\n").as_bytes(), &body(*size), b"\r\n"].concat();
    let chunks: Vec<u8> = sizes.iter().filter(|size| **size > 0).flat_map(chunk).collect();
    [&chunks[..], b"0\r\nTrailer: x\r\n\r\n"].concat()
}

fn http_request() -> impl Strategy<Value = Sent> {
    let with_body = |size: usize| {
        [format!("PUT /a?b=c HTTP/1.1\r\ncontent-length: {size}\r\n\r\n").as_bytes(), &body(size)].concat()
    };
    prop_oneof![
        Just(sent("GET /index.html?q=1 HTTP/1.1\r\nHost: x\r\n\r\n", "GET /index.html")),
        (0_usize..5000).prop_map(move |size| sent(with_body(size), "PUT /a")),
        vec(0_usize..3000, 0..4).prop_map(|sizes| {
            sent(
                [&b"POST /x HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"[..], &chunked(&sizes)].concat(),
                "POST /x",
            )
        }),
    ]
}

fn http_reply() -> impl Strategy<Value = Sent> {
    let with_body =
        |size: usize| [format!("HTTP/1.1 200 OK\r\nContent-Length:{size}\r\n\r\n").as_bytes(), &body(size)].concat();
    prop_oneof![
        Just(alone("HTTP/1.1 100 Continue\r\n\r\n")),
        Just(sent("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "")),
        (0_usize..5000).prop_map(move |size| sent(with_body(size), "")),
        vec(0_usize..3000, 0..4).prop_map(|sizes| {
            sent([&b"HTTP/1.0 500 No\r\nTransfer-Encoding: chunked\r\n\r\n"[..], &chunked(&sizes)].concat(), "")
        }),
    ]
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn http2_message() -> impl Strategy<Value = Sent> {
    let with_body =
        |size: usize| [frame(1, 4, 1, b"\x83\x84"), frame(0, 0, 1, &body(size)), frame(0, 1, 1, &body(9))].concat();
    // Padded, with a priority; its block goes on; a trailer ends it.
    let padded = [frame(1, 0x29, 3, b"\x01\0\0\0\0\x10\x82\x84\0"), frame(9, 4, 3, b"\x86")].concat();
    let trailed = [frame(1, 4, 5, b"\x83"), frame(0, 0, 5, b""), frame(1, 5, 5, b"\x40")].concat();
    prop_oneof![
        Just(sent(frame(1, 5, 7, b"\x82\x84"), "GET")),
        (0_usize..5000).prop_map(move |size| sent(with_body(size), "POST")),
        Just(sent(padded, "GET")),
        Just(sent(trailed, "POST")),
        Just(alone([frame(6, 0, 0, &[1; 8]), frame(8, 0, 1, &[0, 0, 1, 0]), frame(4, 0, 0, &[0; 12])].concat())),
    ]
}

fn strings(strings: &[&[u8]]) -> Vec<u8> {
    let one = |text: &&[u8]| [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat();
    [format!("*{}\r\n", strings.len()).into_bytes(), strings.iter().flat_map(one).collect()].concat()
}

fn resp_request() -> impl Strategy<Value = Sent> {
    prop_oneof![
        Just(sent("PING\r\n", "PING")),
        Just(sent(strings(&[b"CLIENT", b"SETNAME", b"x"]), "CLIENT")),
        (0_usize..5000).prop_map(|size| sent(strings(&[b"set", b"key", &body(size)]), "SET")),
    ]
}

fn resp_reply() -> impl Strategy<Value = Sent> {
    prop_oneof![
        Just(sent("+OK\r\n", "")),
        Just(sent("-ERR no\r\n", "")),
        Just(sent("$-1\r\n", "")),
        Just(sent("*2\r\n*1\r\n:1\r\n%1\r\n+a\r\n_\r\n", "")),
        Just(sent("|1\r\n+ttl\r\n:5\r\n*0\r\n", "")),
        Just(alone(">2\r\n+message\r\n+x\r\n")),
        (0_usize..5000).prop_map(|size| sent(strings(&[&body(size), b""]), "")),
    ]
}

fn postgres_request() -> impl Strategy<Value = Sent> {
    let copied = |size: usize| typed(b'd', &body(size));
    let extended = |size: usize| {
        [typed(b'P', b"\0select $1\0\0\0"), typed(b'B', &body(size)), typed(b'E', b"\0\0\0\0\0"), typed(b'S', b"")]
            .concat()
    };
    prop_oneof![
        Just(sent(typed(b'Q', b"  insert into t values (1)\0"), "INSERT")),
        Just(sent([typed(b'B', b"\0P0\0"), typed(b'E', b"\0\0\0\0\0"), typed(b'S', b"")].concat(), "EXECUTE")),
        (0_usize..5000).prop_map(move |size| sent(extended(size), "SELECT")),
        (0_usize..5000).prop_map(move |size| alone(copied(size))),
    ]
}

fn postgres_reply() -> impl Strategy<Value = Sent> {
    let rows = |size: usize| {
        [typed(b'T', b"x"), typed(b'D', &body(size)), typed(b'C', b"SELECT 1\0"), typed(b'Z', b"I")].concat()
    };
    prop_oneof![
        Just(alone(typed(b'N', b"notice\0"))),
        Just(sent([typed(b'1', b""), typed(b'2', b""), typed(b'E', b"oh\0"), typed(b'Z', b"E")].concat(), "")),
        (0_usize..5000).prop_map(move |size| sent(rows(size), "")),
    ]
}

/// A message of the RPC lab, with a longer header than is known.
fn rpc_message(size: usize) -> Vec<u8> {
    let marker = Marker { header: RPC_HEADER_BYTES as u32 + 24, body: size as u32 };
    let header = Header { rpcid: 7, method: Method::new("write"), ..Header::default() };
    [&marker.to_bytes()[..], &header.to_bytes(), &[1; 24], &body(size)].concat()
}

/// Protocol, whether requests are meant, and what is sent.
fn any_stream() -> impl Strategy<Value = (Protocol, bool, Vec<Sent>)> {
    fn of<S: Strategy<Value = Sent> + 'static>(
        protocol: Protocol,
        requests: bool,
        one: S,
    ) -> BoxedStrategy<(Protocol, bool, Vec<Sent>)> {
        vec(one, 1..6).prop_map(move |all| (protocol, requests, all)).boxed()
    }
    let prefix: Prefix = "1:u16le+1".parse().unwrap();
    let prefixed = |size: usize| [&[7][..], &(size as u16).to_le_bytes(), &body(size + 1)].concat();
    prop_oneof![
        of(Protocol::Http, true, http_request()),
        of(Protocol::Http, false, http_reply()),
        of(Protocol::Http2, true, http2_message()),
        of(Protocol::Resp, true, resp_request()),
        of(Protocol::Resp, false, resp_reply()),
        of(Protocol::Postgres, true, postgres_request()),
        of(Protocol::Postgres, false, postgres_reply()),
        of(Protocol::Rpc, true, (0_usize..5000).prop_map(|size| sent(rpc_message(size), "write"))),
        of(Protocol::Rpc, false, (0_usize..5000).prop_map(|size| sent(rpc_message(size), "write"))),
        of(Protocol::Line, true, Just(sent("get x\r\n", "get x"))),
        of(Protocol::Prefix(prefix), false, (0_usize..5000).prop_map(move |size| sent(prefixed(size), ""))),
    ]
}

fn framer(protocol: Protocol, requests: bool) -> Framer {
    if requests { Framer::requests(protocol, false) } else { Framer::replies(protocol) }
}

/// What is to be found, with names cut as they are.
fn truth(all: &[Sent]) -> Vec<(u64, u64, Name)> {
    let mut at = 0;
    let place = |sent: &Sent| {
        let from = at;
        at += sent.bytes.len() as u64;
        (!sent.alone).then(|| (from, at, words(sent.name.as_bytes())))
    };
    all.iter().filter_map(place).collect()
}

fn found(frames: &[Frame]) -> Vec<(u64, u64, Name)> {
    frames.iter().map(|frame| (frame.from, frame.to, frame.name)).collect()
}

proptest! {
    #[test]
    fn every_message_is_found_however_the_stream_is_cut((protocol, requests, all) in any_stream(), cuts in vec(1_usize..700, 1..40)) {
        let bytes: Vec<u8> = all.iter().flat_map(|sent| sent.bytes.clone()).collect();
        let (mut framer, mut frames) = (framer(protocol, requests), Vec::new());
        let mut rest = &bytes[..];
        for cut in cuts.iter().cycle() {
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            prop_assert_eq!(framer.known(now, &mut frames), Ok(()));
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(found(&frames), truth(&all));
        prop_assert_eq!(framer.begin(), bytes.len() as u64);
    }

    /// Of each call only the first bytes are known.
    #[test]
    fn what_was_not_copied_is_passed_over_or_ends_it((protocol, requests, all) in any_stream(), most in 1_usize..6000) {
        let (mut framer, mut frames) = (framer(protocol, requests), Vec::new());
        let mut lost = false;
        for sent in &all {
            let known = most.min(sent.bytes.len());
            let unknown = (sent.bytes.len() - known) as u64;
            lost = framer.known(&sent.bytes[..known], &mut frames).is_err() || unknown > 0 && framer.unknown(unknown, &mut frames).is_err();
            if lost {
                break;
            }
        }
        let truth = truth(&all);
        prop_assert!(truth.starts_with(&found(&frames)));
        prop_assert!(lost || found(&frames) == truth);
    }

    #[test]
    fn any_bytes_are_answered(pieces in vec((vec(any::<u8>(), 0..60), 0_u64..50), 0..8), which in 0_usize..7, requests: bool, born: bool) {
        let prefix: Prefix = "1:u32le-9".parse().unwrap();
        let protocol = [Protocol::Http, Protocol::Resp, Protocol::Postgres, Protocol::Line, Protocol::Prefix(prefix), Protocol::Rpc, Protocol::Http2][which];
        let mut framer = if requests { Framer::requests(protocol, born) } else { Framer::replies(protocol) };
        let (mut frames, mut sent) = (Vec::new(), 0);
        for (bytes, hole) in pieces {
            let _ = (Protocol::recognise(&bytes, born), protocol.name(&bytes));
            if framer.known(&bytes, &mut frames).and_then(|()| framer.unknown(hole, &mut frames)).is_err() {
                break;
            }
            sent += bytes.len() as u64 + hole;
        }
        // Streams lie between each other.
        let follows = |a: &Frame, b: &Frame| a.to <= if which == 6 { b.to } else { b.from };
        prop_assert!(frames.iter().all(|frame| frame.from < frame.to) && frames.is_sorted_by(follows));
        prop_assert!(framer.begin() <= sent + 110);
    }
}

#[test]
fn protocols_are_recognised_by_a_request() {
    let of = |bytes: &[u8]| Protocol::recognise(bytes, false);
    assert_eq!(of(b"GET / HTTP/1.1\r\n"), Some(Protocol::Http));
    assert_eq!(of(b"*1\r\n$4\r\nPING\r\n"), Some(Protocol::Resp));
    assert_eq!(of(&typed(b'Q', b"select 1\0")), Some(Protocol::Postgres));
    assert_eq!(of(&typed(b'Q', b"select 1\0")[..9]), Some(Protocol::Postgres));
    assert_eq!((of(&rpc_message(9)), of(&rpc_message(9)[..16])), (Some(Protocol::Rpc), Some(Protocol::Rpc)));
    let extended = [typed(b'P', b"\0begin\0\0\0"), typed(b'S', b"")].concat();
    assert_eq!(of(&extended), Some(Protocol::Postgres));
    let startup = [&[0, 0, 0, 9, 0, 3, 0, 0][..], b"\0"].concat();
    assert_eq!((Protocol::recognise(&startup, true), of(&startup)), (Some(Protocol::Postgres), None));
    for bytes in [
        &b""[..],
        b"GETX /",
        b"GET x",
        b"*a\r\n$",
        b"*1\r\n+",
        b"Q\0\0\0\x04",
        b"\x16\x03\x01\x02\x00",
        b"hello\r\n",
        b"n",
    ] {
        assert_eq!(of(bytes), None, "{bytes:?}");
    }
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(4, 0, 0, b"")[..]].concat();
    let later = [frame(8, 0, 0, &[0, 0, 1, 0]), frame(1, 4, 9, &[0x83; 30])].concat();
    assert_eq!((Protocol::recognise(&preface, true), of(&later[..30])), (Some(Protocol::Http2), Some(Protocol::Http2)));
    // Of a server, without an end of its header block, of a stream that there is not, of an unknown kind.
    for bytes in [frame(1, 4, 2, b"ab"), frame(1, 1, 1, b"ab"), frame(1, 4, u32::MAX, b"ab"), frame(0x30, 4, 1, b"ab")]
    {
        assert_eq!(of(&bytes), None, "{bytes:?}");
    }
    let name = |protocol: Protocol, bytes: &[u8]| {
        String::from_utf8(protocol.name(bytes).to_vec()).unwrap().trim_end_matches('\0').to_owned()
    };
    assert_eq!(name(Protocol::Http, b"GET /a/b?secret HTTP/1.1"), "GET /a/b");
    assert_eq!(name(Protocol::Resp, b"*2\r\n$4\r\neval\r\n$3"), "EVAL");
    assert_eq!(name(Protocol::Postgres, &extended), "BEGIN");
    assert_eq!(name(Protocol::Line, b"stats items\nx"), "stats items");
}

#[test]
fn what_cannot_be_paired_is_lost() {
    let lost = |protocol, requests, bytes: &[u8]| framer(protocol, requests).known(bytes, &mut Vec::new()).is_err();
    assert!(lost(Protocol::Http, true, b"CONNECT a:1 HTTP/1.1\r\n\r\n"));
    assert!(lost(Protocol::Http, true, b"PUT / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"));
    assert!(lost(Protocol::Http, false, b"HTTP/1.1 101 Switching Protocols\r\n\r\n"));
    assert!(lost(Protocol::Http, false, b"HTTP/1.1 200 OK\r\n\r\nuntil it is closed"));
    assert!(lost(Protocol::Resp, true, &strings(&[b"subscribe", b"x"])));
    assert!(lost(Protocol::Resp, true, &strings(&[b"client", b"reply", b"off"])));
    assert!(lost(Protocol::Postgres, true, b"Z\0\0\0\x04"));
    let mut spoilt = rpc_message(9);
    spoilt[13] ^= 1;
    assert!(lost(Protocol::Rpc, true, &spoilt));
    assert!(lost(Protocol::Http, true, &[b'a'; LIMIT]));
    let mut head = framer(Protocol::Http, true);
    assert_eq!(head.known(b"GET / HT", &mut Vec::new()), Ok(()));
    assert_eq!(head.unknown(1, &mut Vec::new()), Err(Lost));
}

#[test]
fn a_reply_depends_on_its_request() {
    let mut frames = Vec::new();
    let mut http = Framer::replies(Protocol::Http);
    http.expect(Expect::NoBody).unwrap();
    http.expect(Expect::Usual).unwrap();
    let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
    http.known(reply, &mut frames).unwrap();
    http.known(&[reply, &b"abc"[..]].concat(), &mut frames).unwrap();
    assert_eq!(frames.iter().map(|frame| frame.to - frame.from).collect::<Vec<_>>(), [38, 41]);

    let ssl = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
    let startup = [&[0, 0, 0, 9, 0, 3, 0, 0][..], b"\0"].concat();
    let mut requests = Framer::requests(Protocol::Postgres, true);
    let mut asked = Vec::new();
    requests
        .known(&[&ssl[..], &startup, &typed(b'p', b"secret\0"), &typed(b'Q', b"begin\0")].concat(), &mut asked)
        .unwrap();
    assert_eq!(
        asked.iter().map(|frame| frame.expect).collect::<Vec<_>>(),
        [Expect::OneByte, Expect::Usual, Expect::Usual]
    );
    for (answer, is_lost) in [(b'N', false), (b'S', true)] {
        let mut replies = Framer::replies(Protocol::Postgres);
        asked.iter().for_each(|frame| replies.expect(frame.expect).unwrap());
        frames.clear();
        let all =
            [&[answer][..], &typed(b'R', &[0; 4]), &typed(b'S', b"a\0b\0"), &typed(b'Z', b"I"), &typed(b'Z', b"I")]
                .concat();
        assert_eq!(replies.known(&all, &mut frames).is_err(), is_lost);
        assert_eq!(frames.len(), if is_lost { 0 } else { 3 });
    }
}

/// Streams between each other, one that is given up, one that the server begins: each message with its number and where it began.
#[test]
fn streams_are_told_apart() {
    let mut requests = Framer::requests(Protocol::Http2, true);
    let mut frames = Vec::new();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let sent =
        [frame(1, 4, 1, b"\x83"), frame(1, 5, 3, b"\x82"), frame(0, 0, 1, &[1; 90]), frame(1, 4, 5, b"\x83")].concat();
    requests.known(&[&preface[..], &sent].concat(), &mut frames).unwrap();
    let seen = |frames: &[Frame]| -> Vec<(u32, u64, u64, bool)> {
        frames.iter().map(|frame| (frame.stream, frame.from, frame.to, frame.reset)).collect()
    };
    assert_eq!(seen(&frames), [(3, 34, 44, false)]);
    assert_eq!((requests.begin(), requests.oldest(), requests.is_open(5)), (24, Some(1), true));
    // Where it began is not forgotten while its last frame is under way.
    frames.clear();
    requests.known(&frame(0, 1, 1, &[1; 90])[..50], &mut frames).unwrap();
    assert_eq!((requests.begin(), frames.len()), (24, 0));
    requests.unknown(49, &mut frames).unwrap();
    requests.known(&frame(3, 0, 5, &[0; 4]), &mut frames).unwrap();
    assert_eq!(seen(&frames), [(1, 24, 252, false), (5, 252, 265, true)]);
    assert_eq!((requests.begin(), requests.oldest()), (265, None));

    let mut replies = Framer::replies(Protocol::Http2);
    frames.clear();
    let pushed =
        [frame(5, 4, 1, &[0, 0, 0, 2, 0x82]), frame(1, 5, 2, b"\x88"), frame(0, 1, 9, b"of one before")].concat();
    replies.known(&[pushed, frame(1, 5, 1, b"\x88")].concat(), &mut frames).unwrap();
    assert_eq!(frames.iter().map(|frame| frame.stream).collect::<Vec<_>>(), [1]);
    let lost = |bytes: &[u8]| Framer::replies(Protocol::Http2).known(bytes, &mut Vec::new()).is_err();
    assert!(lost(b"HTTP/1.1 400 Bad Request\r\n\r\n") && lost(&frame(6, 0, 1, &[0; 8])));
    let many: Vec<u8> = (0..5000).flat_map(|n| frame(1, 4, 1 + 2 * n, b"\x82")).collect();
    assert!(lost(&many), "more streams than are kept");
}
