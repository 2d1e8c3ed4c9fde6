//! `msgpath rpc` against servers of these tests: well behaved, hostile, and real ones of others.

use std::collections::{BTreeSet, HashMap};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::printed::Value;
use msgpath_rpc::log::Record;
use msgpath_rpc::{Header, MARKER_BYTES, Marker, RPC_HEADER_BYTES, Telling, put_string, take_string};

use crate::command::{Home, LIMIT, Output, Running, free_port, within};

/// A request as it came over the wire.
#[derive(Clone, Debug)]
struct Asked {
    bytes: Vec<u8>,
    header: Header,
}

impl Asked {
    fn body(&self) -> &[u8] {
        &self.bytes[MARKER_BYTES + RPC_HEADER_BYTES..]
    }
}

fn read_exactly(stream: &mut TcpStream, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

fn asked(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = read_exactly(stream, MARKER_BYTES)?;
    let marker = Marker::parse(bytes.first_chunk()?).expect("a marker of ours");
    bytes.extend(read_exactly(stream, (marker.header + marker.body) as usize)?);
    let header = Header::parse(&bytes[MARKER_BYTES..]).expect("a header of ours");
    Some(Asked { bytes, header })
}

/// A message, with a header longer than the lab's where `more` has bytes.
fn message(header: &Header, more: &[u8], body: &[u8]) -> Vec<u8> {
    let length = RPC_HEADER_BYTES + more.len();
    let mut out = Marker { header: length as u32, body: body.len() as u32 }.to_bytes().to_vec();
    out.extend(header.to_bytes());
    out.extend(more);
    out.extend(body);
    out
}

/// The header of a reply, as server4 makes it: a copy with its own fields filled in.
fn answer(asked: &Asked, status: u32) -> Header {
    let mut header = Header { kind: 2, status, client_ip: 0x7f00_0001, client_port: 4711, ..asked.header };
    (header.t[1], header.t[2]) = (header.t[0] + 30, header.t[0] + 40);
    header
}

/// What a server does with a request.
enum Do {
    Reply(Vec<u8>),
    /// Sends these bytes and closes.
    Last(Vec<u8>),
    Nothing,
}

/// A server on loopback; it ends with the process. Every request it gets is passed on.
fn server(serve: impl FnMut(usize, &Asked) -> Do + Send + 'static) -> (u16, Receiver<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().unwrap().port();
    let (seen, requests) = channel();
    let serve = std::sync::Arc::new(std::sync::Mutex::new((serve, 0)));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, serve, seen) = (stream.unwrap(), serve.clone(), seen.clone());
            let _ = stream.set_nodelay(true);
            std::thread::spawn(move || {
                while let Some(asked) = asked(&mut stream) {
                    let _ = seen.send(asked.clone());
                    let does = {
                        let mut serve = serve.lock().unwrap();
                        let at = serve.1;
                        serve.1 += 1;
                        (serve.0)(at, &asked)
                    };
                    match does {
                        Do::Reply(bytes) => {
                            let _ = stream.write_all(&bytes);
                        }
                        Do::Last(bytes) => {
                            let _ = stream.write_all(&bytes);
                            return;
                        }
                        Do::Nothing => {}
                    }
                }
            });
        }
    });
    (port, requests)
}

/// What server4 does: a map of strings, and the connection closed after a method it does not know.
fn lab() -> impl FnMut(usize, &Asked) -> Do + Send + 'static {
    let mut store: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    move |_, asked| {
        let mut rest = asked.body();
        let mut next = || take_string(&mut rest).map(<[u8]>::to_vec);
        let string = |text: &[u8]| {
            let mut out = Vec::new();
            put_string(&mut out, text);
            out
        };
        let (status, body) = match asked.header.method.bytes() {
            b"ping" => (0, asked.body().to_vec()),
            b"write" => {
                store.insert(next().unwrap(), next().unwrap());
                (0, Vec::new())
            }
            b"read" => store.get(&next().unwrap()).map_or((1, Vec::new()), |value| (0, string(value))),
            b"delete" => (u32::from(store.remove(&next().unwrap()).is_none()), Vec::new()),
            b"sink" | b"reset" | b"quit" => (0, Vec::new()),
            b"stats" => (0, string(b"Stats: 29 0 0 0 ")),
            _ => return Do::Last(message(&answer(asked, 1), b"", asked.body())),
        };
        Do::Reply(message(&answer(asked, status), b"", &body))
    }
}

