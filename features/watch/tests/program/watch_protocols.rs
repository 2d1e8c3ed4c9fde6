//! `msgpath watch` on TLS and HTTP/2: what is a request, what is none, and what is not said of what nobody can tell.

use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::printed::Value;

use crate::command::{Home, free_port, listening, within};
use crate::watch::{
    PLANTED, Program, all_are_there, connect, counts, named, sentence, server, skip_without_bpf, watch_what,
};

/// A record of TLS (RFC 8446, section 5.1): type, version, length, and so many bytes, of which the first is the type of a message.
fn record(kind: u8, version: u8, length: usize, message: u8) -> Vec<u8> {
    let mut all = vec![kind, 3, version];
    all.extend((length as u16).to_be_bytes());
    all.push(message);
    all.resize(5 + length, 0xee);
    all
}

const CHANGE: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

fn data(length: usize) -> Vec<u8> {
    record(DATA, 3, length, 0xaa)
}

/// What the client sends (`true`) and the server sends, one after the other; each is read before the next is sent, but for what the same
/// end sends again.
type Script = Vec<(bool, Vec<u8>)>;

/// So many requests and their replies, and the client's end.
fn requests(count: usize, alert: Vec<u8>) -> Script {
    let turn = |n: usize| [(true, data(100 + n)), (false, data(400))];
    (0..count).flat_map(turn).chain([(true, alert)]).collect()
}

/// Version 1.3: the Finished message and the first request without a reply between them; or the tickets are there first.
fn newer(count: usize, at_once: bool) -> Script {
    let hello = [record(HANDSHAKE, 3, 122, 2), record(CHANGE, 3, 1, 1), data(900)].concat();
    let finished = [record(CHANGE, 3, 1, 1), data(53)].concat();
    let mut script = vec![(true, record(HANDSHAKE, 1, 300, 1)), (false, hello), (true, finished)];
    let mut rest = requests(count, data(19));
    if at_once {
        script.push(rest.remove(0));
    }
    script.extend([(false, data(250)), (false, data(250))]);
    script.extend(rest);
    script
}

/// Version 1.2.
fn older(count: usize) -> Script {
    let hello = [record(HANDSHAKE, 3, 80, 2), record(HANDSHAKE, 3, 900, 11), record(HANDSHAKE, 3, 4, 14)].concat();
    let finished = [record(HANDSHAKE, 3, 37, 16), record(CHANGE, 3, 1, 1), record(HANDSHAKE, 3, 40, 0x77)].concat();
    let answer = [record(CHANGE, 3, 1, 1), record(HANDSHAKE, 3, 40, 0x77)].concat();
    let handshake = [(true, record(HANDSHAKE, 1, 200, 1)), (false, hello), (true, finished), (false, answer)];
    handshake.into_iter().chain(requests(count, record(ALERT, 3, 26, 0x77))).collect()
}

/// One end of it.
fn speaks(stream: &mut TcpStream, client: bool, script: &Script) {
    for (by_client, bytes) in script {
        if *by_client == client {
            stream.write_all(bytes).expect("the other end reads");
        } else {
            stream.read_exact(&mut vec![0; bytes.len()]).expect("the other end sends");
        }
    }
}

/// Connections after each other, of which each says what it is to say.
fn talk(listener: &TcpListener, scripts: Vec<Script>) {
    let (port, ours) =
        (listener.local_addr().expect("it is bound").port(), listener.try_clone().expect("a descriptor"));
    let theirs = scripts.clone();
    let serves = named("planted", move || {
        for script in &theirs {
            let mut stream = ours.accept().expect("a client").0;
            stream.set_nodelay(true).expect("an option of TCP");
            speaks(&mut stream, false, script);
            assert_eq!(stream.read(&mut [0]).expect("it closes"), 0);
        }
    });
    let asks = named("asker", move || scripts.iter().for_each(|script| speaks(&mut connect(port), true, script)));
    asks.join().expect("the client");
    serves.join().expect("the server");
}

#[test]
fn tls_is_said_and_its_handshakes_are_no_requests() {
    skip_without_bpf!();
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    // One that was there before: its first bytes are data.
    let (mut before, mut served) = (connect(port), listener.accept().expect("a client").0);
    let hello = older(0);
    let shaken = hello.len() - 1;
    let first = hello[..shaken].to_vec();
    let theirs = first.clone();
    let shakes = named("shakes", move || {
        speaks(&mut served, false, &theirs);
        served
    });
    speaks(&mut before, true, &first);
    let mut served = shakes.join().expect("the server");
    let ((), result) = watch_what(&format!("--port {port}"), move || {
        talk(&listener, [vec![newer(10, true), newer(10, false), older(10)], vec![newer(1, true); 20]].concat());
        let rest = requests(10, record(ALERT, 3, 26, 0x77));
        let theirs = rest.clone();
        let serves = named("planted", move || {
            speaks(&mut served, false, &theirs);
            assert_eq!(served.read(&mut [0]).expect("it closes"), 0);
        });
        speaks(&mut before, true, &rest);
        drop(before);
        serves.join().expect("the server");
    });
    let server = server(&result);
    all_are_there(server, 60);
    // Two flights and an end each; of the one that was there before, an end alone.
    assert_eq!(counts(server, ["tls", "handshakes", "in_flight"]), [24, 3 * 23 + 1, 0]);
}

