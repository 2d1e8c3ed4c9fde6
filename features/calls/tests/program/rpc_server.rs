//! `msgpath serve --rpc`: the RPC lab's messages byte by byte, and everything that ends the lab's own server.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use msgpath_rpc::tenlg::tenlg;
use msgpath_rpc::{Header, MARKER_BYTES, Marker, Method, RPC_HEADER_BYTES, Status, Telling, put_string};

use crate::command::{Home, LIMIT, Output, Running, free_port, msgpath, within};

/// T1 of the reference vectors.
const T1: i64 = 1_700_000_000_123_456;

/// A server in progress, and where it listens.
struct Server {
    running: Running,
    port: u16,
    home: Home,
}

impl Server {
    fn start(options: &str) -> Self {
        Self::at(free_port(), options)
    }

    fn at(port: u16, options: &str) -> Self {
        let home = Home::new();
        let running = home.start(&format!("serve --rpc 127.0.0.1:{port} {options}"));
        running.until_it_says(&format!("serving the RPC lab's keys and values at 127.0.0.1:{port}"));
        Self { running, port, home }
    }

    fn connect(&self) -> Client {
        Client::to(self.port)
    }

    /// Stops it as Ctrl-C does.
    #[track_caller]
    fn stop(self) -> Output {
        self.running.signal("INT");
        self.running.finish(LIMIT).ends_with(0)
    }
}

/// A message as it came: the fields of its header, all bytes of its header, and its body.
#[derive(Debug)]
struct Message {
    header: Header,
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Message {
    fn status(&self) -> Status {
        Status(self.header.status)
    }
}

struct Client {
    stream: TcpStream,
    next: u32,
}

impl Client {
    fn to(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
        stream.set_write_timeout(Some(Duration::from_secs(20))).expect("a socket");
        stream.set_nodelay(true).expect("TCP");
        Self { stream, next: 0 }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server takes it");
    }

    fn receive(&mut self) -> Message {
        self.try_receive().expect("a reply")
    }

    fn try_receive(&mut self) -> std::io::Result<Message> {
        let mut marker = [0; MARKER_BYTES];
        self.stream.read_exact(&mut marker)?;
        let marker = Marker::parse(&marker).expect("a marker");
        let mut head = vec![0; marker.header as usize];
        self.stream.read_exact(&mut head)?;
        let mut body = vec![0; marker.body as usize];
        self.stream.read_exact(&mut body)?;
        let header = Header::parse(&head).expect("a header");
        Ok(Message { header, head, body })
    }

    /// One call, whose reply must belong to it.
    #[track_caller]
    fn call(&mut self, method: &str, body: &[u8]) -> Message {
        self.next += 1;
        let sent = request(method, self.next, body);
        self.send(&sent);
        let reply = self.receive();
        assert_eq!((reply.header.rpcid, reply.header.kind, reply.header.t[0]), (self.next, 2, T1));
        assert_eq!(reply.header.method, Method::new(method));
        reply
    }

    #[track_caller]
    fn is_served(&mut self) {
        assert_eq!(self.call("ping", b"\x05\0\0\0hello").body, b"\x05\0\0\0hello");
    }

    /// Waits until the server has closed this connection, and returns what it still sent.
    #[track_caller]
    fn until_closed(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        if let Err(error) = self.stream.read_to_end(&mut rest) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "closed or reset: either is an end");
        }
        rest
    }
}

fn header(method: &str, rpcid: u32, body: &[u8]) -> Header {
    Header {
        rpcid,
        t: [T1, 0, 0, 0],
        server_ip: 0x7f00_0001,
        server_port: 12345,
        lglen1: tenlg(body.len() as u64),
        method: Method::new(method),
        ..Header::default()
    }
}

fn message(header: &Header, body: &[u8]) -> Vec<u8> {
    let marker = Marker { header: RPC_HEADER_BYTES as u32, body: body.len() as u32 };
    [&marker.to_bytes()[..], &header.to_bytes(), body].concat()
}

fn request(method: &str, rpcid: u32, body: &[u8]) -> Vec<u8> {
    message(&header(method, rpcid, body), body)
}

fn strings(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    parts.iter().for_each(|part| put_string(&mut out, part));
    out
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Sends a request of the reference as it stands, and compares the reply but for T2, T3 and the client's port, which
/// are checked for what they must be.
#[track_caller]
fn golden(client: &mut Client, request: &str, reply: &str) {
    client.send(&bytes(request));
    let expected = bytes(reply);
    let mut got = vec![0; expected.len()];
    let before = Instant::now();
    client.stream.read_exact(&mut got).unwrap();
    assert!(before.elapsed() < Duration::from_secs(60));
    let stamp = |at: usize| i64::from_le_bytes(got[at..at + 8].try_into().unwrap());
    let (t2, t3) = (stamp(16 + 16), stamp(16 + 24));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros() as i64;
    assert!(t2 <= t3 && (now - 10_000_000..=now + 1).contains(&t3), "T2 {t2} T3 {t3} now {now}");
    let port = u16::from_le_bytes([got[16 + 48], got[16 + 49]]);
    assert_eq!(port, client.stream.local_addr().unwrap().port());
    got[16 + 16..16 + 32].fill(0xaa);
    got[16 + 48..16 + 50].fill(0xbb);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(&got), hex(&expected));
}