#[track_caller]
fn rpc(port: u16, line: &str) -> Output {
    Home::new().run(&format!("rpc 127.0.0.1:{port} {line}"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A request as client4 sends it, with the bytes of T1 and of the port as they came.
#[track_caller]
fn golden(asked: &Asked, marker: &str, id: &str, lglen: &str, method: &str, body: &str) {
    let (t1, port) = (hex(&asked.bytes[24..32]), hex(&asked.header.server_port.to_le_bytes()));
    let expected = format!(
        "{marker} {id} 00000000 {t1} 0000000000000000 0000000000000000 0000000000000000 00000000 0100007f 0000 {port} \
         {lglen} 00 0000 {method} 00000000 00000000 {body}"
    );
    assert_eq!(hex(&asked.bytes), expected.replace(' ', ""));
    assert!(asked.header.t[0] > 1_700_000_000_000_000);
}

#[test]
fn requests_are_those_of_the_lab_byte_by_byte() {
    let (port, requests) = server(lab());
    let ask = |line: &str| {
        // What is sent counts here, not whether the server knows the key.
        rpc(port, &format!("{line} --no-save -qq"));
        requests.try_iter().collect::<Vec<_>>()
    };
    let ping = "e517c5d1 48000000 00000000 e51745d6";
    golden(&ask("-seed1 ping")[0], ping, "02000000", "00", "70696e6700000000", "");
    golden(
        &ask("-seed1 write -key kk -value vvvvv 20")[0],
        "e517c5d1 48000000 1e000000 031845d6",
        "00200000",
        "31",
        "7772697465000000",
        "020000006b6b 1400000076767676765f626365695f716161615f61616161",
    );
    let writes = ask("-seed1 -k 3 write -key k9 + -value zz + 12");
    let of = [
        ("00020000", "020000006b39 0c0000007a7a5f626365695f71616161"),
        ("00000400", "020000006c30 0c00000061615f616161615f61616161"),
        ("00000008", "020000006c31 0c00000061625f616161615f61616161"),
    ];
    assert_eq!(writes.len(), 3);
    for (asked, (id, body)) in writes.iter().zip(of) {
        golden(asked, "e517c5d1 48000000 16000000 fb1745d6", id, "2d", "7772697465000000", body);
    }
    let reads = ask("-seed1 -k 2 read -key kkkkk + 10");
    for (asked, (id, body)) in
        reads.iter().zip([("20000000", "0a0000006b6b6b6b6b5f62636569"), ("00040000", "0a0000006b6b6b6b6c5f61616161")])
    {
        golden(asked, "e517c5d1 48000000 0e000000 f31745d6", id, "26", "7265616400000000", body);
    }
    let sinks = ask("-seed1 -k 3 sink -key kk + -value vv + 12");
    for (asked, (id, key)) in sinks.iter().zip([("00020000", "6b6b"), ("00040000", "6b6c"), ("00080000", "6b6d")]) {
        let body = format!("02000000{key} 0c00000076765f626365695f71616161");
        golden(asked, "e517c5d1 48000000 16000000 fb1745d6", id, "2d", "73696e6b00000000", &body);
    }
    let pings = ask("-seed1 -k 2 ping -value vvvvv 300");
    let ids: Vec<u32> = pings.iter().map(|asked| asked.header.rpcid).collect();
    assert_eq!(ids, [0xe3c4_7253, 0x544a_d242]);
    assert!(hex(&pings[0].bytes).starts_with("e517c5d1480000003001000015194 5d6".replace(' ', "").as_str()));
    assert!(pings[0].body()[4..].starts_with(b"vvvvv_bcei_qaaa"));
    // A method that nobody knows is sent with its first 8 bytes; server4 answers Fail and closes.
    let odd = ask("-seed1 methodname -value x");
    golden(&odd[0], "e517c5d1 48000000 05000000 ea1745d6", "02000000", "17", "6d6574686f646e61", "0100000078");
}

#[test]
fn padding_is_that_of_the_lab() {
    let (port, requests) = server(lab());
    rpc(port, "-seed1 -rep 2 -k 2 write -key kkkkk + 9 -value valuekkk_0000 + 40 --no-save -qq").ends_with(0);
    let seen: Vec<(String, String, u32)> = requests
        .try_iter()
        .map(|asked| {
            let mut rest = asked.body();
            let mut next = || String::from_utf8(take_string(&mut rest).unwrap().to_vec()).unwrap();
            (next(), next(), asked.header.rpcid)
        })
        .collect();
    let row = |key: &str, value: &str, id| (key.to_owned(), value.to_owned(), id);
    assert_eq!(
        seen,
        [
            row("kkkkk_bce", "valuekkk_0000_iqaa_aaaa_aaaa_aaaa_aaaa_a", 0x0200_0000),
            row("kkkkl_aaa", "valuekkk_0001_aaaa_xo2y_qaxo_2pjs_tgmy_h", 0x0762_b21c),
            row("kkkkm_2yq", "valuekkk_0002_aaax_zfkd_rv3n_0dgm_p42y_q", 0xd940_6bc0),
            row("kkkkn_axz", "valuekkk_0003_strc_tgmp_jfku_54lb_ctg1_b", 0x1845_1bdd),
        ]
    );
}

/// The header of the only run of a home.
fn recorded(home: &Home) -> Value {
    let folder = std::fs::read_dir(home.runs()).unwrap().next().unwrap().unwrap().path();
    serde_json::from_slice(&std::fs::read(folder.join("run.json")).unwrap()).unwrap()
}

#[test]
fn what_was_written_is_read_and_recorded() {
    let (port, _requests) = server(lab());
    let home = Home::new();
    let output = home
        .run(&format!(
            "rpc 127.0.0.1 {port} -k 100 write -key k00 + -value v 5000 --expect 2ms --then -k 100 read -key k00 + --verify -v"
        ))
        .ends_with(0);
    output.shows(&[
        "no network was measured",
        "write: 100 calls answered, 0 failed, 0 without a reply; 0.510 TxMB",
        "read: 100 calls answered",
        "RPC/s, wall",
        "RPC/s, response",
        "write: first 20 round trips",
        "every byte of 100 of 200 replies",
    ]);
    let header = recorded(&home);
    let rpc = &header["parts"]["rpc"];
    assert_eq!((rpc["protocol"].as_str(), rpc["server"].as_str()), (Some("lab"), Some("")), "{rpc}");
    assert_eq!((rpc["expect_ns"]["0"].as_u64(), rpc["calls_not_kept"].as_u64()), (Some(2_000_000), Some(0)), "{rpc}");
    assert!(rpc["pairs"][0]["same_machine"].is_string(), "{rpc}");
    let cases = header["plan"]["cases"].as_array().unwrap();
    let of = |case: &Value| {
        (case["label"].as_str().unwrap().to_owned(), case["size_bytes"].as_u64(), case["reply_bytes"].as_u64())
    };
    assert_eq!(of(&cases[0]), ("write".into(), Some(88 + 4 + 3 + 4 + 5000), Some(88)));
    assert_eq!(of(&cases[1]), ("read".into(), Some(88 + 4 + 3), Some(88 + 4 + 5000)));
    home.run("show @last").ends_with(0);
    home.run("verify @last").ends_with(0);
}

/// A server of ours that ends with its test, whatever becomes of that.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// T1 of each call of a log, µs, by its id.
fn went(log: &Path) -> HashMap<u32, i64> {
    let bytes = std::fs::read(log).unwrap();
    let records: Vec<Record> = msgpath_rpc::log::records(&bytes, 0).map(Result::unwrap).collect();
    let calls: HashMap<u32, i64> = records.iter().map(|one| (one.header.rpcid, one.header.t[0])).collect();
    assert!(
        records.iter().all(|one| calls[&one.header.rpcid] == one.header.t[0]),
        "both records of a call say the same"
    );
    calls
}

#[test]
fn our_client_calls_our_server_and_every_verb_reads_the_run() {
    let home = Home::new();
    let log = home.path().join("server.log");
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let mut serve = home.command(&["serve", "--rpc", &address, "--allow-quit", "--lab-log", log.to_str().unwrap()]);
    serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut serve = Ended(serve.spawn().unwrap());
    let until = Instant::now() + Duration::from_secs(40);
    while TcpStream::connect(&address).is_err() {
        assert!(Instant::now() < until, "nobody answers at {address}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let client_log = home.path().join("client.log");
    let output = home.run(&format!(
        "rpc 127.0.0.1:{port} -k 300 ping -value vvvvv 100 --then -k 60 write -key kkkkk + -value v 200000 \
         --then -k 60 read -key kkkkk + --verify --lab-log {} --json",
        client_log.display()
    ));
    let value = output.ends_with(0).json();
    assert_eq!(value["rpc"]["kinds"].as_array().unwrap().len(), 3, "{}", value["rpc"]);
    home.run(&format!("rpc 127.0.0.1:{port} quit -qq --no-save")).ends_with(0);
    let until = Instant::now() + Duration::from_secs(40);
    while serve.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "the server goes on after quit");
        std::thread::sleep(Duration::from_millis(20));
    }
    // What our server told of the wait and the lock is in the log of calls, and parts of a call add up.
    let parts = &value["rpc"]["kinds"][0]["bands"][0];
    let sum: f64 = parts["parts"].as_array().unwrap().iter().map(|part| part["ns"].as_f64().unwrap()).sum();
    assert!((sum - parts["latency_ns"].as_f64().unwrap()).abs() < 1.0, "{parts}");
    home.run("show @last -v").ends_with(0).shows(&["server work", "same machine"]);
    home.run("verify @last").ends_with(0);
    let report = home.path().join("calls.html");
    home.run(&format!("report @last -o {}", report.display())).ends_with(0);
    assert!(std::fs::read_to_string(&report).unwrap().contains("Timeline of calls"));
    // A call went at the same time, whoever says so: the client's log, what is made of the record, the server's log.
    let exported = home.path().join("exported.log");
    home.run(&format!("export @last --to lab-log -o {}", exported.display())).ends_with(0);
    let [kept, made] = [&client_log, &exported].map(|file| std::fs::read(file).unwrap());
    assert!(kept == made, "what is made of the record is what the client's log holds");
    let [ours, again, theirs] = [&client_log, &exported, &log].map(|file| went(file));
    assert_eq!((ours.len(), again.len(), theirs.len()), (420, 420, 421));
    for (id, t1) in &ours {
        assert_eq!((again.get(id), theirs.get(id)), (Some(t1), Some(t1)), "T1 of call {id:#x}");
    }
    // The logs name the same calls: they are merged, not doubled.
    let both = format!("import {} {} --json", exported.display(), log.display());
    let imported = home.run(&both).ends_with(0).json();
    let calls = |value: &Value| -> u64 {
        value["rpc"]["kinds"].as_array().unwrap().iter().map(|kind| kind["calls"].as_u64().unwrap()).sum()
    };
    assert_eq!((calls(&value), calls(&imported)), (420, 421), "the quit is in the server's log only");
}

#[test]
fn our_own_server_is_asked_and_told_of() {
    let (port, requests) = server(|_, asked| {
        let telling = Telling { waited_ns: 1_000, served_ns: 2_000, lock_ns: 500 };
        let header = Header { pad: Header::TELL, ..answer(asked, 0) };
        Do::Reply(message(&header, &telling.to_bytes(), b""))
    });
    let home = Home::new();
    home.run(&format!("rpc 127.0.0.1:{port} -k 3 sink -key k -value v")).ends_with(0);
    assert!(requests.try_iter().all(|asked| asked.header.asks()));
    assert_eq!(recorded(&home)["parts"]["rpc"]["server"], "msgpath");
    // In the lab's own words nothing is asked for.
    rpc(port, "-seed1 sink -key k -value v --no-save -qq").ends_with(0);
    rpc(port, "sink -key k -value v --legacy --no-save").ends_with(0);
    assert!(requests.try_iter().all(|asked| asked.header.pad == 0));
}

#[test]
fn the_labs_text_comes_on_one_stream_and_its_log_is_whole() {
    let (port, _requests) = server(lab());
    let home = Home::new();
    let output = home
        .run(&format!("rpc 127.0.0.1 {port} -seed1 -k 12 ping -value vvvvv 64 --then stats --legacy --lab-log c.log"))
        .ends_with(0);
    let lines: Vec<&str> = output.out.lines().collect();
    assert_eq!(lines[0], format!("at client, server IP = 7f000001:{port:04x}"), "{}", output.out);
    assert_eq!((lines[1].matches("ms  ").count(), lines[2].matches("ms  ").count()), (10, 3), "{}", output.out);
    assert_eq!(&lines[3..6], ["Stats: 29 0 0 0 ", "", "Histogram of floor log 2 buckets of usec response times"]);
    assert!(lines[9].starts_with("13 RPCs, ") && lines[10].contains(" RPC/s ("), "{}", output.out);
    assert_eq!(&lines[11..], ["", "c.log written"], "{}", output.out);
    let log = std::fs::read(home.path().join("c.log")).unwrap();
    assert_eq!(log.len(), 13 * 2 * 96);
    let records: Vec<Header> = log.chunks(96).map(|record| Header::parse(record).unwrap()).collect();
    for pair in records.chunks(2) {
        let (request, reply) = (&pair[0], &pair[1]);
        assert_eq!((request.kind, reply.kind, request.rpcid), (0, 3, reply.rpcid));
        assert_eq!((request.t[0], request.t[1], request.client_ip), (reply.t[0], 0, 0));
        assert!(reply.t[0] <= reply.t[3] && reply.t[1] == reply.t[0] + 30 && reply.client_ip == 0x7f00_0001);
    }
    assert_eq!((records[0].pad, &log[72..81]), (68, &b"\x40\0\0\0vvvvv"[..]));
    // An empty name is made as the lab makes it.
    home.msgpath(&["rpc", &format!("127.0.0.1:{port}"), "ping", "--no-save", "-qq", "--lab-log", ""]).ends_with(0);
    let named = |entry: std::fs::DirEntry| entry.file_name().into_string().unwrap();
    let names: Vec<String> = std::fs::read_dir(home.path()).unwrap().map(|entry| named(entry.unwrap())).collect();
    assert!(names.iter().any(|name| name.starts_with("msgpath_20") && name.ends_with(".log")), "{names:?}");
}

#[test]
fn verbose_is_a_line_a_message() {
    let (port, _requests) = server(lab());
    let output = rpc(port, "-seed1 -verbose ping -value hi --no-save").ends_with(0);
    let lines: Vec<&str> = output.err.lines().filter(|line| line.starts_with("client4: ")).collect();
    assert_eq!(lines.len(), 2, "{}", output.err);
    assert!(
        lines[0].starts_with("client4: SendRequest:     20")
            && lines[0].ends_with(" 00000002 00000000 2.6 0.0 ReqSend  ping Success  6 ....hi "),
        "{}",
        lines[0]
    );
    assert!(
        lines[1].starts_with("client4: ReceiveResponse: 20") && lines[1].contains(" RespRcv  ping Success  6 "),
        "{}",
        lines[1]
    );
}

#[test]
fn a_server_that_closes_early_costs_nothing_that_was_measured() {
    let mut served = lab();
    let (port, _requests) = server(move |at, asked| if at < 3 { served(at, asked) } else { Do::Last(Vec::new()) });
    let home = Home::new();
    let output = home.run(&format!("rpc 127.0.0.1:{port} -k 10 ping -value vvvvv 64 --lab-log c.log")).ends_with(4);
    output.says(&["E35", "after 3 of 10 calls"]).shows(&["ping: 3 calls answered, 0 failed, 1 without a reply"]);
    assert_eq!(std::fs::read(home.path().join("c.log")).unwrap().len(), (3 * 2 + 1) * 96);
    let value = home.run("show @last --json").ends_with(0).json();
    assert_eq!((&value["status"], value["cases"][0]["delivery"]["received"].as_u64()), (&"failed".into(), Some(3)));
    // server4 answers what it does not know, and closes: the second call finds that out.
    let (port, _requests) = server(lab());
    rpc(port, "-k 5 chksum -key k --no-save").ends_with(4).says(&[
        "E35",
        "after 1 of 5 calls",
        "server4 closes after a method",
    ]);
}

#[test]
fn what_is_no_reply_ends_the_run_and_nothing_else() {
    let marker = |header: u32, body: u32| {
        // Made by hand: these lengths are not taken by our own.
        let words = [0xd1c5_17e5_u32, header, body, 0xd1c5_17e5_u32.wrapping_add((header << 20) ^ body)];
        words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()
    };
    let whole = |asked: &Asked| message(&answer(asked, 0), b"", asked.body());
    type Hostile = Box<dyn Fn(&Asked) -> Do + Send>;
    let hostile: Vec<(&str, &str, Hostile)> = vec![
        ("E34", "garbage", Box::new(|_| Do::Reply(b"220 smtp.example ready\r\n".to_vec()))),
        ("E34", "headerlen 0", Box::new(move |_| Do::Reply(marker(0, 0)))),
        ("E34", "headerlen 71", Box::new(move |_| Do::Reply(marker(71, 0)))),
        ("E34", "headerlen 4096", Box::new(move |_| Do::Reply(marker(4096, 0)))),
        ("E34", "a body of 16 MiB", Box::new(move |_| Do::Reply(marker(72, 1 << 24)))),
        ("E34", "a body of 4 GiB", Box::new(move |_| Do::Reply(marker(72, u32::MAX)))),
        (
            "E34",
            "another id",
            Box::new(move |asked| {
                let header = Header { rpcid: asked.header.rpcid ^ 1, ..answer(asked, 0) };
                Do::Reply(message(&header, b"", asked.body()))
            }),
        ),
        ("E34", "a request for a reply", Box::new(move |asked| Do::Reply(asked.bytes.clone()))),
        (
            "E34",
            "another method",
            Box::new(move |asked| {
                let header = Header { method: msgpath_rpc::Method::new("pong"), ..answer(asked, 0) };
                Do::Reply(message(&header, b"", asked.body()))
            }),
        ),
        (
            "E34",
            "another T1",
            Box::new(move |asked| {
                let mut header = answer(asked, 0);
                header.t[0] += 1;
                Do::Reply(message(&header, b"", asked.body()))
            }),
        ),
        ("E34", "the same reply twice", Box::new(move |asked| Do::Reply([whole(asked), whole(asked)].concat()))),
        ("E35", "half a marker", Box::new(move |asked| Do::Last(whole(asked)[..7].to_vec()))),
        ("E35", "half a body", Box::new(move |asked| Do::Last(whole(asked)[..100].to_vec()))),
        ("E35", "a length that never comes", Box::new(move |_| Do::Last(marker(72, 16_777_215)))),
    ];
    for (code, what, does) in hostile {
        let mut served = lab();
        let (port, _requests) = server(move |at, asked| if at < 2 { served(at, asked) } else { does(asked) });
        let output = rpc(port, "-k 5 ping -value vvvvv 64 --no-save");
        assert_eq!(output.code, Some(4), "{what}: {}{}", output.out, output.err);
        // A reply that comes twice was one: the call is answered, and what follows ends the run.
        let answered = if what == "the same reply twice" { 3 } else { 2 };
        let answered = format!("ping: {answered} calls answered");
        assert!(output.err.contains(code) && output.out.contains(&answered), "{what}: {}{}", output.out, output.err);
    }
}

#[test]
fn impossible_times_of_a_server_end_the_run_in_words() {
    let reply = |header: Header, more: &[u8], asked: &Asked| Do::Reply(message(&header, more, asked.body()));
    let told = |waited: u64, lock: u64| [waited, 0, lock].map(u64::to_le_bytes).concat();
    type Lie = Box<dyn Fn(&Asked) -> (Header, Vec<u8>) + Send>;
    let stamped = |at: usize, t: i64| -> Lie {
        Box::new(move |asked| {
            let mut header = answer(asked, 0);
            header.t[at] = t;
            (header, Vec::new())
        })
    };
    let telling = |waited: u64, lock: u64| -> Lie {
        Box::new(move |asked| (Header { pad: Header::TELL, ..answer(asked, 0) }, told(waited, lock)))
    };
    for load in ["", "--rate 500"] {
        let lies = [
            ("its T2 is", stamped(1, i64::MIN)),
            ("its T3 is", stamped(2, i64::MAX)),
            ("a request waited to be read for", telling(1 << 60, 0)),
            ("a request waited for a lock for", telling(0, 1 << 61)),
        ];
        for (says, lie) in lies {
            let mut served = lab();
            let (port, _requests) = server(move |at, asked| {
                let (header, more) = lie(asked);
                if at < 2 { served(at, asked) } else { reply(header, &more, asked) }
            });
            let output = rpc(port, &format!("-k 5 {load} ping -value vvvvv 64")).ends_with(4);
            let output = output.says(&["error[E57]: the server reports what cannot be", says]);
            let debug = |text: &str| ["RpcRow", "Some(", "{", "}"].iter().any(|sign| text.contains(sign));
            assert!(!debug(&output.err), "{load} {says}: {}", output.err);
            assert!(output.out.contains("ping: 2 calls answered"), "{load} {says}: {}", output.out);
        }
    }
}

#[test]
fn a_longer_header_is_taken() {
    let (port, _requests) = server(|_, asked| Do::Reply(message(&answer(asked, 0), &[7; 4095 - 72], asked.body())));
    rpc(port, "-k 3 ping -value hello --verify --no-save").ends_with(0).shows(&["every byte of 3 of 3"]);
}

#[test]
fn a_status_is_a_column_and_a_wrong_byte_an_error() {
    let (port, _requests) = server(lab());
    let output = rpc(port, "-k 4 read -key nobody + --no-save").ends_with(4);
    output.shows(&["read: 4 calls answered, 4 failed"]).says(&["E38", "none of 4 calls succeeded"]);
    // The text is the lab's, the exit code is ours.
    rpc(port, "-k 4 read -key nobody + --legacy --no-save").ends_with(4).says(&["E38", "none of 4 calls succeeded"]);
    // One that failed is told by the exit code, unless it may fail.
    let line = "write -key k00 -value v --then -k 2 read -key k00 + --no-save";
    rpc(port, line).ends_with(1).says(&["E16", "1 of 3 calls failed", "--max-loss"]);
    rpc(port, &format!("{line} --max-loss 50%")).ends_with(0);
    rpc(port, &format!("{line} --strict")).ends_with(5).says(&["W71"]);
    rpc(port, &format!("{line} --max-loss 10%")).ends_with(1).says(&["E16", "1 of 3 calls failed"]);
    let mut served = lab();
    let (port, _requests) = server(move |at, asked| match served(at, asked) {
        Do::Reply(mut bytes) if asked.header.method.bytes() == b"read" => {
            *bytes.last_mut().unwrap() ^= 1;
            Do::Reply(bytes)
        }
        does => does,
    });
    let line = "write -key k -value v 100 --then read -key k --no-save";
    rpc(port, &format!("{line} --verify")).ends_with(4).says(&["E06", "they differ from byte 99 on"]);
    rpc(port, line).ends_with(0);
}

#[test]
fn silence_ends_with_a_timeout() {
    let mut served = lab();
    let (port, _requests) = server(move |at, asked| if at < 2 { served(at, asked) } else { Do::Nothing });
    let output = rpc(port, "-k 5 ping --timeout 2s --no-save").ends_with(4);
    output.says(&["E36", "after 2 of 5 calls"]).shows(&["ping: 2 calls answered"]);
    // A port of ours on which nobody listens.
    let closed = free_port();
    rpc(closed, "ping").ends_with(3).says(&["E01", "msgpath serve --rpc"]);
}

#[test]
fn what_is_typed_wrong_is_explained() {
    let refused = |line: &str, parts: &[&str]| {
        Home::new().run(&format!("rpc 127.0.0.1:9 {line}")).ends_with(2).says(parts);
    };
    refused("-key kkk write", &["E33", "PADLEN", "try: write -key kkk"]);
    refused("-k 3", &["E33", "no command"]);
    refused("read", &["E33", "missing -key for read", "try: read -key"]);
    refused("ping -kye x", &["-kye is not an option of rpc", "try: -key"]);
    refused("ping --verfy", &["--verfy", "try: --verify"]);
    refused("ping pong", &["two commands", "--then pong"]);
    refused("ping -k 10x", &["whole number", "silently read 10"]);
    refused("ping -P 3 -T 2", &["cannot be shared evenly"]);
    refused("ping --rate 5 --verify", &["E11"]);
    Home::new().run("rpc 127.0.0.1:70000 ping").ends_with(2).says(&["port 70000", "4464"]);
    Home::new().run("rpc ftp://x ping").ends_with(2).says(&["redis://HOST"]);
    Home::new().run("rpc redis://x FLUSHALL").ends_with(2).says(&["PING, SET, GET or DEL"]);
    Home::new().run("rpc --help").ends_with(0).shows(&["Examples", "-key BASE [+] [PADLEN]", "redis://", "--lab-log"]);
}

#[test]
fn connections_take_turns_and_no_id_comes_twice() {
    let (port, requests) = server(lab());
    let line = "-k 60 write -key k00 + -value v 64 --then -k 60 read -key k00 + --verify -P 4 -T 2 --no-save";
    rpc(port, line).ends_with(0).shows(&["every byte of 60 of 120"]);
    let seen: Vec<Asked> = requests.try_iter().collect();
    let ids: BTreeSet<u32> = seen.iter().map(|asked| asked.header.rpcid).collect();
    assert_eq!((seen.len(), ids.len()), (120, 120));
    let mut keys: Vec<Vec<u8>> = seen
        .iter()
        .filter(|asked| asked.header.method.bytes() == b"write")
        .map(|asked| take_string(&mut asked.body()).unwrap().to_vec())
        .collect();
    keys.sort();
    keys.dedup();
    assert_eq!((keys.len(), keys[0].as_slice(), keys[59].as_slice()), (60, &b"k00"[..], &b"k59"[..]));
}

#[test]
fn a_thread_has_a_call_under_way_on_each_of_its_connections() {
    // The server replies once all four have asked: each has 25 calls of a round.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut streams: Vec<TcpStream> = listener.incoming().take(4).map_while(Result::ok).collect();
        let mut buffer = [0; 4096];
        loop {
            for stream in &mut streams {
                let mut asked = Vec::new();
                while !asked.ends_with(b"\r\n\r\n") {
                    match stream.read(&mut buffer) {
                        Ok(got) if got > 0 => asked.extend_from_slice(&buffer[..got]),
                        _ => return,
                    }
                }
            }
            for stream in &mut streams {
                // In two parts: the first is no reply.
                if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Le").is_err() {
                    return;
                }
                let _ = stream.write_all(b"ngth: 2\r\n\r\nok");
            }
        }
    });
    let home = Home::new();
    let run =
        home.run(&format!("rpc http://127.0.0.1:{port}/ -k 400 -r 4 GET -P 4 -T 1 --timeout 30s --no-save --json"));
    let value = run.ends_with(0).json();
    let case = &value["cases"][0]["case"];
    assert!(case["connections"] == 4 && case["threads"] == 1, "{case}");
    assert_eq!(value["rpc"]["kinds"][0]["calls"], 400, "{}", value["rpc"]["kinds"][0]);
}