/// Bytes like those of TLS are messages where somebody says how they are told apart.
#[test]
fn a_framing_that_is_typed_is_not_taken_for_tls() {
    skip_without_bpf!();
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let ((), result) =
        watch_what(&format!("--port {port} --framing 3:u16be"), || talk(&listener, vec![newer(10, false)]));
    let [tls, handshakes, whole, torn] = counts(server(&result), ["tls", "handshakes", "requests", "torn"]);
    assert!((tls, handshakes) == (0, 0) && whole + torn > 10, "{result:#}");
}

const OPENSSL: &str = "
import socket, ssl, sys, threading
port, count = int(sys.argv[1]), int(sys.argv[4])
serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); serving.load_cert_chain(sys.argv[2], sys.argv[3])
listener = socket.create_server(('127.0.0.1', port))
asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT); asking.check_hostname = False; asking.verify_mode = ssl.CERT_NONE
def serve():
    for _ in range(2 * count):
        peer = serving.wrap_socket(listener.accept()[0], server_side=True)
        while what := peer.recv(1000): peer.sendall(what * 3)
        peer.close()
thread = threading.Thread(target=serve); thread.start()
print('ready', flush=True); sys.stdin.readline()
for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
    asking.minimum_version = asking.maximum_version = version
    for _ in range(count):
        stream = asking.wrap_socket(socket.create_connection(('127.0.0.1', port)))
        for n in range(5):
            stream.sendall(b'x' * (50 + n)); left = 3 * (50 + n)
            while left: left -= len(stream.recv(left))
        try: stream.unwrap()
        except (OSError, ssl.SSLError): pass
        stream.close()
thread.join()
";

/// Both ends by OpenSSL, versions 1.2 and 1.3.
#[test]
fn handshakes_of_openssl_are_no_requests() {
    skip_without_bpf!();
    let (home, port) = (Home::new(), free_port());
    let [key, certificate] = ["key", "certificate"].map(|name| home.path().join(name).display().to_string());
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9"])
        .args(["-subj", "/CN=watched", "-keyout", &key, "-out", &certificate])
        .stderr(Stdio::null())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        return println!("skipped: no openssl that makes a certificate");
    }
    if !Command::new("python3").args(["-c", "import ssl"]).status().is_ok_and(|status| status.success()) {
        return println!("skipped: no python3 with its module ssl");
    }
    let mut command = Command::new("python3");
    command.args(["-c", OPENSSL, &port.to_string(), &certificate, &key, "20"]);
    let mut both = Program(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it was there"));
    both.0.stdout.as_mut().expect("a pipe").read_exact(&mut [0; 6]).expect("it is ready");
    let ((), result) = watch_what(&format!("--port {port}"), || {
        both.0.stdin.as_mut().expect("a pipe").write_all(b"go\n").expect("it reads");
        assert!(within(Duration::from_secs(60), || both.0.try_wait().expect("ours").is_some()), "it does not end");
    });
    let server = server(&result);
    let [whole, torn, incomplete] = counts(server, ["requests", "torn", "incomplete"]);
    let [tls, handshakes, in_flight] = counts(server, ["tls", "handshakes", "in_flight"]);
    // Two flights each; who ends first, and how, is up to them. What one end reads together with the other's flight is one turn with it.
    assert!((190..=200).contains(&(whole + torn)) && incomplete == 0, "{server:#}");
    assert!(tls == 40 && (80..=130).contains(&handshakes) && in_flight == 0, "{server:#}");
}

/// A frame of HTTP/2 (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

const GET: u8 = 0x82;
const POST: u8 = 0x83;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Header block and body of a request.
fn asks(stream: u32, method: u8) -> Vec<u8> {
    [frame(1, 4, stream, &[method, 0x84, 0x86]), frame(0, 1, stream, &[7; 50])].concat()
}

fn answers(stream: u32, size: usize) -> Vec<u8> {
    [frame(1, 4, stream, &[0x88]), frame(0, 0, stream, &vec![7; size]), frame(0, 1, stream, b"")].concat()
}