/// Marker and first fields up to T1, the same in all reference messages but for lengths and ids.
const STAMPS: &str = "40222018240a0600 aaaaaaaaaaaaaaaa aaaaaaaaaaaaaaaa 0000000000000000";
const NO_STAMPS: &str = "40222018240a0600 0000000000000000 0000000000000000 0000000000000000";

#[test]
fn replies_are_those_of_the_labs_server() {
    let server = Server::start("");
    let mut client = server.connect();
    let ours = "00000000 0100007f 0000 3930";
    let both = "0100007f 0100007f bbbb 3930";
    golden(
        &mut client,
        &format!(
            "e517c5d1 48000000 09000000 ee1745d6 07000000 00000000 {NO_STAMPS} {ours} 20 00 0000
             70696e6700000000 00000000 00000000 0500000068656c6c6f"
        ),
        &format!(
            "e517c5d1 48000000 09000000 ee1745d6 07000000 00000000 {STAMPS} {both} 20 20 0200
             70696e6700000000 00000000 00000000 0500000068656c6c6f"
        ),
    );
    // The status of a request is of no interest, its parent is handed through.
    golden(
        &mut client,
        &format!(
            "e517c5d1 48000000 0e000000 f31745d6 08000000 44332211 {NO_STAMPS} {ours} 26 00 0000
             7772697465000000 09000000 00000000 010000006b 0500000056414c5545"
        ),
        &format!(
            "e517c5d1 48000000 00000000 e51745d6 08000000 44332211 {STAMPS} {both} 26 00 0200
             7772697465000000 00000000 00000000"
        ),
    );
    golden(
        &mut client,
        &format!(
            "e517c5d1 48000000 05000000 ea1745d6 09000000 00000000 {NO_STAMPS} {ours} 17 00 0000
             7265616400000000 00000000 00000000 010000006b"
        ),
        &format!(
            "e517c5d1 48000000 09000000 ee1745d6 09000000 00000000 {STAMPS} {both} 17 20 0200
             7265616400000000 00000000 00000000 0500000056414c5545"
        ),
    );
    golden(
        &mut client,
        &format!(
            "e517c5d1 48000000 06000000 eb1745d6 0a000000 00000000 {NO_STAMPS} {ours} 1a 00 0000
             7265616400000000 00000000 00000000 020000007a7a"
        ),
        &format!(
            "e517c5d1 48000000 00000000 e51745d6 0a000000 00000000 {STAMPS} {both} 1a 00 0200
             7265616400000000 01000000 00000000"
        ),
    );
    let stats: String = format!("Stats: 4 {}", "0 ".repeat(31)).bytes().map(|byte| format!("{byte:02x}")).collect();
    golden(
        &mut client,
        &format!(
            "e517c5d1 48000000 00000000 e51745d6 0b000000 00000000 {NO_STAMPS} {ours} 00 00 0000
             7374617473000000 00000000 00000000"
        ),
        &format!(
            "e517c5d1 48000000 4b000000 301845d6 0b000000 00000000 {STAMPS} {both} 00 3e 0200
             7374617473000000 00000000 00000000 47000000 {stats}"
        ),
    );
    golden(
        &mut client,
        &format!(
            "e517c5d1 48000000 03000000 e81745d6 0c000000 00000000 {NO_STAMPS} {ours} 10 00 0000
             6e6f737563680000 00000000 00000000 616263"
        ),
        &format!(
            "e517c5d1 48000000 03000000 e81745d6 0c000000 00000000 {STAMPS} {both} 10 10 0200
             6e6f737563680000 01000000 00000000 616263"
        ),
    );
    // Where the lab's server would have closed, this one goes on.
    client.is_served();
    server.stop().says(&["answered 7 calls on 1 connection, 1 key at the end", "1 × call of an unknown method"]);
}

#[test]
fn every_method_over_the_wire() {
    let server = Server::start("");
    let mut client = server.connect();
    let key = strings(&[b"../../some/key"]);
    let (ok, fail) = (Status::SUCCESS, Status::FAIL);
    assert_eq!(client.call("ping", b"").body, b"");
    assert_eq!(client.call("read", &key).status(), fail);
    assert_eq!(client.call("delete", &key).status(), fail);
    assert_eq!(client.call("chksum", &key).status(), fail);
    assert_eq!(client.call("write", &strings(&[b"../../some/key", b"123456789"])).status(), ok);
    let reply = client.call("chksum", &key);
    assert_eq!((reply.status(), reply.body), (ok, strings(&[b"cbf43926"])));
    assert_eq!(client.call("sink", &strings(&[b"../../some/key", b"gone"])).status(), ok);
    assert_eq!(server.connect().call("read", &key).body, strings(&[b"123456789"]), "one store for all connections");
    assert_eq!(client.call("delete", &key).status(), ok);
    assert_eq!(client.call("read", &key).status(), fail);
    client.call("write", &strings(&[b"", b"the empty key"]));
    assert_eq!(client.call("read", &strings(&[b""])).body, strings(&[b"the empty key"]));
    assert_eq!(client.call("reset", b"").status(), ok);
    assert_eq!(client.call("read", &strings(&[b""])).status(), fail);
    let stats = client.call("stats", b"").body;
    let text = std::str::from_utf8(&stats[4..]).unwrap();
    assert_eq!(stats[..4], (text.len() as u32).to_le_bytes());
    let counts: Vec<u64> =
        text.strip_prefix("Stats: ").unwrap().split_terminator(' ').map(|n| n.parse().unwrap()).collect();
    assert_eq!((counts.len(), counts.iter().sum::<u64>(), text.ends_with(' ')), (32, 13, true), "{text}");
    server.stop();
}