#[test]
fn calls_can_be_offered_at_a_rate() {
    let (port, _requests) = server(lab());
    let output = rpc(port, "-k 200 ping --rate 1k -P 2 --no-save --json").ends_with(0);
    let case = output.json()["cases"][0].clone();
    assert_eq!(case["delivery"]["received"], 200, "{case}");
    assert!(case["open"]["offered_per_s"].as_f64().is_some_and(|rate| rate > 500.0), "{}", case["open"]);
    // The server leaves in the middle: what was answered stays.
    let mut served = lab();
    let (port, _requests) = server(move |at, asked| if at < 20 { served(at, asked) } else { Do::Last(Vec::new()) });
    let output = rpc(port, "-k 200 ping --rate 1k --no-save").ends_with(4);
    output.says(&["E35", "after 20 of 200 calls"]).shows(&["ping: 20 calls answered"]);
}

/// That a server which stood still for 1 of 4 s at 200 a second is seen: what was due then waited up to 1 s, so a tenth of
/// all messages waited longer than 0.6 s; it was worked off, and is no overload.
#[track_caller]
fn stall_is_seen(output: &Output) {
    let case = output.json()["cases"][0].clone();
    let p90 = case["quantiles"][1].clone();
    assert!(p90["p"] == 0.9 && p90["ns"].as_u64().is_some_and(|ns| ns > 400_000_000), "{p90}");
    assert_ne!(case["open"]["sustained"], false, "{}", case["open"]);
    assert!(case["delivery"]["sent"] == 800 && case["delivery"]["lost"] == 0, "{case}");
    assert!(output.json()["warnings"].as_array().unwrap().iter().all(|one| one["code"] != "W54"), "no law is broken");
}