/// A large reply by one call, as servers send it: what stands in front of each frame, and its data, in buffers of their own.
fn sends_large(to: &mut TcpStream, stream: u32) -> usize {
    let data = frame(0, 0, stream, &[7; 16_384]);
    let (head, end) = (frame(1, 4, stream, &[0x88]), frame(0, 1, stream, b""));
    let buffers = [&head[..], &data[..9], &data[9..], &data[..9], &data[9..], &end].map(IoSlice::new);
    to.write_vectored(&buffers).expect("the client reads")
}

fn reads(stream: &mut TcpStream, bytes: usize) {
    stream.read_exact(&mut vec![0; bytes]).expect("the other end sends");
}

const ROUNDS: u32 = 20;
const LARGE: usize = 10 + 2 * (9 + 16_384) + 9;

/// Three streams in flight; the first is answered last, and late.
#[test]
fn streams_of_http2_are_told_apart() {
    skip_without_bpf!();
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let request = asks(1, GET).len();
    let ((), result) = watch_what(&format!("--port {port}"), move || {
        let serves = named("planted", move || {
            let mut stream = listener.accept().expect("a client").0;
            stream.set_nodelay(true).expect("an option of TCP");
            reads(&mut stream, PREFACE.len() + 9);
            stream.write_all(&[frame(4, 0, 0, b""), frame(4, 1, 0, b"")].concat()).expect("the client reads");
            for round in 0..ROUNDS {
                let first = 1 + 6 * round;
                reads(&mut stream, 3 * request);
                assert_eq!(sends_large(&mut stream, first + 4), LARGE);
                stream.write_all(&answers(first + 2, 20)).expect("the client reads");
                std::thread::sleep(PLANTED);
                stream.write_all(&answers(first, 20)).expect("the client reads");
            }
            assert_eq!(stream.read(&mut [0]).expect("it closes"), 0);
        });
        let asker = named("asker", move || {
            let mut stream = connect(port);
            stream.write_all(&[PREFACE, &frame(4, 0, 0, b"")].concat()).expect("the server reads");
            reads(&mut stream, 18);
            for round in 0..ROUNDS {
                let first = 1 + 6 * round;
                for (number, method) in [(first, POST), (first + 2, GET), (first + 4, GET)] {
                    stream.write_all(&asks(number, method)).expect("the server reads");
                }
                reads(&mut stream, LARGE + 2 * answers(1, 20).len());
            }
        });
        asker.join().expect("the client");
        serves.join().expect("the server");
    });
    let server = server(&result);
    let requests = u64::from(3 * ROUNDS);
    all_are_there(server, requests);
    assert_eq!(counts(server, ["framed", "in_flight", "unasked", "tls"]), [requests, 0, 0, 0]);
    let asked = |what: &str| {
        let kinds = server["by_request"].as_array().expect("a list");
        kinds.iter().find(|kind| kind["what"] == what).unwrap_or_else(|| panic!("no {what}: {kinds:#?}"))
    };
    let p50 = |what: &str| asked(what)["p50_ns"].as_f64().expect("a time");
    assert_eq!([&asked("GET")["requests"], &asked("POST")["requests"]], [&Value::from(40), &Value::from(20)]);
    assert!(p50("POST") >= PLANTED.as_nanos() as f64 && p50("GET") < p50("POST"), "{server:#}");
}

/// A connection that was there before, and on which something is always in flight: no number is made of the few turns that are none.
#[test]
fn no_number_is_said_of_what_is_not_told_apart() {
    skip_without_bpf!();
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let (mut client, mut served) = (connect(port), listener.accept().expect("a client").0);
    served.set_nodelay(true).expect("an option of TCP");
    client.write_all(PREFACE).expect("it has room");
    reads(&mut served, PREFACE.len());
    let (request, reply) = (asks(1, GET).len(), answers(1, 20).len());
    let ((), result) = watch_what(&format!("--port {port}"), move || {
        client.write_all(&asks(1, GET)).expect("it has room");
        for n in 1..200 {
            client.write_all(&asks(1 + 2 * n, GET)).expect("it has room");
            reads(&mut served, request);
            served.write_all(&answers(2 * n - 1, 20)).expect("it has room");
            reads(&mut client, reply);
        }
    });
    let server = server(&result);
    let [requests, in_flight] = counts(server, ["requests", "in_flight"]);
    assert!(in_flight > 20 * requests, "{server:#}");
    for number in ["per_second", "p50_ns", "p90_ns", "p99_ns", "p999_ns"] {
        assert!(server[number].is_null(), "{number}: {}", server[number]);
    }
    assert_eq!(sentence(server, "X14")["confidence"], "can't tell");
}