#[test]
fn requests_in_one_piece_or_in_many_are_answered_in_order() {
    let server = Server::start("--threads 1");
    let mut client = server.connect();
    let calls: Vec<(u32, Vec<u8>)> = (1..=300).map(|id| (id, vec![id as u8; id as usize * 7 % 900])).collect();
    let all: Vec<u8> = calls.iter().flat_map(|(id, body)| request("ping", *id, body)).collect();
    client.send(&all);
    for (id, body) in &calls {
        let reply = client.receive();
        assert_eq!((reply.header.rpcid, &reply.body), (*id, body));
    }
    // Byte by byte: every border within a message, with a pause the server sees.
    let two = [request("ping", 1, b"one"), request("ping", 2, b"two")].concat();
    for byte in &two {
        client.send(&[*byte]);
        std::thread::sleep(Duration::from_micros(300));
    }
    assert_eq!((client.receive().body, client.receive().body), (b"one".to_vec(), b"two".to_vec()));
    // Long ones among short ones, cut at places that no one planned.
    let value = vec![0x5a; 300_000];
    let write = request("write", 1, &strings(&[b"k", &value]));
    let mixed = [write, request("read", 2, &strings(&[b"k"])), request("ping", 3, b"x")].concat();
    for part in mixed.chunks(70_001) {
        client.send(part);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(client.receive().status(), Status::SUCCESS);
    assert_eq!(client.receive().body, strings(&[&value]));
    assert_eq!(client.receive().body, b"x");
    server.stop();
}

#[test]
fn a_client_that_asks_is_told_more_and_others_get_exactly_72_bytes() {
    for options in ["", "--kernel-stamps"] {
        let server = Server::start(options);
        let mut client = server.connect();
        let asking = Header { pad: Header::ASK, ..header("ping", 7, b"x") };
        for _ in 0..3 {
            client.send(&message(&asking, b"x"));
            let reply = client.receive();
            let telling = Telling::of(&reply.header, &reply.head).expect("24 more bytes");
            assert_eq!((reply.header.pad, reply.head.len(), reply.body.as_slice()), (Header::TELL, 96, &b"x"[..]));
            let t3_after_t2 = reply.header.t[2] - reply.header.t[1];
            assert!(
                telling.served_ns > 0 && telling.served_ns.abs_diff(t3_after_t2 as u64 * 1000) <= 1000,
                "{telling:?}"
            );
            assert_eq!(telling.lock_ns, 0, "a ping takes no lock");
            assert!(telling.waited_ns == u64::MAX || telling.waited_ns < 10_000_000_000, "{telling:?}");
        }
        // Two at once: the second lay while the first was served.
        let value = vec![1; 12_000];
        let write = Header { pad: Header::ASK, ..header("write", 8, &[]) };
        client.send(&[message(&write, &strings(&[b"k", &value])), message(&asking, b"x")].concat());
        let first = client.receive();
        let second = client.receive();
        let (first, second) =
            (Telling::of(&first.header, &first.head).unwrap(), Telling::of(&second.header, &second.head).unwrap());
        if first.waited_ns != u64::MAX && second.waited_ns != u64::MAX {
            assert!(second.waited_ns >= first.served_ns, "{options}: {first:?} {second:?}");
        }
        let plain = client.call("ping", b"x");
        assert_eq!((plain.header.pad, plain.head.len()), (0, 72));
        server.stop();
    }
}

#[test]
fn what_is_no_message_costs_its_own_connection_only() {
    let server = Server::start("--message-timeout 5s");
    let mut steady = server.connect();
    steady.is_served();
    let marker = |header: u32, body: u32| Marker { header, body }.to_bytes().to_vec();
    let mut checksum = request("ping", 1, b"x");
    checksum[13] ^= 0x10;
    let noise: Vec<u8> = (0..200_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let bad: [(&str, Vec<u8>, &str); 10] = [
        ("noise", noise, "closed: not a message"),
        ("another protocol", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), "closed: not a message"),
        ("a good message, then noise", [request("ping", 1, b"x"), vec![0xff; 64]].concat(), "closed: not a message"),
        ("a bad checksum", checksum, "closed: bad checksum"),
        ("no header", marker(0, 0), "closed: header length"),
        ("a header of 1 byte", marker(1, 0), "closed: header length"),
        ("a header of 71 bytes", [marker(71, 0), vec![0; 71]].concat(), "closed: header length"),
        ("a header of 4096 bytes", [marker(4096, 0), vec![0; 4096]].concat(), "closed: header length"),
        ("a header of 4 GiB", marker(u32::MAX, 0), "closed: header length"),
        ("a body of 16 MiB", [marker(72, 1 << 24), vec![0; 5000]].concat(), "closed: body too long"),
    ];
    let mut expected = std::collections::BTreeMap::new();
    for (what, bytes, counted) in bad {
        let mut client = server.connect();
        let _ = client.stream.write_all(&bytes); // the server may have closed before the last of it
        let rest = client.until_closed();
        // A call that was whole before the noise is answered.
        assert_eq!(rest.is_empty(), !what.contains("good"), "{what}");
        steady.is_served();
        *expected.entry(counted).or_insert(0) += 1;
    }
    let output = server.stop();
    for (counted, times) in expected {
        assert!(output.err.contains(&format!("{times} × {counted}")), "{counted}:\n{}", output.err);
    }
    output.says(&["closed: no message begins here (signature 0x"]);
}

#[test]
fn a_flood_of_rubbish_is_counted_and_hardly_said() {
    let server = Server::start("");
    for _ in 0..200 {
        let mut client = server.connect();
        client.send(b"this is not the RPC lab's protocol");
        client.until_closed();
    }
    server.connect().is_served();
    let output = server.stop().says(&["200 × closed: not a message", "more such lines left out in this second"]);
    assert!(output.err.lines().count() < 120, "{}", output.err);
}

#[test]
fn strings_that_lie_about_their_length_are_answered() {
    let server = Server::start("");
    let mut client = server.connect();
    let huge = 0x7fff_ffff_u32.to_le_bytes();
    let long = [&strings(&[b"k"])[..], &0x00ff_ffff_u32.to_le_bytes(), &vec![1; 50_000]].concat();
    for method in ["read", "write", "sink", "delete", "chksum"] {
        for body in [&b""[..], b"\x01", b"\x01\0\0", &huge, b"\xff\xff\xff\xff", b"\x05\0\0\0abcd"] {
            let reply = client.call(method, body);
            assert_eq!((reply.status(), reply.body.len()), (Status::FAIL, 0), "{method} {body:?}");
        }
    }
    for method in ["write", "sink"] {
        assert_eq!(client.call(method, &long).status(), Status::FAIL);
        assert_eq!(client.call(method, &strings(&[b"a key alone"])).status(), Status::FAIL);
    }
    client.is_served();
    server.stop().says(&["34 × call with a bad body", "0 keys at the end"]);
}

#[test]
fn a_longer_header_is_tolerated_and_not_sent_back() {
    let server = Server::start("");
    let mut client = server.connect();
    for extra in [1, 24, 4095 - 72] {
        let marker = Marker { header: 72 + extra, body: 3 };
        let header = header("ping", extra, b"abc").to_bytes();
        client.send(&[&marker.to_bytes()[..], &header, &vec![0xee; extra as usize], b"abc"].concat());
        let reply = client.receive();
        assert_eq!((reply.header.rpcid, reply.head.len(), reply.body.as_slice()), (extra, 72, &b"abc"[..]));
    }
    let mut beyond = server.connect();
    beyond.send(&Marker { header: 4096, body: 0 }.to_bytes());
    assert!(beyond.until_closed().is_empty());
    server.stop().says(&["closed: a header of 4096 bytes (72 to 4095 are taken)"]);
}

#[test]
fn unknown_methods_and_hostile_names_are_answered() {
    let server = Server::start("");
    let mut client = server.connect();
    let long = vec![7; 100_000];
    for (method, body) in [("methodna", &b"\x01\0\0\0x"[..]), ("", b""), ("\u{1b}[31m", b"red"), ("nosuch", &long)] {
        let reply = client.call(method, body);
        assert_eq!((reply.status(), reply.body.as_slice()), (Status::FAIL, body), "{method:?}");
    }
    client.is_served();
    let output = server.stop().says(&["4 × call of an unknown method", "no such method"]);
    assert!(!output.err.contains('\u{1b}'), "what clients send never reaches the terminal as it is");
}

#[test]
fn the_same_rpcids_from_everybody_are_no_trouble() {
    let server = Server::start("");
    let mut clients = [server.connect(), server.connect(), server.connect()];
    for client in &mut clients {
        client.send(&request("ping", 2, &client.stream.local_addr().unwrap().port().to_le_bytes()));
        client.send(&request("ping", 2, b"again"));
    }
    for client in &mut clients {
        let (first, second) = (client.receive(), client.receive());
        assert_eq!(first.body, client.stream.local_addr().unwrap().port().to_le_bytes());
        assert_eq!((first.header.rpcid, second.header.rpcid, second.body.as_slice()), (2, 2, &b"again"[..]));
    }
    server.stop();
}

#[test]
fn two_hundred_clients_at_once_and_none_waits_for_another() {
    // The silent ones are until all others were answered.
    let server = Server::start("--message-timeout 120s");
    let mut silent: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    silent.iter_mut().for_each(|client| client.send(&request("ping", 1, b"half")[..40]));
    let mut clients: Vec<Client> = (0..200).map(|_| server.connect()).collect();
    for round in 0..5_u32 {
        for (at, client) in clients.iter_mut().enumerate() {
            client.send(&request("write", round, &strings(&[format!("key {at}").as_bytes(), &[at as u8; 500]])));
        }
        for client in &mut clients {
            assert_eq!(client.receive().status(), Status::SUCCESS);
        }
    }
    for (at, client) in clients.iter_mut().enumerate() {
        let reply = client.call("read", &strings(&[format!("key {at}").as_bytes()]));
        assert_eq!(reply.body, strings(&[&[at as u8; 500]]));
    }
    for client in &mut silent {
        client.send(&request("ping", 1, b"half")[40..]);
        assert_eq!(client.receive().body, b"half");
    }
    server.stop().says(&["answered 1220 calls on 220 connections, 200 keys at the end"]);
}

#[test]
fn threads_that_write_and_read_the_same_keys_never_see_half_a_value() {
    let server = Server::start("--threads 3");
    let port = server.port;
    let threads: Vec<_> = (0..4_u8)
        .map(|own| {
            std::thread::spawn(move || {
                let mut client = Client::to(port);
                for round in 0..150_usize {
                    let key = [b'k', (round % 3) as u8];
                    let size = [100, 20_000, 150_000][round % 3];
                    let write = client.call("write", &strings(&[&key, &vec![own; size]]));
                    assert_eq!(write.status(), Status::SUCCESS);
                    let read = client.call("read", &strings(&[&key])).body;
                    assert_eq!(read.len(), 4 + size);
                    assert!(read[4..].iter().all(|byte| *byte == read[4]), "two writers in one value");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    server.stop();
}

#[test]
fn a_write_past_the_memory_limit_is_told_too_busy_and_nothing_is_lost() {
    let server = Server::start("--memory 2M");
    let mut client = server.connect();
    let write = |client: &mut Client, key: u8, size: usize| {
        client.call("write", &strings(&[&[key], &vec![key; size]])).status()
    };
    let mut kept = Vec::new();
    for key in 0..20 {
        match write(&mut client, key, 200_000) {
            Status::SUCCESS => kept.push(key),
            other => assert_eq!(other, Status::TOO_BUSY),
        }
    }
    assert!((8..=10).contains(&kept.len()) && kept == (0..kept.len() as u8).collect::<Vec<_>>(), "{kept:?}");
    // More than there is at all; and a value in many small pieces.
    assert_eq!(write(&mut client, 200, 10_000_000), Status::TOO_BUSY);
    assert!((0..255).any(|key| write(&mut client, key, 9000) == Status::TOO_BUSY), "small values count as well");
    client.is_served();
    client.call("reset", b"");
    for key in 0..9 {
        assert_eq!(write(&mut client, key, 200_000), Status::SUCCESS);
    }
    for key in 0..9 {
        assert_eq!(client.call("read", &strings(&[&[key]])).body, strings(&[&vec![key; 200_000]]));
    }
    // The same keys again and again: replaced values give their room back.
    for round in 0..50 {
        assert_eq!(write(&mut client, round % 9, 100_000), Status::SUCCESS, "round {round}");
    }
    server.stop().says(&["call without room", "the memory limit is reached"]);
}

#[test]
fn the_longest_body_is_taken_and_a_longer_one_is_not() {
    let server = Server::start("");
    let mut client = server.connect();
    let value = vec![3; 16_777_215 - 9];
    assert_eq!(client.call("write", &strings(&[b"k", &value])).status(), Status::SUCCESS);
    let reply = client.call("read", &strings(&[b"k"]));
    assert_eq!((reply.status(), reply.body.len(), reply.header.lglen2), (Status::SUCCESS, 4 + value.len(), 240));
    assert!(reply.body[4..] == value);
    let body = strings(&[b"k", &vec![3; 17_000_000]]);
    let mut other = server.connect();
    let _ = other.stream.write_all(&request("write", 1, &body));
    assert!(other.until_closed().is_empty());
    assert_eq!(client.call("read", &strings(&[b"k"])).body.len(), 4 + value.len());
    server.stop().says(&["1 × closed: body too long", "a body of 17000009 bytes (at most 16777215 are taken)"]);
}

#[test]
fn quit_stops_the_server_only_where_it_may() {
    let server = Server::start("");
    let mut client = server.connect();
    assert_eq!(client.call("quit", b"").status(), Status::FAIL);
    client.is_served();
    server.stop();

    let server = Server::start("--allow-quit");
    let (mut client, mut other) = (server.connect(), server.connect());
    other.is_served();
    assert_eq!(client.call("quit", b"").status(), Status::SUCCESS);
    assert!(client.until_closed().is_empty());
    assert!(other.until_closed().is_empty());
    server.running.finish(LIMIT).ends_with(0).says(&["answered 2 calls on 2 connections"]);
}

#[test]
fn a_server_may_be_started_again_at_once() {
    let port = free_port();
    for options in ["", "--allow-quit", ""] {
        let server = Server::at(port, options);
        let mut client = server.connect();
        client.is_served();
        // The server closes first, so its side of the connection is the one that lingers.
        if options.is_empty() {
            server.stop();
        } else {
            client.call("quit", b"");
            server.running.finish(LIMIT).ends_with(0);
        }
        assert!(client.until_closed().is_empty());
    }
    let _taken = Server::at(port, "");
    Home::new().run(&format!("serve --rpc 127.0.0.1:{port}")).ends_with(3).says(&["error[E01]", "another port"]);
}

#[test]
fn a_peer_that_is_gone_in_the_middle_is_no_more_than_gone() {
    let server = Server::start("");
    let mut steady = server.connect();
    let value = vec![9; 1_000_000];
    steady.call("write", &strings(&[b"k", &value]));
    // Closed in the middle of a request, at several places.
    let write = request("write", 1, &strings(&[b"other", &value]));
    for cut in [1, 15, 16, 50, 88, 100, 20_000, 500_000] {
        let mut client = server.connect();
        client.send(&write[..cut]);
        drop(client);
    }
    assert!(within(Duration::from_secs(60), || {
        steady.is_served();
        true
    }));
    // Killed with replies in progress: what was received and not read turns the close into a reset.
    for _ in 0..5 {
        let mut client = server.connect();
        for id in 0..8 {
            client.send(&request("read", id, &strings(&[b"k"])));
        }
        client.stream.read_exact(&mut [0; 1000]).unwrap();
        drop(client);
    }
    // Sends, says that it will send no more, and still gets its reply.
    let mut half = server.connect();
    half.send(&request("read", 1, &strings(&[b"k"])));
    half.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(half.receive().body, strings(&[&value]));
    assert!(half.until_closed().is_empty());
    steady.is_served();
    assert_eq!(steady.call("read", &strings(&[b"other"])).status(), Status::FAIL, "half a value is none");
    let output = server.stop().says(&["8 × ended within a message"]);
    assert!(output.err.contains("× broken connection"), "{}", output.err);
}

#[test]
fn who_does_not_read_is_waited_for_a_while_and_delays_nobody() {
    let server = Server::start("--threads 1 --message-timeout 3s --idle-timeout 1h");
    let mut steady = server.connect();
    let value = vec![4; 2_000_000];
    steady.call("write", &strings(&[b"k", &value]));
    let mut deaf = server.connect();
    for id in 0..50 {
        deaf.send(&request("read", id, &strings(&[b"k"])));
    }
    for _ in 0..100 {
        steady.is_served();
    }
    // Slow, but it reads: every byte comes, whatever the socket took at once.
    let mut slow = server.connect();
    for id in 0..3 {
        slow.send(&request("read", id, &strings(&[b"k"])));
    }
    let mut got = Vec::new();
    let mut part = vec![0; 300_000];
    while got.len() < 3 * (88 + 4 + value.len()) {
        let more = slow.stream.read(&mut part).unwrap();
        assert!(more > 0, "closed after {} bytes", got.len());
        got.extend_from_slice(&part[..more]);
        std::thread::sleep(Duration::from_millis(3));
    }
    assert!(got[92..92 + value.len()] == value && got.ends_with(&value[..100]));
    server.running.until_it_says("its reply was not taken in time");
    steady.is_served();
    server.stop().says(&["1 × closed: reply not taken in time"]);
}

#[test]
fn halves_of_messages_and_silence_have_an_end() {
    let server = Server::start("--message-timeout 1s --idle-timeout 3s");
    let begun = Instant::now();
    let (mut silent, mut half, mut drip) = (server.connect(), server.connect(), server.connect());
    half.send(&request("ping", 1, b"never whole")[..50]);
    // A byte now and then does not buy more time.
    let message = request("ping", 1, &[0; 200]);
    let dripped = message.iter().take_while(|byte| {
        std::thread::sleep(Duration::from_millis(20));
        drip.stream.write_all(&[**byte]).is_ok()
    });
    assert!(dripped.count() < 100);
    assert!(half.until_closed().is_empty());
    assert!(begun.elapsed() < Duration::from_secs(60));
    let mut asking = server.connect();
    while begun.elapsed() < Duration::from_secs(5) {
        asking.is_served();
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(silent.until_closed().is_empty());
    asking.is_served();
    server.stop().says(&["2 × closed: message not whole in time", "1 × closed: idle"]);
}

#[test]
fn more_connections_than_allowed_are_told_so() {
    let server = Server::start("--connections 3 --message-timeout 1s");
    let mut few: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    few.iter_mut().for_each(Client::is_served);
    let mut fourth = server.connect();
    let reply = fourth.call("write", &strings(&[b"k", b"v"]));
    assert_eq!((reply.status(), reply.body.len()), (Status::TOO_BUSY, 0));
    assert!(fourth.until_closed().is_empty(), "one answer, then it is over");
    // Very many at once: some are answered, some only closed; nobody is kept, and the first three are served.
    let mut crowd: Vec<Client> = (0..100).map(|_| server.connect()).collect();
    few.iter_mut().for_each(Client::is_served);
    crowd.iter_mut().for_each(|client| assert!(client.until_closed().is_empty()));
    drop(few.pop());
    let served = within(Duration::from_secs(60), || server.connect().call("ping", b"").status() == Status::SUCCESS);
    assert!(served, "there is room again");
    let output = server.stop();
    assert!(output.err.contains("× turned away") && output.err.contains("3 connections are open"), "{}", output.err);
}

#[test]
fn the_log_has_two_records_for_every_call_whatever_happens() {
    for end in ["INT", "TERM", "client"] {
        let port = free_port();
        let home = Home::new();
        let log = home.path().join("server.log");
        let running = home.start(&format!("serve --rpc 127.0.0.1:{port} --allow-quit --lab-log {}", log.display()));
        running.until_it_says("serving");
        let mut client = Client::to(port);
        let body = strings(&[b"kk", b"vvvvv_bcei_qaaa_aaaa"]);
        client.call("write", &body);
        client.call("read", &strings(&[b"kk"]));
        client.call("read", &strings(&[b"missing"]));
        // Closes in the middle of a message: what was answered before is in the log.
        let mut early = Client::to(port);
        early.is_served();
        early.send(&request("ping", 9, b"never whole")[..30]);
        drop(early);
        // What no reader would take is answered, and not in the log.
        let mut rude = Client::to(port);
        for header in [Header { t: [0; 4], ..header("ping", 1, b"") }, header("\u{1}\u{2}", 2, b"")] {
            rude.send(&message(&header, b""));
            rude.receive();
        }
        let calls = match end {
            "client" => {
                client.call("quit", b"");
                5
            }
            signal => {
                running.signal(signal);
                4
            }
        };
        let output = running.finish(LIMIT).ends_with(0);
        output.says(&["2 × call left out of the log"]);
        let records = std::fs::read(&log).unwrap();
        assert_eq!(records.len(), calls * 2 * 96, "{end}");
        let port_of_client = client.stream.local_addr().unwrap().port();
        let mut seen = 0;
        for pair in records.chunks(2 * 96) {
            let (received, sent) = pair.split_at(96);
            let (one, two) = (Header::parse(received).unwrap(), Header::parse(sent).unwrap());
            assert_eq!((one.kind, two.kind, one.rpcid, one.t[0]), (1, 2, two.rpcid, T1));
            assert_eq!((one.t[1], one.t[2], one.t[3]), (two.t[1], 0, 0));
            assert!(two.t[1] > T1 && two.t[2] >= two.t[1] && two.t[3] == 0);
            assert_eq!((one.client_ip, two.client_ip, one.server_port), (0x7f00_0001, 0x7f00_0001, 12345));
            assert_eq!((one.client_port, one.lglen2), (two.client_port, 0));
            if one.client_port == port_of_client && one.rpcid == 1 {
                assert_eq!((one.pad as usize, &received[72..]), (body.len(), &body[..24]));
                assert_eq!((two.pad, two.lglen2, two.status), (0, 0, 0));
                seen += 1;
            }
            if one.client_port == port_of_client && one.rpcid == 2 {
                let reply = strings(&[b"vvvvv_bcei_qaaa_aaaa"]);
                assert_eq!((two.pad as usize, &sent[72..]), (reply.len(), &reply[..24]));
                assert_eq!((two.lglen2, &received[72..78]), (tenlg(24), &b"\x02\0\0\0kk"[..]));
                seen += 1;
            }
            if one.client_port == port_of_client && one.rpcid == 3 {
                assert_eq!((one.status, two.status, two.pad), (0, 1, 0));
                seen += 1;
            }
        }
        assert_eq!(seen, 3, "{end}");
    }
}

#[test]
fn a_log_that_cannot_be_written_is_said_before_or_in_the_end() {
    let home = Home::new();
    let output = home.run(&format!("serve --rpc 127.0.0.1:{} --lab-log no/such/folder/x.log", free_port()));
    output.ends_with(3).says(&["error[E12]", "no/such/folder/x.log"]);
    if !std::path::Path::new("/dev/full").exists() {
        println!("skipped: no /dev/full here");
        return;
    }
    let server = Server::start("--lab-log /dev/full");
    server.connect().is_served();
    server.running.signal("INT");
    server.running.finish(LIMIT).ends_with(4).says(&["error[E12]", "the log is not whole"]);
    // A server that cannot listen leaves no empty log.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let log = home.path().join("never.log");
    let port = taken.local_addr().unwrap().port();
    home.run(&format!("serve --rpc 127.0.0.1:{port} --lab-log {}", log.display())).ends_with(3);
    assert!(!log.exists());
}

#[test]
fn calls_that_arrived_before_the_end_are_answered() {
    let server = Server::start("--threads 1");
    let mut client = server.connect();
    let value = vec![8; 3_000_000];
    client.call("write", &strings(&[b"k", &value]));
    client.send(&request("read", 77, &strings(&[b"k"])));
    client.stream.read_exact(&mut [0; 1]).unwrap(); // it is in progress, and more than a socket holds
    server.running.signal("TERM");
    let mut rest = Vec::new();
    let mut part = vec![0; 100_000];
    while rest.len() < 87 + 4 + value.len() {
        match client.stream.read(&mut part) {
            Ok(more @ 1..) => rest.extend_from_slice(&part[..more]),
            other => panic!("{other:?} after {} bytes", rest.len()),
        }
    }
    assert!(rest[91..] == value);
    server.running.finish(LIMIT).ends_with(0);
}

#[test]
fn it_is_loopback_only_unless_told_otherwise() {
    // What the kernel says: local address and port in hex, state 0A is listening.
    let listening = |port: u16| {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
        let rows = table.lines().skip(1).map(|row| row.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let ours = |row: &Vec<String>| row[3] == "0A" && row[1].ends_with(&format!(":{port:04X}"));
        rows.filter(ours).map(|row| row[1].split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (home, port) = (Home::new(), free_port());
    let running = home.start(&format!("serve --rpc -p {port}"));
    let answer = running.until_it_says(&format!("at 127.0.0.1:{port}"));
    assert!(!answer.contains("warning"), "{answer}");
    assert_eq!(answer.lines().count(), 1, "one line with the address and what it is");
    assert_eq!(listening(port), ["0100007F"]);
    Client::to(port).is_served();
    drop(running);
    for line in
        [format!("serve --rpc 0.0.0.0:{port} --insecure"), format!("serve --rpc -B 0.0.0.0 -p {port} --insecure")]
    {
        let running = home.start(&line);
        running.until_it_says("warning: 0.0.0.0:");
        running.until_it_says("nobody is asked who they are");
        running.until_it_says("serving");
        assert_eq!(listening(port), ["00000000"]);
    }
}

#[test]
fn connections_are_said_only_where_asked_for() {
    for (options, shown) in [("", false), ("-v", true), ("-q", false)] {
        let port = free_port();
        let home = Home::new();
        let running = home.start(&format!("serve --rpc 127.0.0.1:{port} {options}"));
        assert!(within(Duration::from_secs(60), || TcpStream::connect(("127.0.0.1", port)).is_ok()));
        let mut client = Client::to(port);
        client.is_served();
        let own = client.stream.local_addr().unwrap().to_string();
        drop(client);
        let mut rubbish = Client::to(port);
        rubbish.send(b"0123456789abcdef");
        rubbish.until_closed();
        running.signal("INT");
        let output = running.finish(LIMIT).ends_with(0);
        assert_eq!(output.err.contains(&format!("{own}: connected")), shown, "{options}:\n{}", output.err);
        assert_eq!(output.err.contains(&format!("{own}: gone")), shown, "{options}:\n{}", output.err);
        assert_eq!(output.err.contains("serving"), options != "-q");
        assert_eq!(output.out, "");
        output.says(&["closed: no message begins here"]);
    }
}

#[track_caller]
fn refused(line: &str, parts: &[&str]) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = msgpath(&words).ends_with(2).says(&["error[E11]: "]).says(parts);
    assert_eq!(output.out, "", "nothing on standard output");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    refused("serve --rpc -p 78400", &["78400", "12864"]);
    refused("serve --rpc 127.0.0.1:78400", &["78400", "12864"]);
    refused("serve --rpc 127.0.0.1:0", &["port 0 does not exist", "12345"]);
    refused("serve --rpc 12345", &["\"12345\" is not a target", "--rpc HOST:PORT"]);
    refused("serve --rpc unix:/tmp/x", &["cannot listen at unix:/tmp/x", "TCP"]);
    refused("serve 127.0.0.1 --rpc", &["stands before --rpc", "msgpath serve --rpc 127.0.0.1"]);
    refused("serve --rpc 127.0.0.1:99 -p 98", &["--rpc names port 99, -p names 98"]);
    refused("serve --rpc 127.0.0.1 -B 0.0.0.0", &["--rpc names 127.0.0.1, -B names 0.0.0.0"]);
    refused("serve --rpc --memory 100K", &["--memory takes at least 1M"]);
    refused("serve --rpc --threads 0", &["--threads takes", "from 1"]);
    refused("serve --rpc --threads 9999", &["--threads takes 1 to 256"]);
    refused("serve --rpc --connections 9999999", &["--connections takes 1 to 100000"]);
    refused("serve --rpc --idle-timeout 0", &["--idle-timeout takes a time above 0"]);
    refused("serve --rpc --message-timeout soon", &["--message-timeout takes a time"]);
    refused("serve --rpc -q -v", &["cannot be used with"]);
    for option in
        ["--ports 4", "--threads 2", "--connections 9", "--allow-quit", "--lab-log x", "--kernel-stamps", "-v"]
    {
        let name = option.split(' ').next().unwrap();
        refused(&format!("serve {option}"), &[&format!("{name} belongs to the RPC server"), "serve --rpc"]);
    }
}

#[test]
fn several_ports_are_one_server() {
    // Beyond those that other tests are given, below those that the kernel gives.
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let bases: Vec<u16> = (32_420..32_760).step_by(3).collect();
    // The same test may run beside this one.
    let first = std::process::id() as usize % bases.len();
    let base = bases[first..].iter().chain(&bases[..first]).copied().find(|base| (0..3).all(|at| free(base + at)));
    let base = base.expect("three free ports");
    let server = Server::at(base, "--ports 3");
    let mut clients = [0, 1, 2].map(|at| Client::to(base + at));
    clients[0].call("write", &strings(&[b"key", b"value"]));
    let read = clients.map(|mut client| client.call("read", &strings(&[b"key"])).body);
    assert_eq!(read, [strings(&[b"value"]), strings(&[b"value"]), strings(&[b"value"])]);
    server.stop().says(&[&format!("127.0.0.1:{base} to {}", base + 2), "3 connections"]);
    refused("serve --rpc --ports 65", &["--ports takes 1 to 64"]);
    refused("serve --rpc -p 65535 --ports 2", &["there are no 2 ports from 65535 on"]);
}

#[test]
fn nothing_is_left_in_the_home_of_a_server() {
    let server = Server::start("");
    let mut client = server.connect();
    client.call("write", &strings(&[b"../escaped", b"value"]));
    client.call("write", &strings(&[b"/tmp/absolute", b"value"]));
    client.call("reset", b"");
    let files = |home: &Home| {
        let kept = |name: &std::ffi::OsString| name != "tmp";
        std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).filter(kept).count()
    };
    assert_eq!(files(&server.home), 0, "keys are keys, not paths");
    server.stop();
}