#[test]
fn server_that_stands_still_delays_every_call_that_was_due() {
    let mut served = lab();
    let (port, _requests) = server(move |at, asked| {
        if at % 800 == 300 {
            std::thread::sleep(Duration::from_secs(1));
        }
        served(at, asked)
    });
    for inflight in ["", "--inflight 1"] {
        stall_is_seen(&rpc(port, &format!("-k 800 ping --rate 200 {inflight} --no-save --json")).ends_with(0));
    }
}

#[test]
fn web_server_that_stands_still_delays_every_call_that_was_due() {
    let port = web();
    let output = Home::new()
        .run(&format!("rpc http://127.0.0.1:{port}/stall -k 800 write -key k -value vv --rate 200 --no-save --json"));
    stall_is_seen(&output.ends_with(0));
}

/// A server that takes so long for each request, whoever sends it.
fn slow(each: Duration, reply: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            while stream.read(&mut [0; 4096]).is_ok_and(|got| got > 0) {
                std::thread::sleep(each);
                let _ = stream.write_all(reply.as_bytes());
            }
        }
    });
    port
}

/// However slow the machine is, the server answers no faster than it does: what ran on past its time would make all calls.
#[test]
fn a_run_ends_at_its_time_where_the_server_cannot_follow() {
    const HI: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    let late = Duration::from_millis(20);
    let own = || {
        let mut served = lab();
        server(move |at, asked| {
            std::thread::sleep(late);
            served(at, asked)
        })
    };
    let (web, redis) = (slow(late, HI), slow(late, "+PONG\r\n"));
    let ((one, _first), (several, _second)) = (own(), own());
    for line in [
        format!("http://127.0.0.1:{web}/ GET --inflight 1"),
        format!("redis://127.0.0.1:{redis} ping --inflight 1"),
        format!("127.0.0.1:{one} ping --inflight 1"),
        format!("127.0.0.1:{several} ping --inflight 8"),
    ] {
        let output = rpc_of(&format!("{line} --rate 1k --duration 1s"));
        let case = &output["cases"][0];
        let [sent, received] = ["sent", "received"].map(|name| case["delivery"][name].as_u64().unwrap());
        assert!(sent > 0 && sent < 200 && received == sent, "{line}: {case}");
        // What was due and not sent is no call, and in no time; nor has a rate that was not sustained one.
        let open = &case["open"];
        assert!(open["sustained"] == false && open["offered_per_s"].as_f64() > Some(900.0), "{line}: {open}");
        assert!(case["quantiles"][0]["ns"].is_null(), "{line}: {case}");
    }
    // A closed loop: 20 rounds of 50 ms, each of which one call outlasts.
    let (web, redis) = (slow(10 * late, HI), slow(10 * late, "+PONG\r\n"));
    for line in [format!("http://127.0.0.1:{web}/ GET"), format!("redis://127.0.0.1:{redis} ping")] {
        let output = rpc_of(&format!("{line} --duration 1s"));
        let delivery = &output["cases"][0]["delivery"];
        assert!(delivery["sent"].as_u64().is_some_and(|sent| (1..=6).contains(&sent)), "{line}: {delivery}");
    }
}

/// The JSON of calls that are not kept.
fn rpc_of(line: &str) -> Value {
    Home::new().run(&format!("rpc {line} --no-save --json")).ends_with(0).json()
}

#[test]
fn an_interruption_keeps_what_was_measured() {
    let mut served = lab();
    let (port, requests) = server(move |at, asked| {
        std::thread::sleep(Duration::from_millis(2));
        served(at, asked)
    });
    let home = Home::new();
    let running = home.start(&format!("rpc 127.0.0.1:{port} -k 100000 ping"));
    for _ in 0..20 {
        requests.recv_timeout(Duration::from_secs(30)).expect("calls");
    }
    running.signal("INT");
    let output = running.finish(LIMIT).ends_with(130).says(&["E15"]);
    output.shows(&["ping: ", " calls answered"]);
    assert_eq!(home.run("show @last --json").ends_with(0).json()["status"], "partial");
}

/// The sockets of a process, by their numbers.
fn sockets(pid: u32) -> BTreeSet<String> {
    let all = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let names = all.filter_map(|entry| std::fs::read_link(entry.path()).ok()?.into_os_string().into_string().ok());
    names.filter(|name| name.starts_with("socket:")).collect()
}

/// A run of many rounds over four connections, in the middle of its third round or later.
fn in_flight(home: &Home, group: bool) -> (Running, Receiver<Asked>) {
    let mut served = lab();
    let (port, requests) = server(move |at, asked| {
        std::thread::sleep(Duration::from_millis(1));
        served(at, asked)
    });
    let words = ["rpc", &format!("127.0.0.1:{port}"), "-P", "4", "-r", "1000", "-k", "100000", "ping"];
    let mut command = home.command(&words);
    if group {
        command.process_group(0);
    }
    let running = Running::new(command);
    for _ in 0..250 {
        requests.recv_timeout(Duration::from_secs(30)).expect("calls");
    }
    (running, requests)
}

#[test]
fn the_coordinator_makes_no_call() {
    let home = Home::new();
    let (running, _requests) = in_flight(&home, false);
    let [agent] = running.children()[..] else { panic!("one agent: {:?}", running.children()) };
    assert_eq!(sockets(running.id()), BTreeSet::new(), "the coordinator has no connection");
    assert_eq!(sockets(agent).len(), 4, "the agent has all");
    let threads = || std::fs::read_dir(format!("/proc/{agent}/task")).map_or(0, Iterator::count);
    assert!(threads() > 4, "and a thread for each");
    // Nobody calls for a coordinator that was killed.
    running.signal("KILL");
    assert!(within(Duration::from_secs(60), || sockets(agent).is_empty()), "its agent calls on");
}

#[test]
fn an_agent_that_was_killed_is_named_and_its_rounds_are_kept() {
    let home = Home::new();
    let (running, _requests) = in_flight(&home, false);
    let [agent] = running.children()[..] else { panic!("one agent: {:?}", running.children()) };
    running.send_to("KILL", agent);
    let output = running.finish(LIMIT).ends_with(4);
    output.says(&["error[E17]: the near end vanished", "msgpath show"]).shows(&["ping: ", " calls answered"]);
    let json = home.run("show @last --json").ends_with(0).json();
    assert_eq!(json["status"], "failed");
    assert!(json["cases"][0]["delivery"]["received"].as_u64().is_some_and(|calls| calls >= 200), "{json}");
}

#[test]
fn an_interruption_of_the_whole_group_is_that_of_the_run() {
    let home = Home::new();
    let (running, _requests) = in_flight(&home, true);
    running.signal_group("INT");
    let output = running.finish(LIMIT);
    assert!(output.code == Some(130) && !output.err.contains("E17"), "{output:?}");
    assert_eq!(home.run("show @last --json").ends_with(0).json()["status"], "partial");
}

#[test]
fn a_pause_follows_each_row() {
    let (port, _requests) = server(lab());
    let begun = std::time::Instant::now();
    rpc(port, "-rep 3 -k 2 -waitms 150 ping --no-save -qq").ends_with(0);
    assert!(begun.elapsed() >= Duration::from_millis(300));
}

/// Killed when dropped.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server; `None`: it is not installed, or it does not listen.
fn daemon(mut command: Command, port: u16) -> Option<Daemon> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    let daemon = Daemon(child);
    let listens = within(Duration::from_secs(60), || TcpStream::connect(("127.0.0.1", port)).is_ok());
    listens.then_some(daemon)
}

fn redis(home: &Home, port: u16, options: &[&str]) -> Option<Daemon> {
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"]);
    command.arg("--dir").arg(home.temporary()).args(options);
    daemon(command, port)
}

/// A server that gives these replies, in turn, to requests of Redis.
fn scripted(replies: &'static [&'static str]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut replies = replies.iter().cycle();
            while stream.read(&mut [0; 4096]).is_ok_and(|got| got > 0) {
                let _ = stream.write_all(replies.next().unwrap().as_bytes());
            }
        }
    });
    port
}

#[test]
fn errors_of_redis_are_failures_and_in_no_latency() {
    let port = scripted(&["+PONG\r\n", "-LOADING Redis is loading the dataset in memory\r\n", "$-1\r\n", "+PONG\r\n"]);
    let home = Home::new();
    let output = home.run(&format!("rpc redis://127.0.0.1:{port} -k 400 ping")).ends_with(1).says(&["E16"]);
    output.shows(&[
        "100 calls failed: LOADING Redis is loading",
        "they are in no other time here",
        "W71",
        "25 % of 400 calls",
    ]);
    let json = home.run("show @last --json").ends_with(0).json();
    let kind = &json["rpc"]["kinds"][0];
    assert_eq!((&kind["failed"], &kind["failed_took"]["calls"]), (&100.into(), &100.into()));
    let logged: u64 = kind["calls_by_log2_us"].as_array().unwrap().iter().map(|calls| calls.as_u64().unwrap()).sum();
    assert_eq!(logged, 300);
    home.run("verify @last").ends_with(0);
    home.run(&format!("rpc redis://127.0.0.1:{port} -k 400 ping --strict --no-save")).ends_with(5);
    // A command of which nothing succeeded was not measured.
    let port = scripted(&["-MOVED 3999 127.0.0.1:6381\r\n", "-MOVED 4000 127.0.0.1:6381\r\n"]);
    let output = Home::new().run(&format!("rpc redis://127.0.0.1:{port} -k 50 GET -key k + --no-save")).ends_with(4);
    output.says(&["none of 50 calls succeeded", "MOVED to 127.0.0.1:6381", "call that node"]);
}

#[test]
fn failures_are_in_no_latency_whatever_is_spoken() {
    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    const FULL: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    let web = scripted(&[OK, FULL, OK, OK]);
    // Every fourth one is a call of the lab that fails.
    let mut served = lab();
    let (lab, _requests) = server(move |at, asked| match at % 4 {
        0 => Do::Reply(message(&answer(asked, 1), &[], &[])),
        _ => served(at, asked),
    });
    for (target, text) in [
        (format!("http://127.0.0.1:{web}/ -k 400 GET"), Some("100 calls failed: 503 Service Unavailable")),
        (format!("http://127.0.0.1:{web}/ -k 400 GET --rate 500"), Some("100 calls failed: 503 Service Unavailable")),
        // The lab has a status and no text.
        (format!("127.0.0.1:{lab} -k 400 ping"), None),
    ] {
        let home = Home::new();
        let output = home.run(&format!("rpc {target}")).ends_with(1).says(&["E16", "100 of 400 calls failed"]);
        let output = output.shows(&["the calls that failed took", "they are in no other time here", "W71"]);
        output.shows(text.as_slice());
        let json = home.run("show @last --json").ends_with(0).json();
        let kind = &json["rpc"]["kinds"][0];
        assert_eq!((&kind["failed"], &kind["failed_took"]["calls"]), (&100.into(), &100.into()), "{target}");
        // Those of the headline are the replies.
        let timed: u64 = kind["calls_by_log2_us"].as_array().unwrap().iter().map(|calls| calls.as_u64().unwrap()).sum();
        assert_eq!(timed, 300, "{target}");
        home.run("verify @last").ends_with(0);
        home.run(&format!("rpc {target} --max-loss 25% --no-save")).ends_with(0);
    }
}

#[test]
fn redis_with_a_password_a_user_and_a_database() {
    let (home, port) = (Home::new(), free_port());
    let users = ["--requirepass", "s3cret", "--user", "anna", "on", ">w0rd:1", "~*", "+@all"];
    let Some(_redis) = redis(&home, port, &users) else { return eprintln!("skipped: no redis-server") };
    let none = home.run(&format!("rpc redis://127.0.0.1:{port} -k 20 ping --no-save")).ends_with(4);
    let none = none.says(&["NOAUTH", "--password-file"]);
    let file = home.temporary().join("password");
    std::fs::write(&file, "s3cret\n").unwrap();
    let file = file.display();
    let line = format!("-k 50 SET -key k -value v --password-file {file}");
    home.run(&format!("rpc redis://127.0.0.1:{port}/2 {line}"))
        .ends_with(0)
        .shows(&["SET: 50 calls answered, 0 failed"]);
    assert_eq!(recorded(&home)["target"], format!("redis://127.0.0.1:{port}/2"));
    // The key is in database 2 and not in 0.
    let get = |database: u8| {
        home.run(&format!("rpc redis://127.0.0.1:{port}/{database} GET -key k --password-file {file} --no-save"))
            .ends_with(0)
            .out
            .contains("no value under the key")
    };
    assert_eq!((get(2), get(0)), (false, true));
    // Typed, and from the environment; the record has neither.
    let typed = home.run(&format!("rpc redis://anna:w0rd%3a1@127.0.0.1:{port} -k 50 ping")).ends_with(0);
    let typed = typed.says(&["--password-file hides it"]);
    let mut command = home.command(&["rpc", &format!("redis://127.0.0.1:{port}"), "-k", "50", "ping"]);
    command.env("REDISCLI_AUTH", "s3cret");
    Running::new(command).finish(LIMIT).ends_with(0);
    let wrong = home.run(&format!("rpc redis://anna:n0t@127.0.0.1:{port} ping")).ends_with(3);
    let wrong = wrong.says(&["E65", "did not take AUTH", "WRONGPASS"]);
    for secret in ["s3cret", "w0rd", "n0t"] {
        let kept = Command::new("grep").args(["-rlF", secret, "--exclude=password"]).arg(home.path()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&kept.stdout), "", "{secret}");
        assert!(![&typed, &wrong, &none].iter().any(|output| (output.out.clone() + &output.err).contains(secret)));
    }
    let odd = Home::new().run("rpc redis://anna:s3cret@h/x ping").ends_with(2);
    assert!(!odd.err.contains("s3cret"), "{}", odd.err);
}

/// What redis-cli prints of a command.
fn cli(port: u16, words: &str) -> String {
    let output = Command::new("redis-cli").args(["-p", &port.to_string()]).args(words.split(' ')).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A cluster of two nodes, each with half of the slots.
fn redis_cluster(home: &Home) -> Option<[(Daemon, u16); 2]> {
    let [ports, buses] = [(); 2].map(|()| [free_port(), free_port()]);
    let node = |at: usize| {
        let (file, bus) = (format!("nodes-{at}.conf"), buses[at].to_string());
        redis(home, ports[at], &["--cluster-enabled", "yes", "--cluster-config-file", &file, "--cluster-port", &bus])
    };
    let (a, b) = (node(0)?, node(1)?);
    Command::new("redis-cli").arg("--version").output().ok()?;
    for (port, epoch, slots) in [(ports[0], 1, "0 8191"), (ports[1], 2, "8192 16383")] {
        assert_eq!(cli(port, &format!("CLUSTER SET-CONFIG-EPOCH {epoch}")), "OK");
        assert_eq!(cli(port, &format!("CLUSTER ADDSLOTSRANGE {slots}")), "OK");
    }
    assert_eq!(cli(ports[0], &format!("CLUSTER MEET 127.0.0.1 {} {}", ports[1], buses[1])), "OK");
    let whole = |port: u16| {
        let listed = cli(port, "CLUSTER SLOTS");
        cli(port, "CLUSTER INFO").contains("cluster_state:ok")
            && ports.iter().all(|port| listed.contains(&port.to_string()))
    };
    assert!(within(LIMIT, || ports.into_iter().all(whole)), "the cluster does not become whole");
    Some([(a, ports[0]), (b, ports[1])])
}

#[test]
fn keys_of_a_redis_cluster_are_called_at_their_nodes() {
    let home = Home::new();
    let Some([(_a, first), (_b, second)]) = redis_cluster(&home) else { return eprintln!("skipped: no redis-server") };
    let line = "-k 100 SET -key k00 + -value v 9 --then -k 100 GET -key k00 +";
    // Without the option a key of the other node is a failure that names it.
    home.run(&format!("rpc redis://127.0.0.1:{first} {line} --no-save"))
        .ends_with(1)
        .shows(&[&format!("MOVED to 127.0.0.1:{second}")]);
    for more in ["--verify", "-P 2", "--rate 2k"] {
        let output = home.run(&format!("rpc redis://127.0.0.1:{first} {line} --cluster --no-save {more}")).ends_with(0);
        let nodes =
            format!("2 nodes, a connection to each for each of -P, made before the first call: 127.0.0.1:{first}");
        output.shows(&["SET: 100 calls answered, 0 failed", "GET: 100 calls answered, 0 failed", &nodes]);
    }
    // A slot on its way from one node to the other: keys that are not at the old one are asked for at the new one.
    let [one, other] = [first, second].map(|port| cli(port, "CLUSTER MYID"));
    assert_eq!(cli(first, &format!("CLUSTER SETSLOT 12182 IMPORTING {other}")), "OK");
    assert_eq!(cli(second, &format!("CLUSTER SETSLOT 12182 MIGRATING {one}")), "OK");
    home.run(&format!("rpc redis://127.0.0.1:{first} -k 20 GET -key foo --cluster --no-save"))
        .ends_with(0)
        .shows(&["20 calls answered: redirected by the cluster", "GET: 20 calls answered, 0 failed"]);
    let refused = |line: &str| home.run(&format!("rpc {line} --cluster")).ends_with(2);
    refused(&format!("redis://127.0.0.1:{first}/2 ping")).says(&["no databases"]);
    refused(&format!("redis://127.0.0.1:{first} ping --inflight 2")).says(&["one call of a connection"]);
    refused("127.0.0.1:1 ping").says(&["--cluster is for Redis"]);
}

/// A server of Redis that lists the slots of two nodes, and else gives this reply.
fn listed(listener: TcpListener, nodes: [u16; 2], reply: String) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, reply) = (stream.unwrap(), reply.clone());
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(got @ 1..) = stream.read(&mut bytes) {
                    let slots = |first: u16, last: u16, port: u16| {
                        format!("*3\r\n:{first}\r\n:{last}\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n")
                    };
                    let list = format!("*2\r\n{}{}", slots(0, 16382, nodes[0]), slots(16383, 16383, nodes[1]));
                    let asks = bytes[..got].windows(5).any(|word| word == b"SLOTS");
                    let _ = stream.write_all(if asks { list.as_bytes() } else { reply.as_bytes() });
                }
            });
        }
    });
}

#[test]
fn a_redirect_is_followed_once_and_only_to_a_node_that_was_listed() {
    let [a, b, stranger] = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [first, second, unlisted] = [&a, &b, &stranger].map(|listener| listener.local_addr().unwrap().port());
    listed(a, [first, second], format!("-MOVED 12182 127.0.0.1:{second}\r\n"));
    listed(b, [first, second], "$2\r\nhi\r\n".into());
    let run =
        |port: u16| Home::new().run(&format!("rpc redis://127.0.0.1:{port} -k 20 GET -key foo --cluster --no-save"));
    // The first call learns where the slot is.
    run(first).ends_with(0).shows(&["1 call answered: redirected by the cluster", "GET: 20 calls answered, 0 failed"]);
    // One hop: who is sent on again has failed. And nothing is opened that was not listed at the start.
    let [c, d] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [third, fourth] = [&c, &d].map(|listener| listener.local_addr().unwrap().port());
    listed(c, [third, fourth], format!("-ASK 12182 127.0.0.1:{fourth}\r\n"));
    listed(d, [third, fourth], format!("-ASK 12182 127.0.0.1:{third}\r\n"));
    run(third).ends_with(4).says(&[&format!("ASK to 127.0.0.1:{third}")]);
    let e = TcpListener::bind("127.0.0.1:0").unwrap();
    let fifth = e.local_addr().unwrap().port();
    listed(e, [fifth, second], format!("-MOVED 12182 127.0.0.1:{unlisted}\r\n"));
    run(fifth).ends_with(4).says(&[&format!("MOVED to 127.0.0.1:{unlisted}")]);
    stranger.set_nonblocking(true).unwrap();
    assert!(stranger.accept().is_err(), "an address that a reply named was opened");
}

#[test]
fn redis_is_called_with_the_same_workload() {
    let (home, port) = (Home::new(), free_port());
    let Some(_redis) = redis(&home, port, &[]) else { return eprintln!("skipped: no redis-server") };
    let line = "-k 100 SET -key k00 + -value v 5000 --then -k 100 GET -key k00 + --then ping --then GET -key nobody";
    let output = home.run(&format!("rpc redis://127.0.0.1:{port} {line} --verify")).ends_with(0);
    output
        .shows(&["SET: 100 calls answered, 0 failed", "every byte of 101 of 202", "GET: 1 call answered, 0 failed"])
        .shows(&["1 call answered: no value under the key"]);
    assert_eq!(recorded(&home)["parts"]["rpc"]["protocol"], "redis");
    home.run(&format!("rpc redis://127.0.0.1:{port} -k 200 ping -value vv 100 --rate 2k -P 2 --no-save")).ends_with(0);
    let value =
        home.run(&format!("rpc redis://127.0.0.1:{port} -k 50 write -key k -value v --no-save --json")).ends_with(0);
    assert_eq!(value.json()["cases"][0]["delivery"]["received"], 50);
}

#[test]
fn a_web_server_of_others_is_called() {
    let (home, port) = (Home::new(), free_port());
    let folder = home.temporary();
    std::fs::write(folder.join("file"), vec![b'x'; 10_000]).unwrap();
    let mut command = Command::new("python3");
    command.args(["-m", "http.server", &port.to_string(), "--bind", "127.0.0.1"]).current_dir(&folder);
    let Some(_web) = daemon(command, port) else { return eprintln!("skipped: no python3 with http.server") };
    let line = format!("rpc http://127.0.0.1:{port}/file -k 20 GET --then GET -key missing");
    let output = home.run(&line).ends_with(4).says(&["GET: the call did not succeed"]);
    output.shows(&["GET: 20 calls answered, 0 failed", "GET: 1 call answered, 1 failed"]);
    let header = recorded(&home);
    assert!(
        header["parts"]["rpc"]["server"].as_str().is_some_and(|server| server.contains("Python")),
        "{}",
        header["parts"]["rpc"]
    );
    assert!(
        header["plan"]["cases"][0]["reply_bytes"].as_u64().is_some_and(|bytes| bytes > 10_000),
        "{}",
        header["plan"]
    );
}

/// PUT and GET over connections that are kept; replies in chunks. It stands still for 1 s before its 300th request below
/// `/stall`.
fn web() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut store: HashMap<String, Vec<u8>> = HashMap::new();
        let mut stalls = 0;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.set_nodelay(true);
            let mut bytes: Vec<u8> = Vec::new();
            let mut part = [0; 4096];
            loop {
                let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
                    match stream.read(&mut part) {
                        Ok(got @ 1..) => bytes.extend(&part[..got]),
                        _ => break,
                    }
                    continue;
                };
                let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
                let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
                let length: usize = length.map_or(0, |length| length.parse().unwrap());
                while bytes.len() < end + 4 + length {
                    let got = stream.read(&mut part).unwrap();
                    bytes.extend(&part[..got]);
                }
                let mut words = head.split(' ');
                let (method, path) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
                let body = bytes[end + 4..end + 4 + length].to_vec();
                bytes.drain(..end + 4 + length);
                stalls += u32::from(path.starts_with("/stall"));
                if stalls == 300 {
                    std::thread::sleep(Duration::from_secs(1));
                }
                let reply = match method.as_str() {
                    "PUT" => {
                        store.insert(path, body);
                        b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n".to_vec()
                    }
                    _ => match store.get(&path) {
                        Some(value) => {
                            let mut out =
                                b"HTTP/1.1 200 OK\r\nServer: test\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
                            for chunk in value.chunks(700) {
                                out.extend(format!("{:x}\r\n", chunk.len()).bytes());
                                out.extend(chunk);
                                out.extend(b"\r\n");
                            }
                            out.extend(b"0\r\n\r\n");
                            out
                        }
                        None => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(),
                    },
                };
                if stream.write_all(&reply).is_err() {
                    break;
                }
            }
        }
    });
    port
}

/// A web server that gives this reply, and closes each connection without a word behind `most` of them. What it was asked.
fn closing(reply: &'static str, most: usize) -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (asked, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            for _ in 0..most {
                let mut bytes = Vec::new();
                while !bytes.ends_with(b"\r\n\r\n") {
                    let mut part = [0; 4096];
                    match stream.read(&mut part) {
                        Ok(got @ 1..) => bytes.extend(&part[..got]),
                        _ => break,
                    }
                }
                let _ = asked.send(String::from_utf8_lossy(&bytes).into_owned());
                let _ = stream.write_all(reply.as_bytes());
            }
        }
    });
    (port, requests)
}

#[test]
fn web_server_that_closes_after_some_replies_is_called_again() {
    let (port, requests) = closing("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 30);
    let line = format!("rpc http://127.0.0.1:{port}/ -k 100 GET --header Accept:text/html --no-save");
    let output = Home::new().run(&line).ends_with(0);
    output.shows(&["GET: 100 calls answered, 0 failed", "3 calls answered: made again over a new connection"]);
    assert!(
        requests
            .try_iter()
            .filter(|request| !request.is_empty())
            .all(|request| request.contains("\r\nAccept: text/html\r\n"))
    );
    // What may not be made twice ends the run.
    let (port, _requests) = closing("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 30);
    Home::new()
        .run(&format!("rpc http://127.0.0.1:{port}/ -k 100 POST --no-save"))
        .ends_with(4)
        .says(&["E35", "after 30 of"]);
    // One that says so.
    let (port, _requests) = closing("HTTP/1.1 200 OK\r\nConnection: close, TE\r\nContent-Length: 0\r\n\r\n", 1);
    let output = Home::new().run(&format!("rpc http://127.0.0.1:{port}/ -k 50 GET --no-save")).ends_with(0);
    output.shows(&["49 calls answered: over a new connection: the server closes behind a reply"]);
}

#[test]
fn web_server_that_closes_is_called_again_by_schedule() {
    let (port, _requests) = closing("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 30);
    let line = format!("rpc http://127.0.0.1:{port}/ -k 100 GET --rate 1k --no-save");
    let output = Home::new().run(&line).ends_with(0);
    output.shows(&["GET: 100 calls answered, 0 failed", "3 calls answered: made again over a new connection"]);
    let (port, _requests) = closing("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 1);
    let output = Home::new().run(&format!("rpc http://127.0.0.1:{port}/ -k 50 POST --rate 1k --no-save")).ends_with(0);
    output.shows(&["POST: 50 calls answered, 0 failed", "49 calls answered: over a new connection"]);
}

#[test]
fn bodies_come_from_a_file_and_connections_are_kept_or_not() {
    let (port, requests) = closing("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 1);
    let home = Home::new();
    // The server reads up to the empty line, with which this body ends.
    std::fs::write(home.path().join("body"), "a=1\r\n\r\n").unwrap();
    for schedule in ["", "--rate 1k"] {
        let line = format!("rpc http://127.0.0.1:{port}/ -k 20 POST --body body --no-keepalive --no-save {schedule}");
        let output = home.run(&line).ends_with(0).shows(&["POST: 20 calls answered, 0 failed"]);
        assert!(!output.out.contains("over a new connection"), "it was asked for");
    }
    let asked: Vec<String> = requests.try_iter().filter(|request| !request.is_empty()).collect();
    assert_eq!(asked.len(), 40, "each over a connection of its own");
    let post = "\r\nConnection: close\r\nContent-Length: 7\r\n\r\na=1\r\n\r\n";
    assert!(asked.iter().all(|request| request.starts_with("POST / ") && request.ends_with(post)), "{asked:?}");
    for (line, says) in [
        (format!("http://127.0.0.1:{port}/ GET --body body"), "no request of this run has a body"),
        (format!("http://127.0.0.1:{port}/ POST --body nowhere"), "cannot be read"),
        (format!("redis://127.0.0.1:{port} ping --no-keepalive"), "--no-keepalive is for HTTP"),
        #[cfg(not(feature = "postgres"))]
        ("postgres://anna@h/db SELECT".to_owned(), "this build has no PostgreSQL"),
        (format!("http://127.0.0.1:{port}/ GET --inflight 2"), "one call goes after the other"),
        (format!("redis://127.0.0.1:{port} ping --inflight 2 --verify"), "--verify"),
    ] {
        home.run(&format!("rpc {line}")).ends_with(2).says(&[says]);
    }
}

/// What is read of a stream of Redis' `PING`s until it ends: how many came with each read at most.
fn pings(most: std::sync::mpsc::Sender<usize>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut bytes) = (stream.unwrap(), [0; 1 << 16]);
            while let Ok(got @ 1..) = stream.read(&mut bytes) {
                let asked = bytes[..got].windows(4).filter(|word| word == b"PING").count();
                let _ = most.send(asked);
                let _ = stream.write_all("+PONG\r\n".repeat(asked).as_bytes());
            }
        }
    });
    port
}

#[test]
fn several_calls_are_kept_in_flight() {
    let (most, asked) = channel();
    let port = pings(most);
    let home = Home::new();
    let output = home.run(&format!("rpc redis://127.0.0.1:{port} -k 1000 ping --inflight 16")).ends_with(0);
    output.shows(&["PING: 1000 calls answered, 0 failed"]);
    let asked: Vec<usize> = asked.try_iter().collect();
    assert_eq!((asked.iter().max(), asked.iter().sum::<usize>()), (Some(&16), 1000), "{asked:?}");
    assert_eq!(recorded(&home)["plan"]["cases"][0]["inflight"], 16);
    home.run("verify @last").ends_with(0);
    // The lab's server answers in the order of the calls, each with its own stamps; errors stay those of their calls.
    let (port, _requests) = server(lab());
    rpc(port, "-k 200 write -key k000 + -value v 500 --inflight 8 -P 2 --no-save").ends_with(0);
    let port = scripted(&["+PONG\r\n-OOM no\r\n", "+PONG\r\n+PONG\r\n"]);
    let output = home.run(&format!("rpc redis://127.0.0.1:{port} -k 400 ping --inflight 2 --no-save")).ends_with(1);
    output.shows(&["100 calls failed: OOM no", "25 % of 400 calls"]);
}

#[test]
fn redirects_interim_replies_and_heads_are_named_as_what_they_are() {
    let (port, _requests) = closing(
        "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 301 Moved Permanently\r\nLocation: https://other/\r\nContent-Length: 0\r\n\r\n",
        1000,
    );
    let output = Home::new().run(&format!("rpc http://127.0.0.1:{port}/ -k 100 GET --no-save")).ends_with(0);
    output.shows(&["100 calls answered: 301 Moved Permanently to https://other/: measured as the reply"]);
    let (port, _requests) = closing("HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", 1000);
    Home::new().run(&format!("rpc http://127.0.0.1:{port}/ -k 100 HEAD --no-save")).ends_with(0);
}

#[test]
fn what_was_put_over_http_is_read_back_in_chunks() {
    let port = web();
    let line = "-k 30 PUT -key a/b0 + -value v 3000 --then -k 30 GET -key a/b0 + --then GET -key none";
    let output = Home::new().run(&format!("rpc http://127.0.0.1:{port}/kv {line} --verify --no-save")).ends_with(4);
    output.shows(&["PUT: 30 calls answered, 0 failed", "GET: 1 call answered, 1 failed", "every byte of 30 of 61"]);
}

/// A server at a Unix socket that gives these replies, in turn, to requests of one send each. What it was asked.
fn at_socket(path: &Path, replies: &'static [&'static str]) -> Receiver<String> {
    let listener = UnixListener::bind(path).unwrap();
    let (asked, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut bytes, mut replies) = (stream.unwrap(), [0; 4096], replies.iter().cycle());
            while let Ok(got @ 1..) = stream.read(&mut bytes) {
                let _ = asked.send(String::from_utf8_lossy(&bytes[..got]).into_owned());
                let _ = stream.write_all(replies.next().unwrap().as_bytes());
            }
        }
    });
    requests
}

#[test]
fn servers_at_unix_sockets_are_called() {
    let home = Home::new();
    let socket = home.temporary().join("web.sock");
    let at = socket.display();
    let requests = at_socket(&socket, &["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"]);
    let output = home.run(&format!("rpc http+unix://{at}:/info -k 200 GET")).ends_with(0);
    output.shows(&["GET: 200 calls answered, 0 failed", "is a Unix socket of this machine: no network was measured"]);
    assert!(requests.recv().unwrap().starts_with("GET /info HTTP/1.1\r\nHost: localhost\r\n"));
    let header = recorded(&home);
    assert_eq!(header["target"], format!("http+unix://{at}:/info"));
    assert_eq!(header["plan"]["cases"][0]["path"], "unix:send");
    let encoded = at.to_string().replace('/', "%2F");
    home.run(&format!("rpc http+unix://{encoded}/info -k 50 GET --rate 1k --no-save")).ends_with(0);
    let socket = home.temporary().join("redis.sock");
    let requests = at_socket(&socket, &["+OK\r\n", "+PONG\r\n", "+PONG\r\n"]);
    home.run(&format!("rpc redis+unix://{}?db=2 -k 2 ping --no-save", socket.display())).ends_with(0);
    assert_eq!(requests.recv().unwrap(), "*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n");
    let nowhere = home.run(&format!("rpc redis+unix://{at}.none ping --no-save")).ends_with(3);
    nowhere.says(&["E01", "there is no such socket"]);
    home.run(&format!("rpc redis+unix://{at} -p 7 ping")).ends_with(2).says(&["has no port"]);
}
